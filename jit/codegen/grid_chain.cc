// Kernels of a chain in one entry: the code of each, for the rows of this block, stands behind that of the
// one before, and threads meet in between; or, of rows that are held, the code of all for one line.
#include <llvm/IR/Function.h>
#include <llvm/IR/Intrinsics.h>

#include <memory>
#include <string>

#include "jit/codegen/grid_reduce.h"
#include "jit/kernel/grid_held.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

void emit_part(GridParts& c, Value* begin, Value* end) {
  if (!c.kernel.has_reduction)
    emit_element_units(c, begin, end);
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
  Value *rows = entry->getArg(entry->arg_size() - 2), *block_rows = entry->getArg(entry->arg_size() - 1);
  const bool holds = holds_rows(chain);
  const size_t says_lines = line_kernel(chain);
  Value *lines_begin = nullptr, *lines_end = nullptr;
  unsigned at = 0;
  llvm::BasicBlock* before = nullptr;
  for (size_t p = 0; p < parts.size(); ++p) {
    GridParts& c = *parts[p];
    llvm::IRBuilder<>& b = c.f.builder();
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
    if (holds) {
      if (p == says_lines) lines_begin = b.CreateMul(first, units);
      if (p == says_lines) lines_end = b.CreateMul(last, units);
    } else {
      emit_part(c, b.CreateMul(first, units), b.CreateMul(last, units));
      if (p + 1 < parts.size()) c.rows.barrier();
    }
    before = b.GetInsertBlock();
  }
  if (holds) {
    parts[0]->f.builder().SetInsertPoint(before);
    emit_held_lines(chain, parts, lines_begin, lines_end);
    parts[0]->leave();
  } else {
    parts.back()->leave();
  }
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
