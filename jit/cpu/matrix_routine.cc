// Matrix routines of hlo/linalg, on the matrices of a batch by several threads.
#include <cstddef>
#include <utility>
#include <vector>

#include "hlo/attributes.h"
#include "hlo/linalg/calls.h"
#include "hlo/strings.h"
#include "jit/client/memory.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/strided_copy.h"

namespace lamina::jit {
namespace {

// Of the elements of all matrices times their columns, or of what has a plan: about as long as it takes to
// wake a thread.
constexpr int64_t kWorthThreads = 1 << 15;

hlo::linalg::EachMatrix shared(bool worth, const KernelContext& context) {
  return [worth, &context](int64_t count, const std::function<void(int64_t)>& one) {
    const auto unless_cancelled = [&](int64_t i) {
      if (!context.cancelled()) one(i);
    };
    if (worth) return context.parallel(count, unless_cancelled);
    for (int64_t i = 0; i < count; ++i) unless_cancelled(i);
  };
}

absl::Status ended(const KernelContext& context, absl::Status status) {
  return context.cancelled() ? absl::CancelledError("the run was cancelled") : std::move(status);
}

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
  if (routine->plans) {
    op.run = [worth, planned = routine->plans->make(first, *results[0])](
                 const void* const* in, void* const* out, const KernelContext& context) {
      planned(in[0], out[0], shared(worth, context));
      return ended(context, absl::OkStatus());
    };
    return op;
  }
  const absl::StatusOr<hlo::linalg::MatrixCall> call =
      hlo::linalg::MatrixCall::make(*routine, operands, results);
  if (!call.ok()) return op;
  op.run = [worth, call = *call](const void* const* in, void* const* out, const KernelContext& context) {
    return ended(context, call.run(in, out, 0, call.count(), shared(worth, context)));
  };
  if (!routine->is_brief || !call->in_lanes() || call->count() == 0) return op;
  op.leading = call->leading();
  if (op.leading == 0) return op;
  // As long as so many element operations take it, about.
  op.work = first.num_elements * per_element;
  for (const auto* types : {&operands, &results})
    for (const hlo::Type* type : *types) op.work += 16 * type->num_elements;
  op.run_part = [call = *call, each = call->count() / op.leading](const void* const* in, void* const* out,
                                                                  int64_t begin, int64_t end,
                                                                  const KernelContext& context) {
    return ended(context, call.run(in, out, begin * each, end * each, shared(false, context)));
  };
  return op;
}

NativeOp make_matrix_routine_of_turned(const hlo::Node& node, bool is_adjoint) {
  NativeOp op = make_matrix_routine(node);
  if (!op.run) return op;
  const hlo::Type& type = *node.operand_type(0);
  const int64_t width = hlo::byte_size(type.dtype);
  hlo::Dims strides = hlo::row_major_strides(type.dims);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  NativeOp turned;
  turned.what = op.what;
  turned.run =
      [=, run = std::move(op.run),
       turn = StridedCopy({type.dims.begin(), type.dims.end()}, {strides.begin(), strides.end()}, width),
       bytes = type.bytes(), num_operands = node.operands().size()](const void* const* in, void* const* out,
                                                                    const KernelContext& context) {
        absl::StatusOr<BufferRef> copy = context.scratch->allocate(bytes);
        if (!copy.ok()) return copy.status();
        auto* const begin = static_cast<std::byte*>(pointer((*copy)->address()));
        if (absl::Status s = turn.run(in[0], begin, context); !s.ok()) return s;
        // The sign of each imaginary part is in its last byte.
        for (int64_t i = width - 1; is_adjoint && i < bytes; i += width) begin[i] ^= std::byte{0x80};
        std::vector<const void*> operands(in, in + num_operands);
        operands[0] = begin;
        return run(operands.data(), out, context);
      };
  return turned;
}

}  // namespace lamina::jit
