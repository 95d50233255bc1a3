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
#include "jit/cpu/convolution_filters.h"
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
  int64_t cuts = 1;  // of the columns, between tasks: 1 unless `across`
  int64_t tasks;
  std::optional<TurnedFilters> turned;  // how filters are packed, where they can be
  enum class Pack {
    kOnce,   // all of them before any of the products
    kPanel,  // those of a panel at a time; needs `turned`
    kChunk   // those of a chunk at a time
  } pack;

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

  // The rows of memory of line `at` of the input at `data`, a line that hold() has yet to read.
  MemoryRows rows_of(const char* data, int64_t at) const {
    const int64_t line = input_line(plan_.y, at), width = hlo::byte_size(type_);
    if (line < 0) return {};
    const int64_t feature = shape_.input_feature_stride, position = plan_.x.input_stride;
    data += line * plan_.y.input_stride * width;
    if (feature == 1) return {data, plan_.x.input, plan_.features * width, position * width};
    if (position == 1) return {data, plan_.features, plan_.x.input * width, feature * width};
    return {};
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
    const bool once = plan_.pack == RowPlan::Pack::kOnce, by_panel = plan_.pack == RowPlan::Pack::kPanel;
    const int64_t packed = plan_.nr * (by_panel ? plan_.k : plan_.panels() * plan_.chunk);
    const int64_t shared = once ? aligned(shape_.groups() * plan_.panels() * plan_.nr * plan_.k) : 0;
    const int64_t lines = aligned(plan_.slots * plan_.line_elements()), sums = aligned(plan_.sum_elements());
    const int64_t per_task = lines + sums + (once ? 0 : aligned(packed));
    return with_scratch(shared + per_task * plan_.tasks, [&](T* scratch) {
      if (once) pack_all_filters(scratch);
      context_.parallel(plan_.tasks, [&](int64_t task) {
        T* const mine = scratch + shared + task * per_task;
        PaddedLines<T> padded(plan_, shape_, kernels_, in_, mine);
        if (plan_.across)
          run_across(task, padded, mine + lines, once ? scratch : nullptr, mine + lines + sums);
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

  struct Panels {
    int64_t first, last;
  };
  int64_t columns_of(Panels panels) const {
    return std::min(plan_.columns, panels.last * plan_.nr) - panels.first * plan_.nr;
  }

  // Of every group and panel all terms.
  void pack_all_filters(T* to) const {
    const int64_t panels = plan_.panels(), panel_step = plan_.k * plan_.nr;
    if (!plan_.turned || !loads_unchanged<T>(in_)) {
      const int64_t pieces = ceil_div(plan_.k, kPackedTerms);
      context_.parallel(shape_.groups() * panels * pieces, [&](int64_t i) {
        if (context_.cancelled()) return;
        const int64_t k0 = i % pieces * kPackedTerms, panel = i / pieces % panels;
        pack_filters(to + i / pieces * panel_step + k0 * plan_.panel_width(panel), i / pieces / panels, panel,
                     k0, std::min(plan_.k, k0 + kPackedTerms));
      });
      return;
    }
    const int64_t together = plan_.turned->together(), pieces = ceil_div(plan_.features, together);
    context_.parallel(shape_.groups() * pieces, [&](int64_t i) {
      if (context_.cancelled()) return;
      const int64_t group = i / pieces, f0 = i % pieces * together;
      turn_filters(to + group * panels * panel_step, group, {0, panels}, f0,
                   std::min(plan_.features, f0 + together));
    });
  }

  // Terms of input features [f0, f1) of some panels; `to` is where the first of these begins.
  void turn_filters(T* to, int64_t group, Panels panels, int64_t f0, int64_t f1) const {
    const int64_t panel_step = plan_.k * plan_.nr, first = panels.first * plan_.nr;
    const int64_t columns = columns_of(panels), width = plan_.panel_width(panels.last - 1);
    const T* const from =
        reinterpret_cast<const T*>(filter_) + (group * plan_.columns + first) * shape_.filter_output_stride;
    plan_.turned->turn(kernels_, from, columns, plan_.nr, f0, f1, [&](int64_t column, int64_t k) {
      const int64_t panel = column / plan_.nr;
      return to + panel * panel_step + k * plan_.panel_width(panels.first + panel) + column % plan_.nr;
    });
    const int64_t last = panels.last - 1 - panels.first, in_last = columns - last * plan_.nr;
    if (in_last == width) return;
    for (int64_t place = 0; place < plan_.k; place += plan_.features)
      for (int64_t f = f0; f < f1; ++f)
        std::fill_n(to + last * panel_step + (place + f) * width + in_last, width - in_last, T{});
  }

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
    int64_t wy, wx, taps;  // of the window: where it begins, and over how many positions it goes
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
      const int64_t tap = block / features;
      out.blocks.push_back({before, static_cast<int64_t>(out.runs.size()) - before, tap / x.filter,
                            tap % x.filter, (end - 1) / features - tap + 1});
    }
  }

  // Whether all of a block's terms are padding for an output line (for its position `group`, if `across`).
  bool is_blank(int64_t line, int64_t group, const Block& block) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    int64_t wy = block.wy, wx = block.wx;
    for (int64_t tap = 0; tap < block.taps; ++tap) {
      if (input_line(y, line * y.stride + wy * y.filter_dilation) >= 0 &&
          (!plan_.across || input_line(x, group * x.stride + wx * x.filter_dilation) >= 0))
        return false;
      if (++wx < x.filter) continue;
      wx = 0;
      ++wy;
    }
    return true;
  }

  // What blocks of nothing but padding add to sums of one panel: the chains of zeros and its filters, which
  // may be zeros of either sign, or no numbers.
  class Blanks {
   public:
    void add(const GemmKernels<T>& kernels, size_t block, const T* b, int64_t terms, int64_t width, T* c,
             int64_t rows, int64_t ldc, bool first) {
      static constexpr T kZeros[hlo::kDotBlock] = {}, kOne = 1;
      const int64_t vecs = width / kernels.lanes;
      if (sums_.size() <= block) sums_.resize(block + 1);
      std::vector<T>& sums = sums_[block];
      if (sums.empty()) {
        sums.resize(static_cast<size_t>(width));
        const TileRun<T> run{kZeros, terms};
        kernels.run_tile[0][vecs - 1](&run, 1, 0, 0, b, sums.data(), width, true);
      }
      const TileRun<T> once{&kOne, 1};
      kernels.run_tile[rows - 1][vecs - 1](&once, 1, 0, 0, sums.data(), c, ldc, first);
    }

   private:
    std::vector<std::vector<T>> sums_;  // of those blocks that there were
  };

  // Lines [line0, line1), terms [k0, k1), `images` of them; packed(panel) has the panel's filters.
  template <typename Packed>
  void accumulate(PaddedLines<T>& padded, int64_t line0, int64_t line1, int64_t k0, int64_t k1,
                  int64_t images, Panels panels, Packed packed, T* sums, std::vector<Runs>& runs,
                  std::vector<AheadRows> ahead = {}) const {
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
    for (int64_t panel = panels.first; panel < panels.last; ++panel) {
      const int64_t width = plan_.panel_width(panel), vecs = width / kernels_.lanes;
      const auto& kernel = plan_.across ? kernels_.run_tile_across : kernels_.run_tile;
      Blanks blanks;
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
            const T* b = packed(panel);
            for (size_t i = 0; i < of.blocks.size(); ++i, b += hlo::kDotBlock * width) {
              const int64_t block = k0 + static_cast<int64_t>(i) * hlo::kDotBlock,
                            terms = std::min(hlo::kDotBlock, k1 - block);
              for (AheadRows& rows : ahead) rows.step();
              if (is_blank(line, group, of.blocks[i]))
                blanks.add(kernels_, i, b, terms, width, c, rows, plan_.ld, block == 0);
              else
                kernel[rows - 1][vecs - 1](of.runs.data() + of.blocks[i].first, of.blocks[i].count, offset,
                                           plan_.across ? plan_.images : row_step, b, c, plan_.ld,
                                           block == 0);
            }
            offset += rows * row_step;
            c += rows * plan_.ld;
          }
        }
      }
    }
  }

  // The panels' output features of `rows` rows of sums, `row` apart, `stride` apart in the output.
  void store_rows(const T* sums, int64_t rows, int64_t row, Panels panels, Out* to, int64_t stride) const {
    const int64_t feature = shape_.output_feature_stride, first = panels.first * plan_.nr;
    const int64_t columns = columns_of(panels);
    sums += first;
    to += first * feature;
    if constexpr (std::is_same_v<T, Out>) {
      if (feature == 1) {
        for (int64_t r = 0; r < rows; ++r) std::copy_n(sums + r * row, columns, to + r * stride);
        return;
      }
      if (stride == 1) return kernels_.transpose(to, feature, sums, row, rows, columns);
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) to[r * stride + c * feature] = store_(sums[r * row + c]);
  }

  // All positions of `images` images.
  void store_across(const T* sums, Panels panels, int64_t images, Out* to) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    const int64_t position = plan_.images * plan_.ld, image = shape_.output_batch_stride;
    if (x.output_stride == 1 && shape_.output_feature_stride != 1 && image != 1) {
      const bool lines_follow = y.output_stride == x.output || y.output == 1;
      const int64_t lines = lines_follow ? 1 : y.output,
                    positions = lines_follow ? y.output * x.output : x.output;
      for (int64_t i = 0; i < images; ++i)
        for (int64_t line = 0; line < lines; ++line)
          store_rows(sums + line * positions * position + i * plan_.ld, positions, position, panels,
                     to + line * y.output_stride + i * image, 1);
      return;
    }
    for (int64_t line = 0; line < y.output; ++line)
      for (int64_t o = 0; o < x.output; ++o)
        store_rows(sums + (line * x.output + o) * position, images, plan_.ld, panels,
                   to + line * y.output_stride + o * x.output_stride, image);
  }

  // What is read and written next to an item's products: the results of its lines at `to`, and the lines of
  // the input that the item after it needs besides.
  std::vector<AheadRows> ahead(const PaddedLines<T>& padded, int64_t item, int64_t end, int64_t line0,
                               int64_t line1, Out* to) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    std::vector<AheadRows> out;
    const int64_t cuts = ceil_div(y.output, plan_.lines), batch = shape_.output_batch();
    const int64_t width = sizeof(Out), feature = shape_.output_feature_stride, position = x.output_stride;
    if (batch * shape_.positions() * shape_.output_features * width <= kAheadBytes) return out;
    const int64_t steps = plan_.panels() * (line1 - line0) * ceil_div(x.output, kernels_.max_rows) *
                          ceil_div(plan_.k, hlo::kDotBlock);
    for (int64_t line = line0; line < line1; ++line) {
      const char* const at = reinterpret_cast<const char*>(to + line * y.output_stride);
      if (feature == 1)
        out.push_back({{at, x.output, plan_.columns * width, position * width}, steps});
      else if (position == 1)
        out.push_back({{at, plan_.columns, x.output * width, feature * width}, steps});
    }
    if (++item == end) return out;
    const int64_t next0 = item % cuts * plan_.lines, next1 = std::min(y.output, next0 + plan_.lines);
    const char* const from = input_of(item / cuts / batch, item / cuts % batch);
    const int64_t held = (line1 - 1) * y.stride + (y.filter - 1) * y.filter_dilation + 1;
    for (int64_t line = next0 == 0 ? 0 : std::max(held, next0 * y.stride);
         line < (next1 - 1) * y.stride + (y.filter - 1) * y.filter_dilation + 1; ++line)
      out.push_back({padded.rows_of(from, line), steps});
    return out;
  }

  void run_along(int64_t task, PaddedLines<T>& padded, T* sums, const T* packed) const {
    const int64_t cuts = ceil_div(plan_.y.output, plan_.lines), batch = shape_.output_batch();
    const int64_t items = shape_.groups() * batch * cuts;
    const int64_t panel_step = plan_.k * plan_.nr;
    const Panels all{0, plan_.panels()};
    std::vector<Runs> runs;
    int64_t image_before = -1;
    const int64_t end = items * (task + 1) / plan_.tasks;
    for (int64_t item = items * task / plan_.tasks; item < end; ++item) {
      const int64_t line0 = item % cuts * plan_.lines, line1 = std::min(plan_.y.output, line0 + plan_.lines);
      const int64_t image = item / cuts % batch, group = item / cuts / batch;
      if (item / cuts != image_before) padded.begin(input_of(group, image), 1);
      image_before = item / cuts;
      Out* const to =
          output_ + image * shape_.output_batch_stride + group * plan_.columns * shape_.output_feature_stride;
      accumulate(
          padded, line0, line1, 0, plan_.k, 1, all,
          [&](int64_t panel) { return packed + (group * plan_.panels() + panel) * panel_step; }, sums, runs,
          ahead(padded, item, end, line0, line1, to));
      if (context_.cancelled()) return;
      for (int64_t line = line0; line < line1; ++line)
        store_rows(sums + (line - line0) * plan_.x.output * plan_.ld, plan_.x.output, plan_.ld, all,
                   to + line * plan_.y.output_stride, plan_.x.output_stride);
    }
  }

  // `packed`: all filters, or null where `some` gets those of a panel or of a chunk after the other.
  void run_across(int64_t task, PaddedLines<T>& padded, T* sums, const T* packed, T* some) const {
    const int64_t batch = shape_.output_batch(), parts = ceil_div(batch, plan_.images), cuts = plan_.cuts;
    const int64_t items = shape_.groups() * parts * cuts, panels = plan_.panels();
    std::vector<Runs> runs;
    for (int64_t item = items * task / plan_.tasks; item < items * (task + 1) / plan_.tasks; ++item) {
      const int64_t cut = item % cuts, first = item / cuts % parts * plan_.images,
                    group = item / cuts / parts;
      const int64_t images = std::min(plan_.images, batch - first);
      const Panels mine{panels * cut / cuts, panels * (cut + 1) / cuts};
      padded.begin(input_of(group, first), images);
      const bool by_panel = plan_.pack == RowPlan::Pack::kPanel;
      for (int64_t panel = mine.first; panel < mine.last; panel = by_panel ? panel + 1 : mine.last) {
        const Panels now{panel, by_panel ? panel + 1 : mine.last};
        if (by_panel && loads_unchanged<T>(in_))
          turn_filters(some, group, now, 0, plan_.features);
        else if (by_panel)
          pack_filters(some, group, panel, 0, plan_.k);
        for (int64_t k0 = 0; k0 < plan_.k; k0 += plan_.chunk) {
          const int64_t k1 = std::min(plan_.k, k0 + plan_.chunk);
          const auto filters_of = [&](int64_t p) -> const T* {
            if (packed) return packed + (group * panels + p) * plan_.k * plan_.nr + k0 * plan_.panel_width(p);
            return by_panel ? some + k0 * plan_.panel_width(p) : some + p * plan_.chunk * plan_.nr;
          };
          if (plan_.pack == RowPlan::Pack::kChunk)
            for (int64_t p = now.first; p < now.last; ++p)
              pack_filters(some + p * plan_.chunk * plan_.nr, group, p, k0, k1);
          accumulate(padded, 0, plan_.y.output, k0, k1, images, now, filters_of, sums, runs);
          if (context_.cancelled()) return;
        }
      }
      Out* const to =
          output_ + first * shape_.output_batch_stride + group * plan_.columns * shape_.output_feature_stride;
      store_across(sums, mine, images, to);
    }
  }

  const RowPlan& plan_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_ROWS_H_
