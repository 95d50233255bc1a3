// A compiled computation: steps over slots.
//
// Contract: re-entrant and immutable once made; a run owns its slots, frees each buffer after its last use,
// and leaves nothing behind when it fails or is cancelled. Bits do not depend on threads, tier or fusion.
#ifndef LAMINA_JIT_EXECUTABLE_H_
#define LAMINA_JIT_EXECUTABLE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/fuse.h"
#include "hlo/computation.h"
#include "jit/runtime/allocator.h"
#include "jit/runtime/cancel.h"

namespace lamina::jit {

class Engine;

// The state of one run.
struct Run {
  Engine& engine;
  std::vector<BufferRef> slots;
  const CancelFlag* cancel;      // may be null
  std::span<const int> dying{};  // slots that nothing reads after the present step
  int64_t unwatched = 0;         // work since the flag's watcher was asked

  absl::StatusOr<BufferRef> allocate(const hlo::Type* type);
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
  // What the programs inside it allocate at most at one time (Executable::peak_bytes).
  virtual int64_t inner_peak_bytes() const { return 0; }
};

class Executable {
 public:
  static absl::StatusOr<std::shared_ptr<const Executable>> compile(Engine& engine,
                                                                   const hlo::ComputationPtr& program);

  // `arguments`: dense row-major buffers of the parameter types. Fills one buffer per result; a result may be
  // the buffer of an argument.
  absl::Status run(std::span<const BufferRef> arguments, std::vector<BufferRef>& results,
                   const CancelFlag* cancel = nullptr) const;
  // For many runs in a row, as loops make them: a state to run in, and a run that takes the arguments, so
  // that a step may write over one that nobody else holds. `arguments` is left with as many empty references;
  // `state` is ready for the next run.
  Run start(const CancelFlag* cancel) const;
  absl::Status run_in(Run& state, std::span<BufferRef> arguments, std::vector<BufferRef>& results) const;

  const hlo::Computation& program() const { return *program_; }
  const cluster::Plan& plan() const { return plan_; }
  std::span<const std::unique_ptr<Step>> steps() const { return steps_; }
  // Steps, one per line.
  std::string describe() const;
  // Bytes of the values, results included, that a run holds at most at one time, known before it. Arguments
  // and the working memory of single steps (packed panels of a dot) do not count; results written over
  // operands make it less.
  int64_t peak_bytes() const { return peak_bytes_; }

 private:
  friend class ExecutableBuilder;
  explicit Executable(Engine& engine) : engine_(engine) {}

  Engine& engine_;
  hlo::ComputationPtr program_;
  cluster::Plan plan_;
  int num_slots_ = 0;
  int64_t peak_bytes_ = 0;
  std::vector<std::pair<int, BufferRef>> constants_;  // slot, contents
  std::vector<int> result_slots_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::vector<int>> dead_after_;  // slots to free after each step
  std::vector<int> left_;                     // and at the end of a run
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_EXECUTABLE_H_
