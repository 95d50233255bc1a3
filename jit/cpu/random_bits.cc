// rng_bit_generator: Threefry-2x32 with 20 rounds, blocks of counters at a time (the layout of
// hlo/rules/random_rules.cc).
#include <algorithm>
#include <bit>
#include <cstring>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

// Blocks made at a time: independent, so that they run as vectors.
constexpr int64_t kBatch = 64;
// Blocks of one task; tasks are cut by size only.
constexpr int64_t kTaskBlocks = 64 * 1024;

// Ciphers `counter`, `counter` + 1, ... with `key`.
void threefry(uint64_t key, uint64_t counter, uint32_t* x0, uint32_t* x1) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t ks[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAU};
  for (int64_t i = 0; i < kBatch; ++i) {
    const uint64_t c = counter + static_cast<uint64_t>(i);
    x0[i] = static_cast<uint32_t>(c) + ks[0];
    x1[i] = static_cast<uint32_t>(c >> 32) + ks[1];
  }
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int r : kRotations[group % 2])
      for (int64_t i = 0; i < kBatch; ++i) {
        x0[i] += x1[i];
        x1[i] = std::rotl(x1[i], r) ^ x0[i];
      }
    for (int64_t i = 0; i < kBatch; ++i) {
      x0[i] += ks[(group + 1) % 3];
      x1[i] += ks[(group + 2) % 3] + group + 1;
    }
  }
}

template <typename T>
void fill(uint64_t key, uint64_t counter, T* out, int64_t n, int64_t blocks, int64_t begin, int64_t end,
          const KernelContext& context) {
  uint32_t x0[kBatch], x1[kBatch];
  for (int64_t b = begin; b < end && !context.cancelled(); b += kBatch) {
    threefry(key, counter + static_cast<uint64_t>(b), x0, x1);
    const int64_t count = std::min(kBatch, end - b);
    if constexpr (sizeof(T) == 8) {
      for (int64_t i = 0; i < count; ++i) out[b + i] = x0[i] | uint64_t{x1[i]} << 32;
    } else {
      const int64_t second = std::min(count, n - blocks - b);
      for (int64_t i = 0; i < count; ++i) out[b + i] = static_cast<T>(x0[i]);
      for (int64_t i = 0; i < second; ++i) out[b + blocks + i] = static_cast<T>(x1[i]);
    }
  }
}

}  // namespace

NativeOp make_rng_bit_generator(const hlo::Node& node) {
  const hlo::Type& type = *node.result_type(1);
  const int64_t n = type.num_elements, width = hlo::byte_size(type.dtype);
  const int64_t blocks = width == 8 ? n : (n + 1) / 2;
  NativeOp op;
  op.what = str_cat(blocks, " blocks");
  op.run = [n, width, blocks](const void* const* in, void* const* out, const KernelContext& context) {
    uint64_t state[2];
    std::memcpy(state, in[0], sizeof(state));
    const int64_t tasks = blocks / kTaskBlocks + 1;
    context.parallel(tasks, [&](int64_t t) {
      const int64_t begin = blocks * t / tasks, end = blocks * (t + 1) / tasks;
      const auto make = [&]<typename T>(T) {
        fill(state[0], state[1], static_cast<T*>(out[1]), n, blocks, begin, end, context);
      };
      switch (width) {
        case 1:
          return make(uint8_t{});
        case 2:
          return make(uint16_t{});
        case 4:
          return make(uint32_t{});
        default:
          return make(uint64_t{});
      }
    });
    state[1] += static_cast<uint64_t>(blocks);
    std::memcpy(out[0], state, sizeof(state));
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  };
  return op;
}

}  // namespace lamina::jit
