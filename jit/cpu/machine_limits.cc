#include "jit/cpu/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "hlo/isa.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lamina::jit {
namespace {

// Multiply-adds that hide the latency of the others, on as many registers as every machine has.
constexpr int kChains = 12;
constexpr int64_t kTurns = 1'000'000;
constexpr int kRounds = 4;
// Of each of three arrays: together more than caches hold, but for those of a few servers.
constexpr int64_t kElements = int64_t{8} << 20;

// Keeps what was computed.
template <typename T>
void use(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

// A loop of multiply-adds of one type, and the floating-point operations in it.
struct Loop {
  void (*run)();
  int64_t flops;
};
struct Loops {
  Loop single, twice;  // float32, float64
};

template <typename T>
void run_portable() {
  T chain[kChains];
  for (T& c : chain) c = T(1);
  for (int64_t i = 0; i < kTurns; ++i)
    for (T& c : chain) c = c * T(0.5) + T(1);
  use(chain);
}

constexpr int64_t flops_of(int lanes) { return 2 * lanes * kChains * kTurns; }

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma")
void run_avx2() {
  __m256 chain[kChains];
  const __m256 factor = _mm256_set1_ps(0.5f), term = _mm256_set1_ps(1);
  for (__m256& c : chain) c = term;
  for (int64_t i = 0; i < kTurns; ++i)
    for (__m256& c : chain) c = _mm256_fmadd_ps(c, factor, term);
  use(chain);
}
void run_avx2_double() {
  __m256d chain[kChains];
  const __m256d factor = _mm256_set1_pd(0.5), term = _mm256_set1_pd(1);
  for (__m256d& c : chain) c = term;
  for (int64_t i = 0; i < kTurns; ++i)
    for (__m256d& c : chain) c = _mm256_fmadd_pd(c, factor, term);
  use(chain);
}
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f")
void run_avx512() {
  __m512 chain[kChains];
  const __m512 factor = _mm512_set1_ps(0.5f), term = _mm512_set1_ps(1);
  for (__m512& c : chain) c = term;
  for (int64_t i = 0; i < kTurns; ++i)
    for (__m512& c : chain) c = _mm512_fmadd_ps(c, factor, term);
  use(chain);
}
void run_avx512_double() {
  __m512d chain[kChains];
  const __m512d factor = _mm512_set1_pd(0.5), term = _mm512_set1_pd(1);
  for (__m512d& c : chain) c = term;
  for (int64_t i = 0; i < kTurns; ++i)
    for (__m512d& c : chain) c = _mm512_fmadd_pd(c, factor, term);
  use(chain);
}
#pragma GCC pop_options
#endif

Loops loops() {
#if defined(__x86_64__)
  if (hlo::best_isa() == hlo::Isa::kAvx512)
    return {{run_avx512, flops_of(16)}, {run_avx512_double, flops_of(8)}};
  if (hlo::best_isa() == hlo::Isa::kAvx2) return {{run_avx2, flops_of(8)}, {run_avx2_double, flops_of(4)}};
#endif
  return {{run_portable<float>, flops_of(1)}, {run_portable<double>, flops_of(1)}};
}

// Seconds of the quickest round, after one that is not counted.
template <typename F>
double quickest(F&& round) {
  double best = 0;
  for (int i = 0; i <= kRounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (i == 1 || (i > 1 && took.count() < best)) best = took.count();
  }
  return std::max(best, 1e-9);
}

double flops_per_s(const ParallelFor& parallel, const Loop& loop) {
  const double seconds = quickest([&] { parallel(parallel.threads, [&](int64_t) { loop.run(); }); });
  return static_cast<double>(loop.flops * parallel.threads) / seconds;
}

double bytes_per_s(const ParallelFor& parallel) {
  const auto a = std::make_unique<float[]>(kElements), b = std::make_unique<float[]>(kElements),
             c = std::make_unique<float[]>(kElements);
  const double seconds = quickest([&] {
    parallel(parallel.threads, [&](int64_t task) {
      const int64_t begin = kElements * task / parallel.threads;
      const int64_t end = kElements * (task + 1) / parallel.threads;
      float* const to = c.get();
      const float *const x = a.get(), *const y = b.get();
      for (int64_t i = begin; i < end; ++i) to[i] = x[i] + 0.5f * y[i];
      use(*to);
    });
  });
  return static_cast<double>(3 * kElements) * sizeof(float) / seconds;
}

}  // namespace

MachineLimits MeasuredLimits::get(const ParallelFor& parallel) {
  const auto find = [&]() -> const MachineLimits* {
    for (const MachineLimits& m : known_)
      if (m.threads == parallel.threads) return &m;
    return nullptr;
  };
  {
    std::lock_guard lock(mutex_);
    if (const MachineLimits* known = find()) return *known;
  }
  const Loops found = loops();
  const MachineLimits made{parallel.threads, bytes_per_s(parallel), flops_per_s(parallel, found.single),
                           flops_per_s(parallel, found.twice)};
  std::lock_guard lock(mutex_);
  if (const MachineLimits* known = find()) return *known;  // another thread was first
  known_.push_back(made);
  return made;
}

}  // namespace lamina::jit
