// Collectives: what the lanes of a named axis exchange (see ops.def).
//
// The lane operand says whose axis it is: batching finds it batched in the vmap of that axis, which replaces
// the op by one on the whole batch, and not batched in every other, where the op takes one dimension more. An
// inner axis of the same name has another lane, so that shadowing needs no rule.
#include <algorithm>

#include "trace/rules/support.h"

namespace lamina::trace {
namespace {

int64_t group_size(const Attrs& a) {
  const int64_t size = a.integer(Attr::group_size);
  return size == 0 ? a.integer(Attr::axis_size) : size;
}

// --- derivatives ---

Value made(Builder& b, Op op, const Value& x, const Value& lane, const Attrs* attrs) {
  return b.make(op, {{x, lane}}, attrs);
}

// The attributes that say which lanes, without what the op does with them.
std::vector<Attrs::Entry> lanes_of(const Attrs& a) {
  std::vector<Attrs::Entry> out;
  for (const Attrs::Entry& e : a.entries())
    if (e.first == Attr::axis_name || e.first == Attr::axis_size || e.first == Attr::replica_groups ||
        e.first == Attr::group_size)
      out.push_back(e);
  return out;
}
const Attrs* lanes_and(const Attrs& a, std::initializer_list<Attrs::Entry> more) {
  std::vector<Attrs::Entry> entries = lanes_of(a);
  entries.insert(entries.end(), more);
  return intern_attrs(std::move(entries));
}

// Of a maximum, shared by the lanes that have it, as of reduce.
JvpResult all_reduce_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  if (!t[0] || node.attrs().string(Attr::reduction) == "add") return linear_jvp(b, node, x, t);
  const Attrs* sum = lanes_and(node.attrs(), {{Attr::reduction, std::string("add")}});
  const Value best = result_of(b, node, x);
  const Value has = b.convert(b.compare(x[0], best, "EQ"), x[0].dtype());
  const Value count = made(b, Op::all_reduce, has, x[1], sum);
  return {{b.divide(made(b, Op::all_reduce, b.multiply(has, t[0]), x[1], sum), count)}, {}};
}

Values all_reduce_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  if (node.attrs().string(Attr::reduction) != "add") {
    b.fail(absl::InvalidArgumentError("cannot transpose a maximum: it is not linear"));
    return Values(2);
  }
  return {b.remake(node, {{ct[0], x[1]}})[0], Value()};
}

Values all_gather_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  return {made(b, Op::reduce_scatter, ct[0], x[1], &node.attrs()), Value()};
}
Values reduce_scatter_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  return {made(b, Op::all_gather, ct[0], x[1], &node.attrs()), Value()};
}
Values all_to_all_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  const Attrs& a = node.attrs();
  return {made(b, Op::all_to_all, ct[0], x[1],
               lanes_and(a, {{Attr::split_dimension, a.integer(Attr::concat_dimension)},
                             {Attr::concat_dimension, a.integer(Attr::split_dimension)}})),
          Value()};
}
Values permute_transpose(Builder& b, const Node& node, Ops x, Marks, Ops ct) {
  const Dims& sources = node.attrs().ints(Attr::sources);
  Dims back(sources.size(), -1);
  for (size_t i = 0; i < sources.size(); ++i)
    if (sources[i] >= 0) back[sources[i]] = static_cast<int64_t>(i);
  return {
      made(b, Op::collective_permute, ct[0], x[1], with_attr(node.attrs(), Attr::sources, std::move(back))),
      Value()};
}

// --- batching ---

// Rows of x along dimension 0, in the order of `rows`.
Value take_rows(Builder& b, const Value& x, const Dims& rows) {
  if (rows == all_dims(static_cast<int64_t>(rows.size())) || !x) return x;
  auto index =
      std::make_shared<Literal>(array_type_or_die(DType::kS32, {{static_cast<int64_t>(rows.size())}}));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<int32_t>(rows[i]);
    std::memcpy(index->element(static_cast<int64_t>(i)), &row, sizeof row);
  }
  Dims sizes = x.dims();
  sizes[0] = 1;
  return b.make(Op::gather, {{x, b.constant(std::move(index))}},
                intern_attrs({{Attr::offset_dims, shifted(all_dims(x.rank() - 1))},
                              {Attr::collapsed_slice_dims, Dims{0}},
                              {Attr::start_index_map, Dims{0}},
                              {Attr::index_vector_dim, int64_t{1}},
                              {Attr::slice_sizes, sizes}}));
}

// The lanes of an axis as [groups, lanes of a group].
struct Lanes {
  int64_t count, groups, size;
  Dims order;  // lane of each place

  explicit Lanes(const Attrs& a)
      : count(a.integer(Attr::axis_size)), size(group_size(a)), order(a.ints(Attr::replica_groups)) {
    groups = order.empty() ? 1 : count / size;
    if (order.empty()) order = all_dims(count);
  }
  // [count, dims...] to [groups, size, dims...].
  Value split(Builder& b, const Value& x) const {
    const Value rows = take_rows(b, x, order);
    if (!rows) return rows;
    Dims dims{groups, size};
    dims.insert(dims.end(), rows.dims().begin() + 1, rows.dims().end());
    return b.reshape(rows, dims);
  }
  // And back.
  Value join(Builder& b, const Value& x) const {
    if (!x) return x;
    Dims dims{count}, place(order.size());
    dims.insert(dims.end(), x.dims().begin() + 2, x.dims().end());
    for (size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int64_t>(i);
    return take_rows(b, b.reshape(x, dims), place);
  }
  // Of [groups, dims...], the same for all lanes of a group: without the batch if there is one group.
  BatchResult shared(Builder& b, const Value& x) const {
    if (!x) return all_batched({x});
    Dims dims(x.dims().begin() + 1, x.dims().end());
    if (groups == 1) return {{b.reshape(x, dims)}, {false}};
    Dims spread = prepend(groups, prepend(size, dims)), from = shifted(all_dims(x.rank() - 1), 2);
    return all_batched({join(b, b.broadcast_in_dim(x, spread, prepend(0, from)))});
  }
};

// Over dimension 1 of [groups, size, dims...].
Value reduced(Builder& b, const Value& x, const std::string& kind) {
  if (!x) return x;
  if (kind == "add") return b.reduce_sum(x, {{1}});
  const DType t = x.dtype();
  if (is_float(t) && is_narrow(t))  // some have no infinity
    return b.convert(reduced(b, b.convert(x, DType::kF32), kind), t);
  const bool greatest = kind == "maximum";
  return b.reduce(x, greatest ? Op::maximum : Op::minimum, extreme(b, t, !greatest), {{1}});
}

// Another axis' batch: the op on arrays of one dimension more.
BatchResult other_axis(Builder& b, const Node& node, Ops x, std::initializer_list<Attr> dims) {
  const Attrs* attrs = &node.attrs();
  for (Attr d : dims) attrs = with_attr(*attrs, d, attrs->integer(d) + 1);
  return all_batched({made(b, node.op(), x[0], x[1], attrs)});
}

BatchResult all_reduce_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t) {
  if (!batched[1]) return other_axis(b, node, x, {});
  const std::string& kind = node.attrs().string(Attr::reduction);
  const Lanes lanes(node.attrs());
  if (batched[0]) return lanes.shared(b, reduced(b, lanes.split(b, x[0]), kind));
  if (kind != "add") return {{x[0]}, {false}};
  return {{b.multiply(x[0], b.full_like(x[0], static_cast<double>(lanes.size)))}, {false}};
}

BatchResult all_gather_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t) {
  if (!batched[1]) return other_axis(b, node, x, {Attr::dimension});
  const Lanes lanes(node.attrs());
  const int64_t d = node.attrs().integer(Attr::dimension);
  if (batched[0]) return lanes.shared(b, b.move_dim(lanes.split(b, x[0]), 1, d + 1));
  Dims kept = all_dims(node.type()->rank());
  kept.erase(kept.begin() + d);
  return {{b.broadcast_in_dim(x[0], node.type()->dims, kept)}, {false}};
}

BatchResult reduce_scatter_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (!batched[1]) return other_axis(b, node, x, {Attr::dimension});
  const Lanes lanes(node.attrs());
  const Value sums = b.reduce_sum(lanes.split(b, with_batch(b, x[0], batched[0], size)), {{1}});
  return all_batched({lanes.join(b, b.move_dim(sums, node.attrs().integer(Attr::dimension) + 1, 1))});
}

BatchResult all_to_all_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (!batched[1]) return other_axis(b, node, x, {Attr::split_dimension, Attr::concat_dimension});
  const Lanes lanes(node.attrs());
  const Value parts = lanes.split(b, with_batch(b, x[0], batched[0], size));  // [groups, from, ..., to, ...]
  const Value sent = b.move_dim(parts, node.attrs().integer(Attr::split_dimension) + 2, 1);
  return all_batched({lanes.join(b, b.move_dim(sent, 2, node.attrs().integer(Attr::concat_dimension) + 2))});
}

BatchResult permute_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (!batched[1]) return other_axis(b, node, x, {});
  const Dims& sources = node.attrs().ints(Attr::sources);
  Dims rows;
  auto given = std::make_shared<Literal>(array_type_or_die(DType::kBool, {{size}}));
  for (size_t i = 0; i < sources.size(); ++i) {
    rows.push_back(std::max<int64_t>(sources[i], 0));
    *given->element(static_cast<int64_t>(i)) = std::byte{sources[i] >= 0};
  }
  const Value taken = take_rows(b, with_batch(b, x[0], batched[0], size), rows);
  if (!taken || std::find(sources.begin(), sources.end(), -1) == sources.end()) return all_batched({taken});
  const Value mask = b.broadcast_in_dim(b.constant(std::move(given)), taken.dims(), {{0}});
  return all_batched({b.select(mask, taken, b.zeros_like(taken))});
}

}  // namespace

void add_collective_transforms(TransformTable& table) {
  table[Op::all_gather] = {linear_jvp, all_gather_transpose, all_gather_batch};
  table[Op::all_reduce] = {all_reduce_jvp, all_reduce_transpose, all_reduce_batch};
  table[Op::all_to_all] = {linear_jvp, all_to_all_transpose, all_to_all_batch};
  table[Op::collective_permute] = {linear_jvp, permute_transpose, permute_batch};
  table[Op::reduce_scatter] = {linear_jvp, reduce_scatter_transpose, reduce_scatter_batch};
}

}  // namespace lamina::trace
