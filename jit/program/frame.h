// The state of one run of an executable: where its values lie.
//
// Contract: made once and used for run after run, by one run at a time. Constants are in place; arguments,
// results and the arena come with each run. Frames of the programs inside steps are parts of it.
#ifndef LAMINA_JIT_PROGRAM_FRAME_H_
#define LAMINA_JIT_PROGRAM_FRAME_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "jit/client/cancel.h"
#include "jit/client/client.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit {

// Of one run, with the programs inside its steps.
struct RunControl {
  const CancelFlag* cancel;  // may be null
  int64_t unwatched = 0;     // work since the flag's watcher was asked

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

// What a step keeps from run to run with the frame that it ran in.
class StepState {
 public:
  virtual ~StepState() = default;
};

struct Frame {
  Frame(const MemoryPlan& plan, Device& device, std::span<const BufferRef> constants);
  // The same places, none of them known, for a device that does the work of another.
  Frame(const Frame& of, Device& device);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  // The arena of the next run.
  void set_arena(std::array<Address, 2> blocks);

  const MemoryPlan& plan;
  Device& device;
  RunControl* control = nullptr;  // of the run
  std::vector<Address> at;        // by place (jit/program/memory_plan.h)
  std::array<Address, 2> arena;
  std::vector<BufferRef> made;                // the run's result memory, then what stands for lent parts
  std::vector<std::unique_ptr<Frame>> inner;  // of the programs inside steps, in order
  int step = 0;                               // the one that runs, or failed
  // Of the few steps that keep something.
  std::vector<std::pair<const void*, std::unique_ptr<StepState>>> states;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_FRAME_H_
