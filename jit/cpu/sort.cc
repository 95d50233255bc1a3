// sort: by radix where the comparator is a known order (jit/kernel/sort_order.h), else by the evaluator's
// merge sort with the comparator as a prepared region.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
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
// Below this an insertion sort beats counting digits.
constexpr int64_t kInsertion = 40;
// From here digits of 11 bits beat digits of 8.
constexpr int64_t kWideDigits = 8192;

// So many times fewer elements than there are, and they are selected before they are sorted.
constexpr int64_t kFew = 8;
// Elements whose keys are made together, and of which one look finds that none is wanted.
constexpr int64_t kKeyBlock = 256, kGlance = 32;

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

template <typename K>
void insertion_sort(Record<K>* r, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const Record<K> x = r[i];
    int64_t at = i;
    for (; at > 0 && x.key < r[at - 1].key; --at) r[at] = r[at - 1];
    r[at] = x;
  }
}

// Stable, least significant digit first, leaving out digits that all keys share. The result is in the first
// array.
template <int kBits, typename K>
void radix_sort(Record<K>* r, Record<K>* spare, int64_t n, const KernelContext& context) {
  constexpr int kDigits = (8 * sizeof(K) + kBits - 1) / kBits;
  constexpr K kMask = (K{1} << kBits) - 1;
  std::vector<uint32_t> counts(size_t{kDigits} << kBits, 0);
  for (int64_t i = 0; i < n; ++i)
    for (int d = 0; d < kDigits; ++d) ++counts[(size_t(d) << kBits) + ((r[i].key >> (d * kBits)) & kMask)];
  Record<K>*from = r, *to = spare;
  for (int d = 0; d < kDigits && !context.cancelled(); ++d) {
    uint32_t* const count = counts.data() + (size_t(d) << kBits);
    if (count[(from[0].key >> (d * kBits)) & kMask] == static_cast<uint64_t>(n)) continue;
    uint32_t sum = 0;
    for (size_t b = 0; b <= kMask; ++b) sum += std::exchange(count[b], sum);
    for (int64_t i = 0; i < n; ++i) to[count[(from[i].key >> (d * kBits)) & kMask]++] = from[i];
    std::swap(from, to);
  }
  if (from != r) std::memcpy(static_cast<void*>(r), from, n * sizeof(Record<K>));
}

template <typename K>
void sort_records(Record<K>* r, Record<K>* spare, int64_t n, const KernelContext& context) {
  if (n <= kInsertion)
    insertion_sort(r, n);
  else if (n < kWideDigits)
    radix_sort<8>(r, spare, n, context);
  else
    radix_sort<11>(r, spare, n, context);
}

// Turns a key's values into numbers that sort as the key says. NaNs go to either end, -0 to +0. Without
// branches, so that the compiler can make vectors of it.
template <typename T, typename K>
class Encoder {
 public:
  explicit Encoder(const SortKey& key)
      : flipped_(key.descending ? static_cast<K>(~K{0}) : K{0}),
        nan_(key.nan == NanPlace::kFirst ? K{0} : static_cast<K>(~K{0})),
        places_nan_(key.nan != NanPlace::kUnordered) {}

  K operator()(T value) {
    constexpr K kTop = K{1} << (8 * sizeof(K) - 1);
    if constexpr (std::is_floating_point_v<T>) {
      constexpr K kInfinity = std::bit_cast<K>(std::numeric_limits<T>::infinity());
      K bits = std::bit_cast<K>(value);
      const K is_nan = mask((bits & ~kTop) > kInfinity);
      bits &= mask((bits & ~kTop) != 0);
      bits ^= mask((bits & kTop) != 0) | kTop;
      nans_ |= is_nan;
      return static_cast<K>((nan_ & is_nan) | ((bits ^ flipped_) & ~is_nan));
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<K>(static_cast<K>(static_cast<int64_t>(value)) ^ kTop ^ flipped_);
    } else {
      return static_cast<K>(static_cast<K>(value) ^ flipped_);
    }
  }
  // Whether it met NaNs that have no place.
  bool unordered() const { return nans_ != 0 && !places_nan_; }

 private:
  static K mask(bool set) { return static_cast<K>(K{0} - static_cast<K>(set)); }

  K flipped_, nan_, nans_ = 0;
  bool places_nan_;
};

// f(T{}, K{}) with a key's type and the number it becomes.
template <typename F>
void with_key_type(DType type, F&& f) {
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

struct Sort {
  std::vector<int64_t> widths;
  std::vector<int64_t> input_offsets, input_strides, input_operands;  // of key inputs: in bytes, per element
  int64_t length, step, lines, kept;                                  // kept: of a line, from the first on
  Region comparator;
  bool ordered = false;
  std::vector<SortKey> keys;
  std::vector<hlo::PreparedProgram> values;  // per key

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    if (lines * length == 0) return absl::OkStatus();
    const int64_t tasks = std::min(lines, lines * length / kSortTask + 1);
    std::vector<absl::Status> statuses(tasks);
    context.parallel(tasks, [&](int64_t t) {
      statuses[t] = run_lines(in, out, lines * t / tasks, lines * (t + 1) / tasks, context);
    });
    for (const absl::Status& s : statuses)
      if (!s.ok()) return s;
    return absl::OkStatus();
  }

  // Working memory of one task.
  struct State {
    BufferRef records, order, merged, values, inputs;
    std::optional<Region::Scratch> scratch;
    std::vector<const void*> args;
  };

  absl::Status run_lines(const void* const* in, void* const* out, int64_t begin, int64_t end,
                         const KernelContext& context) const {
    State state;
    for (auto [buffer, bytes] :
         {std::pair(&state.records, 2 * length * int64_t{16}), std::pair(&state.order, length * int64_t{8}),
          std::pair(&state.values, length * int64_t{8}),
          std::pair(&state.inputs,
                    length * int64_t{8} * static_cast<int64_t>(std::max<size_t>(input_offsets.size(), 1)))}) {
      absl::StatusOr<BufferRef> made = context.scratch->allocate(bytes);
      if (!made.ok()) return made.status();
      *buffer = *std::move(made);
    }
    int64_t* const order = static_cast<int64_t*>(pointer(state.order->address()));
    for (int64_t line = begin; line < end; ++line) {
      const int64_t base = line / step * step * length + line % step;
      if (!ordered || !(selects() ? select_by_key(in, base, order, state, context)
                                  : sort_by_keys(in, base, order, state, context)))
        if (absl::Status s = merge_sort(in, base, order, state, context); !s.ok()) return s;
      if (context.cancelled()) return absl::CancelledError("the run was cancelled");
      for (size_t i = 0; i < widths.size(); ++i)
        permute(static_cast<const std::byte*>(in[i]) + base * widths[i],
                static_cast<std::byte*>(out[i]) + base * widths[i], order, widths[i]);
    }
    return absl::OkStatus();
  }

  void permute(const std::byte* from, std::byte* to, const int64_t* order, int64_t width) const {
    const auto move = [&]<typename T>(T) {
      const T* f = reinterpret_cast<const T*>(from);
      T* t = reinterpret_cast<T*>(to);
      for (int64_t k = 0; k < kept; ++k) t[k * step] = f[order[k] * step];
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
        for (int64_t k = 0; k < kept; ++k)
          std::memcpy(to + k * step * width, from + order[k] * step * width, width);
    }
  }

  // Last key first; false if some key is NaN that has no place for it.
  bool sort_by_keys(const void* const* in, int64_t base, int64_t* order, State& state,
                    const KernelContext& context) const {
    for (int64_t i = 0; i < length; ++i) order[i] = i;
    bool unordered = false;
    for (size_t k = keys.size(); k-- > 0;) {
      const SortKey& key = keys[k];
      const auto [values_at, stride] = key_values(k, in, base, state);
      with_key_type(key.type, [&]<typename T, typename K>(T, K) {
        Record<K>* const records = static_cast<Record<K>*>(pointer(state.records->address()));
        Encoder<T, K> encode(key);
        for (int64_t i = 0; i < length; ++i) {
          T value;
          std::memcpy(&value, values_at + order[i] * stride, sizeof(T));
          records[i] = {encode(value), static_cast<uint32_t>(order[i])};
        }
        unordered = encode.unordered();
        if (unordered) return;
        sort_records(records, records + length, length, context);
        for (int64_t i = 0; i < length; ++i) order[i] = records[i].index;
      });
      if (unordered) return false;
    }
    return true;
  }

  bool selects() const { return keys.size() == 1 && kept * kFew <= length; }

  // The order of the first `kept`, by one key; false as above.
  bool select_by_key(const void* const* in, int64_t base, int64_t* order, State& state,
                     const KernelContext& context) const {
    const auto values = key_values(0, in, base, state);
    bool done = false;
    with_key_type(keys[0].type, [&]<typename T, typename K>(T, K) {
      Record<K>* const records = static_cast<Record<K>*>(pointer(state.records->address()));
      done = select<T>(records, values.first, values.second, context);
      for (int64_t i = 0; done && i < kept; ++i) order[i] = records[i].index;
    });
    return done;
  }

  // Candidates come before the last of the `kept` best ones at an earlier time: of equal keys the first wins,
  // and what stands later must be below. When there are twice as many, half of them go.
  template <typename T, typename K>
  bool select(Record<K>* records, const std::byte* values, int64_t stride,
              const KernelContext& context) const {
    int64_t count = 0;
    K limit = static_cast<K>(~K{0});
    bool limited = false;
    const auto cut = [&] {
      if (count <= kept || kept == 0) return;
      std::nth_element(records, records + kept - 1, records + count);
      count = kept;
      limit = records[kept - 1].key;
      limited = true;
    };
    Encoder<T, K> encode(keys[0]);
    std::array<K, kKeyBlock> block;
    const auto encode_block = [&](int64_t begin, const auto n, const auto step) {
      Encoder<T, K> local = encode;
      for (int64_t i = 0; i < n; ++i) {
        T value;
        std::memcpy(&value, values + (begin + i) * step, sizeof(T));
        block[i] = local(value);
      }
      encode = local;
    };
    for (int64_t begin = 0; begin < length && !context.cancelled(); begin += kKeyBlock) {
      const int64_t n = std::min(kKeyBlock, length - begin);
      if (n == kKeyBlock && stride == sizeof(T)) {
        encode_block(begin, std::integral_constant<int64_t, kKeyBlock>(),
                     std::integral_constant<int64_t, sizeof(T)>());
      } else {
        encode_block(begin, n, stride);
        std::fill(block.begin() + n, block.end(), static_cast<K>(~K{0}));
      }
      for (int64_t at = 0; at < n; at += kGlance) {
        K some = !limited;
        for (int64_t i = 0; i < kGlance; ++i) some |= static_cast<K>(block[at + i] < limit);
        if (some == 0) continue;
        for (int64_t i = at; i < std::min(n, at + kGlance); ++i)
          if (!limited || block[i] < limit) records[count++] = {block[i], static_cast<uint32_t>(begin + i)};
      }
      if (count > 2 * kept) cut();
    }
    cut();
    std::sort(records, records + std::min(count, kept));
    return !encode.unordered();
  }

  // Where the values of key `k` stand for one line, and the bytes between neighbours.
  std::pair<const std::byte*, int64_t> key_values(size_t k, const void* const* in, int64_t base,
                                                  State& state) const {
    const auto input = [&](size_t i) {
      return static_cast<const std::byte*>(in[input_operands[i]]) + base * widths[input_operands[i]] +
             input_offsets[i];
    };
    const SortKey& key = keys[k];
    if (key.input >= 0) return {input(key.input), input_strides[key.input]};
    std::vector<const void*> arrays;
    for (size_t i = 0; i < input_offsets.size(); ++i) {
      const int64_t width = hlo::byte_size(key.value.inputs[i]);
      std::byte* const to = static_cast<std::byte*>(pointer(state.inputs->address())) + i * length * 8;
      arrays.push_back(to);
      copy_row(input(i), to, length, input_strides[i] / width, 1, width);
    }
    void* results[] = {pointer(state.values->address())};
    values[k].run(arrays, results, length);
    return {static_cast<const std::byte*>(pointer(state.values->address())), hlo::byte_size(key.type)};
  }

  // The evaluator's, comparison by comparison: the comparator may be no order at all.
  absl::Status merge_sort(const void* const* in, int64_t base, int64_t* order, State& state,
                          const KernelContext& context) const {
    if (!state.scratch) {
      state.scratch.emplace(comparator);
      state.args.resize(2 * widths.size());
      absl::StatusOr<BufferRef> made = context.scratch->allocate(length * int64_t{8});
      if (!made.ok()) return made.status();
      state.merged = *std::move(made);
    }
    absl::Status status;
    const auto before = [&](int64_t a, int64_t b) {
      for (size_t i = 0; i < widths.size(); ++i) {
        state.args[2 * i] = static_cast<const std::byte*>(in[i]) + (base + a * step) * widths[i];
        state.args[2 * i + 1] = static_cast<const std::byte*>(in[i]) + (base + b * step) * widths[i];
      }
      uint8_t result = 0;
      void* to[] = {&result};
      if (status.ok()) status = comparator.run(*state.scratch, state.args, to, 1);
      return result != 0;
    };
    int64_t *from = order, *to = static_cast<int64_t*>(pointer(state.merged->address()));
    for (int64_t i = 0; i < length; ++i) from[i] = i;
    for (int64_t width = 1; width < length && status.ok(); width *= 2) {
      for (int64_t lo = 0; lo < length; lo += 2 * width) {
        if (context.cancelled()) return absl::CancelledError("the run was cancelled");
        const int64_t mid = std::min(lo + width, length), hi = std::min(lo + 2 * width, length);
        int64_t a = lo, b = mid;
        for (int64_t k = lo; k < hi; ++k)
          to[k] = a < mid && (b >= hi || !before(from[b], from[a])) ? from[a++] : from[b++];
      }
      std::swap(from, to);
    }
    if (from != order) std::memcpy(order, from, length * sizeof(int64_t));
    return status;
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
         .input_offsets = {},
         .input_strides = {},
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
    for (int part = 0; part < hlo::num_parts(type); ++part) {
      s.input_operands.push_back(static_cast<int64_t>(i));
      s.input_offsets.push_back(part * hlo::byte_size(hlo::part_type(type)));
      s.input_strides.push_back(s.step * hlo::byte_size(type));
    }
  }
  // Positions along a line are held in 32 bits.
  if (std::optional<std::vector<SortKey>> keys = sort_keys(*body); keys && s.length < int64_t{1} << 31) {
    s.ordered = true;
    s.keys = *std::move(keys);
    for (const SortKey& k : s.keys) s.values.emplace_back(k.value);
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
