// Matrix routines of hlo/linalg, on the matrices of a batch by several threads.
#include "hlo/attributes.h"
#include "hlo/linalg/calls.h"
#include "hlo/strings.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

// Of the elements of all matrices times their columns, or of what has a plan: about as long as it takes to
// wake a thread.
constexpr int64_t kWorthThreads = 1 << 15;

}  // namespace

NativeOp make_matrix_routine(const hlo::Node& node) {
  const std::string& name = node.attrs().string(hlo::Attr::call_target_name);
  const hlo::linalg::Routine* const routine = hlo::linalg::find_routine(name);
  NativeOp op;
  if (!routine) return op;
  std::vector<const hlo::Type*> operands, results;
  for (size_t i = 0; i < node.operands().size(); ++i) operands.push_back(node.operand_type(i));
  for (uint32_t i = 0; i < node.num_results(); ++i) results.push_back(node.result_type(i));
  const hlo::Type& first = *operands[0];
  const int64_t per_element = first.rank() == 0 || routine->plans ? 1 : first.dims.back();
  const bool worth = first.num_elements * per_element >= kWorthThreads;
  op.what = name;
  const hlo::linalg::PlannedRoutine planned =
      routine->plans ? routine->plans->make(first, *results[0]) : hlo::linalg::PlannedRoutine();
  op.run = [=](const void* const* in, void* const* out, const KernelContext& context) {
    const hlo::linalg::EachMatrix each = [&](int64_t count, const std::function<void(int64_t)>& one) {
      const auto unless_cancelled = [&](int64_t i) {
        if (!context.cancelled()) one(i);
      };
      if (worth) return context.parallel(count, unless_cancelled);
      for (int64_t i = 0; i < count; ++i) unless_cancelled(i);
    };
    absl::Status status;
    if (planned)
      planned(in[0], out[0], each);
    else
      status = hlo::linalg::run_call(*routine, operands, results, in, out, each);
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : status;
  };
  return op;
}

}  // namespace lamina::jit
