"""Writes hlo/scalar/coefficients.h: polynomials through the Chebyshev nodes of each interval, in 50 digits.

Where a row names a weight, the polynomial is the one whose greatest weighted error is least, found by C. Lawson's
method: least squares over and over, each time with more weight where the last error was great.

Run with mpmath installed: python hlo/scalar/tools/coefficients.py > hlo/scalar/coefficients.h
The low parts that the rules add to a leading coefficient are printed to standard error.
"""

import sys

import mpmath as mp

mp.mp.dps = 60


def fit(f, low, high, degree):
    low, high = mp.mpf(low), mp.mpf(high)
    n = degree + 1
    nodes = [(low + high) / 2 + (high - low) / 2 * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    system, right = mp.matrix(n, n), mp.matrix(n, 1)
    for i, x in enumerate(nodes):
        right[i] = f(x)
        for j in range(n):
            system[i, j] = x**j
    solution = mp.lu_solve(system, right)
    return [solution[i] for i in range(n)]


def fit_weighted(f, low, high, degree, weight, rounds=40, grid=150):
    low, high = mp.mpf(low), mp.mpf(high)
    places = [(low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * k / grid) for k in range(grid + 1)]
    places = [x for x in places if x != 0]
    values, weights = [f(x) for x in places], [abs(weight(x)) for x in places]
    n = degree + 1
    powers = [[x**j for j in range(n)] for x in places]
    shares = [mp.mpf(1)] * len(places)
    best, least = [], mp.inf
    for _ in range(rounds):
        system, right = mp.matrix(n, n), mp.matrix(n, 1)
        for y, w, share, p in zip(values, weights, shares, powers):
            for i in range(n):
                right[i] += share * w**2 * y * p[i]
                for j in range(n):
                    system[i, j] += share * w**2 * p[i] * p[j]
        solution = mp.lu_solve(system, right)
        c = [solution[i] for i in range(n)]
        errors = [abs(w * (mp.fdot(c, p) - y)) for y, w, p in zip(values, weights, powers)]
        if max(errors) < least:
            best, least = c, max(errors)
        shares = [s * (e / max(errors) + mp.mpf("1e-6")) for s, e in zip(shares, errors)]
        total = mp.fsum(shares)
        shares = [s / total for s in shares]
    return best


def series(term):
    return lambda x: mp.nsum(lambda k: term(int(k)) * x ** int(k), [0, 60])


def exp_tail(r):
    return series(lambda k: 1 / mp.factorial(k + 2))(r) if abs(r) < 0.01 else (mp.exp(r) - 1 - r) / r**2


def exp_tail_beyond_half(r):
    return series(lambda k: 1 / mp.factorial(k + 3))(r) if abs(r) < 0.02 else (exp_tail(r) - mp.mpf("0.5")) / r


SIXTH = mp.mpf(float(-mp.mpf(1) / 6))
SIXTH_SINGLE = mp.mpf(float.fromhex("-0x1.555556p-3"))


def sin_tail_beyond(z, sixth):
    return series(lambda k: mp.mpf(-1) ** k / mp.factorial(2 * k + 5))(z) - (mp.mpf(1) / 6 + sixth) / z


def log_tail(f):
    if abs(f) < 0.01:
        return series(lambda k: mp.mpf(-1) ** (k + 1) / (k + 2))(f)
    return (mp.log1p(f) - f) / f**2


def log_cubic(f):
    return (log_tail(f) + mp.mpf("0.5")) / f


def atan_tail(z):
    if z < 0.05:
        return series(lambda k: mp.mpf(-1) ** (k + 1) / (2 * k + 3))(z)
    return (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


def asin_tail(z):
    if z < 0.02:
        return series(lambda k: mp.binomial(2 * k + 2, k + 1) / mp.mpf(4) ** (k + 1) / (2 * k + 3))(z)
    return (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z




def scaled_erfc(t):
    x = 3 * (1 + t) / (1 - t)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


ROOT = mp.findroot(mp.digamma, 1.46)


def digamma_ratio(t):
    d = t + mp.mpf("1.5") - ROOT
    return mp.digamma(d + ROOT) / d if abs(d) > 1e-12 else mp.polygamma(1, ROOT)


def digamma_large(u):
    if u < 1e-4:
        return mp.fsum(mp.bernoulli(2 * k + 2) / (2 * k + 2) * u**k for k in range(13))
    x = 1 / mp.sqrt(u)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) / u


def lgamma_ratio(t):
    z = t + mp.mpf("0.25")
    return mp.loggamma(2 + z) / z if abs(z) > 1e-12 else mp.digamma(2)


def stirling(u):
    if u < 1e-4:
        return mp.fsum(mp.bernoulli(2 * k + 2) / ((2 * k + 2) * (2 * k + 1)) * u**k for k in range(13))
    x = 1 / mp.sqrt(u)
    return (mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)) * x


def erf_inv_ratio(w):
    if w < 1e-15:
        return mp.sqrt(mp.pi) / 2
    y, rest = mp.sqrt(-mp.expm1(-w)), mp.exp(-w)
    rest /= 1 + y
    if w < 20:
        return mp.erfinv(y) / y
    return mp.findroot(lambda x: mp.log(mp.erfc(x)) - mp.log(rest), mp.sqrt(w) - 0.5) / y


def show(name, meaning, values):
    print(f"// {meaning}.\ninline constexpr double {name}[] = {{")
    for i in range(0, len(values), 4):
        print("    " + ", ".join(float(v).hex() for v in values[i : i + 4]) + ",")
    print("};")


HALF_LN2 = mp.log(2) / 2
LOG_Z = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
TURN = (mp.pi / 4 * mp.mpf("1.001")) ** 2
ATAN_Z = (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001")

TABLE = [
    ("kExp", "(exp(r) - 1 - r) / r^2 for |r| <= ln(2)/2", exp_tail, -HALF_LN2 * 1.0005, HALF_LN2 * 1.0005, 11),
    ("kExpShort", "the same, to 2^-59 of exp(r) - 1, with 1/2 itself", exp_tail_beyond_half, -HALF_LN2 * 1.0005,
     HALF_LN2 * 1.0005, 9, lambda r: r**3 / mp.expm1(r), mp.mpf("0.5")),
    ("kExpEighth", "the same for |r| <= ln(2)/16, to 2^-57 of exp(r)", exp_tail_beyond_half, -HALF_LN2 * 1.0005 / 8,
     HALF_LN2 * 1.0005 / 8, 4, lambda r: r**3, mp.mpf("0.5")),
    ("kExpEighthShort", "the same, to 2^-49", exp_tail_beyond_half, -HALF_LN2 * 1.0005 / 8,
     HALF_LN2 * 1.0005 / 8, 3, lambda r: r**3, mp.mpf("0.5")),
    ("kExpNarrow", "as kExp, to 2^-44", exp_tail, -HALF_LN2 * 1.001, HALF_LN2 * 1.001, 7),
    ("kSinhNarrow", "(sinh(r) - r) / r^3 in r^2, |r| <= ln(2)/2, to 2^-50 of the sine", series(lambda k: 1 / mp.factorial(2 * k + 3)), 0,
     (HALF_LN2 * mp.mpf("1.001")) ** 2, 3),
    ("kCoshNarrow", "(cosh(r) - 1) / r^2 in r^2, to 2^-50 of the cosine", series(lambda k: 1 / mp.factorial(2 * k + 2)), 0,
     (HALF_LN2 * mp.mpf("1.001")) ** 2, 4),
    ("kExpm1Single", "kExp, to 2^-31 of exp(r) - 1, with 1/2 itself", exp_tail_beyond_half, -HALF_LN2 * 1.001, HALF_LN2 * 1.001, 4,
     lambda r: r**3 / mp.expm1(r), mp.mpf("0.5")),
    ("kExpStep", "kExp for |r| <= ln(2)/8, to 2^-35 of exp(r)", exp_tail, -HALF_LN2 * 1.002 / 4, HALF_LN2 * 1.002 / 4, 3,
     lambda r: r**2 * mp.exp(-r)),
    ("kExp2Step", "(2^r - 1) / r for |r| <= 1/8, to 2^-35 of 2^r", lambda r: mp.log(2) * (1 + exp_tail(r * mp.log(2)) * r * mp.log(2)),
     "-0.1252", "0.1252", 4, lambda r: r * mp.mpf(2) ** -r),
    ("kLog", "(log((1+s)/(1-s)) - 2s) / s^3 in s^2, |s| <= 0.1716", series(lambda k: mp.mpf(2) / (2 * k + 3)), 0, LOG_Z, 7),
    ("kLogNarrow", "the same, to 2^-49", series(lambda k: mp.mpf(2) / (2 * k + 3)), 0, LOG_Z, 5),
    ("kLogStep", "(log(1+f) - f) / f^2, |f| <= 9/128, to 2^-30 of the logarithm", log_tail, "-0.0704", "0.0704", 4,
     lambda f: max(abs(f), mp.mpf("0.001"))),
    ("kLogNearTail", "the series of log((1+s)/(1-s)) from s^5 on, over s^5, to 2^-70 of the logarithm, |s| <= 1/27",
     series(lambda k: mp.mpf(2) / (2 * k + 5)), 0, "0.00134", 3, lambda z: z**2 / 2),
    ("kLogCubic", "(log(1+f) - f + f^2/2) / f^3, |f| <= 9/128, to 2^-40 of the logarithm",
     log_cubic, "-0.0704", "0.0704", 5, lambda f: f**2),
    ("kLogCubicDouble", "the same, to 2^-60", log_cubic, "-0.0704", "0.0704", 9, lambda f: f**2),
    ("kSin", "(sin(r) - r) / r^3 in r^2, |r| <= pi/4", series(lambda k: mp.mpf(-1) ** (k + 1) / mp.factorial(2 * k + 3)), 0, TURN, 6),
    ("kSinShort", "the same, to 2^-57 of the sine", lambda z: sin_tail_beyond(z, SIXTH), "0.001", TURN, 4, lambda z: z**2, SIXTH),
    ("kCos", "(cos(r) - 1 + r^2/2) / r^4 in r^2", series(lambda k: mp.mpf(-1) ** k / mp.factorial(2 * k + 4)), 0, TURN, 5),
    ("kSinNarrow", "as kSin, to 2^-45", series(lambda k: mp.mpf(-1) ** (k + 1) / mp.factorial(2 * k + 3)), 0, TURN, 4),
    ("kCosNarrow", "as kCos, to 2^-50", series(lambda k: mp.mpf(-1) ** k / mp.factorial(2 * k + 4)), 0, TURN, 4),
    ("kSinSingle", "as kSin, to 2^-34 of the sine, with 1/6 as f32 has it", lambda z: sin_tail_beyond(z, SIXTH_SINGLE), "0.001", TURN,
     2, lambda z: z**2, SIXTH_SINGLE),
    ("kCosSingle", "as kCos, to 2^-33", series(lambda k: mp.mpf(-1) ** k / mp.factorial(2 * k + 4)), "0.001", TURN, 2, lambda z: z**2),
    ("kSinHalfTurn", "(sin(r) - r) / r^3 in r^2, |r| <= pi/2, to 2^-41",
     series(lambda k: mp.mpf(-1) ** (k + 1) / mp.factorial(2 * k + 3)), 0, (mp.pi / 2 + mp.mpf(2) ** -20) ** 2, 5),
    ("kAtan", "(atan(t) - t) / t^3 in t^2, |t| <= tan(pi/8)", atan_tail, 0, ATAN_Z, 11),
    ("kAsin", "(asin(x) - x) / x^3 in x^2, |x| <= 1/2", asin_tail, 0, "0.2501", 13),
    ("kErf", "(erf(x)/x - 2/sqrt(pi)) / x^2 in x^2, |x| <= 0.9",
     series(lambda k: 2 / mp.sqrt(mp.pi) * (-1) ** (k + 1) / (mp.factorial(k + 1) * (2 * k + 3))), 0, "0.81", 11),
    ("kErfcx", "(1 + 2x) exp(x^2) erfc(x) in (x - 3)/(x + 3), 0.49 <= x <= 27.5", scaled_erfc,
     (mp.mpf("0.49") - 3) / (mp.mpf("0.49") + 3), mp.mpf("24.5") / mp.mpf("30.5"), 24),
    ("kErfcxNarrow", "as kErfcx, 0 <= x <= 10.1, to 2^-41", scaled_erfc, -1, mp.mpf("7.1") / mp.mpf("13.1"), 15),
    ("kDigamma", "digamma(x) / (x - root) in x - 1.5, 1 <= x <= 2", digamma_ratio, "-0.5", "0.5", 25),
    ("kDigammaLarge", "(log(x) - 1/(2x) - digamma(x)) x^2 in 1/x^2, x >= 2", digamma_large, 0, "0.25", 18),
    ("kDigammaNarrow", "as kDigamma, to 2^-38", digamma_ratio, "-0.5", "0.5", 14),
    ("kDigammaLargeNarrow", "as kDigammaLarge, to 2^-38 of digamma", digamma_large, 0, "0.25", 8),
    ("kLgamma", "lgamma(2 + z) / z in z - 0.25, -0.51 <= z <= 1.01", lgamma_ratio, "-0.76", "0.76", 23),
    ("kStirling", "x (lgamma(x) - (x - 1/2) log(x) + x - log(2 pi)/2) in 1/x^2, x >= 3", stirling, 0, mp.mpf("1.01") / 9, 13),
    ("kLgammaNarrow", "as kLgamma, to 2^-39", lgamma_ratio, "-0.76", "0.76", 14),
    ("kStirlingNarrow", "as kStirling, to 2^-39 of lgamma", stirling, 0, mp.mpf("1.01") / 9, 5),
    ("kErfInvCentral", "erf_inv(y)/y in w - 2.5, w = -log(1 - y^2) < 5", lambda t: erf_inv_ratio(t + mp.mpf("2.5")), "-2.5", "2.5", 10),
    ("kErfInvCentralNarrow", "the same, to 2^-35", lambda t: erf_inv_ratio(t + mp.mpf("2.5")), "-2.5", "2.5", 13),
    ("kErfInvTailNarrow", "erf_inv(y)/y in sqrt(w) - 3, 5 <= w < 16.1", lambda t: erf_inv_ratio((t + 3) ** 2), mp.sqrt(5) - 3, "1.02", 14),
    ("kErfInvTail", "erf_inv(y)/y in sqrt(w) - 4, 5 <= w < 37", lambda t: erf_inv_ratio((t + 4) ** 2), mp.sqrt(5) - 4, "2.03", 14),
]

# For f16 and bf16: as f32 has them. From the polynomial whose greatest relative error is least, the last digits went by
# small random steps, each kept that made no more of the 65,536 results other than the nearest ones, until all were; a
# test (tests/hlo/scalar_accuracy_test.cc) keeps them so.
CHOSEN = [
    ("kInverse", "a first guess of 1/d for 1 <= d <= 2, to 2^-9",
     "0x1.6a09c2p+1 -0x1.783c2ep+1 0x1.54bd8p+0 -0x1.c6518ap-3"),
    ("kInverseShort", "the same, to 2^-6",
     "0x1.0f83ep+1 -0x1.745cccp+0 0x1.4afcb6p-2"),
    ("kExpBf16", "exp(r/2) for |r| <= ln(2)",
     "0x1.000004p+0 0x1.fffa9cp-2 0x1.0005e4p-3 0x1.57ef66p-6 0x1.539fd2p-9"),
    ("kExpF16", "exp(r) for |r| <= ln(2)/2",
     "0x1p+0 0x1.ffffdp-1 0x1.ffff26p-2 0x1.5566d4p-3 0x1.5740d8p-5 0x1.105206p-7"),
    ("kExp2Bf16", "2^(r/2) for |r| <= 1",
     "0x1.ffffd2p-1 0x1.62e0ep-2 0x1.ec163ap-5 0x1.ca0d02p-8 0x1.3997dap-11"),
    ("kExp2F16", "2^r for |r| <= 1/2",
     "0x1p+0 0x1.62e42cp-1 0x1.ebf8fp-3 0x1.c6b6a2p-5 0x1.3d0c5cp-7 0x1.5c0928p-10"),
    ("kExpm1Half", "(exp(r) - 1) / r for |r| <= ln(2)/2, for f16 and bf16",
     "0x1p+0 0x1.fffec4p-2 0x1.555886p-3 0x1.570058p-5 0x1.112bep-7"),
    ("kLogBf16", "log(1+f) / f for sqrt(1/2) <= 1+f <= sqrt(2)",
     "0x1.00004cp+0 -0x1.ffe65ap-2 0x1.548fe8p-2 -0x1.04213ep-2 0x1.c3b4fap-3 -0x1.24b324p-3"),
    ("kLogF16", "the same",
     "0x1.000004p+0 -0x1.000054p-1 0x1.5559fap-2 -0x1.ff640ap-3 0x1.978bbcp-3 -0x1.61349ap-3 0x1.4c25f6p-3 "
     "-0x1.9dbb32p-4"),
    ("kSinBf16", "(sin(r) - r) / r^3 in r^2, |r| <= pi/2", "-0x1.55518ap-3 0x1.107abcp-7 -0x1.858a9ep-13"),
    ("kSinF16", "the same", "-0x1.55554ep-3 0x1.110fp-7 -0x1.9f784ep-13 0x1.5e27b6p-19"),
    ("kCosF16", "the same, where it serves the cosine", "-0x1.55554ep-3 0x1.110f1ep-7 -0x1.9f784ep-13 0x1.5e38acp-19"),
    ("kLogisticBf16", "exp(-r/2) for |r| <= ln(2)",
     "0x1.00001p+0 -0x1.fff9p-2 0x1.0004dep-3 -0x1.57e1fcp-6 0x1.53b02ep-9"),
    ("kLogisticF16", "exp(-r) for |r| <= ln(2)/2",
     "0x1.000004p+0 -0x1.ffffeap-1 0x1.fffbe6p-2 -0x1.5559ep-3 0x1.576adcp-5 -0x1.102e1ap-7"),
    ("kTanhBf16", "tanh(a)/a in a^2 - 3.53125^2/2, 0 <= a <= 3.53125",
     "0x1.949176p-2 -0x1.e3e218p-6 0x1.9e0c86p-9 -0x1.788b92p-12 0x1.0b4c9ap-15 -0x1.9de3aep-19 0x1.6d11a6p-20 -0x1.979286p-23 "
     "-0x1.e348c6p-26 0x1.193f32p-28 0x1.71581cp-31 -0x1.76cb3ap-34"),
    ("kTanhF16", "(1 - exp(-2r)) / r for |r| <= ln(2)/4",
     "0x1.ffffeep+0 -0x1.fffe6p+0 0x1.5556a6p+0 -0x1.570b1p-1 0x1.1110fep-2"),
    ("kErfBf16", "erf(a)/a in a^2 - 2.25^2/2, 0 <= a <= 2.25",
     "0x1.39f1bcp-1 -0x1.a77baep-4 0x1.64d3e4p-6 -0x1.13de5ep-8 0x1.72ab64p-11 -0x1.bfa79cp-14 0x1.156322p-16 -0x1.ee53acp-20"),
    ("kErfF16", "erf(a)/a in a^2 - 2.625^2/2, 0 <= a <= 2.625",
     "0x1.1172eap-1 -0x1.2814aap-4 0x1.ae0c8ap-7 -0x1.2df17ep-9 0x1.815bf2p-12 -0x1.b92dfcp-15 0x1.c21f98p-18 -0x1.91af06p-21 "
     "0x1.555f8ep-24 -0x1.4857b2p-27 0x1.ac384p-31"),
]


def main():
    print("""// Polynomial coefficients of the scalar rules, constant term first; written by tools/coefficients.py.
#ifndef LAMINA_HLO_SCALAR_COEFFICIENTS_H_
#define LAMINA_HLO_SCALAR_COEFFICIENTS_H_

namespace lamina::hlo::scalar::coefficients {

// clang-format off""")
    # Name, meaning, function, interval, degree; a weight; a constant term that is not fitted.
    for name, meaning, function, low, high, degree, *weighted in TABLE:
        if weighted:
            values = [*weighted[1:], *fit_weighted(function, low, high, degree, weighted[0])]
        else:
            values = fit(function, low, high, degree)
        show(name, meaning, values)
        print(name, float(values[0] - mp.mpf(float(values[0]))).hex(), file=sys.stderr)
    print("// Chosen for the rounding of f16 and bf16.")
    for name, meaning, values in CHOSEN:
        show(name, meaning, [float.fromhex(v) for v in values.split()])
    print("""// clang-format on

}  // namespace lamina::hlo::scalar::coefficients

#endif  // LAMINA_HLO_SCALAR_COEFFICIENTS_H_""")


if __name__ == "__main__":
    main()
