// Policies of checkpoints and names for them, and strategies of lanes.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <tuple>

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
          policies::save_anything_except_these_names({"a"}), policies::everything_saveable(),
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

TEST_CASE("what a policy keeps is not computed again", "[api][checkpoint]") {
  namespace policies = checkpoint_policies;
  const auto f = [](const Tensor& x) {
    const Tensor a = checkpoint_name(sin(x), "a");
    return sum(exp(sin(checkpoint_name(cos(matmul(a, x)), "c"))));
  };
  const std::tuple like(array({{0.3, -0.2}, {0.5, 0.9}}));
  using Counts = std::map<std::string, int>;
  const auto counted = [](const auto& g, const auto& arguments) {
    const std::string text = make_trace(g, arguments).text;
    Counts out;
    for (const char* op : {"sine", "cosine", "dot_general"}) {
      const std::string word = std::string(" ") + op + "(";
      for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at) ++out[op];
    }
    return out;
  };
  const Counts once = counted(value_and_grad(f), like);
  const auto again = [&](const CheckpointPolicy& policy) {
    Counts out = counted(value_and_grad(checkpoint(f, policy)), like);
    for (auto& [op, n] : out) n -= once.at(op);
    return out;
  };
  CHECK(again({}) == Counts{{"sine", 2}, {"cosine", 1}, {"dot_general", 1}});
  CHECK(again(policies::everything_saveable()) == Counts{{"sine", 0}, {"cosine", 0}, {"dot_general", 0}});
  CHECK(again(policies::dots_saveable()).at("dot_general") == 0);
  CHECK(again(policies::dots_with_no_batch_dims_saveable()).at("dot_general") == 0);
  CHECK(again(policies::save_only_these_names({"a"})) ==
        Counts{{"sine", 1}, {"cosine", 1}, {"dot_general", 1}});
  CHECK(again(policies::save_anything_except_these_names({"a"})) ==
        Counts{{"sine", 1}, {"cosine", 0}, {"dot_general", 0}});
  // Lanes of a product are its batch dimension.
  const auto product = [](const Tensor& x) { return sum(sin(matmul(x, x))); };
  const auto products = [&](const CheckpointPolicy& policy) {
    const auto g = checkpoint([&](const Tensor& xs) { return sum(vmap(product)(xs)); }, policy);
    return counted(value_and_grad(g), std::tuple(ones({3, 2, 2}))).at("dot_general");
  };
  CHECK(products(policies::dots_with_no_batch_dims_saveable()) == products(policies::dots_saveable()) + 1);
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
