// The meaning of a convolution, to the last bit: a dot (reference_dot.h) of each input patch with each
// filter.
//
// The k of that dot runs over the window's spatial positions in row-major order and, fastest, over the input
// features of the group. Where a position falls into padding or between the elements of a dilated input, the
// patch holds 0, and the term is really added. `reversed` reads the filter backwards along that dimension;
// the order of k stays the patch's.
#ifndef LAMINA_HLO_REFERENCE_CONV_H_
#define LAMINA_HLO_REFERENCE_CONV_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "hlo/dtype.h"

namespace lamina::hlo {

inline constexpr int kMaxConvSpatialRank = 6;

// Output position o and window position w meet input position (o * stride + w * filter_dilation - pad_low) /
// input_dilation, where that is a whole number within the input. Padding above follows from `output`; pad_low
// may be negative.
struct ConvDim {
  int64_t input = 1, filter = 1, output = 1;                       // sizes
  int64_t input_stride = 0, filter_stride = 0, output_stride = 0;  // in memory, in elements
  int64_t stride = 1, pad_low = 0;
  int64_t input_dilation = 1, filter_dilation = 1;
  bool reversed = false;
};

// Any dimension numbers, as strides in elements. Feature groups: group g takes input features [g, g+1) *
// filter_input. Batch groups: it takes the g-th part of the input's batch. In both cases it makes the g-th
// part of the output features from the g-th part of the filters. Only one of the counts may differ from 1.
struct ConvShape {
  std::vector<ConvDim> spatial;
  int64_t input_batch = 1, input_features = 1;
  int64_t filter_input = 1;     // input features per group
  int64_t output_features = 1;  // of all groups
  int64_t feature_groups = 1, batch_groups = 1;
  int64_t input_batch_stride = 0, input_feature_stride = 0;
  int64_t filter_input_stride = 0, filter_output_stride = 0;
  int64_t output_batch_stride = 0, output_feature_stride = 0;

  int64_t groups() const { return feature_groups * batch_groups; }
  int64_t output_batch() const { return input_batch / batch_groups; }
  int64_t window() const;     // positions in the window
  int64_t positions() const;  // spatial positions of the output
};

// InvalidArgument, in words, for negative sizes, strides and dilations below 1, groups that do not divide,
// more than kMaxConvSpatialRank spatial dimensions, or positions that do not fit 64 bits.
absl::Status check_conv(const ConvShape& shape);

// Element types as for a dot. Slow and simple.
absl::Status reference_conv(DType in, DType out, const ConvShape& shape, const void* input,
                            const void* filter, void* output);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_REFERENCE_CONV_H_
