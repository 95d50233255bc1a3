// A compiled computation: steps over slots.
//
// Contract: re-entrant and immutable once made; a run takes all its memory, an arena and its results, before
// the first step and leaves nothing behind when it fails or is cancelled. Bits do not depend on threads, tier
// or fusion.
#ifndef LAMINA_JIT_PROGRAM_EXECUTABLE_H_
#define LAMINA_JIT_PROGRAM_EXECUTABLE_H_

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "cluster/fuse.h"
#include "hlo/computation.h"
#include "jit/client/allocator.h"
#include "jit/client/cancel.h"
#include "jit/cpu/kernel_context.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit {

class Engine;
class Executable;
class Kernel;
class RowStep;
struct RowChain;

// The state of one run: where its values lie, by place (jit/program/memory_plan.h). Steps read and write
// there; they allocate nothing but the working memory of library routines.
struct Run {
  Engine& engine;
  const CancelFlag* cancel;  // may be null
  int64_t& unwatched;        // work since the flag's watcher was asked; one count with programs inside steps
  std::array<std::byte*, 2> arena;
  KernelContext context;
  absl::InlinedVector<void*, 24> memory;
  int step = 0;  // the one that runs, or failed

  // Asked before each step, with the step's work. The flag is read every time; the watcher, which may read a
  // clock, once in so much work as takes some 20 us: in loops of tiny steps it would cost more than they do.
  bool stop_before(int64_t work) {
    if (!cancel) return false;
    if (work < kWatchedWork && (unwatched += kStepWork + work) < kWatchedWork) return cancel->requested();
    unwatched = 0;
    return cancel->stop_here();
  }

  static constexpr int64_t kStepWork = 1'000;  // of starting any step
  static constexpr int64_t kWatchedWork = 100'000;
};

class Step {
 public:
  virtual ~Step() = default;
  virtual absl::Status run(Run& run) const = 0;
  // Element operations; where they are not known, enough for the watcher to be asked each time.
  virtual int64_t work() const { return Run::kWatchedWork; }
  // One line for the report.
  virtual std::string describe() const = 0;
  // For listings: the kernel that it runs, and the programs inside it.
  virtual const Kernel* kernel() const { return nullptr; }
  virtual std::vector<const Executable*> programs() const { return {}; }
  // Itself, if it may run in parts (jit/program/row_chain.h).
  virtual const RowStep* by_rows() const { return nullptr; }

  // A step is made with slots of values. The plan of memory is made of what follows, and `place` then gives
  // the steps the place of each slot.
  struct MayOverwrite {
    int result, operand;  // slots
    bool saves_copy;      // the operand is copied to the result where they are apart
  };
  virtual std::vector<MayOverwrite> overwrites() const { return {}; }
  // Pairs of slots: a result that is an operand's value, in its memory.
  virtual std::vector<std::pair<int, int>> same_memory() const { return {}; }
  // Memory that it works in, besides what library routines take for themselves: bytes by part.
  virtual std::vector<int64_t> scratch_bytes() const { return {}; }
  virtual void place(std::span<const int> of_slot, std::span<const int> scratch) = 0;
};

class Executable {
 public:
  ~Executable();
  static absl::StatusOr<std::shared_ptr<const Executable>> compile(Engine& engine,
                                                                   const hlo::ComputationPtr& program);

  // `arguments`: dense row-major buffers of the parameter types. Fills one buffer per result; a result may be
  // the buffer of an argument.
  absl::Status run(std::span<const BufferRef> arguments, std::vector<BufferRef>& results,
                   const CancelFlag* cancel = nullptr) const;
  // The same, where results may be written over arguments that nobody else holds; these references are then
  // empty. After a failure they are if they may have been written over.
  absl::Status run_giving_up(std::span<BufferRef> arguments, std::vector<BufferRef>& results,
                             const CancelFlag* cancel = nullptr) const;

  // For programs inside steps, run many times in a row in memory that the caller has: an arena of
  // arena_bytes(), aligned to kArenaAlignment, and one destination per result.
  struct Binding {
    std::span<void* const> arguments;
    std::span<bool> writable;  // by argument: its memory may be written over and is the memory of no other
    std::span<void* const> destinations;  // apart from all arguments and from each other
    std::span<void*> results;  // where each result is: its destination, or an argument's, another result's or
                               // a constant's memory
  };
  Run start(const Run& outer, std::byte* arena) const;
  absl::Status run_in(Run& state, const Binding& binding) const;
  int64_t arena_bytes() const { return giving_up_->whole_arena_bytes(); }
  // Whether `result` needs no destination if `argument` is writable: it is that argument, or written over it.
  bool keeps_in(int result, int argument) const;
  // Whether it is that argument, as it came.
  bool passes_on(int result, int argument) const;

  const hlo::Computation& program() const { return *program_; }
  const cluster::Plan& plan() const { return plan_; }
  // Of a run that gives no argument up.
  const MemoryPlan& memory() const { return *memory_; }
  std::span<const std::unique_ptr<Step>> steps() const { return steps_; }
  // Steps, one per line.
  std::string describe() const;
  // Bytes that a run takes from the allocator for its values, results included, known before it. Arguments
  // and the working memory of single steps (packed panels of a dot) do not count; results written over
  // arguments that are given up make it less.
  int64_t peak_bytes() const { return memory_->block_bytes(); }

 private:
  friend class ExecutableBuilder;
  explicit Executable(Engine& engine);
  Run prepared(const MemoryPlan& plan, const CancelFlag* cancel, int64_t& unwatched,
               std::array<std::byte*, 2> arena) const;
  absl::Status run_steps(Run& state) const;
  // `given_up`: empty, or the arguments.
  absl::Status run_alone(const MemoryPlan& plan, std::span<const BufferRef> arguments,
                         std::span<BufferRef> given_up, std::vector<BufferRef>& results,
                         const CancelFlag* cancel) const;

  Engine& engine_;
  hlo::ComputationPtr program_;
  cluster::Plan plan_;
  std::unique_ptr<const MemoryPlan> memory_, giving_up_;
  std::vector<BufferRef> constants_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<RowChain> chains_;  // in order
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_EXECUTABLE_H_
