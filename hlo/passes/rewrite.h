// Rows of local rewriting and the engine that applies them until nothing changes.
//
// Contract of a row: it looks at one node and returns values of the same types that hold the same bits, or
// nothing. It may record nodes through the builder. (A signalling NaN counts as the quiet one.) The engine
// keeps parameters and signatures, gives new nodes the numerics mode and location of the node replaced,
// rewrites regions before their users, and never lets a computation lose an operation with side effects.
#ifndef LAMINA_HLO_PASSES_REWRITE_H_
#define LAMINA_HLO_PASSES_REWRITE_H_

#include <span>

#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"

namespace lamina::hlo {

inline Value first(const Node& n) { return n.operand_value(0); }
inline Values operands_from(const Node& n, size_t at) {
  Values out;
  for (size_t i = at; i < n.operands().size(); ++i) out.push_back(n.operand_value(i));
  return out;
}

struct RewriteRow {
  using One = Value (*)(Builder&, const Node&);
  using Many = Values (*)(Builder&, const Node&);

  // For one op, with one result or with several.
  RewriteRow(std::string_view what, Op op, One apply) : name(what), op(op), one(apply) {}
  RewriteRow(std::string_view what, Op op, Many apply) : name(what), op(op), many(apply) {}
  // For every op of a family.
  RewriteRow(std::string_view what, OpFamily family, One apply) : name(what), family(family), one(apply) {}

  std::string_view name;
  std::optional<Op> op;
  std::optional<OpFamily> family;
  One one = nullptr;
  Many many = nullptr;
};

absl::StatusOr<ComputationPtr> rewrite(const ComputationPtr& computation, std::span<const RewriteRow> rows);

// While one lives, its thread's rewriting does not go through computations again that the same rows left as
// they are: of a program of many regions, few change in a sweep.
class NormalForms {
 public:
  NormalForms();
  ~NormalForms();
  NormalForms(const NormalForms&) = delete;
  NormalForms& operator=(const NormalForms&) = delete;

  bool contains(std::span<const RewriteRow> rows, const Computation* computation) const;
  // `computation` is part of one that is kept.
  void insert(std::span<const RewriteRow> rows, const Computation* computation);
  void keep(ComputationPtr computation) { kept_.push_back(std::move(computation)); }

  // The thread's, or null.
  static NormalForms* open();

 private:
  NormalForms* const outer_;
  HashMap<const RewriteRow*, HashSet<const Computation*>> known_;
  std::vector<ComputationPtr> kept_;
};

// Whether running the node, or anything its regions run, may be seen from outside.
bool has_effect(const Node& node);
// Whether the node or its regions call the host, or loop without a known bound.
bool may_not_return(const Node& node);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PASSES_REWRITE_H_
