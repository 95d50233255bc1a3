#include "jit/cuda/product_epilogue.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "hlo/match.h"
#include "hlo/printer.h"
#include "jit/cuda/subgraph_call.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Attr;
using hlo::DType;
using hlo::Node;
using hlo::Op;
using hlo::Value;
using hlo::match::number;
using hlo::match::same;

constexpr std::string_view kEpilogueTarget = "lamina.product_epilogue";
// Of a bias's address, and so of its length.
constexpr int64_t kBiasAlignment = 16;

// Two operands in either order.
template <typename P, typename Q>
auto both(Op op, P p, Q q) {
  return [op, p, q](const Value& v) mutable {
    return v.node()->op() == op && hlo::match::either_order(*v.node(), p, q);
  };
}
template <typename P, typename Q>
auto compared(std::string_view direction, P p, Q q) {
  return [direction, compares = hlo::match::op(Op::compare, p, q)](const Value& v) mutable {
    return compares(v) && v.node()->attrs().string(Attr::direction) == direction;
  };
}

// max(x, 0), with NaN or without.
bool is_relu(const Value& v, const Value& x) {
  const auto positive = compared("GT", same(x), number(0));
  const auto nan_or_0 = hlo::match::op(Op::select, compared("NE", same(x), same(x)), same(x), number(0));
  return both(Op::maximum, same(x), number(0))(v) ||
         hlo::match::op(Op::select, positive, same(x), number(0))(v) ||
         hlo::match::op(Op::select, positive, same(x), nan_or_0)(v);
}
// By tanh, as the library computes it.
bool is_gelu(const Value& v, const Value& x) {
  constexpr double kRootOfTwoByPi = 0.79788456080286535588, kCubic = 0.044715;
  const auto cube = both(Op::multiply, same(x), both(Op::multiply, same(x), same(x)));
  const auto of_cube = both(Op::multiply, cube, number(kCubic));
  const auto in_turn =
      both(Op::multiply, same(x), both(Op::multiply, same(x), both(Op::multiply, same(x), number(kCubic))));
  const auto cubic = [p = of_cube, q = in_turn](const Value& y) mutable { return p(y) || q(y); };
  const auto bent = both(Op::add, same(x), cubic);
  const auto tanh = hlo::match::op(Op::tanh, both(Op::multiply, bent, number(kRootOfTwoByPi)));
  const auto twice = both(Op::add, tanh, number(1));
  return both(Op::multiply, same(x), both(Op::multiply, twice, number(0.5)))(v) ||
         both(Op::multiply, both(Op::multiply, same(x), number(0.5)), twice)(v);
}

// Whether a kernel of ours passes over what the node makes anyway, which a user is; null stands for who runs
// the program.
bool is_read_by_kernels(const Node* n, const Users& users);
bool is_kernel(const Node* user, const Users& users) {
  if (!user) return false;
  switch (user->op()) {
    case Op::reshape:
      return is_read_by_kernels(user, users);
    case Op::dot_general:
    case Op::convolution:
    case Op::custom_call:
    case Op::scan:
    case Op::while_:
      return false;
    default:
      return true;
  }
}

bool is_read_by_kernels(const Node* n, const Users& users) {
  return std::ranges::any_of(users.at(n), [&](const Node* user) { return is_kernel(user, users); });
}

// Whether the columns of the result are those of the right operand, and its rows the left one's.
bool is_one_matrix(const Node& product) {
  const auto& batch = product.attrs().ints(Attr::rhs_batching_dimensions);
  const auto& summed = product.attrs().ints(Attr::rhs_contracting_dimensions);
  return batch.empty() && product.operand_type(1)->rank() == static_cast<int64_t>(summed.size()) + 1;
}

class EpilogueMatcher {
 public:
  explicit EpilogueMatcher(const Users& users) : users_(users) {}

  std::optional<ProductEpilogue> match(Node& product) {
    const DType type = product.type()->dtype;
    if ((type != DType::kF32 && type != DType::kF16 && type != DType::kBF16) || !is_one_matrix(product))
      return std::nullopt;
    owned_ = {&product};
    Value at(&product);
    ProductEpilogue out{&product, Epilogue::kNone, {}, {product.operand_value(0), product.operand_value(1)}};
    if (const Value bias = match_bias(at)) out.operands.push_back(bias);
    const bool has_bias = out.operands.size() > 2;
    out.epilogue = has_bias ? Epilogue::kBias : Epilogue::kNone;
    if (const Node* const end = end_of(at, is_relu)) {
      out.epilogue = has_bias ? Epilogue::kReluBias : Epilogue::kRelu;
      at = Value(const_cast<Node*>(end));
    } else if (const Node* const gelu = end_of(at, is_gelu)) {
      out.epilogue = has_bias ? Epilogue::kGeluBias : Epilogue::kGelu;
      at = Value(const_cast<Node*>(gelu));
    }
    out.result = at;
    const bool is_fast =
        std::ranges::all_of(owned_, [](const Node* n) { return n->numerics() == hlo::Numerics::kFast; });
    const bool is_exact = out.epilogue == Epilogue::kBias && type == DType::kF32;
    if (out.epilogue == Epilogue::kNone || !(is_fast || is_exact) ||
        !are_read_only_here(owned_, at.node(), users_) || is_read_by_kernels(at.node(), users_))
      return std::nullopt;
    return out;
  }

 private:
  // Null where there is none; else `at` becomes the sum.
  Value match_bias(Value& at) {
    const auto& users = users_.at(at.node());
    if (users.size() != 1 || !users[0] || users[0]->op() != Op::add) return {};
    const Node& add = *users[0];
    const Value other = add.operand_value(add.operand_value(0) == at ? 1 : 0);
    const Node& spread = *other.node();
    if (spread.op() != Op::broadcast_in_dim) return {};
    const Value bias = spread.operand_value(0);
    const int64_t last = at.rank() - 1, columns = at.dims()[static_cast<size_t>(last)];
    const auto& to = spread.attrs().ints(Attr::broadcast_dimensions);
    if (to.empty() || to.back() != last || bias.dims().back() != columns ||
        bias.type()->num_elements != columns || bias.type()->bytes() % kBiasAlignment != 0)
      return {};
    owned_.push_back(&add);
    at = Value(const_cast<Node*>(&add));
    return bias;
  }
  // What is this function of the value, of its users or theirs; what lies between is owned then.
  const Node* end_of(const Value& x, bool (*is)(const Value&, const Value&)) {
    std::vector<const Node*> ends = users_.at(x.node());
    for (const Node* user : users_.at(x.node()))
      if (user) ends.insert(ends.end(), users_.at(user).begin(), users_.at(user).end());
    for (const Node* end : ends) {
      if (!end || !is(Value(const_cast<Node*>(end)), x)) continue;
      own_between(*end, x);
      return end;
    }
    return nullptr;
  }
  void own_between(const Node& n, const Value& x) {
    if (&n == x.node() || std::ranges::find(owned_, &n) != owned_.end() ||
        hlo::match::uniform_literal(Value(const_cast<Node*>(&n))))
      return;
    owned_.push_back(&n);
    for (hlo::Operand o : n.operands()) own_between(*o.node(), x);
  }

  const Users& users_;
  std::vector<const Node*> owned_;
};

}  // namespace

std::vector<ProductEpilogue> find_epilogues(const hlo::Computation& computation) {
  const Users users = users_of(computation);
  EpilogueMatcher matcher(users);
  std::vector<ProductEpilogue> out;
  for (Node* n : computation.nodes())
    if (n->op() == Op::dot_general)
      if (auto found = matcher.match(*n)) out.push_back(*std::move(found));
  return out;
}

absl::StatusOr<hlo::ComputationPtr> with_epilogue_calls(
    const hlo::ComputationPtr& program, absl::FunctionRef<bool(const ProductEpilogue&)> is_wanted) {
  std::vector<Subgraph> wanted;
  const auto look_at = [&](const hlo::Computation& c) {
    for (const ProductEpilogue& found : find_epilogues(c))
      if (is_wanted(found)) wanted.push_back({found.result, found.operands});
  };
  for (const hlo::Computation* region : hlo::regions_of(*program)) look_at(*region);
  look_at(*program);
  return with_subgraph_calls(program, kEpilogueTarget, wanted, {});
}

std::optional<ProductEpilogue> epilogue_of(const Node& node) {
  const hlo::Computation* const body = subgraph_of(node, kEpilogueTarget);
  if (!body) return std::nullopt;
  std::vector<ProductEpilogue> found = find_epilogues(*body);
  return found.size() == 1 ? std::optional(std::move(found[0])) : std::nullopt;
}

}  // namespace lamina::jit::cuda
