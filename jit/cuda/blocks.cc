#include "jit/cuda/blocks.h"

namespace lamina::jit::cuda {

absl::StatusOr<CudaBlocks*> CudaBlocks::make(CudaStream& stream,
                                             std::span<const std::unique_ptr<Gpu>> peers) {
  Gpu& gpu = stream.gpu();
  const Driver& driver = gpu.driver();
  PoolProperties properties;
  properties.location.number = gpu.number();
  PoolHandle pool = nullptr;
  absl::Status status = gpu.call("making a memory pool", driver.create_pool, &pool,
                                 static_cast<const PoolProperties*>(&properties));
  uint64_t kept = kKeptBytes;
  if (status.ok())
    status = gpu.call("making a memory pool", driver.set_of_pool, pool, PoolAttribute::kReleaseThreshold,
                      static_cast<void*>(&kept));
  for (const std::unique_ptr<Gpu>& peer : peers) {
    int can = 0;
    if (peer.get() == &gpu || !status.ok()) continue;
    status = gpu.call("looking for peers", driver.can_access_peer, &can, peer->number(), gpu.number());
    const PoolAccess access{{MemoryLocation::kDevice, peer->number()}, PoolAccess::kReadWrite};
    if (status.ok() && can)
      status = gpu.call("letting a peer in", driver.give_access, pool, &access, size_t{1});
  }
  if (!status.ok()) return status;
  return new CudaBlocks(stream, pool);
}

Address CudaBlocks::allocate(int64_t bytes) {
  const Driver& driver = stream_.gpu().driver();
  DevicePointer block = 0;
  const auto ask = [&] {
    return stream_.enqueue("allocating", driver.allocate, &block, static_cast<size_t>(bytes), pool_);
  };
  absl::Status status = ask();
  if (absl::IsResourceExhausted(status) && stream_.drain().ok() &&
      stream_.gpu().call("trimming the pool", driver.trim_pool, pool_, size_t{0}).ok())
    status = ask();
  return status.ok() ? Address(block) : Address();
}

void CudaBlocks::free(Address block, int64_t) {
  // Where that fails the device is lost, and its memory with it.
  stream_.enqueue("freeing", stream_.gpu().driver().free, static_cast<DevicePointer>(block.bits()))
      .IgnoreError();
}

}  // namespace lamina::jit::cuda
