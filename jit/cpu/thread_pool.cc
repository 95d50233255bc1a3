#include "jit/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <optional>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "jit/client/environment.h"
#include "jit/client/threads.h"

namespace lamina::jit {
namespace {

thread_local bool inside_job = false;

// Longer than the gap between two calls from Python, shorter than anyone would notice. In time, as a pause
// takes 9 to 70 ns, by processor.
constexpr std::chrono::microseconds kSpinTime{100};
constexpr int kSpinsBetweenLooks = 64;  // at the clock

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Whether `value` soon differs from `old`.
template <typename T>
bool changes_soon(const std::atomic<T>& value, T old) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do
    for (int i = 0; i < kSpinsBetweenLooks; ++i) {
      if (value.load(std::memory_order_acquire) != old) return true;
      relax();
    }
  while (std::chrono::steady_clock::now() < end);
  return false;
}
// Waits until it does.
template <typename T>
void wait_for_change(const std::atomic<T>& value, T old) {
  if (!changes_soon(value, old)) value.wait(old, std::memory_order_acquire);
}

// ceil(quota / period) if both are positive numbers, else 0.
int cpus_of_quota(int64_t quota, int64_t period) {
  if (quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::min<int64_t>((quota - 1) / period + 1, INT_MAX));
}

// Where memory runs out, reading throws instead of ending early.
std::ifstream open_file(const std::string& path) {
  std::ifstream file(path);
  file.exceptions(std::ios::badbit);
  return file;
}

int quota_v2(const std::string& dir) {
  std::ifstream file = open_file(dir + "/cpu.max");
  std::string quota;
  int64_t period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  std::istringstream number(quota);
  int64_t value = 0;
  if (!(number >> value)) return 0;
  return cpus_of_quota(value, period);
}

int quota_v1(const std::string& dir) {
  std::ifstream quota_file = open_file(dir + "/cpu.cfs_quota_us"),
                period_file = open_file(dir + "/cpu.cfs_period_us");
  int64_t quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  return cpus_of_quota(quota, period);
}

// The smallest quota of a group and the groups above it.
template <typename ReadQuota>
int smallest_quota(const std::string& mount, std::string group, ReadQuota read) {
  int smallest = 0;
  while (true) {
    const int quota = read(mount + group);
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return smallest;
    group.resize(slash);
  }
}

}  // namespace

int cgroup_cpu_quota(const std::string& root) try {
  // Lines are "number:controllers:/path"; number 0 with no controllers is version 2.
  std::ifstream groups = open_file(root + "/proc/self/cgroup");
  int smallest = 0;
  const auto take = [&](int quota) {
    if (quota > 0 && (smallest == 0 || quota < smallest)) smallest = quota;
  };
  std::string line;
  while (std::getline(groups, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = absl::StrCat(",", line.substr(first + 1, second - first - 1), ",");
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers == ",,") {
      take(smallest_quota(root + "/sys/fs/cgroup", group, quota_v2));
    } else if (controllers.find(",cpu,") != std::string::npos) {
      take(smallest_quota(root + "/sys/fs/cgroup/cpu", group, quota_v1));
      take(smallest_quota(root + "/sys/fs/cgroup/cpu,cpuacct", group, quota_v1));
    }
  }
  return smallest;
} catch (const std::ios_base::failure&) {
  return 0;  // what cannot be read sets no limit
}

int available_cpus(const std::string& root) {
  int cpus = 0;
  // The mask's size is not known beforehand on machines with more than 1024 processors.
  for (int capacity = 1024; cpus == 0 && capacity <= (1 << 20); capacity *= 4) {
    cpu_set_t* set = CPU_ALLOC(capacity);
    if (!set) break;
    const size_t bytes = CPU_ALLOC_SIZE(capacity);
    if (sched_getaffinity(0, bytes, set) == 0) cpus = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
  }
  if (cpus == 0) cpus = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const int quota = cgroup_cpu_quota(root);
  return quota > 0 ? std::min(cpus, quota) : cpus;
}

int default_threads() {
  constexpr int kMost = 4096;
  const std::optional<int> set = count_in_environment("LAMINA_NUM_THREADS", kMost);
  return set ? *set : available_cpus();
}

struct ThreadPool::State {
  // Tasks that nobody has begun.
  struct alignas(64) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  struct alignas(64) Worker {
    std::atomic<uint32_t> epoch{0};  // counts the jobs given to this worker
    std::atomic<uint32_t> entered{
        0};  // and those that it, or the caller for it, has entered: equal between jobs
    Sleep sleep;
    std::thread thread;
    Share share;

    // Whether the calling thread is the first to enter job number `job`.
    bool enter(uint32_t job) {
      uint32_t before = job - 1;
      return entered.compare_exchange_strong(before, job, std::memory_order_acq_rel);
    }
  };

  std::mutex job;  // held while a job runs
  TaskFn fn = nullptr;
  void* arg = nullptr;
  int64_t n_tasks = 0;
  int threads = 0;                  // of the running job
  Share own;                        // the caller's
  std::atomic<bool> failed{false};  // set by the one that sets `error`
  std::exception_ptr error;
  alignas(64) std::atomic<int> pending{0};
  std::atomic<bool> stopping{false};
  std::atomic<int> started{0};
  std::atomic<const Worker*> first{nullptr};     // of `workers`, which may be read under `job` alone
  std::vector<std::unique_ptr<Worker>> workers;  // worker i is thread i + 1 of a job

  Share& share(int thread) { return thread == 0 ? own : workers[thread - 1]->share; }

  void cut() {
    // 128-bit: the product of a task count and a thread count may not fit.
    const auto bound = [&](int i) {
      return static_cast<int64_t>(static_cast<__int128>(n_tasks) * i / threads);
    };
    for (int i = 0; i < threads; ++i) {
      share(i).next.store(bound(i), std::memory_order_relaxed);
      share(i).end = bound(i + 1);
    }
  }

  void run_tasks(Share& share) {
    if (share.next.load(std::memory_order_relaxed) >= share.end) return;
    try {
      for (int64_t i; (i = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) fn(arg, i);
    } catch (...) {
      share.next.store(share.end, std::memory_order_relaxed);
      if (!failed.exchange(true)) error = std::current_exception();
    }
  }

  void work(Worker* self, int thread) {
    inside_job = true;
    uint32_t seen = 0;
    while (true) {
      if (!changes_soon(self->epoch, seen)) self->sleep.until_changed(self->epoch, seen);
      // In this order: who counts the end itself as a job's number would sleep through it.
      seen = self->epoch.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_acquire)) return;
      if (!self->enter(seen)) continue;
      run_tasks(self->share);
      // A single task has been begun by now, or its worker is about to.
      for (int i = 1; i < threads && n_tasks > threads; ++i) run_tasks(share((thread + i) % threads));
      if (pending.fetch_sub(1, std::memory_order_acq_rel) == 1) pending.notify_one();
    }
  }

  // Starts workers up to `count`; fewer if the system refuses.
  void grow(int count) {
    while (static_cast<int>(workers.size()) < count) {
      const int thread = static_cast<int>(workers.size()) + 1;
      std::unique_ptr<Worker> worker;
      try {
        workers.reserve(workers.size() + 1);
        worker = std::make_unique<Worker>();
        worker->thread = start_thread([this, self = worker.get(), thread] { work(self, thread); });
      } catch (const std::system_error&) {
        return;
      } catch (const std::bad_alloc&) {
        return;
      }
      workers.push_back(std::move(worker));
      first.store(workers[0].get(), std::memory_order_release);
      started.store(static_cast<int>(workers.size()), std::memory_order_relaxed);
    }
  }

  void stop() {
    stopping.store(true, std::memory_order_release);
    for (auto& worker : workers) worker->sleep.count_up(worker->epoch);
    for (auto& worker : workers) worker->thread.join();
  }
};

ThreadPool::~ThreadPool() {
  if (State* state = state_.load(std::memory_order_acquire)) {
    state->stop();
    delete state;
  }
}

int ThreadPool::size() {
  int size = size_.load(std::memory_order_relaxed);
  if (size <= 0) {
    size = default_threads();
    size_.store(size, std::memory_order_relaxed);
  }
  return size;
}

int ThreadPool::usable_threads() { return inside_job ? 1 : std::min(size(), current_thread_limit()); }

int ThreadPool::threads_now(int64_t work) {
  const int threads = threads_for(work);
  if (threads == 1 || work >= kWakingWork || least_parallel_work_.load(std::memory_order_relaxed) <= 1)
    return threads;
  const State* const state = state_.load(std::memory_order_acquire);
  const State::Worker* const first = state ? state->first.load(std::memory_order_acquire) : nullptr;
  if (first && !first->sleep.asleep()) return threads;
  if (alone_.fetch_add(work, std::memory_order_relaxed) + work < kWakingWork) return 1;
  alone_.store(0, std::memory_order_relaxed);
  return threads;
}

int ThreadPool::started_threads() const {
  const State* state = state_.load(std::memory_order_acquire);
  return state ? state->started.load(std::memory_order_relaxed) : 0;
}

ThreadPool::State* ThreadPool::state() {
  State* state = state_.load(std::memory_order_acquire);
  if (state) return state;
  std::lock_guard lock(mutex_);
  state = state_.load(std::memory_order_relaxed);
  if (!state) {
    state = new State;
    state_.store(state, std::memory_order_release);
  }
  return state;
}

void ThreadPool::run_job(int64_t n_tasks, TaskFn fn, void* arg) {
  int threads = n_tasks > 1 ? static_cast<int>(std::min<int64_t>(n_tasks, usable_threads())) : 1;
  if (threads > 1) {
    State* state = this->state();
    std::unique_lock job(state->job, std::try_to_lock);
    if (job.owns_lock()) {
      state->grow(threads - 1);
      threads = std::min(threads, static_cast<int>(state->workers.size()) + 1);
      if (threads > 1) {
        state->fn = fn;
        state->arg = arg;
        state->n_tasks = n_tasks;
        state->threads = threads;
        state->cut();
        state->pending.store(threads - 1, std::memory_order_relaxed);
        for (int i = 0; i < threads - 1; ++i) {
          State::Worker& worker = *state->workers[i];
          worker.sleep.count_up(worker.epoch);
        }
        inside_job = true;
        state->run_tasks(state->own);
        // A worker that has not begun yet, because its processor is busy elsewhere or it is still waking, is
        // not waited for.
        for (int i = threads - 1; i-- > 0;) {
          ThreadPool::State::Worker& worker = *state->workers[i];
          state->run_tasks(worker.share);
          if (worker.enter(worker.epoch.load(std::memory_order_relaxed)))
            state->pending.fetch_sub(1, std::memory_order_acq_rel);
        }
        inside_job = false;
        for (int left; (left = state->pending.load(std::memory_order_acquire)) != 0;)
          wait_for_change(state->pending, left);
        if (state->failed.exchange(false)) std::rethrow_exception(std::exchange(state->error, nullptr));
        return;
      }
    }
  }
  for (int64_t i = 0; i < n_tasks; ++i) fn(arg, i);
}

void ThreadPool::after_fork(bool in_child) {
  // The workers do not exist in the child, and their thread objects can be neither joined nor destroyed: the
  // state is left behind, still reachable from nowhere, once per fork of a process that had used threads.
  if (in_child) state_.store(nullptr, std::memory_order_relaxed);
  mutex_.unlock();
}

}  // namespace lamina::jit
