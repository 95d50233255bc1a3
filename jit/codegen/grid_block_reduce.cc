// Chunks of rows that are few: a block to each, so that a device has enough threads.
//
// All threads load and make elements, a stage of them at a time, and leave them in shared memory; as many
// threads as the tree has lanes walk the stage in order, while the loads of the next one are under way.
#include "jit/codegen/grid_reduce.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

class BlockReduction {
 public:
  explicit BlockReduction(GridParts& parts)
      : c_(parts),
        f_(parts.f),
        b_(f_.builder()),
        lanes_(tree_lanes(parts.kernel)),
        per_thread_(static_cast<unsigned>(row_lanes(parts.kernel))),
        stage_(kGridThreads * per_thread_ * parts.schedule.vectors),
        tree_(parts, kGridThreads, 1, 1) {
    for (size_t v = 0; v < reduced_values(c_); ++v) {
      offsets_.push_back(bytes_);
      bytes_ += stage_ * hlo::byte_size(reduced_type(c_, v));
    }
  }
  int64_t bytes() const { return bytes_ + tree_.bytes(); }
  void emit();
  void results(Value* first, Value* last);

 private:
  Value* address(Value* element, size_t v);
  Values load(RowElements& elements, Value* base, Value* end);
  void keep(const Values& made);
  Values walk(Value* first_stage, Value* count, const Values& lane);
  void begin();
  Values reduce(RowElements& elements, Value* chunk_start, Value* chunk_end);

  GridParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t lanes_;        // L
  const unsigned per_thread_;  // elements of a vector
  const int64_t stage_;        // elements of all threads' vectors
  SharedTree tree_;
  int64_t bytes_ = 0;
  std::vector<int64_t> offsets_;
  Value *shared_ = nullptr, *thread_ = nullptr;
};

// Of an element of the stage.
Value* BlockReduction::address(Value* element, size_t v) {
  Value* base = b_.CreateConstGEP1_64(b_.getInt8Ty(), shared_, static_cast<uint64_t>(offsets_[v]));
  return b_.CreateGEP(f_.prims().memory_type(reduced_type(c_, v), 1), base, element);
}

// This thread's elements of the stage that begins at `base`.
Values BlockReduction::load(RowElements& elements, Value* base, Value* end) {
  Values starts;
  for (uint32_t j = 0; j < c_.schedule.vectors; ++j) {
    Value* vector = b_.CreateAdd(thread_, f_.i64(j * kGridThreads));
    starts.push_back(b_.CreateAdd(base, b_.CreateMul(vector, f_.i64(per_thread_))));
  }
  Values made;
  for (const Values& e : elements.at(per_thread_, starts, end, false))
    made.insert(made.end(), e.begin(), e.end());
  return made;
}

void BlockReduction::keep(const Values& made) {
  const size_t m = reduced_values(c_);
  for (size_t i = 0; i < made.size() / m; ++i) {
    Value* vector = b_.CreateAdd(thread_, f_.i64(static_cast<int64_t>(i / per_thread_) * kGridThreads));
    Value* element = b_.CreateAdd(b_.CreateMul(vector, f_.i64(per_thread_)),
                                  f_.i64(static_cast<int64_t>(i % per_thread_)));
    for (size_t v = 0; v < m; ++v) {
      const DType t = reduced_type(c_, v);
      b_.CreateAlignedStore(f_.prims().to_memory(made[i * m + v], t, 1), address(element, v),
                            llvm::Align(static_cast<uint64_t>(hlo::byte_size(t))));
    }
  }
}

// This thread's lane after the `count` elements of a stage.
Values BlockReduction::walk(Value* first_stage, Value* count, const Values& lane) {
  Value* begin = b_.CreateSelect(b_.CreateICmpSLT(thread_, f_.i64(lanes_)), thread_, count);
  return f_.loop(begin, count, f_.i64(lanes_), lane, [&](Value* element, const Values& entering) {
    Values e;
    for (size_t v = 0; v < reduced_values(c_); ++v) {
      const DType t = reduced_type(c_, v);
      Value* raw = c_.lanes.load_one(f_.prims().memory_type(t, 1), address(element, v), nullptr, false);
      e.push_back(f_.prims().from_memory(raw, t, 1));
    }
    Values r = c_.sections.combine(entering, e, 1);
    Value* first = b_.CreateAnd(first_stage, b_.CreateICmpEQ(element, thread_));
    for (size_t v = 0; v < r.size(); ++v) r[v] = b_.CreateSelect(first, e[v], r[v]);
    return r;
  });
}

// What the chunk's elements give, in the first thread.
Values BlockReduction::reduce(RowElements& elements, Value* chunk_start, Value* chunk_end) {
  // A chunk without elements has no stage, and nothing to load.
  Values first;
  Value* any = b_.CreateICmpSLT(chunk_start, chunk_end);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *some = f_.block("load"), *after = f_.block("loaded");
  b_.CreateCondBr(any, some, after);
  b_.SetInsertPoint(some);
  first = load(elements, chunk_start, chunk_end);
  some = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  const size_t own = per_thread_ * c_.schedule.vectors;
  Values carried = f_.meet({{before, no_lanes(c_, own)}, {some, first}});
  const Values lane = no_lanes(c_, 1);
  carried.insert(carried.end(), lane.begin(), lane.end());
  const Values ended =
      f_.loop(chunk_start, chunk_end, f_.i64(stage_), carried, [&](Value* base, const Values& entering) {
        const auto split = entering.begin() + static_cast<int64_t>(own * reduced_values(c_));
        keep(Values(entering.begin(), split));
        c_.rows.barrier();
        Values next = load(elements, b_.CreateAdd(base, f_.i64(stage_)), chunk_end);
        Value* left = b_.CreateSub(chunk_end, base);
        Value* count = b_.CreateSelect(b_.CreateICmpSLT(left, f_.i64(stage_)), left, f_.i64(stage_));
        const Values walked = walk(b_.CreateICmpEQ(base, chunk_start), count, Values(split, entering.end()));
        c_.rows.barrier();
        next.insert(next.end(), walked.begin(), walked.end());
        return next;
      });
  const Values mine(ended.begin() + static_cast<int64_t>(own * reduced_values(c_)), ended.end());
  return tree_.fold(mine, b_.CreateSub(chunk_end, chunk_start), lanes_ / 2);
}

void BlockReduction::begin() {
  shared_ = c_.shared_memory(bytes_);
  thread_ = c_.rows.thread();
  tree_.enter(thread_, f_.i64(0));
}

void BlockReduction::emit() {
  const GridParts::Extra extra = c_.enter(kGridChunks, true);
  begin();
  Value* task = c_.rows.block();
  Value* total = reduced_total(c_);
  const GridChunk chunk = chunk_of(c_, task, chunks_of(c_, total), total);
  RowElements elements(c_, c_.rows.decompose(chunk.row, 0, c_.kernel.parallel_rank));
  const Values result = reduce(elements, chunk.start, chunk.end);
  f_.if_then(b_.CreateICmpEQ(thread_, f_.i64(0)), [&] { store_partial(c_, extra.to, task, result); });
  c_.leave();
}

// Of a chain. Results of chunks are lanes of a tree of their own, and each is kept by one thread.
void BlockReduction::results(Value* first, Value* last) {
  begin();
  SharedTree chunk_results(c_, lanes_, 1, 1);
  chunk_results.enter(thread_, f_.i64(0));
  Value* total = reduced_total(c_);
  Value* chunks = chunks_of(c_, total);
  Value* leads = b_.CreateICmpEQ(thread_, f_.i64(0));
  f_.loop(first, last, f_.i64(1), [&](Value* task) {
    const Values parallel = c_.rows.decompose(task, 0, c_.kernel.parallel_rank);
    RowElements elements(c_, parallel);
    Values result = f_.loop(f_.i64(0), chunks, f_.i64(1), no_lanes(c_, 1), [&](Value* chunk, const Values&) {
      Value* start = b_.CreateMul(chunk, f_.i64(kReduceChunk));
      Value* end =
          b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(start, f_.i64(kReduceChunk)), total);
      const Values reduced = reduce(elements, start, end);
      f_.if_then(leads, [&] { chunk_results.publish(chunk, reduced); });
      return reduced;
    });
    // What a thread of the last fold has read is not written over before it has.
    c_.rows.barrier();
    llvm::BasicBlock *before = b_.GetInsertBlock(), *several = f_.block("chunks"), *after = f_.block("row");
    b_.CreateCondBr(b_.CreateICmpSGT(chunks, f_.i64(1)), several, after);
    b_.SetInsertPoint(several);
    const Values folded = chunk_results.fold_published(chunks, lanes_ / 2);
    c_.rows.barrier();
    several = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    result = f_.meet({{before, result}, {several, folded}});
    f_.if_then(leads, [&] { finish_one(c_, parallel, total, result); });
  });
}

}  // namespace

llvm::Error emit_grid_block_chunks(GridParts& parts) {
  BlockReduction reduction(parts);
  if (reduction.bytes() > kMostSharedBytes)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the elements of a stage exceed the memory that a block shares");
  reduction.emit();
  return llvm::Error::success();
}

void emit_block_results(GridParts& parts, Value* begin, Value* end) {
  BlockReduction(parts).results(begin, end);
}

}  // namespace lamina::jit::codegen
