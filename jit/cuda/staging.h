// Pinned memory of the host, through which bytes go to devices and come from them.
//
// Contract: of one client, for all its devices; any thread may call anything. A piece belongs to who took it
// until it is given back, and goes to nobody else before the point that it was given back with. What was once
// pinned is kept.
#ifndef LAMINA_JIT_CUDA_STAGING_H_
#define LAMINA_JIT_CUDA_STAGING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"
#include "jit/client/client.h"
#include "jit/cuda/gpu.h"

namespace lamina::jit::cuda {

class Staging {
 public:
  struct Piece {
    std::byte* at = nullptr;
    int64_t bytes = 0;
  };
  static constexpr int64_t kSmall = 16 << 10, kLarge = 2 << 20;

  // Of kSmall or kLarge bytes, as `wanted` fits the one or needs the other; with `gpu`'s context.
  absl::StatusOr<Piece> take(Gpu& gpu, int64_t wanted);
  void give_back(Piece piece, Point until);

 private:
  // More pieces of a size are made only where none is free soon.
  static constexpr size_t kMostWaiting = 16;
  struct Used {
    Piece piece;
    Point until;
  };
  std::deque<Used>& pieces(int64_t bytes) { return pieces_[bytes > kSmall]; }

  hlo::Mutex mutex_{hlo::LockRank::kMemory};
  std::array<std::deque<Used>, 2> pieces_;  // by size, those used the longest ago first
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_STAGING_H_
