// Rows of CHLO's functions that are made of others: Bessel's I1, Hurwitz' zeta and the polygamma functions.
#include <limits>
#include <numbers>

#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

Value twice(Builder& b, const Value& x) { return b.multiply(x, b.full_like(x, 2)); }

// Real functions are computed in f64 and rounded once.
Value wide(OpReader& r, size_t i) {
  const Value x = r.in(i);
  if (x && is_float(x.dtype())) return r.b.convert(x, DType::kF64);
  r.fail("needs floats");
  return Value();
}

// Chebyshev series of exp(-x) I1(x) / x on [0, 8] in x/4 - 1, and of exp(-x) I1(x) sqrt(x) beyond in 16/x
// - 1.
constexpr double kNear[] = {
    0.12629359322181683,    -0.17641651835783406,    0.1026436586898471,     -0.052945981208094991,
    0.024726449030626517,   -0.010564084894626198,   0.0041564229443128882,  -0.0015135724506312531,
    0.00051228595616857577, -0.00016176081582589675, 4.7815651075500542e-5,  -1.3273163656039436e-5,
    3.4702513081376785e-6,  -8.5687202646954547e-7,  2.0032947535521353e-7,  -4.4450591287963281e-8,
    9.3815373864957718e-9,  -1.8872497517228293e-9,  3.625590281552117e-10,  -6.6634897235020277e-11,
    1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
    7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16};
constexpr double kFar[] = {
    0.38928811750914006,     -0.0097610974913614684,  -0.00011058893876262372, -3.8825648088776904e-6,
    -2.5122362378702089e-7,  -2.6314688468895195e-8,  -3.835380385964237e-9,   -5.5897434621965838e-10,
    -1.8974958123505412e-11, 3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
    -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
    1.0420276984128803e-14,  -3.8144030724370078e-15, -1.8803547755107824e-15, 3.3082023109209283e-16,
    2.9626289976459501e-16,  -3.209525921993424e-17,  -4.6503053684893583e-17};

// Clenshaw's sum.
Value chebyshev(Builder& b, std::span<const double> coefficients, const Value& t) {
  Value one = b.zeros_like(t), two = one;
  const Value doubled = twice(b, t);
  for (size_t i = coefficients.size(); i-- > 1;) {
    const Value next = b.add(b.subtract(b.multiply(doubled, one), two), b.full_like(t, coefficients[i]));
    two = one;
    one = next;
  }
  return b.add(b.subtract(b.multiply(t, one), two), b.full_like(t, coefficients[0]));
}

void bessel_i1e(OpReader& r) {
  const Value x = wide(r, 0);
  if (!x) return;
  Builder& b = r.b;
  const Value size = b.abs(x), one = b.full_like(x, 1);
  const Value near =
      b.multiply(chebyshev(b, kNear, b.subtract(b.multiply(size, b.full_like(x, 0.25)), one)), size);
  const Value far =
      b.divide(chebyshev(b, kFar, b.subtract(b.divide(b.full_like(x, 16), size), one)), b.sqrt(size));
  const Value value = b.select(b.compare(size, b.full_like(x, 8), "LE"), near, far);
  const Value at_infinity = b.compare(size, b.full_like(x, std::numeric_limits<double>::infinity()), "EQ");
  r.yield(b.convert(b.multiply(b.sign(x), b.select(at_infinity, b.zeros_like(x), value)), r.in(0).dtype()));
}

// Euler and Maclaurin: the first terms, an integral for the rest, and its corrections.
Value hurwitz_zeta(Builder& b, const Value& s, const Value& q) {
  constexpr int kTerms = 12;
  // B_2j / (2j)!
  constexpr double kCorrections[] = {1.0 / 12,
                                     -1.0 / 720,
                                     1.0 / 30240,
                                     -1.0 / 1209600,
                                     1.0 / 47900160,
                                     -691.0 / 1307674368000,
                                     1.0 / 74724249600,
                                     -3617.0 / 10670622842880000,
                                     43867.0 / 5109094217170944000};
  auto number = [&](double x) { return b.full_like(s, x); };
  const Value minus = b.negate(s), one = number(1);
  Value sum = number(0);
  for (int k = 0; k < kTerms; ++k) sum = b.add(sum, b.power(b.add(q, number(k)), minus));
  const Value end = b.add(q, number(kTerms)), last = b.power(end, minus);
  sum = b.add(sum, b.divide(b.multiply(end, last), b.subtract(s, one)));
  sum = b.add(sum, b.multiply(last, number(0.5)));
  const Value square = b.multiply(end, end);
  Value factor = b.divide(b.multiply(s, last), end);
  for (size_t j = 0; j < std::size(kCorrections); ++j) {
    sum = b.add(sum, b.multiply(factor, number(kCorrections[j])));
    const Value next = b.multiply(b.add(s, number(2.0 * static_cast<double>(j) + 1)),
                                  b.add(s, number(2.0 * static_cast<double>(j) + 2)));
    factor = b.divide(b.multiply(factor, next), square);
  }
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Value whole_q = b.compare(q, b.floor(q), "EQ"), whole_s = b.compare(s, b.floor(s), "EQ");
  const Value pole = b.compare(q, number(0), "LE");
  sum = b.select(b.and_(pole, b.not_(whole_s)), number(nan), sum);
  sum = b.select(b.and_(pole, whole_q), number(inf), sum);
  sum = b.select(b.compare(s, number(inf), "EQ"), b.select(b.compare(q, one, "EQ"), one, sum), sum);
  sum = b.select(b.compare(s, one, "EQ"), number(inf), sum);
  return b.select(b.compare(s, one, "LT"), number(nan), sum);
}

void zeta(OpReader& r) {
  const Value s = wide(r, 0), q = wide(r, 1);
  if (s && q) r.yield(r.b.convert(hurwitz_zeta(r.b, s, q), r.in(0).dtype()));
}

// (-1)^(n+1) n! zeta(n + 1, x), and digamma for n = 0.
void polygamma(OpReader& r) {
  const Value n = wide(r, 0), x = wide(r, 1);
  if (!n || !x) return;
  Builder& b = r.b;
  const Value zero = b.zeros_like(n), one = b.full_like(n, 1), next = b.add(n, one);
  const Value factorial = b.exponential(b.make(Op::lgamma, {{next}}));
  const Value odd = b.compare(b.remainder(n, b.full_like(n, 2)), zero, "NE");
  const Value sign = b.select(odd, one, b.full_like(n, -1));
  const Value value = b.multiply(b.multiply(sign, factorial), hurwitz_zeta(b, next, x));
  const Value natural = b.and_(b.compare(n, b.floor(n), "EQ"), b.compare(n, zero, "GE"));
  const Value general = b.select(natural, value, b.full_like(n, std::numeric_limits<double>::quiet_NaN()));
  r.yield(b.convert(b.select(b.compare(n, zero, "EQ"), b.digamma(x), general), r.in(0).dtype()));
}

constexpr NamedRow kSpecialRows[] = {
    {"chlo.bessel_i1e", bessel_i1e},
    {"chlo.zeta", zeta},
    {"chlo.polygamma", polygamma},
};

}  // namespace

std::span<const NamedRow> special_rows() { return kSpecialRows; }

}  // namespace lamina::hlo::stablehlo
