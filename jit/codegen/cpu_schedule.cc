#include "jit/codegen/cpu_schedule.h"

#include <llvm/IR/Function.h>

#include <memory>
#include <string>

#include "jit/codegen/cpu_reduce.h"
#include "jit/codegen/cpu_tiles.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

FunctionBuilder::Attributes attributes_of(const TargetText& target) {
  const std::string bits = std::to_string(target.vector_bits);
  return {{"target-cpu", target.cpu},
          {"target-features", target.features},
          {"prefer-vector-width", bits},
          {"min-legal-vector-width", bits},
          {"no-builtins", ""}};
}

void emit_elementwise(CpuParts& c, const CpuBounds& bounds) {
  const LoopKernel& kernel = c.kernel;
  const int rank = kernel.parallel_rank;
  SectionEmitter::Uses uses = SectionEmitter::uses_of(kernel.stores);
  if (rank == 0) {
    c.lanes.poll_cancel();
    Row row = c.sections.begin(kernel.body, -1, {}, {uses.accesses, {}});
    c.sections.store(row, kernel.stores, {}, nullptr, 1);
    return;
  }
  c.f.loop(bounds.outer_begin, bounds.outer_end, c.f.i64(1), c.f.decompose(bounds.outer_begin, 0, rank - 1),
           [&](Value*, const Values& outer) {
             Values indices = outer;
             indices.push_back(nullptr);
             Row row = c.sections.begin(kernel.body, rank - 1, indices, uses);
             c.rows.whole(bounds.inner_begin, bounds.inner_end, [&](Value* i, unsigned n) {
               const Values values = c.sections.emit(row, i, n);
               c.sections.store(row, kernel.stores, values, i, n);
             });
             return c.f.increment(outer, 0);
           });
}

void emit_tiled(CpuParts& c, CpuTiles& tiles, const CpuBounds& bounds) {
  const LoopKernel& kernel = c.kernel;
  const SectionEmitter::Uses uses = SectionEmitter::uses_of(kernel.stores);
  tiles.emit(bounds, [&](const Values& indices, Value* begin, Value* end) {
    Row row = c.sections.begin(kernel.body, kernel.parallel_rank - 1, indices, uses);
    tiles.at_row(row);
    c.rows.part(begin, end, [&](Value* i, unsigned n) {
      const Values values = c.sections.emit(row, i, n);
      c.sections.store(row, kernel.stores, values, i, n);
    });
  });
}

}  // namespace

CpuParts::CpuParts(const LoopKernel& kernel, const TargetText& target, llvm::Module& module)
    : kernel(kernel),
      widths(kernel, target),
      f(kernel, module, attributes_of(target)),
      lanes(kernel, f),
      sections(kernel, f, lanes, widths.lanes),
      rows(kernel, f, lanes, widths) {}

unsigned emit_cpu_kernel(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
                         llvm::Module& module) {
  CpuParts c(kernel, target, module);
  std::unique_ptr<CpuReduction> reduction;
  std::unique_ptr<CpuTiles> tiles;
  if (kernel.has_reduction) reduction = make_cpu_reduction(c, schedule);
  if (const Turned turned = turned_accesses(kernel); schedule.tiles && !turned.accesses.empty())
    tiles = std::make_unique<CpuTiles>(c, turned);
  llvm::IRBuilder<>& b = c.f.builder();
  llvm::Type *pointer = b.getPtrTy(), *s64 = b.getInt64Ty();
  llvm::Function* entry =
      c.f.make_function(kEntryName, b.getInt32Ty(), {pointer, pointer, s64, s64, s64, s64, pointer},
                        llvm::GlobalValue::ExternalLinkage);
  c.f.enter(entry, entry->getArg(0), entry->getArg(1));
  c.lanes.enter(entry->getArg(6));
  const CpuBounds bounds{entry->getArg(2), entry->getArg(3), entry->getArg(4), entry->getArg(5)};
  Value* any = b.CreateAnd(b.CreateICmpSLT(bounds.outer_begin, bounds.outer_end),
                           b.CreateICmpSLT(bounds.inner_begin, bounds.inner_end));
  c.f.if_then(any, [&] {
    if (reduction)
      reduction->emit(bounds);
    else if (tiles)
      emit_tiled(c, *tiles, bounds);
    else
      emit_elementwise(c, bounds);
  });
  b.CreateRet(b.getInt32(0));
  return c.widths.lanes;
}

}  // namespace lamina::jit::codegen
