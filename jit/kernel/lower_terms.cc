// What steps of loops hold besides maps: small products and reductions, written out in the orders of the
// numerics contract, and windows of arrays.
#include <algorithm>
#include <array>

#include "hlo/builder.h"
#include "hlo/known_limit.h"
#include "hlo/op.h"
#include "hlo/regions.h"
#include "hlo/scalar/adapters.h"
#include "jit/kernel/lower_element.h"

namespace lamina::jit {

using hlo::Attr;

std::vector<uint32_t> ElementLowering::product(const Node& n, int64_t terms, const Index& index,
                                               uint32_t predicate) {
  const hlo::Attrs& a = n.attrs();
  size_t free = a.ints(Attr::lhs_batching_dimensions).size();
  const Dims& summed = a.ints(Attr::lhs_contracting_dimensions);
  Index in[2];
  Dims along[2];  // of each operand: the summed dimensions
  for (int side = 0; side < 2; ++side) {
    const Dims& batching = a.ints(side ? Attr::rhs_batching_dimensions : Attr::lhs_batching_dimensions);
    along[side] = a.ints(side ? Attr::rhs_contracting_dimensions : Attr::lhs_contracting_dimensions);
    for (int64_t d = 0; d < n.operand_type(side)->rank(); ++d) {
      const auto batch = std::find(batching.begin(), batching.end(), d);
      const bool sums = std::find(along[side].begin(), along[side].end(), d) != along[side].end();
      in[side].push_back(sums                      ? DimIndex{}
                         : batch != batching.end() ? index[batch - batching.begin()]
                                                   : index[free++]);
    }
  }
  Dims sizes;
  for (int64_t d : summed) sizes.push_back(n.operand_type(0)->dims[d]);
  const Dims strides = hlo::row_major_strides(sizes);
  const DType type = n.type()->dtype;
  uint32_t sum = kNone;
  for (int64_t k = 0; k < terms; ++k) {
    uint32_t factor[2];
    for (int side = 0; side < 2; ++side) {
      for (size_t d = 0; d < sizes.size(); ++d) in[side][along[side][d]].offset = k / strides[d] % sizes[d];
      factor[side] = emit(n.operand(side), in[side], predicate)[0];
    }
    if (sum != kNone && !hlo::is_integer(type)) {
      sum = prim(Prim::fma, type, {factor[0], factor[1], sum});
      continue;
    }
    const uint32_t term = prim(Prim::mul, type, {factor[0], factor[1]});
    sum = sum == kNone ? term : prim(Prim::add, type, {sum, term});
  }
  return {sum};
}

bool ElementLowering::ascends(const std::vector<std::vector<uint32_t>>& pairs) const {
  int64_t last = -1;
  for (const std::vector<uint32_t>& pair : pairs) {
    const std::optional<int64_t> at = known_number(pair[kChosenPosition]);
    if (!at || *at <= last) return false;
    last = *at;
  }
  return true;
}

std::vector<uint32_t> ElementLowering::better(Choice choice, const std::vector<uint32_t>& before,
                                              const std::vector<uint32_t>& next) {
  const uint32_t a = before[0], b = next[0];
  uint32_t wins = kNone;
  if (hlo::is_float(type_of(a))) {
    // Not less or equal, which a NaN is not; and none comes after a NaN.
    const uint32_t within = prim(Prim::le, DType::kBool, {choice.largest ? b : a, choice.largest ? a : b});
    wins = both(prim(Prim::bit_not, DType::kBool, {within}), prim(Prim::eq, DType::kBool, {a, a}));
  } else {
    wins = choice.largest ? less(a, b) : less(b, a);
  }
  return select(wins, next, before);
}

bool ElementLowering::never_wins(Choice choice, const Value& init, uint32_t position, uint32_t first) const {
  const Node& n = *init.node();
  if (n.op() != hlo::Op::constant) return false;
  hlo::Builder b;
  const Value last = hlo::extreme(b, init.dtype(), !choice.largest);
  const std::optional<int64_t> at = known_number(position);
  return *n.attrs().literal(Attr::value) == *last.node()->attrs().literal(Attr::value) && at &&
         *at >= known_number(first);
}

std::vector<uint32_t> ElementLowering::reduced(Operand o, int64_t count, const Index& index,
                                               uint32_t predicate) {
  const Node& n = *o.node();
  const size_t arrays = n.operands().size() / 2;
  const Dims &dims = n.operand_type(0)->dims, &over = n.attrs().ints(Attr::dimensions);
  const hlo::ScalarProgram program = *hlo::region_program(*n.attrs().computation(Attr::body));
  std::vector<std::vector<uint32_t>> lanes;
  for (int64_t e = 0; e < count; ++e) {
    Index in(dims.size());
    int64_t left = e;
    size_t kept = index.size();
    for (size_t d = dims.size(); d-- > 0;) {
      if (std::find(over.begin(), over.end(), static_cast<int64_t>(d)) == over.end()) {
        in[d] = index[--kept];
        continue;
      }
      in[d].offset = left % dims[d];
      left /= dims[d];
    }
    lanes.emplace_back();
    for (size_t i = 0; i < arrays; ++i)
      for (uint32_t part : emit(n.operand(i), in, predicate)) lanes.back().push_back(part);
  }
  const auto combine = [&](std::vector<uint32_t> a, const std::vector<uint32_t>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return apply(program, std::move(a));
  };
  std::vector<uint32_t> init;
  for (size_t i = 0; i < arrays; ++i)
    for (uint32_t part : emit(n.operand(arrays + i), {}, predicate)) init.push_back(part);
  const auto result = [&](const std::vector<uint32_t>& all) {
    auto first = all.begin();
    for (uint32_t r = 0; r < o.index(); ++r) first += hlo::num_parts(n.result_type(r)->dtype);
    return std::vector<uint32_t>(first, first + hlo::num_parts(n.result_type(o.index())->dtype));
  };
  if (const std::optional<Choice> choice = choice_of(program); choice && ascends(lanes)) {
    const uint32_t first = lanes[0][kChosenPosition];
    for (int64_t e = 1; e < count; ++e) lanes[0] = better(*choice, lanes[0], lanes[e]);
    return result(never_wins(*choice, Value(n.operand(arrays)), init[kChosenPosition], first)
                      ? lanes[0]
                      : combine(lanes[0], init));
  }
  // There are more lanes than elements.
  for (int64_t step = kReduceLaneBytes / 2; step > 0; step /= 2)
    for (int64_t j = 0; j < std::min(step, count - step); ++j) lanes[j] = combine(lanes[j], lanes[j + step]);
  return result(combine(lanes[0], init));
}

uint32_t ElementLowering::below(uint32_t value, int64_t limit) {
  // One unsigned comparison tests both ends.
  return prim(
      Prim::lt, DType::kBool,
      {prim(Prim::bitcast, DType::kU64, {value}), prim(Prim::bitcast, DType::kU64, {argument(limit)})});
}

DimIndex ElementLowering::start(Operand o, const Index& element, bool clamped, int64_t last) {
  if (clamped && last == 0) return {};
  const hlo::Type& type = *o.node()->result_type(o.index());
  if (o.node()->op() == hlo::Op::constant) {
    const int64_t at =
        o.node()->attrs().literal(Attr::value)->int_at(linear(type.dims, element, 1, 0).offset);
    return {.offset = clamped ? std::clamp<int64_t>(at, 0, last) : at, .terms = {}};
  }
  uint32_t at =
      apply(hlo::scalar::record_rule(hlo::scalar::convert_rule, std::array{type.dtype}, DType::kS64),
            emit(o, element, kNone))[0];
  const int64_t limit = hlo::known_limit(Value(o));
  if (clamped && (limit == 0 || limit > last + 1)) {
    const uint32_t zero = argument(0), most = argument(last);
    at = prim(Prim::select, DType::kS64, {prim(Prim::lt, DType::kBool, {at, zero}), zero, at});
    at = prim(Prim::select, DType::kS64, {prim(Prim::lt, DType::kBool, {most, at}), most, at});
  }
  return computed(at);
}

std::optional<ElementLowering::Window> ElementLowering::window(const Node& n) {
  std::optional<cluster::WindowUpdate> u = cluster::window_update(n);
  if (!u) return std::nullopt;
  Window out{*std::move(u), {}};
  for (size_t d = 0; d < out.update.starts.size(); ++d) {
    Index element;
    for (int64_t e : out.update.start_element[d]) element.push_back({.offset = e, .terms = {}});
    out.start.push_back(out.update.starts[d].node() ? start(out.update.starts[d], element, out.update.clamped,
                                                            n.type()->dims[d] - out.update.sizes[d])
                                                    : DimIndex{});
  }
  return out;
}

std::vector<uint32_t> ElementLowering::combined(const cluster::WindowUpdate& u, std::vector<uint32_t> old,
                                                const std::vector<uint32_t>& update) {
  if (!u.combine) return update;
  old.insert(old.end(), update.begin(), update.end());
  return apply(*hlo::region_program(*u.combine), std::move(old));
}

std::vector<uint32_t> ElementLowering::read_updated(const Node& n, const Window& w, const Index& index,
                                                    uint32_t predicate) {
  const Dims& dims = n.type()->dims;
  Index from = within(w.update);
  uint32_t inside = kNone;
  bool anywhere = false;  // the update is read at a computed position, which may lie outside
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t size = w.update.sizes[d];
    DimIndex at = index[d];
    if (is_known(index[d]) && is_known(w.start[d])) {
      at.offset -= w.start[d].offset;
      if (at.offset < 0 || at.offset >= size) return emit(n.operand(0), index, predicate);
    } else if (!is_known(w.start[d]) || size != dims[d]) {
      at = computed(prim(Prim::sub, DType::kS64, {index_value(index[d]), index_value(w.start[d])}));
      inside = both(inside, below(at.value, size));
      anywhere = anywhere || (w.update.from[d] >= 0 && size > 1);
    }
    if (w.update.from[d] >= 0 && size > 1) from[w.update.from[d]] = at;
  }
  std::vector<uint32_t> old;
  if (inside != kNone || w.update.combine) old = emit(n.operand(0), index, predicate);
  const std::vector<uint32_t> now =
      combined(w.update, old, emit(w.update.update, from, anywhere ? both(predicate, inside) : predicate));
  return inside == kNone ? now : select(inside, now, old);
}

std::vector<uint32_t> ElementLowering::sliced(const Node& n, const Index& index, uint32_t predicate) {
  Index in = index;
  for (size_t d = 0; d < in.size(); ++d)
    in[d] = plus(in[d], start(n.operand(d + 1), {}, true, n.operand_type(0)->dims[d] - n.type()->dims[d]));
  return emit(n.operand(0), in, predicate);
}

}  // namespace lamina::jit
