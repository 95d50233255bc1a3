// The specialization cache, as the tools show it.
#ifndef LAMINA_CACHE_H_
#define LAMINA_CACHE_H_

#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace lamina::cache {

struct Stats {
  int64_t entries, hits, misses;
  double compile_ms;
};
Stats stats();

struct Entry {
  int64_t id;
  std::string kind, name, where;  // "lazy" or "jit", of the function, file:line
  std::string device;
  std::vector<std::string> arguments;
  std::string reason;  // why it was compiled
  int64_t runs;
  double compile_ms, run_ms;
};
std::vector<Entry> entries();
// Forgets them, and lets go of kernels that nothing else uses.
void clear();

// Bytes of arrays alive now, and the most there ever were.
struct Memory {
  int64_t live_bytes, peak_bytes;
};
Memory memory();

}  // namespace lamina::cache

#pragma GCC visibility pop

#endif  // LAMINA_CACHE_H_
