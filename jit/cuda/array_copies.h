// Which arrays of a library call are dense copies: of operand 0, operand 1, and the result, whose copy is
// made of what the call has written.
#ifndef LAMINA_JIT_CUDA_ARRAY_COPIES_H_
#define LAMINA_JIT_CUDA_ARRAY_COPIES_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "hlo/strings.h"
#include "hlo/type.h"

namespace lamina::jit::cuda {

struct ArrayCopy {
  hlo::Dims order;  // in which the array's dimensions lie
  hlo::DType type;  // of its elements
  // As one array of few dimensions, each of one or several of those: how many elements there are, and how
  // many the copy has, those behind them 0. Empty: none are.
  hlo::Dims merged = {}, padded = {};

  int64_t bytes(const hlo::Type& array) const {
    return (padded.empty() ? array.num_elements : hlo::product(padded)) * hlo::byte_size(type);
  }
};
// None: the call takes the array itself.
using ArrayCopies = std::array<std::optional<ArrayCopy>, 3>;

// For people: ", of a copy of the filter".
inline std::string describe(const ArrayCopies& copies, const std::array<std::string_view, 3>& names) {
  std::string out;
  for (size_t i = 0; i < copies.size(); ++i)
    if (copies[i]) str_append(&out, i == 2 ? ", into" : ", of", " a copy of the ", names[i]);
  return out;
}

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_ARRAY_COPIES_H_
