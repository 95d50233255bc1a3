// Derivatives of the host routines (hlo/linalg/calls.h), in terms of routines and ops that have derivatives.
#ifndef LAMINA_HLO_LINALG_DERIVATIVES_H_
#define LAMINA_HLO_LINALG_DERIVATIVES_H_

#include <span>

#include "hlo/custom_rule.h"

namespace lamina::hlo::linalg {

// The formatter finds no rest in lists of calls.
// clang-format off
#define LAMINA_LINALG_JVPS(F) \
  F(cholesky_jvp) F(lu_jvp) F(lu_solve_jvp) F(lu_solve_transposed_jvp) F(det_jvp) F(slogdet_jvp) \
  F(adjugate_jvp) F(qr_jvp) F(triangular_jvp) F(eigh_jvp) F(eigvalsh_jvp) F(svd_jvp) F(svdvals_jvp) \
  F(eig_jvp) F(eigvals_jvp) F(sylvester_jvp) F(sqrtm_jvp) F(fourier_jvp)
// clang-format on
#define LAMINA_DECLARE(name)                                                    \
  JvpResult name(Builder& b, const Node& node, std::span<const Value> operands, \
                 std::span<const Value> tangents);
LAMINA_LINALG_JVPS(LAMINA_DECLARE)
#undef LAMINA_DECLARE
#undef LAMINA_LINALG_JVPS

#define LAMINA_LINALG_TRANSPOSES(F) \
  F(lu_solve_transpose)             \
  F(lu_solve_transposed_transpose)  \
  F(triangular_transpose) F(sylvester_transpose) F(fourier_transpose) F(rfft_transpose) F(irfft_transpose)
#define LAMINA_DECLARE(name)                                                                               \
  Values name(Builder& b, const Node& node, std::span<const Value> operands, std::span<const bool> linear, \
              std::span<const Value> cotangents);
LAMINA_LINALG_TRANSPOSES(LAMINA_DECLARE)
#undef LAMINA_DECLARE
#undef LAMINA_LINALG_TRANSPOSES

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_DERIVATIVES_H_
