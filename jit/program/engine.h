// The one context object of execution: memory, threads, kernels and the specialization cache.
//
// Contract: made on first use, never destroyed (handles may outlive static destruction), safe from any
// thread.
#ifndef LAMINA_JIT_PROGRAM_ENGINE_H_
#define LAMINA_JIT_PROGRAM_ENGINE_H_

#include "jit/cpu/runtime.h"
#include "jit/program/kernel_store.h"
#include "jit/program/specialization_cache.h"

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

#endif  // LAMINA_JIT_PROGRAM_ENGINE_H_
