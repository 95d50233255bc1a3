// The host stand-in for a grid: the same IR that becomes PTX, retargeted to this machine.
//
// Contract: every thread of a block runs as the code says, on its own stack if it meets others (barrier,
// shuffle), else to its end, in order or in a random one; blocks likewise. Memory of the device has addresses
// of its own, which every access is checked by: bounds, alignment, and that nothing is written but what the
// kernel writes. Shared memory holds a pattern when a block begins. Threads that wait at different places for
// each other, or for ever, are a fault. What it does not do: instruction selection (the assembler test
// does), the memory model, speed.
#ifndef LAMINA_TESTS_GRID_STANDIN_H_
#define LAMINA_TESTS_GRID_STANDIN_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/kernel/grid_chain.h"

namespace llvm {
class Module;
}

namespace lamina::grid {

// A piece of the device's memory, for as long as a launch lasts.
struct Region {
  char* data;
  int64_t bytes;
  bool writable;
  int64_t skew = 0;  // its address is so much past a multiple of 256
};

// Bytes of it that threads have loaded and stored.
struct Traffic {
  int64_t loaded = 0, stored = 0;
};

// 0: threads and blocks in order. Otherwise: a random order.
using Seed = uint64_t;

class StandIn {
 public:
  // Of the kernel's entries; `change` (may be null) is applied to the IR first: to plant mistakes. The code
  // is what a chip of that name gets, else the least one.
  static absl::StatusOr<std::unique_ptr<StandIn>> make(const jit::LoopKernel& kernel,
                                                       const jit::GridSchedule& schedule,
                                                       void (*change)(llvm::Module&) = nullptr,
                                                       const char* chip = "");
  // Of one kernel, or of a chain.
  static absl::StatusOr<std::unique_ptr<StandIn>> make(std::vector<jit::GridPart> parts,
                                                       void (*change)(llvm::Module&) = nullptr,
                                                       const char* chip = "");
  ~StandIn();

  // Runs what grid_plan says for these arguments; buffers that are given twice are one memory. Gives what
  // went wrong, empty if nothing did.
  std::string run(std::span<const Region> buffers, std::span<const int64_t> args, Seed seed);
  // The same of a chain: buffers and arguments of all its kernels.
  struct Rows {
    int64_t rows, block_rows;
  };
  std::string run_chain(std::span<const Region> buffers, std::span<const int64_t> args, Rows rows, Seed seed);
  // Of the last run, by buffer; of buffers that are one memory all is that of the first.
  std::vector<Traffic> traffic() const;
  // Whether threads of it meet others.
  bool meets() const;

 private:
  struct State;
  explicit StandIn(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace lamina::grid

#endif  // LAMINA_TESTS_GRID_STANDIN_H_
