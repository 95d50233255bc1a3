#include "jit/cuda/convolution_form.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

using hlo::ConvDim;
using hlo::ConvShape;

constexpr size_t kLeastSpatialDims = 2, kMostSpatialDims = 3;

absl::Status no_form(const char* why) { return absl::UnimplementedError(why); }

// One dimension of a convolution, as the library has it: of `input` elements and padding around them, windows
// of `window` elements lie `stride` apart, at `output` positions.
struct WindowedDim {
  int64_t input, filter, output, stride, dilation, padding_before;
};
int64_t spanned(int64_t count, int64_t dilation) { return (count - 1) * dilation + 1; }

// How much has to follow so that there are as many positions; where there is a choice, as much as before.
// None: some of the input would have to go.
std::optional<int64_t> padding_after(const WindowedDim& d) {
  const int64_t least =
      spanned(d.output, d.stride) - 1 + spanned(d.filter, d.dilation) - d.input - d.padding_before;
  const int64_t most = least + d.stride - 1;
  if (d.padding_before >= least && d.padding_before <= most) return d.padding_before;
  if (most < 0) return std::nullopt;
  return std::max<int64_t>(least, 0);
}

absl::Status add_dim(ConvolutionForm& form, const WindowedDim& d) {
  const std::optional<int64_t> after = padding_after(d);
  if (d.padding_before < 0 || !after) return no_form("it has no padding below 0");
  // On devices, f32 with groups and paddings that differ gave wrong numbers: neither is asked for.
  if (d.padding_before != *after) return no_form("the paddings of a dimension differ");
  form.strides.push_back(d.stride);
  form.dilations.push_back(d.dilation);
  form.padding_before.push_back(d.padding_before);
  form.padding_after.push_back(*after);
  return absl::OkStatus();
}

ConvolutionForm::Tensor input_of(const ConvShape& s) {
  ConvolutionForm::Tensor out{{s.input_batch, s.input_features},
                              {s.input_batch_stride, s.input_feature_stride}};
  for (const ConvDim& d : s.spatial) {
    out.dims.push_back(d.input);
    out.strides.push_back(d.input_stride);
  }
  return out;
}
ConvolutionForm::Tensor filter_of(const ConvShape& s) {
  ConvolutionForm::Tensor out{{s.output_features, s.filter_input},
                              {s.filter_output_stride, s.filter_input_stride}};
  for (const ConvDim& d : s.spatial) {
    out.dims.push_back(d.filter);
    out.strides.push_back(d.filter_stride);
  }
  return out;
}
ConvolutionForm::Tensor output_of(const ConvShape& s) {
  ConvolutionForm::Tensor out{{s.output_batch(), s.output_features},
                              {s.output_batch_stride, s.output_feature_stride}};
  for (const ConvDim& d : s.spatial) {
    out.dims.push_back(d.output);
    out.strides.push_back(d.output_stride);
  }
  return out;
}
ConvolutionForm::Tensor with_features_first(ConvolutionForm::Tensor t) {
  std::swap(t.dims[0], t.dims[1]);
  std::swap(t.strides[0], t.strides[1]);
  return t;
}

absl::StatusOr<ConvolutionForm> forward(const ConvShape& s) {
  ConvolutionForm out{ConvolutionKind::kForward, {input_of(s), filter_of(s), output_of(s)}, {}, {}, {}, {}};
  for (const ConvDim& d : s.spatial) {
    if (d.input_dilation > 1 && d.input > 1)
      return no_form("it has no dilated input in a forward convolution");
    if (absl::Status status =
            add_dim(out, {d.input, d.filter, d.output, d.stride, d.filter_dilation, d.pad_low});
        !status.ok())
      return status;
  }
  return out;
}

// Windows of the gradient are the results, and what each is multiplied by lies where the forward window did.
absl::StatusOr<ConvolutionForm> backward_filter(const ConvShape& s) {
  ConvolutionForm out{ConvolutionKind::kBackwardFilter,
                      {with_features_first(input_of(s)), with_features_first(filter_of(s)),
                       with_features_first(output_of(s))},
                      {},
                      {},
                      {},
                      {}};
  for (const ConvDim& d : s.spatial) {
    if (d.input_dilation > 1 && d.input > 1)
      return no_form("it has no dilated input in the gradient of a filter");
    if (absl::Status status =
            add_dim(out, {d.input, d.output, d.filter, d.filter_dilation, d.stride, d.pad_low});
        !status.ok())
      return status;
  }
  return out;
}

absl::StatusOr<ConvolutionForm> backward_data(const ConvShape& s) {
  ConvolutionForm out{ConvolutionKind::kBackwardData,
                      {input_of(s), with_features_first(filter_of(s)), output_of(s)},
                      {},
                      {},
                      {},
                      {},
                      true};
  for (const ConvDim& d : s.spatial) {
    if (d.stride > 1 && d.output > 1) return no_form("it has no stride beside a dilated input");
    const int64_t before = spanned(d.filter, d.filter_dilation) - 1 - d.pad_low;
    if (absl::Status status =
            add_dim(out, {d.output, d.filter, d.input, d.input_dilation, d.filter_dilation, before});
        !status.ok())
      return status;
  }
  return out;
}

// Whether the batch lies within the features: gradients of filters have the arrays of the forward convolution
// with both swapped.
bool looks_like_filter_gradient(const ConvShape& s) {
  if (s.input_batch_stride != s.input_feature_stride) return s.input_batch_stride < s.input_feature_stride;
  return s.window() > s.positions();
}

// Whether elements lie densely in the order of the dimensions, or in that with the features last. Of other
// orders, a filter's above all, the library reads the wrong elements without a word.
bool is_packed(const ConvolutionForm::Tensor& t) {
  const size_t rank = t.dims.size();
  const auto lies_in = [&](bool features_last) {
    int64_t step = 1;
    const auto next = [&](size_t d) {
      const bool fits = t.dims[d] == 1 || t.strides[d] == step;
      step *= t.dims[d];
      return fits;
    };
    bool fits = !features_last || next(1);
    for (size_t d = rank; d-- > 2;) fits = next(d) && fits;
    if (!features_last) fits = next(1) && fits;
    return next(0) && fits;
  };
  return lies_in(false) || lies_in(true);
}

// Some extents of 1, in front, with the strides that a dense array has there.
ConvShape with_more_dims(ConvShape s) {
  while (s.spatial.size() < kLeastSpatialDims) {
    ConvDim one;
    if (!s.spatial.empty()) {
      const ConvDim& d = s.spatial[0];
      one.input_stride = d.input * d.input_stride;
      one.filter_stride = d.filter * d.filter_stride;
      one.output_stride = d.output * d.output_stride;
    } else {
      one.input_stride = one.filter_stride = one.output_stride = 1;
    }
    s.spatial.insert(s.spatial.begin(), one);
  }
  return s;
}

}  // namespace

absl::StatusOr<std::vector<ConvolutionForm>> convolution_forms(const ConvShape& shape) {
  if (shape.spatial.size() > kMostSpatialDims) return no_form("it has no more than 3 spatial dimensions");
  if (shape.feature_groups > 1 || shape.batch_groups > 1) return no_form("groups are not asked of it");
  for (const ConvDim& d : shape.spatial)
    if (d.reversed) return no_form("the filter is read backwards");
  const ConvShape s = with_more_dims(shape);
  using Make = absl::StatusOr<ConvolutionForm> (*)(const ConvShape&);
  std::array<Make, 3> makes{forward, backward_filter, backward_data};
  const bool is_dilated = std::any_of(s.spatial.begin(), s.spatial.end(),
                                      [](const ConvDim& d) { return d.input_dilation > 1 && d.input > 1; });
  if (is_dilated)
    makes = {backward_data, forward, backward_filter};
  else if (looks_like_filter_gradient(s))
    makes = {backward_filter, forward, backward_data};
  std::vector<ConvolutionForm> out;
  absl::Status why;
  for (const Make make : makes) {
    absl::StatusOr<ConvolutionForm> form = make(s);
    if (form.ok() && !std::all_of(form->tensors.begin(), form->tensors.end(), is_packed))
      form =
          no_form("an array lies neither with its features before the spatial dimensions nor with them last");
    if (form.ok())
      out.push_back(*std::move(form));
    else if (why.ok())
      why = form.status();
  }
  if (out.empty()) return why;
  return out;
}

}  // namespace lamina::jit::cuda
