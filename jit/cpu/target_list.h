// Which updates of a scatter fall into a part of its array: so parts of the array are a thread's own, and
// each of its elements sees its updates in their order.
#ifndef LAMINA_JIT_CPU_TARGET_LIST_H_
#define LAMINA_JIT_CPU_TARGET_LIST_H_

#include <array>
#include <cstdint>

#include "hlo/isa.h"

namespace lamina::jit {

class TargetList {
 public:
  // Updates looked at together.
  static constexpr int64_t kMost = 512;

  // Of `n` updates, at most kMost, those whose target lies in [first, last), in their order, 0 <= first.
  // Negative targets count from `end` on: they are nowhere where it is 0. The list may be `targets`.
  void keep(const int32_t* targets, int64_t n, int32_t end, int32_t first, int32_t last, hlo::Isa isa);
  // Of targets that are below 2^31.
  void keep(const int64_t* targets, int64_t n, int32_t first, int32_t last, hlo::Isa isa);

  int64_t size() const { return size_; }
  const int32_t* targets() const { return targets_; }
  // Counted from the first one of the block; null: all of them.
  const int32_t* updates() const { return updates_; }
  int64_t update(int64_t i) const { return updates_ ? updates_[i] : i; }

 private:
  static constexpr int64_t kVector = 8;  // lanes that are written at a time
  int64_t keep_vectors(const int32_t* targets, int64_t n, int32_t end, int32_t first, int32_t last);

  std::array<int32_t, kMost + kVector> kept_, numbers_;
  std::array<int32_t, kMost> narrow_;
  const int32_t *targets_ = nullptr, *updates_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_TARGET_LIST_H_
