// Threads that work for others: how many may, how one starts, and how it sleeps.
#ifndef LAMINA_JIT_CLIENT_THREADS_H_
#define LAMINA_JIT_CLIENT_THREADS_H_

#include <sched.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
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

// The sleep of one thread, which ends on another processor than its waker's. A thread that wakes may be put
// on that one, where it does not run before the waker waits: on Linux 6.18 for tens of milliseconds, though
// other processors are idle. So its affinity mask is without its waker's processor until it is awake. Nor
// does it yield before it sleeps, as std::atomic does: who yields to a thread that spins is not run for a
// whole turn of that one, whatever it is woken for.
class Sleep {
 public:
  // Of the thread that sleeps: returns when `value` is no longer `old`.
  void until_changed(const std::atomic<uint32_t>& value, uint32_t old);
  // Of its waker: counts `value` up and wakes the thread if it sleeps until that changes.
  void count_up(std::atomic<uint32_t>& value);

  bool asleep() const { return asleep_.load(std::memory_order_relaxed); }

 private:
  void keep_away_from_here();

  std::atomic<bool> asleep_{false};
  std::mutex placing_;      // guards what follows, and where the thread may run while it is asleep
  pid_t id_ = 0;            // of the system; 0 until it has slept
  bool kept_away_ = false;  // from a processor that is among `processors_`
  cpu_set_t processors_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_THREADS_H_
