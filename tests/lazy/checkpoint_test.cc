// Policies of checkpoints and names for them, and strategies of lanes.
#include <catch2/catch.hpp>
#include <set>

#include "api_testing.h"
#include "lamina/lamina.h"

namespace {

using namespace lamina;
using namespace lamina::testing;

Tensor layer(const Tensor& x) {
  const Tensor a = checkpoint_name(sin(x), "a");
  return exp(checkpoint_name(cos(a), "b"));
}
Tensor scanned(const Tensor& x) {
  auto step = [](const Tensor& c, const std::tuple<>&) { return std::pair(layer(c), c); };
  return sum(scan(step, x, std::tuple<>{}, {.length = 3}).first);
}
Tensor branched(const Tensor& x) {
  return sum(cond(
      x[0] > 0, layer, [](const Tensor& y) { return checkpoint_name(tanh(y), "b"); }, x));
}

TEST_CASE("checkpoint keeps what a policy chooses, inside loops and branches too", "[api][checkpoint]") {
  namespace policies = checkpoint_policies;
  const Tensor x = array({0.3, -0.2, 0.5});
  std::set<std::string> names;
  const CheckpointPolicy noting = [&](const CheckpointValue& v) {
    if (v.name) names.insert(*v.name);
    return v.name == "a";
  };
  for (const auto& f : {scanned, branched}) {
    names.clear();
    const Doubles want = doubles(grad(f)(x));
    const Tensor batch = stack({x, 2 * x});
    const Doubles wanted = doubles(vmap(grad(f))(batch));
    for (const CheckpointPolicy& policy :
         {CheckpointPolicy(), noting, policies::nothing_saveable(), policies::dots_saveable(),
          policies::save_only_these_names({"a", "b"}), policies::save_any_names_but_these({"a"}),
          policies::save_from_both_policies(policies::dots_saveable(),
                                            policies::save_only_these_names({"b"}))}) {
      const auto kept = checkpoint(f, policy);
      CHECK(doubles(grad(kept)(x)) == want);
      CHECK(doubles(jit(grad(kept))(x)) == want);
      CHECK(doubles(vmap(grad(kept))(batch)) == wanted);
      CHECK(doubles(kept(x)) == doubles(f(x)));
    }
    CHECK(names == std::set<std::string>{"a", "b"});
  }
  CHECK(doubles(jit(layer)(x)) == doubles(exp(cos(sin(x)))));
}

TEST_CASE("lanes go together, one by one, or by cost, with the same bits", "[api][checkpoint]") {
  auto root = [](const Tensor& a) {
    return while_loop([&](const Tensor& y) { return abs(y * y - a) > 1e-9; },
                      [&](const Tensor& y) { return 0.5 * (y + a / y); }, a);
  };
  const Tensor a = array({1., 2., 50., 9.});
  Doubles values, slopes;
  for (int i = 0; i < 4; ++i) {
    values.push_back(root(a[i]).item());
    slopes.push_back(grad(root)(a[i]).item());
  }
  for (const LaneStrategy s : {LaneStrategy::select, LaneStrategy::loop, LaneStrategy::automatic}) {
    CHECK(doubles(vmap(root, VmapOptions{.strategy = s})(a)) == values);
    CHECK(doubles(jit(vmap(root, VmapOptions{.strategy = s}))(a)) == values);
    CHECK(doubles(vmap(grad(root), VmapOptions{.strategy = s})(a)) == slopes);
  }
}

}  // namespace
