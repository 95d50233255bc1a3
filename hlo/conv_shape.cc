#include "hlo/conv_shape.h"

#include "hlo/builder.h"

namespace lamina::hlo {

ConvShape conv_shape(const Node& n) {
  const ConvDims d = conv_dims(n);
  const Dims &x = n.operand_type(0)->dims, &w = n.operand_type(1)->dims, &y = n.type()->dims;
  const Dims xs = row_major_strides(x), ws = row_major_strides(w), ys = row_major_strides(y);
  ConvShape s;
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    const int64_t a = d.input_spatial[i], b = d.kernel_spatial[i], c = d.output_spatial[i];
    ConvDim dim;
    dim.input = x[a];
    dim.filter = w[b];
    dim.output = y[c];
    dim.input_stride = xs[a];
    dim.filter_stride = ws[b];
    dim.output_stride = ys[c];
    dim.stride = d.window_strides[i];
    dim.pad_low = d.padding[2 * i];
    dim.input_dilation = d.lhs_dilation[i];
    dim.filter_dilation = d.rhs_dilation[i];
    s.spatial.push_back(dim);
  }
  s.input_batch = x[d.input_batch];
  s.input_features = x[d.input_feature];
  s.filter_input = w[d.kernel_input_feature];
  s.output_features = w[d.kernel_output_feature];
  s.feature_groups = d.feature_groups;
  s.batch_groups = d.batch_groups;
  s.input_batch_stride = xs[d.input_batch];
  s.input_feature_stride = xs[d.input_feature];
  s.filter_input_stride = ws[d.kernel_input_feature];
  s.filter_output_stride = ws[d.kernel_output_feature];
  s.output_batch_stride = ys[d.output_batch];
  s.output_feature_stride = ys[d.output_feature];
  return s;
}

}  // namespace lamina::hlo
