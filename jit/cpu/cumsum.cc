// cumsum: running sums in the order of hlo/reference_cumsum.h, in one pass over the array.
//
// A line of floats is read in blocks of kCumsumGroup groups, whose sums are made in registers, a vector's
// lanes being groups; levels of the groups' sums, the groups of those, and so on, keep no more than the group
// that is being filled. Threads share a single long line by its segments, which are whole groups of a level:
// what one segment leaves to the next follows from five of its own sums and what it has got itself. Sums of
// integers, which wrap around, are the same in any order and are made one by one.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "hlo/attributes.h"
#include "hlo/op.h"
#include "hlo/reference_cumsum.h"
#include "hlo/strings.h"
#include "hlo/with_vectors.h"
#include "jit/cpu/native_op.h"

namespace lamina::jit {
namespace {

using hlo::CumsumLines;
using hlo::DType;
using hlo::Node;

constexpr int kSumGroup = hlo::kCumsumGroup;
constexpr int kSumBlock = kSumGroup * kSumGroup;
// Elements that a thread works on before others get to share, and looks at the cancel flag.
constexpr int64_t kSumTask = int64_t{1} << 16;
// A segment of a line: a group of groups of blocks.
constexpr int64_t kSumSegment = int64_t{kSumBlock} * kSumBlock;
// Lines side by side in memory that a thread takes together; fewer have no vectors.
constexpr int64_t kFewLines = 8, kMostLines = 64;

// x + -0 is x, of either zero too.
template <typename T>
constexpr T kNothing = std::is_floating_point_v<T> ? static_cast<T>(-0.0) : T{0};

// --- one line ---

// {a[n - k], ..., a[n - 1], b[0], ..., b[n - k - 1]} of vectors of n elements.
template <int k, typename V, int... I>
void shift_in(const V& a, const V& b, V& out, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  out = __builtin_shufflevector(a, b, (n - k + I)...);
}

// The running sums of a group, by themselves, in vectors of n elements.
template <typename T, int n>
struct SumGroup {
  using V = typename hlo::VectorOf<T, n>::Type;
  using Unaligned = typename hlo::VectorOf<T, n>::Unaligned;
  static constexpr int kVectors = kSumGroup / n;
  V v[kVectors];

  explicit SumGroup(const T* x) {
    hlo::unrolled<kVectors>([&]<int i>() { v[i] = *reinterpret_cast<const Unaligned*>(x + i * n); });
    within<1>();
    if constexpr (n > 2) within<2>();
    if constexpr (n > 4) within<4>();
    if constexpr (n > 8) within<8>();
    for (int d = 1; d < kVectors; d *= 2)
      for (int i = kVectors; i-- > d;) v[i] = v[i - d] + v[i];
  }
  T last() const { return v[kVectors - 1][n - 1]; }
  void add_to(T before, T* y) const {
    hlo::unrolled<kVectors>([&]<int i>() { *reinterpret_cast<Unaligned*>(y + i * n) = before + v[i]; });
  }

 private:
  template <int k>
  void within() {
    const V none = kNothing<T> - V{};
    V earlier;
    for (int i = kVectors; i-- > 0;) {
      shift_in<k>(i > 0 ? v[i - 1] : none, v[i], earlier, std::make_integer_sequence<int, n>());
      v[i] = earlier + v[i];
    }
  }
};

// As many groups as a vector has elements, side by side: v[j] has element j of each.
template <typename T, int n>
struct SumGroups {
  using V = typename hlo::VectorOf<T, n>::Type;
  using Unaligned = typename hlo::VectorOf<T, n>::Unaligned;
  V v[kSumGroup];

  void load(const T* x) {
    for (int first = 0; first < kSumGroup; first += n) {
      V rows[n];
      hlo::unrolled<n>(
          [&]<int g>() { rows[g] = *reinterpret_cast<const Unaligned*>(x + g * kSumGroup + first); });
      hlo::transpose_vectors<n>(rows);
      hlo::unrolled<n>([&]<int j>() { v[first + j] = rows[j]; });
    }
  }
  // The running sums of each group by itself.
  void run() {
    V sums[kSumGroup];
    hlo::unrolled<kSumGroup>([&]<int j>() { sums[j] = v[j]; });
    double_up<1>(sums);
    double_up<2>(sums);
    double_up<4>(sums);
    double_up<8>(sums);
    hlo::unrolled<kSumGroup>([&]<int j>() { v[j] = sums[j]; });
  }
  // Of these the last ones.
  void last(T* totals) const { *reinterpret_cast<Unaligned*>(totals) = v[kSumGroup - 1]; }
  // The same, of elements.
  void total(T* totals) const {
    V sums;
    add_up<kSumGroup>(v, sums);
    *reinterpret_cast<Unaligned*>(totals) = sums;
  }
  // To their places, behind what comes before each group.
  void store(const T* before, T* y) const {
    const V earlier = *reinterpret_cast<const Unaligned*>(before);
    for (int first = 0; first < kSumGroup; first += n) {
      V rows[n];
      hlo::unrolled<n>([&]<int j>() { rows[j] = earlier + v[first + j]; });
      hlo::transpose_vectors<n>(rows);
      hlo::unrolled<n>([&]<int g>() { *reinterpret_cast<Unaligned*>(y + g * kSumGroup + first) = rows[g]; });
    }
  }

 private:
  template <int d>
  static void double_up(V* sums) {
    hlo::unrolled<kSumGroup - d>([&]<int i>() {
      constexpr int j = kSumGroup - 1 - i;
      sums[j] = sums[j - d] + sums[j];
    });
  }
  // As doubling adds up the last of `count` elements.
  template <int count>
  static void add_up(const V* x, V& total) {
    if constexpr (count == 1) {
      total = *x;
    } else {
      V a, b;
      add_up<count / 2>(x, a);
      add_up<count / 2>(x + count / 2, b);
      total = a + b;
    }
  }
};

// --- any line ---

// The elements of one level, as they come, of lines side by side; of one line if `single`.
template <typename T, bool single>
class SumLevel {
 public:
  explicit SumLevel(int64_t lanes)
      : many_(lanes),
        doubled_(static_cast<size_t>((kDoublings + 1) * kSumGroup * lanes)),
        before_(lanes, kNothing<T>) {}

  // The sums of all elements up to and with `x`, the next one.
  void push(const T* x, T* sums) {
    std::copy_n(x, lanes(), at(0, count_));
    for (int s = 0, d = 1; s < kDoublings; ++s, d *= 2) {
      const T *const now = at(s, count_), *const earlier = count_ >= d ? at(s, count_ - d) : nullptr;
      T* const out = at(s + 1, count_);
      if (!earlier) std::copy_n(now, lanes(), out);
      for (int64_t i = 0; i < lanes() && earlier; ++i) out[i] = earlier[i] + now[i];
    }
    const T* const mine = own(count_++);
    for (int64_t i = 0; i < lanes(); ++i) sums[i] = before_[i] + mine[i];
  }
  bool is_full() const { return count_ == kSumGroup; }
  void reset() { std::fill_n(begin(), lanes(), kNothing<T>); }
  // The next group: where the sums of all elements before it go.
  T* begin() {
    count_ = 0;
    return before_.data();
  }
  const T* element(int i) const { return at(0, i); }
  // Sums of the group by itself.
  const T* own(int i) const { return at(kDoublings, i); }

 private:
  static constexpr int kDoublings = 4;
  static_assert(1 << kDoublings == kSumGroup);
  const T* at(int doubling, int element) const {
    return doubled_.data() + (doubling * kSumGroup + element) * lanes();
  }
  T* at(int doubling, int element) { return doubled_.data() + (doubling * kSumGroup + element) * lanes(); }

  int64_t lanes() const { return single ? 1 : many_; }

  const int64_t many_;
  int count_ = 0;
  std::vector<T> doubled_, before_;
};

// Levels one above the other: an element of one is a group of that below.
template <typename T, bool single>
class SumLevels {
 public:
  // For so many elements of the lowest.
  SumLevels(int64_t lanes, int64_t elements) {
    for (; elements > 0; elements /= kSumGroup) levels_.emplace_back(lanes);
  }
  void push(const T* x, T* sums) { push_to(0, x, sums); }
  void push_to(size_t level, const T* x, T* sums) {
    SumLevel<T, single>& l = levels_[level];
    l.push(x, sums);
    if (l.is_full()) push_to(level + 1, l.own(kSumGroup - 1), l.begin());
  }
  void reset() {
    for (SumLevel<T, single>& level : levels_) level.reset();
  }
  SumLevel<T, single>& operator[](size_t level) { return levels_[level]; }
  const SumLevel<T, single>& operator[](size_t level) const { return levels_[level]; }

 private:
  std::vector<SumLevel<T, single>> levels_;
};

// How far a line has been summed.
template <typename T>
class LineSums {
 public:
  // What a segment by itself, all of its blocks, leaves to the next ones.
  struct Segment {
    T last_block, before_last_block, blocks, before_last_blocks, whole;
  };

  explicit LineSums(int64_t length) : levels_(1, length / kSumBlock) {}
  // For the next line of this length.
  void reset() {
    before_group_ = before_block_ = kNothing<T>;
    levels_.reset();
  }

  // The next elements: a block, or fewer, which are the last, by vectors of n. Without `y`, for whole blocks,
  // only counts what follows.
  template <int n>
  void add(const T* x, T* y, int64_t count) {
    if (count == kSumBlock) return add_block<n>(x, y, kSumBlock);
    T elements[kSumBlock], sums[kSumBlock];
    std::fill(std::copy_n(x, count, elements), std::end(elements), kNothing<T>);
    add_block<n>(elements, sums, count);
    std::copy_n(sums, count, y);
  }

  // Of a line whose elements so far were one segment.
  Segment segment() const {
    constexpr int kLast = kSumGroup - 1;
    const SumLevel<T, true>&blocks = levels_[0], &above = levels_[1];
    return {*blocks.element(kLast), *blocks.own(kLast - 1), *blocks.own(kLast), *above.own(kLast - 1),
            *above.own(kLast)};
  }
  // What the elements behind a segment need of those before them.
  struct Start {
    T group = kNothing<T>, block = kNothing<T>, blocks = kNothing<T>, segment = kNothing<T>;
  };
  // Goes on behind a segment that was summed elsewhere.
  Start skip(const Start& now, const Segment& s) {
    const T before_last = now.segment + s.before_last_blocks;
    Start next{(before_last + s.before_last_block) + s.last_block, before_last + s.blocks,
               now.segment + s.whole};
    levels_.push_to(2, &s.whole, &next.segment);
    return next;
  }
  void begin(const Start& start) {
    before_group_ = start.group;
    before_block_ = start.block;
    *levels_[0].begin() = start.blocks;
    *levels_[1].begin() = start.segment;
  }

 private:
  // Nothing is asked of what lies behind the first `count` elements, but room.
  template <int n>
  void add_block(const T* x, T* y, int64_t count) {
    SumGroups<T, n> groups[kSumGroup / n];
    T totals[kSumGroup], sums[kSumGroup + 1];
    std::fill(std::begin(totals), std::end(totals), kNothing<T>);
    const int64_t parts = (count + n * kSumGroup - 1) / (n * kSumGroup);
    for (int64_t p = 0; p < parts; ++p) {
      groups[p].load(x + p * n * kSumGroup);
      if (!y) {
        groups[p].total(totals + p * n);
        continue;
      }
      groups[p].run();
      groups[p].last(totals + p * n);
    }
    const SumGroup<T, n> of_groups(totals);
    sums[0] = before_group_;
    of_groups.add_to(before_block_, sums + 1);
    for (int64_t p = 0; p < parts && y; ++p) groups[p].store(sums + p * n, y + p * n * kSumGroup);
    if (count < kSumBlock) return;
    before_group_ = sums[kSumGroup];
    const T block = of_groups.last();
    levels_.push(&block, &before_block_);
  }

  T before_group_ = kNothing<T>, before_block_ = kNothing<T>;
  SumLevels<T, true> levels_;  // of blocks, of groups of those, of segments, ...
};

// Sums of integers are the same in any order.
template <typename T>
requires std::is_integral_v<T>
class LineSums<T> {
 public:
  using Segment = T;
  using Start = T;
  explicit LineSums(int64_t) {}
  void reset() { total_ = 0; }
  template <int>
  void add(const T* x, T* y, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      total_ = static_cast<T>(total_ + x[i]);
      if (y) y[i] = total_;
    }
  }
  Segment segment() const { return total_; }
  static Start skip(Start now, Segment s) { return static_cast<T>(now + s); }
  void begin(Start start) { total_ = start; }

 private:
  T total_ = 0;
};

// Of lines side by side: rows of an element of each.
template <typename T>
class RowSums {
 public:
  RowSums(int64_t lanes, int64_t length)
      : lanes_(lanes),
        rows_(kSumGroup * lanes),
        doubled_(kSumGroup * lanes),
        before_(lanes, kNothing<T>),
        levels_(lanes, length / kSumGroup) {}

  // The next rows, which lie `step` elements apart: a group, or fewer, which are the last.
  void add(const T* x, T* y, int64_t step, int64_t count) {
    if (step == lanes_)
      std::copy_n(x, count * lanes_, rows_.data());
    else
      for (int64_t j = 0; j < count; ++j) std::copy_n(x + j * step, lanes_, rows_.data() + j * lanes_);
    for (int64_t d = 1; d < count; d *= 2) {
      std::copy_n(rows_.data(), d * lanes_, doubled_.data());
      const T *const now = rows_.data() + d * lanes_, *const earlier = rows_.data();
      T* const sums = doubled_.data() + d * lanes_;
      for (int64_t i = 0; i < (count - d) * lanes_; ++i) sums[i] = static_cast<T>(earlier[i] + now[i]);
      rows_.swap(doubled_);
    }
    const T* const own = rows_.data();
    if (lanes_ < kFewLines) {
      for (int64_t i = 0; i < lanes_; ++i)
        for (int64_t j = 0; j < count; ++j)
          y[j * step + i] = static_cast<T>(before_[i] + own[j * lanes_ + i]);
    } else {
      for (int64_t j = 0; j < count; ++j)
        for (int64_t i = 0; i < lanes_; ++i)
          y[j * step + i] = static_cast<T>(before_[i] + own[j * lanes_ + i]);
    }
    if (count == kSumGroup) levels_.push(rows_.data() + (kSumGroup - 1) * lanes_, before_.data());
  }

 private:
  const int64_t lanes_;
  std::vector<T> rows_, doubled_, before_;
  SumLevels<T, false> levels_;  // of groups, of groups of those, ...
};

// --- arrays ---

template <typename T>
class Cumsum {
 public:
  explicit Cumsum(const CumsumLines& lines) : lines_(lines) {}

  absl::Status run(const T* x, T* y, const KernelContext& context) const {
    const int64_t lanes = lines_.outer * lines_.inner, length = lines_.length;
    if (lanes * length == 0) return absl::OkStatus();
    if (lanes < context.parallel.threads && length > 2 * kSumSegment) return run_by_segments(x, y, context);
    // Lines side by side are summed together, in as many parts as there are threads for.
    const bool as_rows = lines_.inner > 1;
    const int64_t width = std::min(
        lines_.inner, std::clamp<int64_t>(lines_.inner / context.parallel.threads, kFewLines, kMostLines));
    const int64_t parts = (lines_.inner + width - 1) / width, count = lines_.outer * parts;
    const int64_t together = std::max<int64_t>(1, kSumTask / (width * length));
    return for_tasks((count + together - 1) / together, context, [&](int64_t task) {
      LineSums<T> sums(lines_.length);
      for (int64_t p = task * together; p < std::min((task + 1) * together, count); ++p) {
        const int64_t lane = p % parts * width, at = p / parts * length * lines_.inner + lane;
        const bool goes_on = as_rows ? add_rows(x + at, y + at, std::min(width, lines_.inner - lane), context)
                                     : add_line(sums, x + at, y + at, context);
        if (!goes_on) return false;
      }
      return true;
    });
  }

 private:
  static absl::Status cancelled() { return absl::CancelledError("the run was cancelled"); }

  // `task` says whether it came to its end.
  template <typename F>
  static absl::Status for_tasks(int64_t count, const KernelContext& context, F&& task) {
    std::atomic<bool> stopped{false};
    context.parallel(count, [&](int64_t t) {
      if (context.cancelled() || !task(t)) stopped.store(true, std::memory_order_relaxed);
    });
    return stopped.load(std::memory_order_relaxed) ? cancelled() : absl::OkStatus();
  }

  int64_t step() const { return lines_.reverse ? -lines_.inner : lines_.inner; }
  int64_t first() const { return lines_.reverse ? (lines_.length - 1) * lines_.inner : 0; }

  bool add_rows(const T* x, T* y, int64_t lanes, const KernelContext& context) const {
    RowSums<T> sums(lanes, lines_.length);
    for (int64_t i = 0; i < lines_.length; i += kSumGroup) {
      if (i % (kSumTask / kMostLines) == 0 && context.cancelled()) return false;
      const int64_t at = first() + i * step();
      sums.add(x + at, y + at, step(), std::min<int64_t>(kSumGroup, lines_.length - i));
    }
    return true;
  }

  bool add_line(LineSums<T>& sums, const T* x, T* y, const KernelContext& context) const {
    sums.reset();
    for (int64_t i = 0; i < lines_.length; i += kSumTask) {
      if (context.cancelled()) return false;
      add_blocks(sums, x, y, i, std::min(i + kSumTask, lines_.length));
    }
    return true;
  }

  // Elements [begin, end) of a line; without `y` only what follows from them.
  void add_blocks(LineSums<T>& sums, const T* x, T* y, int64_t begin, int64_t end) const {
    hlo::with_lanes([&]<int doubles>() {
      add_by_vectors<static_cast<int>(doubles * sizeof(double) / sizeof(T))>(sums, x, y, begin, end);
    });
  }
  template <int n>
  void add_by_vectors(LineSums<T>& sums, const T* x, T* y, int64_t begin, int64_t end) const {
    T elements[kSumBlock], results[kSumBlock];
    for (int64_t i = begin; i < end; i += kSumBlock) {
      const int64_t count = std::min<int64_t>(kSumBlock, end - i), at = first() + i * step();
      if (step() == 1) {
        sums.template add<n>(x + at, y ? y + at : nullptr, count);
        continue;
      }
      for (int64_t j = 0; j < count; ++j) elements[j] = x[at + j * step()];
      sums.template add<n>(elements, y ? results : nullptr, count);
      for (int64_t j = 0; j < count && y; ++j) y[at + j * step()] = results[j];
    }
  }

  // A line after the other; its threads first make the sums of its segments.
  absl::Status run_by_segments(const T* x, T* y, const KernelContext& context) const {
    const int64_t length = lines_.length, count = (length + kSumSegment - 1) / kSumSegment;
    std::vector<typename LineSums<T>::Segment> segments(count - 1);
    std::vector<typename LineSums<T>::Start> starts(count);
    for (int64_t line = 0; line < lines_.outer * lines_.inner; ++line) {
      const int64_t at = line / lines_.inner * length * lines_.inner + line % lines_.inner;
      absl::Status status = for_tasks(count - 1, context, [&](int64_t s) {
        LineSums<T> sums(kSumSegment);
        add_blocks(sums, x + at, nullptr, s * kSumSegment, (s + 1) * kSumSegment);
        segments[s] = sums.segment();
        return true;
      });
      if (!status.ok()) return status;
      LineSums<T> whole(length);
      for (int64_t s = 0; s + 1 < count; ++s) starts[s + 1] = whole.skip(starts[s], segments[s]);
      status = for_tasks(count, context, [&](int64_t s) {
        LineSums<T> sums(kSumSegment);
        sums.begin(starts[s]);
        add_blocks(sums, x + at, y + at, s * kSumSegment, std::min((s + 1) * kSumSegment, length));
        return true;
      });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  const CumsumLines lines_;
};

template <typename T>
NativeOp::Routine typed_routine(const CumsumLines& lines) {
  return [cumsum = Cumsum<T>(lines)](const void* const* in, void* const* out, const KernelContext& context) {
    return cumsum.run(static_cast<const T*>(in[0]), static_cast<T*>(out[0]), context);
  };
}

NativeOp::Routine cumsum_routine(DType type, const CumsumLines& lines) {
  if (type == DType::kF32) return typed_routine<float>(lines);
  if (type == DType::kF64) return typed_routine<double>(lines);
  if (!hlo::is_integer(type) || hlo::bit_width(type) != 8 * hlo::byte_size(type)) return nullptr;
  switch (hlo::byte_size(type)) {
    case 1:
      return typed_routine<uint8_t>(lines);
    case 2:
      return typed_routine<uint16_t>(lines);
    case 4:
      return typed_routine<uint32_t>(lines);
    default:
      return typed_routine<uint64_t>(lines);
  }
}

}  // namespace

NativeOp make_cumsum(const Node& n) {
  const DType type = n.type()->dtype;
  CumsumLines lines = hlo::cumsum_lines(n);
  lines.inner *= hlo::num_parts(type);  // the parts of complex numbers are summed by themselves
  NativeOp op;
  op.run = cumsum_routine(hlo::part_type(type), lines);
  op.what = str_cat("sums of ", lines.outer * lines.inner, " lines of ", lines.length, " elements");
  return op;
}

}  // namespace lamina::jit
