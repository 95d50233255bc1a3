// Shared by the tests of hand-written CPU kernels: random operands, a pool, the instruction sets.
#ifndef LAMINA_TESTS_JIT_KERNEL_TESTING_H_
#define LAMINA_TESTS_JIT_KERNEL_TESTING_H_

#include <cmath>
#include <random>
#include <vector>

#include "hlo/dtype.h"
#include "hlo/half.h"
#include "hlo/narrow.h"
#include "jit/cpu/kernel_context.h"
#include "jit/cpu/thread_pool.h"

namespace lamina::testing {

using hlo::DType;

// Random elements of any type: random bits for integers; floats of mixed size and sign with some zeros of
// both signs.
inline std::vector<char> random_array(DType t, int64_t count, std::mt19937_64& rng) {
  std::vector<char> bytes(static_cast<size_t>(count * hlo::byte_size(t)) + 1);
  if (!hlo::is_inexact(t)) {
    for (char& b : bytes) b = static_cast<char>(rng());
    return bytes;
  }
  const int64_t values = count * hlo::num_parts(t);
  for (int64_t i = 0; i < values; ++i) {
    const double magnitude = std::ldexp(static_cast<double>(rng() >> 11), -53 - static_cast<int>(rng() % 6));
    double x = rng() % 16 == 0 ? 0.0 : magnitude;
    if (rng() % 2) x = -x;
    switch (hlo::part_type(t)) {
      case DType::kF16:
        reinterpret_cast<hlo::F16*>(bytes.data())[i] = hlo::to_f16(static_cast<float>(x));
        break;
      case DType::kBF16:
        reinterpret_cast<hlo::BF16*>(bytes.data())[i] = hlo::to_bf16(static_cast<float>(x));
        break;
      case DType::kF32:
        reinterpret_cast<float*>(bytes.data())[i] = static_cast<float>(x);
        break;
      case DType::kF64:
        reinterpret_cast<double*>(bytes.data())[i] = x;
        break;
      default:
        bytes[static_cast<size_t>(i)] = static_cast<char>(hlo::to_narrow(t, static_cast<float>(x)));
    }
  }
  return bytes;
}

struct Pools {
  jit::ThreadPool two{2};
  jit::KernelContext context(jit::Isa isa, bool threads) {
    jit::KernelContext c;
    c.scratch = &jit::host_device().memory();
    c.isa = isa;
    if (threads) c.parallel = two.parallel();
    return c;
  }
};

inline constexpr jit::Isa kIsas[] = {jit::Isa::kPortable, jit::Isa::kAvx2, jit::Isa::kAvx512};

inline int64_t pick(std::mt19937_64& rng, std::initializer_list<int64_t> from) {
  return from.begin()[rng() % from.size()];
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_KERNEL_TESTING_H_
