#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::Op;

TEST_CASE("derivatives of ops that move elements", "[trace]") {
  Numbers n;
  auto on = [&](Dims dims, const Fn& f) { check_grads(f, {n.array(std::move(dims))}); };
  on({3}, [](Builder& b, std::span<const Value> x) {
    return Values{b.broadcast_in_dim(x[0], {{2, 3, 4}}, {{1}})};
  });
  on({1, 3}, [](Builder& b, std::span<const Value> x) {
    return Values{b.broadcast_in_dim(x[0], {{3, 4, 2}}, {{2, 0}})};
  });
  on({2, 6}, [](Builder& b, std::span<const Value> x) { return Values{b.reshape(x[0], {{3, 4}})}; });
  on({2, 3, 4}, [](Builder& b, std::span<const Value> x) { return Values{b.transpose(x[0], {{2, 0, 1}})}; });
  on({2, 3}, [](Builder& b, std::span<const Value> x) { return Values{b.reverse(x[0], {{1}})}; });
  on({5, 7}, [](Builder& b, std::span<const Value> x) {
    return Values{b.slice(x[0], {{1, 0}}, {{4, 6}}, {{2, 3}})};
  });
  on({5}, [](Builder& b, std::span<const Value> x) { return Values{b.slice(x[0], {{2}}, {{2}})}; });
  on({4},
     [](Builder& b, std::span<const Value> x) { return Values{b.make(Op::optimization_barrier, {{x[0]}})}; });
}

TEST_CASE("derivatives of pad and concatenate", "[trace]") {
  Numbers n;
  auto pad = [](Dims low, Dims high, Dims inner) -> Fn {
    return [=](Builder& b, std::span<const Value> x) { return Values{b.pad(x[0], x[1], low, high, inner)}; };
  };
  check_grads(pad({1, 0}, {2, 1}, {0, 2}), {n.array({3, 2}), n.array({})});
  check_grads(pad({-1}, {-1}, {1}), {n.array({5}), n.array({})});
  check_grads(pad({2}, {-3}, {0}), {n.array({4}), n.array({})});
  check_grads([](Builder& b, std::span<const Value> x) { return Values{b.concatenate(x, 1)}; },
              {n.array({2, 1}), n.array({2, 3}), n.array({2, 2})});
}

}  // namespace
}  // namespace lamina::trace::test
