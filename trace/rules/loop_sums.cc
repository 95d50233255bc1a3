#include "trace/rules/loop_sums.h"

#include <algorithm>

#include "hlo/dot_shape.h"
#include "hlo/hash_map.h"
#include "hlo/passes/pass.h"

namespace lamina::trace {

namespace {

// Factors of all steps that would be kept for this alone have at most so many bytes.
constexpr int64_t kMuch = int64_t{256} << 20;

// How often each value of a computation is read, by nodes and as a result.
class Reads {
 public:
  explicit Reads(const Computation& c) {
    for (const Node* n : c.nodes())
      for (Operand o : n->operands()) ++counts_[o.bits()];
    for (const Value& r : c.roots()) ++counts_[r.operand().bits()];
  }
  bool once(Operand o) const {
    const auto found = counts_.find(o.bits());
    return found != counts_.end() && found->second == 1;
  }

 private:
  HashMap<uint64_t, size_t> counts_;
};

// What carry i of a step is the sum of, besides what it was: nothing if something else reads that, or a part
// of the sum.
std::vector<Operand> addends(const Computation& c, const Reads& reads, size_t i) {
  constexpr size_t kMost = 64;
  const Operand before = c.parameters()[i].operand();
  std::vector<Operand> rest{c.roots()[i].operand()}, out;
  while (!rest.empty()) {
    const Operand o = rest.back();
    rest.pop_back();
    if (o.node()->op() == Op::add && reads.once(o) && out.size() + rest.size() < kMost)
      for (Operand term : o.node()->operands()) rest.push_back(term);
    else
      out.push_back(o);
  }
  const auto found = std::find(out.begin(), out.end(), before);
  if (found == out.end() || !reads.once(before)) return {};
  out.erase(found);
  return out;
}

// The product of factors with the steps as a first dimension, summed over the steps too.
Value sum_of_products(Builder& b, const Node& dot, const Value& lhs, const Value& rhs) {
  const Attrs& a = dot.attrs();
  const auto with_steps = [](const Dims& contracting) {
    Dims out = shifted(contracting);
    out.insert(out.begin(), 0);
    return out;
  };
  return b.dot_general(
      lhs, rhs,
      {shifted(a.ints(Attr::lhs_batching_dimensions)), shifted(a.ints(Attr::rhs_batching_dimensions)),
       with_steps(a.ints(Attr::lhs_contracting_dimensions)),
       with_steps(a.ints(Attr::rhs_contracting_dimensions))});
}

}  // namespace

std::optional<SummedAfter::Factor> SummedAfter::factor(Operand o, size_t carries) const {
  const Ops parameters = whole_->parameters(), roots = whole_->roots();
  if (const auto p = position_of(parameters, o)) {
    if (*p >= carries) return Factor{true, *p - carries};
    if (is_invariant(*whole_, *p)) return std::nullopt;  // the same in all steps
  }
  if (const auto r = position_of(roots.subspan(carries), o)) return Factor{false, carries + *r};
  if (const auto r = position_of(outputs_, o)) return Factor{false, roots.size() + *r};
  return Factor{false, roots.size() + outputs_.size()};
}

// Whether the term is made after the scan.
bool SummedAfter::take(Operand o, size_t carry, size_t carries, int64_t steps, int64_t least) {
  Term term{carry, {}, {}, nullptr, {}};
  const Node* n = o.node();
  for (; n->op() == Op::transpose || n->op() == Op::reshape; n = n->operand(0).node())
    term.moves.push_back(n);
  std::reverse(term.moves.begin(), term.moves.end());
  if (n->op() != Op::dot_general) return false;
  term.dot = n;
  if (hlo::multiplications(*n) < least) return false;
  const Values before = outputs_;
  int64_t bytes = 0;
  for (size_t side : {0, 1}) {
    const std::optional<Factor> found = factor(n->operand(side), carries);
    if (!found) {
      outputs_ = before;
      return false;
    }
    (side == 0 ? term.lhs : term.rhs) = *found;
    if (found->is_slice || found->index < whole_->roots().size() + outputs_.size()) continue;
    outputs_.push_back(n->operand_value(side));
    bytes += n->operand_type(side)->bytes();
  }
  // No more is written and read for the factors than would be for the sum.
  if (bytes > n->type()->bytes() || bytes * steps > kMuch) {
    outputs_ = before;
    return false;
  }
  terms_.push_back(std::move(term));
  return true;
}

absl::StatusOr<SummedAfter> SummedAfter::of(const ComputationPtr& body, size_t first, size_t carries,
                                            int64_t steps, int64_t least) {
  SummedAfter out;
  out.body_ = body;
  bool any = false;
  const Reads reads(*body);
  for (size_t i = first; i < carries && steps > 1; ++i) any = any || !addends(*body, reads, i).empty();
  if (!any) return out;
  absl::StatusOr<ComputationPtr> whole = hlo::inline_calls(body);
  if (!whole.ok()) return whole.status();
  out.whole_ = *std::move(whole);
  Builder b;
  const Ops roots = out.whole_->roots();
  const Reads inlined(*out.whole_);
  Values made(roots.begin(), roots.end());
  for (size_t i = first; i < carries; ++i) {
    const std::vector<Operand> terms = addends(*out.whole_, inlined, i);
    if (terms.empty()) continue;
    made[i] = out.whole_->parameters()[i];
    for (Operand o : terms)
      if (!out.take(o, i, carries, steps, least)) made[i] = b.add(made[i], Value(o));
  }
  if (out.terms_.empty() || !b.ok()) return b.ok() ? absl::StatusOr<SummedAfter>(std::move(out)) : b.status();
  absl::StatusOr<ComputationPtr> without =
      Computation::make(out.whole_->parameters(), joined(made, out.outputs_));
  if (!without.ok()) return without.status();
  out.body_ = *std::move(without);
  return out;
}

void SummedAfter::add(Builder& b, Ops arrays, Values* results) const {
  const auto of_all_steps = [&](const Factor& f) {
    return f.is_slice ? arrays[f.index] : (*results)[f.index];
  };
  for (const Term& t : terms_) {
    if (!b.ok()) return;
    NodeScope scope(*t.dot);
    Value sum = sum_of_products(b, *t.dot, of_all_steps(t.lhs), of_all_steps(t.rhs));
    for (const Node* move : t.moves) {
      if (!b.ok()) return;
      sum = move->op() == Op::reshape ? b.reshape(sum, move->type()->dims)
                                      : b.transpose(sum, move->attrs().ints(Attr::permutation));
    }
    (*results)[t.carry] = b.add((*results)[t.carry], sum);
  }
}

}  // namespace lamina::trace
