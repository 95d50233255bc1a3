// Elements of arrays that are there, read and written on the host without a program.
//
// Contract: what comes out is, to the bit, what recording the op would give. Each function does it or leaves
// everything as it was, where a transform is open, the array is not known, or it lies on another device than
// the host's first. Functions throw lamina::Error.
#ifndef LAMINA_LAZY_ELEMENTS_H_
#define LAMINA_LAZY_ELEMENTS_H_

#include <cstdint>
#include <optional>

#include "lazy/lazy.h"

namespace lamina::lazy {

// Element number `at` of x in row-major order, as an array without dimensions.
std::optional<Lazy> read_element(const Lazy& x, int64_t at);

// Gives `count` elements of the cell's array, from number `first` on, the value that `number` has, a computed
// array of one element of the same type. Only in memory that nothing else sees, of a few elements, of arrays
// whose type is decided, and where there is no other device. The second write of an array in a row that
// nothing has read computes it first: many may follow.
bool write_elements(Cell& cell, int64_t first, int64_t count, const Value& number);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_ELEMENTS_H_
