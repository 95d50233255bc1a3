// A step of an executable.
#ifndef LAMINA_JIT_PROGRAM_STEP_H_
#define LAMINA_JIT_PROGRAM_STEP_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hlo/graph.h"
#include "jit/kernel/schedule.h"
#include "jit/program/frame.h"
#include "jit/program/plan.h"

namespace lamina::jit {

class Executable;

// Gives the slot of a value.
using SlotOf = std::function<int(const hlo::Value&)>;

struct KernelText {
  std::string text;
  Schedule schedule;
  std::string grid = {};  // in its place, the text of the schedule on a grid
};
// As listings show it.
std::string to_string(const KernelText& kernel);

// How a step reaches a value: element (index along the leading dimension) * stride + [low, high).
struct RowAccess {
  int slot;
  bool written;
  int64_t stride, low, high;
  int64_t elements, bytes;  // of the value
};

class Step {
 public:
  virtual ~Step() = default;
  // Has the device do it, on values where the frame says, now or later: the frame serves other runs once this
  // returns. Touches what its plan says and nothing else; keeps no memory but the working memory of library
  // routines and, while it runs, taken_bytes.
  virtual absl::Status enqueue(Frame& frame) const = 0;
  // Element operations; where they are not known, enough for the watcher to be asked each time.
  virtual int64_t work() const { return RunControl::kWatchedWork; }
  // Whether it may take longer than its work says, or that is much.
  virtual bool may_take_long() const { return work() >= RunControl::kWatchedWork; }
  // One line for the report.
  virtual std::string describe() const = 0;
  // For listings: the kernels that it runs.
  virtual std::vector<const KernelText*> kernels() const { return {}; }
  // The programs inside it, each of which runs in a frame of its own.
  virtual std::vector<const Executable*> programs() const { return {}; }

  // Extent of the leading dimension, if it may run in parts of it (jit/program/row_chain.h); 0: it may not.
  virtual int64_t leading() const { return 0; }
  virtual std::vector<RowAccess> row_accesses() const { return {}; }

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
  // The most that it takes from the allocator while it runs.
  virtual int64_t taken_bytes() const { return 0; }
  struct Placing {
    std::span<const int> of_slot;
    const StepPlan& plan;
    int first_frame;  // among the inner frames, that of its first program
  };
  virtual void place(const Placing& placing) = 0;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_STEP_H_
