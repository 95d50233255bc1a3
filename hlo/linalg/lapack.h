// LAPACK, if the machine has it: OpenBLAS or another library with Fortran's names, opened at the first use.
//
// Contract: `use_lapack` says whether problems of a size go there; the functions below may be called only
// then. Matrices are column-major and dense. OpenBLAS is held to one thread (of the whole process, if it
// shares the library): results do not depend on a number of threads. The variable LAMINA_LAPACK names another
// library, or none if it is empty.
#ifndef LAMINA_HLO_LINALG_LAPACK_H_
#define LAMINA_HLO_LINALG_LAPACK_H_

#include <vector>

#include "hlo/linalg/host.h"

namespace lamina::hlo::linalg::lapack {

// Whether there is a LAPACK.
bool present();
// Whether matrices of this shape go there: those with a dimension of at least `least`, and no larger than
// LAPACK's integers can count.
inline constexpr int64_t kLeast = 32;
bool use_lapack(int64_t rows, int64_t columns, int64_t least = kLeast);
// `least` of real matrices that are else factored and solved side by side.
template <typename T>
inline constexpr int64_t kLeastInLanes = kIsComplex<T> ? kLeast : kMostLaneRows + 1;

// Each returns LAPACK's `info`: 0 if all went well. Names are LAPACK's without the letter of the type.
int potrf(Matrix<double>& a);
int potrf(Matrix<Complex>& a);
// One-based pivots.
int getrf(Matrix<double>& a, std::vector<int>& pivots);
int getrf(Matrix<Complex>& a, std::vector<int>& pivots);
// b becomes op(a)^-1 b for a triangular a; trans is N, T or C.
void trsm(bool lower, char trans, bool unit, const Matrix<double>& a, Matrix<double>& b);
void trsm(bool lower, char trans, bool unit, const Matrix<Complex>& a, Matrix<Complex>& b);
// a becomes reflections and the triangle.
int geqrf(Matrix<double>& a, std::vector<double>& scales);
int geqrf(Matrix<Complex>& a, std::vector<Complex>& scales);
// The columns of a, whose first ones hold reflections, become orthonormal ones.
int orgqr(Matrix<double>& a, const std::vector<double>& scales);
int orgqr(Matrix<Complex>& a, const std::vector<Complex>& scales);
// The lower triangle is read; a becomes the vectors if asked for.
int heevd(bool vectors, Matrix<double>& a, std::vector<double>& values);
int heevd(bool vectors, Matrix<Complex>& a, std::vector<double>& values);
// job: N, S or A; a is lost.
int gesdd(char job, Matrix<double>& a, std::vector<double>& sizes, Matrix<double>& u, Matrix<double>& v);
int gesdd(char job, Matrix<Complex>& a, std::vector<double>& sizes, Matrix<Complex>& u, Matrix<Complex>& v);
// Left and right vectors if asked for; a is lost.
int geev(bool vectors, Matrix<double>& a, std::vector<Complex>& values, Matrix<Complex>& left,
         Matrix<Complex>& right);
int geev(bool vectors, Matrix<Complex>& a, std::vector<Complex>& values, Matrix<Complex>& left,
         Matrix<Complex>& right);
// a becomes the triangle, q the vectors.
int gees(Matrix<double>& a, Matrix<double>& q);
int gees(Matrix<Complex>& a, Matrix<Complex>& q);

}  // namespace lamina::hlo::linalg::lapack

#endif  // LAMINA_HLO_LINALG_LAPACK_H_
