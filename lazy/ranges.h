// The elements of an array at one range along each dimension, read and written.
//
// Contract: outside of any trace the starts of ranges of step 1 are values at run time, so that a loop over
// the batches of a data set, or over places to write to, is one program and not one for each. Under the
// graph's lock; errors are the builder's.
#ifndef LAMINA_LAZY_RANGES_H_
#define LAMINA_LAZY_RANGES_H_

#include <cstdint>
#include <span>

#include "hlo/builder.h"

namespace lamina::lazy {

// Elements start, start + step, ... along one dimension, `size` of them, all inside of it.
struct Range {
  int64_t start, step, size;
};

hlo::Value take_ranges(hlo::Builder& b, const hlo::Value& x, std::span<const Range> ranges);

// x with `part`, of its element type and the ranges' sizes, in place of those elements. Ranges of step 1 that
// have elements.
hlo::Value put_ranges(hlo::Builder& b, const hlo::Value& x, std::span<const Range> ranges,
                      const hlo::Value& part);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_RANGES_H_
