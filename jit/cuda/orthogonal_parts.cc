// QR factors and singular values.
#include "hlo/linalg/matrix.h"
#include "jit/cuda/factorization_parts.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Value;
using hlo::linalg::columns;
using hlo::linalg::rows;
using hlo::linalg::transposed;
using Array = FactorizationParts::Array;

Value as_result(Builder& b, const Value& is_good, const Value& x, hlo::DType type) {
  return b.convert(nan_unless(b, is_good, x), type);
}

void add_reflections(FactorizationParts& p) {
  const FactorizationForm& form = p.form();
  const Array flags = add_general_operand(p, true), scales = p.memory(form.values_type, {form.steps()});
  p.set_values(scales);
  p.add_call();
  if (form.kind == FactorizationKind::kReflections) {
    p.add(
        {p.matrices(), flags},
        [&](Builder& b, auto x) {
          return as_result(b, is_flagged_finite(b, x[1]), transposed(b, x[0]), form.type);
        },
        p.result(0));
    p.add(
        {scales, flags},
        [&](Builder& b, auto x) { return as_result(b, is_flagged_finite(b, x[1]), x[0], form.type); },
        p.result(1));
    return;
  }
  p.add(
      {p.matrices(), flags},
      [&](Builder& b, auto x) {
        const Value r = columns(b, rows(b, transposed(b, x[0]), 0, form.width), 0, form.columns);
        return hlo::linalg::upper_part(b, as_result(b, is_flagged_finite(b, x[1]), r, form.type));
      },
      p.result(1));
  p.add_call(true);
  p.add(
      {p.matrices(), flags},
      [&](Builder& b, auto x) {
        const Value q = columns(b, transposed(b, x[0]), 0, form.width);
        return as_result(b, is_flagged_finite(b, x[1]), q, form.type);
      },
      p.result(0));
}

// Of matrices with fewer rows than columns the library gets the transpose, as they lie: what are left vectors
// there are the right ones as rows, and the other way round.
void add_singular(FactorizationParts& p) {
  const FactorizationForm& form = p.form();
  const bool is_tall = form.rows >= form.columns;
  const int64_t steps = form.steps();
  const Array flags = add_general_operand(p, is_tall), sizes = p.memory(form.values_type, {steps});
  p.set_values(sizes);
  const bool has_vectors = form.kind == FactorizationKind::kSingular;
  Array left, right;
  if (has_vectors) {
    p.set_left(left = p.memory(form.compute, {form.width, form.longer_side()}));
    p.set_right(right = p.memory(form.compute, {steps, steps}));
  }
  p.add_call();
  const auto add = [&](Array from, auto record, size_t result, hlo::DType type) {
    p.add(
        {from, p.infos(), flags},
        [&](Builder& b, auto x) { return as_result(b, has_factor(b, x[1], x[2]), record(b, x[0]), type); },
        p.result(result));
  };
  const auto same = [](Builder&, const Value& x) { return x; };
  add(sizes, same, 0, hlo::part_type(form.type));
  if (!has_vectors) return;
  if (is_tall) {
    const int64_t asked = p.result(1).type->dims[2];
    add(
        left, [&](Builder& b, const Value& x) { return columns(b, transposed(b, x), 0, asked); }, 1,
        form.type);
    add(
        right, [](Builder& b, const Value& x) { return transposed(b, x); }, 2, form.type);
  } else {
    const int64_t asked = p.result(2).type->dims[1];
    add(right, same, 1, form.type);
    add(
        left, [&](Builder& b, const Value& x) { return rows(b, x, 0, asked); }, 2, form.type);
  }
}

}  // namespace

void add_orthogonal_parts(FactorizationParts& p) {
  switch (p.form().kind) {
    case FactorizationKind::kReflections:
    case FactorizationKind::kQr:
      return add_reflections(p);
    default:
      return add_singular(p);
  }
}

}  // namespace lamina::jit::cuda
