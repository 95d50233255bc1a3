// Programs that CUDA devices keep as graphs: the bits and errors of their steps, which graphs there are, and
// what becomes of them. The stand-in for the driver runs a graph's nodes as it runs launches, late and
// checked.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "jit/cuda/graph.h"
#include "jit/cuda/graph_step.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_testing.h"
#include "tests/jit/fork_child.h"

using namespace lamina;
using namespace lamina::hlo;
using jit::BufferRef;
using jit::Executable;
namespace cuda = lamina::jit::cuda;
using lamina::testing::check_in_child;
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
using Floats = std::vector<float>;

const std::vector<std::string> kNone;
constexpr int64_t kRows = 6, kColumns = 40;
constexpr int64_t kCount = kRows * kColumns;
constexpr int kInvalidValue = 1, kOutOfMemory = 2, kIllegalAddress = 700, kCaptureUnsupported = 900;

// x -> x - sums of its rows / 64, and the same of columns; the sum of all besides. Several kernels in a row.
ComputationPtr centered() {
  Builder b;
  const Value x = make_parameter(*array_type(DType::kF32, Dims{kRows, kColumns}));
  Value y = x;
  for (int64_t reduced : {1, 0, 1}) {
    const Value sums = b.reduce_sum(b.multiply(y, y), {{reduced}});
    y = b.subtract(
        y, b.broadcast_in_dim(b.multiply(sums, b.full_like(sums, 1.0 / 64)), x.dims(), {{1 - reduced}}));
  }
  return *Computation::make({{x}}, {{y, b.reduce_sum(y, {{0, 1}})}});
}

// x -> tanh(x * x), of square matrices, by cublasLt.
ComputationPtr squared() {
  Builder b;
  const Value x = make_parameter(*array_type(DType::kF32, Dims{16, 16}));
  Value y = x;
  for (int i = 0; i < 2; ++i) y = b.tanh(b.dot_general(y, y, {{}, {}, {1}, {0}}));
  return *Computation::make({{x}}, {{y, b.reduce_sum(y, {{0, 1}})}});
}

Program compiled(const ComputationPtr& program, jit::Device& device = cuda_device()) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(device, program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *executable;
}

Floats numbers(int64_t count = kCount) {
  Floats out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i % 23) * 0.0625f - 0.5f;
  return out;
}
BufferRef put(const Floats& values, jit::Device& device = cuda_device()) {
  return *cuda_client().put(device, values.data(), static_cast<int64_t>(values.size()) * 4);
}
absl::StatusOr<Floats> read(const BufferRef& buffer) {
  Floats out(static_cast<size_t>(buffer->bytes()) / 4);
  const jit::Client::Read all{&*buffer, 0, buffer->bytes(), out.data()};
  if (absl::Status s = cuda_client().read({&all, 1}, nullptr); !s.ok()) return s;
  return out;
}

// What the program makes of it, by the evaluator.
Floats evaluated(const Computation& program, const Floats& x) {
  const LiteralPtr argument =
      Literal::copy_of(program.parameters()[0].type(), reinterpret_cast<const std::byte*>(x.data()));
  const auto results = evaluate(program, std::vector<LiteralPtr>{argument});
  REQUIRE(results.ok());
  Floats out(x.size());
  std::memcpy(out.data(), (*results)[0]->data(), out.size() * 4);
  return out;
}
bool same(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

jit::KernelStats stats() { return cuda_client().kernel_stats(); }
// Since it was made.
struct Since {
  int64_t runs() const { return stats().graph_runs - before.graph_runs; }
  int64_t graphs() const { return stats().graphs - before.graphs; }
  int64_t refused() const { return stats().graphs_refused - before.graphs_refused; }
  int64_t kernels() const { return stats().compiled_runs - before.compiled_runs; }
  jit::KernelStats before = stats();
};

// x becomes the program's first result, in turns that keep what they read.
void check_turns(const Program& p, int turns, int64_t count = kCount) {
  Floats want = numbers(count);
  std::vector<BufferRef> in{put(want)}, out;
  for (int t = 0; t < turns; ++t) {
    REQUIRE(p->run(in, out) == absl::OkStatus());
    want = evaluated(p->program(), want);
    in[0] = out[0];
  }
  const auto got = read(in[0]);
  REQUIRE(got.ok());
  CHECK(same(*got, want));
}

}  // namespace

TEST_CASE("the third run of a program is a graph, with the bits and counts of its steps",
          "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  const int64_t kernels = static_cast<int64_t>(p->steps().size());
  REQUIRE(kernels >= 3);
  const BufferRef x = put(numbers());
  const Floats want = evaluated(p->program(), numbers());
  std::vector<BufferRef> in{x}, out;
  standin()->take_counts();
  for (int i = 1; i <= 6; ++i) {
    const Since since;
    REQUIRE(p->run(in, out).ok());
    CHECK(same(*read(out[0]), want));
    out.clear();
    const StandinCounts counts = standin()->take_counts();
    CHECK(since.kernels() == kernels);
    CHECK(counts.launches >= kernels);
    CHECK(since.runs() == (i > cuda::kPlainRuns));
    CHECK((counts.direct_launches == 0) == (i > cuda::kPlainRuns));
    CHECK(counts.graphs == (i == cuda::kPlainRuns + 1));
    CHECK(counts.graph_changes == 0);
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("products are in graphs, by captures that disturb nobody", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const Program p = compiled(squared());
  REQUIRE(p->describe().find("dot by cublasLt") != std::string::npos);
  standin()->take_counts();
  const Since since;
  check_turns(p, 12, 256);
  CHECK(since.graphs() >= 2);
  CHECK(since.runs() >= 6);
  CHECK(since.refused() == 0);
  CHECK(standin()->take_counts().captures >= 4);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("a program of one launch is no graph", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  Builder b;
  const Value x = make_parameter(*array_type(DType::kF32, Dims{kCount}));
  const Program p = compiled(*Computation::make({{x}}, {{b.tanh(x)}}));
  const Since since;
  check_turns(p, 5);
  CHECK(since.runs() == 0);
}

TEST_CASE("addresses that take turns have a graph each", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  const BufferRef a = put(numbers()), c = put(evaluated(p->program(), numbers()));
  std::vector<BufferRef> out;
  standin()->take_counts();
  const Since since;
  constexpr int kTurns = 20;
  for (int t = 0; t < kTurns; ++t) {
    std::vector<BufferRef> in{t % 2 == 0 ? a : c};
    REQUIRE(p->run(in, out).ok());
    out.clear();
  }
  CHECK(since.runs() == kTurns - cuda::kPlainRuns);
  CHECK(since.graphs() == 2);
  const StandinCounts counts = standin()->take_counts();
  CHECK(counts.graphs == 2);
  CHECK(counts.graph_changes == 0);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("results that are the next arguments are written by graphs", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  for (uint64_t seed = 0; seed < 3; ++seed) {
    standin()->set_seed(seed);
    const Since since;
    check_turns(p, 11);
    CHECK(since.runs() >= 6);
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("values of one size that are let go of in any order come to lie where they lay",
          "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  Builder b;
  std::vector<Value> parameters, results;
  for (int i = 0; i < 7; ++i) {
    const Value x = make_parameter(*array_type(DType::kF32, Dims{kRows, kColumns}));
    const Value sums = b.reduce_sum(b.multiply(x, x), {{1}});
    parameters.push_back(x);
    results.push_back(b.subtract(x, b.broadcast_in_dim(sums, x.dims(), {{0}})));
  }
  const Program p = compiled(*Computation::make(parameters, results));
  std::vector<BufferRef> in, out;
  for (int i = 0; i < 7; ++i) in.push_back(put(numbers()));
  std::mt19937_64 rng(3);
  const auto train = [&](int turns) {
    for (int t = 0; t < turns; ++t) {
      REQUIRE(p->run(in, out).ok());
      std::vector<size_t> order(in.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), rng);
      for (size_t i : order) in[i] = std::move(out[i]);
      out.clear();
    }
  };
  train(8);
  standin()->take_counts();
  const Since since;
  train(10);
  CHECK(since.runs() == 10);
  const StandinCounts counts = standin()->take_counts();
  CHECK(counts.graphs == 0);
  CHECK(counts.graph_changes == 0);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("arguments that are given up are written over by graphs", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  Floats want = numbers();
  std::vector<BufferRef> in{put(want)}, out;
  const Since since;
  for (int t = 0; t < 12; ++t) {
    REQUIRE(p->run_giving_up(in, out).ok());
    want = evaluated(p->program(), want);
    in = {std::move(out[0])};
    out.clear();
  }
  CHECK(same(*read(in[0]), want));
  CHECK(since.runs() >= 8);
  CHECK(since.graphs() <= 2);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("graphs are changed where a few addresses are new", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  std::vector<BufferRef> in{put(numbers())}, out, kept;
  const Floats want = evaluated(p->program(), numbers());
  standin()->take_counts();
  const Since since;
  constexpr int kTurns = 30;
  for (int t = 0; t < kTurns; ++t) {
    REQUIRE(p->run(in, out).ok());
    kept.push_back(out[1]);  // the sum
    CHECK(same(*read(out[0]), want));
    out.clear();
  }
  const StandinCounts counts = standin()->take_counts();
  CHECK(counts.graphs <= static_cast<int64_t>(cuda::kMostGraphs));
  CHECK(since.runs() >= kTurns - 8);
  CHECK(counts.graph_changes >= 10);
  CHECK(counts.graph_changes <= 2 * kTurns);
  for (const BufferRef& k : kept) CHECK(same(*read(k), *read(kept[0])));
  CHECK(standin_violations() == kNone);
}

TEST_CASE("addresses that are always new cost less and less", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const Program p = compiled(squared());
  Floats want = numbers(256);
  std::vector<BufferRef> in{put(want)}, out, kept;
  standin()->take_counts();
  const Since since;
  for (int t = 0; t < 60; ++t) {
    REQUIRE(p->run(in, out).ok());
    for (const BufferRef& b : out) kept.push_back(b);
    kept.push_back(in[0]);
    want = evaluated(p->program(), want);
    in[0] = out[0];
  }
  CHECK(same(*read(in[0]), want));
  // A changed product is a capture; one is dearer than the call.
  const StandinCounts counts = standin()->take_counts();
  CHECK(counts.graphs == static_cast<int64_t>(cuda::kMostGraphs));
  CHECK(since.runs() < 20);
  CHECK(counts.captures < 30);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("loops run graphs of their bodies", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  Builder b;
  const Type* type = *array_type(DType::kF32, Dims{kRows, kColumns});
  const ComputationPtr step = [&] {
    const Value x = make_parameter(type);
    const Value sums = b.reduce_sum(b.multiply(x, x), {{1}});
    const Value y =
        b.subtract(x, b.broadcast_in_dim(b.multiply(sums, b.full_like(sums, 1.0 / 64)), x.dims(), {{0}}));
    return *Computation::make({{x}},
                              {{b.add(y, b.broadcast_in_dim(b.reduce_sum(y, {{0}}), x.dims(), {{1}}))}});
  }();
  const Value x = make_parameter(type);
  const Values looped = b.scan(step, {{x}}, {}, 9, false);
  const Program p = compiled(*Computation::make({{x}}, looped));
  const Since since;
  check_turns(p, 3);
  CHECK(since.runs() >= 12);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("threads that run one program have graphs of their own", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  Floats want = numbers();
  for (int t = 0; t < 12; ++t) want = evaluated(p->program(), want);
  std::array<std::optional<absl::StatusOr<Floats>>, 3> got;
  const auto work = [&](size_t i) {
    std::vector<BufferRef> in{put(numbers())}, out;
    for (int t = 0; t < 12; ++t) {
      if (absl::Status s = p->run(in, out); !s.ok()) {
        got[i] = s;
        return;
      }
      in[0] = out[0];
    }
    got[i] = read(in[0]);
  };
  const Since since;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < got.size(); ++i) threads.emplace_back(work, i);
  for (std::thread& t : threads) t.join();
  for (const auto& g : got) {
    REQUIRE(g->ok());
    CHECK(same(**g, want));
  }
  CHECK(since.runs() > 0);
  CHECK(since.refused() == 0);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("graphs end with their programs", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  cuda_device().stream().wait(cuda_device().stream().mark().value, nullptr).IgnoreError();
  const int64_t before = standin()->live_graphs();
  {
    const ScopedLeastWork all(0);
    check_turns(compiled(centered()), 6);
    check_turns(compiled(squared()), 6, 256);
    CHECK(standin()->live_graphs() > before);
  }
  // The stream keeps what may still run, and asks now and then.
  for (int i = 0; i < 20 && standin()->live_graphs() > before; ++i) {
    const jit::Point mark = cuda_device().stream().mark();
    REQUIRE(cuda_device().stream().wait(mark.value, nullptr).ok());
  }
  CHECK(standin()->live_graphs() == before);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("what the driver refuses of graphs is launched, for good", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const auto& [call, result] :
       {std::pair(kStandinCapture, kCaptureUnsupported), std::pair(kStandinEndCapture, 901),
        std::pair(kStandinMultiply, 14), std::pair(kStandinMakeGraph, kOutOfMemory),
        std::pair(kStandinStartGraph, kOutOfMemory), std::pair(kStandinStartGraph, kInvalidValue)}) {
    const Program p = compiled(squared());
    check_turns(p, static_cast<int>(cuda::kPlainRuns), 256);
    const int64_t graphs = standin()->live_graphs();
    const Since since;
    standin()->fail(call, 0, result);
    check_turns(p, 8, 256);
    CHECK(since.refused() == 1);
    CHECK(since.runs() == 0);
    CHECK(standin()->live_graphs() == graphs);
  }
  // A change.
  const Program p = compiled(centered());
  std::vector<BufferRef> in{put(numbers())}, out, kept;
  const Since since;
  for (int t = 0; t < 20; ++t) {
    if (t == 12) standin()->fail(kStandinChangeGraph, 0, 910);
    REQUIRE(p->run(in, out).ok());
    kept.push_back(out[1]);
    CHECK(same(*read(out[0]), evaluated(p->program(), numbers())));
    out.clear();
  }
  CHECK(since.refused() == 1);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("planted: graphs that are not changed, and nodes that nothing orders",
          "[cuda][cuda_graphs][planted]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  std::vector<BufferRef> in{put(numbers())}, out, kept;
  SECTION("changes") {
    const Floats want = evaluated(p->program(), numbers());
    for (int t = 0; t < 12; ++t) {
      REQUIRE(p->run(in, out).ok());
      kept.push_back(std::move(out[1]));
      out.clear();
    }
    standin()->set_mistake(kStandinForgetsChanges);
    REQUIRE(p->run(in, out).ok());
    read(out[1]).status().IgnoreError();
    // Its memory was somebody's before, or nobody's.
    CHECK((standin_found("which nothing has written") || standin_found("let go of") ||
           !same(*read(kept.back()), *read(out[1]))));
  }
  SECTION("order") {
    standin()->set_mistake(kStandinForgetsOrder);
    for (int t = 0; t < 3; ++t) REQUIRE(p->run(in, out).ok());
    CHECK(standin_found("nothing orders two nodes of a graph"));
  }
}

TEST_CASE("planted: what does not belong in a capture", "[cuda][cuda_graphs][planted]") {
  const CleanStandin clean;
  auto& stream = static_cast<cuda::CudaStream&>(cuda_device().stream());
  cuda::Gpu& gpu = stream.gpu();
  const cuda::Driver& driver = gpu.driver();
  const BufferRef x = put(numbers());
  const auto captured = [&](auto work) {
    cuda::Graph graph(stream);
    return graph.call([&](cuda::StreamHandle on) { return work(on); });
  };
  const auto found = [&](const char* what, auto work) {
    INFO(what);
    CHECK_FALSE(captured(work).ok());
    CHECK(standin_found(what));
  };
  found("a wait on a stream that is captured",
        [&](cuda::StreamHandle on) { return gpu.call("waiting", driver.wait_for_stream, on); });
  found("recording on a stream that is captured", [&](cuda::StreamHandle on) {
    cuda::EventHandle event = nullptr;
    REQUIRE(gpu.call("making an event", driver.create_event, &event, cuda::kEventWithoutTime).ok());
    return gpu.call("recording", driver.record, event, on);
  });
  found("the end of a block on a stream that is captured", [&](cuda::StreamHandle on) {
    return gpu.call("freeing", driver.free, static_cast<cuda::DevicePointer>(x->address().bits()), on);
  });
  found("a copy from the host on a stream that is captured", [&](cuda::StreamHandle on) {
    const Floats values = numbers();
    return gpu.call("copying", driver.copy_in, static_cast<cuda::DevicePointer>(x->address().bits()),
                    static_cast<const void*>(values.data()), size_t{4}, on);
  });
  // Swallowed by the work: the capture is of no use all the same.
  CHECK_FALSE(captured([&](cuda::StreamHandle on) {
                gpu.call("waiting", driver.wait_for_stream, on).IgnoreError();
                return absl::OkStatus();
              }).ok());
  CHECK(standin_found("a wait on a stream that is captured"));
  // What a capture would have to say for other threads.
  const cuda::StreamHandle on = *stream.take_capture_stream();
  REQUIRE(gpu.call("capturing", driver.begin_capture, on, cuda::CaptureMode::kGlobal).ok());
  std::thread([&] { CHECK_FALSE(stream.drain().ok()); }).join();
  cuda::GraphHandle graph = nullptr;
  REQUIRE(gpu.call("capturing", driver.end_capture, on, &graph).ok());
  REQUIRE(gpu.call("letting go", driver.destroy_graph, graph).ok());
  CHECK(standin_found("a capture that restricts"));
  stream.give_back_capture_stream(on);
}

TEST_CASE("a forked child of a process with graphs gets an error, and ends in peace",
          "[cuda][cuda_graphs][fork]") {
  const CleanStandin clean;
  Program p = compiled(centered());
  check_turns(p, 6);
  check_in_child([&] {
    std::vector<BufferRef> out, in;
    const bool refused = p->run(in, out).message().find("cuda:0 was lost: a process forked") == 0;
    p.reset();
    return refused;
  });
  check_turns(p, 3);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("a run asks for the context of the device once for all kernels in a row", "[cuda][cuda_graphs]") {
  const CleanStandin clean;
  const Program p = compiled(centered());
  std::vector<BufferRef> in{put(numbers())}, out;
  REQUIRE(p->run(in, out).ok());
  out.clear();
  standin()->take_counts();
  REQUIRE(p->run(in, out).ok());
  const StandinCounts counts = standin()->take_counts();
  CHECK(counts.direct_launches >= 3);
  // It is looked for, set and taken away: for the kernels, the event at their end, and a question now and
  // then.
  CHECK(counts.context_calls <= 3 * 3);
}

// On any device, and by any library.
TEST_CASE("graphs give the bits of single launches", "[cuda][cuda_graphs][cuda_graphs_anywhere]") {
  const ScopedLeastWork all(0);
  for (const bool by_library : {false, true})
    for (const bool giving_up : {false, true}) {
      INFO(by_library << giving_up);
      const auto train = [&](int64_t plain_runs) {
        const ScopedPlainRuns plain(plain_runs);
        const Program p = compiled(by_library ? squared() : centered());
        std::vector<Floats> seen;
        std::vector<BufferRef> in{put(numbers(by_library ? 256 : kCount))}, out, kept;
        for (int t = 0; t < 40; ++t) {
          REQUIRE((giving_up ? p->run_giving_up(in, out) : p->run(in, out)) == absl::OkStatus());
          // Of some runs the second result stays, so that its address is new in the next.
          if (t % 3 == 0) kept.push_back(out[1]);
          in = {std::move(out[0])};
          out.clear();
          if (t % 7 == 0) seen.push_back(*read(in[0]));
        }
        for (const BufferRef& k : kept) seen.push_back(*read(k));
        return seen;
      };
      const Since since;
      const std::vector<Floats> want = train(std::numeric_limits<int64_t>::max());
      CHECK(since.runs() == 0);
      const std::vector<Floats> got = train(cuda::kPlainRuns);
      CHECK(since.runs() >= 10);
      CHECK(since.refused() == 0);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < got.size(); ++i) CHECK(same(got[i], want[i]));
    }
}

// In a process of its own: the devices stay lost.
TEST_CASE("devices that are lost in graphs or captures are told so once", "[.][cuda_lost_graphs]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const Program p = compiled(centered()), other = compiled(squared(), cuda_device(1));
  std::vector<BufferRef> in{put(numbers())}, out;
  for (int i = 0; i < 4; ++i) REQUIRE(p->run(in, out).ok());
  REQUIRE(read(out[0]).ok());
  // While the kernels of a graph run.
  standin()->fault(1, kIllegalAddress);
  REQUIRE(p->run(in, out).ok());
  CHECK(read(out[0]).status().message().find("cuda:0 was lost: CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
  CHECK(absl::IsUnavailable(p->run(in, out)));
  // In a capture, of the other.
  std::vector<BufferRef> there{put(numbers(256), cuda_device(1))};
  for (int i = 0; i < 2; ++i) REQUIRE(other->run(there, out).ok());
  standin()->fail(kStandinCapture, 0, kIllegalAddress);
  const absl::Status lost = other->run(there, out);
  CHECK(lost.message().find("cuda:1 was lost: CUDA_ERROR_ILLEGAL_ADDRESS") == 0);
  CHECK(absl::IsUnavailable(other->run(there, out)));
}
