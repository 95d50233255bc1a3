// Depthwise convolutions of arrays whose features lie side by side: the lanes of a vector are neighbouring
// features, and every term is read where it lies.
//
// Contract: the bits of hlo/reference_conv.h. Serves one or two spatial dimensions y and x, windows of one
// block of terms, and types that are read and stored as the kernels have them; `plan_features` says for which
// shapes.
//
// For each line of the input that a window is over, a table says where the terms of each output position lie:
// in the line, or, for padding and between the elements of a dilated input, in zeros that all of these share.
// Neighbouring output lines have most of their input lines in common, whose tables are kept meanwhile.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_FEATURES_H_
#define LAMINA_JIT_CPU_CONVOLUTION_FEATURES_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "hlo/reference_conv.h"
#include "jit/cpu/convolution_call.h"
#include "jit/cpu/padded_line.h"

namespace lamina::jit {

struct FeaturePlan {
  hlo::ConvDim y, x;
  int64_t features;  // of the input, and as many of the output
  int64_t held;      // lines of the input from the first to the last that a window is over
  int64_t tiles;     // of positions in a line of output
  int64_t tasks;

  int64_t terms() const { return y.filter * x.filter; }
  int64_t line_terms() const { return x.output * x.filter; }
  int64_t first_of_tile(int64_t tile) const { return x.output * tile / tiles; }
};

// Nothing where the shape is better served otherwise.
std::optional<FeaturePlan> plan_features(const hlo::ConvShape& shape, int64_t lanes, int64_t threads);

template <typename T, typename Store>
class FeatureConvolution : private ConvolutionCall<T, T, Store> {
  using Call = ConvolutionCall<T, T, Store>;

 public:
  template <typename... Arguments>
  explicit FeatureConvolution(const FeaturePlan& plan, const Arguments&... arguments)
      : Call(arguments...), plan_(plan) {}

  absl::Status run() {
    find_offsets();
    return with_scratch((plan_.terms() + 1) * plan_.features, [&](T* filters) {
      pack_filters(filters);
      T* const zeros = filters + plan_.terms() * plan_.features;
      std::fill_n(zeros, plan_.features, T{});
      context_.parallel(plan_.tasks, [&](int64_t task) { run_task(task, filters, zeros); });
    });
  }

 private:
  using Call::context_;
  using Call::filter_;
  using Call::filter_offset;
  using Call::in_;
  using Call::input_of;
  using Call::kernels_;
  using Call::output_;
  using Call::shape_;
  using Call::with_scratch;

  using Places = std::vector<const T*>;  // by tile, term in the line and position in the tile

  // The tables of the lines that windows were over last.
  struct Tables {
    Tables(const FeaturePlan& plan, const T* zeros)
        : lines(static_cast<size_t>(plan.held), Places(static_cast<size_t>(plan.line_terms()))),
          held(static_cast<size_t>(plan.held), nullptr),
          padding(static_cast<size_t>(plan.line_terms()), zeros),
          terms(static_cast<size_t>(plan.terms())) {}
    std::vector<Places> lines;
    std::vector<const T*> held;  // which lines
    Places padding;              // above and below the input
    std::vector<const T* const*> terms;
  };

  // Where the terms of a line lie from its beginning, and which of them are zeros.
  void find_offsets() {
    const hlo::ConvDim& x = plan_.x;
    for (int64_t tile = 0; tile < plan_.tiles; ++tile)
      for (int64_t w = 0; w < x.filter; ++w)
        for (int64_t o = plan_.first_of_tile(tile); o < plan_.first_of_tile(tile + 1); ++o) {
          const int64_t at = input_line(x, o * x.stride + w * x.filter_dilation);
          if (at < 0) zero_terms_.push_back(offsets_.size());
          offsets_.push_back(std::max<int64_t>(at, 0) * x.input_stride);
        }
  }

  void pack_filters(T* to) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    for (int64_t w = 0; w < y.filter; ++w)
      StridedSource<T>{filter_ + (filter_offset(y, w) + filter_offset(x, 0)) * hlo::byte_size(in_), in_,
                       shape_.filter_output_stride, x.reversed ? -x.filter_stride : x.filter_stride}
          .pack(&kernels_, to + w * x.filter * plan_.features, plan_.features, 0, plan_.features, 0,
                x.filter);
  }

  // The table of the line that is at `at` of the padded input.
  const T* const* table_of(Tables& tables, const T* image, int64_t at, const T* zeros) const {
    const int64_t line = input_line(plan_.y, at);
    if (line < 0) return tables.padding.data();
    const T* const begin = image + line * plan_.y.input_stride;
    const auto slot = static_cast<size_t>(at % plan_.held);
    const T** const places = tables.lines[slot].data();
    if (tables.held[slot] == begin) return places;
    tables.held[slot] = begin;
    for (size_t i = 0; i < offsets_.size(); ++i) places[i] = begin + offsets_[i];
    for (const size_t i : zero_terms_) places[i] = zeros;
    return places;
  }

  void run_task(int64_t task, const T* filters, const T* zeros) const {
    const hlo::ConvDim &y = plan_.y, &x = plan_.x;
    Tables tables(plan_, zeros);
    std::vector<const T* const*> lines(static_cast<size_t>(y.filter));
    const int64_t items = shape_.output_batch() * y.output;
    for (int64_t item = items * task / plan_.tasks; item < items * (task + 1) / plan_.tasks; ++item) {
      if (context_.cancelled()) return;
      const int64_t image = item / y.output, line = item % y.output;
      const T* const from = reinterpret_cast<const T*>(input_of(0, image));
      for (int64_t w = 0; w < y.filter; ++w)
        lines[static_cast<size_t>(w)] =
            table_of(tables, from, line * y.stride + w * y.filter_dilation, zeros);
      T* const to = output_ + image * shape_.output_batch_stride + line * y.output_stride;
      for (int64_t tile = 0; tile < plan_.tiles; ++tile) {
        const int64_t first = plan_.first_of_tile(tile), count = plan_.first_of_tile(tile + 1) - first;
        auto term = tables.terms.begin();
        for (const T* const* places : lines)
          for (int64_t w = 0; w < x.filter; ++w) *term++ = places + first * x.filter + w * count;
        kernels_.feature_chains[count - 1](plan_.terms(), tables.terms.data(), filters, plan_.features,
                                           to + first * x.output_stride, x.output_stride);
      }
    }
  }

  const FeaturePlan& plan_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> zero_terms_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_FEATURES_H_
