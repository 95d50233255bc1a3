// Register-tile kernels of the matrix product, one set per instruction set and element type.
//
// Contract: each element of a tile is acc = a[0] * b[0], then acc = fma(a[k], b[k], acc) for k = 1 ... kc-1,
// in this order whatever the tile (integers: wrapping multiply and add; pairs of 16-bit integers: both
// products are added to 32 bits, which an element of c is then). kc >= 1.
#ifndef LAMINA_JIT_CPU_GEMM_KERNELS_H_
#define LAMINA_JIT_CPU_GEMM_KERNELS_H_

#include <cstdint>
#include <type_traits>

#include "hlo/isa.h"

namespace lamina::jit {

// Two 16-bit integers, the first one in the low half: two terms of a product of narrow integers at once.
enum class Int16Pair : uint32_t {};

inline constexpr int kMaxTileRows = 14;
inline constexpr int kMaxTileVecs = 4;

// c[r * ldc + j] = (first ? tile : c + tile) for r < rows and j < n. `a` is packed [k][rows]; row k of b is b
// + k * ldb and has n readable elements.
template <typename T>
using TileFn = void (*)(int64_t kc, const T* a, const T* b, int64_t ldb, T* c, int64_t ldc, int64_t n,
                        bool first);

// The same with `a` in place: element (r, k) is a[r * lda + k].
template <typename T>
using InPlaceTileFn = void (*)(int64_t kc, const T* a, int64_t lda, const T* b, int64_t ldb, T* c,
                               int64_t ldc, int64_t n, bool first);

// Terms of a chain whose elements of `a` are evenly apart.
template <typename T>
struct TileRun {
  const T* a;
  int64_t count;
};

// A tile of full vectors, `a` in place along `runs`, whose terms follow each other: with `at` = run.a +
// offset, element (r, k) of a run is at[r * step + k] for `run_tile`, at[k * step + r] for `run_tile_across`.
// b has the terms' rows without gaps.
template <typename T>
using RunTileFn = void (*)(const TileRun<T>* runs, int64_t run_count, int64_t offset, int64_t step,
                           const T* b, T* c, int64_t ldc, bool first);

// Chains of which every lane has its own: acc[p * lanes + lane] goes on (`fresh`: begins) with the products
// of base[positions[p] + terms[k] + lane] and filter[k * step + lane] for k < kc, for each of the positions.
template <typename T>
using LaneChainsFn = void (*)(int64_t kc, const int32_t* terms, const int32_t* positions, const T* base,
                              const T* filter, int64_t step, T* acc, bool fresh);

// The same for neighbouring features, two vectors of them or more, whose terms lie anywhere: c[p * ldc + f]
// becomes the chain of terms[k][p][f] and filter[k * features + f] for k < kc, for each of the positions.
template <typename T>
using FeatureChainsFn = void (*)(int64_t kc, const T* const* const* terms, const T* filter, int64_t features,
                                 T* c, int64_t ldc);

// A tile of full vectors, `a` packed as for TileFn, row k of b at b + offsets[k].
template <typename T>
using OffsetTileFn = void (*)(int64_t kc, const T* a, const T* b, const int32_t* offsets, T* c, int64_t ldc,
                              bool first);

// Products of matrices so small that those of one or several fit a vector each, factors and results one
// behind the other in memory: from their vectors, term k of result lane l is a[a_lane[k][l]] *
// b[b_lane[k][l]].
inline constexpr int kMaxTinyTerms = 4;
template <typename T>
struct TinyDots {
  using Lane = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static constexpr int kLanes = 64 / sizeof(T);
  int64_t terms;                   // at most kMaxTinyTerms
  int64_t together;                // products per vector
  int64_t a_size, b_size, c_size;  // elements of one product's
  int64_t a_step, b_step;          // to the next one's; 0 of a factor that all share
  Lane a_lane[kMaxTinyTerms][kLanes], b_lane[kMaxTinyTerms][kLanes];
};
template <typename T>
using TinyDotsFn = void (*)(const TinyDots<T>& plan, int64_t count, const T* a, const T* b, T* c);

inline constexpr int kMaxRunVecs = 2;
inline constexpr int kMaxLaneChains = 8;
inline constexpr int kMaxFeatureChains = 7;
inline constexpr int kMaxInPlaceRows = 8;
inline constexpr int kMaxInPlaceVecs = 2;

template <typename T>
struct GemmKernels {
  int max_rows;
  int lanes;      // elements per vector
  int max_vecs;   // vectors per tile row; a tile is at most lanes * max_vecs wide,
  int wide_rows;  // or lanes * kMaxTileVecs if it has at most this many rows
  // tile[rows - 1][vecs - 1] takes (vecs - 1) * lanes < n <= vecs * lanes.
  TileFn<T> tile[kMaxTileRows][kMaxTileVecs];
  // [rows - 1][vecs - 1], up to max_rows rows; null for types without vectors of their own.
  RunTileFn<T> run_tile[kMaxTileRows][kMaxRunVecs];
  RunTileFn<T> run_tile_across[kMaxTileRows][kMaxRunVecs];
  // As many as of `tile`; null for those types, too.
  OffsetTileFn<T> offset_tile[kMaxTileRows][kMaxTileVecs];
  // [positions - 1]; null for those types, too.
  LaneChainsFn<T> lane_chains[kMaxLaneChains];
  FeatureChainsFn<T> feature_chains[kMaxFeatureChains];
  // dst[k * ld + r] = src[r * stride + k] for r < rows, k < kc.
  void (*transpose)(T* dst, int64_t ld, const T* src, int64_t stride, int64_t rows, int64_t kc);
  // to[i] = from[i] for i < n, of elements of f16 and of bf16; null where there are no vectors for it.
  void (*widen_f16)(T* to, const uint16_t* from, int64_t n);
  void (*widen_bf16)(T* to, const uint16_t* from, int64_t n);
  // The same the other way, rounded as hlo::to_f16 and hlo::to_bf16 do.
  void (*narrow_f16)(uint16_t* to, const T* from, int64_t n);
  void (*narrow_bf16)(uint16_t* to, const T* from, int64_t n);
  // [vecs - 1]: tiles of up to so many rows; 0 if there are none.
  int in_place_rows[kMaxInPlaceVecs];
  // They are as fast as packed ones, which are thus not worth packing `a` for where a result is at most so
  // many vectors wide, or `a` has at most so many bytes.
  int in_place_vecs, in_place_bytes;
  // A block of so many bytes of `b` stays in the first-level cache where it lies.
  int near_bytes;
  InPlaceTileFn<T> in_place[kMaxInPlaceRows][kMaxInPlaceVecs];
  // c[j] = (first ? chain : c[j] + chain) for j < n, the chain over x[k] * element (j, k) for k < kc; element
  // (j, k) of the matrix is at m[j * stride + k] for `rows_times`, at m[j + k * stride] for `columns_times`.
  void (*rows_times)(int64_t kc, const T* x, const T* m, int64_t stride, T* c, int64_t n, bool first);
  void (*columns_times)(int64_t kc, const T* x, const T* m, int64_t stride, T* c, int64_t n, bool first);
  // rows_times for `two_block_rows` rows and two blocks of `block` terms, whose chains are made at once; null
  // where there is none.
  void (*two_blocks_times)(int64_t block, const T* x, const T* m, int64_t stride, T* c, bool first);
  int two_block_rows;
  // For vectors of TinyDots<T>::kLanes; null where there are none.
  TinyDotsFn<T> tiny_dots;
  // One element of a dot over all k >= 1, blocks of `block` included: blocks are independent chains and
  // overlap.
  T (*vector_dot)(int64_t k, int64_t block, const T* a, int64_t a_stride, const T* b, int64_t b_stride);
  // c[j] = that of rows j, a_row and b_row apart, whose elements lie side by side, for j < n.
  void (*row_dots)(int64_t k, int64_t block, const T* a, int64_t a_row, const T* b, int64_t b_row, T* c,
                   int64_t n);
};

// For float, double, the four unsigned integer types and pairs. `isa` must be usable here.
template <typename T>
const GemmKernels<T>& gemm_kernels(hlo::Isa isa);

const GemmKernels<float>& gemm_kernels_avx512_f32();
const GemmKernels<double>& gemm_kernels_avx512_f64();
const GemmKernels<float>& gemm_kernels_avx2_f32();
const GemmKernels<double>& gemm_kernels_avx2_f64();
// Tiles and `transpose` alone.
void add_avx512_tiles(GemmKernels<Int16Pair>& kernels);
void add_avx512_vnni_tiles(GemmKernels<Int16Pair>& kernels);
void add_avx512_tiles(GemmKernels<uint32_t>& kernels);
void add_avx2_tiles(GemmKernels<Int16Pair>& kernels);
void add_avx2_tiles(GemmKernels<uint32_t>& kernels);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_GEMM_KERNELS_H_
