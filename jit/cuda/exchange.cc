#include "jit/cuda/exchange.h"

#include <algorithm>
#include <utility>

#include "hlo/strings.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit::cuda {
namespace {

CudaStream& compute(const Device& device) { return static_cast<CudaStream&>(device.stream()); }

// Null for Exchange::kNoStream.
absl::StatusOr<StreamHandle> handle_of(Exchange::TheirStream stream) {
  const int64_t number = stream.value_or(kLegacyStream);
  if (stream == Exchange::kNoStream) return StreamHandle(nullptr);
  if (number <= 0)
    return absl::InvalidArgumentError(str_cat(
        "the stream ", number,
        " is none of CUDA: 1 is the legacy default stream, 2 the thread's, -1 stands for no order, and "
        "larger numbers are handles"));
  return reinterpret_cast<StreamHandle>(static_cast<uintptr_t>(number));
}

}  // namespace

Exchange::Name CudaExchange::name_of(const Device& device) const {
  return {kKind, compute(device).gpu().number()};
}

absl::StatusOr<Device*> CudaExchange::owner_of(uint64_t at) const {
  const auto serves = std::find_if(devices_.begin(), devices_.end(),
                                   [](const Known& k) { return !compute(*k.device).gpu().is_lost(); });
  if (serves == devices_.end()) return compute(*devices_[0].device).gpu().health();
  Gpu& gpu = compute(*serves->device).gpu();
  unsigned type = 0;
  int number = -1;
  const auto ask = [&](void* value, PointerAttribute attribute) {
    return gpu.ask(gpu.driver().pointer_attribute, value, attribute, DevicePointer{at});
  };
  if (ask(&type, PointerAttribute::kMemoryType) == Result::kSuccess && type == kMemoryOfDevice &&
      ask(&number, PointerAttribute::kDeviceNumber) == Result::kSuccess)
    for (const Known& known : devices_)
      if (name_of(*known.device).number == number) return known.device;
  return absl::InvalidArgumentError(
      str_cat("the address ", at, " is in the memory of no CUDA device that serves"));
}

int64_t CudaExchange::alignment(int64_t) const { return kArenaAlignment; }

absl::Status CudaExchange::hand_over(const Buffer& buffer, TheirStream stream) const {
  const absl::StatusOr<StreamHandle> theirs = handle_of(stream);
  if (!theirs.ok()) return theirs.status();
  CudaStream& ours = compute(buffer.memory().device());
  const Point written = buffer.written();
  if (!*theirs || !written) return ours.gpu().health();
  return static_cast<CudaStream&>(*written.stream).order_before_theirs(*theirs, written.value);
}

void CudaExchange::hand_back(BufferRef buffer) const {
  const Device& device = buffer->memory().device();
  const auto known =
      std::find_if(devices_.begin(), devices_.end(), [&](const Known& k) { return k.device == &device; });
  const absl::StatusOr<Point> end = known->theirs->mark_theirs();
  if (end.ok())
    buffer->used_until(*end);
  else if (!known->theirs->gpu().is_lost())
    new BufferRef(std::move(buffer));  // when they will have ended is not known: it serves nobody else
}

absl::StatusOr<Exchange::TheirStream> CudaExchange::stream_with(const Buffer& buffer) const {
  const Device& device = buffer.memory().device();
  if (absl::Status s = compute(device).after(buffer.written()); !s.ok()) return s;
  return stream_of(device);
}

Exchange::TheirStream CudaExchange::stream_of(const Device& device) const {
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(compute(device).handle()));
}

absl::StatusOr<BufferRef> CudaExchange::take_over(Device& device, uint64_t at, int64_t bytes,
                                                  TheirStream stream, std::function<void()> release) const {
  CudaStream& ours = compute(device);
  const auto prepare = [&]() -> absl::Status {
    const absl::StatusOr<StreamHandle> theirs = handle_of(stream);
    if (!theirs.ok()) return theirs.status();
    const absl::StatusOr<Device*> owner = owner_of(at);
    if (!owner.ok()) return owner.status();
    if (*owner != &device)
      return absl::InvalidArgumentError(
          str_cat("the address ", at, " is in the memory of ", (*owner)->name(), ", not of ", device.name()));
    return *theirs ? ours.order_after_theirs(*theirs) : ours.gpu().health();
  };
  if (absl::Status s = prepare(); !s.ok()) {
    if (release) release();
    return s;
  }
  BufferRef buffer = device.memory().adopt(Address(at), bytes, std::move(release));
  buffer->will_be_written(ours.mark_with_theirs());
  return buffer;
}

}  // namespace lamina::jit::cuda
