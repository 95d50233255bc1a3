// Shapes: broadcasting, joining, padding.
#include <algorithm>

#include "hlo/op.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"

namespace lamina {

using detail::build;
using detail::lazy_of;
using hlo::Builder;
using hlo::Dims;
using hlo::Value;
using lazy::Lazy;

Tensor broadcast_to(TensorOrNumber x, const Shape& shape) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    const Dims dims = detail::dims_of(shape, "broadcast_to");
    const Dims both[] = {v.value.dims(), dims};
    if (lazy::broadcast_shapes(both, "broadcast_to") != dims)
      detail::fail(ErrorKind::kValue, str_cat("broadcast_to: ", detail::describe(v),
                                              " does not broadcast to ", hlo::dims_to_string(dims)));
    return detail::computed(b, v, [&](const Value& u) { return lazy::broadcast_to(b, u, dims); });
  });
}

Tensor expand_dims(TensorOrNumber x, int64_t axis) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    Dims dims = v.value.dims();
    dims.insert(dims.begin() + detail::canonical_axis(axis, v.value.rank() + 1, "expand_dims"), 1);
    return detail::computed(b, v, [&](const Value& u) { return b.reshape(u, dims); });
  });
}

Tensor squeeze(TensorOrNumber x, const Axes& axes) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    const Dims all = detail::canonical_axes(axes, v.value.rank(), "squeeze");
    Dims dims;
    for (int64_t i = 0; i < v.value.rank(); ++i) {
      const int64_t size = v.value.dims()[i];
      const bool named = std::find(all.begin(), all.end(), i) != all.end();
      if (named && size != 1 && !axes.empty())
        detail::fail(ErrorKind::kValue,
                     str_cat("squeeze: axis ", i, " of ", detail::describe(v), " has size ", size));
      if (!named || size != 1) dims.push_back(size);
    }
    return detail::computed(b, v, [&](const Value& u) { return b.reshape(u, dims); });
  });
}

Tensor concatenate(const std::vector<Tensor>& parts, int64_t axis, std::source_location where) {
  return build({Tensor(), where}, [&](Builder& b) {
    if (parts.empty()) detail::fail(ErrorKind::kValue, "concatenate: needs at least one tensor");
    std::vector<Lazy> v;
    for (const Tensor& t : parts) v.push_back(lazy_of(t));
    lazy::promote_operands(b, v);
    const int64_t along = detail::canonical_axis(axis, v[0].value.rank(), "concatenate");
    return detail::computed(b, v, [&](std::span<const Value> all) { return b.concatenate(all, along); });
  });
}

Tensor stack(const std::vector<Tensor>& parts, int64_t axis, std::source_location where) {
  return detail::located(where, [&] {
    std::vector<Tensor> wide;
    for (const Tensor& t : parts) {
      if (t.shape() != parts[0].shape())
        detail::fail(ErrorKind::kValue, str_cat("stack: shapes ", hlo::dims_to_string(parts[0].shape()),
                                                " and ", hlo::dims_to_string(t.shape()), " differ"));
      wide.push_back(expand_dims(t, axis));
    }
    return concatenate(wide, axis);
  });
}

Tensor pad(TensorOrNumber x, const std::vector<std::pair<int64_t, int64_t>>& widths, double value) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    if (static_cast<int64_t>(widths.size()) != v.value.rank())
      detail::fail(ErrorKind::kValue, str_cat("pad: ", static_cast<int64_t>(widths.size()),
                                              " pairs of widths for ", detail::describe(v)));
    Dims low, high;
    for (const auto& [before, after] : widths) {
      if (before < 0 || after < 0) detail::fail(ErrorKind::kValue, "pad: widths cannot be negative");
      low.push_back(before);
      high.push_back(after);
    }
    return detail::computed(b, v, [&](const Value& u) {
      return b.pad(u, b.scalar(u.dtype(), value), low, high, Dims(low.size(), 0));
    });
  });
}

Tensor roll(TensorOrNumber x, int64_t shift, const Axes& axes) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    const Dims dims(v.value.dims().begin(), v.value.dims().end());
    return detail::computed(b, v, [&](const Value& u) {
      Value out = axes.empty() ? b.reshape(u, Dims{u.type()->num_elements}) : u;
      for (int64_t axis : axes.empty() ? Dims{0} : detail::canonical_axes(axes, u.rank(), "roll")) {
        const int64_t size = out.dims()[axis];
        if (size == 0) continue;
        const int64_t first = ((-shift) % size + size) % size;  // the element that comes to the front
        Dims low(out.rank(), 0), high(out.dims().begin(), out.dims().end());
        const Dims ones(out.rank(), 1);
        Dims cut = high, start = low;
        start[axis] = cut[axis] = first;
        const Value parts[] = {b.slice(out, start, high, ones), b.slice(out, low, cut, ones)};
        out = b.concatenate(parts, axis);
      }
      return axes.empty() ? b.reshape(out, dims) : out;
    });
  });
}

Tensor flip(TensorOrNumber x, const Axes& axes) {
  return build(x, [&](Builder& b) {
    const Lazy v = lazy_of(x);
    const Dims along = detail::canonical_axes(axes, v.value.rank(), "flip");
    return detail::computed(b, v, [&](const Value& u) { return b.reverse(u, along); });
  });
}

}  // namespace lamina
