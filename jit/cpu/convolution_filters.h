// Filters whose windows are what lies side by side in memory, turned so that output features do.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_FILTERS_H_
#define LAMINA_JIT_CPU_CONVOLUTION_FILTERS_H_

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "hlo/reference_conv.h"
#include "jit/cpu/gemm.h"

namespace lamina::jit {

class TurnedFilters {
 public:
  // Nothing where the window of one input feature is no piece of memory, or output features lie side by side
  // as it is.
  static std::optional<TurnedFilters> of(const hlo::ConvShape& s) {
    TurnedFilters t(s);
    int64_t extent = 1;
    for (size_t i = s.spatial.size(); i-- > 0;) {
      const hlo::ConvDim& d = s.spatial[i];
      if (d.filter != 1 && d.filter_stride != extent) return std::nullopt;
      extent *= d.filter;
    }
    if (extent <= 1 || s.filter_output_stride < extent) return std::nullopt;
    return t;
  }

  // Input features that are best turned together: what several of them have lies side by side, if `window`
  // after `window`.
  int64_t together() const {
    return features_follow() ? std::max<int64_t>(kRun / window(), 1) : kSeparateTogether;
  }

  // The filters at `from` of input features [f0, f1) and `columns` output features, `block` of these at a
  // time: to(first, k) is where term k, [window position][input feature], of the block from `first` on goes.
  template <typename T, typename To>
  void turn(const GemmKernels<T>& kernels, const T* from, int64_t columns, int64_t block, int64_t f0,
            int64_t f1, To to) const {
    T buffer[kRun * kColumns];
    const int64_t step = features_follow() ? together() : 1, width = std::min(block, kColumns);
    for (int64_t f = f0; f < f1; f += step) {
      const int64_t terms = std::min(step, f1 - f) * window();
      for (int64_t at = 0; at < terms; at += kRun) {
        const int64_t run = std::min(kRun, terms - at);
        for (int64_t c = 0; c < columns; c += width) {
          const int64_t here = std::min(width, columns - c);
          kernels.transpose(buffer, here, from + c * output_stride_ + f * feature_stride_ + at,
                            output_stride_, here, run);
          int64_t place = at % window(), feature = f + at / window();
          for (int64_t i = 0; i < run; ++i) {
            copy_row(buffer + i * here, to(c, places_[static_cast<size_t>(place)] * features_ + feature),
                     here);
            if (++place < window()) continue;
            place = 0;
            ++feature;
          }
        }
      }
    }
  }

 private:
  // What is turned at once is kept in the first-level cache.
  static constexpr int64_t kRun = 128, kColumns = 32, kSeparateTogether = 8;

  explicit TurnedFilters(const hlo::ConvShape& s)
      : features_(s.filter_input),
        feature_stride_(s.filter_input_stride),
        output_stride_(s.filter_output_stride) {
    places_ = {0};
    for (const hlo::ConvDim& d : s.spatial) {
      std::vector<int64_t> finer;
      for (int64_t place : places_)
        for (int64_t w = 0; w < d.filter; ++w)
          finer.push_back(place * d.filter + (d.reversed ? d.filter - 1 - w : w));
      places_ = std::move(finer);
    }
  }

  int64_t window() const { return static_cast<int64_t>(places_.size()); }
  bool features_follow() const { return feature_stride_ == window(); }

  // By whole cache lines: a call for each row would take as long as the copy.
  template <typename T>
  static void copy_row(const T* from, T* to, int64_t n) {
    constexpr int64_t kLine = 64 / sizeof(T);
    int64_t i = 0;
    for (; i + kLine <= n; i += kLine) std::memcpy(to + i, from + i, 64);
    for (; i < n; ++i) to[i] = from[i];
  }

  int64_t features_, feature_stride_, output_stride_;
  std::vector<int64_t>
      places_;  // of the window, as they follow each other in memory: their row-major numbers
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_FILTERS_H_
