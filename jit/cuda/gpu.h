// One device of the driver: what it can do, its primary context, which the process shares with other
// libraries, and whether it still works.
//
// Contract: never destroyed. All functions of the driver that may fail later are called through `call`, from
// any thread: the device's context is then current, and the thread's own is back when it returns. Calls
// inside `within` find it current and need not look: making it so takes up to three calls of the driver. A
// fault of the device loses it for good; nobody calls the driver for it any more, so that a forked child, to
// which all of them are lost, never does.
#ifndef LAMINA_JIT_CUDA_GPU_H_
#define LAMINA_JIT_CUDA_GPU_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "jit/cuda/driver.h"

namespace lamina::jit::cuda {

struct GpuFacts {
  std::string model;   // "NVIDIA H200"
  int capability = 0;  // 10 * major + minor: 90
  int multiprocessors = 0;
  int64_t bytes = 0;
};

// The lowest capability that kernels are written for.
inline constexpr int kLeastCapability = 75;

class Gpu {
 public:
  // Retains the primary context. FailedPrecondition, in words, where the device cannot serve.
  static absl::StatusOr<std::unique_ptr<Gpu>> open(const Driver& driver, int number);
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const std::string& name() const { return name_; }  // "cuda:0"
  int number() const { return number_; }
  const GpuFacts& facts() const { return facts_; }
  const Driver& driver() const { return driver_; }
  ContextHandle context() const { return context_; }

  // OK, or why for good nothing runs there any more.
  absl::Status health() const {
    const absl::Status* const lost = lost_.load(std::memory_order_acquire);
    return lost ? *lost : absl::OkStatus();
  }
  bool is_lost() const { return lost_.load(std::memory_order_acquire) != nullptr; }
  // The first reason stays.
  void lose(std::string_view why);

  // What the function returns; `doing` is for messages.
  template <typename... P, typename... A>
  absl::Status call(std::string_view doing, Result (*function)(P...), A... arguments) {
    return check(ask(function, arguments...), doing);
  }
  // The same where more than one answer is expected; of a lost device always kContextIsDestroyed.
  template <typename... P, typename... A>
  Result ask(Result (*function)(P...), A... arguments) {
    if (is_lost()) return Result::kContextIsDestroyed;
    const Current current(*this);
    return function(arguments...);
  }
  // Work of another library, which takes the device from the current context, or several calls, none of which
  // leaves another context behind; none for a lost device.
  template <typename Work>
  absl::Status within(Work work) {
    if (is_lost()) return health();
    const Current current(*this);
    return work();
  }
  // ResourceExhausted where memory ran out; faults lose the device.
  absl::Status check(Result result, std::string_view doing);

 private:
  // Makes the context the thread's current one while it lives.
  class Current {
   public:
    explicit Current(const Gpu& gpu) : outer_(inside_) {
      if (outer_ != &gpu) enter(gpu);
    }
    ~Current() {
      if (inside_ != outer_) leave();
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    void enter(const Gpu& gpu);
    void leave();

    static thread_local constinit const Gpu* inside_;
    const Gpu* const outer_;
    bool pushed_ = false;
  };

  Gpu(const Driver& driver, int number);

  const Driver& driver_;
  const int number_;
  const std::string name_;
  GpuFacts facts_;
  ContextHandle context_ = nullptr;
  std::atomic<const absl::Status*> lost_{nullptr};
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_GPU_H_
