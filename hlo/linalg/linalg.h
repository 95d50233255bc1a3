// Linear algebra and Fourier transforms for all front ends: readers, the Python and the C++ arrays.
//
// Contract: matrices are the last two dimensions, everything before them is a batch of equal dimensions in
// all operands; elements are f32, f64, c64 or c128. Errors are left in the builder. Nothing is computed while
// recording. Each has derivatives of every order in both modes, unless it says otherwise, and is batched so
// that the bits are those of a loop: what is recorded depends on the size of one matrix and its element type
// only. Small matrices become elementwise ops, which fuse; the others are host routines (hlo/linalg/calls.h).
// Matrices that have no such factor or solution give NaN or infinities, never an error.
#ifndef LAMINA_HLO_LINALG_LINALG_H_
#define LAMINA_HLO_LINALG_LINALG_H_

#include <optional>
#include <string_view>

#include "hlo/builder.h"

namespace lamina::hlo::linalg {

// Along dimension d, to or from n numbers: FFT, IFFT, RFFT or IRFFT.
Value fft_along(Builder& b, const Value& x, std::string_view kind, int64_t n, int64_t d);
// Over the last `length.size()` dimensions, as StableHLO's fft.
Value fft(Builder& b, const Value& x, std::string_view kind, std::span<const int64_t> length);

// What a node that is one of the calls that these become does along its last dimension; none for other nodes.
struct FourierCall {
  std::string_view kind;
  int64_t length;
};
std::optional<FourierCall> fourier_call(const Node& node);
// Whether it is one along the last dimension but one, and the same by a call along the last one.
bool is_fourier_of_columns(const Node& node);
absl::StatusOr<ComputationPtr> fourier_by_lines(const Node& node);

// The lower factor of a Hermitian matrix, of which the lower triangle is read.
Value cholesky(Builder& b, const Value& a);

enum class Transpose : uint8_t { kNo, kTranspose, kAdjoint };
// x with op(a) x = y, or x op(a) = y if not `left`; reads one triangle of `a`, and not its diagonal if
// `unit`.
Value triangular_solve(Builder& b, const Value& a, const Value& y, bool left, bool lower, bool unit,
                       Transpose op = Transpose::kNo);

// Packed factors of a with chosen rows, zero-based pivots s32[..., min(m, n)], and the order of rows that
// they make, s32[..., m].
struct Lu {
  Value packed, pivots, order;
};
Lu lu(Builder& b, const Value& a);

// x with a x = y, by LU factors.
Value solve(Builder& b, const Value& a, const Value& y);
Value inverse(Builder& b, const Value& a);
// The derivative is right for singular matrices too; the second one for those of up to 4 rows.
Value determinant(Builder& b, const Value& a);
// Sign and logarithm of the size of the determinant.
struct SignAndLog {
  Value sign, log;
};
SignAndLog log_determinant(Builder& b, const Value& a);

// q[m, k] and r[k, n], or q[m, m] and r[m, n] if `full`, which has no derivative for m > n.
struct Qr {
  Value q, r;
};
Qr qr(Builder& b, const Value& a, bool full);

// The exponential of square matrices, by scaling and squaring (N. Higham, "The scaling and squaring method
// for the matrix exponential revisited", 2005). NaN where more than `max_squarings` are needed, beyond a
// 1-norm of 5.37 * 2^max_squarings.
Value expm(Builder& b, const Value& a, int64_t max_squarings = 32);
// The Moore-Penrose inverse; singular values up to `rtol` (real, of the batch or 0-d) times the largest one
// count as zero. `hermitian` says that a is. The derivative is that at constant rank.
Value pinv(Builder& b, const Value& a, const Value& rtol, bool hermitian);

// --- small matrices as elementwise ops ---

// Whether a square matrix of n rows is small.
inline bool is_small(int64_t n) { return n <= 4; }
// For small a; see `solve`, `cholesky`, `determinant`, `log_determinant`, `triangular_solve` (lower or
// upper).
Value small_solve(Builder& b, const Value& a, const Value& y);
Value small_cholesky(Builder& b, const Value& a);
Value small_determinant(Builder& b, const Value& a);
SignAndLog small_log_determinant(Builder& b, const Value& a);
Value small_triangular_solve(Builder& b, const Value& a, const Value& y, bool lower, bool unit);

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_LINALG_H_
