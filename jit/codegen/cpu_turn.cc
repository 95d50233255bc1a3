#include "jit/codegen/cpu_turn.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>

#include <algorithm>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// Squares of so many elements a side are turned within 16 bytes, several of them side by side in a register
// of at most so many bytes: wider ones are stored no faster.
constexpr unsigned kSquareBytes = 16, kMostSide = 8, kWidest = 32;

unsigned side_of(int64_t bytes) { return std::min(kMostSide, kSquareBytes / static_cast<unsigned>(bytes)); }

}  // namespace

CpuTurn::CpuTurn(CpuParts& parts, std::vector<uint32_t> accesses)
    : c_(parts), f_(parts.f), b_(f_.builder()), accesses_(std::move(accesses)) {
  for (size_t k = 0; k < accesses_.size(); ++k) {
    const int64_t bytes = hlo::byte_size(type_of(k));
    if (std::ranges::none_of(turns_, [&](const auto& t) { return t.first == bytes; }))
      turns_.emplace_back(bytes, make(static_cast<unsigned>(bytes)));
  }
}

int64_t CpuTurn::rows_together(size_t k) const { return side_of(hlo::byte_size(type_of(k))); }

void CpuTurn::enter(int64_t rows) {
  for (size_t k = 0; k < accesses_.size(); ++k) {
    llvm::IRBuilder<> at = f_.at_entry();
    Type* block = llvm::ArrayType::get(at.getInt8Ty(), rows * kTurnedColumns * hlo::byte_size(type_of(k)));
    auto* slot = at.CreateAlloca(block);
    slot->setAlignment(llvm::Align(64));
    blocks_.push_back(slot);
  }
}

void CpuTurn::fill(size_t k, Value* from, Value* step, Value* rows, Value* columns) {
  const auto turn =
      std::ranges::find_if(turns_, [&](const auto& t) { return t.first == hlo::byte_size(type_of(k)); });
  b_.CreateCall(turn->second, {blocks_[k], from, step, rows, columns});
}

void CpuTurn::read(Row& row, Value* r, Value* first) {
  Value* offset = b_.CreateSub(b_.CreateMul(r, f_.i64(kTurnedColumns)), first);
  for (size_t k = 0; k < accesses_.size(); ++k)
    c_.lanes.read_from(row, accesses_[k],
                       b_.CreateGEP(f_.prims().memory_type(type_of(k), 1), blocks_[k], offset));
}

// turn(to, from, step, rows, columns): to[r * kTurnedColumns + c] = from[r + c * step].
llvm::Function* CpuTurn::make(unsigned bytes) {
  Type *pointer = b_.getPtrTy(), *s64 = b_.getInt64Ty();
  llvm::Function* function = f_.make_function("turn", b_.getVoidTy(), {pointer, pointer, s64, s64, s64},
                                              llvm::GlobalValue::InternalLinkage);
  b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", function));
  turn(function, b_.getIntNTy(8 * bytes), bytes);
  b_.CreateRetVoid();
  return function;
}

void CpuTurn::turn(llvm::Function* function, Type* element, unsigned bytes) {
  Value *to = function->getArg(0), *from = function->getArg(1), *step = function->getArg(2),
        *rows = function->getArg(3), *columns = function->getArg(4);
  const unsigned side = side_of(bytes);
  const auto source = [&](Value* r, Value* c) {
    return b_.CreateGEP(element, from, b_.CreateAdd(r, b_.CreateMul(c, step)));
  };
  const auto target = [&](Value* r, Value* c) {
    return b_.CreateGEP(element, to, b_.CreateAdd(b_.CreateMul(r, f_.i64(kTurnedColumns)), c));
  };
  const llvm::Align align(1);
  Values steps;
  for (int64_t i = 0; i <= 4; ++i) steps.push_back(b_.CreateMul(step, f_.i64(i)));
  Type* vector = llvm::FixedVectorType::get(element, side);
  // Of the element at `first` on, `squares` of them along the columns, to row r and column c on.
  const auto turn_squares = [&](Value* first, Value* r, Value* c, unsigned squares) {
    const unsigned n = side * squares;
    Values columns_of;
    for (unsigned i = 0; i < n; ++i)
      columns_of.push_back(i % 4   ? b_.CreateGEP(element, columns_of[i / 4 * 4], steps[i % 4])
                           : i > 0 ? b_.CreateGEP(element, columns_of[i - 4], steps[4])
                                   : first);
    Values v;
    for (unsigned i = 0; i < side; ++i) {
      Values parts;
      for (unsigned k = 0; k < squares; ++k)
        parts.push_back(b_.CreateAlignedLoad(vector, columns_of[k * side + i], align));
      while (parts.size() > 1) {
        const auto count = llvm::cast<llvm::FixedVectorType>(parts[0]->getType())->getNumElements();
        std::vector<int> both;
        for (unsigned lane = 0; lane < 2 * count; ++lane) both.push_back(static_cast<int>(lane));
        Values pairs;
        for (size_t k = 0; k < parts.size(); k += 2)
          pairs.push_back(b_.CreateShuffleVector(parts[k], parts[k + 1], both));
        parts = pairs;
      }
      v.push_back(parts[0]);
    }
    // Of two vectors the lower or the upper halves of each square, lane by lane.
    std::vector<int> halves[2];
    for (unsigned lane = 0; lane < n; ++lane)
      for (unsigned h = 0; h < 2; ++h) {
        const unsigned i = lane % side;
        halves[h].push_back(static_cast<int>(lane / side * side + i / 2 + h * side / 2 + i % 2 * n));
      }
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
  const auto whole = [&](Value* n, unsigned of) {
    return b_.CreateAnd(n, f_.i64(-static_cast<int64_t>(of)));
  };
  Value* const whole_rows = whole(rows, side);
  const auto bytes_together = static_cast<unsigned>(std::min<int64_t>(c_.lanes.vector_bytes(), kWidest));
  const unsigned most = side * bytes == kSquareBytes ? bytes_together / kSquareBytes : 1;
  Value* done = f_.i64(0);
  for (unsigned squares = most; squares > 0; squares /= 2) {
    Value* end = whole(columns, side * squares);
    f_.loop(done, end, f_.i64(side * squares), [&](Value* c) {
      f_.loop(f_.i64(0), whole_rows, f_.i64(side), {source(f_.i64(0), c)},
              [&](Value* r, const Values& first) {
                turn_squares(first[0], r, c, squares);
                return Values{b_.CreateGEP(element, first[0], f_.i64(side))};
              });
    });
    done = end;
  }
  Value* rest = b_.CreateSelect(b_.CreateICmpSLT(whole_rows, rows), f_.i64(0), done);
  f_.loop(rest, columns, f_.i64(1), [&](Value* c) {
    Value* first = b_.CreateSelect(b_.CreateICmpSLT(c, done), whole_rows, f_.i64(0));
    f_.loop(first, rows, f_.i64(1), [&](Value* r) {
      b_.CreateAlignedStore(b_.CreateAlignedLoad(element, source(r, c), align), target(r, c), align);
    });
  });
}

}  // namespace lamina::jit::codegen
