// Elements at keys that hold plain numbers, slices, None and ... only. What else a key may be, and what is
// wrong with one, is Python's to say (python/lamina/_indexing.py).
#ifndef LAMINA_PYTHON_INDEXING_H_
#define LAMINA_PYTHON_INDEXING_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <span>

#include "lazy/lazy.h"
#include "lazy/ranges.h"

namespace lamina::python {

// The elements of x at one range for each dimension (see lazy/ranges.h).
lazy::Lazy take_ranges(const lazy::Lazy& x, std::span<const lazy::Range> ranges);

// The numbers of consecutive elements, in row-major order.
struct Run {
  int64_t first, count;
};
// What a key of plain numbers takes of an array of that shape: one element, or a row and what is beneath it.
// Empty, without an exception, for other keys and where Python is to say what is wrong with one.
std::optional<Run> run_of(PyObject* key, std::span<const int64_t> dims);

// x[key]. Empty, without an exception, where Python is to look at the key.
std::optional<lazy::Lazy> read_basic(const lazy::Lazy& x, PyObject* key);
// x with `value` in place of the elements at `key`, or joined to them by an elementwise op. Empty, without an
// exception, where Python is to look at the key or the value.
std::optional<lazy::Lazy> write_basic(const lazy::Lazy& x, PyObject* key, PyObject* value,
                                      std::optional<hlo::Op> join);

// The least and the greatest element, as Python integers, of an integer array that has elements; computes it.
pybind11::tuple integer_range(const lazy::Lazy& x);

// Where a mask of any shape is true: places in row-major order, int32, or int64 where that does not suffice;
// computes it.
lazy::Lazy true_places(const lazy::Lazy& mask);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_INDEXING_H_
