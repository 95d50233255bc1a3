// What a kernel needs to know about threads: a plain-C callback that runs numbered tasks.
#ifndef LAMINA_JIT_CPU_PARALLEL_H_
#define LAMINA_JIT_CPU_PARALLEL_H_

#include <cstdint>
#include <type_traits>

namespace lamina::jit {

using TaskFn = void (*)(void* arg, int64_t task);

// Calls fn(arg, i) once for each i in [0, n), in any order and on any threads, and returns when all are done.
// The default-made value runs them in order on the calling thread.
struct ParallelFor {
  int threads = 1;  // how many may work at once: a hint for cutting the work, never for its order
  void* pool = nullptr;
  void (*run)(void* pool, int64_t n, TaskFn fn, void* arg) = nullptr;

  template <typename Fn>
  void operator()(int64_t n, Fn&& fn) const {
    if (!run || n == 1) {
      for (int64_t i = 0; i < n; ++i) fn(i);
      return;
    }
    using Callable = std::remove_reference_t<Fn>;
    run(
        pool, n, [](void* f, int64_t i) { (*static_cast<Callable*>(f))(i); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_PARALLEL_H_
