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

// A tile's columns, and the bytes of one column: some cache lines, which are read in whole while few others
// are, as at a stride of a power of two all of them fall into one set of the cache.
constexpr int64_t kColumns = 64, kColumnBytes = 256;
// All blocks of a tile together stay in the first cache.
constexpr int64_t kFewestRows = 8, kMostRows = 64;
// Squares of so many elements a side are turned in registers of 16 bytes.
constexpr unsigned kSquareBytes = 16, kMostSide = 8;

}  // namespace

CpuTiles::CpuTiles(CpuParts& parts, Turned turned)
    : c_(parts), f_(parts.f), b_(f_.builder()), dim_(turned.dim), turned_(std::move(turned.accesses)) {
  int64_t widest = 1;
  for (uint32_t a : turned_) {
    const int64_t bytes = hlo::byte_size(type_of(a));
    widest = std::max(widest, bytes);
    if (std::none_of(turns_.begin(), turns_.end(), [&](const auto& t) { return t.first == bytes; }))
      turns_.emplace_back(bytes, make_turn(static_cast<unsigned>(bytes)));
  }
  const auto blocks = static_cast<int64_t>(std::bit_ceil(turned_.size()));
  rows_ = std::clamp(kColumnBytes / widest / blocks, kFewestRows, kMostRows);
}

DType CpuTiles::type_of(uint32_t access) const {
  return c_.kernel.buffers[c_.kernel.accesses[access].buffer].type;
}

// turn(to, from, step, rows, columns): to[r * kColumns + c] = from[r + c * step].
llvm::Function* CpuTiles::make_turn(unsigned bytes) {
  Type *pointer = b_.getPtrTy(), *s64 = b_.getInt64Ty();
  llvm::Function* function = f_.make_function("turn", b_.getVoidTy(), {pointer, pointer, s64, s64, s64},
                                              llvm::GlobalValue::InternalLinkage);
  b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", function));
  turn(function, b_.getIntNTy(8 * bytes), std::min(kMostSide, kSquareBytes / bytes));
  b_.CreateRetVoid();
  return function;
}

void CpuTiles::turn(llvm::Function* function, Type* element, unsigned side) {
  Value *to = function->getArg(0), *from = function->getArg(1), *step = function->getArg(2),
        *rows = function->getArg(3), *columns = function->getArg(4);
  const auto source = [&](Value* r, Value* c) {
    return b_.CreateGEP(element, from, b_.CreateAdd(r, b_.CreateMul(c, step)));
  };
  const auto target = [&](Value* r, Value* c) {
    return b_.CreateGEP(element, to, b_.CreateAdd(b_.CreateMul(r, f_.i64(kColumns)), c));
  };
  const llvm::Align align(1);
  Type* vector = llvm::FixedVectorType::get(element, side);
  // Of two vectors the lower or the upper halves, lane by lane.
  std::vector<int> halves[2];
  for (unsigned i = 0; i < side; ++i)
    for (unsigned h = 0; h < 2; ++h)
      halves[h].push_back(static_cast<int>(i / 2 + h * side / 2 + i % 2 * side));
  const auto square = [&](Value* r, Value* c) {
    Values v;
    for (unsigned i = 0; i < side; ++i)
      v.push_back(b_.CreateAlignedLoad(vector, source(r, b_.CreateAdd(c, f_.i64(i))), align));
    for (unsigned left = side; left > 1; left /= 2) {
      Values next;
      for (unsigned i = 0; i < side / 2; ++i)
        for (const std::vector<int>& half : halves)
          next.push_back(b_.CreateShuffleVector(v[i], v[i + side / 2], half));
      v = next;
    }
    for (unsigned i = 0; i < side; ++i)
      b_.CreateAlignedStore(v[i], target(b_.CreateAdd(r, f_.i64(i)), c), align);
  };
  const auto whole = [&](Value* n) { return b_.CreateAnd(n, f_.i64(-static_cast<int64_t>(side))); };
  Value *whole_rows = whole(rows), *whole_columns = whole(columns);
  f_.loop(f_.i64(0), whole_columns, f_.i64(side),
          [&](Value* c) { f_.loop(f_.i64(0), whole_rows, f_.i64(side), [&](Value* r) { square(r, c); }); });
  f_.loop(f_.i64(0), columns, f_.i64(1), [&](Value* c) {
    Value* first = b_.CreateSelect(b_.CreateICmpSLT(c, whole_columns), whole_rows, f_.i64(0));
    f_.loop(first, rows, f_.i64(1), [&](Value* r) {
      b_.CreateAlignedStore(b_.CreateAlignedLoad(element, source(r, c), align), target(r, c), align);
    });
  });
}

// The bounds are those of the row-major index over all dimensions but the last: (high * extent + row) * low
// extent + low. For each pair of the outer two they leave a run of rows.
void CpuTiles::emit(const CpuBounds& bounds, const EachRow& each) {
  const unsigned rank = c_.kernel.parallel_rank, dim = static_cast<unsigned>(dim_);
  for (uint32_t a : turned_) {
    llvm::IRBuilder<> at = f_.at_entry();
    Type* block = llvm::ArrayType::get(at.getInt8Ty(), rows_ * kColumns * hlo::byte_size(type_of(a)));
    auto* slot = at.CreateAlloca(block);
    slot->setAlignment(llvm::Align(64));
    blocks_.push_back(slot);
  }
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
    f_.loop(bounds.inner_begin, bounds.inner_end, f_.i64(kColumns), [&](Value* column) {
      c_.lanes.poll_cancel();
      tile(indices, row, row_end, column, ahead(column, kColumns, bounds.inner_end), each);
    });
  });
}

void CpuTiles::tile(Values indices, Value* row, Value* row_end, Value* column, Value* column_end,
                    const EachRow& each) {
  indices[dim_] = row;
  indices.push_back(column);
  for (size_t i = 0; i < turned_.size(); ++i) {
    const auto [address, step] = c_.lanes.place_of(turned_[i], indices);
    const auto turn = std::find_if(turns_.begin(), turns_.end(), [&](const auto& t) {
      return t.first == hlo::byte_size(type_of(turned_[i]));
    });
    b_.CreateCall(turn->second,
                  {blocks_[i], address, step, b_.CreateSub(row_end, row), b_.CreateSub(column_end, column)});
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

void CpuTiles::at_row(Row& row) {
  Value* offset = b_.CreateSub(b_.CreateMul(b_.CreateSub(row_, first_row_), f_.i64(kColumns)), first_column_);
  for (size_t i = 0; i < turned_.size(); ++i)
    c_.lanes.read_from(row, turned_[i],
                       b_.CreateGEP(f_.prims().memory_type(type_of(turned_[i]), 1), blocks_[i], offset));
}

}  // namespace lamina::jit::codegen
