// Elements by index: integers and slices first, then index tensors by one gather; updates by one scatter.
#include <algorithm>
#include <numeric>

#include "hlo/op.h"
#include "lamina/ops.h"
#include "lazy/api/index_checks.h"
#include "lazy/api/variable.h"
#include "lazy/ranges.h"

namespace lamina {
namespace {

using detail::lazy_of;
using hlo::Attr;
using hlo::Builder;
using hlo::Dims;
using hlo::Op;
using hlo::Value;
using lazy::Lazy;

// An index against a shape: a slice per axis, what becomes of each axis, and the index tensors.
struct IndexPlan {
  std::vector<lazy::Range> ranges;
  Dims kept;                                        // the shape after integers and new axes
  std::vector<std::pair<int64_t, Tensor>> tensors;  // axis of `kept`, indices
  std::vector<int64_t> axes;                        // of the array, by index tensor
  bool contiguous = true;                           // every step is 1
};

int64_t count_of(int64_t low, int64_t high, int64_t step) {
  return high <= low ? 0 : (high - low + step - 1) / step;
}

IndexPlan make_index_plan(const Dims& dims, const std::vector<Index>& index) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  int64_t used = 0, dots = 0;
  for (const Index& i : index) {
    dots += std::holds_alternative<Ellipsis>(i.item());
    used += !std::holds_alternative<Ellipsis>(i.item()) && !std::holds_alternative<NewAxis>(i.item());
  }
  if (dots > 1) detail::fail(ErrorKind::kIndex, "an index holds at most one ellipsis");
  if (used > rank)
    detail::fail(ErrorKind::kIndex, str_cat(used, " indices for an array of ", rank, " dimensions, shape ",
                                            hlo::dims_to_string(dims)));
  IndexPlan p;
  int64_t axis = 0;
  auto whole = [&] {
    p.ranges.push_back({0, 1, dims[axis]});
    p.kept.push_back(dims[axis++]);
  };
  for (const Index& i : index) {
    if (std::holds_alternative<Ellipsis>(i.item())) {
      for (int64_t n = rank - used; n > 0; --n) whole();
    } else if (std::holds_alternative<NewAxis>(i.item())) {
      p.kept.push_back(1);
    } else if (const int64_t* at = std::get_if<int64_t>(&i.item())) {
      const int64_t size = dims[axis];
      if (*at < -size || *at >= size)
        detail::fail(ErrorKind::kIndex,
                     str_cat("index ", *at, " is out of bounds for axis ", axis, " with size ", size));
      p.ranges.push_back({*at < 0 ? *at + size : *at, 1, 1});
      ++axis;
    } else if (const Slice* s = std::get_if<Slice>(&i.item())) {
      const int64_t size = dims[axis], step = s->step.value_or(1);
      if (step == 0) detail::fail(ErrorKind::kValue, "the step of a slice must not be 0");
      auto bounded = [size](int64_t v, int64_t low, int64_t high) {
        return std::clamp(v < 0 ? (v < -size ? -1 : v + size) : v, low, high);
      };
      int64_t first, count;
      if (step > 0) {
        first = bounded(s->start.value_or(0), 0, size);
        count = count_of(first, bounded(s->stop.value_or(size), 0, size), step);
      } else {
        first = s->start ? bounded(*s->start, -1, size - 1) : size - 1;
        const int64_t stop = s->stop ? bounded(*s->stop, -1, size - 1) : -1;
        count = count_of(stop, first, step == INT64_MIN ? INT64_MAX : -step);
      }
      p.ranges.push_back({count == 0 ? 0 : first, count <= 1 ? 1 : step, count});
      p.contiguous = p.contiguous && p.ranges.back().step == 1;
      p.kept.push_back(count);
      ++axis;
    } else {
      const Tensor& t = std::get<Tensor>(i.item());
      const hlo::DType dtype = lazy_of(t).value.dtype();
      if (!hlo::is_integer(dtype))
        detail::fail(ErrorKind::kIndex,
                     str_cat("index tensors hold integers, not ", hlo::info(dtype).numpy_name,
                             "; a mask is an index by itself"));
      if (!p.tensors.empty() && p.tensors.back().first + 1 != static_cast<int64_t>(p.kept.size()))
        detail::fail(ErrorKind::kNotImplemented,
                     "index tensors must stand next to each other; transpose first");
      p.tensors.emplace_back(static_cast<int64_t>(p.kept.size()), t);
      p.axes.push_back(axis);
      whole();
    }
  }
  while (axis < rank) whole();
  return p;
}

void check_indices(const IndexPlan& p, const std::source_location& where) {
  if (!detail::checking_indices()) return;
  for (size_t k = 0; k < p.tensors.size(); ++k) {
    const auto& [axis, at] = p.tensors[k];
    if (at.size() > 0) detail::check_index(at, p.kept[axis], p.axes[k], where);
  }
}

// The elements that the plan names; where an index tensor is out of range, `beyond` if it is given, else the
// end.
Value elements(Builder& b, Value x, const IndexPlan& p, const Value& beyond) {
  x = lazy::take_ranges(b, x, p.ranges);
  if (x && x.dims() != p.kept) x = b.reshape(x, p.kept);
  if (p.tensors.empty() || !x) return x;

  const int64_t first = p.tensors[0].first, count = static_cast<int64_t>(p.tensors.size());
  std::vector<Lazy> indices;
  for (const auto& [axis, t] : p.tensors) {
    Value i = lazy_of(t).value;
    if (i.dtype() == hlo::DType::kU64)  // what s64 has no number for is out of range as well
      i = b.minimum(i, b.broadcast_scalar(b.scalar_int(hlo::DType::kU64, p.kept[axis]), i.dims()));
    const bool narrow = hlo::byte_size(i.dtype()) < 4 || i.dtype() == hlo::DType::kS32;
    const hlo::DType wide = narrow && p.kept[axis] <= INT32_MAX ? hlo::DType::kS32 : hlo::DType::kS64;
    indices.push_back({b.convert(i, wide), false});
  }
  indices = detail::same_shape(b, std::move(indices), true, "index");
  const Dims shape = indices[0].value.dims();
  const int64_t lead = static_cast<int64_t>(shape.size());
  std::vector<Value> columns;
  Value inside;
  Dims column = shape;
  column.push_back(1);
  for (int64_t k = 0; k < count; ++k) {
    Value i = indices[k].value;
    const Value size = b.broadcast_scalar(b.scalar_int(i.dtype(), p.kept[first + k]), shape),
                zero = b.zeros_like(i);
    i = b.select(b.compare(i, zero, "LT"), b.add(i, size), i);
    if (beyond) {
      const Value in = b.and_(b.compare(i, zero, "GE"), b.compare(i, size, "LT"));
      inside = inside ? b.and_(inside, in) : in;
    }
    columns.push_back(b.reshape(i, column));
  }
  Dims offset, collapsed, sizes = p.kept;
  const int64_t rank = static_cast<int64_t>(p.kept.size());
  for (int64_t d = 0; d < rank; ++d) {
    if (d >= first && d < first + count) {
      collapsed.push_back(d);
      sizes[d] = std::min<int64_t>(1, sizes[d]);
    } else {
      offset.push_back(d < first ? d : d - count + lead);
    }
  }
  Value out = b.make(Op::gather, {{x, b.concatenate(columns, lead)}},
                     hlo::intern_attrs({{Attr::offset_dims, offset},
                                        {Attr::collapsed_slice_dims, collapsed},
                                        {Attr::start_index_map, collapsed},
                                        {Attr::index_vector_dim, lead},
                                        {Attr::slice_sizes, sizes}}));
  if (!beyond || !out) return out;
  Dims at;
  for (int64_t d = 0; d < lead; ++d) at.push_back(first + d);
  return b.select(b.broadcast_in_dim(inside, out.dims(), at), out, b.broadcast_scalar(beyond, out.dims()));
}

Value broadcast_value(Builder& b, const Tensor& value, hlo::DType dtype, const Dims& dims) {
  const Value v = lazy::converted(b, lazy_of(value), dtype);
  const Dims both[] = {v.dims(), dims};
  if (lazy::broadcast_shapes(both, "update") != dims)
    detail::fail(ErrorKind::kValue,
                 str_cat("update: a value of shape ", hlo::dims_to_string(v.dims()),
                         " does not broadcast to the elements' shape ", hlo::dims_to_string(dims)));
  return lazy::broadcast_to(b, v, dims);
}

// The mask that is the whole index, of the leading dimensions of `x`; null if the index is of another kind.
const Tensor* mask_of(const Tensor& x, const std::vector<Index>& index) {
  const Tensor* t = index.size() == 1 ? std::get_if<Tensor>(&index[0].item()) : nullptr;
  if (!t || t->dtype() != DType::boolean) return nullptr;
  const Shape &own = x.shape(), &leading = t->shape();
  if (leading.size() > own.size() || !std::equal(leading.begin(), leading.end(), own.begin()))
    detail::fail(ErrorKind::kIndex,
                 str_cat("a mask of shape ", hlo::dims_to_string(lazy_of(*t).value.dims()),
                         " for an array of shape ", hlo::dims_to_string(lazy_of(x).value.dims())));
  return t;
}

// The slices where the mask holds, in row-major order. Their number is the mask's to say, so it is read.
Tensor masked(const Tensor& x, const Tensor& mask, const std::source_location& where) {
  const std::vector<bool> held = mask.to_host<bool>(where);
  std::vector<int64_t> places;
  for (size_t i = 0; i < held.size(); ++i)
    if (held[i]) places.push_back(static_cast<int64_t>(i));
  Shape flat{mask.size()};
  for (int64_t d = mask.ndim(); d < x.ndim(); ++d) flat.push_back(x.shape()[d]);
  const Tensor at = Tensor::from_host<int64_t>(places, {static_cast<int64_t>(places.size())}, where);
  return x.reshape(flat, where).at({Index(at, where)}, where);
}

// `value`, or x + value, where the mask holds.
Lazy update_masked(Builder& b, const Lazy& x, const Tensor& mask, const Tensor& value, bool add) {
  const Dims& dims = x.value.dims();
  Dims leading(static_cast<size_t>(mask.ndim()));
  std::iota(leading.begin(), leading.end(), 0);
  const Value held = b.broadcast_in_dim(lazy_of(mask).value, dims, leading);
  return detail::computed(b, x, [&](const Value& old) {
    const Value v = broadcast_value(b, value, old.dtype(), dims);
    return b.select(held, add ? b.add(old, v) : v, old);
  });
}

// x with other elements where the plan names them.
Tensor update_planned(const Tensor& x, const IndexPlan& p, const Tensor& value, bool add,
                      const std::source_location& where) {
  return detail::build({x, where}, [&](Builder& b) {
    const Lazy& own = lazy_of(x);
    if (p.tensors.empty() && p.contiguous) {
      Dims sizes;
      for (const lazy::Range& r : p.ranges) sizes.push_back(r.size);
      return detail::computed(b, own, [&](const Value& old) {
        Value v = broadcast_value(b, value, old.dtype(), p.kept);
        if (add) v = b.add(elements(b, old, p, Value()), v);
        return lazy::put_ranges(b, old, p.ranges, b.reshape(v, sizes));
      });
    }
    // The positions of the elements in the flat array; out of range ones fall behind its end, where nothing
    // is written.
    const int64_t total = own.value.type()->num_elements;
    const hlo::DType counter = total < INT32_MAX ? hlo::DType::kS32 : hlo::DType::kS64;
    const Dims flat{total};
    const Value numbers = b.reshape(b.iota(counter, flat, 0), own.value.dims());
    const Value positions = elements(b, numbers, p, b.scalar_int(counter, total));
    lazy::check(b.status());
    const int64_t n = positions.type()->num_elements;
    return detail::computed(b, own, [&](const Value& old) {
      const Value v = broadcast_value(b, value, old.dtype(), positions.dims());
      hlo::ComputationPtr body;
      if (add) {
        body = hlo::binary_region(Op::add, old.dtype());
      } else {
        const hlo::Type* scalar = hlo::scalar_type(old.dtype());
        const hlo::Type* both[] = {scalar, scalar};
        body = lazy::check(
            hlo::record_region(both, [](Builder&, std::span<const Value> q) { return hlo::Values{q[1]}; }));
      }
      const Value out = b.make(
          Op::scatter, {{b.reshape(old, flat), b.reshape(positions, Dims{n, 1}), b.reshape(v, Dims{n})}},
          hlo::intern_attrs({{Attr::inserted_window_dims, Dims{0}},
                             {Attr::update_window_dims, Dims{}},
                             {Attr::scatter_dims_to_operand_dims, Dims{0}},
                             {Attr::index_vector_dim, int64_t{1}},
                             {Attr::body, body}}));
      return b.reshape(out, old.dims());
    });
  });
}

Tensor update(const Tensor& x, const std::vector<Index>& index, const Tensor& value, bool add,
              const std::source_location& where) {
  return detail::located(where, [&] {
    if (const Tensor* mask = mask_of(x, index))
      return detail::build({x, where},
                           [&](Builder& b) { return update_masked(b, lazy_of(x), *mask, value, add); });
    const IndexPlan plan = make_index_plan(lazy_of(x).value.dims(), index);
    check_indices(plan, where);
    return update_planned(x, plan, value, add, where);
  });
}

}  // namespace

Tensor Tensor::at(const std::vector<Index>& index, Where where) const {
  return detail::located(where, [&] {
    if (const Tensor* mask = mask_of(*this, index)) return masked(*this, *mask, where);
    const IndexPlan plan = make_index_plan(lazy_of(*this).value.dims(), index);
    check_indices(plan, where);
    return detail::build({*this, where}, [&](Builder& b) {
      return detail::computed(b, lazy_of(*this),
                              [&](const Value& v) { return elements(b, v, plan, Value()); });
    });
  });
}
Tensor Tensor::operator[](std::initializer_list<Index> index) const {
  return at(std::vector<Index>(index), index.size() > 0 ? index.begin()->where() : Where::current());
}
Tensor Tensor::operator[](const Index& index) const { return at({index}, index.where()); }
Tensor Tensor::updated(const std::vector<Index>& index, const Tensor& value, Where where) const {
  return update(*this, index, value, false, where);
}
Tensor Tensor::added(const std::vector<Index>& index, const Tensor& value, Where where) const {
  return update(*this, index, value, true, where);
}

Tensor take(TensorOrNumber x, TensorOrNumber indices, int64_t axis) {
  return detail::located(x.where(), [&] {
    const Tensor t = detail::tensor_of(lazy_of(x));
    const int64_t along = detail::canonical_axis(axis, t.ndim(), "take");
    std::vector<Index> index(static_cast<size_t>(along), Index(Slice{}, x.where()));
    index.emplace_back(detail::tensor_of(lazy_of(indices)), x.where());
    return t.at(index, x.where());
  });
}

}  // namespace lamina
