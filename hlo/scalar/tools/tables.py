"""Writes hlo/scalar/table_values.h: the tables of sixteen numbers that rules of f32 look numbers up in.

Run with mpmath and NumPy installed: python hlo/scalar/tools/tables.py > hlo/scalar/table_values.h
"""

from __future__ import annotations

from collections.abc import Callable

import mpmath as mp
import numpy
from coefficients import fit_weighted

SIZE = 16
DEGREE = 6  # of the pieces
SLACK = mp.mpf("1e-5")
Function = Callable[[mp.mpf], mp.mpf]


def single(x: mp.mpf) -> float:
    return float(numpy.float32(float(x)))


def places() -> list[tuple[mp.mpf, mp.mpf]]:
    """Where 1 <= y < 16 lies when its exponent and its two highest digits are number i: four of equal length for
    each power of two."""
    out = []
    for i in range(SIZE):
        power, quarter = 2 ** (i // 4), mp.mpf(i % 4) / 4
        out.append((power * (1 + quarter), power * (1 + quarter + mp.mpf("0.25"))))
    return out


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


def piece(f: Function, x0: float, y0: float, low: mp.mpf, high: mp.mpf) -> list[float]:
    wide = (high - low) * SLACK  # which piece a number beside a bound falls into is decided with a rounding

    def slope(t: mp.mpf) -> mp.mpf:
        return (f(x0 + t) - f(mp.mpf(x0))) / t

    return [
        x0,
        y0,
        *map(
            single,
            fit_weighted(slope, low - wide - x0, high + wide - x0, DEGREE - 1, lambda t: t / f(x0 + t)),
        ),
    ]


def by_place(columns: list[list[float]]) -> list[list[float]]:
    """Rows by the lowest four bits of the exponent's last two and the two digits: 1 <= y < 2 come last."""
    return [[columns[(i + 4) % SIZE][row] for i in range(SIZE)] for row in range(DEGREE + 2)]


def any_pieces(f: Function, unit: mp.mpf) -> list[list[float]]:
    """The same of any f, by the digits of y = a * unit + 1, and nothing special about 0."""
    bounds = [((low - 1) / unit, (high - 1) / unit) for low, high in places()]
    return by_place([piece(f, *exact_near(f, (low + high) / 2), low, high) for low, high in bounds])


def scaled_erfc(x: mp.mpf) -> mp.mpf:
    return mp.exp(x * x) * mp.erfc(x)


def pieces(f: Function, inverse: Function, start: str, unit: mp.mpf) -> list[list[float]]:
    """Of an odd f that grows to 1, by the digits of y = a * unit + start: rows of centers, of values there and of the
    coefficients of (f(a) - value) / (a - center). In the first two places it is (f(a) - a) / a about 0."""
    bounds = [((low - mp.mpf(start)) / unit, (high - mp.mpf(start)) / unit) for low, high in places()]
    near = bounds[1][1]
    last = inverse(1 - mp.mpf(2) ** -23)  # where f is near 1 only few of its values are numbers of f32
    central = fit_weighted(lambda a: f(a) / a - 1, SLACK, near * (1 + SLACK), DEGREE - 1, lambda a: a / f(a))
    columns = [[0.0, 0.0, *map(single, central)]] * 2
    for low, high in bounds[2:]:
        columns.append(
            piece(f, *exact_near(f, last if high > bounds[-1][0] else (low + high) / 2, inverse), low, high)
        )
    return by_place(columns)


def log_steps() -> list[list[float]]:
    """By the eighths, in the order of the bits, of 21/32 <= m < 21/16: c of so few digits that m c - 1 has 24, and
    is no larger than 9/128; and -log(c) as a multiple of 2^-16 and the rest. About 1, c is 1."""
    rows: list[list[float]] = [[], [], []]
    for i in range(SIZE):
        sixteenths = (23, 21, 20, 18, 17, 16, 14, 13)[i % 8]
        log = -mp.log(mp.mpf(sixteenths) / 16)
        top = mp.nint(log * 2**16) / 2**16
        for row, value in zip(rows, (mp.mpf(sixteenths) / 16, top, log - top)):
            row.append(single(value))
    return rows


def exp_steps() -> list[list[float]]:
    """2^(i/4) and the rest."""
    powers = [mp.mpf(2) ** (mp.mpf(i % 4) / 4) for i in range(SIZE)]
    return [[single(p) for p in powers], [single(p - single(p)) for p in powers]]


TABLES = [
    ("kLogSteps", "c, -log(c) and the rest by the eighths of 21/32 <= m < 21/16", log_steps),
    ("kExpSteps", "2^(i/4) and the rest", exp_steps),
]
# Name, f, its inverse, start, top.
PIECES = [
    ("kTanhPieces", mp.tanh, mp.atanh, "1.08", "9.12"),
    ("kErfPieces", mp.erf, mp.erfinv, "1", "3.95"),
]


def main() -> None:
    print("""// Tables of sixteen numbers of f32; written by tools/tables.py.
#ifndef LAMINA_HLO_SCALAR_TABLE_VALUES_H_
#define LAMINA_HLO_SCALAR_TABLE_VALUES_H_

#include <cstdint>

namespace lamina::hlo::scalar {

// A function of 0 <= a <= top, cut into pieces by the four digits behind the first of y = a * unit + start,
// 1 <= y < 16: two of its exponent and two of its fraction. The tables hold, for each piece, a center, the
// function's value there, and the coefficients of (f(a) - value) / (a - center). Odd functions of |x| that grow to 1
// are 1 beyond `top`; about 0, where center and value are 0, their coefficients are those of (f(a) - a) / a.
struct Pieces {
  uint64_t first;  // number of the table of centers
  double unit, start, top;
};
inline constexpr uint64_t kPiecesTables = 8;
""")
    rows: list[list[float]] = []
    for name, f, inverse, start, top in PIECES:
        unit = mp.mpf(single((16 - mp.mpf(start)) / mp.mpf(top)))
        limit = single(mp.mpf(top) * (1 - mp.mpf(2) ** -20))
        print(
            f"inline constexpr Pieces {name} = {{{len(rows)}, {float(unit).hex()}, {start}, {limit.hex()}}};"
        )
        rows += pieces(f, inverse, start, unit)
    unit = mp.mpf(single(15 / mp.mpf("10.12")))
    print(f"inline constexpr Pieces kScaledErfcPieces = {{{len(rows)}, {float(unit).hex()}, 1, 10.1}};")
    rows += any_pieces(scaled_erfc, unit)
    print("// The number of the first table of each kind.")
    for name, meaning, made in TABLES:
        print(f"inline constexpr uint64_t {name} = {len(rows)};  // {meaning}")
        rows += made()
    print("\n// clang-format off\ninline constexpr float kSingleTables[][16] = {")
    for row in rows:
        lines = [
            ", ".join(v.hex().replace("0000000p", "p") + "F" for v in row[i : i + 4])
            for i in range(0, SIZE, 4)
        ]
        print("    {" + ",\n     ".join(lines) + "},")
    print("""};
// clang-format on

}  // namespace lamina::hlo::scalar

#endif  // LAMINA_HLO_SCALAR_TABLE_VALUES_H_""")


if __name__ == "__main__":
    main()
