#include "jit/codegen/cpu_choice.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

// Elements that are gone over twice while they are in the first cache; most blocks hold no new extreme.
constexpr int64_t kBlock = 2048;
// Vectors whose extremes do not wait for each other, and that are searched together.
constexpr unsigned kVectors = 4;
// Elements of columns are asked for so many rows early: a part of a row is too short for the hardware to see.
constexpr int64_t kRowsAhead = 16;
// A longer body is dear to make twice.
constexpr size_t kMostBody = 6;

}  // namespace

CpuChoice::CpuChoice(CpuParts& parts, Choice choice)
    : c_(parts),
      kernel_(parts.kernel),
      f_(parts.f),
      b_(f_.builder()),
      choice_(choice),
      input_(kernel_.reduction.inputs[0]),
      type_(kernel_.reduction.combine.inputs[0]),
      is_float_(hlo::is_float(type_)),
      width_(parts.widths.lanes) {}

bool CpuChoice::suits(const LoopKernel& kernel) { return kernel.body.size() <= kMostBody; }

Value* CpuChoice::element(Row& row, Value* index, unsigned n) {
  return c_.sections.value(row, c_.sections.emit(row, index, n), input_, n);
}

Value* CpuChoice::compare(Prim prim, Value* a, Value* b) {
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(a->getType());
  const TypedValue operands[] = {{a, type_}, {b, type_}};
  return f_.prims().emit(prim, DType::kBool, operands, 0, vector ? vector->getNumElements() : 1);
}

// Numbers only.
Value* CpuChoice::beats(Value* a, Value* b) {
  return choice_.largest ? compare(Prim::lt, b, a) : compare(Prim::lt, a, b);
}

Value* CpuChoice::better(Value* a, Value* b) { return b_.CreateSelect(beats(a, b), a, b); }

// NaNs seen, and those of two more vectors. Where there are no masks of bits, a mask that goes round a loop
// has the width of the elements.
Value* CpuChoice::either_nan(Value* nan, Value* a, Value* b) {
  return is_float_ ? b_.CreateOr(nan, b_.CreateSExt(b_.CreateFCmpUNO(a, b), nan->getType())) : nan;
}

Value* CpuChoice::no_nan() {
  auto* elements = llvm::cast<llvm::VectorType>(f_.prims().type(type_, width_));
  Type* mask = f_.prims().type(DType::kBool, width_);
  return llvm::Constant::getNullValue(is_float_ && !c_.widths.masks ? llvm::VectorType::getInteger(elements)
                                                                    : mask);
}

// Where fewer elements are left than a vector takes, it takes some that were seen before.
void CpuChoice::find_extreme(Row& row, Block& block) {
  const int64_t step = static_cast<int64_t>(kVectors) * width_;
  const auto ahead = [&](Value* i, unsigned k) { return b_.CreateAdd(i, f_.i64(k * width_)); };
  Value* first = element(row, block.begin, width_);
  Values carried(kVectors, first);
  carried.push_back(either_nan(no_nan(), first, first));
  Value* whole = b_.CreateAdd(block.begin, b_.CreateAnd(b_.CreateSub(block.end, block.begin), f_.i64(-step)));
  carried = f_.loop(block.begin, whole, f_.i64(step), carried, [&](Value* i, const Values& before) {
    Values next = before;
    for (unsigned k = 0; k < kVectors; k += 2) {
      Value *a = element(row, ahead(i, k), width_), *b = element(row, ahead(i, k + 1), width_);
      next[k] = better(a, before[k]);
      next[k + 1] = better(b, before[k + 1]);
      next[kVectors] = either_nan(next[kVectors], a, b);
    }
    return next;
  });
  Value* last = b_.CreateSub(block.end, f_.i64(width_));
  carried = f_.loop(whole, block.end, f_.i64(width_), carried, [&](Value* i, const Values& before) {
    Value* a = element(row, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, i, last), width_);
    Values next = before;
    next[0] = better(a, before[0]);
    next[kVectors] = either_nan(before[kVectors], a, a);
    return next;
  });
  Value* extreme = carried[0];
  for (unsigned k = 1; k < kVectors; ++k) extreme = better(carried[k], extreme);
  for (unsigned half = width_ / 2; half > 0; half /= 2) {
    std::vector<int> other;
    for (unsigned j = 0; j < width_; ++j) other.push_back(static_cast<int>((j + half) % width_));
    extreme = better(b_.CreateShuffleVector(extreme, other), extreme);
  }
  block.extreme = b_.CreateExtractElement(extreme, uint64_t{0});
  block.has_nan = is_float_ ? c_.lanes.any(b_.CreateIsNotNull(carried[kVectors])) : b_.getFalse();
}

// The first element that is the extreme, or NaN where there is one, and its position.
Values CpuChoice::search(const Block& block) {
  Value* extreme = f_.splat(block.extreme, width_);
  const auto value_at = [&](Value* position) { return Values{element(block.row, position, 1), position}; };
  const auto number = [&] {
    return find(block, [&](Value* values) { return compare(Prim::eq, values, extreme); });
  };
  if (!is_float_) return value_at(number());
  BasicBlock *nan = f_.block("nan"), *usual = f_.block("number"), *found = f_.block("found");
  b_.CreateCondBr(block.has_nan, nan, usual);
  b_.SetInsertPoint(nan);
  Value* first_nan = find(block, [&](Value* values) { return compare(Prim::ne, values, values); });
  nan = b_.GetInsertBlock();
  b_.CreateBr(found);
  b_.SetInsertPoint(usual);
  Value* first_extreme = number();
  usual = b_.GetInsertBlock();
  b_.CreateBr(found);
  b_.SetInsertPoint(found);
  return value_at(f_.meet({{nan, {first_nan}}, {usual, {first_extreme}}})[0]);
}

// The position of the first element that `is` what is looked for; there is one.
Value* CpuChoice::find(const Block& block, const std::function<Value*(Value* values)>& is) {
  const int64_t step = static_cast<int64_t>(kVectors) * width_;
  const auto first_of = [&](Value* mask, Value* from) {
    const unsigned lanes = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
    Value* bits = b_.CreateBitCast(mask, b_.getIntNTy(lanes));
    Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, bits, b_.getTrue());
    return b_.CreateAdd(from, b_.CreateZExtOrTrunc(lane, b_.getInt64Ty()));
  };
  const auto found_in = [&](Value* mask) {
    Value* bits = b_.CreateBitCast(mask, b_.getIntNTy(width_));
    return b_.CreateIsNotNull(bits);
  };
  Value* whole = b_.CreateAdd(block.begin, b_.CreateAnd(b_.CreateSub(block.end, block.begin), f_.i64(-step)));
  Value* last = b_.CreateSub(block.end, f_.i64(width_));
  BasicBlock *before = b_.GetInsertBlock(), *next = f_.block("next"), *look = f_.block("look"),
             *several = f_.block("several"), *rest = f_.block("rest"), *one = f_.block("one"),
             *found = f_.block("found");
  b_.CreateBr(next);
  b_.SetInsertPoint(next);
  llvm::PHINode* i = b_.CreatePHI(b_.getInt64Ty(), 2);
  i->addIncoming(block.begin, before);
  b_.CreateCondBr(b_.CreateICmpSLT(i, whole), look, rest);
  b_.SetInsertPoint(look);
  Values masks;
  Value* any = nullptr;
  for (unsigned k = 0; k < kVectors; ++k) {
    masks.push_back(is(element(block.row, b_.CreateAdd(i, f_.i64(k * width_)), width_)));
    any = any ? b_.CreateOr(any, masks[k]) : masks[k];
  }
  i->addIncoming(b_.CreateAdd(i, f_.i64(step)), b_.GetInsertBlock());
  b_.CreateCondBr(found_in(any), several, next);
  b_.SetInsertPoint(several);
  Value* among = first_of(llvm::concatenateVectors(b_, masks), i);
  several = b_.GetInsertBlock();
  b_.CreateBr(found);

  b_.SetInsertPoint(rest);
  llvm::PHINode* r = b_.CreatePHI(b_.getInt64Ty(), 2);
  r->addIncoming(whole, next);
  Value* at = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, r, last);
  Value* mask = is(element(block.row, at, width_));
  r->addIncoming(b_.CreateAdd(r, f_.i64(width_)), b_.GetInsertBlock());
  b_.CreateCondBr(found_in(mask), one, rest);
  b_.SetInsertPoint(one);
  Value* alone = first_of(mask, at);
  one = b_.GetInsertBlock();
  b_.CreateBr(found);
  b_.SetInsertPoint(found);
  return f_.meet({{several, {among}}, {one, {alone}}})[0];
}

Values CpuChoice::row(const Values& indices, Value* count) {
  const int dim = kernel_.parallel_rank;
  Row row = c_.sections.begin(kernel_.body, dim, indices, {{}, {input_}});
  Row read_once = c_.sections.begin(kernel_.body, dim, indices, {{}, {input_}});
  c_.lanes.prefetch_along(read_once, dim, kBytesAhead / hlo::byte_size(type_));
  const Values none = {llvm::Constant::getNullValue(f_.prims().type(type_, 1)), f_.i64(-1)};
  const Values best =
      f_.loop(f_.i64(0), count, f_.i64(kBlock), none, [&](Value* begin, const Values& before) {
        c_.lanes.poll_cancel();
        Value* end =
            b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, f_.i64(kBlock)), count);
        begin = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, begin, b_.CreateSub(end, f_.i64(width_)));
        Block block{row, begin, end};
        find_extreme(read_once, block);
        Value* is_first = b_.CreateICmpSLT(before[1], f_.i64(0));
        Value* wins = beats(block.extreme, before[0]);
        if (is_float_) wins = b_.CreateSelect(block.has_nan, compare(Prim::eq, before[0], before[0]), wins);
        BasicBlock *same = b_.GetInsertBlock(), *look = f_.block("search"), *after = f_.block("after");
        b_.CreateCondBr(b_.CreateOr(is_first, wins), look, after);
        b_.SetInsertPoint(look);
        const Values found = search(block);
        look = b_.GetInsertBlock();
        b_.CreateBr(after);
        b_.SetInsertPoint(after);
        return f_.meet({{same, before}, {look, found}});
      });
  return {best[0], b_.CreateTruncOrBitCast(best[1], f_.prims().type(kernel_.reduction.combine.inputs[1], 1))};
}

Row CpuChoice::beside(const Values& parallel, Value* element) {
  const int dim = kernel_.parallel_rank;
  Values indices = parallel;
  indices.push_back(nullptr);
  indices.push_back(element);
  Row row = c_.sections.begin(kernel_.body, dim - 1, indices, {{}, {input_}});
  c_.lanes.prefetch_along(row, dim, kRowsAhead);
  return row;
}

Values CpuChoice::at(Row& row, Value* index, Value* element, unsigned n) {
  Type* const type = f_.prims().type(kernel_.reduction.combine.inputs[kChosenPosition], 1);
  return {this->element(row, index, n), f_.splat(b_.CreateTruncOrBitCast(element, type), n)};
}

// It takes the place of what it beats, and a NaN that of a number.
Values CpuChoice::chosen(const Values& before, const Values& next) {
  Value* wins = nullptr;
  if (is_float_) {
    // Not less or equal, which a NaN is not.
    Value* past =
        choice_.largest ? b_.CreateFCmpUGT(next[0], before[0]) : b_.CreateFCmpULT(next[0], before[0]);
    wins = b_.CreateAnd(past, b_.CreateFCmpORD(before[0], before[0]));
  } else {
    wins = beats(next[0], before[0]);
  }
  return {b_.CreateSelect(wins, next[0], before[0]), b_.CreateSelect(wins, next[1], before[1])};
}

}  // namespace lamina::jit::codegen
