// Convolutions of few output features, whose lanes are neighbouring output positions that the register tiles
// read in place, out of padded copies of the input's planes.
//
// Contract: the bits of hlo/reference_conv.h, by the kernels' chains over the same blocks of k as gemm.h.
// Serves one or two spatial dimensions y and x with steps of 1, real types whose kernels have offset tiles,
// and shapes for which it is worth its copies; `plan_planes` says which.
//
// The lines of one feature lie one after the other in a plane, with the zeros of padding and of input
// dilation written out. A tile's lanes go on from one line to the next, over the few positions between them
// that are none of the output's, and each term of the patches is the same distance further for all of them.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_PLANES_H_
#define LAMINA_JIT_CPU_CONVOLUTION_PLANES_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "hlo/reference_conv.h"
#include "hlo/reference_dot.h"
#include "jit/cpu/convolution_call.h"
#include "jit/cpu/padded_line.h"

namespace lamina::jit {

struct PlanePlan {
  hlo::ConvDim y, x;
  int64_t features;    // of the input, per group
  int64_t columns;     // output features per group
  int64_t k;           // terms of a patch
  int64_t width;       // of a padded line
  int64_t lines;       // of output at a time
  int64_t held_lines;  // of input, for so many
  int64_t plane;       // elements from one feature's lines to those of the next
  int64_t sums;        // positions gone over for each output feature, whole vectors
  int64_t vecs;        // of a tile
  int64_t tile_rows;   // the most output features of a tile
  int64_t tasks;

  // A vector of the last plane may begin at its last position.
  int64_t plane_elements(int64_t lanes) const { return features * plane + vecs * lanes; }
  int64_t cuts() const { return ceil_div(y.output, lines); }
};

// Nothing where the shape is better served otherwise.
template <typename T>
std::optional<PlanePlan> plan_planes(const hlo::ConvShape& shape, const GemmKernels<T>& kernels,
                                     int64_t threads);
extern template std::optional<PlanePlan> plan_planes(const hlo::ConvShape&, const GemmKernels<float>&,
                                                     int64_t);
extern template std::optional<PlanePlan> plan_planes(const hlo::ConvShape&, const GemmKernels<double>&,
                                                     int64_t);

template <typename T, typename Out, typename Store>
class PlaneConvolution : private ConvolutionCall<T, Out, Store> {
  using Call = ConvolutionCall<T, Out, Store>;

 public:
  template <typename... Arguments>
  explicit PlaneConvolution(const PlanePlan& plan, const Arguments&... arguments)
      : Call(arguments...), plan_(plan) {}

  absl::Status run() {
    const int64_t shared = aligned(shape_.groups() * plan_.columns * plan_.k);
    const int64_t planes = aligned(plan_.plane_elements(kernels_.lanes));
    const int64_t per_task = planes + aligned(plan_.columns * plan_.sums);
    find_offsets();
    return with_scratch(shared + per_task * plan_.tasks, [&](T* scratch) {
      context_.parallel(shape_.groups(), [&](int64_t group) {
        if (!context_.cancelled()) pack_filters(scratch + group * plan_.columns * plan_.k, group);
      });
      context_.parallel(plan_.tasks, [&](int64_t task) {
        T* const mine = scratch + shared + task * per_task;
        run_task(task, scratch, mine, mine + planes);
      });
    });
  }

 private:
  using Call::aligned;
  using Call::context_;
  using Call::filter_;
  using Call::filter_offset;
  using Call::in_;
  using Call::input_of;
  using Call::kernels_;
  using Call::output_;
  using Call::shape_;
  using Call::store_;
  using Call::with_scratch;

  // How far each term lies from a position's first one.
  void find_offsets() {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    for (int64_t wy = 0; wy < y.filter; ++wy)
      for (int64_t wx = 0; wx < x.filter; ++wx)
        for (int64_t f = 0; f < plan_.features; ++f)
          offsets_.push_back(static_cast<int32_t>(f * plan_.plane + wy * y.filter_dilation * plan_.width +
                                                  wx * x.filter_dilation));
  }

  // Calls fn(first, count) for the output features of each tile, as even as can be.
  template <typename Fn>
  void for_tiles(Fn fn) const {
    const int64_t tiles = ceil_div(plan_.columns, plan_.tile_rows);
    for (int64_t tile = 0, first = 0; tile < tiles; ++tile) {
      const int64_t rows = plan_.columns / tiles + (tile < plan_.columns % tiles ? 1 : 0);
      fn(first, rows);
      first += rows;
    }
  }

  // Of each tile [k][output feature].
  void pack_filters(T* to, int64_t group) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    for_tiles([&](int64_t first, int64_t rows) {
      for (int64_t wy = 0; wy < y.filter; ++wy)
        for (int64_t wx = 0; wx < x.filter; ++wx) {
          const int64_t at = (group * plan_.columns + first) * shape_.filter_output_stride +
                             filter_offset(y, wy) + filter_offset(x, wx);
          StridedSource<T>{filter_ + at * hlo::byte_size(in_), in_, shape_.filter_output_stride,
                           shape_.filter_input_stride}
              .pack(&kernels_, to, rows, 0, rows, 0, plan_.features);
          to += plan_.features * rows;
        }
    });
  }

  // The lines that output lines from `line0` on need.
  void fill(T* planes, const char* data, int64_t line0) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    const PaddedLine part(x, plan_.width);
    const int64_t count = part.high - part.low;
    for (int64_t i = 0; i < plan_.held_lines; ++i) {
      T* const to = planes + i * plan_.width;
      const int64_t line = input_line(y, line0 + i);
      const bool all_zeros = line < 0 || part.empty();
      if (all_zeros || count < plan_.width)
        for (int64_t f = 0; f < plan_.features; ++f) std::fill_n(to + f * plan_.plane, plan_.width, T{});
      if (all_zeros) continue;
      const int64_t from = line * y.input_stride + part.low * x.input_stride;
      const StridedSource<T> source{data + from * hlo::byte_size(in_), in_, x.input_stride,
                                    shape_.input_feature_stride};
      if (x.input_dilation == 1) {
        source.pack(&kernels_, to + part.first, plan_.plane, 0, count, 0, plan_.features);
        continue;
      }
      for (int64_t at = 0; at < count; ++at)
        source.pack(&kernels_, to + part.first + at * x.input_dilation, plan_.plane, at, 1, 0,
                    plan_.features);
    }
  }

  void accumulate(const T* planes, const T* filters, int64_t lines, T* sums) const {
    const int64_t lanes = kernels_.lanes;
    const int64_t vectors = ceil_div((lines - 1) * plan_.width + plan_.x.output, lanes);
    for_tiles([&](int64_t first, int64_t rows) {
      for (int64_t v = 0; v < vectors; v += plan_.vecs) {
        if (context_.cancelled()) return;
        const int64_t vecs = std::min(plan_.vecs, vectors - v), at = v * lanes;
        for (int64_t k0 = 0; k0 < plan_.k; k0 += hlo::kDotBlock)
          kernels_.offset_tile[rows - 1][vecs - 1](
              std::min(hlo::kDotBlock, plan_.k - k0), filters + first * plan_.k + k0 * rows, planes + at,
              offsets_.data() + k0, sums + first * plan_.sums + at, plan_.sums, k0 == 0);
      }
    });
  }

  void store_line(const T* sums, Out* to) const {
    const int64_t step = plan_.x.output_stride, feature = shape_.output_feature_stride;
    if constexpr (std::is_same_v<T, Out>) {
      if (step == 1) {
        for (int64_t c = 0; c < plan_.columns; ++c)
          std::copy_n(sums + c * plan_.sums, plan_.x.output, to + c * feature);
        return;
      }
      if (feature == 1) return kernels_.transpose(to, step, sums, plan_.sums, plan_.columns, plan_.x.output);
    }
    for (int64_t c = 0; c < plan_.columns; ++c)
      for (int64_t o = 0; o < plan_.x.output; ++o)
        to[c * feature + o * step] = store_(sums[c * plan_.sums + o]);
  }

  void run_task(int64_t task, const T* filters, T* planes, T* sums) const {
    std::fill_n(planes, plan_.plane_elements(kernels_.lanes), T{});
    const int64_t cuts = plan_.cuts(), batch = shape_.output_batch();
    const int64_t items = shape_.groups() * batch * cuts;
    for (int64_t item = items * task / plan_.tasks; item < items * (task + 1) / plan_.tasks; ++item) {
      const int64_t line0 = item % cuts * plan_.lines, line1 = std::min(plan_.y.output, line0 + plan_.lines);
      const int64_t image = item / cuts % batch, group = item / cuts / batch;
      fill(planes, input_of(group, image), line0);
      accumulate(planes, filters + group * plan_.columns * plan_.k, line1 - line0, sums);
      if (context_.cancelled()) return;
      Out* const to =
          output_ + image * shape_.output_batch_stride + group * plan_.columns * shape_.output_feature_stride;
      for (int64_t line = line0; line < line1; ++line)
        store_line(sums + (line - line0) * plan_.width, to + line * plan_.y.output_stride);
    }
  }

  const PlanePlan& plan_;
  std::vector<int32_t> offsets_;  // of the terms
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_PLANES_H_
