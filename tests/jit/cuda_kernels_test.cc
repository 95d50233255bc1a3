// Programs as kernels of CUDA devices. On the stand-in for the driver each launch is checked against the
// kernel's plan and interpreted; whether the PTX is right is shown in tests/grid.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "jit/cuda/stream.h"
#include "jit/kernel/grid.h"
#include "jit/program/executable.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_testing.h"

using namespace lamina;
using namespace lamina::hlo;
using lamina::testing::CleanStandin;
using lamina::testing::cuda_client;
using lamina::testing::cuda_device;
using lamina::testing::standin;
using lamina::testing::standin_violations;

namespace {

const std::vector<std::string> kNone;

struct Ran {
  std::string steps;
  StandinCounts counts;  // of the run alone
};

LiteralPtr numbers(const Type* type) {
  std::vector<float> values(static_cast<size_t>(type->num_elements));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) * 0.25f - 11.0f;
  return Literal::copy_of(type, reinterpret_cast<const std::byte*>(values.data()));
}

// One f32 argument. The result has the evaluator's bits, and nothing is out of order.
Ran run(const ComputationPtr& program, const char* generator = kCodeGenerator) {
  const CleanStandin clean;
  cuda_client().kernels().set_library(generator);
  const auto executable = jit::Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  const LiteralPtr argument = numbers(program->parameters()[0].type());
  std::vector<jit::BufferRef> in{*cuda_client().put(cuda_device(), argument->data(), argument->bytes())}, out;
  standin()->take_counts();
  CHECK((*executable)->run(in, out) == absl::OkStatus());
  Ran ran{(*executable)->describe(), standin()->take_counts()};
  const auto want = evaluate(*program, std::vector<LiteralPtr>{argument});
  REQUIRE(want.ok());
  for (size_t r = 0; r < out.size(); ++r) {
    std::vector<std::byte> got(static_cast<size_t>((*want)[r]->bytes()));
    const jit::Client::Read all{&*out[r], 0, (*want)[r]->bytes(), got.data()};
    REQUIRE(cuda_client().read({&all, 1}, nullptr).ok());
    CHECK(std::memcmp(got.data(), (*want)[r]->data(), got.size()) == 0);
  }
  CHECK(standin_violations() == kNone);
  return ran;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

Value parameter(Dims dims) { return make_parameter(*array_type(DType::kF32, std::move(dims))); }

}  // namespace

TEST_CASE("fused elements are one launch, and nothing goes to the host", "[cuda]") {
  Builder b;
  const Value x = parameter({37, 1000});
  const Ran ran = run(*Computation::make({{x}}, {{b.tanh(b.multiply(b.add(x, x), x))}}));
  CHECK(ran.counts.launches == 1);
  CHECK(ran.counts.transfers == 0);
  CHECK(has(ran.steps, "schedule grid form=elements"));
  CHECK_FALSE(has(ran.steps, "on the host"));
}

TEST_CASE("reductions run in every form", "[cuda]") {
  struct Case {
    Dims dims;
    std::vector<int64_t> reduced;
    const char* form;
    int64_t launches;
  };
  // Short rows, columns, and rows of several chunks, whose results take a second launch.
  for (const Case& c : {Case{{50, 300}, {1}, "half_warp", 1}, Case{{300, 50}, {0}, "columns", 1},
                        Case{{3, 40'000}, {1}, "blocks", 2}}) {
    Builder b;
    const Value x = parameter(c.dims);
    const Ran ran = run(*Computation::make({{x}}, {{b.reduce_sum(b.multiply(x, x), c.reduced)}}));
    INFO(ran.steps);
    CHECK(has(ran.steps, c.form));
    CHECK(ran.counts.launches == c.launches);
    CHECK(ran.counts.transfers == 0);
  }
}

TEST_CASE("what has no form on CUDA is computed on the host, and a reason is given", "[cuda]") {
  Builder b;
  const Value x = parameter({8, 8});
  // A window of which most lies outside.
  const ComputationPtr add = binary_region(Op::add, DType::kF32);
  const Value sums = b.reduce_window({{x}}, {{b.scalar(DType::kF32, 0)}}, add,
                                     {{1, 40}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 39, 0}})[0];
  const Ran ran =
      run(*Computation::make({{x}}, {{b.exponential(b.multiply(sums, b.full_like(sums, 0.001)))}}));
  INFO(ran.steps);
  CHECK(has(ran.steps, "on the host: a large window that reaches past an end of the array"));
  CHECK(has(ran.steps, "schedule grid"));
  CHECK(ran.counts.launches == 1);
  CHECK(ran.counts.transfers > 0);
}

TEST_CASE("without a code generator all is computed on the host", "[cuda]") {
  Builder b;
  const Value x = parameter({100});
  const ComputationPtr program = *Computation::make({{x}}, {{b.cosine(b.add(x, x))}});
  const Ran ran = run(program, "/nowhere/liblamina_llvm.so");
  CHECK(ran.counts.launches == 0);
  CHECK(has(ran.steps, "on the host: "));
  CHECK(has(ran.steps, "/nowhere/liblamina_llvm.so"));
  CHECK(run(program).counts.launches == 1);
}

TEST_CASE("kernels are shared by structure, and show their PTX", "[cuda]") {
  cuda_client().kernels().set_library(kCodeGenerator);
  std::vector<std::shared_ptr<const jit::Executable>> programs;
  for (int64_t n : {4000, 5000}) {
    Builder b;
    const Value x = parameter({n});
    programs.push_back(
        *jit::Executable::compile(cuda_device(), *Computation::make({{x}}, {{b.negate(b.tanh(x))}})));
  }
  const jit::KernelText* const kernel = programs[0]->steps()[0]->kernels()[0];
  REQUIRE(kernel);
  CHECK(kernel == programs[1]->steps()[0]->kernels()[0]);
  const auto ptx = cuda_device().target().assembly(*kernel);
  REQUIRE(ptx.ok());
  CHECK(ptx->find("// kernel 1 parallel 1") == 0);
  CHECK(has(*ptx, ".version 7.8"));
  CHECK(has(*ptx, ".target sm_90"));
}

TEST_CASE("planted: a launch that the plan does not hold", "[cuda][planted]") {
  const CleanStandin clean;
  cuda_client().kernels().set_library(kCodeGenerator);
  Builder b;
  const Value x = parameter({1000});
  const auto program =
      *jit::Executable::compile(cuda_device(), *Computation::make({{x}}, {{b.tanh(b.add(x, x))}}));
  // As the step launches it, but for the number of blocks.
  const LiteralPtr argument = numbers(x.type());
  const jit::BufferRef from = *cuda_client().put(cuda_device(), argument->data(), argument->bytes());
  const jit::BufferRef to = *cuda_device().memory().allocate(argument->bytes());
  const auto spec = jit::parse_kernel(program->steps()[0]->kernels()[0]->text);
  REQUIRE(spec.ok());
  const std::vector<int64_t> args{1000};
  const auto schedule = jit::favoured_grid(*spec, args);
  const auto kernel =
      *cuda_client().kernels().get({{*spec, schedule}}, 90, jit::cuda::CudaKernels::Code::kNow);
  auto& stream = static_cast<jit::cuda::CudaStream&>(cuda_device().stream());
  REQUIRE(stream.after(from->written()).ok());
  std::vector<uint64_t> values{from->address().bits(), to->address().bits(), 1000};
  std::vector<void*> parameters;
  for (uint64_t& v : values) parameters.push_back(&v);
  const auto function = kernel->function(stream.gpu(), jit::kGridEntry);
  REQUIRE(function.ok());
  const auto blocks = static_cast<unsigned>(jit::grid_plan(*spec, schedule, args)->launches[0].blocks);
  CHECK(stream.launch(*function, blocks, jit::kGridThreads, parameters).ok());
  CHECK(standin_violations() == kNone);
  CHECK_FALSE(stream.launch(*function, blocks + 1, jit::kGridThreads, parameters).ok());
  CHECK(lamina::testing::standin_found("no plan launches"));
  CHECK_FALSE(stream.launch(*function, blocks, jit::kGridThreads / 2, parameters).ok());
  CHECK(lamina::testing::standin_found("is launched with 128 threads"));
}
