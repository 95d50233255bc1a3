// Ops that have a routine of their own on the CPU instead of a loop kernel: one table from op to routine.
//
// Contract: a routine gives the evaluator's bits, on any number of threads; it is immutable and re-entrant
// once made, takes its working memory from the context's allocator, polls the context's cancel flag and then
// returns Cancelled.
#ifndef LAMINA_JIT_CPU_NATIVE_OP_H_
#define LAMINA_JIT_CPU_NATIVE_OP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "hlo/graph.h"
#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

struct NativeOp {
  // Dense row-major arrays of the node's operand and result types.
  using Routine =
      std::function<absl::Status(const void* const* in, void* const* out, const KernelContext& context)>;
  Routine run;
  // Results 0 ... updated-1 hold the operands of the same numbers when `run` begins, in the operand's own
  // memory where nobody else needs it.
  int updated = 0;
  std::string what;  // for the report: which form was chosen

  // Where it may run in parts: the extent of the leading dimension of all results, and of operands that do
  // not go as a whole into each part, and what does indices `begin` to `end` of it on the calling thread.
  int64_t leading = 0;
  int64_t work = 0;  // of all of it, in element operations
  std::function<absl::Status(const void* const* in, void* const* out, int64_t begin, int64_t end,
                             const KernelContext& context)>
      run_part = nullptr;
};

// The routine of `node`; one without `run` if the table has none for it.
NativeOp native_op(const hlo::Node& node);

// Whether the table has a row for the op: it may still give no routine for some shapes.
bool has_native_op(hlo::Op op);

// The rows of the table, by subject.
NativeOp make_dynamic_slice(const hlo::Node& node);
NativeOp make_dynamic_update_slice(const hlo::Node& node);
NativeOp make_gather(const hlo::Node& node);
NativeOp make_scatter(const hlo::Node& node);
// A gather or scatter along one dimension whose negative indices count from the end of that.
NativeOp make_indexed_from_end(const hlo::Node& node);
NativeOp make_reduce_window(const hlo::Node& node);
NativeOp make_select_and_scatter(const hlo::Node& node);
NativeOp make_sort(const hlo::Node& node);
// Of each line of results the first `count` elements only.
NativeOp make_sort_of_first(const hlo::Node& node, int64_t count);
// Without `run` for floats of less than 32 bits.
NativeOp make_cumsum(const hlo::Node& node);
NativeOp make_rng_bit_generator(const hlo::Node& node);
// Without `run` where the body does anything but combine carry and element.
NativeOp make_scan(const hlo::Node& node);
// Without `run` for functions of a user's own.
NativeOp make_matrix_routine(const hlo::Node& node);
// The same of matrices that are transposed first, or their adjoints taken.
NativeOp make_matrix_routine_of_turned(const hlo::Node& node, bool is_adjoint);
NativeOp make_concatenate(const hlo::Node& node);
// Without `run` where rows are short.
NativeOp make_pad(const hlo::Node& node);
// Without `run` where tiles bring nothing.
NativeOp make_transpose(const hlo::Node& node);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_NATIVE_OP_H_
