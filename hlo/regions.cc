#include "hlo/regions.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "hlo/narrow.h"
#include "hlo/op.h"

namespace lamina::hlo {

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

bool is_plain_call(const Node& n) {
  return n.op() == Op::call && !n.attrs().has(Attr::rule) && !n.attrs().has(Attr::instance) &&
         !n.attrs().has(Attr::direction);
}

bool is_composite(const Node& n) { return n.op() == Op::call && n.attrs().has(Attr::call_target_name); }

std::optional<size_t> position_of(std::span<const Value> values, Operand o) {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].operand() == o) return i;
  return std::nullopt;
}

absl::StatusOr<ComputationPtr> with_parameters(const Computation& c, std::span<const Type* const> more) {
  Values parameters(c.parameters().begin(), c.parameters().end());
  for (const Type* t : more) parameters.push_back(make_parameter(t));
  return Computation::make(parameters, c.roots());
}

const Attrs* with_regions(const Attrs& attrs,
                          const std::function<ComputationPtr(const Computation&)>& other) {
  std::vector<Attrs::Entry> entries = attrs.entries();
  bool changed = false;
  const auto replace = [&](ComputationPtr& c) {
    ComputationPtr made = other(*c);
    if (!made) return;
    c = std::move(made);
    changed = true;
  };
  for (auto& [key, value] : entries) {
    if (auto* one = std::get_if<ComputationPtr>(&value)) replace(*one);
    if (auto* many = std::get_if<std::vector<ComputationPtr>>(&value))
      for (ComputationPtr& c : *many) replace(c);
  }
  return changed ? intern_attrs(std::move(entries)) : &attrs;
}

bool has_one_index_vector(const Node& scatter, const Dims& batch) {
  const Dims& indices = scatter.operand_type(scatter.operands().size() / 2)->dims;
  const int64_t vector_dim = scatter.attrs().integer(Attr::index_vector_dim);
  for (size_t i = 0; i < indices.size(); ++i) {
    const auto d = static_cast<int64_t>(i);
    if (d != vector_dim && indices[i] != 1 && std::find(batch.begin(), batch.end(), d) == batch.end())
      return false;
  }
  return true;
}

bool is_loop_op(Op op) { return op == Op::while_ || op == Op::scan; }

size_t num_carried(const Node& loop) {
  return loop.op() == Op::scan ? static_cast<size_t>(loop.attrs().integer(Attr::num_carry))
                               : loop.operands().size();
}

}  // namespace lamina::hlo
