// Buffers that a stream for copies fills.
#ifndef LAMINA_JIT_CLIENT_TRANSFER_H_
#define LAMINA_JIT_CLIENT_TRANSFER_H_

#include "jit/client/client.h"

namespace lamina::jit {

// A buffer of the device that transfer(lane, address) fills; ended(point) once that is enqueued.
template <typename Transfer, typename Ended>
absl::StatusOr<BufferRef> made_by_transfer(Device& device, int64_t bytes, const Transfer& transfer,
                                           const Ended& ended) {
  absl::StatusOr<BufferRef> buffer = device.memory().allocate(bytes);
  if (!buffer.ok()) return buffer;
  Stream& lane = device.stream(Lane::kCopyIn);
  // The block is there for what the memory's stream does from now on.
  if (absl::Status s = lane.after(device.stream().mark()); !s.ok()) return s;
  lane.begin_run();
  const auto end_run = [&] {
    const Point end = lane.end_run();
    (*buffer)->will_be_written(end);
    ended(end);
  };
  absl::Status status;
  try {
    status = transfer(lane, (*buffer)->address());
  } catch (...) {  // the host's memory ran out
    end_run();
    throw;
  }
  end_run();
  if (!status.ok()) return status;
  return buffer;
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_TRANSFER_H_
