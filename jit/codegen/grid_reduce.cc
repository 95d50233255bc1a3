#include "jit/codegen/grid_reduce.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>

#include <utility>

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

const Instrs kNone;

// combine(tree, init), or init if nothing was reduced; without one the tree.
Values with_init(GridParts& c, Row& inits, Value* index, Value* total, const Values& tree) {
  llvm::IRBuilder<>& b = c.f.builder();
  if (c.kernel.reduction.init.empty()) return tree;
  Values init;
  for (uint32_t access : c.kernel.reduction.init)
    init.push_back(c.lanes.load(inits, access, index, nullptr, 1));
  Values result = c.sections.combine(tree, init, 1);
  Value* empty = b.CreateICmpEQ(total, c.f.i64(0));
  for (size_t v = 0; v < result.size(); ++v) result[v] = b.CreateSelect(empty, init[v], result[v]);
  return result;
}

}  // namespace

llvm::Error emit_grid_reduction(GridParts& parts) {
  return parts.schedule.form == GridForm::kColumns ? emit_grid_columns(parts) : emit_grid_rows(parts);
}

Value* reduced_total(GridParts& parts) {
  return parts.rows.product(parts.kernel.parallel_rank, parts.kernel.reduce_rank);
}

Values lane_of(GridParts& parts, const Values& lanes, size_t k) {
  const auto first = lanes.begin() + static_cast<int64_t>(k * reduced_values(parts));
  return Values(first, first + static_cast<int64_t>(reduced_values(parts)));
}

Values no_lanes(GridParts& parts, size_t count) {
  Values none;
  for (size_t i = 0; i < count * reduced_values(parts); ++i)
    none.push_back(llvm::Constant::getNullValue(
        parts.f.prims().type(reduced_type(parts, i % reduced_values(parts)), 1)));
  return none;
}

// ---- chunks

// A row without elements has a chunk as well.
Value* chunks_of(GridParts& parts, Value* length) {
  return parts.f.builder().CreateBinaryIntrinsic(llvm::Intrinsic::smax,
                                                 parts.rows.parts(length, kReduceChunk), parts.f.i64(1));
}

GridChunk chunk_of(GridParts& parts, Value* task, Value* chunks, Value* length) {
  llvm::IRBuilder<>& b = parts.f.builder();
  Value* row = parts.rows.quotient(task, chunks);
  Value* start = b.CreateMul(b.CreateSub(task, b.CreateMul(row, chunks)), parts.f.i64(kReduceChunk));
  Value* end =
      b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b.CreateAdd(start, parts.f.i64(kReduceChunk)), length);
  return {row, start, end};
}

Value* partial_address(GridParts& parts, Value* scratch, Value* number, size_t v) {
  llvm::IRBuilder<>& b = parts.f.builder();
  Value* slot = b.CreateAdd(b.CreateMul(number, parts.f.i64(static_cast<int64_t>(reduced_values(parts)))),
                            parts.f.i64(static_cast<int64_t>(v)));
  return b.CreateGEP(b.getInt8Ty(), scratch, b.CreateMul(slot, parts.f.i64(kPartialBytes)));
}

void store_partial(GridParts& parts, Value* scratch, Value* number, const Values& result) {
  for (size_t v = 0; v < result.size(); ++v)
    parts.f.builder().CreateAlignedStore(parts.f.prims().to_memory(result[v], reduced_type(parts, v), 1),
                                         partial_address(parts, scratch, number, v),
                                         llvm::Align(kPartialBytes));
}

// ---- elements

RowElements::RowElements(GridParts& parts, Values parallel) : c_(parts), parallel_(std::move(parallel)) {
  if (c_.kernel.reduce_rank != 1) return;
  Values indices = parallel_;
  indices.push_back(nullptr);
  row_ =
      c_.sections.begin(c_.kernel.body, c_.kernel.parallel_rank, indices, {{}, c_.kernel.reduction.inputs});
}

Values RowElements::values_at(Row& row, Value* index) {
  const Values values = c_.sections.emit(row, index, 1);
  Values element;
  for (uint32_t id : c_.kernel.reduction.inputs) element.push_back(c_.sections.value(row, values, id, 1));
  return element;
}

std::vector<Values> RowElements::at(unsigned lanes, const Values& starts, Value* end, bool whole) {
  std::vector<Values> made;
  if (c_.kernel.reduce_rank == 1) {
    c_.lanes.part(row_, {lanes, starts, end, whole}, {},
                  [&](Value* index, unsigned) { made.push_back(values_at(row_, index)); });
    return made;
  }
  // Of several dimensions: each element by its row-major number.
  llvm::IRBuilder<>& b = c_.f.builder();
  Value* last = b.CreateSub(end, c_.f.i64(1));
  for (Value* start : starts)
    for (unsigned k = 0; k < lanes; ++k) {
      Value* number = b.CreateAdd(start, c_.f.i64(k));
      if (!whole) number = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, number, last);
      Values indices = parallel_;
      const Values reduced = c_.rows.decompose(number, c_.kernel.parallel_rank, c_.kernel.reduce_rank);
      indices.insert(indices.end(), reduced.begin(), reduced.end());
      Value* index = std::exchange(indices.back(), nullptr);
      const int dim = c_.kernel.parallel_rank + c_.kernel.reduce_rank - 1;
      Row row = c_.sections.begin(c_.kernel.body, dim, indices, {{}, c_.kernel.reduction.inputs});
      made.push_back(values_at(row, index));
    }
  return made;
}

// ---- shared memory

SharedTree::SharedTree(GridParts& parts, int64_t rows, int64_t columns, unsigned lanes)
    : c_(parts), f_(parts.f), b_(f_.builder()), columns_(columns), lanes_(lanes) {
  for (size_t v = 0; v < reduced_values(c_); ++v) {
    offsets_.push_back(bytes_);
    bytes_ += rows * columns * hlo::byte_size(reduced_type(c_, v));
  }
}

void SharedTree::enter(Value* row, Value* column) {
  shared_ = c_.shared_memory(bytes_);
  row_ = row;
  column_ = column;
}

Value* SharedTree::address(Value* row, unsigned k, size_t v) {
  Value* number = b_.CreateAdd(b_.CreateMul(row, f_.i64(columns_)), b_.CreateAdd(column_, f_.i64(k)));
  Value* base = b_.CreateConstGEP1_64(b_.getInt8Ty(), shared_, static_cast<uint64_t>(offsets_[v]));
  return b_.CreateGEP(f_.prims().memory_type(reduced_type(c_, v), 1), base, number);
}

void SharedTree::publish(Value* row, const Values& lanes) {
  for (unsigned k = 0; k < lanes_; ++k)
    for (size_t v = 0; v < reduced_values(c_); ++v) {
      const DType t = reduced_type(c_, v);
      b_.CreateAlignedStore(f_.prims().to_memory(lane_of(c_, lanes, k)[v], t, 1), address(row, k, v),
                            llvm::Align(static_cast<uint64_t>(hlo::byte_size(t))));
    }
}

Values SharedTree::published(Value* row, unsigned k) {
  Values e;
  for (size_t v = 0; v < reduced_values(c_); ++v) {
    const DType t = reduced_type(c_, v);
    Value* raw = c_.lanes.load_one(f_.prims().memory_type(t, 1), address(row, k, v), nullptr, false);
    e.push_back(f_.prims().from_memory(raw, t, 1));
  }
  return e;
}

// Each step reads what the one before has published.
Values SharedTree::fold(Values lanes, Value* count, int64_t stride) {
  publish(row_, lanes);
  for (; stride > 0; stride /= 2) {
    c_.rows.barrier();
    Value* partner = b_.CreateAdd(row_, f_.i64(stride));
    Value* folds = b_.CreateAnd(b_.CreateICmpSLT(row_, f_.i64(stride)), b_.CreateICmpSLT(partner, count));
    BasicBlock *before = b_.GetInsertBlock(), *inside = f_.block("fold"), *after = f_.block("folded");
    b_.CreateCondBr(folds, inside, after);
    b_.SetInsertPoint(inside);
    Values next;
    for (unsigned k = 0; k < lanes_; ++k) {
      const Values r = c_.sections.combine(lane_of(c_, lanes, k), published(partner, k), 1);
      next.insert(next.end(), r.begin(), r.end());
    }
    publish(row_, next);
    inside = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    lanes = f_.meet({{before, lanes}, {inside, next}});
  }
  return lanes;
}

// ---- what follows

void finish_one(GridParts& c, const Values& indices, Value* total, const Values& tree) {
  Row inits = c.sections.begin(kNone, -1, indices, {c.kernel.reduction.init, {}});
  const Values results = with_init(c, inits, nullptr, total, tree);
  Row row = c.sections.begin(c.kernel.epilogue, -1, indices,
                             {SectionEmitter::uses_of(c.kernel.stores).accesses, {}},
                             [&](uint64_t v, Value*, unsigned) { return results[v]; });
  c.sections.store(row, c.kernel.stores, {}, nullptr, 1);
}

void finish_part(GridParts& c, const Values& indices, Value* total, const GridLanes::Part& part,
                 const std::vector<Values>& tree) {
  const int dim = c.kernel.parallel_rank - 1;
  Values results;
  Row inits = c.sections.begin(kNone, dim, indices, {c.kernel.reduction.init, {}});
  Row row = c.sections.begin(c.kernel.epilogue, dim, indices, SectionEmitter::uses_of(c.kernel.stores),
                             [&](uint64_t v, Value*, unsigned) { return results[v]; });
  c.lanes.part(row, part, c.kernel.stores, [&](Value* index, unsigned number) {
    results = with_init(c, inits, index, total, tree[number]);
    const Values values = c.sections.emit(row, index, 1);
    c.sections.store(row, c.kernel.stores, values, index, 1);
  });
}

}  // namespace lamina::jit::codegen
