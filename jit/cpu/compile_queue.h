// Kernels that wait for machine code, and the thread that serves them while they run interpreted.
//
// Contract: the thread exists from the first `add` on and does one kernel at a time, the most urgent first
// (see Kernel::urgency), which is found anew each time, since what waits goes on running. Kernels that
// nothing but the queue holds any more are let go of. A forked child starts its own thread when it first
// needs one; what waited or was being compiled there is cold again and asks anew. The thread has all signals
// blocked. The end of a process does not wait for it.
#ifndef LAMINA_JIT_CPU_COMPILE_QUEUE_H_
#define LAMINA_JIT_CPU_COMPILE_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "hlo/mutex.h"
#include "jit/client/threads.h"

namespace lamina::jit {

class Kernel;

class CompileQueue final : private hlo::ForkGuarded {
 public:
  // `serve` is called on the queue's thread for kernels that it has claimed, and settles them.
  explicit CompileQueue(std::function<void(Kernel&)> serve);
  // Waits for the kernel that is being compiled.
  ~CompileQueue() override;

  // Claims and queues a kernel that is cold; false where no thread can be had, and the kernel stays cold.
  bool add(std::shared_ptr<Kernel> kernel);
  // Makes a kernel that is cold or waits the caller's to compile, between `claim` and `settle`. Waits while
  // another thread compiles it; false if nothing is left to do then.
  bool claim(Kernel& kernel);
  void settle(Kernel& kernel);

  // Kernels that wait or are being compiled by the queue's thread.
  int64_t pending() const { return pending_.load(std::memory_order_acquire); }

 private:
  void before_fork() override {}
  void after_fork(bool in_child) override;
  void run(Sleep& sleep);
  std::shared_ptr<Kernel> take();
  bool start();

  const std::function<void(Kernel&)> serve_;
  hlo::Mutex mutex_{hlo::LockRank::kCompiles};  // guards what follows
  std::vector<std::shared_ptr<Kernel>> waiting_;
  std::vector<Kernel*> claimed_;
  struct Worker {
    Sleep sleep;
    std::thread thread;
  };
  std::unique_ptr<Worker> worker_;
  std::atomic<uint32_t> changes_{0};  // of what waits, and of stopping_
  std::atomic<int64_t> pending_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_COMPILE_QUEUE_H_
