#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#include <cmath>
#include <cstring>
#include "hlo/scalar/program.h"
namespace lamina::hlo {
int prim_arity(Prim p) { static const int a[] = {
#define PRIM(n, k, m) k,
#include "hlo/scalar/primitives.def"
#undef PRIM
}; return a[(int)p]; }
const char* prim_name(Prim p) { static const char* a[] = {
#define PRIM(n, k, m) #n,
#include "hlo/scalar/primitives.def"
#undef PRIM
}; return a[(int)p]; }
namespace {
using LD = long double;
double f64(uint64_t b) { return std::bit_cast<double>(b); }
float f32(uint64_t b) { return std::bit_cast<float>((uint32_t)b); }
uint64_t mask(DType t) { int w = bit_width(t); return w == 64 ? ~0ull : (1ull << w) - 1; }
int64_t sx(DType t, uint64_t b) { int w = bit_width(t); return w == 64 ? (int64_t)b : (int64_t)(b << (64 - w)) >> (64 - w); }
LD tofloat(DType t, uint64_t b) {
  if (t == DType::kF32) return f32(b);
  if (t == DType::kF64) return f64(b);
  if (t == DType::kBF16) return f32(b << 16);
  if (t == DType::kF16) { int e = (b >> 10) & 31; int m = b & 1023; LD v = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp((LD)(1024 + m), e - 25) : std::ldexp((LD)m, -24); return b >> 15 ? -v : v; }
  if (is_signed(t)) return sx(t, b);
  return b;
}
uint64_t enc(DType t, LD x) {
  if (t == DType::kF64) return std::bit_cast<uint64_t>((double)x);
  if (t == DType::kF32) return std::bit_cast<uint32_t>((float)x);
  int p = t == DType::kF16 ? 11 : 8, emin = t == DType::kF16 ? -14 : -126, emax = t == DType::kF16 ? 15 : 127;
  uint64_t s = std::signbit(x) ? 0x8000 : 0; uint64_t inf = ((2ull * emax + 1)) << (p - 1);
  if (std::isnan(x)) return inf | (1 << (p - 2));
  x = std::fabs(x); if (std::isinf(x)) return s | inf; if (x == 0) return s;
  int e; std::frexp(x, &e); e -= 1; int q = std::max(e, emin) - (p - 1);
  LD n = std::nearbyint(std::ldexp(x, -q)); uint64_t m = (uint64_t)n; // m <= 2^p
  // encode: exponent field from q
  uint64_t r = m < (1ull << (p - 1)) ? m : ((uint64_t)(q + (p - 1) - emin + 1) << (p - 1)) + (m - (1ull << (p - 1)));
  if (r >= inf) r = inf;
  return s | r;
}
uint64_t conv(DType f, DType t, uint64_t a) {
  if (f == t) return a;
  LD v = tofloat(f, a);
  if (is_bool(t)) return is_float(f) ? !(v == 0) : a != 0;
  if (is_float(t)) return enc(t, v);
  if (!is_float(f)) return (is_signed(f) ? (uint64_t)sx(f, a) : a) & mask(t);
  if (std::isnan(v)) return 0;
  int w = bit_width(t); LD hi = std::ldexp((LD)1, is_signed(t) ? w - 1 : w), lo = is_signed(t) ? -hi : 0;
  if (v >= hi) return is_signed(t) ? mask(t) >> 1 : mask(t);
  if (v < lo) return is_signed(t) ? 1ull << (w - 1) : 0;
  return is_signed(t) ? (uint64_t)(int64_t)v & mask(t) : v <= 0 ? 0 : (uint64_t)v;
}
uint64_t one(Prim p, DType t, DType s, uint64_t a, uint64_t b, uint64_t c, uint64_t imm) {
  if (p == Prim::constant) return imm;
  if (p == Prim::convert) return conv(s, t, a);
  if (p == Prim::bitcast) return a;
  if (p == Prim::select) return a ? b : c;
  if (p == Prim::eq || p == Prim::ne || p == Prim::lt || p == Prim::le) {
    auto cmp = [&](auto x, auto y) -> uint64_t { return p == Prim::eq ? x == y : p == Prim::ne ? x != y : p == Prim::lt ? x < y : x <= y; };
    return is_float(s) ? cmp(tofloat(s, a), tofloat(s, b)) : is_signed(s) ? cmp(sx(s, a), sx(s, b)) : cmp(a, b);
  }
  auto fl = [&](auto x, auto y, auto z) -> decltype(x) { switch (p) {
    case Prim::add: return x + y; case Prim::sub: return x - y; case Prim::mul: return x * y; case Prim::div: return x / y;
    case Prim::fma: return std::fma(x, y, z); case Prim::neg: return -x; case Prim::abs: return std::fabs(x); case Prim::sqrt: return std::sqrt(x);
    case Prim::floor: return std::floor(x); case Prim::ceil: return std::ceil(x); case Prim::trunc: return std::trunc(x); default: return std::nearbyint(x); } };
  if (t == DType::kF32) return std::bit_cast<uint32_t>(fl(f32(a), f32(b), f32(c)));
  if (t == DType::kF64) return std::bit_cast<uint64_t>(fl(f64(a), f64(b), f64(c)));
  int w = bit_width(t); uint64_t M = mask(t), mn = 1ull << (w - 1); bool S = is_signed(t);
  switch (p) {
    case Prim::add: return (a + b) & M; case Prim::sub: return (a - b) & M; case Prim::mul: return (a * b) & M;
    case Prim::div: if (!b) return M; if (S) { if (b == M && a == mn) return mn; return (uint64_t)(sx(t, a) / sx(t, b)) & M; } return a / b;
    case Prim::rem: if (!b) return a; if (S) { if (b == M && a == mn) return 0; return (uint64_t)(sx(t, a) % sx(t, b)) & M; } return a % b;
    case Prim::neg: return (0 - a) & M; case Prim::abs: return S && sx(t, a) < 0 ? (0 - a) & M : a;
    case Prim::bit_and: return a & b; case Prim::bit_or: return a | b; case Prim::bit_xor: return a ^ b; case Prim::bit_not: return ~a & M;
    case Prim::shl: return b >= (uint64_t)w ? 0 : (a << b) & M; case Prim::shr_logical: return b >= (uint64_t)w ? 0 : a >> b;
    case Prim::shr_arithmetic: return (uint64_t)(sx(t, a) >> (b >= (uint64_t)w ? w - 1 : b)) & M;
    case Prim::popcount: return std::popcount(a); case Prim::count_leading_zeros: return std::countl_zero(a) - (64 - w);
    case Prim::mul_high: return w == 32 ? (a * b) >> 32 : (uint64_t)(((unsigned __int128)a * b) >> 64);
    default: return 0; }
}
}
void interpret(const ScalarProgram& g, std::span<const void* const> in, std::span<void* const> out, int64_t n) {
  std::vector<uint64_t> v(g.inputs.size() + g.code.size());
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < g.inputs.size(); ++k) { int z = byte_size(g.inputs[k]); v[k] = 0; std::memcpy(&v[k], (const char*)in[k] + i * z, z); }
    for (size_t k = 0; k < g.code.size(); ++k) { auto& c = g.code[k]; int ar = prim_arity(c.prim); auto o = [&](int j) { return j < ar ? v[c.operands[j]] : 0; };
      v[g.inputs.size() + k] = one(c.prim, c.type, ar ? g.type_of(c.operands[0]) : c.type, o(0), o(1), o(2), c.imm); }
    for (size_t k = 0; k < g.outputs.size(); ++k) { int z = byte_size(g.type_of(g.outputs[k])); std::memcpy((char*)out[k] + i * z, &v[g.outputs[k]], z); }
  }
}
}
