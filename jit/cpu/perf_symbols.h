// Names of generated code for profilers of whole processes: /tmp/perf-PID.map, which `perf report` reads.
//
// Contract: off, unless LAMINA_PERF_MAP is set to anything but nothing or 0, or `enable` was called; code
// that was made before is not listed. A name says what a kernel is and the lines that asked for it first, the
// first few of them. Code that has been let go of stays listed. A forked child writes a file of its own, with
// what it has from before. Safe from any thread.
#ifndef LAMINA_JIT_CPU_PERF_SYMBOLS_H_
#define LAMINA_JIT_CPU_PERF_SYMBOLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hlo/graph.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"

namespace lamina::jit {

class PerfSymbols {
 public:
  static PerfSymbols& get();

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void enable() { on_.store(true, std::memory_order_relaxed); }

  // The lines whose operations the kernel of that text does.
  void note_lines(std::string_view kernel, const std::vector<hlo::LocationId>& lines);
  // Its code.
  void add(std::string_view kernel, const void* code, size_t bytes);
  // Of this process.
  static std::string path();

 private:
  PerfSymbols();

  std::atomic<bool> on_;
  hlo::Mutex mutex_{hlo::LockRank::kLibraries};  // guards what follows
  HashMap<uint64_t, std::string> lines_;         // by hash of the kernel's text
  std::string known_;                            // what the file holds
  int process_ = 0;                              // whose file it is
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_PERF_SYMBOLS_H_
