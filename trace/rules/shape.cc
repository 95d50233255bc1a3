// Derivatives, transposes and batching of graph structure and of ops that move elements to known places. All
// are linear: the tangent moves as the value does.
#include <algorithm>

#include "hlo/rules/support.h"
#include "trace/rules/support.h"

namespace lamina::trace {
namespace {

// For ops whose operands are all data.
JvpResult all_linear_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  Values operands;
  for (size_t i = 0; i < x.size(); ++i) operands.push_back(or_zeros(b, t[i], x[i]));
  return {{b.remake(node, operands)[0]}, {}};
}

// --- structure ---

JvpResult identity_jvp(Builder&, const Node&, Ops, Ops t) { return {{t[0]}, {}}; }
Values identity_transpose(Builder&, const Node&, Ops, Marks, Ops ct) { return {ct[0]}; }

BatchResult identity_batch(Builder&, const Node&, Ops x, Marks batched, int64_t) {
  return {{x[0]}, {batched[0]}};
}

BatchResult stop_gradient_batch(Builder& b, const Node&, Ops x, Marks batched, int64_t) {
  return {{b.stop_gradient(x[0])}, {batched[0]}};
}

// A barrier over those of `values` that are there, and over the operands of the node that have no tangents,
// for which they wait as what they belong to does.
Values barrier_of_present(Builder& b, const Node& node, Ops x, Ops values) {
  Values present;
  for (const Value& v : values)
    if (v) present.push_back(v);
  Values out(values.size());
  if (present.empty()) return out;
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] && !has_tangent(x[i].type())) present.push_back(x[i]);
  Values held = b.remake(node, present);
  if (!b.ok()) return out;
  size_t next = 0;
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i]) out[i] = held[next++];
  return out;
}

JvpResult barrier_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  return {barrier_of_present(b, node, x, t), {}};
}
Values barrier_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  return barrier_of_present(b, node, x, ct);
}
BatchResult barrier_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t) {
  return {b.remake(node, x), {batched.begin(), batched.end()}};
}

// --- broadcast_in_dim ---

Values broadcast_transpose(Builder& b, const Node& node, Ops, Marks, Ops ct) {
  const Type* from = node.operand_type(0);
  const Dims &dims = node.attrs().ints(Attr::broadcast_dimensions), &shape = node.type()->dims;
  Dims summed, kept;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (!contains(dims, d)) summed.push_back(d);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (from->dims[i] == shape[dims[i]])
      kept.push_back(dims[i]);
    else
      summed.push_back(dims[i]);
  }
  std::sort(summed.begin(), summed.end());
  Dims sorted = kept;
  std::sort(sorted.begin(), sorted.end());
  Dims permutation;
  for (int64_t d : kept)
    permutation.push_back(std::lower_bound(sorted.begin(), sorted.end(), d) - sorted.begin());
  return {b.reshape(b.transpose(b.reduce_sum(ct[0], summed), permutation), from->dims)};
}

BatchResult broadcast_batch(Builder& b, const Node& node, Ops x, Marks, int64_t size) {
  return all_batched({b.broadcast_in_dim(x[0], prepend(size, node.type()->dims),
                                         shifted_with_zero(node.attrs().ints(Attr::broadcast_dimensions)))});
}

// --- concatenate ---

Values concatenate_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  const int64_t d = node.attrs().integer(Attr::dimension);
  Values out(x.size());
  Dims start(node.type()->rank(), 0), limit = node.type()->dims;
  int64_t at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    start[d] = at;
    limit[d] = at += x[i].dims()[d];
    if (linear[i]) out[i] = b.slice(ct[0], start, limit);
  }
  return out;
}

BatchResult concatenate_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  return all_batched(
      {b.concatenate(all_with_batch(b, x, batched, size), node.attrs().integer(Attr::dimension) + 1)});
}

// --- pad ---

struct Padding {
  const Dims &low, &high, &inner;
  explicit Padding(const Node& n)
      : low(n.attrs().ints(Attr::edge_padding_low)),
        high(n.attrs().ints(Attr::edge_padding_high)),
        inner(n.attrs().ints(Attr::interior_padding)) {}
};

// True where an element of the result is padding.
Value padding_mask(Builder& b, const Node& node) {
  const Padding p(node);
  const Value inside = b.zeros(array_type_or_die(DType::kBool, node.operand_type(0)->dims));
  return b.pad(inside, b.scalar_int(DType::kBool, 1), p.low, p.high, p.inner);
}

Values pad_transpose(Builder& b, const Node& node, Ops, Marks linear, Ops ct) {
  const Padding p(node);
  Values out(2);
  if (linear[0]) {
    Dims low = p.low, high = p.high, step = p.inner;
    for (int64_t& v : low) v = -v;
    for (int64_t& v : high) v = -v;
    for (int64_t& v : step) ++v;
    const Value zero = b.scalar(ct[0].dtype(), 0);
    const Value cropped = b.pad(ct[0], zero, low, high);
    if (cropped) out[0] = b.slice(cropped, Dims(step.size(), 0), cropped.dims(), step);
  }
  if (linear[1]) {
    const Value in_padding = b.select(padding_mask(b, node), ct[0], b.zeros_like(ct[0]));
    out[1] = b.reduce_sum(in_padding, all_dims(node.type()->rank()));
  }
  return out;
}

BatchResult pad_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Padding p(node);
  const Value data = with_batch(b, x[0], batched[0], size);
  const Value fill = batched[1] ? b.zeros(scalar_type(x[1].dtype())) : x[1];
  Value out = b.pad(data, fill, prepend(0, p.low), prepend(0, p.high), prepend(0, p.inner));
  if (batched[1] && out) {
    const Value mask = with_batch(b, padding_mask(b, node), false, size);
    out = b.select(mask, b.broadcast_in_dim(x[1], out.dims(), {{0}}), out);
  }
  return all_batched({out});
}

// --- the rest ---

Values reshape_transpose(Builder& b, const Node& node, Ops, Marks, Ops ct) {
  return {b.reshape(ct[0], node.operand_type(0)->dims)};
}

BatchResult reshape_batch(Builder& b, const Node& node, Ops x, Marks, int64_t size) {
  return all_batched({b.reshape(x[0], prepend(size, node.type()->dims))});
}

Values reverse_transpose(Builder& b, const Node& node, Ops, Marks, Ops ct) {
  return {b.reverse(ct[0], node.attrs().ints(Attr::dimensions))};
}

BatchResult reverse_batch(Builder& b, const Node& node, Ops x, Marks, int64_t) {
  return all_batched({b.reverse(x[0], shifted(node.attrs().ints(Attr::dimensions)))});
}

Values slice_transpose(Builder& b, const Node& node, Ops, Marks, Ops ct) {
  const Dims &start = node.attrs().ints(Attr::start_indices), &step = node.attrs().ints(Attr::strides);
  const Dims &from = node.operand_type(0)->dims, &to = node.type()->dims;
  Dims high, inner;
  for (size_t i = 0; i < start.size(); ++i) {
    const int64_t taken = to[i] > 0 ? 1 + (to[i] - 1) * step[i] : 0;
    high.push_back(from[i] - start[i] - taken);
    inner.push_back(to[i] > 1 ? step[i] - 1 : 0);
  }
  return {b.pad(ct[0], b.scalar(ct[0].dtype(), 0), start, high, inner)};
}

BatchResult slice_batch(Builder& b, const Node& node, Ops x, Marks, int64_t size) {
  const Attrs& a = node.attrs();
  return all_batched(
      {b.slice(x[0], prepend(0, a.ints(Attr::start_indices)), prepend(size, a.ints(Attr::limit_indices)),
               prepend(1, a.ints(Attr::strides)))});
}

Values transpose_transpose(Builder& b, const Node& node, Ops, Marks, Ops ct) {
  const Dims& permutation = node.attrs().ints(Attr::permutation);
  Dims inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) inverse[permutation[i]] = static_cast<int64_t>(i);
  return {b.transpose(ct[0], inverse)};
}

BatchResult transpose_batch(Builder& b, const Node& node, Ops x, Marks, int64_t) {
  return all_batched({b.transpose(x[0], shifted_with_zero(node.attrs().ints(Attr::permutation)))});
}

}  // namespace

void add_shape_transforms(TransformTable& table) {
  table[Op::parameter] = {no_tangent, nullptr, never_batched};
  table[Op::leaf] = {no_tangent, nullptr, never_batched};
  table[Op::constant] = {no_tangent, nullptr, never_batched};
  table[Op::identity] = {identity_jvp, identity_transpose, identity_batch};
  table[Op::stop_gradient] = {no_tangent, nullptr, stop_gradient_batch};
  table[Op::optimization_barrier] = {barrier_jvp, barrier_transpose, barrier_batch};

  table[Op::broadcast_in_dim] = {linear_jvp, broadcast_transpose, broadcast_batch};
  table[Op::concatenate] = {all_linear_jvp, concatenate_transpose, concatenate_batch};
  table[Op::iota] = {no_tangent, nullptr, never_batched};
  table[Op::pad] = {all_linear_jvp, pad_transpose, pad_batch};
  table[Op::reshape] = {linear_jvp, reshape_transpose, reshape_batch};
  table[Op::reverse] = {linear_jvp, reverse_transpose, reverse_batch};
  table[Op::slice] = {linear_jvp, slice_transpose, slice_batch};
  table[Op::transpose] = {linear_jvp, transpose_transpose, transpose_batch};
}

}  // namespace lamina::trace
