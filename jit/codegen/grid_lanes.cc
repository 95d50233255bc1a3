#include "jit/codegen/grid_lanes.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Support/ErrorHandling.h>

#include <algorithm>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

constexpr unsigned kWordBytes = 4, kVectorBytes = 16;

bool stores_once(const LoopKernel& kernel) {
  size_t stores = kernel.stores.size();
  for (const Repeat& r : kernel.repeats) stores += 2 * r.stores.size();  // one in each step
  return stores == 1;
}

llvm::Align element_align(DType t) { return llvm::Align(static_cast<uint64_t>(hlo::byte_size(t))); }

}  // namespace

GridLanes::GridLanes(const LoopKernel& kernel, FunctionBuilder& f)
    : LaneOps(f),
      kernel_(kernel),
      b_(f.builder()),
      prim_(f.prims()),
      variance_(kernel),
      one_store_(stores_once(kernel)) {}

// ---- addresses

GridLanes::Place& GridLanes::place(Row& row, uint32_t access) {
  if (!row.memory) {
    auto places = std::make_unique<Places>();
    places->of.resize(kernel_.accesses.size());
    row.memory = std::move(places);
  }
  return static_cast<Places&>(*row.memory).of[access];
}

void GridLanes::address(Row& row, uint32_t access) {
  Place& place = this->place(row, access);
  if (place.pointer) return;
  if (row.inside && !variance_.access(access, row.inside->step_dim)) {
    const Place& outer = this->place(*row.inside->outer, access);
    if (outer.pointer) {
      place = outer;
      return;
    }
  }
  const Access& a = kernel_.accesses[access];
  Value* offset = a.offset_slot < 0 ? f_.i64(0) : f_.arg(static_cast<uint32_t>(a.offset_slot));
  if (a.beside != 0) offset = b_.CreateAdd(offset, f_.i64(a.beside));
  Value* stride = nullptr;
  int along = 0;
  bool unit = false;
  for (const AccessTerm& term : a.terms) {
    Value* s = term.unit ? f_.i64(term.unit) : f_.arg(term.stride_slot);
    if (term.dim == row.dim) {
      unit = term.unit == 1;
      stride = stride ? b_.CreateAdd(stride, s) : s;
      ++along;
    } else {
      Value* index = row.indices[term.dim];
      offset = b_.CreateAdd(offset, term.unit == 1 ? index : b_.CreateMul(index, s));
    }
  }
  place.stride = along == 1 && unit ? nullptr : stride;
  place.pointer = b_.CreateGEP(prim_.memory_type(type_of(access), 1), f_.buffer(a.buffer), offset);
}

Value* GridLanes::element_address(Row& row, uint32_t access, Value* index) {
  const Place& place = this->place(row, access);
  if (!varies(row, access)) return place.pointer;
  Value* position = place.stride ? b_.CreateMul(index, place.stride) : index;
  return b_.CreateGEP(prim_.memory_type(type_of(access), 1), place.pointer, position);
}

// ---- single elements

Value* GridLanes::load_one(Type* type, Value* address, Value* predicate, bool constant) {
  const auto load = [&] {
    llvm::LoadInst* made =
        b_.CreateAlignedLoad(type, address, llvm::Align(type->getPrimitiveSizeInBits() / 8));
    if (constant)
      made->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(f_.context(), {}));
    return made;
  };
  if (!predicate) return load();
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* inside = f_.block("load");
  BasicBlock* after = f_.block("loaded");
  b_.CreateCondBr(predicate, inside, after);
  b_.SetInsertPoint(inside);
  Value* value = load();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return f_.meet({{before, {llvm::Constant::getNullValue(type)}}, {inside, {value}}})[0];
}

Value* GridLanes::load(Row& row, uint32_t access, Value* index, Value* predicate, unsigned) {
  const DType t = type_of(access);
  if (making_ && making_->row == &row && !predicate && !making_->loaded[access].empty())
    return prim_.from_memory(making_->loaded[access][making_->number], t, 1);
  Value* loaded = load_one(prim_.memory_type(t, 1), element_address(row, access, index), predicate,
                           is_constant(kernel_.accesses[access].buffer));
  return prim_.from_memory(loaded, t, 1);
}

Value* GridLanes::load_at(uint32_t buffer, Value* position, Value* predicate, unsigned) {
  const DType t = kernel_.buffers[buffer].type;
  Type* memory = prim_.memory_type(t, 1);
  Value* address = b_.CreateGEP(memory, f_.buffer(buffer), position);
  return prim_.from_memory(load_one(memory, address, predicate, is_constant(buffer)), t, 1);
}

void GridLanes::store_at(uint32_t, Value*, Value*, Value*) { llvm_unreachable("see grid_takes"); }
void GridLanes::copy(uint32_t, uint32_t, Value*) { llvm_unreachable("see grid_takes"); }

void GridLanes::store(Row& row, uint32_t access, Value* value, Value* index, unsigned) {
  const DType t = type_of(access);
  value = prim_.to_memory(value, t, 1);
  if (making_ && making_->row == &row) {
    Values& stored = making_->stored[access];
    stored.resize(making_->part.lanes * making_->part.starts.size(), nullptr);
    stored[making_->number] = value;
    return;
  }
  const auto store = [&] {
    b_.CreateAlignedStore(value, element_address(row, access, index), element_align(t));
  };
  Value* where = on();
  if (making_ && index && !varies(row, access)) {  // one address for the row: the last element's value stays
    Value* last = b_.CreateICmpEQ(index, b_.CreateSub(making_->part.end, f_.i64(1)));
    where = within(last);
  }
  if (where)
    f_.if_then(where, store);
  else
    store();
}

// ---- vectors

Value* GridLanes::element_index(const Part& part, unsigned number) {
  return b_.CreateAdd(part.starts[number / part.lanes], f_.i64(number % part.lanes));
}

Value* GridLanes::clamped(const Part& part, Value* index) {
  if (part.whole || part.lanes * part.starts.size() == 1) return index;
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, b_.CreateSub(part.end, f_.i64(1)));
}

Value* GridLanes::is_fast(Row& row, const Part& part, const std::vector<uint32_t>& accesses) {
  Value* fast = nullptr;
  if (!part.whole && part.lanes * part.starts.size() > 1)
    fast = b_.CreateICmpSLE(b_.CreateAdd(part.starts.back(), f_.i64(part.lanes)), part.end);
  Value* odd = nullptr;  // bits of addresses that should not be there
  for (uint32_t access : accesses) {
    const int64_t bytes = std::min<int64_t>(hlo::byte_size(type_of(access)) * part.lanes, kVectorBytes);
    if (part.lanes == 1 || !in_vectors(row, access)) continue;
    Value* address = b_.CreatePtrToInt(place(row, access).pointer, b_.getInt64Ty());
    Value* bits = b_.CreateAnd(b_.CreateTrunc(address, b_.getInt32Ty()), b_.getInt32(bytes - 1));
    odd = odd ? b_.CreateOr(odd, bits) : bits;
  }
  if (!odd) return fast;
  Value* aligned = b_.CreateICmpEQ(odd, b_.getInt32(0));
  return fast ? b_.CreateAnd(fast, aligned) : aligned;
}

// Elements of less than a word are taken out of words: vectors of them would be moved in parts.
Values GridLanes::load_vector(Row& row, uint32_t access, Value* index, unsigned lanes) {
  const DType t = type_of(access);
  Type* element = prim_.memory_type(t, 1);
  Value* address = element_address(row, access, index);
  const bool constant = is_constant(kernel_.accesses[access].buffer);
  if (lanes == 1) return {load_one(element, address, nullptr, constant)};
  const unsigned size = static_cast<unsigned>(hlo::byte_size(t)), bytes = size * lanes;
  Values values;
  if (bytes > kVectorBytes) {
    for (unsigned half : {0u, lanes / 2}) {
      const Values made = load_vector(row, access, b_.CreateAdd(index, f_.i64(half)), lanes / 2);
      values.insert(values.end(), made.begin(), made.end());
    }
    return values;
  }
  if (size >= kWordBytes) {
    Value* vector = load_one(llvm::FixedVectorType::get(element, lanes), address, nullptr, constant);
    for (unsigned k = 0; k < lanes; ++k) values.push_back(b_.CreateExtractElement(vector, k));
    return values;
  }
  const unsigned word_bytes = std::min(bytes, kWordBytes), words = bytes / word_bytes;
  Type* word = b_.getIntNTy(word_bytes * 8);
  Value* all =
      load_one(words == 1 ? word : llvm::FixedVectorType::get(word, words), address, nullptr, constant);
  for (unsigned k = 0; k < lanes; ++k) {
    Value* from = words == 1 ? all : b_.CreateExtractElement(all, k * size / word_bytes);
    values.push_back(b_.CreateTrunc(b_.CreateLShr(from, k * size % word_bytes * 8), element));
  }
  return values;
}

void GridLanes::store_vector(Row& row, uint32_t access, Value* index, const Values& values) {
  const DType t = type_of(access);
  const auto lanes = static_cast<unsigned>(values.size());
  const unsigned size = static_cast<unsigned>(hlo::byte_size(t)), bytes = size * lanes;
  if (bytes > kVectorBytes) {
    const auto middle = values.begin() + lanes / 2;
    store_vector(row, access, index, Values(values.begin(), middle));
    store_vector(row, access, b_.CreateAdd(index, f_.i64(lanes / 2)), Values(middle, values.end()));
    return;
  }
  Value* address = element_address(row, access, index);
  Values parts = values;
  if (size < kWordBytes && lanes > 1) {
    const unsigned word_bytes = std::min(bytes, kWordBytes), in_word = word_bytes / size;
    Type* word = b_.getIntNTy(word_bytes * 8);
    parts.clear();
    for (unsigned k = 0; k < lanes; ++k) {
      Value* part = b_.CreateShl(b_.CreateZExt(values[k], word), k % in_word * size * 8);
      if (k % in_word == 0)
        parts.push_back(part);
      else
        parts.back() = b_.CreateOr(parts.back(), part);
    }
  }
  Value* all = parts[0];
  if (parts.size() > 1) {
    all = llvm::PoisonValue::get(llvm::FixedVectorType::get(parts[0]->getType(), parts.size()));
    for (unsigned k = 0; k < parts.size(); ++k) all = b_.CreateInsertElement(all, parts[k], k);
  }
  b_.CreateAlignedStore(all, address, llvm::Align(bytes));
}

void GridLanes::fetch(Row& row, const Part& part, const std::vector<uint32_t>& accesses, Value* fast) {
  const auto count = static_cast<unsigned>(part.lanes * part.starts.size());
  const auto one = [&](uint32_t access, unsigned number) {
    Value* address = element_address(row, access, clamped(part, element_index(part, number)));
    return load_one(prim_.memory_type(type_of(access), 1), address, nullptr,
                    is_constant(kernel_.accesses[access].buffer));
  };
  std::vector<uint32_t> vectors;
  for (uint32_t access : accesses) {
    if (in_vectors(row, access) && (part.lanes > 1 || fast)) vectors.push_back(access);
  }
  if (!vectors.empty()) {
    Values at_once, singly;
    const auto load_vectors = [&] {
      for (uint32_t access : vectors)
        for (Value* start : part.starts) {
          const Values made = load_vector(row, access, start, part.lanes);
          at_once.insert(at_once.end(), made.begin(), made.end());
        }
    };
    if (fast) {
      BasicBlock *whole = f_.block("vectors"), *single = f_.block("elements"), *both = f_.block("loaded");
      b_.CreateCondBr(fast, whole, single);
      b_.SetInsertPoint(whole);
      load_vectors();
      b_.CreateBr(both);
      b_.SetInsertPoint(single);
      for (uint32_t access : vectors)
        for (unsigned i = 0; i < count; ++i) singly.push_back(one(access, i));
      b_.CreateBr(both);
      b_.SetInsertPoint(both);
      at_once = f_.meet({{whole, at_once}, {single, singly}});
    } else {
      load_vectors();
    }
    for (size_t v = 0; v < vectors.size(); ++v)
      making_->loaded[vectors[v]].assign(at_once.begin() + v * count, at_once.begin() + (v + 1) * count);
  }
  for (uint32_t access : accesses)
    for (unsigned i = 0; making_->loaded[access].size() < count; ++i)
      making_->loaded[access].push_back(one(access, i));
}

void GridLanes::write(Row& row, const Part& part, uint32_t access, Value* fast) {
  const Values& values = making_->stored[access];
  const DType t = type_of(access);
  const auto one = [&](unsigned i) {
    b_.CreateAlignedStore(values[i], element_address(row, access, element_index(part, i)), element_align(t));
  };
  const auto each = [&](bool unguarded) {
    for (unsigned i = 0; i < values.size(); ++i) {
      if (unguarded)
        one(i);
      else
        f_.if_then(b_.CreateICmpSLT(element_index(part, i), part.end), [&] { one(i); });
    }
  };
  if (!varies(row, access)) {  // one address for the row: the last element's value stays
    Value* last = b_.CreateSub(part.end, f_.i64(1));
    for (unsigned i = 0; i < values.size(); ++i)
      f_.if_then(b_.CreateICmpEQ(element_index(part, i), last), [&] { one(i); });
    return;
  }
  const auto at_once = [&] {
    if (!in_vectors(row, access)) {
      each(true);
      return;
    }
    for (size_t j = 0; j < part.starts.size(); ++j)
      store_vector(row, access, part.starts[j],
                   Values(values.begin() + j * part.lanes, values.begin() + (j + 1) * part.lanes));
  };
  if (!fast) {
    at_once();
    return;
  }
  BasicBlock *whole = f_.block("vectors"), *single = f_.block("elements"), *done = f_.block("stored");
  b_.CreateCondBr(fast, whole, single);
  b_.SetInsertPoint(whole);
  at_once();
  b_.CreateBr(done);
  b_.SetInsertPoint(single);
  each(part.whole);
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
}

GridLanes::Making GridLanes::begin(Row& row, const Part& part, const std::vector<Store>& stores,
                                   const std::vector<uint32_t>& given) {
  std::vector<uint32_t> loads, moved;
  const auto has = [](const std::vector<uint32_t>& in, uint32_t access) {
    return std::find(in.begin(), in.end(), access) != in.end();
  };
  for (size_t i = 0; i < row.section->size(); ++i) {
    const KernelInstr& instr = (*row.section)[i];
    if (instr.op != KernelOp::kLoad || instr.predicated || !row.varies[i]) continue;
    const auto access = static_cast<uint32_t>(instr.imm);
    if (!has(given, access) && !has(loads, access)) loads.push_back(access);
  }
  moved = loads;
  for (const Store& s : stores)
    if (!has(moved, s.access)) moved.push_back(s.access);
  Making making{&row, part, nullptr, {}, {}};
  making.loaded.resize(kernel_.accesses.size());
  making.stored.resize(kernel_.accesses.size());
  making.fast = is_fast(row, part, moved);
  making_ = &making;
  fetch(row, part, loads, making.fast);
  making_ = nullptr;
  return making;
}

void GridLanes::finish(Making& making, const std::vector<Store>& stores, const Body& body) {
  const Part& part = making.part;
  making_ = &making;
  const bool may_pass = !part.whole && part.lanes * part.starts.size() > 1;
  for (unsigned i = 0; i < part.lanes * part.starts.size(); ++i) {
    making.number = i;
    Value* index = element_index(part, i);
    const Only only(*this, may_pass ? b_.CreateICmpSLT(index, part.end) : nullptr);
    body(clamped(part, index), i);
  }
  std::vector<uint32_t> written;
  for (const Store& s : stores)
    if (std::find(written.begin(), written.end(), s.access) == written.end()) written.push_back(s.access);
  for (uint32_t access : written) write(*making.row, part, access, making.fast);
  making_ = nullptr;
}

void GridLanes::part(Row& row, const Part& part, const std::vector<Store>& stores, const Body& body) {
  Making making = begin(row, part, stores, {});
  finish(making, stores, body);
}

// ---- lanes

Value* GridLanes::index(Value* along, unsigned) { return along; }
Value* GridLanes::any(Value* mask) { return mask; }

Value* GridLanes::rarely(Value*, const TypedValue&, const std::vector<uint32_t>&,
                         const std::vector<TypedValue>&, const RareCode&) {
  llvm_unreachable("code of one element has guards of its own");
}

void GridLanes::poll(Value* due) {
  if (!stop_) return;
  BasicBlock *look = f_.block("poll"), *leave = f_.block("leave"), *on = f_.block("on");
  llvm::MDBuilder weights(f_.context());
  b_.CreateCondBr(due, look, on, weights.createBranchWeights(1, 2000));
  b_.SetInsertPoint(look);
  llvm::LoadInst* word = b_.CreateAlignedLoad(b_.getInt32Ty(), stop_, llvm::Align(4), /*isVolatile=*/true);
  b_.CreateCondBr(b_.CreateICmpEQ(word, b_.getInt32(0)), on, leave);
  b_.SetInsertPoint(leave);
  b_.CreateRetVoid();
  b_.SetInsertPoint(on);
}

}  // namespace lamina::jit::codegen
