#include "jit/codegen/cpu_lanes.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>

#include <cstddef>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

CpuLanes::CpuLanes(const LoopKernel& kernel, FunctionBuilder& f, unsigned vector_bytes, bool stores_masked,
                   bool long_rows)
    : LaneOps(f),
      kernel_(kernel),
      b_(f.builder()),
      prim_(f.prims()),
      variance_(kernel),
      vector_bytes_(vector_bytes),
      stores_masked_(stores_masked),
      long_rows_(long_rows) {}

void CpuLanes::enter(Value* cancel) {
  cancel_ = cancel;
  cancelled_ = f_.block("cancelled");
  llvm::IRBuilder<>(cancelled_).CreateRet(b_.getInt32(1));
  llvm::IRBuilder<> at = f_.at_entry();
  zero_slot_ = at.CreateAlloca(at.getInt64Ty(), nullptr, "zero");
  at.CreateStore(at.getInt64(0), zero_slot_);
  waste_slot_ = at.CreateAlloca(at.getInt64Ty(), nullptr, "waste");
}

// ---- addresses

CpuLanes::Place& CpuLanes::place(Row& row, uint32_t access) {
  if (!row.memory) {
    auto places = std::make_unique<Places>();
    places->of.resize(kernel_.accesses.size());
    row.memory = std::move(places);
  }
  return static_cast<Places&>(*row.memory).of[access];
}

void CpuLanes::address(Row& row, uint32_t access) {
  Place& place = this->place(row, access);
  if (place.pointer) return;
  if (row.inside && !variance_.access(access, row.inside->step_dim)) {
    const Place& outer = this->place(*row.inside->outer, access);
    if (outer.pointer) {
      place = {outer.pointer, outer.stride, outer.step};
      return;
    }
  }
  const Access& a = kernel_.accesses[access];
  Value* offset = a.offset_slot < 0 ? f_.i64(0) : f_.arg(a.offset_slot);
  if (a.beside != 0) offset = b_.CreateAdd(offset, f_.i64(a.beside));
  Value* stride = nullptr;
  int along = 0, known = 0;
  for (const AccessTerm& term : a.terms) {
    Value* s = term.unit ? f_.i64(term.unit) : f_.arg(term.stride_slot);
    if (term.dim == row.dim) {
      known = term.unit;
      stride = stride ? b_.CreateAdd(stride, s) : s;
      ++along;
    } else {
      Value* index = row.indices[term.dim];
      offset = b_.CreateAdd(offset, term.unit == 1 ? index : b_.CreateMul(index, s));
    }
  }
  if (along > 1) known = 0;
  place.stride = known == 1 ? nullptr : stride;
  place.step = known == 1 ? 0 : known;
  place.pointer = b_.CreateGEP(prim_.memory_type(type_of(access), 1), f_.buffer(a.buffer), offset);
}

Value* CpuLanes::addresses(Row& row, uint32_t access, Value* index, unsigned n) {
  const Place& place = this->place(row, access);
  Value* position = this->index(index, n);
  if (place.stride) position = b_.CreateMul(position, f_.splat(place.stride, n));
  return b_.CreateGEP(prim_.memory_type(type_of(access), 1), place.pointer, position);
}

std::pair<Value*, Value*> CpuLanes::place_of(uint32_t access, const Values& indices) {
  Row row;
  row.dim = static_cast<int>(indices.size()) - 1;
  row.indices = indices;
  address(row, access);
  const Place& place = this->place(row, access);
  return {addresses(row, access, indices.back(), 1), place.stride};
}

void CpuLanes::read_from(Row& row, uint32_t access, Value* pointer) {
  place(row, access) = {.pointer = pointer};
}

void CpuLanes::prefetch_along(Row& row, int dim, int64_t rows) {
  for (uint32_t a = 0; a < kernel_.accesses.size(); ++a) {
    Place& place = this->place(row, a);
    if (!place.pointer || place.stride || !varies(row, a)) continue;
    for (const AccessTerm& term : kernel_.accesses[a].terms)
      if (term.dim == dim)
        place.ahead = term.unit ? f_.i64(rows) : b_.CreateMul(f_.arg(term.stride_slot), f_.i64(rows));
  }
}

// ---- loads and stores

Value* CpuLanes::all_lanes(unsigned n) {
  return llvm::Constant::getAllOnesValue(prim_.type(DType::kBool, n));
}

// The lanes of `value` with zero lanes between them.
Value* CpuLanes::spread(Value* value, unsigned n) {
  std::vector<int> mask;
  for (unsigned i = 0; i < n; ++i) {
    mask.push_back(static_cast<int>(i));
    mask.push_back(static_cast<int>(n + i));
  }
  return b_.CreateShuffleVector(value, llvm::Constant::getNullValue(value->getType()), mask);
}

Value* CpuLanes::load_one(Type* element, Value* address, Value* predicate) {
  if (predicate) address = b_.CreateSelect(predicate, address, zero_slot_);
  return b_.CreateAlignedLoad(element, address, llvm::Align(1));
}

Value* CpuLanes::load(Row& row, uint32_t access, Value* index, Value* predicate, unsigned n) {
  const DType t = type_of(access);
  const bool along = varies(row, access);
  if (n == 1) {
    Value* address = along ? addresses(row, access, index, 1) : place(row, access).pointer;
    return prim_.from_memory(load_one(prim_.memory_type(t, 1), address, predicate), t, 1);
  }
  const bool one = predicate && !predicate->getType()->isVectorTy();
  if (!along && (!predicate || one)) return f_.splat(load(row, access, index, predicate, 1), n);
  // Lanes that are reached one by one.
  const Place& place = this->place(row, access);
  if (one && place.stride && (!place.step || on())) predicate = f_.splat(predicate, n);
  Value* loaded =
      along ? load_vector(row, access, index, predicate, n) : load_uniform(row, access, predicate, n);
  return prim_.from_memory(loaded, t, n);
}

Value* CpuLanes::zeros(int64_t bytes) {
  if (bytes <= zero_bytes_) return zeros_;
  constexpr int64_t kAtOnce = 16;
  llvm::IRBuilder<> at = f_.at_entry();
  zero_bytes_ = (bytes + kAtOnce - 1) / kAtOnce * kAtOnce;
  zeros_ = at.CreateAlloca(llvm::ArrayType::get(at.getInt8Ty(), zero_bytes_), nullptr, "zeros");
  for (int64_t i = 0; i < zero_bytes_; i += kAtOnce)
    at.CreateAlignedStore(llvm::Constant::getNullValue(llvm::FixedVectorType::get(at.getInt8Ty(), kAtOnce)),
                          at.CreateConstGEP1_64(at.getInt8Ty(), zeros_, i), llvm::Align(1));
  return zeros_;
}

// A vector load whose lanes are all off costs hundreds of cycles where its address is no memory.
Value* CpuLanes::if_any(Value* predicate, Value* address) {
  return predicate ? b_.CreateSelect(any(within(predicate)), address, zero_slot_) : address;
}

// Only the predicate differs between lanes.
Value* CpuLanes::load_uniform(Row& row, uint32_t access, Value* predicate, unsigned n) {
  const DType t = type_of(access);
  Value* one = load_one(prim_.memory_type(t, 1), place(row, access).pointer, any(predicate));
  Value* zero = llvm::Constant::getNullValue(prim_.memory_type(t, n));
  return b_.CreateSelect(predicate, f_.splat(one, n), zero);
}

Value* CpuLanes::load_vector(Row& row, uint32_t access, Value* index, Value* predicate, unsigned n) {
  const DType t = type_of(access);
  const Place& place = this->place(row, access);
  Type* memory = prim_.memory_type(t, n);
  llvm::Constant* zero = llvm::Constant::getNullValue(memory);
  const llvm::Align align(1);
  const bool one = predicate && !predicate->getType()->isVectorTy();
  Value* mask = within(one ? nullptr : predicate);
  const auto if_one = [&](Value* address, int64_t elements) {
    return one ? b_.CreateSelect(predicate, address, zeros(elements * hlo::byte_size(t))) : address;
  };
  if (place.stride) {
    const auto spaced = [&](const SpacedElements::Mask& only) {
      const int64_t step = place.step, apart = std::abs(step);
      Value* first = step > 0 ? index : b_.CreateAdd(index, f_.i64(n - 1));
      return SpacedElements(b_, prim_.memory_type(t, 1), vector_bytes_)
          .load(if_one(addresses(row, access, first, 1), apart * (n - 1) + 1), step, n, only);
    };
    const auto plain = [&] { return spaced({}); };
    const auto some = [&](Value* of_these) -> Value* {
      if (left_ && mask == left_mask_ && place.step > 1) {
        // What lies behind the last of them may be outside the buffer.
        const int64_t between = place.step - 1;
        return spaced(first_elements(b_.CreateSub(b_.CreateMul(left_, f_.i64(place.step)), f_.i64(between))));
      }
      Value* lanes = of_these ? of_these : all_lanes(n);
      if (place.step == 2)
        return load_pairs(t, if_any(predicate, addresses(row, access, index, 1)), lanes, n);
      return b_.CreateMaskedGather(memory, addresses(row, access, index, n), align, lanes, zero);
    };
    if (!place.step) return some(mask);
    return mask ? plain_or_masked(mask, n, plain, some) : plain();
  }
  Type* element = prim_.memory_type(t, 1);
  Value* address = b_.CreateGEP(element, place.pointer, index);
  if (place.ahead)
    b_.CreateIntrinsic(
        llvm::Intrinsic::prefetch, {b_.getPtrTy()},
        {b_.CreateGEP(element, address, place.ahead), b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
  if (mask && !one && predicate)
    return b_.CreateMaskedLoad(memory, if_any(predicate, address), align, mask, zero);
  address = if_one(address, n);
  const auto plain = [&]() -> Value* { return b_.CreateAlignedLoad(memory, address, align); };
  if (!mask) return plain();
  return plain_or_masked(
      mask, n, plain, [&](Value* lanes) { return b_.CreateMaskedLoad(memory, address, align, lanes, zero); });
}

Value* CpuLanes::plain_or_masked(Value* mask, unsigned n, const std::function<Value*()>& plain,
                                 const std::function<Value*(Value* lanes)>& some) {
  if (!left_ || mask != left_mask_) return some(mask);
  BasicBlock *whole = f_.block("whole"), *part = f_.block("part"), *after = f_.block("after");
  b_.CreateCondBr(b_.CreateICmpEQ(left_, f_.i64(n)), whole, part);
  b_.SetInsertPoint(whole);
  Value* all = plain();
  b_.CreateBr(after);
  b_.SetInsertPoint(part);
  Value* first = some(left_lanes(n));
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  if (!all) return nullptr;
  llvm::PHINode* value = b_.CreatePHI(all->getType(), 2);
  value->addIncoming(all, whole);
  value->addIncoming(first, part);
  return value;
}

// Twice the lanes with every second one off: the last element may be the last of its buffer.
Value* CpuLanes::load_pairs(DType t, Value* address, Value* mask, unsigned n) {
  Type* both = prim_.memory_type(t, 2 * n);
  Value* raw =
      b_.CreateMaskedLoad(both, address, llvm::Align(1), spread(mask, n), llvm::Constant::getNullValue(both));
  std::vector<int> even;
  for (unsigned i = 0; i < n; ++i) even.push_back(static_cast<int>(2 * i));
  return b_.CreateShuffleVector(raw, even);
}

Value* CpuLanes::load_at(uint32_t buffer, Value* position, Value* predicate, unsigned n) {
  const DType t = kernel_.buffers[buffer].type;
  Type* memory = prim_.memory_type(t, n);
  Value* address = b_.CreateGEP(prim_.memory_type(t, 1), f_.buffer(buffer), position);
  if (n == 1) return prim_.from_memory(load_one(memory, address, predicate), t, 1);
  Value* mask = within(predicate);
  if (!mask) mask = all_lanes(n);
  return prim_.from_memory(
      b_.CreateMaskedGather(memory, address, llvm::Align(1), mask, llvm::Constant::getNullValue(memory)), t,
      n);
}

void CpuLanes::store_at(uint32_t buffer, Value* position, Value* value, Value* predicate) {
  const DType t = kernel_.buffers[buffer].type;
  Value* address = b_.CreateGEP(prim_.memory_type(t, 1), f_.buffer(buffer), position);
  if (predicate) address = b_.CreateSelect(predicate, address, waste_slot_);
  b_.CreateAlignedStore(prim_.to_memory(value, t, 1), address, llvm::Align(1));
}

void CpuLanes::copy(uint32_t to, uint32_t from, Value* count) {
  constexpr int64_t kAtOnce = 32;
  Type* const byte = b_.getInt8Ty();
  Value* bytes = b_.CreateMul(count, f_.i64(hlo::byte_size(kernel_.buffers[to].type)));
  const auto move = [&](Value* begin, Value* end, Type* type, int64_t size) {
    f_.loop(begin, end, f_.i64(size), [&](Value* at) {
      Value* value = b_.CreateAlignedLoad(type, b_.CreateGEP(byte, f_.buffer(from), at), llvm::Align(1));
      b_.CreateAlignedStore(value, b_.CreateGEP(byte, f_.buffer(to), at), llvm::Align(1));
    });
  };
  Value* most = b_.CreateAnd(bytes, f_.i64(-kAtOnce));
  move(f_.i64(0), most, llvm::FixedVectorType::get(byte, kAtOnce), kAtOnce);
  move(most, bytes, byte, 1);
}

void CpuLanes::store(Row& row, uint32_t access, Value* value, Value* index, unsigned n) {
  const DType t = type_of(access);
  const Place& place = this->place(row, access);
  const llvm::Align align(1);
  if (!varies(row, access)) {
    // Every element of the row has one address: the last one stays.
    if (n > 1) value = b_.CreateExtractElement(value, left_ ? b_.CreateSub(left_, f_.i64(1)) : f_.i64(n - 1));
    b_.CreateAlignedStore(prim_.to_memory(value, t, 1), place.pointer, align);
    return;
  }
  value = prim_.to_memory(value, t, n);
  if (n == 1 || !place.stride) {
    Value* address = n == 1 ? addresses(row, access, index, 1)
                            : b_.CreateGEP(prim_.memory_type(t, 1), place.pointer, index);
    const auto whole = [&]() -> Value* {
      llvm::StoreInst* const made = b_.CreateAlignedStore(value, address, align);
      if (n > 1 && streams_) {
        const int64_t bytes = n * hlo::byte_size(t);
        made->setAlignment(llvm::Align(std::min<int64_t>(bytes, kStreamAlign)));
        made->setMetadata(llvm::LLVMContext::MD_nontemporal,
                          llvm::MDNode::get(b_.getContext(), llvm::ConstantAsMetadata::get(b_.getInt32(1))));
      }
      return nullptr;
    };
    if (n == 1 || !on())
      whole();
    else if (left_ && !stores_masked_)
      store_left(value, address, t, n);
    else
      plain_or_masked(on(), n, whole, [&](Value* lanes) -> Value* {
        b_.CreateMaskedStore(value, address, align, lanes);
        return nullptr;
      });
    return;
  }
  Value* mask = on() ? on() : all_lanes(n);
  if (place.step == 2) {
    b_.CreateMaskedStore(spread(value, n), addresses(row, access, index, 1), align, spread(mask, n));
    return;
  }
  b_.CreateMaskedScatter(value, addresses(row, access, index, n), align, mask);
}

void CpuLanes::store_alternating(Row& row, std::span<const Store> stores, const Values& values, Value* index,
                                 unsigned n) {
  // Of a masked vector the elements of the first lanes are the first in memory.
  if (n == 1 || (on() && !(left_ && stores_masked_))) {
    LaneOps::store_alternating(row, stores, values, index, n);
    return;
  }
  const uint32_t first = stores[0].access;
  const DType t = type_of(first);
  Values moved;
  for (Value* value : values) moved.push_back(prim_.to_memory(value, t, n));
  SpacedElements::Mask mask;
  if (on()) mask = first_elements(b_.CreateMul(left_, f_.i64(static_cast<int64_t>(values.size()))));
  SpacedElements(b_, prim_.memory_type(t, 1), vector_bytes_)
      .store(addresses(row, first, index, 1), moved, mask);
}

SpacedElements::Mask CpuLanes::first_elements(Value* count) {
  return [this, count](int64_t at, unsigned lanes) {
    Value* here = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, b_.CreateSub(count, f_.i64(at)), f_.i64(0));
    return first_lanes(here, lanes);
  };
}

// The lanes of a masked vector one by one.
void CpuLanes::store_left(Value* value, Value* address, DType t, unsigned n) {
  Type* const element = prim_.memory_type(t, 1);
  Value* slot = f_.at_entry().CreateAlloca(prim_.memory_type(t, n), nullptr, "left");
  b_.CreateAlignedStore(value, slot, llvm::Align(1));
  f_.loop(f_.i64(0), left_, f_.i64(1), [&](Value* i) {
    Value* one = b_.CreateAlignedLoad(element, b_.CreateGEP(element, slot, i), llvm::Align(1));
    b_.CreateAlignedStore(one, b_.CreateGEP(element, address, i), llvm::Align(1));
  });
}

// ---- lanes

Value* CpuLanes::index(Value* along, unsigned n) {
  if (n == 1) return along;
  std::vector<llvm::Constant*> steps;
  for (unsigned i = 0; i < n; ++i) steps.push_back(b_.getInt64(i));
  return b_.CreateAdd(f_.splat(along, n), llvm::ConstantVector::get(steps));
}

Value* CpuLanes::any(Value* mask) { return b_.CreateOrReduce(mask); }

void CpuLanes::masked(Value* index, Value* end, unsigned n, const std::function<void()>& body) {
  left_ = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, b_.CreateSub(end, index), f_.i64(n));
  left_mask_ = left_lanes(n);
  const Only only(*this, left_mask_);
  body();
  left_ = nullptr;
}

Value* CpuLanes::left_lanes(unsigned n) {
  Value* bits = b_.CreateLShr(f_.i64(-1), b_.CreateSub(f_.i64(64), left_));
  return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(n)), prim_.type(DType::kBool, n));
}

Value* CpuLanes::first_lanes(Value* count, unsigned n) {
  Value* bits = b_.CreateSelect(b_.CreateICmpSGE(count, f_.i64(n)), f_.i64(-1),
                                b_.CreateSub(b_.CreateShl(f_.i64(1), count), f_.i64(1)));
  return b_.CreateBitCast(b_.CreateTrunc(bits, b_.getIntNTy(n)), prim_.type(DType::kBool, n));
}

Value* CpuLanes::rarely(Value* chosen, const TypedValue& usual, const std::vector<uint32_t>& read,
                        const std::vector<TypedValue>& values, const RareCode& code) {
  const unsigned n = llvm::cast<llvm::FixedVectorType>(chosen->getType())->getNumElements();
  // Vectors that the code reads, and the result, go through memory.
  llvm::BasicBlock& entry = b_.GetInsertBlock()->getParent()->getEntryBlock();
  const auto spill = [&](const TypedValue& vector) {
    llvm::IRBuilder<> at(&entry, entry.begin());
    Value* slot = at.CreateAlloca(prim_.memory_type(vector.type, n));
    b_.CreateAlignedStore(prim_.to_memory(vector.value, vector.type, n), slot, llvm::Align(1));
    return slot;
  };
  Values slots(values.size(), nullptr);
  for (uint32_t id : read) slots[id] = spill(values[id]);
  Value* results = spill(usual);

  BasicBlock* before = b_.GetInsertBlock();
  Value* bits = b_.CreateZExt(b_.CreateBitCast(chosen, b_.getIntNTy(n)), b_.getInt64Ty());
  BasicBlock* each = f_.block("rare_lane");
  BasicBlock* done = f_.block("rare_done");
  b_.CreateBr(each);
  b_.SetInsertPoint(each);
  llvm::PHINode* left = b_.CreatePHI(b_.getInt64Ty(), 2);
  left->addIncoming(bits, before);
  Value* lane = b_.CreateBinaryIntrinsic(llvm::Intrinsic::cttz, left, b_.getTrue());
  const auto element = [&](Value* slot, DType t) {
    return b_.CreateGEP(prim_.memory_type(t, 1), slot, lane);
  };
  Values one(values.size(), nullptr);
  for (size_t id = 0; id < slots.size(); ++id) {
    if (!slots[id]) continue;
    const DType t = values[id].type;
    one[id] = prim_.from_memory(load_one(prim_.memory_type(t, 1), element(slots[id], t), nullptr), t, 1);
  }
  Value* rare = code(one, lane, 1);
  b_.CreateAlignedStore(prim_.to_memory(rare, usual.type, 1), element(results, usual.type), llvm::Align(1));
  Value* next = b_.CreateAnd(left, b_.CreateSub(left, f_.i64(1)));
  left->addIncoming(next, b_.GetInsertBlock());
  b_.CreateCondBr(b_.CreateICmpNE(next, f_.i64(0)), each, done);
  b_.SetInsertPoint(done);
  Type* memory = prim_.memory_type(usual.type, n);
  return prim_.from_memory(b_.CreateAlignedLoad(memory, results, llvm::Align(1)), usual.type, n);
}

// ---- the flag

void CpuLanes::poll_cancel() {
  auto* flag = b_.CreateAlignedLoad(b_.getInt32Ty(), cancel_, llvm::Align(4));
  flag->setAtomic(llvm::AtomicOrdering::Monotonic);
  BasicBlock* on = f_.block("on");
  b_.CreateCondBr(b_.CreateICmpEQ(flag, b_.getInt32(0)), on, cancelled_);
  b_.SetInsertPoint(on);
}

// Looks at the flag, or asks where a loop of unknown length may be the only one to hear.
void CpuLanes::poll(Value* due) {
  BasicBlock* look = f_.block("poll");
  BasicBlock* on = f_.block("on");
  llvm::MDBuilder weights(f_.context());
  b_.CreateCondBr(due, look, on, weights.createBranchWeights(1, 2000));
  b_.SetInsertPoint(look);
  if (holds_question(kernel_)) {
    Value* function_at = b_.CreateConstGEP1_64(b_.getInt8Ty(), cancel_, offsetof(CancelQuestion, ask));
    auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {b_.getPtrTy()}, false);
    llvm::CallInst* stop = b_.CreateCall(type, b_.CreateLoad(b_.getPtrTy(), function_at), {cancel_});
    stop->setDoesNotThrow();
    b_.CreateCondBr(b_.CreateICmpEQ(stop, b_.getInt32(0)), on, cancelled_);
  } else {
    poll_cancel();
    b_.CreateBr(on);
  }
  b_.SetInsertPoint(on);
}

}  // namespace lamina::jit::codegen
