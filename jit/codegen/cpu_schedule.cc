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

// Calls that store less leave it where the next kernel finds it.
constexpr int64_t kLeastStreamed = int64_t{1} << 20;

// Whether a call stores much, and nothing over what it reads: its lines are in the caches then.
Value* streams_in(CpuParts& c, const CpuBounds& bounds) {
  llvm::IRBuilder<>& b = c.f.builder();
  Value* elements = b.CreateMul(b.CreateSub(bounds.outer_end, bounds.outer_begin),
                                b.CreateSub(bounds.inner_end, bounds.inner_begin));
  Value* streams = b.getTrue();
  for (const Store& s : c.kernel.stores) {
    const uint32_t written = c.kernel.accesses[s.access].buffer;
    const int64_t bytes = hlo::byte_size(c.kernel.buffers[written].type);
    streams = b.CreateAnd(streams, b.CreateICmpSGE(elements, c.f.i64(kLeastStreamed / bytes)));
    for (uint32_t read = 0; read < c.kernel.buffers.size(); ++read)
      if (!c.kernel.buffers[read].written)
        streams = b.CreateAnd(streams, b.CreateICmpNE(c.f.buffer(written), c.f.buffer(read)));
  }
  return streams;
}

// Whether the vectors of a row begin where vectors may be stored past the caches.
Value* row_streams(CpuParts& c, const CpuBounds& bounds, const Values& outer) {
  llvm::IRBuilder<>& b = c.f.builder();
  Values first = outer;
  first.push_back(bounds.inner_begin);
  Value* bits = c.f.i64(0);
  for (const Store& s : c.kernel.stores)
    bits = b.CreateOr(bits, b.CreatePtrToInt(c.lanes.place_of(s.access, first).first, b.getInt64Ty()));
  return b.CreateICmpEQ(b.CreateAnd(bits, c.f.i64(kStreamAlign - 1)), c.f.i64(0));
}

void emit_row(CpuParts& c, const CpuBounds& bounds, const Values& outer) {
  const LoopKernel& kernel = c.kernel;
  const int dim = kernel.parallel_rank - 1;
  Values indices = outer;
  indices.push_back(nullptr);
  const auto part = [&](Value* begin, Value* end, const Stretch* stretch) {
    Row row = c.sections.begin(kernel.body, dim, indices, SectionEmitter::uses_of(kernel.stores), nullptr,
                               nullptr, stretch);
    c.rows.whole(begin, end, [&](Value* i, unsigned n) {
      const Values values = c.sections.emit(row, i, n);
      c.sections.store(row, kernel.stores, values, i, n);
    });
  };
  const SteadyConditions steady(kernel.body, dim);
  if (steady.empty() || !kernel.repeats.empty()) {
    part(bounds.inner_begin, bounds.inner_end, nullptr);
    return;
  }
  llvm::IRBuilder<>& b = c.f.builder();
  llvm::BasicBlock *before = b.GetInsertBlock(), *stretch = c.f.block("stretch"),
                   *done = c.f.block("row_done");
  b.CreateBr(stretch);
  b.SetInsertPoint(stretch);
  llvm::PHINode* begin = b.CreatePHI(b.getInt64Ty(), 2);
  begin->addIncoming(bounds.inner_begin, before);
  Value* end = steady.next(c.f, begin, bounds.inner_end);
  const Stretch here{steady, begin};
  part(begin, end, &here);
  begin->addIncoming(end, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(end, bounds.inner_end), stretch, done);
  b.SetInsertPoint(done);
}

void emit_elementwise(CpuParts& c, const CpuBounds& bounds, bool may_stream) {
  const LoopKernel& kernel = c.kernel;
  const int rank = kernel.parallel_rank;
  if (rank == 0) {
    c.lanes.poll_cancel();
    Row row = c.sections.begin(kernel.body, -1, {}, {SectionEmitter::uses_of(kernel.stores).accesses, {}});
    c.sections.store(row, kernel.stores, {}, nullptr, 1);
    return;
  }
  llvm::IRBuilder<>& b = c.f.builder();
  Value* call_streams = may_stream ? streams_in(c, bounds) : nullptr;
  c.f.loop(bounds.outer_begin, bounds.outer_end, c.f.i64(1), c.f.decompose(bounds.outer_begin, 0, rank - 1),
           [&](Value*, const Values& outer) {
             if (may_stream) {
               Value* streams = b.CreateAnd(call_streams, row_streams(c, bounds, outer));
               c.lanes.stream_stores(true);
               c.f.if_then(streams, [&] { emit_row(c, bounds, outer); });
               c.lanes.stream_stores(false);
               c.f.if_then(b.CreateNot(streams), [&] { emit_row(c, bounds, outer); });
             } else {
               emit_row(c, bounds, outer);
             }
             return c.f.increment(outer, 0);
           });
  // Stores past the caches are in no order with others until then.
  if (may_stream) b.CreateFence(llvm::AtomicOrdering::SequentiallyConsistent);
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

CpuParts::CpuParts(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
                   llvm::Module& module)
    : kernel(kernel),
      widths(kernel, schedule, target),
      f(kernel, module, attributes_of(target)),
      lanes(kernel, f, target.vector_bits / 8, target.has_masks,
            schedule.lanes == 0 && !kernel.has_reduction),
      sections(kernel, f, lanes, widths.lanes),
      rows(kernel, f, lanes, widths) {}

unsigned emit_cpu_kernel(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
                         llvm::Module& module) {
  CpuParts c(kernel, schedule, target, module);
  std::unique_ptr<CpuReduction> reduction;
  std::unique_ptr<CpuTiles> tiles;
  if (kernel.has_reduction) reduction = make_cpu_reduction(c, schedule);
  if (const Turned turned = turned_accesses(kernel);
      !kernel.has_reduction && schedule.tiles && !turned.accesses.empty())
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
      emit_elementwise(c, bounds, schedule.streams);
  });
  b.CreateRet(b.getInt32(0));
  return c.widths.lanes;
}

}  // namespace lamina::jit::codegen
