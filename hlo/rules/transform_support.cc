#include "hlo/rules/transform_support.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "hlo/narrow.h"
#include "hlo/printer.h"

namespace lamina::hlo {

Values results_of(Builder& b, const Node& node, std::span<const Value> operands) {
  bool own = operands.size() == node.operands().size();
  for (size_t i = 0; own && i < operands.size(); ++i) own = operands[i].operand() == node.operand(i);
  if (!own) return b.remake(node, operands);
  Values results;
  for (uint32_t i = 0; i < node.num_results(); ++i) results.push_back(value_of(node, i));
  return results;
}

Value result_of(Builder& b, const Node& node, std::span<const Value> operands) {
  return results_of(b, node, operands)[0];
}

Dims prepend(int64_t first, std::span<const int64_t> rest) {
  Dims out{first};
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

Dims shifted(std::span<const int64_t> dims, int64_t by) {
  Dims out(dims.begin(), dims.end());
  for (int64_t& d : out) d += by;
  return out;
}

Dims shifted_with_zero(std::span<const int64_t> dims) { return prepend(0, shifted(dims)); }

Dims all_dims(int64_t n) {
  Dims out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

const Type* batched_type(const Type* type, int64_t size) {
  return array_type_or_die(type->dtype, prepend(size, type->dims));
}

Value with_batch(Builder& b, const Value& x, bool batched, int64_t size) {
  if (batched || !x) return x;
  return b.broadcast_in_dim(x, prepend(size, x.dims()), shifted(all_dims(x.rank())));
}

Values all_with_batch(Builder& b, std::span<const Value> xs, std::span<const bool> batched, int64_t size) {
  Values out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(with_batch(b, xs[i], batched[i], size));
  return out;
}

BatchResult all_batched(Values results) {
  BatchResult out;
  out.batched.assign(results.size(), true);
  out.results = std::move(results);
  return out;
}

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

Value joined_token(Builder& b, const Value& token) {
  if (!token || token.rank() == 0) return token;
  return b.reduce(token, Op::maximum, b.scalar_int(token.dtype(), 0), all_dims(token.rank()));
}

bool anywhere(const Node& node, bool (*test)(const Node&)) {
  if (test(node)) return true;
  for (const ComputationPtr& region : regions_of(node))
    if (anywhere(*region, test)) return true;
  return false;
}

bool anywhere(const Computation& computation, bool (*test)(const Node&)) {
  const auto among = [&](const std::vector<Node*>& nodes) {
    return std::any_of(nodes.begin(), nodes.end(), [&](const Node* n) { return test(*n); });
  };
  if (among(computation.nodes())) return true;
  const std::vector<const Computation*> regions = regions_of(computation);
  return std::any_of(regions.begin(), regions.end(), [&](const Computation* c) { return among(c->nodes()); });
}

bool passes_on(const Node& node) {
  return node.def().family == OpFamily::kStructure || node.def().family == OpFamily::kShape;
}

Value row_at(Builder& b, const Value& x, const Value& at) {
  Values starts(x.rank(), b.scalar_int(DType::kS64, 0));
  Dims sizes = x.dims();
  starts[0] = at;
  sizes[0] = 1;
  return b.reshape(b.dynamic_slice(x, starts, sizes), std::span(x.dims()).subspan(1));
}

Value extreme(Builder& b, DType dtype, bool greatest) {
  if (is_float(dtype)) {
    const double inf = std::numeric_limits<double>::infinity();
    if (is_narrow(dtype)) return b.scalar(dtype, narrow_extreme(dtype, greatest));
    return b.scalar(dtype, greatest ? inf : -inf);
  }
  if (is_bool(dtype)) return b.scalar_int(dtype, greatest);
  const int bits = bit_width(dtype);
  if (!is_signed(dtype)) return b.scalar_int(dtype, greatest ? -1 : 0);
  const int64_t least = bits == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits - 1));
  return b.scalar_int(dtype, greatest ? -(least + 1) : least);
}

std::vector<const Type*> types_of(std::span<const Value> values) {
  std::vector<const Type*> out;
  for (const Value& v : values) out.push_back(v.type());
  return out;
}

absl::StatusOr<ComputationPtr> with_parameters(const Computation& c, std::span<const Type* const> more) {
  Values parameters(c.parameters().begin(), c.parameters().end());
  for (const Type* t : more) parameters.push_back(make_parameter(t));
  return Computation::make(parameters, c.roots());
}

bool is_effect(const Node& node) {
  return node.op() == Op::custom_call && node.attrs().flag(Attr::has_side_effect);
}

bool goes_lane_by_lane(const Node& node) {
  return anywhere(node, is_effect) &&
         !anywhere(node, [](const Node& n) { return n.def().family == OpFamily::kCollective; });
}

std::optional<Op> region_op(const Computation& region) {
  if (region.parameters().size() != 2 || region.roots().size() != 1) return std::nullopt;
  const Node* n = region.roots()[0].node();
  if (!n->def().is_elementwise() || n->operands().size() != 2) return std::nullopt;
  const Operand p = region.parameters()[0].operand(), q = region.parameters()[1].operand();
  const bool swapped = n->operand(0) == q && n->operand(1) == p && (n->def().flags & kCommutative);
  if (!swapped && !(n->operand(0) == p && n->operand(1) == q)) return std::nullopt;
  return n->op();
}

bool is_sum_region(const Computation& region) {
  const size_t n = region.roots().size();
  if (region.parameters().size() != 2 * n) return false;
  for (size_t i = 0; i < n; ++i) {
    const Node* root = region.roots()[i].node();
    if (root->op() != Op::add) return false;
    const Operand p = region.parameters()[i].operand(), q = region.parameters()[n + i].operand();
    if (!(root->operand(0) == p && root->operand(1) == q) &&
        !(root->operand(0) == q && root->operand(1) == p))
      return false;
  }
  return true;
}

bool is_second_region(const Computation& region) {
  const size_t n = region.roots().size();
  if (region.parameters().size() != 2 * n) return false;
  for (size_t i = 0; i < n; ++i)
    if (!(region.roots()[i] == region.parameters()[n + i])) return false;
  return true;
}

ComputationPtr second_region(DType dtype) {
  const Type* t = scalar_type(dtype);
  absl::StatusOr<ComputationPtr> region =
      record_region({{t, t}}, [](Builder&, std::span<const Value> p) { return Values{p[1]}; });
  if (!region.ok()) std::abort();  // it records no op that could fail
  return *region;
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

}  // namespace lamina::hlo
