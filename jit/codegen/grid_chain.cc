// Kernels of a chain in one entry: the code of each, for the rows of this block, stands behind that of the
// one before, and threads meet in between.
#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <memory>
#include <string>

#include "jit/codegen/grid_reduce.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

void emit_part(GridParts& c, Value* begin, Value* end) {
  if (!c.kernel.has_reduction)
    emit_element_units(c, begin, end);
  else if (c.schedule.form == GridForm::kBlocks)
    emit_block_results(c, begin, end);
  else
    emit_half_warp_results(c, begin, end);
}

}  // namespace

llvm::Error emit_grid_chain(std::span<const GridPart> chain, llvm::Module& module,
                            const FunctionBuilder::Attributes& attributes) {
  if (absl::Status s = check_chain(chain); !s.ok())
    return llvm::createStringError(llvm::inconvertibleErrorCode(), std::string(s.message()));
  llvm::LLVMContext& context = module.getContext();
  llvm::Type *pointer = llvm::PointerType::get(context, kGlobalSpace), *s64 = llvm::Type::getInt64Ty(context);
  std::vector<std::unique_ptr<GridParts>> parts;
  std::vector<llvm::Type*> types;
  for (const GridPart& p : chain) {
    parts.push_back(std::make_unique<GridParts>(p.kernel, p.schedule, module, attributes, true));
    types.insert(types.end(), p.kernel.buffers.size(), pointer);
    types.insert(types.end(), p.kernel.num_args + 1, s64);
  }
  types.insert(types.end(), {s64, s64});
  llvm::Function* entry = make_entry(parts[0]->f, module, kGridChain, types);
  // As large as the largest part turns out to want.
  auto* any = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), 0);
  auto* pool = new llvm::GlobalVariable(module, any, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                        "pool", nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  Value *rows = entry->getArg(entry->arg_size() - 2), *block_rows = entry->getArg(entry->arg_size() - 1);
  int64_t shared = 0;
  unsigned at = 0;
  llvm::BasicBlock* before = nullptr;
  for (size_t p = 0; p < parts.size(); ++p) {
    GridParts& c = *parts[p];
    llvm::IRBuilder<>& b = c.f.builder();
    c.pool = pool;
    c.go_on_in(entry, at);
    llvm::BasicBlock* start = b.GetInsertBlock()->getSinglePredecessor();
    if (before) {
      llvm::IRBuilder<> link(before);
      link.CreateBr(start);
    }
    at += static_cast<unsigned>(c.kernel.buffers.size()) + c.kernel.num_args;
    Value* units = entry->getArg(at++);
    Value* first = b.CreateMul(c.rows.block(), block_rows);
    Value* last = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateAdd(first, block_rows), rows);
    emit_part(c, b.CreateMul(first, units), b.CreateMul(last, units));
    if (p + 1 < parts.size())
      c.rows.barrier();
    else
      c.leave();
    before = b.GetInsertBlock();
    shared = std::max(shared, c.taken);
  }
  if (shared > kMostSharedBytes)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "a kernel of the chain exceeds the memory that a block shares");
  if (shared > 0) {
    auto* type = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), static_cast<uint64_t>(shared));
    auto* sized = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                           llvm::PoisonValue::get(type), "lanes", nullptr,
                                           llvm::GlobalValue::NotThreadLocal, kSharedSpace);
    sized->setAlignment(llvm::Align(16));
    pool->replaceAllUsesWith(sized);
  }
  pool->eraseFromParent();
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
