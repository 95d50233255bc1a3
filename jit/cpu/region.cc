#include "jit/cpu/region.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/reference_chain.h"
#include "hlo/scalar/tables.h"
#include "hlo/with_vectors.h"

namespace lamina::jit {
namespace {

using hlo::DType;
using hlo::Op;

#if defined(__GNUC__) && !defined(__clang__)
#define LAMINA_ALIGNED_LOOPS __attribute__((optimize("align-loops=64")))
#else
#define LAMINA_ALIGNED_LOOPS
#endif

// hlo/scalar/arithmetic.cc defines these; floats: a NaN wins, +0 is above -0.
template <typename T, bool kLargest>
T extreme(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const Bits x = std::bit_cast<Bits>(a), y = std::bit_cast<Bits>(b);
    // By masks: which of two numbers is greater is nothing that a processor could foresee.
    const auto choose = [](bool p, Bits yes, Bits no) {
      const Bits mask = Bits{0} - Bits{p};
      return (yes & mask) | (no & ~mask);
    };
    const T better = kLargest ? (a > b ? a : b) : (a < b ? a : b);  // b where there is a NaN
    const Bits ordered = choose(a == b, kLargest ? x & y : x | y, std::bit_cast<Bits>(better));
    return std::bit_cast<T>(choose(a != a, x, ordered));
  } else {
    return kLargest ? (a < b ? b : a) : (b < a ? b : a);
  }
}

// The same where most of what comes changes nothing, or all of it does: a processor foresees that.
template <typename T, bool kLargest>
T foreseen_extreme(T a, T b) {
  if (kLargest ? a > b : a < b) return a;
  if (kLargest ? b > a : b < a) return b;
  return extreme<T, kLargest>(a, b);
}

template <typename T, CombineKind K>
T apply(T a, T b) {
  if constexpr (K == CombineKind::kMaximum || K == CombineKind::kMinimum) {
    return extreme<T, K == CombineKind::kMaximum>(a, b);
  } else if constexpr (std::is_floating_point_v<T>) {
    return K == CombineKind::kAdd ? a + b : a * b;
  } else {
    // Unsigned, and wide enough that promotion to int cannot overflow.
    const uint64_t x = a, y = b;  // NOLINT(bugprone-signed-char-misuse): the sign goes along
    return static_cast<T>(K == CombineKind::kAdd ? x + y : x * y);
  }
}

// The element operations: one per storage type and kind.
template <typename T, CombineKind K>
struct Plain {
  static void row(void* acc, const void* x, int64_t step, int64_t n) {
    T* a = static_cast<T*>(acc);
    const T* b = static_cast<const T*>(x);
    hlo::with_vectors([&] {
      // Steps that the compiler knows are vectors, too.
      if (step == 1)
        for (int64_t i = 0; i < n; ++i) a[i] = apply<T, K>(a[i], b[i]);
      else if (step == 2)
        for (int64_t i = 0; i < n; ++i) a[i] = apply<T, K>(a[i], b[i * 2]);
      else
        for (int64_t i = 0; i < n; ++i) a[i] = apply<T, K>(a[i], b[i * step]);
    });
  }
  // Its loops are of a few instructions, which take a third longer where they lie in two cache lines.
  LAMINA_ALIGNED_LOOPS static void indexed(void* acc, const void* x, const int32_t* at, const int32_t* of,
                                           int64_t n) {
    const T* const b = static_cast<const T*>(x);
    if (of)
      add_indexed(static_cast<T*>(acc), at, n, [=](int64_t i) { return b[of[i]]; });
    else
      add_indexed(static_cast<T*>(acc), at, n, [=](int64_t i) { return b[i]; });
  }
  static void prefix(void* acc, const void* x, void* y, int64_t step, int64_t n) {
    T a = *static_cast<const T*>(acc);
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(y)[i * step] = a = apply<T, K>(a, static_cast<const T*>(x)[i * step]);
    *static_cast<T*>(acc) = a;
  }

 private:
  static constexpr bool kIsFloatExtreme =
      std::is_floating_point_v<T> && (K == CombineKind::kMaximum || K == CombineKind::kMinimum);

  template <typename Update>
  LAMINA_ALIGNED_LOOPS static void add_indexed(T* a, const int32_t* at, int64_t n, const Update& update) {
    for (int64_t i = 0; i < n;) {
      const int32_t to = at[i];
      // Neighbours with one target do not wait for each other's way through memory.
      T sum = a[to];
      do {
        if constexpr (kIsFloatExtreme)
          sum = foreseen_extreme<T, K == CombineKind::kMaximum>(sum, update(i));
        else
          sum = apply<T, K>(sum, update(i));
      } while (++i < n && at[i] == to);  // NOLINT(bugprone-inc-dec-in-conditions): in this order
      a[to] = sum;
    }
  }
};

#undef LAMINA_ALIGNED_LOOPS

template <DType H, CombineKind K>
struct Half {
  static void one(void* acc, int64_t to, const void* x, int64_t from) {
    hlo::store_as<float>(H, acc, to,
                         apply<float, K>(hlo::load_as<float>(H, acc, to), hlo::load_as<float>(H, x, from)));
  }
  static void row(void* acc, const void* x, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; ++i) one(acc, i, x, i * step);
  }
  static void indexed(void* acc, const void* x, const int32_t* at, const int32_t* of, int64_t n) {
    for (int64_t i = 0; i < n; ++i) one(acc, at[i], x, of ? of[i] : i);
  }
  static void prefix(void* acc, const void* x, void* y, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      one(acc, 0, x, i * step);
      std::memcpy(static_cast<uint16_t*>(y) + i * step, acc, sizeof(uint16_t));
    }
  }
};

template <typename P>
struct ComplexSum {
  static void row(void* acc, const void* x, int64_t step, int64_t n) {
    P* a = static_cast<P*>(acc);
    const P* b = static_cast<const P*>(x);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t part = 0; part < 2; ++part) a[2 * i + part] = a[2 * i + part] + b[2 * i * step + part];
  }
  static void indexed(void* acc, const void* x, const int32_t* at, const int32_t* of, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      row(static_cast<P*>(acc) + 2 * int64_t{at[i]}, static_cast<const P*>(x) + 2 * (of ? of[i] : i), 1, 1);
  }
  static void prefix(void* acc, const void* x, void* y, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      row(acc, static_cast<const P*>(x) + 2 * i * step, 1, 1);
      std::memcpy(static_cast<P*>(y) + 2 * i * step, acc, 2 * sizeof(P));
    }
  }
};

struct Combines {
  RowCombine row = nullptr;
  IndexedCombine indexed = nullptr;
  PrefixCombine prefix = nullptr;
};
template <typename Op>
Combines all_of() {
  return {Op::row, Op::indexed, Op::prefix};
}

template <CombineKind K>
Combines of_type(DType type) {
  // bool: add and maximum are or, multiply and minimum are and; on 0 and 1 those are maximum and minimum.
  constexpr bool kUp = K == CombineKind::kAdd || K == CombineKind::kMaximum;
  switch (type) {
    case DType::kBool:
      return all_of<Plain<uint8_t, kUp ? CombineKind::kMaximum : CombineKind::kMinimum>>();
    case DType::kS8:
      return all_of<Plain<int8_t, K>>();
    case DType::kS16:
      return all_of<Plain<int16_t, K>>();
    case DType::kS32:
      return all_of<Plain<int32_t, K>>();
    case DType::kS64:
      return all_of<Plain<int64_t, K>>();
    case DType::kU8:
      return all_of<Plain<uint8_t, K>>();
    case DType::kU16:
      return all_of<Plain<uint16_t, K>>();
    case DType::kU32:
      return all_of<Plain<uint32_t, K>>();
    case DType::kU64:
      return all_of<Plain<uint64_t, K>>();
    case DType::kF16:
      return all_of<Half<DType::kF16, K>>();
    case DType::kBF16:
      return all_of<Half<DType::kBF16, K>>();
    case DType::kF32:
      return all_of<Plain<float, K>>();
    case DType::kF64:
      return all_of<Plain<double, K>>();
    case DType::kC64:
      return K == CombineKind::kAdd ? all_of<ComplexSum<float>>() : Combines{};
    case DType::kC128:
      return K == CombineKind::kAdd ? all_of<ComplexSum<double>>() : Combines{};
    default:
      return {};  // narrow types: by their program
  }
}

Combines combines(CombineKind kind, DType type) {
  return with_operation(kind, [&]<CombineKind K>() { return of_type<K>(type); });
}

}  // namespace

CombineKind combine_kind(const hlo::Value& first, const hlo::Value& second, const hlo::Value& result) {
  if (result.type() != first.type() || result.type() != second.type()) return CombineKind::kOther;
  const hlo::Node* const acc = first.node();
  const hlo::Node* const x = second.node();
  const hlo::Node& n = *result.node();
  if (&n == acc) return CombineKind::kKeep;
  if (&n == x) return CombineKind::kReplace;
  if (n.operands().size() != 2) return CombineKind::kOther;
  const hlo::Node *a = n.operand(0).node(), *b = n.operand(1).node();
  // All four commute, to the bit but for the payload of a NaN.
  if (!((a == acc && b == x) || (a == x && b == acc))) return CombineKind::kOther;
  switch (n.op()) {
    case Op::add:
      return CombineKind::kAdd;
    case Op::multiply:
      return CombineKind::kMultiply;
    case Op::maximum:
      return CombineKind::kMaximum;
    case Op::minimum:
      return CombineKind::kMinimum;
    case Op::or_:
      return hlo::is_bool(result.dtype()) ? CombineKind::kMaximum : CombineKind::kOther;
    case Op::and_:
      return hlo::is_bool(result.dtype()) ? CombineKind::kMinimum : CombineKind::kOther;
    default:
      return CombineKind::kOther;
  }
}

RowCombine row_combine(CombineKind kind, DType type) { return combines(kind, type).row; }
IndexedCombine indexed_combine(CombineKind kind, DType type) { return combines(kind, type).indexed; }
PrefixCombine prefix_combine(CombineKind kind, DType type) { return combines(kind, type).prefix; }

Region::Region(hlo::ComputationPtr region) : Region(region, hlo::region_program(*region)) {
  if (parameters_.size() == 2 && results_.size() == 1)
    kind_ = combine_kind(region_->parameters()[0], region_->parameters()[1], region_->roots()[0]);
  if (kind_ == CombineKind::kOther) return;
  combine_ = row_combine(kind_, results_[0]);
  indexed_combine_ = jit::indexed_combine(kind_, results_[0]);
}

Region::Region(hlo::ComputationPtr region, std::optional<hlo::ScalarProgram> program)
    : region_(std::move(region)), program_(std::move(program)) {
  for (const hlo::Value& p : region_->parameters()) parameters_.push_back(p.dtype());
  for (const hlo::Value& r : region_->roots()) results_.push_back(r.dtype());
  if (!program_) return;
  // Value v lives in slot v.
  const uint32_t inputs = static_cast<uint32_t>(program_->inputs.size());
  for (uint32_t i = 0; i < program_->code.size(); ++i) {
    const hlo::ScalarInstr& instr = program_->code[i];
    if (instr.prim == hlo::Prim::constant) continue;
    const DType operand = program_->type_of(instr.operands[hlo::is_select(instr.prim) ? 1 : 0]);
    calls_.push_back({hlo::find_kernel(instr.prim, instr.type, operand),
                      inputs + i,
                      {instr.operands[0], instr.operands[1], instr.operands[2]},
                      instr.prim == hlo::Prim::lookup ? hlo::scalar::table(instr.type, instr.imm) : nullptr});
  }
}

Region::Scratch::Scratch(const Region& region) {
  if (!region.program_) return;
  const hlo::ScalarProgram& program = *region.program_;
  const size_t values = program.inputs.size() + program.code.size();
  memory_.resize(values * kRow);
  for (size_t v = 0; v < values; ++v) at_.push_back(reinterpret_cast<std::byte*>(memory_.data() + v * kRow));
  for (size_t i = 0; i < program.code.size(); ++i) {
    const hlo::ScalarInstr& instr = program.code[i];
    const int64_t width = hlo::byte_size(instr.type);
    if (instr.prim != hlo::Prim::constant) continue;
    for (int64_t k = 0; k < kRow; ++k)
      std::memcpy(at_[program.inputs.size() + i] + k * width, &instr.imm, width);
  }
}

absl::Status Region::run(Scratch& scratch, std::span<const void* const> inputs,
                         std::span<void* const> outputs, int64_t n) const {
  if (!program_) return run_by_element(inputs, outputs, n);
  const std::vector<std::byte*>& at = scratch.at_;
  for (int64_t start = 0; start < n; start += kRow) {
    const int64_t count = std::min(kRow, n - start);
    size_t value = 0;
    for (size_t p = 0; p < inputs.size(); ++p) {
      const int64_t parts = hlo::num_parts(parameters_[p]), width = hlo::byte_size(parameters_[p]) / parts;
      const std::byte* from = static_cast<const std::byte*>(inputs[p]) + start * parts * width;
      for (int64_t part = 0; part < parts; ++part, ++value) {
        if (parts == 1)
          std::memcpy(at[value], from, count * width);
        else
          for (int64_t i = 0; i < count; ++i)
            std::memcpy(at[value] + i * width, from + (2 * i + part) * width, width);
      }
    }
    for (const Call& c : calls_)
      c.kernel(at[c.out], at[c.in[0]], c.table ? c.table : at[c.in[1]], at[c.in[2]], count);
    size_t output = 0;
    for (size_t r = 0; r < outputs.size(); ++r) {
      const int64_t parts = hlo::num_parts(results_[r]), width = hlo::byte_size(results_[r]) / parts;
      std::byte* to = static_cast<std::byte*>(outputs[r]) + start * parts * width;
      for (int64_t part = 0; part < parts; ++part, ++output) {
        const std::byte* from = at[program_->outputs[output]];
        if (parts == 1)
          std::memcpy(to, from, count * width);
        else
          for (int64_t i = 0; i < count; ++i)
            std::memcpy(to + (2 * i + part) * width, from + i * width, width);
      }
    }
  }
  return absl::OkStatus();
}

// A region that is no scalar program (it holds a loop, say) goes to the evaluator.
absl::Status Region::run_by_element(std::span<const void* const> inputs, std::span<void* const> outputs,
                                    int64_t n) const {
  for (int64_t i = 0; i < n; ++i) {
    std::vector<hlo::LiteralPtr> arguments;
    for (size_t p = 0; p < inputs.size(); ++p)
      arguments.push_back(hlo::Literal::copy_of(
          hlo::scalar_type(parameters_[p]),
          static_cast<const std::byte*>(inputs[p]) + i * hlo::byte_size(parameters_[p])));
    absl::StatusOr<std::vector<hlo::LiteralPtr>> results = hlo::evaluate(*region_, arguments);
    if (!results.ok()) return results.status();
    for (size_t r = 0; r < outputs.size(); ++r) {
      const hlo::Literal& lit = *(*results)[r];
      std::memcpy(static_cast<std::byte*>(outputs[r]) + i * hlo::byte_size(results_[r]), lit.data(),
                  lit.bytes());
    }
  }
  return absl::OkStatus();
}

}  // namespace lamina::jit
