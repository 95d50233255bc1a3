// Steps that follow each other on the device's queue, started as one (jit/cuda/graph.h).
//
// Contract: bits, errors and counters of kernels are those of the steps. The first runs of a frame go step by
// step. Later ones start a graph, which is of certain addresses: of those made for the frame one that has
// these, or else one that is changed for them, where that takes less time than to start the steps. Where
// addresses differ too much, and too often, runs go step by step again, more and more of them before the next
// try. What the driver refuses is not asked of it again; the steps then run, and a counter tells. Another
// thread's run has a frame, and graphs, of its own.
#ifndef LAMINA_JIT_CUDA_GRAPH_STEP_H_
#define LAMINA_JIT_CUDA_GRAPH_STEP_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "jit/program/target.h"

namespace lamina::jit::cuda {

// A kernel that is started alone takes the driver as long as a graph of one. Two are the least of which a
// graph saves one.
inline constexpr size_t kLeastCalls = 2;
// Runs of a frame that go step by step before the first graph: most programs are run once or twice, and code
// is loaded by then.
inline constexpr int64_t kPlainRuns = 2;
// Of one frame: loops that swap what they read and write need two, and so do the results that they swap with.
inline constexpr size_t kMostGraphs = 4;
// Of runs that go step by step after one whose addresses no graph has.
inline constexpr int64_t kLongestPause = 64;

// For tests: of frames that are made from now on. Gives what that was.
int64_t set_plain_runs(int64_t runs);

// Of the first of `steps`, placed; none where they do more than put work on a queue, or too little.
Target::Batch make_graph_step(std::span<const Step* const> steps);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_GRAPH_STEP_H_
