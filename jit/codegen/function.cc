#include "jit/codegen/function.h"

#include <llvm/IR/Function.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

NativeForms native_forms(const llvm::Module& module, const FunctionBuilder::Attributes& attributes) {
  const llvm::StringRef triple = module.getTargetTriple();
  unsigned version = 0, vector_bits = 0;
  for (const auto& [key, value] : attributes) {
    llvm::StringRef chip = value;
    if (key == "target-cpu" && chip.consume_front("sm_")) chip.consumeInteger(10, version);
    if (key == "min-legal-vector-width") chip.consumeInteger(10, vector_bits);
  }
  // Code for processors of x86 asks for AVX2 at least, and takes AVX-512 for its widest vectors.
  if (triple.starts_with("x86_64")) return {.x86_bits = vector_bits >= 256 ? vector_bits : 0};
  if (!triple.starts_with("nvptx")) return {};
  return {.rounds_pairs = version >= 80, .nan_limits = version >= 80, .table_space = kGlobalSpace};
}

}  // namespace

FunctionBuilder::FunctionBuilder(const LoopKernel& kernel, llvm::Module& module, Attributes attributes)
    : module_(module),
      attributes_(std::move(attributes)),
      b_(module.getContext()),
      prims_(b_, native_forms(module, attributes_)),
      args_(kernel.num_args, nullptr),
      buffers_(kernel.buffers.size(), nullptr) {}

Value* FunctionBuilder::splat(Value* value, unsigned n) {
  return n == 1 ? value : b_.CreateVectorSplat(n, value);
}

llvm::Function* FunctionBuilder::make_function(const char* name, Type* result,
                                               llvm::ArrayRef<Type*> parameters,
                                               llvm::GlobalValue::LinkageTypes linkage) {
  auto* type = llvm::FunctionType::get(result, parameters, false);
  auto* function = llvm::Function::Create(type, linkage, name, module_);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  for (const auto& [key, value] : attributes_) function->addFnAttr(key, value);
  return function;
}

void FunctionBuilder::enter(llvm::Function* function, Value* buffers, Value* args) {
  buffers_table_ = buffers;
  args_table_ = args;
  begin(function);
}

void FunctionBuilder::enter(llvm::Function* function, Values buffers, Values args) {
  buffers_ = std::move(buffers);
  args_ = std::move(args);
  begin(function);
}

void FunctionBuilder::begin(llvm::Function* function) {
  b_.SetInsertPoint(BasicBlock::Create(context(), "entry", function));
  BasicBlock* start = block("start");
  entry_end_ = b_.CreateBr(start);
  b_.SetInsertPoint(start);
}

BasicBlock* FunctionBuilder::block(const char* name) {
  return BasicBlock::Create(context(), name, b_.GetInsertBlock()->getParent());
}

Values FunctionBuilder::meet(const std::vector<Way>& ways) {
  Values met;
  for (size_t i = 0; i < ways[0].second.size(); ++i) {
    llvm::PHINode* phi = b_.CreatePHI(ways[0].second[i]->getType(), ways.size());
    for (const auto& [from, values] : ways) phi->addIncoming(values[i], from);
    met.push_back(phi);
  }
  return met;
}

Values FunctionBuilder::loop(Value* begin, Value* end, Value* step, const Values& init,
                             const LoopBody& body) {
  BasicBlock* before = b_.GetInsertBlock();
  BasicBlock* inside = block("loop");
  BasicBlock* after = block("after");
  // Asked in another way than at the end of a turn: the code generator would make one place of the two tests,
  // with a jump to it in each turn.
  b_.CreateCondBr(b_.CreateICmpSGT(b_.CreateSub(end, begin), llvm::ConstantInt::get(begin->getType(), 0)),
                  inside, after);
  b_.SetInsertPoint(inside);
  llvm::PHINode* index = b_.CreatePHI(begin->getType(), 2);
  index->addIncoming(begin, before);
  Values carried;
  for (Value* v : init) {
    llvm::PHINode* phi = b_.CreatePHI(v->getType(), 2);
    phi->addIncoming(v, before);
    carried.push_back(phi);
  }
  const Values next_values = body(index, carried);
  Value* next = b_.CreateAdd(index, step);
  BasicBlock* latch = b_.GetInsertBlock();
  index->addIncoming(next, latch);
  for (size_t i = 0; i < carried.size(); ++i)
    llvm::cast<llvm::PHINode>(carried[i])->addIncoming(next_values[i], latch);
  b_.CreateCondBr(b_.CreateICmpSLT(next, end), inside, after);
  b_.SetInsertPoint(after);
  return meet({{before, init}, {latch, next_values}});
}

void FunctionBuilder::loop(Value* begin, Value* end, Value* step,
                           const std::function<void(Value* index)>& body) {
  loop(begin, end, step, {}, [&](Value* index, const Values&) -> Values {
    body(index);
    return {};
  });
}

void FunctionBuilder::if_then(Value* condition, const std::function<void()>& then) {
  BasicBlock* inside = block("then");
  BasicBlock* after = block("after");
  b_.CreateCondBr(condition, inside, after);
  b_.SetInsertPoint(inside);
  then();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
}

Value* FunctionBuilder::arg(uint32_t slot) {
  if (!args_[slot]) {
    llvm::IRBuilder<> at = at_entry();
    args_[slot] = at.CreateLoad(at.getInt64Ty(), at.CreateConstGEP1_64(at.getInt64Ty(), args_table_, slot));
  }
  return args_[slot];
}

// The lowest bytes come first: on every machine this is made for.
Value* FunctionBuilder::number(uint32_t slot, hlo::DType type) {
  if (!args_table_) {
    Value* bits = b_.CreateTrunc(args_[slot], b_.getIntNTy(static_cast<unsigned>(hlo::byte_size(type)) * 8));
    return b_.CreateBitCast(bits, prims_.type(type, 1));
  }
  Value* place = b_.CreateConstGEP1_64(b_.getInt64Ty(), args_table_, slot);
  llvm::LoadInst* load = b_.CreateLoad(prims_.type(type, 1), place);
  load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context(), {}));
  return load;
}

Value* FunctionBuilder::buffer(uint32_t index) {
  if (!buffers_[index]) {
    llvm::IRBuilder<> at = at_entry();
    buffers_[index] =
        at.CreateLoad(at.getPtrTy(), at.CreateConstGEP1_64(at.getPtrTy(), buffers_table_, index));
  }
  return buffers_[index];
}

Values FunctionBuilder::decompose(Value* linear, unsigned first, unsigned count) {
  Values result(count);
  for (unsigned d = count; d-- > 1;) {
    Value* extent = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, arg(first + d), i64(1));
    Value* quotient = b_.CreateUDiv(linear, extent);
    result[d] = b_.CreateSub(linear, b_.CreateMul(quotient, extent));
    linear = quotient;
  }
  if (count > 0) result[0] = linear;
  return result;
}

Values FunctionBuilder::increment(const Values& indices, unsigned first) {
  Values result = indices;
  Value* carry = b_.getTrue();
  for (size_t d = indices.size(); d-- > 0;) {
    Value* next = b_.CreateAdd(indices[d], b_.CreateZExt(carry, b_.getInt64Ty()));
    if (d == 0) {
      result[d] = next;
      break;
    }
    carry = b_.CreateICmpEQ(next, arg(first + d));
    result[d] = b_.CreateSelect(carry, i64(0), next);
  }
  return result;
}

}  // namespace lamina::jit::codegen
