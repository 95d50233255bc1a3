#include "jit/cpu/target_list.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "hlo/with_vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "jit/cpu/lanes_apart.h"
#endif

namespace lamina::jit {
namespace {

// Targets looked at before the next ones.
constexpr int64_t kLooked = 64;

enum class Inside : uint8_t { kNone, kSome, kAll };

// How many of them are in [first, last), where none is negative; kSome: perhaps. By differences, whose signs
// tell: compilers take comparisons of the widest vectors apart number by number.
template <int kWords>
Inside inside(const int32_t* targets, int64_t n, int32_t first, int32_t last) {
  constexpr int kLanes = 2 * kWords;
  using Vec = typename hlo::VectorOf<uint32_t, kLanes>::Type;
  const auto any_sign = [](const Vec& lanes) {
    std::array<uint64_t, kWords> words;
    std::memcpy(words.data(), &lanes, sizeof(lanes));
    uint64_t any = 0;
    for (const uint64_t w : words) any |= w;
    return (any & 0x8000'0000'8000'0000) != 0;
  };
  const auto from = static_cast<uint32_t>(first), most = static_cast<uint32_t>(last) - 1;
  bool all = true, none = true;
  int64_t i = 0;
  for (; i + kLooked <= n && (all || none); i += kLooked) {
    Vec in{}, out{}, negative{};
    for (int k = 0; k < kLooked; k += kLanes) {
      Vec at;
      std::memcpy(&at, targets + i + k, sizeof(at));
      const Vec outside = at | (at - from) | (most - at);
      in |= ~outside;
      out |= outside;
      negative |= at;
    }
    all &= !any_sign(out);
    none &= !any_sign(in | negative);
  }
  for (; i < n && (all || none); ++i) {
    const bool is = targets[i] >= first && targets[i] < last;
    all &= is;
    none &= !is && targets[i] >= 0;
  }
  return all ? Inside::kAll : none ? Inside::kNone : Inside::kSome;
}

}  // namespace

void TargetList::keep(const int32_t* targets, int64_t n, int32_t end, int32_t first, int32_t last,
                      hlo::Isa isa) {
  Inside are = Inside::kSome;
  hlo::with_lanes([&]<int kWords>() { are = inside<kWords>(targets, n, first, last); });
  if (are != Inside::kSome) {
    targets_ = targets;
    updates_ = nullptr;
    size_ = are == Inside::kAll ? n : 0;
    return;
  }
  targets_ = kept_.data();
  updates_ = numbers_.data();
  size_ = 0;
  int64_t i = 0;
#if defined(__x86_64__)
  if (isa != hlo::Isa::kPortable) {
    i = n - n % kVector;
    size_ = keep_vectors(targets, i, end, first, last);
  }
#endif
  for (; i < n; ++i) {
    const int32_t at = targets[i] + (targets[i] < 0 ? end : 0);
    kept_[size_] = at;
    numbers_[size_] = static_cast<int32_t>(i);
    size_ += at >= first && at < last ? 1 : 0;
  }
}

void TargetList::keep(const int64_t* targets, int64_t n, int32_t first, int32_t last, hlo::Isa isa) {
  // Negative ones in 64 bits may be none in 32.
  hlo::with_vectors([to = narrow_.data(), targets, n] {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<int32_t>(std::max<int64_t>(targets[i], -1));
  });
  keep(narrow_.data(), n, 0, first, last, isa);
}

#if defined(__x86_64__)
// `n` is a multiple of kVector; gives how many are kept.
[[gnu::target("avx2,popcnt")]] int64_t TargetList::keep_vectors(const int32_t* targets, int64_t n,
                                                                int32_t end, int32_t first, int32_t last) {
  const __m256i from_end = _mm256_set1_epi32(end), before = _mm256_set1_epi32(first - 1),
                after = _mm256_set1_epi32(last);
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i += kVector) {
    __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(targets + i));
    at = _mm256_add_epi32(at, _mm256_and_si256(_mm256_srai_epi32(at, 31), from_end));
    const __m256i inside = _mm256_and_si256(_mm256_cmpgt_epi32(at, before), _mm256_cmpgt_epi32(after, at));
    const auto set = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(inside)));
    const __m256i lanes =
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kLanesApart.of[set])));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(&kept_[kept]), _mm256_permutevar8x32_epi32(at, lanes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(&numbers_[kept]),
                        _mm256_add_epi32(lanes, _mm256_set1_epi32(static_cast<int>(i))));
    kept += __builtin_popcount(set);
  }
  return kept;
}
#endif

}  // namespace lamina::jit
