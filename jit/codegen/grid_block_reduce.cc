// Chunks of rows that are few: a block to each, so that a device has enough threads.
//
// All threads load and make elements, a stage of them at a time, and leave them in shared memory; as many
// threads as the tree has lanes walk the stage in order, while the loads of the next one are under way.
#include <llvm/IR/Intrinsics.h>

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
        tree_(parts, lanes_, 1, 1) {
    for (size_t v = 0; v < reduced_values(c_); ++v) {
      offsets_.push_back(bytes_);
      bytes_ += stage_ * hlo::byte_size(reduced_type(c_, v));
    }
  }
  int64_t bytes() const { return bytes_ + tree_.bytes(); }
  void emit();

 private:
  Value* address(Value* element, size_t v);
  Values load(RowElements& elements, Value* base, Value* end);
  void keep(const Values& made);
  Values walk(Value* first_stage, Value* count, const Values& lane);
  Values reduce(RowElements& elements, Value* chunk_start, Value* chunk_end);
  Values fold(SharedTree& published, Value* count);

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

// This thread's elements of the stage that begins at `base`, which has some.
Values BlockReduction::load(RowElements& elements, Value* base, Value* end) {
  // Whole vectors past the end are the last one once more.
  const bool exact = c_.schedule.exact;
  Value* last = b_.CreateSub(end, f_.i64(per_thread_));
  Values starts;
  for (uint32_t j = 0; j < c_.schedule.vectors; ++j) {
    Value* vector = b_.CreateAdd(thread_, f_.i64(j * kGridThreads));
    Value* start = b_.CreateAdd(base, b_.CreateMul(vector, f_.i64(per_thread_)));
    starts.push_back(exact ? b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, start, last) : start);
  }
  Values made;
  for (const Values& e : elements.at(per_thread_, starts, end, exact))
    made.insert(made.end(), e.begin(), e.end());
  return made;
}

void BlockReduction::keep(const Values& made) {
  const size_t m = reduced_values(c_);
  for (uint32_t j = 0; j < c_.schedule.vectors; ++j) {
    Value* vector = b_.CreateAdd(thread_, f_.i64(j * kGridThreads));
    Value* element = b_.CreateMul(vector, f_.i64(per_thread_));
    for (size_t v = 0; v < m; ++v) {
      const DType t = reduced_type(c_, v);
      Values side_by_side;
      for (unsigned k = 0; k < per_thread_; ++k)
        side_by_side.push_back(f_.prims().to_memory(made[(j * per_thread_ + k) * m + v], t, 1));
      c_.lanes.store_vector(t, address(element, v), side_by_side);
    }
  }
}

// This thread's lane after the `count` elements of a stage: some at a time, those past the end the first of
// that time once more.
Values BlockReduction::walk(Value* first_stage, Value* count, const Values& lane) {
  constexpr int64_t kAtATime = 8;
  Value* begin = b_.CreateSelect(b_.CreateICmpSLT(thread_, f_.i64(lanes_)), thread_, count);
  return f_.loop(begin, count, f_.i64(kAtATime * lanes_), lane, [&](Value* element, const Values& entering) {
    Values there;
    std::vector<Values> e(kAtATime);
    for (int64_t j = 0; j < kAtATime; ++j) {
      Value* next = b_.CreateAdd(element, f_.i64(j * lanes_));
      there.push_back(b_.CreateICmpSLT(next, count));
      Value* from = b_.CreateSelect(there.back(), next, element);
      for (size_t v = 0; v < reduced_values(c_); ++v) {
        const DType t = reduced_type(c_, v);
        Value* raw = c_.lanes.load_one(f_.prims().memory_type(t, 1), address(from, v), nullptr, false);
        e[j].push_back(f_.prims().from_memory(raw, t, 1));
      }
    }
    Value* first = b_.CreateAnd(first_stage, b_.CreateICmpEQ(element, thread_));
    Values next = entering;
    for (int64_t j = 0; j < kAtATime; ++j) {
      const Values r = c_.sections.combine(next, e[j], 1);
      for (size_t v = 0; v < r.size(); ++v)
        next[v] = j == 0 ? b_.CreateSelect(first, e[j][v], r[v]) : b_.CreateSelect(there[j], r[v], next[v]);
    }
    return next;
  });
}

// What the chunk's elements give, in the first thread. All threads have come by since what was shared before
// was last read.
Values BlockReduction::reduce(RowElements& elements, Value* chunk_start, Value* chunk_end) {
  const size_t own = per_thread_ * c_.schedule.vectors;
  // A stage without elements has nothing to load.
  const auto load_some = [&](Value* base) {
    llvm::BasicBlock *before = b_.GetInsertBlock(), *some = f_.block("load"), *after = f_.block("loaded");
    b_.CreateCondBr(b_.CreateICmpSLT(base, chunk_end), some, after);
    b_.SetInsertPoint(some);
    const Values loaded = load(elements, base, chunk_end);
    some = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    return f_.meet({{before, no_lanes(c_, own)}, {some, loaded}});
  };
  Values carried = load_some(chunk_start);
  const Values lane = no_lanes(c_, 1);
  carried.insert(carried.end(), lane.begin(), lane.end());
  const Values ended =
      f_.loop(chunk_start, chunk_end, f_.i64(stage_), carried, [&](Value* base, const Values& entering) {
        const auto split = entering.begin() + static_cast<int64_t>(own * reduced_values(c_));
        keep(Values(entering.begin(), split));
        c_.rows.barrier();
        Values next = load_some(b_.CreateAdd(base, f_.i64(stage_)));
        Value* left = b_.CreateSub(chunk_end, base);
        Value* count = b_.CreateSelect(b_.CreateICmpSLT(left, f_.i64(stage_)), left, f_.i64(stage_));
        const Values walked = walk(b_.CreateICmpEQ(base, chunk_start), count, Values(split, entering.end()));
        c_.rows.barrier();
        next.insert(next.end(), walked.begin(), walked.end());
        return next;
      });
  const Values mine(ended.begin() + static_cast<int64_t>(own * reduced_values(c_)), ended.end());
  f_.if_then(b_.CreateICmpSLT(thread_, f_.i64(lanes_)), [&] { tree_.publish(thread_, mine); });
  c_.rows.barrier();
  return fold(tree_, b_.CreateSub(chunk_end, chunk_start));
}

// What the lanes that are published give, of which `count` hold something, in the first thread: the first
// warp folds them, each thread those at distances of a warp.
Values BlockReduction::fold(SharedTree& published, Value* count) {
  const size_t m = reduced_values(c_);
  llvm::BasicBlock *before = b_.GetInsertBlock(), *warp = f_.block("warp"), *after = f_.block("folded");
  b_.CreateCondBr(b_.CreateICmpSLT(thread_, f_.i64(kWarp)), warp, after);
  b_.SetInsertPoint(warp);
  std::vector<Values> mine;
  for (int64_t lane = 0; lane < lanes_; lane += kWarp)
    mine.push_back(published.published(b_.CreateAdd(thread_, f_.i64(lane)), 0));
  const auto step = [&](Values& lane, const Values& partner, int64_t distance) {
    Value* there = b_.CreateICmpSLT(b_.CreateAdd(thread_, f_.i64(distance)), count);
    const Values r = c_.sections.combine(lane, partner, 1);
    for (size_t v = 0; v < m; ++v) lane[v] = b_.CreateSelect(there, r[v], lane[v]);
  };
  for (int64_t stride = lanes_ / 2; stride >= kWarp; stride /= 2)
    for (int64_t q = 0; q < stride / kWarp; ++q)
      step(mine[static_cast<size_t>(q)], mine[static_cast<size_t>(q + stride / kWarp)], q * kWarp + stride);
  for (int64_t stride = kWarp / 2; stride > 0; stride /= 2) {
    Values partner;
    for (size_t v = 0; v < m; ++v)
      partner.push_back(c_.rows.from_thread(mine[0][v], reduced_type(c_, v), stride, kWarp));
    step(mine[0], partner, stride);
  }
  warp = b_.GetInsertBlock();
  b_.CreateBr(after);
  b_.SetInsertPoint(after);
  return f_.meet({{before, no_lanes(c_, 1)}, {warp, mine[0]}});
}

void BlockReduction::emit() {
  const GridParts::Extra extra = c_.enter(kGridChunks, true);
  shared_ = c_.shared_memory(bytes_);
  thread_ = c_.rows.thread();
  tree_.enter(thread_, f_.i64(0));
  Value* task = c_.rows.block();
  Value* total = reduced_total(c_);
  const GridChunk chunk = chunk_of(c_, task, chunks_of(c_, total), total);
  RowElements elements(c_, c_.rows.decompose(chunk.row, 0, c_.kernel.parallel_rank));
  const Values result = reduce(elements, chunk.start, chunk.end);
  f_.if_then(b_.CreateICmpEQ(thread_, f_.i64(0)), [&] { store_partial(c_, extra.to, task, result); });
  c_.leave();
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

}  // namespace lamina::jit::codegen
