// Where the values of a program lie while it runs: decided when it is compiled.
//
// Contract: values that only name each other's memory are one *place*. Places whose life times follow each
// other share memory where a step may write over an operand; the others get offsets in one arena per run.
// Results get memory of their own, which may be that of an argument that is given up. Everything is a
// function of the request alone.
#ifndef LAMINA_JIT_PROGRAM_MEMORY_PLAN_H_
#define LAMINA_JIT_PROGRAM_MEMORY_PLAN_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace lamina::jit {

// Parts of an arena begin at multiples of this.
inline constexpr int64_t kArenaAlignment = 64;

// Memory held in the steps first ... last.
struct Lifetime {
  int64_t bytes;
  int first, last;
};

struct ArenaLayout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};

// Offsets such that what is held at one time does not overlap.
ArenaLayout lay_out(std::span<const Lifetime> parts);

// Step `step` may write result slot `result` over operand slot `operand`, of equal size, if it is the last to
// read it; `saves_copy` if it else copies the operand.
struct Overwrite {
  int step, result, operand;
  bool saves_copy;
};

// Slots are numbered from 0, those of the parameters first.
struct MemoryRequest {
  std::vector<int64_t> slot_bytes;
  int parameters = 0;
  std::vector<int> constants, results;
  std::vector<std::vector<int>> step_slots;         // what each step reads and writes
  std::vector<std::vector<int64_t>> scratch_bytes;  // by step: parts of memory that it works in
  std::vector<std::pair<int, int>> same_memory;     // a slot and the one whose memory it names, in order
  std::vector<Overwrite> overwrites;                // by step
  // First and last of the steps that run in turns: memory of one is held while any of them runs, but where
  // one writes over another's.
  std::vector<std::pair<int, int>> together;
};

// Places: one for all values that name each other's memory, and one for each part of scratch.
struct Places {
  explicit Places(const MemoryRequest& request);

  int count = 0;
  std::vector<int> of_slot;
  std::vector<std::vector<int>> scratch;  // by step
};

enum class Storage : uint8_t { kArgument, kConstant, kArena, kResult };

struct MemoryPlan {
  // Memory that becomes one or more results.
  struct Result {
    int64_t bytes;
    int number;              // of the first result in it
    bool alone;              // no other result lies in it
    int first;               // the step that first writes it
    int over = -1;           // the parameter that the step that first writes it may write over
    std::vector<int> after;  // parameters of its size that are not read from then on
  };
  struct Part {
    int space;  // of the arena
    int64_t offset, bytes;
    int first;
    int over = -1;  // as for a result
  };
  struct Place {
    Storage storage;
    int number;          // of the parameter, the constant (as in the request), the part, the result memory
    int64_t offset = 0;  // in result memory: of a temporary that is there before the result
  };

  // With `giving_up`, the arguments' memory is preferred for results over that of temporaries, which then
  // need some of their own.
  MemoryPlan(const MemoryRequest& request, const Places& places, bool giving_up);

  std::vector<Place> places;
  std::vector<Part> parts;
  std::vector<Result> results;
  std::vector<int64_t> result_bytes;  // of each
  std::vector<int> result_places;     // by result of the program
  std::vector<int> lent;              // parts that may lie in an argument
  // Places whose memory is another in each run, each with the number of its result memory, or, from
  // results.size() on, of its lent part.
  std::vector<std::pair<int, int>> moving;
  // The arena may be in two blocks, the second for small parts, where rounding to blocks wastes less so.
  std::array<int64_t, 2> arena_bytes{};
  // The most that arena parts held at one time add up to: no arena can be smaller.
  int64_t least_arena_bytes = 0;

  // Both spaces in one block.
  int64_t whole_arena_bytes() const { return arena_bytes[0] + arena_bytes[1]; }
  // What the allocator takes for arena and results.
  int64_t block_bytes() const;

 private:
  // Places parts in the memory of results that are written when the part is no longer held: `space` is then
  // the result memory. Whether it did, by part.
  std::vector<bool> lodge(std::span<const Lifetime> lives);
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_MEMORY_PLAN_H_
