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
template <typename T>
concept NumberType = std::is_same_v<T, double> || kIsComplex<T>;
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

// Matrices of which some dimension is larger are not solved side by side.
inline constexpr int64_t kMostLaneRows = 64;
// Some numbers for each of so many rows are where a routine has its own variables.
inline constexpr int64_t kInlineRows = 32;

// Vectors, not set at first: up to kInline of them in the object itself, as a small matrix takes less time
// than to ask for memory. Their own alignment depends on the instruction set that code is compiled for.
template <typename T, int64_t kInline>
class VectorArray {
 public:
  VectorArray() = default;
  explicit VectorArray(size_t n) : size_(n) {
    if (n > kInline) items_ = static_cast<T*>(::operator new(n * sizeof(T), kAlignment));
  }
  ~VectorArray() {
    if (items_ != inline_) ::operator delete(items_, kAlignment);
  }
  VectorArray(const VectorArray&) = delete;
  VectorArray& operator=(const VectorArray&) = delete;
  size_t size() const { return size_; }
  T* data() { return items_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }

 private:
  static constexpr std::align_val_t kAlignment{64};

  size_t size_ = 0;
  T* items_ = inline_;
  alignas(sizeof(T)) T inline_[kInline];
};

// One number, or vector, for each row.
template <typename T>
using Line = std::conditional_t<NumberType<T>, std::vector<T>, VectorArray<T, kInlineRows>>;

// Column-major matrix of T: double, Complex, or vectors, which are not set at first.
template <typename T>
struct Matrix {
  int64_t rows = 0, columns = 0;
  int64_t lead = 0;  // elements from one column to the next
  std::conditional_t<NumberType<T>, std::vector<T>, VectorArray<T, (kInlineRows + 1) * kInlineRows>> data;
  Matrix() = default;
  Matrix(int64_t m, int64_t n) : rows(m), columns(n), lead(lead_of(m)), data(static_cast<size_t>(lead * n)) {}
  T& at(int64_t i, int64_t j) { return data[static_cast<size_t>(j * lead + i)]; }
  const T& at(int64_t i, int64_t j) const { return data[static_cast<size_t>(j * lead + i)]; }
  T* column(int64_t j) { return data.data() + j * lead; }
  const T* column(int64_t j) const { return data.data() + j * lead; }
  // Numbers lie side by side. Of vectors the rows of many columns would be in few sets of the first-level
  // cache if columns were 2 KiB apart, or a multiple of it.
  static int64_t lead_of(int64_t rows) {
    return NumberType<T> || rows < kInlineRows || rows % 16 != 0 ? rows : rows + 1;
  }
  void fill(const T& x) { std::fill(data.begin(), data.end(), x); }
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

// Rows and columns of one: vectors are matrices of one column, scalars of one element.
inline std::pair<int64_t, int64_t> shape_of(const Matrices& l) {
  const Dims& d = l.type->dims;
  if (l.rank == 0) return {1, 1};
  return l.rank == 1 ? std::pair(d.back(), int64_t{1}) : std::pair(d[d.size() - 2], d.back());
}

// One matrix of each operand and result of a call, chosen by the number of the problem in the batch.
class Problem {
 public:
  Problem(std::span<const Matrices> in, std::span<const Matrices> out, std::span<const int64_t> in_at,
          int64_t at, absl::Status& status)
      : in_(in), out_(out), in_at_(in_at), at_(at), status_(status) {}

  template <typename T>
  Matrix<T> in(size_t i) const {
    const Matrices& l = in_[i];
    const auto [rows, columns] = shape_of(l);
    Matrix<T> m(rows, columns);
    const int64_t from = in_at_[i] * rows * columns;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) m.at(r, c) = load<T>(l, from + r * columns + c);
    return m;
  }
  std::span<const int32_t> integers(size_t i) const {
    const auto [rows, columns] = shape_of(in_[i]);
    return {in_[i].as<int32_t>() + in_at_[i] * rows * columns, static_cast<size_t>(rows * columns)};
  }
  std::pair<int64_t, int64_t> operand_shape(size_t i) const { return shape_of(in_[i]); }
  std::pair<int64_t, int64_t> result_shape(size_t i) const { return shape_of(out_[i]); }

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
  // The numbers that a result like operand i would hold. Part by part: of an odd number of complex ones GCC
  // 12 leaves the last as it is.
  template <typename T>
  void round(Matrix<T>& m, size_t i) const {
    if (part_type(in_[i].dtype()) != DType::kF32) return;
    auto* const parts = reinterpret_cast<double*>(m.data.data());
    for (size_t k = 0; k < m.data.size() * sizeof(T) / sizeof(double); ++k)
      parts[k] = static_cast<float>(parts[k]);
  }
  // The whole call fails; for what this machine cannot do.
  void fail(absl::Status status) const { status_ = std::move(status); }

 private:
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

// Neighbouring real problems of a call, at most num_lanes().
struct Group {
  std::span<const Matrices> in, out;
  std::span<const int64_t> at;  // which matrix of each operand, problem by problem
  int64_t first, count;

  int64_t place(int64_t l, size_t i) const { return at[static_cast<size_t>(l) * in.size() + i]; }
  // Routines of groups never fail.
  Problem problem(int64_t l, absl::Status& status) const {
    return {in, out, at.subspan(static_cast<size_t>(l) * in.size(), in.size()), first + l, status};
  }
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
using RowOrder = absl::InlinedVector<int32_t, kInlineRows>;
RowOrder permutation_of(std::span<const int32_t> pivots, int64_t m);

// --- the routines, one per row of the table; T is double or Complex ---

// The formatter finds no rest in lists of calls.
// clang-format off
#define LAMINA_LINALG_ROUTINES(F) \
  F(run_cholesky) F(run_mean_cholesky) F(run_lu) F(run_lu_solve) F(run_lu_solve_transposed) F(run_solve) \
  F(run_det) F(run_slogdet) F(run_adjugate) F(run_geqrf) F(run_qr) F(run_lower_solve) F(run_upper_solve) \
  F(run_unit_lower_solve) F(run_unit_upper_solve) F(run_eigh) F(run_eigvalsh) F(run_svd) F(run_svdvals) \
  F(run_eig) F(run_eigvals) F(run_schur) F(run_hessenberg) F(run_sylvester) F(run_sqrtm)
// clang-format on
#define LAMINA_DECLARE(name) \
  template <typename T>      \
  void name(const Problem& p);
LAMINA_LINALG_ROUTINES(LAMINA_DECLARE)
#undef LAMINA_DECLARE

// --- the same for small real matrices, a group at once ---

using LanesRoutine = void(const Group& group);
LanesRoutine lanes_cholesky, lanes_mean_cholesky, lanes_lu, lanes_det, lanes_slogdet, lanes_lu_solve,
    lanes_lu_solve_transposed, lanes_solve, lanes_lower_solve, lanes_upper_solve, lanes_unit_lower_solve,
    lanes_unit_upper_solve, lanes_eigh, lanes_eigvalsh, lanes_svd, lanes_svdvals;

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_HOST_H_
