// The one context object of execution: memory, threads, kernels and the specialization cache.
//
// Contract: made on first use, never destroyed (handles may outlive static destruction), safe from any
// thread.
#ifndef LAMINA_JIT_ENGINE_H_
#define LAMINA_JIT_ENGINE_H_

#include "jit/kernel_store.h"
#include "jit/runtime/runtime.h"
#include "jit/specialization_cache.h"

namespace lamina::jit {

class Engine {
 public:
  static Engine& get();

  Runtime& runtime() { return runtime_; }
  Allocator& allocator() { return runtime_.allocator(); }
  KernelStore& kernels() { return kernels_; }
  SpecializationCache& cache() { return cache_; }

 private:
  Engine() : cache_(*this) {}
  Runtime runtime_;
  KernelStore kernels_;
  SpecializationCache cache_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_ENGINE_H_
