// Branches whose index is known, loops that do not run or run once, calls.
#include "hlo/match.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/passes/rewrite.h"

namespace lamina::hlo {
namespace {

// A known index, or branches that are all the same.
Values case_row(Builder& b, const Node& n) {
  const auto& branches = n.attrs().computations(Attr::branches);
  const Literal* index = match::uniform_literal(n.operand_value(0));
  int64_t chosen = 0;
  if (index) {
    chosen = index->int_at(0);
    const int64_t last = static_cast<int64_t>(branches.size()) - 1;
    if (chosen < 0 || chosen > last) chosen = last;
  } else {
    for (const ComputationPtr& branch : branches)
      if (branch != branches[0]) return {};
  }
  return expand(b, *branches[chosen], operands_from(n, 1));
}

// A loop whose condition is false at the start, by itself or for these operands.
Values while_row(Builder& b, const Node& n) {
  const Computation& cond = *n.attrs().computation(Attr::cond);
  // Recording the condition outside is only worth it for a small one.
  constexpr size_t kMaxNodes = 64;
  if (cond.nodes().size() > kMaxNodes) return {};
  for (const Node* c : cond.nodes())
    if (c->def().family == OpFamily::kControl) return {};
  const Values carries = operands_from(n, 0);
  const Value go = expand(b, cond, carries)[0];
  if (!b.ok() || !match::is_uniform_int(go, 0)) return {};
  return carries;
}

Values scan_row(Builder& b, const Node& n) {
  const int64_t length = n.attrs().integer(Attr::length);
  const size_t num_carry = static_cast<size_t>(n.attrs().integer(Attr::num_carry));
  if (length > 1) return {};
  if (length == 0) {
    Values results = operands_from(n, 0);
    results.resize(num_carry);
    for (uint32_t i = static_cast<uint32_t>(num_carry); i < n.num_results(); ++i) {
      if (!n.result_type(i)->is_array()) return {};
      results.push_back(b.zeros(n.result_type(i)));
    }
    return results;
  }
  Values arguments = operands_from(n, 0);
  for (size_t i = num_carry; i < arguments.size(); ++i)
    arguments[i] = b.reshape(arguments[i], std::span(arguments[i].dims()).subspan(1));
  Values results = expand(b, *n.attrs().computation(Attr::body), arguments);
  for (size_t i = num_carry; i < results.size(); ++i)
    results[i] = b.reshape(results[i], n.result_type(static_cast<uint32_t>(i))->dims);
  return results;
}

// A rule or an instance makes a call more than its body.
Values call_row(Builder& b, const Node& n) {
  if (n.attrs().has(Attr::rule) || n.attrs().has(Attr::instance)) return {};
  return expand(b, *n.attrs().computation(Attr::body), operands_from(n, 0));
}

const RewriteRow kControlRows[] = {
    {"branch with a known index", Op::case_, case_row},
    {"loop that does not start", Op::while_, while_row},
    {"scan of no step or one", Op::scan, scan_row},
};
const RewriteRow kCallRows[] = {{"call", Op::call, call_row}};

}  // namespace

absl::StatusOr<ComputationPtr> simplify_control(const ComputationPtr& computation) {
  return rewrite(computation, kControlRows);
}

absl::StatusOr<ComputationPtr> inline_calls(const ComputationPtr& computation) {
  return rewrite(computation, kCallRows);
}

}  // namespace lamina::hlo
