// Loop kernels: what a fused cluster becomes before it is machine code.
//
// A kernel is a loop nest over `parallel_rank` output dimensions (row-major, last one fastest) and, for
// reductions, `reduce_rank` further dimensions whose row-major index is the logical order of the reduced
// elements. Its text holds structure only: extents, strides and offsets are run-time arguments, so one kernel
// serves every shape of the same structure. The interpreting tier and the LLVM emitter execute the same
// `LoopKernel` with the same bits.
//
// Elements: buffers hold part types (a complex array is an array of interleaved reals, strides counted in
// parts). bool is one byte, 0 or 1.
#ifndef LAMINA_JIT_LOOP_KERNEL_H_
#define LAMINA_JIT_LOOP_KERNEL_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hlo/dtype.h"
#include "hlo/reduce_tree.h"
#include "hlo/scalar/program.h"

namespace lamina::jit {

using hlo::DType;

inline constexpr int kMaxLoopRank = 16;

// Affine element address: args[offset_slot] + sum over terms of index(dim) * stride. Dimensions without a
// term have stride 0. Dimensions are numbered 0 ... parallel_rank-1, then the reduced ones.
struct AccessTerm {
  uint8_t dim;
  uint8_t unit;  // stride known when compiled: 1, or 2 (one part of interleaved pairs); 0: args[stride_slot]
  uint32_t stride_slot;
  bool operator==(const AccessTerm&) const = default;
};
struct Access {
  uint32_t buffer;
  int32_t offset_slot = -1;  // -1: offset 0
  std::vector<AccessTerm> terms;
  bool operator==(const Access&) const = default;
};

enum class KernelOp : uint8_t {
  kPrim,  // prim, type, operands, imm: as in ScalarInstr
  kLoad,  // accesses[imm]; operands[0] is a bool predicate if `predicated`: where it is false nothing is read
          // and the value is 0
  kLoadAt,   // buffer imm at element operands[0] (s64, already in range); predicated by operands[1] likewise
  kIndex,    // s64 index along dimension imm
  kArg,      // s64 args[imm]
  kReduced,  // epilogue only: result number imm of the reduction
};

// Instruction i defines value i of its section; an epilogue instruction may use only epilogue values.
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

// The reduction tree (numerics contract): element i of the reduced row-major index, i counted within chunks
// of kReduceChunk, goes to lane i mod L, L = kReduceLaneBytes / (widest part size); within a lane elements
// combine in index order, acc = combine(acc, element), the lane's first element starting it; lanes fold at
// halving stride, lane[j] = combine(lane[j], lane[j + s]) for s = L/2 ... 1 where lane j + s holds an
// element; chunk results are reduced as a new sequence of elements in the same way; init enters last: result
// = combine(tree, init). An empty reduction is init.
using hlo::kReduceChunk;
using hlo::kReduceLaneBytes;

// Where the vector lanes go: along the reduced index, or along the last parallel dimension (with L
// accumulators each).
enum class ReduceForm : uint8_t { kAlongReduced, kAcrossParallel };

struct Reduction {
  std::vector<uint32_t> inputs;  // body values, m of them
  hlo::ScalarProgram combine;    // 2m inputs (accumulators, then elements) -> m outputs
  std::vector<uint32_t> init;    // m accesses (no reduced dims), loaded once per output element
  ReduceForm form = ReduceForm::kAlongReduced;
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
  // args: extents of all dimensions first, then offsets and strides.
  uint32_t num_args = 0;
  std::vector<KernelInstr>
      body;  // per element of the full nest (per output element when there is no reduction)
  bool has_reduction = false;
  Reduction reduction;
  std::vector<KernelInstr> epilogue;  // per output element, after the reduction; empty without one
  std::vector<Store> stores;          // values of the epilogue if there is a reduction, else of the body
  bool operator==(const LoopKernel&) const = default;
};

// Complete text of the structure; equal kernels have equal texts. It is the key under which kernels are
// shared.
std::string to_string(const LoopKernel& kernel);

// Machine code entry, plain C. Runs output elements [outer_begin, outer_end) x [inner_begin, inner_end),
// where outer is the row-major index over all parallel dimensions but the last and inner is the last one (a
// kernel of parallel rank 0 has outer = inner = 1). Reads `cancel` at least once per outer index or 64 Ki
// elements and returns early (1) when it is not 0; returns 0 when done. An empty range touches nothing. A
// written buffer may be the same memory as a read one only if each element is read by the very output element
// that is stored there.
using KernelEntry = int32_t (*)(void* const* buffers, const int64_t* args, int64_t outer_begin,
                                int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                                const int32_t* cancel);

// Whether every index, rank, slot and type of the kernel is as documented here; both tiers rely on it.
absl::Status verify(const LoopKernel& kernel);

// The interpreting tier: same contract, in blocks, without a compile. Preparing is cheap (no code is made);
// `run` may be called from several threads at once.
class KernelInterpreter {
 public:
  // `kernel` must be verified.
  explicit KernelInterpreter(const LoopKernel& kernel);
  ~KernelInterpreter();
  KernelInterpreter(KernelInterpreter&&) noexcept;
  KernelInterpreter& operator=(KernelInterpreter&&) noexcept;

  int32_t run(void* const* buffers, const int64_t* args, int64_t outer_begin, int64_t outer_end,
              int64_t inner_begin, int64_t inner_end, const int32_t* cancel) const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

// The same for one run.
int32_t interpret_kernel(const LoopKernel& kernel, void* const* buffers, const int64_t* args,
                         int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                         const int32_t* cancel);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_LOOP_KERNEL_H_
