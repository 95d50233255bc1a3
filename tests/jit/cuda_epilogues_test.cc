// Biases and activations behind products that cublasLt computes along with them on CUDA devices.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "hlo/builder.h"
#include "jit/cuda/product_epilogue.h"
#include "tests/jit/executable_testing.h"

namespace lamina::testing {
namespace {

using jit::cuda::Epilogue;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

enum class Activation { kNone, kMaximum, kRelu, kGelu, kHalfGelu };
struct How {
  DType type = DType::kF32;
  bool has_bias = true;
  Activation activation = Activation::kNone;
  Numerics numerics = Numerics::kSame;
  Dims left = {24, 40}, right = {40, 16}, bias = {16};
  DotDims dims = {{}, {}, {1}, {0}};
  Dims bias_to = {1};
  // What is made of the result, and what else is a result.
  std::function<Value(Builder&, const Value&)> then = nullptr;
  bool reads_product = false;
};

Value activated(Builder& b, Activation a, const Value& x) {
  const auto full = [&](double number) { return b.full_like(x, number); };
  switch (a) {
    case Activation::kNone:
      return x;
    case Activation::kMaximum:
      return b.maximum(full(0), x);
    case Activation::kRelu:
      return b.select(b.compare(x, full(0), "GT"), x, b.select(b.compare(x, x, "NE"), x, full(0)));
    case Activation::kGelu:
    case Activation::kHalfGelu: {
      const Value cubic = full(0.044715);
      const Value cube = a == Activation::kGelu ? b.multiply(cubic, b.multiply(x, b.multiply(x, x)))
                                                : b.multiply(b.multiply(b.multiply(cubic, x), x), x);
      const Value inner = b.multiply(b.add(x, cube), full(0.79788456080286535588));
      const Value twice = b.add(full(1), b.tanh(inner));
      return a == Activation::kGelu ? b.multiply(x, b.multiply(full(0.5), twice))
                                    : b.multiply(b.multiply(full(0.5), x), twice);
    }
  }
  return x;
}

ComputationPtr program_of(const How& h) {
  const NumericsScope numerics(h.numerics);
  Builder b;
  Values parameters;
  for (const Dims* dims : {&h.left, &h.right, &h.bias})
    parameters.push_back(make_parameter(*array_type(h.type, *dims)));
  const Value product = b.dot_general(parameters[0], parameters[1], h.dims);
  Value x = product;
  if (h.has_bias) x = b.add(x, b.broadcast_in_dim(parameters[2], x.dims(), h.bias_to));
  x = activated(b, h.activation, x);
  if (h.then) x = h.then(b, x);
  Values roots{x};
  if (h.reads_product) roots.push_back(product);
  REQUIRE(b.ok());
  const auto program = Computation::make(parameters, roots);
  REQUIRE(program.ok());
  return *program;
}

std::vector<LiteralPtr> arguments_of(const Computation& program) {
  std::mt19937_64 rng(3);
  std::vector<LiteralPtr> out;
  for (const Type* t : program.parameter_types()) {
    const auto literal = std::make_shared<Literal>(t);
    for (int64_t i = 0; i < t->num_elements; ++i) {
      const LiteralPtr one = Literal::scalar(t->dtype, std::ldexp(static_cast<double>(rng() >> 11), -52) - 1);
      std::memcpy(literal->element(i), one->data(), static_cast<size_t>(one->bytes()));
    }
    out.push_back(literal);
  }
  return out;
}

// The steps of the program, which has the evaluator's bits.
std::string exact_steps(const How& how) {
  const ComputationPtr program = program_of(how);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  return check_on_cuda(program, arguments, *want);
}
// The same where the library rounds otherwise; `unit` is what a number below 1 is rounded by.
std::string close_steps(const How& how, double unit) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const ComputationPtr program = program_of(how);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  const auto executable = Executable::compile(cuda_device(), program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  std::vector<BufferRef> in, out;
  for (const LiteralPtr& a : arguments)
    in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
  REQUIRE((*executable)->run(in, out).ok());
  const Literal got((*want)[0]->type());
  std::vector<std::byte> bytes(static_cast<size_t>(got.bytes()));
  const jit::Client::Read all{&*out[0], 0, got.bytes(), bytes.data()};
  REQUIRE(cuda_client().read({&all, 1}, nullptr).ok());
  const LiteralPtr found = Literal::copy_of(got.type(), bytes.data());
  double worst = 0;
  for (int64_t i = 0; i < found->size(); ++i)
    worst = std::max(worst, std::abs(found->double_at(i) - (*want)[0]->double_at(i)));
  // Of results up to 16, rounded a few times, and operands rounded to TF32.
  CHECK(worst <= 64 * unit);
  return (*executable)->describe();
}

}  // namespace

TEST_CASE("a bias behind a product is the library's", "[cuda][cuda_epilogues]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  How how;
  const std::string steps = exact_steps(how);
  INFO(steps);
  CHECK(has(steps,
            "dot by cublasLt 12.4.2 in f32, algorithm 31, tile 5, stages 5, splits 1, scheme 0, with a "
            "bias, f32[24,40] f32[40,16]"));
  CHECK_FALSE(has(steps, "loop"));
  // However the operands lie, and of several rows' dimensions.
  how.right = {16, 40};
  how.dims.rhs_contract = {1};
  CHECK(has(exact_steps(how), "with a bias"));
  how = {};
  how.left = {3, 8, 40};
  how.dims = {{}, {}, {2}, {0}};
  how.bias_to = {2};
  CHECK(has(exact_steps(how), "with a bias"));
  how.bias = {1, 16};
  how.bias_to = {1, 2};
  CHECK(has(exact_steps(how), "with a bias"));
  how.then = [](Builder& b, const Value& x) { return b.reshape(x, Dims{24, 16}); };
  CHECK(has(exact_steps(how), "with a bias"));
  // Split sums.
  how = {};
  how.left = {16, 512};
  how.right = {512, 16};
  CHECK(has(exact_steps(how), "with a bias"));
  // Two layers.
  how = {};
  how.then = [](Builder& b, const Value& x) { return b.dot_general(x, x, {{}, {}, {1}, {1}}); };
  CHECK(has(exact_steps(how), "with a bias"));
}

TEST_CASE("in `same` numerics all else stays behind the product", "[cuda][cuda_epilogues]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const auto check = [](const How& how) {
    const std::string steps = exact_steps(how);
    INFO(steps);
    CHECK(has(steps, "dot by cublasLt"));
    CHECK(has(steps, "loop"));
    CHECK_FALSE(has(steps, "with a bias"));
    CHECK_FALSE(has(steps, "with relu"));
  };
  for (const Activation a : {Activation::kMaximum, Activation::kRelu, Activation::kGelu})
    for (const bool has_bias : {true, false}) {
      How how;
      how.activation = a;
      how.has_bias = has_bias;
      check(how);
    }
  for (const DType type : {DType::kF64, DType::kF16, DType::kBF16, DType::kC64}) {
    How how;
    how.type = type;
    check(how);
  }
}

TEST_CASE("what a kernel reads, or is no bias, is no epilogue", "[cuda][cuda_epilogues]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const auto check = [](const How& how) {
    const std::string steps = exact_steps(how);
    INFO(steps);
    CHECK_FALSE(has(steps, "with a bias"));
  };
  How how;
  how.reads_product = true;
  check(how);
  how = {};
  how.then = [](Builder& b, const Value& x) { return b.tanh(x); };
  check(how);
  how.then = [](Builder& b, const Value& x) { return b.tanh(b.reshape(x, Dims{16, 24})); };
  check(how);
  // For each row.
  how = {};
  how.bias = {24};
  how.bias_to = {0};
  check(how);
  how.bias = {1};
  how.bias_to = {1};
  check(how);
  how.bias = {24, 16};
  how.bias_to = {0, 1};
  check(how);
  // Of a length that says nothing about where it begins.
  how = {};
  how.right = {40, 6};
  how.bias = {6};
  check(how);
  // A bias for each matrix.
  how = {};
  how.left = {2, 24, 40};
  how.right = {2, 40, 16};
  how.dims = {{0}, {0}, {2}, {1}};
  how.bias_to = {2};
  check(how);
}

TEST_CASE("in `fast` numerics activations are the library's, too", "[cuda][cuda_epilogues]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const auto& [type, unit] :
       {std::pair(DType::kF32, 0x1p-10), std::pair(DType::kF16, 0x1p-11), std::pair(DType::kBF16, 0x1p-8)})
    for (const bool has_bias : {true, false})
      for (const Activation a : {Activation::kNone, Activation::kMaximum, Activation::kRelu,
                                 Activation::kGelu, Activation::kHalfGelu}) {
        How how;
        how.type = type;
        how.has_bias = has_bias;
        how.activation = a;
        how.numerics = Numerics::kFast;
        const std::string steps = close_steps(how, unit);
        INFO(steps);
        CHECK(has(steps, "with a bias") == has_bias);
        CHECK(has(steps, "relu") == (a == Activation::kMaximum || a == Activation::kRelu));
        CHECK(has(steps, "gelu") == (a == Activation::kGelu || a == Activation::kHalfGelu));
        CHECK_FALSE(has(steps, "loop"));
      }
  CHECK(standin_violations() == std::vector<std::string>());
}

TEST_CASE("without cublasLt, or of small products, biases are our kernels'", "[cuda][cuda_epilogues]") {
  const CleanStandin clean;
  CHECK_FALSE(has(exact_steps({}), "with a bias"));
  const ScopedLeastWork all(0);
  const ScopedLibrary none{"CUBLASLT", [](int v) { cuda_client().products().serve(cuda_client().gpus(), v); },
                           "", ScopedLibrary::kDriver};
  CHECK_FALSE(has(exact_steps({}), "with a bias"));
}

TEST_CASE("planted: a product does not wait for its bias", "[cuda][cuda_epilogues][planted]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  cuda_client().kernels().set_library(kCodeGenerator);
  const ComputationPtr program = program_of({});
  const auto executable = Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  std::vector<BufferRef> in, out;
  for (const LiteralPtr& a : arguments)
    in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
  standin()->drain();
  standin()->set_mistake(kStandinForgetsWaits);
  // Only the bias is new.
  CHECK(standin_finds("nothing orders a product of 24 x 40", [&] {
    in[2] = *cuda_client().put(cuda_device(), arguments[2]->data(), arguments[2]->bytes());
    (*executable)->run(in, out).IgnoreError();
  }));
}

}  // namespace lamina::testing
