#include "trace/rules/support.h"

namespace lamina::trace {

BatchResult batch_by_scan(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size) {
  Values carries, xs;
  std::vector<const Type*> types;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!batched[i]) {
      carries.push_back(operands[i]);
      types.push_back(operands[i].type());
    }
  for (size_t i = 0; i < operands.size(); ++i)
    if (batched[i]) {
      xs.push_back(operands[i]);
      types.push_back(node.operand_type(i));
    }
  absl::StatusOr<ComputationPtr> body =
      record_region(types, [&](Builder& inner, std::span<const Value> parameters) {
        Values arguments(operands.size());
        size_t carry = 0, slice = carries.size();
        for (size_t i = 0; i < operands.size(); ++i)
          arguments[i] = parameters[batched[i] ? slice++ : carry++];
        Values roots(parameters.begin(), parameters.begin() + carries.size());
        for (Value& r : inner.remake(node, arguments)) roots.push_back(std::move(r));
        return roots;
      });
  if (!body.ok()) {
    b.fail(body.status());
    return all_batched(Values(node.num_results()));
  }
  Values out = b.scan(*body, carries, xs, size, false);
  if (!b.ok()) return all_batched(Values(node.num_results()));
  return all_batched(Values(out.begin() + carries.size(), out.end()));
}

Value row_at(Builder& b, const Value& x, const Value& at) {
  Values starts(x.rank(), b.scalar_int(DType::kS64, 0));
  Dims sizes = x.dims();
  starts[0] = at;
  sizes[0] = 1;
  return b.reshape(b.dynamic_slice(x, starts, sizes), std::span(x.dims()).subspan(1));
}

bool goes_lane_by_lane(const Node& node) {
  return anywhere(node, is_effect) &&
         !anywhere(node, [](const Node& n) { return n.def().family == OpFamily::kCollective; });
}

JvpResult no_tangent(Builder&, const Node& node, std::span<const Value>, std::span<const Value>) {
  return {Values(node.num_results()), {}};
}

BatchResult never_batched(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool>, int64_t) {
  BatchResult out;
  out.results = results_of(b, node, operands);
  out.batched.assign(out.results.size(), false);
  return out;
}

}  // namespace lamina::trace
