// Cholesky factors, and eigenvalues of Hermitian matrices.
#include "hlo/linalg/matrix.h"
#include "jit/cuda/factorization_parts.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Value;

// The mean of each matrix and its adjoint, in the numbers that their type holds.
Value mean_of(Builder& b, const Value& x, const Value& turned) {
  const Value sum = b.add(x, hlo::linalg::conj(b, turned));
  if (!hlo::is_complex(x.dtype())) return b.multiply(sum, b.full_like(sum, 0.5));
  const Value re = b.real(sum), half = b.full_like(re, 0.5);
  return b.complex(b.multiply(re, half), b.multiply(b.imag(sum), half));
}

// The lower triangle of Hermitian matrices.
Value lower_triangle(Builder& b, const Value& x) {
  if (!hlo::is_complex(x.dtype())) return hlo::linalg::lower_part(b, x);
  const auto number = [&](int64_t dimension) { return b.iota(hlo::DType::kS32, x.dims(), dimension); };
  const Value is_own = b.compare(number(1), number(2), "EQ"), im = b.imag(x);
  return hlo::linalg::lower_part(b, b.complex(b.real(x), b.select(is_own, b.zeros_like(im), im)));
}

}  // namespace

void add_hermitian_parts(FactorizationParts& p) {
  using Array = FactorizationParts::Array;
  const FactorizationForm& form = p.form();
  const hlo::DType part = hlo::part_type(form.type);
  const int64_t n = form.rows;
  Array a = p.operand(0);
  const Array flags = p.memory(part, {}), matrices = p.memory(form.compute, {n, n}), infos = p.infos();
  p.set_matrices(matrices);
  if (form.kind == FactorizationKind::kMeanCholesky) {
    // Of one element the matrix is its own transpose.
    const Array turned = n > 1 ? p.memory(form.type, {n, n}) : a, mean = p.memory(form.type, {n, n});
    if (n > 1)
      p.add(
          {a}, [](Builder& b, auto x) { return hlo::linalg::transposed(b, x[0]); }, turned);
    p.add(
        {a, turned}, [](Builder& b, auto x) { return mean_of(b, x[0], x[1]); }, mean);
    a = mean;
  }
  p.add(
      {a, p.number(part, 0)}, [](Builder& b, auto x) { return finite_flags(b, x[0], x[1], true); }, flags);
  p.add(
      {a, flags}, [&](Builder& b, auto x) { return computed(b, lower_triangle(b, x[0]), x[1], form); },
      matrices);
  if (form.values_elements == 0) {
    p.add_call();
    p.add(
        {matrices, infos, flags},
        [&](Builder& b, auto x) {
          const Value factor = nan_unless(b, has_factor(b, x[1], x[2]), x[0]);
          // Above the diagonal there is 0 in any case.
          return hlo::linalg::lower_part(b, b.convert(factor, form.type));
        },
        p.result(0));
    return;
  }
  const Array values = p.memory(form.values_type, {n});
  p.set_values(values);
  p.add_call();
  const bool has_vectors = form.kind == FactorizationKind::kEigen;
  if (has_vectors)
    p.add(
        {matrices, infos, flags},
        [&](Builder& b, auto x) {
          const Value vectors = hlo::linalg::adjoint(b, x[0]);
          return b.convert(nan_unless(b, has_factor(b, x[1], x[2]), vectors), form.type);
        },
        p.result(0));
  p.add(
      {values, infos, flags},
      [&](Builder& b, auto x) { return b.convert(nan_unless(b, has_factor(b, x[1], x[2]), x[0]), part); },
      p.result(has_vectors ? 1 : 0));
}

}  // namespace lamina::jit::cuda
