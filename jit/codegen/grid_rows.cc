#include "jit/codegen/grid_rows.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <bit>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

// Threads whose vectors alternate.
int64_t threads_of_tile(const GridSchedule& schedule) { return schedule.vectors > 1 ? kWarp : 1; }

}  // namespace

Value* GridRows::special(unsigned id) {
  return b_.CreateZExt(b_.CreateIntrinsic(b_.getInt32Ty(), id, {}), b_.getInt64Ty());
}

Value* GridRows::block() { return special(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x); }
Value* GridRows::thread() { return special(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x); }
Value* GridRows::barrier() { return b_.CreateIntrinsic(b_.getVoidTy(), llvm::Intrinsic::nvvm_barrier0, {}); }

Value* GridRows::from_thread(Value* value, DType t, int64_t distance, int64_t together) {
  return shuffled(value, t, llvm::Intrinsic::nvvm_shfl_sync_down_i32, distance, together);
}

Value* GridRows::from_first_thread(Value* value, DType t, int64_t together) {
  return shuffled(value, t, llvm::Intrinsic::nvvm_shfl_sync_idx_i32, 0, together);
}

Value* GridRows::shuffled(Value* value, DType t, unsigned intrinsic, int64_t operand, int64_t together) {
  // Halves of a warp shuffle among themselves as what `shfl` calls a segment of 16.
  constexpr uint32_t kAllThreads = ~uint32_t{0}, kHalfWarpSegments = 0x101f, kWarpSegments = 0x1f;
  const auto move = [&](Value* word) {
    return b_.CreateIntrinsic(b_.getInt32Ty(), intrinsic,
                              {b_.getInt32(kAllThreads), word, b_.getInt32(static_cast<uint32_t>(operand)),
                               b_.getInt32(together == kWarp ? kWarpSegments : kHalfWarpSegments)});
  };
  const unsigned bits = value->getType()->getPrimitiveSizeInBits();
  Value* whole = b_.CreateBitCast(value, b_.getIntNTy(bits));
  if (bits <= 32) {
    Value* moved = move(b_.CreateZExt(whole, b_.getInt32Ty()));
    return b_.CreateBitCast(b_.CreateTrunc(moved, whole->getType()), f_.prims().type(t, 1));
  }
  Value* low = b_.CreateZExt(move(b_.CreateTrunc(whole, b_.getInt32Ty())), b_.getInt64Ty());
  Value* high =
      b_.CreateZExt(move(b_.CreateTrunc(b_.CreateLShr(whole, 32), b_.getInt32Ty())), b_.getInt64Ty());
  return b_.CreateBitCast(b_.CreateOr(low, b_.CreateShl(high, 32)), f_.prims().type(t, 1));
}

Value* GridRows::parts(Value* a, int64_t b) {
  return b_.CreateLShr(b_.CreateAdd(a, f_.i64(b - 1)), std::countr_zero(static_cast<uint64_t>(b)));
}

// The device divides 64 bits in a long sequence of code.
Value* GridRows::quotient(Value* a, Value* b) {
  BasicBlock *narrow = f_.block("narrow"), *wide = f_.block("wide"), *both = f_.block("divided");
  b_.CreateCondBr(b_.CreateICmpEQ(b_.CreateLShr(b_.CreateOr(a, b), 32), f_.i64(0)), narrow, wide);
  b_.SetInsertPoint(narrow);
  Value* q = b_.CreateUDiv(b_.CreateTrunc(a, b_.getInt32Ty()), b_.CreateTrunc(b, b_.getInt32Ty()));
  q = b_.CreateZExt(q, b_.getInt64Ty());
  b_.CreateBr(both);
  b_.SetInsertPoint(wide);
  Value* long_q = b_.CreateUDiv(a, b);
  b_.CreateBr(both);
  b_.SetInsertPoint(both);
  return f_.meet({{narrow, {q}}, {wide, {long_q}}})[0];
}

Value* GridRows::product(unsigned first, unsigned count) {
  Value* n = f_.i64(1);
  for (unsigned d = 0; d < count; ++d) n = b_.CreateMul(n, f_.arg(first + d));
  return n;
}

Values GridRows::decompose(Value* linear, unsigned first, unsigned count) {
  Values result(count);
  for (unsigned d = count; d-- > 1;) {
    Value* q = quotient(linear, f_.arg(first + d));
    result[d] = b_.CreateSub(linear, b_.CreateMul(q, f_.arg(first + d)));
    linear = q;
  }
  if (count > 0) result[0] = linear;
  return result;
}

Value* GridRows::threads_of_row(const GridSchedule& schedule) {
  if (kernel_.parallel_rank == 1) return f_.i64(1);
  const int64_t width = threads_of_tile(schedule);
  return b_.CreateMul(parts(f_.arg(kernel_.parallel_rank - 1U), width * schedule.lanes * schedule.vectors),
                      f_.i64(width));
}

GridRows::Mine GridRows::elements(const GridSchedule& schedule, Value* all) {
  const unsigned outer = kernel_.parallel_rank - 1;
  const int64_t width = threads_of_tile(schedule);
  const int64_t stretch = width * schedule.lanes, tile = stretch * schedule.vectors;
  Value* inner = f_.arg(outer);
  Value* in_tile = b_.CreateAnd(all, f_.i64(width - 1));
  Value* number = b_.CreateLShr(all, std::countr_zero(static_cast<uint64_t>(width)));
  Mine mine{f_.i64(0), nullptr, {schedule.lanes, {}, inner, schedule.exact}};
  if (outer > 0) {
    Value* tiles = parts(inner, tile);
    mine.row = quotient(number, tiles);
    number = b_.CreateSub(number, b_.CreateMul(mine.row, tiles));
  }
  Value* start =
      b_.CreateAdd(b_.CreateMul(number, f_.i64(tile)), b_.CreateMul(in_tile, f_.i64(schedule.lanes)));
  for (uint32_t j = 0; j < schedule.vectors; ++j)
    mine.part.starts.push_back(b_.CreateAdd(start, f_.i64(j * stretch)));
  mine.any = b_.CreateICmpSLT(start, inner);
  if (outer > 0) mine.any = b_.CreateAnd(mine.any, b_.CreateICmpSLT(mine.row, product(0, outer)));
  return mine;
}

}  // namespace lamina::jit::codegen
