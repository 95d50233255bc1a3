// Attention by cuDNN on CUDA devices: which programs it is found in, and that nothing else is taken for it.
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>

#include "hlo/builder.h"
#include "hlo/passes/region.h"
#include "hlo/printer.h"
#include "jit/cuda/attention.h"
#include "jit/program/step_costs.h"
#include "tests/jit/device_properties.h"
#include "tests/jit/executable_testing.h"
#include "trace/transpose.h"

namespace lamina::testing {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// How the arrays lie: heads within the places, before them, or no batch at all.
enum class Order { kHeadsWithin, kHeadsBefore, kOnlyHeads };
enum class Scale { kNone, kNumber, kOperand, kDivisor, kHalves };
enum class Mask { kNone, kCausal, kTriangle, kFuture, kOther, kDiagonal };
enum class Twist { kNone, kScoresRead, kTermsRead, kOtherAxis, kOtherSum, kProbabilitiesAre32, kF32 };

struct How {
  Order order = Order::kHeadsWithin;
  DType type = DType::kBF16;
  Scale scale = Scale::kNumber;
  Mask mask = Mask::kNone;
  Dims bias = {};  // by batch, head, query and key, of 1 where it is broadcast
  DType bias_type = DType::kF32;
  bool has_wide_scores = true;
  Twist twist = Twist::kNone;
  Numerics numerics = Numerics::kSame;
  int64_t batch = 2, heads = 3, queries = 12, keys = 12, features = 16, results = 16;
};

Dims dims_of(const How& h, int64_t places, int64_t features) {
  if (h.order == Order::kOnlyHeads) return {h.heads, places, features};
  if (h.order == Order::kHeadsBefore) return {h.batch, h.heads, places, features};
  return {h.batch, places, h.heads, features};
}

Value masked(Builder& b, const How& h, const Value& scores) {
  const int64_t row = scores.rank() - 2, column = scores.rank() - 1;
  const Value low = b.full_like(scores, -0.7 * 3.4028234663852886e38);
  const Dims square{h.queries, h.keys};
  const Value rows = b.iota(DType::kS32, scores.dims(), row),
              columns = b.iota(DType::kS32, scores.dims(), column);
  switch (h.mask) {
    case Mask::kNone:
      return scores;
    case Mask::kCausal:
      return b.select(b.compare(rows, columns, "GE"), scores, low);
    case Mask::kFuture:
      return b.select(b.compare(columns, rows, "GT"), low, scores);
    case Mask::kTriangle: {
      const Value past = b.compare(b.iota(DType::kS32, square, 1), b.iota(DType::kS32, square, 0), "LE");
      return b.select(b.broadcast_in_dim(past, scores.dims(), Dims{row, column}), scores, low);
    }
    case Mask::kOther:
      return b.select(b.compare(columns, rows, "GE"), scores, low);
    case Mask::kDiagonal:
      return b.select(b.compare(rows, columns, "GT"), scores, low);
  }
  return scores;
}

// Parameters: queries, keys, values, then the bias and the scale.
ComputationPtr program_of(const How& h) {
  const NumericsScope numerics(h.numerics);
  const DType type = h.twist == Twist::kF32 ? DType::kF32 : h.type;
  const auto parameter = [](DType t, const Dims& dims) { return make_parameter(*array_type(t, dims)); };
  Values parameters{parameter(type, dims_of(h, h.queries, h.features)),
                    parameter(type, dims_of(h, h.keys, h.features)),
                    parameter(type, dims_of(h, h.keys, h.results))};
  Builder b;
  const bool within = h.order == Order::kHeadsWithin, only = h.order == Order::kOnlyHeads;
  const Dims batch = only ? Dims{0} : (within ? Dims{0, 2} : Dims{0, 1});
  const int64_t last = only ? 2 : 3;
  const auto wide = [&](const Value& x) { return h.has_wide_scores ? b.convert(x, DType::kF32) : x; };
  Value scores = b.dot_general(wide(parameters[0]), wide(parameters[1]), {batch, batch, {last}, {last}});
  const DType score = scores.dtype();
  if (h.scale == Scale::kNumber) scores = b.multiply(scores, b.full_like(scores, 0.5));
  if (h.scale == Scale::kHalves) scores = b.divide(scores, b.full_like(scores, 2));
  if (h.scale == Scale::kOperand || h.scale == Scale::kDivisor) {
    parameters.push_back(parameter(DType::kF32, {}));
    const Value factor = b.broadcast_in_dim(b.convert(parameters.back(), score), scores.dims(), Dims{});
    scores = h.scale == Scale::kOperand ? b.multiply(factor, scores) : b.divide(scores, factor);
  }
  const Value products = scores;
  if (!h.bias.empty()) {
    parameters.insert(parameters.begin() + 3, parameter(h.bias_type, h.bias));
    Dims to;
    for (int64_t d = 0; d < scores.rank(); ++d) to.push_back(d);
    scores = b.add(scores, b.broadcast_in_dim(b.convert(parameters[3], score), scores.dims(), to));
  }
  scores = masked(b, h, scores);
  const int64_t axis = h.twist == Twist::kOtherAxis ? scores.rank() - 2 : scores.rank() - 1;
  Dims kept;
  for (int64_t d = 0; d < scores.rank(); ++d)
    if (d != axis) kept.push_back(d);
  const auto spread = [&](const Value& each) { return b.broadcast_in_dim(each, scores.dims(), kept); };
  const Value most = b.reduce(scores, Op::maximum, b.scalar(score, -HUGE_VAL), Dims{axis});
  const Value terms = b.exponential(b.subtract(scores, spread(most)));
  const Value sums = b.reduce_sum(h.twist == Twist::kOtherSum ? b.multiply(terms, terms) : terms, Dims{axis});
  Value p = b.divide(terms, spread(sums));
  Value v = parameters[2];
  if (h.twist == Twist::kProbabilitiesAre32)
    v = b.convert(v, DType::kF32);
  else
    p = b.convert(p, type);
  const Dims outer = only ? Dims{0} : Dims{0, 1};
  Value out = b.dot_general(p, v, {outer, batch, {last}, {only || within ? int64_t{1} : int64_t{2}}});
  out = b.convert(out, type);
  if (within) out = b.transpose(out, Dims{0, 2, 1, 3});
  Values roots{out};
  if (h.twist == Twist::kScoresRead) roots.push_back(products);
  if (h.twist == Twist::kTermsRead) roots.push_back(b.reduce_sum(terms, Dims{0}));
  REQUIRE(b.ok());
  const auto program = Computation::make(parameters, roots);
  REQUIRE(program.ok());
  return *program;
}

std::vector<LiteralPtr> arguments_of(const Computation& program) {
  std::mt19937_64 rng(7);
  std::vector<LiteralPtr> out;
  for (const Type* t : program.parameter_types()) {
    const auto literal = std::make_shared<Literal>(t);
    for (int64_t i = 0; i < t->num_elements; ++i) {
      const double x = t->rank() == 0 ? 0.7 : std::ldexp(static_cast<double>(rng() >> 11), -51) - 2;
      const LiteralPtr one = Literal::scalar(t->dtype, x);
      std::memcpy(literal->element(i), one->data(), static_cast<size_t>(one->bytes()));
    }
    out.push_back(literal);
  }
  return out;
}

std::vector<LiteralPtr> run(const Executable& executable, std::span<const LiteralPtr> arguments) {
  std::vector<BufferRef> in, out;
  for (const LiteralPtr& a : arguments)
    in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
  const absl::Status status = executable.run(in, out);
  INFO(status);
  REQUIRE(status.ok());
  std::vector<LiteralPtr> results;
  for (size_t i = 0; i < out.size(); ++i) {
    const auto literal = std::make_shared<Literal>(executable.program().roots()[i].type());
    const jit::Client::Read all{&*out[i], 0, out[i]->bytes(), literal->data()};
    REQUIRE(cuda_client().read({&all, 1}, nullptr).ok());
    results.push_back(literal);
  }
  return results;
}

std::shared_ptr<const Executable> compiled(const ComputationPtr& program) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(cuda_device(), program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *executable;
}

// How far the results are from the evaluator's, in what probabilities and results of the type are rounded by.
double worst_error(const ComputationPtr& program, const Executable& executable) {
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  const std::vector<LiteralPtr> got = run(executable, arguments);
  double worst = 0;
  for (size_t r = 0; r < got.size(); ++r)
    for (int64_t i = 0; i < got[r]->type()->num_elements; ++i)
      worst = std::max(worst, std::abs(got[r]->double_at(i) - (*want)[r]->double_at(i)));
  // Values are below 2.
  return worst / (2 * (program->roots()[0].dtype() == DType::kF16 ? 0x1p-11 : 0x1p-8));
}
constexpr double kBound = 3;
// Where scores are rounded to 16 bits, which are up to 64, a term is off by more.
constexpr double kFastBound = 64;

void check_taken(const How& how) {
  const ComputationPtr program = program_of(how);
  const auto executable = compiled(program);
  const std::string steps = executable->describe();
  INFO(steps << print(*program));
  CHECK(has(steps, "attention by cuDNN"));
  CHECK_FALSE(has(steps, "dot"));
  CHECK(worst_error(program, *executable) <= (how.has_wide_scores ? kBound : kFastBound));
}
void check_left(const How& how) {
  const ComputationPtr program = program_of(how);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  const std::string steps = check_on_cuda(program, arguments, *want);
  INFO(steps << print(*program));
  CHECK_FALSE(has(steps, "attention"));
}

ScopedLibrary cudnn(const char* named, int driver_version = ScopedLibrary::kDriver) {
  const auto serve = [](int version) { cuda_client().dnn().serve(cuda_client().gpus(), version); };
  return {"CUDNN", serve, named, driver_version};
}

}  // namespace

TEST_CASE("attention is a call of cuDNN, however it is spelled", "[cuda][cuda_library][cuda_attention]") {
  const ScopedLeastWork all(0);
  for (const Order order : {Order::kHeadsWithin, Order::kHeadsBefore, Order::kOnlyHeads})
    for (const DType type : {DType::kBF16, DType::kF16}) {
      How how;
      how.order = order;
      how.type = type;
      check_taken(how);
      how.mask = Mask::kCausal;
      check_taken(how);
      how.results = 24;
      how.queries = 7;
      check_taken(how);
    }
  for (const Scale scale : {Scale::kNone, Scale::kOperand, Scale::kHalves}) {
    How how;
    how.scale = scale;
    check_taken(how);
  }
  for (const Mask mask : {Mask::kTriangle, Mask::kFuture}) {
    How how;
    how.mask = mask;
    check_taken(how);
    how.keys = 19;
    check_taken(how);
  }
  for (const Dims& bias : {Dims{2, 3, 12, 12}, Dims{1, 3, 12, 12}, Dims{2, 1, 1, 12}, Dims{1, 1, 12, 12}})
    for (const DType type : {DType::kF32, DType::kBF16}) {
      How how;
      how.bias = bias;
      how.bias_type = type;
      check_taken(how);
      how.scale = Scale::kOperand;
      how.mask = Mask::kCausal;
      check_taken(how);
    }
  for (const auto& [batch, heads] : {std::pair(1, 1), std::pair(1, 4), std::pair(5, 1)}) {
    How how;
    how.batch = batch;
    how.heads = heads;
    check_taken(how);
  }
  if (standin()) CHECK(standin_violations() == std::vector<std::string>());
}

TEST_CASE("attention holds no scores in memory", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  How how;
  how.queries = how.keys = 64;
  how.mask = Mask::kCausal;
  const auto executable = compiled(program_of(how));
  INFO(executable->describe());
  const int64_t scores = how.batch * how.heads * how.queries * how.keys * 2;
  CHECK(
      has(executable->describe(),
          "attention by cuDNN 9.19.0, engine 1, 1539 bytes beside, causal, bf16[2,64,3,16] bf16[2,64,3,16]"));
  CHECK(executable->peak_bytes() < scores / 3);
}

TEST_CASE("attention costs what its products do", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const auto executable = compiled(program_of({}));
  const auto costs = jit::step_costs(*executable);
  REQUIRE(costs.size() == 1);
  int64_t flops = 0;
  for (const jit::StepCost::Part& part : costs[0].parts) flops += part.cost.flops;
  // 2 * 3 products of 12 x 16 x 12, twice, a product and a sum each; and softmax.
  CHECK(flops > 2 * 2 * 6 * 12 * 16 * 12);
  CHECK(flops < 4 * 2 * 6 * 12 * 16 * 12);
}

TEST_CASE("what is almost attention is none", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const Twist twist : {Twist::kScoresRead, Twist::kTermsRead, Twist::kOtherAxis, Twist::kOtherSum,
                            Twist::kProbabilitiesAre32, Twist::kF32}) {
    How how;
    how.twist = twist;
    check_left(how);
  }
  for (const Mask mask : {Mask::kOther, Mask::kDiagonal}) {
    How how;
    how.mask = mask;
    check_left(how);
  }
  How how;
  how.features = 12;  // no multiple of 8: the library has no engine
  check_left(how);
  how = {};
  how.scale = Scale::kDivisor;  // to divide is not to multiply
  check_left(how);
  how = {};
  how.bias = {2, 3, 12, 1};  // no key has one of its own
  check_left(how);
}

TEST_CASE("scores that are rounded stay so but in `fast` numerics", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  How how;
  how.has_wide_scores = false;
  check_left(how);
  how.numerics = Numerics::kFast;
  check_taken(how);
  how.scale = Scale::kDivisor;
  check_taken(how);
  how.mask = Mask::kCausal;
  check_taken(how);
  how = {};
  how.twist = Twist::kProbabilitiesAre32;
  how.numerics = Numerics::kFast;
  check_taken(how);
  CHECK(standin_violations() == std::vector<std::string>());
}

TEST_CASE("small attention and that of other devices than cuDNN's is our kernels", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  check_left({});
  const ScopedLeastWork all(0);
  const ScopedLibrary none = cudnn("");
  check_left({});
}

TEST_CASE("what gradients read is computed", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ComputationPtr forward = program_of({});
  const Value ct = make_parameter(forward->roots()[0].type());
  const auto gradients = trace::vjp(forward->roots(), forward->parameters(), {{ct}});
  REQUIRE(gradients.ok());
  Values parameters(forward->parameters().begin(), forward->parameters().end());
  parameters.push_back(ct);
  const auto program = Computation::make(parameters, gradients->cotangents);
  REQUIRE(program.ok());
  const std::vector<LiteralPtr> arguments = arguments_of(**program);
  const auto want = evaluate(**program, arguments);
  REQUIRE(want.ok());
  CHECK_FALSE(has(check_on_cuda(*program, arguments, *want), "attention"));
}

TEST_CASE("attentions of one form have one plan", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  How how;
  how.queries = how.keys = 11;
  const ComputationPtr one = program_of(how);
  Builder b;
  const Values p(one->parameters().begin(), one->parameters().end());
  const Values first = expand(b, *one, p), second = expand(b, *one, {{first[0], p[1], p[2]}});
  const auto two = Computation::make(p, second);
  REQUIRE(two.ok());
  const size_t before = cuda_client().attentions().made();
  const auto executable = compiled(*two);
  INFO(executable->describe());
  CHECK(cuda_client().attentions().made() == before + 1);
  const std::string steps = executable->describe();
  CHECK(has(steps.substr(steps.find("attention by") + 1), "attention by"));
  CHECK(worst_error(*two, *executable) <= 2 * kBound);
}

TEST_CASE("loops carry no masks of attention", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  How how;
  how.mask = Mask::kCausal;
  const ComputationPtr layer = program_of(how);
  const auto body = record_region(layer->parameter_types(), [&](Builder& b, std::span<const Value> x) {
    const Value out = expand(b, *layer, x)[0];
    return Values{out, out, x[2]};
  });
  REQUIRE(body.ok());
  Values parameters;
  for (const Type* t : layer->parameter_types()) parameters.push_back(make_parameter(t));
  Builder b;
  const Values results = b.scan(*body, parameters, {}, 3, false);
  REQUIRE(b.ok());
  const auto program = Computation::make(parameters, {{results[0]}});
  REQUIRE(program.ok());
  const auto executable = compiled(*program);
  const std::string text = print(executable->program());
  INFO(text);
  CHECK(has(text, "lamina.attention"));
  CHECK_FALSE(has(text.substr(text.find("computation main")), "pred"));
  CHECK(worst_error(*program, *executable) <= 3 * kBound);
}

TEST_CASE("attention that fails says so", "[cuda][cuda_attention]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ComputationPtr program = program_of({});
  const auto executable = compiled(program);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  std::vector<BufferRef> in, out;
  for (const LiteralPtr& a : arguments)
    in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
  standin()->fail(kStandinConvolve, 0, 5000);
  const absl::Status status = executable->run(in, out);
  CHECK(has(std::string(status.message()), "failed attending: CUDNN_STATUS_EXECUTION_FAILED"));
  CHECK(worst_error(program, *executable) <= kBound);
}

TEST_CASE("planted: attention with another scale, other strides, or too early",
          "[cuda][cuda_attention][planted]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ComputationPtr program = program_of({});
  const auto executable = compiled(program);
  for (const StandinMistake mistake : {kStandinForgetsScale, kStandinMisreadsStrides}) {
    standin()->set_mistake(mistake);
    CHECK(worst_error(program, *executable) > 8 * kBound);
  }
  standin()->set_mistake(kStandinForgetsWaits);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  CHECK(standin_finds("nothing orders an attention", [&] {
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments)
      in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
    executable->run(in, out).IgnoreError();
  }));
}

// By itself: it opens the machine's library, and in place of a driver the toolkit's stub, which the library
// wants where its engines are compiled.
TEST_CASE("the machine's cuDNN, if there is one, has engines for attention", "[.][cuda_dnn_plans]") {
  using jit::cuda::AttentionForm;
  if (const char* named = std::getenv("LAMINA_CUDNN"); named && std::string_view(named) == kCudaStandin)
    unsetenv("LAMINA_CUDNN");
  const auto dnn = jit::cuda::load_dnn(99000);
  if (!dnn.ok()) return;
  if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) && !dlopen(kCudaStub, RTLD_NOW | RTLD_GLOBAL)) return;
  const std::string properties = h100_properties();
  const auto engines = [&](const How& how) {
    const auto found = jit::cuda::find_attentions(*program_of(how));
    REQUIRE(found.size() == 1);
    return jit::cuda::Attentions::engines_for(*dnn, properties, found[0].form);
  };
  How how;
  how.queries = how.keys = 512;
  // Without any driver, or in a version that wants to know more.
  if (has(std::string(engines(how).status().message()), "it refuses the device")) return;
  for (const int64_t features : {64, 128})
    for (const Order order : {Order::kHeadsWithin, Order::kHeadsBefore, Order::kOnlyHeads})
      for (const DType type : {DType::kBF16, DType::kF16})
        for (const Mask mask : {Mask::kNone, Mask::kCausal})
          for (const Dims& bias : {Dims{}, Dims{1, 3, 512, 512}, Dims{2, 1, 1, 512}})
            for (const Scale scale : {Scale::kNumber, Scale::kOperand}) {
              how.features = how.results = features;
              how.order = order;
              how.type = type;
              how.mask = mask;
              how.bias = order == Order::kOnlyHeads && !bias.empty() ? Dims{1, 512, 512} : bias;
              how.scale = scale;
              const auto found = engines(how);
              INFO(found.status());
              REQUIRE(found.ok());
              CHECK_FALSE(found->empty());
            }
  how = {};
  how.features = 12;
  CHECK_FALSE(engines(how).ok());
}

}  // namespace lamina::testing
