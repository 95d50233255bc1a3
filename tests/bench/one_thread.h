// Keeps the library that is compared with to one thread.
#ifndef LAMINA_TESTS_BENCH_ONE_THREAD_H_
#define LAMINA_TESTS_BENCH_ONE_THREAD_H_

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lamina::testing {

// Starts the program once more with OMP_NUM_THREADS=1 where it is not set: OpenMP reads it when it is loaded,
// before main. `argv` is main's.
inline void run_openmp_on_one_thread(char** argv) {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads && std::strcmp(threads, "1") == 0) return;
  setenv("OMP_NUM_THREADS", "1", 1);
  execv("/proc/self/exe", argv);
  std::perror("execv");
  std::exit(1);
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_BENCH_ONE_THREAD_H_
