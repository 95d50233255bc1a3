#include "jit/codegen/grid_schedule.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Metadata.h>

#include <string>

#include "jit/codegen/grid_reduce.h"
#include "jit/kernel/grid_tiles.h"

namespace lamina::jit::codegen {

using llvm::Value;

GridParts::GridParts(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
                     FunctionBuilder::Attributes attributes)
    : kernel(kernel),
      schedule(schedule),
      module(module),
      f(kernel, module, std::move(attributes)),
      lanes(kernel, f),
      sections(kernel, f, lanes, 1),
      rows(kernel, f) {}

GridParts::Extra GridParts::enter(std::string_view name, bool partials) {
  llvm::IRBuilder<>& b = f.builder();
  llvm::Type *pointer = b.getPtrTy(kGlobalSpace), *s64 = b.getInt64Ty();
  const bool stops = holds_question(kernel);
  std::vector<llvm::Type*> types(kernel.buffers.size(), pointer);
  types.insert(types.end(), kernel.num_args, s64);
  if (stops) types.push_back(pointer);
  if (partials) types.insert(types.end(), {pointer, pointer, s64});
  llvm::Function* entry =
      f.make_function(std::string(name).c_str(), b.getVoidTy(), types, llvm::GlobalValue::ExternalLinkage);
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  const auto number = [&](int64_t n) {
    return llvm::ConstantAsMetadata::get(b.getInt32(static_cast<uint32_t>(n)));
  };
  llvm::MDNode* threads =
      llvm::MDNode::get(f.context(), {llvm::ValueAsMetadata::get(entry),
                                      llvm::MDString::get(f.context(), "reqntidx"), number(kGridThreads)});
  module.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(threads);

  unsigned at = 0;
  const auto take = [&](size_t count) {
    Values values;
    for (size_t i = 0; i < count; ++i) values.push_back(entry->getArg(at++));
    return values;
  };
  Values buffers = take(kernel.buffers.size());
  Values args = take(kernel.num_args);
  f.enter(entry, std::move(buffers), std::move(args));
  lanes.enter(stops ? take(1)[0] : nullptr);
  if (!partials) return {};
  const Values extra = take(3);
  return {extra[0], extra[1], extra[2]};
}

Value* GridParts::shared_memory(int64_t bytes) {
  auto* type = llvm::ArrayType::get(f.builder().getInt8Ty(), static_cast<uint64_t>(bytes));
  auto* shared = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                          llvm::PoisonValue::get(type), "lanes", nullptr,
                                          llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  shared->setAlignment(llvm::Align(16));
  return shared;
}

namespace {

void emit_elements(GridParts& c) {
  const LoopKernel& kernel = c.kernel;
  llvm::IRBuilder<>& b = c.f.builder();
  const SectionEmitter::Uses uses = SectionEmitter::uses_of(kernel.stores);
  c.enter(kGridEntry, false);
  const int rank = kernel.parallel_rank;
  if (rank == 0) {
    Value* first = b.CreateICmpEQ(b.CreateOr(c.rows.block(), c.rows.thread()), c.f.i64(0));
    c.f.if_then(first, [&] {
      Row row = c.sections.begin(kernel.body, -1, {}, {uses.accesses, {}});
      c.sections.store(row, kernel.stores, {}, nullptr, 1);
    });
  } else {
    const GridRows::Mine mine = c.rows.elements(c.schedule);
    c.f.if_then(mine.any, [&] {
      Values indices = c.rows.decompose(mine.row, 0, static_cast<unsigned>(rank) - 1);
      indices.push_back(nullptr);
      Row row = c.sections.begin(kernel.body, rank - 1, indices, uses);
      c.lanes.part(row, mine.part, kernel.stores, [&](Value* i, unsigned) {
        const Values values = c.sections.emit(row, i, 1);
        c.sections.store(row, kernel.stores, values, i, 1);
      });
    });
  }
  c.leave();
}

llvm::Error refusal(const absl::Status& status) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), std::string(status.message()));
}

}  // namespace

llvm::Error emit_grid_kernel(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
                             FunctionBuilder::Attributes attributes) {
  if (absl::Status status = grid_takes(kernel); !status.ok()) return refusal(status);
  if (kernel.has_reduction != reduces(schedule))
    return refusal(absl::InvalidArgumentError("a schedule of elements for a reduction, or the reverse"));
  const bool tiles = schedule.form == GridForm::kTiles;
  if (tiles)
    if (absl::Status status = takes_tiles(kernel, schedule); !status.ok()) return refusal(status);
  GridParts c(kernel, schedule, module, std::move(attributes));
  if (kernel.has_reduction) return emit_grid_reduction(c);
  if (tiles)
    emit_grid_tiles(c);
  else
    emit_elements(c);
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
