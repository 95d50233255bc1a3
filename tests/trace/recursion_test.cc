#include "trace/recursion.h"

#include "hlo/evaluator.h"
#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::ComputationPtr;

ComputationPtr region(std::vector<const Type*> types, const Fn& f) {
  auto c = hlo::record_region(types, f);
  INFO(c.status());
  REQUIRE(c.ok());
  return *c;
}

Value zero(Builder& b) { return b.scalar_int(DType::kS32, 0); }

// f(n, x, w): x if n < 1, else w * f(n - 1, sin x, w) + f(n - 2, x, w).
RecursiveFunction two_calls() {
  const std::vector<const Type*> types{s32({}), f64({}), f64({})};
  const ComputationPtr stops = region(types, [](Builder& b, std::span<const Value> p) {
    return Values{p[1], zero(b)};
  });
  const ComputationPtr goes_on = region(types, [](Builder& b, std::span<const Value> p) {
    const Value less = b.subtract(p[0], b.scalar_int(DType::kS32, 1));
    const Type* x = p[1].type();
    const Values first = recursive_call(b, 7, {{less, b.sine(p[1]), p[2], zero(b)}}, {{x}});
    if (!b.ok()) return Values(2);
    const Value two_less = b.subtract(p[0], b.scalar_int(DType::kS32, 2));
    const Values second = recursive_call(b, 7, {{two_less, p[1], p[2], first[1]}}, {{x}});
    return b.ok() ? Values{b.add(b.multiply(p[2], first[0]), second[0]), second[1]} : Values(2);
  });
  return {7,
          region(types,
                 [&](Builder& b, std::span<const Value> p) {
                   const Value test = b.compare(p[0], b.scalar_int(DType::kS32, 1), "GE");
                   return b.conditional(b.convert(test, DType::kS32), {{stops, goes_on}}, p);
                 }),
          3};
}

double in_cpp(int n, double x, double w) {
  return n < 1 ? x : w * in_cpp(n - 1, std::sin(x), w) + in_cpp(n - 2, x, w);
}

// (n, x, w) -> result, error.
ComputationPtr program(int64_t deepest) {
  return region({s32({}), f64({}), f64({})}, [&](Builder& b, std::span<const Value> p) {
    return record_recursion(b, {{two_calls()}}, p, deepest, 5);
  });
}

std::pair<double, int64_t> evaluated(const ComputationPtr& c, int64_t n, double x, double w) {
  const auto out =
      hlo::evaluate(*c, {{hlo::Literal::scalar_int(DType::kS32, n), hlo::Literal::scalar(DType::kF64, x),
                          hlo::Literal::scalar(DType::kF64, w)}});
  INFO(out.status());
  REQUIRE(out.ok());
  return {(*out)[0]->double_at(0), (*out)[1]->int_at(0)};
}

TEST_CASE("a recursion is one loop for all depths", "[trace]") {
  const ComputationPtr c = program(100);
  int loops = 0;
  for (const hlo::Node* n : c->nodes()) loops += n->op() == hlo::Op::while_;
  CHECK(loops == 1);
  for (int n = 0; n < 9; ++n) {
    const auto [result, error] = evaluated(c, n, 0.3, 0.8);
    CHECK(std::abs(result - in_cpp(n, 0.3, 0.8)) < 1e-12);
    CHECK(error == 0);
  }
}

TEST_CASE("a recursion that is too deep says so", "[trace]") {
  const ComputationPtr c = program(4);
  CHECK(evaluated(c, 3, 0.3, 0.8).second == 0);
  CHECK(evaluated(c, 4, 0.3, 0.8).second == 5);
  CHECK(evaluated(program(5), 4, 0.3, 0.8).second == 0);
}

TEST_CASE("what no call changes is no argument of the calls", "[trace]") {
  const RecursiveFunction f = two_calls();
  const auto calls = CallSequence::of({{f}});
  REQUIRE(calls.ok());
  CHECK(calls->fixed() == std::vector<size_t>{2});
  // n and x go from call to call; frames hold both, and what the first call gave.
  CHECK(calls->registers().size() == 2);
  CHECK(calls->frame().size() == 2);
  CHECK(calls->num_segments() == 3);
}

TEST_CASE("derivatives of recursions", "[trace]") {
  Numbers n;
  check_grads(
      [&](Builder& b, std::span<const Value> x) {
        const Values out = record_recursion(b, {{two_calls()}}, {{x[2], x[0], x[1]}}, 50, 5);
        return b.ok() ? Values{out[0]} : Values();
      },
      {n.array({}), n.array({}), integers({}, {4})});
}

TEST_CASE("a recursive call that names no function is an error", "[trace]") {
  RecursiveFunction f = two_calls();
  f.number = 3;
  CHECK_FALSE(CallSequence::of({{f}}).ok());
}

}  // namespace
}  // namespace lamina::trace::test
