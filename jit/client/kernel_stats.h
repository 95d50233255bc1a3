// Counters of kernels, since the process began.
#ifndef LAMINA_JIT_CLIENT_KERNEL_STATS_H_
#define LAMINA_JIT_CLIENT_KERNEL_STATS_H_

#include <cstdint>

namespace lamina::jit {

struct KernelStats {
  int64_t kernels = 0;  // distinct structures: those that there are
  int64_t compiles = 0;
  int64_t loads = 0;    // taken from the disk cache instead
  int64_t adopted = 0;  // that came with a program from a file
  int64_t pending = 0;  // kernels that wait for their code now
  int64_t interpreted_runs = 0;
  int64_t switched_runs = 0;  // of these: to machine code in their midst
  int64_t compiled_runs = 0;
  // Kernels and calls of libraries that a device keeps, to start them as one: how many such graphs were made,
  // how often one ran, and how many could not be made or did not start.
  int64_t graphs = 0, graph_runs = 0, graphs_refused = 0;
  int64_t code_bytes = 0;
  int64_t bytes = 0;  // of memory that those kept take, about
  double compile_ms = 0;

  KernelStats& operator+=(const KernelStats& o) {
    kernels += o.kernels;
    compiles += o.compiles;
    loads += o.loads;
    adopted += o.adopted;
    pending += o.pending;
    interpreted_runs += o.interpreted_runs;
    switched_runs += o.switched_runs;
    compiled_runs += o.compiled_runs;
    graphs += o.graphs;
    graph_runs += o.graph_runs;
    graphs_refused += o.graphs_refused;
    code_bytes += o.code_bytes;
    bytes += o.bytes;
    compile_ms += o.compile_ms;
    return *this;
  }
};

// Of all clients that were made so far.
KernelStats kernel_stats();

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_KERNEL_STATS_H_
