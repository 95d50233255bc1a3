// Machine code of CUDA kernels: assembled in this process, kept on disk, and the driver's PTX where there is
// no assembler. That is the stand-in's; a real one makes code too, where it is.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "hlo/builder.h"
#include "jit/cuda/assembler.h"
#include "jit/kernel/lower.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_testing.h"

namespace lamina::testing {
namespace {

using namespace hlo;

constexpr int kDriver = 12040;  // the stand-in's

// The environment's assembler for as long as it lives; null: what the machine has.
class ScopedAssembler {
 public:
  explicit ScopedAssembler(const char* named, const char* version = nullptr) {
    named ? setenv("LAMINA_NVJITLINK", named, 1) : unsetenv("LAMINA_NVJITLINK");
    version ? setenv("LAMINA_STANDIN_ASSEMBLER", version, 1) : unsetenv("LAMINA_STANDIN_ASSEMBLER");
    cuda_client().kernels().set_driver_version(kDriver);
  }
  ~ScopedAssembler() {
    setenv("LAMINA_NVJITLINK", kCudaStandin, 1);
    unsetenv("LAMINA_STANDIN_ASSEMBLER");
    cuda_client().kernels().set_driver_version(kDriver);
  }
};

// What ran is let go of, and its kernels with it.
void let_go() {
  standin()->drain();
  for (size_t device : {0, 1}) cuda_device(device).stream().keep(nullptr);
}

// x * (x + number) and so on, another kernel for each depth, on two devices.
StandinCounts run(int depth) {
  let_go();
  const CleanStandin clean;
  cuda_client().kernels().set_library(kCodeGenerator);
  Builder b;
  const Value x = make_parameter(*array_type(DType::kF32, Dims{100}));
  Value y = x;
  for (int i = 0; i < depth; ++i) y = b.multiply(y, b.add(y, x));
  const ComputationPtr program = *Computation::make({{x}}, {{y}});
  const std::vector<float> ones(100, 1.0f);
  float expected = 1;
  for (int i = 0; i < depth; ++i) expected = expected * (expected + 1);
  standin()->take_counts();
  std::vector<std::shared_ptr<const jit::Executable>> held;  // both, which share their kernels
  for (size_t device : {0, 1}) {
    const auto executable = jit::Executable::compile(cuda_device(device), program);
    REQUIRE(executable.ok());
    held.push_back(*executable);
    for (int again = 0; again < 2; ++again) {
      std::vector<jit::BufferRef> in{*cuda_client().put(cuda_device(device), ones.data(), 400)}, out;
      REQUIRE((*executable)->run(in, out).ok());
      std::vector<float> got(100);
      const jit::Client::Read all{&*out[0], 0, 400, got.data()};
      REQUIRE(cuda_client().read({&all, 1}, nullptr).ok());
      CHECK(got == std::vector<float>(100, expected));
    }
  }
  return standin()->take_counts();
}

}  // namespace

TEST_CASE("kernels are loaded as machine code where there is an assembler, else as PTX", "[cuda]") {
  const auto before = cuda_client().kernels().stats();
  const StandinCounts assembled = run(1);
  CHECK(assembled.code_loads == 2);
  CHECK(assembled.text_loads == 0);
  CHECK(cuda_client().kernels().stats().assembled == before.assembled + 1);
  CHECK(cuda_client().kernels().assembler() == std::string(kCudaStandin) + ", version 12.4");
  const auto said = [](const char* named, const char* version) {
    const ScopedAssembler other(named, version);
    const StandinCounts counts = run(1);
    CHECK(counts.code_loads == 0);
    CHECK(counts.text_loads == 2);
    return cuda_client().kernels().assembler();
  };
  CHECK(said("", nullptr) == "the driver's own: LAMINA_NVJITLINK says that there is none");
  CHECK(said("/nowhere/it.so", nullptr) ==
        "the driver's own: /nowhere/it.so, which LAMINA_NVJITLINK names, cannot be loaded");
  CHECK(said("libm.so.6", nullptr) == "the driver's own: libm.so.6 is no nvJitLink");
  // Code by a later one would not run there.
  CHECK(said(kCudaStandin, "13000") == std::string("the driver's own: ") + kCudaStandin +
                                           " is for drivers of CUDA 13, and this one is older");
}

TEST_CASE("machine code is kept on disk, and found without generating anything", "[cuda]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("lamina_cuda_cache_" + std::to_string(getpid()));
  jit::cuda::CudaKernels& kernels = cuda_client().kernels();
  kernels.set_cache_directory(folder.string());
  const auto begin = kernels.stats();
  run(2);
  const auto first = kernels.stats();
  CHECK(first.generated == begin.generated + 1);
  CHECK(first.assembled == begin.assembled + 1);
  run(2);
  const auto second = kernels.stats();
  CHECK(second.generated == first.generated);
  CHECK(second.assembled == first.assembled);
  CHECK(second.loaded > first.loaded);
  // Another version of the assembler makes its own; what was changed on disk is not used.
  {
    const ScopedAssembler older(kCudaStandin, "12010");
    run(2);
    CHECK(kernels.stats().assembled == second.assembled + 1);
  }
  for (const auto& file : fs::directory_iterator(folder)) fs::resize_file(file.path(), 100);
  run(2);
  CHECK(kernels.stats().assembled == second.assembled + 2);
  kernels.set_cache_directory("");
  fs::remove_all(folder);
}

TEST_CASE("ten fused operations are code within milliseconds, from the graph on", "[cuda]") {
  const ScopedAssembler real(nullptr);
  const auto assembler = jit::cuda::Assembler::open(99000);
  if (!assembler.ok()) return;
  jit::cuda::CudaKernels& kernels = cuda_client().kernels();
  kernels.set_library(kCodeGenerator);
  // Of the second program: the first one opens the libraries.
  std::clock_t took = 0;
  for (const double factor : {2.0, 3.0}) {
    const std::clock_t begin = std::clock();
    Builder b;
    const Value x = make_parameter(*array_type(DType::kF32, Dims{4096, 4096}));
    Value y = b.multiply(x, b.full_like(x, factor));
    for (int i = 0; i < 4; ++i) y = b.multiply(b.add(y, x), y);
    y = b.subtract(y, x);
    const auto executable = *jit::Executable::compile(cuda_device(), *Computation::make({{x}}, {{y}}));
    REQUIRE(executable->steps().size() == 1);
    const auto ptx = kernels.ptx(*executable->steps()[0]->kernels()[0]);
    REQUIRE(ptx.ok());
    REQUIRE(assembler->assemble(*ptx, 90).ok());
    took = std::clock() - begin;
  }
  // 15 ms on a usual machine; ten times as long is a mistake anywhere.
  CHECK(1000.0 * static_cast<double>(took) / CLOCKS_PER_SEC < 150);
}

TEST_CASE("the machine's nvJitLink, if there is one, makes code for every chip", "[cuda]") {
  const ScopedAssembler real(nullptr);
  const auto assembler = jit::cuda::Assembler::open(99000);
  if (!assembler.ok()) return;
  cuda_client().kernels().set_library(kCodeGenerator);
  Builder b;
  const Value x = make_parameter(*array_type(DType::kF32, Dims{4000}));
  const auto program = *jit::Executable::compile(
      cuda_device(), *Computation::make({{x}}, {{b.reduce_sum(b.tanh(b.add(x, x)), {{0}})}}));
  const auto ptx = cuda_client().kernels().ptx(*program->steps()[0]->kernels()[0]);
  REQUIRE(ptx.ok());
  for (int capability : {90, 100, 120}) {
    const auto code = assembler->assemble(*ptx, capability);
    INFO(code.status());
    REQUIRE(code.ok());
    CHECK(code->substr(0, 4) ==
          "\x7f"
          "ELF");
    CHECK(code->find("lamina_") != code->npos);
  }
  CHECK(assembler->assemble(*ptx, 12).status().message().find("the assembler knows no sm_12 (error ") == 0);
  // Made for sm_90.
  CHECK(assembler->assemble(*ptx, 80).status().message().find("the assembler failed for sm_80 (error ") == 0);
}

}  // namespace lamina::testing
