#include "jit/codegen/grid_lanes.h"

#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/Support/ErrorHandling.h>

#include <algorithm>

#include "jit/kernel/grid.h"

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

GridLanes::GridLanes(const LoopKernel& kernel, FunctionBuilder& f, bool chained, bool exact)
    : LaneOps(f),
      kernel_(kernel),
      b_(f.builder()),
      prim_(f.prims()),
      variance_(kernel),
      one_store_(!chained && stores_once(kernel)),
      exact_(exact),
      held_(kernel.accesses.size()) {}

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
  Value** const held = predicate ? nullptr : held_[access].value;
  if (held && *held) return prim_.from_memory(*held, t, 1);
  Value* loaded = load_one(prim_.memory_type(t, 1), element_address(row, access, index), predicate,
                           is_constant(kernel_.accesses[access].buffer));
  if (held) *held = loaded;
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
  if (Held& held = held_[access]; held.value) {
    *held.value = value;
    held.address = element_address(row, access, index);
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
  if (!may_pass(part)) return index;
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, index, b_.CreateSub(part.end, f_.i64(1)));
}

Value* GridLanes::is_fast(std::span<const Making> lines, const std::vector<Group>& groups) {
  const Part& part = lines[0].part;
  Value* fast = nullptr;
  if (may_pass(part)) fast = b_.CreateICmpSLE(b_.CreateAdd(part.starts.back(), f_.i64(part.lanes)), part.end);
  if (exact_) return fast;
  Value* odd = nullptr;  // bits of addresses that should not be there
  for (const Making& line : lines)
    for (const Group& group : groups) {
      const auto count = static_cast<int64_t>(part.lanes * group.size());
      if (count == 1 || !in_vectors(*line.row, group)) continue;
      const int64_t bytes = std::min<int64_t>(hlo::byte_size(type_of(group[0])) * count, kVectorBytes);
      Value* address = b_.CreatePtrToInt(place(*line.row, group[0]).pointer, b_.getInt64Ty());
      Value* bits = b_.CreateAnd(b_.CreateTrunc(address, b_.getInt32Ty()), b_.getInt32(bytes - 1));
      odd = odd ? b_.CreateOr(odd, bits) : bits;
    }
  if (!odd) return fast;
  Value* aligned = b_.CreateICmpEQ(odd, b_.getInt32(0));
  return fast ? b_.CreateAnd(fast, aligned) : aligned;
}

// Elements of less than a word are taken out of words: vectors of them would be moved in parts.
Values GridLanes::load_vector(DType t, Value* address, unsigned count, bool constant) {
  Type* element = prim_.memory_type(t, 1);
  if (count == 1) return {load_one(element, address, nullptr, constant)};
  const unsigned size = static_cast<unsigned>(hlo::byte_size(t)), bytes = size * count;
  Values values;
  if (bytes > kVectorBytes) {
    for (unsigned half : {0u, count / 2}) {
      const Values made = load_vector(t, b_.CreateConstGEP1_64(element, address, half), count / 2, constant);
      values.insert(values.end(), made.begin(), made.end());
    }
    return values;
  }
  if (size >= kWordBytes) {
    Value* vector = load_one(llvm::FixedVectorType::get(element, count), address, nullptr, constant);
    for (unsigned k = 0; k < count; ++k) values.push_back(b_.CreateExtractElement(vector, k));
    return values;
  }
  const unsigned word_bytes = std::min(bytes, kWordBytes), words = bytes / word_bytes;
  Type* word = b_.getIntNTy(word_bytes * 8);
  Value* all =
      load_one(words == 1 ? word : llvm::FixedVectorType::get(word, words), address, nullptr, constant);
  for (unsigned k = 0; k < count; ++k) {
    Value* from = words == 1 ? all : b_.CreateExtractElement(all, k * size / word_bytes);
    values.push_back(b_.CreateTrunc(b_.CreateLShr(from, k * size % word_bytes * 8), element));
  }
  return values;
}

void GridLanes::store_vector(DType t, Value* address, const Values& values) {
  const auto count = static_cast<unsigned>(values.size());
  const unsigned size = static_cast<unsigned>(hlo::byte_size(t)), bytes = size * count;
  if (bytes > kVectorBytes) {
    const auto middle = values.begin() + count / 2;
    Value* second = b_.CreateConstGEP1_64(prim_.memory_type(t, 1), address, count / 2);
    store_vector(t, address, Values(values.begin(), middle));
    store_vector(t, second, Values(middle, values.end()));
    return;
  }
  Values parts = values;
  if (size < kWordBytes && count > 1) {
    const unsigned word_bytes = std::min(bytes, kWordBytes), in_word = word_bytes / size;
    Type* word = b_.getIntNTy(word_bytes * 8);
    parts.clear();
    for (unsigned k = 0; k < count; ++k) {
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

void GridLanes::fetch(std::span<Making> lines, const std::vector<Group>& groups, Value* fast) {
  const Part& part = lines[0].part;
  const auto count = static_cast<unsigned>(part.lanes * part.starts.size());
  const auto one = [&](Row& row, uint32_t access, unsigned number) {
    Value* address = element_address(row, access, clamped(part, element_index(part, number)));
    return load_one(prim_.memory_type(type_of(access), 1), address, nullptr,
                    is_constant(kernel_.accesses[access].buffer));
  };
  struct Moved {
    Making* line;
    const Group* group;
  };
  std::vector<Moved> vectors;
  for (Making& line : lines)
    for (const Group& group : groups)
      if (in_vectors(*line.row, group) && (part.lanes * group.size() > 1 || fast))
        vectors.push_back({&line, &group});
  if (!vectors.empty()) {
    Values at_once, singly;  // by line and group, element, access
    const auto load_vectors = [&] {
      for (const auto& [line, group] : vectors)
        for (Value* start : part.starts) {
          const uint32_t first = group->front();
          const auto elements = static_cast<unsigned>(part.lanes * group->size());
          const Values made = load_vector(type_of(first), element_address(*line->row, first, start), elements,
                                          is_constant(kernel_.accesses[first].buffer));
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
      for (const auto& [line, group] : vectors)
        for (unsigned i = 0; i < count; ++i)
          for (uint32_t access : *group) singly.push_back(one(*line->row, access, i));
      b_.CreateBr(both);
      b_.SetInsertPoint(both);
      at_once = f_.meet({{whole, at_once}, {single, singly}});
    } else {
      load_vectors();
    }
    auto next = at_once.begin();
    for (const auto& [line, group] : vectors)
      for (unsigned i = 0; i < count; ++i)
        for (uint32_t access : *group) line->loaded[access].push_back(*next++);
  }
  for (Making& line : lines)
    for (const Group& group : groups)
      for (uint32_t access : group)
        for (unsigned i = 0; line.loaded[access].size() < count; ++i)
          line.loaded[access].push_back(one(*line.row, access, i));
}

// ---- what is held

Value* GridLanes::held_address(uint32_t access, Value* index) {
  return b_.CreateGEP(prim_.memory_type(type_of(access), 1), held_[access].elements, index);
}

// Also past the end of the row: each thread reads what it has written.
void GridLanes::take_held(Making& making) {
  for (size_t i = 0; i < making.row->section->size(); ++i) {
    const KernelInstr& instr = (*making.row->section)[i];
    const auto access = static_cast<uint32_t>(instr.imm);
    if (instr.op != KernelOp::kLoad || instr.predicated || !skips_memory(access)) continue;
    Values& loaded = making.loaded[access];
    if (!loaded.empty()) continue;
    for (Value* start : making.part.starts) {
      const Values made =
          load_vector(type_of(access), held_address(access, start), making.part.lanes, /*constant=*/false);
      loaded.insert(loaded.end(), made.begin(), made.end());
    }
  }
}

void GridLanes::keep_held(Making& making) {
  const auto keep = [&](uint32_t access, const Values& values) {
    const auto lanes = static_cast<int64_t>(making.part.lanes);
    for (size_t j = 0; j < making.part.starts.size(); ++j) {
      const auto first = values.begin() + static_cast<int64_t>(j) * lanes;
      store_vector(type_of(access), held_address(access, making.part.starts[j]),
                   Values(first, first + lanes));
    }
  };
  for (uint32_t access = 0; access < held_.size(); ++access) {
    if (!held_[access].elements) continue;
    if (!making.stored[access].empty()) keep(access, making.stored[access]);
    if (held_[access].memory && !making.loaded[access].empty()) keep(access, making.loaded[access]);
  }
}

void GridLanes::write(Row& row, const Part& part, const Group& group, Value* fast) {
  const DType t = type_of(group[0]);
  const auto count = static_cast<unsigned>(part.lanes * part.starts.size());
  const auto one = [&](unsigned i) {
    for (uint32_t access : group)
      b_.CreateAlignedStore(making_->stored[access][i], element_address(row, access, element_index(part, i)),
                            element_align(t));
  };
  const auto each = [&](bool unguarded) {
    for (unsigned i = 0; i < count; ++i) {
      if (unguarded)
        one(i);
      else
        f_.if_then(b_.CreateICmpSLT(element_index(part, i), part.end), [&] { one(i); });
    }
  };
  if (!varies(row, group[0])) {  // one address for the row: the last element's value stays
    Value* last = b_.CreateSub(part.end, f_.i64(1));
    for (unsigned i = 0; i < count; ++i)
      f_.if_then(b_.CreateICmpEQ(element_index(part, i), last), [&] { one(i); });
    return;
  }
  const auto at_once = [&] {
    if (!in_vectors(row, group)) {
      each(true);
      return;
    }
    for (size_t j = 0; j < part.starts.size(); ++j) {
      Values values;
      for (size_t k = 0; k < part.lanes; ++k)
        for (uint32_t access : group) values.push_back(making_->stored[access][j * part.lanes + k]);
      store_vector(t, element_address(row, group[0], part.starts[j]), values);
    }
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

GridLanes::Making GridLanes::making(Row& row, const Part& part) const {
  Making made{&row, part, nullptr, {}, {}, {}};
  made.loaded.resize(kernel_.accesses.size());
  made.stored.resize(kernel_.accesses.size());
  return made;
}

std::vector<GridLanes::Group> GridLanes::fetched(const Row& row, const std::vector<uint32_t>& given) const {
  std::vector<uint32_t> loads;
  for (size_t i = 0; i < row.section->size(); ++i) {
    const KernelInstr& instr = (*row.section)[i];
    const auto access = static_cast<uint32_t>(instr.imm);
    if (instr.op == KernelOp::kLoad && !instr.predicated && row.varies[i] && !skips_memory(access) &&
        std::find(given.begin(), given.end(), access) == given.end())
      loads.push_back(access);
  }
  return side_by_side(kernel_, loads, row.dim);
}

GridLanes::Making GridLanes::begin(Row& row, const Part& part, const std::vector<Store>& stores,
                                   const std::vector<uint32_t>& given) {
  std::vector<uint32_t> stored;
  for (const Store& s : stores)
    if (!skips_memory(s.access)) stored.push_back(s.access);
  const std::vector<Group> read = fetched(row, given);
  Making making = this->making(row, part);
  making.written = side_by_side(kernel_, stored, row.dim);
  std::vector<Group> moved = read;
  moved.insert(moved.end(), making.written.begin(), making.written.end());
  making.fast = is_fast({&making, 1}, moved);
  fetch({&making, 1}, read, making.fast);
  take_held(making);
  return making;
}

void GridLanes::lines(std::span<Row> rows, const Part& part, const LinesBody& body) {
  std::vector<Making> all;
  for (Row& row : rows) all.push_back(making(row, part));
  const std::vector<Group> read = fetched(rows[0], {});
  fetch(all, read, is_fast(all, read));
  for (size_t line = 0; line < all.size(); ++line)
    finish(all[line], [&](Value* index, unsigned number) { body(line, index, number); });
}

void GridLanes::finish(Making& making, const Body& body) {
  const Part& part = making.part;
  making_ = &making;
  for (unsigned i = 0; i < part.lanes * part.starts.size(); ++i) {
    making.number = i;
    Value* index = element_index(part, i);
    const Only only(*this, may_pass(part) ? b_.CreateICmpSLT(index, part.end) : nullptr);
    body(clamped(part, index), i);
  }
  keep_held(making);
  for (const Group& group : making.written) write(*making.row, part, group, making.fast);
  making_ = nullptr;
}

void GridLanes::part(Row& row, const Part& part, const std::vector<Store>& stores, const Body& body) {
  Making making = begin(row, part, stores, {});
  finish(making, body);
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
