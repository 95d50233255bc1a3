// Chains whose rows are held (jit/kernel/grid_held.h): one loop over lines, in which the code of each kernel
// stands behind that of the one before.
//
// Of a line of C elements thread t of T makes those from x + t * lanes on, for each x that is a multiple of
// M. What it loads first, or makes, goes to its own part of shared memory, from where it takes it later: no
// thread waits for another but in a tree. Lanes of a tree that has more of them than M are in groups: those
// of group g are the elements of every x / M that is g modulo the number of groups. Threads without a line
// make values of the last one, of no elements, and keep nothing.
#include "jit/kernel/grid_held.h"

#include <llvm/IR/Intrinsics.h>

#include <bit>
#include <map>
#include <memory>

#include "jit/codegen/grid_reduce.h"

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

class HeldLines {
 public:
  HeldLines(std::span<const GridPart> chain, std::vector<std::unique_ptr<GridParts>>& parts);
  // In a function whose parts have all been entered; this block's lines are [begin, end).
  void emit(Value* begin, Value* end);

 private:
  void make_elements(GridParts& c);
  void make_value(GridParts& c);
  void reduce(GridParts& c);
  Values walk(GridParts& c, RowElements& elements, Value* length);
  Values fold(GridParts& c, Values lanes, Value* count);
  Values fold_across_warps(GridParts& c, Values lanes, Value* count);
  Values for_all(GridParts& c, const Values& result);
  void store_values();
  bool reads_values() const;
  void hold(size_t p);
  Value* exchanged(GridParts& c, Value* thread, unsigned lane, size_t v);
  void publish(GridParts& c, Value* thread, const Values& lanes);
  Values published(GridParts& c, Value* thread, unsigned lane);
  // Of this thread in a line: the elements of whole turns and those of the last ones.
  void turns(GridParts& c, Value* length,
             const std::function<void(Value* from, Value* to, int64_t vectors, bool whole)>& turn);
  GridLanes::Part part(GridParts& c, Value* x, int64_t vectors, Value* length, bool whole);
  unsigned groups_of(GridParts& c) const { return static_cast<unsigned>(tree_lanes(c.kernel) / stretch_); }

  const std::span<const GridPart> chain_;
  std::vector<std::unique_ptr<GridParts>>& parts_;
  const GridSchedule shape_;
  const int64_t threads_, stretch_, groups_;
  WarpExchange exchange_size_;
  Value *shared_ = nullptr, *exchange_ = nullptr;
  Value *in_line_ = nullptr, *group_ = nullptr;  // the thread's number in its line, the line's in the block
  Value *line_ = nullptr, *has_line_ = nullptr;
  std::map<uint32_t, Value*> values_;  // of the line, by number
};

GridSchedule shape_of_held(std::span<const GridPart> chain) {
  for (const GridPart& p : chain)
    if (!is_line_kernel(p)) return p.schedule;
  return {};
}

HeldLines::HeldLines(std::span<const GridPart> chain, std::vector<std::unique_ptr<GridParts>>& parts)
    : chain_(chain),
      parts_(parts),
      shape_(shape_of_held(chain)),
      threads_(held_threads(shape_)),
      stretch_(held_stretch(shape_)),
      groups_(held_groups(chain)) {}

// ---- elements

GridLanes::Part HeldLines::part(GridParts& c, Value* x, int64_t vectors, Value* length, bool whole) {
  llvm::IRBuilder<>& b = c.f.builder();
  Value* mine = b.CreateAdd(x, b.CreateMul(in_line_, c.f.i64(shape_.lanes)));
  GridLanes::Part part{shape_.lanes, {}, length, whole};
  for (int64_t j = 0; j < vectors; ++j) part.starts.push_back(b.CreateAdd(mine, c.f.i64(j * stretch_)));
  return part;
}

void HeldLines::turns(GridParts& c, Value* length,
                      const std::function<void(Value*, Value*, int64_t, bool)>& turn) {
  llvm::IRBuilder<>& b = c.f.builder();
  const int64_t at_once = c.schedule.vectors * stretch_;
  if (c.schedule.exact) {
    turn(c.f.i64(0), length, c.schedule.vectors, true);
    return;
  }
  Value* whole = b.CreateMul(
      b.CreateUDiv(b.CreateTrunc(length, b.getInt32Ty()), b.getInt32(static_cast<uint32_t>(at_once))),
      b.getInt32(static_cast<uint32_t>(at_once)));
  whole = b.CreateZExt(whole, b.getInt64Ty());
  turn(c.f.i64(0), whole, c.schedule.vectors, true);
  turn(whole, length, groups_, false);
}

void HeldLines::make_elements(GridParts& c) {
  llvm::IRBuilder<>& b = c.f.builder();
  const auto outer = static_cast<unsigned>(c.kernel.parallel_rank) - 1;
  Values indices = c.rows.decompose(line_, 0, outer);
  indices.push_back(nullptr);
  Row row = c.sections.begin(c.kernel.body, static_cast<int>(outer), indices,
                             SectionEmitter::uses_of(c.kernel.stores));
  Value* end = c.f.arg(outer);
  Value* length = b.CreateSelect(has_line_, end, c.f.i64(0));
  turns(c, length, [&](Value* from, Value* to, int64_t vectors, bool whole) {
    c.f.loop(from, to, c.f.i64(vectors * stretch_), [&](Value* x) {
      c.lanes.part(row, part(c, x, vectors, end, whole), c.kernel.stores, [&](Value* i, unsigned) {
        const Values values = c.sections.emit(row, i, 1);
        c.sections.store(row, c.kernel.stores, values, i, 1);
      });
    });
  });
}

void HeldLines::make_value(GridParts& c) {
  const Values indices = c.rows.decompose(line_, 0, c.kernel.parallel_rank);
  Row row =
      c.sections.begin(c.kernel.body, -1, indices, {SectionEmitter::uses_of(c.kernel.stores).accesses, {}});
  c.sections.store(row, c.kernel.stores, {}, nullptr, 1);
}

// ---- the tree

// The lanes of this thread, by group, after the elements of the line.
Values HeldLines::walk(GridParts& c, RowElements& elements, Value* length) {
  llvm::IRBuilder<>& b = c.f.builder();
  const unsigned groups = groups_of(c);
  const size_t m = reduced_values(c);
  Values lanes = no_lanes(c, groups * shape_.lanes);
  turns(c, length, [&](Value* from, Value* to, int64_t vectors, bool whole) {
    lanes = c.f.loop(from, to, c.f.i64(vectors * stretch_), lanes, [&](Value* x, const Values& entering) {
      const GridLanes::Part mine = part(c, x, vectors, length, whole);
      const std::vector<Values> made = elements.at(shape_.lanes, mine.starts, length, whole);
      Value* starts_lanes = b.CreateICmpEQ(x, c.f.i64(0));
      Values next = entering;
      for (size_t i = 0; i < made.size(); ++i) {
        const size_t vector = i / shape_.lanes, q = i % shape_.lanes;
        const size_t k = vector % groups * shape_.lanes + q;
        const Values a = lane_of(c, next, k);
        const Values r = c.sections.combine(a, made[i], 1);
        Value* there =
            whole
                ? nullptr
                : b.CreateICmpSLT(b.CreateAdd(mine.starts[vector], c.f.i64(static_cast<int64_t>(q))), length);
        for (size_t v = 0; v < m; ++v) {
          Value* value = there ? b.CreateSelect(there, r[v], a[v]) : r[v];
          next[k * m + v] = vector < groups ? b.CreateSelect(starts_lanes, made[i][v], value) : value;
        }
      }
      return next;
    });
  });
  return lanes;
}

// Of `count` elements: the line's first thread's first lane is what they give.
Values HeldLines::fold(GridParts& c, Values lanes, Value* count) {
  llvm::IRBuilder<>& b = c.f.builder();
  const size_t m = reduced_values(c);
  const auto per_thread = static_cast<int64_t>(shape_.lanes);
  Value* first_lane = b.CreateMul(in_line_, c.f.i64(per_thread));
  // Lane k of this thread's, which has number `number` but for where its first one is, and the one at
  // `stride`.
  const auto step = [&](int64_t k, int64_t number, const Values& e, int64_t stride) {
    const Values a = lane_of(c, lanes, static_cast<size_t>(k));
    const Values r = c.sections.combine(a, e, 1);
    Value* there = c.schedule.exact
                       ? nullptr
                       : b.CreateICmpSLT(b.CreateAdd(first_lane, c.f.i64(number + stride)), count);
    for (size_t v = 0; v < m; ++v)
      lanes[static_cast<size_t>(k) * m + v] = there ? b.CreateSelect(there, r[v], a[v]) : r[v];
  };
  for (int64_t half = groups_of(c) / 2; half > 0; half /= 2)
    for (int64_t k = 0; k < half * per_thread; ++k) {
      const int64_t number = k / per_thread * stretch_ + k % per_thread;
      step(k, number, lane_of(c, lanes, static_cast<size_t>(k + half * per_thread)), half * stretch_);
    }
  lanes.resize(static_cast<size_t>(per_thread) * m);
  int64_t distance = threads_ / 2;
  if (threads_ > kWarp) {
    lanes = fold_across_warps(c, lanes, count);
    distance = kWarp / 2;
  }
  const int64_t together = std::min(threads_, kWarp);
  for (; distance > 0; distance /= 2)
    for (int64_t k = 0; k < per_thread; ++k) {
      Values e;
      for (size_t v = 0; v < m; ++v)
        e.push_back(c.rows.from_thread(lanes[static_cast<size_t>(k) * m + v], reduced_type(c, v), distance,
                                       together));
      step(k, k, e, distance * per_thread);
    }
  for (int64_t stride = per_thread / 2; stride > 0; stride /= 2)
    for (int64_t k = 0; k < stride; ++k)
      step(k, k, lane_of(c, lanes, static_cast<size_t>(k + stride)), stride);
  return lane_of(c, lanes, 0);
}

// Where value v of a lane lies that a thread of this line has published; without a thread, of the result.
Value* HeldLines::exchanged(GridParts& c, Value* thread, unsigned lane, size_t v) {
  llvm::IRBuilder<>& b = c.f.builder();
  if (!thread) {
    Value* number = b.CreateAdd(group_, c.f.i64(static_cast<int64_t>(v) * shape_.rows));
    return b.CreateGEP(
        b.getInt8Ty(), exchange_,
        b.CreateAdd(c.f.i64(exchange_size_.lanes), b.CreateMul(number, c.f.i64(kPartialBytes))));
  }
  int64_t offset = 0;
  const int64_t places = threads_ * shape_.lanes;
  for (size_t w = 0; w < v; ++w) offset += hlo::byte_size(reduced_type(c, w)) * places * shape_.rows;
  Value* number = b.CreateAdd(b.CreateMul(thread, c.f.i64(shape_.lanes)), c.f.i64(lane));
  number = b.CreateAdd(b.CreateMul(group_, c.f.i64(places)), number);
  Value* base = b.CreateConstGEP1_64(b.getInt8Ty(), exchange_, static_cast<uint64_t>(offset));
  return b.CreateGEP(c.f.prims().memory_type(reduced_type(c, v), 1), base, number);
}

void HeldLines::publish(GridParts& c, Value* thread, const Values& lanes) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    const size_t v = i % reduced_values(c);
    const DType t = reduced_type(c, v);
    Value* address = exchanged(c, thread, static_cast<unsigned>(i / reduced_values(c)), v);
    c.f.builder().CreateAlignedStore(c.f.prims().to_memory(lanes[i], t, 1), address,
                                     llvm::Align(static_cast<uint64_t>(hlo::byte_size(t))));
  }
}

Values HeldLines::published(GridParts& c, Value* thread, unsigned lane) {
  Values e;
  for (size_t v = 0; v < reduced_values(c); ++v) {
    const DType t = reduced_type(c, v);
    Value* raw =
        c.lanes.load_one(c.f.prims().memory_type(t, 1), exchanged(c, thread, lane, v), nullptr, false);
    e.push_back(c.f.prims().from_memory(raw, t, 1));
  }
  return e;
}

// Until one warp of the line has what the others had.
Values HeldLines::fold_across_warps(GridParts& c, Values lanes, Value* count) {
  llvm::IRBuilder<>& b = c.f.builder();
  publish(c, in_line_, lanes);
  for (int64_t distance = threads_ / 2; distance >= kWarp; distance /= 2) {
    c.rows.barrier();
    llvm::BasicBlock *before = b.GetInsertBlock(), *inside = c.f.block("fold"), *after = c.f.block("folded");
    b.CreateCondBr(b.CreateICmpSLT(in_line_, c.f.i64(distance)), inside, after);
    b.SetInsertPoint(inside);
    Values next;
    Value* partner = b.CreateAdd(in_line_, c.f.i64(distance));
    for (unsigned k = 0; k < shape_.lanes; ++k) {
      const Values a = lane_of(c, lanes, k);
      const Values r = c.sections.combine(a, published(c, partner, k), 1);
      Value* lane = b.CreateAdd(b.CreateMul(partner, c.f.i64(shape_.lanes)), c.f.i64(k));
      Value* there = b.CreateICmpSLT(lane, count);
      for (size_t v = 0; v < r.size(); ++v) next.push_back(b.CreateSelect(there, r[v], a[v]));
    }
    if (distance > kWarp) publish(c, in_line_, next);
    inside = b.GetInsertBlock();
    b.CreateBr(after);
    b.SetInsertPoint(after);
    lanes = c.f.meet({{before, lanes}, {inside, next}});
  }
  return lanes;
}

// The result of the line's first thread.
Values HeldLines::for_all(GridParts& c, const Values& result) {
  if (threads_ <= kWarp) {
    Values out;
    for (size_t v = 0; v < result.size(); ++v)
      out.push_back(c.rows.from_first_thread(result[v], reduced_type(c, v), threads_));
    return out;
  }
  c.f.if_then(c.f.builder().CreateICmpEQ(in_line_, c.f.i64(0)), [&] { publish(c, nullptr, result); });
  c.rows.barrier();
  return published(c, nullptr, 0);
}

void HeldLines::reduce(GridParts& c) {
  llvm::IRBuilder<>& b = c.f.builder();
  const Values parallel = c.rows.decompose(line_, 0, c.kernel.parallel_rank);
  Value* total = reduced_total(c);
  RowElements elements(c, parallel);
  Value* length = b.CreateSelect(has_line_, total, c.f.i64(0));
  finish_one(c, parallel, total, for_all(c, fold(c, walk(c, elements, length), total)));
}

// ---- lines

// Says where the accesses of a part find what is held.
void HeldLines::hold(size_t p) {
  GridParts& c = *parts_[p];
  llvm::IRBuilder<>& b = c.f.builder();
  for (const HeldAccess& h : chain_[p].held) {
    const Access& access = c.kernel.accesses[h.access];
    const DType t = c.kernel.buffers[access.buffer].type;
    GridLanes::Held held;
    held.memory = h.memory;
    if (is_line_kernel(chain_[p]) || !varies_along_line(c.kernel, access)) {
      held.value = &values_[h.number];
    } else {
      Value* base = b.CreateConstGEP1_64(b.getInt8Ty(), shared_,
                                         static_cast<uint64_t>(h.number) * shape_.room * shape_.rows);
      held.elements =
          b.CreateGEP(c.f.prims().memory_type(t, 1), base, b.CreateMul(group_, c.f.i64(shape_.room)));
    }
    c.lanes.hold(h.access, held);
  }
}

// Whether threads read one value for the line from memory, which others may then write over.
bool HeldLines::reads_values() const {
  for (size_t p = 0; p < chain_.size(); ++p) {
    const LoopKernel& k = chain_[p].kernel;
    for (uint32_t a = 0; a < k.accesses.size(); ++a) {
      if (k.buffers[k.accesses[a].buffer].written) continue;
      const bool of_line = is_line_kernel(chain_[p])
                               ? !k.accesses[a].terms.empty()
                               : !varies_along_line(k, k.accesses[a]) && varies_by_line(k, k.accesses[a]);
      const GridLanes::Held& held = parts_[p]->lanes.held(a);
      if (of_line && (!held.value || held.memory)) return true;
    }
  }
  return false;
}

// By the line's first thread.
void HeldLines::store_values() {
  GridParts& c = *parts_[0];
  llvm::IRBuilder<>& b = c.f.builder();
  std::vector<const GridLanes::Held*> stored;
  for (size_t p = 0; p < chain_.size(); ++p)
    for (const HeldAccess& h : chain_[p].held)
      if (const GridLanes::Held& held = parts_[p]->lanes.held(h.access); held.memory && held.address)
        stored.push_back(&held);
  if (stored.empty()) return;
  if (reads_values()) c.rows.barrier();
  c.f.if_then(b.CreateAnd(has_line_, b.CreateICmpEQ(in_line_, c.f.i64(0))), [&] {
    for (const GridLanes::Held* held : stored) {
      Value* value = *held->value;
      b.CreateAlignedStore(value, held->address, llvm::Align(value->getType()->getPrimitiveSizeInBits() / 8));
    }
  });
}

void HeldLines::emit(Value* begin, Value* end) {
  GridParts& c = *parts_[0];
  llvm::IRBuilder<>& b = c.f.builder();
  const int64_t held = held_bytes(chain_);
  for (const GridPart& p : chain_) exchange_size_ = widest(exchange_size_, exchange_of(p.kernel, shape_));
  shared_ = c.shared_memory(held + exchange_size_.bytes());
  exchange_ = b.CreateConstGEP1_64(b.getInt8Ty(), shared_, static_cast<uint64_t>(held));
  in_line_ = b.CreateAnd(c.rows.thread(), c.f.i64(threads_ - 1));
  group_ = b.CreateLShr(c.rows.thread(), std::countr_zero(static_cast<uint64_t>(threads_)));
  c.f.loop(begin, end, c.f.i64(shape_.rows), [&](Value* first) {
    Value* line = b.CreateAdd(first, group_);
    has_line_ = b.CreateICmpSLT(line, end);
    line_ = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, line, b.CreateSub(end, c.f.i64(1)));
    for (size_t p = 0; p < parts_.size(); ++p) {
      GridParts& made = *parts_[p];
      if (p > 0) made.f.builder().SetInsertPoint(parts_[p - 1]->f.builder().GetInsertBlock());
      hold(p);
      if (made.kernel.has_reduction)
        reduce(made);
      else if (is_line_kernel(chain_[p]))
        make_value(made);
      else
        make_elements(made);
    }
    b.SetInsertPoint(parts_.back()->f.builder().GetInsertBlock());
    store_values();
  });
}

}  // namespace

void emit_held_lines(std::span<const GridPart> chain, std::vector<std::unique_ptr<GridParts>>& parts,
                     Value* begin, Value* end) {
  HeldLines(chain, parts).emit(begin, end);
}

}  // namespace lamina::jit::codegen
