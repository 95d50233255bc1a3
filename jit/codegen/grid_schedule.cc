#include "jit/codegen/grid_schedule.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Function.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Metadata.h>

#include <string>

#include "jit/codegen/grid_reduce.h"
#include "jit/kernel/grid_sort.h"
#include "jit/kernel/grid_tiles.h"

namespace lamina::jit::codegen {

using llvm::Value;

GridParts::GridParts(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
                     FunctionBuilder::Attributes attributes, bool chained)
    : kernel(kernel),
      schedule(schedule),
      module(module),
      f(kernel, module, std::move(attributes)),
      lanes(kernel, f, chained, schedule.exact),
      sections(kernel, f, lanes, 1),
      rows(kernel, f) {}

llvm::Function* make_entry(FunctionBuilder& f, llvm::Module& module, std::string_view name,
                           llvm::ArrayRef<llvm::Type*> types) {
  llvm::IRBuilder<>& b = f.builder();
  llvm::Function* entry =
      f.make_function(std::string(name).c_str(), b.getVoidTy(), types, llvm::GlobalValue::ExternalLinkage);
  entry->setCallingConv(llvm::CallingConv::PTX_Kernel);
  llvm::Metadata* threads = llvm::ConstantAsMetadata::get(b.getInt32(static_cast<uint32_t>(kGridThreads)));
  module.getOrInsertNamedMetadata("nvvm.annotations")
      ->addOperand(llvm::MDNode::get(f.context(), {llvm::ValueAsMetadata::get(entry),
                                                   llvm::MDString::get(f.context(), "reqntidx"), threads}));
  return entry;
}

Values GridParts::take(llvm::Function* function, unsigned& at, size_t count) {
  Values values;
  for (size_t i = 0; i < count; ++i) values.push_back(function->getArg(at++));
  return values;
}

GridParts::Extra GridParts::enter(std::string_view name, bool partials) {
  llvm::IRBuilder<>& b = f.builder();
  llvm::Type *pointer = b.getPtrTy(kGlobalSpace), *s64 = b.getInt64Ty();
  const bool stops = holds_question(kernel);
  std::vector<llvm::Type*> types(kernel.buffers.size(), pointer);
  types.insert(types.end(), kernel.num_args, s64);
  if (stops) types.push_back(pointer);
  if (partials) types.insert(types.end(), {pointer, pointer, s64});
  llvm::Function* entry = make_entry(f, module, name, types);
  go_on_in(entry, 0);
  auto at = static_cast<unsigned>(kernel.buffers.size() + kernel.num_args);
  if (stops) lanes.enter(take(entry, at, 1)[0]);
  if (!partials) return {};
  const Values extra = take(entry, at, 3);
  return {extra[0], extra[1], extra[2]};
}

void GridParts::go_on_in(llvm::Function* function, unsigned first) {
  Values buffers = take(function, first, kernel.buffers.size());
  Values args = take(function, first, kernel.num_args);
  f.enter(function, std::move(buffers), std::move(args));
  lanes.enter(nullptr);
}

Value* GridParts::shared_memory(int64_t bytes) {
  constexpr int64_t kAlign = 16;
  auto* type = llvm::ArrayType::get(f.builder().getInt8Ty(), static_cast<uint64_t>(bytes));
  auto* shared = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage,
                                          llvm::PoisonValue::get(type), "lanes", nullptr,
                                          llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  shared->setAlignment(llvm::Align(kAlign));
  return shared;
}

namespace {

// The elements of one thread of the schedule, whose number among all threads this is.
void emit_elements_of(GridParts& c, Value* number, const SectionEmitter::Uses& uses) {
  const auto rank = static_cast<unsigned>(c.kernel.parallel_rank);
  const GridRows::Mine mine = c.rows.elements(c.schedule, number);
  c.f.if_then(mine.any, [&] {
    Values indices = c.rows.decompose(mine.row, 0, rank - 1);
    indices.push_back(nullptr);
    Row row = c.sections.begin(c.kernel.body, static_cast<int>(rank) - 1, indices, uses);
    c.lanes.part(row, mine.part, c.kernel.stores, [&](Value* i, unsigned) {
      const Values values = c.sections.emit(row, i, 1);
      c.sections.store(row, c.kernel.stores, values, i, 1);
    });
  });
}

void emit_elements(GridParts& c) {
  llvm::IRBuilder<>& b = c.f.builder();
  const SectionEmitter::Uses uses = SectionEmitter::uses_of(c.kernel.stores);
  c.enter(kGridEntry, false);
  if (c.kernel.parallel_rank == 0) {
    Value* first = b.CreateICmpEQ(b.CreateOr(c.rows.block(), c.rows.thread()), c.f.i64(0));
    c.f.if_then(first, [&] {
      Row row = c.sections.begin(c.kernel.body, -1, {}, {uses.accesses, {}});
      c.sections.store(row, c.kernel.stores, {}, nullptr, 1);
    });
  } else {
    emit_elements_of(c, b.CreateAdd(b.CreateMul(c.rows.block(), c.f.i64(kGridThreads)), c.rows.thread()),
                     uses);
  }
  c.leave();
}

llvm::Error refusal(const absl::Status& status) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), std::string(status.message()));
}

}  // namespace

void emit_element_units(GridParts& c, Value* begin, Value* end) {
  llvm::IRBuilder<>& b = c.f.builder();
  const SectionEmitter::Uses uses = SectionEmitter::uses_of(c.kernel.stores);
  Value* threads = c.rows.threads_of_row(c.schedule);
  c.f.loop(b.CreateAdd(b.CreateMul(begin, threads), c.rows.thread()), b.CreateMul(end, threads),
           c.f.i64(kGridThreads), [&](Value* number) { emit_elements_of(c, number, uses); });
}

llvm::Error emit_grid_kernel(const LoopKernel& kernel, const GridSchedule& schedule, llvm::Module& module,
                             FunctionBuilder::Attributes attributes) {
  if (absl::Status status = grid_takes(kernel); !status.ok()) return refusal(status);
  if (kernel.has_reduction != reduces(schedule))
    return refusal(absl::InvalidArgumentError("a schedule of elements for a reduction, or the reverse"));
  if (kernel.before.has_value() != sorts(schedule))
    return refusal(absl::InvalidArgumentError("a schedule of sorts for another kernel, or the reverse"));
  if (kernel.before)
    if (absl::Status status = takes_sort(kernel, schedule); !status.ok()) return refusal(status);
  if (schedule.form == GridForm::kHeld)
    return refusal(absl::InvalidArgumentError("a schedule of chains for a kernel by itself"));
  const bool tiles = schedule.form == GridForm::kTiles;
  if (tiles)
    if (absl::Status status = takes_tiles(kernel, schedule); !status.ok()) return refusal(status);
  GridParts c(kernel, schedule, module, std::move(attributes));
  if (kernel.has_reduction) return emit_grid_reduction(c);
  if (kernel.before)
    emit_grid_sort(c);
  else if (tiles)
    emit_grid_tiles(c);
  else
    emit_elements(c);
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
