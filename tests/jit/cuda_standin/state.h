// What the stand-in for the CUDA driver (driver.cc) keeps.
#ifndef LAMINA_TESTS_JIT_CUDA_STANDIN_STATE_H_
#define LAMINA_TESTS_JIT_CUDA_STANDIN_STATE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/jit/cuda_standin/kernel_twin.h"
#include "tests/jit/cuda_standin/standin.h"

// What the handles are of.
namespace lamina::jit::cuda {
struct OpaqueContext {
  int device;
  std::atomic<Result> fault{Result::kSuccess};
  std::vector<StreamHandle> streams;
  // Of other libraries; the legacy default stream is one of them.
  StreamHandle legacy = nullptr;
  std::vector<StreamHandle> others;
  std::vector<StreamHandle> all() const {
    std::vector<StreamHandle> out = streams;
    out.insert(out.end(), others.begin(), others.end());
    return out;
  }
};
struct OpaquePool {
  int device;
};
struct OpaqueEvent {
  ContextHandle context;
  int queue = 0;
  uint64_t value = 0;  // 0: nothing is waited for
  bool has_time = false;
  double milliseconds = 0;  // of its stream
};
struct OpaqueFunction {
  StandinKernel kernel;  // where it is no twin's
  std::shared_ptr<const KernelTwin> twin;
  std::string entry;
};
struct OpaqueModule {
  std::shared_ptr<const KernelTwin> twin;
  std::vector<std::unique_ptr<OpaqueFunction>> functions;
};
}  // namespace lamina::jit::cuda

namespace standins {

using lamina::jit::cuda::OpaqueContext;
using Queues = FakeQueues;

inline constexpr int kMostDevices = 8;

struct Block {
  int64_t bytes;
  StreamHandle stream;
};

// A copy between the host and a device that has not run.
struct Pinned {
  std::unique_ptr<unsigned char[]> memory;
  size_t bytes;
};

class Standin {
 public:
  static Standin& get() {
    static auto* const standin = new Standin;
    return *standin;
  }

  Queues queues;
  std::array<OpaqueContext, kMostDevices> contexts;
  const int devices = setting("LAMINA_STANDIN_DEVICES", 2);
  const int capability = setting("LAMINA_STANDIN_CAPABILITY", 90);

  std::mutex mutex;  // of what follows
  StandinMistake mistake = kStandinNone;
  std::array<std::pair<int64_t, Result>, kStandinCalls> failures{};
  int64_t until_fault = -1;
  Result fault = Result::kSuccess;
  std::map<DevicePointer, Block> blocks;
  std::vector<Pinned> pinned;
  std::map<std::string, StandinKernel> kernels;
  std::set<FunctionHandle> functions;
  std::map<int64_t, double> times;
  const char* (*runner)(const StandinRun* run) = nullptr;
  std::vector<std::string> violations;
  StandinCounts counts{};

  void violation(std::string text) {
    std::lock_guard lock(mutex);
    violations.push_back(std::move(text));
  }
  bool is_pinned(const void* at, size_t bytes) {
    std::lock_guard lock(mutex);
    const auto* const begin = static_cast<const unsigned char*>(at);
    return std::any_of(pinned.begin(), pinned.end(), [&](const Pinned& p) {
      return begin >= p.memory.get() && begin + bytes <= p.memory.get() + p.bytes;
    });
  }
  // Of a call that is to fail.
  Result fails(StandinCall call) {
    std::lock_guard lock(mutex);
    auto& [nth, result] = failures[call];
    return nth >= 0 && nth-- == 0 ? result : Result::kSuccess;
  }
  StandinMistake made() {
    std::lock_guard lock(mutex);
    return mistake;
  }

  // Work that may fault, on the stream.
  void enqueue(StreamHandle stream, Queues::Kind kind, std::string what, std::vector<Queues::Touch> touches,
               std::function<void()> work) {
    {
      std::lock_guard lock(mutex);
      (kind == Queues::Kind::kLaunch ? counts.launches : counts.transfers) += 1;
      if (kind == Queues::Kind::kTransfer && !touches.empty()) counts.bytes += touches[0].bytes;
    }
    const ContextHandle context = stream->context;
    queues.enqueue(stream->queue, {kind, std::move(what), std::move(touches),
                                   [this, context, work = std::move(work)]() -> absl::Status {
                                     if (strikes(*context)) return absl::InternalError("a fault");
                                     work();
                                     return absl::OkStatus();
                                   }});
  }

 private:
  Standin() {
    for (int i = 0; i < kMostDevices; ++i) contexts[static_cast<size_t>(i)].device = i;
    for (auto& [nth, result] : failures) nth = -1;
  }
  bool strikes(OpaqueContext& context) {
    Result result;
    {
      std::lock_guard lock(mutex);
      if (until_fault < 0 || until_fault-- > 0) return false;
      result = fault;
    }
    context.fault.store(result);
    for (StreamHandle s : context.all()) queues.lose(s->queue, "the device faulted");
    return true;
  }
};

inline Standin& standin() { return Standin::get(); }

}  // namespace standins

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_STATE_H_
