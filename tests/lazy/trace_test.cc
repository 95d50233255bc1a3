// What functions record: shapes, programs, what they use from outside; and rules made of that.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

TEST_CASE("eval_shape gives structure and types, and computes nothing", "[api][trace]") {
  int runs = 0;
  auto f = [&](const Tensor& x, int times) {
    io_callback([&runs](const Tensor&) { ++runs; }, std::tuple(x));
    return std::map<std::string, std::vector<Tensor>>{{"a", {matmul(x, x.T()), x > 0}},
                                                      {"b", {sum(x) * times}}};
  };
  const auto like = eval_shape(f, std::tuple(zeros({1000, 3}), 2));
  CHECK(like.at("a")[0].shape() == Shape{1000, 1000});
  CHECK(like.at("a")[1].dtype() == DType::boolean);
  CHECK(like.at("b")[0].shape().empty());
  CHECK(runs == 0);
  CHECK(eval_shape([](const Tensor& x) { return x * 2; }, std::tuple(Tensor(1))).weakly_typed());
  CHECK(contains(error_of([] {
                   eval_shape([](const Tensor& x) { return matmul(x, x); }, std::tuple(ones({2, 3})));
                 }),
                 "trace_test.cc:"));
}

TEST_CASE("make_trace shows what a function records", "[api][trace]") {
  const Trace trace = make_trace(
      [](const Tensor& x) {
        const Tensor unused = cos(x);
        return sin(x) * 2 +
               scan([](const Tensor& c, const Tensor& y) { return std::pair(c + y, c); }, Tensor(0.f), x)
                   .first;
      },
      std::tuple(ones({3})));
  std::vector<std::string> names;
  for (const Trace::Operation& o : trace.operations) {
    names.push_back(o.name);
    CHECK(contains(o.where, "trace_test.cc:"));
  }
  for (const char* name : {"sine", "multiply", "scan"})
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  CHECK(std::count(names.begin(), names.end(), "cosine") == 0);
  CHECK(contains(trace.text, "computation main(p0: f32[3]) -> (f32[3])"));
  CHECK(contains(trace.text, "sine(p0)"));
  const auto of_grad = make_trace(grad([](const Tensor& x) { return sum(x * x); }), std::tuple(ones({3})));
  CHECK(of_grad.operations.back().result == "float32[3]");
}

TEST_CASE("closure_convert gives what a derivative may be taken by", "[api][trace]") {
  const Tensor fixed = array({1., 2.});
  auto loss = [&](const Tensor& w) {
    auto inner = [&](const Tensor& x) { return sum(w * x * fixed); };
    const auto [converted, tensors] = closure_convert(inner, std::tuple(zeros({2}, DType::float64)));
    CHECK(tensors.size() == 1);
    const Tensor x = array({3., 4.});
    return converted(x, tensors) + converted(x, {2 * tensors[0]});
  };
  CHECK(doubles(grad(loss)(array({5., 6.}))) == Doubles{9, 24});
  const auto [alone, none] = closure_convert([&](const Tensor& x) { return x * fixed; }, std::tuple(fixed));
  CHECK(none.empty());
  CHECK(doubles(alone(fixed, {})) == Doubles{1, 4});
  CHECK(contains(error_of([&alone = alone, &fixed] { alone(fixed, {fixed}); }, ErrorKind::kValue),
                 "takes 1 tensors, not 2"));
  CHECK(contains(error_of([&alone = alone] { alone(ones({3}), {}); }, ErrorKind::kType), "float32[3]"));
}

TEST_CASE("custom_gradient: a value with its rule", "[api][trace]") {
  auto clipped = custom_gradient([](const Tensor& x) {
    return std::pair(x * x, [x](const Tensor& g) { return clip(2 * x * g, -3, 3); });
  });
  CHECK(clipped(Tensor(5.0)).item() == 25);
  CHECK(grad(clipped)(Tensor(1.0)).item() == 2);
  CHECK(grad(clipped)(Tensor(5.0)).item() == 3);
  CHECK(jit(grad(clipped))(Tensor(5.0)).item() == 3);
  CHECK(floats(vmap(grad(clipped))(array({1.f, -5.f, 0.5f}))) == Floats{2, -3, 1});
  CHECK(grad(grad(clipped))(Tensor(1.0)).item() == 2);
  CHECK(grad(grad(clipped))(Tensor(5.0)).item() == 0);
  // In a loop, of two arguments, with values that the rule keeps.
  auto product = custom_gradient([](const Tensor& x, const std::vector<Tensor>& ys) {
    const Tensor e = exp(x);
    return std::pair(std::pair(e * ys[0], ys[1]), [e, ys](const std::pair<Tensor, Tensor>& g) {
      return std::tuple(10 * e * ys[0] * g.first, std::vector<Tensor>{e * g.first, g.second});
    });
  });
  auto loop = [&](const Tensor& x) {
    return fori_loop(
        0, 2,
        [&](const Tensor&, const Tensor& c) {
          return product(c, std::vector<Tensor>{Tensor(2.0), c}).first;
        },
        x);
  };
  const double once = 2 * std::exp(0.1);
  CHECK(grad(loop)(Tensor(0.1)).item() == Approx(10 * 2 * std::exp(once) * 10 * once));
}

TEST_CASE("running reductions and choices by number", "[api][trace]") {
  const Tensor x = array({1., 3., 2., 5., 4.});
  CHECK(doubles(cummax(x, 0)) == Doubles{1, 3, 3, 5, 5});
  CHECK(doubles(cummin(x, 0, true)) == Doubles{1, 2, 2, 4, 4});
  CHECK(doubles(cumsum(x, 0, true)) == Doubles{15, 14, 11, 9, 4});
  CHECK(doubles(cumprod(x, -1)) == Doubles{1, 3, 6, 30, 120});
  const Doubles logs = doubles(cumlogsumexp(x, 0));
  double total = 0;
  for (size_t i = 0; i < 5; ++i) {
    total += std::exp(doubles(x)[i]);
    CHECK(logs[i] == Approx(std::log(total)));
  }
  CHECK(doubles(grad([](const Tensor& v) { return sum(cummax(v, 0)); })(x)) == Doubles{1, 2, 0, 2, 0});
  const Doubles slopes = doubles(grad([](const Tensor& v) { return cumlogsumexp(v, 0)[4]; })(x));
  CHECK(slopes[3] == Approx(std::exp(5.) / total));
  const Tensor rows = stack({x, -x});
  CHECK(doubles(vmap([](const Tensor& v) { return cummax(v, 0); })(rows)) == doubles(cummax(rows, 1)));
  const float low = -INFINITY;
  CHECK(floats(cumlogsumexp(array({low, low, 0.f}), 0)) == Floats{low, low, 0});
  CHECK(contains(error_of([] { cummax(Tensor(1.0), 0); }, ErrorKind::kValue), "at least one dimension"));

  const Tensor which = array({0, 2, 1, 7, -1});
  CHECK(doubles(select_n(which, {x, 10 * x, 100 * x})) == Doubles{1, 300, 20, 500, 4});
  CHECK(doubles(select_n(x > 2, {x, -x})) == Doubles{1, -3, 2, -5, -4});
  CHECK(contains(error_of(
                     [&] {
                       select_n(x > 2, {x, x, x});
                     },
                     ErrorKind::kType),
                 "at most two cases, not 3"));
  CHECK(contains(error_of([&] { select_n(x, {x, x}); }, ErrorKind::kType), "integers or booleans"));
  int called = 0;
  debug_callback([&called](const Tensor& v) { called += v.item<int>(); }, std::tuple(Tensor(3)));
  effects_barrier();
  CHECK(called == 3);
}

}  // namespace
