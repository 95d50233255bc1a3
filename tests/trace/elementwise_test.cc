#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::Op;

struct Case {
  Op op;
  double low, high;
};

TEST_CASE("unary elementwise derivatives", "[trace]") {
  const Case cases[] = {
      {Op::abs, 0.2, 2},
      {Op::acos, -0.8, 0.8},
      {Op::acosh, 1.2, 3},
      {Op::asin, -0.8, 0.8},
      {Op::asinh, -2, 2},
      {Op::atan, -2, 2},
      {Op::atanh, -0.8, 0.8},
      {Op::cbrt, 0.3, 2},
      {Op::ceil, 0.1, 0.9},
      {Op::cosh, -2, 2},
      {Op::cosine, -2, 2},
      {Op::digamma, 0.6, 4},
      {Op::erf, -2, 2},
      {Op::erf_inv, -0.8, 0.8},
      {Op::erfc, -2, 2},
      {Op::exponential, -2, 2},
      {Op::exponential_minus_one, -2, 2},
      {Op::floor, 0.1, 0.9},
      {Op::lgamma, 0.6, 4},
      {Op::log, 0.3, 3},
      {Op::log_plus_one, -0.5, 3},
      {Op::logistic, -3, 3},
      {Op::negate, -2, 2},
      {Op::rsqrt, 0.3, 3},
      {Op::sign, 0.2, 2},
      {Op::sine, -2, 2},
      {Op::sinh, -2, 2},
      {Op::sqrt, 0.3, 3},
      {Op::tan, -1, 1},
      {Op::tanh, -2, 2},
  };
  for (const Case& c : cases) {
    INFO(hlo::op_def(c.op).name);
    Numbers numbers(static_cast<uint64_t>(c.op));
    check_grads([&](Builder& b, std::span<const Value> x) { return Values{b.make(c.op, {{x[0]}})}; },
                {numbers.array({2, 3}, c.low, c.high)});
  }
}

TEST_CASE("binary elementwise derivatives", "[trace]") {
  const Case cases[] = {{Op::add, -2, 2},     {Op::atan2, 0.3, 2},  {Op::divide, 0.5, 2},
                        {Op::maximum, -2, 2}, {Op::minimum, -2, 2}, {Op::multiply, -2, 2},
                        {Op::power, 0.5, 2},  {Op::subtract, -2, 2}};
  for (const Case& c : cases) {
    INFO(hlo::op_def(c.op).name);
    Numbers numbers(static_cast<uint64_t>(c.op));
    check_grads(
        [&](Builder& b, std::span<const Value> x) {
          return Values{b.make(c.op, {{x[0], x[1]}})};
        },
        {numbers.array({2, 3}, c.low, c.high), numbers.array({2, 3}, c.low, c.high)});
  }
  check_grads([](Builder& b, std::span<const Value> x) { return Values{b.remainder(x[0], x[1])}; },
              {literal({3}, {5.3, -4.1, 2.2}), literal({3}, {2, 1.5, 3})});
}

TEST_CASE("clamp and select derivatives", "[trace]") {
  Numbers numbers;
  check_grads([](Builder& b, std::span<const Value> x) { return Values{b.make(Op::clamp, x)}; },
              {numbers.array({8}, -2, -0.5), numbers.array({8}), numbers.array({8}, 0.5, 2)});
  check_grads(
      [](Builder& b, std::span<const Value> x) {
        return Values{b.select(b.compare(x[0], x[1], "LT"), b.sine(x[0]), b.multiply(x[1], x[1]))};
      },
      {numbers.array({8}), numbers.array({8})});
}

// The derivative of op at one point by its first operand.
double slope(Op op, std::vector<double> at, size_t by) {
  std::vector<LiteralPtr> xs;
  for (double v : at) xs.push_back(literal({}, {v}));
  const Fn f = [op](Builder& b, std::span<const Value> x) { return Values{b.make(op, x)}; };
  return run(grad_of(f, at.size()), xs)[by]->as<double>()[0];
}

TEST_CASE("derivatives at the edges", "[trace]") {
  CHECK(slope(Op::abs, {0}, 0) == 1);  // from above, as in JAX
  CHECK(slope(Op::maximum, {1, 1}, 0) == 0.5);
  CHECK(slope(Op::maximum, {1, 1}, 1) == 0.5);
  CHECK(slope(Op::minimum, {2, 1}, 0) == 0);
  CHECK(slope(Op::minimum, {2, 1}, 1) == 1);
  CHECK(std::isinf(slope(Op::sqrt, {0}, 0)));
  CHECK(slope(Op::power, {0, 0}, 0) == 0);
  CHECK(slope(Op::power, {0, 0}, 1) == 0);
  CHECK(slope(Op::power, {0, 2}, 0) == 0);
  CHECK(slope(Op::power, {0, 2}, 1) == 0);
  CHECK(slope(Op::power, {-2, 2}, 0) == -4);
  CHECK(slope(Op::clamp, {0, 0, 1}, 1) == 0);
  CHECK(slope(Op::clamp, {0, 2, 1}, 2) == 1);
}

TEST_CASE("derivatives keep the element type", "[trace]") {
  for (DType t : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (int i = 0; i < hlo::num_ops(); ++i) {
      const hlo::OpDef& def = hlo::op_def(static_cast<Op>(i));
      if (!def.is_elementwise() || def.arity > 2 || def.arity < 1) continue;
      const Type* type = hlo::array_type_or_die(t, {{2}});
      const std::vector<const Type*> operands(def.arity, type);
      // Ops that need attributes or other element types are not meant.
      if (!def.type(operands, *hlo::no_attrs()).ok() || def.op == Op::convert) continue;
      INFO(def.name << " " << hlo::info(t).name);
      const Fn f = [&](Builder& b, std::span<const Value> x) { return Values{b.make(def.op, x)}; };
      auto graph = hlo::record_region(operands, grad_of(grad_of(f, def.arity), def.arity));
      INFO(graph.status());
      REQUIRE(graph.ok());
      for (const Type* r : (*graph)->result_types()) CHECK(r == type);
    }
  }
}

TEST_CASE("integers have no tangents", "[trace]") {
  const Fn f = [](Builder& b, std::span<const Value> x) {
    return Values{b.multiply(x[0], b.convert(b.convert(x[0], DType::kS32), DType::kF64))};
  };
  CHECK(run(grad_of(f, 1), {literal({2}, {2.5, 3.5})})[0]->as<double>()[0] == 2);
}

}  // namespace
}  // namespace lamina::trace::test
