// LU factors, solutions and determinants by them.
#include "hlo/linalg/matrix.h"
#include "jit/cuda/factorization_parts.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Dims;
using hlo::DType;
using hlo::Value;
using Array = FactorizationParts::Array;

// Numbers along a dimension.
Value number_of(Builder& b, const Dims& dims, int64_t dimension) {
  return b.iota(DType::kS32, dims, dimension);
}

// The pivots s32[steps, count], each of which exchanged two of m rows, as the order of rows s32[count, m].
// Every row is followed back by itself.
Value order_of(Builder& b, const Value& pivots, int64_t m) {
  const int64_t steps = pivots.dims()[0], count = pivots.dims()[1];
  const Value rows = number_of(b, Dims{count, m}, 1), last = b.scalar_int(DType::kS32, steps - 1);
  const hlo::Type* const types[] = {rows.type(), last.type(),
                                    hlo::array_type_or_die(DType::kS32, Dims{count})};
  const absl::StatusOr<hlo::ComputationPtr> body =
      hlo::record_region(types, [](Builder& s, std::span<const Value> x) {
        const Value one = s.broadcast_scalar(x[1], x[0].dims()), other = of_each(s, x[2], x[0]);
        const Value row =
            s.select(s.compare(x[0], one, "EQ"), other, s.select(s.compare(x[0], other, "EQ"), one, x[0]));
        return hlo::Values{row, s.subtract(x[1], s.full_like(x[1], 1))};
      });
  if (!body.ok()) return b.fail(body.status());
  return b.scan(*body, {{rows, last}}, {{pivots}}, steps, true)[0];
}

// One more than the place that each row went to, 0 for one that is nowhere.
Value places_of(Builder& b, const Value& order, const Value& zero) {
  const Dims dims{order.dims()[0], order.dims()[1], order.dims()[1]};
  const Value taken = b.broadcast_in_dim(order, dims, Dims{0, 2}), number = number_of(b, dims, 2);
  const Value is_here = b.compare(taken, number_of(b, dims, 1), "EQ");
  const Value place = b.select(is_here, b.add(number, b.full_like(number, 1)), b.zeros_like(number));
  return b.reduce(place, hlo::Op::maximum, zero, Dims{2});
}
// How many rows are nowhere: of an order of rows none.
Value missing_of(Builder& b, const Value& places, const Value& zero) {
  const Value is_missing = b.compare(places, b.zeros_like(places), "EQ");
  return b.reduce(b.convert(is_missing, DType::kS32), hlo::Op::add, zero, Dims{1});
}
Value is_order(Builder& b, const Value& missing) { return b.compare(missing, b.zeros_like(missing), "EQ"); }

// How many pairs of rows are exchanged.
Value inversions_of(Builder& b, const Value& order, const Value& zero) {
  const Dims dims{order.dims()[0], order.dims()[1], order.dims()[1]};
  const Value first = b.broadcast_in_dim(order, dims, Dims{0, 1}),
              second = b.broadcast_in_dim(order, dims, Dims{0, 2});
  const Value is_pair = b.compare(number_of(b, dims, 1), number_of(b, dims, 2), "LT");
  const Value is_exchanged = b.and_(is_pair, b.compare(first, second, "GT"));
  return b.reduce(b.convert(is_exchanged, DType::kS32), hlo::Op::add, zero, Dims{1, 2});
}

// x where the order is one of rows and they are exchanged an even number of times, else -x, or NaN. No -0.
Value with_sign(Builder& b, const Value& x, const Value& inversions, const Value& missing) {
  const Value one = b.full_like(inversions, 1);
  const Value is_odd = b.compare(b.and_(inversions, one), one, "EQ");
  return b.add(nan_unless(b, is_order(b, missing), b.select(is_odd, b.negate(x), x)), b.zeros_like(x));
}

// x of this size with size 1, or 0.
Value unit_of(Builder& b, const Value& x, const Value& size) {
  const Value is_zero = b.compare(size, b.zeros_like(size), "EQ");
  const auto part = [&](const Value& of) { return b.select(is_zero, b.zeros_like(of), b.divide(of, size)); };
  return hlo::is_complex(x.dtype()) ? b.complex(part(b.real(x)), part(b.imag(x))) : part(x);
}

// The diagonals of matrices of n rows that lie as lines.
Value diagonal_of(Builder& b, const Value& lines, int64_t n) {
  return b.slice(lines, Dims{0, 0}, lines.dims(), Dims{1, n + 1});
}

Value convert_turned(Builder& b, const Value& x, DType type) {
  return b.convert(hlo::linalg::transposed(b, x), type);
}

void add_lu(FactorizationParts& p) {
  const FactorizationForm& form = p.form();
  const int64_t steps = form.steps();
  const Array flags = add_general_operand(p, true), pivots = p.memory(form.values_type, {steps});
  p.set_values(pivots);
  p.add_call();
  p.add(
      {p.matrices(), flags},
      [&](Builder& b, auto x) {
        return nan_unless(b, is_flagged_finite(b, x[1]), convert_turned(b, x[0], form.type));
      },
      p.result(0));
  p.add(
      {pivots},
      [](Builder& b, auto x) {
        const Value numbers = b.convert(x[0], DType::kS32);
        return b.subtract(numbers, b.full_like(numbers, 1));
      },
      p.result(1));
  const Array in_turn{p.memory(DType::kS32, {steps}).number,
                      hlo::array_type_or_die(DType::kS32, Dims{steps, form.count})};
  p.add(
      {p.result(1)},
      [](Builder& b, auto x) {
        return b.transpose(x[0], Dims{1, 0});
      },
      in_turn);
  p.add(
      {in_turn}, [&](Builder& b, auto x) { return order_of(b, x[0], form.rows); }, p.result(2));
}

void add_solve(FactorizationParts& p) {
  const FactorizationForm& form = p.form();
  const Array flags = add_general_operand(p, true), pivots = p.memory(form.values_type, {form.rows}),
              right = p.memory(form.compute, {form.width, form.rows});
  p.set_values(pivots);
  p.set_right(right);
  p.add(
      {p.operand(1)}, [&](Builder& b, auto x) { return convert_turned(b, x[0], form.compute); }, right);
  p.add_call();
  p.add(
      {right, flags},
      [&](Builder& b, auto x) {
        return nan_unless(b, is_flagged_finite(b, x[1]), convert_turned(b, x[0], form.type));
      },
      p.result(0));
}

// The order of rows, and whether it is one.
struct Order {
  Array order, zero, places, missing;
};
Order add_order(FactorizationParts& p) {
  const int64_t n = p.form().rows;
  const Order o{p.operand(2), p.number(DType::kS32, 0), p.memory(DType::kS32, {n}),
                p.memory(DType::kS32, {})};
  p.add(
      {o.order, o.zero}, [](Builder& b, auto x) { return places_of(b, x[0], x[1]); }, o.places);
  p.add(
      {o.places, o.zero}, [](Builder& b, auto x) { return missing_of(b, x[0], x[1]); }, o.missing);
  return o;
}

// By factors and the order of rows, which is taken by kernels: the library gets pivots that exchange nothing.
void add_solve_by_factors(FactorizationParts& p) {
  const FactorizationForm& form = p.form();
  const int64_t n = form.rows;
  const bool is_transposed = form.kind == FactorizationKind::kLuSolveTransposed;
  const Order o = add_order(p);
  const Array matrices = p.memory(form.compute, {n, n}), pivots = p.memory(form.values_type, {n}),
              right = p.memory(form.compute, {form.width, n}), given = p.operand(3),
              ordered = p.memory(form.type, {n, form.width});
  p.set_matrices(matrices);
  p.set_values(pivots);
  p.set_right(right);
  const auto take = [](Builder& b, auto x) { return hlo::linalg::take_rows(b, x[0], x[1]); };
  p.add(
      {p.operand(1)}, [&](Builder& b, auto x) { return convert_turned(b, x[0], form.compute); }, matrices);
  p.add(
      {},
      [&](Builder& b, auto) {
        const Value numbers = b.iota(form.values_type, Dims{form.count, n}, 1);
        return b.add(numbers, b.full_like(numbers, 1));
      },
      pivots);
  if (!is_transposed) p.add({given, o.order}, take, ordered);
  p.add(
      {is_transposed ? given : ordered},
      [&](Builder& b, auto x) { return convert_turned(b, x[0], form.compute); }, right);
  p.add_call();
  p.add(
      {right, o.missing},
      [&](Builder& b, auto x) {
        return nan_unless(b, is_order(b, x[1]), convert_turned(b, x[0], form.type));
      },
      is_transposed ? ordered : p.result(0));
  if (!is_transposed) return;
  const Array places = p.memory(DType::kS32, {n});
  p.add(
      {o.places}, [](Builder& b, auto x) { return b.subtract(x[0], b.full_like(x[0], 1)); }, places);
  p.add({ordered, places}, take, p.result(0));
}

void add_determinant(FactorizationParts& p) {
  const FactorizationForm& form = p.form();
  const int64_t n = form.rows;
  const Order o = add_order(p);
  const Array inversions = p.memory(DType::kS32, {}), numbers = p.memory(form.compute, {n}),
              one = p.number(form.compute, 1), product = p.memory(form.compute, {}),
              lines{p.operand(1).number, hlo::array_type_or_die(form.type, Dims{form.count, n * n})};
  p.add(
      {o.order, o.zero}, [](Builder& b, auto x) { return inversions_of(b, x[0], x[1]); }, inversions);
  p.add(
      {lines}, [&](Builder& b, auto x) { return b.convert(diagonal_of(b, x[0], n), form.compute); }, numbers);
  const auto multiply = [](Builder& b, const Value& x, const Value& start) {
    return b.reduce(x, hlo::Op::multiply, start, Dims{1});
  };
  if (form.kind == FactorizationKind::kDeterminant) {
    p.add(
        {numbers, one}, [&](Builder& b, auto x) { return multiply(b, x[0], x[1]); }, product);
  } else {
    const DType part = hlo::part_type(form.compute);
    const Array sizes = p.memory(part, {n}), units = p.memory(form.compute, {n}), logs = p.memory(part, {n});
    p.add(
        {numbers}, [](Builder& b, auto x) { return b.abs(x[0]); }, sizes);
    p.add(
        {numbers, sizes}, [](Builder& b, auto x) { return unit_of(b, x[0], x[1]); }, units);
    p.add(
        {units, one}, [&](Builder& b, auto x) { return multiply(b, x[0], x[1]); }, product);
    p.add(
        {sizes}, [](Builder& b, auto x) { return b.log(x[0]); }, logs);
    p.add(
        {logs, p.number(part, 0)},
        [&](Builder& b, auto x) {
          return b.convert(b.reduce(x[0], hlo::Op::add, x[1], Dims{1}), hlo::part_type(form.type));
        },
        p.result(1));
  }
  p.add(
      {product, inversions, o.missing},
      [&](Builder& b, auto x) { return b.convert(with_sign(b, x[0], x[1], x[2]), form.type); }, p.result(0));
}

}  // namespace

void add_elimination_parts(FactorizationParts& p) {
  switch (p.form().kind) {
    case FactorizationKind::kLu:
      return add_lu(p);
    case FactorizationKind::kSolve:
      return add_solve(p);
    case FactorizationKind::kLuSolve:
    case FactorizationKind::kLuSolveTransposed:
      return add_solve_by_factors(p);
    default:
      return add_determinant(p);
  }
}

}  // namespace lamina::jit::cuda
