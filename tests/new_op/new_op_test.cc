// An elementwise op is a row and a rule: one that only this program has runs through everything there is.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "hlo/scalar/adapters.h"
#include "hlo/scalar/math.h"
#include "hlo/verifier.h"
#include "tests/build_paths.h"
#include "tests/smith/executors.h"
#include "trace/jvp.h"
#include "trace/rules/rules.h"

namespace lamina::testing {
namespace {

using namespace hlo;

// Place one: the rule. softsign(x) = x / (1 + |x|).
Scalar softsign(Scalar x) { return scalar::divide(x, scalar::add(scalar::constant(x, 1), scalar::abs(x))); }

// Place two: the row.
OpDef softsign_row() {
  OpDef row{};
  row.name = "softsign";
  row.arity = 1;
  row.type = [](std::span<const Type* const> t, const Attrs&) -> absl::StatusOr<const Type*> {
    if (!t[0]->is_array() || !is_float(t[0]->dtype))
      return absl::InvalidArgumentError("softsign is defined for floats");
    return t[0];
  };
  row.scalar = [](std::span<const DType> operands, DType result, const Attrs&) {
    return scalar::record_rule(scalar::unary<softsign>, operands, result);
  };
  return row;
}

JvpResult softsign_jvp(Builder& b, const Node&, std::span<const Value> x, std::span<const Value> t) {
  const Value one = b.broadcast_scalar(b.scalar(x[0].dtype(), 1), x[0].dims());
  const Value scale = b.add(one, b.abs(x[0]));
  return {{b.divide(t[0], b.multiply(scale, scale))}, {}};
}

Op softsign_op() {
  static const Op op = *trace::add_elementwise_op(softsign_row(), softsign_jvp);
  return op;
}

double value(double x) { return x / (1 + std::fabs(x)); }

TEST_CASE("an added op is in the table, once", "[new_op]") {
  const Op op = softsign_op();
  CHECK(static_cast<int>(op) == kNumStaticOps);
  CHECK(num_ops() == kNumStaticOps + 1);
  CHECK(parse_op("softsign") == op);
  CHECK(op_def(op).name == "softsign");
  CHECK(add_elementwise_op(softsign_row()).status().code() == absl::StatusCode::kAlreadyExists);
  OpDef incomplete = softsign_row();
  incomplete.name = "softer_sign";
  incomplete.scalar = nullptr;
  CHECK(add_elementwise_op(incomplete).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(!parse_op("softer_sign"));
}

TEST_CASE("an added op has text, a verifier and values", "[new_op]") {
  softsign_op();
  const auto program =
      parse("computation main(p0: f64[4]) -> (f64[4]) {\n  v0 = f64[4] softsign(p0)\n  return (v0)\n}\n");
  REQUIRE(program.ok());
  CHECK(verify(**program).ok());
  CHECK(*parse(print(**program)) == *program);
  const double x[] = {-3, -0.0, 0.25, INFINITY};
  const auto y = evaluate(**program, {{Literal::copy_of(array_type_or_die(DType::kF64, {{4}}), x)}});
  REQUIRE(y.ok());
  double have[4];
  std::memcpy(have, (*y)[0]->data(), sizeof have);
  for (int i = 0; i < 3; ++i) CHECK(have[i] == value(x[i]));
  CHECK(std::isnan(have[3]));
  const auto wrong =
      parse("computation main(p0: s32[4]) -> (s32[4]) {\n  v0 = s32[4] softsign(p0)\n  return (v0)\n}\n");
  CHECK(wrong.status().message().find("softsign is defined for floats") != absl::string_view::npos);
}

TEST_CASE("an added op has derivatives in both modes and to the second order", "[new_op]") {
  const Op op = softsign_op();
  for (double x : {-2.0, -0.5, 0.75, 3.0}) {
    Builder b;
    const Value p = make_parameter(scalar_type(DType::kF64)), one = b.scalar(DType::kF64, 1.0);
    auto tangent = [&](const Value& y) { return trace::jvp({{y}}, {{p}}, {{one}})->tangents[0]; };
    const Value y = b.make(op, {{p}}, no_attrs()), first = tangent(y), second = tangent(first);
    REQUIRE(b.ok());
    const auto program = Computation::make({{p}}, {{first, second}});
    REQUIRE(program.ok());
    const auto have = evaluate(**program, {{Literal::copy_of(scalar_type(DType::kF64), &x)}});
    REQUIRE(have.ok());
    double d1, d2;
    std::memcpy(&d1, (*have)[0]->data(), 8);
    std::memcpy(&d2, (*have)[1]->data(), 8);
    const double h = 1e-4;
    CHECK(d1 == Approx((value(x + h) - value(x - h)) / (2 * h)).epsilon(1e-6));
    CHECK(d2 == Approx((value(x + h) - 2 * value(x) + value(x - h)) / (h * h)).epsilon(1e-4));
  }
}

TEST_CASE("random programs hold an added op and agree in every way of running", "[new_op][smith]") {
  const Op op = softsign_op();
  int holding = 0;
  SmithOptions options;
  options.operations = 60;
  const std::vector<SmithExecutor> executors = smith_executors(kCodeGenerator);
  for (uint64_t seed = 0; holding < 40 && seed < 2000; ++seed) {
    const ComputationPtr program = random_program(seed, options);
    bool holds = false;
    for (const Node* n : program->nodes()) holds = holds || n->op() == op;
    if (!holds) continue;
    ++holding;
    for (const SmithExecutor& executor : executors) {
      INFO("seed " << seed << "\n" << print(*program));
      CHECK(difference(program, executor, seed) == "");
    }
  }
  CHECK(holding == 40);
}

}  // namespace
}  // namespace lamina::testing
