// pad of a stored array: rows of the result, each the padding value around a part of the operand.
//
// As a loop kernel each vector of elements asks where it lies. Here rows of bytes are copied and what is
// around them is filled; tasks get equal numbers of bytes.
#include <algorithm>
#include <cstring>
#include <vector>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/streamed_copy.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit {
namespace {

// Rows of fewer bytes, without gaps: vectors of a kernel go across their ends.
constexpr int64_t kShortestRow = 64;
// Rows of so many bytes that are not padded are copied as they are; shorter ones are the blocks between which
// the gaps of the dimension before lie.
constexpr int64_t kLongBlock = 256;
// Parts of so many bytes go past the caches where the whole result does.
constexpr int64_t kShortestStreamed = 512;

// A dimension of the result: element `at` + i * `step` is element `first` + i of the operand's, for i below
// `count`; the others are padding.
struct PaddedDim {
  int64_t from_extent, extent, low, step;
  int64_t first = 0, at = 0, count = 0;

  bool is_whole() const { return low == 0 && step == 1 && from_extent == extent; }
  void find_elements() {
    first = low < 0 ? (-low + step - 1) / step : 0;
    count = std::max<int64_t>(std::min(from_extent, (extent - low + step - 1) / step) - first, 0);
    at = low + first * step;
  }
};

// Joins dimensions that are not padded with the one before: where that has no gaps, its padding becomes so
// much longer.
std::vector<PaddedDim> padded_dims(const hlo::Node& n) {
  const hlo::Attrs& a = n.attrs();
  const hlo::Dims &from = n.operand_type(0)->dims, &to = n.type()->dims;
  std::vector<PaddedDim> out;
  for (size_t d = 0; d < to.size(); ++d) {
    const int64_t gap = from[d] > 1 ? a.ints(hlo::Attr::interior_padding)[d] : 0;
    const int64_t span = from[d] > 0 ? (from[d] - 1) * (gap + 1) + 1 : 0;
    const int64_t low = std::clamp(a.ints(hlo::Attr::edge_padding_low)[d], -span, to[d]);
    const PaddedDim dim{from[d], to[d], low, gap + 1};
    if (dim.is_whole() && !out.empty() && out.back().step == 1) {
      PaddedDim& last = out.back();
      last = {last.from_extent * dim.extent, last.extent * dim.extent, last.low * dim.extent, 1};
    } else {
      out.push_back(dim);
    }
  }
  for (PaddedDim& d : out) d.find_elements();
  return out;
}

class PaddedRows {
 public:
  PaddedRows(std::vector<PaddedDim> dims, int64_t width) : width_(width) {
    if (dims.size() > 1 && dims.back().is_whole() && dims.back().extent * width < kLongBlock) {
      block_ = dims.back().extent;
      dims.pop_back();
    }
    row_ = dims.back();
    row_elements_ = row_.extent * block_;
    from_steps_.resize(dims.size());
    for (int64_t step = block_, d = std::ssize(dims) - 1; d >= 0; step *= dims[d--].from_extent)
      from_steps_[d] = step;
    dims.pop_back();
    outer_ = std::move(dims);
    for (const PaddedDim& d : outer_) rows_ *= d.extent;
    streamed_ = elements() * width >= kStreamedBytes;
  }

  int64_t rows() const { return rows_; }
  int64_t row_bytes() const { return row_elements_ * width_; }
  int64_t elements() const { return rows_ * row_elements_; }
  bool has_gaps() const {
    return row_.step > 1 || std::any_of(outer_.begin(), outer_.end(), [](auto& d) { return d.step > 1; });
  }

  // Elements `begin` to `end` of the result.
  void write(const void* const* in, void* out, int64_t begin, int64_t end) const {
    with_bytes_type(width_, [&]<typename T>() {
      T value;
      std::memcpy(&value, in[1], sizeof(T));
      write_elements(static_cast<const T*>(in[0]), value, static_cast<T*>(out), begin, end);
    });
    if (streamed_) finish_streamed_copies();
  }

 private:
  template <typename T>
  void write_elements(const T* source, T value, T* target, int64_t begin, int64_t end) const {
    std::vector<int64_t> index(outer_.size());
    int64_t row = begin / row_elements_;
    for (int64_t left = row, d = std::ssize(outer_) - 1; d >= 0; left /= outer_[d--].extent)
      index[d] = left % outer_[d].extent;
    for (; row * row_elements_ < end; ++row) {
      const int64_t from = std::max<int64_t>(begin - row * row_elements_, 0),
                    to = std::min(end - row * row_elements_, row_elements_);
      T* const line = target + row * row_elements_;
      if (const int64_t at = row_source(index); at < 0)
        std::fill(line + from, line + to, value);
      else if (row_.step == 1)
        write_row(source + at, value, line, from, to);
      else
        write_spread_row(source + at, value, line, from, to);
      for (size_t d = outer_.size(); d-- > 0 && ++index[d] == outer_[d].extent;) index[d] = 0;
    }
  }

  // Where the elements of a row begin in the operand; negative if the row is all padding.
  int64_t row_source(const std::vector<int64_t>& index) const {
    if (row_.count == 0) return -1;
    int64_t at = row_.first * from_steps_.back();
    for (size_t d = 0; d < outer_.size(); ++d) {
      const PaddedDim& dim = outer_[d];
      int64_t i = index[d] - dim.at;
      if (i < 0) return -1;
      if (dim.step > 1) {
        if (i % dim.step != 0) return -1;
        i /= dim.step;
      }
      if (i >= dim.count) return -1;
      at += (dim.first + i) * from_steps_[d];
    }
    return at;
  }

  template <typename T>
  void write_row(const T* source, T value, T* line, int64_t from, int64_t to) const {
    const int64_t at = row_.at * block_;
    const int64_t begin = std::clamp(at, from, to), end = std::clamp(at + row_.count * block_, from, to);
    const auto bytes = (end - begin) * static_cast<int64_t>(sizeof(T));
    std::fill(line + from, line + begin, value);
    const auto* const first = reinterpret_cast<const std::byte*>(source + begin - at);
    auto* const target = reinterpret_cast<std::byte*>(line + begin);
    if (streamed_ && bytes >= kShortestStreamed)
      streamed_copy(first, target, bytes);
    else
      copy_contiguous(first, target, bytes);
    std::fill(line + end, line + to, value);
  }

  // With gaps between blocks; those at the ends may go in part.
  template <typename T>
  void write_spread_row(const T* source, T value, T* line, int64_t from, int64_t to) const {
    std::fill(line + from, line + to, value);
    const int64_t step = row_.step * block_, at = row_.at * block_;
    const int64_t first = std::max<int64_t>((from - at - block_ + step) / step, 0);
    const int64_t last = std::min((to - at + step - 1) / step, row_.count);
    if (block_ == 1) {
      for (int64_t i = first; i < last; ++i) line[at + i * step] = source[i];
      return;
    }
    for (int64_t i = first; i < last; ++i) {
      const int64_t begin = at + i * step, skipped = std::max<int64_t>(from - begin, 0);
      const T* const block = source + i * block_ + skipped;
      std::copy(block, source + i * block_ + std::min(block_, to - begin), line + begin + skipped);
    }
  }

  int64_t width_;  // of an element, in bytes
  std::vector<PaddedDim> outer_;
  PaddedDim row_;                    // of blocks
  int64_t block_ = 1;                // elements that go together
  std::vector<int64_t> from_steps_;  // elements of the operand between neighbours along each dimension
  int64_t rows_ = 1, row_elements_;
  bool streamed_;
};

}  // namespace

NativeOp make_pad(const hlo::Node& n) {
  const hlo::Type& type = *n.type();
  if (type.num_elements == 0 || type.dims.empty()) return {};
  const std::vector<PaddedDim> dims = padded_dims(n);
  const PaddedRows rows(dims, hlo::byte_size(type.dtype));
  if (!rows.has_gaps() && rows.row_bytes() < kShortestRow) return {};
  NativeOp op;
  op.what = str_cat(rows.rows(), " rows of ", rows.row_bytes(), " bytes");
  op.run = [rows](const void* const* in, void* const* out, const KernelContext& context) {
    const int64_t elements = rows.elements();
    const int64_t tasks = std::max<int64_t>(rows.rows() * rows.row_bytes() / kTaskBytes, 1);
    // Boundaries lie between cache lines of the result, so that no two tasks write one.
    const auto boundary = [&](int64_t t) { return t == tasks ? elements : elements / tasks * t / 64 * 64; };
    context.parallel(tasks, [&](int64_t t) {
      if (!context.cancelled()) rows.write(in, out[0], boundary(t), boundary(t + 1));
    });
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  };
  if (dims[0].is_whole()) {
    op.leading = type.dims[0];
    op.work = rows.elements();
    op.run_part = [rows, each = rows.elements() / op.leading](const void* const* in, void* const* out,
                                                              int64_t begin, int64_t end,
                                                              const KernelContext&) {
      rows.write(in, out[0], begin * each, end * each);
      return absl::OkStatus();
    };
  }
  return op;
}

}  // namespace lamina::jit
