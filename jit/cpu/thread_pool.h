// The one pool of worker threads.
//
// Contract: no thread exists before the first parallel_for that can use one. A job of n tasks on t threads
// has t shares: share i is the tasks [n*i/t, n*(i+1)/t), which thread i begins in order; the caller is thread
// 0. Who has done with a share takes the next tasks of the others, so that a busy processor holds nobody up
// longer than a task takes. Results must not depend on who runs what. A job started inside a task, or while
// another thread's job holds the pool, runs inline on its caller. Workers spin briefly for the next job, then
// sleep, and wake on another processor than their waker's; they have all signals blocked. After fork() the
// child has no workers and starts its own when it first needs them. A task that throws ends its share; when
// all shares have ended, one of the exceptions goes on at the caller. Tasks do not fork.
#ifndef LAMINA_JIT_CPU_THREAD_POOL_H_
#define LAMINA_JIT_CPU_THREAD_POOL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <type_traits>

#include "hlo/mutex.h"
#include "jit/cpu/parallel.h"

namespace lamina::jit {

// Processors this process may use: its affinity mask, cut to the CPU quota of its control group (v1 or v2,
// rounded up). `root` stands before /proc and /sys, for tests.
int available_cpus(const std::string& root = "");
// The quota alone; 0 when there is none.
int cgroup_cpu_quota(const std::string& root = "");
// Threads that work for a process: what LAMINA_NUM_THREADS says, also where that is more than there are
// processors, else available_cpus().
int default_threads();

class ThreadPool final : private hlo::ForkGuarded {
 public:
  // `size` threads, the caller included; 0 asks default_threads() at the first job.
  explicit ThreadPool(int size = 0) : ForkGuarded(hlo::LockRank::kThreads), size_(size) {}
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls fn(0) ... fn(n_tasks - 1), each once, and returns when all are done.
  template <typename Fn>
  void parallel_for(int64_t n_tasks, Fn&& fn) {
    using Callable = std::remove_reference_t<Fn>;
    run_job(
        n_tasks, [](void* f, int64_t i) { (*static_cast<Callable*>(f))(i); },
        const_cast<void*>(static_cast<const void*>(&fn)));
  }
  // The same as a value to hand to kernels; carries the thread limit of this moment as a hint.
  ParallelFor parallel() {
    return ParallelFor{usable_threads(), this, [](void* pool, int64_t n, TaskFn fn, void* arg) {
                         static_cast<ThreadPool*>(pool)->run_job(n, fn, arg);
                       }};
  }

  // Threads a job started now by this thread may use.
  int usable_threads();
  // The most that a job of `work` element operations is worth, whether they are awake or not.
  int threads_for(int64_t work) {
    const int64_t least = least_parallel_work_.load(std::memory_order_relaxed);
    if (work < least) return 1;
    const int64_t worth = least > 1 ? std::max<int64_t>(2, work / kWorkPerThread) : usable_threads();
    return static_cast<int>(std::min<int64_t>(worth, usable_threads()));
  }
  // The same for a job that begins now. Before a sleeping worker is awake a job of kWakingWork is half done,
  // and its caller has paid some 10 us for the call: smaller ones run alone then, until they have come to so
  // much.
  int threads_now(int64_t work);
  // Tasks that such a job on so many threads is best cut into, at most `most`: as many for each, and several,
  // so that who is done early finds some of the others', but none that is soon over.
  static int64_t tasks_for(int64_t threads, int64_t work, int64_t most) {
    if (threads <= 1 || most <= threads) return std::clamp<int64_t>(most, 1, threads);
    return threads *
           std::clamp(work / threads / kWorkPerThread, int64_t{1}, std::min(most / threads, kMostTasks));
  }
  // Where jobs begin to be shared; tests set it to 0, so that small programs run on several threads.
  void set_least_parallel_work(int64_t work) { least_parallel_work_.store(work, std::memory_order_relaxed); }
  static constexpr int64_t kLeastParallelWork = 250'000, kWorkPerThread = 500'000, kWakingWork = 10'000'000;
  static constexpr int64_t kMostTasks = 8;  // of a thread
  // Worker threads that exist now.
  int started_threads() const;

 private:
  struct State;

  void run_job(int64_t n_tasks, TaskFn fn, void* arg);
  int size();
  State* state();
  void before_fork() override { mutex_.lock(); }
  void after_fork(bool in_child) override;

  std::atomic<int> size_;
  std::atomic<int64_t> least_parallel_work_{kLeastParallelWork};
  std::atomic<int64_t> alone_{0};  // work done alone since sleeping workers were last woken
  std::mutex mutex_;               // guards the making of state_
  std::atomic<State*> state_{nullptr};
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_THREAD_POOL_H_
