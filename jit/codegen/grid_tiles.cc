// Tiles: what crosses the last dimension is loaded along the dimension that it walks, and turned in the
// memory that a block shares.
//
// Every load is in bounds: indices past the end of a dimension read what the last ones do. A thread's other
// loads are under way while the block meets.
#include "jit/kernel/grid_tiles.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <bit>
#include <deque>

#include "jit/codegen/grid_schedule.h"

namespace lamina::jit::codegen {

using llvm::Type;
using llvm::Value;

namespace {

constexpr int64_t kMovedBytes = 16, kTurnedBytes = 4;
// Single elements that a thread loads before it stores one.
constexpr int64_t kMostSingly = 8;
// Threads of a warp that load vectors side by side, if there are so many.
constexpr int64_t kMostBeside = 8;
// Tiles beside each other that are made one after another.
constexpr int64_t kStripe = 32;

int shift_of(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }

class Tiles {
 public:
  explicit Tiles(GridParts& parts)
      : c_(parts),
        f_(parts.f),
        b_(f_.builder()),
        crossed_(crossed_loads(parts.kernel)),
        tile_(grid_tile(parts.schedule)),
        last_(parts.kernel.parallel_rank - 1) {}
  void emit();

 private:
  // A crossed load: in this block's tile, and where its tile is shared.
  struct Staged {
    const CrossedLoad& load;
    TileLayout layout;
    DType type;
    int64_t element;  // bytes
    bool constant;
    Value* shared = nullptr;
    Value* origin = nullptr;  // address of the tile's first element
    Value* stride = nullptr;  // along the last dimension, in elements
    int64_t parts() const { return static_cast<int64_t>(load.accesses.size()); }
    // Indices of the crossed dimension that are moved at once.
    int64_t vector(const GridTile& tile) const { return std::min(kMovedBytes / load.bytes, tile.across); }
  };
  // What a thread holds of a vector of each of `group` indices along: the words that go to shared memory.
  struct Turned {
    Value* address;
    Value* on;  // where it is this thread's alone; null: everywhere
    Values words;
  };
  // The elements that a thread makes in one of its rows.
  struct Mine {
    Value* there;
    GridLanes::Making making;
  };

  void find_tile();
  void place(Staged& staged, int64_t at);
  void open_rows();
  void stage();
  std::vector<Turned> load_vectors(const Staged& staged);
  Values turn(const Staged& staged, const Values& vectors);
  void stage_singly(const Staged& staged);
  void take(GridLanes::Making& making, const Staged& staged, size_t row);

  Value* bits(Value* a, int from, int64_t count) {
    return b_.CreateAnd(from ? b_.CreateLShr(a, from) : a, f_.i64(count - 1));
  }
  Value* least(Value* a, Value* b) { return b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b); }
  Value* byte_at(Value* base, Value* offset) { return b_.CreateGEP(b_.getInt8Ty(), base, offset); }
  Value* byte_at(Value* base, int64_t offset) {
    return b_.CreateConstGEP1_64(b_.getInt8Ty(), base, static_cast<uint64_t>(offset));
  }
  Value* element_address(const Staged& staged, Value* along, Value* across) {
    Value* offset =
        b_.CreateAdd(b_.CreateMul(along, staged.stride), b_.CreateMul(across, f_.i64(staged.parts())));
    return b_.CreateGEP(f_.prims().memory_type(staged.type, 1), staged.origin, offset);
  }
  int64_t rows_at_once() const { return tile_.across / c_.schedule.vectors; }
  // Bytes of a number of words.
  Value* words_at(const Staged& staged, Value* words) {
    return b_.CreateShl(words, shift_of(staged.layout.word));
  }

  GridParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const CrossedLoads crossed_;
  const GridTile tile_;
  const int last_;
  std::vector<Staged> staged_;
  std::vector<uint32_t> given_;
  Value* thread_ = nullptr;
  // The tile: indices of the other dimensions, its first ones in its own, and how many are left from there.
  Values indices_;
  Value *across_ = nullptr, *along_ = nullptr, *left_across_ = nullptr, *left_along_ = nullptr;
  // What is this thread's: the first index along, and the first one across, in the tile.
  Value *my_along_ = nullptr, *my_across_ = nullptr;
  std::deque<Row> rows_;
  std::vector<Mine> mine_;
};

// Tiles follow each other along the dimension that has fewer of them, in stripes: those under way at a time
// are long stretches of memory either way.
void Tiles::find_tile() {
  Value *across_end = f_.arg(static_cast<uint32_t>(crossed_.dim)),
        *along_end = f_.arg(static_cast<uint32_t>(last_));
  Value *down = c_.rows.parts(across_end, tile_.across), *side = c_.rows.parts(along_end, tile_.along);
  Value* number = c_.rows.block();
  indices_.assign(static_cast<size_t>(last_) + 1, nullptr);
  if (last_ > 1) {
    Value* plane = b_.CreateMul(down, side);
    Value* outer = c_.rows.quotient(number, plane);
    number = b_.CreateSub(number, b_.CreateMul(outer, plane));
    int left = last_ - 1;
    for (int d = last_; d-- > 0;) {
      if (d == crossed_.dim) continue;
      Value* q = --left > 0 ? c_.rows.quotient(outer, f_.arg(static_cast<uint32_t>(d))) : nullptr;
      indices_[static_cast<size_t>(d)] =
          q ? b_.CreateSub(outer, b_.CreateMul(q, f_.arg(static_cast<uint32_t>(d)))) : outer;
      outer = q;
    }
  }
  Value* is_down = b_.CreateICmpSLE(down, side);
  Value *fewer = b_.CreateSelect(is_down, down, side), *more = b_.CreateSelect(is_down, side, down);
  Value* stripe = b_.CreateMul(more, f_.i64(kStripe));
  Value* before = c_.rows.quotient(number, stripe);
  number = b_.CreateSub(number, b_.CreateMul(before, stripe));
  before = b_.CreateMul(before, f_.i64(kStripe));
  Value* width = least(b_.CreateSub(fewer, before), f_.i64(kStripe));
  Value* slow = c_.rows.quotient(number, width);
  Value* fast = b_.CreateAdd(before, b_.CreateSub(number, b_.CreateMul(slow, width)));
  across_ = b_.CreateMul(b_.CreateSelect(is_down, fast, slow), f_.i64(tile_.across));
  along_ = b_.CreateMul(b_.CreateSelect(is_down, slow, fast), f_.i64(tile_.along));
  left_across_ = b_.CreateSub(across_end, across_);
  left_along_ = b_.CreateSub(along_end, along_);
}

void Tiles::place(Staged& staged, int64_t at) {
  staged.shared = byte_at(staged.shared, at);
  const Access& access = c_.kernel.accesses[staged.load.accesses[0]];
  Value* offset = access.offset_slot < 0 ? f_.i64(0) : f_.arg(static_cast<uint32_t>(access.offset_slot));
  for (const AccessTerm& term : access.terms) {
    Value* stride = term.unit ? f_.i64(term.unit) : f_.arg(term.stride_slot);
    Value* index = term.dim == crossed_.dim ? across_ : term.dim == last_ ? along_ : indices_[term.dim];
    if (term.dim == last_) staged.stride = stride;
    offset = b_.CreateAdd(offset, b_.CreateMul(index, stride));
  }
  staged.origin = b_.CreateGEP(f_.prims().memory_type(staged.type, 1), f_.buffer(access.buffer), offset);
}

// Rows are so many as the schedule has vectors; those past the end are made like the last one, as far as they
// are loaded.
void Tiles::open_rows() {
  const int64_t lanes = c_.schedule.lanes, side = threads_along(c_.schedule);
  const int64_t warps_along = tile_.along / (side * lanes);
  Value* warp = b_.CreateLShr(thread_, shift_of(kWarp));
  Value* vector =
      b_.CreateAdd(b_.CreateMul(bits(warp, 0, warps_along), f_.i64(side)), bits(thread_, 0, side));
  my_along_ = b_.CreateMul(vector, f_.i64(lanes));
  my_across_ = b_.CreateAdd(b_.CreateMul(b_.CreateLShr(warp, shift_of(warps_along)), f_.i64(kWarp / side)),
                            bits(thread_, shift_of(side), kWarp / side));
  Value* end = f_.arg(static_cast<uint32_t>(last_));
  Value* start = b_.CreateAdd(along_, my_along_);
  Value* some = b_.CreateICmpSLT(my_along_, left_along_);
  if (lanes == 1) start = least(start, b_.CreateSub(end, f_.i64(1)));
  const GridLanes::Part part{c_.schedule.lanes, {start}, end};
  const SectionEmitter::Uses uses = SectionEmitter::uses_of(c_.kernel.stores);
  for (uint32_t v = 0; v < c_.schedule.vectors; ++v) {
    Value* row = b_.CreateAdd(my_across_, f_.i64(v * rows_at_once()));
    Value* there = b_.CreateAnd(some, b_.CreateICmpSLT(row, left_across_));
    Values indices = indices_;
    indices[static_cast<size_t>(crossed_.dim)] =
        b_.CreateAdd(across_, least(row, b_.CreateSub(left_across_, f_.i64(1))));
    rows_.push_back(c_.sections.begin(c_.kernel.body, last_, indices, uses));
    mine_.push_back({there, c_.lanes.begin(rows_.back(), part, c_.kernel.stores, given_)});
  }
}

// ---- to shared memory

void Tiles::stage() {
  Value* odd = nullptr;  // bits of addresses, strides and extents that should not be there for vectors
  const auto see = [&](Value* value, int64_t multiple) {
    Value* found = b_.CreateAnd(b_.CreateTrunc(value, b_.getInt32Ty()),
                                b_.getInt32(static_cast<uint32_t>(multiple - 1)));
    odd = odd ? b_.CreateOr(odd, found) : found;
  };
  for (const Staged& s : staged_) {
    const int64_t bytes = s.vector(tile_) * s.load.bytes;
    see(b_.CreatePtrToInt(s.origin, b_.getInt64Ty()), bytes);
    see(b_.CreateMul(s.stride, f_.i64(s.element)), bytes);
    see(left_across_, s.vector(tile_));
  }
  llvm::BasicBlock *vectors = f_.block("vectors"), *elements = f_.block("elements"),
                   *staged = f_.block("staged");
  b_.CreateCondBr(b_.CreateICmpEQ(odd, b_.getInt32(0)), vectors, elements);
  b_.SetInsertPoint(vectors);
  std::vector<Turned> all;
  for (const Staged& s : staged_)
    for (Turned& turned : load_vectors(s)) all.push_back(std::move(turned));
  for (const Turned& turned : all) {
    const auto store = [&] {
      const auto size = static_cast<int64_t>(turned.words[0]->getType()->getPrimitiveSizeInBits() / 8);
      for (size_t k = 0; k < turned.words.size(); ++k)
        b_.CreateAlignedStore(turned.words[k], byte_at(turned.address, static_cast<int64_t>(k) * size),
                              llvm::Align(static_cast<uint64_t>(size)));
    };
    if (turned.on)
      f_.if_then(turned.on, store);
    else
      store();
  }
  b_.CreateBr(staged);
  b_.SetInsertPoint(elements);
  for (const Staged& s : staged_) stage_singly(s);
  b_.CreateBr(staged);
  b_.SetInsertPoint(staged);
}

// A warp loads eight vectors side by side of each of four groups of indices along.
std::vector<Tiles::Turned> Tiles::load_vectors(const Staged& s) {
  const int64_t width = s.vector(tile_), group = s.layout.group;
  const int64_t across = tile_.across / width, groups = tile_.along / group;
  const int64_t side = std::min(across, kMostBeside), down = kWarp / side;  // of a warp's threads
  const int64_t warps = kGridThreads / kWarp, warps_side = across / side;
  const int64_t at_once = std::min(warps, warps_side), down_at_once = down * (warps / at_once);
  Value* warp = b_.CreateLShr(thread_, shift_of(kWarp));
  Value* first_side =
      b_.CreateAdd(bits(thread_, 0, side), b_.CreateMul(bits(warp, 0, at_once), f_.i64(side)));
  Value* first_group = b_.CreateAdd(bits(thread_, shift_of(side), down),
                                    b_.CreateMul(b_.CreateLShr(warp, shift_of(at_once)), f_.i64(down)));
  Value* on = groups < down_at_once ? b_.CreateICmpSLT(first_group, f_.i64(groups)) : nullptr;
  Value* last_along = b_.CreateSub(left_along_, f_.i64(1));
  Value* last_across = b_.CreateSub(left_across_, f_.i64(width));
  const int64_t bytes = width * s.load.bytes, word = s.load.bytes < 8 ? kTurnedBytes : 8;
  Type* type = b_.getIntNTy(static_cast<unsigned>(word * 8));
  if (bytes > word) type = llvm::FixedVectorType::get(type, static_cast<unsigned>(bytes / word));
  std::vector<Turned> made;
  for (int64_t i = 0; i < warps_side / at_once; ++i)
    for (int64_t j = 0; j < std::max<int64_t>(groups / down_at_once, 1); ++j) {
      Value* vector = b_.CreateAdd(first_side, f_.i64(i * at_once * side));
      Value* number = b_.CreateAdd(first_group, f_.i64(j * down_at_once));
      Value* start = b_.CreateMul(vector, f_.i64(width));
      if (on) number = bits(number, 0, groups);
      Values loaded;
      for (int64_t r = 0; r < group; ++r) {
        Value* along = b_.CreateAdd(b_.CreateMul(number, f_.i64(group)), f_.i64(r));
        Value* address = element_address(s, least(along, last_along), least(start, last_across));
        loaded.push_back(c_.lanes.load_one(type, address, nullptr, s.constant));
      }
      Value* word_number = b_.CreateAdd(b_.CreateMul(first_group, f_.i64(s.layout.pitch)),
                                        b_.CreateMul(first_side, f_.i64(width)));
      const int64_t further = j * down_at_once * s.layout.pitch + i * at_once * side * width;
      Value* place = byte_at(byte_at(s.shared, words_at(s, word_number)), further * s.layout.word);
      made.push_back({place, on, std::move(loaded)});
    }
  for (Turned& turned : made) turned.words = turn(s, turned.words);
  return made;
}

// Vectors of elements side by side across, one of each index along, to words of those indices.
Values Tiles::turn(const Staged& s, const Values& vectors) {
  if (s.load.bytes == kMovedBytes) return vectors;
  const auto words_of = [&](Value* vector) {
    Values words;
    auto* type = llvm::dyn_cast<llvm::FixedVectorType>(vector->getType());
    if (!type) return Values{vector};
    for (unsigned k = 0; k < type->getNumElements(); ++k) words.push_back(b_.CreateExtractElement(vector, k));
    return words;
  };
  if (s.layout.group == 1) return words_of(vectors[0]);
  const int64_t in_word = kTurnedBytes / s.load.bytes;
  const auto bits_of = static_cast<unsigned>(s.load.bytes * 8);
  const uint32_t mask = (uint32_t{1} << bits_of) - 1;
  std::vector<Values> words;
  for (Value* vector : vectors) words.push_back(words_of(vector));
  Values turned;
  for (int64_t k = 0; k < s.vector(tile_); ++k) {
    Value* word = nullptr;
    const auto from = static_cast<unsigned>(k % in_word) * bits_of;
    for (size_t r = 0; r < words.size(); ++r) {
      const auto to = static_cast<unsigned>(r) * bits_of;
      Value* part = words[r][static_cast<size_t>(k / in_word)];
      if (from > to) part = b_.CreateLShr(part, from - to);
      if (from < to) part = b_.CreateShl(part, to - from);
      part = b_.CreateAnd(part, b_.getInt32(mask << to));
      word = word ? b_.CreateOr(word, part) : part;
    }
    turned.push_back(word);
  }
  return turned;
}

// Without vectors: threads side by side across.
void Tiles::stage_singly(const Staged& s) {
  const int64_t each = tile_.across * tile_.along / kGridThreads, down = kGridThreads / tile_.across;
  const int64_t group = s.layout.group, batch = std::min(each, kMostSingly);
  Value* across = bits(thread_, 0, tile_.across);
  Value* first = b_.CreateLShr(thread_, shift_of(tile_.across));
  Value* there = least(across, b_.CreateSub(left_across_, f_.i64(1)));
  Value* last_along = b_.CreateSub(left_along_, f_.i64(1));
  Type* type = f_.prims().memory_type(s.type, 1);
  const llvm::Align align(static_cast<uint64_t>(s.element));
  f_.loop(f_.i64(0), f_.i64(each), f_.i64(batch), [&](Value* number) {
    Values loaded, places;
    for (int64_t k = 0; k < batch; ++k) {
      Value* along = b_.CreateAdd(first, b_.CreateMul(b_.CreateAdd(number, f_.i64(k)), f_.i64(down)));
      Value* from = element_address(s, least(along, last_along), there);
      for (int64_t p = 0; p < s.parts(); ++p)
        loaded.push_back(c_.lanes.load_one(type, byte_at(from, p * s.element), nullptr, s.constant));
      Value* word =
          b_.CreateAdd(b_.CreateMul(b_.CreateLShr(along, shift_of(group)), f_.i64(s.layout.pitch)), across);
      Value* place = byte_at(s.shared, words_at(s, word));
      places.push_back(byte_at(place, b_.CreateMul(bits(along, 0, group), f_.i64(s.load.bytes))));
    }
    for (size_t k = 0; k < loaded.size(); ++k) {
      const auto p = static_cast<int64_t>(k) % s.parts();
      b_.CreateAlignedStore(loaded[k], byte_at(places[k / static_cast<size_t>(s.parts())], p * s.element),
                            align);
    }
  });
}

// ---- and from it

void Tiles::take(GridLanes::Making& making, const Staged& s, size_t row) {
  const int64_t lanes = c_.schedule.lanes, group = s.layout.group, bits_of = s.element * 8;
  Value* word = b_.CreateAdd(b_.CreateMul(b_.CreateLShr(my_along_, shift_of(group)), f_.i64(s.layout.pitch)),
                             my_across_);
  Value* mine = byte_at(s.shared, words_at(s, word));
  if (lanes < group) mine = byte_at(mine, b_.CreateMul(bits(my_along_, 0, group), f_.i64(s.load.bytes)));
  mine = byte_at(mine, static_cast<int64_t>(row) * rows_at_once() * s.layout.word);
  Type* element = f_.prims().memory_type(s.type, 1);
  // What is taken at a time: the parts of an element, or a word of elements that are shorter.
  const int64_t at_once = std::min(lanes, group), size = s.load.bytes * at_once;
  const bool whole = s.element >= kTurnedBytes;
  Type* type = whole ? element : b_.getIntNTy(static_cast<unsigned>(size * 8));
  if (whole && s.parts() > 1) type = llvm::FixedVectorType::get(element, static_cast<unsigned>(s.parts()));
  for (int64_t k = 0; k < lanes; k += at_once) {
    Value* taken =
        c_.lanes.load_one(type, byte_at(mine, k / at_once * s.layout.pitch * s.layout.word), nullptr, false);
    for (int64_t i = 0; i < at_once * s.parts(); ++i) {
      Value* value = taken;
      if (!whole)
        value = b_.CreateTrunc(b_.CreateLShr(taken, static_cast<uint64_t>(i * bits_of)), element);
      else if (s.parts() > 1)
        value = b_.CreateExtractElement(taken, static_cast<uint64_t>(i));
      making.loaded[s.load.accesses[static_cast<size_t>(i % s.parts())]].push_back(value);
    }
  }
}

void Tiles::emit() {
  c_.enter(kGridEntry, false);
  int64_t bytes = 0;
  for (const CrossedLoad& load : crossed_.loads) {
    const Access& access = c_.kernel.accesses[load.accesses[0]];
    const DType type = c_.kernel.buffers[access.buffer].type;
    staged_.push_back(
        {load, tile_layout(load, tile_), type, hlo::byte_size(type), c_.lanes.is_constant(access.buffer)});
    bytes += staged_.back().layout.bytes;
    given_.insert(given_.end(), load.accesses.begin(), load.accesses.end());
  }
  Value* shared = c_.shared_memory(bytes);
  thread_ = c_.rows.thread();
  find_tile();
  bytes = 0;
  for (Staged& s : staged_) {
    s.shared = shared;
    place(s, bytes);
    bytes += s.layout.bytes;
  }
  open_rows();
  stage();
  c_.rows.barrier();
  for (size_t v = 0; v < mine_.size(); ++v)
    f_.if_then(mine_[v].there, [&] {
      for (const Staged& s : staged_) take(mine_[v].making, s, v);
      c_.lanes.finish(mine_[v].making, [&](Value* i, unsigned) {
        const Values values = c_.sections.emit(rows_[v], i, 1);
        c_.sections.store(rows_[v], c_.kernel.stores, values, i, 1);
      });
    });
  c_.leave();
}

}  // namespace

void emit_grid_tiles(GridParts& parts) { Tiles(parts).emit(); }

}  // namespace lamina::jit::codegen
