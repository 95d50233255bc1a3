// concatenate of stored pieces: copies of their rows, side by side.
//
// As a loop kernel each element asks every piece whether it lies in it. The result is rows of bytes, of which
// each piece gives a part; tasks get equal numbers of bytes.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "hlo/with_vectors.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

// Rows are written piece by piece in blocks that stay in the first-level cache.
constexpr int64_t kBlockBytes = 16 * 1024;
// Parts of so many bytes and less are copied by elements: a call of memcpy costs more.
constexpr int64_t kShortPart = 64;

struct Piece {
  size_t operand;
  int64_t begin, bytes;  // of a row
};

// `rows` elements of each source, one beside the other.
template <typename T, int kPieces>
void interleave(const std::array<const std::byte*, kPieces>& sources, std::byte* target, int64_t rows) {
  hlo::with_vectors([&] {
    const auto from = sources;  // in registers
    std::byte* const to = target;
    for (int64_t r = 0; r < rows; ++r)
      for (int p = 0; p < kPieces; ++p)
        std::memcpy(to + (r * kPieces + p) * sizeof(T), from[p] + r * sizeof(T), sizeof(T));
  });
}

class RowJoin {
 public:
  explicit RowJoin(const hlo::Node& n) {
    const hlo::Type& out = *n.type();
    const int64_t d = n.attrs().integer(hlo::Attr::dimension);
    int64_t inner = hlo::byte_size(out.dtype);
    for (size_t i = static_cast<size_t>(d) + 1; i < out.dims.size(); ++i) inner *= out.dims[i];
    for (int64_t i = 0; i < d; ++i) rows_ *= out.dims[i];
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const int64_t bytes = n.operand_type(i)->dims[d] * inner;
      if (bytes > 0) pieces_.push_back({i, row_bytes_, bytes});
      row_bytes_ += bytes;
    }
    interleaves_ = pieces_.size() >= 2 && pieces_.size() <= 4 && std::has_single_bit(width()) &&
                   width() <= 8 && std::all_of(pieces_.begin(), pieces_.end(), [&](const Piece& p) {
                     return p.bytes == pieces_[0].bytes;
                   });
  }

  size_t pieces() const { return pieces_.size(); }
  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_bytes_; }

  absl::Status run(const void* const* in, void* target, const KernelContext& context) const {
    const int64_t bytes = rows_ * row_bytes_;
    const int64_t tasks = std::max<int64_t>(bytes / kTaskBytes, 1);
    // Boundaries lie between cache lines of the result, so that no two tasks write one.
    const auto boundary = [&](int64_t t) { return t == tasks ? bytes : bytes / tasks * t / 64 * 64; };
    context.parallel(tasks, [&](int64_t t) {
      if (!context.cancelled()) copy_bytes(in, static_cast<std::byte*>(target), boundary(t), boundary(t + 1));
    });
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

 private:
  // The bytes of the result from `at` on, up to `end`.
  void copy_bytes(const void* const* in, std::byte* target, int64_t at, int64_t end) const {
    while (at < end) {
      const int64_t row = at / row_bytes_, whole = (end - at) / row_bytes_;
      if (at % row_bytes_ != 0 || whole == 0) {
        const int64_t stop = std::min(end, (row + 1) * row_bytes_);
        copy_part(in, target, row, at - row * row_bytes_, stop - row * row_bytes_);
        at = stop;
        continue;
      }
      const int64_t rows = std::min(whole, std::max<int64_t>(kBlockBytes / row_bytes_, 1));
      if (interleaves_)
        interleave_rows(in, target, row, rows);
      else
        for (const Piece& p : pieces_) copy_rows(p, in, target, row, rows);
      at += rows * row_bytes_;
    }
  }

  // Of one row, the bytes from `begin` to `end`.
  void copy_part(const void* const* in, std::byte* target, int64_t row, int64_t begin, int64_t end) const {
    for (const Piece& p : pieces_) {
      const int64_t from = std::max(begin, p.begin), to = std::min(end, p.begin + p.bytes);
      if (from >= to) continue;
      const auto* source = static_cast<const std::byte*>(in[p.operand]);
      copy_contiguous(source + row * p.bytes + from - p.begin, target + row * row_bytes_ + from, to - from);
    }
  }

  uint64_t width() const { return static_cast<uint64_t>(pieces_[0].bytes); }

  void interleave_rows(const void* const* in, std::byte* target, int64_t row, int64_t rows) const {
    const auto of = [&]<int kPieces>() {
      std::array<const std::byte*, kPieces> sources;
      for (int p = 0; p < kPieces; ++p)
        sources[p] = static_cast<const std::byte*>(in[pieces_[p].operand]) + row * pieces_[p].bytes;
      with_bytes_type(pieces_[0].bytes, [&]<typename T>() {
        interleave<T, kPieces>(sources, target + row * row_bytes_, rows);
      });
    };
    if (pieces_.size() == 2)
      of.template operator()<2>();
    else if (pieces_.size() == 3)
      of.template operator()<3>();
    else
      of.template operator()<4>();
  }

  void copy_rows(const Piece& p, const void* const* in, std::byte* target, int64_t row, int64_t rows) const {
    const std::byte* from = static_cast<const std::byte*>(in[p.operand]) + row * p.bytes;
    std::byte* to = target + row * row_bytes_ + p.begin;
    if (p.bytes <= kShortPart) {
      if (p.bytes % sizeof(SixteenBytes) == 0) return copy_elements<SixteenBytes>(from, to, rows, p.bytes);
      if (p.bytes % sizeof(uint64_t) == 0) return copy_elements<uint64_t>(from, to, rows, p.bytes);
      if (p.bytes % sizeof(uint32_t) == 0) return copy_elements<uint32_t>(from, to, rows, p.bytes);
      if (p.bytes % sizeof(uint16_t) == 0) return copy_elements<uint16_t>(from, to, rows, p.bytes);
    }
    for (int64_t r = 0; r < rows; ++r) copy_contiguous(from + r * p.bytes, to + r * row_bytes_, p.bytes);
  }

  template <typename T>
  void copy_elements(const std::byte* from, std::byte* to, int64_t rows, int64_t bytes) const {
    const int64_t step = row_bytes_;
    if (bytes == sizeof(T)) {
      for (int64_t r = 0; r < rows; ++r) std::memcpy(to + r * step, from + r * sizeof(T), sizeof(T));
      return;
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t b = 0; b < bytes; b += sizeof(T))
        std::memcpy(to + r * step + b, from + r * bytes + b, sizeof(T));
  }

  std::vector<Piece> pieces_;
  int64_t rows_ = 1, row_bytes_ = 0;
  bool interleaves_ = false;  // rows are two, three or four elements of as many pieces
};

}  // namespace

NativeOp make_concatenate(const hlo::Node& n) {
  if (n.type()->num_elements == 0) return {};
  const RowJoin join(n);
  NativeOp op;
  op.what = str_cat(join.rows(), " rows of ", join.row_bytes(), " bytes from ", join.pieces(), " pieces");
  op.run = [join](const void* const* in, void* const* out, const KernelContext& context) {
    return join.run(in, out[0], context);
  };
  return op;
}

}  // namespace lamina::jit
