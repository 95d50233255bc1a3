// sort: as integers (jit/cpu/integer_sort.h) where the comparator is a known order (jit/kernel/sort_order.h),
// else by the evaluator's merge sort with the comparator as a prepared region.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "hlo/with_vectors.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/integer_sort.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/region.h"
#include "jit/kernel/sort_order.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::DType;
using hlo::Node;

// Elements sorted by one task; tasks are cut by size only.
constexpr int64_t kSortTask = 16 * 1024;

// Bytes of lines that are copied together where their elements are apart.
constexpr int64_t kLineBlock = 16 * 1024, kCacheLine = 64;
// Elements of short lines that are sorted together.
constexpr int64_t kShortLines = 2048;
// So many times fewer elements than there are, and they are selected before they are sorted.
constexpr int64_t kFew = 8;
// Elements whose keys are made together, and of which one look finds that none is wanted.
constexpr int64_t kKeyBlock = 256, kGlance = 32;
// And of which the least are looked for together.
constexpr int64_t kLeastBlock = 1024;

// A key as an unsigned number that sorts the same way, and where the element stood.
template <typename K>
struct Record {
  K key;
  uint32_t index;
  // A stable order.
  bool operator<(const Record& other) const {
    return key < other.key || (key == other.key && index < other.index);
  }
};

// What orders an element among the selected ones: one integer where both fit into it.
template <typename K>
using Candidate = std::conditional_t<sizeof(K) == sizeof(uint32_t), uint64_t, Record<K>>;
uint64_t candidate(uint32_t key, uint32_t index) { return uint64_t{key} << 32 | index; }
Record<uint64_t> candidate(uint64_t key, uint32_t index) { return {key, index}; }
uint32_t key_of(uint64_t candidate) { return static_cast<uint32_t>(candidate >> 32); }
uint64_t key_of(const Record<uint64_t>& candidate) { return candidate.key; }
uint32_t index_of(uint64_t candidate) { return static_cast<uint32_t>(candidate); }
uint32_t index_of(const Record<uint64_t>& candidate) { return candidate.index; }

// Sorts up to kRanked of them, which are all different, by how many are less than each: without branches, in
// time that grows as their number's square.
constexpr int64_t kRanked = 64;
void sort_by_ranks(uint64_t* candidates, int64_t count) {
  std::array<uint64_t, kRanked> of;
  std::array<int64_t, kRanked> ranks;
  std::fill(std::copy_n(candidates, count, of.begin()), of.end(), 0);
  hlo::with_lanes([&]<int kLanes>() {
    using Lanes = hlo::VectorOf<uint64_t, kLanes>::Type;
    for (int64_t first = 0; first < count; first += kLanes) {
      Lanes some;
      typename hlo::VectorOf<int64_t, kLanes>::Type less = {};
      std::memcpy(&some, &of[first], sizeof some);
      for (int64_t j = 0; j < count; ++j) less -= of[j] < some;  // true is -1
      std::memcpy(&ranks[first], &less, sizeof less);
    }
  });
  for (int64_t i = 0; i < count; ++i) candidates[ranks[i]] = of[i];
}
// The least `kept` of them come first.
template <typename C>
void least_first(C* candidates, int64_t kept, int64_t count) {
  if constexpr (std::is_integral_v<C>)
    if (count <= kRanked) return sort_by_ranks(candidates, count);
  std::nth_element(candidates, candidates + kept - 1, candidates + count);
}

// Turns a key's values into unsigned numbers that sort as the key says, and back. NaNs go to either end, -0
// to +0. Without branches, so that the compiler can make vectors of it.
template <typename T, typename K>
class KeyCode {
 public:
  explicit KeyCode(const SortKey& key)
      : flipped_(key.descending ? static_cast<K>(~K{0}) : K{0}),
        nan_(key.nan == NanPlace::kFirst ? K{0} : static_cast<K>(~K{0})),
        places_nan_(key.nan != NanPlace::kUnordered) {}

  K encode(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      constexpr K kInfinity = std::bit_cast<K>(std::numeric_limits<T>::infinity());
      K bits = std::bit_cast<K>(value);
      const K is_nan = mask((bits & ~kTop) > kInfinity);
      nans_ |= is_nan;
      bits_of_nans_ |= bits & is_nan;
      shared_by_nans_ &= bits | ~is_nan;
      negative_zeros_ |= mask(bits == kTop);
      bits &= mask((bits & ~kTop) != 0);
      bits ^= mask((bits & kTop) != 0) | kTop;
      return static_cast<K>((nan_ & is_nan) | ((bits ^ flipped_) & ~is_nan));
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<K>(static_cast<K>(static_cast<int64_t>(value)) ^ kTop ^ flipped_);
    } else {
      return static_cast<K>(static_cast<K>(value) ^ flipped_);
    }
  }
  // The value of which `key` was made, if all were `distinct`.
  T decode(K key) const {
    if constexpr (std::is_floating_point_v<T>) {
      const K is_nan = mask(key == nan_) & nans_;
      K bits = key ^ flipped_;
      bits ^= mask((bits & kTop) == 0) | kTop;
      return std::bit_cast<T>(static_cast<K>((bits_of_nans_ & is_nan) | (bits & ~is_nan)));
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(key ^ flipped_ ^ kTop);
    } else {
      return static_cast<T>(key ^ flipped_);
    }
  }

  // Whether it met NaNs that have no place.
  bool unordered() const { return nans_ != 0 && !places_nan_; }
  // Whether values that it met and that are equal as keys have the same bits.
  bool distinct() const { return negative_zeros_ == 0 && (nans_ == 0 || bits_of_nans_ == shared_by_nans_); }
  // What another one met.
  void add(const KeyCode& other) {
    nans_ |= other.nans_;
    bits_of_nans_ |= other.bits_of_nans_;
    shared_by_nans_ &= other.shared_by_nans_;
    negative_zeros_ |= other.negative_zeros_;
  }

 private:
  static constexpr K kTop = K{1} << (8 * sizeof(K) - 1);
  static K mask(bool set) { return static_cast<K>(K{0} - static_cast<K>(set)); }

  K flipped_, nan_;
  K nans_ = 0, bits_of_nans_ = 0, shared_by_nans_ = static_cast<K>(~K{0}), negative_zeros_ = 0;
  bool places_nan_;
};

// f(T{}, K{}) with a key's type and the number it becomes.
template <typename F>
auto with_key_type(DType type, F&& f) {
  switch (hlo::storage_type(type)) {
    case DType::kS8:
      return f(int8_t{}, uint32_t{});
    case DType::kS16:
      return f(int16_t{}, uint32_t{});
    case DType::kS32:
      return f(int32_t{}, uint32_t{});
    case DType::kS64:
      return f(int64_t{}, uint64_t{});
    case DType::kU16:
      return f(uint16_t{}, uint32_t{});
    case DType::kU32:
      return f(uint32_t{}, uint32_t{});
    case DType::kU64:
      return f(uint64_t{}, uint64_t{});
    case DType::kF32:
      return f(float{}, uint32_t{});
    case DType::kF64:
      return f(double{}, uint64_t{});
    default:
      return f(uint8_t{}, uint32_t{});  // bool and u8; halves are compared as f32
  }
}

// Where the values of a key stand for one line, and the bytes between neighbours.
struct KeyValues {
  const std::byte* first;
  int64_t stride;
};

// What the numbers of a line's keys are like.
template <typename T, typename K>
struct LineKeys {
  KeyCode<T, K> code;
  int differing_bits;  // so many low bits hold all that tells them apart
};

// Working memory that grows as it is asked for.
class Space {
 public:
  template <typename T>
  absl::StatusOr<T*> of(int64_t count, const KernelContext& context) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    if (bytes > bytes_) {
      absl::StatusOr<BufferRef> made = context.scratch->allocate(bytes);
      if (!made.ok()) return made.status();
      buffer_ = *std::move(made);
      bytes_ = bytes;
    }
    return static_cast<T*>(pointer(buffer_->address()));
  }

 private:
  BufferRef buffer_;
  int64_t bytes_ = -1;
};

struct Sort {
  std::vector<int64_t> widths;
  std::vector<bool> positions;                         // operands that count the elements of a line
  std::vector<int64_t> input_offsets, input_operands;  // of key inputs: the first in bytes
  int64_t length, step, lines, kept;                   // kept: of a line, from the first on
  Region comparator;
  bool ordered = false;
  std::vector<SortKey> keys;
  std::vector<hlo::PreparedProgram> values;  // per key
  int alone = -1;                            // the operand that is the only key by itself

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    if (lines * length == 0) return absl::OkStatus();
    const int64_t tasks = std::min(lines, lines * length / kSortTask + 1);
    std::vector<absl::Status> statuses(tasks);
    context.parallel(tasks, [&](int64_t t) {
      State state;
      state.context = context;
      if (tasks > 1) state.context.parallel = {};
      statuses[t] = run_lines(in, out, lines * t / tasks, lines * (t + 1) / tasks, state);
    });
    for (const absl::Status& s : statuses)
      if (!s.ok()) return s;
    return absl::OkStatus();
  }

  // Working memory of one task, and the line it is at.
  struct State {
    KernelContext context;
    std::vector<const std::byte*> in;  // the first element of the line
    std::vector<std::byte*> out;
    int64_t step;  // from one element of the line to the next
    Space keys, items, order, next_order, merged, values, inputs, lines_in, lines_out;
    IntegerSort sorter;
    std::optional<Region::Scratch> scratch;
    std::vector<const void*> args;
  };

  absl::Status run_lines(const void* const* in, void* const* out, int64_t begin, int64_t end,
                         State& state) const {
    state.in.resize(widths.size());
    state.out.resize(widths.size());
    const int64_t width = *std::max_element(widths.begin(), widths.end());
    const bool follow = ordered && keys.size() == 1 && keys[0].input >= 0 && step == 1 && kept == length &&
                        length <= kShortLines / 2;
    // Lines side by side are read and written together, by whole cache lines.
    const int64_t most = follow ? kShortLines / length
                                : std::max<int64_t>(std::min(kCacheLine, kLineBlock / length) / width, 1);
    for (int64_t line = begin; line < end;) {
      const int64_t beside = follow ? end - line : std::min(end, line / step * step + step) - line;
      const int64_t count = std::min(beside, most), base = line / step * step * length + line % step;
      const absl::Status status = follow      ? run_short(in, out, line, count, state)
                                  : count > 1 ? run_block(in, out, base, count, state)
                                              : run_line(in, out, base, step, state);
      if (!status.ok()) return status;
      if (state.context.cancelled()) return absl::CancelledError("the run was cancelled");
      line += count;
    }
    return absl::OkStatus();
  }

  absl::Status run_line(const void* const* in, void* const* out, int64_t base, int64_t apart,
                        State& state) const {
    place(in, out, base, apart, state);
    return sort_line(state);
  }
  void place(const void* const* in, void* const* out, int64_t base, int64_t apart, State& state) const {
    for (size_t i = 0; i < widths.size(); ++i) {
      state.in[i] = static_cast<const std::byte*>(in[i]) + base * widths[i];
      state.out[i] = static_cast<std::byte*>(out[i]) + base * widths[i];
    }
    state.step = apart;
  }

  // Short lines that follow each other, by one key.
  absl::Status run_short(const void* const* in, void* const* out, int64_t line, int64_t count,
                         State& state) const {
    place(in, out, line * length, 1, state);
    const absl::StatusOr<bool> sorted = sort_by_keys(count, state);
    if (!sorted.ok()) return sorted.status();
    for (const int64_t end = line + count; line < end && !*sorted; ++line)
      if (absl::Status s = run_line(in, out, line * length, 1, state); !s.ok()) return s;
    return absl::OkStatus();
  }

  absl::Status run_block(const void* const* in, void* const* out, int64_t base, int64_t count,
                         State& state) const {
    int64_t bytes = 0;
    for (const int64_t width : widths) bytes += width * length * count;
    const absl::StatusOr<std::byte*> from = state.lines_in.of<std::byte>(bytes, state.context);
    const absl::StatusOr<std::byte*> to = state.lines_out.of<std::byte>(bytes, state.context);
    for (const absl::StatusOr<std::byte*>* space : {&from, &to})
      if (!space->ok()) return space->status();
    std::vector<const void*> ins;
    std::vector<void*> outs;
    int64_t at = 0;
    for (size_t i = 0; i < widths.size(); ++i) {
      ins.push_back(*from + at);
      outs.push_back(*to + at);
      copy_box({{length, step, 1}, {count, 1, length}}, in[i], base, *from + at, 0, widths[i]);
      at += widths[i] * length * count;
    }
    for (int64_t line = 0; line < count; ++line)
      if (absl::Status s = run_line(ins.data(), outs.data(), line * length, 1, state); !s.ok()) return s;
    for (size_t i = 0; i < widths.size(); ++i)
      copy_box({{kept, 1, step}, {count, length, 1}}, outs[i], 0, out[i], base, widths[i]);
    return absl::OkStatus();
  }

  absl::Status sort_line(State& state) const {
    absl::StatusOr<bool> sorted = false;
    if (ordered) sorted = selects() ? select_by_key(state) : sort_by_keys(1, state);
    if (sorted.ok() && !*sorted) sorted = merge_sort(state);
    return sorted.status();
  }

  // By the keys, last one first; false if some key is NaN that has no place. A line, or `count` that follow
  // each other, where there is one key.
  absl::StatusOr<bool> sort_by_keys(int64_t count, State& state) const {
    if (alone >= 0 && widths.size() == 1) {
      const absl::StatusOr<bool> sorted = with_key_type(
          keys[0].type, [&]<typename T, typename K>(T, K) { return sort_values<T, K>(count, state); });
      if (!sorted.ok() || *sorted) return sorted;
    }
    for (size_t k = keys.size(); k-- > 0;) {
      const absl::StatusOr<bool> sorted = with_key_type(
          keys[k].type, [&]<typename T, typename K>(T, K) { return sort_by_key<T, K>(k, count, state); });
      if (!sorted.ok() || !*sorted) return sorted;
    }
    return true;
  }

  // Lines that follow each other, or a line, of the only operand by itself; false if values are equal that
  // differ in their bits, or if some has no place.
  template <typename T, typename K>
  absl::StatusOr<bool> sort_values(int64_t count, State& state) const {
    const int64_t n = count * length;
    // In the memory of the results, where they lie there side by side.
    const bool in_place = sizeof(T) == sizeof(K) && state.step == 1 && kept == length;
    const int64_t apart = in_place ? 0 : n;
    const absl::StatusOr<K*> room =
        state.keys.of<K>(apart + IntegerSort::spare<K>(length, state.context), state.context);
    if (!room.ok()) return room.status();
    K* const numbers = in_place ? reinterpret_cast<K*>(state.out[0]) : *room;
    K* const spare = *room + apart;
    const absl::StatusOr<LineKeys<T, K>> line = encode<T, K>(0, nullptr, n, numbers, state);
    if (!line.ok()) return line.status();
    if (line->code.unordered() || !line->code.distinct()) return false;
    for (int64_t i = 0; i < count; ++i)
      state.sorter.run(numbers + i * length, spare, length, 0, state.context);
    T* const to = reinterpret_cast<T*>(state.out[0]);
    if (in_place)
      decode_in_place<T, K>(line->code, to, n, state);
    else
      decode(line->code, to, count * kept, state, [=](int64_t i) { return numbers[i]; });
    return true;
  }

  // By key k, from state.order unless it is the first to be sorted by: the results by key 0, else
  // state.order. Of `count` lines that follow each other, where there is one key.
  template <typename T, typename K>
  absl::StatusOr<bool> sort_by_key(size_t k, int64_t count, State& state) const {
    const uint32_t* before = nullptr;
    if (k + 1 < keys.size()) {
      std::swap(state.order, state.next_order);
      before = *state.next_order.of<uint32_t>(length, state.context);
    }
    const int64_t n = count * length;
    const absl::StatusOr<uint64_t*> room =
        state.items.of<uint64_t>(n + IntegerSort::spare<uint64_t>(length, state.context), state.context);
    if (!room.ok()) return room.status();
    uint64_t* const items = *room;
    const absl::StatusOr<K*> numbers = state.keys.of<K>(n, state.context);
    if (!numbers.ok()) return numbers.status();
    const absl::StatusOr<LineKeys<T, K>> line = encode<T, K>(k, before, n, *numbers, state);
    if (!line.ok()) return line.status();
    const KeyCode<T, K> code = line->code;
    if (code.unordered()) return false;

    // Items are the first bits that tell keys apart, as many as there is room for, above the place in the
    // line.
    const auto place_bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(length - 1)));
    const uint64_t place_mask = low_bits(place_bits);
    const int left_out = std::max(line->differing_bits + place_bits - 64, 0);
    for (int64_t from = 0; from < n; from += length) {
      uint64_t* const own = items + from;
      const K* const keys_of_line = *numbers + from;
      share_elements(state.context.parallel, length, [&](int64_t, int64_t begin, int64_t end) {
        hlo::with_vectors([=] {
          for (int64_t i = begin; i < end; ++i)
            own[i] = uint64_t{keys_of_line[i]} >> left_out << place_bits | static_cast<uint64_t>(i);
        });
      });
      state.sorter.run(own, items + n, length, place_bits, state.context);
      if (left_out > 0) settle(own, keys_of_line, place_bits, left_out, state);
    }

    if (keys.size() > 1) {
      const absl::StatusOr<uint32_t*> order = state.order.of<uint32_t>(length, state.context);
      if (!order.ok()) return order.status();
      share_elements(state.context.parallel, length, [&](int64_t, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto place = static_cast<uint32_t>(items[i] & place_mask);
          (*order)[i] = before ? before[place] : place;
        }
      });
      for (size_t i = 0; k == 0 && i < widths.size(); ++i) permute(i, 0, *order, low_bits(32), state);
      return true;
    }
    const uint64_t shared_bits = (*numbers)[0] & ~low_bits(64 - place_bits);
    for (size_t i = 0; i < widths.size(); ++i) {
      if (static_cast<int>(i) == alone && left_out == 0 && code.distinct())
        decode(code, reinterpret_cast<T*>(state.out[i]), count * kept, state,
               [=](int64_t at) { return static_cast<K>(shared_bits | items[at] >> place_bits); });
      else
        for (int64_t from = 0; from < n; from += length) permute(i, from, items + from, place_mask, state);
    }
    return true;
  }

  // The first n values of a result from the number at each place.
  template <typename T, typename K, typename Number>
  void decode(const KeyCode<T, K>& code, T* to, int64_t n, State& state, const Number& number) const {
    share_elements(state.context.parallel, n, [&](int64_t, int64_t begin, int64_t end) {
      hlo::with_vectors([&, local = code, step = state.step] {
        if (step == 1)
          for (int64_t i = begin; i < end; ++i) to[i] = local.decode(number(i));
        else
          for (int64_t i = begin; i < end; ++i) to[i * step] = local.decode(number(i));
      });
    });
  }

  // Runs of items with equal first bits are sorted by the last ones of their keys.
  template <typename K>
  void settle(uint64_t* items, const K* line_keys, int place_bits, int left_out, State& state) const {
    const uint64_t place_mask = low_bits(place_bits), key_mask = low_bits(left_out);
    for (int64_t begin = 0, end; begin < length && !state.context.cancelled(); begin = end) {
      end = begin + 1;
      while (end < length && items[end] >> place_bits == items[begin] >> place_bits) ++end;
      if (end == begin + 1) continue;
      for (int64_t i = begin; i < end; ++i) {
        const uint64_t place = items[i] & place_mask;
        items[i] = (line_keys[place] & key_mask) << place_bits | place;
      }
      std::sort(items + begin, items + end);
    }
  }

  static uint64_t low_bits(int count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

  // Of numbers in the place of their values.
  template <typename T, typename K>
  static void decode_in_place(const KeyCode<T, K>& code, T* values, int64_t n, State& state) {
    if constexpr (sizeof(T) == sizeof(K))
      share_elements(state.context.parallel, n, [&](int64_t, int64_t begin, int64_t end) {
        hlo::with_vectors([=, local = code] {
          for (int64_t i = begin; i < end; ++i) {
            K number;
            std::memcpy(&number, &values[i], sizeof(K));
            values[i] = local.decode(number);
          }
        });
      });
  }

  // The numbers of n values, that are at at(0), at(1), ...
  template <typename T, typename K, typename At>
  static void encode_each(KeyCode<T, K>& code, const auto n, K* to, const At& at) {
    KeyCode<T, K> local = code;  // in registers
    for (int64_t i = 0; i < n; ++i) {
      T value;
      std::memcpy(&value, at(i), sizeof(T));
      to[i] = local.encode(value);
    }
    code = local;
  }
  // Of values begin ... begin + n - 1, n <= kKeyBlock; neighbours by vectors.
  template <typename T, typename K>
  static void encode_block(KeyCode<T, K>& code, KeyValues values, int64_t begin, int64_t n, K* to) {
    constexpr std::integral_constant<int64_t, kKeyBlock> kWhole;
    const std::byte* const first = values.first + begin * values.stride;
    if (values.stride != sizeof(T)) {
      encode_each(code, n, to, [=](int64_t i) { return first + i * values.stride; });
    } else if (n == kKeyBlock) {
      encode_each(code, kWhole, to, [=](int64_t i) { return first + i * static_cast<int64_t>(sizeof(T)); });
    } else {
      std::array<T, kKeyBlock> from = {};
      std::array<K, kKeyBlock> made;
      std::memcpy(from.data(), first, static_cast<size_t>(n) * sizeof(T));
      encode_each(code, kWhole, made.data(), [&](int64_t i) { return &from[i]; });
      std::copy_n(made.begin(), n, to);
    }
  }

  // The numbers of key k of n elements in an order, null for that of the memory.
  template <typename T, typename K>
  absl::StatusOr<LineKeys<T, K>> encode(size_t k, const uint32_t* order, int64_t n, K* to,
                                        State& state) const {
    const absl::StatusOr<KeyValues> values = key_values(k, state);
    if (!values.ok()) return values.status();
    struct Part {
      KeyCode<T, K> code;
      K any, all;  // bits that some key has, that all have
    };
    absl::InlinedVector<Part, 2> parts(std::max(state.context.parallel.threads, 1),
                                       Part{KeyCode<T, K>(keys[k]), K{0}, static_cast<K>(~K{0})});
    share_elements(state.context.parallel, n, [&, from = *values](int64_t task, int64_t begin, int64_t end) {
      Part part = parts[task];
      hlo::with_vectors([&] {
        for (; begin < end; begin += kKeyBlock) {
          const int64_t size = std::min(kKeyBlock, end - begin);
          K* const block = to + begin;
          if (order)
            encode_each(part.code, size, block,
                        [=](int64_t i) { return from.first + order[begin + i] * from.stride; });
          else
            encode_block(part.code, from, begin, size, block);
          K any = part.any, all = part.all;  // in registers
          for (int64_t i = 0; i < size; ++i) {
            any |= block[i];
            all &= block[i];
          }
          part.any = any;
          part.all = all;
        }
      });
      parts[task] = part;
    });
    Part all = parts[0];
    for (const Part& part : parts) {
      all.code.add(part.code);
      all.any |= part.any;
      all.all &= part.all;
    }
    return LineKeys<T, K>{all.code, static_cast<int>(std::bit_width(static_cast<K>(all.any ^ all.all)))};
  }

  // Result i of the line that begins at element `first`, of the operand's elements at order[...] & mask.
  template <typename Index>
  void permute(size_t i, int64_t first, const Index* order, uint64_t mask, State& state) const {
    const int64_t width = widths[i], apart = state.step;
    const std::byte* const from = state.in[i] + first * width;
    std::byte* const to = state.out[i] + first * width;
    share_elements(state.context.parallel, kept, [&](int64_t, int64_t begin, int64_t end) {
      const auto move = [&]<typename T>(T) {
        const T* f = reinterpret_cast<const T*>(from);
        T* p = reinterpret_cast<T*>(to);
        if (positions[i])
          for (int64_t k = begin; k < end; ++k) p[k * apart] = static_cast<T>(order[k] & mask);
        else
          for (int64_t k = begin; k < end; ++k)
            p[k * apart] = f[static_cast<int64_t>(order[k] & mask) * apart];
      };
      switch (width) {
        case 1:
          return move(uint8_t{});
        case 2:
          return move(uint16_t{});
        case 4:
          return move(uint32_t{});
        case 8:
          return move(uint64_t{});
        default:
          for (int64_t k = begin; k < end; ++k)
            std::memcpy(to + k * apart * width, from + static_cast<int64_t>(order[k] & mask) * apart * width,
                        width);
      }
    });
  }

  bool selects() const { return keys.size() == 1 && kept * kFew <= length; }

  // The first `kept`, by one key; false as above.
  absl::StatusOr<bool> select_by_key(State& state) const {
    const absl::StatusOr<KeyValues> values = key_values(0, state);
    if (!values.ok()) return values.status();
    const absl::StatusOr<uint32_t*> order = state.order.of<uint32_t>(kept, state.context);
    if (!order.ok()) return order.status();
    return with_key_type(keys[0].type, [&]<typename T, typename K>(T, K) -> absl::StatusOr<bool> {
      const absl::StatusOr<Candidate<K>*> candidates = state.items.of<Candidate<K>>(length, state.context);
      if (!candidates.ok()) return candidates.status();
      if (!select<T, K>(*candidates, *values, state.context)) return false;
      // It has not looked at all of the line then.
      if (state.context.cancelled()) return absl::CancelledError("the run was cancelled");
      if (absl::Status s = sort_selected(*candidates, state); !s.ok()) return s;
      for (int64_t i = 0; i < kept; ++i) (*order)[i] = index_of((*candidates)[i]);
      for (size_t i = 0; i < widths.size(); ++i) permute(i, 0, *order, low_bits(32), state);
      return true;
    });
  }

  absl::Status sort_selected(Record<uint64_t>* candidates, State&) const {
    std::sort(candidates, candidates + kept);
    return absl::OkStatus();
  }
  absl::Status sort_selected(uint64_t* candidates, State& state) const {
    if (kept <= kRanked) {
      sort_by_ranks(candidates, kept);
      return absl::OkStatus();
    }
    const absl::StatusOr<uint64_t*> spare =
        state.keys.of<uint64_t>(IntegerSort::spare<uint64_t>(kept, state.context), state.context);
    if (!spare.ok()) return spare.status();
    state.sorter.run(candidates, *spare, kept, 0, state.context);
    return absl::OkStatus();
  }

  // In some order, the first `kept`. Candidates come before the last of the `kept` best ones at an earlier
  // time: of equal keys the first wins, and what stands later must be below. When there are so many, the
  // others go.
  template <typename T, typename K>
  bool select(Candidate<K>* const candidates, KeyValues values, const KernelContext& context) const {
    int64_t many = std::max(2 * kept, kGlance);
    int64_t count = 0;
    K limit = static_cast<K>(~K{0});
    bool limited = false;
    const auto cut = [&] {
      if (count <= kept || kept == 0) return;
      least_first(candidates, kept, count);
      count = kept;
      limit = key_of(candidates[kept - 1]);
      limited = true;
    };
    KeyCode<T, K> code(keys[0]);
    std::array<K, kLeastBlock> block;
    std::array<K, kGlance> least;                 // of places that are so many apart
    std::array<K, kLeastBlock / kGlance> wanted;  // of each glance: not 0 where some may be
    // Where the limit comes from the candidates, it comes the earlier the fewer are looked at together.
    const bool few = kept <= kGlance;
    const int64_t step = few ? kLeastBlock : kKeyBlock;
    for (int64_t begin = 0; begin < length && !context.cancelled(); begin += step) {
      const int64_t n = std::min(step, length - begin), glances = (n + kGlance - 1) / kGlance;
      const bool looks = few && kept > 0 && begin == 0;
      hlo::with_vectors([&] {
        for (int64_t at = 0; at < n; at += kKeyBlock)
          encode_block(code, values, begin + at, std::min(kKeyBlock, n - at), block.data() + at);
        std::fill(block.begin() + n, block.begin() + glances * kGlance, static_cast<K>(~K{0}));
        if (!looks) return;
        std::copy_n(block.begin(), kGlance, least.begin());
        for (int64_t g = 1; g < glances; ++g)
          for (int64_t i = 0; i < kGlance; ++i) least[i] = std::min(least[i], block[g * kGlance + i]);
      });
      // As many elements as are kept lie at or below that of these which so many do: a first limit.
      if (looks) {
        std::nth_element(least.begin(), least.begin() + kept - 1, least.end());
        limit = least[kept - 1] + 1;
        limited = limit > 0;
      }
      hlo::with_vectors([&] {
        for (int64_t g = 0; g < glances; ++g) {
          K some = !limited;
          for (int64_t i = 0; i < kGlance; ++i) some |= static_cast<K>(block[g * kGlance + i] < limit);
          wanted[g] = some;
        }
      });
      for (int64_t at = 0; at < n; at += kGlance) {
        if (wanted[at / kGlance] == 0) continue;
        // Each is written where the next one belongs, and stays if it is one: no branch to be mistaken about.
        for (int64_t i = at; i < std::min(n, at + kGlance); ++i) {
          candidates[count] = candidate(block[i], static_cast<uint32_t>(begin + i));
          count += !limited || block[i] < limit;
        }
        if (count < many) continue;
        cut();
        many *= 2;  // so that a line in the wrong order takes few cuts
      }
    }
    cut();
    return !code.unordered();
  }

  absl::StatusOr<KeyValues> key_values(size_t k, State& state) const {
    const auto input = [&](size_t i) { return state.in[input_operands[i]] + input_offsets[i]; };
    const auto apart = [&](size_t i) { return state.step * widths[input_operands[i]]; };
    const SortKey& key = keys[k];
    if (key.input >= 0) return KeyValues{input(key.input), apart(key.input)};
    const absl::StatusOr<uint64_t*> copies =
        state.inputs.of<uint64_t>(length * static_cast<int64_t>(input_offsets.size()), state.context);
    if (!copies.ok()) return copies.status();
    const absl::StatusOr<uint64_t*> made = state.values.of<uint64_t>(length, state.context);
    if (!made.ok()) return made.status();
    std::vector<const void*> arrays;
    for (size_t i = 0; i < input_offsets.size(); ++i) {
      const int64_t width = hlo::byte_size(key.value.inputs[i]);
      std::byte* const to = reinterpret_cast<std::byte*>(*copies + i * length);
      arrays.push_back(to);
      copy_row(input(i), to, length, apart(i) / width, 1, width);
    }
    void* results[] = {*made};
    values[k].run(arrays, results, length);
    return KeyValues{reinterpret_cast<const std::byte*>(*made), hlo::byte_size(key.type)};
  }

  // The evaluator's, comparison by comparison: the comparator may be no order at all.
  absl::StatusOr<bool> merge_sort(State& state) const {
    if (!state.scratch) {
      state.scratch.emplace(comparator);
      state.args.resize(2 * widths.size());
    }
    const absl::StatusOr<int64_t*> orders = state.merged.of<int64_t>(2 * length, state.context);
    if (!orders.ok()) return orders.status();
    absl::Status status;
    const auto before = [&](int64_t a, int64_t b) {
      for (size_t i = 0; i < widths.size(); ++i) {
        state.args[2 * i] = state.in[i] + a * state.step * widths[i];
        state.args[2 * i + 1] = state.in[i] + b * state.step * widths[i];
      }
      uint8_t result = 0;
      void* to[] = {&result};
      if (status.ok()) status = comparator.run(*state.scratch, state.args, to, 1);
      return result != 0;
    };
    int64_t *from = *orders, *to = *orders + length;
    for (int64_t i = 0; i < length; ++i) from[i] = i;
    for (int64_t width = 1; width < length && status.ok(); width *= 2) {
      for (int64_t lo = 0; lo < length; lo += 2 * width) {
        if (state.context.cancelled()) return absl::CancelledError("the run was cancelled");
        const int64_t mid = std::min(lo + width, length), hi = std::min(lo + 2 * width, length);
        int64_t a = lo, b = mid;
        for (int64_t k = lo; k < hi; ++k)
          to[k] = a < mid && (b >= hi || !before(from[b], from[a])) ? from[a++] : from[b++];
      }
      std::swap(from, to);
    }
    if (!status.ok()) return status;
    for (size_t i = 0; i < widths.size(); ++i) permute(i, 0, from, low_bits(63), state);
    return true;
  }
};

}  // namespace

NativeOp make_sort(const Node& n) {
  return make_sort_of_first(n, n.operand_type(0)->dims[n.attrs().integer(Attr::dimension)]);
}

NativeOp make_sort_of_first(const Node& n, int64_t count) {
  const hlo::Dims& dims = n.operand_type(0)->dims;
  const int64_t d = n.attrs().integer(Attr::dimension);
  const hlo::ComputationPtr& body = n.attrs().computation(Attr::body);
  Sort s{.widths = {},
         .positions = {},
         .input_offsets = {},
         .input_operands = {},
         .length = dims[d],
         .step = hlo::product(std::span(dims).subspan(d + 1)),
         .lines = 0,
         .kept = count,
         .comparator = Region(body),
         .keys = {},
         .values = {}};
  s.lines = s.length == 0 ? 0 : n.operand_type(0)->num_elements / s.length;
  for (size_t i = 0; i < n.operands().size(); ++i) {
    const DType type = n.operand_type(i)->dtype;
    s.widths.push_back(hlo::byte_size(type));
    const Node* const operand = n.operand_value(i).node();
    s.positions.push_back(operand->op() == hlo::Op::iota && hlo::is_integer(type) && s.widths.back() >= 4 &&
                          operand->attrs().integer(Attr::iota_dimension) == d);
    for (int part = 0; part < hlo::num_parts(type); ++part) {
      s.input_operands.push_back(static_cast<int64_t>(i));
      s.input_offsets.push_back(part * hlo::byte_size(hlo::part_type(type)));
    }
  }
  // Positions along a line are held in 32 bits.
  if (std::optional<std::vector<SortKey>> keys = sort_keys(*body); keys && s.length < int64_t{1} << 31) {
    s.ordered = true;
    s.keys = *std::move(keys);
    for (const SortKey& k : s.keys) s.values.emplace_back(k.value);
    if (const int input = s.keys.front().input; s.keys.size() == 1 && input >= 0)
      if (const int64_t at = s.input_operands[input]; hlo::num_parts(n.operand_type(at)->dtype) == 1)
        s.alone = static_cast<int>(at);
  }
  NativeOp op;
  const std::string first = s.kept < s.length ? str_cat("the first ", s.kept, " of ") : "";
  op.what = s.ordered ? str_cat(first, s.lines, " lines of ", s.length, ", ", s.keys.size(), " keys")
                      : str_cat(first, s.lines, " lines of ", s.length, ", comparator");
  op.run = [s = std::move(s)](const void* const* in, void* const* out, const KernelContext& context) {
    return s.run(in, out, context);
  };
  return op;
}

}  // namespace lamina::jit
