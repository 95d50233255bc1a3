// Linear algebra and Fourier transforms, with NumPy's names.
//
// Contract: matrices are the last two dimensions, everything before them is a batch. Integers become floats,
// floats below 32 bits are computed in float32 and rounded. Everything has derivatives of every order in both
// modes, but for the vectors of a full decomposition of a matrix that is not square. Shapes that do not fit
// throw lamina::Error; values never do: a matrix that is singular or not positive definite gives infinities
// or NaN. Vectors have no derivative where their values coincide: it is NaN.
#ifndef LAMINA_LINALG_H_
#define LAMINA_LINALG_H_

#include <optional>

#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina::linalg {

// The lower factor l of Hermitian positive definite matrices: a = l l^H; the lower triangle is read.
Tensor cholesky(TensorOrNumber a);
// x with a x = b, by LU factors; b is a vector or has a's batch.
Tensor solve(TensorOrNumber a, TensorOrNumber b);
// The same for triangular a, of which one triangle is read.
Tensor solve_triangular(TensorOrNumber a, TensorOrNumber b, bool lower = false);
Tensor inv(TensorOrNumber a);
// The Moore-Penrose inverse; singular values up to rtol times the largest one count as zero: max(m, n) times
// the machine epsilon unless told. The derivative is that at constant rank.
Tensor pinv(TensorOrNumber a, std::optional<double> rtol = {});
// The x[n] or x[n, k] with the least |b - a x|, and among those the shortest, for one matrix a[m, n]; `rtol`
// as in pinv. The sums of squares of b - a x, NaN unless a has full column rank; the rank; the singular
// values.
struct Lstsq {
  Tensor x, residuals, rank, singular_values;
};
Lstsq lstsq(TensorOrNumber a, TensorOrNumber b, std::optional<double> rtol = {});
// a times itself n times; of the inverse for negative n.
Tensor matrix_power(TensorOrNumber a, int64_t n);
// The exponential, by scaling and squaring (Higham 2005); NaN beyond a 1-norm of 2 * 10^10.
Tensor expm(TensorOrNumber a);
Tensor det(TensorOrNumber a);
// det = sign * exp(log).
struct SignAndLog {
  Tensor sign, log;
};
SignAndLog slogdet(TensorOrNumber a);
// q[m, k] with orthonormal columns and an upper triangular r[k, n], k = min(m, n).
struct Qr {
  Tensor q, r;
};
Qr qr(TensorOrNumber a);
// Rows of a in the order s32[m], so that take(a, order, 0) is l u for one matrix: l[m, k] with ones on its
// diagonal, u[k, n].
struct Lu {
  Tensor order, l, u;
};
Lu lu(TensorOrNumber a);
// Values in ascending order, vectors as columns, of Hermitian matrices; the lower triangle is read.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(TensorOrNumber a);
Tensor eigvalsh(TensorOrNumber a);
// Complex values and vectors as columns of unit length, of any square matrices.
struct Eig {
  Tensor values, vectors;
};
Eig eig(TensorOrNumber a);
Tensor eigvals(TensorOrNumber a);
// a = u diag(s) vh with k = min(m, n) singular values in descending order; all of u[m, m] and vh[n, n] if
// `full`.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(TensorOrNumber a, bool full = false);
Tensor svdvals(TensorOrNumber a);

// Of vectors along `axes` ({}: of all elements as one): any order, infinities and 0 (the number of elements
// that are not 0) too. The derivative of order 2 at 0 is taken as 0.
Tensor norm(TensorOrNumber a, double order = 2, const Axes& axes = {}, bool keepdims = false);
// kColumns and kRows: the greatest sum of sizes in a column (order 1), in a row (infinity).
enum class MatrixNorm : uint8_t { kFrobenius, kNuclear, kSpectral, kColumns, kRows };
Tensor matrix_norm(TensorOrNumber a, MatrixNorm order = MatrixNorm::kFrobenius);

}  // namespace lamina::linalg

namespace lamina::fft {

// Along the last dimension, of any length; the inverse ones are divided by it. rfft gives the first n / 2 + 1
// elements, irfft takes them and gives n.
Tensor fft(TensorOrNumber x);
Tensor ifft(TensorOrNumber x);
Tensor rfft(TensorOrNumber x);
Tensor irfft(TensorOrNumber x, int64_t n);

}  // namespace lamina::fft
#pragma GCC visibility pop

#endif  // LAMINA_LINALG_H_
