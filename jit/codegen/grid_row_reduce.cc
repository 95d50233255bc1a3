// Reductions along rows: half a warp of threads to a row, or to a chunk of it.
//
// A segment is L elements, one for each lane of the tree; thread t holds the lanes from t * P on, P = L / 16,
// in registers: 16 bytes of the widest type. It walks the segments in order. Lanes fold between threads by
// shuffles, and at last inside the first one. Threads without a row make the last row's elements and keep
// nothing, since shuffles need them.
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <bit>
#include <optional>

#include "jit/codegen/grid_reduce.h"

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

namespace {

class RowReduction {
 public:
  explicit RowReduction(GridParts& parts)
      : c_(parts),
        kernel_(parts.kernel),
        f_(parts.f),
        b_(f_.builder()),
        lanes_(tree_lanes(kernel_)),
        per_thread_(static_cast<unsigned>(row_lanes(kernel_))),
        m_(kernel_.reduction.inputs.size()) {}

  enum class From { kBody, kPartials };
  enum class To { kPartials, kResults };
  void entry(std::string_view name, From from, To to);
  void results(Value* begin, Value* end);

 private:
  using Elements = std::vector<Values>;  // by element: each reduced value
  DType type(size_t v) const { return reduced_type(c_, v); }
  Elements elements(const Values& starts, Value* end, bool whole);
  Values partial_element(Value* number);
  Values walk(Value* start, Value* end);
  // Whether rows are whole segments.
  bool is_exact() const { return body_ && c_.schedule.exact; }
  Values part_of_segment(Value* base, Value* start, Value* end, const Values& lanes);
  Values whole_segments(Value* begin, Value* end);
  Values fold(Values lanes, Value* count);
  Values lane(const Values& lanes, unsigned k) const { return lane_of(c_, lanes, k); }

  GridParts& c_;
  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const int64_t lanes_;        // L
  const unsigned per_thread_;  // P
  const size_t m_;
  // Of the entry that is made:
  GridParts::Extra extra_;
  Value* first_lane_ = nullptr;      // of this thread
  Value* first_record_ = nullptr;    // of the row, where results of chunks are reduced
  std::optional<RowElements> body_;  // else
};

// ---- elements

Values RowReduction::partial_element(Value* number) {
  Values element;
  for (size_t v = 0; v < m_; ++v) {
    Value* at = partial_address(c_, extra_.from, b_.CreateAdd(first_record_, number), v);
    Value* raw = c_.lanes.load_one(f_.prims().memory_type(type(v), 1), at, nullptr, false);
    element.push_back(f_.prims().from_memory(raw, type(v), 1));
  }
  return element;
}

// Elements of the row from each of `starts` on, as many as a thread has lanes; those past `end` hold
// anything.
RowReduction::Elements RowReduction::elements(const Values& starts, Value* end, bool whole) {
  if (body_) return body_->at(per_thread_, starts, end, whole);
  Elements made;
  Value* last = b_.CreateSub(end, f_.i64(1));
  for (Value* start : starts)
    for (unsigned k = 0; k < per_thread_; ++k) {
      Value* number = b_.CreateAdd(start, f_.i64(k));
      if (!whole) number = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, number, last);
      made.push_back(partial_element(number));
    }
  return made;
}

// ---- the tree

// The last segment, of which lanes are missing.
Values RowReduction::part_of_segment(Value* base, Value* start, Value* end, const Values& lanes) {
  Value* mine = b_.CreateAdd(base, first_lane_);
  const Elements e = elements({mine}, end, false);
  Value* first = b_.CreateICmpEQ(base, start);
  Values next;
  for (unsigned k = 0; k < per_thread_; ++k) {
    const Values a = lane(lanes, k);
    const Values r = c_.sections.combine(a, e[k], 1);
    Value* on = b_.CreateICmpSLT(b_.CreateAdd(mine, f_.i64(k)), end);
    for (size_t v = 0; v < m_; ++v)
      next.push_back(b_.CreateSelect(first, e[k][v], b_.CreateSelect(on, r[v], a[v])));
  }
  return next;
}

// Segments in which every lane has an element, some at a time: of the last time, those past the end are the
// first of that time once more, and change nothing. The first one of all starts the lanes.
Values RowReduction::whole_segments(Value* begin, Value* end) {
  const int64_t vectors = c_.schedule.vectors;
  const Values none = no_lanes(c_, per_thread_);
  return f_.loop(begin, end, f_.i64(vectors * lanes_), none, [&](Value* x, const Values& entering) {
    Values starts, there;
    for (int64_t j = 0; j < vectors; ++j) {
      Value* base = b_.CreateAdd(x, f_.i64(j * lanes_));
      there.push_back(b_.CreateICmpSLT(base, end));
      starts.push_back(b_.CreateAdd(j == 0 ? x : b_.CreateSelect(there[j], base, x), first_lane_));
    }
    const Elements e = elements(starts, end, true);
    Value* starts_lanes = b_.CreateICmpEQ(x, begin);
    Values next = entering;
    for (size_t i = 0; i < e.size(); ++i) {
      const auto k = static_cast<unsigned>(i % per_thread_);
      const size_t j = i / per_thread_;
      const Values a = lane(next, k);
      const Values r = c_.sections.combine(a, e[i], 1);
      for (size_t v = 0; v < m_; ++v)
        next[k * m_ + v] =
            j == 0 ? b_.CreateSelect(starts_lanes, e[i][v], r[v]) : b_.CreateSelect(there[j], r[v], a[v]);
    }
    return next;
  });
}

// The lanes of this thread after the elements [start, end).
Values RowReduction::walk(Value* start, Value* end) {
  if (is_exact()) return whole_segments(start, end);
  Value* whole_end = b_.CreateAdd(start, b_.CreateAnd(b_.CreateSub(end, start), f_.i64(-lanes_)));
  const Values whole = whole_segments(start, whole_end);
  BasicBlock *before = b_.GetInsertBlock(), *part = f_.block("part"), *done = f_.block("walked");
  b_.CreateCondBr(b_.CreateICmpSLT(whole_end, end), part, done);
  b_.SetInsertPoint(part);
  const Values last = part_of_segment(whole_end, start, end, whole);
  part = b_.GetInsertBlock();
  b_.CreateBr(done);
  b_.SetInsertPoint(done);
  return f_.meet({{before, whole}, {part, last}});
}

// Of `count` elements: the first thread's first lane is what they give.
Values RowReduction::fold(Values lanes, Value* count) {
  const auto step = [&](unsigned k, const Values& e, int64_t stride) {
    const Values a = lane(lanes, k);
    const Values r = c_.sections.combine(a, e, 1);
    Value* there =
        is_exact() ? nullptr : b_.CreateICmpSLT(b_.CreateAdd(first_lane_, f_.i64(k + stride)), count);
    for (size_t v = 0; v < m_; ++v) lanes[k * m_ + v] = there ? b_.CreateSelect(there, r[v], a[v]) : r[v];
  };
  for (int64_t stride = lanes_ / 2; stride >= per_thread_; stride /= 2)
    for (unsigned k = 0; k < per_thread_; ++k) {
      Values e;
      for (size_t v = 0; v < m_; ++v)
        e.push_back(c_.rows.from_thread(lanes[k * m_ + v], type(v), stride / per_thread_, kRowThreads));
      step(k, e, stride);
    }
  for (unsigned stride = per_thread_ / 2; stride > 0; stride /= 2)
    for (unsigned k = 0; k < stride; ++k) step(k, lane(lanes, k + stride), stride);
  return lane(lanes, 0);
}

// ---- entries

void RowReduction::entry(std::string_view name, From from, To to) {
  extra_ = c_.enter(name, has_partials(c_.schedule));
  Value* all = b_.CreateAdd(b_.CreateMul(c_.rows.block(), f_.i64(kGridThreads)), c_.rows.thread());
  Value* in_row = b_.CreateAnd(all, f_.i64(kRowThreads - 1));
  Value* task = b_.CreateLShr(all, std::countr_zero(static_cast<uint64_t>(kRowThreads)));
  first_lane_ = b_.CreateMul(in_row, f_.i64(per_thread_));
  Value* total = reduced_total(c_);
  Value* length = from == From::kBody ? total : extra_.count;
  Value* chunks = to == To::kPartials ? chunks_of(c_, length) : f_.i64(1);
  Value* tasks = b_.CreateMul(c_.rows.product(0, kernel_.parallel_rank), chunks);
  Value* mine = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, task, b_.CreateSub(tasks, f_.i64(1)));
  const GridChunk chunk =
      to == To::kPartials ? chunk_of(c_, mine, chunks, length) : GridChunk{mine, f_.i64(0), length};
  const Values parallel = c_.rows.decompose(chunk.row, 0, kernel_.parallel_rank);
  body_.reset();
  if (from == From::kBody)
    body_.emplace(c_, parallel);
  else
    first_record_ = b_.CreateMul(chunk.row, length);
  const Values result = fold(walk(chunk.start, chunk.end), b_.CreateSub(chunk.end, chunk.start));
  Value* keeps = b_.CreateAnd(b_.CreateICmpEQ(in_row, f_.i64(0)), b_.CreateICmpSLT(task, tasks));
  f_.if_then(keeps, [&] {
    if (to == To::kResults)
      finish_one(c_, parallel, total, result);
    else
      store_partial(c_, extra_.to, task, result);
  });
  c_.leave();
}

// Of a chain: of one chunk each. Threads of a warp come by together.
void RowReduction::results(Value* begin, Value* end) {
  Value* in_row = b_.CreateAnd(c_.rows.thread(), f_.i64(kRowThreads - 1));
  Value* group = b_.CreateLShr(c_.rows.thread(), std::countr_zero(static_cast<uint64_t>(kRowThreads)));
  first_lane_ = b_.CreateMul(in_row, f_.i64(per_thread_));
  Value* total = reduced_total(c_);
  f_.loop(begin, end, f_.i64(kGridThreads / kRowThreads), [&](Value* first) {
    Value* task = b_.CreateAdd(first, group);
    Value* mine = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, task, b_.CreateSub(end, f_.i64(1)));
    const Values parallel = c_.rows.decompose(mine, 0, kernel_.parallel_rank);
    body_.emplace(c_, parallel);
    const Values result = fold(walk(f_.i64(0), total), total);
    Value* keeps = b_.CreateAnd(b_.CreateICmpEQ(in_row, f_.i64(0)), b_.CreateICmpSLT(task, end));
    f_.if_then(keeps, [&] { finish_one(c_, parallel, total, result); });
  });
}

}  // namespace

void emit_half_warp_results(GridParts& parts, Value* begin, Value* end) {
  RowReduction(parts).results(begin, end);
}

llvm::Error emit_grid_rows(GridParts& parts) {
  const GridForm form = parts.schedule.form;
  if (form != GridForm::kColumnChunks && parts.schedule.lanes != row_lanes(parts.kernel))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the schedule's lanes are not those of the tree");
  RowReduction reduction(parts);
  using From = RowReduction::From;
  using To = RowReduction::To;
  if (form == GridForm::kHalfWarp) {
    reduction.entry(kGridEntry, From::kBody, To::kResults);
    return llvm::Error::success();
  }
  if (form == GridForm::kChunks) {
    reduction.entry(kGridChunks, From::kBody, To::kPartials);
  } else {
    const auto chunks = form == GridForm::kBlocks ? emit_grid_block_chunks : emit_grid_columns;
    if (llvm::Error error = chunks(parts)) return error;
  }
  reduction.entry(kGridPartials, From::kPartials, To::kPartials);
  reduction.entry(kGridFinish, From::kPartials, To::kResults);
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
