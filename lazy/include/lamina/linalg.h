// Linear algebra and Fourier transforms, with NumPy's names.
//
// Contract: matrices are the last two dimensions, everything before them is a batch. Integers become floats,
// floats below 32 bits are computed in float32 and rounded. Everything has derivatives of every order in both
// modes, but for the vectors of a full decomposition of a matrix that is not square. Shapes that do not fit
// throw lamina::Error; values never do: a matrix that is singular or not positive definite gives infinities
// or NaN. Vectors have no derivative where their values coincide: it is NaN.
#ifndef LAMINA_LINALG_H_
#define LAMINA_LINALG_H_

#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina::linalg {

// The lower factor l of Hermitian positive definite matrices: a = l l^H; the lower triangle is read.
Tensor cholesky(Operand a);
// x with a x = b, by LU factors; b is a vector or has a's batch.
Tensor solve(Operand a, Operand b);
// The same for triangular a, of which one triangle is read.
Tensor solve_triangular(Operand a, Operand b, bool lower = false);
Tensor inv(Operand a);
Tensor det(Operand a);
// det = sign * exp(log).
struct SignAndLog {
  Tensor sign, log;
};
SignAndLog slogdet(Operand a);
// q[m, k] with orthonormal columns and an upper triangular r[k, n], k = min(m, n).
struct Qr {
  Tensor q, r;
};
Qr qr(Operand a);
// Values in ascending order, vectors as columns, of Hermitian matrices; the lower triangle is read.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(Operand a);
// a = u diag(s) vh with k = min(m, n) singular values in descending order; all of u[m, m] and vh[n, n] if
// `full`.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(Operand a, bool full = false);

}  // namespace lamina::linalg

namespace lamina::fft {

// Along the last dimension, of any length; the inverse ones are divided by it. rfft gives the first n / 2 + 1
// elements, irfft takes them and gives n.
Tensor fft(Operand x);
Tensor ifft(Operand x);
Tensor rfft(Operand x);
Tensor irfft(Operand x, int64_t n);

}  // namespace lamina::fft
#pragma GCC visibility pop

#endif  // LAMINA_LINALG_H_
