// Products in scans of what is scanned, or comes out, with what does not change.
//
// Those of scanned arrays are one product before the scan, those that are nothing but results one product
// after it: of the rows of all steps at a time. An element of a dot has the same bits in both
// (hlo/reference_dot.h).
#include <algorithm>
#include <optional>

#include "hlo/batching.h"
#include "hlo/dot_shape.h"
#include "hlo/match.h"
#include "hlo/nodes.h"
#include "hlo/passes/pass.h"
#include "hlo/passes/region.h"
#include "hlo/passes/rewrite.h"
#include "hlo/regions.h"

namespace lamina::hlo {
namespace {

// What is kept for all steps is at most so many times as large as what would be otherwise, and only as large
// where it has more bytes than these.
constexpr int64_t kWider = 4, kMuch = int64_t{64} << 20;

bool may_be_kept(const Type& kept, const Type& otherwise, int64_t steps) {
  return kept.bytes() <= otherwise.bytes() ||
         (kept.bytes() <= kWider * otherwise.bytes() && kept.bytes() * steps <= kMuch);
}

struct ScanParts {
  const Computation& body;
  size_t num_carry;
  int64_t length;

  explicit ScanParts(const Node& n)
      : body(*n.attrs().computation(Attr::body)),
        num_carry(static_cast<size_t>(n.attrs().integer(Attr::num_carry))),
        length(n.attrs().integer(Attr::length)) {}
  std::optional<size_t> parameter(Operand o) const { return position_of(body.parameters(), o); }
  // The carry that this value is in every step.
  std::optional<size_t> fixed(Operand o) const {
    const std::optional<size_t> i = parameter(o);
    return i && *i < num_carry && body.roots()[*i] == body.parameters()[*i] ? i : std::nullopt;
  }
};

// A dot of a step's own value with a carry that does not change.
struct StepProduct {
  Operand own;
  size_t fixed;  // the carry
  bool own_is_lhs;
};
std::optional<StepProduct> step_product(const ScanParts& scan, const Node& n) {
  if (n.op() != Op::dot_general || is_complex(n.type()->dtype) ||
      !n.attrs().ints(Attr::lhs_batching_dimensions).empty())
    return std::nullopt;
  const std::optional<size_t> lhs = scan.fixed(n.operand(0)), rhs = scan.fixed(n.operand(1));
  if (lhs.has_value() == rhs.has_value()) return std::nullopt;
  if (multiplications(n) < kLeastOutsideLoops) return std::nullopt;
  return StepProduct{n.operand(rhs ? 0 : 1), rhs ? *rhs : *lhs, rhs.has_value()};
}

// The products of all steps, along a first dimension; `own` has theirs.
Value product_of_all(Builder& b, const Node& dot, const StepProduct& p, const Value& own,
                     const Value& fixed) {
  NodeScope scope(dot);
  const Dims &lhs = dot.attrs().ints(Attr::lhs_contracting_dimensions),
             &rhs = dot.attrs().ints(Attr::rhs_contracting_dimensions);
  const Dims contract = shifted(p.own_is_lhs ? lhs : rhs), other = p.own_is_lhs ? rhs : lhs;
  // Real factors may trade places: their product is the same.
  const Value all = b.dot_general(own, fixed, {{}, {}, contract, other});
  if (!all || p.own_is_lhs) return all;
  const int64_t rank = all.rank(), fixed_free = fixed.rank() - static_cast<int64_t>(other.size());
  Dims order{0};
  for (int64_t d = rank - fixed_free; d < rank; ++d) order.push_back(d);
  for (int64_t d = 1; d < rank - fixed_free; ++d) order.push_back(d);
  return b.transpose(all, order);
}

Values scan_with(Builder& b, const Node& n, std::span<const Value> operands, ComputationPtr body) {
  return b.ok() ? b.make_multi(n.op(), operands, with_attr(n.attrs(), Attr::body, std::move(body)))
                : Values();
}

Values products_before(Builder& b, const Node& n) {
  const ScanParts scan(n);
  if (scan.length < 2) return {};
  Substitution inside;
  Values operands = operands_from(n, 0),
         parameters(scan.body.parameters().begin(), scan.body.parameters().end());
  for (Node* node : scan.body.nodes()) {
    const std::optional<StepProduct> p = step_product(scan, *node);
    if (!p) continue;
    const Node& own = *p->own.node();
    const bool reshaped = own.op() == Op::reshape;
    const std::optional<size_t> i = scan.parameter(reshaped ? own.operand(0) : p->own);
    if (!i || *i < scan.num_carry || !may_be_kept(*node->type(), *own.type(), scan.length)) continue;
    Value rows = operands[*i];
    if (reshaped) {
      Dims dims{scan.length};
      dims.insert(dims.end(), own.type()->dims.begin(), own.type()->dims.end());
      rows = b.reshape(rows, dims);
    }
    operands.push_back(product_of_all(b, *node, *p, rows, operands[p->fixed]));
    if (!b.ok()) return {};
    parameters.push_back(make_parameter(node->type()));
    inside.emplace(Operand(node, 0).bits(), parameters.back());
  }
  if (inside.empty()) return {};
  return scan_with(b, n, operands, make_region(b, parameters, substitute(b, scan.body, inside)));
}

// Whether nothing but results of their own reads the node's result.
bool is_only_result(const ScanParts& scan, const Node& n) {
  for (const Node* user : scan.body.nodes())
    for (Operand o : user->operands())
      if (o.node() == &n) return false;
  for (size_t i = 0; i < scan.num_carry; ++i)
    if (scan.body.roots()[i].node() == &n) return false;
  return true;
}

Values products_after(Builder& b, const Node& n) {
  const ScanParts scan(n);
  if (scan.length < 2) return {};
  const size_t results = scan.body.roots().size();
  // For each result what comes out of the steps in its place: the number of a result of these.
  std::vector<Value> roots(scan.body.roots().begin(),
                           scan.body.roots().begin() + static_cast<ptrdiff_t>(scan.num_carry));
  std::vector<size_t> made_of(results);
  std::vector<std::optional<StepProduct>> products(results);
  bool any = false;
  for (size_t i = 0; i < results; ++i) {
    Value root = scan.body.roots()[i];
    if (i < scan.num_carry) {
      made_of[i] = i;
      continue;
    }
    const std::optional<StepProduct> p = step_product(scan, *root.node());
    if (p && !scan.parameter(p->own) && is_only_result(scan, *root.node()) &&
        may_be_kept(*p->own.node()->result_type(p->own.index()), *root.type(), scan.length)) {
      products[i] = p;
      root = Value(p->own);
      any = true;
    }
    const auto first = roots.begin() + static_cast<ptrdiff_t>(scan.num_carry);
    const auto known = std::find(first, roots.end(), root);
    made_of[i] = static_cast<size_t>(known - roots.begin());
    if (known == roots.end()) roots.push_back(root);
  }
  if (!any) return {};
  const Values made = scan_with(b, n, operands_from(n, 0), make_region(b, scan.body.parameters(), roots));
  Values out;
  for (size_t i = 0; b.ok() && i < results; ++i)
    out.push_back(products[i] ? product_of_all(b, *scan.body.roots()[i].node(), *products[i],
                                               made[made_of[i]], n.operand_value(products[i]->fixed))
                              : made[made_of[i]]);
  return b.ok() ? out : Values();
}

const RewriteRow kProductRows[] = {
    {"products of scanned arrays", Op::scan, products_before},
    {"results that are products", Op::scan, products_after},
};

}  // namespace

absl::StatusOr<ComputationPtr> hoist_products(const ComputationPtr& computation) {
  return rewrite(computation, kProductRows);
}

}  // namespace lamina::hlo
