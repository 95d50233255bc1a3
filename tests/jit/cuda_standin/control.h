// What tests tell the stand-in for the CUDA driver, and ask of it.
//
// The stand-in (driver.cc) exports the functions of jit/cuda/driver.def, and those by which other libraries
// make memory and streams on the same devices (tests/python/cuda_peer.py), for two devices that are not
// there: memory that the host cannot read, streams that run late and in any legal order, and the record of
// who touches what that the fake device has too (jit/fake/queues.h). Besides what that finds, violations are:
//   - copies from or to memory of the host that is not pinned, or that changed between call and copy;
//   - work on a stream while another device's context is current;
//   - blocks freed twice;
//   - launches of our kernels that their plan (jit/kernel/grid.h) does not hold;
//   - on a stream that is captured, what does not belong in a graph of ours: waits, events, memory taken or
//     let go of, copies from or to the host; captures that restrict what threads may do, and that;
//   - graphs (graphs.cc) that start with nodes over common bytes that nothing orders, with kernels whose
//     module is gone, or that are changed by a node of a graph that is gone.
// The stand-ins for nvJitLink (assembler.cc), cublasLt (blas.cc), cuBLAS (cublas.cc), cuDNN (dnn.cc,
// dnn_attention.cc), cuFFT (fft.cc) and cuSOLVER (solver.cc) are in the same library. Where a copy out will
// leave its bytes lies poison until it has run. In a forked child every function aborts.
//
// Environment, read when it is loaded: LAMINA_STANDIN_INIT what cuInit returns, LAMINA_STANDIN_VERSION,
// LAMINA_STANDIN_DEVICES, LAMINA_STANDIN_CAPABILITY (10 * major + minor).
#ifndef LAMINA_TESTS_JIT_CUDA_STANDIN_CONTROL_H_
#define LAMINA_TESTS_JIT_CUDA_STANDIN_CONTROL_H_

#include <cstdint>

extern "C" {

// Functions that fail on request.
enum StandinCall : int {
  kStandinAllocate,
  kStandinCopy,
  kStandinLaunch,
  kStandinRecord,
  kStandinEvent,
  kStandinMultiply,  // of cublasLt
  kStandinCapture,
  kStandinEndCapture,
  kStandinMakeGraph,
  kStandinChangeGraph,
  kStandinStartGraph,
  kStandinConvolve,   // of cuDNN
  kStandinPlan,       // of cuFFT
  kStandinTransform,  // of cuFFT
  kStandinFactor,     // of cuSOLVER
  kStandinSolve,      // of cuBLAS
  kStandinCalls,      // how many there are
};

// Mistakes of a runtime, as if it had called otherwise.
enum StandinMistake : int {
  kStandinNone,
  kStandinForgetsWaits,     // cuStreamWaitEvent does nothing
  kStandinRecordsEarly,     // events are those of all but the last command
  kStandinFreesElsewhere,   // blocks are freed on another stream than the one they were taken from
  kStandinSkipsCopies,      // copies within a device do nothing
  kStandinCopiesElsewhere,  // copies within a device go on another stream
  kStandinForgetsChanges,   // graphs stay as they were made
  kStandinForgetsOrder,     // nodes of graphs wait for no other
  kStandinForgetsScale,     // attention multiplies scores by 1
  kStandinMisreadsStrides,  // attention reads keys as if they lay by batch and head
};

struct StandinCounts {
  int64_t launches, transfers, bytes, allocations;
  int64_t code_loads, text_loads;  // modules of machine code, and of PTX
  int64_t graphs, graph_starts, graph_changes, captures;
  int64_t direct_launches;  // calls, without those of graphs
  int64_t timings;          // between two events
  int64_t context_calls;    // what makes a context current, or asks for it
};

// A kernel that modules have under this name. Its parameters are 8 bytes each; the first `buffers` are
// addresses, which `run` gets as pointers of the host. `touch` calls add(sink, parameter, bytes, is_written).
struct StandinKernel {
  const char* name;
  int buffers, parameters;
  void (*touch)(const uint64_t* parameters, void* sink, void (*add)(void*, int, int64_t, bool));
  void (*run)(const uint64_t* parameters, unsigned blocks, unsigned threads);
};

// All launches of a kernel's plan, on memory of the host: texts of kernel and schedule, arguments, and where
// each buffer begins and how many bytes of it there are. Of a chain these of all kernels, and how many rows
// there are and a block makes, which is 0 else.
struct StandinRun {
  const char *kernel, *schedule;
  const int64_t* args;
  int num_args, num_buffers;
  char* const* buffers;
  const int64_t* bytes;
  int64_t rows, block_rows;
};

struct StandinControl {
  void (*set_seed)(uint64_t seed);
  void (*set_mistake)(StandinMistake mistake);
  // The n-th call from now on (0: the next) returns this result; negative: none does.
  void (*fail)(StandinCall call, int64_t nth, int result);
  // The n-th launch or copy from now on faults when it runs.
  void (*fault)(int64_t nth, int result);
  void (*add_kernel)(const StandinKernel* kernel);
  // Runs our kernels from now on, and gives what went wrong, "" if nothing did; null: they are interpreted.
  void (*set_runner)(const char* (*run)(const StandinRun* run));
  // What an algorithm of cublasLt or an engine of cuDNN takes, by its number; 1 otherwise. Negative: all do.
  void (*set_time)(int64_t algorithm, double milliseconds);
  // Runs everything, and the host knows that it has.
  void (*drain)();
  void (*take_violations)(void* sink, void (*add)(void* sink, const char* text));
  StandinCounts (*take_counts)();
  int64_t (*live_blocks)();
  // Of both kinds.
  int64_t (*live_graphs)();
};

const StandinControl* lamina_cuda_standin();
}

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_CONTROL_H_
