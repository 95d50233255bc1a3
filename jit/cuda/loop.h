// Loops whose turns the device starts: graphs with loops inside (jit/cuda/graph.h).
//
// Contract: bits and errors are those of turns that the host starts. A graph is of certain addresses; a frame
// keeps a few, and for other addresses another is made in place of that which ran longest ago. What the
// driver refuses is not asked of it again, a counter tells, and the host then starts each turn. One that
// never ends keeps its device busy until the process ends, and nothing behind it runs; who waits may stop
// waiting.
#ifndef LAMINA_JIT_CUDA_LOOP_H_
#define LAMINA_JIT_CUDA_LOOP_H_

#include <cstdint>
#include <memory>
#include <span>

#include "jit/cuda/kernels.h"
#include "jit/cuda/loop_switch.h"
#include "jit/program/target.h"

namespace lamina::jit::cuda {

// Bytes that a turn may copy for the next one: about what a slow device copies while the host would read an
// answer, some 20 us.
inline constexpr int64_t kMostCopied = 4 << 20;

// As Target::loop, on devices such as this one.
absl::StatusOr<std::unique_ptr<const Target::Loop>> make_loop(CudaKernels& kernels, LoopSwitch& loop_switch,
                                                              Gpu& gpu, std::span<const Step* const> steps,
                                                              int64_t copied);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LOOP_H_
