// What cuDNN calls a convolution: its forward one or one of the two that gradients are made of, with arrays
// as dimensions and strides.
#ifndef LAMINA_JIT_CUDA_CONVOLUTION_FORM_H_
#define LAMINA_JIT_CUDA_CONVOLUTION_FORM_H_

#include <array>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/reference_conv.h"

namespace lamina::jit::cuda {

enum class ConvolutionKind { kForward, kBackwardData, kBackwardFilter };

struct ConvolutionForm {
  // Extents and strides in elements of [batch, features, spatial...], of a filter of [output features, input
  // features of a group, spatial...]. They are dense, with features before the spatial dimensions or last.
  struct Tensor {
    std::vector<int64_t> dims, strides;
    std::vector<int64_t> copied = {};  // strides of the array that this is a copy of; empty: it is none
  };

  ConvolutionKind kind;
  std::array<Tensor, 3>
      tensors;  // the operands and the result, whatever they are in a convolution of the kind
  // By spatial dimension, of which there are 2 or 3; as much padding lies behind as before.
  std::vector<int64_t> strides = {}, dilations = {}, paddings = {};
  bool flips = false;  // reads the filter backwards
};

// All that give the same numbers, those without copies first, then the likeliest; or in words why there is
// none. A filter's gradient is a convolution whose batch and features are swapped, and an input's is one
// whose input is dilated by the stride and whose filter is reversed in memory, which is read backwards again.
absl::StatusOr<std::vector<ConvolutionForm>> convolution_forms(const hlo::ConvShape& shape);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CONVOLUTION_FORM_H_
