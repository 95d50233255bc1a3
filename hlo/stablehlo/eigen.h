// Eigenvalues and singular values in double precision: Jacobi rotations for Hermitian matrices and for
// singular values, QR steps for the others.
//
// Contract: they run as host calls that every process of this library knows by name (kEigh, kSvd, kEig,
// kSchur), so their programs can be written and read. Vectors are determined up to a factor of size one;
// equal values may share their vectors in any way. Time grows with the cube of the size.
#ifndef LAMINA_HLO_STABLEHLO_EIGEN_H_
#define LAMINA_HLO_STABLEHLO_EIGEN_H_

#include <complex>
#include <cstdint>
#include <span>
#include <string_view>

namespace lamina::hlo::stablehlo {

// (a[..., n, n], lower triangle read) -> (vectors as columns, values in ascending order).
inline constexpr std::string_view kEigh = "lamina.eigh";
// (a[..., m, n]) -> (singular values in descending order, left vectors as columns, right ones as conjugated
// rows), as many vectors as the results have room for.
inline constexpr std::string_view kSvd = "lamina.svd";

// (a[..., n, n]) -> (values, left and right vectors as columns, of unit length with a real largest entry),
// all complex; NaN where the steps do not settle.
inline constexpr std::string_view kEig = "lamina.eig";
bool general_eigen(int64_t n, std::span<const std::complex<double>> matrix,
                   std::span<std::complex<double>> values, std::span<std::complex<double>> left,
                   std::span<std::complex<double>> right);

// (a[..., n, n]) -> (t, q), both complex: a = q t q^H with t upper triangular and q unitary.
inline constexpr std::string_view kSchur = "lamina.schur";
bool general_schur(int64_t n, std::span<const std::complex<double>> matrix, std::span<std::complex<double>> t,
                   std::span<std::complex<double>> q);

// Makes them known to this process.
void register_eigen_calls();

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_EIGEN_H_
