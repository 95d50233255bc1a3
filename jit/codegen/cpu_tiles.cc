#include "jit/codegen/cpu_tiles.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <bit>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// The bytes of a tile's column: some cache lines, which are read in whole while few others are, as at a
// stride of a power of two all of them fall into one set of the cache.
constexpr int64_t kColumnBytes = 256;
// All blocks of a tile together stay in the first cache.
constexpr int64_t kFewestRows = 8, kMostRows = 64;

}  // namespace

CpuTiles::CpuTiles(CpuParts& parts, Turned turned)
    : c_(parts), f_(parts.f), b_(f_.builder()), dim_(turned.dim), turn_(parts, std::move(turned.accesses)) {
  int64_t widest = 1;
  for (size_t k = 0; k < turn_.accesses().size(); ++k)
    widest = std::max(widest, hlo::byte_size(turn_.type_of(k)));
  const auto blocks = static_cast<int64_t>(std::bit_ceil(turn_.accesses().size()));
  rows_ = std::clamp(kColumnBytes / widest / blocks, kFewestRows, kMostRows);
}

// The bounds are those of the row-major index over all dimensions but the last: (high * extent + row) * low
// extent + low. For each pair of the outer two they leave a run of rows.
void CpuTiles::emit(const CpuBounds& bounds, const EachRow& each) {
  const unsigned rank = c_.kernel.parallel_rank, dim = static_cast<unsigned>(dim_);
  turn_.enter(rows_);
  Value *extent = f_.arg(dim), *low_extent = f_.i64(1);
  for (unsigned d = dim + 1; d + 1 < rank; ++d) low_extent = b_.CreateMul(low_extent, f_.arg(d));
  Value* each_high = b_.CreateMul(extent, low_extent);
  Value* begin = b_.CreateUDiv(bounds.outer_begin, each_high);
  Value* end = b_.CreateAdd(b_.CreateUDiv(b_.CreateSub(bounds.outer_end, f_.i64(1)), each_high), f_.i64(1));
  f_.loop(begin, end, f_.i64(1), f_.decompose(begin, 0, dim), [&](Value* i, const Values& high) {
    Value* base = b_.CreateMul(i, each_high);
    const unsigned low_rank = rank - 2 - dim;
    const Values none(low_rank, f_.i64(0));
    f_.loop(f_.i64(0), low_extent, f_.i64(1), none, [&](Value* low, const Values& lows) {
      // The first row at or after a place in the bounds.
      const auto row_at = [&](Value* place) {
        Value* ahead = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax,
                                                b_.CreateSub(place, b_.CreateAdd(base, low)), f_.i64(0));
        Value* row = b_.CreateUDiv(b_.CreateAdd(ahead, b_.CreateSub(low_extent, f_.i64(1))), low_extent);
        return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row, extent);
      };
      Values indices = high;
      indices.push_back(nullptr);
      indices.insert(indices.end(), lows.begin(), lows.end());
      rows(bounds, indices, row_at(bounds.outer_begin), row_at(bounds.outer_end), each);
      return f_.increment(lows, dim + 1);
    });
    return f_.increment(high, 0);
  });
}

void CpuTiles::rows(const CpuBounds& bounds, const Values& indices, Value* first, Value* last,
                    const EachRow& each) {
  const auto ahead = [&](Value* from, int64_t by, Value* end) {
    return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(from, f_.i64(by)), end);
  };
  f_.loop(first, last, f_.i64(rows_), [&](Value* row) {
    Value* row_end = ahead(row, rows_, last);
    f_.loop(bounds.inner_begin, bounds.inner_end, f_.i64(kTurnedColumns), [&](Value* column) {
      c_.lanes.poll_cancel();
      tile(indices, row, row_end, column, ahead(column, kTurnedColumns, bounds.inner_end), each);
    });
  });
}

void CpuTiles::tile(Values indices, Value* row, Value* row_end, Value* column, Value* column_end,
                    const EachRow& each) {
  indices[dim_] = row;
  indices.push_back(column);
  for (size_t k = 0; k < turn_.accesses().size(); ++k) {
    const auto [address, step] = c_.lanes.place_of(turn_.accesses()[k], indices);
    turn_.fill(k, address, step, b_.CreateSub(row_end, row), b_.CreateSub(column_end, column));
  }
  first_row_ = row;
  first_column_ = column;
  f_.loop(row, row_end, f_.i64(1), [&](Value* r) {
    row_ = r;
    indices[dim_] = r;
    indices.back() = nullptr;
    each(indices, column, column_end);
  });
}

void CpuTiles::at_row(Row& row) { turn_.read(row, b_.CreateSub(row_, first_row_), first_column_); }

}  // namespace lamina::jit::codegen
