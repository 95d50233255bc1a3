#include "hlo/type_error.h"
#include "tests/trace/check_grads.h"
#include "trace/checkpoint.h"
#include "trace/rules/rules.h"

namespace lamina::trace::test {
namespace {

using hlo::CustomRule;

// sine with the derivative 3 cos(x) by a custom jvp.
class TripleCosine : public CustomRule {
 public:
  Kind kind() const override { return Kind::kJvp; }
  hlo::JvpResult jvp(Builder& b, std::span<const Value> x, std::span<const Value> t) override {
    return {{b.multiply(t[0], b.multiply(b.full_like(x[0], 3), b.cosine(x[0])))}, {}};
  }
};

// x * y whose cotangents are halved, by a custom vjp.
class HalfProduct : public CustomRule {
 public:
  Kind kind() const override { return Kind::kVjp; }
  Forward forward(Builder& b, std::span<const Value> x, std::span<const bool>) override {
    return {{b.multiply(x[0], x[1])}, {x[0], x[1]}};
  }
  Values backward(Builder& b, const Form&, std::span<const Value> r, std::span<const Value> ct) override {
    const Value half = b.multiply(ct[0], b.full_like(ct[0], 0.5));
    return {b.multiply(half, r[1]), b.multiply(half, r[0])};
  }
};

Fn with_rule(const Fn& f, std::shared_ptr<CustomRule> rule) {
  return [=](Builder& b, std::span<const Value> x) {
    const Values open = open_inputs(x);
    const Values y = f(b, open);
    auto out = call_with_rule(y, open, x, rule);
    if (!out.ok()) {
      b.fail(out.status());
      return Values();
    }
    return Values(out->begin(), out->end());
  };
}

Fn triple() {
  return with_rule([](Builder& b, std::span<const Value> x) { return Values{b.sine(x[0])}; },
                   std::make_shared<TripleCosine>());
}
Fn half() {
  return with_rule([](Builder& b, std::span<const Value> x) { return Values{b.multiply(x[0], x[1])}; },
                   std::make_shared<HalfProduct>());
}

TEST_CASE("custom jvp", "[trace]") {
  const std::vector<LiteralPtr> at{literal({2}, {0.5, 1})};
  CHECK(run(triple(), at)[0]->as<double>()[1] == Approx(std::sin(1.0)));
  CHECK(run(grad_of(triple(), 1), at)[0]->as<double>()[1] == Approx(3 * std::cos(1.0)));
  // The rule's own derivative is an ordinary one.
  CHECK(run(grad_of(grad_of(triple(), 1), 1), at)[0]->as<double>()[1] == Approx(-3 * std::sin(1.0)));
  const auto t = run(jvp_of(triple(), 1), concat(at, {literal({2}, {1, 2})}))[0];
  CHECK(t->as<double>()[1] == Approx(6 * std::cos(1.0)));
  Numbers n;
  check_vmap(triple(), at, n);
  check_vmap(grad_of(triple(), 1), at, n);
  // Batched first, then differentiated.
  const auto g = run(grad_of(vmap_of(triple(), {true}, 2), 1), {literal({2, 1}, {0.5, 1})})[0];
  CHECK(g->as<double>()[1] == Approx(3 * std::cos(1.0)));
}

TEST_CASE("custom vjp", "[trace]") {
  const std::vector<LiteralPtr> at{literal({2}, {2, 3}), literal({2}, {5, 7})};
  const auto g = run(grad_of(half(), 2), at);
  CHECK(g[0]->as<double>()[1] == 3.5);
  CHECK(g[1]->as<double>()[1] == 1.5);
  Numbers n;
  check_vmap(grad_of(half(), 2), at, n);
  // One operand without the batch: its cotangent is summed over lanes.
  const auto both =
      run(grad_of(vmap_of(half(), {true, false}, 2), 2), {literal({2, 1}, {2, 3}), literal({1}, {5})});
  CHECK(both[0]->as<double>()[1] == 2.5);
  CHECK(both[1]->as<double>()[0] == 2.5);
  const absl::Status s = record_status(jvp_of(half(), 2), {f64({2}), f64({2}), f64({2}), f64({2})});
  CHECK(s.code() == kTypeErrorCode);
  CHECK(std::string(s.message()).find("custom jvp") != std::string::npos);
}

TEST_CASE("custom vjp inside a scan", "[trace]") {
  const Fn f = [](Builder& b, std::span<const Value> x) {
    auto body = hlo::record_region({{f64({}), f64({})}}, [](Builder& in, std::span<const Value> p) {
      const Value y = half()(in, p)[0];
      return Values{y, y};
    });
    REQUIRE(body.ok());
    return Values{b.scan(*body, {{x[0]}}, {{x[1]}}, 2, false)[0]};
  };
  // x * a * b with one half per product on the way.
  const auto g = run(grad_of(f, 2), {literal({}, {2}), literal({2}, {3, 5})});
  CHECK(g[0]->as<double>()[0] == 15 * 0.25);
  CHECK(g[1]->as<double>()[0] == 2 * 5 * 0.25);
  CHECK(g[1]->as<double>()[1] == 6 * 0.5);
}

TEST_CASE("a deleted rule is an error in words", "[trace]") {
  const int64_t id = hlo::register_custom_rule(std::make_shared<TripleCosine>());
  hlo::release_custom_rule(id);
  auto body = hlo::record_region({{f64({})}},
                                 [](Builder& b, std::span<const Value> x) { return Values{b.sine(x[0])}; });
  REQUIRE(body.ok());
  const Fn f = [&](Builder& b, std::span<const Value> x) {
    return hlo::custom_call_with_rule(b, id, *body, x);
  };
  CHECK(record_status(grad_of(f, 1), {f64({})}).code() == absl::StatusCode::kNotFound);
}

TEST_CASE("rules of batched functions are made once, and go with their function", "[trace]") {
  const int64_t id = hlo::register_custom_rule(std::make_shared<TripleCosine>());
  auto make = [] { return std::make_shared<TripleCosine>(); };
  const int64_t derived = hlo::derived_custom_rule(id, "k", make);
  CHECK(derived > id);
  CHECK(hlo::derived_custom_rule(id, "k", make) == derived);
  CHECK(hlo::derived_custom_rule(id, "l", make) != derived);
  const int64_t second = hlo::derived_custom_rule(derived, "k", make);
  CHECK(hlo::find_custom_rule(second) != nullptr);
  hlo::release_custom_rule(id);
  CHECK(hlo::find_custom_rule(derived) == nullptr);
  CHECK(hlo::find_custom_rule(second) == nullptr);
  CHECK(hlo::derived_custom_rule(id, "k", make) == 0);
}

TEST_CASE("a checkpoint keeps its arguments only", "[trace]") {
  const Fn chain = [](Builder& b, std::span<const Value> x) {
    Value v = x[0];
    for (int i = 0; i < 5; ++i) v = b.sine(b.multiply(v, x[1]));
    return Values{v};
  };
  const Fn kept = [&](Builder& b, std::span<const Value> x) {
    // x[1] is captured, not passed.
    const Values open = open_inputs(x.first(1));
    const Values y = chain(b, {{open[0], x[1]}});
    auto out = checkpoint(y, open, x.first(1));
    REQUIRE(out.ok());
    return Values(out->begin(), out->end());
  };
  Numbers n;
  check_grads(kept, {n.array({3}), n.array({3})});
  auto region = hlo::record_region({{f64({3}), f64({3})}}, grad_of(kept, 2));
  REQUIRE(region.ok());
  int sines = 0, barriers = 0;
  for (const hlo::Node* node : (*region)->nodes()) {
    sines += node->op() == hlo::Op::sine;
    if (node->op() != hlo::Op::call) continue;
    for (const hlo::Node* inner : node->attrs().computation(hlo::Attr::body)->nodes()) {
      sines += inner->op() == hlo::Op::sine;
      barriers += inner->op() == hlo::Op::optimization_barrier;
    }
  }
  CHECK(barriers == 1);
  CHECK(sines >= 4);  // computed again behind the barrier
}

TEST_CASE("every op has its transforms", "[trace]") {
  for (int i = 0; i < hlo::num_ops(); ++i) {
    const auto op = static_cast<hlo::Op>(i);
    INFO(hlo::op_def(op).name);
    CHECK(transforms_of(op).jvp != nullptr);
    CHECK(transforms_of(op).batch != nullptr);
  }
}

TEST_CASE("bad arguments of the drivers are errors", "[trace]") {
  const Value p = hlo::make_parameter(f64({2})), q = hlo::make_parameter(f64({3}));
  Builder b;
  const Value y = b.sine(p);
  CHECK(!jvp({{y}}, {{p}}, {{q}}).ok());
  CHECK(!jvp({{y}}, {{p}}, {}).ok());
  CHECK(!jvp({{y}}, {{p, p}}, {{p, p}}).ok());
  CHECK(!jvp({{Value()}}, {{p}}, {{p}}).ok());
  CHECK(!vjp({{y}}, {{p}}, {{q}}).ok());
  CHECK(!backward({{y}}, {{p}}, {{y}}).ok());  // not linear
  const bool yes[] = {true};
  CHECK(!vmap({{y}}, {{p}}, {{q}}, yes, 3).ok());
  CHECK(!vmap({{y}}, {{p}}, {{p}}, yes, -1).ok());
  CHECK(!substitute({{y}}, {{p}}, {{q}}).ok());
  CHECK(jvp({{y}}, {{p}}, {{Value()}})->tangents[0] == Value());
  CHECK(vjp({{y}}, {{q}}, {{y}})->cotangents[0] == Value());
}

}  // namespace
}  // namespace lamina::trace::test
