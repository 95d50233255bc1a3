#include "hlo/reference_conv.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "hlo/reference_chain.h"
#include "hlo/reference_dot.h"

namespace lamina::hlo {
namespace {

absl::Status bad(const std::string& what) { return absl::InvalidArgumentError("convolution: " + what); }

// Steps a row-major index over `size(dim)`.
template <typename Size>
void advance(std::vector<int64_t>& index, Size size) {
  for (size_t d = index.size(); d-- > 0;) {
    if (++index[d] < size(d)) return;
    index[d] = 0;
  }
}

}  // namespace

int64_t ConvShape::window() const {
  int64_t n = 1;
  for (const ConvDim& d : spatial) n *= d.filter;
  return n;
}

int64_t ConvShape::positions() const {
  int64_t n = 1;
  for (const ConvDim& d : spatial) n *= d.output;
  return n;
}

absl::Status check_conv(const ConvShape& s) {
  if (s.spatial.size() > static_cast<size_t>(kMaxConvSpatialRank))
    return bad(absl::StrCat(s.spatial.size(), " spatial dimensions, the most is ", kMaxConvSpatialRank));
  if (s.input_batch < 0 || s.input_features < 0 || s.filter_input < 0 || s.output_features < 0)
    return bad("a size is negative");
  if (s.feature_groups < 1 || s.batch_groups < 1) return bad("a group count is less than 1");
  if (s.feature_groups > 1 && s.batch_groups > 1)
    return bad("feature groups and batch groups exclude each other");
  if (s.filter_input != s.input_features / s.feature_groups || s.input_features % s.feature_groups != 0)
    return bad(absl::StrCat(s.input_features, " input features in ", s.feature_groups,
                            " groups do not give filters of ", s.filter_input));
  if (s.input_batch % s.batch_groups != 0)
    return bad(absl::StrCat(s.batch_groups, " batch groups do not divide a batch of ", s.input_batch));
  if (s.output_features % s.groups() != 0)
    return bad(absl::StrCat(s.groups(), " groups do not divide ", s.output_features, " output features"));
  for (const ConvDim& d : s.spatial) {
    if (d.input < 0 || d.filter < 0 || d.output < 0) return bad("a size is negative");
    if (d.stride < 1 || d.input_dilation < 1 || d.filter_dilation < 1)
      return bad("window strides and dilations must be at least 1");
    int64_t last, reach, top;
    if (__builtin_mul_overflow(d.output, d.stride, &last) ||
        __builtin_mul_overflow(d.filter, d.filter_dilation, &reach) ||
        __builtin_add_overflow(last, reach, &top) || __builtin_sub_overflow(top, d.pad_low, &top) ||
        d.pad_low == INT64_MIN)
      return bad("window positions do not fit 64 bits");
  }
  return absl::OkStatus();
}

absl::Status reference_conv(DType in, DType out, const ConvShape& s, const void* input, const void* filter,
                            void* output) {
  if (absl::Status types = check_dot_types(in, out); !types.ok()) return types;
  if (absl::Status shape = check_conv(s); !shape.ok()) return shape;
  const size_t rank = s.spatial.size();
  const int64_t group_features = s.output_features / s.groups(), window = s.window(),
                positions = s.positions();
  // Per k: window coordinates, filter offset.
  std::vector<std::vector<int64_t>> window_at;
  std::vector<int64_t> filter_at;
  std::vector<int64_t> w(rank, 0);
  for (int64_t i = 0; i < window; ++i) {
    int64_t offset = 0;
    for (size_t d = 0; d < rank; ++d) {
      const ConvDim& dim = s.spatial[d];
      offset += (dim.reversed ? dim.filter - 1 - w[d] : w[d]) * dim.filter_stride;
    }
    window_at.push_back(w);
    filter_at.push_back(offset);
    advance(w, [&](size_t d) { return s.spatial[d].filter; });
  }
  with_dot_accumulator(out, [&]<typename T>() {
    for (int64_t batch = 0; batch < s.output_batch(); ++batch)
      for (int64_t feature = 0; feature < s.output_features; ++feature) {
        const int64_t group = feature / group_features;
        const int64_t from_batch = s.batch_groups > 1 ? group * s.output_batch() + batch : batch;
        const int64_t from_feature = s.feature_groups > 1 ? group * s.filter_input : 0;
        std::vector<int64_t> o(rank, 0);
        for (int64_t position = 0; position < positions; ++position) {
          const auto patch = [&](int64_t k) {
            int64_t at = from_batch * s.input_batch_stride +
                         (from_feature + k % s.filter_input) * s.input_feature_stride;
            for (size_t d = 0; d < rank; ++d) {
              const ConvDim& dim = s.spatial[d];
              const int64_t p =
                  o[d] * dim.stride + window_at[k / s.filter_input][d] * dim.filter_dilation - dim.pad_low;
              if (p < 0 || p % dim.input_dilation != 0 || p / dim.input_dilation >= dim.input) return T{};
              at += p / dim.input_dilation * dim.input_stride;
            }
            return load_as<T>(in, input, at);
          };
          const auto weight = [&](int64_t k) {
            return load_as<T>(in, filter,
                              filter_at[k / s.filter_input] + k % s.filter_input * s.filter_input_stride +
                                  feature * s.filter_output_stride);
          };
          int64_t to = batch * s.output_batch_stride + feature * s.output_feature_stride;
          for (size_t d = 0; d < rank; ++d) to += o[d] * s.spatial[d].output_stride;
          store_as<T>(out, output, to, reference_chain<T>(window * s.filter_input, patch, weight));
          advance(o, [&](size_t d) { return s.spatial[d].output; });
        }
      }
  });
  return absl::OkStatus();
}

}  // namespace lamina::hlo
