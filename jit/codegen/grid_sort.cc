// Sorts: in the memory that a block shares each thread orders a few places, then runs are merged, twice as
// long each time. A thread finds by bisection which elements of two runs its places hold, and merges these
// ("merge path"). Sorted tiles of long rows are merged by further launches, a tile of the result to a block.
//
// Only what the order reads is compared; a thread's result is the places where its elements lie, by which all
// their values are then moved at once.
#include "jit/kernel/grid_sort.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <bit>

#include "jit/codegen/grid_schedule.h"

namespace lamina::jit::codegen {

using llvm::BasicBlock;
using llvm::Value;

namespace {

class Sorts {
 public:
  explicit Sorts(GridParts& parts);
  // Of rows that fit their places, from elements to results.
  void emit_rows();
  // Of tiles: from elements to runs, the splits of runs to merge, and from runs to runs or results.
  void emit_tiles();
  void emit_splits();
  void emit_merges(bool to_results);

 private:
  // The values of one store.
  struct Sorted {
    DType type;
    llvm::Type* memory;
    bool compared;
    int64_t shared;         // where they begin in the memory of a block
    Value* runs = nullptr;  // and in scratch
  };
  // A row's two runs that become one, in elements of the row.
  struct Pair {
    Value *begin, *first, *second;  // where it begins, and how many the runs have
  };

  GridParts::Extra enter(std::string_view name, bool partials);
  // The tile of a row, and its first element.
  void find_tile(Value* number);
  Pair pair(Value* run);
  // Addresses of the runs of a half of the scratch.
  void open(Value* scratch);

  Value* i32(int64_t value) { return b_.getInt32(static_cast<uint32_t>(value)); }
  Value* wide(Value* value) { return b_.CreateZExt(value, b_.getInt64Ty()); }
  Value* narrow(Value* value) { return b_.CreateTrunc(value, b_.getInt32Ty()); }
  Value* least(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }
  Value* most(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smax, a, b); }
  // How many of `count` elements are left of `all`, none if they are fewer than before.
  Value* left_of(Value* all, Value* before, Value* count) {
    Value* left = b_.CreateSub(all, before);
    return least(most(left, llvm::ConstantInt::get(left->getType(), 0)), count);
  }

  Value* address(const Sorted& s, Value* place);
  Value* take(const Sorted& s, Value* place) {
    return c_.lanes.load_one(s.memory, address(s, place), nullptr, false);
  }
  void put(const Sorted& s, Value* place, Value* value) {
    b_.CreateAlignedStore(value, address(s, place), align(s));
  }
  static llvm::Align align(const Sorted& s) {
    return llvm::Align(static_cast<uint64_t>(hlo::byte_size(s.type)));
  }
  Value* run_address(const Sorted& s, Value* element) { return b_.CreateGEP(s.memory, s.runs, element); }
  // What is compared, by store; null for others.
  Values keys(Value* place);
  Values run_keys(Value* element);
  Value* before(const Values& x, const Values& y);
  // The first of [low, high) for which it does not hold, after which it never does.
  Value* search(Value* low, Value* high, const std::function<Value*(Value* at)>& holds);
  Values choose(Value* condition, const Values& yes, const Values& no);

  // Places of the elements that come to this thread's places: of elements that lie there, `left` of them, ...
  Values order_of_few(Value* left);
  // ... and from number `from` on of those of two runs.
  Values order_of_two(Value* a, Value* a_count, Value* b, Value* b_count, Value* from);
  void move(const Values& order);
  // Sorts rows of `count` elements.
  void sort_places(Value* count);

  // How places are loaded and stored: this thread's are in `lines_` rows `starts_` of each.
  Value* in_tile(int64_t line) {
    return b_.CreateAdd(b_.CreateLShr(thread_, shift_of(width_)), i32(line * (kGridThreads / width_)));
  }
  Value* in_row(int64_t start) {
    return b_.CreateAdd(b_.CreateAnd(thread_, i32(width_ - 1)), i32(start * width_));
  }
  Value* place(int64_t line, int64_t start) {
    return b_.CreateAdd(b_.CreateMul(in_tile(line), i32(tile_.pitch)), in_row(start));
  }
  Row open_row(Value* number, const SectionEmitter::Uses& uses);
  void load();
  void store_results();
  void store_runs();
  static int shift_of(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }

  GridParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const hlo::ScalarProgram& order_;
  const SortTile tile_;
  const int64_t each_;  // places of a thread
  const int64_t width_, lines_, starts_;
  const unsigned last_;
  std::vector<Sorted> sorted_;
  Value* shared_ = nullptr;
  // Of the entry: this thread, its first place; the rows and their length; the first row and element of this
  // block's tile.
  Value *thread_ = nullptr, *mine_ = nullptr, *rows_ = nullptr, *length_ = nullptr, *row_ = nullptr,
        *first_ = nullptr;
};

Sorts::Sorts(GridParts& parts)
    : c_(parts),
      f_(parts.f),
      b_(f_.builder()),
      order_(*parts.kernel.before),
      tile_(sort_tile(parts.schedule)),
      each_(parts.schedule.lanes),
      width_(std::min(tile_.pitch, kGridThreads)),
      lines_(parts.schedule.rows * width_ / kGridThreads),
      starts_(tile_.pitch / width_),
      last_(parts.kernel.parallel_rank - 1U) {
  const std::vector<int64_t> begins = jit::sort_places(parts.kernel, parts.schedule);
  const size_t count = parts.kernel.stores.size();
  std::vector<bool> read(2 * count + order_.code.size(), false);
  read[order_.outputs[0]] = true;
  for (size_t i = order_.code.size(); i-- > 0;)
    if (const hlo::ScalarInstr& instr = order_.code[i]; read[2 * count + i])
      for (int k = 0; k < hlo::prim_arity(instr.prim); ++k) read[instr.operands[k]] = true;
  for (size_t v = 0; v < count; ++v) {
    const DType t = order_.inputs[v];
    sorted_.push_back({t, f_.prims().memory_type(t, 1), read[v] || read[count + v], begins[v]});
  }
  shared_ = parts.shared_memory(begins.back());
}

// ---- entries

GridParts::Extra Sorts::enter(std::string_view name, bool partials) {
  const GridParts::Extra extra = c_.enter(name, partials);
  thread_ = narrow(c_.rows.thread());
  mine_ = b_.CreateMul(thread_, i32(each_));
  rows_ = c_.rows.product(0, last_);
  length_ = f_.arg(last_);
  return extra;
}

void Sorts::find_tile(Value* number) {
  Value* tiles = c_.rows.parts(length_, tile_.places);
  row_ = c_.rows.quotient(number, tiles);
  first_ = b_.CreateMul(b_.CreateSub(number, b_.CreateMul(row_, tiles)), f_.i64(tile_.places));
}

Sorts::Pair Sorts::pair(Value* run) {
  Value* begin = b_.CreateAnd(first_, b_.CreateNeg(b_.CreateShl(run, 1)));
  return {begin, left_of(length_, begin, run), left_of(length_, b_.CreateAdd(begin, run), run)};
}

void Sorts::open(Value* scratch) {
  const auto aligned = [&](Value* bytes) {
    return b_.CreateAnd(b_.CreateAdd(bytes, f_.i64(15)), f_.i64(-16));
  };
  Value* tiles = b_.CreateMul(rows_, c_.rows.parts(length_, tile_.places));
  Value* offset = aligned(b_.CreateShl(tiles, 3));
  Value* elements = b_.CreateMul(rows_, length_);
  for (Sorted& s : sorted_) {
    s.runs = b_.CreateGEP(b_.getInt8Ty(), scratch, offset);
    offset = b_.CreateAdd(offset, aligned(b_.CreateMul(elements, f_.i64(hlo::byte_size(s.type)))));
  }
}

void Sorts::emit_rows() {
  enter(kGridEntry, false);
  row_ = b_.CreateMul(c_.rows.block(), f_.i64(c_.schedule.rows));
  first_ = f_.i64(0);
  load();
  sort_places(narrow(length_));
  store_results();
  c_.leave();
}

void Sorts::emit_tiles() {
  const GridParts::Extra extra = enter(kGridChunks, true);
  find_tile(c_.rows.block());
  load();
  sort_places(narrow(least(b_.CreateSub(length_, first_), f_.i64(tile_.places))));
  open(extra.to);
  store_runs();
  c_.leave();
}

void Sorts::emit_splits() {
  const GridParts::Extra extra = enter(kGridSplits, true);
  Value* number = b_.CreateAdd(b_.CreateMul(c_.rows.block(), f_.i64(kGridThreads)), wide(thread_));
  Value* tiles = b_.CreateMul(rows_, c_.rows.parts(length_, tile_.places));
  f_.if_then(b_.CreateICmpSLT(number, tiles), [&] {
    find_tile(number);
    const Pair pair = this->pair(extra.count);
    open(extra.from);
    Value* first = b_.CreateAdd(b_.CreateMul(row_, length_), pair.begin);
    Value* second = b_.CreateAdd(first, extra.count);
    Value* before_tile = b_.CreateSub(first_, pair.begin);
    Value* split = search(most(f_.i64(0), b_.CreateSub(before_tile, pair.second)),
                          least(before_tile, pair.first), [&](Value* at) {
                            Value* other = b_.CreateSub(b_.CreateSub(before_tile, f_.i64(1)), at);
                            return b_.CreateNot(before(run_keys(b_.CreateAdd(second, other)),
                                                       run_keys(b_.CreateAdd(first, at))));
                          });
    b_.CreateAlignedStore(split, b_.CreateGEP(b_.getInt64Ty(), extra.from, number), llvm::Align(8));
  });
  c_.leave();
}

void Sorts::emit_merges(bool to_results) {
  const GridParts::Extra extra = enter(to_results ? kGridFinish : kGridPartials, true);
  Value *number = c_.rows.block(), *run = extra.count;
  find_tile(number);
  const Pair pair = this->pair(run);
  Value* from = b_.CreateSub(first_, pair.begin);
  Value* all = b_.CreateAdd(pair.first, pair.second);
  Value* to = least(b_.CreateAdd(from, f_.i64(tile_.places)), all);
  const auto split = [&](Value* tile, Value* there) {
    Value* at = b_.CreateGEP(b_.getInt64Ty(), extra.from, tile);
    return c_.lanes.load_one(b_.getInt64Ty(), at, there, false);
  };
  // Where the next tile is one of the same two runs, this one ends where that begins.
  Value* goes_on = b_.CreateICmpSLT(to, all);
  Value* first = split(number, nullptr);
  Value* first_end = b_.CreateSelect(goes_on, split(b_.CreateAdd(number, f_.i64(1)), goes_on), pair.first);
  Value *count = narrow(b_.CreateSub(to, from)), *first_count = narrow(b_.CreateSub(first_end, first));
  open(extra.from);
  Value* begin = b_.CreateAdd(b_.CreateMul(row_, length_), pair.begin);
  Value* first_at = b_.CreateAdd(begin, first);
  Value* second_at =
      b_.CreateSub(b_.CreateAdd(b_.CreateAdd(begin, run), b_.CreateSub(from, first)), wide(first_count));
  std::vector<Values> loaded(sorted_.size());
  for (int64_t k = 0; k < each_; ++k) {
    Value* at = least(in_row(k), b_.CreateSub(count, i32(1)));
    Value* element =
        b_.CreateAdd(b_.CreateSelect(b_.CreateICmpSLT(at, first_count), first_at, second_at), wide(at));
    for (size_t v = 0; v < sorted_.size(); ++v)
      loaded[v].push_back(
          c_.lanes.load_one(sorted_[v].memory, run_address(sorted_[v], element), nullptr, false));
  }
  for (size_t v = 0; v < sorted_.size(); ++v)
    for (int64_t k = 0; k < each_; ++k) put(sorted_[v], in_row(k), loaded[v][static_cast<size_t>(k)]);
  c_.rows.barrier();
  move(order_of_two(i32(0), first_count, first_count, b_.CreateSub(count, first_count), mine_));
  if (to_results) {
    store_results();
  } else {
    open(extra.to);
    store_runs();
  }
  c_.leave();
}

// ---- elements, runs and results

Row Sorts::open_row(Value* number, const SectionEmitter::Uses& uses) {
  Values indices = c_.rows.decompose(number, 0, last_);
  indices.push_back(nullptr);
  return c_.sections.begin(c_.kernel.body, static_cast<int>(last_), indices, uses);
}

// Places past the end of a row, and those of rows past the last, get what the ones before them have.
void Sorts::load() {
  SectionEmitter::Uses uses = SectionEmitter::uses_of(c_.kernel.stores);
  uses.accesses.clear();
  std::vector<Row> rows;
  for (int64_t line = 0; line < lines_; ++line) {
    Value* number = b_.CreateAdd(row_, wide(in_tile(line)));
    rows.push_back(open_row(least(number, b_.CreateSub(rows_, f_.i64(1))), uses));
  }
  GridLanes::Part part{1, {}, length_};
  for (int64_t s = 0; s < starts_; ++s) part.starts.push_back(b_.CreateAdd(first_, wide(in_row(s))));
  if (!GridLanes::may_pass(part)) part.starts[0] = least(part.starts[0], b_.CreateSub(length_, f_.i64(1)));
  c_.lanes.lines(rows, part, [&](size_t line, Value* index, unsigned number) {
    const Values values = c_.sections.emit(rows[line], index, 1);
    for (size_t v = 0; v < sorted_.size(); ++v) {
      Value* value = c_.sections.value(rows[line], values, c_.kernel.stores[v].value, 1);
      put(sorted_[v], place(static_cast<int64_t>(line), number),
          f_.prims().to_memory(value, sorted_[v].type, 1));
    }
  });
  c_.rows.barrier();
}

void Sorts::store_results() {
  const std::vector<Store>& stores = c_.kernel.stores;
  for (int64_t line = 0; line < lines_; ++line) {
    Value* number = b_.CreateAdd(row_, wide(in_tile(line)));
    f_.if_then(b_.CreateICmpSLT(number, rows_), [&] {
      Row row = open_row(number, SectionEmitter::uses_of(stores));
      for (int64_t s = 0; s < starts_; ++s) {
        Value* index = b_.CreateAdd(first_, wide(in_row(s)));
        f_.if_then(b_.CreateICmpSLT(index, length_), [&] {
          Values values(c_.kernel.body.size(), nullptr);
          for (size_t v = 0; v < sorted_.size(); ++v)
            values[stores[v].value] =
                f_.prims().from_memory(take(sorted_[v], place(line, s)), sorted_[v].type, 1);
          c_.sections.store(row, stores, values, index, 1);
        });
      }
    });
  }
}

void Sorts::store_runs() {
  Value* first = b_.CreateAdd(b_.CreateMul(row_, length_), first_);
  for (int64_t k = 0; k < each_; ++k) {
    Value* index = b_.CreateAdd(first_, wide(in_row(k)));
    f_.if_then(b_.CreateICmpSLT(index, length_), [&] {
      for (const Sorted& s : sorted_)
        b_.CreateAlignedStore(take(s, in_row(k)), run_address(s, b_.CreateAdd(first, wide(in_row(k)))),
                              align(s));
    });
  }
}

// ---- places

Value* Sorts::address(const Sorted& s, Value* place) {
  Value* begin = b_.CreateConstGEP1_64(b_.getInt8Ty(), shared_, static_cast<uint64_t>(s.shared));
  return b_.CreateGEP(s.memory, begin, b_.CreateAdd(place, b_.CreateLShr(place, kSortBanks)));
}

Values Sorts::keys(Value* place) {
  Values out;
  for (const Sorted& s : sorted_)
    out.push_back(s.compared ? f_.prims().from_memory(take(s, place), s.type, 1) : nullptr);
  return out;
}

Values Sorts::run_keys(Value* element) {
  Values out;
  for (const Sorted& s : sorted_)
    out.push_back(s.compared
                      ? f_.prims().from_memory(
                            c_.lanes.load_one(s.memory, run_address(s, element), nullptr, false), s.type, 1)
                      : nullptr);
  return out;
}

Value* Sorts::before(const Values& x, const Values& y) {
  Values values = x;
  values.insert(values.end(), y.begin(), y.end());
  for (const hlo::ScalarInstr& instr : order_.code) {
    TypedValue operands[3];
    bool known = true;
    for (int k = 0; k < hlo::prim_arity(instr.prim); ++k) {
      operands[k] = {values[instr.operands[k]], order_.type_of(instr.operands[k])};
      known &= operands[k].value != nullptr;
    }
    values.push_back(known ? f_.prims().emit(instr.prim, instr.type, operands, instr.imm, 1) : nullptr);
  }
  return values[order_.outputs[0]];
}

Values Sorts::choose(Value* condition, const Values& yes, const Values& no) {
  Values out;
  for (size_t i = 0; i < yes.size(); ++i)
    out.push_back(yes[i] ? b_.CreateSelect(condition, yes[i], no[i]) : nullptr);
  return out;
}

Value* Sorts::search(Value* low, Value* high, const std::function<Value*(Value* at)>& holds) {
  BasicBlock *around = b_.GetInsertBlock(), *test = f_.block("test"), *step = f_.block("step"),
             *found = f_.block("found");
  b_.CreateBr(test);
  b_.SetInsertPoint(test);
  llvm::PHINode *begin = b_.CreatePHI(low->getType(), 2), *end = b_.CreatePHI(low->getType(), 2);
  b_.CreateCondBr(b_.CreateICmpSLT(begin, end), step, found);
  b_.SetInsertPoint(step);
  Value* middle = b_.CreateLShr(b_.CreateAdd(begin, end), 1);
  Value* is_before = holds(middle);
  Value* next = b_.CreateAdd(middle, llvm::ConstantInt::get(low->getType(), 1));
  begin->addIncoming(low, around);
  begin->addIncoming(b_.CreateSelect(is_before, next, begin), b_.GetInsertBlock());
  end->addIncoming(high, around);
  end->addIncoming(b_.CreateSelect(is_before, end, middle), b_.GetInsertBlock());
  b_.CreateBr(test);
  b_.SetInsertPoint(found);
  return begin;
}

// Neighbours change places, those of even places and those of odd ones by turns: elements that are equal
// never pass each other.
Values Sorts::order_of_few(Value* left) {
  const size_t width = sorted_.size() + 1;
  Values items;  // of each place: where the element was, and its keys
  for (int64_t k = 0; k < each_; ++k) {
    items.push_back(b_.CreateAdd(mine_, i32(k)));
    const Values of = keys(items.back());
    items.insert(items.end(), of.begin(), of.end());
  }
  const auto item = [&](const Values& all, int64_t k) {
    const auto begin = all.begin() + k * static_cast<int64_t>(width);
    return Values(begin, begin + static_cast<int64_t>(width));
  };
  const auto exchange = [&](Values& all, int64_t k) {
    const Values x = item(all, k), y = item(all, k + 1);
    Value* is_less = before(Values(y.begin() + 1, y.end()), Values(x.begin() + 1, x.end()));
    Value* swaps = b_.CreateAnd(is_less, b_.CreateICmpSLT(i32(k + 1), left));
    Values both = choose(swaps, y, x);
    const Values second = choose(swaps, x, y);
    both.insert(both.end(), second.begin(), second.end());
    std::copy(both.begin(), both.end(), all.begin() + k * static_cast<int64_t>(width));
  };
  // Loops carry what there is.
  const auto there = [&](const Values& all) {
    Values out;
    std::copy_if(all.begin(), all.end(), std::back_inserter(out), [](Value* v) { return v != nullptr; });
    return out;
  };
  const Values last =
      f_.loop(i32(0), i32(each_ / 2), i32(1), there(items), [&](Value*, const Values& carried) {
        Values now = items;
        auto next = carried.begin();
        for (Value*& v : now)
          if (v) v = *next++;
        for (const int64_t odd : {0, 1})
          for (int64_t k = odd; k + 1 < each_; k += 2) exchange(now, k);
        return there(now);
      });
  Values order;
  for (size_t i = 0; i < last.size(); i += last.size() / static_cast<size_t>(each_)) order.push_back(last[i]);
  return order;
}

Values Sorts::order_of_two(Value* a, Value* a_count, Value* b, Value* b_count, Value* from) {
  // Threads whose places lie past the end have nothing to find.
  from = least(from, b_.CreateAdd(a_count, b_count));
  Value* of_a = search(most(i32(0), b_.CreateSub(from, b_count)), least(from, a_count), [&](Value* at) {
    Value* other = b_.CreateSub(b_.CreateSub(from, i32(1)), at);
    return b_.CreateNot(before(keys(b_.CreateAdd(b, other)), keys(b_.CreateAdd(a, at))));
  });
  Value *a_end = b_.CreateAdd(a, a_count), *b_end = b_.CreateAdd(b, b_count);
  a = b_.CreateAdd(a, of_a);
  b = b_.CreateAdd(b, b_.CreateSub(from, of_a));
  const auto inside = [&](Value* place) { return least(place, i32(tile_.places - 1)); };
  Values x = keys(inside(a)), y = keys(inside(b)), order;
  for (int64_t k = 0; k < each_; ++k) {
    Value* is_second =
        b_.CreateAnd(b_.CreateICmpSLT(b, b_end), b_.CreateOr(b_.CreateICmpSGE(a, a_end), before(y, x)));
    order.push_back(inside(b_.CreateSelect(is_second, b, a)));
    if (k + 1 == each_) break;
    a = b_.CreateSelect(is_second, a, b_.CreateAdd(a, i32(1)));
    b = b_.CreateSelect(is_second, b_.CreateAdd(b, i32(1)), b);
    const Values next = keys(inside(b_.CreateSelect(is_second, b, a)));
    x = choose(is_second, x, next);
    y = choose(is_second, next, y);
  }
  return order;
}

void Sorts::move(const Values& order) {
  std::vector<Values> moved;
  for (const Sorted& s : sorted_) {
    Values& values = moved.emplace_back();
    for (Value* place : order) values.push_back(take(s, place));
  }
  c_.rows.barrier();
  for (size_t v = 0; v < sorted_.size(); ++v)
    for (int64_t k = 0; k < each_; ++k)
      put(sorted_[v], b_.CreateAdd(mine_, i32(k)), moved[v][static_cast<size_t>(k)]);
  c_.rows.barrier();
}

void Sorts::sort_places(Value* count) {
  Value* mine = b_.CreateAnd(mine_, i32(tile_.pitch - 1));  // among the row's places
  Value* row = b_.CreateSub(mine_, mine);
  if (each_ > 1) move(order_of_few(b_.CreateSub(count, mine)));
  f_.loop(i32(0), i32(shift_of(tile_.pitch / each_)), i32(1), [&](Value* round) {
    Value* run = b_.CreateShl(i32(each_), round);
    Value* begin = b_.CreateAnd(mine, b_.CreateNeg(b_.CreateShl(run, 1)));
    Value *first = b_.CreateAdd(row, begin), *second = b_.CreateAdd(first, run);
    move(order_of_two(first, left_of(count, begin, run), second,
                      left_of(count, b_.CreateAdd(begin, run), run), b_.CreateSub(mine, begin)));
  });
}

}  // namespace

void emit_grid_sort(GridParts& parts) {
  Sorts sorts(parts);
  if (parts.schedule.form == GridForm::kSort) return sorts.emit_rows();
  sorts.emit_tiles();
  sorts.emit_splits();
  sorts.emit_merges(false);
  sorts.emit_merges(true);
}

}  // namespace lamina::jit::codegen
