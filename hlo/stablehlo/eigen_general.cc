// Eigenvalues and eigenvectors of square matrices without symmetry: Householder's reduction to Hessenberg
// form, QR steps with Wilkinson's shift to a triangle, substitution in it for the vectors. All in complex
// doubles.
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "hlo/stablehlo/eigen.h"

namespace lamina::hlo::stablehlo {
namespace {

using C = std::complex<double>;
constexpr double kUnit = std::numeric_limits<double>::epsilon();

// Row-major square matrix.
struct Square {
  int64_t n;
  std::vector<C> data;
  explicit Square(int64_t size) : n(size), data(static_cast<size_t>(size * size)) {}
  C& operator()(int64_t i, int64_t j) { return data[static_cast<size_t>(i * n + j)]; }
};

// a = q h q^H with h zero below its first subdiagonal; a becomes h.
void reduce(Square& a, Square& q) {
  const int64_t n = a.n;
  std::vector<C> v(static_cast<size_t>(n));
  for (int64_t k = 0; k + 2 < n; ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < n; ++i) below += std::norm(a(i, k));
    const double size = std::sqrt(below);
    if (size == 0) continue;
    const C lead = a(k + 1, k);
    const C phase = lead == C(0) ? C(1) : lead / std::abs(lead);
    double norm = 0;
    for (int64_t i = k + 1; i < n; ++i) {
      v[i] = a(i, k) + (i == k + 1 ? phase * size : C(0));
      norm += std::norm(v[i]);
    }
    auto reflect_rows = [&](Square& m) {
      for (int64_t j = 0; j < n; ++j) {
        C sum = 0;
        for (int64_t i = k + 1; i < n; ++i) sum += std::conj(v[i]) * m(i, j);
        sum *= 2 / norm;
        for (int64_t i = k + 1; i < n; ++i) m(i, j) -= v[i] * sum;
      }
    };
    auto reflect_columns = [&](Square& m) {
      for (int64_t i = 0; i < n; ++i) {
        C sum = 0;
        for (int64_t j = k + 1; j < n; ++j) sum += m(i, j) * v[j];
        sum *= 2 / norm;
        for (int64_t j = k + 1; j < n; ++j) m(i, j) -= sum * std::conj(v[j]);
      }
    };
    reflect_rows(a);
    reflect_columns(a);
    reflect_columns(q);
  }
}

// h = z t z^H with t upper triangular; h becomes t, q becomes q z. False if it does not settle.
bool triangularize(Square& h, Square& q) {
  const int64_t n = h.n;
  int64_t high = n - 1;
  int steps = 0;
  while (high > 0) {
    int64_t low = high;
    while (low > 0) {
      const double scale = std::abs(h(low - 1, low - 1)) + std::abs(h(low, low));
      if (std::abs(h(low, low - 1)) <= kUnit * (scale > 0 ? scale : 1)) {
        h(low, low - 1) = 0;
        break;
      }
      --low;
    }
    if (low == high) {
      --high;
      steps = 0;
      continue;
    }
    if (++steps > 300) return false;
    // The eigenvalue of the last two by two block that is nearer to its corner; now and then another shift.
    const C a = h(high - 1, high - 1), b = h(high - 1, high), c = h(high, high - 1), d = h(high, high);
    const C half = (a + d) / 2.0, root = std::sqrt((a - d) * (a - d) / 4.0 + b * c);
    const C first = half + root, second = half - root;
    C shift = std::abs(first - d) < std::abs(second - d) ? first : second;
    if (steps % 10 == 0) shift = d + std::abs(c);
    for (int64_t i = low; i <= high; ++i) h(i, i) -= shift;
    std::vector<std::pair<double, C>> turns;  // cosine, sine of each rotation
    for (int64_t k = low; k < high; ++k) {
      const C x = h(k, k), y = h(k + 1, k);
      const double size = std::hypot(std::abs(x), std::abs(y));
      const C phase = x == C(0) ? C(1) : x / std::abs(x);
      const double cosine = size == 0 ? 1 : std::abs(x) / size;
      const C sine = size == 0 ? C(0) : phase * std::conj(y) / size;
      for (int64_t j = k; j < n; ++j) {
        const C u = h(k, j), w = h(k + 1, j);
        h(k, j) = cosine * u + sine * w;
        h(k + 1, j) = -std::conj(sine) * u + cosine * w;
      }
      turns.emplace_back(cosine, sine);
    }
    for (int64_t k = low; k < high; ++k) {
      const auto [cosine, sine] = turns[static_cast<size_t>(k - low)];
      auto turn = [&, cosine = cosine, sine = sine](Square& m, int64_t rows) {
        for (int64_t i = 0; i < rows; ++i) {
          const C u = m(i, k), w = m(i, k + 1);
          m(i, k) = cosine * u + std::conj(sine) * w;
          m(i, k + 1) = -sine * u + cosine * w;
        }
      };
      turn(h, std::min(k + 2, high + 1));
      turn(q, n);
    }
    for (int64_t i = low; i <= high; ++i) h(i, i) += shift;
  }
  return true;
}

// Unit length, the largest entry real.
void normalize(std::vector<C>& x) {
  double sum = 0, most = 0;
  C lead = 1;
  for (const C& v : x) {
    sum += std::norm(v);
    if (std::abs(v) > most) {
      most = std::abs(v);
      lead = v / most;
    }
  }
  for (C& v : x) v *= std::conj(lead) / std::sqrt(sum);
}

// matrix = q t q^H; false for numbers that are not finite and where the steps do not settle.
bool factor(std::span<const C> matrix, Square& t, Square& q) {
  std::copy(matrix.begin(), matrix.end(), t.data.begin());
  for (const C& x : t.data)
    if (!std::isfinite(std::abs(x))) return false;
  for (int64_t i = 0; i < t.n; ++i) q(i, i) = 1;
  reduce(t, q);
  return triangularize(t, q);
}

}  // namespace

bool general_schur(int64_t n, std::span<const C> matrix, std::span<C> t, std::span<C> q) {
  Square triangle(n), unitary(n);
  if (!factor(matrix, triangle, unitary)) return false;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      t[static_cast<size_t>(i * n + j)] = j < i ? C(0) : triangle(i, j);
      q[static_cast<size_t>(i * n + j)] = unitary(i, j);
    }
  return true;
}

bool general_eigen(int64_t n, std::span<const C> matrix, std::span<C> values, std::span<C> left,
                   std::span<C> right) {
  Square t(n), q(n);
  if (!factor(matrix, t, q)) return false;
  double scale = 0;
  for (const C& x : matrix) scale = std::max(scale, std::abs(x));
  const double least = std::max(kUnit * scale, std::numeric_limits<double>::min());
  auto apart = [&](C x) { return std::abs(x) < least ? C(least) : x; };
  std::vector<C> x(static_cast<size_t>(n)), y(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const C value = t(k, k);
    values[static_cast<size_t>(k)] = value;
    std::fill(x.begin(), x.end(), C(0));
    x[k] = 1;
    for (int64_t i = k; i-- > 0;) {
      C sum = 0;
      for (int64_t j = i + 1; j <= k; ++j) sum += t(i, j) * x[j];
      x[i] = -sum / apart(t(i, i) - value);
    }
    for (int64_t i = 0; i < n; ++i) {
      y[i] = 0;
      for (int64_t j = 0; j <= k; ++j) y[i] += q(i, j) * x[j];
    }
    normalize(y);
    for (int64_t i = 0; i < n; ++i) right[static_cast<size_t>(i * n + k)] = y[i];
    // From the left the triangle is solved downwards.
    std::fill(x.begin(), x.end(), C(0));
    x[k] = 1;
    for (int64_t j = k + 1; j < n; ++j) {
      C sum = 0;
      for (int64_t i = k; i < j; ++i) sum += x[i] * t(i, j);
      x[j] = -sum / apart(t(j, j) - value);
    }
    for (int64_t i = 0; i < n; ++i) {
      y[i] = 0;
      for (int64_t j = k; j < n; ++j) y[i] += q(i, j) * std::conj(x[j]);
    }
    normalize(y);
    for (int64_t i = 0; i < n; ++i) left[static_cast<size_t>(i * n + k)] = y[i];
  }
  return true;
}

}  // namespace lamina::hlo::stablehlo
