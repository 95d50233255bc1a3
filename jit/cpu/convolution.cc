#include "jit/cpu/convolution.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "hlo/reference_dot.h"
#include "jit/cpu/convolution_features.h"
#include "jit/cpu/convolution_filters.h"
#include "jit/cpu/convolution_lanes.h"
#include "jit/cpu/convolution_planes.h"
#include "jit/cpu/convolution_rows.h"
#include "jit/cpu/gemm.h"
#include "jit/cpu/gemm_source.h"

namespace lamina::jit {
namespace {

using hlo::ConvDim;
using hlo::ConvShape;
using hlo::DType;

constexpr int kMaxRank = hlo::kMaxConvSpatialRank + 1;  // the batch is one more dimension, with a window of 1

// With fewer features cutting off the edges of a span costs more than the span saves.
constexpr int64_t kSpanFeatures = 4;
// A product of so many positions is worth packing the filters for it alone.
constexpr int64_t kManyPositions = 256;
// Runs of so few output positions are packed along the window, if that is longer.
constexpr int64_t kShortRun = 8;

// The matrix [output position][k] of all patches of one group (and one image, if the batch is not among
// `dims`).
template <typename T>
struct PatchSource {
  const char* data;
  DType type;
  const ConvDim* dims;
  int rank;  // at least 1
  int64_t features, feature_stride;

  int64_t direct_ld() const { return -1; }
  int64_t direct_lda() const { return -1; }
  const T* direct(int64_t, int64_t) const { return nullptr; }

  void pack(const GemmKernels<T>* kernels, T* dst, int64_t ld, int64_t outer0, int64_t outer, int64_t k0,
            int64_t kc) const {
    int64_t o[kMaxRank];
    for (int d = rank; d-- > 0;) {
      o[d] = outer0 % dims[d].output;
      outer0 /= dims[d].output;
    }
    const int last = rank - 1;
    for (int64_t r = 0; r < outer;) {
      const int64_t count = std::min(outer - r, dims[last].output - o[last]);
      pack_run(kernels, dst + r, ld, o, count, k0, kc);
      r += count;
      o[last] += count;
      for (int d = last; d > 0 && o[d] == dims[d].output; --d) {
        o[d] = 0;
        ++o[d - 1];
      }
    }
  }

 private:
  // Positions o, o + 1, ... o + count - 1 along the last dimension.
  void pack_run(const GemmKernels<T>* kernels, T* dst, int64_t ld, const int64_t* o, int64_t count,
                int64_t k0, int64_t kc) const {
    int64_t w[kMaxRank];
    int64_t feature = k0 % features;
    int64_t window = k0 / features;
    for (int d = rank; d-- > 0;) {
      w[d] = window % dims[d].filter;
      window /= dims[d].filter;
    }
    const int last = rank - 1;
    for (int64_t k = 0; k < kc;) {
      int64_t n = std::min(kc - k, (dims[last].filter - w[last]) * features - feature);
      if (feature == 0 && n >= kShortRun * features && count <= kShortRun && dims[last].input_dilation == 1 &&
          loads_unchanged<T>(type)) {
        n -= n % features;
        pack_taps(dst + k * ld, ld, o, count, w, n / features);
      } else if (!taps_contiguous() || !pack_span(kernels, dst + k * ld, ld, o, count, w, feature, n)) {
        n = std::min(n, features - feature);
        pack_tap(kernels, dst + k * ld, ld, o, 0, count, w, feature, n);
      }
      k += n;
      w[last] += (feature + n) / features;
      feature = (feature + n) % features;
      for (int d = last; d > 0 && w[d] == dims[d].filter; --d) {
        w[d] = 0;
        ++w[d - 1];
      }
    }
  }

  // `taps` window positions with all their features for a few output positions, as in the gradient of
  // filters: the runs to copy lie along the window.
  void pack_taps(T* dst, int64_t ld, const int64_t* o, int64_t count, const int64_t* w, int64_t taps) const {
    int64_t at = 0;
    if (!outer_offset(o, w, &at)) return clear(dst, ld, count, taps * features);
    const ConvDim& x = dims[rank - 1];
    const int64_t p = o[rank - 1] * x.stride + w[rank - 1] * x.filter_dilation - x.pad_low;
    // Taps [low, high) lie within the input for every one of the positions.
    const auto first_at = [&](int64_t q) { return q > 0 ? (q - 1) / x.filter_dilation + 1 : 0; };
    const int64_t low = std::min(taps, first_at(-p));
    const int64_t high = std::clamp(first_at(x.input - p - (count - 1) * x.stride), low, taps);
    const int64_t tap_step = x.filter_dilation * x.input_stride, step = x.stride * x.input_stride;
    const T* const from = reinterpret_cast<const T*>(data);
    for (int64_t f = 0; f < features; ++f) {
      const int64_t first = at + f * feature_stride + p * x.input_stride;  // perhaps outside
      T* const to = dst + f * ld;
      const auto careful = [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t)
          for (int64_t r = 0; r < count; ++r) {
            const int64_t q = p + t * x.filter_dilation + r * x.stride;
            to[t * features * ld + r] = q >= 0 && q < x.input ? from[first + t * tap_step + r * step] : T{};
          }
      };
      careful(0, low);
      for (int64_t t = low; t < high; ++t)
        for (int64_t r = 0; r < count; ++r) to[t * features * ld + r] = from[first + t * tap_step + r * step];
      careful(high, taps);
    }
  }

  // Whether the features of neighbouring window positions follow each other in memory, as in channels-last
  // images.
  bool taps_contiguous() const {
    const ConvDim& x = dims[rank - 1];
    return features >= kSpanFeatures && x.filter > 1 && x.input_dilation == 1 &&
           x.filter_dilation * x.input_stride == features * feature_stride;
  }

  // `n` terms from `feature` on, through several window positions of the last dimension: at once where the
  // whole span lies within the input, position by position where it does not. False, and nothing done, if the
  // span is but one.
  bool pack_span(const GemmKernels<T>* kernels, T* dst, int64_t ld, const int64_t* o, int64_t count,
                 const int64_t* w, int64_t feature, int64_t n) const {
    const int64_t taps = (feature + n - 1) / features;  // beyond the first
    int64_t at = feature * feature_stride;
    if (taps == 0 || !outer_offset(o, w, &at)) return false;
    const ConvDim& x = dims[rank - 1];
    const int64_t p = o[rank - 1] * x.stride + w[rank - 1] * x.filter_dilation - x.pad_low;
    const int64_t end = p + taps * x.filter_dilation;
    const int64_t low = first_inside(x, p, count);
    const int64_t high = std::max(low, past_inside(x, end, count));
    if (high > low)
      copy(kernels, dst + low, ld, at + (p + low * x.stride) * x.input_stride, high - low, n,
           x.stride * x.input_stride);
    for (const auto& [begin, stop] : {std::pair{int64_t{0}, low}, std::pair{high, count}}) {
      if (begin == stop) continue;
      int64_t tap[kMaxRank];
      std::copy_n(w, rank, tap);
      int64_t f = feature;
      for (int64_t k = 0; k < n; ++tap[rank - 1]) {
        const int64_t part = std::min(n - k, features - f);
        pack_tap(kernels, dst + k * ld + begin, ld, o, begin, stop - begin, tap, f, part);
        k += part;
        f = 0;
      }
    }
    return true;
  }

  // Positions p, p + stride, ...: the number of the first at or above 0, and of the first at or above the
  // input's end.
  static int64_t first_inside(const ConvDim& x, int64_t p, int64_t count) {
    return p >= 0 ? 0 : std::min(count, (-p - 1) / x.stride + 1);
  }
  static int64_t past_inside(const ConvDim& x, int64_t p, int64_t count) {
    return p >= x.input ? 0 : std::min(count, (x.input - 1 - p) / x.stride + 1);
  }

  // Adds the memory offset of all dimensions but the last to `at`; false if they fall outside the input.
  bool outer_offset(const int64_t* o, const int64_t* w, int64_t* at) const {
    for (int d = 0; d < rank - 1; ++d) {
      const int64_t p = o[d] * dims[d].stride + w[d] * dims[d].filter_dilation - dims[d].pad_low;
      if (p < 0) return false;
      int64_t from = p;
      if (dims[d].input_dilation != 1) {
        if (p % dims[d].input_dilation != 0) return false;
        from = p / dims[d].input_dilation;
      }
      if (from >= dims[d].input) return false;
      *at += from * dims[d].input_stride;
    }
    return true;
  }

  // One window position, `n` features from `feature` on; output positions o + begin, ... o + begin + count
  // - 1.
  void pack_tap(const GemmKernels<T>* kernels, T* dst, int64_t ld, const int64_t* o, int64_t begin,
                int64_t count, const int64_t* w, int64_t feature, int64_t n) const {
    int64_t at = feature * feature_stride;
    if (!outer_offset(o, w, &at)) return clear(dst, ld, count, n);
    const ConvDim& x = dims[rank - 1];
    const int64_t p = (o[rank - 1] + begin) * x.stride + w[rank - 1] * x.filter_dilation - x.pad_low;
    if (x.input_dilation != 1) {
      clear(dst, ld, count, n);
      for (int64_t j = 0; j < count; ++j) {
        const int64_t q = p + j * x.stride;
        if (q < 0 || q % x.input_dilation != 0 || q / x.input_dilation >= x.input) continue;
        copy(kernels, dst + j, ld, at + q / x.input_dilation * x.input_stride, 1, n, 0);
      }
      return;
    }
    // The part [low, high) of the run lies within the input.
    const int64_t low = first_inside(x, p, count);
    const int64_t high = std::max(low, past_inside(x, p, count));
    clear(dst, ld, low, n);
    if (high > low)
      copy(kernels, dst + low, ld, at + (p + low * x.stride) * x.input_stride, high - low, n,
           x.stride * x.input_stride);
    clear(dst + high, ld, count - high, n);
  }

  void copy(const GemmKernels<T>* kernels, T* dst, int64_t ld, int64_t at, int64_t count, int64_t n,
            int64_t step) const {
    if constexpr (sizeof(T) == 4) {
      // Short runs of contiguous positions are the common case of channels-first images: no call for each.
      if (step == 1 && count >= 4 && count <= 32 && loads_unchanged<T>(type)) {
        for (int64_t k = 0; k < n; ++k)
          copy_short(reinterpret_cast<const T*>(data) + at + k * feature_stride, dst + k * ld, count);
        return;
      }
    }
    StridedSource<T>{data + at * hlo::byte_size(type), type, step, feature_stride}.pack(kernels, dst, ld, 0,
                                                                                        count, 0, n);
  }

  // 4 to 32 elements of 4 bytes, 16 bytes at a time; the last piece may overlap the one before.
  static void copy_short(const T* from, T* to, int64_t count) {
    for (int64_t j = 0; j + 4 <= count; j += 4) std::memcpy(to + j, from + j, 16);
    std::memcpy(to + count - 4, from + count - 4, 16);
  }

  static void clear(T* dst, int64_t ld, int64_t count, int64_t n) {
    if (count == 0) return;
    for (int64_t k = 0; k < n; ++k) std::fill_n(dst + k * ld, count, T{});
  }
};

template <typename A, typename B, typename Out>
struct Problem {
  A a;
  B b;
  GemmOutput<Out> out;
};

// Patches, or a matrix in memory, as filters are: products of them either way round are one type.
template <typename T>
struct Factor {
  PatchSource<T> patches;
  StridedSource<T> matrix;
  bool is_patches;

  int64_t direct_ld() const { return is_patches ? -1 : matrix.direct_ld(); }
  int64_t direct_lda() const { return is_patches ? -1 : matrix.direct_lda(); }
  const T* direct(int64_t outer0, int64_t k0) const { return matrix.direct(outer0, k0); }
  MemoryRows rows_of(int64_t outer0, int64_t outer, int64_t k0, int64_t kc) const {
    return is_patches ? MemoryRows() : matrix.rows_of(outer0, outer, k0, kc);
  }
  int64_t pack_runs(T* dst, int64_t pitch, int64_t width, int64_t outer0, int64_t outer, int64_t k0,
                    int64_t kc) const {
    return is_patches ? 0 : matrix.pack_runs(dst, pitch, width, outer0, outer, k0, kc);
  }
  void pack(const GemmKernels<T>* kernels, T* dst, int64_t ld, int64_t outer0, int64_t outer, int64_t k0,
            int64_t kc) const {
    if (is_patches) return patches.pack(kernels, dst, ld, outer0, outer, k0, kc);
    matrix.pack(kernels, dst, ld, outer0, outer, k0, kc);
  }
};

// One stride for the row-major output position over `dims`, if there is one: step(dim) lies between
// neighbours along one of them.
template <typename Step>
std::optional<int64_t> position_stride(const std::vector<ConvDim>& dims, Step step) {
  int64_t extent = 1, stride = 1;
  bool any = false;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].output == 1) continue;
    if (!any) {
      stride = step(dims[i]);
      any = true;
    } else if (step(dims[i]) != stride * extent) {
      return std::nullopt;
    }
    extent *= dims[i].output;
  }
  return stride;
}
std::optional<int64_t> output_position_stride(const std::vector<ConvDim>& dims) {
  return position_stride(dims, [](const ConvDim& d) { return d.output_stride; });
}

// The filters as a matrix [output feature][k].
struct Filters {
  const char* data;
  int64_t k_stride, output_stride;
  BufferRef copy;
};

// To [window position][input feature][output feature]; T is any type of the elements' width.
template <typename T>
void copy_filters(const ConvShape& s, const void* filter, void* to, const KernelContext& context) {
  const T* const data = static_cast<const T*>(filter);
  T* const copy = static_cast<T*>(to);
  const int64_t columns = s.output_features;
  if constexpr (std::is_floating_point_v<T>) {
    if (const auto turned = TurnedFilters::of(s)) {
      const int64_t together = turned->together();
      context.parallel(ceil_div(s.filter_input, together), [&](int64_t part) {
        if (context.cancelled()) return;
        turned->turn(gemm_kernels<T>(usable_isa(context.isa)), data, columns, columns, part * together,
                     std::min(s.filter_input, (part + 1) * together),
                     [&](int64_t first, int64_t k) { return copy + k * columns + first; });
      });
      return;
    }
  }
  const int rank = static_cast<int>(s.spatial.size());
  const ConvDim last = rank > 0 ? s.spatial[rank - 1] : ConvDim();
  const int64_t run = last.filter, outer = s.window() / run;
  const int64_t step = last.reversed ? -last.filter_stride : last.filter_stride;
  const int64_t row = s.filter_input * columns;  // from one window position to the next
  context.parallel(s.filter_input, [&](int64_t f) {
    if (context.cancelled()) return;
    for (int64_t i = 0; i < outer; ++i) {
      int64_t at = f * s.filter_input_stride, left = i;
      for (int d = rank - 1; d-- > 0; left /= s.spatial[d].filter) {
        const ConvDim& dim = s.spatial[d];
        const int64_t w = left % dim.filter;
        at += (dim.reversed ? dim.filter - 1 - w : w) * dim.filter_stride;
      }
      if (last.reversed) at += (run - 1) * last.filter_stride;
      const T* const from = data + at;
      T* const dst = copy + i * run * row + f * columns;
      for (int64_t w = 0; w < run; ++w)
        for (int64_t o = 0; o < columns; ++o) dst[w * row + o] = from[w * step + o * s.filter_output_stride];
    }
  });
}

absl::StatusOr<Filters> filters(DType type, const ConvShape& s, const void* filter,
                                const KernelContext& context) {
  const int64_t width = hlo::byte_size(type), window = s.window();
  // Row-major from the input features outwards, forwards: one stride is enough.
  int64_t extent = s.filter_input, stride = s.filter_input_stride;
  bool known = extent > 1, dense = true;
  for (size_t i = s.spatial.size(); i-- > 0 && dense;) {
    const ConvDim& d = s.spatial[i];
    if (d.filter == 1) continue;
    if (d.reversed) dense = false;
    if (!known) {
      stride = d.filter_stride;
      known = true;
    } else if (d.filter_stride != stride * extent) {
      dense = false;
    }
    extent *= d.filter;
  }
  if (dense) return Filters{static_cast<const char*>(filter), stride, s.filter_output_stride, {}};

  const auto bytes = checked_bytes(std::vector<int64_t>{window, s.filter_input, s.output_features}, width);
  if (!bytes)
    return absl::InvalidArgumentError("the filters of a convolution have more bytes than fit 64 bits");
  absl::StatusOr<BufferRef> buffer = context.scratch->allocate(*bytes);
  if (!buffer.ok()) return buffer.status();
  char* const to = static_cast<char*>(pointer((*buffer)->address()));
  switch (width) {
    case 1:
      copy_filters<uint8_t>(s, filter, to, context);
      break;
    case 2:
      copy_filters<uint16_t>(s, filter, to, context);
      break;
    case 4:
      copy_filters<float>(s, filter, to, context);
      break;
    case 8:
      copy_filters<double>(s, filter, to, context);
      break;
    default:
      copy_filters<std::complex<double>>(s, filter, to, context);
  }
  return Filters{to, s.output_features, 1, *std::move(buffer)};
}

// What all element types share: the cut of the problem into matrix products.
struct Layout {
  std::vector<ConvDim> dims;  // of a position: the batch too, if `with_batch`
  bool with_batch = false;
  int64_t positions = 1;  // rows of one product
  int64_t images = 1;     // products per group
  int64_t group_features = 1;
  int64_t position_stride = 1;
  std::vector<int64_t> position_table;  // where no stride serves
  // From one position's patch to the next, where patches are the input as it lies in memory.
  std::optional<int64_t> patch_stride;
};

// Whether every patch is one position of the input.
bool is_pointwise(const ConvShape& s) {
  return std::all_of(s.spatial.begin(), s.spatial.end(), [](const ConvDim& d) {
    return d.filter == 1 && d.pad_low == 0 && d.input_dilation == 1 && (d.output - 1) * d.stride < d.input;
  });
}

Layout layout_of(const ConvShape& s) {
  Layout l;
  l.group_features = s.output_features / s.groups();
  ConvDim batch;
  batch.input = batch.output = s.output_batch();
  batch.input_stride = s.input_batch_stride;
  batch.output_stride = s.output_batch_stride;
  l.dims.push_back(batch);
  l.dims.insert(l.dims.end(), s.spatial.begin(), s.spatial.end());
  auto stride = output_position_stride(l.dims);
  l.with_batch = stride.has_value();
  l.positions = s.positions();
  if (l.with_batch) {
    l.positions *= s.output_batch();
  } else {
    l.dims.erase(l.dims.begin());
    l.images = s.output_batch();
    stride = output_position_stride(l.dims);
  }
  if (is_pointwise(s))
    l.patch_stride = position_stride(l.dims, [](const ConvDim& d) { return d.stride * d.input_stride; });
  if (stride) {
    l.position_stride = *stride;
    return l;
  }
  std::vector<int64_t> o(l.dims.size(), 0);
  int64_t at = 0;
  for (int64_t i = 0; i < l.positions; ++i) {
    l.position_table.push_back(at);
    for (size_t d = o.size(); d-- > 0;) {
      at += l.dims[d].output_stride;
      if (++o[d] < l.dims[d].output) break;
      at -= l.dims[d].output * l.dims[d].output_stride;
      o[d] = 0;
    }
  }
  return l;
}

// Element offsets of product number `i` into input, filters and output.
struct Offsets {
  int64_t input, filter, output;
};
Offsets offsets_of(const ConvShape& s, const Layout& l, const Filters& f, int64_t i) {
  const int64_t group = i / l.images, image = i % l.images;
  const int64_t input = (s.batch_groups > 1 ? group * s.output_batch() * s.input_batch_stride
                                            : group * s.filter_input * s.input_feature_stride) +
                        image * s.input_batch_stride;
  return {input, group * l.group_features * f.output_stride,
          group * l.group_features * s.output_feature_stride + image * s.output_batch_stride};
}

template <typename T, typename Out, typename Store>
absl::Status real_conv(DType in, const ConvShape& s, const Layout& l, const void* input, const Filters& f,
                       Out* output, const KernelContext& context, Store store) {
  const int64_t width = hlo::byte_size(in), k = s.window() * s.filter_input;
  const int64_t lanes = gemm_kernels<T>(usable_isa(context.isa)).lanes;
  const int64_t* const table = l.position_table.empty() ? nullptr : l.position_table.data();
  const int64_t count = s.groups() * l.images;
  // The lanes lie along features or along positions: wherever the output is contiguous, unless too few are
  // there.
  const bool along_features = l.position_stride == 1 && s.output_feature_stride != 1 && !table
                                  ? l.positions < lanes / 2 && l.group_features > l.positions
                                  : l.group_features >= lanes / 2 || l.group_features >= l.positions;
  const auto problem = [&](int64_t i) {
    const Offsets at = offsets_of(s, l, f, i);
    const char* const images = static_cast<const char*>(input) + at.input * width;
    const auto factor = [&](bool is_patches) {
      const PatchSource<T> patches{
          images, in, l.dims.data(), static_cast<int>(l.dims.size()), s.filter_input, s.input_feature_stride};
      if (is_patches && l.patch_stride)
        return Factor<T>{patches, {images, in, *l.patch_stride, s.input_feature_stride}, false};
      return Factor<T>{patches, {f.data + at.filter * width, in, f.output_stride, f.k_stride}, is_patches};
    };
    const GemmOutput<Out> out =
        along_features
            ? GemmOutput<Out>{output + at.output, l.position_stride, s.output_feature_stride, table, nullptr}
            : GemmOutput<Out>{output + at.output, s.output_feature_stride, l.position_stride, nullptr, table};
    return Problem<Factor<T>, Factor<T>, Out>{factor(along_features), factor(!along_features), out};
  };
  const int64_t rows = along_features ? l.positions : l.group_features;
  const int64_t columns = along_features ? l.group_features : l.positions;
  return gemm<T, Out>({count, rows, columns, k, hlo::kDotBlock}, context, problem, store);
}

// The columns of the real product are the parts of the output features, so each feature has two offsets.
template <typename P>
absl::Status complex_conv(DType in, const ConvShape& s, const void* input, const Filters& f, void* output,
                          const KernelContext& context) {
  using Element = std::complex<P>;
  using Rows = ComplexRows<P, PatchSource<Element>>;
  using Cols = ComplexCols<P, StridedSource<Element>>;
  Layout l = layout_of(s);
  for (int64_t& at : l.position_table) at *= 2;
  std::vector<int64_t> columns;
  for (int64_t i = 0; i < l.group_features; ++i)
    for (int64_t part = 0; part < 2; ++part) columns.push_back(2 * i * s.output_feature_stride + part);
  const int64_t width = sizeof(Element);
  const auto problem = [&](int64_t i) {
    const Offsets at = offsets_of(s, l, f, i);
    return Problem<Rows, Cols, P>{
        {{static_cast<const char*>(input) + at.input * width, in, l.dims.data(),
          static_cast<int>(l.dims.size()), s.filter_input, s.input_feature_stride}},
        {{f.data + at.filter * width, in, f.output_stride, f.k_stride}},
        {static_cast<P*>(output) + 2 * at.output, 2 * l.position_stride, 1,
         l.position_table.empty() ? nullptr : l.position_table.data(), columns.data()}};
  };
  return gemm<P, P>({s.groups() * l.images, l.positions, 2 * l.group_features,
                     2 * s.window() * s.filter_input, 2 * hlo::kDotBlock},
                    context, problem, [](P x) { return x; });
}

}  // namespace

absl::Status convolution(DType in, DType out, const ConvShape& s, const void* input, const void* filter,
                         void* output, const KernelContext& context) {
  if (absl::Status types = hlo::check_dot_types(in, out); !types.ok()) return types;
  if (absl::Status shape = hlo::check_conv(s); !shape.ok()) return shape;
  // Sums of nothing are 0; what is below divides by the sizes of patches and results.
  const int64_t results = s.output_batch() * s.output_features * s.positions();
  if (results == 0) return absl::OkStatus();
  if (s.window() * s.filter_input == 0) {
    std::memset(output, 0, static_cast<size_t>(results * hlo::byte_size(out)));
    return absl::OkStatus();
  }
  const auto with_filters = [&](auto run) -> absl::Status {
    absl::StatusOr<Filters> packed = filters(in, s, filter, context);
    return packed.ok() ? run(*packed) : packed.status();
  };
  return with_result_type(
      out,
      [&]<typename T, typename Out>(auto store) -> absl::Status {
        Out* const to = static_cast<Out*>(output);
        // Of integers there are kernels for products alone.
        if constexpr (std::is_floating_point_v<T>) {
          const GemmKernels<T>& kernels = gemm_kernels<T>(usable_isa(context.isa));
          if constexpr (std::is_same_v<T, Out>)
            if (kernels.feature_chains[0] && loads_unchanged<T>(in))
              if (const auto plan = plan_features(s, kernels.lanes, context.parallel.threads))
                return FeatureConvolution<T, decltype(store)>(*plan, in, s, input, filter, to, context, store)
                    .run();
          if (kernels.lane_chains[0])
            if (const auto plan = plan_lanes(s, kernels.lanes, sizeof(T), context.parallel.threads))
              return LaneConvolution<T, Out, decltype(store)>(*plan, in, s, input, filter, to, context, store)
                  .run();
          if (kernels.offset_tile[0][0])
            if (const auto plan = plan_planes(s, kernels, context.parallel.threads))
              return PlaneConvolution<T, Out, decltype(store)>(*plan, in, s, input, filter, to, context,
                                                               store)
                  .run();
        }
        const Layout l = layout_of(s);
        if constexpr (std::is_floating_point_v<T>) {
          const GemmKernels<T>& kernels = gemm_kernels<T>(usable_isa(context.isa));
          if (kernels.run_tile[0][0] && !(l.patch_stride && l.positions >= kManyPositions))
            if (const auto plan = plan_rows(s, kernels.lanes, kernels.max_rows, kernels.lanes * kMaxRunVecs,
                                            sizeof(T), context.parallel.threads))
              return RowConvolution<T, Out, decltype(store)>(*plan, in, s, input, filter, to, context, store)
                  .run();
        }
        return with_filters(
            [&](const Filters& f) { return real_conv<T>(in, s, l, input, f, to, context, store); });
      },
      [&]<typename P>() {
        return with_filters(
            [&](const Filters& f) { return complex_conv<P>(in, s, input, f, output, context); });
      });
}

}  // namespace lamina::jit
