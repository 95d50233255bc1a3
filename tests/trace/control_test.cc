#include "hlo/location.h"
#include "tests/trace/check_grads.h"

namespace lamina::trace::test {
namespace {

using hlo::ComputationPtr;
using hlo::Op;

ComputationPtr region(std::vector<const Type*> types, const Fn& f) {
  auto c = hlo::record_region(types, f);
  INFO(c.status());
  REQUIRE(c.ok());
  return *c;
}

// carry: (w, h, counter), slices (x): h' = tanh(w h + x), y = h' h * counter.
ComputationPtr recurrent_step() {
  return region({f64({2, 2}), f64({2}), s32({}), f64({2})}, [](Builder& b, std::span<const Value> p) {
    const Value h = b.tanh(b.add(b.dot_general(b.sine(p[0]), p[1], {{}, {}, {1}, {0}}), p[3]));
    const Value scale = b.broadcast_scalar(b.convert(p[2], DType::kF64), {{2}});
    return Values{p[0], h, b.add(p[2], b.scalar_int(DType::kS32, 1)), b.multiply(b.multiply(h, p[1]), scale)};
  });
}

TEST_CASE("derivatives of scans", "[trace]") {
  Numbers n;
  for (bool reverse : {false, true}) {
    const ComputationPtr body = recurrent_step();
    check_grads(
        [&](Builder& b, std::span<const Value> x) {
          Values out = b.scan(body, {{x[0], x[1], b.scalar_int(DType::kS32, 1)}}, {{x[2]}}, 4, reverse);
          return out.size() == 4 ? Values{out[1], out[3]} : Values();
        },
        {n.array({2, 2}), n.array({2}), n.array({4, 2})});
  }
}

TEST_CASE("a carry that only some steps touch gets its tangent", "[trace]") {
  Numbers n;
  // (a, c) with slice x: a' = a + c x, c' = c a: the tangent of x reaches c through a only.
  const ComputationPtr body = region({f64({}), f64({}), f64({})}, [](Builder& b, std::span<const Value> p) {
    return Values{b.add(p[0], b.multiply(p[1], p[2])), b.multiply(p[1], p[0])};
  });
  check_grads(
      [&](Builder& b, std::span<const Value> x) {
        return b.scan(body, {{b.scalar(DType::kF64, 0.5), b.scalar(DType::kF64, 1.5)}}, {{x[0]}}, 3, false);
      },
      {n.array({3})});
}

TEST_CASE("a scan of scans", "[trace]") {
  Numbers n;
  const ComputationPtr inner = region({f64({}), f64({})}, [](Builder& b, std::span<const Value> p) {
    const Value next = b.sine(b.multiply(p[0], p[1]));
    return Values{next, next};
  });
  const ComputationPtr outer = region({f64({}), f64({3})}, [&](Builder& b, std::span<const Value> p) {
    const Values r = b.scan(inner, {{p[0]}}, {{p[1]}}, 3, false);
    return Values{r[0], r[1]};
  });
  check_grads(
      [&](Builder& b, std::span<const Value> x) { return b.scan(outer, {{x[0]}}, {{x[1]}}, 2, false); },
      {n.array({}), n.array({2, 3})});
}

// while (i < end) { i += 1; x = sin(x) * w; }
Fn counted(bool constant_end) {
  return [=](Builder& b, std::span<const Value> x) {
    const std::vector<const Type*> types{s32({}), s32({}), f64({}), f64({})};
    const ComputationPtr cond = region(
        types, [](Builder& in, std::span<const Value> p) { return Values{in.compare(p[0], p[1], "LT")}; });
    const ComputationPtr body = region(types, [](Builder& in, std::span<const Value> p) {
      return Values{in.add(p[0], in.scalar_int(DType::kS32, 1)), p[1], in.multiply(in.sine(p[2]), p[3]),
                    p[3]};
    });
    const Value end = constant_end ? b.scalar_int(DType::kS32, 3) : x[2];
    const Values out = b.while_loop({{b.scalar_int(DType::kS32, 0), end, x[0], x[1]}}, cond, body);
    return b.ok() ? Values{out[2]} : Values();
  };
}

TEST_CASE("derivatives of loops", "[trace]") {
  Numbers n;
  check_grads(counted(true), {n.array({}), n.array({})});
  check_grads(counted(false), {n.array({}), n.array({}), integers({}, {3})});
}

TEST_CASE("loops that count become scans in every direction", "[trace]") {
  struct Loop {
    const char* direction;
    bool bound_first, subtract;
    int32_t start, step, end, steps;
  };
  const Loop loops[] = {{"LT", false, false, 0, 2, 5, 3}, {"LE", false, false, 1, 1, 3, 3},
                        {"GT", true, false, 0, 1, 2, 2},  {"GE", false, true, 6, 3, 0, 3},
                        {"NE", false, false, 0, 2, 4, 2}, {"GT", false, true, 4, 1, 4, 0},
                        {"NE", true, true, 3, 1, 0, 3},   {"LT", false, false, 7, 1, 5, 0}};
  for (const Loop& l : loops) {
    INFO(l.direction << " from " << l.start << " by " << l.step << " to " << l.end);
    const Fn f = [&](Builder& b, std::span<const Value> x) {
      const std::vector<const Type*> types{s32({}), f64({})};
      const ComputationPtr cond = region(types, [&](Builder& in, std::span<const Value> p) {
        const Value end = in.scalar_int(DType::kS32, l.end);
        return Values{l.bound_first ? in.compare(end, p[0], l.direction)
                                    : in.compare(p[0], end, l.direction)};
      });
      const ComputationPtr body = region(types, [&](Builder& in, std::span<const Value> p) {
        const Value step = in.scalar_int(DType::kS32, l.step);
        return Values{l.subtract ? in.subtract(p[0], step) : in.add(step, p[0]), in.multiply(p[1], p[1])};
      });
      return Values{b.while_loop({{b.scalar_int(DType::kS32, l.start), x[0]}}, cond, body)[1]};
    };
    CHECK(run(f, {literal({}, {1.1})})[0]->as<double>()[0] == Approx(std::pow(1.1, std::pow(2, l.steps))));
    check_grads(f, {literal({}, {1.1})});
  }
}

TEST_CASE("a scan whose results have no tangents", "[trace]") {
  const ComputationPtr body = region({f64({}), f64({})}, [](Builder& b, std::span<const Value> p) {
    return Values{p[0], b.convert(b.multiply(p[0], p[1]), DType::kS32)};
  });
  const Fn f = [&](Builder& b, std::span<const Value> x) {
    const Values out = b.scan(body, {{b.scalar(DType::kF64, 2)}}, {{x[0]}}, 3, false);
    return Values{b.multiply(b.convert(out[1], DType::kF64), x[0])};
  };
  const auto g = run(grad_of(f, 1), {literal({3}, {1.2, 2.6, -0.7})})[0];
  CHECK(g->as<double>()[0] == 2);
  CHECK(g->as<double>()[1] == 5);
  CHECK(g->as<double>()[2] == -1);
}

TEST_CASE("what no step changes is not stacked", "[trace]") {
  // The residuals of a scan over w x: x is scanned, transpose(sin w) is computed once.
  const ComputationPtr body = region({f64({2, 2}), f64({2}), f64({2})}, [](Builder& b,
                                                                           std::span<const Value> p) {
    const Value h = b.add(b.dot_general(b.transpose(b.sine(p[0]), {{1, 0}}), p[1], {{}, {}, {1}, {0}}), p[2]);
    return Values{p[0], h};
  });
  const Fn f = [&](Builder& b, std::span<const Value> x) {
    return Values{b.scan(body, {{x[0], x[1]}}, {{x[2]}}, 9, false)[1]};
  };
  auto graph = hlo::record_region({{f64({2, 2}), f64({2}), f64({9, 2})}}, grad_of(f, 3));
  REQUIRE(graph.ok());
  for (const hlo::Node* n : (*graph)->nodes())
    for (uint32_t i = 0; i < n->num_results(); ++i) CHECK(n->result_type(i)->dims != Dims{9, 2, 2});
}

TEST_CASE("a derivative of a loop that nothing asks for", "[trace]") {
  const Fn stopped = [](Builder& b, std::span<const Value> x) {
    const Values loop = counted(false)(b, x);
    return Values{b.multiply(b.stop_gradient(loop[0]), x[0])};
  };
  const std::vector<LiteralPtr> at{literal({}, {0.5}), literal({}, {2}), integers({}, {1})};
  CHECK(run(grad_of(stopped, 3), at)[0]->as<double>()[0] == Approx(std::sin(0.5) * 2));
}

TEST_CASE("loops whose lanes stop at different steps", "[trace]") {
  // x doubles until it passes a limit.
  const Fn f = [](Builder& b, std::span<const Value> x) {
    const std::vector<const Type*> types{f64({2}), f64({})};
    const ComputationPtr cond = region(types, [](Builder& in, std::span<const Value> p) {
      return Values{in.compare(in.reduce_sum(p[0], {{0}}), p[1], "LT")};
    });
    const ComputationPtr body = region(types, [](Builder& in, std::span<const Value> p) {
      return Values{in.add(p[0], p[0]), p[1]};
    });
    return b.while_loop(x, cond, body);
  };
  const auto whole =
      run(vmap_of(f, {true, true}, 3), {literal({3, 2}, {1, 1, 3, 4, 0.5, 0.25}), literal({3}, {10, 5, 9})});
  const double want[] = {8, 8, 3, 4, 8, 4};
  for (int i = 0; i < 6; ++i) CHECK(whole[0]->as<double>()[i] == want[i]);
  Numbers n;
  check_vmap(f, {n.array({2}, 0.1, 1), literal({}, {20})}, n);
}

Fn chosen(bool batched_index) {
  return [=](Builder& b, std::span<const Value> x) {
    const std::vector<const Type*> types{f64({2}), f64({2})};
    const ComputationPtr branches[] = {
        region(types,
               [](Builder& in, std::span<const Value> p) {
                 return Values{in.sine(p[0]), p[1]};
               }),
        region(types,
               [](Builder& in, std::span<const Value> p) {
                 return Values{in.multiply(in.exponential(p[0]), in.tanh(p[1])), in.cosine(p[0])};
               }),
        region(types,
               [](Builder& in, std::span<const Value> p) {
                 return Values{p[1], in.full_like(p[0], 2)};
               }),
    };
    const Value index =
        batched_index ? x[2] : b.convert(b.compare(x[2], b.zeros_like(x[2]), "GT"), DType::kS32);
    return b.conditional(index, branches, x.first(2));
  };
}

TEST_CASE("derivatives of branches", "[trace]") {
  Numbers n;
  for (int32_t index : {0, 1, 2, 7, -1})
    check_grads(chosen(true), {n.array({2}), n.array({2}), integers({}, {index})});
}

ComputationPtr two_results() {
  return region({f64({3}), f64({3})}, [](Builder& b, std::span<const Value> p) {
    const Value y = b.sine(b.multiply(p[0], p[1]));
    return Values{b.multiply(y, p[0]), b.exponential(p[1])};
  });
}

TEST_CASE("derivatives of calls, plain and checkpointed", "[trace]") {
  Numbers n;
  const ComputationPtr body = two_results();
  check_grads([&](Builder& b, std::span<const Value> x) { return b.call(body, x); },
              {n.array({3}), n.array({3})});
  const auto again = [&] {
    return hlo::intern_attrs({{hlo::Attr::body, body}, {hlo::Attr::instance, int64_t{1}}});
  };
  check_grads([&](Builder& b, std::span<const Value> x) { return b.make_multi(Op::call, x, again()); },
              {n.array({3}), n.array({3})});
}

TEST_CASE("random bits by lane", "[trace]") {
  const hlo::Attrs* attrs = hlo::intern_attrs({{hlo::Attr::rng_algorithm, std::string("THREE_FRY")},
                                               {hlo::Attr::dtype, DType::kU32},
                                               {hlo::Attr::shape, Dims{5}}});
  const Fn f = [&](Builder& b, std::span<const Value> x) {
    return b.make_multi(Op::rng_bit_generator, x, attrs);
  };
  const uint64_t states[] = {1, 2, 3, 4};
  auto state = [&](Dims dims, int from) {
    return hlo::Literal::copy_of(hlo::array_type_or_die(DType::kU64, dims), states + from);
  };
  const auto whole = run(vmap_of(f, {true}, 2), {state({2, 2}, 0)});
  for (int k = 0; k < 2; ++k) {
    const auto one = run(f, {state({2}, 2 * k)});
    for (int i = 0; i < 5; ++i) CHECK(whole[1]->as<uint32_t>()[5 * k + i] == one[1]->as<uint32_t>()[i]);
  }
}

TEST_CASE("gradients of batches and batches of gradients", "[trace]") {
  Numbers n;
  const Fn f = [](Builder& b, std::span<const Value> x) {
    return Values{b.reduce_sum(b.tanh(b.dot_general(x[0], x[1], {{}, {}, {1}, {0}})), {{0}})};
  };
  check_vmap(grad_of(f, 2), {n.array({3, 2}), n.array({2})}, n);
  check_vmap(grad_of(grad_of(f, 2), 2), {n.array({3, 2}), n.array({2})}, n);
  check_grads(vmap_of(f, {true, false}, 4), {n.array({4, 3, 2}), n.array({2})});
  check_vmap(vmap_of(grad_of(f, 2), {false, true}, 4), {n.array({3, 2}), n.array({4, 2})}, n);
}

TEST_CASE("batches of loops, branches and checkpoints of gradients", "[trace]") {
  Numbers n;
  check_vmap(grad_of(counted(true), 2), {n.array({}), n.array({})}, n);
  check_vmap(grad_of(chosen(true), 3), {n.array({2}), n.array({2}), integers({}, {1})}, n);
  check_grads(vmap_of(counted(true), {true, false}, 2), {n.array({2}), n.array({})});
  check_grads(vmap_of(chosen(true), {true, false, true}, 3),
              {n.array({3, 2}), n.array({2}), integers({3}, {0, 1, 2})});
  const auto again = [] {
    return hlo::intern_attrs({{hlo::Attr::body, two_results()}, {hlo::Attr::instance, int64_t{1}}});
  };
  const Fn f = [&](Builder& b, std::span<const Value> x) { return b.make_multi(Op::call, x, again()); };
  check_vmap(grad_of(f, 2), {n.array({3}), n.array({3})}, n);
}

TEST_CASE("loops and branches inside a scan", "[trace]") {
  // Each step chooses a branch by its position, runs a counted loop, and calls a checkpointed region.
  const auto again = [] {
    return hlo::intern_attrs({{hlo::Attr::body, two_results()}, {hlo::Attr::instance, int64_t{3}}});
  };
  const ComputationPtr body = region({s32({}), f64({2}), f64({})}, [&](Builder& b, std::span<const Value> p) {
    const Values branch = chosen(true)(b, {{p[1], b.sine(p[1]), p[0]}});
    const Value looped = counted(true)(b, {{p[2], b.scalar(DType::kF64, 0.7)}})[0];
    const Value h = b.add(branch[0], b.multiply(branch[1], b.broadcast_scalar(looped, {{2}})));
    const Value wide = b.concatenate({{h, b.reshape(looped, {{1}})}}, 0);
    const Values kept = b.make_multi(Op::call, {{wide, b.tanh(wide)}}, again());
    return Values{b.add(p[0], b.scalar_int(DType::kS32, 1)), b.tanh(b.slice(kept[0], {{0}}, {{2}})), kept[1]};
  });
  const Fn f = [&](Builder& b, std::span<const Value> x) {
    const Values out = b.scan(body, {{b.scalar_int(DType::kS32, 0), x[0]}}, {{x[1]}}, 4, false);
    return b.ok() ? Values{out[1], out[2]} : Values();
  };
  Numbers n;
  check_grads(f, {n.array({2}), n.array({4})});
  check_vmap(grad_of(f, 2), {n.array({2}), n.array({4})}, n);
  check_vmap(grad_of(grad_of(f, 2), 2), {n.array({2}), n.array({4})}, n);
}

TEST_CASE("empty batches", "[trace]") {
  const Fn f = [](Builder& b, std::span<const Value> x) {
    return Values{b.sine(b.dot_general(x[0], x[1], {{}, {}, {1}, {0}}))};
  };
  const auto out = run(vmap_of(grad_of(f, 2), {true, false}, 0),
                       {literal({0, 2, 3}, {}), literal({3, 2}, {1, 2, 3, 4, 5, 6})});
  CHECK(out[0]->dims() == Dims{0, 2, 3});
  CHECK(out[1]->dims() == Dims{0, 3, 2});
}

TEST_CASE("a chain of 100,000 nodes", "[trace]") {
  const Fn f = [](Builder& b, std::span<const Value> x) {
    Value v = x[0];
    for (int i = 0; i < 100000; ++i) v = i % 2 ? b.multiply(v, x[1]) : b.add(v, x[1]);
    return Values{v};
  };
  const auto g = run(grad_of(f, 2), {literal({}, {0.5}), literal({}, {1})});
  CHECK(g[0]->as<double>()[0] == 1);
  const auto lanes = run(vmap_of(f, {true, false}, 2), {literal({2}, {0.5, 1.5}), literal({}, {1})});
  CHECK(lanes[0]->as<double>()[1] == 50001.5);
}

}  // namespace
}  // namespace lamina::trace::test
