// The block interpreter of scalar programs.
//
// Each primitive is stated once, below, as a loop over a block; the loops are compiled twice, for any x86-64 and for
// AVX2 with FMA (where std::fma is one instruction), and chosen by the CPU at run time. Bits are the same.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "hlo/half.h"
#include "hlo/scalar/program.h"

namespace lamina::hlo {
namespace {

constexpr int64_t kBlock = 256;

#define LAMINA_INLINE inline __attribute__((always_inline))

struct Args {
  const void* a;
  const void* b;
  const void* c;
  void* out;
  int64_t n;
  uint64_t imm;
};

template <typename T, typename R, typename F>
LAMINA_INLINE void map1(const Args& g, F f) {
  const T* a = static_cast<const T*>(g.a);
  R* out = static_cast<R*>(g.out);
  for (int64_t i = 0; i < g.n; ++i) out[i] = f(a[i]);
}
template <typename T, typename R, typename F>
LAMINA_INLINE void map2(const Args& g, F f) {
  const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b);
  R* out = static_cast<R*>(g.out);
  for (int64_t i = 0; i < g.n; ++i) out[i] = f(a[i], b[i]);
}

// --- conversions ---

// Nearest f32 towards odd: the later rounding to 16 bits then sees what was cut off.
LAMINA_INLINE float f64_to_f32_odd(double d) {
  const float f = static_cast<float>(d);
  if (static_cast<double>(f) == d || f != f) return f;
  uint32_t bits = std::bit_cast<uint32_t>(f);
  if (std::abs(static_cast<double>(f)) > std::abs(d)) --bits;  // towards zero (also from infinity to the largest)
  return std::bit_cast<float>(bits | 1);
}
template <typename T>
LAMINA_INLINE double int_to_f64_odd(T v) {
  using U = std::make_unsigned_t<T>;
  if constexpr (sizeof(T) < 8) return static_cast<double>(v);
  const bool negative = v < 0;
  uint64_t u = negative ? U{0} - static_cast<U>(v) : static_cast<U>(v);
  if (u >> 53) u = u >> 11 << 11 | static_cast<uint64_t>((u & 0x7FF) != 0) << 11;
  const double d = static_cast<double>(u);
  return negative ? -d : d;
}

template <typename From, typename To>
LAMINA_INLINE To convert_value(From v) {
  if constexpr (std::is_same_v<From, F16> || std::is_same_v<From, BF16>) {
    return convert_value<float, To>(to_f32(v));
  } else if constexpr (std::is_same_v<To, F16> || std::is_same_v<To, BF16>) {
    float f;
    if constexpr (std::is_same_v<From, float>) f = v;
    else if constexpr (std::is_same_v<From, double>) f = f64_to_f32_odd(v);
    else if constexpr (std::is_same_v<From, bool>) f = v ? 1.0F : 0.0F;
    else f = f64_to_f32_odd(int_to_f64_odd(v));
    if constexpr (std::is_same_v<To, F16>) return to_f16(f);
    else return to_bf16(f);
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // Limits as exact powers of two: 2^(bits-1) or 2^bits.
    constexpr From kHigh = static_cast<From>(static_cast<From>(To{1} << (std::numeric_limits<To>::digits - 1)) * 2);
    constexpr From kLow = std::is_signed_v<To> ? -kHigh : From(0);
    if (!(v == v)) return 0;
    if (v >= kHigh) return std::numeric_limits<To>::max();
    if (v <= kLow) return std::numeric_limits<To>::min();
    return static_cast<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

template <typename From>
LAMINA_INLINE void convert_from(DType to, const Args& g) {
  auto go = [&](auto tag) {
    using To = decltype(tag);
    map1<From, To>(g, [](From v) { return convert_value<From, To>(v); });
  };
  switch (to) {
    case DType::kBool: return go(bool{});
    case DType::kS8: return go(int8_t{});
    case DType::kS16: return go(int16_t{});
    case DType::kS32: return go(int32_t{});
    case DType::kS64: return go(int64_t{});
    case DType::kU8: return go(uint8_t{});
    case DType::kU16: return go(uint16_t{});
    case DType::kU32: return go(uint32_t{});
    case DType::kU64: return go(uint64_t{});
    case DType::kF16: return go(F16{});
    case DType::kBF16: return go(BF16{});
    case DType::kF32: return go(float{});
    default: return go(double{});
  }
}

// --- primitives by kind of element ---

template <typename T>
LAMINA_INLINE void common(Prim p, const Args& g) {
  switch (p) {
    case Prim::eq: return map2<T, bool>(g, [](T a, T b) { return a == b; });
    case Prim::ne: return map2<T, bool>(g, [](T a, T b) { return a != b; });
    case Prim::lt: return map2<T, bool>(g, [](T a, T b) { return a < b; });
    case Prim::le: return map2<T, bool>(g, [](T a, T b) { return a <= b; });
    default: return;
  }
}

template <typename T>
LAMINA_INLINE void real(Prim p, const Args& g) {
  switch (p) {
    case Prim::add: return map2<T, T>(g, [](T a, T b) { return a + b; });
    case Prim::sub: return map2<T, T>(g, [](T a, T b) { return a - b; });
    case Prim::mul: return map2<T, T>(g, [](T a, T b) { return a * b; });
    case Prim::div: return map2<T, T>(g, [](T a, T b) { return a / b; });
    case Prim::neg: return map1<T, T>(g, [](T a) { return -a; });
    case Prim::abs: return map1<T, T>(g, [](T a) { return std::abs(a); });
    case Prim::sqrt: return map1<T, T>(g, [](T a) { return std::sqrt(a); });
    case Prim::floor: return map1<T, T>(g, [](T a) { return std::floor(a); });
    case Prim::ceil: return map1<T, T>(g, [](T a) { return std::ceil(a); });
    case Prim::trunc: return map1<T, T>(g, [](T a) { return std::trunc(a); });
    case Prim::round_even: return map1<T, T>(g, [](T a) { return std::nearbyint(a); });
    case Prim::fma: {
      const T *a = static_cast<const T*>(g.a), *b = static_cast<const T*>(g.b), *c = static_cast<const T*>(g.c);
      T* out = static_cast<T*>(g.out);
      for (int64_t i = 0; i < g.n; ++i) out[i] = std::fma(a[i], b[i], c[i]);
      return;
    }
    default: return common<T>(p, g);
  }
}

template <typename T>
LAMINA_INLINE void integer(Prim p, const Args& g) {
  using U = std::make_unsigned_t<T>;
  using S = std::make_signed_t<T>;
  constexpr int kBits = sizeof(T) * 8;
  // Arithmetic goes through a type that neither promotes to int nor overflows.
  using W = std::conditional_t<(sizeof(T) < 4), uint32_t, U>;
  switch (p) {
    case Prim::add: return map2<T, T>(g, [](T a, T b) { return static_cast<T>(W(U(a)) + W(U(b))); });
    case Prim::sub: return map2<T, T>(g, [](T a, T b) { return static_cast<T>(W(U(a)) - W(U(b))); });
    case Prim::mul: return map2<T, T>(g, [](T a, T b) { return static_cast<T>(W(U(a)) * W(U(b))); });
    case Prim::div:
      return map2<T, T>(g, [](T a, T b) {
        if (b == 0) return static_cast<T>(-1);
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(W(0) - W(U(a)));
        return static_cast<T>(a / b);
      });
    case Prim::rem:
      return map2<T, T>(g, [](T a, T b) {
        if (b == 0) return a;
        if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
        return static_cast<T>(a % b);
      });
    case Prim::neg: return map1<T, T>(g, [](T a) { return static_cast<T>(W(0) - W(U(a))); });
    case Prim::abs: return map1<T, T>(g, [](T a) { return a < T{0} ? static_cast<T>(W(0) - W(U(a))) : a; });
    case Prim::bit_and: return map2<T, T>(g, [](T a, T b) { return static_cast<T>(a & b); });
    case Prim::bit_or: return map2<T, T>(g, [](T a, T b) { return static_cast<T>(a | b); });
    case Prim::bit_xor: return map2<T, T>(g, [](T a, T b) { return static_cast<T>(a ^ b); });
    case Prim::bit_not: return map1<T, T>(g, [](T a) { return static_cast<T>(~a); });
    case Prim::shl:
      return map2<T, T>(g, [](T a, T b) { return U(b) >= kBits ? T{0} : static_cast<T>(W(U(a)) << U(b)); });
    case Prim::shr_logical:
      return map2<T, T>(g, [](T a, T b) { return U(b) >= kBits ? T{0} : static_cast<T>(U(a) >> U(b)); });
    case Prim::shr_arithmetic:
      return map2<T, T>(g, [](T a, T b) { return static_cast<T>(S(a) >> (U(b) >= kBits ? kBits - 1 : int(U(b)))); });
    case Prim::popcount: return map1<T, T>(g, [](T a) { return static_cast<T>(std::popcount(U(a))); });
    case Prim::count_leading_zeros: return map1<T, T>(g, [](T a) { return static_cast<T>(std::countl_zero(U(a))); });
    case Prim::mul_high:
      if constexpr (std::is_same_v<T, uint32_t>)
        return map2<T, T>(g, [](T a, T b) { return static_cast<T>(uint64_t{a} * b >> 32); });
      else if constexpr (std::is_same_v<T, uint64_t>)
        return map2<T, T>(g, [](T a, T b) { return static_cast<T>(static_cast<unsigned __int128>(a) * b >> 64); });
      return;
    default: return common<T>(p, g);
  }
}

LAMINA_INLINE void boolean(Prim p, const Args& g) {
  switch (p) {
    case Prim::bit_and: return map2<bool, bool>(g, [](bool a, bool b) { return a & b; });
    case Prim::bit_or: return map2<bool, bool>(g, [](bool a, bool b) { return a | b; });
    case Prim::bit_xor: return map2<bool, bool>(g, [](bool a, bool b) { return a != b; });
    case Prim::bit_not: return map1<bool, bool>(g, [](bool a) { return !a; });
    default: return common<bool>(p, g);
  }
}

template <typename T>
LAMINA_INLINE void select(const Args& g) {
  const bool* a = static_cast<const bool*>(g.a);
  const T *b = static_cast<const T*>(g.b), *c = static_cast<const T*>(g.c);
  T* out = static_cast<T*>(g.out);
  for (int64_t i = 0; i < g.n; ++i) out[i] = a[i] ? b[i] : c[i];
}

template <typename T>
LAMINA_INLINE void fill(const Args& g) {
  T value;
  std::memcpy(&value, &g.imm, sizeof value);
  T* out = static_cast<T*>(g.out);
  for (int64_t i = 0; i < g.n; ++i) out[i] = value;
}

// `type` is the first operand's (of select and constant: the result's).
LAMINA_INLINE void run_any(Prim p, DType type, DType result, const Args& g) {
  if (p == Prim::constant || p == Prim::select) {
    const bool is_select = p == Prim::select;
    switch (byte_size(type)) {
      case 1: return is_select ? select<uint8_t>(g) : fill<uint8_t>(g);
      case 2: return is_select ? select<uint16_t>(g) : fill<uint16_t>(g);
      case 4: return is_select ? select<uint32_t>(g) : fill<uint32_t>(g);
      default: return is_select ? select<uint64_t>(g) : fill<uint64_t>(g);
    }
  }
  if (p == Prim::bitcast) {
    std::memcpy(g.out, g.a, g.n * byte_size(result));
    return;
  }
  const bool converts = p == Prim::convert;
  switch (type) {
    case DType::kBool: return converts ? convert_from<bool>(result, g) : boolean(p, g);
    case DType::kS8: return converts ? convert_from<int8_t>(result, g) : integer<int8_t>(p, g);
    case DType::kS16: return converts ? convert_from<int16_t>(result, g) : integer<int16_t>(p, g);
    case DType::kS32: return converts ? convert_from<int32_t>(result, g) : integer<int32_t>(p, g);
    case DType::kS64: return converts ? convert_from<int64_t>(result, g) : integer<int64_t>(p, g);
    case DType::kU8: return converts ? convert_from<uint8_t>(result, g) : integer<uint8_t>(p, g);
    case DType::kU16: return converts ? convert_from<uint16_t>(result, g) : integer<uint16_t>(p, g);
    case DType::kU32: return converts ? convert_from<uint32_t>(result, g) : integer<uint32_t>(p, g);
    case DType::kU64: return converts ? convert_from<uint64_t>(result, g) : integer<uint64_t>(p, g);
    case DType::kF16: return convert_from<F16>(result, g);
    case DType::kBF16: return convert_from<BF16>(result, g);
    case DType::kF32: return converts ? convert_from<float>(result, g) : real<float>(p, g);
    default: return converts ? convert_from<double>(result, g) : real<double>(p, g);
  }
}

using RunFn = void (*)(Prim, DType, DType, const Args&);

void run_portable(Prim p, DType type, DType result, const Args& g) { run_any(p, type, result, g); }

#if defined(__x86_64__)
__attribute__((target("avx2,fma,bmi,lzcnt,popcnt"))) void run_avx2(Prim p, DType type, DType result, const Args& g) {
  run_any(p, type, result, g);
}
#endif

RunFn choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2;
#endif
  return run_portable;
}

}  // namespace

void interpret(const ScalarProgram& program, std::span<const void* const> inputs, std::span<void* const> outputs,
               int64_t count) {
  static const RunFn run = choose();
  const size_t num_inputs = program.inputs.size();
  std::unique_ptr<std::byte[]> scratch(new std::byte[program.code.size() * kBlock * 8]);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    auto value = [&](uint32_t id) -> const void* {
      if (id < num_inputs)
        return static_cast<const std::byte*>(inputs[id]) + begin * byte_size(program.inputs[id]);
      return scratch.get() + (id - num_inputs) * kBlock * 8;
    };
    for (size_t i = 0; i < program.code.size(); ++i) {
      const ScalarInstr& c = program.code[i];
      const int arity = prim_arity(c.prim);
      Args g{arity > 0 ? value(c.operands[0]) : nullptr, arity > 1 ? value(c.operands[1]) : nullptr,
             arity > 2 ? value(c.operands[2]) : nullptr, scratch.get() + i * kBlock * 8, n, c.imm};
      const bool by_result = c.prim == Prim::constant || c.prim == Prim::select;
      run(c.prim, by_result ? c.type : program.type_of(c.operands[0]), c.type, g);
    }
    // All outputs after all reads: an output may be an input's array.
    for (size_t o = 0; o < outputs.size(); ++o) {
      const int64_t width = byte_size(program.type_of(program.outputs[o]));
      std::memmove(static_cast<std::byte*>(outputs[o]) + begin * width, value(program.outputs[o]), n * width);
    }
  }
}

}  // namespace lamina::hlo
