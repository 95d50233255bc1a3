#include "hlo/stablehlo/eigen.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <mutex>
#include <numeric>
#include <vector>

#include "hlo/custom_call.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::stablehlo {
namespace {

constexpr double kEpsilon = 1e-15;
constexpr int kMaxSweeps = 60;

double conj_of(double x) { return x; }
std::complex<double> conj_of(std::complex<double> x) { return std::conj(x); }
double real_of(double x) { return x; }
double real_of(std::complex<double> x) { return x.real(); }

// Column-major matrix of T.
template <typename T>
struct Matrix {
  int64_t rows, columns;
  std::vector<T> data;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), data(static_cast<size_t>(m * n)) {}
  T& at(int64_t i, int64_t j) { return data[static_cast<size_t>(j * rows + i)]; }
  T* column(int64_t j) { return data.data() + j * rows; }
  static Matrix eye(int64_t n) {
    Matrix m(n, n);
    for (int64_t i = 0; i < n; ++i) m.at(i, i) = 1;
    return m;
  }
};

// The rotation that makes `across` = <p, q> vanish: p' = c p - s conj(phase) q, q' = s p + c conj(phase) q.
template <typename T>
struct Rotation {
  double c, s;
  T phase;
  Rotation(double pp, double qq, T across) {
    const double size = std::abs(across), theta = (qq - pp) / (2 * size);
    const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
    c = 1 / std::sqrt(t * t + 1);
    s = t * c;
    phase = conj_of(across / size);
  }
  void apply(T* p, T* q, int64_t n, int64_t stride = 1) const {
    for (int64_t i = 0; i < n; ++i) {
      const T a = p[i * stride], b = phase * q[i * stride];
      p[i * stride] = c * a - s * b;
      q[i * stride] = s * a + c * b;
    }
  }
  Rotation conjugated() const {
    Rotation r = *this;
    r.phase = conj_of(phase);
    return r;
  }
};

template <typename T>
void eigen(Matrix<T>& a, Matrix<T>& v, std::vector<double>& values) {
  const int64_t n = a.rows;
  double total = 0;
  for (const T& x : a.data) total += std::norm(x);
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool moved = false;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const T across = a.at(p, q);
        const double size = std::abs(across), pp = real_of(a.at(p, p)), qq = real_of(a.at(q, q));
        // Not a number ends the sweeps as well.
        if (!(size > kEpsilon * std::sqrt(std::abs(pp * qq))) ||
            !(size * size > kEpsilon * kEpsilon * total * 1e-4))
          continue;
        moved = true;
        const Rotation<T> r(pp, qq, across);
        r.apply(a.column(p), a.column(q), n);
        r.conjugated().apply(&a.at(p, 0), &a.at(q, 0), n, n);
        r.apply(v.column(p), v.column(q), n);
      }
    if (!moved) break;
  }
  for (int64_t i = 0; i < n; ++i) values[static_cast<size_t>(i)] = real_of(a.at(i, i));
}

template <typename T>
T inner(const T* x, const T* y, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += conj_of(x[i]) * y[i];
  return sum;
}

// Columns of `a` become orthogonal; `v` takes the same rotations.
template <typename T>
void orthogonalize(Matrix<T>& a, Matrix<T>& v) {
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool moved = false;
    for (int64_t p = 0; p < a.columns; ++p)
      for (int64_t q = p + 1; q < a.columns; ++q) {
        const double pp = real_of(inner(a.column(p), a.column(p), a.rows));
        const double qq = real_of(inner(a.column(q), a.column(q), a.rows));
        const T across = inner(a.column(p), a.column(q), a.rows);
        if (!(std::abs(across) > kEpsilon * std::sqrt(pp * qq))) continue;
        moved = true;
        const Rotation<T> r(pp, qq, across);
        r.apply(a.column(p), a.column(q), a.rows);
        r.apply(v.column(p), v.column(q), v.rows);
      }
    if (!moved) break;
  }
}

// Makes column `j` of u a unit vector orthogonal to those before it: the axis that they reach least.
template <typename T>
void complete(Matrix<T>& u, int64_t j) {
  int64_t axis = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < u.rows; ++i) {
    double reached = 0;
    for (int64_t k = 0; k < j; ++k) reached += std::norm(u.at(i, k));
    if (reached < least) {
      least = reached;
      axis = i;
    }
  }
  T* x = u.column(j);
  std::fill(x, x + u.rows, T(0));
  x[axis] = 1;
  for (int twice = 0; twice < 2; ++twice)
    for (int64_t k = 0; k < j; ++k) {
      const T along = inner(u.column(k), x, u.rows);
      for (int64_t i = 0; i < u.rows; ++i) x[i] -= along * u.at(i, k);
    }
  const double size = std::sqrt(real_of(inner(x, x, u.rows)));
  for (int64_t i = 0; i < u.rows; ++i) x[i] /= size;
}

// Elements of an array as T, and back in the array's own precision.
template <typename T>
T load(const Literal& l, int64_t i) {
  const bool single = part_type(l.dtype()) == DType::kF32;
  if constexpr (std::is_same_v<T, double>) {
    return single ? l.as<float>()[i] : l.as<double>()[i];
  } else {
    return single ? T(l.as<float>()[2 * i], l.as<float>()[2 * i + 1])
                  : T(l.as<double>()[2 * i], l.as<double>()[2 * i + 1]);
  }
}
void store(Literal& l, int64_t i, std::complex<double> x) {
  const bool single = part_type(l.dtype()) == DType::kF32;
  const int64_t at = i * num_parts(l.dtype());
  if (single) {
    l.as<float>()[at] = static_cast<float>(x.real());
    if (is_complex(l.dtype())) l.as<float>()[at + 1] = static_cast<float>(x.imag());
  } else {
    l.as<double>()[at] = x.real();
    if (is_complex(l.dtype())) l.as<double>()[at + 1] = x.imag();
  }
}

std::vector<int64_t> order_of(const std::vector<double>& values, bool ascending) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    const double a = values[static_cast<size_t>(i)], b = values[static_cast<size_t>(j)];
    return ascending ? a < b : a > b;
  });
  return order;
}

template <typename T>
void eigh_one(const Literal& in, int64_t batch, int64_t n, Literal& vectors, Literal& values) {
  Matrix<T> a(n, n), v = Matrix<T>::eye(n);
  bool finite = true;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) {
      const T x = load<T>(in, (batch * n + i) * n + j);
      finite &= std::isfinite(std::abs(x));
      a.at(i, j) = i == j ? T(real_of(x)) : x;
      a.at(j, i) = conj_of(a.at(i, j));
    }
  std::vector<double> found(static_cast<size_t>(n), std::numeric_limits<double>::quiet_NaN());
  if (finite) eigen(a, v, found);
  if (!finite) std::fill(v.data.begin(), v.data.end(), T(found.empty() ? 0 : found[0]));
  const std::vector<int64_t> order =
      finite ? order_of(found, true) : order_of(std::vector<double>(found.size()), true);
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    store(values, batch * n + j, found[static_cast<size_t>(from)]);
    for (int64_t i = 0; i < n; ++i) store(vectors, (batch * n + i) * n + j, v.at(i, from));
  }
}

template <typename T>
void svd_one(const Literal& in, int64_t batch, int64_t m, int64_t n, EvalOut out) {
  const bool tall = m >= n;
  const int64_t rows = std::max(m, n), columns = std::min(m, n);
  Matrix<T> a(rows, columns), v = Matrix<T>::eye(columns);
  bool finite = true;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const T x = load<T>(in, (batch * m + i) * n + j);
      finite &= std::isfinite(std::abs(x));
      (tall ? a.at(i, j) : a.at(j, i)) = tall ? x : conj_of(x);
    }
  if (finite) orthogonalize(a, v);
  std::vector<double> sizes(static_cast<size_t>(columns));
  for (int64_t j = 0; j < columns; ++j)
    sizes[static_cast<size_t>(j)] = std::sqrt(real_of(inner(a.column(j), a.column(j), rows)));
  const std::vector<int64_t> order =
      finite ? order_of(sizes, false) : order_of(std::vector<double>(sizes.size()), false);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double least = columns > 0 && finite ? kEpsilon * sizes[static_cast<size_t>(order[0])] : 0;
  // Long vectors: the columns' directions, completed to as many as are asked for.
  const Dims &u_dims = out[1]->dims(), &v_dims = out[2]->dims();
  const int64_t u_columns = u_dims.back(), v_rows = v_dims[v_dims.size() - 2];
  const int64_t wanted = std::min(rows, tall ? u_columns : v_rows);
  Matrix<T> u(rows, std::max(wanted, columns));
  for (int64_t j = 0; j < u.columns; ++j) {
    const int64_t from = j < columns ? order[static_cast<size_t>(j)] : -1;
    const double size = from < 0 ? 0 : sizes[static_cast<size_t>(from)];
    if (j < columns) store(*out[0], batch * columns + j, finite ? size : nan);
    if (!finite) {
      std::fill(u.column(j), u.column(j) + rows, T(nan));
    } else if (size > least && size > 0) {
      for (int64_t i = 0; i < rows; ++i) u.at(i, j) = a.at(i, from) / size;
    } else {
      complete(u, j);
    }
  }
  auto small = [&](int64_t i, int64_t j) { return finite ? v.at(i, order[static_cast<size_t>(j)]) : T(nan); };
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < u_columns; ++j)
      store(*out[1], (batch * m + i) * u_columns + j, tall ? u.at(i, j) : small(i, j));
  for (int64_t i = 0; i < v_rows; ++i)
    for (int64_t j = 0; j < n; ++j)
      store(*out[2], (batch * v_rows + i) * n + j, conj_of(tall ? small(j, i) : u.at(j, i)));
}

// Batches of [.., m, n]; m and n.
absl::StatusOr<Dims> matrix_dims(const Literal& a) {
  if (a.dims().size() < 2 || !is_inexact(a.dtype()) || is_storage_float(a.dtype()))
    return invalid("needs matrices of f32, f64, c64 or c128, not ", to_string(*a.type()));
  const int64_t m = a.dims()[a.dims().size() - 2], n = a.dims().back();
  return Dims{m * n == 0 ? 0 : a.size() / (m * n), m, n};
}

absl::Status run_eigh(EvalIn in, EvalOut out) {
  if (in.size() != 1 || out.size() != 2) return invalid(kEigh, " takes 1 array and gives 2");
  absl::StatusOr<Dims> d = matrix_dims(*in[0]);
  if (!d.ok()) return d.status();
  const int64_t batches = (*d)[0], n = (*d)[2];
  if ((*d)[1] != n || out[0]->type() != in[0]->type() || out[1]->size() != batches * n ||
      out[1]->dtype() != part_type(in[0]->dtype()))
    return invalid(kEigh, ": ", to_string(*out[0]->type()), " and ", to_string(*out[1]->type()),
                   " are no results for ", to_string(*in[0]->type()));
  for (int64_t b = 0; b < batches; ++b)
    is_complex(in[0]->dtype()) ? eigh_one<std::complex<double>>(*in[0], b, n, *out[0], *out[1])
                               : eigh_one<double>(*in[0], b, n, *out[0], *out[1]);
  return absl::OkStatus();
}

absl::Status run_eig(EvalIn in, EvalOut out) {
  if (in.size() != 1 || out.size() != 3) return invalid(kEig, " takes 1 array and gives 3");
  absl::StatusOr<Dims> d = matrix_dims(*in[0]);
  if (!d.ok()) return d.status();
  const int64_t batches = (*d)[0], n = (*d)[2];
  const bool single = part_type(in[0]->dtype()) == DType::kF32;
  for (size_t i = 0; i < 3; ++i)
    if (out[i]->dtype() != (single ? DType::kC64 : DType::kC128) ||
        out[i]->size() != batches * n * (i == 0 ? 1 : n) || (*d)[1] != n)
      return invalid(kEig, ": ", to_string(*out[i]->type()), " is no result for ", to_string(*in[0]->type()));
  using C = std::complex<double>;
  const auto size = static_cast<size_t>(n);
  std::vector<C> a(size * size), values(size), left(size * size), right(size * size);
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < n * n; ++i)
      a[static_cast<size_t>(i)] = is_complex(in[0]->dtype()) ? load<C>(*in[0], b * n * n + i)
                                                             : C(load<double>(*in[0], b * n * n + i));
    if (!general_eigen(n, a, values, left, right)) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      for (std::vector<C>* v : {&values, &left, &right}) std::fill(v->begin(), v->end(), C(nan, nan));
    }
    for (int64_t i = 0; i < n; ++i) store(*out[0], b * n + i, values[static_cast<size_t>(i)]);
    for (int64_t i = 0; i < n * n; ++i) {
      store(*out[1], b * n * n + i, left[static_cast<size_t>(i)]);
      store(*out[2], b * n * n + i, right[static_cast<size_t>(i)]);
    }
  }
  return absl::OkStatus();
}

absl::Status run_schur(EvalIn in, EvalOut out) {
  if (in.size() != 1 || out.size() != 2) return invalid(kSchur, " takes 1 array and gives 2");
  absl::StatusOr<Dims> d = matrix_dims(*in[0]);
  if (!d.ok()) return d.status();
  const int64_t batches = (*d)[0], n = (*d)[2];
  for (const auto& l : out)
    if (!is_complex(in[0]->dtype()) || l->type() != in[0]->type() || (*d)[1] != n)
      return invalid(kSchur, ": ", to_string(*l->type()), " is no result for ", to_string(*in[0]->type()));
  using C = std::complex<double>;
  const auto size = static_cast<size_t>(n * n);
  std::vector<C> a(size), t(size), q(size);
  for (int64_t b = 0; b < batches; ++b) {
    for (int64_t i = 0; i < n * n; ++i) a[static_cast<size_t>(i)] = load<C>(*in[0], b * n * n + i);
    if (!general_schur(n, a, t, q)) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      for (std::vector<C>* v : {&t, &q}) std::fill(v->begin(), v->end(), C(nan, nan));
    }
    for (int64_t i = 0; i < n * n; ++i) {
      store(*out[0], b * n * n + i, t[static_cast<size_t>(i)]);
      store(*out[1], b * n * n + i, q[static_cast<size_t>(i)]);
    }
  }
  return absl::OkStatus();
}

absl::Status run_svd(EvalIn in, EvalOut out) {
  if (in.size() != 1 || out.size() != 3) return invalid(kSvd, " takes 1 array and gives 3");
  absl::StatusOr<Dims> d = matrix_dims(*in[0]);
  if (!d.ok()) return d.status();
  const int64_t batches = (*d)[0], m = (*d)[1], n = (*d)[2], k = std::min(m, n);
  auto fits = [&](const Literal& l, int64_t rows_least, int64_t rows_most, int64_t columns_least,
                  int64_t columns_most) {
    if (l.dims().size() < 2 || l.dtype() != in[0]->dtype()) return false;
    const int64_t r = l.dims()[l.dims().size() - 2], c = l.dims().back();
    return r >= rows_least && r <= rows_most && c >= columns_least && c <= columns_most &&
           l.size() == batches * r * c;
  };
  if (out[0]->size() != batches * k || out[0]->dtype() != part_type(in[0]->dtype()) ||
      !fits(*out[1], m, m, k, m) || !fits(*out[2], k, n, n, n))
    return invalid(kSvd, ": ", to_string(*out[1]->type()), " and ", to_string(*out[2]->type()),
                   " are no vectors for ", to_string(*in[0]->type()));
  for (int64_t b = 0; b < batches; ++b)
    is_complex(in[0]->dtype()) ? svd_one<std::complex<double>>(*in[0], b, m, n, out)
                               : svd_one<double>(*in[0], b, m, n, out);
  return absl::OkStatus();
}

}  // namespace

void register_eigen_calls() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)register_custom_call(std::string(kEigh), run_eigh);
    (void)register_custom_call(std::string(kSvd), run_svd);
    (void)register_custom_call(std::string(kEig), run_eig);
    (void)register_custom_call(std::string(kSchur), run_schur);
  });
}

}  // namespace lamina::hlo::stablehlo
