// Where the memory of a device comes from: a pool of its own, in the order of its stream.
#ifndef LAMINA_JIT_CUDA_BLOCKS_H_
#define LAMINA_JIT_CUDA_BLOCKS_H_

#include <span>

#include "jit/client/memory.h"
#include "jit/cuda/stream.h"

namespace lamina::jit::cuda {

// Blocks are aligned to 256 bytes at least, as the driver's are.
class CudaBlocks final : public BlockSource {
 public:
  // Those of `peers` that can reach the memory of the stream's device may, without a detour through the host.
  // What is made stays.
  static absl::StatusOr<CudaBlocks*> make(CudaStream& stream, std::span<const std::unique_ptr<Gpu>> peers);

  Address allocate(int64_t bytes) override;
  void free(Address block, int64_t bytes) override;

 private:
  // The memory above keeps free blocks; of those it gives back the pool keeps so much for the next.
  static constexpr uint64_t kKeptBytes = 32 << 20;

  CudaBlocks(CudaStream& stream, PoolHandle pool) : stream_(stream), pool_(pool) {}

  CudaStream& stream_;
  const PoolHandle pool_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_BLOCKS_H_
