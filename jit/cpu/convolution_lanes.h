// Convolutions of many narrow groups, of which depthwise ones are the narrowest: each lane of a vector is a
// group.
//
// Contract: the bits of hlo/reference_conv.h, by chains over the same blocks of k as gemm.h. Serves any
// number of spatial dimensions and real types that have lane chains; `plan_lanes` says for which shapes it is
// worth its copies.
//
// A block of groups is copied into [position][feature][lane], with the zeros of padding and of input dilation
// written out, and so are its filters, [term][output feature][lane]. A term then is one vector of either, at
// places that the position and the term tell by themselves. Long windows, as in the gradient of filters, and
// large images are taken a part of their first dimension at a time.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_LANES_H_
#define LAMINA_JIT_CPU_CONVOLUTION_LANES_H_

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <vector>

#include "hlo/reference_conv.h"
#include "hlo/reference_dot.h"
#include "jit/cpu/convolution_call.h"

namespace lamina::jit {

struct LanePlan {
  std::vector<hlo::ConvDim> dims;  // at least one: lines are its positions
  std::vector<int64_t> width;      // of the padded input; of the first dimension that of all lines
  int64_t lanes;
  int64_t features, columns;      // of a group: of the input and of the output
  int64_t line_positions = 1;     // of the padded input, in a line
  int64_t line_outputs = 1;       // positions of the output in a line
  int64_t line_terms;             // of the window, in a line, features included
  int64_t lines;                  // of output at a time
  int64_t taps;                   // lines of the window at a time
  int64_t images, blocks, tasks;  // blocks of `lanes` groups

  int64_t strips() const { return ceil_div(dims[0].output, lines); }
  int64_t terms() const { return dims[0].filter * line_terms; }
  int64_t input_elements() const {
    return ((lines - 1) * dims[0].stride + (taps - 1) * dims[0].filter_dilation + 1) * line_positions *
           features * lanes;
  }
  int64_t filter_elements() const { return taps * line_terms * columns * lanes; }
  int64_t sum_elements() const { return lines * line_outputs * columns * lanes; }
  int64_t elements() const { return input_elements() + filter_elements() + 2 * sum_elements(); }
};

// Nothing where the shape is better served otherwise.
std::optional<LanePlan> plan_lanes(const hlo::ConvShape& shape, int64_t lanes, int64_t element_bytes,
                                   int64_t threads);

template <typename T, typename Out, typename Store>
class LaneConvolution : private ConvolutionCall<T, Out, Store> {
  using Call = ConvolutionCall<T, Out, Store>;

 public:
  template <typename... Arguments>
  explicit LaneConvolution(const LanePlan& plan, const Arguments&... arguments)
      : Call(arguments...), plan_(plan) {}

  absl::Status run() {
    list_places();
    const int64_t per_task = aligned(plan_.elements());
    const int64_t strips = plan_.strips(), items = plan_.blocks * plan_.images * strips;
    return with_scratch(per_task * plan_.tasks, [&](T* scratch) {
      context_.parallel(plan_.tasks, [&](int64_t task) {
        Part part(plan_, scratch + task * per_task);
        for (int64_t i = items * task / plan_.tasks; i < items * (task + 1) / plan_.tasks; ++i) {
          part.set_block(i / strips / plan_.images);
          make(part, i / strips % plan_.images, i % strips * plan_.lines);
          if (context_.cancelled()) return;
        }
      });
    });
  }

 private:
  using Call::aligned;
  using Call::context_;
  using Call::filter_;
  using Call::filter_offset;
  using Call::group_stride;
  using Call::in_;
  using Call::input_;
  using Call::kernels_;
  using Call::output_;
  using Call::shape_;
  using Call::store_;
  using Call::with_scratch;

  // What a task works in.
  struct Part {
    Part(const LanePlan& plan, T* scratch)
        : input(scratch),
          filter(input + plan.input_elements()),
          chains(filter + plan.filter_elements()),
          sums(chains + plan.sum_elements()) {}
    void set_block(int64_t to) {
      if (block != to) has_filter = false;
      block = to;
    }

    T *input, *filter, *chains, *sums;
    int64_t block = -1;
    bool has_filter = false;  // of this block, whole
  };

  int64_t groups_of(int64_t block) const {
    return std::min(plan_.lanes, shape_.groups() - block * plan_.lanes);
  }

  // Where positions of the output in the packed input begin, and where terms lie from there.
  void list_places() {
    const int64_t element = plan_.features * plan_.lanes;
    const auto list = [&](int64_t first, auto size, auto step) {
      std::vector<int32_t> places = {0};
      int64_t apart = element;
      std::vector<int64_t> steps(plan_.dims.size());
      for (size_t d = plan_.dims.size(); d-- > 0; apart *= plan_.width[d]) steps[d] = apart;
      for (size_t d = 0; d < plan_.dims.size(); ++d) {
        std::vector<int32_t> finer;
        for (int32_t at : places)
          for (int64_t i = 0; i < (d == 0 ? first : size(plan_.dims[d])); ++i)
            finer.push_back(static_cast<int32_t>(at + i * step(plan_.dims[d]) * steps[d]));
        places = std::move(finer);
      }
      return places;
    };
    using hlo::ConvDim;
    positions_ = list(
        plan_.lines, [](const ConvDim& d) { return d.output; }, [](const ConvDim& d) { return d.stride; });
    const std::vector<int32_t> window = list(
        plan_.taps, [](const ConvDim& d) { return d.filter; },
        [](const ConvDim& d) { return d.filter_dilation; });
    for (int32_t at : window)
      for (int64_t f = 0; f < plan_.features; ++f)
        terms_.push_back(at + static_cast<int32_t>(f * plan_.lanes));
  }

  // Runs along the last dimension, in row-major order: `body(at, begin, end)` with the indices `at` of the
  // other dimensions. Of the first dimension there are [first, last), of dimension d size(d).
  template <typename Size, typename Body>
  void each_run(int64_t first, int64_t last, Size size, Body body) const {
    const size_t others = plan_.dims.size() - 1;
    std::vector<int64_t> at(others, 0);
    if (others == 0) return body(at, first, last);
    at[0] = first;
    while (at[0] < last) {
      body(at, int64_t{0}, size(others));
      size_t d = others - 1;
      while (++at[d] == size(d) && d > 0) at[d--] = 0;
    }
  }

  // Output lines from `line0` on, of one image and one block.
  void make(Part& part, int64_t image, int64_t line0) const {
    const hlo::ConvDim& y = plan_.dims[0];
    const int64_t line1 = std::min(y.output, line0 + plan_.lines),
                  count = (line1 - line0) * plan_.line_outputs;
    const int64_t terms = plan_.terms();
    T* const chains = terms <= hlo::kDotBlock ? part.sums : part.chains;
    for (int64_t tap0 = 0; tap0 < y.filter; tap0 += plan_.taps) {
      const int64_t tap1 = std::min(y.filter, tap0 + plan_.taps), k0 = tap0 * plan_.line_terms;
      pack_input(part, image, line0 * y.stride + tap0 * y.filter_dilation,
                 (line1 - 1) * y.stride + (tap1 - 1) * y.filter_dilation + 1);
      if (!part.has_filter) pack_filter(part, tap0, tap1);
      part.has_filter = plan_.taps == y.filter;
      for (int64_t k = k0; k < tap1 * plan_.line_terms;) {
        if (context_.cancelled()) return;
        const int64_t block_end = std::min(terms, (k / hlo::kDotBlock + 1) * hlo::kDotBlock);
        const int64_t end = std::min(block_end, tap1 * plan_.line_terms);
        for (int64_t m = 0; m < plan_.columns; ++m)
          chain(part, k - k0, end - k, m, count, chains + m * count * plan_.lanes, k % hlo::kDotBlock == 0);
        if (end == block_end && chains != part.sums)
          add(chains, part.sums, count * plan_.columns * plan_.lanes, k < hlo::kDotBlock);
        k = end;
      }
    }
    for (int64_t m = 0; m < plan_.columns; ++m)
      store_column(part.sums + m * count * plan_.lanes, part.block, m, image, line0, line1);
  }

  // `terms` terms of the packed part, from `first` on, of output feature `m` of all groups.
  void chain(const Part& part, int64_t first, int64_t terms, int64_t m, int64_t count, T* to,
             bool fresh) const {
    const int64_t tiles = ceil_div(count, kMaxLaneChains), step = plan_.columns * plan_.lanes;
    const int32_t* at = positions_.data();
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t n = count / tiles + (tile < count % tiles ? 1 : 0);
      kernels_.lane_chains[n - 1](terms, terms_.data() + first, at, part.input,
                                  part.filter + first * step + m * plan_.lanes, step, to, fresh);
      at += n;
      to += n * plan_.lanes;
    }
  }

  static void add(const T* from, T* to, int64_t count, bool first) {
    if (first)
      std::copy_n(from, count, to);
    else
      for (int64_t i = 0; i < count; ++i) to[i] = to[i] + from[i];
  }

  // `count` times a vector whose lanes lie side by side at both ends; false where these are not whole ones:
  // by a call for each of them the copy would take several times as long.
  static bool copy_vectors(T* to, int64_t to_step, const T* from, int64_t from_step, int64_t lanes,
                           int64_t count) {
    const auto copy = [&]<size_t kBytes>(std::integral_constant<size_t, kBytes>) {
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, kBytes);
      return true;
    };
    const int64_t bytes = lanes * static_cast<int64_t>(sizeof(T));
    if (bytes == 64) return copy(std::integral_constant<size_t, 64>());
    return bytes == 32 && copy(std::integral_constant<size_t, 32>());
  }

  // `count` elements of every lane of a block, `step` apart in memory: to[i * ld + lane]. Lanes without a
  // group get zeros.
  void pack(T* to, int64_t ld, const char* data, int64_t at, int64_t lane_stride, int64_t groups,
            int64_t step, int64_t count) const {
    if (groups < plan_.lanes)
      for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * ld + groups, plan_.lanes - groups, T{});
    const char* const from = data + at * hlo::byte_size(in_);
    if (lane_stride == 1 && loads_unchanged<T>(in_) &&
        copy_vectors(to, ld, reinterpret_cast<const T*>(from), step, groups, count))
      return;
    StridedSource<T>{from, in_, lane_stride, step}.pack(&kernels_, to, ld, 0, groups, 0, count);
  }

  // Lines [first, last) of the padded input, counted from the start of the padding.
  void pack_input(const Part& part, int64_t image, int64_t first, int64_t last) const {
    const int64_t group0 = part.block * plan_.lanes, groups = groups_of(part.block);
    const int64_t lane_stride = group_stride();
    const int64_t data = group0 * lane_stride + image * shape_.input_batch_stride;
    const hlo::ConvDim& x = plan_.dims.back();
    const int64_t element = plan_.features * plan_.lanes;
    T* to = part.input;
    const auto width = [&](size_t d) { return plan_.width[d]; };
    each_run(first, last, width, [&](const std::vector<int64_t>& p, int64_t x0, int64_t x1) {
      int64_t at = data;
      // Elements [low, high) of the run lie within it.
      const int64_t low =
          std::clamp(ceil_div(std::max<int64_t>(x0 - x.pad_low, 0), x.input_dilation), int64_t{0}, x.input);
      const int64_t past = x1 - x.pad_low;
      const int64_t high = past <= 0 ? low : std::clamp((past - 1) / x.input_dilation + 1, low, x.input);
      bool inside = low < high;
      for (size_t d = 0; d < p.size(); ++d) {
        const hlo::ConvDim& dim = plan_.dims[d];
        const int64_t q = p[d] - dim.pad_low;
        inside = inside && q >= 0 && q % dim.input_dilation == 0 && q / dim.input_dilation < dim.input;
        at += q / dim.input_dilation * dim.input_stride;
      }
      T* const run = to;
      to += (x1 - x0) * element;
      const int64_t begin = low * x.input_dilation + x.pad_low - x0, count = high - low;
      if (!inside || x.input_dilation != 1) {
        std::fill(run, to, T{});
        if (!inside) return;
      } else {
        std::fill_n(run, begin * element, T{});
        std::fill(run + (begin + count) * element, to, T{});
      }
      for (int64_t f = 0; f < plan_.features; ++f)
        pack(run + begin * element + f * plan_.lanes, element * x.input_dilation, input_,
             at + f * shape_.input_feature_stride + low * x.input_stride, lane_stride, groups, x.input_stride,
             count);
    });
  }

  // Lines [tap0, tap1) of the window.
  void pack_filter(const Part& part, int64_t tap0, int64_t tap1) const {
    const int64_t group0 = part.block * plan_.lanes, groups = groups_of(part.block);
    const int64_t lane_stride = plan_.columns * shape_.filter_output_stride;
    const hlo::ConvDim& x = plan_.dims.back();
    const int64_t term = plan_.columns * plan_.lanes;
    T* to = part.filter;
    const auto size = [&](size_t d) { return plan_.dims[d].filter; };
    each_run(tap0, tap1, size, [&](const std::vector<int64_t>& w, int64_t x0, int64_t x1) {
      int64_t at = group0 * lane_stride + filter_offset(x, x0);
      for (size_t d = 0; d < w.size(); ++d) at += filter_offset(plan_.dims[d], w[d]);
      for (int64_t f = 0; f < plan_.features; ++f)
        for (int64_t m = 0; m < plan_.columns; ++m)
          pack(to + (f * plan_.columns + m) * plan_.lanes, plan_.features * term, filter_,
               at + f * shape_.filter_input_stride + m * shape_.filter_output_stride, lane_stride, groups,
               x.reversed ? -x.filter_stride : x.filter_stride, x1 - x0);
      to += (x1 - x0) * plan_.features * term;
    });
  }

  // Output feature `m` of every group of the block, [position][lane] as it was made.
  void store_column(const T* sums, int64_t block, int64_t m, int64_t image, int64_t line0,
                    int64_t line1) const {
    const int64_t group0 = block * plan_.lanes, groups = groups_of(block);
    const int64_t lane_stride = plan_.columns * shape_.output_feature_stride;
    const int64_t data =
        group0 * lane_stride + m * shape_.output_feature_stride + image * shape_.output_batch_stride;
    const hlo::ConvDim& x = plan_.dims.back();
    const auto size = [&](size_t d) { return plan_.dims[d].output; };
    each_run(line0, line1, size, [&](const std::vector<int64_t>& o, int64_t x0, int64_t x1) {
      int64_t at = data + x0 * x.output_stride;
      for (size_t d = 0; d < o.size(); ++d) at += o[d] * plan_.dims[d].output_stride;
      store_run(sums, x1 - x0, output_ + at, lane_stride, groups, x.output_stride);
      sums += (x1 - x0) * plan_.lanes;
    });
  }

  void store_run(const T* sums, int64_t count, Out* to, int64_t lane_stride, int64_t groups,
                 int64_t step) const {
    if constexpr (std::is_same_v<T, Out>) {
      if (lane_stride == 1) {
        if (copy_vectors(to, step, sums, plan_.lanes, groups, count)) return;
        for (int64_t i = 0; i < count; ++i) std::copy_n(sums + i * plan_.lanes, groups, to + i * step);
        return;
      }
      if (step == 1) return kernels_.transpose(to, lane_stride, sums, plan_.lanes, count, groups);
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t g = 0; g < groups; ++g) to[i * step + g * lane_stride] = store_(sums[i * plan_.lanes + g]);
  }

  const LanePlan& plan_;
  std::vector<int32_t> positions_, terms_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_LANES_H_
