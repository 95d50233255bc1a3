// Loops whose turns a CUDA device starts: the bits of turns that the host starts, no wait of the host, which
// loops they are, and what becomes of them. The stand-in for the driver runs a loop's turns in an order that
// the graph allows, and looks at what it touches.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "jit/cuda/graph.h"
#include "jit/cuda/loop.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_testing.h"

using namespace lamina;
using namespace lamina::hlo;
using jit::BufferRef;
using jit::Executable;
namespace cuda = lamina::jit::cuda;
using lamina::testing::CleanStandin;
using lamina::testing::cuda_client;
using lamina::testing::cuda_device;
using lamina::testing::ScopedLeastWork;
using lamina::testing::ScopedPlainRuns;
using lamina::testing::standin;
using lamina::testing::standin_found;
using lamina::testing::standin_violations;

namespace {

using Program = std::shared_ptr<const Executable>;
using Literals = std::vector<LiteralPtr>;

const std::vector<std::string> kNone;
const Type* const kMatrix = *array_type(DType::kF32, Dims{6, 40});
const Type* const kCounter = *array_type(DType::kS32, Dims{});
constexpr int kOutOfMemory = 2, kNotSupported = 801;

// x - sums of its rows / 64, and the same of columns: several kernels.
Value centered(Builder& b, Value x) {
  for (int64_t reduced : {1, 0}) {
    const Value sums = b.reduce_sum(b.multiply(x, x), {{reduced}});
    x = b.subtract(
        x, b.broadcast_in_dim(b.multiply(sums, b.full_like(sums, 1.0 / 64)), x.dims(), {{1 - reduced}}));
  }
  return x;
}

using Record = std::function<Values(Builder&, const Values&)>;
ComputationPtr recorded(const Values& like, const Record& record) {
  Builder b;
  Values parameters;
  for (const Value& v : like) parameters.push_back(make_parameter(v.type()));
  const Values results = record(b, parameters);
  REQUIRE(b.ok());
  return *Computation::make(parameters, results);
}

// while cond(carries): carries = body(carries)
Values loop(Builder& b, const Values& carries, const Record& cond, const Record& body) {
  return b.while_loop(carries, recorded(carries, cond), recorded(carries, body));
}

ComputationPtr program_of(const std::vector<const Type*>& types, const Record& record) {
  Values like;
  for (const Type* type : types) like.push_back(make_parameter(type));
  return recorded(like, record);
}

Value plus_one(Builder& b, const Value& i) { return b.add(i, b.full_like(i, 1)); }
Value less(Builder& b, const Value& a, const Value& c) { return b.compare(a, c, "LT"); }

// (n, x) -> x centered n times.
ComputationPtr counted() {
  return program_of({kCounter, kMatrix}, [](Builder& b, const Values& in) {
    const Values out = loop(
        b, {b.full_like(in[0], 0), in[0], in[1]},
        [](Builder& c, const Values& v) { return Values{less(c, v[0], v[1])}; },
        [](Builder& c, const Values& v) {
          return Values{plus_one(c, v[0]), v[1], centered(c, v[2])};
        });
    return Values{out[2], out[0]};
  });
}

LiteralPtr number(int32_t n) { return Literal::copy_of(kCounter, reinterpret_cast<const std::byte*>(&n)); }
LiteralPtr numbers(const Type* type = kMatrix, int first = 0) {
  std::vector<float> out(static_cast<size_t>(type->num_elements));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>((i + static_cast<size_t>(first)) % 23) * 0.0625f - 0.5f;
  return Literal::copy_of(type, reinterpret_cast<const std::byte*>(out.data()));
}

Program compiled(const ComputationPtr& program) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(cuda_device(), program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *executable;
}
bool is_on_device(const Program& p) {
  return p->describe().find("each turn started by the device") != std::string::npos;
}

std::vector<BufferRef> put(const Literals& arguments) {
  std::vector<BufferRef> out;
  for (const LiteralPtr& a : arguments)
    out.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
  return out;
}
bool same(const BufferRef& buffer, const Literal& want) {
  std::vector<std::byte> got(static_cast<size_t>(want.bytes()));
  const jit::Client::Read all{&*buffer, 0, want.bytes(), got.data()};
  REQUIRE(cuda_client().read({&all, 1}, nullptr).ok());
  return std::memcmp(got.data(), want.data(), got.size()) == 0;
}

// Whether the run has the evaluator's bits. `counts` gets what it took, but for reading the results.
bool runs_right(const Program& p, const Literals& arguments, StandinCounts* counts = nullptr,
                bool giving_up = false) {
  std::vector<BufferRef> in = put(arguments), out;
  const auto want = evaluate(p->program(), arguments);
  REQUIRE(want.ok());
  standin()->take_counts();
  REQUIRE((giving_up ? p->run_giving_up(in, out) : p->run(in, out)) == absl::OkStatus());
  standin()->drain();
  if (counts) *counts = standin()->take_counts();
  for (size_t r = 0; r < out.size(); ++r)
    if (!same(out[r], *(*want)[r])) return false;
  // Arguments that were kept are as they were.
  for (size_t a = 0; a < in.size(); ++a)
    if (in[a] && !same(in[a], *arguments[a])) return false;
  return true;
}

struct Since {
  int64_t loops() const { return cuda_client().kernel_stats().loop_runs - before.loop_runs; }
  int64_t graphs() const { return cuda_client().kernel_stats().graphs - before.graphs; }
  int64_t refused() const { return cuda_client().kernel_stats().graphs_refused - before.graphs_refused; }
  jit::KernelStats before = cuda_client().kernel_stats();
};

}  // namespace

TEST_CASE("a loop of several kernels never waits for the host", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const Program p = compiled(counted());
  INFO(p->describe());
  REQUIRE(is_on_device(p));
  for (int32_t turns : {3, 0, 1, 12}) {
    const Since since;
    StandinCounts counts{};
    CHECK(runs_right(p, {number(turns), numbers()}, &counts));
    CHECK(counts.copies_out == 0);
    CHECK(counts.turns == turns);
    CHECK(counts.graph_starts == 1);
    CHECK(since.loops() == 1);
    CHECK(since.refused() == 0);
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("a graph with a loop serves the same addresses again, and others get another",
          "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const Program p = compiled(counted());
  const auto want = evaluate(p->program(), Literals{number(4), numbers()});
  std::vector<BufferRef> in = put({number(4), numbers()}), out, kept;
  const Since since;
  for (int run = 0; run < 5; ++run) {
    REQUIRE(p->run(in, out).ok());
    CHECK(same(out[0], *(*want)[0]));
    out.clear();
  }
  CHECK(since.loops() == 5);
  CHECK(since.graphs() == 1);
  // Results that stay have the next ones lie elsewhere.
  for (int run = 0; run < 9; ++run) {
    REQUIRE(p->run(in, out).ok());
    kept.push_back(out[0]);
    kept.push_back(out[1]);
    CHECK(same(out[0], *(*want)[0]));
  }
  CHECK(since.loops() == 14);
  CHECK(since.graphs() >= 9);
  for (size_t i = 0; i < kept.size(); ++i) CHECK(same(kept[i], *(*want)[i % 2]));
  CHECK(standin_violations() == kNone);
}

TEST_CASE("values may be exchanged, passed on, given twice, and made of nothing", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  struct Case {
    const char* name;
    Record body;
    bool twice = false;
  };
  // Of (i, n, a, b).
  const std::vector<Case> cases{
      {"exchanged with a sum",
       [](Builder& b, const Values& v) {
         return Values{plus_one(b, v[0]), v[1], v[3], centered(b, b.add(v[2], v[3]))};
       }},
      {"exchanged",
       [](Builder& b, const Values& v) {
         return Values{plus_one(b, v[0]), v[1], centered(b, v[3]), centered(b, v[2])};
       }},
      {"only exchanged",
       [](Builder& b, const Values& v) {
         return Values{plus_one(b, v[0]), v[1], v[3], v[2]};
       }},
      {"passed on",
       [](Builder& b, const Values& v) {
         return Values{plus_one(b, v[0]), v[1], centered(b, b.add(v[2], v[3])), v[3]};
       }},
      {"given twice",
       [](Builder& b, const Values& v) {
         return Values{plus_one(b, v[0]), v[1], centered(b, v[2]), centered(b, b.subtract(v[3], v[2]))};
       },
       true},
      {"of one value",
       [](Builder& b, const Values& v) {
         const Value y = centered(b, b.add(v[2], v[3]));
         return Values{plus_one(b, v[0]), v[1], y, y};
       }},
      {"a constant",
       [](Builder& b, const Values& v) {
         return Values{plus_one(b, v[0]), v[1], centered(b, b.add(v[2], v[3])),
                       b.constant(numbers(kMatrix, 5))};
       }},
  };
  for (const Case& c : cases) {
    INFO(c.name);
    const Program p = compiled(program_of({kCounter, kMatrix, kMatrix}, [&](Builder& b, const Values& in) {
      const Values out = loop(
          b, {b.full_like(in[0], 0), in[0], in[1], c.twice ? in[1] : in[2]},
          [](Builder& d, const Values& v) { return Values{less(d, v[0], v[1])}; }, c.body);
      return Values{out[2], out[3], in[1]};
    }));
    INFO(p->describe());
    const bool is_kernel = p->describe().find("while") == std::string::npos;
    for (int32_t turns : {0, 1, 2, 5})
      for (bool giving_up : {false, true}) {
        standin()->set_seed(static_cast<uint64_t>(turns));
        StandinCounts counts{};
        CHECK(runs_right(p, {number(turns), numbers(), numbers(kMatrix, 9)}, &counts, giving_up));
        CHECK(counts.copies_out == 0);
        CHECK((is_kernel || counts.turns == turns));
      }
    CHECK(standin_violations() == kNone);
  }
}

TEST_CASE("a condition may read arrays, by kernels of its own, or be a value of the loop",
          "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const auto smaller = [](Builder& b, const Value& x) {
    return b.multiply(centered(b, x), b.full_like(x, 0.5));
  };
  const auto large = [](Builder& b, const Value& x) {
    const Value sum = b.reduce_sum(b.multiply(x, x), {{0, 1}});
    return b.compare(sum, b.full_like(sum, 2.0), "GT");
  };
  const Program by_kernels = compiled(program_of({kMatrix}, [&](Builder& b, const Values& in) {
    return loop(
        b, in, [&](Builder& c, const Values& v) { return Values{large(c, v[0])}; },
        [&](Builder& c, const Values& v) { return Values{smaller(c, v[0])}; });
  }));
  const Program by_value = compiled(program_of({kMatrix}, [&](Builder& b, const Values& in) {
    return loop(
        b, {in[0], large(b, in[0])}, [](Builder&, const Values& v) { return Values{v[1]}; },
        [&](Builder& c, const Values& v) {
          const Value x = smaller(c, v[0]);
          return Values{x, large(c, x)};
        });
  }));
  for (const Program& p : {by_kernels, by_value}) {
    INFO(p->describe());
    REQUIRE(is_on_device(p));
    for (int again = 0; again < 3; ++again) {
      StandinCounts counts{};
      CHECK(runs_right(p, {numbers(kMatrix, again)}, &counts));
      CHECK(counts.turns > 1);
      CHECK(counts.copies_out == 0);
    }
  }
  CHECK(standin_violations() == kNone);
}

namespace {

// (n, m, x): n times, x centered m times and then once more.
ComputationPtr nested() {
  return program_of({kCounter, kCounter, kMatrix}, [](Builder& b, const Values& in) {
    const auto goes_on = [](Builder& c, const Values& v) { return Values{less(c, v[0], v[1])}; };
    const Values out =
        loop(b, {b.full_like(in[0], 0), in[0], in[1], in[2]}, goes_on, [&](Builder& c, const Values& v) {
          const Values inner =
              loop(c, {c.full_like(v[0], 0), v[2], v[3]}, goes_on, [](Builder& d, const Values& w) {
                return Values{plus_one(d, w[0]), w[1], centered(d, w[2])};
              });
          return Values{plus_one(c, v[0]), v[1], v[2], centered(c, inner[2])};
        });
    return Values{out[3]};
  });
}

}  // namespace

TEST_CASE("loops in loops are started by the device, too", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const Program p = compiled(nested());
  REQUIRE(is_on_device(p));
  for (const auto& [n, m] : {std::pair(3, 2), std::pair(2, 0), std::pair(0, 4), std::pair(1, 5)}) {
    INFO(n << " " << m);
    const Since since;
    StandinCounts counts{};
    CHECK(runs_right(p, {number(n), number(m), numbers()}, &counts));
    CHECK(counts.turns == n + n * m);
    CHECK(counts.copies_out == 0);
    CHECK(counts.graph_starts == 1);
    CHECK(since.loops() == 1);
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("products are captured into loops, once the host has called them", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const Type* const square = *array_type(DType::kF32, Dims{16, 16});
  const Program p = compiled(program_of({kCounter, square}, [](Builder& b, const Values& in) {
    const Values out = loop(
        b, {b.full_like(in[0], 0), in[0], in[1]},
        [](Builder& c, const Values& v) { return Values{less(c, v[0], v[1])}; },
        [](Builder& c, const Values& v) {
          return Values{plus_one(c, v[0]), v[1], c.tanh(c.dot_general(v[2], v[2], {{}, {}, {1}, {0}}))};
        });
    return Values{out[2]};
  }));
  REQUIRE(is_on_device(p));
  for (int run = 0; run < 4; ++run) {
    const Since since;
    StandinCounts counts{};
    CHECK(runs_right(p, {number(3), numbers(square)}, &counts));
    CHECK(since.loops() == (run > 0));
    CHECK(since.refused() == 0);
    CHECK((counts.copies_out == 0) == (run > 0));
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("the report says why the host starts a loop's turns", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const auto said = [](const ComputationPtr& program) { return compiled(program)->describe(); };
  const auto has = [](const std::string& text, std::string_view part) {
    return text.find(part) != text.npos;
  };
  const auto below = [](Builder& b, const Values& v) {
    const Value sum = b.reduce_sum(v[0], {{0, 1}});
    return Values{b.compare(sum, b.full_like(sum, -1000.0), "GT")};
  };
  // A step that is the host's: a window of which most lies outside.
  const std::string by_host = said(program_of({kMatrix}, [&](Builder& b, const Values& in) {
    return loop(b, in, below, [](Builder& c, const Values& v) {
      const hlo::Values sums =
          c.reduce_window({{v[0]}}, {{c.scalar(DType::kF32, 0)}}, binary_region(Op::add, DType::kF32),
                          {{1, 100}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 99, 0}});
      return Values{centered(c, sums[0])};
    });
  }));
  INFO(by_host);
  CHECK(has(by_host, "each turn started by the host: the device cannot start a step of it ("));
  // More to copy than an answer costs.
  const std::string large = said(
      program_of({*array_type(DType::kF32, Dims{1024, 1025}), *array_type(DType::kF32, Dims{1024, 1025})},
                 [&](Builder& b, const Values& in) {
                   return loop(b, in, below, [](Builder& c, const Values& v) {
                     return Values{v[1], centered(c, v[0])};
                   });
                 }));
  INFO(large);
  CHECK(has(large, "each turn started by the host: each would copy 8396800 bytes for the next"));
  CHECK(has(said(counted()), "each turn started by the device"));
}

TEST_CASE("what the driver refuses of a loop is started by the host, for good", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  for (const auto& [call, result] :
       {std::pair(kStandinMakeLoop, kNotSupported), std::pair(kStandinMakeGraph, kOutOfMemory),
        std::pair(kStandinStartGraph, kOutOfMemory)}) {
    const Program p = compiled(counted());
    const ScopedPlainRuns no_graphs_of_bodies(std::numeric_limits<int64_t>::max());
    const int64_t graphs = standin()->live_graphs();
    const Since since;
    standin()->fail(call, 0, result);
    for (int run = 0; run < 3; ++run) {
      StandinCounts counts{};
      CHECK(runs_right(p, {number(3), numbers()}, &counts));
      CHECK(counts.copies_out == 4);  // once a turn, and once more
    }
    CHECK(since.refused() == 1);
    CHECK(since.loops() == 0);
    CHECK(standin()->live_graphs() <= graphs);
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("graphs with loops end with their programs, and threads have their own", "[cuda][cuda_loops]") {
  const CleanStandin clean;
  const auto wait = [] {
    const jit::Point mark = cuda_device().stream().mark();
    REQUIRE(cuda_device().stream().wait(mark.value, nullptr).ok());
  };
  wait();
  const int64_t before = standin()->live_graphs();
  {
    const Program p = compiled(nested());
    const auto want = evaluate(p->program(), Literals{number(2), number(3), numbers()});
    std::vector<std::vector<BufferRef>> out(3);
    std::vector<std::thread> threads;
    std::vector<std::vector<BufferRef>> in;
    for (size_t i = 0; i < out.size(); ++i) in.push_back(put({number(2), number(3), numbers()}));
    std::vector<absl::Status> status(out.size());
    for (size_t i = 0; i < out.size(); ++i)
      threads.emplace_back([&, i] {
        for (int run = 0; run < 5 && status[i].ok(); ++run) status[i] = p->run(in[i], out[i]);
      });
    for (std::thread& t : threads) t.join();
    for (size_t i = 0; i < out.size(); ++i) {
      REQUIRE(status[i].ok());
      CHECK(same(out[i][0], *(*want)[0]));
    }
    CHECK(standin()->live_graphs() > before);
  }
  for (int i = 0; i < 20 && standin()->live_graphs() > before; ++i) wait();
  CHECK(standin()->live_graphs() == before);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("planted: mistakes in loops of graphs are found", "[cuda][cuda_loops][planted]") {
  const CleanStandin clean;
  const Literals arguments{number(3), numbers()};
  const auto run = [&](const Program& p, const Literals& given) {
    std::vector<BufferRef> in = put(given), out;
    p->run(in, out).IgnoreError();
    return out;
  };
  SECTION("a condition that is never set") {
    const Program p = compiled(counted());
    standin()->set_mistake(kStandinKeepsConditions);
    run(p, arguments);
    CHECK(standin_found("a loop begins before a kernel has said whether it goes on"));
  }
  SECTION("a condition that is set before the answer is written") {
    const Program p = compiled(counted());
    standin()->set_mistake(kStandinSetsEarly);
    run(p, arguments);
    CHECK(standin_found("nothing orders two nodes of a graph"));
  }
  SECTION("nodes that nothing orders, in a turn") {
    const Program p = compiled(counted());
    standin()->set_mistake(kStandinForgetsOrder);
    run(p, arguments);
    CHECK(standin_found("nothing orders two nodes of a graph"));
  }
  SECTION("a copy that is missing") {
    // Values that change places are copied in each turn.
    const Program p = compiled(program_of({kCounter, kMatrix, kMatrix}, [](Builder& b, const Values& in) {
      const Values out = loop(
          b, {b.full_like(in[0], 0), in[0], in[1], in[2]},
          [](Builder& c, const Values& v) { return Values{less(c, v[0], v[1])}; },
          [](Builder& c, const Values& v) {
            return Values{plus_one(c, v[0]), v[1], v[3], centered(c, c.add(v[2], v[3]))};
          });
      return Values{out[2], out[3]};
    }));
    REQUIRE(is_on_device(p));
    const Literals given{number(3), numbers(), numbers(kMatrix, 9)};
    CHECK(runs_right(p, given));
    standin()->set_mistake(kStandinSkipsCopies);
    const auto want = evaluate(p->program(), given);
    const std::vector<BufferRef> out = run(p, given);
    CHECK((!standin_violations().empty() || !same(out[0], *(*want)[0])));
  }
}

TEST_CASE("planted: what the driver refuses of loops", "[cuda][cuda_loops][planted]") {
  const CleanStandin clean;
  auto& stream = static_cast<cuda::CudaStream&>(cuda_device().stream());
  cuda::Gpu& gpu = stream.gpu();
  const cuda::Driver& driver = gpu.driver();
  const auto graph = [&] {
    cuda::GraphHandle made = nullptr;
    REQUIRE(gpu.call("making a graph", driver.create_graph, &made, 0U).ok());
    return made;
  };
  const auto condition = [&](cuda::GraphHandle of) {
    cuda::ConditionHandle made = 0;
    REQUIRE(gpu.call("making", driver.create_condition, &made, of, gpu.context(), 0U, 0U).ok());
    return made;
  };
  const auto add_loop = [&](cuda::GraphHandle to, cuda::LoopNode& node) {
    cuda::NodeHandle made = nullptr;
    node.context = gpu.context();
    return gpu.call("adding", driver.add_loop, &made, to, static_cast<const cuda::NodeHandle*>(nullptr),
                    static_cast<const void*>(nullptr), size_t{0}, &node);
  };
  const auto make = [&](cuda::GraphHandle of, cuda::StartableHandle* made) {
    return gpu.call("making", driver.make_startable, made, of, 0ULL);
  };
  const cuda::GraphHandle one = graph(), other = graph();
  cuda::StartableHandle made = nullptr, again = nullptr;
  cuda::LoopNode node;
  node.condition = condition(one);
  // Of another graph; of no loop when all is made; of two loops.
  CHECK_FALSE(add_loop(other, node).ok());
  CHECK_FALSE(make(one, &made).ok());
  REQUIRE(add_loop(one, node).ok());
  CHECK_FALSE(add_loop(one, node).ok());
  // In a graph inside another one.
  cuda::NodeHandle inside = nullptr;
  CHECK_FALSE(gpu.call("adding", driver.add_graph, &inside, other,
                       static_cast<const cuda::NodeHandle*>(nullptr), size_t{0}, one)
                  .ok());
  // Kinds of nodes that are none of ours.
  cuda::LoopNode strange;
  strange.condition = condition(other);
  strange.kind = 0;
  CHECK_FALSE(add_loop(other, strange).ok());
  // A turn by itself; the whole twice.
  CHECK_FALSE(make(node.turn[0], &again).ok());
  REQUIRE(make(one, &made).ok());
  CHECK_FALSE(make(one, &again).ok());
  CHECK_FALSE(gpu.call("ending", driver.destroy_graph, node.turn[0]).ok());
  CHECK(standin_found("a graph ends twice, or is none"));
  REQUIRE(gpu.call("ending", driver.destroy_startable, made).ok());
  REQUIRE(gpu.call("ending", driver.destroy_graph, one).ok());
  REQUIRE(gpu.call("ending", driver.destroy_graph, other).ok());
}

// On any device that has loops in graphs.
TEST_CASE("loops that a device starts give the evaluator's bits", "[cuda][cuda_loops][cuda_loops_anywhere]") {
  for (const auto& [program, arguments] : {std::pair(counted(), Literals{number(50), numbers()}),
                                           std::pair(counted(), Literals{number(0), numbers()}),
                                           std::pair(nested(), Literals{number(7), number(3), numbers()})}) {
    const Program p = compiled(program);
    INFO(p->describe());
    const auto want = evaluate(p->program(), arguments);
    REQUIRE(want.ok());
    const Since since;
    std::vector<BufferRef> kept;
    for (int run = 0; run < 9; ++run) {
      std::vector<BufferRef> in = put(arguments), out;
      REQUIRE(p->run(in, out) == absl::OkStatus());
      for (size_t r = 0; r < out.size(); ++r) CHECK(same(out[r], *(*want)[r]));
      // Some addresses are new in the next run.
      if (run % 2 == 0) kept.push_back(out[0]);
    }
    CHECK(since.loops() == (is_on_device(p) ? 9 : 0));
    CHECK(since.refused() == 0);
    CHECK(is_on_device(p) == cuda_client().driver().has_loops);
  }
}

// In a process of its own: the device stays lost.
TEST_CASE("a device that is lost in a loop is told so", "[.][cuda_lost_loops]") {
  const CleanStandin clean;
  const Program p = compiled(counted());
  CHECK(runs_right(p, {number(3), numbers()}));
  std::vector<BufferRef> in = put({number(3), numbers()}), out;
  REQUIRE(cuda_device().stream().wait(cuda_device().stream().mark().value, nullptr).ok());
  standin()->drain();
  standin()->fault(1, 700);
  REQUIRE(p->run(in, out).ok());
  std::vector<float> got(240);
  const jit::Client::Read all{&*out[0], 0, 960, got.data()};
  CHECK(
      cuda_client().read({&all, 1}, nullptr).message().find("cuda:0 was lost: CUDA_ERROR_ILLEGAL_ADDRESS") ==
      0);
  CHECK(absl::IsUnavailable(p->run(in, out)));
}
