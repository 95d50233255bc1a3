// transpose that is stored, not fused: in tiles, so that both sides are read and written by whole cache
// lines.
#include <algorithm>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

// A tile's side, in elements.
constexpr int64_t kTile = 32;
// Elements of one task; tasks are cut by size only.
constexpr int64_t kTaskElements = 128 * 1024;

// Rows of `columns` elements at `from_step`, written contiguously; neighbours of a column are contiguous in
// the source.
template <typename T>
void copy_tile(const T* from, T* to, int64_t rows, int64_t columns, int64_t from_step, int64_t to_step) {
  if (rows == kTile && columns == kTile) {
    for (int64_t r = 0; r < kTile; ++r)
      for (int64_t c = 0; c < kTile; ++c) to[r * to_step + c] = from[c * from_step + r];
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) to[r * to_step + c] = from[c * from_step + r];
}

struct Transpose {
  std::vector<BoxDim> outer;  // all but the two below
  // The dimension that is contiguous in the source, and the one that is contiguous in the result.
  BoxDim row{1, 1, 1}, column{1, 1, 1};
  int64_t outer_count = 1, width = 1;

  absl::Status run(const void* source, void* target, const KernelContext& context) const {
    const int64_t bands = (row.extent + kTile - 1) / kTile, units = outer_count * bands;
    const int64_t tasks = std::min(units, outer_count * row.extent * column.extent / kTaskElements + 1);
    context.parallel(tasks, [&](int64_t t) {
      for (int64_t u = units * t / tasks; u < units * (t + 1) / tasks && !context.cancelled(); ++u) {
        int64_t from = 0, to = 0, left = u / bands;
        for (size_t d = outer.size(); d-- > 0; left /= outer[d].extent) {
          from += left % outer[d].extent * outer[d].from;
          to += left % outer[d].extent * outer[d].to;
        }
        run_band(source, target, from, to, u % bands * kTile);
      }
    });
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  void run_band(const void* source, void* target, int64_t from, int64_t to, int64_t first) const {
    const int64_t rows = std::min(kTile, row.extent - first);
    const auto band = [&]<typename T>(T) {
      for (int64_t c = 0; c < column.extent; c += kTile)
        copy_tile(static_cast<const T*>(source) + from + first + c * column.from,
                  static_cast<T*>(target) + to + first * row.to + c, rows, std::min(kTile, column.extent - c),
                  column.from, row.to);
    };
    struct Wide {
      uint64_t parts[2];
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
