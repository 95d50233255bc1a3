// Copies of the input's lines with the zeros of padding and of input dilation written out, for convolutions
// that read patches in place.
#ifndef LAMINA_JIT_CPU_PADDED_LINE_H_
#define LAMINA_JIT_CPU_PADDED_LINE_H_

#include <algorithm>
#include <cstdint>

#include "hlo/reference_conv.h"
#include "jit/cpu/gemm.h"

namespace lamina::jit {

// The elements [low, high) of a line of dimension x that its copy holds, `width` positions long: the first of
// them at `first`, the others x.input_dilation apart.
struct PaddedLine {
  int64_t low, high, first;

  PaddedLine(const hlo::ConvDim& x, int64_t width)
      : low(x.pad_low >= 0 ? 0 : ceil_div(-x.pad_low, x.input_dilation)),
        high(x.pad_low >= width ? 0 : std::min(x.input, (width - 1 - x.pad_low) / x.input_dilation + 1)),
        first(low * x.input_dilation + x.pad_low) {}
  bool empty() const { return low >= high; }
};

// The line of the input at position `at` of dimension y, counted from the start of the padding; -1 where
// zeros are.
inline int64_t input_line(const hlo::ConvDim& y, int64_t at) {
  const int64_t p = at - y.pad_low;
  if (y.input_dilation == 1) return p < 0 || p >= y.input ? -1 : p;  // division takes its time
  return p < 0 || p % y.input_dilation != 0 || p / y.input_dilation >= y.input ? -1 : p / y.input_dilation;
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_PADDED_LINE_H_
