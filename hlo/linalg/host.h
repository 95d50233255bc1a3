// What the host routines share: one problem of a batch, and dense matrices.
#ifndef LAMINA_HLO_LINALG_HOST_H_
#define LAMINA_HLO_LINALG_HOST_H_

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/rules/support.h"
#include "hlo/type.h"

namespace lamina::hlo::linalg {

using Complex = std::complex<double>;
template <typename T>
inline constexpr bool kIsComplex = std::is_same_v<T, Complex>;
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

inline double conj_of(double x) { return x; }
inline Complex conj_of(Complex x) { return std::conj(x); }
inline double real_of(double x) { return x; }
inline double real_of(Complex x) { return x.real(); }
inline double norm_of(double x) { return x * x; }
inline double norm_of(Complex x) { return x.real() * x.real() + x.imag() * x.imag(); }
inline bool finite(double x) { return std::isfinite(x); }
inline bool finite(Complex x) { return std::isfinite(x.real()) && std::isfinite(x.imag()); }
template <typename T>
T nan_of() {
  if constexpr (kIsComplex<T>) return {kNaN, kNaN};
  return kNaN;
}

// Memory for vectors, whose own alignment depends on the instruction set that code is compiled for.
template <typename T>
struct VectorAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{sizeof(T)};
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, size_t n) { ::operator delete(p, n * sizeof(T), kAlignment); }
  bool operator==(const VectorAllocator&) const { return true; }
};

// Column-major matrix of T: double, Complex, or vectors.
template <typename T>
struct Matrix {
  static constexpr bool kIsNumber = std::is_same_v<T, double> || kIsComplex<T>;
  using Allocator = std::conditional_t<kIsNumber, std::allocator<T>, VectorAllocator<T>>;
  int64_t rows = 0, columns = 0;
  std::vector<T, Allocator> data;
  Matrix() = default;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), data(static_cast<size_t>(m * n)) {}
  T& at(int64_t i, int64_t j) { return data[static_cast<size_t>(j * rows + i)]; }
  const T& at(int64_t i, int64_t j) const { return data[static_cast<size_t>(j * rows + i)]; }
  T* column(int64_t j) { return data.data() + j * rows; }
  const T* column(int64_t j) const { return data.data() + j * rows; }
  void fill(T x) { std::fill(data.begin(), data.end(), x); }
  bool all_finite() const {
    for (const T& x : data)
      if (!finite(x)) return false;
    return true;
  }
  static Matrix eye(int64_t n) {
    Matrix m(n, n);
    for (int64_t i = 0; i < n; ++i) m.at(i, i) = 1;
    return m;
  }
};

template <typename T>
Matrix<Complex> as_complex(const Matrix<T>& a) {
  Matrix<Complex> out(a.rows, a.columns);
  std::copy(a.data.begin(), a.data.end(), out.data.begin());
  return out;
}

template <typename T>
Matrix<T> adjoint(const Matrix<T>& a) {
  Matrix<T> out(a.columns, a.rows);
  for (int64_t j = 0; j < a.columns; ++j)
    for (int64_t i = 0; i < a.rows; ++i) out.at(j, i) = conj_of(a.at(i, j));
  return out;
}

template <typename T>
Matrix<T> multiply(const Matrix<T>& a, const Matrix<T>& b) {
  Matrix<T> out(a.rows, b.columns);
  for (int64_t j = 0; j < b.columns; ++j)
    for (int64_t k = 0; k < a.columns; ++k) {
      const T x = b.at(k, j);
      const T* from = a.column(k);
      T* to = out.column(j);
      for (int64_t i = 0; i < a.rows; ++i) to[i] += x * from[i];
    }
  return out;
}

// An operand or result of a call: a dense array of matrices.
struct Matrices {
  const Type* type;
  void* data;
  int rank;  // of one: 2, of vectors 1, of scalars 0

  DType dtype() const { return type->dtype; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// One matrix of each operand and result of a call, chosen by the number of the problem in the batch. Vectors
// are matrices of one column, scalars of one element.
class Problem {
 public:
  Problem(std::span<const Matrices> in, std::span<const Matrices> out, std::span<const int64_t> in_at,
          int64_t at, absl::Status& status)
      : in_(in), out_(out), in_at_(in_at), at_(at), status_(status) {}

  template <typename T>
  Matrix<T> in(size_t i) const {
    const Matrices& l = in_[i];
    const auto [rows, columns] = shape(l);
    Matrix<T> m(rows, columns);
    const int64_t from = in_at_[i] * rows * columns;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) m.at(r, c) = load<T>(l, from + r * columns + c);
    return m;
  }
  std::span<const int32_t> integers(size_t i) const {
    const auto [rows, columns] = shape(in_[i]);
    return {in_[i].as<int32_t>() + in_at_[i] * rows * columns, static_cast<size_t>(rows * columns)};
  }
  std::pair<int64_t, int64_t> operand_shape(size_t i) const { return shape(in_[i]); }
  std::pair<int64_t, int64_t> result_shape(size_t i) const { return shape(out_[i]); }

  // Of real problems: an operand or result, row by row; f(null) tells the type of their numbers.
  template <typename X>
  const X* real_operand(size_t i) const {
    const auto [rows, columns] = shape(in_[i]);
    return in_[i].as<X>() + in_at_[i] * rows * columns;
  }
  template <typename X>
  X* real_result(size_t i) const {
    const auto [rows, columns] = shape(out_[i]);
    return out_[i].as<X>() + at_ * rows * columns;
  }
  template <typename F>
  void with_real_type(const F& f) const {
    if (in_[0].dtype() == DType::kF32)
      f(static_cast<float*>(nullptr));
    else
      f(static_cast<double*>(nullptr));
  }

  template <typename T>
  void out(size_t i, const Matrix<T>& m) const {
    const int64_t from = at_ * m.rows * m.columns;
    for (int64_t r = 0; r < m.rows; ++r)
      for (int64_t c = 0; c < m.columns; ++c) store(out_[i], from + r * m.columns + c, m.at(r, c));
  }
  void out(size_t i, std::span<const double> v) const {
    for (size_t j = 0; j < v.size(); ++j)
      store(out_[i], at_ * static_cast<int64_t>(v.size()) + static_cast<int64_t>(j), v[j]);
  }
  void out(size_t i, std::span<const int32_t> v) const {
    std::copy(v.begin(), v.end(), out_[i].as<int32_t>() + at_ * static_cast<int64_t>(v.size()));
  }
  // The whole call fails; for what this machine cannot do.
  void fail(absl::Status status) const { status_ = std::move(status); }

 private:
  static std::pair<int64_t, int64_t> shape(const Matrices& l) {
    const Dims& d = l.type->dims;
    if (l.rank == 0) return {1, 1};
    return l.rank == 1 ? std::pair(d.back(), int64_t{1}) : std::pair(d[d.size() - 2], d.back());
  }
  template <typename T>
  static T load(const Matrices& l, int64_t i) {
    const bool single = part_type(l.dtype()) == DType::kF32;
    if constexpr (kIsComplex<T>) {
      return single ? T(l.as<float>()[2 * i], l.as<float>()[2 * i + 1])
                    : T(l.as<double>()[2 * i], l.as<double>()[2 * i + 1]);
    } else {
      return single ? l.as<float>()[i] : l.as<double>()[i];
    }
  }
  static void store(const Matrices& l, int64_t i, Complex x) {
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

  std::span<const Matrices> in_, out_;
  std::span<const int64_t> in_at_;
  int64_t at_;
  absl::Status& status_;
};

// --- factorizations that other routines use ---

// a = q t q^H with t upper triangular and q unitary; false for numbers that are not finite and where the
// steps do not settle.
bool complex_schur(const Matrix<Complex>& a, Matrix<Complex>& t, Matrix<Complex>& q);
// Singular values in descending order, and with vectors: u[m, p], the right ones as conjugated rows v[q, n].
template <typename T>
void decompose_singular(const Matrix<T>& a, std::vector<double>& sizes, Matrix<T>* u, Matrix<T>* v);
// The same, where it is known which `turns` make the columns of a / unit, or of its adjoint if that has more
// rows, the orthogonal ones of `work`.
template <typename T>
void finish_singular(const Matrix<T>& work, const Matrix<T>& turns, double unit, std::vector<double>& sizes,
                     Matrix<T>* u, Matrix<T>* v);
// A power of two near the largest size of an element: divided by it, squares neither overflow nor vanish.
inline double unit_near(double most) { return most > 0 ? std::ldexp(1, std::ilogb(most)) : 1; }

// Of an order of rows: whether it is one (a program's own operand may be none), and 1 or -1, NaN for none.
bool is_permutation(std::span<const int32_t> order);
double sign_of(std::span<const int32_t> order);
inline constexpr size_t kInlineRows = 32;
using RowOrder = absl::InlinedVector<int32_t, kInlineRows>;
RowOrder permutation_of(std::span<const int32_t> pivots, int64_t m);

// --- the routines, one per row of the table; T is double or Complex ---

// The formatter finds no rest in lists of calls.
// clang-format off
#define LAMINA_LINALG_ROUTINES(F) \
  F(run_cholesky) F(run_lu) F(run_lu_solve) F(run_lu_solve_transposed) F(run_det) F(run_slogdet) \
  F(run_adjugate) F(run_geqrf) F(run_qr) F(run_lower_solve) F(run_upper_solve) F(run_unit_lower_solve) \
  F(run_unit_upper_solve) F(run_eigh) F(run_eigvalsh) F(run_svd) F(run_svdvals) F(run_eig) \
  F(run_eigvals) F(run_schur) F(run_hessenberg) F(run_sylvester) F(run_sqrtm)
// clang-format on
#define LAMINA_DECLARE(name) \
  template <typename T>      \
  void name(const Problem& p);
LAMINA_LINALG_ROUTINES(LAMINA_DECLARE)
#undef LAMINA_DECLARE

// --- the same for small real matrices, of up to num_lanes() problems at once ---

using LanesRoutine = void(std::span<const Problem> problems);
LanesRoutine lanes_cholesky, lanes_lu, lanes_lu_solve, lanes_lu_solve_transposed, lanes_lower_solve,
    lanes_upper_solve, lanes_unit_lower_solve, lanes_unit_upper_solve, lanes_svd, lanes_svdvals;

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_HOST_H_
