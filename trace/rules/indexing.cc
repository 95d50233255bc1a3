// Derivatives, transposes and batching of the ops that move elements by run-time indices.
//
// Slices and gathers clamp their start indices, scatters skip elements that fall outside; a transpose
// therefore clamps the indices of the scatter it makes, and masks the gather it makes. Scatters apply updates
// in order, so one whose body returns the update has definite winners and is linear too.
#include <algorithm>

#include "hlo/rules/support.h"
#include "trace/rules/support.h"

namespace lamina::trace {
namespace {

// The largest value of an integer type, as far as int64 goes.
int64_t largest(DType t) {
  const int bits = bit_width(t) - (is_signed(t) ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

// A scalar index clamped to [0, limit], as s64.
Value clamp_index(Builder& b, const Value& index, int64_t limit) {
  if (!index) return index;
  const DType t = index.dtype();
  const Value high = b.broadcast_scalar(b.scalar_int(t, std::min(limit, largest(t))), index.dims());
  return b.convert(b.make(Op::clamp, {{b.zeros_like(index), index, high}}), DType::kS64);
}

// --- dynamic_slice ---

JvpResult dynamic_slice_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (!t[0]) return {Values(1), {}};
  Values operands(x.begin(), x.end());
  operands[0] = t[0];
  return {{b.remake(node, operands)[0]}, {}};
}

Values dynamic_slice_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  Values out(x.size());
  out[0] = b.dynamic_update_slice(b.zeros(node.operand_type(0)), ct[0], x.subspan(1));
  return out;
}

// Start indices as a [size, rank] array of clamped s64; sizes are those of the slice.
Value batched_starts(Builder& b, Ops starts, Marks batched, int64_t size, const Dims& dims,
                     const Dims& sizes) {
  Values columns;
  for (size_t i = 0; i < starts.size(); ++i) {
    const Value at = with_batch(b, clamp_index(b, starts[i], dims[i] - sizes[i]), batched[i], size);
    columns.push_back(b.reshape(at, {{size, 1}}));
  }
  return b.concatenate(columns, 1);
}

// The result of no lanes, into which a slice size of 1 does not fit.
BatchResult no_lanes(Builder& b, const Type* lane) {
  return all_batched({b.zeros(array_type_or_die(lane->dtype, prepend(0, lane->dims)))});
}

bool any_of(Marks marks) { return std::find(marks.begin(), marks.end(), true) != marks.end(); }

BatchResult dynamic_slice_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Dims &sizes = node.type()->dims, &dims = node.operand_type(0)->dims;
  const int64_t rank = static_cast<int64_t>(sizes.size());
  if (!any_of(batched.subspan(1))) {
    Values starts{b.scalar_int(rank > 0 ? x[1].dtype() : DType::kS32, 0)};
    starts.insert(starts.end(), x.begin() + 1, x.end());
    return all_batched({b.dynamic_slice(x[0], starts, prepend(size, sizes))});
  }
  if (size == 0 && batched[0]) return no_lanes(b, node.type());
  const Value starts = batched_starts(b, x.subspan(1), batched.subspan(1), size, dims, sizes);
  std::vector<Attrs::Entry> a{{Attr::offset_dims, shifted(all_dims(rank))},
                              {Attr::index_vector_dim, int64_t{1}}};
  if (batched[0]) {
    a.insert(a.end(), {{Attr::operand_batching_dims, Dims{0}},
                       {Attr::start_indices_batching_dims, Dims{0}},
                       {Attr::start_index_map, shifted(all_dims(rank))},
                       {Attr::slice_sizes, prepend(1, sizes)}});
  } else {
    a.insert(a.end(), {{Attr::start_index_map, all_dims(rank)}, {Attr::slice_sizes, sizes}});
  }
  return all_batched({b.make(Op::gather, {{x[0], starts}}, intern_attrs(std::move(a)))});
}

// --- dynamic_update_slice ---

JvpResult dynamic_update_slice_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  Values operands(x.begin(), x.end());
  operands[0] = or_zeros(b, t[0], x[0]);
  operands[1] = or_zeros(b, t[1], x[1]);
  return {{b.remake(node, operands)[0]}, {}};
}

Values dynamic_update_slice_transpose(Builder& b, const Node&, Ops x, Marks linear, Ops ct) {
  Values out(x.size());
  const Ops starts = x.subspan(2);
  if (linear[0]) out[0] = b.dynamic_update_slice(ct[0], b.zeros_like(x[1]), starts);
  if (linear[1]) out[1] = b.dynamic_slice(ct[0], starts, x[1].dims());
  return out;
}

BatchResult dynamic_update_slice_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Dims &dims = node.operand_type(0)->dims, &sizes = node.operand_type(1)->dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  const Value operand = with_batch(b, x[0], batched[0], size), update = with_batch(b, x[1], batched[1], size);
  if (!any_of(batched.subspan(2))) {
    Values starts{b.scalar_int(rank > 0 ? x[2].dtype() : DType::kS32, 0)};
    starts.insert(starts.end(), x.begin() + 2, x.end());
    return all_batched({b.dynamic_update_slice(operand, update, starts)});
  }
  const Value starts = batched_starts(b, x.subspan(2), batched.subspan(2), size, dims, sizes);
  const Attrs* a = intern_attrs({{Attr::update_window_dims, shifted(all_dims(rank))},
                                 {Attr::input_batching_dims, Dims{0}},
                                 {Attr::scatter_indices_batching_dims, Dims{0}},
                                 {Attr::scatter_dims_to_operand_dims, shifted(all_dims(rank))},
                                 {Attr::index_vector_dim, int64_t{1}},
                                 {Attr::unique_indices, true},
                                 {Attr::body, second_region(x[0].dtype())}});
  return all_batched({b.make(Op::scatter, {{operand, starts, update}}, a)});
}

// --- gather ---

// Limits of the entries of index vectors, spread over the shape of `indices`.
Value index_limits(Builder& b, const Value& indices, int64_t vector_dim, const Dims& limits) {
  const DType t = indices.dtype();
  Values entries;
  for (int64_t l : limits) entries.push_back(b.reshape(b.scalar_int(t, std::min(l, largest(t))), {{1}}));
  if (entries.empty()) return b.zeros_like(indices);
  const Value line = b.concatenate(entries, 0);
  if (vector_dim == indices.rank()) return b.broadcast_scalar(b.reshape(line, {}), indices.dims());
  return b.broadcast_in_dim(line, indices.dims(), {{vector_dim}});
}

// Start indices of a gather that all fit.
Value clamped_starts(Builder& b, const Node& gather, const Value& indices) {
  const Attrs& a = gather.attrs();
  Dims limits;
  for (int64_t d : a.ints(Attr::start_index_map))
    limits.push_back(gather.operand_type(0)->dims[d] - a.ints(Attr::slice_sizes)[d]);
  const Value high = index_limits(b, indices, a.integer(Attr::index_vector_dim), limits);
  return b.make(Op::clamp, {{b.zeros_like(indices), indices, high}});
}

JvpResult gather_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  return {{t[0] ? b.remake(node, {{t[0], x[1]}})[0] : Value()}, {}};
}

Values gather_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  const Attrs& a = node.attrs();
  // Before the attributes, which live only until others have been made.
  const Value zeros = b.zeros(node.operand_type(0)), starts = clamped_starts(b, node, x[1]);
  const Attrs* to =
      intern_attrs({{Attr::update_window_dims, a.ints(Attr::offset_dims)},
                    {Attr::inserted_window_dims, a.ints(Attr::collapsed_slice_dims)},
                    {Attr::input_batching_dims, a.ints(Attr::operand_batching_dims)},
                    {Attr::scatter_indices_batching_dims, a.ints(Attr::start_indices_batching_dims)},
                    {Attr::scatter_dims_to_operand_dims, a.ints(Attr::start_index_map)},
                    {Attr::index_vector_dim, a.integer(Attr::index_vector_dim)},
                    {Attr::indices_are_sorted, a.flag(Attr::indices_are_sorted)},
                    {Attr::body, binary_region(Op::add, ct[0].dtype())}});
  return {b.make(Op::scatter, {{zeros, starts, ct[0]}}, to), Value()};
}

BatchResult gather_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Attrs& a = node.attrs();
  Dims offset = shifted(a.ints(Attr::offset_dims)), sizes = a.ints(Attr::slice_sizes);
  Dims collapsed = a.ints(Attr::collapsed_slice_dims), batching = a.ints(Attr::operand_batching_dims);
  Dims index_batching = a.ints(Attr::start_indices_batching_dims), map = a.ints(Attr::start_index_map);
  int64_t vector_dim = a.integer(Attr::index_vector_dim);
  if (size == 0 && batched[0] && batched[1]) return no_lanes(b, node.type());
  if (batched[0]) {
    collapsed = shifted(collapsed);
    map = shifted(map);
    batching = batched[1] ? shifted_with_zero(batching) : shifted(batching);
    sizes = prepend(batched[1] ? 1 : size, sizes);
  }
  if (batched[1]) {
    index_batching = batched[0] ? shifted_with_zero(index_batching) : shifted(index_batching);
    ++vector_dim;
  } else {
    // The batch is a window dimension.
    offset = prepend(0, offset);
  }
  return all_batched({b.make(Op::gather, x,
                             intern_attrs({{Attr::offset_dims, offset},
                                           {Attr::collapsed_slice_dims, collapsed},
                                           {Attr::operand_batching_dims, batching},
                                           {Attr::start_indices_batching_dims, index_batching},
                                           {Attr::start_index_map, map},
                                           {Attr::index_vector_dim, vector_dim},
                                           {Attr::slice_sizes, sizes}}))});
}

// --- scatter: (operands..., indices, updates...) ---

enum class ScatterKind { kAdd, kSet, kMultiply, kExtremum, kOther };

ScatterKind kind_of(const Node& node) {
  const Computation& body = *node.attrs().computation(Attr::body);
  if (is_sum_region(body)) return ScatterKind::kAdd;
  if (is_second_region(body)) return ScatterKind::kSet;
  const std::optional<Op> op = region_op(body);
  if (op == Op::multiply) return ScatterKind::kMultiply;
  if (op == Op::maximum || op == Op::minimum) return ScatterKind::kExtremum;
  return ScatterKind::kOther;
}

absl::Status not_linear(const Node& node) {
  return absl::UnimplementedError(str_cat("no derivative of a scatter into ", to_string(*node.result_type(0)),
                                          " whose body is neither a sum, product, minimum or maximum nor the "
                                          "update itself; use a gather"));
}

Value scatter_add(Builder& b, const Node& node, const Value& operand, const Value& indices,
                  const Value& updates) {
  const Attrs* add = with_attr(node.attrs(), Attr::body, binary_region(Op::add, operand.dtype()));
  return b.make(Op::scatter, {{operand, indices, updates}}, add);
}

Value read_windows(Builder& b, const Node& node, const Value& operand, const Value& indices);

// Among those that are the extremum of an element, the operand's own among them, the tangents' mean.
JvpResult scatter_extremum_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const Value extremum = result_of(b, node, x);
  if (!extremum) return {Values(1), {}};
  const Value operand_is = b.compare(x[0], extremum, "EQ");
  const Value update_is = b.compare(x[2], read_windows(b, node, extremum, x[1]), "EQ");
  const Value count =
      scatter_add(b, node, b.convert(operand_is, x[0].dtype()), x[1], b.convert(update_is, x[0].dtype()));
  const Value of_operand = t[0] ? b.select(operand_is, t[0], b.zeros_like(t[0])) : b.zeros_like(x[0]);
  const Value of_updates = t[2] ? b.select(update_is, t[2], b.zeros_like(t[2])) : b.zeros_like(x[2]);
  return {{b.divide(scatter_add(b, node, of_operand, x[1], of_updates), count)}, {}};
}

// Whether no element is written twice: it is said, or each array of a batch gets one window.
bool writes_once(const Node& scatter) {
  const Attrs& a = scatter.attrs();
  const Dims& batch = a.ints(Attr::scatter_indices_batching_dims);
  return a.flag(Attr::unique_indices) || has_one_index_vector(scatter, batch);
}

JvpResult scatter_product_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  Value out;
  if (t[0]) out = b.multiply(t[0], b.remake(node, {{b.full_like(x[0], 1), x[1], x[2]}})[0]);
  if (!t[2] || !b.ok()) return {{out}, {}};
  if (!writes_once(node)) {
    b.fail(absl::UnimplementedError(
        str_cat("the derivative of a product scattered into ", to_string(*node.result_type(0)),
                " by its factors needs unique_indices=True, each element multiplied once at most")));
    return {{out}, {}};
  }
  const Value of_updates = b.multiply(t[2], read_windows(b, node, x[0], x[1]));
  return {{scatter_add(b, node, out ? out : b.zeros_like(x[0]), x[1], of_updates)}, {}};
}

JvpResult scatter_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  const size_t m = x.size() / 2;
  Values operands(x.begin(), x.end()), out(m);
  const ScatterKind kind = kind_of(node);
  if (kind == ScatterKind::kExtremum) return scatter_extremum_jvp(b, node, x, t);
  if (kind == ScatterKind::kMultiply) return scatter_product_jvp(b, node, x, t);
  if (kind == ScatterKind::kOther) {
    b.fail(not_linear(node));
    return {out, {}};
  }
  for (size_t i = 0; i < x.size(); ++i)
    if (i != m) operands[i] = or_zeros(b, t[i], x[i]);
  Values results = b.remake(node, operands);
  if (!b.ok()) return {out, {}};
  for (size_t i = 0; i < m; ++i)
    if (t[i] || t[m + 1 + i]) out[i] = results[i];
  return {out, {}};
}

// Sizes of the update windows per operand dimension (1 where there is none).
Dims window_sizes(const Node& node) {
  const Attrs& a = node.attrs();
  const size_t m = node.operands().size() / 2;
  const Dims& window = a.ints(Attr::update_window_dims);
  Dims out;
  size_t next = 0;
  for (int64_t d = 0; d < node.operand_type(0)->rank(); ++d) {
    const bool none =
        contains(a.ints(Attr::inserted_window_dims), d) || contains(a.ints(Attr::input_batching_dims), d);
    out.push_back(none ? 1 : node.operand_type(m + 1)->dims[window[next++]]);
  }
  return out;
}

// The windows of `operand` that start there.
Value gather_windows(Builder& b, const Node& scatter, const Value& operand, const Value& starts,
                     const Dims& sizes) {
  const Attrs& a = scatter.attrs();
  return b.make(
      Op::gather, {{operand, starts}},
      intern_attrs({{Attr::offset_dims, a.ints(Attr::update_window_dims)},
                    {Attr::collapsed_slice_dims, a.ints(Attr::inserted_window_dims)},
                    {Attr::operand_batching_dims, a.ints(Attr::input_batching_dims)},
                    {Attr::start_indices_batching_dims, a.ints(Attr::scatter_indices_batching_dims)},
                    {Attr::start_index_map, a.ints(Attr::scatter_dims_to_operand_dims)},
                    {Attr::index_vector_dim, a.integer(Attr::index_vector_dim)},
                    {Attr::slice_sizes, sizes}}));
}

// What read_windows gives, of windows that no edge cuts: they are one element wide where they may start
// elsewhere than at 0. What would be read beside the array is masked, and the array is not copied.
Value read_uncut_windows(Builder& b, const Node& node, const Value& operand, const Value& indices,
                         const Dims& sizes) {
  const Attrs& a = node.attrs();
  const Dims &map = a.ints(Attr::scatter_dims_to_operand_dims), &window = a.ints(Attr::update_window_dims);
  const int64_t vector_dim = a.integer(Attr::index_vector_dim);
  const Dims dims = node.operand_type(node.operands().size() / 2 + 1)->dims;
  Dims lasts, batch;
  for (int64_t d : map) lasts.push_back(operand.dims()[d] - 1);
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d)
    if (!contains(window, d)) batch.push_back(d);
  Value inside = b.and_(b.compare(indices, b.zeros_like(indices), "GE"),
                        b.compare(indices, index_limits(b, indices, vector_dim, lasts), "LE"));
  if (!inside) return inside;
  if (vector_dim < indices.rank())
    inside = b.reduce(inside, Op::and_, b.scalar(DType::kBool, 1), {{vector_dim}});
  Value read;
  if (a.ints(Attr::input_batching_dims).empty() && has_one_index_vector(node)) {
    Values starts(sizes.size(), b.scalar_int(indices.dtype(), 0));
    for (size_t i = 0; i < map.size(); ++i) {
      Dims from(indices.rank(), 0), to(indices.rank(), 1);
      if (vector_dim < indices.rank()) {
        from[vector_dim] = static_cast<int64_t>(i);
        to[vector_dim] = from[vector_dim] + 1;
      }
      starts[map[i]] = b.reshape(b.slice(indices, from, to), {});
    }
    read = b.reshape(b.dynamic_slice(operand, starts, sizes), dims);
  } else {
    read = gather_windows(b, node, operand, indices, sizes);
  }
  return b.ok() ? b.select(b.broadcast_in_dim(inside, dims, batch), read, b.zeros_like(read)) : Value();
}

// The elements of `operand` under the scatter's windows, with zeros around it so that windows that lie partly
// or wholly outside read zeros there: element for element what the scatter writes to.
Value read_windows(Builder& b, const Node& node, const Value& operand, const Value& indices) {
  const Attrs& a = node.attrs();
  // Nothing is read of an array without elements, as of a batch without lanes: no window fits it.
  if (operand.type()->num_elements == 0)
    return b.zeros(
        array_type_or_die(operand.dtype(), node.operand_type(node.operands().size() / 2 + 1)->dims));
  const Dims sizes = window_sizes(node);
  const Dims& map = a.ints(Attr::scatter_dims_to_operand_dims);
  const int64_t vector_dim = a.integer(Attr::index_vector_dim);
  const auto is_uncut = [&](int64_t d) { return sizes[d] == 1 && operand.dims()[d] > 0; };
  if (std::all_of(map.begin(), map.end(), is_uncut))
    return read_uncut_windows(b, node, operand, indices, sizes);
  // Windows start in -size ... dim after clamping; padding by size on both sides makes all of them fit.
  Dims pad(operand.rank(), 0), limits;
  for (int64_t d : map) {
    pad[d] = sizes[d];
    limits.push_back(operand.dims()[d]);
  }
  const Value padded = b.pad(operand, b.scalar(operand.dtype(), 0), pad, pad);
  Value wide = indices;
  if (indices.dtype() == DType::kU64) {
    // Above the range of s64 is outside all the same.
    const Value high = b.full_like(indices, 0);
    wide = b.make(Op::clamp,
                  {{high, indices,
                    b.broadcast_scalar(b.scalar_int(DType::kU64, largest(DType::kS64)), indices.dims())}});
  }
  wide = b.convert(wide, DType::kS64);
  if (!wide) return wide;
  Dims window_of_entry;
  for (int64_t d : map) window_of_entry.push_back(sizes[d]);
  const Value high = index_limits(b, wide, vector_dim, limits),
              size = index_limits(b, wide, vector_dim, window_of_entry);
  const Value starts = b.add(b.make(Op::clamp, {{b.negate(size), wide, high}}), size);
  return gather_windows(b, node, padded, starts, sizes);
}

Values scatter_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  const size_t m = x.size() / 2;
  const ScatterKind kind = kind_of(node);
  const Value& indices = x[m];
  Values out(x.size());
  if ((kind != ScatterKind::kAdd && kind != ScatterKind::kSet) || linear[m]) {
    b.fail(not_linear(node));
    return out;
  }
  Value winner;  // kSet: where an element of the updates is the one that stayed
  for (size_t i = 0; i < m && b.ok(); ++i) {
    if (!ct[i]) continue;
    const Type* updates = node.operand_type(m + 1 + i);
    if (linear[i] && kind == ScatterKind::kAdd) {
      out[i] = ct[i];
    } else if (linear[i]) {
      const Value none = b.zeros(updates);
      const Attrs* one = with_attr(node.attrs(), Attr::body, second_region(ct[i].dtype()));
      out[i] = b.make(Op::scatter, {{ct[i], indices, none}}, one);
    }
    if (!linear[m + 1 + i]) continue;
    out[m + 1 + i] = read_windows(b, node, ct[i], indices);
    if (kind == ScatterKind::kAdd || writes_once(node)) continue;
    if (!winner) {
      // Scatter each update's number (from 1), and see which numbers are still there.
      const int64_t n = updates->num_elements;
      const Value number = b.reshape(
          b.add(b.iota(DType::kS64, {{n}}, 0), b.broadcast_scalar(b.scalar_int(DType::kS64, 1), {{n}})),
          updates->dims);
      const Value none = b.zeros(array_type_or_die(DType::kS64, node.operand_type(0)->dims));
      const Attrs* set = with_attr(node.attrs(), Attr::body, second_region(DType::kS64));
      const Value stayed = b.make(Op::scatter, {{none, indices, number}}, set);
      if (!stayed) return out;
      winner = b.compare(read_windows(b, node, stayed, indices), number, "EQ");
    }
    out[m + 1 + i] = b.select(winner, out[m + 1 + i], b.zeros(updates));
  }
  return out;
}

BatchResult scatter_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  const Attrs& a = node.attrs();
  const size_t m = x.size() / 2;
  Values operands;
  for (size_t i = 0; i < x.size(); ++i)
    operands.push_back(i == m ? x[i] : with_batch(b, x[i], batched[i], size));
  const Dims &window = a.ints(Attr::update_window_dims), &batching = a.ints(Attr::input_batching_dims),
             &index_batching = a.ints(Attr::scatter_indices_batching_dims);
  const bool indexed = batched[m];
  const Attrs* to = intern_attrs(
      {{Attr::update_window_dims, indexed ? shifted(window) : shifted_with_zero(window)},
       {Attr::inserted_window_dims, shifted(a.ints(Attr::inserted_window_dims))},
       {Attr::input_batching_dims, indexed ? shifted_with_zero(batching) : shifted(batching)},
       {Attr::scatter_indices_batching_dims, indexed ? shifted_with_zero(index_batching) : index_batching},
       {Attr::scatter_dims_to_operand_dims, shifted(a.ints(Attr::scatter_dims_to_operand_dims))},
       {Attr::index_vector_dim, a.integer(Attr::index_vector_dim) + (indexed ? 1 : 0)},
       {Attr::unique_indices, a.flag(Attr::unique_indices)},
       {Attr::body, a.computation(Attr::body)}});
  return all_batched(b.make_multi(Op::scatter, operands, to));
}

}  // namespace

void add_indexing_transforms(TransformTable& table) {
  table[Op::dynamic_slice] = {dynamic_slice_jvp, dynamic_slice_transpose, dynamic_slice_batch};
  table[Op::dynamic_update_slice] = {dynamic_update_slice_jvp, dynamic_update_slice_transpose,
                                     dynamic_update_slice_batch};
  table[Op::gather] = {gather_jvp, gather_transpose, gather_batch};
  table[Op::scatter] = {scatter_jvp, scatter_transpose, scatter_batch};
}

}  // namespace lamina::trace
