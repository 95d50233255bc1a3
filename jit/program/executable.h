// A compiled computation: steps over slots.
//
// Contract: re-entrant and immutable once made, but for the frames of earlier runs, which it keeps for later
// ones; a run takes all its memory, an arena and its results, before the first step and leaves nothing behind
// when it fails or is cancelled. Bits do not depend on threads, tier or fusion.
#ifndef LAMINA_JIT_PROGRAM_EXECUTABLE_H_
#define LAMINA_JIT_PROGRAM_EXECUTABLE_H_

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/fuse.h"
#include "hlo/computation.h"
#include "jit/client/client.h"
#include "jit/program/frame.h"
#include "jit/program/memory_plan.h"
#include "jit/program/plan.h"
#include "jit/program/step.h"

namespace lamina::jit {

struct RowChain;

class Executable : public std::enable_shared_from_this<Executable> {
 public:
  ~Executable();
  static absl::StatusOr<std::shared_ptr<const Executable>> compile(Device& device,
                                                                   const hlo::ComputationPtr& program);
  // Of what program() of such a one gave: without the passes. Equal programs give equal steps and kernels, in
  // every process.
  static absl::StatusOr<std::shared_ptr<const Executable>> of_simplified(Device& device,
                                                                         hlo::ComputationPtr program);
  // Of a loop's body or a branch in a simplified program, which is simplified where no calls are left in it.
  static absl::StatusOr<std::shared_ptr<const Executable>> of_region(Device& device,
                                                                     const hlo::ComputationPtr& region);

  // `arguments`: dense row-major buffers of the parameter types, in memory of the device. Fills one buffer
  // per result, whose contents may still lie ahead; a result may be the buffer of an argument.
  absl::Status run(std::span<const BufferRef> arguments, std::vector<BufferRef>& results,
                   const CancelFlag* cancel = nullptr) const;
  // The same, where results may be written over arguments that nobody else holds; these references are then
  // empty. After a failure they are if they may have been written over.
  absl::Status run_giving_up(std::span<BufferRef> arguments, std::vector<BufferRef>& results,
                             const CancelFlag* cancel = nullptr) const;

  // For programs inside steps, run many times in a row in memory that the caller has: an arena of
  // arena_bytes(), aligned to kArenaAlignment, and one destination per result.
  struct Binding {
    std::span<const Address> arguments;
    std::span<bool> writable;  // by argument: its memory may be written over and is the memory of no other
    std::span<const Address> destinations;  // apart from all arguments and from each other
    std::span<Address> results;  // where each result is: its destination, or an argument's, another result's
                                 // or a constant's memory
  };
  // In a frame inside that of `outer`.
  void start(Frame& frame, const Frame& outer, Address arena) const;
  absl::Status run_in(Frame& frame, const Binding& binding) const;
  int64_t arena_bytes() const { return plan_.giving_up->whole_arena_bytes(); }
  // Whether `result` needs no destination if `argument` is writable: it is that argument, or written over it.
  bool keeps_in(int result, int argument) const;
  // Whether it is that argument, as it came.
  bool passes_on(int result, int argument) const;

  Device& device() const { return device_; }
  const hlo::Computation& program() const { return *program_; }
  const hlo::ComputationPtr& program_ptr() const { return program_; }
  const cluster::FusionPlan& fusion() const { return fusion_; }
  // Of a run that gives no argument up.
  const MemoryPlan& memory() const { return *plan_.keeping; }
  // All of it as data, but for what steps do.
  const ProgramPlan& plan() const { return plan_; }
  std::span<const std::unique_ptr<Step>> steps() const { return steps_; }
  // Of steps that run together, in order.
  std::span<const RowChain> chains() const;
  // Steps, one per line.
  std::string describe() const;
  // The most that a run takes from the allocator for its values, results included, known before it. Arguments
  // and the working memory of single steps (packed panels of a dot) do not count; results written over
  // arguments that are given up make it less, as do branches that do not run.
  int64_t peak_bytes() const { return plan_.keeping->block_bytes() + taken_bytes(); }
  // Of it, what steps take when they run.
  int64_t taken_bytes() const;
  // Whether every run is known to take microseconds.
  bool is_brief() const { return brief_; }
  // Runs that found no frame of an earlier one.
  int64_t frames_made() const { return frames_made_.load(std::memory_order_relaxed); }

 private:
  friend class ExecutableBuilder;
  // Runs at the same time that leave a frame each for later ones.
  static constexpr size_t kSpareFrames = 4;
  // A step, or the one that runs several together, with the number of the first and their work.
  struct Turn {
    const Step* step;
    int number;
    int64_t work;
  };
  class BorrowedFrame;

  explicit Executable(Device& device);
  std::unique_ptr<Frame> make_frame(const MemoryPlan& plan) const;
  absl::Status run_steps(Frame& frame) const;
  absl::Status run_steps_profiled(Frame& frame) const;
  // `given_up`: empty, or the arguments.
  absl::Status run_here(bool giving_up, std::span<const BufferRef> arguments, std::span<BufferRef> given_up,
                        std::vector<BufferRef>& results, const CancelFlag* cancel) const;
  // As run_here, on a stream that goes on after this returns.
  absl::Status run_later(bool giving_up, std::span<const BufferRef> arguments, std::span<BufferRef> given_up,
                         std::vector<BufferRef>& results, const CancelFlag* cancel) const;
  absl::Status run_alone(bool giving_up, std::span<const BufferRef> arguments, std::span<BufferRef> given_up,
                         std::vector<BufferRef>& results, const CancelFlag* cancel) const;

  Device& device_;
  hlo::ComputationPtr program_;
  cluster::FusionPlan fusion_;
  ProgramPlan plan_;
  std::vector<BufferRef> constants_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<RowChain> chains_;  // in order
  std::vector<Turn> turns_;
  // The same with batches in place of steps that are alike; the number is that of the last of them.
  std::vector<Turn> launches_;
  std::vector<std::unique_ptr<const Step>> batches_;
  bool brief_ = false;
  // By plan: keeping, giving up.
  mutable std::atomic<int64_t> frames_made_{0};
  mutable std::array<std::array<std::atomic<Frame*>, kSpareFrames>, 2> spare_{};
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_EXECUTABLE_H_
