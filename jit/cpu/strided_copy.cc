#include "jit/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "jit/cpu/streamed_copy.h"

namespace lamina::jit {
namespace {

// A tile's columns, and the bytes of one column: some cache lines, which are read in whole while few others
// are, as at a stride of a power of two all of them fall into one set of the cache. The block in which a tile
// is turned stays in the first cache.
constexpr int64_t kColumns = 64, kColumnBytes = 256, kMostRows = 64;
// Elements of one task; tasks are cut by size only.
constexpr int64_t kCopyTask = 128 * 1024;
// Elements that are copied between two looks at the cancel flag.
constexpr int64_t kBandElements = 16 * 1024;
// Rows of so few bytes cost less without a call.
constexpr int64_t kShortRow = 256, kPiece = 16;
// Shorter sides make no tiles.
constexpr int64_t kShortSide = 8;

template <typename T>
constexpr int64_t kTileRows = std::min<int64_t>(kColumnBytes / sizeof(T), kMostRows);

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

// Rows of `columns` elements at `from_step`, written contiguously by way of a block; neighbours of a column
// are contiguous in the source.
template <typename T>
void copy_tile(const T* from, T* to, int64_t rows, int64_t columns, int64_t from_step, int64_t to_step,
               bool streamed) {
  alignas(64) T block[kTileRows<T> * kColumns];
  int64_t whole_rows = 0, whole_columns = 0;
  if constexpr (!std::is_same_v<T, SixteenBytes>) {
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
  for (int64_t r = 0; r < rows; ++r) {
    const T* row = block + r * kColumns;
    if (streamed)
      streamed_copy(reinterpret_cast<const std::byte*>(row), reinterpret_cast<std::byte*>(to + r * to_step),
                    static_cast<size_t>(columns) * sizeof(T));
    else
      std::copy_n(row, columns, to + r * to_step);
  }
}

}  // namespace

StridedCopy::StridedCopy(const std::vector<int64_t>& extents, const std::vector<int64_t>& from, int64_t width)
    : width_(width) {
  std::vector<BoxDim> dims(extents.size());
  int64_t to = 1;
  for (size_t d = extents.size(); d-- > 0; to *= extents[d]) dims[d] = {extents[d], from[d], to};
  dims = simplified(dims);
  if (!dims.empty()) {
    column_ = dims.back();
    dims.pop_back();
  }
  const auto row = std::find_if(dims.begin(), dims.end(), [](const BoxDim& d) { return d.from == 1; });
  if (row != dims.end() && row->extent >= kShortSide && column_.extent >= kShortSide) {
    tiles_ = true;
    row_ = *row;
    dims.erase(row);
  } else if (!dims.empty()) {
    row_ = dims.back();
    dims.pop_back();
  }
  outer_ = std::move(dims);
  for (const BoxDim& d : outer_) count_ *= d.extent;
}

int64_t StridedCopy::band_rows() const {
  return tiles_ ? std::min(kColumnBytes / width_, kMostRows)
                : std::max<int64_t>(kBandElements / column_.extent, 1);
}

absl::Status StridedCopy::run(const void* source, void* target, const KernelContext& context) const {
  const int64_t elements = count_ * row_.extent * column_.extent;
  if (elements == 0) return absl::OkStatus();
  const int64_t rows = band_rows(), bands = (row_.extent + rows - 1) / rows, units = count_ * bands;
  const int64_t tasks = std::min(units, elements / kCopyTask + 1);
  const bool streamed = tiles_ && is_streamed(elements * width_, row_.to * width_);
  context.parallel(tasks, [&](int64_t t) {
    for (int64_t u = units * t / tasks; u < units * (t + 1) / tasks && !context.cancelled(); ++u) {
      int64_t from = 0, to = 0, left = u / bands;
      for (size_t d = outer_.size(); d-- > 0; left /= outer_[d].extent) {
        from += left % outer_[d].extent * outer_[d].from;
        to += left % outer_[d].extent * outer_[d].to;
      }
      const int64_t first = u % bands * rows;
      if (tiles_) {
        run_tiles(source, target, from, to, first, streamed);
      } else {
        copy_rows(static_cast<const std::byte*>(source) + (from + first * row_.from) * width_,
                  static_cast<std::byte*>(target) + (to + first * row_.to) * width_,
                  std::min(rows, row_.extent - first));
      }
    }
    if (streamed) finish_streamed_copies();
  });
  return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
}

void StridedCopy::copy_rows(const std::byte* from, std::byte* to, int64_t rows) const {
  const int64_t bytes = column_.extent * width_, from_step = row_.from * width_, to_step = row_.to * width_;
  const bool in_pieces = column_.from == 1 && bytes % kPiece == 0 && bytes <= kShortRow;
  for (int64_t r = 0; r < rows; ++r, from += from_step, to += to_step) {
    if (in_pieces)
      for (int64_t at = 0; at < bytes; at += kPiece) std::memcpy(to + at, from + at, kPiece);
    else
      copy_row(from, to, column_.extent, column_.from, 1, width_);
  }
}

void StridedCopy::run_tiles(const void* source, void* target, int64_t from, int64_t to, int64_t first,
                            bool streamed) const {
  with_bytes_type(width_, [&]<typename T>() {
    const int64_t rows = std::min(kTileRows<T>, row_.extent - first);
    for (int64_t c = 0; c < column_.extent; c += kColumns)
      copy_tile(static_cast<const T*>(source) + from + first + c * column_.from,
                static_cast<T*>(target) + to + first * row_.to + c, rows,
                std::min(kColumns, column_.extent - c), column_.from, row_.to, streamed);
  });
}

}  // namespace lamina::jit
