// Arrays that cross to other libraries on CUDA devices, and come from them.
//
// Contract: as jit/client/exchange.h. Order is kept by events. What others do with a buffer that they hand
// back is ordered by the legacy default stream: work that they have on streams that do not wait for that one
// (cudaStreamNonBlocking) they must order themselves before they hand it back.
#ifndef LAMINA_JIT_CUDA_EXCHANGE_H_
#define LAMINA_JIT_CUDA_EXCHANGE_H_

#include <functional>
#include <vector>

#include "jit/client/exchange.h"
#include "jit/cuda/stream.h"

namespace lamina::jit::cuda {

class CudaExchange final : public Exchange {
 public:
  // DLPack's.
  static constexpr int32_t kKind = 2;

  // While nothing crosses yet.
  void add(Device& device, CudaStream& theirs) { devices_.push_back({&device, &theirs}); }

  Name name_of(const Device& device) const override;
  absl::StatusOr<Device*> owner_of(uint64_t at) const override;
  uint64_t place_of(const Buffer& buffer) const override { return buffer.address().bits(); }
  int64_t alignment(int64_t) const override;
  absl::Status hand_over(const Buffer& buffer, TheirStream stream) const override;
  void hand_back(BufferRef buffer) const override;
  absl::StatusOr<TheirStream> stream_with(const Buffer& buffer) const override;
  TheirStream stream_of(const Device& device) const override;
  absl::StatusOr<BufferRef> take_over(Device& device, uint64_t at, int64_t bytes, TheirStream stream,
                                      std::function<void()> release) const override;

 private:
  struct Known {
    Device* device;
    CudaStream* theirs;  // the legacy default stream
  };
  std::vector<Known> devices_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_EXCHANGE_H_
