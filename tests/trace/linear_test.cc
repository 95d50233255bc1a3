#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::ConvDims;
using hlo::DotDims;

TEST_CASE("derivatives of dot_general", "[trace]") {
  Numbers n;
  auto dot = [](DotDims d) -> Fn {
    return [=](Builder& b, std::span<const Value> x) { return Values{b.dot_general(x[0], x[1], d)}; };
  };
  check_grads(dot({{}, {}, {1}, {0}}), {n.array({3, 4}), n.array({4, 2})});
  check_grads(dot({{}, {}, {0}, {0}}), {n.array({5}), n.array({5})});
  check_grads(dot({{}, {}, {}, {}}), {n.array({2}), n.array({3})});
  check_grads(dot({{1}, {0}, {0, 3}, {3, 1}}), {n.array({2, 3, 4, 5}), n.array({3, 5, 2, 2})});
  check_grads(dot({{2, 0}, {0, 1}, {1}, {2}}), {n.array({2, 4, 3}), n.array({3, 2, 4})});
  check_grads(dot({{}, {}, {1}, {0}}), {n.array({3, 0}), n.array({0, 2})});
}

ConvDims conv2d() {
  ConvDims d;
  d.input_spatial = {2, 3};
  d.kernel_spatial = {2, 3};
  d.output_spatial = {2, 3};
  d.window_strides = {1, 1};
  d.padding = {0, 0, 0, 0};
  d.lhs_dilation = {1, 1};
  d.rhs_dilation = {1, 1};
  return d;
}

void check_conv(ConvDims d, Dims x, Dims w) {
  Numbers n;
  check_grads([=](Builder& b, std::span<const Value> v) { return Values{b.convolution(v[0], v[1], d)}; },
              {n.array(std::move(x)), n.array(std::move(w))});
}

TEST_CASE("derivatives of convolutions", "[trace]") {
  ConvDims d = conv2d();
  check_conv(d, {2, 2, 4, 5}, {3, 2, 2, 3});
  d.window_strides = {2, 3};
  d.padding = {1, 2, 0, 1};
  check_conv(d, {2, 2, 5, 6}, {3, 2, 3, 2});
  d.lhs_dilation = {2, 1};
  d.rhs_dilation = {1, 2};
  check_conv(d, {1, 2, 3, 6}, {2, 2, 2, 2});
  d.padding = {-1, 2, 1, -1};
  check_conv(d, {1, 1, 3, 6}, {2, 1, 2, 2});
}

TEST_CASE("derivatives of grouped convolutions", "[trace]") {
  ConvDims d = conv2d();
  d.padding = {1, 0, 0, 1};
  d.feature_groups = 2;
  check_conv(d, {2, 4, 3, 3}, {6, 2, 2, 2});
  d.window_strides = {2, 1};
  d.feature_groups = 4;
  check_conv(d, {1, 4, 4, 3}, {4, 1, 2, 2});
  d.feature_groups = 1;
  d.batch_groups = 2;
  check_conv(d, {4, 3, 3, 3}, {4, 3, 2, 2});
}

TEST_CASE("derivatives of convolutions in other layouts", "[trace]") {
  ConvDims d = conv2d();
  d.input_batch = 0;
  d.input_spatial = {1, 2};
  d.input_feature = 3;
  d.kernel_spatial = {0, 1};
  d.kernel_input_feature = 2;
  d.kernel_output_feature = 3;
  d.output_spatial = {0, 3};
  d.output_batch = 1;
  d.output_feature = 2;
  d.padding = {1, 1, 0, 0};
  check_conv(d, {2, 4, 3, 2}, {2, 2, 2, 3});
  d.feature_groups = 2;
  check_conv(d, {2, 4, 3, 4}, {2, 2, 2, 6});
}

}  // namespace
}  // namespace lamina::trace::test
