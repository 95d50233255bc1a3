#include "jit/client/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <exception>
#include <system_error>
#include <utility>

namespace lamina::jit {
namespace {

thread_local int thread_limit = INT_MAX;

// Blocks every signal for the calling thread, and so for threads it starts, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

// Address space kept for a thread until it starts. More than an allocator takes from the system at a time.
class Reserve {
 public:
  Reserve() : at_(mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED)
      throw std::system_error(std::make_error_code(std::errc::not_enough_memory), "no memory for a thread");
  }
  Reserve(Reserve&& other) noexcept : at_(std::exchange(other.at_, MAP_FAILED)) {}
  ~Reserve() { give(); }
  void give() {
    if (at_ != MAP_FAILED) munmap(std::exchange(at_, MAP_FAILED), kBytes);
  }

 private:
  static constexpr size_t kBytes = size_t{2} << 20;
  void* at_;
};

}  // namespace

ScopedThreadLimit::ScopedThreadLimit(int n) : saved_(thread_limit) {
  thread_limit = std::min(thread_limit, std::max(n, 1));
}
ScopedThreadLimit::~ScopedThreadLimit() { thread_limit = saved_; }

int current_thread_limit() { return thread_limit; }

std::thread start_thread(std::function<void()> work) {
  SignalsBlocked no_signals;
  return std::thread([reserve = Reserve(), work = std::move(work)]() mutable {
    reserve.give();
    [[maybe_unused]] volatile const int touched = std::uncaught_exceptions() + thread_limit;
    work();
  });
}

void Sleep::until_changed(const std::atomic<uint32_t>& value, uint32_t old) {
  {
    std::lock_guard lock(placing_);
    id_ = gettid();
    asleep_.store(true);  // before the value is read, as its waker changes that before it asks for this
  }
  while (value.load() == old) syscall(SYS_futex, &value, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
  std::lock_guard lock(placing_);
  asleep_.store(false, std::memory_order_relaxed);
  if (std::exchange(kept_away_, false)) sched_setaffinity(0, sizeof(processors_), &processors_);
}

void Sleep::count_up(std::atomic<uint32_t>& value) {
  keep_away_from_here();
  value.fetch_add(1);
  if (asleep_.load()) syscall(SYS_futex, &value, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

// Changes nothing where the thread is awake or may not run elsewhere.
void Sleep::keep_away_from_here() {
  if (!asleep()) return;
  std::lock_guard lock(placing_);
  const int here = sched_getcpu();
  if (!asleep() || kept_away_ || here < 0 || here >= CPU_SETSIZE ||
      sched_getaffinity(id_, sizeof(processors_), &processors_) != 0 || !CPU_ISSET(here, &processors_))
    return;
  cpu_set_t others = processors_;
  CPU_CLR(here, &others);
  kept_away_ = CPU_COUNT(&others) > 0 && sched_setaffinity(id_, sizeof(others), &others) == 0;
}

}  // namespace lamina::jit
