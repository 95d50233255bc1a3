// x[key] of keys that hold plain numbers, slices, None and ... only. What else a key may be, and what is
// wrong with one, is Python's to say (python/lamina/_indexing.py).
#ifndef LAMINA_PYTHON_INDEXING_H_
#define LAMINA_PYTHON_INDEXING_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <span>

#include "lazy/lazy.h"

namespace lamina::python {

// Elements start, start + step, ... along one dimension, `size` of them, all inside of it.
struct Range {
  int64_t start, step, size;
};

// The elements of x at one range for each dimension. Outside any trace, starts of ranges of step 1 are
// run-time values, so that a loop over a data set's batches is one program and not one per batch.
lazy::Lazy take_ranges(const lazy::Lazy& x, std::span<const Range> ranges);

// The numbers of consecutive elements, in row-major order.
struct Run {
  int64_t first, count;
};
// What a key of plain numbers takes of an array of that shape: one element, or a row and what is beneath it.
// Empty, without an exception, for other keys and where Python is to say what is wrong with one.
std::optional<Run> run_of(PyObject* key, std::span<const int64_t> dims);

// Empty, without an exception, where Python is to look at the key.
std::optional<lazy::Lazy> read_basic(const lazy::Lazy& x, PyObject* key);

// The least and the greatest element, as Python integers, of an integer array that has elements; computes it.
pybind11::tuple integer_range(const lazy::Lazy& x);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_INDEXING_H_
