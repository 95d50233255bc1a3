#include "python/indexing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <type_traits>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "hlo/builder.h"
#include "lazy/delivery.h"
#include "lazy/elements.h"
#include "python/number.h"
#include "python/tensor.h"

namespace lamina::python {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::Op;
using hlo::Value;
using lazy::Lazy;
using lazy::Range;
using Ranges = absl::InlinedVector<Range, 6>;

// f of x's elements, and of the unrounded ones that it has: f moves elements.
template <typename F>
Lazy moved(const Lazy& x, F f) {
  hlo::GraphLock lock;
  Builder b;
  Lazy out{f(b, x.value), x.weak};
  if (x.weak && x.wide) out.wide = f(b, x.wide);
  lazy::check(b.status());
  lazy::note_recorded();
  return out;
}

// Whether a part of a slice is None or a plain number.
bool is_plain(PyObject* part) { return part == Py_None || PyLong_CheckExact(part); }

// The range of one dimension that a number or slice takes; empty where Python is to look.
std::optional<Range> range_of(PyObject* key, int64_t size) {
  if (PyLong_CheckExact(key)) {
    int overflow = 0;
    int64_t i = PyLong_AsLongLongAndOverflow(key, &overflow);
    if (overflow || i < -size || i >= size) return std::nullopt;
    return Range{i < 0 ? i + size : i, 1, 1};
  }
  const auto* s = reinterpret_cast<PySliceObject*>(key);
  Py_ssize_t start, stop, step;
  if (!is_plain(s->start) || !is_plain(s->stop) || !is_plain(s->step)) return std::nullopt;
  if (PySlice_Unpack(key, &start, &stop, &step) < 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  const Py_ssize_t n = PySlice_AdjustIndices(size, &start, &stop, step);
  return Range{start, step, n};
}

}  // namespace

Lazy take_ranges(const Lazy& x, std::span<const Range> ranges) {
  return moved(x, [&](Builder& b, const Value& v) { return lazy::take_ranges(b, v, ranges); });
}

std::optional<Run> run_of(PyObject* key, std::span<const int64_t> dims) {
  PyObject* const* parts = &key;
  size_t count = 1;
  if (PyTuple_CheckExact(key)) {
    parts = reinterpret_cast<PyTupleObject*>(key)->ob_item;
    count = static_cast<size_t>(PyTuple_GET_SIZE(key));
  }
  if (count > dims.size()) return std::nullopt;
  Run run{0, 1};
  for (size_t d = 0; d < dims.size(); ++d) {
    run.first *= dims[d];
    if (d >= count) {
      run.count *= dims[d];
      continue;
    }
    if (!PyLong_CheckExact(parts[d])) return std::nullopt;
    const std::optional<Range> range = range_of(parts[d], dims[d]);
    if (!range) return std::nullopt;
    run.first += range->start;
  }
  return run;
}

namespace {

// What a key of plain numbers, slices, None and ... takes: a range for each dimension, whose elements have
// `shape` when dimensions taken by numbers are dropped and new ones put in.
struct BasicKey {
  Ranges ranges;
  Dims shape;
};

std::optional<BasicKey> basic_key(PyObject* key, const Dims& dims) {
  PyObject* const* parts = &key;
  size_t count = 1;
  if (PyTuple_CheckExact(key)) {
    parts = reinterpret_cast<PyTupleObject*>(key)->ob_item;
    count = static_cast<size_t>(PyTuple_GET_SIZE(key));
  }
  size_t used = 0;
  int ellipses = 0;
  for (size_t i = 0; i < count; ++i) {
    ellipses += parts[i] == Py_Ellipsis;
    const bool takes = PyLong_CheckExact(parts[i]) || PySlice_Check(parts[i]);
    used += takes;
    if (!takes && parts[i] != Py_None && parts[i] != Py_Ellipsis) return std::nullopt;
  }
  if (ellipses > 1 || used > dims.size()) return std::nullopt;
  BasicKey out;
  const auto rest = [&] {
    for (size_t d = out.ranges.size(), last = d + dims.size() - used; d < last; ++d) {
      out.ranges.push_back({0, 1, dims[d]});
      out.shape.push_back(dims[d]);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    if (parts[i] == Py_None) {
      out.shape.push_back(1);
    } else if (parts[i] == Py_Ellipsis) {
      rest();
    } else {
      const std::optional<Range> range = range_of(parts[i], dims[out.ranges.size()]);
      if (!range) return std::nullopt;
      out.ranges.push_back(*range);
      if (PySlice_Check(parts[i])) out.shape.push_back(range->size);
    }
  }
  if (ellipses == 0) rest();
  return out;
}

// Whether an array of these dimensions is broadcast to `shape` as it is, by NumPy's rule.
bool broadcasts(const Dims& dims, const Dims& shape) {
  if (dims.size() > shape.size()) return false;
  const auto last = shape.end() - static_cast<std::ptrdiff_t>(dims.size());
  return std::equal(dims.begin(), dims.end(), last, [](int64_t n, int64_t of) { return n == of || n == 1; });
}

}  // namespace

std::optional<Lazy> read_basic(const Lazy& x, PyObject* key) {
  const Dims& dims = x.value.dims();
  const size_t count = PyTuple_CheckExact(key) ? static_cast<size_t>(PyTuple_GET_SIZE(key)) : 1;
  // A row of one element has the dimensions beneath it.
  if (const std::optional<Run> run = count == dims.size() ? run_of(key, dims) : std::nullopt)
    if (std::optional<Lazy> element = lazy::read_element(x, run->first)) return element;
  const std::optional<BasicKey> taken = basic_key(key, dims);
  if (!taken) return std::nullopt;
  return moved(x, [&](Builder& b, const Value& v) {
    return b.reshape(lazy::take_ranges(b, v, taken->ranges), taken->shape);
  });
}

std::optional<Lazy> write_basic(const Lazy& x, PyObject* key, PyObject* value, std::optional<Op> join) {
  // Keys first: an array among them is Python's, and a number would have been made for nothing.
  const std::optional<BasicKey> taken = x.weak ? std::nullopt : basic_key(key, x.value.dims());
  if (!taken) return std::nullopt;
  if (join && x.value.dtype() == hlo::DType::kBool) return std::nullopt;  // sums of them are no sums
  Lazy part = is_tensor(value) ? lazy_of(value) : Lazy{element_for(value, x.value.dtype())};
  if (!part.value || part.weak || part.value.dtype() != x.value.dtype()) return std::nullopt;
  if (!broadcasts(part.value.dims(), taken->shape)) return std::nullopt;
  Dims sizes;
  for (const Range& r : taken->ranges) {
    if (r.size == 0 || (r.size > 1 && r.step != 1)) return std::nullopt;
    sizes.push_back(r.size);
  }
  if (join) {
    const Lazy old = moved(x, [&](Builder& b, const Value& v) {
      return b.reshape(lazy::take_ranges(b, v, taken->ranges), taken->shape);
    });
    part = lazy::elementwise(*join, {{old, part}});
  }
  return moved(x, [&](Builder& b, const Value& v) {
    return lazy::put_ranges(b, v, taken->ranges,
                            b.reshape(lazy::broadcast_to(b, part.value, taken->shape), sizes));
  });
}

namespace {
template <typename T>
pybind11::tuple range_of_elements(const std::byte* bytes, int64_t count) {
  const std::span elements(reinterpret_cast<const T*>(bytes), static_cast<size_t>(count));
  const auto [low, high] = std::minmax_element(elements.begin(), elements.end());
  return pybind11::make_tuple(*low, *high);
}
}  // namespace

lazy::Lazy true_places(const lazy::Lazy& mask) {
  const jit::ArrayPtr array = lazy::array(mask.value);
  const std::byte* const bytes = lazy::host_bytes(*array);
  const int64_t size = mask.value.type()->num_elements;
  const std::array<int64_t, 1> dims{size - std::count(bytes, bytes + size, std::byte{0})};
  const auto fill = [&](auto* places) {
    // Each is written where the next true one belongs, and stays if it is one: no branch to be mistaken
    // about.
    int64_t found = 0;
    for (int64_t i = 0; found < dims[0]; ++i) {
      places[found] = static_cast<std::remove_pointer_t<decltype(places)>>(i);
      found += bytes[i] != std::byte{0};
    }
  };
  if (size > std::numeric_limits<int32_t>::max())
    return {lazy::filled(hlo::DType::kS64, dims, [&](void* out) { fill(static_cast<int64_t*>(out)); })};
  return {lazy::filled(hlo::DType::kS32, dims, [&](void* out) { fill(static_cast<int32_t*>(out)); })};
}

pybind11::tuple integer_range(const lazy::Lazy& x) {
  const jit::ArrayPtr array = lazy::array(x.value);
  const std::byte* const bytes = lazy::host_bytes(*array);
  const int64_t count = x.value.type()->num_elements;
  switch (hlo::storage_type(x.value.dtype())) {
    case hlo::DType::kS8:
      return range_of_elements<int8_t>(bytes, count);
    case hlo::DType::kS16:
      return range_of_elements<int16_t>(bytes, count);
    case hlo::DType::kS32:
      return range_of_elements<int32_t>(bytes, count);
    case hlo::DType::kU8:
      return range_of_elements<uint8_t>(bytes, count);
    case hlo::DType::kU16:
      return range_of_elements<uint16_t>(bytes, count);
    case hlo::DType::kU32:
      return range_of_elements<uint32_t>(bytes, count);
    case hlo::DType::kU64:
      return range_of_elements<uint64_t>(bytes, count);
    default:
      return range_of_elements<int64_t>(bytes, count);
  }
}

}  // namespace lamina::python
