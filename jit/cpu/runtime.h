// The machine resources of one context: memory and threads.
//
// Contract: one Runtime per context, at a stable address, outliving every buffer made from it. fork() in any
// thread leaves the child a usable Runtime: its memory intact, its workers started anew when first needed.
#ifndef LAMINA_JIT_CPU_RUNTIME_H_
#define LAMINA_JIT_CPU_RUNTIME_H_

#include "jit/client/allocator.h"
#include "jit/cpu/thread_pool.h"

namespace lamina::jit {

class Runtime {
 public:
  // `threads` as for ThreadPool.
  explicit Runtime(int threads = 0) : pool_(threads) {}
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  Allocator& allocator() { return allocator_; }
  ThreadPool& pool() { return pool_; }

 private:
  Allocator allocator_;
  ThreadPool pool_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_RUNTIME_H_
