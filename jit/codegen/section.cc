#include "jit/codegen/section.h"

#include <absl/strings/str_cat.h>
#include <llvm/ADT/DenseMap.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/MDBuilder.h>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

uint64_t power_of_two(DType t, int64_t exponent) {
  return t == DType::kF32 ? static_cast<uint64_t>(exponent + 127) << 23
                          : static_cast<uint64_t>(exponent + 1023) << 52;
}
// Where no step of a quotient by products leaves the normal numbers, and what its remainders are multiples of
// is one, too.
Magnitudes usual_divisors(DType t) {
  const int64_t most = t == DType::kF32 ? 30 : 100;
  return {power_of_two(t, -most), power_of_two(t, most)};
}
Magnitudes usual_dividends(DType t) {
  return t == DType::kF32 ? Magnitudes{power_of_two(t, -90), power_of_two(t, 60)}
                          : Magnitudes{power_of_two(t, -800), power_of_two(t, 800)};
}

}  // namespace

SectionEmitter::SectionEmitter(const LoopKernel& kernel, FunctionBuilder& f, LaneOps& lanes, unsigned widest)
    : kernel_(kernel),
      f_(f),
      lanes_(lanes),
      b_(f.builder()),
      variance_(kernel),
      widest_(widest),
      repeated_(kernel.repeats.size()) {}

SectionEmitter::Uses SectionEmitter::uses_of(const std::vector<Store>& stores) {
  Uses uses;
  for (const Store& s : stores) {
    uses.accesses.push_back(s.access);
    uses.values.push_back(s.value);
  }
  return uses;
}

Row SectionEmitter::begin(const Instrs& section, int dim, const Values& indices, const Uses& uses,
                          Reduced reduced, const Inside* inside, const Stretch* stretch) {
  Row row;
  row.dim = dim;
  row.indices = indices;
  row.section = &section;
  row.reduced = std::move(reduced);
  row.inside = inside;
  // Scalar code of a repeat is made in one piece, so that what is rarely needed stands behind its guards.
  if (!inside)
    row.varies =
        variance_.section(section, dim, {}, {}, stretch ? stretch->steady.conditions() : std::vector<bool>());
  else if (inside->lanes == 1)
    row.varies.assign(section.size(), true);
  else
    row.varies = variance_.section(section, dim, inside->outer->varies, inside->carried_vary);
  prepare(row, uses.accesses, stretch);
  make_splats(row, uses.values);
  if (!inside) make_inverses(row);
  set_order(row, uses.values);
  return row;
}

// Addresses, and values that are one for the whole row.
void SectionEmitter::prepare(Row& row, const std::vector<uint32_t>& accesses, const Stretch* stretch) {
  const Instrs& section = *row.section;
  row.uniform.assign(section.size(), nullptr);
  for (uint32_t access : accesses) lanes_.address(row, access);
  for (size_t i = 0; i < section.size(); ++i) {
    const KernelInstr& instr = section[i];
    if (instr.op == KernelOp::kLoad) lanes_.address(row, instr.imm);
    if (instr.op == KernelOp::kRepeat) address_repeat(row, kernel_.repeats[instr.imm]);
    if (row.varies[i]) continue;
    const bool steady = stretch && stretch->steady.conditions()[i];
    row.uniform[i] =
        steady ? at_begin(row, *stretch, static_cast<uint32_t>(i)) : emit_instr(row, instr, {}, nullptr, 1);
  }
}

// What a steady condition and the places that it compares are at the first index.
Value* SectionEmitter::at_begin(const Row& row, const Stretch& stretch, uint32_t id) {
  if (row.uniform[id]) return row.uniform[id];
  const KernelInstr& instr = (*row.section)[id];
  if (instr.op == KernelOp::kIndex) return stretch.begin;
  TypedValue operands[3];
  for (int k = 0; k < hlo::prim_arity(instr.prim); ++k)
    operands[k] = {at_begin(row, stretch, instr.operands[k]), (*row.section)[instr.operands[k]].type};
  return f_.prims().emit(instr.prim, instr.type, operands, instr.imm, 1);
}

// Vectors of the uniform values that vectors are computed from, or that are used as such.
void SectionEmitter::make_splats(Row& row, const std::vector<uint32_t>& uses) {
  const Instrs& section = *row.section;
  row.splats.assign(section.size(), nullptr);
  std::vector<bool> wanted(section.size(), false);
  for (size_t i = 0; i < section.size(); ++i)
    if (row.varies[i]) for_each_operand(kernel_, section[i], [&](uint32_t v) { wanted[v] = true; });
  for (uint32_t use : uses) wanted[use] = true;
  const unsigned n = row.inside ? row.inside->lanes : widest_;
  for (size_t i = 0; i < section.size(); ++i) {
    if (!wanted[i] || row.varies[i] || !has_value(section[i].op)) continue;
    Value* known = section[i].op == KernelOp::kOuter && n == widest_
                       ? row.inside->outer->splats[section[i].imm]
                       : nullptr;
    row.splats[i] = known ? known : f_.splat(row.uniform[i], n);
  }
}

// A division of the widest vectors takes as long as a dozen products, and a row often has one divisor. With
// its inverse, rounded once, a quotient takes products alone and has the same bits (Markstein 1990,
// "Computation of elementary functions on the IBM RISC System/6000 processor"): the first one is off by less
// than two units of its last place, the second one by less than one, of which the remainder is exact and the
// third one the quotient.
void SectionEmitter::make_inverses(Row& row) {
  if (!lanes_.divides_slowly()) return;
  const Instrs& section = *row.section;
  for (size_t i = 0; i < section.size(); ++i) {
    const KernelInstr& instr = section[i];
    if (instr.op != KernelOp::kPrim || instr.prim != Prim::div || !row.varies[i]) continue;
    const uint32_t divisor = instr.operands[1];
    const DType t = instr.type;
    if ((t != DType::kF32 && t != DType::kF64) || row.varies[divisor]) continue;
    row.inverses.resize(section.size());
    Inverse& inverse = row.inverses[divisor];
    if (inverse.number) continue;
    Value* const y = row.uniform[divisor];
    const auto* known = llvm::dyn_cast<llvm::ConstantFP>(y);
    if (known && known->getValueAPF().getExactInverse(nullptr)) continue;  // that is a product anyway
    inverse.is_usual = is_among(y, usual_divisors(t), t, 1);
    inverse.number = b_.CreateFDiv(llvm::ConstantFP::get(y->getType(), 1), y);
    inverse.splat = f_.splat(inverse.number, widest_);
  }
}

Value* SectionEmitter::is_among(Value* x, const Magnitudes& magnitudes, DType t, unsigned n) {
  const int bits = static_cast<int>(8 * hlo::byte_size(t));
  llvm::Type* const integers = f_.prims().type(bits == 32 ? DType::kU32 : DType::kU64, n);
  const auto number = [&](uint64_t value) { return llvm::ConstantInt::get(integers, value); };
  Value* magnitude = b_.CreateAnd(b_.CreateBitCast(x, integers), number(~uint64_t{0} >> (65 - bits)));
  return b_.CreateICmpULT(b_.CreateSub(magnitude, number(magnitudes.least)),
                          number(magnitudes.most - magnitudes.least));
}

Value* SectionEmitter::emit_quotient(Row& row, const KernelInstr& instr, const Values& values, unsigned n) {
  const Inverse& inverse = row.inverses[instr.operands[1]];
  Value *x = value(row, values, instr.operands[0], n), *y = value(row, values, instr.operands[1], n);
  Value* by = n == widest_ ? inverse.splat : f_.splat(inverse.number, n);
  const auto multiply_add = [&](Value* a, Value* b, Value* c) {
    return b_.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {a, b, c});
  };
  Value* quotient = b_.CreateFMul(x, by);
  for (int round = 0; round < 2; ++round)
    quotient = multiply_add(multiply_add(b_.CreateFNeg(quotient), y, x), by, quotient);
  // Zeros of one sign are frequent, and come out right.
  Value* is_zero = b_.CreateIsNull(
      b_.CreateBitCast(x, llvm::VectorType::getInteger(llvm::cast<llvm::VectorType>(x->getType()))));
  Value* usual = b_.CreateOr(is_among(x, usual_dividends(instr.type), instr.type, n), is_zero);
  Value* rare = b_.CreateOr(lanes_.any(lanes_.within(b_.CreateNot(usual))), b_.CreateNot(inverse.is_usual));
  BasicBlock *divide = f_.block("divide"), *after = f_.block("quotient"), *before = b_.GetInsertBlock();
  b_.CreateCondBr(rare, divide, after, llvm::MDBuilder(f_.context()).createBranchWeights(1, 2000));
  b_.SetInsertPoint(divide);
  Value* divided = b_.CreateFDiv(x, y);
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return f_.meet({{divide, {divided}}, {before, {quotient}}})[0];
}

bool SectionEmitter::emit_quotients(Row& row, size_t at, Values& values) {
  const unsigned n = lanes_.quotients_at_once();
  const Instrs& section = *row.section;
  const uint32_t first = row.order[at].instr;
  const auto is_quotient = [&](const KernelInstr& instr) {
    return instr.op == KernelOp::kPrim && instr.prim == Prim::div && hlo::is_float(instr.type);
  };
  if (n == 1 || !is_quotient(section[first])) return false;
  const uint32_t divisor = section[first].operands[1];
  if (!values[divisor]) return false;
  const auto is_there = [&](uint32_t id) {
    return values[id] || section[id].op == KernelOp::kCarried || section[id].op == KernelOp::kOuter;
  };
  std::vector<uint32_t> together;
  for (; at < row.order.size() && together.size() < n; at += row.order[at].guarded + 1) {
    const uint32_t id = row.order[at].instr;
    const KernelInstr& instr = section[id];
    if (is_quotient(instr) && instr.operands[1] == divisor && is_there(instr.operands[0]) && !values[id])
      together.push_back(id);
  }
  if (together.size() < n) return false;
  Value* dividends = llvm::PoisonValue::get(f_.prims().type(section[first].type, n));
  for (unsigned i = 0; i < n; ++i) {
    const uint32_t id = section[together[i]].operands[0];
    if (!values[id]) values[id] = emit_instr(row, section[id], values, nullptr, 1);
    dividends = b_.CreateInsertElement(dividends, values[id], i);
  }
  Value* const quotients = b_.CreateFDiv(dividends, f_.splat(values[divisor], n));
  for (unsigned i = 0; i < n; ++i) values[together[i]] = b_.CreateExtractElement(quotients, i);
  return true;
}

bool SectionEmitter::reads_changing(const KernelInstr& instr) const {
  if (instr.op == KernelOp::kLoadAt) return kernel_.buffers[instr.imm].written;
  return instr.op == KernelOp::kLoad && kernel_.buffers[kernel_.accesses[instr.imm].buffer].written;
}

void SectionEmitter::set_order(Row& row, const std::vector<uint32_t>& uses) {
  const Instrs& section = *row.section;
  std::vector<uint32_t> position(section.size(), 0), varying;
  for (uint32_t i = 0; i < section.size(); ++i) {
    if (!row.varies[i]) continue;
    position[i] = static_cast<uint32_t>(varying.size());
    varying.push_back(i);
  }
  std::vector<hlo::ScheduleInput> code(varying.size());
  std::vector<bool> read(varying.size(), false);
  for (uint32_t use : uses)
    if (row.varies[use]) read[position[use]] = true;
  for (size_t i = 0; i < varying.size(); ++i) {
    const KernelInstr& instr = section[varying[i]];
    for_each_operand(kernel_, instr, [&](uint32_t v) {
      if (row.varies[v]) code[i].operands.push_back(position[v]);
    });
    // Guarded code may be made for one lane, which these are not; and what reaches memory that changes keeps
    // its place.
    read[i] = read[i] || !has_value(instr.op) || reads_changing(instr) || instr.op == KernelOp::kRepeated ||
              instr.op == KernelOp::kCarried || instr.op == KernelOp::kOuter;
    if (instr.op == KernelOp::kPrim && instr.prim == Prim::select_rare && row.varies[instr.operands[1]])
      code[i].rare_operand = static_cast<int32_t>(position[instr.operands[1]]);
  }
  row.order = hlo::schedule(code, read);
  for (hlo::Scheduled& s : row.order) s.instr = varying[s.instr];
}

Value* SectionEmitter::value(Row& row, const Values& values, uint32_t id, unsigned n) {
  if (row.varies[id]) return values[id];
  if (n == 1) return row.uniform[id];
  // Rows end in vectors narrower than those that their splats were made for.
  return !row.inside && n != widest_ ? f_.splat(row.uniform[id], n) : row.splats[id];
}

Values SectionEmitter::emit(Row& row, Value* index, unsigned n) {
  const Instrs& section = *row.section;
  Values values(section.size(), nullptr);
  for (size_t at = 0; at < row.order.size(); ++at) {
    const hlo::Scheduled& s = row.order[at];
    if (s.guarded)
      at = emit_guarded(row, at, values, index, n);
    else if (n == 1 && (values[s.instr] || emit_quotients(row, at, values)))
      continue;
    else
      values[s.instr] = emit_instr(row, section[s.instr], values, index, n);
  }
  return values;
}

void SectionEmitter::store(Row& row, const std::vector<Store>& stores, const Values& values, Value* index,
                           unsigned n) {
  for (std::span<const Store> left = stores; !left.empty();) {
    const std::span<const Store> now = left.first(alternating(kernel_, left, row.dim));
    Values stored;
    for (const Store& s : now) stored.push_back(value(row, values, s.value, n));
    if (now.size() == 1)
      lanes_.store(row, now[0].access, stored[0], index, n);
    else
      lanes_.store_alternating(row, now, stored, index, n);
    left = left.subspan(now.size());
  }
}

Values SectionEmitter::combine(const Values& a, const Values& e, unsigned n) {
  const hlo::ScalarProgram& program = kernel_.reduction.combine;
  Values values = a;
  values.insert(values.end(), e.begin(), e.end());
  for (const hlo::ScalarInstr& instr : program.code) {
    TypedValue operands[3];
    for (int k = 0; k < hlo::prim_arity(instr.prim); ++k)
      operands[k] = {values[instr.operands[k]], program.type_of(instr.operands[k])};
    values.push_back(f_.prims().emit(instr.prim, instr.type, operands, instr.imm, n));
  }
  Values result;
  for (uint32_t id : program.outputs) result.push_back(values[id]);
  return result;
}

Value* SectionEmitter::emit_instr(Row& row, const KernelInstr& instr, const Values& values, Value* index,
                                  unsigned n) {
  const auto operand = [&](int k) { return value(row, values, instr.operands[k], n); };
  switch (instr.op) {
    case KernelOp::kPrim: {
      if (n > 1 && instr.prim == Prim::div && !row.inverses.empty() && row.inverses[instr.operands[1]].number)
        return emit_quotient(row, instr, values, n);
      TypedValue operands[3];
      for (int k = 0; k < hlo::prim_arity(instr.prim); ++k)
        operands[k] = {operand(k), (*row.section)[instr.operands[k]].type};
      return f_.prims().emit(instr.prim, instr.type, operands, instr.imm, n);
    }
    case KernelOp::kLoad: {
      if (!instr.predicated) return lanes_.load(row, instr.imm, index, nullptr, n);
      const uint32_t predicate = instr.operands[0];
      return lanes_.load(row, instr.imm, index,
                         row.varies[predicate] ? values[predicate] : row.uniform[predicate], n);
    }
    case KernelOp::kLoadAt:
      return lanes_.load_at(instr.imm, operand(0), instr.predicated ? operand(1) : nullptr, n);
    case KernelOp::kStoreAt:
      lanes_.store_at(instr.imm, operand(0), operand(1), instr.predicated ? operand(2) : nullptr);
      return nullptr;
    case KernelOp::kCopy:
      lanes_.copy(static_cast<uint32_t>(instr.imm >> 32), static_cast<uint32_t>(instr.imm), operand(0));
      return nullptr;
    case KernelOp::kIndex:
      return static_cast<int>(instr.imm) == row.dim ? lanes_.index(index, n) : row.indices[instr.imm];
    case KernelOp::kArg:
      return instr.type == hlo::DType::kS64 ? f_.arg(instr.imm) : f_.number(instr.imm, instr.type);
    case KernelOp::kReduced:
      return row.reduced(instr.imm, index, n);
    case KernelOp::kRepeat:
      emit_repeat(row, instr.imm, values, index, n);
      return nullptr;
    case KernelOp::kRepeated: {
      Value* result = repeated_[(*row.section)[instr.operands[0]].imm][instr.imm];
      return result->getType()->isVectorTy() ? result : f_.splat(result, n);
    }
    case KernelOp::kCarried:
      return row.inside->carried[instr.imm];
    case KernelOp::kOuter:
      return value(*row.inside->outer, *row.inside->outer_values, instr.imm, n);
  }
  return nullptr;
}

// Rare code of so few instructions runs for all lanes at once, longer one for each lane that asks for it.
constexpr uint32_t kFewForAll = 64;

size_t SectionEmitter::emit_guarded(Row& row, size_t guard, Values& values, Value* index, unsigned n) {
  const hlo::Scheduled& s = row.order[guard];
  const KernelInstr& select = (*row.section)[s.instr];
  Value* chosen = value(row, values, select.operands[0], n);
  Value* usual = value(row, values, select.operands[2], n);
  if (n > 1) chosen = lanes_.within(chosen);
  Value* any = n == 1 ? chosen : lanes_.any(chosen);
  BasicBlock* rare = f_.block("rare");
  BasicBlock* after = f_.block("usual");
  BasicBlock* before = b_.GetInsertBlock();
  llvm::MDBuilder weights(f_.context());
  b_.CreateCondBr(any, rare, after, weights.createBranchWeights(1, 2000));
  b_.SetInsertPoint(rare);
  Value* result = n == 1 ? emit_rare_lane(row, guard, values, index)
                  : s.guarded <= kFewForAll || !row.varies[select.operands[0]]
                      ? b_.CreateSelect(chosen, emit_rare(row, guard, values, index, n), usual)
                      : emit_rare_lanes(row, guard, values, chosen, usual, index);
  rare = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  values[s.instr] = f_.meet({{rare, {result}}, {before, {usual}}})[0];
  return guard + s.guarded + 1;
}

// What the guarded code gives.
Value* SectionEmitter::emit_rare(Row& row, size_t guard, Values& values, Value* index, unsigned n) {
  const hlo::Scheduled& s = row.order[guard];
  for (size_t at = guard + 1; at <= guard + s.guarded; ++at) {
    const hlo::Scheduled& inner = row.order[at];
    if (inner.guarded)
      at = emit_guarded(row, at, values, index, n);
    else
      values[inner.instr] = emit_instr(row, (*row.section)[inner.instr], values, index, n);
  }
  return value(row, values, (*row.section)[s.instr].operands[1], n);
}

Value* SectionEmitter::emit_rare_lane(Row& row, size_t guard, Values& values, Value* index) {
  Value* called = call_rare(row, guard, values);
  return called ? called : emit_rare(row, guard, values, index, 1);
}

Value* SectionEmitter::call_rare(Row& row, size_t guard, const Values& values) {
  const Instrs& section = *row.section;
  const hlo::Scheduled& s = row.order[guard];
  std::string text;
  std::vector<uint32_t> read;
  llvm::DenseMap<uint32_t, size_t> made, given_as;
  Values inside(section.size(), nullptr);
  const auto name = [&](uint32_t id) {
    if (const auto known = made.find(id); known != made.end()) return absl::StrCat(" %", known->second);
    Value* v = value(row, values, id, 1);
    if (llvm::isa<llvm::Constant>(v)) {  // also of what varies, where the builder could fold it
      if (row.varies[id]) inside[id] = v;
      return absl::StrCat(" c", reinterpret_cast<uintptr_t>(v));  // one of its kind
    }
    if (given_as.try_emplace(id, read.size()).second) read.push_back(id);
    return absl::StrCat(" p", given_as[id], " ", static_cast<int>(section[id].type));
  };
  for (size_t at = guard + 1; at <= guard + s.guarded; ++at) {
    const hlo::Scheduled& inner = row.order[at];
    const KernelInstr& instr = section[inner.instr];
    if (instr.op != KernelOp::kPrim) return nullptr;
    if (inner.guarded) {
      text += absl::StrCat("guard ", inner.guarded, "\n");
      continue;
    }
    text += absl::StrCat(static_cast<int>(instr.type), " ", static_cast<int>(instr.prim), " ", instr.imm);
    for (int k = 0; k < hlo::prim_arity(instr.prim); ++k) text += name(instr.operands[k]);
    text += "\n";
    made.try_emplace(inner.instr, made.size());
  }
  const uint32_t result = section[s.instr].operands[1];
  text += name(result);

  Values given;
  for (uint32_t id : read) given.push_back(value(row, values, id, 1));
  const auto call = [&](llvm::Function* function) {
    llvm::CallInst* made = b_.CreateCall(function, given);
    made->setCallingConv(function->getCallingConv());
    return made;
  };
  if (const auto known = rare_functions_.find(text); known != rare_functions_.end())
    return call(known->second);
  std::vector<llvm::Type*> types;
  for (Value* v : given) types.push_back(v->getType());
  llvm::Function* function = f_.make_function("rare", f_.prims().type(section[result].type, 1), types,
                                              llvm::GlobalValue::InternalLinkage);
  function->setCallingConv(lanes_.rare_convention());
  rare_functions_.try_emplace(text, function);
  {
    const llvm::IRBuilderBase::InsertPointGuard back(b_);
    b_.SetInsertPoint(BasicBlock::Create(f_.context(), "entry", function));
    const Values around = row.uniform;
    for (size_t i = 0; i < read.size(); ++i)
      (row.varies[read[i]] ? inside : row.uniform)[read[i]] = function->getArg(static_cast<unsigned>(i));
    b_.CreateRet(emit_rare(row, guard, inside, nullptr, 1));
    row.uniform = around;
  }
  return call(function);
}

// The same for those of several lanes where `chosen` holds, and `usual` elsewhere.
Value* SectionEmitter::emit_rare_lanes(Row& row, size_t guard, const Values& values, Value* chosen,
                                       Value* usual, Value* index) {
  const Instrs& section = *row.section;
  const hlo::Scheduled& s = row.order[guard];
  std::vector<TypedValue> typed;
  for (size_t id = 0; id < section.size(); ++id) typed.push_back({values[id], section[id].type});
  std::vector<uint32_t> read;
  std::vector<bool> seen(section.size(), false);
  const auto reads = [&](uint32_t id) {
    if (row.varies[id] && values[id] && !seen[id]) read.push_back(id);
    seen[id] = true;
  };
  // What another guard's code has made is made again.
  for (size_t at = guard + 1; at <= guard + s.guarded; ++at) seen[row.order[at].instr] = true;
  for (size_t at = guard + 1; at <= guard + s.guarded; ++at)
    for_each_operand(kernel_, section[row.order[at].instr], reads);
  reads(section[s.instr].operands[1]);
  return lanes_.rarely(
      chosen, {usual, section[s.instr].type}, read, typed, [&](Values& some, Value* first, unsigned n) {
        Value* at = index ? b_.CreateAdd(index, first) : nullptr;
        return n == 1 ? emit_rare_lane(row, guard, some, at) : emit_rare(row, guard, some, at, n);
      });
}

}  // namespace lamina::jit::codegen
