// What an array of another library holds, told apart by a 128-bit hash (XXH3): arrays that a traced function
// reads are compared at each call, and may be changed in place. Of an object with the buffer protocol, or
// with
// `__array_interface__` (NumPy arrays of element types that buffers do not know).
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

namespace lamina::python {

// Bytes that differ where shape, element size or content differ; nothing, and no exception set, if `array`
// shows no memory. An array that is not contiguous is gathered first.
pybind11::object content_of(PyObject* array);

// Whether `array` has the content that `content_of` told; never throws, sets no exception.
bool has_content(PyObject* array, std::string_view content);

// Whether `array` shows memory that cannot be written through it.
bool is_read_only(PyObject* array);

}  // namespace lamina::python
