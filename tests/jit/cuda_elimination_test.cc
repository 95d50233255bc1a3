// LU factors by cuSOLVER on CUDA devices, and solutions and determinants by them. The stand-in factors and
// solves as the CPU does, so that all bits show what was given to it.
#include <limits>
#include <numeric>

#include "hlo/linalg/matrix.h"
#include "tests/jit/cuda_linalg_testing.h"

namespace lamina::testing {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// Factors and the order of rows of the CPU's.
std::vector<LiteralPtr> factors_of(const LiteralPtr& a) {
  const auto found = evaluate(*routine_program("lamina.lu", {a}), std::vector{a});
  REQUIRE(found.ok());
  return *found;
}

// The steps of a program that has the evaluator's bits.
std::string check_bits(const std::string& name, const std::vector<LiteralPtr>& arguments) {
  const ComputationPtr program = routine_program(name, arguments);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  INFO(name << " of " << to_string(*arguments[0]->type()));
  return check_on_cuda(program, arguments, *want);
}

// With some of the numbers in another way.
LiteralPtr with(const LiteralPtr& a, const std::vector<std::pair<size_t, double>>& changes) {
  std::vector<double> numbers = numbers_of(*a);
  for (const auto& [at, x] : changes) numbers[at] = x;
  return array_of(a->type()->dtype, a->type()->dims, numbers);
}

bool all_nan(const std::vector<double>& x, size_t begin, size_t end) {
  return std::all_of(x.begin() + static_cast<std::ptrdiff_t>(begin),
                     x.begin() + static_cast<std::ptrdiff_t>(end), [](double y) { return std::isnan(y); });
}

}  // namespace

TEST_CASE("LU factors of every type and shape are calls of cuSOLVER", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes)
    for (const auto& [m, n] : std::vector<std::pair<int64_t, int64_t>>{
             {1, 1}, {5, 5}, {1, 4}, {4, 1}, {9, 6}, {6, 9}, {40, 40}, {50, 36}, {36, 50}})
      for (const Dims& batch : {Dims{}, Dims{3}, Dims{2, 3}}) {
        Dims dims = batch;
        dims.insert(dims.end(), {m, n});
        const std::string steps = check_bits("lamina.lu", {any_array(t, dims)});
        INFO(steps);
        CHECK(has(steps, "lu by cuSOLVER 11.6.2 in f64, "));
        CHECK(has(steps, " of " + std::to_string(m) + " rows"));
        CHECK_FALSE(has(steps, "on the host"));
      }
}

TEST_CASE("singular matrices have the CPU's factors, others than finite ones NaN",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const Dims dims{3, 6, 6};
  std::vector<std::pair<size_t, double>> zero_column;
  for (size_t i = 0; i < 6; ++i) zero_column.push_back({36 + 6 * i + 2, 0});
  const LiteralPtr singular = with(any_array(DType::kF64, dims), zero_column);
  check_bits("lamina.lu", {singular});
  check_bits("lamina.lu", {array_of(DType::kF32, dims, std::vector<double>(108))});

  for (const double none : {kNaN, kInfinity, -kInfinity}) {
    const LiteralPtr a = with(any_array(DType::kF64, dims), {{36 + 5, none}});
    const OnCuda got = run_on_cuda(routine_program("lamina.lu", {a}), {a});
    const std::vector<double> packed = numbers_of(*got.results[0]), order = numbers_of(*got.results[2]);
    CHECK(all_nan(packed, 36, 72));
    const std::vector<double> good = numbers_of(*factors_of(a)[0]);
    for (size_t i = 0; i < 108; ++i)
      if (i < 36 || i >= 72) CHECK(packed[i] == good[i]);
    for (const double row : order) CHECK((row >= 0 && row < 6));
    const std::vector<LiteralPtr> system{a, any_array(DType::kF64, {3, 6, 2})};
    const OnCuda solved = run_on_cuda(routine_program("lamina.solve", system), system);
    const std::vector<double> x = numbers_of(*solved.results[0]);
    CHECK(all_nan(x, 12, 24));
    CHECK_FALSE(std::isnan(x[0]));
    CHECK_FALSE(std::isnan(x[24]));
  }
}

TEST_CASE("transposes and adjoints are solved from the matrix itself, without a kernel more",
          "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes) {
    const LiteralPtr a = any_array(t, {3, 6, 6}), y = any_array(t, {3, 6, 2}, 5);
    const Type* types[] = {a->type(), y->type()};
    const auto solved = [&](auto turn) {
      const ComputationPtr program = *record_region(types, [&](Builder& b, std::span<const Value> x) {
        return linalg::call(b, "lamina.solve", {{turn(b, x[0]), x[1]}});
      });
      CHECK(has(check_near_on_cuda(program, {a, y}, part_type(t) == DType::kF64 ? 1e-11 : 1e-4),
                "solve by cuSOLVER"));
      standin()->take_counts();
      CHECK(run_on_cuda(program, {a, y}).results.size() == 1);
      return standin()->take_counts().direct_launches;
    };
    const int64_t plain = solved([](Builder&, const Value& x) { return x; });
    CHECK(solved([](Builder& b, const Value& x) { return linalg::transposed(b, x); }) == plain);
    CHECK(solved([](Builder& b, const Value& x) { return linalg::adjoint(b, x); }) == plain);
    // The host has a copy that it turns itself.
    const std::vector<LiteralPtr> many{any_array(t, {65, 6, 6}), any_array(t, {65, 6, 2}, 5)};
    const Type* of_many[] = {many[0]->type(), many[1]->type()};
    const ComputationPtr program = *record_region(of_many, [&](Builder& b, std::span<const Value> x) {
      return linalg::call(b, "lamina.solve", {{linalg::adjoint(b, x[0]), x[1]}});
    });
    const auto want = evaluate(*program, many);
    REQUIRE(want.ok());
    const std::string steps = check_on_cuda(program, many, *want);
    CHECK(has(steps, "on the host: no form for it on CUDA, without cuSOLVER: it factors one matrix after"));
    CHECK_FALSE(has(steps, "loop"));
  }
}

TEST_CASE("systems are solved by cuSOLVER", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes)
    for (const auto& [n, width] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 1}, {7, 4}, {6, 9}, {40, 3}}) {
      const LiteralPtr a = any_array(t, {3, n, n}), b = any_array(t, {3, n, width}, 5);
      const std::vector<LiteralPtr> factors = factors_of(a);
      // The CPU rounds factors between the two calls that it has joined.
      const double tolerance = part_type(t) == DType::kF32 ? 1e-3 : 0;
      const std::string steps =
          check_near_on_cuda(routine_program("lamina.solve", {a, b}), {a, b}, tolerance);
      INFO(steps);
      CHECK(has(steps, "solve by cuSOLVER 11.6.2 in f64, 3 of " + std::to_string(n) + " rows, "));
      CHECK_FALSE(has(steps, "on the host"));
      for (const std::string name : {"lu_solve", "lu_solve_transposed"}) {
        const std::string by_factors = check_bits("lamina." + name, {a, factors[0], factors[2], b});
        INFO(by_factors);
        CHECK(has(by_factors, name + " by cuSOLVER 11.6.2 in f64, 3 of "));
        CHECK_FALSE(has(by_factors, "on the host"));
      }
    }
}

TEST_CASE("a number that is not finite on the right stays in its column", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = any_array(DType::kF64, {2, 5, 5}),
                   b = with(any_array(DType::kF64, {2, 5, 3}, 5), {{4, kNaN}, {16, kInfinity}});
  check_bits("lamina.solve", {a, b});
}

TEST_CASE("one matrix serves several systems", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = any_array(DType::kF64, {1, 2, 6, 6}), b = any_array(DType::kF64, {3, 1, 6, 4}, 5);
  const std::vector<LiteralPtr> factors = factors_of(a);
  CHECK(has(check_bits("lamina.solve", {a, b}), "solve by cuSOLVER 11.6.2 in f64, 6 of 6 rows"));
  check_bits("lamina.lu_solve", {a, factors[0], factors[2], b});
  check_bits("lamina.lu_solve_transposed", {a, factors[0], factors[2], b});
}

TEST_CASE("determinants are made of factors where these are", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : kMatrixTypes)
    for (const int64_t n : {1, 2, 5, 40, 70}) {
      const LiteralPtr a = any_array(t, {5, n, n});
      const std::vector<LiteralPtr> factors = factors_of(a), of{a, factors[0], factors[2]};
      const double tolerance = part_type(t) == DType::kF32 ? 1e-6 : 1e-13;
      for (const std::string name : {"det", "slogdet"}) {
        const std::string steps = check_near_on_cuda(routine_program("lamina." + name, of), of, tolerance);
        INFO(steps);
        CHECK(has(steps, name + " of factors in f64, 5 of " + std::to_string(n) + " rows, "));
        CHECK_FALSE(has(steps, "on the host"));
      }
    }
  // Singular ones, and -0.
  const LiteralPtr a = with(any_array(DType::kF64, {2, 3, 3}), {{0, 0}, {3, 0}, {6, 0}});
  const std::vector<LiteralPtr> factors = factors_of(a), of{a, factors[0], factors[2]};
  const OnCuda det = run_on_cuda(routine_program("lamina.det", of), of),
               log = run_on_cuda(routine_program("lamina.slogdet", of), of);
  CHECK(numbers_of(*det.results[0])[0] == 0);
  CHECK_FALSE(std::signbit(numbers_of(*det.results[0])[0]));
  CHECK(numbers_of(*log.results[0])[0] == 0);
  CHECK(numbers_of(*log.results[1])[0] == -kInfinity);
}

TEST_CASE("an order that is none of rows gives NaN", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  const LiteralPtr a = any_array(DType::kF64, {4, 3, 3}), b = any_array(DType::kF64, {4, 3, 2}, 5);
  const LiteralPtr order = array_of(DType::kS32, {4, 3}, {0, 2, 1, 0, 0, 1, 1, 2, 3, -1, 0, 1});
  check_bits("lamina.lu_solve", {a, a, order, b});
  check_bits("lamina.lu_solve_transposed", {a, a, order, b});
  check_near_on_cuda(routine_program("lamina.det", {a, a, order}), {a, a, order}, 1e-14);
  check_near_on_cuda(routine_program("lamina.slogdet", {a, a, order}), {a, a, order}, 1e-14);
}

TEST_CASE("`fast` numerics eliminate in the element type", "[cuda][cuda_factorizations]") {
  const CleanStandin clean;
  for (const DType t : {DType::kF32, DType::kC64}) {
    const LiteralPtr a = any_array(t, {2, 8, 8}), b = any_array(t, {2, 8, 3}, 5);
    const std::string steps =
        check_near_on_cuda(routine_program("lamina.solve", {a, b}, Numerics::kFast), {a, b}, 1e-3);
    CHECK(has(steps, "solve by cuSOLVER 11.6.2 in f32, 2 of 8 rows"));
    CHECK(has(check_near_on_cuda(routine_program("lamina.lu", {a}, Numerics::kFast), {a}, 1e-4),
              "lu by cuSOLVER 11.6.2 in f32"));
  }
}

}  // namespace lamina::testing
