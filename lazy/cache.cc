#include "lamina/cache.h"

#include "jit/cpu/client.h"
#include "jit/program/engine.h"
#include "lazy/derivative_memo.h"
#include "lazy/placement.h"
#include "trace/transform_memo.h"

namespace lamina::cache {

Stats stats() {
  const jit::CacheStats s = jit::Engine::get().cache().stats();
  return {s.entries, s.hits, s.misses, s.compile_ms};
}

std::vector<Entry> entries() {
  std::vector<Entry> out;
  for (jit::EntryInfo& e : jit::Engine::get().cache().entries())
    out.push_back({e.id, std::move(e.kind), std::move(e.name), std::move(e.where), std::move(e.device),
                   std::move(e.arguments), std::move(e.reason), e.runs, e.compile_ms, e.run_ms});
  return out;
}

void clear() {
  trace::forget_transformed();
  lazy::forget_derivatives();
  jit::Engine::get().cache().clear();
  jit::CpuClient::get().kernels().drop_unused();
  jit::trim_heap();
}

Memory memory() {
  const jit::MemoryStats s = lazy::default_device().memory().stats();
  return {s.live_bytes, s.peak_bytes};
}

}  // namespace lamina::cache
