// Loop kernels: what a fused cluster becomes before it is machine code.
//
// A kernel is a loop nest over `parallel_rank` output dimensions (row-major, last one fastest) and, for
// reductions, `reduce_rank` further dimensions whose row-major index is the logical order of the reduced
// elements. It holds structure only: extents, strides, offsets and most numbers are run-time arguments, so
// one kernel serves every shape of the same structure. The interpreting tier and the LLVM emitter execute the
// same `LoopKernel` with the same bits.
//
// Elements: buffers hold part types (a complex array is an array of interleaved reals, strides counted in
// parts). bool is one byte, 0 or 1.
//
// Loops inside the element loop: a `Repeat` runs a section of code again and again for each element, its
// carried values in registers. Elements do not see each other, so all steps of one element (in practice: of
// one vector of elements) run before the next element starts.
//
// Arrays that change: a kernel of one element (no dimension but the steps of its repeats) may read the
// buffers that it writes, and write them anywhere. Its loads, stores and copies happen in the order of the
// code, the stores of a repeat at the end of the step. Such a buffer holds nothing when the kernel starts.
//
// Sorts: in a kernel with an order the elements of a row, which goes along the last parallel dimension,
// change places before they are stored. What is stored at an index are the values of the element that comes
// there; elements of which neither comes before the other stay in their order.
#ifndef LAMINA_JIT_KERNEL_KERNEL_H_
#define LAMINA_JIT_KERNEL_KERNEL_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/dtype.h"
#include "hlo/reduce_tree.h"
#include "hlo/scalar/program.h"

namespace lamina::jit {

using hlo::DType;

inline constexpr int kMaxLoopRank = 32;
// Strides up to this many elements, either way, are part of a kernel's structure.
inline constexpr int64_t kMostKnownStride = 8;

// As kernel texts name it.
inline absl::string_view type_name(DType t) { return {hlo::info(t).name.data(), hlo::info(t).name.size()}; }

// Affine element address: args[offset_slot] + beside + sum over terms of index(dim) * stride. Dimensions
// without a term have stride 0. Dimensions are numbered 0 ... parallel_rank-1, then the reduced ones, then
// one per repeat, whose index is the number of the step.
struct AccessTerm {
  uint8_t dim;
  int8_t unit;  // stride known when compiled, up to kMostKnownStride either way; 0: args[stride_slot]
  uint32_t stride_slot;
  bool operator==(const AccessTerm&) const = default;
};
struct Access {
  uint32_t buffer;
  int32_t offset_slot = -1;  // -1: offset 0
  std::vector<AccessTerm> terms;
  uint8_t beside = 0;  // of elements that alternate in memory, which one: less than kMostKnownStride
  bool operator==(const Access&) const = default;
};

enum class KernelOp : uint8_t {
  kPrim,  // prim, type, operands, imm: as in ScalarInstr
  kLoad,  // accesses[imm]; operands[0] is a bool predicate if `predicated`: where it is false nothing is read
          // and the value is 0
  kLoadAt,    // buffer imm at element operands[0] (s64, already in range); predicated by operands[1] likewise
  kStoreAt,   // kernels of one element only: operands[1] becomes element operands[0] (s64, in range) of the
              // written buffer imm, where the bool operands[2] holds if `predicated`; has no value, its type
              // is the buffer's
  kCopy,      // kernels of one element only: the first operands[0] (s64, not negative) elements of written
              // buffer imm >> 32 become those of buffer imm's low half, another one of the same type; has no
              // value, its type is s64
  kIndex,     // s64 index along dimension imm
  kArg,       // args[imm]: s64, or an f32 or f64 whose bits are the lowest ones there
  kReduced,   // epilogue only: result number imm of the reduction
  kRepeat,    // runs repeats[imm]; its own value is never read, its type is s64
  kRepeated,  // carried value imm after the last step of the kRepeat operands[0]
  kCarried,   // code of a repeat only: its carried value imm at the start of the step
  kOuter,     // code of a repeat only: value imm of the section that holds its kRepeat
};

inline constexpr uint64_t copy_of(uint32_t from, uint32_t to) { return uint64_t{to} << 32 | from; }
// Instructions that are there for what they do: a repeat, a store, a copy.
inline constexpr bool has_value(KernelOp op) {
  return op != KernelOp::kRepeat && op != KernelOp::kStoreAt && op != KernelOp::kCopy;
}

// Instruction i defines value i of its section; other sections' values are out of its reach (but kOuter).
struct KernelInstr {
  KernelOp op;
  hlo::Prim prim = hlo::Prim::constant;
  DType type;
  bool predicated = false;
  uint32_t operands[3] = {0, 0, 0};
  uint64_t imm = 0;
  bool operator==(const KernelInstr&) const = default;
};

struct Store {
  uint32_t access;  // into accesses; its buffer is written
  uint32_t value;
  bool operator==(const Store&) const = default;
};

// A loop per element. Counted: args[parallel_rank + reduce_rank + its number] steps. Otherwise: as long as
// the element's condition holds, tested before each step; an element that has stopped keeps its carried
// values while others go on (its code may still run, on those values). Each repeat is run by exactly one
// kRepeat.
struct Repeat {
  bool counted = true;
  std::vector<uint32_t> init;     // values of the holding section: the carried values at the start
  std::vector<KernelInstr> cond;  // not counted: a section that gives the condition
  uint32_t condition = 0;         // bool value of `cond`
  std::vector<KernelInstr> body;  // the section of one step
  std::vector<uint32_t> next;     // body values: the carried values after the step
  std::vector<Store> stores;      // of body values, in every step; only where all repeats around are counted
  bool operator==(const Repeat&) const = default;
};

// The reduction tree (numerics contract): element i of the reduced row-major index, i counted within chunks
// of kReduceChunk, goes to lane i mod L, L = kReduceLaneBytes / (widest part size); within a lane elements
// combine in index order, acc = combine(acc, element), the lane's first element starting it; lanes fold at
// halving stride, lane[j] = combine(lane[j], lane[j + s]) for s = L/2 ... 1 where lane j + s holds an
// element; chunk results are reduced as a new sequence of elements in the same way; init enters last: result
// = combine(tree, init). An empty reduction is init.
using hlo::kReduceChunk;
using hlo::kReduceLaneBytes;

struct Reduction {
  std::vector<uint32_t> inputs;  // body values, m of them
  hlo::ScalarProgram combine;    // 2m inputs (accumulators, then elements) -> m outputs
  std::vector<uint32_t> init;    // m accesses (no reduced dims), loaded once per output element; or none: the
                                 // result is the tree, of at least one element
  bool operator==(const Reduction&) const = default;
};

struct BufferDecl {
  DType type;  // part type
  bool written;
  bool operator==(const BufferDecl&) const = default;
};

struct LoopKernel {
  std::vector<BufferDecl> buffers;
  std::vector<Access> accesses;
  uint8_t parallel_rank = 0;
  uint8_t reduce_rank = 0;
  // args: extents of all dimensions first, then offsets, strides and the numbers that the code reads.
  uint32_t num_args = 0;
  std::vector<KernelInstr>
      body;  // per element of the full nest (per output element when there is no reduction)
  bool has_reduction = false;
  Reduction reduction;
  std::vector<KernelInstr> epilogue;  // per output element, after the reduction; empty without one
  std::vector<Store> stores;          // values of the epilogue if there is a reduction, else of the body
  std::vector<Repeat> repeats;        // loops inside the body
  // Of a kernel that sorts, which neither reduces nor repeats: the values of one element that `stores` store,
  // and those of another, -> whether the one comes before the other, a strict weak order.
  std::optional<hlo::ScalarProgram> before;
  bool operator==(const LoopKernel&) const = default;
};

// Instructions of the sections in which values are made per element: body, epilogue and the code of repeats.
template <class F>
void for_each_section(const LoopKernel& kernel, F&& f) {
  f(kernel.body);
  f(kernel.epilogue);
  for (const Repeat& r : kernel.repeats) {
    f(r.cond);
    f(r.body);
  }
}

// How many of its `operands` the instruction has.
inline int operand_count(const KernelInstr& instr) {
  switch (instr.op) {
    case KernelOp::kPrim:
      return hlo::prim_arity(instr.prim);
    case KernelOp::kLoad:
      return instr.predicated ? 1 : 0;
    case KernelOp::kLoadAt:
      return instr.predicated ? 2 : 1;
    case KernelOp::kStoreAt:
      return instr.predicated ? 3 : 2;
    case KernelOp::kCopy:
    case KernelOp::kRepeated:
      return 1;
    default:
      return 0;
  }
}

// Calls f(value) for each value of its own section that the instruction reads.
template <class F>
void for_each_operand(const LoopKernel& kernel, const KernelInstr& instr, F&& f) {
  const auto outer = [&](const std::vector<KernelInstr>& code) {
    for (const KernelInstr& i : code)
      if (i.op == KernelOp::kOuter) f(static_cast<uint32_t>(i.imm));
  };
  if (instr.op == KernelOp::kRepeat) {
    const Repeat& r = kernel.repeats[instr.imm];
    for (uint32_t v : r.init) f(v);
    outer(r.cond);
    outer(r.body);
  }
  for (int k = 0; k < operand_count(instr); ++k) f(instr.operands[k]);
}

// The text of a kernel, complete: equal kernels have equal texts. It is the key under which their code is
// kept and the only form in which they cross a border (liblamina_llvm, tools). `parse_kernel` reads what
// `to_string` writes and nothing else, byte for byte, and verifies it; an error names line and column.
//
//   kernel   = "kernel 1 parallel" N "reduce" N "args" N NL {buffer} {access} "body" NL section [reduce |
//   sort] {repeat}
//              "stores" NL {store} "end" NL
//   buffer   = "  b"N ":" TYPE ["out"] NL
//   access   = "  x"N ": b"N "[" ("0" | "a"N) ["+" N] {"+ i"N ["*" (STRIDE | "a"N)]} "]" NL
//   section  = {"  %"N "=" TYPE instr NL}
//   instr    = PRIM [values] [HEX] | "load x"N ["if %"N] | "load_at b"N "%"N ["if %"N] | "index i"N | "arg
//   a"N
//            | "store_at b"N "%"N "%"N ["if %"N] | "copy b"N "b"N "%"N   (to, from, count)
//            | "reduced r"N | "repeat p"N | "repeated %"N "c"N | "carried c"N | "outer %"N
//   reduce   = "reduce" [values] "init" {"x"N} NL "  combine" program "epilogue" NL section
//   sort     = "sort" NL "  before" program
//   program  = "(" TYPE {"," TYPE} ")" NL section "  return" [values] NL
//   repeat   = "repeat p"N ("counted" | "while") "from" [values] NL [section " condition %"N NL] section
//              " next" [values] NL {store}
//   store    = "  x"N "= %"N NL
//   values   = "%"N {"," "%"N}
inline constexpr size_t kMaxKernelText = size_t{1} << 20;
inline constexpr size_t kMaxKernelInstrs = size_t{1} << 16;
std::string to_string(const LoopKernel& kernel);
absl::StatusOr<LoopKernel> parse_kernel(std::string_view text);

// Machine code entry, plain C. Runs output elements [outer_begin, outer_end) x [inner_begin, inner_end),
// where outer is the row-major index over all parallel dimensions but the last and inner is the last one (a
// kernel of parallel rank 0 has outer = inner = 1). Reads `cancel` at least once per outer index, 64 Ki
// elements or some thousand steps of repeats and returns early (1) when it is not 0; returns 0 when done. An
// empty range touches nothing. A kernel that sorts is run by whole rows. A written buffer may be the same
// memory as a read one only if each element is read by the very output element that is stored there.
//
// Nobody else may be there to set the flag while a loop of unknown length runs. For kernels that hold one,
// `cancel` points to the `flag` of a CancelQuestion, and these loops ask it instead.
struct CancelQuestion {
  int32_t flag = 0;
  int32_t (*ask)(CancelQuestion* question) =
      nullptr;  // not 0: stop; called on the thread that runs the kernel
};
bool holds_question(const LoopKernel& kernel);

using KernelEntry = int32_t (*)(void* const* buffers, const int64_t* args, int64_t outer_begin,
                                int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                                const int32_t* cancel);

// Whether every index, rank, slot and type of the kernel is as documented here; both tiers rely on it.
absl::Status verify(const LoopKernel& kernel);

// Whether it reads the buffers that it writes (see above).
bool changes_arrays(const LoopKernel& kernel);

// How many of the stores, from the first one on, alternate along `dim`: for each of its indices they fill the
// elements between that and the next one, in their order. 1: the first one stands by itself.
size_t alternating(const LoopKernel& kernel, std::span<const Store> stores, int dim);

// Takes instructions that nothing needs out of a kernel with repeats. Generated code relies on it: what a
// section computes differently per element is then needed per element.
void drop_unused(LoopKernel& kernel);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_KERNEL_H_
