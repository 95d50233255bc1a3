// Complex derivatives follow JAX: the transpose does not conjugate, so the gradient of a real function of z =
// x + iy is df/dx - i df/dy.
#include <complex>

#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::Op;
using C = std::complex<double>;

LiteralPtr complex_literal(C z) { return hlo::Literal::copy_of(hlo::scalar_type(DType::kC128), &z); }
C value(const LiteralPtr& l) { return l->as<C>()[0]; }

// f real-valued; its gradient by central differences along both axes.
void check_real_gradient(const Fn& f, C at) {
  const double h = 1e-6;
  auto real = [&](C z) { return run(f, {complex_literal(z)})[0]->as<double>()[0]; };
  const C want((real(at + h) - real(at - h)) / (2 * h), -(real(at + C(0, h)) - real(at - C(0, h))) / (2 * h));
  const C got = value(run(grad_of(f, 1), {complex_literal(at)})[0]);
  INFO(got << " against " << want);
  CHECK(std::abs(got - want) < 1e-7 * std::max(1.0, std::abs(want)));
}

TEST_CASE("gradients of real functions of complex numbers", "[trace]") {
  const C at(0.7, -1.3);
  check_real_gradient([](Builder& b, std::span<const Value> x) { return Values{b.real(x[0])}; }, at);
  check_real_gradient([](Builder& b, std::span<const Value> x) { return Values{b.imag(x[0])}; }, at);
  check_real_gradient([](Builder& b, std::span<const Value> x) { return Values{b.abs(x[0])}; }, at);
  for (Op op : {Op::exponential, Op::log, Op::sine, Op::cosine, Op::tanh, Op::sqrt, Op::rsqrt, Op::logistic,
                Op::tan, Op::log_plus_one, Op::exponential_minus_one, Op::negate}) {
    INFO(hlo::op_def(op).name);
    check_real_gradient(
        [op](Builder& b, std::span<const Value> x) {
          const Value y = b.make(op, {{x[0]}});
          return Values{b.add(b.real(y), b.multiply(b.imag(y), b.scalar(DType::kF64, 0.5)))};
        },
        at);
  }
  check_real_gradient(
      [](Builder& b, std::span<const Value> x) {
        const Value z = b.complex(b.imag(x[0]), b.real(x[0]));
        return Values{b.real(b.divide(b.multiply(x[0], z), b.power(x[0], b.full_like(x[0], 2))))};
      },
      at);
}

TEST_CASE("complex tangents of holomorphic functions", "[trace]") {
  const C at(0.7, -1.3), t(0.3, 0.4);
  const Fn f = [](Builder& b, std::span<const Value> x) {
    return Values{b.exponential(b.multiply(x[0], x[0]))};
  };
  const C got = value(run(jvp_of(f, 1), {complex_literal(at), complex_literal(t)})[0]);
  CHECK(std::abs(got - t * 2.0 * at * std::exp(at * at)) < 1e-12);
  const C grad = value(run(grad_of(f, 1), {complex_literal(at)})[0]);
  CHECK(std::abs(grad - 2.0 * at * std::exp(at * at)) < 1e-12);
  CHECK(value(run(grad_of([](Builder& b, std::span<const Value> x) { return Values{b.abs(x[0])}; }, 1),
                  {complex_literal(0)})[0]) == C(0));
}

}  // namespace
}  // namespace lamina::trace::test
