#include "trace/rules/effects.h"

#include "hlo/graph_copy.h"
#include "hlo/printer.h"
#include "trace/rules/scan.h"

namespace lamina::trace {

BatchResult effect_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  Values carries{joined_token(b, x[1])}, xs;
  std::vector<const Type*> types{node.operand_type(1)};
  Mask marks(batched.begin(), batched.end());
  for (const bool sliced : {false, true})
    for (size_t i = 0; i < x.size(); ++i) {
      if (i == 1 || marks[i] != sliced) continue;
      (sliced ? xs : carries).push_back(x[i]);
      types.push_back(node.operand_type(i));
    }
  const size_t kept = carries.size();
  const absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& inner, Ops p) {
    Values operands(x.size());
    operands[1] = p[0];
    size_t carry = 1, slice = kept;
    for (size_t i = 0; i < x.size(); ++i)
      if (i != 1) operands[i] = p[marks[i] ? slice++ : carry++];
    const Values results = inner.remake(node, operands);
    if (!inner.ok()) return results;
    return joined(joined(Values{results[0]}, p.subspan(1, kept - 1)), Ops(results).subspan(1));
  });
  BatchResult out = all_batched(Values(node.num_results()));
  out.batched[0] = false;
  if (!get_or_fail(b, body)) return out;
  const Values results = b.scan(*body, carries, xs, size, false);
  if (!b.ok()) return out;
  out.results[0] = results[0];
  for (size_t i = 1; i < out.results.size(); ++i) out.results[i] = results[kept + i - 1];
  return out;
}

BatchResult callback_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const std::string& method = node.attrs().string(Attr::vmap_method);
  Values operands{x[0]};
  for (size_t i = 1; i < x.size(); ++i) {
    const bool as_it_is = batched[i] || method == "legacy_vectorized";
    operands.push_back(as_it_is ? x[i] : with_batch(b, x[i], false, method == "expand_dims" ? 1 : size));
  }
  std::vector<const Type*> types;
  for (uint32_t i = 0; i < node.num_results(); ++i) types.push_back(batched_type(node.result_type(i), size));
  return all_batched(
      b.make_multi(Op::custom_call, operands, with_attr(node.attrs(), Attr::result_types, std::move(types))));
}

namespace {

// The node on other operands, its regions without effects.
Values quiet_node(Builder& b, const Node& n, Ops operands) {
  const Attrs* attrs = with_regions(n.attrs(), [&](const Computation& c) {
    absl::StatusOr<ComputationPtr> quiet = without_effects(c);
    return get_or_fail(b, quiet) ? *std::move(quiet) : ComputationPtr();
  });
  return b.ok() ? b.make_multi(n.op(), operands, attrs) : Values(n.num_results());
}

}  // namespace

absl::StatusOr<ComputationPtr> without_effects(const Computation& c) {
  Builder b;
  GraphCopy copy(c.parameters(), c.parameters());
  const bool made = copy.extend(b, c.nodes(), [&](const Node& n, Ops operands) -> Values {
    NodeScope scope(n);
    if (!is_effect(n))
      return anywhere(n, is_effect) ? quiet_node(b, n, operands) : results_of(b, n, operands);
    if (n.num_results() > 1)
      b.fail(absl::UnimplementedError(
          "an io_callback would run a second time, in a checkpoint that a derivative goes through, or in a "
          "loop, branch or jitted function whose value was asked for while the derivative was being taken: "
          "call it outside, and pass its result"));
    return {operands[1]};
  });
  if (!made) return b.status();
  return Computation::make(c.parameters(), copy(c.roots()));
}

Value without_effects(Builder& b, const Node& node) {
  Values operands;
  for (Operand o : node.operands()) operands.push_back(Value(o));
  return quiet_node(b, node, operands)[0];
}

Value joined_token(Builder& b, const Value& token) {
  if (!token || token.rank() == 0) return token;
  return b.reduce(token, Op::maximum, b.scalar_int(token.dtype(), 0), all_dims(token.rank()));
}

}  // namespace lamina::trace
