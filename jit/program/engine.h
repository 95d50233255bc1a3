// The one context object of execution: the caches of what was compiled.
//
// Contract: made on first use, never destroyed (handles may outlive static destruction), safe from any
// thread.
#ifndef LAMINA_JIT_PROGRAM_ENGINE_H_
#define LAMINA_JIT_PROGRAM_ENGINE_H_

#include "jit/program/specialization_cache.h"

namespace lamina::jit {

class Engine {
 public:
  static Engine& get();

  SpecializationCache& cache() { return cache_; }

 private:
  Engine() = default;
  SpecializationCache cache_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_ENGINE_H_
