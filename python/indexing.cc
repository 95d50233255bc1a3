#include "python/indexing.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/attributes.h"
#include "lazy/delivery.h"
#include "lazy/elements.h"
#include "lazy/scopes.h"

namespace lamina::python {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::Op;
using lazy::Lazy;
using Ranges = absl::InlinedVector<Range, 6>;

// A value made of elements of x, which is weak where x is.
Lazy part_of(const Lazy& x, Lazy part) {
  return x.weak ? Lazy{std::move(part.value), true, std::move(part.wide)}
                : Lazy{std::move(part.value), false};
}

Lazy record_one(Op op, std::span<const Lazy> operands, std::vector<hlo::Attrs::Entry> attrs) {
  return std::move(lazy::record(op, operands, hlo::intern_attrs(std::move(attrs)))[0]);
}

Lazy reshaped(const Lazy& x, Dims shape) {
  if (x.value.dims() == shape) return x;
  return record_one(Op::reshape, {{x}}, {{Attr::shape, std::move(shape)}});
}

Lazy with_starts_of_a_run(const Lazy& x, std::span<const Range> ranges) {
  const Dims& dims = x.value.dims();
  const bool wide = std::any_of(dims.begin(), dims.end(),
                                [](int64_t n) { return n > std::numeric_limits<int32_t>::max(); });
  std::vector<Lazy> operands{x};
  Dims sizes;
  for (const Range& r : ranges) {
    const int32_t narrow = static_cast<int32_t>(r.start);
    operands.push_back(
        {wide ? lazy::number(hlo::DType::kS64, &r.start) : lazy::number(hlo::DType::kS32, &narrow), false});
    sizes.push_back(r.size);
  }
  return record_one(Op::dynamic_slice, operands, {{Attr::slice_sizes, std::move(sizes)}});
}

Lazy with_fixed_starts(const Lazy& x, std::span<const Range> ranges) {
  Dims starts, limits, strides, turned;
  bool whole = true;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const auto [start, step, n] = ranges[d];
    const int64_t end = start + (n - 1) * step;
    starts.push_back(n == 0 ? 0 : std::min(start, end));
    limits.push_back(n == 0 ? 0 : std::max(start, end) + 1);
    strides.push_back(n > 1 ? std::abs(step) : 1);
    if (step < 0 && n > 1) turned.push_back(static_cast<int64_t>(d));
    whole &= starts[d] == 0 && limits[d] == x.value.dims()[d] && strides[d] == 1;
  }
  Lazy out = x;
  if (!whole)
    out = record_one(Op::slice, {{out}},
                     {{Attr::start_indices, std::move(starts)},
                      {Attr::limit_indices, std::move(limits)},
                      {Attr::strides, std::move(strides)}});
  if (!turned.empty()) out = record_one(Op::reverse, {{out}}, {{Attr::dimensions, std::move(turned)}});
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
  const Dims& dims = x.value.dims();
  bool whole = true, unit = true, empty = false;
  for (size_t d = 0; d < ranges.size(); ++d) {
    const auto [start, step, n] = ranges[d];
    whole &= start == 0 && step == 1 && n == dims[d];
    unit &= step == 1 || n <= 1;
    empty |= n == 0;
  }
  if (whole) return x;
  return part_of(x, unit && !empty && lazy::innermost_stamp() == 0 ? with_starts_of_a_run(x, ranges)
                                                                   : with_fixed_starts(x, ranges));
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

std::optional<Lazy> read_basic(const Lazy& x, PyObject* key) {
  const Dims& dims = x.value.dims();
  PyObject* const* parts = &key;
  size_t count = 1;
  if (PyTuple_CheckExact(key)) {
    parts = reinterpret_cast<PyTupleObject*>(key)->ob_item;
    count = static_cast<size_t>(PyTuple_GET_SIZE(key));
  }
  // A row of one element has the dimensions beneath it.
  if (const std::optional<Run> run = count == dims.size() ? run_of(key, dims) : std::nullopt)
    if (std::optional<Lazy> element = lazy::read_element(x, run->first)) return element;
  size_t used = 0;
  int ellipses = 0;
  for (size_t i = 0; i < count; ++i) {
    ellipses += parts[i] == Py_Ellipsis;
    const bool takes = PyLong_CheckExact(parts[i]) || PySlice_Check(parts[i]);
    used += takes;
    if (!takes && parts[i] != Py_None && parts[i] != Py_Ellipsis) return std::nullopt;
  }
  if (ellipses > 1 || used > dims.size()) return std::nullopt;
  Ranges ranges;
  Dims shape;
  const auto rest = [&] {
    for (size_t d = ranges.size(), last = d + dims.size() - used; d < last; ++d) {
      ranges.push_back({0, 1, dims[d]});
      shape.push_back(dims[d]);
    }
  };
  for (size_t i = 0; i < count; ++i) {
    if (parts[i] == Py_None) {
      shape.push_back(1);
    } else if (parts[i] == Py_Ellipsis) {
      rest();
    } else {
      const std::optional<Range> range = range_of(parts[i], dims[ranges.size()]);
      if (!range) return std::nullopt;
      ranges.push_back(*range);
      if (PySlice_Check(parts[i])) shape.push_back(range->size);
    }
  }
  if (ellipses == 0) rest();
  return part_of(x, reshaped(take_ranges(x, ranges), std::move(shape)));
}

namespace {
template <typename T>
pybind11::tuple range_of_elements(const std::byte* bytes, int64_t count) {
  const std::span elements(reinterpret_cast<const T*>(bytes), static_cast<size_t>(count));
  const auto [low, high] = std::minmax_element(elements.begin(), elements.end());
  return pybind11::make_tuple(*low, *high);
}
}  // namespace

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
