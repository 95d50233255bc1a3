// Moving boxes of elements between strided arrays, and reading run-time indices.
//
// Contract: elements are bytes of a width (1, 2, 4, 8 or 16); nothing here depends on what they mean.
#ifndef LAMINA_JIT_CPU_BOX_COPY_H_
#define LAMINA_JIT_CPU_BOX_COPY_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "hlo/dtype.h"

namespace lamina::jit {

// Bytes that one task moves where a copy is shared out; tasks are cut by size only.
constexpr int64_t kTaskBytes = 256 * 1024;

// What an element of 16 bytes is copied as.
struct SixteenBytes {
  uint64_t parts[2];
};

// One dimension of a box: its extent, and the distance in elements between neighbours on either side.
struct BoxDim {
  int64_t extent, from, to;
};

// Drops dimensions of extent 1 and joins neighbours that lie contiguously on both sides, outermost first.
inline std::vector<BoxDim> simplified(const std::vector<BoxDim>& dims) {
  std::vector<BoxDim> out;
  for (const BoxDim& d : dims) {
    if (d.extent == 1) continue;
    if (!out.empty() && out.back().from == d.extent * d.from && out.back().to == d.extent * d.to)
      out.back() = {out.back().extent * d.extent, d.from, d.to};
    else
      out.push_back(d);
  }
  return out;
}

// Calls f(from, to, n, from_step, to_step) for every innermost row of the box; an empty list is one element.
template <typename F>
void for_each_row(const BoxDim* dims, size_t rank, int64_t from, int64_t to, F&& f) {
  if (rank == 0) {
    f(from, to, int64_t{1}, int64_t{1}, int64_t{1});
  } else if (rank == 1) {
    f(from, to, dims->extent, dims->from, dims->to);
  } else {
    for (int64_t i = 0; i < dims->extent; ++i)
      for_each_row(dims + 1, rank - 1, from + i * dims->from, to + i * dims->to, f);
  }
}

// As memcpy, which takes more than ten times as long for pieces of some KB and more where the target is up to
// 32 bytes ahead of the source within a page: some processors (Zen 3) store so before they load.
inline void copy_contiguous(const std::byte* from, std::byte* to, int64_t bytes) {
  constexpr uintptr_t kPage = 4096, kNear = 32;
  constexpr int64_t kFast = 2048;
  const uintptr_t ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % kPage;
  if (ahead > 0 && ahead < kNear)
    for (; bytes > kFast; from += kFast, to += kFast, bytes -= kFast) std::memcpy(to, from, kFast);
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// f.template operator()<T>() with an unsigned type of so many bytes, which an element of any type has.
template <typename F>
decltype(auto) with_bytes_type(int64_t width, F f) {
  switch (width) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    case 8:
      return f.template operator()<uint64_t>();
    default:
      return f.template operator()<SixteenBytes>();
  }
}

template <typename T>
void copy_strided(const std::byte* from, std::byte* to, int64_t n, int64_t from_step, int64_t to_step) {
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(to + i * to_step * sizeof(T), from + i * from_step * sizeof(T), sizeof(T));
}

// Copies a row of `n` elements; steps in elements.
inline void copy_row(const std::byte* from, std::byte* to, int64_t n, int64_t from_step, int64_t to_step,
                     int64_t width) {
  if (from_step == 1 && to_step == 1 && n > 1) {
    copy_contiguous(from, to, n * width);
    return;
  }
  with_bytes_type(width, [&]<typename T>() { copy_strided<T>(from, to, n, from_step, to_step); });
}

// Copies a box; offsets in elements.
inline void copy_box(const std::vector<BoxDim>& dims, const void* source, int64_t from, void* target,
                     int64_t to, int64_t width) {
  for_each_row(dims.data(), dims.size(), from, to,
               [&](int64_t f, int64_t t, int64_t n, int64_t from_step, int64_t to_step) {
                 copy_row(static_cast<const std::byte*>(source) + f * width,
                          static_cast<std::byte*>(target) + t * width, n, from_step, to_step, width);
               });
}

// Integer element `i` as int64; unsigned 64-bit values beyond it saturate.
inline int64_t read_index(hlo::DType type, const void* p, int64_t i) {
  using hlo::DType;
  switch (hlo::storage_type(type)) {
    case DType::kS8:
      return static_cast<const int8_t*>(p)[i];
    case DType::kS16:
      return static_cast<const int16_t*>(p)[i];
    case DType::kS32:
      return static_cast<const int32_t*>(p)[i];
    case DType::kS64:
      return static_cast<const int64_t*>(p)[i];
    case DType::kU8:
      return static_cast<const uint8_t*>(p)[i];
    case DType::kU16:
      return static_cast<const uint16_t*>(p)[i];
    case DType::kU32:
      return static_cast<const uint32_t*>(p)[i];
    default: {
      const uint64_t v = static_cast<const uint64_t*>(p)[i];
      constexpr uint64_t kMax = std::numeric_limits<int64_t>::max();
      return static_cast<int64_t>(v < kMax ? v : kMax);
    }
  }
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_BOX_COPY_H_
