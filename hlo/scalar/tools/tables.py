"""Writes hlo/scalar/table_values.h: the tables of sixteen numbers that rules of f32 and f64 look numbers up in.

Run with mpmath and NumPy installed: python hlo/scalar/tools/tables.py > hlo/scalar/table_values.h
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy
from coefficients import fit_weighted

SIZE = 16
SLACK = mp.mpf("1e-5")
Function = Callable[[mp.mpf], mp.mpf]


def single(x: mp.mpf) -> float:
    return float(numpy.float32(float(x)))


def places(digits: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """Where 1 <= y < 16 lies when its exponent and its highest digits are number i: two or four of equal length for
    each power of two."""
    out, parts = [], 2**digits
    for i in range(4 * parts):
        power, part = 2 ** (i // parts), mp.mpf(i % parts) / parts
        out.append((power * (1 + part), power * (1 + part + mp.mpf(1) / parts)))
    return out


def center(f: Function, low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """From where both ends are equally far in units of f there."""
    return (low * f(high) + high * f(low)) / (f(low) + f(high))


def exact_near(f: Function, middle: mp.mpf, inverse: Function | None = None) -> tuple[float, float]:
    """An x near `middle` in f32 whose f(x) is a number of f32, but for a thousandth of its last digit (S. Gal's
    tables of accurate values, An accurate elementary mathematical library, 1991)."""
    low = high = numpy.float32(float(inverse(mp.mpf(single(f(middle)))) if inverse else middle))
    best = (mp.inf, 0.0, 0.0)
    while best[0] > 1e-3:
        for x in (low, high):
            y = f(mp.mpf(float(x)))
            error = abs(y - single(y)) / mp.mpf(float(numpy.spacing(numpy.float32(float(y)))))
            best = min(best, (error, float(x), single(y)))
        low, high = numpy.nextafter(low, numpy.float32(0)), numpy.nextafter(high, numpy.float32(100))
    return best[1], best[2]


def piece(f: Function, x0: float, y0: float, low: mp.mpf, high: mp.mpf, degree: int) -> list[float]:
    wide = (high - low) * SLACK  # which piece a number beside a bound falls into is decided with a rounding
    slope = single(mp.diff(f, x0))  # the other coefficients make up for what it loses to rounding

    def rest(t: mp.mpf) -> mp.mpf:
        return ((f(x0 + t) - f(mp.mpf(x0))) / t - slope) / t

    fitted = fit_weighted(rest, low - wide - x0, high + wide - x0, degree - 2, lambda t: t * t / f(x0 + t))
    return [x0, y0, slope, *map(single, fitted)]


def by_place(columns: list[list[float]]) -> list[list[float]]:
    """Rows by the exponent's last two bits and the digits: 1 <= y < 2 come last. Eight come twice."""
    count = len(columns)
    return [[columns[(i + count // 4) % count][row] for i in range(SIZE)] for row in range(len(columns[0]))]


def any_pieces(f: Function, unit: mp.mpf) -> list[list[float]]:
    """The same of any f, sixteen by the digits of y = a * unit + 1, and nothing special about 0."""
    bounds = [((low - 1) / unit, (high - 1) / unit) for low, high in places(2)]
    return by_place([piece(f, *exact_near(f, (low + high) / 2), low, high, 6) for low, high in bounds])


def scaled_erfc(x: mp.mpf) -> mp.mpf:
    return mp.exp(x * x) * mp.erfc(x)


def pieces(f: Function, inverse: Function, unit: mp.mpf) -> list[list[float]]:
    """Of an odd f that grows to 1, eight by the digits of y = a * unit + 1: rows of centers, of values there and of the
    coefficients of (f(a) - value) / (a - center). In the first two places it is (f(a) - a) / a about -0."""
    degree = 8
    bounds = [((low - 1) / unit, (high - 1) / unit) for low, high in places(1)]
    near = bounds[1][1]
    last = inverse(1 - mp.mpf(2) ** -23)  # where f is near 1 only few of its values are numbers of f32
    central = fit_weighted(lambda a: f(a) / a - 1, SLACK, near * (1 + SLACK), degree - 1, lambda a: a / f(a))
    columns = [[-0.0, 0.0, *map(single, central)]] * 2
    for low, high in bounds[2:]:
        columns.append(
            piece(
                f,
                *exact_near(f, last if high > bounds[-1][0] else center(f, low, high), inverse),
                low,
                high,
                degree,
            )
        )
    return by_place(columns)


def log_steps(digits: int) -> list[list[mp.mpf]]:
    """By the eighths, in the order of the bits, of 21/32 <= m < 21/16: c of so few digits that m c - 1 has no more
    than m, and is no larger than 9/128; and -log(c) as a multiple of 2^-digits and the rest. About 1, c is 1."""
    rows: list[list[mp.mpf]] = [[], [], []]
    for i in range(SIZE):
        sixteenths = (23, 21, 20, 18, 17, 16, 14, 13)[i % 8]
        log = -mp.log(mp.mpf(sixteenths) / 16)
        top = mp.nint(log * 2**digits) / 2**digits
        for row, value in zip(rows, (mp.mpf(sixteenths) / 16, top, log - top)):
            row.append(value)
    return rows


def exp_steps() -> list[list[float]]:
    """2^(i/4) and the rest."""
    powers = [mp.mpf(2) ** (mp.mpf(i % 4) / 4) for i in range(SIZE)]
    return [[single(p) for p in powers], [single(p - single(p)) for p in powers]]


def double_exp_steps() -> list[list[mp.mpf]]:
    """2^(i/8) and the rest, whose lower half is 0."""
    powers = [mp.mpf(2) ** (mp.mpf(i % 8) / 8) for i in range(SIZE)]
    steps = [mp.mpf(float(p)) for p in powers]
    rests = [p - step for p, step in zip(powers, steps)]
    with mp.workprec(21):
        return [steps, [+rest for rest in rests]]


TABLES = [
    ("kLogSteps", "c, -log(c) and the rest by the eighths of 21/32 <= m < 21/16", lambda: [[*map(single, row)] for row in log_steps(16)]),
    ("kExpSteps", "2^(i/4) and the rest", exp_steps),
]
# Name, f, its inverse, top, and y there.
PIECES = [
    ("kTanhPieces", mp.tanh, mp.atanh, "9.12", 16),
    ("kErfPieces", mp.erf, mp.erfinv, "3.95", 13),
]


def show_tables(name: str, rows: list[list[float]], text: Callable[[float], str]) -> None:
    print(f"inline constexpr {name}[][{SIZE}] = {{")
    for row in rows:
        lines = [", ".join(map(text, row[i : i + 4])) for i in range(0, SIZE, 4)]
        print("    {" + ",\n     ".join(lines) + "},")
    print("};")


def main() -> None:
    print("""// Tables of sixteen numbers of f32 and f64; written by tools/tables.py.
#ifndef LAMINA_HLO_SCALAR_TABLE_VALUES_H_
#define LAMINA_HLO_SCALAR_TABLE_VALUES_H_

#include <cstdint>

namespace lamina::hlo::scalar {

// A function of 0 <= a <= top, cut into pieces by digits of y = a * unit + 1, 1 <= y < 16: two of its exponent and
// the first one or two of its fraction. The tables hold, for each piece, a center, the function's value there, and
// the coefficients of (f(a) - value) / (a - center). Odd functions of |x| that grow to 1 are 1 beyond `top`; about 0
// their center is -0, the only one with a sign, and their coefficients are those of (f(a) - a) / a.
struct Pieces {
  uint64_t first, tables;  // number of the table of centers, and how many there are
  int digits;              // of the fraction
  double unit, top;
};
""")
    rows: list[list[float]] = []

    def show(name: str, made: list[list[float]], digits: int, unit: mp.mpf, top: str) -> None:
        print(
            f"inline constexpr Pieces {name} = {{{len(rows)}, {len(made)}, {digits}, {float(unit).hex()}, {top}}};"
        )
        rows.extend(made)

    for name, f, inverse, top, last in PIECES:
        unit = mp.mpf(single((last - 1) / mp.mpf(top)))
        limit = single(mp.mpf(top) * (1 - mp.mpf(2) ** -20))
        show(name, pieces(f, inverse, unit), 1, unit, limit.hex())
    unit = mp.mpf(single(15 / mp.mpf("10.12")))
    show("kScaledErfcPieces", any_pieces(scaled_erfc, unit), 2, unit, "10.1")
    print("// The number of the first table of each kind.")
    for name, meaning, made in TABLES:
        print(f"inline constexpr uint64_t {name} = {len(rows)};  // {meaning}")
        rows += made()
    print("// Of those of f64: c, -log(c) as a multiple of 2^-22, so that its lower half is 0, and the rest; 2^(i/8) and")
    print("// the rest, of as many digits.")
    print("inline constexpr uint64_t kLogStepsDouble = 0, kExpStepsDouble = 3;\n\n// clang-format off")
    show_tables("float kSingleTables", rows, lambda v: v.hex().replace("0000000p", "p") + "F")
    doubles = [*log_steps(22), *double_exp_steps()]
    show_tables("double kDoubleTables", [[*map(float, row)] for row in doubles], float.hex)
    print("""// clang-format on

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_TABLE_VALUES_H_""")


if __name__ == "__main__":
    main()
