#include "jit/cuda/staging.h"

#include <optional>

namespace lamina::jit::cuda {

absl::StatusOr<Staging::Piece> Staging::take(Gpu& gpu, int64_t wanted) {
  const int64_t bytes = wanted <= kSmall ? kSmall : kLarge;
  std::optional<Used> waiting;
  {
    std::lock_guard lock(mutex_);
    std::deque<Used>& used = pieces(bytes);
    if (!used.empty()) {
      const Point until = used.front().until;
      const bool is_free = !until || until.stream->reached(until.value);
      if (is_free || used.size() >= kMostWaiting) {
        waiting = used.front();
        used.pop_front();
        if (is_free) return waiting->piece;
      }
    }
  }
  if (waiting) {
    // Where it fails the device is lost, and writes there no more.
    waiting->until.stream->wait(waiting->until.value, nullptr).IgnoreError();
    return waiting->piece;
  }
  void* at = nullptr;
  const absl::Status status = gpu.call("pinning memory", gpu.driver().allocate_pinned, &at,
                                       static_cast<size_t>(bytes), kPinnedForAllContexts);
  if (!status.ok()) return status;
  return Piece{static_cast<std::byte*>(at), bytes};
}

void Staging::give_back(Piece piece, Point until) {
  std::lock_guard lock(mutex_);
  std::deque<Used>& used = pieces(piece.bytes);
  // Those that are free at once are the next to be taken.
  if (until)
    used.push_back({piece, until});
  else
    used.push_front({piece, until});
}

}  // namespace lamina::jit::cuda
