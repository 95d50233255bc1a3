#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::ComputationPtr;
using hlo::Op;

Fn reduction(Op op, Dims dims) {
  return [=](Builder& b, std::span<const Value> x) { return Values{b.reduce(x[0], op, x[1], dims)}; };
}

TEST_CASE("derivatives of reductions", "[trace]") {
  Numbers n;
  check_grads(reduction(Op::add, {0, 2}), {n.array({3, 4, 2}), n.array({})});
  check_grads(reduction(Op::multiply, {1}), {n.array({2, 5}), n.array({})});
  check_grads(reduction(Op::multiply, {0, 1}), {n.array({3, 3}), n.array({})});
  check_grads(reduction(Op::maximum, {1}), {n.array({3, 5}), n.array({}, -9, -8)});
  check_grads(reduction(Op::minimum, {0}), {n.array({4, 2}), n.array({}, -9, -8)});
  check_grads(reduction(Op::add, {0}), {n.array({0, 2}), n.array({})});
}

TEST_CASE("a maximum shares its tangent among equals", "[trace]") {
  const Fn f = [](Builder& b, std::span<const Value> x) {
    return Values{b.reduce(x[0], Op::maximum, b.scalar(DType::kF64, -INFINITY), {{0}})};
  };
  const auto g = run(grad_of(f, 1), {literal({4}, {1, 3, 3, 2})})[0];
  CHECK(g->as<double>()[0] == 0);
  CHECK(g->as<double>()[1] == 0.5);
  CHECK(g->as<double>()[2] == 0.5);
  CHECK(g->as<double>()[3] == 0);
}

// argmax and max at once: (value, position).
ComputationPtr max_with_position() {
  const Type *v = f64({}), *i = s32({});
  auto region = hlo::record_region({{v, i, v, i}}, [](Builder& b, std::span<const Value> p) {
    const Value keep = b.compare(p[0], p[2], "GE");
    return Values{b.select(keep, p[0], p[2]), b.select(keep, p[1], p[3])};
  });
  REQUIRE(region.ok());
  return *region;
}

TEST_CASE("a reduction over two arrays", "[trace]") {
  Numbers n;
  const ComputationPtr body = max_with_position();
  check_grads(
      [&](Builder& b, std::span<const Value> x) {
        const Value position = b.iota(DType::kS32, x[0].dims(), 1);
        return b.reduce({{x[0], position}}, {{b.scalar(DType::kF64, -9), b.scalar_int(DType::kS32, -1)}},
                        body, {{1}});
      },
      {n.array({3, 5})});
}

Fn window(Op op, hlo::WindowDims w, double init) {
  return [=](Builder& b, std::span<const Value> x) {
    return b.reduce_window({{x[0]}}, {{b.scalar(DType::kF64, init)}}, hlo::binary_region(op, DType::kF64), w);
  };
}

TEST_CASE("derivatives of windows", "[trace]") {
  Numbers n;
  const hlo::WindowDims plain{{1, 2}, {1, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}};
  const hlo::WindowDims padded{{3, 2}, {2, 1}, {1, 1}, {1, 1}, {1, 1, 0, 1}};
  const hlo::WindowDims dilated{{2, 2}, {1, 2}, {2, 1}, {1, 2}, {1, 0, 1, 1}};
  const hlo::WindowDims cropped{{2, 2}, {1, 1}, {1, 1}, {1, 1}, {-1, 2, 0, -2}};
  for (const auto& w : {plain, padded, dilated, cropped}) {
    check_grads(window(Op::add, w, 0.5), {n.array({4, 6})});
    check_grads(window(Op::maximum, w, -9), {n.array({4, 6})});
    check_grads(window(Op::multiply, w, 1), {n.array({4, 6})});
  }
}

TEST_CASE("the first of equal elements wins a window", "[trace]") {
  const hlo::WindowDims w{{2}, {2}, {1}, {1}, {0, 0}};
  const auto g = run(grad_of(window(Op::maximum, w, -INFINITY), 1), {literal({4}, {3, 3, 1, 2})})[0];
  CHECK(g->as<double>()[0] == 1);
  CHECK(g->as<double>()[1] == 0);
  CHECK(g->as<double>()[2] == 0);
  CHECK(g->as<double>()[3] == 1);
}

TEST_CASE("derivatives of select_and_scatter", "[trace]") {
  Numbers n;
  auto ge = hlo::record_region({{f64({}), f64({})}}, [](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], p[1], "GE")};
  });
  REQUIRE(ge.ok());
  const auto attrs = [&] {
    return hlo::intern_attrs({{hlo::Attr::window_dimensions, Dims{2, 3}},
                              {hlo::Attr::window_strides, Dims{2, 2}},
                              {hlo::Attr::padding, Dims{0, 0, 1, 1}},
                              {hlo::Attr::select, *ge},
                              {hlo::Attr::scatter, hlo::binary_region(Op::add, DType::kF64)}});
  };
  check_grads([&](Builder& b,
                  std::span<const Value> x) { return Values{b.make(Op::select_and_scatter, x, attrs())}; },
              {n.array({4, 5}), n.array({2, 3}), n.array({})});
}

TEST_CASE("derivatives of sorts", "[trace]") {
  Numbers n;
  auto less = hlo::record_region(
      {{f64({}), f64({}), f64({}), f64({})}},
      [](Builder& b, std::span<const Value> p) { return Values{b.compare(p[0], p[1], "LT")}; });
  REQUIRE(less.ok());
  const auto attrs = [&] {
    return hlo::intern_attrs(
        {{hlo::Attr::dimension, int64_t{1}}, {hlo::Attr::is_stable, true}, {hlo::Attr::body, *less}});
  };
  check_grads([&](Builder& b, std::span<const Value> x) { return b.make_multi(Op::sort, x, attrs()); },
              {n.array({3, 5}), n.array({3, 5})});
}

TEST_CASE("derivatives of running sums", "[trace]") {
  Numbers n;
  for (const bool reverse : {false, true})
    check_grads([&](Builder& b, std::span<const Value> x) { return Values{b.cumsum(x[0], 1, reverse)}; },
                {n.array({2, 20, 3})});
}

}  // namespace
}  // namespace lamina::trace::test
