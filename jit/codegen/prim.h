// Scalar primitives as LLVM IR on scalars (lanes = 1) or vectors of any number of lanes.
//
// Contract: the semantics of hlo/scalar/primitives.def exactly, without poison, undefined behaviour,
// fast-math flags or calls into a library. Register types: bool is i1, f16 and bf16 are i16. Memory types:
// bool is i8.
#ifndef LAMINA_JIT_CODEGEN_PRIM_H_
#define LAMINA_JIT_CODEGEN_PRIM_H_

#include <llvm/IR/IRBuilder.h>

#include <functional>

#include "hlo/dtype.h"
#include "hlo/scalar/program.h"

namespace lamina::jit::codegen {

using hlo::DType;
using hlo::Prim;

struct TypedValue {
  llvm::Value* value = nullptr;
  DType type = DType::kF32;
};

// Of memory of the device, and of memory that the threads of a block share.
inline constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

// What a target does in one instruction that takes several elsewhere; the bits are the same but for those of
// NaNs, which are left open.
struct NativeForms {
  // f32 to two of f16 or bf16 (what AVX512-BF16 has for it flushes subnormals). For one number a GPU takes
  // four times as long as for two.
  bool rounds_pairs = false;
  bool nan_limits = false;   // the smaller and the greater of two floats, NaN where either is
  unsigned x86_bits = 0;     // 512: AVX-512 with its BW, DQ and VL; 256: AVX2
  unsigned table_space = 0;  // where the tables of lookups lie
};

class PrimEmitter {
 public:
  explicit PrimEmitter(llvm::IRBuilder<>& builder, NativeForms native = {}) : b_(builder), native_(native) {}

  llvm::Type* type(DType t, unsigned lanes) const;
  llvm::Type* memory_type(DType t, unsigned lanes) const;
  llvm::Value* to_memory(llvm::Value* value, DType t, unsigned lanes);
  llvm::Value* from_memory(llvm::Value* value, DType t, unsigned lanes);

  llvm::Constant* constant(DType t, uint64_t bits, unsigned lanes) const;
  llvm::Constant* int_constant(unsigned width, uint64_t value, unsigned lanes) const;
  llvm::Value* emit(Prim prim, DType result, const TypedValue* operands, uint64_t imm, unsigned lanes);
  // The maximum or minimum of several values, two at least: fewer instructions than one after the other.
  llvm::Value* emit_extremes(Prim prim, DType t, llvm::ArrayRef<llvm::Value*> values, unsigned lanes);

 private:
  llvm::Type* int_type(unsigned width, unsigned lanes) const;
  llvm::Constant* nan(DType t, unsigned lanes) const;
  llvm::Value* emit_limit(llvm::Value* p, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_bounded(bool largest, DType t, llvm::Value* x, llvm::Value* same, unsigned lanes);
  llvm::Value* emit_extreme(bool largest, DType t, llvm::Value* a, llvm::Value* b, unsigned lanes);
  // f of parts of the operands, of `at_once` lanes each.
  using OfPart = std::function<llvm::Value*(llvm::ArrayRef<llvm::Value*> parts)>;
  llvm::Value* by_parts(llvm::ArrayRef<llvm::Value*> operands, unsigned at_once, const OfPart& f);
  bool has_avx512(DType t, unsigned lanes) const;
  llvm::Value* emit_range(bool largest, DType t, llvm::Value* a, llvm::Value* b, unsigned lanes);
  llvm::Value* emit_scale(DType t, llvm::Value* size, llvm::Value* counted, unsigned lanes);
  llvm::Value* emit_either_nan(llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_unusual(Prim prim, llvm::Value* masked, llvm::Value* zero, unsigned lanes);
  llvm::Value* emit_arithmetic(Prim prim, DType t, llvm::Value* a, llvm::Value* b, unsigned lanes);
  llvm::Value* emit_divide(bool remainder, DType t, llvm::Value* a, llvm::Value* b, unsigned lanes);
  llvm::Value* emit_shift(Prim prim, DType t, llvm::Value* a, llvm::Value* b, unsigned lanes);
  llvm::Value* emit_mul_high(DType t, llvm::Value* a, llvm::Value* b, unsigned lanes);
  llvm::Value* emit_compare(Prim prim, DType t, llvm::Value* a, llvm::Value* b);
  llvm::Value* emit_lookup(DType t, llvm::Value* place, uint64_t table, unsigned lanes);
  llvm::Value* permute(const float* numbers, llvm::Value* place, unsigned lanes);
  llvm::Value* permute(const double* numbers, llvm::Value* place, unsigned lanes);
  llvm::Value* emit_convert(llvm::Value* a, DType from, DType to, unsigned lanes);
  llvm::Value* float_to_int(llvm::Value* a, DType from, DType to, unsigned lanes);
  llvm::Value* int_to_float(llvm::Value* a, DType from, DType to, unsigned lanes);
  llvm::Value* half_to_f32(llvm::Value* a, DType from, unsigned lanes);
  llvm::Value* f32_to_half(llvm::Value* a, DType to, unsigned lanes);
  llvm::Value* f64_to_f32_odd(llvm::Value* a, unsigned lanes);

  llvm::IRBuilder<>& b_;
  NativeForms native_;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_PRIM_H_
