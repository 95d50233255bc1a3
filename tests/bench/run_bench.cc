// What a run of an executable costs besides its work, without Python: programs over eight numbers.
//
// Run: run_bench [program]. Prints nanoseconds per run, the least of many rounds. Under valgrind
// (--tool=callgrind --collect-atstart=no --toggle-collect='*Executable::run(*') the instructions are the same
// at every run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "jit/cpu/client.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"

using namespace lamina;
using hlo::Value;
using hlo::Values;

namespace {

const hlo::Type* eight() { return *hlo::array_type(hlo::DType::kF32, hlo::Dims{8}); }

hlo::ComputationPtr steps(int count) {
  hlo::Builder b;
  const Value x = hlo::make_parameter(eight()), y = hlo::make_parameter(eight());
  Value v = x;
  for (int64_t i = 0; i < count; ++i)  // barriers keep them apart
    v = b.make(hlo::Op::optimization_barrier, {{b.add(v, y)}}, hlo::intern_attrs({{hlo::Attr::instance, i}}));
  return *hlo::Computation::make({{x, y}}, {{v}});
}

// Turns of three steps.
hlo::ComputationPtr loop(int64_t turns) {
  const hlo::Type* i = hlo::scalar_type(hlo::DType::kS32);
  const auto cond = *hlo::record_region({{i, eight()}}, [&](hlo::Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar_int(hlo::DType::kS32, turns), "LT")};
  });
  const auto body = *hlo::record_region({{i, eight()}}, [](hlo::Builder& b, std::span<const Value> p) {
    const Value sum = b.reduce(p[1], hlo::Op::add, b.scalar(hlo::DType::kF32, 0), {{0}});
    return Values{b.add(p[0], b.scalar_int(hlo::DType::kS32, 1)), b.broadcast_in_dim(sum, {{8}}, {})};
  });
  hlo::Builder b;
  const Value start = hlo::make_parameter(i), x = hlo::make_parameter(eight());
  return *hlo::Computation::make({{start, x}}, b.while_loop({{start, x}}, cond, body));
}

double nanoseconds(const jit::Executable& program, int runs) {
  std::vector<jit::BufferRef> arguments, results;
  jit::Device& device = jit::host_device();
  const std::vector<float> zeros(8);
  for (const hlo::Type* type : program.program().parameter_types())
    arguments.push_back(*device.client().put(device, zeros.data(), type->bytes()));
  double best = 1e18;
  for (int round = 0; round < 200; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < runs; ++i)
      if (!program.run(arguments, results).ok()) std::abort();
    const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count() / runs);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  jit::KernelStore& kernels = jit::CpuClient::get().kernels();
  kernels.set_eager(true);
  kernels.set_generator_options({.library_path = kCodeGenerator, .cpu = {}, .features = {}});
  const std::pair<const char*, hlo::ComputationPtr> programs[] = {
      {"1 step", steps(1)}, {"20 steps", steps(20)}, {"1000 turns", loop(1000)}};
  for (const auto& [name, program] : programs) {
    if (argc > 1 && std::string(name) != argv[1]) continue;
    const auto executable = *jit::Executable::compile(jit::host_device(), program);
    std::printf("%-12s %12.1f ns\n", name,
                nanoseconds(*executable, name[0] == '1' && name[1] == '0' ? 3 : 1000));
  }
  return 0;
}
