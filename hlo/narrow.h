// Elements of narrow types (see is_narrow in dtype.h) on the host, one at a time.
//
// Contract: values and rounding are those of Prim::convert, from which they are made.
#ifndef LAMINA_HLO_NARROW_H_
#define LAMINA_HLO_NARROW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "hlo/dtype.h"

namespace lamina::hlo {

// The value of every byte as a narrow float of type `t`. Lives as long as the program.
std::span<const float, 256> narrow_values(DType t);
// `x` rounded to a narrow float type.
uint8_t to_narrow(DType t, float x);
// The greatest or the least value of a narrow float type, infinity where it has that.
float narrow_extreme(DType t, bool greatest);

// Gives the bits above the width of each of `n` elements the value they have by contract; bytes from outside
// may hold anything there.
void make_canonical(DType t, void* elements, int64_t n);

// A float element of any type but f64 in f32, exactly.
float element_to_f32(DType t, const void* element);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_NARROW_H_
