// A code generator for tests: its compile waits until it may end, and fails.
#ifndef LAMINA_TESTS_JIT_BLOCKING_GENERATOR_H_
#define LAMINA_TESTS_JIT_BLOCKING_GENERATOR_H_

#include <atomic>

struct BlockingGenerator {
  std::atomic<int> calls{0};
  std::atomic<bool> may_end{false};
};

#endif  // LAMINA_TESTS_JIT_BLOCKING_GENERATOR_H_
