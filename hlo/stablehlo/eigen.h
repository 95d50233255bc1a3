// Eigenvalues of Hermitian matrices and singular values, by Jacobi rotations in double precision.
//
// Contract: they run as host calls that every process of this library knows by name (kEigh, kSvd), so their
// programs can be written and read. Vectors are determined up to a factor of size one; equal values may share
// their vectors in any way. Time grows with the cube of the size.
#ifndef LAMINA_HLO_STABLEHLO_EIGEN_H_
#define LAMINA_HLO_STABLEHLO_EIGEN_H_

#include <string_view>

namespace lamina::hlo::stablehlo {

// (a[..., n, n], lower triangle read) -> (vectors as columns, values in ascending order).
inline constexpr std::string_view kEigh = "lamina.eigh";
// (a[..., m, n]) -> (singular values in descending order, left vectors as columns, right ones as conjugated
// rows), as many vectors as the results have room for.
inline constexpr std::string_view kSvd = "lamina.svd";

// Makes both known to this process.
void register_eigen_calls();

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_EIGEN_H_
