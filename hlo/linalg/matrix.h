// Ops on batches of matrices (the last two dimensions) that the routines and their derivatives are written
// in.
#ifndef LAMINA_HLO_LINALG_MATRIX_H_
#define LAMINA_HLO_LINALG_MATRIX_H_

#include "hlo/builder.h"

namespace lamina::hlo::linalg {

// The dimensions of the batch.
Dims outer_of(const Value& x);
Value conj(Builder& b, const Value& x);
Value transposed(Builder& b, const Value& x);
Value adjoint(Builder& b, const Value& x);
// The matrix product; batch dimensions are equal or 1.
Value product(Builder& b, const Value& x, const Value& y);
// Elements (i, j) with j - i <= k, or >= k; zero elsewhere.
Value lower_part(Builder& b, const Value& x, int64_t k = 0);
Value upper_part(Builder& b, const Value& x, int64_t k = 0);
// The identity in every matrix of the type of `like`.
Value eye_like(Builder& b, const Value& like);
// [..., k] of [..., m, n].
Value diagonal(Builder& b, const Value& x);
// The sum of the diagonal.
Value trace(Builder& b, const Value& x);
// [..., n] as the columns' or the rows' factors of [..., m, n].
Value along_columns(Builder& b, const Value& v, const Value& like);
Value along_rows(Builder& b, const Value& v, const Value& like);
// Real elements as real or complex ones of the same precision.
Value as_type(Builder& b, const Value& x, DType t);
Value real_part(Builder& b, const Value& x);
// The Hermitian matrix with the lower triangle of x.
Value hermitian(Builder& b, const Value& x);
// Rows of x[..., m, n] in the order s32[..., m].
Value take_rows(Builder& b, const Value& x, const Value& order);
// The columns first ... last-1.
Value columns(Builder& b, const Value& x, int64_t first, int64_t last);
Value rows(Builder& b, const Value& x, int64_t first, int64_t last);

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_MATRIX_H_
