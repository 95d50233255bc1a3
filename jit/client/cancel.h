// Stopping a run: a flag that kernels poll, and a way to run long work while the calling thread watches for
// signals.
//
// Contract: a flag belongs to one run. Kernels and library calls read it at least once per tile and return
// early when it is set; the run then ends with Cancelled and its results are dropped.
#ifndef LAMINA_JIT_CLIENT_CANCEL_H_
#define LAMINA_JIT_CLIENT_CANCEL_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace lamina::jit {

// Asked between the steps of a run, on the thread that runs them; true stops the run.
class StepWatcher {
 public:
  virtual ~StepWatcher() = default;
  virtual bool between_steps() = 0;
};

class CancelFlag {
 public:
  explicit CancelFlag(StepWatcher* watcher = nullptr) : watcher_(watcher) {}
  // Safe in a signal handler.
  void request() { value_.store(1, std::memory_order_relaxed); }
  bool requested() const { return value_.load(std::memory_order_relaxed) != 0; }
  // As requested, after asking the watcher.
  bool stop_here() const { return requested() || (watcher_ && watcher_->between_steps()); }
  const std::atomic<int32_t>* flag() const { return &value_; }
  // For generated code, which reads it as a plain int32.
  const int32_t* address() const { return reinterpret_cast<const int32_t*>(&value_); }

 private:
  static_assert(std::atomic<int32_t>::is_always_lock_free && sizeof(std::atomic<int32_t>) == sizeof(int32_t));
  std::atomic<int32_t> value_{0};
  StepWatcher* watcher_;
};

// Runs `work` on a thread of its own (with the caller's thread limit) and calls `poll` on the calling thread
// every 20 ms until the work ends; when `poll` returns true the flag is set, and the work is awaited. So
// Python's signal handlers, which only the main thread may run, stop a kernel that holds no interpreter lock.
// Costs a thread start: for runs expected to take milliseconds. Returns the work's status, or Cancelled if
// the flag was set; what the work throws is thrown here.
absl::Status run_interruptible(CancelFlag& cancel, const std::function<bool()>& poll,
                               const std::function<absl::Status()>& work);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_CANCEL_H_
