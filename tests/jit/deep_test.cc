// Long programs: nothing in the library recurses over a graph.
#include <pthread.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "hlo/parser.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/verifier.h"
#include "jit/cpu/client.h"
#include "jit/program/executable.h"
#include "lazy/lazy.h"
#include "lazy/transforms.h"
#include "tests/build_paths.h"
#include "tests/jit/host_data.h"

namespace lamina::jit {
namespace {

using namespace hlo;
using testing::host_data;

// Runs `body` on a thread with 256 KiB of stack.
void on_small_stack(std::function<void()> body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  REQUIRE(pthread_attr_setstacksize(&attributes, 256 * 1024) == 0);
  pthread_t thread;
  const auto call = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, call, &body) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

constexpr int kLength = 100'000;

Value chain(Builder& b, Value v, const Value& step) {
  for (int i = 0; i < kLength; ++i) v = i % 2 ? b.multiply(v, step) : b.add(v, step);
  return v;
}

TEST_CASE("a chain of 100,000 nodes goes through everything on a stack of 256 KiB", "[deep]") {
  std::string failure;
  double evaluated = 0, executed = 0, forced = 0, gradient = 0, lane = 0;
  on_small_stack([&] {
    const auto must = [&](bool good, const char* what) {
      if (!good && failure.empty()) failure = what;
      return good;
    };
    jit::CpuClient::get().kernels().set_generator_options(
        {.library_path = kCodeGenerator, .cpu = {}, .features = {}});
    const Type* f64 = scalar_type(DType::kF64);
    const double half = 0.5, one = 1;
    {
      Builder b;
      const Value x = make_parameter(f64), step = make_parameter(f64);
      const auto program = Computation::make({{x, step}}, {{chain(b, x, step)}});
      if (!must(program.ok(), "closing")) return;
      must(verify(**program).ok(), "verifying");
      const auto back = parse(print(**program));
      must(back.ok() && *back == *program, "printing and parsing");
      must(simplify(*program).ok(), "simplifying");
      const std::vector<LiteralPtr> arguments{Literal::copy_of(f64, &half), Literal::copy_of(f64, &one)};
      const auto results = evaluate(**program, arguments);
      if (!must(results.ok(), "evaluating")) return;
      std::memcpy(&evaluated, (*results)[0]->data(), 8);
      const auto executable = Executable::compile(jit::host_device(), *program);
      if (!must(executable.ok(), "compiling")) return;
      std::vector<BufferRef> buffers{*host_device().memory().allocate(8),
                                     *host_device().memory().allocate(8)},
          out;
      std::memcpy(host_data(buffers[0]), &half, 8);
      std::memcpy(host_data(buffers[1]), &one, 8);
      if (!must((*executable)->run(buffers, out).ok(), "running")) return;
      std::memcpy(&executed, host_data(out[0]), 8);
    }
    // The same, recorded on arrays, differentiated and batched.
    const lazy::FlatFunction f = [](const std::vector<lazy::Lazy>& x) {
      Builder b;
      return std::vector<lazy::Lazy>{{chain(b, x[0].value, x[1].value), false}};
    };
    const lazy::Lazy x{lazy::from_host(DType::kF64, {}, &half), false};
    const lazy::Lazy step{lazy::from_host(DType::kF64, {}, &one), false};
    std::memcpy(&forced, lazy::host_bytes(*lazy::array(f({x, step})[0].value)), 8);
    const lazy::VjpResult back = lazy::vjp(f, {x, step});
    std::memcpy(&gradient, lazy::host_bytes(*lazy::array(back.pull_back({step})[0].value)), 8);
    const double two[] = {0.5, 1.5};
    const lazy::Lazy xs{lazy::from_host(DType::kF64, {{2}}, two), false};
    const std::vector<lazy::Lazy> lanes = lazy::vmap(f, {xs, step}, {true, false}, 2);
    std::memcpy(&lane, reinterpret_cast<const double*>(lazy::host_bytes(*lazy::array(lanes[0].value))) + 1,
                8);
  });
  CHECK(failure == "");
  CHECK(evaluated == 50000.5);
  CHECK(executed == 50000.5);
  CHECK(forced == 50000.5);
  CHECK(gradient == 1);
  CHECK(lane == 50001.5);
  CHECK(live_nodes() < 50 * kLength);
}

}  // namespace
}  // namespace lamina::jit
