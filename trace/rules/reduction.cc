// Derivatives, transposes and batching of reduce, reduce_window, select_and_scatter, sort and cumsum.
//
// Sums are linear. A maximum or minimum shares its tangent among the elements equal to it (as in JAX). Any
// other reduction, over any number of arrays, has the derivative of the same region applied as a tree of
// array operations; a window other than a sum that of its region folded over the window's offsets, where the
// first of equal elements wins a maximum. The primal result and its bits stay those of the op itself.
#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/rules/support.h"
#include "trace/graph_transforms.h"
#include "trace/rules/support.h"

namespace lamina::trace {
namespace {

const Computation& body_of(const Node& node) { return *node.attrs().computation(Attr::body); }

// The region on whole arrays instead of scalars: its constants spread over `dims`.
Values apply_region(Builder& b, const Computation& region, Ops arguments) {
  if (arguments.empty() || !arguments[0]) return Values(region.roots().size());
  const Dims& dims = arguments[0].dims();
  HashMap<const Node*, Values> made;
  for (size_t i = 0; i < arguments.size(); ++i) made[region.parameters()[i].node()] = {arguments[i]};
  auto get = [&](Operand o) {
    const Value& v = made.at(o.node())[o.index()];
    return v && v.rank() == 0 ? b.broadcast_scalar(v, dims) : v;
  };
  for (const Node* n : region.nodes()) {
    if (made.contains(n)) continue;
    if (!n->operands().empty() && !n->def().is_elementwise()) {
      b.fail(absl::UnimplementedError(str_cat("no derivative of a reduction whose body holds ", n->def().name,
                                              ": only elementwise bodies have one")));
      return Values(region.roots().size());
    }
    Values operands;
    for (Operand o : n->operands()) operands.push_back(get(o));
    made[n] = results_of(b, *n, operands);
    if (!b.ok()) return Values(region.roots().size());
  }
  Values roots;
  for (const Value& r : region.roots()) roots.push_back(get(r.operand()));
  return roots;
}

Values slices_of(Builder& b, Ops xs, int64_t from, int64_t to) {
  Values out;
  for (const Value& x : xs) {
    if (!x) return Values(xs.size());
    Dims start(x.rank(), 0), limit = x.dims();
    start[0] = from;
    limit[0] = to;
    out.push_back(b.slice(x, start, limit));
  }
  return out;
}

// The reduction of `node` written as halving steps over dimension 0.
Values reduce_by_tree(Builder& b, const Node& node, Ops operands) {
  const size_t m = operands.size() / 2;
  const Computation& body = body_of(node);
  const Dims& reduced = node.attrs().ints(Attr::dimensions);
  const Dims& dims = operands[0].dims();
  Dims permutation, kept_shape;
  Dims sorted = reduced;
  std::sort(sorted.begin(), sorted.end());
  int64_t n = 1;
  for (int64_t d : sorted) {
    permutation.push_back(d);
    n *= dims[d];
  }
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d)
    if (!contains(sorted, d)) {
      permutation.push_back(d);
      kept_shape.push_back(dims[d]);
    }
  Values inits, x;
  for (size_t i = 0; i < m; ++i) {
    x.push_back(b.reshape(b.transpose(operands[i], permutation), prepend(n, kept_shape)));
    inits.push_back(b.broadcast_scalar(operands[m + i], kept_shape));
  }
  if (n == 0) return inits;
  while (n > 1 && b.ok()) {
    const int64_t half = n / 2;
    Values both = slices_of(b, x, 0, half);
    for (Value& v : slices_of(b, x, half, 2 * half)) both.push_back(std::move(v));
    Values next = apply_region(b, body, both);
    if (n % 2 == 1) {
      const Values last = slices_of(b, x, n - 1, n);
      for (size_t i = 0; i < m; ++i) next[i] = b.concatenate({{next[i], last[i]}}, 0);
    }
    n = half + n % 2;
    x = std::move(next);
  }
  Values arguments;
  for (const Value& v : x) arguments.push_back(b.reshape(v, kept_shape));
  for (Value& v : inits) arguments.push_back(std::move(v));
  return apply_region(b, body, arguments);
}

// A reduced value spread over the shape it was reduced from.
Value unreduce(Builder& b, const Value& v, const Node& node) {
  const Dims &reduced = node.attrs().ints(Attr::dimensions), &shape = node.operand_type(0)->dims;
  Dims kept;
  for (int64_t d = 0; d < static_cast<int64_t>(shape.size()); ++d)
    if (!contains(reduced, d)) kept.push_back(d);
  return b.broadcast_in_dim(v, shape, kept);
}

JvpResult sum_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  Values operands, out(node.num_results());
  for (size_t i = 0; i < x.size(); ++i) operands.push_back(or_zeros(b, t[i], x[i]));
  Values results = b.remake(node, operands);
  if (!b.ok()) return {out, {}};
  for (size_t i = 0; i < out.size(); ++i)
    if (t[i] || t[out.size() + i]) out[i] = results[i];
  return {out, {}};
}

JvpResult extremum_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Dims& reduced = node.attrs().ints(Attr::dimensions);
  const Value at = b.compare(x[0], unreduce(b, result_of(b, node, x), node), "EQ");
  const Value zero = b.zeros_like(x[0]);
  const Value count = b.reduce_sum(b.select(at, b.full_like(x[0], 1), zero), reduced);
  return {{b.divide(b.reduce_sum(b.select(at, t[0], zero), reduced), count)}, {}};
}

JvpResult reduce_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Computation& body = body_of(node);
  if (is_sum_region(body)) return sum_jvp(b, node, x, t);
  const std::optional<Op> op = region_op(body);
  // An initial value with a tangent competes with the elements: that is the general case.
  if ((op == Op::maximum || op == Op::minimum) && !t[1] && is_float(x[0].dtype()))
    return extremum_jvp(b, node, x, t);
  return {tangents_through(b, x, t, [&](Builder& inner, Ops p) { return reduce_by_tree(inner, node, p); }),
          {}};
}

Values refuse_transpose(Builder& b, const Node& node) {
  b.fail(absl::InvalidArgumentError(
      str_cat("cannot transpose a ", node.def().name, " whose body is not a sum: it is not linear")));
  return Values(node.operands().size());
}

Values reduce_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (!is_sum_region(body_of(node))) return refuse_transpose(b, node);
  const size_t m = x.size() / 2;
  Values out(x.size());
  for (size_t i = 0; i < m; ++i) {
    if (!ct[i]) continue;
    if (linear[i]) out[i] = unreduce(b, ct[i], node);
    if (linear[m + i]) out[m + i] = b.reduce_sum(ct[i], all_dims(ct[i].rank()));
  }
  return out;
}

BatchResult reduce_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const size_t m = x.size() / 2;
  for (size_t i = m; i < x.size(); ++i)
    if (batched[i]) return batch_by_scan(b, node, x, batched, size);
  const Values arrays = all_with_batch(b, x.first(m), batched.first(m), size);
  return all_batched(b.reduce(arrays, x.subspan(m), node.attrs().computation(Attr::body),
                              shifted(node.attrs().ints(Attr::dimensions))));
}

// --- reduce_window ---

WindowDims window_dims(const Node& node) {
  const int64_t rank = node.operand_type(0)->rank();
  auto list = [&](Attr key, int64_t n, int64_t fill) {
    const Dims& v = node.attrs().ints(key);
    return v.empty() ? Dims(n, fill) : v;
  };
  return {node.attrs().ints(Attr::window_dimensions), list(Attr::window_strides, rank, 1),
          list(Attr::base_dilations, rank, 1), list(Attr::window_dilations, rank, 1),
          list(Attr::padding, 2 * rank, 0)};
}

WindowDims batched_window(WindowDims w) {
  for (Dims* list : {&w.dimensions, &w.strides, &w.base_dilations, &w.window_dilations})
    *list = prepend(1, *list);
  w.padding = prepend(0, prepend(0, w.padding));
  return w;
}

bool is_zero(const Dims& list) {
  return std::all_of(list.begin(), list.end(), [](int64_t v) { return v == 0; });
}

// The elements of `x` (padded with `fill`) that stand at `offset` of each window; `out` is the result's
// shape.
Value at_offset(Builder& b, const Value& x, const Value& fill, const WindowDims& w,
                std::span<const int64_t> offset, const Dims& out) {
  if (!x) return x;
  Dims low, high, inner, start, limit;
  for (size_t d = 0; d < out.size(); ++d) {
    const int64_t n = x.dims()[d], dilated = n == 0 ? 0 : (n - 1) * w.base_dilations[d] + 1;
    const int64_t first = offset[d] * w.window_dilations[d];
    const int64_t last = first + (out[d] > 0 ? (out[d] - 1) * w.strides[d] + 1 : 0);
    low.push_back(w.padding[2 * d]);
    // Windows need not reach the end of the padding.
    high.push_back(std::max(w.padding[2 * d + 1], last - dilated - w.padding[2 * d]));
    inner.push_back(n > 1 ? w.base_dilations[d] - 1 : 0);
    start.push_back(first);
    limit.push_back(last);
  }
  const bool unpadded = is_zero(low) && is_zero(high) && is_zero(inner);
  return b.slice(unpadded ? x : b.pad(x, fill, low, high, inner), start, limit, w.strides);
}

// Whether every position of every window holds an element.
bool windows_are_full(const WindowDims& w, const Dims& in, const Dims& out) {
  for (size_t d = 0; d < out.size(); ++d) {
    const int64_t last =
        out[d] == 0 ? 0 : (out[d] - 1) * w.strides[d] + (w.dimensions[d] - 1) * w.window_dilations[d] + 1;
    if (w.padding[2 * d] > 0 || w.base_dilations[d] != 1 || last - w.padding[2 * d] > in[d]) return false;
  }
  return true;
}

constexpr int64_t kMostOffsets = 4096;

// The windows of `node` written as a fold over offsets: acc = body(acc, elements at the offset). Padding
// takes no part: it holds on to acc. The initial values come last, as in the kernels: a body that is no
// commutative operation tells the difference. (Among equal ones the largest or least is the initial value.)
Values window_by_fold(Builder& b, const Node& node, Ops operands) {
  const size_t m = operands.size() / 2;
  const WindowDims w = window_dims(node);
  const Dims& shape = node.result_type(0)->dims;
  const Computation& body = body_of(node);
  const std::optional<Op> op = region_op(body);
  Values acc(node.num_results());
  if (product(w.dimensions) > kMostOffsets) {
    b.fail(absl::UnimplementedError(str_cat("no derivative of a reduce_window of ", product(w.dimensions),
                                            " elements whose body is not a sum: at most ", kMostOffsets,
                                            " are unrolled; use scan")));
    return acc;
  }
  const bool extremum = op == Op::maximum || op == Op::minimum;
  Values initial;
  for (size_t i = 0; i < m; ++i) initial.push_back(b.broadcast_scalar(operands[m + i], shape));
  acc = extremum ? initial : Values();
  const auto applied = [&](Values both, const Values& right) {
    both.insert(both.end(), right.begin(), right.end());
    return apply_region(b, body, both);
  };
  const auto chosen = [&](const Value& where, Values values, const Values& others) {
    for (size_t i = 0; i < m; ++i) values[i] = b.select(where, values[i], others[i]);
    return values;
  };
  Value started;  // where acc holds an element, if that is not everywhere
  const bool full = windows_are_full(w, operands[0].dims(), shape);
  const Value inside = b.full(array_type_or_die(DType::kBool, operands[0].dims()), 1);
  const Value outside = b.scalar_int(DType::kBool, 0);
  for_each_index(w.dimensions, [&](std::span<const int64_t> offset, int64_t) {
    if (!b.ok()) return;
    Values element;
    for (size_t i = 0; i < m; ++i)
      element.push_back(at_offset(b, operands[i], operands[m + i], w, offset, shape));
    const Value present = full ? Value() : at_offset(b, inside, outside, w, offset, shape);
    if (acc.empty()) {
      acc = std::move(element);
      started = present;
      return;
    }
    Values next = extremum ? Values{b.select(b.compare(acc[0], element[0], op == Op::maximum ? "GE" : "LE"),
                                             acc[0], element[0])}
                           : applied(acc, element);
    if (started) {
      next = chosen(started, std::move(next), element);
      started = b.make(Op::or_, {{started, present}});
    }
    acc = full ? std::move(next) : chosen(present, std::move(next), acc);
  });
  if (!b.ok()) return Values(node.num_results());
  if (extremum) return acc;
  if (acc.empty()) return initial;  // windows of no elements
  Values out = applied(acc, initial);
  return started ? chosen(started, std::move(out), initial) : out;
}

JvpResult window_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (is_sum_region(body_of(node))) return sum_jvp(b, node, x, t);
  return {tangents_through(b, x, t, [&](Builder& inner, Ops p) { return window_by_fold(inner, node, p); }),
          {}};
}

Values window_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (!is_sum_region(body_of(node))) return refuse_transpose(b, node);
  const size_t m = x.size() / 2;
  const WindowDims w = window_dims(node);
  const Dims &from = node.operand_type(0)->dims, &to = node.result_type(0)->dims;
  Dims low, high, inner;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t in = from[d] == 0 ? 0 : (from[d] - 1) * w.base_dilations[d] + 1;
    const int64_t window = (w.dimensions[d] - 1) * w.window_dilations[d] + 1;
    const int64_t result = to[d] == 0 ? 0 : (to[d] - 1) * w.strides[d] + 1;
    const int64_t before = window - w.padding[2 * d] - 1;
    low.push_back(before);
    high.push_back(in + window - 1 - result - before);
    inner.push_back(to[d] > 1 ? w.strides[d] - 1 : 0);
  }
  const int64_t rank = static_cast<int64_t>(from.size());
  const WindowDims back{w.dimensions, w.base_dilations, Dims(rank, 1), w.window_dilations, Dims(2 * rank, 0)};
  Values out(x.size());
  for (size_t i = 0; i < m; ++i) {
    if (!ct[i]) continue;
    const Value zero = b.scalar(ct[i].dtype(), 0);
    if (linear[i]) {
      if (node.operand_type(i)->num_elements == 0) {
        out[i] = b.zeros(node.operand_type(i));
      } else {
        const Value padded = b.pad(ct[i], zero, low, high, inner);
        if (padded)
          out[i] = b.reduce_window({{padded}}, {{zero}}, binary_region(Op::add, zero.dtype()), back)[0];
      }
    }
    if (linear[m + i]) out[m + i] = b.reduce_sum(ct[i], all_dims(rank));
  }
  return out;
}

BatchResult window_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const size_t m = x.size() / 2;
  for (size_t i = m; i < x.size(); ++i)
    if (batched[i]) return batch_by_scan(b, node, x, batched, size);
  const Values arrays = all_with_batch(b, x.first(m), batched.first(m), size);
  return all_batched(b.reduce_window(arrays, x.subspan(m), node.attrs().computation(Attr::body),
                                     batched_window(window_dims(node))));
}

// --- select_and_scatter ---

// Where each window's chosen element stands: flat indices into the operand (the operand's size where a window
// holds nothing but padding).
Value chosen_elements(Builder& b, const Node& node, const Value& operand) {
  const WindowDims w = window_dims(node);
  const Dims& shape = node.operand_type(1)->dims;
  if (product(w.dimensions) > kMostOffsets) {
    b.fail(absl::UnimplementedError(str_cat("no derivative of a select_and_scatter with windows of ",
                                            product(w.dimensions), " elements: at most ", kMostOffsets,
                                            " are unrolled")));
    return Value();
  }
  const int64_t n = operand.type()->num_elements;
  const Value none = b.scalar_int(DType::kS64, n), zero = b.scalar(operand.dtype(), 0);
  const Value index = b.reshape(b.iota(DType::kS64, {{n}}, 0), operand.dims());
  Value best = b.broadcast_scalar(zero, shape), at = b.broadcast_scalar(none, shape);
  const Value nowhere = at;
  for_each_index(w.dimensions, [&](std::span<const int64_t> offset, int64_t) {
    if (!b.ok()) return;
    const Value element = at_offset(b, operand, zero, w, offset, shape);
    const Value here = at_offset(b, index, none, w, offset, shape);
    const Value keep = apply_region(b, *node.attrs().computation(Attr::select), {{best, element}})[0];
    const Value first = b.compare(at, nowhere, "EQ");
    const Value take = b.and_(b.compare(here, nowhere, "NE"), b.or_(first, b.not_(keep)));
    best = b.select(take, element, best);
    at = b.select(take, here, at);
  });
  return at;
}

JvpResult select_and_scatter_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (region_op(*node.attrs().computation(Attr::scatter)) != Op::add) {
    b.fail(absl::UnimplementedError("no derivative of a select_and_scatter whose scatter is not a sum"));
    return {Values(1), {}};
  }
  // The operand only chooses; its tangent plays no part.
  if (!t[1] && !t[2]) return {Values(1), {}};
  return {{b.remake(node, {{x[0], or_zeros(b, t[1], x[1]), or_zeros(b, t[2], x[2])}})[0]}, {}};
}

Values select_and_scatter_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  Values out(3);
  if (linear[0] || region_op(*node.attrs().computation(Attr::scatter)) != Op::add) {
    b.fail(absl::InvalidArgumentError("cannot transpose a select_and_scatter that is not linear"));
    return out;
  }
  if (linear[2]) out[2] = b.reduce_sum(ct[0], all_dims(ct[0].rank()));
  if (!linear[1]) return out;
  const Value at = chosen_elements(b, node, x[0]);
  if (!at) return out;
  const int64_t n = x[0].type()->num_elements;
  // One zero at the end, for windows that chose nothing.
  const Value flat = b.pad(b.reshape(ct[0], {{n}}), b.scalar(ct[0].dtype(), 0), {{0}}, {{1}});
  out[1] = b.make(Op::gather, {{flat, at}},
                  intern_attrs({{Attr::collapsed_slice_dims, Dims{0}},
                                {Attr::start_index_map, Dims{0}},
                                {Attr::index_vector_dim, at.rank()},
                                {Attr::slice_sizes, Dims{1}}}));
  return out;
}

BatchResult select_and_scatter_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (batched[2]) return batch_by_scan(b, node, x, batched, size);
  const WindowDims w = batched_window(window_dims(node));
  const Value operand = with_batch(b, x[0], batched[0], size), source = with_batch(b, x[1], batched[1], size);
  return all_batched({b.make(Op::select_and_scatter, {{operand, source, x[2]}},
                             intern_attrs({{Attr::window_dimensions, w.dimensions},
                                           {Attr::window_strides, w.strides},
                                           {Attr::padding, w.padding},
                                           {Attr::select, node.attrs().computation(Attr::select)},
                                           {Attr::scatter, node.attrs().computation(Attr::scatter)}}))});
}

// --- sort ---

// The tangents take the places that a further array of positions was sorted to.
JvpResult sort_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  // Without elements there is no place to take a tangent from, and gather refuses to.
  const Dims& dims = x[0].dims();
  if (std::find(dims.begin(), dims.end(), 0) != dims.end())
    return {Values(t.begin(), t.end()), b.make_multi(Op::sort, x, &node.attrs())};
  const int64_t d = node.attrs().integer(Attr::dimension), rank = x[0].rank();
  const Computation& before = body_of(node);
  std::vector<const Type*> types = before.parameter_types();
  types.push_back(scalar_type(DType::kS64));
  types.push_back(scalar_type(DType::kS64));
  absl::StatusOr<ComputationPtr> comparator = record_region(
      types, [&](Builder& inner, Ops p) { return inline_computation(inner, before, p.first(p.size() - 2)); });
  if (!comparator.ok()) {
    b.fail(comparator.status());
    return {Values(x.size()), {}};
  }
  Values operands(x.begin(), x.end());
  operands.push_back(b.iota(DType::kS64, x[0].dims(), d));
  Values primals = b.make_multi(Op::sort, operands, with_attr(node.attrs(), Attr::body, *comparator));
  if (!b.ok()) return {Values(x.size()), {}};
  const Value place = b.reshape(primals.back(), [&] {
    Dims index = dims;
    index.push_back(1);
    return index;
  }());
  primals.pop_back();
  Dims others;
  for (int64_t k = 0; k < rank; ++k)
    if (k != d) others.push_back(k);
  const Attrs* take = intern_attrs({{Attr::collapsed_slice_dims, Dims{d}},
                                    {Attr::operand_batching_dims, others},
                                    {Attr::start_indices_batching_dims, others},
                                    {Attr::start_index_map, Dims{d}},
                                    {Attr::index_vector_dim, rank},
                                    {Attr::slice_sizes, Dims(rank, 1)}});
  Values tangents(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    if (t[i]) tangents[i] = b.make(Op::gather, {{t[i], place}}, take);
  return {tangents, primals};
}

BatchResult sort_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  return all_batched(
      b.make_multi(Op::sort, all_with_batch(b, x, batched, size),
                   with_attr(node.attrs(), Attr::dimension, node.attrs().integer(Attr::dimension) + 1)));
}

// --- cumsum ---

// An element is in its own sum and in those behind it.
Values cumsum_transpose(Builder& b, const Node& node, Ops, Marks, Ops ct) {
  return {b.cumsum(ct[0], node.attrs().integer(Attr::dimension), !node.attrs().flag(Attr::reverse))};
}

BatchResult cumsum_batch(Builder& b, const Node& node, Ops x, Marks, int64_t) {
  return all_batched(
      {b.cumsum(x[0], node.attrs().integer(Attr::dimension) + 1, node.attrs().flag(Attr::reverse))});
}

}  // namespace

void add_reduction_transforms(TransformTable& table) {
  table[Op::reduce] = {reduce_jvp, reduce_transpose, reduce_batch};
  table[Op::reduce_window] = {window_jvp, window_transpose, window_batch};
  table[Op::select_and_scatter] = {select_and_scatter_jvp, select_and_scatter_transpose,
                                   select_and_scatter_batch};
  table[Op::sort] = {sort_jvp, nullptr, sort_batch};
  table[Op::cumsum] = {linear_jvp, cumsum_transpose, cumsum_batch};
}

}  // namespace lamina::trace
