// Operations of the specification that JAX does not write: small programs with results worked out by hand.
#include <catch2/catch.hpp>

#include "hlo/evaluator.h"
#include "hlo/literal.h"
#include "hlo/stablehlo/reader.h"

namespace lamina::hlo::stablehlo {
namespace {

absl::StatusOr<Program> main_of(const std::string& text) {
  const absl::StatusOr<Module> module = Module::parse(text);
  if (!module.ok()) return module.status();
  return module->program("main");
}

void holds(const std::string& body) {
  INFO(body);
  const absl::StatusOr<Program> program = main_of("func.func @main() {\n" + body + "\n  return\n}\n");
  REQUIRE(std::string(program.status().message()) == "");
  REQUIRE(!program->checks.empty());
  const absl::StatusOr<std::vector<LiteralPtr>> results = evaluate(*program->computation, {});
  REQUIRE(results.ok());
  for (const Check& c : program->checks)
    CHECK(std::string(judge(c, *(*results)[c.first], *(*results)[c.first + 1]).message()) == "");
}

TEST_CASE("batch normalization", "[stablehlo]") {
  // Features 0 and 1 have means 2 and 5, variances 1 and 4.
  holds(R"(
  %x = stablehlo.constant dense<[[1.0, 3.0], [3.0, 7.0]]> : tensor<2x2xf32>
  %scale = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %offset = stablehlo.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %mean = stablehlo.constant dense<[2.0, 5.0]> : tensor<2xf32>
  %variance = stablehlo.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_almost_eq_const %0, dense<[[8.0, 17.0], [12.0, 23.0]]> : tensor<2x2xf32>
  %1:3 = "stablehlo.batch_norm_training"(%x, %scale, %offset) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_almost_eq %1#0, %0 : tensor<2x2xf32>
  check.expect_almost_eq %1#1, %mean : tensor<2xf32>
  check.expect_almost_eq %1#2, %variance : tensor<2xf32>
  %bar = stablehlo.constant dense<[[1.0, 0.0], [0.0, 2.0]]> : tensor<2x2xf32>
  %2:3 = "stablehlo.batch_norm_grad"(%x, %scale, %mean, %variance, %bar) <{epsilon = 0.0 : f32, feature_index = 1 : i64}> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_almost_eq_const %2#0, dense<0.0> : tensor<2x2xf32>
  check.expect_almost_eq_const %2#1, dense<[-1.0, 2.0]> : tensor<2xf32>
  check.expect_almost_eq_const %2#2, dense<[1.0, 2.0]> : tensor<2xf32>
)");
}

TEST_CASE("dynamic forms with known operands", "[stablehlo]") {
  holds(R"(
  %x = stablehlo.constant dense<[1, 2, 3, 4, 5]> : tensor<5xi32>
  %one = stablehlo.constant dense<1> : tensor<1xi64>
  %five = stablehlo.constant dense<5> : tensor<1xi64>
  %two = stablehlo.constant dense<2> : tensor<1xi64>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %0 = stablehlo.real_dynamic_slice %x, %one, %five, %two : (tensor<5xi32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xi32>
  %1 = stablehlo.dynamic_pad %0, %zero, %one, %two, %one : (tensor<?xi32>, tensor<i32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?xi32>
  %shape = stablehlo.constant dense<[2, 3]> : tensor<2xi64>
  %2 = stablehlo.dynamic_reshape %1, %shape : (tensor<?xi32>, tensor<2xi64>) -> tensor<2x3xi32>
  check.expect_eq_const %2, dense<[[0, 2, 0], [4, 0, 0]]> : tensor<2x3xi32>
)");
}

TEST_CASE("collectives among one process keep their operands", "[stablehlo]") {
  holds(R"(
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<0> : tensor<1x1xi64>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq %0, %x : tensor<2xf32>
  %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<0> : tensor<1x1xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq %1, %x : tensor<2xf32>
  %2 = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq %2, %x : tensor<2xf32>
  %3 = stablehlo.replica_id : tensor<ui32>
  check.expect_eq_const %3, dense<0> : tensor<ui32>
)");
  const absl::StatusOr<Program> several = main_of(R"(func.func @main(%x: tensor<2xf32>) -> tensor<4xf32> {
  %1 = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
})");
  CHECK(std::string(several.status().message()) ==
        "2:8: stablehlo.all_gather: more than one process takes part; one process runs this program");
}

TEST_CASE("random numbers of a hidden state", "[stablehlo]") {
  const absl::StatusOr<Program> program =
      main_of(R"(func.func @main() -> (tensor<4000xf32>, tensor<4000xf64>, tensor<4000xi32>) {
  %a = stablehlo.constant dense<-1.0> : tensor<f32>
  %b = stablehlo.constant dense<3.0> : tensor<f32>
  %n = stablehlo.constant dense<4000> : tensor<1xi64>
  %0 = stablehlo.rng %a, %b, %n, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<4000xf32>
  %c = stablehlo.constant dense<5.0> : tensor<f64>
  %d = stablehlo.constant dense<0.5> : tensor<f64>
  %1 = "stablehlo.rng"(%c, %d, %n) <{rng_distribution = #stablehlo<rng_distribution NORMAL>}> : (tensor<f64>, tensor<f64>, tensor<1xi64>) -> tensor<4000xf64>
  %e = stablehlo.constant dense<2> : tensor<i32>
  %f = stablehlo.constant dense<7> : tensor<i32>
  %2 = stablehlo.rng %e, %f, %n, distribution = UNIFORM : (tensor<i32>, tensor<i32>, tensor<1xi64>) -> tensor<4000xi32>
  return %0, %1, %2 : tensor<4000xf32>, tensor<4000xf64>, tensor<4000xi32>
})");
  REQUIRE(std::string(program.status().message()) == "");
  const absl::StatusOr<std::vector<LiteralPtr>> out = evaluate(*program->computation, {});
  REQUIRE(out.ok());
  double mean[3] = {0, 0, 0}, square[3] = {0, 0, 0};
  for (int64_t i = 0; i < 4000; ++i) {
    const double x[3] = {(*out)[0]->as<float>()[i], (*out)[1]->as<double>()[i],
                         static_cast<double>((*out)[2]->as<int32_t>()[i])};
    CHECK((x[0] >= -1 && x[0] < 3 && x[2] >= 2 && x[2] < 7));
    for (int k = 0; k < 3; ++k) {
      mean[k] += x[k] / 4000;
      square[k] += x[k] * x[k] / 4000;
    }
  }
  // Four standard errors.
  CHECK(mean[0] == Approx(1).margin(0.08));
  CHECK(mean[1] == Approx(5).margin(0.04));
  CHECK(mean[2] == Approx(4).margin(0.1));
  CHECK(square[0] - mean[0] * mean[0] == Approx(4.0 / 3).margin(0.1));
  CHECK(square[1] - mean[1] * mean[1] == Approx(0.25).margin(0.03));
}

TEST_CASE("linear algebra in StableHLO's own names", "[stablehlo]") {
  holds(R"(
  %a = stablehlo.constant dense<[[4.0, 2.0], [2.0, 5.0]]> : tensor<2x2xf64>
  %l = stablehlo.cholesky %a, lower = true : tensor<2x2xf64>
  check.expect_almost_eq_const %l, dense<[[2.0, 0.0], [1.0, 2.0]]> : tensor<2x2xf64>
  %u = "stablehlo.cholesky"(%a) <{lower = false}> : (tensor<2x2xf64>) -> tensor<2x2xf64>
  check.expect_almost_eq_const %u, dense<[[2.0, 1.0], [0.0, 2.0]]> : tensor<2x2xf64>
  %b = stablehlo.constant dense<[[2.0], [5.0]]> : tensor<2x1xf64>
  %x = "stablehlo.triangular_solve"(%l, %b) <{left_side = true, lower = true, unit_diagonal = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : (tensor<2x2xf64>, tensor<2x1xf64>) -> tensor<2x1xf64>
  check.expect_almost_eq_const %x, dense<[[1.0], [2.0]]> : tensor<2x1xf64>
  %y = "stablehlo.triangular_solve"(%u, %b) <{left_side = true, lower = false, unit_diagonal = false, transpose_a = #stablehlo<transpose TRANSPOSE>}> : (tensor<2x2xf64>, tensor<2x1xf64>) -> tensor<2x1xf64>
  check.expect_almost_eq %x, %y : tensor<2x1xf64>
  %z = stablehlo.constant dense<[(1.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)]> : tensor<4xcomplex<f64>>
  %f = stablehlo.fft %z, type = FFT, length = [4] : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
  check.expect_almost_eq_const %f, dense<(1.0, 0.0)> : tensor<4xcomplex<f64>>
  %g = stablehlo.fft %f, type = IFFT, length = [4] : (tensor<4xcomplex<f64>>) -> tensor<4xcomplex<f64>>
  check.expect_almost_eq %g, %z : tensor<4xcomplex<f64>>
)");
}

TEST_CASE("broadcasting forms", "[stablehlo]") {
  holds(R"(
  %x = stablehlo.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %y = stablehlo.constant dense<[10.0, 20.0]> : tensor<2xf32>
  %0 = chlo.broadcast_add %x, %y : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %0, dense<[[11.0, 21.0], [12.0, 22.0]]> : tensor<2x2xf32>
  %1 = chlo.broadcast_compare %x, %y {comparison_direction = #chlo<comparison_direction LT>} : (tensor<2x1xf32>, tensor<2xf32>) -> tensor<2x2xi1>
  check.expect_eq_const %1, dense<true> : tensor<2x2xi1>
  %2 = "stablehlo.broadcast"(%y) <{broadcast_sizes = array<i64: 2>}> : (tensor<2xf32>) -> tensor<2x2xf32>
  check.expect_eq_const %2, dense<[[10.0, 20.0], [10.0, 20.0]]> : tensor<2x2xf32>
  %i = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %3 = "stablehlo.torch_index_select"(%0, %i) <{batch_dims = 0 : i64, dim = 1 : i64}> : (tensor<2x2xf32>, tensor<2xi32>) -> tensor<2x2xf32>
  check.expect_eq_const %3, dense<[[21.0, 11.0], [22.0, 12.0]]> : tensor<2x2xf32>
)");
}

}  // namespace
}  // namespace lamina::hlo::stablehlo
