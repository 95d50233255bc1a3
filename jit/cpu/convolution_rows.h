// Convolutions whose patches the register tiles read in place, out of padded copies of the input's lines.
//
// Contract: the bits of hlo/reference_conv.h, by the kernels' chains over the same blocks of k as gemm.h.
// Serves one or two spatial dimensions y and x, real types whose kernels have run tiles, and shapes for which
// it is worth its copies; `plan_rows` says which.
//
// Each line of the input is copied once per pass into [x][feature][image], with the zeros of padding and of
// input dilation written out. The terms of a patch are then a few runs, one per line of the window, and a
// tile's rows are evenly apart: neighbouring output positions of one image, whose runs are contiguous; or,
// where there are few output positions (the gradient of filters), neighbouring images of one position. Lines
// are kept while the window needs them.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_ROWS_H_
#define LAMINA_JIT_CPU_CONVOLUTION_ROWS_H_

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "hlo/reference_conv.h"
#include "hlo/reference_dot.h"
#include "jit/cpu/convolution_call.h"
#include "jit/cpu/padded_line.h"

namespace lamina::jit {

struct RowPlan {
  hlo::ConvDim y, x;
  bool across;       // a tile's rows are images, not positions
  int64_t features;  // of the input, per group
  int64_t columns;   // output features per group
  int64_t k;         // terms of a patch
  int64_t nr;        // columns of a tile
  int64_t ld;        // columns, with the last tile's padding
  int64_t width;     // of a padded line, in positions
  int64_t images;    // side by side in a line: 1 unless `across`
  int64_t lines;     // of output at a time
  int64_t chunk;     // terms at a time: all of them unless `across`
  int64_t slots;     // lines of input kept
  int64_t tasks;

  int64_t panels() const { return ceil_div(columns, nr); }
  int64_t panel_width(int64_t panel) const { return std::min(nr, ld - panel * nr); }
  int64_t line_elements() const { return width * features * images; }
  int64_t sum_elements() const { return lines * x.output * images * ld; }
};

// Nothing where the shape is better served by packed patches.
std::optional<RowPlan> plan_rows(const hlo::ConvShape& shape, int64_t lanes, int64_t tile_rows,
                                 int64_t tile_columns, int64_t element_bytes, int64_t threads);

// The lines of one image, or of neighbouring ones, that the window is over.
template <typename T>
class PaddedLines {
 public:
  PaddedLines(const RowPlan& plan, const hlo::ConvShape& shape, const GemmKernels<T>& kernels,
              hlo::DType type, T* slots)
      : plan_(plan), shape_(shape), kernels_(kernels), type_(type), slots_(slots) {}

  // From here on lines of the group and images that begin at `data`, `images` of them.
  void begin(const char* data, int64_t images) {
    data_ = data;
    images_ = images;
    begin_ = end_ = 0;
  }

  // Makes lines [first, last), counted from the start of the padding, present: at most plan.slots, and no
  // earlier ones than before.
  void hold(int64_t first, int64_t last) {
    if (first > end_) begin_ = end_ = first;
    for (; end_ < last; ++end_) fill(end_);
    begin_ = std::max(begin_, end_ - plan_.slots);
  }

  const T* line(int64_t at) const { return slots_ + at % plan_.slots * plan_.line_elements(); }

 private:
  void fill(int64_t at) {
    T* const to = slots_ + at % plan_.slots * plan_.line_elements();
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    const int64_t per_position = plan_.features * plan_.images, line = input_line(y, at);
    const PaddedLine part(x, plan_.width);
    if (line < 0 || part.empty()) {
      std::fill_n(to, plan_.line_elements(), T{});
      return;
    }
    const int64_t count = part.high - part.low;
    if (x.input_dilation == 1) {
      std::fill_n(to, part.first * per_position, T{});
      const int64_t end = part.first + count;
      std::fill_n(to + end * per_position, (plan_.width - end) * per_position, T{});
    } else {
      std::fill_n(to, plan_.line_elements(), T{});
    }
    copy(to + part.first * per_position, line * y.input_stride + part.low * x.input_stride, count);
  }

  void copy(T* to, int64_t from, int64_t count) const {
    const int64_t step = plan_.features * plan_.images * plan_.x.input_dilation;
    const char* const data = data_ + from * hlo::byte_size(type_);
    if (!plan_.across) {
      if (loads_unchanged<T>(type_) && shape_.input_feature_stride == 1 && plan_.x.input_stride == step)
        std::copy_n(reinterpret_cast<const T*>(data), count * step, to);
      else
        StridedSource<T>{data, type_, shape_.input_feature_stride, plan_.x.input_stride}.pack(
            &kernels_, to, step, 0, plan_.features, 0, count);
      return;
    }
    for (int64_t f = 0; f < plan_.features; ++f)
      StridedSource<T>{data + f * shape_.input_feature_stride * hlo::byte_size(type_), type_,
                       shape_.input_batch_stride, plan_.x.input_stride}
          .pack(&kernels_, to + f * plan_.images, step, 0, images_, 0, count);
  }

  const RowPlan& plan_;
  const hlo::ConvShape& shape_;
  const GemmKernels<T>& kernels_;
  const hlo::DType type_;
  T* const slots_;
  const char* data_ = nullptr;
  int64_t images_ = 0, begin_ = 0, end_ = 0;
};

template <typename T, typename Out, typename Store>
class RowConvolution : private ConvolutionCall<T, Out, Store> {
  using Call = ConvolutionCall<T, Out, Store>;

 public:
  template <typename... Arguments>
  explicit RowConvolution(const RowPlan& plan, const Arguments&... arguments)
      : Call(arguments...), plan_(plan) {}

  absl::Status run() {
    const int64_t packed = plan_.panels() * plan_.nr * plan_.chunk;
    const int64_t shared = plan_.across ? 0 : aligned(shape_.groups() * packed);
    const int64_t lines = aligned(plan_.slots * plan_.line_elements()), sums = aligned(plan_.sum_elements());
    const int64_t per_task = lines + sums + (plan_.across ? aligned(packed) : 0);
    return with_scratch(shared + per_task * plan_.tasks, [&](T* scratch) {
      if (!plan_.across) {
        const int64_t panels = plan_.panels(), pieces = ceil_div(plan_.k, kPackedTerms);
        context_.parallel(shape_.groups() * panels * pieces, [&](int64_t i) {
          if (context_.cancelled()) return;
          const int64_t k0 = i % pieces * kPackedTerms, panel = i / pieces % panels,
                        group = i / pieces / panels;
          pack_filters(
              scratch + (group * panels + panel) * plan_.k * plan_.nr + k0 * plan_.panel_width(panel), group,
              panel, k0, std::min(plan_.k, k0 + kPackedTerms));
        });
      }
      context_.parallel(plan_.tasks, [&](int64_t task) {
        T* const mine = scratch + shared + task * per_task;
        PaddedLines<T> padded(plan_, shape_, kernels_, in_, mine);
        if (plan_.across)
          run_across(task, padded, mine + lines, mine + lines + sums);
        else
          run_along(task, padded, mine + lines, scratch);
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

  static constexpr int64_t kPackedTerms = 512;  // per task of packing

  // Terms [k0, k1) of a panel: dst[k - k0][column], columns past the last are zeros.
  void pack_filters(T* dst, int64_t group, int64_t panel, int64_t k0, int64_t k1) const {
    const int64_t width = plan_.panel_width(panel), features = plan_.features;
    const int64_t columns = std::min(width, plan_.columns - panel * plan_.nr);
    if (columns < width) std::fill_n(dst, (k1 - k0) * width, T{});
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    const int64_t first = (group * plan_.columns + panel * plan_.nr) * shape_.filter_output_stride;
    const auto source = [&](int64_t wy, int64_t wx, int64_t f, int64_t k_stride) {
      const int64_t at = first + filter_offset(y, wy) + filter_offset(x, wx) + f * shape_.filter_input_stride;
      return StridedSource<T>{filter_ + at * hlo::byte_size(in_), in_, shape_.filter_output_stride, k_stride};
    };
    for (int64_t k = k0; k < k1;) {
      const int64_t f = k % features, wx = k / features % x.filter, wy = k / features / x.filter;
      const int64_t taps = f == 0 ? std::min(x.filter - wx, (k1 - k) / features) : 0;
      T* const to = dst + (k - k0) * width;
      if (taps > features) {
        for (int64_t i = 0; i < features; ++i)
          source(wy, wx, i, x.reversed ? -x.filter_stride : x.filter_stride)
              .pack(&kernels_, to + i * width, features * width, 0, columns, 0, taps);
        k += taps * features;
      } else {
        const int64_t n = std::min(features - f, k1 - k);
        source(wy, wx, f, shape_.filter_input_stride).pack(&kernels_, to, width, 0, columns, 0, n);
        k += n;
      }
    }
  }

  // The runs of a block of terms, for the first output position of a line.
  struct Block {
    int64_t first, count;  // among runs
  };
  struct Runs {
    std::vector<TileRun<T>> runs;
    std::vector<Block> blocks;
  };

  void find_runs(const PaddedLines<T>& padded, int64_t line, int64_t k0, int64_t k1, Runs& out) const {
    const int64_t features = plan_.features;
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    out.runs.clear();
    out.blocks.clear();
    for (int64_t block = k0; block < k1; block += hlo::kDotBlock) {
      const int64_t end = std::min(k1, block + hlo::kDotBlock),
                    before = static_cast<int64_t>(out.runs.size());
      for (int64_t k = block; k < end;) {
        const int64_t f = k % features, wx = k / features % x.filter, wy = k / features / x.filter;
        const int64_t taps = x.filter_dilation == 1 ? x.filter - wx : 1;
        const int64_t n = std::min(taps * features - f, end - k);
        out.runs.push_back({padded.line(line * y.stride + wy * y.filter_dilation) +
                                (wx * x.filter_dilation * features + f) * plan_.images,
                            n});
        k += n;
      }
      out.blocks.push_back({before, static_cast<int64_t>(out.runs.size()) - before});
    }
  }

  // Lines [line0, line1), terms [k0, k1), `images` of them; `packed` has `panel_step` elements per panel.
  void accumulate(PaddedLines<T>& padded, int64_t line0, int64_t line1, int64_t k0, int64_t k1,
                  int64_t images, const T* packed, int64_t panel_step, T* sums,
                  std::vector<Runs>& runs) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    const int64_t per_line = plan_.features * x.filter;
    padded.hold(line0 * y.stride + k0 / per_line * y.filter_dilation,
                (line1 - 1) * y.stride + (k1 - 1) / per_line * y.filter_dilation + 1);
    runs.resize(static_cast<size_t>(plan_.lines));
    for (int64_t line = line0; line < line1; ++line)
      find_runs(padded, line, k0, k1, runs[static_cast<size_t>(line - line0)]);

    const int64_t position_step = x.stride * plan_.features * plan_.images;
    // Tiles are cut from `extent` rows, `groups` times in a line.
    const int64_t groups = plan_.across ? x.output : 1, extent = plan_.across ? images : x.output;
    const int64_t row_step = plan_.across ? 1 : position_step;
    const int64_t tiles = ceil_div(extent, kernels_.max_rows);
    for (int64_t panel = 0; panel < plan_.panels(); ++panel) {
      const int64_t width = plan_.panel_width(panel), vecs = width / kernels_.lanes;
      const auto& kernel = plan_.across ? kernels_.run_tile_across : kernels_.run_tile;
      for (int64_t line = line0; line < line1; ++line) {
        const Runs& of = runs[static_cast<size_t>(line - line0)];
        for (int64_t group = 0; group < groups; ++group) {
          if (context_.cancelled()) return;
          T* c = sums +
                 ((line - line0) * x.output + group * (plan_.across ? 1 : 0)) * plan_.images * plan_.ld +
                 panel * plan_.nr;
          int64_t offset = group * position_step;
          for (int64_t tile = 0; tile < tiles; ++tile) {
            // As even as can be, as in gemm.h.
            const int64_t rows = extent / tiles + (tile < extent % tiles ? 1 : 0);
            const T* b = packed + panel * panel_step;
            for (size_t i = 0; i < of.blocks.size(); ++i, b += hlo::kDotBlock * width)
              kernel[rows - 1][vecs - 1](of.runs.data() + of.blocks[i].first, of.blocks[i].count, offset,
                                         plan_.across ? plan_.images : row_step, b, c, plan_.ld,
                                         k0 == 0 && i == 0);
            offset += rows * row_step;
            c += rows * plan_.ld;
          }
        }
      }
    }
  }

  // Output features of `rows` rows of sums, `stride` apart in the output.
  void store_rows(const T* sums, int64_t rows, Out* to, int64_t stride) const {
    const int64_t feature = shape_.output_feature_stride;
    if constexpr (std::is_same_v<T, Out>) {
      if (feature == 1) {
        for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * plan_.ld, plan_.columns, to + r * stride);
        return;
      }
      if (stride == 1) return kernels_.transpose(to, feature, sums, plan_.ld, rows, plan_.columns);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < plan_.columns; ++c)
        to[r * stride + c * feature] = store_(sums[r * plan_.ld + c]);
  }

  void run_along(int64_t task, PaddedLines<T>& padded, T* sums, const T* packed) const {
    const int64_t cuts = ceil_div(plan_.y.output, plan_.lines), batch = shape_.output_batch();
    const int64_t items = shape_.groups() * batch * cuts;
    const int64_t panel_step = plan_.k * plan_.nr;
    std::vector<Runs> runs;
    int64_t image_before = -1;
    for (int64_t item = items * task / plan_.tasks; item < items * (task + 1) / plan_.tasks; ++item) {
      const int64_t line0 = item % cuts * plan_.lines, line1 = std::min(plan_.y.output, line0 + plan_.lines);
      const int64_t image = item / cuts % batch, group = item / cuts / batch;
      if (item / cuts != image_before) padded.begin(input_of(group, image), 1);
      image_before = item / cuts;
      accumulate(padded, line0, line1, 0, plan_.k, 1, packed + group * plan_.panels() * panel_step,
                 panel_step, sums, runs);
      if (context_.cancelled()) return;
      Out* const to =
          output_ + image * shape_.output_batch_stride + group * plan_.columns * shape_.output_feature_stride;
      for (int64_t line = line0; line < line1; ++line)
        store_rows(sums + (line - line0) * plan_.x.output * plan_.ld, plan_.x.output,
                   to + line * plan_.y.output_stride, plan_.x.output_stride);
    }
  }

  void run_across(int64_t task, PaddedLines<T>& padded, T* sums, T* packed) const {
    const int64_t batch = shape_.output_batch(), parts = ceil_div(batch, plan_.images);
    const int64_t items = shape_.groups() * parts;
    const int64_t panel_step = plan_.chunk * plan_.nr;
    std::vector<Runs> runs;
    for (int64_t item = items * task / plan_.tasks; item < items * (task + 1) / plan_.tasks; ++item) {
      const int64_t first = item % parts * plan_.images, group = item / parts;
      const int64_t images = std::min(plan_.images, batch - first);
      padded.begin(input_of(group, first), images);
      for (int64_t k0 = 0; k0 < plan_.k; k0 += plan_.chunk) {
        const int64_t k1 = std::min(plan_.k, k0 + plan_.chunk);
        for (int64_t panel = 0; panel < plan_.panels(); ++panel)
          pack_filters(packed + panel * panel_step, group, panel, k0, k1);
        accumulate(padded, 0, plan_.y.output, k0, k1, images, packed, panel_step, sums, runs);
        if (context_.cancelled()) return;
      }
      Out* const to =
          output_ + first * shape_.output_batch_stride + group * plan_.columns * shape_.output_feature_stride;
      for (int64_t line = 0; line < plan_.y.output; ++line)
        for (int64_t o = 0; o < plan_.x.output; ++o)
          store_rows(sums + (line * plan_.x.output + o) * plan_.images * plan_.ld, images,
                     to + line * plan_.y.output_stride + o * plan_.x.output_stride,
                     shape_.output_batch_stride);
    }
  }

  const RowPlan& plan_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_ROWS_H_
