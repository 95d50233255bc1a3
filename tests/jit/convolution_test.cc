#include "jit/cpu/convolution.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "jit/cpu/convolution_features.h"
#include "jit/cpu/convolution_filters.h"
#include "jit/cpu/convolution_lanes.h"
#include "jit/cpu/convolution_planes.h"
#include "jit/cpu/convolution_rows.h"
#include "tests/jit/kernel_testing.h"

using namespace lamina;
using namespace lamina::testing;
using hlo::ConvDim;
using hlo::ConvShape;

namespace {

struct Sizes {
  int64_t input = 1, filter = 1, output = 1;
};

// Dense strides for all three arrays, each with its dimensions in a random memory order.
Sizes random_strides(ConvShape& s, std::mt19937_64& rng) {
  Sizes sizes;
  const auto dense = [&](std::vector<std::pair<int64_t, int64_t*>> dims) {
    std::shuffle(dims.begin(), dims.end(), rng);
    int64_t stride = 1;
    for (auto& [extent, to] : dims) {
      *to = stride;
      stride *= extent;
    }
    return stride;
  };
  std::vector<std::pair<int64_t, int64_t*>> in = {{s.input_batch, &s.input_batch_stride},
                                                  {s.input_features, &s.input_feature_stride}};
  std::vector<std::pair<int64_t, int64_t*>> filter = {{s.filter_input, &s.filter_input_stride},
                                                      {s.output_features, &s.filter_output_stride}};
  std::vector<std::pair<int64_t, int64_t*>> out = {{s.output_batch(), &s.output_batch_stride},
                                                   {s.output_features, &s.output_feature_stride}};
  for (ConvDim& d : s.spatial) {
    in.push_back({d.input, &d.input_stride});
    filter.push_back({d.filter, &d.filter_stride});
    out.push_back({d.output, &d.output_stride});
  }
  sizes.input = dense(in);
  sizes.filter = dense(filter);
  sizes.output = dense(out);
  return sizes;
}

// Row-major, images as [batch, spatial..., features] or [batch, features, spatial...], filters to match.
Sizes usual_strides(ConvShape& s, bool features_last) {
  Sizes n;
  const auto take = [](int64_t extent, int64_t& stride, int64_t& size) {
    stride = size;
    size *= extent;
  };
  if (features_last) {
    take(s.input_features, s.input_feature_stride, n.input);
    take(s.output_features, s.output_feature_stride, n.output);
    take(s.output_features, s.filter_output_stride, n.filter);
    take(s.filter_input, s.filter_input_stride, n.filter);
  }
  for (size_t i = s.spatial.size(); i-- > 0;) {
    ConvDim& d = s.spatial[i];
    take(d.input, d.input_stride, n.input);
    take(d.output, d.output_stride, n.output);
    take(d.filter, d.filter_stride, n.filter);
  }
  if (!features_last) {
    take(s.input_features, s.input_feature_stride, n.input);
    take(s.output_features, s.output_feature_stride, n.output);
    take(s.filter_input, s.filter_input_stride, n.filter);
    take(s.output_features, s.filter_output_stride, n.filter);
  }
  take(s.input_batch, s.input_batch_stride, n.input);
  take(s.output_batch(), s.output_batch_stride, n.output);
  return n;
}

ConvShape random_shape(std::mt19937_64& rng) {
  ConvShape s;
  const int64_t groups = pick(rng, {1, 1, 1, 2, 3});
  const bool batch_groups = rng() % 2 == 0;
  s.feature_groups = batch_groups ? 1 : groups;
  s.batch_groups = batch_groups ? groups : 1;
  s.input_batch = pick(rng, {1, 2, 3}) * s.batch_groups;
  s.filter_input = pick(rng, {1, 2, 5, 16});
  s.input_features = s.filter_input * s.feature_groups;
  s.output_features = pick(rng, {1, 2, 6, 9, 20}) * groups;
  s.spatial.resize(rng() % 4);
  for (ConvDim& d : s.spatial) {
    d.input = pick(rng, {1, 4, 7, 9});
    d.filter = pick(rng, {1, 2, 3, 5});
    d.stride = pick(rng, {1, 1, 2, 3});
    d.input_dilation = pick(rng, {1, 1, 1, 2, 3});
    d.filter_dilation = pick(rng, {1, 1, 2});
    d.pad_low = pick(rng, {0, 1, 2, -1});
    const int64_t pad_high = pick(rng, {0, 1, 3, -1});
    d.reversed = rng() % 4 == 0;
    const int64_t padded = (d.input - 1) * d.input_dilation + 1 + d.pad_low + pad_high;
    const int64_t window = (d.filter - 1) * d.filter_dilation + 1;
    d.output = padded < window ? 0 : (padded - window) / d.stride + 1;
  }
  return s;
}

// All ISAs, one and two threads, against the definition.
void check_conv_bits(Pools& pools, DType in, DType out, const ConvShape& s, const Sizes& sizes,
                     const std::vector<char>& input, const std::vector<char>& filter) {
  const size_t bytes = static_cast<size_t>(sizes.output * hlo::byte_size(out));
  std::vector<char> expected(bytes + 1, 1), actual(bytes + 1);
  REQUIRE(hlo::reference_conv(in, out, s, input.data(), filter.data(), expected.data()).ok());
  for (jit::Isa isa : kIsas)
    for (bool threads : {false, true}) {
      std::fill(actual.begin(), actual.end(), char{1});
      const absl::Status status = jit::convolution(in, out, s, input.data(), filter.data(), actual.data(),
                                                   pools.context(isa, threads));
      REQUIRE(status.ok());
      if (std::memcmp(expected.data(), actual.data(), bytes + 1) != 0)
        FAIL(hlo::info(in).name << " rank " << s.spatial.size() << " batch " << s.input_batch << " features "
                                << s.input_features << " -> " << s.output_features << " groups "
                                << s.feature_groups << ", " << s.batch_groups << " isa "
                                << static_cast<int>(isa));
    }
}
void check_conv_bits(Pools& pools, DType in, DType out, const ConvShape& s, const Sizes& sizes,
                     std::mt19937_64& rng) {
  const std::vector<char> input = random_array(in, sizes.input, rng);
  check_conv_bits(pools, in, out, s, sizes, input, random_array(in, sizes.filter, rng));
}

// A 3x3 window over images, padded to keep their size.
ConvShape same_size(int64_t batch, int64_t from, int64_t to, int64_t image) {
  ConvShape s;
  s.input_batch = batch;
  s.input_features = s.filter_input = from;
  s.output_features = to;
  s.spatial.resize(2);
  for (ConvDim& d : s.spatial) {
    d.input = d.output = image;
    d.filter = 3;
    d.pad_low = 1;
  }
  return s;
}

}  // namespace

TEST_CASE(
    "convolutions have the bits of the definition: every type, layout, window, group, instruction set") {
  Pools pools;
  std::mt19937_64 rng(21);
  const std::pair<DType, DType> types[] = {
      {DType::kF32, DType::kF32}, {DType::kF64, DType::kF64},   {DType::kF32, DType::kF32},
      {DType::kF16, DType::kF16}, {DType::kBF16, DType::kF32},  {DType::kS8, DType::kS32},
      {DType::kS32, DType::kS32}, {DType::kC128, DType::kC128}, {DType::kC64, DType::kC64},
      {DType::kU8, DType::kU8},
  };
  for (int i = 0; i < 400; ++i) {
    const auto [in, out] = types[static_cast<size_t>(i) % std::size(types)];
    ConvShape s = random_shape(rng);
    const Sizes sizes = i % 3 == 0 ? random_strides(s, rng) : usual_strides(s, i % 3 == 1);
    check_conv_bits(pools, in, out, s, sizes, rng);
  }
}

TEST_CASE("convolutions of empty windows and images, of no features and of none at all") {
  Pools pools;
  std::mt19937_64 rng(22);
  for (const DType type : {DType::kF32, DType::kF64, DType::kBF16, DType::kS8, DType::kS32, DType::kC64})
    for (int i = 0; i < 60; ++i) {
      ConvShape s = random_shape(rng);
      const int empty = i % 5;
      if (empty == 0) s.filter_input = s.input_features = 0;
      if (empty == 1) s.output_features = 0;
      if (empty == 2) s.input_batch = 0;
      for (ConvDim& d : s.spatial) {
        if (empty == 3) d.filter = 0;
        if (empty == 4) d.input = 0;
        const int64_t padded = (d.input > 0 ? (d.input - 1) * d.input_dilation + 1 : 0) + d.pad_low + 1;
        const int64_t window = d.filter > 0 ? (d.filter - 1) * d.filter_dilation + 1 : 0;
        d.output = padded < window ? 0 : (padded - window) / d.stride + 1;
      }
      const Sizes sizes = i % 3 == 0 ? random_strides(s, rng) : usual_strides(s, i % 3 == 1);
      check_conv_bits(pools, type, type, s, sizes, rng);
    }
}

// As in gradients of filters: the window nearly covers the input, and few positions are left.
TEST_CASE("convolutions with long windows and few outputs have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(22);
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF64, DType::kF64},
                                           {DType::kBF16, DType::kF32},
                                           {DType::kS32, DType::kS32}};
  for (int i = 0; i < 120; ++i) {
    ConvShape s = random_shape(rng);
    s.spatial.resize(1 + rng() % 2);
    s.filter_input = pick(rng, {1, 3, 8});
    s.input_features = s.filter_input * s.feature_groups;
    for (ConvDim& d : s.spatial) {
      d.input_dilation = 1;
      d.output = pick(rng, {1, 2, 3, 5, 9});
      d.filter = pick(rng, {9, 14, 33});
      d.stride = pick(rng, {1, 1, 2});
      d.pad_low = pick(rng, {0, 1, 2, 12, -1});
      const int64_t reach = (d.output - 1) * d.stride + (d.filter - 1) * d.filter_dilation + 1;
      d.input = std::max<int64_t>(1, reach - d.pad_low - pick(rng, {0, 1, 2, 11, -2}));
    }
    const Sizes sizes = i % 3 == 0 ? random_strides(s, rng) : usual_strides(s, i % 3 == 1);
    check_conv_bits(pools, types[i % 4].first, types[i % 4].second, s, sizes, rng);
  }
}

// Images whose tiles run along a line, and gradients of filters, whose tiles run across images; every way to
// meet an edge.
TEST_CASE("convolutions that read patches in place have the bits of the definition", "[heavy]") {
  Pools pools;
  std::mt19937_64 rng(24);
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF64, DType::kF64},
                                           {DType::kBF16, DType::kF32},
                                           {DType::kF16, DType::kF16}};
  int along = 0, across = 0;
  for (int i = 0; i < 120; ++i) {
    const bool gradient = i % 2 == 1;
    ConvShape s = random_shape(rng);
    s.spatial.resize(1 + rng() % 2);
    s.filter_input = pick(rng, {3, 8, 17, 40});
    s.input_features = s.filter_input * s.feature_groups;
    s.output_features = pick(rng, {16, 20, 33, 48}) * s.groups();
    s.input_batch = (gradient ? pick(rng, {8, 15, 29}) : pick(rng, {2, 5})) * s.batch_groups;
    for (ConvDim& d : s.spatial) {
      d.output = gradient ? pick(rng, {1, 2, 3, 5}) : pick(rng, {4, 9, 15, 31});
      d.filter = gradient ? pick(rng, {9, 14, 33}) : pick(rng, {1, 3, 4});
      d.stride = pick(rng, {1, 1, 2});
      d.pad_low = pick(rng, {0, 1, 2, 12, -1, -3});
      const int64_t reach = (d.output - 1) * d.stride + (d.filter - 1) * d.filter_dilation + 1;
      d.input = std::max<int64_t>(1, (reach - d.pad_low - pick(rng, {0, 1, 2, 11, -2})) / d.input_dilation);
    }
    const auto plan = jit::plan_rows(s, 16, 14, 32, 4, 1);
    if (plan) ++(plan->across ? across : along);
    const Sizes sizes = i % 3 == 0 ? random_strides(s, rng) : usual_strides(s, i % 3 == 1);
    const auto [in, out] = types[static_cast<size_t>(i / 2) % std::size(types)];
    check_conv_bits(pools, in, out, s, sizes, rng);
  }
  CHECK(along > 20);
  CHECK(across > 20);
}

// Every way to meet an edge, several blocks of terms, tiles of several heights.
TEST_CASE("convolutions whose lanes are positions have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(28);
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF64, DType::kF64},
                                           {DType::kBF16, DType::kF32},
                                           {DType::kF16, DType::kF16}};
  int planned = 0, several_blocks = 0;
  for (int i = 0; i < 300; ++i) {
    ConvShape s = random_shape(rng);
    s.spatial.resize(1 + rng() % 2);
    s.filter_input = pick(rng, {3, 8, 40});
    s.input_features = s.filter_input * s.feature_groups;
    s.output_features = pick(rng, {1, 2, 3, 5, 7, 12, 15}) * s.groups();
    for (ConvDim& d : s.spatial) {
      d.output = pick(rng, {4, 9, 16, 31});
      d.filter = pick(rng, {1, 2, 3, 5});
      d.stride = 1;
      d.pad_low = pick(rng, {0, 1, 2, 12, -1, -3});
      const int64_t reach = d.output + (d.filter - 1) * d.filter_dilation;
      d.input = std::max<int64_t>(1, (reach - d.pad_low - pick(rng, {0, 1, 2, 11, -2})) / d.input_dilation);
    }
    const Sizes sizes = i % 3 == 0 ? random_strides(s, rng) : usual_strides(s, i % 3 == 1);
    if (jit::plan_planes<float>(s, jit::gemm_kernels<float>(jit::Isa::kAvx512), 1)) {
      ++planned;
      if (s.window() * s.filter_input > hlo::kDotBlock) ++several_blocks;
    }
    const auto [in, out] = types[static_cast<size_t>(i) % std::size(types)];
    check_conv_bits(pools, in, out, s, sizes, rng);
  }
  CHECK(planned > 40);
  CHECK(several_blocks > 5);
}

// Parts of the lines at a time, the last of them shorter; a large image for each thread.
TEST_CASE("large convolutions whose lanes are positions have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(29);
  for (bool features_last : {false, true})
    for (const auto& [batch, from, to, image] :
         std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{{1, 2, 3, 223}, {3, 24, 12, 70}}) {
      ConvShape s;
      s.input_batch = batch;
      s.input_features = s.filter_input = from;
      s.output_features = to;
      s.spatial.resize(2);
      for (ConvDim& d : s.spatial) {
        d.input = d.output = image;
        d.filter = 3;
        d.pad_low = 1;
      }
      const auto plan = jit::plan_planes<float>(s, jit::gemm_kernels<float>(jit::Isa::kAvx512), 2);
      REQUIRE(plan);
      CHECK(plan->cuts() > 1);
      check_conv_bits(pools, DType::kF32, DType::kF32, s, usual_strides(s, features_last), rng);
    }
}

// Every way to meet an edge, in lines of several tiles, with features that are no whole number of vectors.
TEST_CASE("convolutions whose lanes are features have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(30);
  const DType types[] = {DType::kF32, DType::kF64, DType::kBF16};
  int planned = 0, zero_lines = 0;
  for (int i = 0; i < 250; ++i) {
    ConvShape s = random_shape(rng);
    s.spatial.resize(1 + rng() % 2);
    s.batch_groups = 1;
    s.input_batch = pick(rng, {1, 2, 3});
    s.feature_groups = s.input_features = s.output_features = pick(rng, {16, 19, 32, 40, 77});
    s.filter_input = 1;
    for (ConvDim& d : s.spatial) {
      d.output = pick(rng, {4, 7, 15, 24});
      d.pad_low = pick(rng, {0, 1, 2, 6, -1, -3});
      const int64_t reach = (d.output - 1) * d.stride + (d.filter - 1) * d.filter_dilation + 1;
      d.input = std::max<int64_t>(1, (reach - d.pad_low - pick(rng, {0, 1, 2, 5, -2})) / d.input_dilation);
    }
    const Sizes sizes = usual_strides(s, true);
    if (jit::plan_features(s, 8, 2)) {
      ++planned;
      zero_lines += s.spatial[0].pad_low > s.spatial[0].filter;
    }
    const DType type = types[static_cast<size_t>(i) % std::size(types)];
    check_conv_bits(pools, type, type, s, sizes, rng);
  }
  CHECK(planned > 50);
  CHECK(zero_lines > 5);
}

// What is read in place has its features side by side, in windows of one block of terms.
TEST_CASE("depthwise convolutions read their features in place where these lie side by side") {
  ConvShape s;
  s.input_batch = 8;
  s.feature_groups = s.input_features = s.output_features = 128;
  s.spatial.resize(2);
  for (ConvDim& d : s.spatial) {
    d.input = d.output = 28;
    d.filter = 3;
    d.pad_low = 1;
  }
  usual_strides(s, false);
  CHECK(!jit::plan_features(s, 8, 1));
  usual_strides(s, true);
  const auto plan = jit::plan_features(s, 8, 1);
  REQUIRE(plan);
  CHECK(plan->tiles == 4);
  CHECK(plan->held == 3);
  CHECK(!jit::plan_features(s, 128, 1));
  for (ConvDim& d : s.spatial) d.filter = 17;
  CHECK(!jit::plan_features(s, 8, 1));
}

// Depthwise ones, groups of a few features, and their gradients, in any number of dimensions.
TEST_CASE("convolutions whose lanes are groups have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(26);
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF64, DType::kF64},
                                           {DType::kBF16, DType::kF32},
                                           {DType::kBF16, DType::kBF16},
                                           {DType::kF16, DType::kF16}};
  int planned = 0, several_blocks = 0;
  for (int i = 0; i < 200; ++i) {
    ConvShape s = random_shape(rng);
    const int64_t groups = pick(rng, {8, 16, 19, 40});
    const bool batch_groups = rng() % 2 == 0;
    s.feature_groups = batch_groups ? 1 : groups;
    s.batch_groups = batch_groups ? groups : 1;
    s.input_batch = pick(rng, {1, 2, 3}) * s.batch_groups;
    s.filter_input = pick(rng, {1, 1, 1, 2, 4});
    s.input_features = s.filter_input * s.feature_groups;
    s.output_features = pick(rng, {1, 1, 2, 3}) * groups;
    for (ConvDim& d : s.spatial)
      if (const bool gradient = i % 3 == 0; gradient) {
        d.output = pick(rng, {1, 2, 3});
        d.filter = pick(rng, {7, 14, 21});
        d.filter_dilation = 1;
        const int64_t reach = (d.output - 1) * d.stride + d.filter;
        d.input = std::max<int64_t>(1, reach - d.pad_low - pick(rng, {0, 1, 2}));
      }
    const Sizes sizes = i % 3 == 0 ? random_strides(s, rng) : usual_strides(s, i % 3 == 1);
    if (jit::plan_lanes(s, 16, 4, 2)) {
      ++planned;
      if (s.window() * s.filter_input > hlo::kDotBlock) ++several_blocks;
    }
    const auto [in, out] = types[static_cast<size_t>(i) % std::size(types)];
    check_conv_bits(pools, in, out, s, sizes, rng);
  }
  CHECK(planned > 50);
  CHECK(several_blocks > 5);
}

// Strips of a large image, and parts of a long window that end within a block of terms.
TEST_CASE("large convolutions whose lanes are groups have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(27);
  for (bool features_last : {false, true})
    for (bool gradient : {false, true}) {
      ConvShape s;
      s.input_batch = gradient ? 20 : 1;
      s.batch_groups = gradient ? 20 : 1;
      s.feature_groups = gradient ? 1 : 20;
      s.filter_input = gradient ? 3 : 1;
      s.input_features = gradient ? 3 : 20;
      s.output_features = 20;
      s.spatial.resize(2);
      for (ConvDim& d : s.spatial) {
        d.input = 131;
        d.pad_low = 1;
        d.filter = gradient ? d.input : 3;
        d.output = gradient ? 3 : d.input;
      }
      const auto plan = jit::plan_lanes(s, 16, 4, 2);
      REQUIRE(plan);
      CHECK((gradient ? plan->taps < s.spatial[0].filter : plan->strips() > 1));
      check_conv_bits(pools, DType::kF32, DType::kF32, s, usual_strides(s, features_last), rng);
    }
}

// Several chunks of terms, parts of the batch and lines at a time.
TEST_CASE("large gradients of filters have the bits of the definition", "[heavy]") {
  Pools pools;
  std::mt19937_64 rng(25);
  for (bool features_last : {false, true})
    for (const auto& [image, batch, from, to] : std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
             {24, 3, 20, 40}, {33, 4, 50, 17}, {60, 1, 16, 16}, {20, 40, 150, 16}}) {
      ConvShape s;
      s.input_batch = from;
      s.input_features = s.filter_input = batch;
      s.output_features = to;
      s.spatial.resize(2);
      for (ConvDim& d : s.spatial) {
        d.input = d.filter = image;
        d.pad_low = 1;
        d.output = 3;
      }
      s.spatial[1].output = 2;
      REQUIRE(jit::plan_rows(s, 16, 14, 32, 4, 2).value().across);
      Sizes sizes = usual_strides(s, false);
      if (features_last) {
        // Images are [batch][y][x][features]: what is summed over is outermost.
        const auto lay = [&](int64_t& inner, int64_t extent, int64_t& outer, int64_t ConvDim::*stride) {
          inner = 1;
          s.spatial[1].*stride = extent;
          s.spatial[0].*stride = extent * image;
          outer = extent * image * image;
        };
        lay(s.input_batch_stride, from, s.input_feature_stride, &ConvDim::input_stride);
        lay(s.filter_output_stride, to, s.filter_input_stride, &ConvDim::filter_stride);
      }
      check_conv_bits(pools, DType::kF32, DType::kF32, s, sizes, rng);
    }
}

TEST_CASE("convolutions of usual networks have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(22);
  for (bool features_last : {false, true})
    for (const auto& [image, from, to, filter, pad] :
         std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>>{
             {28, 1, 6, 5, 2}, {14, 6, 16, 5, 0}, {12, 40, 48, 3, 1}, {9, 300, 20, 1, 0}}) {
      ConvShape s;
      s.input_batch = 3;
      s.input_features = s.filter_input = from;
      s.output_features = to;
      s.spatial.resize(2);
      for (ConvDim& d : s.spatial) {
        d.input = image;
        d.filter = filter;
        d.pad_low = pad;
        d.output = image + 2 * pad - filter + 1;
      }
      const Sizes sizes = usual_strides(s, features_last);
      check_conv_bits(pools, DType::kF32, DType::kF32, s, sizes, rng);
    }
}

// Windows of one position: the patches are the input as it lies, but for those with steps or padding.
TEST_CASE("convolutions of single positions have the bits of the definition") {
  Pools pools;
  std::mt19937_64 rng(31);
  const std::pair<DType, DType> types[] = {{DType::kF32, DType::kF32},
                                           {DType::kF64, DType::kF64},
                                           {DType::kBF16, DType::kF32},
                                           {DType::kF16, DType::kF16},
                                           {DType::kS32, DType::kS32}};
  for (int i = 0; i < 90; ++i) {
    ConvShape s = random_shape(rng);
    s.spatial.resize(1 + rng() % 2);
    s.filter_input = pick(rng, {1, 5, 40});
    s.input_features = s.filter_input * s.feature_groups;
    s.output_features = pick(rng, {3, 16, 33}) * s.groups();
    for (ConvDim& d : s.spatial) {
      d.filter = 1;
      d.input_dilation = 1;
      d.stride = pick(rng, {1, 1, 1, 2});
      d.output = s.spatial.size() == 1 ? pick(rng, {255, 300}) : pick(rng, {15, 18});
      d.pad_low = pick(rng, {0, 0, 0, 1, -1});
      d.input = std::max<int64_t>(1, (d.output - 1) * d.stride + 1 - d.pad_low - pick(rng, {0, 0, 0, 1, -2}));
    }
    const Sizes sizes = i % 5 == 0 ? random_strides(s, rng) : usual_strides(s, i % 2 == 1);
    const auto [in, out] = types[static_cast<size_t>(i) % std::size(types)];
    check_conv_bits(pools, in, out, s, sizes, rng);
  }
}

// Blocks of terms of nothing but padding, which are not gone through for each position.
TEST_CASE("padding adds what the filters make of zeros: zeros of either sign, and no numbers") {
  Pools pools;
  std::mt19937_64 rng(32);
  for (int64_t image : {5, 9})
    for (bool features_last : {false, true})
      for (float by : {1.0F, -1.0F, std::numeric_limits<float>::infinity()}) {
        ConvShape s = same_size(8, 256, 20, image);
        const auto plan = jit::plan_rows(s, 16, 14, 32, 4, 2);
        REQUIRE(plan);
        CHECK(plan->across == (image == 5));
        const Sizes sizes = usual_strides(s, features_last);
        for (bool blank : {false, true}) {
          std::vector<char> input = random_array(DType::kF32, sizes.input, rng),
                            filter = random_array(DType::kF32, sizes.filter, rng);
          auto* const x = reinterpret_cast<float*>(input.data());
          auto* const w = reinterpret_cast<float*>(filter.data());
          if (blank) std::fill_n(x, sizes.input, 0.0F);
          for (int64_t f = 0; f < sizes.filter; ++f) w[f] = std::copysign(w[f], by);
          if (std::isinf(by)) w[3] = by;
          check_conv_bits(pools, DType::kF32, DType::kF32, s, sizes, input, filter);
        }
      }
}

TEST_CASE("of few images threads share the output features, and filters are packed where they are used") {
  const auto plan = [](int64_t batch, int64_t features, int64_t threads) {
    ConvShape s = same_size(batch, features, features, 7);
    usual_strides(s, false);
    const auto found = jit::plan_rows(s, 16, 14, 32, 4, threads);
    REQUIRE(found);
    CHECK(found->across);
    return *found;
  };
  const jit::RowPlan alone = plan(8, 512, 1), shared = plan(8, 512, 2), many = plan(64, 128, 2);
  CHECK(alone.cuts == 1);
  CHECK(alone.pack == jit::RowPlan::Pack::kPanel);
  CHECK(shared.tasks == 2);
  CHECK(shared.cuts == 2);
  CHECK(shared.images == 8);
  CHECK(many.cuts == 1);
  CHECK(many.images <= 32);
  CHECK(many.pack == jit::RowPlan::Pack::kOnce);
}

// As they lie by feature of the output or of the input, forwards or reversed, as in gradients of the input.
TEST_CASE("filters are turned so that output features lie side by side") {
  std::mt19937_64 rng(33);
  int turned = 0;
  for (int i = 0; i < 200; ++i) {
    ConvShape s = random_shape(rng);
    s.filter_input = pick(rng, {1, 3, 17, 130});
    s.output_features = pick(rng, {16, 20, 33, 70});
    Sizes sizes = usual_strides(s, false);
    const int64_t window = s.window();
    if (i % 2 == 1) {
      s.filter_output_stride = window;
      s.filter_input_stride = window * s.output_features;
    }
    const auto filters = jit::TurnedFilters::of(s);
    if (!filters) {
      CHECK(window == 1);
      continue;
    }
    ++turned;
    std::vector<float> from(static_cast<size_t>(sizes.filter)), to(from.size(), -1);
    std::iota(from.begin(), from.end(), 0.0F);
    const int64_t features = s.filter_input, columns = s.output_features, half = features / 2;
    for (jit::Isa isa : kIsas) {
      std::fill(to.begin(), to.end(), -1.0F);
      for (const auto& [f0, f1] : {std::pair{int64_t{0}, half}, std::pair{half, features}})
        filters->turn(jit::gemm_kernels<float>(jit::usable_isa(isa)), from.data(), columns, 32, f0, f1,
                      [&](int64_t first, int64_t k) { return to.data() + k * columns + first; });
      bool same = true;
      for (int64_t w = 0; w < window; ++w) {
        int64_t at = 0, left = w;
        for (size_t d = s.spatial.size(); d-- > 0; left /= s.spatial[d].filter) {
          const ConvDim& dim = s.spatial[d];
          const int64_t here = left % dim.filter;
          at += (dim.reversed ? dim.filter - 1 - here : here) * dim.filter_stride;
        }
        for (int64_t f = 0; f < features; ++f)
          for (int64_t c = 0; c < columns; ++c)
            same =
                same && to[static_cast<size_t>((w * features + f) * columns + c)] ==
                            static_cast<float>(at + f * s.filter_input_stride + c * s.filter_output_stride);
      }
      CHECK(same);
    }
  }
  CHECK(turned > 100);
}

TEST_CASE("the definition of convolution agrees with a padded, dilated input written out") {
  std::mt19937_64 rng(23);
  for (int i = 0; i < 200; ++i) {
    ConvShape s = random_shape(rng);
    s.spatial.resize(2);
    s.spatial[0].output = std::max<int64_t>(s.spatial[0].output, 0);
    const Sizes sizes = random_strides(s, rng);
    const std::vector<char> in = random_array(DType::kS32, sizes.input, rng),
                            filter = random_array(DType::kS32, sizes.filter, rng);
    const auto* x = reinterpret_cast<const uint32_t*>(in.data());
    const auto* w = reinterpret_cast<const uint32_t*>(filter.data());
    std::vector<uint32_t> out(static_cast<size_t>(sizes.output) + 1);
    REQUIRE(hlo::reference_conv(DType::kS32, DType::kS32, s, x, w, out.data()).ok());
    // Every image of every feature in a frame with room for all padding on both sides.
    constexpr int64_t kFrame = 64, kOrigin = 8;
    const ConvDim &dy = s.spatial[0], &dx = s.spatial[1];
    const int64_t per_group = s.output_features / s.groups(), batches = s.output_batch();
    for (int64_t b = 0; b < batches; ++b)
      for (int64_t f = 0; f < s.output_features; ++f) {
        const int64_t g = f / per_group;
        std::vector<uint32_t> sum(static_cast<size_t>(dy.output * dx.output), 0);
        for (int64_t c = 0; c < s.filter_input; ++c) {
          std::vector<uint32_t> frame(kFrame * kFrame, 0);
          const int64_t channel = s.feature_groups > 1 ? g * s.filter_input + c : c;
          const int64_t image = s.batch_groups > 1 ? g * batches + b : b;
          for (int64_t y = 0; y < dy.input; ++y)
            for (int64_t z = 0; z < dx.input; ++z)
              frame[static_cast<size_t>((kOrigin + y * dy.input_dilation) * kFrame + kOrigin +
                                        z * dx.input_dilation)] =
                  x[image * s.input_batch_stride + channel * s.input_feature_stride + y * dy.input_stride +
                    z * dx.input_stride];
          for (int64_t ky = 0; ky < dy.filter; ++ky)
            for (int64_t kx = 0; kx < dx.filter; ++kx) {
              const int64_t py = dy.reversed ? dy.filter - 1 - ky : ky,
                            px = dx.reversed ? dx.filter - 1 - kx : kx;
              const uint32_t weight = w[py * dy.filter_stride + px * dx.filter_stride +
                                        c * s.filter_input_stride + f * s.filter_output_stride];
              for (int64_t y = 0; y < dy.output; ++y)
                for (int64_t z = 0; z < dx.output; ++z)
                  sum[static_cast<size_t>(y * dx.output + z)] +=
                      weight * frame[static_cast<size_t>(
                                   (kOrigin - dy.pad_low + y * dy.stride + ky * dy.filter_dilation) * kFrame +
                                   kOrigin - dx.pad_low + z * dx.stride + kx * dx.filter_dilation)];
            }
        }
        for (int64_t y = 0; y < dy.output; ++y)
          for (int64_t z = 0; z < dx.output; ++z)
            REQUIRE(out[static_cast<size_t>(b * s.output_batch_stride + f * s.output_feature_stride +
                                            y * dy.output_stride + z * dx.output_stride)] ==
                    sum[static_cast<size_t>(y * dx.output + z)]);
      }
  }
}

TEST_CASE("padding is a term of the sum: a minus zero beside it becomes plus zero") {
  // The patch is (0, -0) with weights (1, 1): 0*1 = +0, then fma(-0, 1, +0) = +0; without the hole it would
  // be -0.
  ConvShape s;
  s.spatial = {ConvDim{}};
  ConvDim& d = s.spatial[0];
  d.input = 1, d.filter = 2, d.output = 1, d.pad_low = 1;
  d.input_stride = d.filter_stride = d.output_stride = 1;
  const float input = -0.0F, filter[2] = {1, 1};
  Pools pools;
  for (jit::Isa isa : kIsas) {
    float out = 1;
    REQUIRE(
        jit::convolution(DType::kF32, DType::kF32, s, &input, filter, &out, pools.context(isa, false)).ok());
    CHECK(out == 0);
    CHECK_FALSE(std::signbit(out));
  }
}

TEST_CASE("impossible convolutions are refused in words") {
  Pools pools;
  float x = 0;
  const auto code = [&](const ConvShape& s) {
    return jit::convolution(DType::kF32, DType::kF32, s, &x, &x, &x, pools.context(jit::best_isa(), false))
        .code();
  };
  ConvShape s;
  CHECK(code(s) == absl::StatusCode::kOk);
  s.feature_groups = s.batch_groups = 2;
  CHECK(code(s) == absl::StatusCode::kInvalidArgument);
  s = {};
  s.feature_groups = 3;
  CHECK(code(s) == absl::StatusCode::kInvalidArgument);
  s = {};
  s.input_batch = -1;
  CHECK(code(s) == absl::StatusCode::kInvalidArgument);
  s = {};
  s.spatial.resize(9);
  CHECK(code(s) == absl::StatusCode::kInvalidArgument);
  s = {};
  s.spatial = {ConvDim{}};
  s.spatial[0].stride = 0;
  CHECK(code(s) == absl::StatusCode::kInvalidArgument);
  s.spatial[0].stride = INT64_MAX;
  s.spatial[0].output = 2;
  CHECK(code(s) == absl::StatusCode::kInvalidArgument);
}
