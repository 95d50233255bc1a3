// Running a program as an executable, on both tiers, against the evaluator.
#ifndef LAMINA_TESTS_JIT_EXECUTABLE_TESTING_H_
#define LAMINA_TESTS_JIT_EXECUTABLE_TESTING_H_

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "hlo/evaluator.h"
#include "hlo/isa.h"
#include "hlo/narrow.h"
#include "jit/cpu/client.h"
#include "jit/cuda/stream.h"
#include "jit/fake/client.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_testing.h"
#include "tests/jit/host_data.h"

namespace lamina::testing {

using namespace hlo;
using jit::BufferRef;
using jit::Executable;

// NaNs are equal whatever their payload; everything else by bits.
inline bool same_bits(const Literal& want, const void* got) {
  const DType part = part_type(want.dtype());
  const int64_t width = byte_size(part), count = want.bytes() / width;
  const auto is_nan = [&](const std::byte* p) {
    if (!is_float(part)) return false;
    if (part != DType::kF64) return std::isnan(hlo::element_to_f32(part, p));
    double x;
    std::memcpy(&x, p, sizeof x);
    return std::isnan(x);
  };
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* a = static_cast<const std::byte*>(want.data()) + i * width;
    const std::byte* b = static_cast<const std::byte*>(got) + i * width;
    if (std::memcmp(a, b, width) != 0 && !(is_nan(a) && is_nan(b))) return false;
  }
  return true;
}

// Whether this machine is one that code is generated for; x86 needs AVX2.
inline bool makes_machine_code() {
#if defined(__x86_64__)
  return best_isa() >= Isa::kAvx2;
#else
  return true;
#endif
}

// On the fake device, in three orders: the bits of the CPU, and nothing that no order holds together.
inline void check_on_fake(const ComputationPtr& program, std::span<const LiteralPtr> arguments,
                          std::span<const LiteralPtr> want) {
  jit::FakeClient& client = jit::FakeClient::get();
  jit::Device& device = *client.devices()[0];
  const auto exe = Executable::compile(device, program);
  INFO(exe.status());
  REQUIRE(exe.ok());
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    client.queues().set_seed(seed);
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments) in.push_back(*client.put(device, a->data(), a->bytes()));
    absl::Status status = seed == 3 ? (*exe)->run_giving_up(in, out) : (*exe)->run(in, out);
    in.clear();
    std::vector<std::vector<std::byte>> got;
    std::vector<jit::Client::Read> reads;
    for (const BufferRef& b : out) {
      got.emplace_back(static_cast<size_t>(b->bytes()));
      reads.push_back({&*b, 0, b->bytes(), got.back().data()});
    }
    if (status.ok()) status = client.read(reads, nullptr);
    INFO(status << "\n" << (*exe)->describe() << to_string((*exe)->plan()));
    REQUIRE(status.ok());
    for (size_t i = 0; i < out.size(); ++i) CHECK(same_bits(*want[i], got[i].data()));
  }
  client.queues().drain();
  CHECK(client.queues().take_violations() == std::vector<std::string>());
}

// On a CUDA device, in two orders: the bits of the CPU. What its steps are.
inline std::string check_on_cuda(const ComputationPtr& program, std::span<const LiteralPtr> arguments,
                                 std::span<const LiteralPtr> want) {
  jit::Device& device = cuda_device();
  cuda_client().kernels().set_library(kCodeGenerator);
  std::optional<ScopedLeastWork> kernels_only;
  if (!standin()) kernels_only.emplace(least_work_with_bits(0));
  const auto exe = Executable::compile(device, program);
  INFO(exe.status());
  REQUIRE(exe.ok());
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    if (standin()) standin()->set_seed(seed);
    const ScopedPlainRuns graphs_later(seed == 2 ? 0 : jit::cuda::kPlainRuns);
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments) in.push_back(*cuda_client().put(device, a->data(), a->bytes()));
    absl::Status status = seed == 2 ? (*exe)->run_giving_up(in, out) : (*exe)->run(in, out);
    in.clear();
    std::vector<std::vector<std::byte>> got;
    std::vector<jit::Client::Read> reads;
    for (const BufferRef& b : out) {
      got.emplace_back(static_cast<size_t>(b->bytes()));
      reads.push_back({&*b, 0, b->bytes(), got.back().data()});
    }
    if (status.ok()) status = cuda_client().read(reads, nullptr);
    INFO(status << "\n" << (*exe)->describe() << to_string((*exe)->plan()));
    REQUIRE(status.ok());
    for (size_t i = 0; i < out.size(); ++i) CHECK(same_bits(*want[i], got[i].data()));
  }
  if (standin()) CHECK(standin_violations() == std::vector<std::string>());
  return (*exe)->describe();
}

// What a library answers that is called with a stream, in the context of its device.
template <typename Work>
auto answer_on(jit::cuda::CudaStream& stream, Work work) {
  std::invoke_result_t<Work, jit::cuda::StreamHandle> answer{};
  REQUIRE(stream
              .call([&](jit::cuda::StreamHandle on) {
                answer = work(on);
                return absl::OkStatus();
              })
              .ok());
  return answer;
}

// On both tiers; on the interpreting one alone where there is no machine code. And on the fake device and
// CUDA's.
inline void check_program(const ComputationPtr& program, std::span<const LiteralPtr> arguments) {
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  jit::CodeGeneratorOptions options;
  options.library_path = kCodeGenerator;
  jit::CpuClient::get().kernels().set_generator_options(options);
  for (const bool compiling : {false, true}) {
    jit::CpuClient::get().kernels().set_compiling(compiling);
    jit::CpuClient::get().kernels().set_eager(compiling);
    const auto exe = Executable::compile(jit::host_device(), program);
    INFO(exe.status());
    REQUIRE(exe.ok());
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments) {
      in.push_back(*jit::host_device().memory().allocate(a->bytes()));
      if (a->bytes() > 0) std::memcpy(host_data(in.back()), a->data(), a->bytes());
    }
    const absl::Status status = (*exe)->run(in, out);
    INFO(status);
    REQUIRE(status.ok());
    for (size_t i = 0; i < out.size(); ++i) {
      INFO((compiling ? "compiled" : "interpreted")
           << " result " << i << " " << to_string(*(*want)[i]->type()) << "\n"
           << (*exe)->describe() << cluster::report((*exe)->program(), (*exe)->fusion()));
      CHECK(same_bits(*(*want)[i], host_data(out[i])));
    }
  }
  jit::CpuClient::get().kernels().set_compiling(true);
  jit::CpuClient::get().kernels().set_eager(false);
  check_on_fake(program, arguments, *want);
  // Products and convolutions by kernels of ours, which have the CPU's bits, and those that libraries take by
  // their stand-ins.
  const std::string steps = check_on_cuda(program, arguments, *want);
  const auto has = [&](std::string_view part) { return steps.find(part) != steps.npos; };
  if (standin() && (has("dot_general as loop") || has("convolution as loop"))) {
    const ScopedLeastWork all(0);
    check_on_cuda(program, arguments, *want);
  }
  if (makes_machine_code()) CHECK(jit::CpuClient::get().kernels().unavailable() == "");
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_EXECUTABLE_TESTING_H_
