// The blocked matrix product behind dots and convolutions: C = A * B over sources that know how to pack
// themselves.
//
// Contract: every element of C is the sum, in order, over blocks of `block` consecutive k of the kernels'
// chain over the block (gemm_kernels.h). The cut into regions, panels and tiles never changes an element's
// order.
//
// A source stands for the matrix [outer, k] of one operand (rows of A, columns of B) and has
//   void pack(const GemmKernels<T>*, T* dst, int64_t ld, int64_t outer0, int64_t outer, int64_t k0, int64_t
//   kc) const;
//     dst[k * ld + r] = element (outer0 + r, k0 + k)
//   int64_t direct_ld() const;  // >= 0 if row k of B may be read in place: unit stride, this far from the
//   next k const T* direct(int64_t outer0, int64_t k0) const;
//   int64_t pack_runs(...) const;  // where several tiles of B are packed in a better way than one by one
//   MemoryRows rows_of(...) const;  // where what pack() reads lies in memory as rows
//
// A tile of B stays in the first-level cache while it meets a block of panels of A, which stays in the
// second.
#ifndef LAMINA_JIT_CPU_GEMM_H_
#define LAMINA_JIT_CPU_GEMM_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/status/status.h"
#include "hlo/half.h"
#include "jit/client/checked.h"
#include "jit/cpu/gemm_kernels.h"
#include "jit/cpu/kernel_context.h"

namespace lamina::jit {

// Where element (row, column) goes: an offset per row plus one per column, either strided or from a table.
template <typename Out>
struct GemmOutput {
  Out* data;
  int64_t row_stride;
  int64_t col_stride;
  const int64_t* row_offsets = nullptr;
  const int64_t* col_offsets = nullptr;

  int64_t row(int64_t r) const { return row_offsets ? row_offsets[r] : r * row_stride; }
  int64_t col(int64_t c) const { return col_offsets ? col_offsets[c] : c * col_stride; }
  bool rows_contiguous() const { return !row_offsets && !col_offsets && col_stride == 1; }
};

struct GemmSize {
  int64_t batch, m, n, k;
  int64_t block;  // k per block
};

// Packed B takes at most this much. From a shared cache its tiles still come faster than they are used (of a
// second level of 512 KB, too); the wider it is, the less often A is packed.
inline constexpr int64_t kPackedBytes = 1024 << 10;
// The panels of A that are packed together: a part of a second-level cache; all of them, so that no tile of B
// is needed again, where they take this much.
inline constexpr int64_t kPanelsBytes = 64 << 10, kAllPanelsBytes = 128 << 10;
inline constexpr int64_t kLineBytes = 64, kTilesPerRun = 8;
// Of smaller factors the processor finds what is packed next soon enough by itself.
inline constexpr int64_t kAheadBytes = 1 << 20;
// Sums of C, where C itself cannot hold them (another type, scattered): B is packed again for each such part
// of its rows.
inline constexpr int64_t kAsideBytes = 2 << 20;
// A is read in place when the result is at most this many vectors wide, or all of A is so small, or as the
// kernels say. Of tiles as high as those of packed panels, which are turned to be packed, also where the
// result is this narrow and no memory is waited for.
inline constexpr int64_t kInPlaceColumns = 2, kInPlaceBytes = 16 << 10, kNarrowColumns = 32;
inline constexpr int64_t kStackScratch = 16 << 10;
// Less work than this many multiply-adds per thread (some 15 us) is not worth waking a thread.
inline constexpr int64_t kWorkPerThread = 1 << 20;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The first place from `p` on where a cache line begins.
template <typename T>
T* at_line(T* p) {
  return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(p) + 63) & ~uintptr_t{63});
}

// How one problem is cut; the same for every batch element.
template <typename T>
struct GemmPlan {
  int64_t nr;  // tile width
  int64_t nc;  // columns per packed block of B
  int64_t mc;  // rows between two visits of C
  bool aside;  // C is accumulated in scratch
  bool a_in_place;
  bool b_in_place;
  int64_t panel_rows;                          // the most rows of a tile
  int64_t block_panels;                        // packed together
  int64_t b_elements, a_elements, c_elements;  // scratch

  // From one packed tile of B to the next: a cache line more than it has, or the tiles of a run, which are
  // packed side by side, would lie in the same sets of the first-level cache.
  int64_t pitch(int64_t kc) const { return kc * nr + kLineBytes / static_cast<int64_t>(sizeof(T)); }

  int64_t scratch_bytes() const {
    return (b_elements + a_elements + c_elements) * static_cast<int64_t>(sizeof(T)) + 192;
  }
};

template <typename T>
GemmPlan<T> plan_gemm(const GemmKernels<T>& kernels, const GemmSize& s, int64_t a_direct_ld,
                      int64_t b_direct_ld, bool aside) {
  GemmPlan<T> p;
  const int64_t kb = std::min(s.block, s.k);
  // Packing A pays only when several tiles use it, and its rows do not all stay near the processor by
  // themselves.
  const int64_t a_bytes = s.m * s.k * static_cast<int64_t>(sizeof(T));
  const bool tall = s.m > kernels.wide_rows;
  p.a_in_place =
      a_direct_ld >= 0 && kernels.in_place_rows[0] > 0 &&
      (s.n <= kInPlaceColumns * kernels.lanes ||
       s.m * a_direct_ld * static_cast<int64_t>(sizeof(T)) <= kInPlaceBytes ||
       (tall && (s.n <= kernels.in_place_vecs * kernels.lanes || a_bytes <= kernels.in_place_bytes)) ||
       (kernels.in_place_rows[1] >= kernels.max_rows && s.n <= kNarrowColumns * kernels.lanes &&
        a_bytes <= kAheadBytes));
  p.panel_rows = p.a_in_place ? kernels.in_place_rows[s.n <= kernels.lanes ? 0 : 1] : kernels.max_rows;
  p.nr = kernels.lanes * (s.m <= kernels.wide_rows && !p.a_in_place ? kMaxTileVecs : kernels.max_vecs);
  const int64_t fit =
      std::max<int64_t>(kPackedBytes / static_cast<int64_t>(sizeof(T)) / s.block / p.nr, 1) * p.nr;
  p.nc = std::min(fit, ceil_div(s.n, p.nr) * p.nr);
  p.aside = aside;
  p.mc = aside ? std::min(s.m, kAsideBytes / static_cast<int64_t>(sizeof(T)) / p.nc) : s.m;
  // In place when each element of B is used by one or two row panels only, or all of B sits in the
  // first-level cache.
  p.b_in_place =
      b_direct_ld >= 0 &&
      (s.m <= 2 * p.panel_rows || kb * b_direct_ld * static_cast<int64_t>(sizeof(T)) <= kernels.near_bytes);
  const int64_t panels = ceil_div(s.m, p.panel_rows);
  const int64_t panel_bytes = kb * p.panel_rows * static_cast<int64_t>(sizeof(T));
  p.block_panels =
      panels * panel_bytes <= kAllPanelsBytes ? panels : std::max<int64_t>(kPanelsBytes / panel_bytes, 1);
  const int64_t tiles = p.nc / p.nr;
  p.b_elements =
      p.b_in_place ? 0 : p.pitch(kb) * (panels <= p.block_panels ? std::min(tiles, kTilesPerRun) : tiles);
  p.a_elements = p.a_in_place ? 0 : kb * std::min<int64_t>(p.panel_rows * p.block_panels, s.m);
  p.c_elements = aside ? p.mc * p.nc : 0;
  return p;
}

// Columns [outer0, outer0 + outer) of B, tile by tile, `pitch` apart.
template <typename T, typename B>
void pack_tiles(const GemmKernels<T>& kernels, const B& b, T* dst, int64_t pitch, int64_t width,
                int64_t outer0, int64_t outer, int64_t k0, int64_t kc) {
  int64_t at = 0;
  if constexpr (requires { b.pack_runs(dst, pitch, width, outer0, outer, k0, kc); })
    at = b.pack_runs(dst, pitch, width, outer0, outer, k0, kc);
  for (; at < outer; at += width) {
    const int64_t rest = std::min(width, outer - at);
    b.pack(&kernels, dst + at / width * pitch, rest, outer0 + at, rest, k0, kc);
  }
}

struct MemoryRows {
  const char* data = nullptr;
  int64_t rows = 0, bytes = 0, stride = 0;  // stride in bytes
};

// Asks for rows that are read or written next while tiles are computed, a part of them in each of `steps`
// steps.
class AheadRows {
 public:
  AheadRows() = default;
  AheadRows(const MemoryRows& rows, int64_t steps) : left_(rows), steps_(steps) {}
  void step() {
    for (owed_ += left_.rows; owed_ >= steps_; owed_ -= steps_, left_.data += left_.stride)
      for (int64_t at = 0; at < left_.bytes; at += kLineBytes) __builtin_prefetch(left_.data + at, 0, 2);
  }

 private:
  MemoryRows left_;
  int64_t steps_ = 1, owed_ = 0;  // rows times steps that are to be asked for
};

// Asks so for what is packed next.
template <typename Source>
class Ahead {
 public:
  Ahead(const Source& source, bool worth) : source_(source), worth_(worth) {}
  void begin(int64_t outer0, int64_t outer, int64_t k0, int64_t kc, int64_t steps) {
    if constexpr (requires { source_.rows_of(outer0, outer, k0, kc); })
      if (worth_) rows_ = AheadRows(source_.rows_of(outer0, outer, k0, kc), steps);
  }
  void step() { rows_.step(); }

 private:
  const Source& source_;
  const bool worth_;
  AheadRows rows_;
};

// Makes the bits of f16 or bf16 of sums: one type for both, so that what stores them is compiled once.
struct StoreHalf {
  bool is_bf16;
  uint16_t operator()(float x) const { return is_bf16 ? hlo::to_bf16(x).bits : hlo::to_f16(x).bits; }
};

template <typename T, typename Out, typename Store>
void store_row(const GemmKernels<T>& kernels, Out* to, const T* sums, int64_t n, Store store) {
  if constexpr (std::is_same_v<Store, StoreHalf>) {
    const auto narrow = store.is_bf16 ? kernels.narrow_bf16 : kernels.narrow_f16;
    if (narrow) return narrow(to, sums, n);
  }
  for (int64_t j = 0; j < n; ++j) to[j] = store(sums[j]);
}

// Rows [m0, m1) and columns [n0, n1) of one product.
template <typename T, typename A, typename B, typename Out, typename Store>
void gemm_region(const GemmKernels<T>& kernels, const GemmPlan<T>& plan, const GemmSize& s, const A& a,
                 const B& b, const GemmOutput<Out>& out, Store store, const KernelContext& context,
                 int64_t m0, int64_t m1, int64_t n0, int64_t n1, T* scratch) {
  T* const b_pack = at_line(scratch);
  T* const a_pack = at_line(b_pack + plan.b_elements);
  T* const c_aside = at_line(a_pack + plan.a_elements);
  for (int64_t jc = n0; jc < n1; jc += plan.nc) {
    const int64_t nc = std::min(plan.nc, n1 - jc);
    for (int64_t ic = m0; ic < m1; ic += plan.mc) {
      const int64_t mc = std::min(plan.mc, m1 - ic);
      const int64_t panels = ceil_div(mc, plan.panel_rows), tiles = ceil_div(nc, plan.nr);
      // As even as can be: a panel of one or two rows would waste the multipliers.
      const auto first_row = [least = mc / panels, more = mc % panels](int64_t panel) {
        return least * panel + std::min(panel, more);
      };
      const int64_t worth = kAheadBytes / static_cast<int64_t>(sizeof(T));
      const auto end_of = [&](int64_t block) { return std::min(panels, block + plan.block_panels); };
      for (int64_t pc = 0; pc < s.k; pc += s.block) {
        const int64_t kc = std::min(s.block, s.k - pc), pitch = plan.pitch(kc);
        const int64_t next_pc = pc + s.block, next_kc = std::min(s.block, s.k - next_pc);
        for (int64_t block = 0; block < panels; block += plan.block_panels) {
          const int64_t end = end_of(block), i0 = first_row(block), i1 = first_row(end);
          Ahead<A> next_a(a, s.m * s.k > worth);
          if (!plan.a_in_place) {
            for (int64_t panel = block; panel < end; ++panel) {
              const int64_t i = first_row(panel), rows = first_row(panel + 1) - i;
              a.pack(&kernels, a_pack + (i - i0) * kc, rows, ic + i, rows, pc, kc);
            }
            if (end < panels)
              next_a.begin(ic + i1, first_row(end_of(end)) - i1, pc, kc, tiles * (end - block));
            else if (next_kc > 0)
              next_a.begin(ic, first_row(end_of(0)), next_pc, next_kc, tiles * (end - block));
          }
          Ahead<B> next_b(b, s.n * s.k > worth);
          for (int64_t tile = 0; tile < tiles; ++tile) {
            const int64_t j = tile * plan.nr, width = std::min(plan.nr, nc - j);
            const int64_t vec = (width - 1) / kernels.lanes;
            // Tiles that no other block needs are packed over those before them.
            T* const packed = b_pack + (panels <= plan.block_panels ? tile % kTilesPerRun : tile) * pitch;
            if (!plan.b_in_place && tile % kTilesPerRun == 0) {
              const int64_t run = kTilesPerRun * plan.nr, here = std::min(kTilesPerRun, tiles - tile);
              if (block == 0)
                pack_tiles(kernels, b, packed, pitch, plan.nr, jc + j, std::min(run, nc - j), pc, kc);
              if (tile + here == tiles) {
                if (end == panels && next_kc > 0)
                  next_b.begin(jc, std::min(run, nc), next_pc, next_kc, here * (end - block));
              } else if (block == 0) {
                next_b.begin(jc + j + run, std::min(run, nc - j - run), pc, kc, here * (end - block));
              }
            }
            const T* const b_tile = plan.b_in_place ? b.direct(jc + j, pc) : packed;
            const int64_t ldb = plan.b_in_place ? b.direct_ld() : width;
            for (int64_t panel = block; panel < end; ++panel) {
              if (context.cancelled()) return;
              const int64_t i = first_row(panel), rows = first_row(panel + 1) - i;
              T* c = nullptr;
              int64_t ldc = 0;
              if (plan.aside) {
                c = c_aside + i * nc + j;
                ldc = nc;
              } else if constexpr (std::is_same_v<T, Out>) {
                c = out.data + (ic + i) * out.row_stride + jc + j;
                ldc = out.row_stride;
              }
              next_a.step();
              next_b.step();
              if (plan.a_in_place)
                kernels.in_place[rows - 1][vec](kc, a.direct(ic + i, pc), a.direct_lda(), b_tile, ldb, c, ldc,
                                                width, pc == 0);
              else
                kernels.tile[rows - 1][vec](kc, a_pack + (i - i0) * kc, b_tile, ldb, c, ldc, width, pc == 0);
            }
          }
        }
      }
      if (plan.aside)
        for (int64_t i = 0; i < mc; ++i) {
          Out* const row = out.data + out.row(ic + i);
          const T* const sums = c_aside + i * nc;
          if (out.rows_contiguous())
            store_row(kernels, row + jc, sums, nc, store);
          else
            for (int64_t j = 0; j < nc; ++j) row[out.col(jc + j)] = store(sums[j]);
        }
    }
  }
}

// Whether `row_cuts` of the rows have the threads read less twice than `col_cuts` of the columns: all of B
// for each cut, or all of A for each block of columns there is more of. A's rows are turned when they are
// packed, B's mostly copied.
template <typename T>
bool rows_first(const GemmPlan<T>& plan, const GemmSize& s, int64_t col_cuts, int64_t row_cuts) {
  if (col_cuts < row_cuts) return true;
  const int64_t blocks = col_cuts * ceil_div(ceil_div(s.n, col_cuts), plan.nc);
  const int64_t a_again = s.m * (blocks - ceil_div(s.n, plan.nc)), b_again = s.n * (row_cuts - 1);
  return row_cuts == col_cuts && b_again < 2 * a_again;
}

// `source(batch)` gives a struct with members a, b, out. `store` rounds an accumulator to the output's type.
template <typename T, typename Out, typename Source, typename Store>
absl::Status gemm(const GemmSize& s, const KernelContext& context, Source source, Store store) {
  if (s.batch == 0 || s.m == 0 || s.n == 0) return absl::OkStatus();
  if (s.k == 0) {
    for (int64_t i = 0; i < s.batch; ++i) {
      const auto problem = source(i);
      for (int64_t r = 0; r < s.m; ++r)
        for (int64_t c = 0; c < s.n; ++c)
          problem.out.data[problem.out.row(r) + problem.out.col(c)] = store(T{0});
    }
    return absl::OkStatus();
  }
  const GemmKernels<T>& kernels = gemm_kernels<T>(usable_isa(context.isa));
  const auto first = source(0);
  const bool aside = !std::is_same_v<T, Out> || !first.out.rows_contiguous();
  const GemmPlan<T> plan = plan_gemm<T>(kernels, s, first.a.direct_lda(), first.b.direct_ld(), aside);

  // Regions: the batch, then columns and rows, until every thread has one.
  int64_t threads = 1, row_cuts = 1, col_cuts = 1;
  if (context.parallel.threads > 1) {
    const double work = static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
                        static_cast<double>(s.k);
    threads = static_cast<int64_t>(
        std::clamp(work / kWorkPerThread, 1.0, static_cast<double>(context.parallel.threads)));
    if (s.batch < 2 * threads) {
      const int64_t wanted = ceil_div(threads, s.batch);
      const int64_t most_cols = std::max<int64_t>(s.n / (2 * plan.nr), 1),
                    most_rows = ceil_div(s.m, plan.panel_rows);
      const int64_t cols = std::min(wanted, most_cols), rows = std::min(wanted, most_rows);
      if (rows_first(plan, s, cols, rows)) {
        row_cuts = rows;
        col_cuts = std::min(ceil_div(wanted, rows), most_cols);
      } else {
        col_cuts = cols;
        row_cuts = std::min(ceil_div(wanted, cols), most_rows);
      }
    }
  }
  const int64_t regions = s.batch * row_cuts * col_cuts;
  threads = std::min(threads, regions);

  alignas(64) char stack[kStackScratch];
  BufferRef heap;
  char* scratch = stack;
  const int64_t bytes = (plan.scratch_bytes() + 63) / 64 * 64;
  if (bytes * threads > kStackScratch) {
    absl::StatusOr<BufferRef> buffer = context.scratch->allocate(bytes * threads);
    if (!buffer.ok()) return buffer.status();
    heap = *std::move(buffer);
    scratch = static_cast<char*>(pointer(heap->address()));
  }
  const auto work = [&](int64_t thread) {
    T* const mine = reinterpret_cast<T*>(scratch + thread * bytes);
    const int64_t end = regions * (thread + 1) / threads;
    if constexpr (std::is_same_v<T, Out>) {
      // Products of one tile, of which there may be many: nothing is cut.
      if (plan.a_in_place && plan.b_in_place && !aside && regions == s.batch && s.m <= plan.panel_rows &&
          s.n <= plan.nr && s.k <= s.block) {
        const auto tile = kernels.in_place[s.m - 1][(s.n - 1) / kernels.lanes];
        for (int64_t i = s.batch * thread / threads; i < end && !context.cancelled(); ++i) {
          const auto problem = source(i);
          tile(s.k, problem.a.direct(0, 0), problem.a.direct_lda(), problem.b.direct(0, 0),
               problem.b.direct_ld(), problem.out.data, problem.out.row_stride, s.n, true);
        }
        return;
      }
    }
    for (int64_t region = regions * thread / threads; region < end; ++region) {
      if (context.cancelled()) return;
      const int64_t col = region % col_cuts, row = region / col_cuts % row_cuts;
      const auto problem = source(region / (col_cuts * row_cuts));
      const int64_t tiles = ceil_div(s.n, plan.nr);
      gemm_region<T>(kernels, plan, s, problem.a, problem.b, problem.out, store, context,
                     s.m * row / row_cuts, s.m * (row + 1) / row_cuts, tiles * col / col_cuts * plan.nr,
                     std::min(s.n, tiles * (col + 1) / col_cuts * plan.nr), mine);
    }
  };
  if (threads == 1)
    work(0);
  else
    context.parallel(threads, work);
  if (context.cancelled()) return absl::CancelledError("a matrix product was interrupted");
  return absl::OkStatus();
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_GEMM_H_
