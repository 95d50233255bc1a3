// Collectives of named axes in C++: values against sums over the batch, derivatives, nesting, what does not
// fit.
#include <catch2/catch.hpp>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

struct Pair {
  Tensor a, b;
  auto fields() { return std::tie(a, b); }
};

TEST_CASE("lanes of a named axis reduce", "[api][axes]") {
  const Tensor x = array({1., 2., 4.});
  const auto over = [&](auto f) { return doubles(vmap(f, VmapOptions{.axis_name = "i"})(x)); };
  CHECK(over([](const Tensor& v) { return psum(v, "i"); }) == Doubles{7, 7, 7});
  CHECK(over([](const Tensor& v) { return v / psum(v * v, "i"); }) == Doubles{1. / 21, 2. / 21, 4. / 21});
  CHECK(over([](const Tensor& v) { return pmean(v, "i") * 3; }) == Doubles{7, 7, 7});
  CHECK(over([](const Tensor& v) { return pmax(v, "i") - pmin(v, "i"); }) == Doubles{3, 3, 3});
  CHECK(over([](const Tensor&) { return axis_index("i") * axis_size("i"); }) == Doubles{0, 3, 6});
  CHECK(over([](const Tensor& v) { return psum(v > 1, "i"); }) == Doubles{2, 2, 2});
  // A number is counted once per lane.
  CHECK(over([](const Tensor& v) { return v + psum(Tensor(1), "i"); }) == Doubles{4, 5, 7});

  // Trees, and no argument that is mapped.
  const auto both = vmap(
      [](const Tensor& v) {
        return psum(Pair{v, 2 * v}, "i");
      },
      VmapOptions{.axis_name = "i"})(x);
  CHECK(doubles(both.a) == Doubles{7, 7, 7});
  CHECK(doubles(both.b) == Doubles{14, 14, 14});
  const auto counted = vmap([](const Tensor& v) { return v + axis_index("j"); },
                            VmapOptions{.in_axes = {std::nullopt}, .axis_name = "j", .axis_size = 4});
  CHECK(doubles(counted(Tensor(1.0))) == Doubles{1, 2, 3, 4});
}

TEST_CASE("lanes of a named axis exchange parts", "[api][axes]") {
  const Tensor x = arange(12, DType::float64).reshape({3, 4});
  const auto gathered =
      vmap([](const Tensor& row) { return all_gather(row, "i"); }, VmapOptions{.axis_name = "i"})(x);
  CHECK(gathered.shape() == Shape{3, 3, 4});
  CHECK(doubles(gathered[2]) == doubles(x));
  const auto tiled =
      vmap([](const Tensor& row) { return all_gather(row, "i", {.dimension = -1, .tiled = true}); },
           VmapOptions{.axis_name = "i"})(x);
  CHECK(tiled.shape() == Shape{3, 12});
  CHECK(doubles(tiled[0]) == doubles(x.flatten()));
  const Tensor square = arange(9, DType::float64).reshape({3, 3});
  CHECK(doubles(vmap([](const Tensor& row) { return psum_scatter(row, "i"); },
                     VmapOptions{.axis_name = "i"})(square)) == doubles(sum(square, {0})));
  const auto halves = vmap([](const Tensor& row) { return psum_scatter(row, "i", {.tiled = true}); },
                           VmapOptions{.axis_name = "i"})(arange(8, DType::float64).reshape({2, 4}));
  CHECK(halves.shape() == Shape{2, 2});
  CHECK(doubles(halves) == Doubles{4, 6, 8, 10});
  CHECK(doubles(vmap([](const Tensor& row) { return all_to_all(row, "i", 0, 0); },
                     VmapOptions{.axis_name = "i"})(square)) == doubles(square.T()));
  CHECK(doubles(vmap(
            [](const Tensor& v) {
              return ppermute(v, "i", {{0, 1}, {1, 2}});
            },
            VmapOptions{.axis_name = "i"})(array({5., 6., 7.}))) == Doubles{0, 5, 6});
}

TEST_CASE("collectives under derivatives, jit and nesting", "[api][axes]") {
  const Tensor x = array({1., 2., 4.});
  // The gradient of a lane's own result by its own argument sees what the others do with it.
  const auto loss = [](const Tensor& v) {
    return sum(vmap([](const Tensor& u) { return u * psum(u * u, "i"); }, VmapOptions{.axis_name = "i"})(v));
  };
  // sum_k x_k * S with S = sum x^2: derivative S + 2 x_j sum_k x_k.
  CHECK(doubles(grad(loss)(x)) == Doubles{21 + 14, 21 + 28, 21 + 56});
  CHECK(doubles(jit(grad(loss))(x)) == Doubles{35, 49, 77});

  // What was jitted inside is traced for the axes around it.
  const auto normal = jit([](const Tensor& v) { return v / psum(v, "i"); });
  const auto rows = [&](const Tensor& v) { return vmap(normal, VmapOptions{.axis_name = "i"})(v); };
  CHECK(doubles(rows(x)) == Doubles{1. / 7, 2. / 7, 4. / 7});
  CHECK(doubles(rows(array({1., 3.}))) == Doubles{0.25, 0.75});
  CHECK(doubles(rows(array({1., 1., 2.}))) == Doubles{0.25, 0.25, 0.5});
  CHECK(normal.traces() == 2);  // one for each number of lanes

  // Two axes: the inner of one name hides the outer.
  const Tensor m = arange(6, DType::float64).reshape({2, 3});
  const auto two = [&](const std::string& inner) {
    return doubles(vmap(
        [&](const Tensor& row) {
          return vmap([](const Tensor& v) { return psum(v, "i"); }, VmapOptions{.axis_name = inner})(row);
        },
        VmapOptions{.axis_name = "i"})(m));
  };
  CHECK(two("i") == Doubles{3, 3, 3, 12, 12, 12});
  CHECK(two("j") == Doubles{3, 5, 7, 3, 5, 7});

  // In a loop and a branch.
  const auto looped = vmap(
      [](const Tensor& v) {
        return fori_loop(
            0, 3, [](const Tensor&, const Tensor& c) { return c + psum(c, "i"); }, v);
      },
      VmapOptions{.axis_name = "i"});
  CHECK(doubles(looped(array({1., 2.}))) == Doubles{40, 41});
}

TEST_CASE("what collectives refuse names the axis and the line", "[api][axes]") {
  const Tensor x = array({1., 2.});
  std::string text = error_of([&] { psum(x, "i"); }, ErrorKind::kValue);
  CHECK(contains(text, "unbound axis name 'i': no vmap with an axis_name is open here"));
  CHECK(contains(text, "axes_test.cc"));
  text =
      error_of([&] { vmap([](const Tensor& v) { return psum(v, "k"); }, VmapOptions{.axis_name = "i"})(x); },
               ErrorKind::kValue);
  CHECK(contains(text, "bound here are 'i' of size 2"));
  const auto in = [&](auto f) {
    return error_of([&] { vmap(f, VmapOptions{.axis_name = "i"})(ones({2, 3})); });
  };
  CHECK(contains(in([](const Tensor& v) { return psum_scatter(v, "i"); }),
                 "divides dimension 0 of float32[3] among 2 lanes"));
  CHECK(contains(in([](const Tensor& v) { return ppermute(v, "i", {{0, 2}}); }), "one of the 2 of axis 'i'"));
  CHECK(contains(in([](const Tensor& v) {
                   return ppermute(v, "i", {{0, 1}, {0, 0}});
                 }),
                 "sends or receives twice"));
  CHECK(contains(error_of([&] { vmap([](const Tensor& v) { return v; }, VmapOptions{.axis_size = 3})(x); }),
                 "mapped tensors of 3 and 2 rows, where the first is axis_size"));
  CHECK(contains(
      error_of([&] { vmap([](const Tensor& v) { return v; }, VmapOptions{.in_axes = {std::nullopt}})(x); }),
      "VmapOptions::axis_size says how many lanes"));
}

}  // namespace
