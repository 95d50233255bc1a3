// Streams of a device: what is enqueued, and the points at which it has ended.
//
// Contract: as jit/client/client.h. A point is an event recorded on the stream, so order between streams is
// kept by the devices themselves. What fails is told by the call that enqueues it; what fails later is a
// fault, which loses the device: its points are then reached, those that had not been, in failure.
#ifndef LAMINA_JIT_CUDA_STREAM_H_
#define LAMINA_JIT_CUDA_STREAM_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "hlo/mutex.h"
#include "jit/client/client.h"
#include "jit/cuda/gpu.h"
#include "jit/cuda/queue.h"
#include "jit/cuda/staging.h"

namespace lamina::jit::cuda {

class CudaStream final : public Stream, public CudaQueue {
 public:
  // What is made stays.
  static absl::StatusOr<CudaStream*> make(Gpu& gpu, Staging& staging);
  // One that others enqueue on, too.
  static CudaStream* of_others(Gpu& gpu, Staging& staging, StreamHandle handle) {
    return new CudaStream(gpu, staging, handle);
  }

  CudaStream* stream() override { return this; }
  bool is_inline() const override { return false; }
  Point end_run() override { return mark(); }
  Point mark() override;
  absl::Status after(Point earlier) override;
  absl::Status takes(Point written) override { return after(written); }
  bool reached(uint64_t value) override;
  absl::Status wait(uint64_t value, StepWatcher* watcher) override;
  void keep(std::shared_ptr<const void> what) override;
  absl::Status copy(Address to, Address from, int64_t bytes) override;
  absl::Status read(Address from, int64_t bytes, void* to) override;
  absl::Status write(Address to, const void* from, int64_t bytes) override;

  // Waits once for all that fit a piece of staging. Where the watcher stops that, the reads still come.
  struct Part {
    Address from;
    int64_t bytes;
    void* to;
  };
  absl::Status read_all(std::span<const Part> parts, StepWatcher* watcher);
  // From memory of another device.
  absl::Status copy_from(const Gpu& other, Address from, Address to, int64_t bytes);

  // Anything else that goes on the stream, which is the function's last argument.
  template <typename... P, typename... A>
  absl::Status enqueue(std::string_view doing, Result (*function)(P...), A... arguments) {
    return enqueued(gpu_.call(doing, function, arguments..., handle_));
  }
  absl::Status launch(FunctionHandle function, unsigned blocks, unsigned threads,
                      std::span<void*> parameters) override;
  absl::Status call(absl::FunctionRef<absl::Status(StreamHandle)> work) override {
    // Where it fails, a part of it may be there.
    has_work_.store(true);
    return gpu_.within([&] { return work(handle_); });
  }
  absl::Status find_fault() override { return drain(); }
  // All that was enqueued, on the host, at once.
  absl::Status drain() { return gpu_.call("waiting", gpu_.driver().wait_for_stream, handle_); }

  // What others know it as.
  StreamHandle handle() const { return handle_; }
  // What others enqueue on a stream of theirs from now on begins after that point here.
  absl::Status order_before_theirs(StreamHandle theirs, uint64_t value);
  // What is enqueued here from now on begins after what others have enqueued there. InvalidArgument where
  // that is a stream of another device.
  absl::Status order_after_theirs(StreamHandle theirs);
  // As mark, with what others may have enqueued here.
  Point mark_with_theirs();
  // The same, or why there can be no such point.
  absl::StatusOr<Point> mark_theirs();

  // A stream on which nothing ever runs: whoever takes it captures there, undisturbed by what others enqueue.
  absl::StatusOr<StreamHandle> take_capture_stream();
  void give_back_capture_stream(StreamHandle stream);

 private:
  // Of which the value is reached when the event has happened.
  struct Pending {
    uint64_t value;
    EventHandle event;
  };
  struct Batch;

  CudaStream(Gpu& gpu, Staging& staging, StreamHandle handle)
      : CudaQueue(gpu), staging_(staging), handle_(handle) {}
  absl::Status enqueued(absl::Status status) {
    if (status.ok()) has_work_.store(true);
    return status;
  }
  Point mark_locked();
  // A new point, by an event; its value is marked_ then.
  absl::Status record_locked();
  absl::StatusOr<EventHandle> take_event_locked();
  // The first that is pending and not before the value; null where that is reached.
  const Pending* pending_locked(uint64_t value);
  // Whether the n-th that is pending has happened; then it and those before are so no more.
  bool happened_locked(size_t n);
  void poll_locked();
  absl::Status order_before(CudaStream& other, uint64_t value);
  void release_kept();
  absl::Status send(Batch& batch, std::span<const Part> parts);
  absl::Status finish(Batch& batch, StepWatcher* watcher);

  Staging& staging_;
  const StreamHandle handle_;
  std::atomic<uint64_t> reached_{0};
  // Since the last mark.
  std::atomic<bool> has_work_{false};

  hlo::Mutex mutex_{hlo::LockRank::kQueues};
  uint64_t marked_ = 0;
  std::deque<Pending> pending_;
  std::vector<EventHandle> spare_;
  std::deque<std::pair<uint64_t, std::shared_ptr<const void>>> kept_;
  // Other streams, and the last point here that each waits for.
  std::vector<std::pair<const CudaStream*, uint64_t>> waiting_;
  std::vector<StreamHandle> for_capture_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_STREAM_H_
