// Threads that work for others: how many may, and how one starts.
#ifndef LAMINA_JIT_CLIENT_THREADS_H_
#define LAMINA_JIT_CLIENT_THREADS_H_

#include <functional>
#include <thread>

namespace lamina::jit {

// Limits the threads (caller included) that jobs started by this thread may use, read when a job starts;
// scopes nest, the smallest wins. n < 1 counts as 1.
class ScopedThreadLimit {
 public:
  explicit ScopedThreadLimit(int n);
  ~ScopedThreadLimit();
  ScopedThreadLimit(const ScopedThreadLimit&) = delete;
  ScopedThreadLimit& operator=(const ScopedThreadLimit&) = delete;

 private:
  int saved_;
};
// INT_MAX when no scope is open.
int current_thread_limit();

// Starts a thread that no signal comes to. Before its work begins it has what the C library allocates at a
// thread's first exception and first use of thread-local data, for which there is no error to report: where
// memory ends, that would end the process. Throws std::system_error if there is no thread, or no memory for
// these, to be had, and std::bad_alloc.
std::thread start_thread(std::function<void()> work);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_THREADS_H_
