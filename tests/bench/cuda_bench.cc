// What kernels of a CUDA device take: one line of JSON for each program, with the bytes or operations that it
// must move or do, and its rate. Runs follow each other on the stream; the host waits once at the end. How
// long the host is busy with a run is measured where few are on their way, and the part of runs that were
// graphs (jit/cuda/graph_step.h) where a program has several kernels.
//
// Run: cuda_bench [--small] [--only NAME]. On the stand-in for the driver the numbers mean nothing.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "hlo/parser.h"
#include "hlo/strings.h"
#include "jit/cuda/client.h"
#include "jit/cuda/graph_step.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "trace/transpose.h"

using namespace lamina;
using hlo::Builder;
using hlo::ComputationPtr;
using hlo::Dims;
using hlo::DType;
using hlo::Op;
using hlo::Value;

namespace {

// Where a run's arguments come from, and what becomes of its results.
enum class Feed : uint8_t {
  kSame,     // always the same arguments
  kResults,  // the first arguments are the last run's results, so that two sets of addresses take turns
  kGivenUp,  // and these are written over
  kKept,     // results are kept for a while: new addresses each time
  kHistory,  // as kResults, but for the last result, which is kept
};
struct Measured {
  std::string name;
  ComputationPtr program;
  double bytes = 0, operations = 0;  // of a run
  Feed feed = Feed::kSame;
  int64_t plain_runs = jit::cuda::kPlainRuns;
};

Value parameter(DType type, Dims dims) {
  return hlo::make_parameter(*hlo::array_type(type, std::move(dims)));
}

double bytes_of(const hlo::Computation& program) {
  double bytes = 0;
  for (const Value& p : program.parameters()) bytes += static_cast<double>(p.type()->bytes());
  for (const Value& r : program.roots()) bytes += static_cast<double>(r.type()->bytes());
  return bytes;
}

// A layer of a ResNet: windows of 3 x 3 over 56 x 56 positions, every other one along each dimension, and its
// gradients.
void add_convolutions(std::vector<Measured>& all, DType type, bool features_last, int64_t batch) {
  constexpr int64_t kSize = 56, kFrom = 64, kTo = 128, kWindow = 3;
  hlo::ConvDims d;
  d.window_strides = {2, 2};
  d.padding = {1, 1, 1, 1};
  d.lhs_dilation = d.rhs_dilation = {1, 1};
  d.input_spatial = d.output_spatial = {2, 3};
  d.kernel_spatial = {2, 3};
  if (features_last) {
    d.input_feature = d.output_feature = 3;
    d.input_spatial = d.output_spatial = {1, 2};
    d.kernel_spatial = {0, 1};
    d.kernel_input_feature = 2;
    d.kernel_output_feature = 3;
  }
  const Value x = parameter(
                  type, features_last ? Dims{batch, kSize, kSize, kFrom} : Dims{batch, kFrom, kSize, kSize}),
              w = parameter(type, features_last ? Dims{kWindow, kWindow, kFrom, kTo}
                                                : Dims{kTo, kFrom, kWindow, kWindow});
  Builder b;
  const Value y = b.convolution(x, w, d), slope = hlo::make_parameter(y.type());
  const auto gradients = trace::vjp({{y}}, {{x, w}}, {{slope}});
  if (!gradients.ok()) return;
  const double operations = 2.0 * static_cast<double>(y.type()->num_elements * kFrom * kWindow * kWindow);
  const std::string of =
      str_cat(" of a convolution ", hlo::info(type).name, features_last ? " nhwc" : " nchw");
  const auto add = [&](const char* what, const std::vector<Value>& in, const Value& out) {
    const ComputationPtr program = *hlo::Computation::make(in, {{out}});
    all.push_back({what + of, program, bytes_of(*program), operations});
  };
  add("result", {x, w}, y);
  add("input's gradient", {w, slope}, gradients->cotangents[0]);
  add("filter's gradient", {x, slope}, gradients->cotangents[1]);
}

std::vector<Measured> programs(int64_t scale) {
  std::vector<Measured> all;
  const auto add = [&](std::string name, const std::vector<Value>& in, const Value& out,
                       double operations = 0) {
    const ComputationPtr program = *hlo::Computation::make(in, {{out}});
    all.push_back({std::move(name), program, bytes_of(*program), operations});
  };
  Builder b;
  const auto number = [&](const Value& x, double n) { return b.full_like(x, n); };
  const int64_t large = scale * 1024 * 1024;
  {
    const Value x = parameter(DType::kF32, {large});
    add("add f32", {x}, b.add(x, x));
    add("ten ops f32", {x},
        b.multiply(b.add(b.multiply(x, x), number(x, 2)),
                   b.subtract(b.maximum(b.multiply(x, number(x, 3)), number(x, 1)),
                              b.minimum(b.add(x, number(x, 5)), number(x, 7)))));
    add("tanh f32", {x}, b.tanh(x));
    add("sum f32", {x}, b.reduce_sum(x, {{0}}));
  }
  {
    const Value x = parameter(DType::kBF16, {2 * large});
    add("silu bf16", {x}, b.multiply(x, b.logistic(x)));
  }
  {
    const Value x = parameter(DType::kF32, {large / 1024, 1024});
    add("rows of 1024 f32", {x}, b.reduce_sum(x, {{1}}));
    add("columns f32", {x}, b.reduce_sum(x, {{0}}));
    add("transpose f32", {x}, b.transpose(x, {{1, 0}}));
    const Value y = parameter(DType::kF32, {1024, large / 1024}),
                half = parameter(DType::kBF16, {large / 512, 1024});
    add("transpose bf16", {half}, b.transpose(half, {{1, 0}}));
    add("add of a transpose f32", {x, y}, b.add(x, b.transpose(y, {{1, 0}})));
    const Value top =
        b.broadcast_in_dim(b.reduce(x, Op::maximum, b.scalar(DType::kF32, -1e30), {{1}}), x.dims(), {{0}});
    const Value e = b.exponential(b.subtract(x, top));
    add("softmax of rows f32", {x}, b.divide(e, b.broadcast_in_dim(b.reduce_sum(e, {{1}}), x.dims(), {{0}})));
  }
  {
    const int64_t n = scale >= 64 ? 2048 : 64;
    const Value x = parameter(DType::kF32, {n, n}), y = parameter(DType::kF32, {n, n});
    add("product f32", {x, y}, b.dot_general(x, y, {{}, {}, {1}, {0}}), 2.0 * static_cast<double>(n * n * n));
  }
  for (const DType type : {DType::kF32, DType::kBF16})
    for (const bool features_last : {false, true})
      add_convolutions(all, type, features_last, scale >= 64 ? 32 : 1);
  {
    const Value x = parameter(DType::kF32, {64});
    add("launch", {x}, b.add(x, x));
  }
  {
    const Value x = parameter(DType::kF32, {256, 256});
    Value y = x, sums;
    for (int64_t i = 0; i < 13; ++i) {
      const int64_t reduced = i % 2;
      sums = b.reduce_sum(b.multiply(y, y), {{reduced}});
      y = b.subtract(y, b.broadcast_in_dim(b.multiply(sums, number(sums, 1e-6)), x.dims(), {{1 - reduced}}));
    }
    const ComputationPtr one = *hlo::Computation::make({{x}}, {{y}}),
                         two = *hlo::Computation::make({{x}}, {{y, b.reduce_sum(sums, {{0}})}});
    for (const auto& [name, feed] :
         {std::pair("twenty kernels", Feed::kSame), std::pair("twenty kernels, fed back", Feed::kResults),
          std::pair("twenty kernels, given up", Feed::kGivenUp),
          std::pair("twenty kernels, new addresses", Feed::kKept)})
      all.push_back({name, one, 0, 0, feed});
    all.push_back(
        {"twenty kernels, one by one", one, 0, 0, Feed::kSame, std::numeric_limits<int64_t>::max()});
    all.push_back({"twenty kernels, one new address", two, 0, 0, Feed::kHistory});
  }
  return all;
}

// A program of text: operations that have no builder.
Measured parsed(std::string name, const std::string& text) {
  const ComputationPtr program = *hlo::parse(text);
  return {std::move(name), program, bytes_of(*program)};
}

absl::Status measure(jit::Device& device, const Measured& m) {
  jit::cuda::set_plain_runs(m.plain_runs);
  auto executable = jit::Executable::compile(device, m.program);
  if (!executable.ok()) return executable.status();
  jit::Client& client = device.client();
  std::vector<jit::BufferRef> in, out;
  for (const Value& p : m.program->parameters()) {
    const std::vector<char> zeros(static_cast<size_t>(p.type()->bytes()));
    auto buffer = client.put(device, zeros.data(), p.type()->bytes());
    if (!buffer.ok()) return buffer.status();
    in.push_back(*std::move(buffer));
  }
  std::vector<jit::BufferRef> kept(97);
  size_t runs = 0;
  const auto run_once = [&]() -> absl::Status {
    if (m.feed == Feed::kGivenUp) {
      out.clear();
      absl::Status status = (*executable)->run_giving_up(in, out);
      if (status.ok()) in = out;
      return status;
    }
    if (m.feed != Feed::kSame && !out.empty()) in[0] = out[0];
    if (m.feed == Feed::kKept || m.feed == Feed::kHistory)
      if (!out.empty()) kept[runs % kept.size()] = out.back();
    ++runs;
    out.clear();
    return (*executable)->run(in, out);
  };
  double host = 0;  // of it, until the last is on its way
  const auto run = [&](int times) -> absl::StatusOr<double> {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < times; ++i)
      if (absl::Status s = run_once(); !s.ok()) return s;
    const auto enqueued = std::chrono::steady_clock::now();
    const jit::Point end = out[0]->written();
    if (end)
      if (absl::Status s = end.stream->wait(end.value, nullptr); !s.ok()) return s;
    host = std::chrono::duration<double>(enqueued - begin).count();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  // As often as takes a fifth of a second.
  absl::StatusOr<double> seconds = run(1);
  int times = 1;
  while (seconds.ok() && *seconds < 0.05 && times < 10000) seconds = run(times *= 4);
  if (!seconds.ok()) return seconds.status();
  double best = *seconds / times;
  for (int round = 0; round < 3; ++round) {
    seconds = run(times);
    if (!seconds.ok()) return seconds.status();
    best = std::min(best, *seconds / times);
  }
  // So few runs that the driver takes them all without waiting.
  constexpr int kFew = 16;
  double busy = 1e9;
  const jit::KernelStats before = client.kernel_stats();
  for (int round = 0; round < 20; ++round) {
    seconds = run(kFew);
    if (!seconds.ok()) return seconds.status();
    busy = std::min(busy, host / kFew);
  }
  const double graphs =
      static_cast<double>(client.kernel_stats().graph_runs - before.graph_runs) / (20.0 * kFew);
  const bool whole = (*executable)->describe().find("on the host") == std::string::npos;
  std::printf(
      "{\"name\": \"%s\", \"microseconds\": %.3f, \"host_microseconds\": %.3f, \"steps\": %zu, \"graphs\": "
      "%.2f, ",
      m.name.c_str(), best * 1e6, busy * 1e6, (*executable)->steps().size(), graphs);
  if (m.bytes > 0)
    std::printf("\"gigabytes_per_second\": %.1f, \"gigaflops\": %.1f, ", m.bytes / best * 1e-9,
                m.operations / best * 1e-9);
  std::printf("\"whole\": %s}\n", whole ? "true" : "false");
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  int64_t scale = 64;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--small") scale = 1;
    if (std::string(argv[i]) == "--only" && i + 1 < argc) only = argv[++i];
  }
  auto client = jit::cuda::CudaClient::get();
  if (!client.ok()) {
    std::fprintf(stderr, "cuda_bench: %s\n", std::string(client.status().message()).c_str());
    return 1;
  }
  (*client)->kernels().set_library(kCodeGenerator);
  const jit::cuda::GpuFacts& facts = (*client)->gpus()[0]->facts();
  std::printf(
      "{\"device\": \"%s\", \"capability\": %d, \"multiprocessors\": %d, \"driver\": %d, \"assembler\": "
      "\"%s\"}\n",
      facts.model.c_str(), facts.capability, facts.multiprocessors, (*client)->driver().version,
      (*client)->kernels().assembler().c_str());
  std::vector<Measured> all = programs(scale);
  const std::string n = std::to_string(scale * 16384);
  all.push_back(parsed("sort s32",
                       "computation r0(p0: s32[], p1: s32[]) -> (pred[]) {\n  v0 = pred[] "
                       "compare(p0, p1), direction=\"LT\"\n  return (v0)\n}\ncomputation main(p0: s32[" +
                           n + "]) -> (s32[" + n + "]) {\n  v0 = s32[" + n +
                           "] sort(p0), body=r0\n  return (v0)\n}\n"));
  int failed = 0;
  for (const Measured& m : all) {
    if (!only.empty() && m.name != only) continue;
    if (const absl::Status s = measure(*(*client)->devices()[0], m); !s.ok()) {
      std::printf("{\"name\": \"%s\", \"error\": \"%s\"}\n", m.name.c_str(),
                  std::string(s.message()).c_str());
      ++failed;
    }
  }
  return failed > 0;
}
