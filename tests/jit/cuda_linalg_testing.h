// Routines of linear algebra on a CUDA device, beside the CPU's.
#ifndef LAMINA_TESTS_JIT_CUDA_LINALG_TESTING_H_
#define LAMINA_TESTS_JIT_CUDA_LINALG_TESTING_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "hlo/linalg/calls.h"
#include "tests/jit/executable_testing.h"

namespace lamina::testing {

inline constexpr DType kMatrixTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};

inline ComputationPtr routine_program(const std::string& name, const std::vector<LiteralPtr>& arguments,
                                      Numerics numerics = Numerics::kSame, bool full = false) {
  std::vector<const Type*> types;
  for (const LiteralPtr& a : arguments) types.push_back(a->type());
  return *record_region(types, [&](Builder& b, std::span<const Value> x) {
    const NumericsScope scope(numerics);
    return linalg::call(b, name, x, full);
  });
}

// All numbers of an array, part by part.
inline std::vector<double> numbers_of(const Literal& l) {
  const auto count = static_cast<size_t>(l.type()->num_elements * num_parts(l.type()->dtype));
  std::vector<double> out(count);
  const auto read = [&](auto zero) {
    const auto* const from = static_cast<const decltype(zero)*>(l.data());
    std::transform(from, from + count, out.begin(), [](auto x) { return static_cast<double>(x); });
  };
  if (l.type()->dtype == DType::kS32)
    read(int32_t{});
  else if (part_type(l.type()->dtype) == DType::kF32)
    read(float{});
  else
    read(double{});
  return out;
}

inline LiteralPtr array_of(DType t, const Dims& dims, const std::vector<double>& numbers) {
  const Type* const type = array_type_or_die(t, dims);
  if (t == DType::kS32) {
    const std::vector<int32_t> integers(numbers.begin(), numbers.end());
    return Literal::copy_of(type, integers.data());
  }
  if (part_type(t) == DType::kF64) return Literal::copy_of(type, numbers.data());
  const std::vector<float> narrow(numbers.begin(), numbers.end());
  return Literal::copy_of(type, narrow.data());
}

inline LiteralPtr any_array(DType t, const Dims& dims, unsigned seed = 3) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<double> any(-1, 1);
  std::vector<double> numbers(static_cast<size_t>(array_type_or_die(t, dims)->num_elements * num_parts(t)));
  for (double& x : numbers) x = any(rng);
  return array_of(t, dims, numbers);
}

struct OnCuda {
  std::vector<LiteralPtr> results;
  std::string steps;

  bool says(std::string_view part) const { return steps.find(part) != steps.npos; }
};
inline OnCuda run_on_cuda(const ComputationPtr& program, const std::vector<LiteralPtr>& arguments) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(cuda_device(), program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  std::vector<BufferRef> in, out;
  for (const LiteralPtr& a : arguments)
    in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
  absl::Status status = (*executable)->run(in, out);
  OnCuda found{{}, (*executable)->describe()};
  const std::vector<const Type*> types = program->result_types();
  for (size_t i = 0; i < out.size() && status.ok(); ++i) {
    std::vector<std::byte> bytes(static_cast<size_t>(out[i]->bytes()));
    const jit::Client::Read all{&*out[i], 0, out[i]->bytes(), bytes.data()};
    status = cuda_client().read({&all, 1}, nullptr);
    found.results.push_back(Literal::copy_of(types[i], bytes.data()));
  }
  INFO(status << "\n" << found.steps);
  REQUIRE(status.ok());
  if (standin()) CHECK(standin_violations() == std::vector<std::string>());
  return found;
}

// Relative to numbers above 1; infinite where one is NaN or infinite and the other is another number.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double most = a.size() == b.size() ? 0 : kInfinity;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double difference = std::abs(a[i] - b[i]) / std::max(1.0, std::abs(a[i]));
    most = std::max(most, std::isnan(difference) ? kInfinity : difference);
  }
  return most;
}

// The steps of a program whose results are near the evaluator's.
inline std::string check_near_on_cuda(const ComputationPtr& program, const std::vector<LiteralPtr>& arguments,
                                      double tolerance) {
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  const OnCuda got = run_on_cuda(program, arguments);
  for (size_t i = 0; i < got.results.size(); ++i) {
    INFO("result " << i);
    CHECK(largest_difference(numbers_of(*(*want)[i]), numbers_of(*got.results[i])) <= tolerance);
  }
  return got.steps;
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_CUDA_LINALG_TESTING_H_
