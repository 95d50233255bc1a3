// Triangular solutions by cuBLAS on CUDA devices. The stand-in solves as the CPU does, so that all bits show
// what was given to it.
#include <limits>

#include "hlo/linalg/linalg.h"
#include "jit/cuda/stream.h"
#include "tests/jit/cuda_linalg_testing.h"

namespace lamina::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<std::string> kNone;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// Matrices with a large diagonal, and NaN where a solution must not read.
LiteralPtr triangles(DType t, const Dims& dims, bool is_lower, bool has_unit_diagonal) {
  std::vector<double> numbers = numbers_of(*any_array(t, dims));
  const int64_t n = dims.back(), parts = num_parts(t);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t element = static_cast<int64_t>(i) / parts, row = element / n % n, column = element % n;
    const bool is_unread = is_lower ? column > row : column < row;
    if (is_unread || (has_unit_diagonal && row == column)) numbers[i] = kNaN;
    if (row == column && !has_unit_diagonal) numbers[i] += 3;
  }
  return array_of(t, dims, numbers);
}

// The steps of a program that has the evaluator's bits.
std::string check_bits(const ComputationPtr& program, const std::vector<LiteralPtr>& arguments) {
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  for (const LiteralPtr& l : *want) CHECK_FALSE(std::isnan(numbers_of(*l)[0]));
  return check_on_cuda(program, arguments, *want);
}

ScopedLibrary cublas(const char* named, int driver_version) {
  const auto serve = [](int version) { cuda_client().triangles().serve(cuda_client().gpus(), version); };
  return {"CUBLAS", serve, named, driver_version};
}

}  // namespace

TEST_CASE("triangular systems of every kind, type and shape are solved by cuBLAS", "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes)
    for (const bool is_lower : {true, false})
      for (const bool is_unit : {false, true})
        for (const auto& [n, width] :
             std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 1}, {7, 4}, {6, 9}, {40, 3}}) {
          const std::string name = str_cat("solve_", is_unit ? "unit_" : "", is_lower ? "lower" : "upper"),
                            of = str_cat(" of ", n, " rows and ", width, " columns");
          const LiteralPtr a = triangles(t, {n, n}, is_lower, is_unit), y = any_array(t, {n, width}, 5);
          INFO(name << of);
          const std::string one = check_bits(routine_program("lamina." + name, {a, y}), {a, y});
          INFO(one);
          CHECK(has(one, name + " by cuBLAS 12.4.2 in f64, 1" + of + ", "));
          const LiteralPtr as = triangles(t, {2, 3, n, n}, is_lower, is_unit),
                           ys = any_array(t, {2, 3, n, width}, 5);
          const std::string six = check_bits(routine_program("lamina." + name, {as, ys}), {as, ys});
          INFO(six);
          CHECK(has(six, name + " by cuBLAS 12.4.2 in f64, 6" + of + ", at once, "));
          CHECK_FALSE(has(one + six, "on the host"));
        }
}

TEST_CASE("both sides, transposes and adjoints are the same call", "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  for (const DType t : {DType::kF64, DType::kC64})
    for (const bool left : {true, false})
      for (const bool is_lower : {true, false})
        for (const linalg::Transpose op :
             {linalg::Transpose::kNo, linalg::Transpose::kTranspose, linalg::Transpose::kAdjoint}) {
          const LiteralPtr a = triangles(t, {3, 6, 6}, is_lower, false),
                           y = any_array(t, left ? Dims{3, 6, 4} : Dims{3, 4, 6}, 5);
          const Type* types[] = {a->type(), y->type()};
          const ComputationPtr program = *record_region(types, [&](Builder& b, std::span<const Value> x) {
            return Values{linalg::triangular_solve(b, x[0], x[1], left, is_lower, false, op)};
          });
          const std::string steps = check_bits(program, {a, y});
          INFO(steps);
          // On the right the library takes the matrix the other way round.
          const bool turns = (op == linalg::Transpose::kNo) != left;
          CHECK(has(steps, " of the transpose by cuBLAS") ==
                (turns && (op != linalg::Transpose::kAdjoint || t == DType::kF64)));
          CHECK(has(steps, " of the adjoint by cuBLAS") ==
                (turns && op == linalg::Transpose::kAdjoint && t == DType::kC64));
          CHECK(has(steps, "by cuBLAS 12.4.2 in f64, 3 of 6 rows and 4 columns, at once"));
          CHECK_FALSE(has(steps, "on the host"));
        }
}

TEST_CASE("transposes and adjoints of triangles are the library's, and no kernels",
          "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  for (const DType t : {DType::kF64, DType::kC128})
    for (const Dims& batch : {Dims{}, Dims{3}}) {
      const auto launches = [&](linalg::Transpose op) {
        const auto in_batch = [&](Dims dims) {
          dims.insert(dims.begin(), batch.begin(), batch.end());
          return dims;
        };
        const LiteralPtr a = triangles(t, in_batch({6, 6}), true, false),
                         y = any_array(t, in_batch({6, 4}), 5);
        const Type* types[] = {a->type(), y->type()};
        const ComputationPtr program = *record_region(types, [&](Builder& b, std::span<const Value> x) {
          return Values{linalg::triangular_solve(b, x[0], x[1], true, true, false, op)};
        });
        check_bits(program, {a, y});
        standin()->take_counts();
        CHECK(run_on_cuda(program, {a, y}).results.size() == 1);
        const StandinCounts counts = standin()->take_counts();
        CHECK(counts.direct_launches == 0);  // in double precision
        return counts.launches;
      };
      const int64_t plain = launches(linalg::Transpose::kNo);
      CHECK(plain == 1);
      CHECK(launches(linalg::Transpose::kTranspose) == plain);
      CHECK(launches(linalg::Transpose::kAdjoint) == plain);
    }
}

TEST_CASE("one triangle serves several systems, and several triangles one right side",
          "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  for (const DType t : {DType::kF32, DType::kC128}) {
    const LiteralPtr a = triangles(t, {1, 2, 6, 6}, true, false), y = any_array(t, {3, 1, 6, 4}, 5);
    const std::string steps = check_bits(routine_program("lamina.solve_lower", {a, y}), {a, y});
    CHECK(has(steps, "6 of 6 rows and 4 columns, at once"));
    // Of more rows or columns each is a call.
    const LiteralPtr wide = any_array(t, {2, 2, 6, 257}, 5);
    CHECK(has(check_bits(routine_program("lamina.solve_lower", {a, wide}), {a, wide}),
              "4 of 6 rows and 257 columns, one by one"));
  }
}

TEST_CASE("systems without a solution, or of other than finite numbers, are the CPU's",
          "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  std::vector<double> numbers = numbers_of(*triangles(DType::kF64, {2, 5, 5}, false, false));
  numbers[12] = 0;
  const LiteralPtr a = array_of(DType::kF64, {2, 5, 5}, numbers);
  std::vector<double> right = numbers_of(*any_array(DType::kF64, {2, 5, 3}, 5));
  right[29] = kInfinity;
  const LiteralPtr y = array_of(DType::kF64, {2, 5, 3}, right);
  const std::vector<LiteralPtr> system{a, y};
  const ComputationPtr program = routine_program("lamina.solve_upper", system);
  const auto want = evaluate(*program, system);
  REQUIRE(want.ok());
  CHECK(has(check_on_cuda(program, system, *want), "solve_upper by cuBLAS"));
}

TEST_CASE("`fast` numerics solve in the element type, where the operand lies", "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  for (const DType t : {DType::kF32, DType::kC64}) {
    const LiteralPtr a = triangles(t, {2, 8, 8}, true, false), y = any_array(t, {2, 8, 3}, 5);
    const std::string steps =
        check_near_on_cuda(routine_program("lamina.solve_lower", {a, y}, Numerics::kFast), {a, y}, 1e-5);
    CHECK(has(steps, "solve_lower by cuBLAS 12.4.2 in f32, 2 of 8 rows"));
  }
}

TEST_CASE("a triangular solution is part of a graph, and its operands are still there",
          "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  const LiteralPtr a = triangles(DType::kF64, {6, 6}, true, false), y = any_array(DType::kF64, {6, 2}, 5);
  const Type* types[] = {a->type(), y->type()};
  const ComputationPtr program = *record_region(types, [&](Builder& b, std::span<const Value> x) {
    const Value solved = b.negate(linalg::call(b, "lamina.solve_lower", {{x[0], x[1]}})[0]);
    return Values{b.multiply(solved, b.broadcast_in_dim(b.reduce_sum(solved, {{1}}), {{6, 2}}, {{0}})),
                  b.negate(x[1])};
  });
  const int64_t graphs = cuda_client().kernel_stats().graph_runs;
  CHECK_FALSE(has(check_bits(program, {a, y}), "on the host"));
  CHECK(cuda_client().kernel_stats().graph_runs > graphs);
}

TEST_CASE("without cuBLAS triangular solutions are the host's, and it is said why",
          "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  const LiteralPtr a = triangles(DType::kF64, {6, 6}, true, false), y = any_array(DType::kF64, {6, 2}, 5);
  const auto said = [&](const char* named, int driver = 12040) {
    const ScopedLibrary other = cublas(named, driver);
    const std::string steps = check_bits(routine_program("lamina.solve_lower", {a, y}), {a, y}),
                      library = cuda_client().triangles().library(), begin = "on the host: ";
    INFO(steps);
    REQUIRE(has(library, begin));
    CHECK(has(steps, "on the host: no form for it on CUDA, without cuBLAS: " + library.substr(begin.size())));
    return library.substr(begin.size());
  };
  CHECK(said("") == "LAMINA_CUBLAS says that there is none");
  {
    const ScopedLibrary none = cublas("", 12040);
    for (const DType t : {DType::kF64, DType::kC64})
      for (const linalg::Transpose op : {linalg::Transpose::kTranspose, linalg::Transpose::kAdjoint}) {
        const LiteralPtr lower = triangles(t, {2, 6, 6}, true, false), right = any_array(t, {2, 6, 2}, 5);
        const Type* types[] = {lower->type(), right->type()};
        const ComputationPtr program = *record_region(types, [&](Builder& b, std::span<const Value> x) {
          return Values{linalg::triangular_solve(b, x[0], x[1], true, true, false, op)};
        });
        CHECK(
            has(check_bits(program, {lower, right}), "on the host: no form for it on CUDA, without cuBLAS"));
      }
  }
  CHECK(said("libm.so.6") == "libm.so.6 has no cublasGetProperty");
  setenv("LAMINA_STANDIN_CUBLAS", "130002", 1);
  CHECK(said(kCudaStandin) ==
        std::string(kCudaStandin) + " is for drivers of CUDA 13, and this one is older");
  CHECK(cuda_client().triangles().library() == std::string(kCudaStandin) + ", version 12.4.2");
}

TEST_CASE("a solution that fails says so, and the next one works", "[cuda][cuda_triangles]") {
  const CleanStandin clean;
  const LiteralPtr a = triangles(DType::kF64, {2, 6, 6}, true, false),
                   y = any_array(DType::kF64, {2, 6, 2}, 5);
  const auto executable = Executable::compile(cuda_device(), routine_program("lamina.solve_lower", {a, y}));
  REQUIRE(executable.ok());
  const auto run = [&] {
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& l : {a, y}) in.push_back(*cuda_client().put(cuda_device(), l->data(), l->bytes()));
    if (absl::Status s = (*executable)->run(in, out); !s.ok()) return s;
    std::vector<std::byte> got(static_cast<size_t>(out[0]->bytes()));
    const jit::Client::Read all{&*out[0], 0, out[0]->bytes(), got.data()};
    return cuda_client().read({&all, 1}, nullptr);
  };
  standin()->fail(kStandinSolve, 0, static_cast<int>(jit::cuda::BlasStatus::kExecutionFailed));
  const absl::Status failed = run();
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(has(std::string(failed.message()),
            "cuda:0 failed solving: CUBLAS_STATUS_EXECUTION_FAILED, in custom_call"));
  standin()->fail(kStandinSolve, 0, static_cast<int>(jit::cuda::BlasStatus::kAllocFailed));
  CHECK(absl::IsResourceExhausted(run()));
  CHECK(run().ok());
  CHECK(standin_violations() == kNone);
}

// The library's functions, called as they must not be.
TEST_CASE("planted: what cuBLAS refuses", "[cuda][cuda_triangles][planted]") {
  using namespace jit::cuda;
  const CleanStandin clean;
  const auto cublas = load_cublas(12040);
  REQUIRE(cublas.ok());
  auto& stream = static_cast<CudaStream&>(cuda_device().stream());
  const auto within = [&](auto work) { return answer_on(stream, work); };
  CublasHandle handle = nullptr;
  CHECK(cublas->create(&handle) == BlasStatus::kNotInitialized);  // no context is current
  REQUIRE(within([&](StreamHandle) { return cublas->create(&handle); }) == BlasStatus::kSuccess);

  std::vector<double> numbers(64);
  for (size_t i = 0; i < 8; ++i) numbers[9 * i] = 4;
  const BufferRef a = *cuda_client().put(cuda_device(), numbers.data(), 512),
                  x = *cuda_client().put(cuda_device(), numbers.data(), 512),
                  space = *cuda_device().memory().allocate(1024);
  REQUIRE(stream.takes(x->written()).ok());
  const auto pointer = [](jit::Address at) { return reinterpret_cast<void*>(at.bits()); };
  const double one = 1, two = 2;
  struct Call {
    int m = 8, n = 8, stride = 8, right_stride = 8;
    int side = 0, triangle = 0, turn = 0, diagonal = 0;
    const double* alpha;
  };
  const auto solve = [&](const Call& c, jit::Address matrix) {
    return within([&](StreamHandle) {
      return cublas->f64_solve(handle, static_cast<BlasSide>(c.side), static_cast<BlasTriangle>(c.triangle),
                               static_cast<BlasTurn>(c.turn), static_cast<BlasDiagonal>(c.diagonal), c.m, c.n,
                               c.alpha, pointer(matrix), c.stride, pointer(x->address()), c.right_stride);
    });
  };
  const Call good{.alpha = &one};
  CHECK(solve(good, a->address()) == BlasStatus::kInvalidValue);
  CHECK(standin_found("a solution on no stream"));
  REQUIRE(within([&](StreamHandle on) { return cublas->set_stream(handle, on); }) == BlasStatus::kSuccess);
  CHECK(solve(good, a->address()) == BlasStatus::kSuccess);
  CHECK(standin_found("work space that others share"));
  const auto give = [&](jit::Address at) {
    return within([&](StreamHandle) { return cublas->set_workspace(handle, pointer(at), 512); });
  };
  CHECK(give(space->address() + 8) == BlasStatus::kInvalidValue);
  REQUIRE(give(space->address()) == BlasStatus::kSuccess);
  CHECK(solve(good, a->address()) == BlasStatus::kSuccess);
  CHECK(standin_violations() == kNone);
  for (const Call& bad :
       {Call{.stride = 7, .alpha = &one}, Call{.right_stride = 7, .alpha = &one},
        Call{.m = -1, .alpha = &one}, Call{.n = -1, .alpha = &one}, Call{.side = 2, .alpha = &one},
        Call{.triangle = 2, .alpha = &one}, Call{.turn = 3, .alpha = &one},
        Call{.diagonal = 2, .alpha = &one}, Call{.alpha = nullptr}})
    CHECK(solve(bad, a->address()) == BlasStatus::kInvalidValue);
  CHECK(solve(Call{.m = 0, .alpha = &one}, a->address()) == BlasStatus::kSuccess);
  // On the left the triangle has as many rows as what is solved for, on the right as it has columns.
  CHECK(solve(Call{.n = 4, .stride = 4, .side = 1, .alpha = &one}, a->address()) == BlasStatus::kSuccess);
  CHECK(solve(Call{.n = 4, .stride = 4, .alpha = &one}, a->address()) == BlasStatus::kInvalidValue);
  CHECK(standin_violations() == kNone);
  solve(Call{.alpha = &two}, a->address());
  CHECK(standin_found("a solution of a multiple"));
  solve(good, a->address() + 8);
  CHECK(standin_found("touches"));

  const auto solve_each = [&](const std::vector<const void*>& addresses) {
    const BufferRef list = *cuda_client().put(cuda_device(), addresses.data(), 16);
    REQUIRE(stream.takes(list->written()).ok());
    const BlasStatus status = within([&](StreamHandle) {
      return cublas->f64_solve_each(handle, BlasSide::kRight, BlasTriangle::kUpper, BlasTurn::kAdjoint,
                                    BlasDiagonal::kAny, 8, 8, &one, pointer(list->address()), 8,
                                    pointer(list->address() + 8), 8, 1);
    });
    standin()->drain();
    return status;
  };
  CHECK(solve_each({pointer(a->address()), pointer(x->address())}) == BlasStatus::kSuccess);
  CHECK(standin_violations() == kNone);
  CHECK(solve_each({pointer(a->address()), numbers.data()}) == BlasStatus::kSuccess);
  CHECK(standin_found("addresses are not the device's"));
}

}  // namespace lamina::testing
