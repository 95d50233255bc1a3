// transpose that is stored, not fused: in tiles, so that both sides are read and written by whole cache
// lines.
#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

// A tile's columns, and the bytes of one column: some cache lines, which are read in whole while few others
// are, as at a stride of a power of two all of them fall into one set of the cache. The block in which a tile
// is turned stays in the first cache.
constexpr int64_t kColumns = 64, kColumnBytes = 256, kMostRows = 64;
// Elements of one task; tasks are cut by size only.
constexpr int64_t kTaskElements = 128 * 1024;

template <typename T>
constexpr int64_t kRows = std::min<int64_t>(kColumnBytes / sizeof(T), kMostRows);

// A square of as many elements a side as 16 bytes hold: in each step the lower and the upper halves of two
// vectors go lane by lane.
template <typename T>
void turn_square(const T* from, T* to, int64_t step) {
  constexpr int kSide = 16 / sizeof(T);
  typedef T Vector __attribute__((vector_size(16)));
  Vector v[kSide], next[kSide];
  for (int i = 0; i < kSide; ++i) std::memcpy(&v[i], from + i * step, sizeof(Vector));
  for (int left = kSide; left > 1; left /= 2) {
    for (int i = 0; i < kSide / 2; ++i) [&]<size_t... J>(std::index_sequence<J...>) {
        next[2 * i] = __builtin_shufflevector(v[i], v[i + kSide / 2], (J / 2 + J % 2 * kSide)...);
        next[2 * i + 1] =
            __builtin_shufflevector(v[i], v[i + kSide / 2], (J / 2 + kSide / 2 + J % 2 * kSide)...);
      }
    (std::make_index_sequence<kSide>());
    std::copy(next, next + kSide, v);
  }
  for (int i = 0; i < kSide; ++i) std::memcpy(to + i * kColumns, &v[i], sizeof(Vector));
}

struct Wide {
  uint64_t parts[2];
};

// Rows of `columns` elements at `from_step`, written contiguously by way of a block; neighbours of a column
// are contiguous in the source.
template <typename T>
void copy_tile(const T* from, T* to, int64_t rows, int64_t columns, int64_t from_step, int64_t to_step) {
  alignas(64) T block[kRows<T> * kColumns];
  int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (!std::is_same_v<T, Wide>) {
    constexpr int64_t kSide = 16 / sizeof(T);
    whole_rows = rows / kSide * kSide;
    whole_columns = columns / kSide * kSide;
    for (int64_t c = 0; c < whole_columns; c += kSide)
      for (int64_t r = 0; r < whole_rows; r += kSide)
        turn_square(from + c * from_step + r, block + r * kColumns + c, from_step);
  }
  for (int64_t c = 0; c < columns; ++c)
    for (int64_t r = c < whole_columns ? whole_rows : 0; r < rows; ++r)
      block[r * kColumns + c] = from[c * from_step + r];
  for (int64_t r = 0; r < rows; ++r) std::copy_n(block + r * kColumns, columns, to + r * to_step);
}

struct Transpose {
  std::vector<BoxDim> outer;  // all but the two below
  // The dimension that is contiguous in the source, and the one that is contiguous in the result.
  BoxDim row{1, 1, 1}, column{1, 1, 1};
  int64_t outer_count = 1, width = 1;

  absl::Status run(const void* source, void* target, const KernelContext& context) const {
    const int64_t bands = (row.extent + rows() - 1) / rows(), units = outer_count * bands;
    const int64_t tasks = std::min(units, outer_count * row.extent * column.extent / kTaskElements + 1);
    context.parallel(tasks, [&](int64_t t) {
      for (int64_t u = units * t / tasks; u < units * (t + 1) / tasks && !context.cancelled(); ++u) {
        int64_t from = 0, to = 0, left = u / bands;
        for (size_t d = outer.size(); d-- > 0; left /= outer[d].extent) {
          from += left % outer[d].extent * outer[d].from;
          to += left % outer[d].extent * outer[d].to;
        }
        run_band(source, target, from, to, u % bands * rows());
      }
    });
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  int64_t rows() const { return std::min(kColumnBytes / width, kMostRows); }

  void run_band(const void* source, void* target, int64_t from, int64_t to, int64_t first) const {
    const auto band = [&]<typename T>(T) {
      const int64_t rows = std::min(kRows<T>, row.extent - first);
      for (int64_t c = 0; c < column.extent; c += kColumns)
        copy_tile(static_cast<const T*>(source) + from + first + c * column.from,
                  static_cast<T*>(target) + to + first * row.to + c, rows,
                  std::min(kColumns, column.extent - c), column.from, row.to);
    };
    switch (width) {
      case 1:
        return band(uint8_t{});
      case 2:
        return band(uint16_t{});
      case 4:
        return band(uint32_t{});
      case 8:
        return band(uint64_t{});
      default:
        return band(Wide{});
    }
  }
};

}  // namespace

NativeOp make_transpose(const hlo::Node& n) {
  const hlo::Type &in = *n.operand_type(0), &out = *n.type();
  const hlo::Dims& permutation = n.attrs().ints(hlo::Attr::permutation);
  const hlo::Dims from = hlo::row_major_strides(in.dims), to = hlo::row_major_strides(out.dims);
  std::vector<BoxDim> dims;
  for (size_t d = 0; d < out.dims.size(); ++d) dims.push_back({out.dims[d], from[permutation[d]], to[d]});
  dims = simplified(dims);
  // Without a dimension that moves away from the end there is nothing to tile.
  if (out.num_elements == 0 || dims.size() < 2 || dims.back().from == 1) return {};
  Transpose t;
  t.width = hlo::byte_size(in.dtype);
  t.column = dims.back();
  dims.pop_back();
  const auto row = std::find_if(dims.begin(), dims.end(), [](const BoxDim& d) { return d.from == 1; });
  if (row == dims.end()) return {};
  t.row = *row;
  dims.erase(row);
  t.outer = dims;
  for (const BoxDim& d : dims) t.outer_count *= d.extent;
  if (t.row.extent < 8 || t.column.extent < 8) return {};
  NativeOp op;
  op.what = str_cat(t.outer_count, " of ", t.row.extent, " x ", t.column.extent);
  op.run = [t = std::move(t)](const void* const* in, void* const* out, const KernelContext& context) {
    return t.run(in[0], out[0], context);
  };
  return op;
}

}  // namespace lamina::jit
