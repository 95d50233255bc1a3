// QR factors.
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

}  // namespace

void add_orthogonal_parts(FactorizationParts& p) { add_reflections(p); }

}  // namespace lamina::jit::cuda
