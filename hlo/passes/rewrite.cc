#include "hlo/passes/rewrite.h"

#include <algorithm>
#include <utility>

#include "hlo/graph_copy.h"
#include "hlo/nodes.h"
#include "hlo/passes/region.h"
#include "hlo/printer.h"
#include "hlo/rules/support.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

// Rows end by themselves; the limit is there for rows that undo each other, which tests would show.
constexpr int kMaxSweeps = 256;
constexpr int kMaxChain = 64;

bool calls_host(const Node& n) { return n.op() == Op::custom_call; }

int64_t count_effects(const Computation& c) {
  return std::count_if(c.nodes().begin(), c.nodes().end(), [](const Node* n) { return has_effect(*n); });
}

bool is_for(const RewriteRow& row, Op op) {
  return (!row.op || *row.op == op) && (!row.family || *row.family == op_def(op).family);
}

thread_local NormalForms* t_normal_forms = nullptr;

class Sweep {
 public:
  explicit Sweep(std::span<const RewriteRow> rows) : rows_(rows), first_(num_ops(), rows.size()) {
    for (size_t i = rows.size(); i-- > 0;) {
      if (rows[i].op) first_[static_cast<size_t>(*rows[i].op)] = i;
      for (size_t op = 0; !rows[i].op && op < first_.size(); ++op)
        if (is_for(rows[i], static_cast<Op>(op))) first_[op] = i;
    }
  }

  absl::StatusOr<ComputationPtr> run(const ComputationPtr& computation) {
    if (NormalForms* const known = NormalForms::open()) known->keep(computation);
    remade_.clear();
    return rewrite_inside_out(computation, &remade_,
                              [&](const Computation& c) { return rewrite_unless_normal(c); });
  }

 private:
  // Null where the rows leave it as it is.
  absl::StatusOr<ComputationPtr> rewrite_unless_normal(const Computation& c) {
    NormalForms* const known = NormalForms::open();
    if (known && known->contains(rows_, &c)) return ComputationPtr();
    if (may_change(c)) {
      absl::StatusOr<ComputationPtr> made = rewrite_one(c);
      if (!made.ok() || made->get() != &c) return made;
    }
    if (known) known->insert(rows_, &c);
    return ComputationPtr();
  }

  // Whether recording it again may give another: no row is for most of the nodes there are.
  bool may_change(const Computation& c) const {
    Builder b;
    const auto changes = [&](const Node& n) {
      if (is_doubled(n) || (!remade_.empty() && with_remade(n.attrs(), remade_) != &n.attrs())) return true;
      if (first_[static_cast<size_t>(n.op())] == rows_.size()) return false;
      NodeScope scope(n);
      Values results;
      for (uint32_t i = 0; i < n.num_results(); ++i) results.push_back(value_of(n, i));
      const Values before = results;
      const absl::Status applied = apply_rows(b, &results);
      return !applied.ok() || results != before;
    };
    return std::any_of(c.nodes().begin(), c.nodes().end(), [&](const Node* n) { return changes(*n); });
  }

  absl::StatusOr<ComputationPtr> rewrite_one(const Computation& c) {
    Builder b;
    GraphCopy copy(c.parameters(), c.parameters());
    const bool made = copy.extend(b, c.nodes(), [&](const Node& n, std::span<const Value> operands) {
      NodeScope scope(n);
      Values results = remake(b, n, operands);
      if (b.ok()) b.fail(apply_rows(b, &results));
      return results;
    });
    if (!made) return b.status();
    absl::StatusOr<ComputationPtr> out = Computation::make(c.parameters(), copy(c.roots()));
    if (!out.ok() || count_effects(**out) >= count_effects(c)) return out;
    // A row dropped the last use of an effect: the computation stays, with its regions as they were.
    return Computation::make(c.parameters(), c.roots());
  }

  // The node itself if nothing below it changed and equal records give it.
  Values remake(Builder& b, const Node& n, std::span<const Value> operands) const {
    const Attrs* const attrs = with_remade(n.attrs(), remade_);
    if (attrs != &n.attrs()) return b.make_multi(n.op(), operands, attrs);
    return is_doubled(n) ? b.remake(n, operands) : results_of(b, n, operands);
  }

  // Of two equal nodes, as two scopes may have left them, only one is found by recording it again.
  static bool is_doubled(const Node& n) {
    return !n.deduplicated() && !(n.def().flags & kNoDedup) && !is_effect(n);
  }

  absl::Status apply_rows(Builder& b, Values* results) const {
    for (int chain = 0; chain < kMaxChain; ++chain) {
      // Rows see a node through all of its results in order.
      const Node* n = results->empty() ? nullptr : (*results)[0].node();
      if (!n || n->op() == Op::parameter || n->num_results() != results->size()) return absl::OkStatus();
      for (size_t i = 0; i < results->size(); ++i)
        if ((*results)[i].node() != n || (*results)[i].index() != i) return absl::OkStatus();
      Values replacement;
      const RewriteRow* fired = nullptr;
      for (const RewriteRow& row : rows_.subspan(first_[static_cast<size_t>(n->op())])) {
        if (!is_for(row, n->op())) continue;
        if (row.many) {
          replacement = row.many(b, *n);
        } else if (Value v = row.one(b, *n)) {
          replacement = {v};
        }
        if (!b.ok()) return b.status();
        if (!replacement.empty()) {
          fired = &row;
          break;
        }
      }
      if (!fired) return absl::OkStatus();
      if (replacement.size() != results->size())
        return absl::InternalError(
            str_cat("rewriting row '", fired->name, "' changed the number of results"));
      for (size_t i = 0; i < replacement.size(); ++i)
        if (replacement[i].type() != (*results)[i].type())
          return absl::InternalError(str_cat("rewriting row '", fired->name, "' changed the type of result ",
                                             i, " from ", to_string(*(*results)[i].type()), " to ",
                                             to_string(*replacement[i].type())));
      if (std::equal(replacement.begin(), replacement.end(), results->begin())) return absl::OkStatus();
      *results = std::move(replacement);
    }
    return absl::OkStatus();
  }

  const std::span<const RewriteRow> rows_;
  std::vector<size_t> first_;  // the first row that is for an op, or one past the last
  Remade remade_;
};

}  // namespace

NormalForms::NormalForms() : outer_(std::exchange(t_normal_forms, this)) {}
NormalForms::~NormalForms() { t_normal_forms = outer_; }

NormalForms* NormalForms::open() { return t_normal_forms; }

bool NormalForms::contains(std::span<const RewriteRow> rows, const Computation* computation) const {
  const auto of_rows = known_.find(rows.data());
  return of_rows != known_.end() && of_rows->second.contains(computation);
}

void NormalForms::insert(std::span<const RewriteRow> rows, const Computation* computation) {
  known_[rows.data()].insert(computation);
}

bool has_effect(const Node& node) { return anywhere(node, is_effect); }
bool may_not_return(const Node& node) {
  return anywhere(node, [](const Node& n) { return calls_host(n) || n.op() == Op::while_; });
}

absl::StatusOr<ComputationPtr> rewrite(const ComputationPtr& computation, std::span<const RewriteRow> rows) {
  GraphLock lock;
  ComputationPtr current = computation;
  Sweep sweep(rows);
  for (int i = 0; i < kMaxSweeps; ++i) {
    absl::StatusOr<ComputationPtr> next = sweep.run(current);
    if (!next.ok()) return next;
    // Computations are interned: the same object means the same structure.
    if (*next == current) return current;
    current = *std::move(next);
  }
  return current;
}

}  // namespace lamina::hlo
