// Included once per copy of the kernels, with LAMINA_KERNEL_NAMESPACE and LAMINA_KERNEL_TARGET defined: the
// operations are plain inline functions, and only the loops that they are inlined into carry the target.
#include <cmath>
#include <limits>
#include <type_traits>

#include "hlo/half.h"
#include "hlo/scalar/kernels.h"
#include "hlo/scalar/tables.h"

namespace lamina::hlo::LAMINA_KERNEL_NAMESPACE {
namespace {

#define LAMINA_OP [[gnu::always_inline]] static inline

struct Bool {
  uint8_t value;
};

template <typename T>
constexpr bool is_native_float = std::is_same_v<T, float> || std::is_same_v<T, double>;
template <typename T>
constexpr bool is_native_int = std::is_integral_v<T>;
template <typename T>
constexpr bool is_storage_half = std::is_same_v<T, F16> || std::is_same_v<T, BF16>;

template <typename T>
struct BitsOf {
  using type = std::conditional_t<
      sizeof(T) == 1, uint8_t,
      std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;
};
template <typename T>
using Bits = typename BitsOf<T>::type;
// Wide enough that no operand promotes to a signed int.
template <typename T>
using Wide = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;

template <typename T>
constexpr int kWidth = sizeof(T) * 8;

// Each operation says for which types it exists (`ok`) and what it computes.
struct Add {
  template <typename T>
  static constexpr bool ok = is_native_float<T> || is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    if constexpr (is_native_float<T>)
      return a + b;
    else
      return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};
struct Sub {
  template <typename T>
  static constexpr bool ok = is_native_float<T> || is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    if constexpr (is_native_float<T>)
      return a - b;
    else
      return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
  }
};
struct Mul {
  template <typename T>
  static constexpr bool ok = is_native_float<T> || is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    if constexpr (is_native_float<T>)
      return a * b;
    else
      return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
};
struct Div {
  template <typename T>
  static constexpr bool ok = is_native_float<T> || is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    if constexpr (is_native_float<T>) {
      return a / b;
    } else {
      if (b == 0) return static_cast<T>(-1);
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
      return static_cast<T>(a / b);
    }
  }
};
struct Rem {
  template <typename T>
  static constexpr bool ok = is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>)
      if (b == -1) return 0;
    return static_cast<T>(a % b);
  }
};
struct Fma {
  template <typename T>
  static constexpr bool ok = is_native_float<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b, T c) {
    return std::fma(a, b, c);
  }
};
// The bits of b hold the sum of two biased exponents, above those of quarters or, in f64, eighths.
struct Scale {
  template <typename T>
  static constexpr bool ok = is_native_float<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    constexpr int kPart = sizeof(T) == 4 ? 2 : 3, kDigits = std::numeric_limits<T>::digits - 1;
    const Bits<T> both = std::bit_cast<Bits<T>>(b) >> kPart;
    const T first = std::bit_cast<T>(both >> 1 << kDigits);
    const T second = std::bit_cast<T>((both + 1) >> 1 << kDigits);
    return a * first * second;
  }
};
// Of equal operands, which differ at most in the sign of zero, the bits of both decide.
template <bool kLargest>
struct Limit {
  template <typename T>
  static constexpr bool ok = is_native_float<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const bool below = kLargest ? a < b : b < a, above = kLargest ? b < a : a < b;
    const Bits first = std::bit_cast<Bits>(below ? b : a), second = std::bit_cast<Bits>(above ? a : b);
    const T both = std::bit_cast<T>(kLargest ? first & second : first | second);
    return a != a || b != b ? std::numeric_limits<T>::quiet_NaN() : both;
  }
};
struct Neg {
  template <typename T>
  static constexpr bool ok = is_native_float<T> || is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a) {
    if constexpr (is_native_float<T>)
      return -a;
    else
      return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
  }
};
struct Abs {
  template <typename T>
  static constexpr bool ok = is_native_float<T> || is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a) {
    if constexpr (is_native_float<T>)
      return std::fabs(a);
    else if constexpr (std::is_signed_v<T>)
      return a < 0 ? static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a)) : a;
    else
      return a;
  }
};

#define LAMINA_FLOAT_UNARY(Name, function)         \
  struct Name {                                    \
    template <typename T>                          \
    static constexpr bool ok = is_native_float<T>; \
    template <typename T>                          \
    LAMINA_OP T op(T a) {                          \
      return function(a);                          \
    }                                              \
  };
LAMINA_FLOAT_UNARY(Sqrt, std::sqrt)
LAMINA_FLOAT_UNARY(Floor, std::floor)
LAMINA_FLOAT_UNARY(Ceil, std::ceil)
LAMINA_FLOAT_UNARY(Trunc, std::trunc)
LAMINA_FLOAT_UNARY(RoundEven, std::rint)
#undef LAMINA_FLOAT_UNARY

#define LAMINA_BITWISE(Name, symbol)                                        \
  struct Name {                                                             \
    template <typename T>                                                   \
    static constexpr bool ok = is_native_int<T> || std::is_same_v<T, Bool>; \
    template <typename T>                                                   \
    LAMINA_OP T op(T a, T b) {                                              \
      if constexpr (is_native_int<T>)                                       \
        return static_cast<T>(a symbol b);                                  \
      else                                                                  \
        return {static_cast<uint8_t>(a.value symbol b.value)};              \
    }                                                                       \
  };
LAMINA_BITWISE(BitAnd, &)
LAMINA_BITWISE(BitOr, |)
LAMINA_BITWISE(BitXor, ^)
#undef LAMINA_BITWISE

struct BitNot {
  template <typename T>
  static constexpr bool ok = is_native_int<T> || std::is_same_v<T, Bool>;
  template <typename T>
  LAMINA_OP T op(T a) {
    if constexpr (is_native_int<T>)
      return static_cast<T>(~a);
    else
      return {static_cast<uint8_t>(a.value ^ 1)};
  }
};

// The masked amount keeps the shift itself defined; the select then discards it.
struct Shl {
  template <typename T>
  static constexpr bool ok = is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    const Bits<T> n = static_cast<Bits<T>>(b);
    const Wide<T> shifted = static_cast<Wide<T>>(static_cast<Bits<T>>(a)) << (n & (kWidth<T> - 1));
    return static_cast<T>(n < kWidth<T> ? shifted : Wide<T>{0});
  }
};
struct ShrLogical {
  template <typename T>
  static constexpr bool ok = is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    const Bits<T> n = static_cast<Bits<T>>(b);
    const Wide<T> shifted = static_cast<Wide<T>>(static_cast<Bits<T>>(a)) >> (n & (kWidth<T> - 1));
    return static_cast<T>(n < kWidth<T> ? shifted : Wide<T>{0});
  }
};
struct ShrArithmetic {
  template <typename T>
  static constexpr bool ok = is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    using S = std::make_signed_t<T>;
    const Bits<T> n = static_cast<Bits<T>>(b);
    const Bits<T> amount = n < kWidth<T> ? n : static_cast<Bits<T>>(kWidth<T> - 1);
    return static_cast<T>(static_cast<S>(a) >> amount);
  }
};
struct Popcount {
  template <typename T>
  static constexpr bool ok = is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a) {
    return static_cast<T>(std::popcount(static_cast<Bits<T>>(a)));
  }
};
struct CountLeadingZeros {
  template <typename T>
  static constexpr bool ok = is_native_int<T>;
  template <typename T>
  LAMINA_OP T op(T a) {
    return static_cast<T>(std::countl_zero(static_cast<Bits<T>>(a)));
  }
};
struct MulHigh {
  template <typename T>
  static constexpr bool ok = std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>;
  template <typename T>
  LAMINA_OP T op(T a, T b) {
    if constexpr (sizeof(T) == 4) {
      return static_cast<T>((static_cast<uint64_t>(a) * b) >> 32);
    } else {
      const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
      const uint64_t low = a0 * b0, mid = a1 * b0 + (low >> 32);
      const uint64_t mid2 = a0 * b1 + (mid & 0xffffffffu);
      return a1 * b1 + (mid >> 32) + (mid2 >> 32);
    }
  }
};

#define LAMINA_COMPARE(Name, symbol)                                                              \
  struct Name {                                                                                   \
    template <typename T>                                                                         \
    static constexpr bool ok = is_native_float<T> || is_native_int<T> || std::is_same_v<T, Bool>; \
    template <typename T>                                                                         \
    LAMINA_OP Bool op(T a, T b) {                                                                 \
      if constexpr (std::is_same_v<T, Bool>)                                                      \
        return {static_cast<uint8_t>(a.value symbol b.value)};                                    \
      else                                                                                        \
        return {static_cast<uint8_t>(a symbol b)};                                                \
    }                                                                                             \
  };
LAMINA_COMPARE(Eq, ==)
LAMINA_COMPARE(Ne, !=)
LAMINA_COMPARE(Lt, <)
LAMINA_COMPARE(Le, <=)
#undef LAMINA_COMPARE

template <typename To, typename From>
LAMINA_OP To saturate(From x) {
  // The least double or float above every To is a power of two, hence exact.
  constexpr From above = static_cast<From>(uint64_t{1} << (std::numeric_limits<To>::digits - 1)) * 2;
  constexpr From lowest = std::is_signed_v<To> ? -above : From{0};
  const bool inside = x > lowest && x < above;  // false for NaN
  const To value = static_cast<To>(inside ? x : From{0});
  const To limit = x >= above    ? std::numeric_limits<To>::max()
                   : x <= lowest ? std::numeric_limits<To>::lowest()
                                 : To{0};
  return inside ? value : limit;
}

template <typename To, typename From>
LAMINA_OP To convert_value(From x) {
  if constexpr (is_storage_half<From>) {
    return convert_value<To>(to_f32(x));
  } else if constexpr (std::is_same_v<From, Bool>) {
    if constexpr (std::is_same_v<To, Bool>)
      return x;
    else
      return convert_value<To>(x.value);
  } else if constexpr (std::is_same_v<To, Bool>) {
    return {static_cast<uint8_t>(x != From{0})};
  } else if constexpr (is_storage_half<To>) {
    float narrow;
    if constexpr (std::is_same_v<From, float>)
      narrow = x;
    else if constexpr (std::is_same_v<From, double>)
      narrow = to_f32_odd(x);
    else if constexpr (std::is_signed_v<From>)
      narrow = to_f32_odd(to_f64_odd(int64_t{x}));
    else
      narrow = to_f32_odd(to_f64_odd(uint64_t{x}));
    if constexpr (std::is_same_v<To, F16>)
      return to_f16(narrow);
    else
      return to_bf16(narrow);
  } else if constexpr (is_native_float<From> && is_native_int<To>) {
    return saturate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename Op, typename T>
LAMINA_KERNEL_TARGET void unary_loop(void* out, const void* a, const void*, const void*, int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  for (int64_t i = 0; i < count; ++i) o[i] = Op::op(x[i]);
}
template <typename Op, typename T>
LAMINA_KERNEL_TARGET void binary_loop(void* out, const void* a, const void* b, const void*, int64_t count) {
  auto* o = static_cast<decltype(Op::op(T{}, T{}))*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  for (int64_t i = 0; i < count; ++i) o[i] = Op::op(x[i], y[i]);
}
template <typename Op, typename T>
LAMINA_KERNEL_TARGET void ternary_loop(void* out, const void* a, const void* b, const void* c,
                                       int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
  for (int64_t i = 0; i < count; ++i) o[i] = Op::op(x[i], y[i], z[i]);
}
template <typename T>
LAMINA_KERNEL_TARGET void select_loop(void* out, const void* a, const void* b, const void* c, int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* p = static_cast<const uint8_t*>(a);
  const auto* x = static_cast<const T*>(b);
  const auto* y = static_cast<const T*>(c);
  for (int64_t i = 0; i < count; ++i) {
    const T t = x[i], f = y[i];
    o[i] = p[i] != 0 ? t : f;
  }
}
// `b` is the table.
template <typename T, typename Place>
LAMINA_KERNEL_TARGET void lookup_loop(void* out, const void* a, const void* b, const void*, int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const Place*>(a);
  const auto* table = static_cast<const T*>(b);
  for (int64_t i = 0; i < count; ++i) o[i] = table[x[i] % scalar::kTableSize];
}
template <typename To, typename From>
LAMINA_KERNEL_TARGET void convert_loop(void* out, const void* a, const void*, const void*, int64_t count) {
  auto* o = static_cast<To*>(out);
  const auto* x = static_cast<const From*>(a);
  for (int64_t i = 0; i < count; ++i) o[i] = convert_value<To>(x[i]);
}
template <typename T>
LAMINA_KERNEL_TARGET void copy_loop(void* out, const void* a, const void*, const void*, int64_t count) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  for (int64_t i = 0; i < count; ++i) o[i] = x[i];
}

// Calls `f` with a value of the C++ type of `t`.
template <typename F>
ScalarKernel with_type(DType t, F f) {
  switch (t) {
    case DType::kBool:
      return f(Bool{});
    case DType::kS8:
      return f(int8_t{});
    case DType::kS16:
      return f(int16_t{});
    case DType::kS32:
      return f(int32_t{});
    case DType::kS64:
      return f(int64_t{});
    case DType::kU8:
      return f(uint8_t{});
    case DType::kU16:
      return f(uint16_t{});
    case DType::kU32:
      return f(uint32_t{});
    case DType::kU64:
      return f(uint64_t{});
    case DType::kF16:
      return f(F16{});
    case DType::kBF16:
      return f(BF16{});
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    default:
      return nullptr;
  }
}

template <typename Op, int arity>
ScalarKernel typed(DType operand) {
  return with_type(operand, [](auto v) -> ScalarKernel {
    using T = decltype(v);
    if constexpr (!Op::template ok<T>)
      return nullptr;
    else if constexpr (arity == 1)
      return unary_loop<Op, T>;
    else if constexpr (arity == 2)
      return binary_loop<Op, T>;
    else
      return ternary_loop<Op, T>;
  });
}

template <typename Op>
ScalarKernel compare(DType result, DType operand) {
  return result == DType::kBool ? typed<Op, 2>(operand) : nullptr;
}

ScalarKernel find_convert(DType result, DType operand) {
  return with_type(result, [operand](auto to) {
    return with_type(operand,
                     [](auto from) -> ScalarKernel { return convert_loop<decltype(to), decltype(from)>; });
  });
}

ScalarKernel find_bitcast(DType result, DType operand) {
  if (byte_size(result) != byte_size(operand) || is_bool(result) || is_bool(operand)) return nullptr;
  return with_type(storage_type(bits_type(result)),
                   [](auto v) -> ScalarKernel { return copy_loop<decltype(v)>; });
}

}  // namespace

ScalarKernel find_kernel(Prim prim, DType result, DType operand) {
  switch (prim) {
    case Prim::eq:
      return compare<Eq>(result, operand);
    case Prim::ne:
      return compare<Ne>(result, operand);
    case Prim::lt:
      return compare<Lt>(result, operand);
    case Prim::le:
      return compare<Le>(result, operand);
    case Prim::convert:
      return find_convert(result, operand);
    case Prim::bitcast:
      return find_bitcast(result, operand);
    case Prim::lookup:
      if (result == DType::kF64 && operand == DType::kU64) return lookup_loop<double, uint64_t>;
      return result == DType::kF32 && operand == DType::kU32 ? lookup_loop<float, uint32_t> : nullptr;
    default:
      break;
  }
  if (result != operand) return nullptr;
  switch (prim) {
    case Prim::add:
      return typed<Add, 2>(operand);
    case Prim::sub:
      return typed<Sub, 2>(operand);
    case Prim::mul:
      return typed<Mul, 2>(operand);
    case Prim::div:
      return typed<Div, 2>(operand);
    case Prim::rem:
      return typed<Rem, 2>(operand);
    case Prim::fma:
      return typed<Fma, 3>(operand);
    case Prim::scale:
      return typed<Scale, 2>(operand);
    case Prim::maximum:
      return typed<Limit<true>, 2>(operand);
    case Prim::minimum:
      return typed<Limit<false>, 2>(operand);
    case Prim::neg:
      return typed<Neg, 1>(operand);
    case Prim::abs:
      return typed<Abs, 1>(operand);
    case Prim::sqrt:
      return typed<Sqrt, 1>(operand);
    case Prim::floor:
      return typed<Floor, 1>(operand);
    case Prim::ceil:
      return typed<Ceil, 1>(operand);
    case Prim::trunc:
      return typed<Trunc, 1>(operand);
    case Prim::round_even:
      return typed<RoundEven, 1>(operand);
    case Prim::bit_and:
      return typed<BitAnd, 2>(operand);
    case Prim::bit_or:
      return typed<BitOr, 2>(operand);
    case Prim::bit_xor:
      return typed<BitXor, 2>(operand);
    case Prim::bit_not:
      return typed<BitNot, 1>(operand);
    case Prim::shl:
      return typed<Shl, 2>(operand);
    case Prim::shr_logical:
      return typed<ShrLogical, 2>(operand);
    case Prim::shr_arithmetic:
      return typed<ShrArithmetic, 2>(operand);
    case Prim::popcount:
      return typed<Popcount, 1>(operand);
    case Prim::count_leading_zeros:
      return typed<CountLeadingZeros, 1>(operand);
    case Prim::mul_high:
      return typed<MulHigh, 2>(operand);
    case Prim::select:
    case Prim::select_rare:
      return with_type(storage_type(result), [](auto v) -> ScalarKernel { return select_loop<decltype(v)>; });
    default:
      return nullptr;
  }
}

}  // namespace lamina::hlo::LAMINA_KERNEL_NAMESPACE
