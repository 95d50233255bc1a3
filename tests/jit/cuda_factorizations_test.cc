// Factorizations by cuSOLVER on CUDA devices. The stand-in factors as the CPU does, so that all bits show
// what was factored; what it refuses, and in what order things may run, is that of the library.
#include <cstdlib>
#include <limits>
#include <random>

#include "hlo/builder.h"
#include "hlo/linalg/calls.h"
#include "tests/jit/executable_testing.h"

namespace lamina::testing {
namespace {

const std::vector<std::string> kNone;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

ScopedLibrary cusolver(const char* named, int driver_version) {
  const auto serve = [](int version) { cuda_client().factorizations().serve(cuda_client().gpus(), version); };
  return {"CUSOLVER", serve, named, driver_version};
}

ComputationPtr program_of(const std::string& name, const Type* type, Numerics numerics = Numerics::kSame) {
  const Type* types[] = {type};
  return *record_region(types, [&](Builder& b, std::span<const Value> x) {
    const NumericsScope scope(numerics);
    Values out = linalg::call(b, name, {{x[0]}});
    out.push_back(b.negate(x[0]));  // the operand is still there
    return out;
  });
}

// Matrices, of which every third is positive, every third is not, and every third has a number that is none.
LiteralPtr matrices(DType t, int64_t count, int64_t n, bool all_good = false, bool spoils_upper = true) {
  std::mt19937_64 rng(11);
  std::uniform_real_distribution<double> any(-1, 1);
  const Type* const type = array_type_or_die(t, Dims{count, n, n});
  const int64_t parts = num_parts(t);
  std::vector<double> numbers(static_cast<size_t>(type->num_elements * parts));
  for (double& x : numbers) x = any(rng);
  for (int64_t m = 0; m < count; ++m)
    for (int64_t i = 0; i < n; ++i) {
      const auto at = [&](int64_t r, int64_t c) {
        return static_cast<size_t>(((m * n + r) * n + c) * parts);
      };
      numbers[at(i, i)] = m % 3 == 1 && !all_good && i == n / 2 ? -1 : 2 * static_cast<double>(n);
      if (m % 3 == 2 && !all_good && i > 0) numbers[at(i, 0)] = std::numeric_limits<double>::infinity();
      // What is not read.
      if (i > 0 && spoils_upper) numbers[at(0, i)] = std::numeric_limits<double>::quiet_NaN();
    }
  if (part_type(t) == DType::kF64) return Literal::copy_of(type, numbers.data());
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  return Literal::copy_of(type, narrow.data());
}

std::shared_ptr<const Executable> compiled(const ComputationPtr& program) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(cuda_device(), program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *executable;
}

absl::Status run(const Executable& executable, const LiteralPtr& x) {
  std::vector<BufferRef> in{*cuda_client().put(cuda_device(), x->data(), x->bytes())}, out;
  if (absl::Status s = executable.run(in, out); !s.ok()) return s;
  std::vector<std::byte> got(static_cast<size_t>(out[0]->bytes()));
  const jit::Client::Read all{&*out[0], 0, out[0]->bytes(), got.data()};
  return cuda_client().read({&all, 1}, nullptr);
}

// The steps of a program that has the evaluator's bits.
std::string steps_of(const std::string& name, const LiteralPtr& a) {
  const ComputationPtr program = program_of(name, a->type());
  const std::vector<LiteralPtr> arguments{a};
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  INFO(name << " of " << to_string(*a->type()));
  return check_on_cuda(program, arguments, *want);
}

constexpr const char* kNames[] = {"lamina.cholesky", "lamina.mean_cholesky", "lamina.eigh",
                                  "lamina.eigvalsh"};
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};

}  // namespace

TEST_CASE("factorizations of every type are calls of cuSOLVER, with NaN where there is none",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const std::string name : kNames)
    for (const DType t : kTypes)
      for (const int64_t n : {1, 5, 8, 40}) {
        const std::string steps = steps_of(name, matrices(t, 3, n, false, name != "lamina.mean_cholesky"));
        INFO(steps);
        CHECK(
            has(steps, name.substr(7) + " by cuSOLVER 11.6.2 in f64, 3 of " + std::to_string(n) + " rows, "));
        CHECK_FALSE(has(steps, "on the host"));
      }
}

TEST_CASE("`fast` numerics factor in the element type", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = matrices(DType::kF32, 2, 8, true);
  const auto executable = compiled(program_of("lamina.cholesky", a->type(), Numerics::kFast));
  CHECK(has(executable->describe(), "cholesky by cuSOLVER 11.6.2 in f32, 2 of 8 rows"));
  CHECK(run(*executable, a).ok());
  CHECK(standin_violations() == kNone);
}

TEST_CASE("factorizations are in no graph, and steps beside them are", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = matrices(DType::kF64, 1, 6, true);
  const Type* types[] = {a->type()};
  const ComputationPtr program = *record_region(types, [&](Builder& b, std::span<const Value> x) {
    Value y = linalg::call(b, "lamina.cholesky", {{x[0]}})[0];
    for (int i = 0; i < 3; ++i)
      y = b.multiply(y, b.broadcast_in_dim(b.reduce_sum(y, {{1}}), y.dims(), {{0, 2}}));
    return Values{y};
  });
  const auto executable = compiled(program);
  const int64_t graphs = cuda_client().kernel_stats().graph_runs;
  for (int i = 0; i < 6; ++i) CHECK(run(*executable, a).ok());
  CHECK(cuda_client().kernel_stats().graph_runs > graphs);
  CHECK(standin_violations() == kNone);
}

// The stand-in finds what it was given changed.
TEST_CASE("a work space of the host stays until the factorization has run", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = matrices(DType::kF64, 3, 24, true);
  const auto executable = compiled(program_of("lamina.eigh", a->type()));
  std::vector<BufferRef> in{*cuda_client().put(cuda_device(), a->data(), a->bytes())}, out;
  REQUIRE(executable->run(in, out).ok());
  // What others take meanwhile.
  std::vector<std::vector<std::byte>> others;
  for (size_t i = 0; i < 64; ++i) others.emplace_back(size_t{16} * 24, std::byte{1});
  CHECK(standin_violations() == kNone);
}

TEST_CASE("batches of many matrices are the host's, and no matrices are no call",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  CHECK(has(steps_of("lamina.cholesky", matrices(DType::kF64, 64, 5)), "cuSOLVER"));
  CHECK(has(steps_of("lamina.eigh", matrices(DType::kF64, 65, 5)),
            "on the host: no form for it on CUDA, without cuSOLVER: it factors one matrix after the other, "
            "and these "
            "are 65"));
  CHECK_FALSE(has(steps_of("lamina.cholesky", matrices(DType::kF64, 0, 5)), "cuSOLVER"));
}

TEST_CASE("without cuSOLVER factorizations are the host's, and it is said why",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = matrices(DType::kF64, 2, 6);
  const auto said = [&](const char* named, int driver = 12040) {
    const ScopedLibrary other = cusolver(named, driver);
    const std::string steps = steps_of("lamina.cholesky", a),
                      library = cuda_client().factorizations().library();
    INFO(steps);
    const std::string begin = "on the host: ";
    REQUIRE(has(library, begin));
    CHECK(
        has(steps, "on the host: no form for it on CUDA, without cuSOLVER: " + library.substr(begin.size())));
    return library.substr(begin.size());
  };
  CHECK(said("") == "LAMINA_CUSOLVER says that there is none");
  CHECK(said("/nowhere/it.so") == "/nowhere/it.so, which LAMINA_CUSOLVER names, cannot be loaded");
  CHECK(said("libm.so.6") == "libm.so.6 has no cusolverGetVersion");
  setenv("LAMINA_STANDIN_CUSOLVER", "12004", 1);
  CHECK(said(kCudaStandin) ==
        std::string(kCudaStandin) + " is for drivers of CUDA 13, and this one is older");
  CHECK(cuda_client().factorizations().library() == std::string(kCudaStandin) + ", version 11.6.2");
}

TEST_CASE("a factorization that fails says so, and the next one works", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = matrices(DType::kF64, 1, 7, true);
  const auto executable = compiled(program_of("lamina.eigh", a->type()));
  standin()->fail(kStandinFactor, 0, static_cast<int>(jit::cuda::SolverStatus::kExecutionFailed));
  const absl::Status failed = run(*executable, a);
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(has(std::string(failed.message()),
            "cuda:0 failed factoring: CUSOLVER_STATUS_EXECUTION_FAILED, in custom_call"));
  standin()->fail(kStandinFactor, 0, static_cast<int>(jit::cuda::SolverStatus::kAllocFailed));
  CHECK(absl::IsResourceExhausted(run(*executable, a)));
  CHECK(run(*executable, a).ok());
  CHECK(standin_violations() == kNone);
}

TEST_CASE("planted: a factorization does not wait for what it reads",
          "[cuda][cuda_factorizations][planted]") {
  const CleanStandin clean;
  const LiteralPtr a = matrices(DType::kF64, 1, 9, true);
  const auto executable = compiled(program_of("lamina.cholesky", a->type()));
  standin()->set_mistake(kStandinForgetsWaits);
  CHECK(standin_finds("nothing orders", [&] { run(*executable, a).IgnoreError(); }));
}

// The library's functions, called as they must not be.
TEST_CASE("planted: what cuSOLVER refuses", "[cuda][cuda_factorizations][planted]") {
  using namespace jit::cuda;
  const CleanStandin clean;
  const auto solver = load_solver(12040);
  REQUIRE(solver.ok());
  auto& stream = static_cast<CudaStream&>(cuda_device().stream());
  const auto within = [&](auto work) { return answer_on(stream, work); };
  SolverHandle handle = nullptr;
  SolverParameters parameters = nullptr;
  CHECK(solver->create(&handle) == SolverStatus::kNotInitialized);  // no context is current
  REQUIRE(within([&](StreamHandle) { return solver->create(&handle); }) == SolverStatus::kSuccess);
  REQUIRE(solver->create_parameters(&parameters) == SolverStatus::kSuccess);
  const auto type = MatrixType::kF64;
  const auto ask = [&](int64_t n, int64_t stride, MatrixType compute, size_t* bytes) {
    size_t on_host = 0;
    return within([&](StreamHandle) {
      return solver->cholesky_bytes(handle, parameters, BlasTriangle::kUpper, n, type, nullptr, stride,
                                    compute, bytes, &on_host);
    });
  };
  size_t bytes = 0;
  CHECK(ask(8, 7, type, &bytes) == SolverStatus::kInvalidValue);
  CHECK(ask(0, 8, type, &bytes) == SolverStatus::kInvalidValue);
  CHECK(ask(8, 8, MatrixType::kF32, &bytes) == SolverStatus::kNotSupported);
  REQUIRE(ask(8, 8, type, &bytes) == SolverStatus::kSuccess);
  REQUIRE(bytes == 64);

  std::vector<double> numbers(64);
  for (size_t i = 0; i < 8; ++i) numbers[9 * i] = 4;
  const BufferRef a = *cuda_client().put(cuda_device(), numbers.data(), 512),
                  info = *cuda_device().memory().allocate(64), space = *cuda_device().memory().allocate(1024);
  REQUIRE(stream.takes(a->written()).ok());
  const auto pointer = [](jit::Address at) { return reinterpret_cast<void*>(at.bits()); };
  const auto factor = [&](jit::Address matrix, jit::Address at, size_t given) {
    return within([&](StreamHandle) {
      return solver->cholesky(handle, parameters, BlasTriangle::kUpper, 8, type, pointer(matrix), 8, type,
                              pointer(at), given, nullptr, 0, static_cast<int*>(pointer(info->address())));
    });
  };
  CHECK(factor(a->address(), space->address(), bytes) == SolverStatus::kInvalidValue);
  CHECK(standin_found("a factorization on no stream"));
  REQUIRE(within([&](StreamHandle on) { return solver->set_stream(handle, on); }) == SolverStatus::kSuccess);
  CHECK(factor(a->address(), space->address(), bytes - 1) == SolverStatus::kInvalidWorkspace);
  CHECK(factor(a->address(), space->address(), bytes) == SolverStatus::kSuccess);
  CHECK(standin_violations() == kNone);
  factor(a->address(), space->address() + 8, bytes);
  CHECK(standin_found("a work space of cuSOLVER that begins anywhere"));
  factor(a->address() + 8, space->address(), bytes);
  CHECK(standin_found("touches"));
  numbers[8] = std::numeric_limits<double>::quiet_NaN();
  const BufferRef none = *cuda_client().put(cuda_device(), numbers.data(), 512);
  REQUIRE(stream.takes(none->written()).ok());
  factor(none->address(), space->address(), bytes);
  CHECK(standin_found("numbers that are not finite"));

  size_t on_host = 0;
  const auto ask_singular = [&](int64_t m, int64_t n, signed char left, signed char right) {
    return within([&](StreamHandle) {
      return solver->singular_bytes(handle, parameters, left, right, m, n, type, nullptr, m, type, nullptr,
                                    type, nullptr, m, type, nullptr, n, type, &bytes, &on_host);
    });
  };
  CHECK(ask_singular(8, 6, 'A', 'S') == SolverStatus::kSuccess);
  CHECK(ask_singular(6, 8, 'S', 'S') == SolverStatus::kInvalidValue);
  CHECK(ask_singular(8, 6, 'S', 'N') == SolverStatus::kInvalidValue);
  int elements = 0;
  const auto ask_columns = [&](int m, int n, int k) {
    return within([&](StreamHandle) {
      return solver->f64_columns_elements(handle, m, n, k, nullptr, m, nullptr, &elements);
    });
  };
  CHECK(ask_columns(8, 6, 5) == SolverStatus::kSuccess);
  CHECK(ask_columns(6, 8, 5) == SolverStatus::kInvalidValue);
  CHECK(ask_columns(8, 5, 6) == SolverStatus::kInvalidValue);
}

// It does not start without a driver.
TEST_CASE("the machine's cuSOLVER, if there is one, says why it does not start",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const ScopedLibrary real = cusolver(nullptr, 99000);
  const auto solver = jit::cuda::load_solver(99000);
  if (!solver.ok()) return;
  INFO(solver->version_text());
  CHECK(std::stoi(solver->version_text()) >= 11);
  CHECK(has(cuda_client().factorizations().library(),
            "on the host: " + solver->library + " does not start on"));
}

}  // namespace lamina::testing
