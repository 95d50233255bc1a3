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

// One dimension of a convolution, as the library has it: of `input` elements and so much padding before them,
// windows of `filter` elements lie `stride` apart, at `output` positions.
struct WindowedDim {
  int64_t input, filter, output, stride, dilation, padding;
};
int64_t spanned(int64_t count, int64_t dilation) { return (count - 1) * dilation + 1; }

absl::Status add_dim(ConvolutionForm& form, const WindowedDim& d) {
  // How much has to follow so that there are as many positions.
  const int64_t least = spanned(d.output, d.stride) - 1 + spanned(d.filter, d.dilation) - d.input - d.padding,
                most = least + d.stride - 1;
  if (d.padding < 0 || most < 0) return no_form("it has no padding below 0");
  // On devices, f32 with groups and paddings that differ gave wrong numbers: neither is asked for.
  if (d.padding < least || d.padding > most) return no_form("the paddings of a dimension differ");
  form.strides.push_back(d.stride);
  form.dilations.push_back(d.dilation);
  form.paddings.push_back(d.padding);
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
  ConvolutionForm out{ConvolutionKind::kForward, {input_of(s), filter_of(s), output_of(s)}};
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
                       with_features_first(output_of(s))}};
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
                      {input_of(s), with_features_first(filter_of(s)), output_of(s)}};
  out.flips = true;
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

// The strides of dense arrays whose features lie before the spatial dimensions, or last.
std::vector<int64_t> dense_strides(const std::vector<int64_t>& dims, bool features_last) {
  std::vector<int64_t> out(dims.size());
  int64_t step = 1;
  const auto next = [&](size_t d) {
    out[d] = step;
    step *= dims[d];
  };
  if (features_last) next(1);
  for (size_t d = dims.size(); d-- > 2;) next(d);
  if (!features_last) next(1);
  next(0);
  return out;
}

bool lies_densely(const ConvolutionForm::Tensor& t, bool features_last) {
  const std::vector<int64_t> dense = dense_strides(t.dims, features_last);
  for (size_t d = 0; d < dense.size(); ++d)
    if (t.dims[d] > 1 && t.strides[d] != dense[d]) return false;
  return true;
}

// Of arrays in other orders, filters above all, the library reads the wrong elements without a word: it gets
// copies, in the order of the first array that has one.
void make_dense(ConvolutionForm& form) {
  std::optional<bool> features_last;
  for (const ConvolutionForm::Tensor& t : form.tensors)
    if (const bool first = lies_densely(t, false); !features_last && first != lies_densely(t, true))
      features_last = !first;
  for (ConvolutionForm::Tensor& t : form.tensors)
    if (!lies_densely(t, false) && !lies_densely(t, true)) {
      t.copied = std::move(t.strides);
      t.strides = dense_strides(t.dims, features_last.value_or(true));
    }
}
bool has_copies(const ConvolutionForm& form) {
  return std::any_of(form.tensors.begin(), form.tensors.end(),
                     [](const ConvolutionForm::Tensor& t) { return !t.copied.empty(); });
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
    if (form.ok()) {
      make_dense(*form);
      out.push_back(*std::move(form));
    } else if (why.ok()) {
      why = form.status();
    }
  }
  if (out.empty()) return why;
  std::stable_partition(out.begin(), out.end(), [](const ConvolutionForm& f) { return !has_copies(f); });
  return out;
}

}  // namespace lamina::jit::cuda
