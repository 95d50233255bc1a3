// Matrices without symmetry: Householder's reduction to Hessenberg form, QR steps with Wilkinson's shift to a
// triangle (Golub and Van Loan, Matrix Computations, section 7.5), substitution in it for eigenvectors, for
// Sylvester's equation (Bartels and Stewart 1972) and for square roots (Bjorck and Hammarling 1983). All in
// complex doubles.
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "hlo/linalg/host.h"
#include "hlo/linalg/lapack.h"

namespace lamina::hlo::linalg {
namespace {

using C = Complex;
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

// The matrix in t is q t q^H; false where the steps do not settle.
bool factor(Square& t, Square& q) {
  for (int64_t i = 0; i < t.n; ++i) q(i, i) = 1;
  reduce(t, q);
  return triangularize(t, q);
}

}  // namespace

bool complex_schur(const Matrix<C>& a, Matrix<C>& t, Matrix<C>& q) {
  t = a;
  if (!a.all_finite()) return false;
  if (lapack::use_lapack(a.rows, a.rows)) return lapack::gees(t, q) == 0;
  Square triangle(a.rows), unitary(a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.rows; ++j) triangle(i, j) = a.at(i, j);
  if (!factor(triangle, unitary)) return false;
  q = Matrix<C>(a.rows, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.rows; ++j) {
      t.at(i, j) = j < i ? C(0) : triangle(i, j);
      q.at(i, j) = unitary(i, j);
    }
  return true;
}

namespace {

// Vectors from the triangle, by substitution.
void vectors_of(const Matrix<C>& t, const Matrix<C>& q, double scale, Matrix<C>& left, Matrix<C>& right) {
  const int64_t n = t.rows;
  const double least = std::max(kUnit * scale, std::numeric_limits<double>::min());
  auto apart = [&](C x) { return std::abs(x) < least ? C(least) : x; };
  std::vector<C> x(static_cast<size_t>(n)), y(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    const C value = t.at(k, k);
    std::fill(x.begin(), x.end(), C(0));
    x[k] = 1;
    for (int64_t i = k; i-- > 0;) {
      C sum = 0;
      for (int64_t j = i + 1; j <= k; ++j) sum += t.at(i, j) * x[j];
      x[i] = -sum / apart(t.at(i, i) - value);
    }
    for (int64_t i = 0; i < n; ++i) {
      y[i] = 0;
      for (int64_t j = 0; j <= k; ++j) y[i] += q.at(i, j) * x[j];
    }
    normalize(y);
    std::copy(y.begin(), y.end(), right.column(k));
    // From the left the triangle is solved downwards.
    std::fill(x.begin(), x.end(), C(0));
    x[k] = 1;
    for (int64_t j = k + 1; j < n; ++j) {
      C sum = 0;
      for (int64_t i = k; i < j; ++i) sum += x[i] * t.at(i, j);
      x[j] = -sum / apart(t.at(j, j) - value);
    }
    for (int64_t i = 0; i < n; ++i) {
      y[i] = 0;
      for (int64_t j = k; j < n; ++j) y[i] += q.at(i, j) * std::conj(x[j]);
    }
    normalize(y);
    std::copy(y.begin(), y.end(), left.column(k));
  }
}

// LAPACK, if there is one, at every size: of real matrices it gives values in conjugated pairs.
template <typename T>
void general_eigen(const Problem& p, bool vectors) {
  Matrix<T> a = p.in<T>(0);
  const int64_t n = a.rows;
  std::vector<C> values(static_cast<size_t>(n));
  Matrix<C> left(n, n), right(n, n);
  bool found = a.all_finite();
  if (found && n > 0 && lapack::present()) {
    found = lapack::geev(vectors, a, values, left, right) == 0;
  } else if (found) {
    double scale = 0;
    for (const T& x : a.data) scale = std::max(scale, std::abs(x));
    Matrix<C> t, q;
    found = complex_schur(as_complex(a), t, q);
    for (int64_t k = 0; found && k < n; ++k) values[static_cast<size_t>(k)] = t.at(k, k);
    if (found && vectors) vectors_of(t, q, scale, left, right);
  }
  Matrix<C> line(n, 1);
  line.data = values;
  if (!found)
    for (Matrix<C>* m : {&line, &left, &right}) m->fill(nan_of<C>());
  p.out(0, line);
  if (!vectors) return;
  p.out(1, left);
  p.out(2, right);
}

template <typename T>
Matrix<T> back(const Matrix<C>& x) {
  Matrix<T> out(x.rows, x.columns);
  for (size_t i = 0; i < x.data.size(); ++i) {
    if constexpr (kIsComplex<T>)
      out.data[i] = x.data[i];
    else
      out.data[i] = x.data[i].real();
  }
  return out;
}

}  // namespace

template <typename T>
void run_eig(const Problem& p) {
  general_eigen<T>(p, true);
}
template <typename T>
void run_eigvals(const Problem& p) {
  general_eigen<T>(p, false);
}

// Of real matrices the real form, with two by two blocks, which only LAPACK gives.
template <typename T>
void run_schur(const Problem& p) {
  Matrix<T> a = p.in<T>(0), q(a.rows, a.rows);
  bool found = a.all_finite();
  if (found && a.rows > 0) {
    if constexpr (kIsComplex<T>) {
      Matrix<C> t;
      found = complex_schur(a, t, q);
      a = t;
    } else {
      if (!lapack::present())
        return p.fail(
            absl::UnimplementedError("the real Schur form needs LAPACK (libopenblas.so.0 or liblapack.so.3), "
                                     "which this machine does not "
                                     "have; ask for the complex form"));
      found = lapack::gees(a, q) == 0;
    }
  }
  if (!found)
    for (Matrix<T>* m : {&a, &q}) m->fill(nan_of<T>());
  p.out(0, a);
  p.out(1, q);
}

// a x + x b = c: with a = u s u^H and b = v t v^H, s y + y t = u^H c v column by column.
template <typename T>
void run_sylvester(const Problem& p) {
  const Matrix<C> c = as_complex(p.in<T>(2));
  Matrix<C> s, u, t, v, y(c.rows, c.columns);
  if (complex_schur(as_complex(p.in<T>(0)), s, u) && complex_schur(as_complex(p.in<T>(1)), t, v)) {
    if (c.rows > 0 && c.columns > 0) y = multiply(multiply(adjoint(u), c), v);
    for (int64_t j = 0; j < y.columns; ++j) {
      for (int64_t k = 0; k < j; ++k)
        for (int64_t i = 0; i < y.rows; ++i) y.at(i, j) -= y.at(i, k) * t.at(k, j);
      for (int64_t i = y.rows; i-- > 0;) {
        y.at(i, j) /= s.at(i, i) + t.at(j, j);
        for (int64_t r = 0; r < i; ++r) y.at(r, j) -= s.at(r, i) * y.at(i, j);
      }
    }
    if (c.rows > 0 && c.columns > 0) y = multiply(multiply(u, y), adjoint(v));
  } else {
    y.fill(nan_of<C>());
  }
  p.out(0, back<T>(y));
}

// The principal root: of the triangle t, r with r r = t, diagonal by diagonal.
template <typename T>
void run_sqrtm(const Problem& p) {
  const Matrix<C> a = as_complex(p.in<T>(0));
  const int64_t n = a.rows;
  Matrix<C> t, q, r(n, n);
  if (complex_schur(a, t, q)) {
    for (int64_t j = 0; j < n; ++j) {
      r.at(j, j) = std::sqrt(t.at(j, j));
      for (int64_t i = j; i-- > 0;) {
        C sum = t.at(i, j);
        for (int64_t k = i + 1; k < j; ++k) sum -= r.at(i, k) * r.at(k, j);
        const C both = r.at(i, i) + r.at(j, j);
        r.at(i, j) = both == C(0) && sum == C(0) ? C(0) : sum / both;
      }
    }
    if (n > 0) r = multiply(multiply(q, r), adjoint(q));
  } else {
    r.fill(nan_of<C>());
  }
  p.out(0, r);
}

#define LAMINA_INSTANTIATE(name)              \
  template void name<double>(const Problem&); \
  template void name<Complex>(const Problem&);
LAMINA_INSTANTIATE(run_eig)
LAMINA_INSTANTIATE(run_eigvals)
LAMINA_INSTANTIATE(run_schur)
LAMINA_INSTANTIATE(run_sylvester)
LAMINA_INSTANTIATE(run_sqrtm)
#undef LAMINA_INSTANTIATE

}  // namespace lamina::hlo::linalg
