// Convolutions by cuDNN on CUDA devices. The stand-in adds as the CPU does, so that all bits show what was
// multiplied with what; what it refuses, and in what order things may run, is that of the library.
#include <dlfcn.h>

#include <cstdlib>
#include <random>

#include "hlo/builder.h"
#include "jit/cuda/convolutions.h"
#include "tests/jit/device_properties.h"
#include "tests/jit/executable_testing.h"
#include "tests/jit/kernel_testing.h"
#include "tests/jit/program_text.h"
#include "trace/transpose.h"

namespace lamina::testing {
namespace {

const std::vector<std::string> kNone;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }
size_t count(const std::string& text, std::string_view part) {
  size_t out = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++out;
  return out;
}

ScopedLibrary cudnn(const char* named, int driver_version) {
  const auto serve = [](int version) { cuda_client().dnn().serve(cuda_client().gpus(), version); };
  return {"CUDNN", serve, named, driver_version};
}

// How the dimensions of arrays and filters lie.
enum class Order { kFeaturesFirst, kFeaturesLast, kMixed };

// A convolution in dimensions [batch, features, spatial...] and [output features, input features,
// spatial...].
struct Conv {
  Dims input, filter;
  Dims strides = {}, padding = {}, dilation = {};  // none: 1, 0, 1
  int64_t groups = 1;

  size_t rank() const { return input.size() - 2; }
};

// What is at which place, in a filter output features for the batch.
Dims places(Order order, size_t rank, bool is_filter) {
  Dims out{0, 1};
  for (size_t i = 0; i < rank; ++i) out.push_back(static_cast<int64_t>(2 + i));
  if (order == Order::kFeaturesFirst) return out;
  if (order == Order::kMixed) {
    std::reverse(out.begin(), out.end());
    return out;
  }
  Dims last(out.begin() + 2, out.end());
  last.insert(is_filter ? last.end() : last.begin(), is_filter ? 1 : 0);
  last.insert(last.end(), is_filter ? 0 : 1);
  return last;
}
Dims arranged(const Dims& dims, const Dims& places) {
  Dims out;
  for (int64_t p : places) out.push_back(dims[static_cast<size_t>(p)]);
  return out;
}

ConvDims dims_of(const Conv& c, Order order) {
  const auto place = [](const Dims& places, size_t what) {
    return std::find(places.begin(), places.end(), static_cast<int64_t>(what)) - places.begin();
  };
  const Dims input = places(order, c.rank(), false), filter = places(order, c.rank(), true);
  ConvDims d;
  d.input_batch = d.output_batch = place(input, 0);
  d.input_feature = d.output_feature = place(input, 1);
  d.kernel_output_feature = place(filter, 0);
  d.kernel_input_feature = place(filter, 1);
  for (size_t i = 0; i < c.rank(); ++i) {
    d.input_spatial.push_back(place(input, 2 + i));
    d.kernel_spatial.push_back(place(filter, 2 + i));
    d.window_strides.push_back(c.strides.empty() ? 1 : c.strides[i]);
    d.padding.push_back(c.padding.empty() ? 0 : c.padding[2 * i]);
    d.padding.push_back(c.padding.empty() ? 0 : c.padding[2 * i + 1]);
    d.lhs_dilation.push_back(1);
    d.rhs_dilation.push_back(c.dilation.empty() ? 1 : c.dilation[i]);
  }
  d.output_spatial = d.input_spatial;
  d.feature_groups = c.groups;
  return d;
}

// The convolution, and both gradients, as `grad` makes them.
ComputationPtr with_gradients(const Conv& c, DType type, Order order) {
  const auto parameter = [&](const Dims& dims, bool is_filter) {
    return make_parameter(*array_type(type, arranged(dims, places(order, c.rank(), is_filter))));
  };
  Builder b;
  const Value x = parameter(c.input, false), w = parameter(c.filter, true),
              y = b.convolution(x, w, dims_of(c, order));
  REQUIRE(b.ok());
  const Value ct = make_parameter(y.type());
  const auto gradients = trace::vjp({{y}}, {{x, w}}, {{ct}});
  REQUIRE(gradients.ok());
  const auto program =
      Computation::make({{x, w, ct}}, {{y, gradients->cotangents[0], gradients->cotangents[1]}});
  REQUIRE(program.ok());
  return *program;
}

std::vector<LiteralPtr> arguments_of(const Computation& program) {
  std::mt19937_64 rng(5);
  std::vector<LiteralPtr> out;
  for (const Type* t : program.parameter_types())
    out.push_back(Literal::copy_of(
        t, reinterpret_cast<const std::byte*>(random_array(t->dtype, t->num_elements, rng).data())));
  return out;
}

// The steps of the program, which has the evaluator's bits.
std::string steps_of(const ComputationPtr& program) {
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  return check_on_cuda(program, arguments, *want);
}

const std::string kPlain =
    "input_batch_dimension=0, input_feature_dimension=1, input_spatial_dimensions=[2,3], "
    "kernel_input_feature_dimension=1, kernel_output_feature_dimension=0, kernel_spatial_dimensions=[2,3], "
    "output_batch_dimension=0, output_feature_dimension=1, output_spatial_dimensions=[2,3], ";

struct Text {
  std::string type, input, filter, result, attributes;
  int64_t features = 1, batches = 1;
  std::string mode = "";
  std::string text() const {
    return "computation main(p0: " + type + input + ", p1: " + type + filter + ") -> (" + type + result +
           ") {\n  v0 = " + type + result + " convolution(p0, p1), " + attributes + kPlain +
           "feature_group_count=" + std::to_string(features) +
           ", batch_group_count=" + std::to_string(batches) + mode + "\n  return (v0)\n}\n";
  }
};
const Text kSmall{"f32", "[2,3,7,6]", "[4,3,3,2]", "[2,4,5,5]", ""};

// Whether they are asked of the library, gradients included.
bool is_taken(const Conv& c) {
  bool even = true;
  for (size_t i = 0; i + 1 < c.padding.size(); i += 2) even = even && c.padding[i] == c.padding[i + 1];
  return even && c.groups == 1;
}

// Convolutions of all kinds.
const Conv kKinds[] = {
    {{2, 3, 7, 6}, {4, 3, 3, 2}},
    {{2, 3, 7, 6}, {4, 3, 3, 2}, {}, {1, 1, 2, 0}},
    {{2, 3, 9, 8}, {4, 3, 3, 2}, {2, 3}, {1, 1, 0, 0}},
    // The last rows and columns of the input are in no window.
    {{1, 2, 8, 8}, {3, 2, 3, 3}, {2, 2}},
    {{2, 3, 9, 9}, {2, 3, 2, 3}, {}, {}, {2, 3}},
    {{2, 3, 9, 9}, {2, 3, 2, 2}, {2, 2}, {1, 2, 0, 1}, {2, 3}},
    {{2, 3, 5, 5}, {4, 3, 1, 1}},
    {{2, 3, 5, 5}, {4, 3, 1, 1}, {2, 2}},
    // One feature, one image, one position; padding that is wider than the filter.
    {{3, 1, 6, 6}, {2, 1, 5, 5}},
    {{1, 3, 6, 6}, {1, 3, 3, 3}, {}, {1, 1, 1, 1}},
    {{2, 3, 4, 4}, {5, 3, 4, 4}},
    {{2, 3, 4, 4}, {5, 3, 2, 2}, {}, {2, 2, 2, 2}},
    // One dimension and three.
    {{2, 3, 11}, {4, 3, 3}, {2}, {1, 1}},
    {{2, 3, 5, 4, 6}, {2, 3, 2, 3, 2}, {1, 2, 1}, {0, 0, 1, 1, 0, 0}},
};
const Conv kGrouped[] = {
    {{2, 6, 5, 5}, {4, 3, 2, 2}, {}, {1, 1, 0, 0}, {}, 2},
    {{2, 4, 5, 5}, {4, 1, 3, 3}, {}, {1, 1, 1, 1}, {}, 4},
    // The gradient of the input is that of one group behind the other, of one filter each.
    {{2, 4, 7, 7}, {4, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {}, 4},
};
// Of LeNet and ResNet.
const Conv kLarge[] = {
    {{32, 1, 28, 28}, {6, 1, 5, 5}},
    {{32, 6, 12, 12}, {16, 6, 5, 5}},
    {{32, 64, 56, 56}, {64, 64, 3, 3}, {}, {1, 1, 1, 1}},
    {{32, 64, 56, 56}, {128, 64, 3, 3}, {2, 2}, {1, 1, 1, 1}},
    {{32, 64, 56, 56}, {256, 64, 1, 1}},
    {{32, 256, 56, 56}, {512, 256, 1, 1}, {2, 2}},
    {{32, 3, 224, 224}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}},
};

}  // namespace

TEST_CASE("large convolutions are calls of cuDNN, small ones our kernels", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  CHECK(has(steps_of(parsed(kSmall.text())), "convolution as loop"));
  const Text large{"f32", "[4,16,14,14]", "[16,16,3,3]", "[4,16,14,14]", "padding=[1,1,1,1], "};
  const std::string steps = steps_of(parsed(large.text()));
  INFO(steps);
  CHECK(has(steps, "convolution by cuDNN 9.19.0 in f32, forward, engine 70, f32[4,16,14,14] f32[16,16,3,3]"));
  CHECK_FALSE(has(steps, "loop"));
}

TEST_CASE("convolutions and both gradients, however they lie", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const Conv& c : kKinds)
    for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16})
      for (const Order order : {Order::kFeaturesFirst, Order::kFeaturesLast, Order::kMixed}) {
        const std::string steps = steps_of(with_gradients(c, type, order));
        INFO(steps);
        if (is_taken(c)) {
          CHECK(count(steps, "convolution by cuDNN") == 3);
          CHECK_FALSE(has(steps, "convolution as loop"));
          if (order == Order::kFeaturesFirst) CHECK_FALSE(has(steps, " a copy of the "));
        } else {
          CHECK(count(steps, "convolution by cuDNN") + count(steps, "without cuDNN: ") == 3);
        }
      }
}

TEST_CASE("filters with their features last are copied", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const Conv c{{2, 3, 9, 8}, {4, 3, 3, 2}, {2, 3}, {1, 1, 0, 0}};
  const std::string steps = steps_of(with_gradients(c, DType::kF32, Order::kFeaturesLast));
  INFO(steps);
  CHECK(count(steps, ", of a copy of the filter") == 2);
  CHECK(count(steps, ", into a copy of the result") == 1);
  CHECK(count(steps, " a copy of the ") == 3);
}

TEST_CASE("groups are not asked of the library", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const Conv& c : kGrouped)
    for (const Order order : {Order::kFeaturesFirst, Order::kFeaturesLast}) {
      const std::string steps = steps_of(with_gradients(c, DType::kF32, order));
      INFO(steps);
      CHECK(count(steps, "convolution as loop") == 3);
      CHECK(count(steps, "without cuDNN: groups are not asked of it") == 3);
    }
}

TEST_CASE("gradients are recognised by their strides and swapped dimensions", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const Conv strided{{2, 3, 9, 8}, {4, 3, 3, 2}, {2, 3}, {1, 1, 0, 0}};
  const std::string steps = steps_of(with_gradients(strided, DType::kF32, Order::kFeaturesFirst));
  INFO(steps);
  CHECK(count(steps, "in f32, forward, engine 70") == 1);
  CHECK(count(steps, "in f32, backward to the input, engine 70") == 1);
  // 4 * 3 * 3 * 2 elements and three bytes.
  CHECK(count(steps, "in f32, backward to the filter, engine 70, 291 bytes beside") == 1);
}

TEST_CASE("what cuDNN does not take is a kernel of ours, which says why", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const auto check = [](const Text& text, const std::string& why) {
    const std::string steps = steps_of(parsed(text.text()));
    INFO(steps);
    CHECK(has(steps, "convolution as loop"));
    CHECK(has(steps, ", without cuDNN: " + why));
  };
  for (const std::string t : {"s32", "c64", "u8"}) {
    Text other = kSmall;
    other.type = t;
    check(other, "it has no convolutions of " + t);
  }
  check({"f32", "[2,3,7,6]", "[4,3,3,2]", "[2,4,2,2]", "window_strides=[2,2], padding=[-1,-1,0,-2], "},
        "it has no padding below 0");
  check({"f32", "[2,3,4,5]", "[2,3,3,2]", "[2,2,4,4]",
         "window_strides=[2,2], padding=[2,2,1,1], lhs_dilation=[2,2], rhs_dilation=[2,3], "},
        "it has no stride beside a dilated input");
  check({"f32", "[4,3,5,5]", "[6,3,2,2]", "[2,6,4,4]", "", 1, 2}, "groups are not asked of it");
  check({"f32", "[2,3,7,6]", "[4,3,3,2]", "[2,4,6,5]", "padding=[0,1,0,0], "},
        "the paddings of a dimension differ");
  // Nothing to add, or to give.
  const Text empty{"f32", "[0,3,7,6]", "[4,3,3,2]", "[0,4,5,5]", ""};
  CHECK_FALSE(has(steps_of(parsed(empty.text())), "cuDNN"));
}

TEST_CASE("only `fast` numerics convolve in TF32", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto convolved = [](const std::string& mode, const std::string& in) {
    Text text{"f32", "[1,8,1,1]", "[1,8,1,1]", "[1,1,1,1]", ""};
    text.mode = mode;
    const auto executable = Executable::compile(cuda_device(), parsed(text.text()));
    REQUIRE(executable.ok());
    INFO((*executable)->describe());
    CHECK(has((*executable)->describe(), in));
    // 1 + 2^-11 is no number of TF32, 1 + 2^-10 is.
    const std::vector<float> a(8, 1.0F + 0x1p-11F), b(8, 1.0F);
    std::vector<BufferRef> arguments{*cuda_client().put(cuda_device(), a.data(), 32),
                                     *cuda_client().put(cuda_device(), b.data(), 32)},
        out;
    REQUIRE((*executable)->run(arguments, out).ok());
    float got = 0;
    const jit::Client::Read read{&*out[0], 0, 4, &got};
    REQUIRE(cuda_client().read({&read, 1}, nullptr).ok());
    return got;
  };
  CHECK(convolved("", "in f32, forward, engine 70") == 8.0F + 0x1p-8F);
  CHECK(convolved(", mode=1", "in tf32, forward, engine 38") == 8.0F + 0x1p-7F);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("without cuDNN our kernels convolve, and it is said why", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const auto said = [](const char* named, int driver = 12040) {
    const ScopedLibrary other = cudnn(named, driver);
    const std::string steps = steps_of(parsed(kSmall.text())), library = cuda_client().dnn().library();
    INFO(steps);
    const std::string begin = "our own kernels: ";
    REQUIRE(has(library, begin));
    CHECK(has(steps, "convolution as loop"));
    CHECK(has(steps, ", without cuDNN: " + library.substr(begin.size())));
    return library.substr(begin.size());
  };
  CHECK(said("") == "LAMINA_CUDNN says that there is none");
  CHECK(said("/nowhere/it.so") == "/nowhere/it.so, which LAMINA_CUDNN names, cannot be loaded");
  CHECK(said("libm.so.6") == "libm.so.6 has no cudnnGetVersion");
  CHECK(said(kCudaStandin, 11080) ==
        std::string(kCudaStandin) + " is for drivers of CUDA 12, and this one is older");
  setenv("LAMINA_STANDIN_CUDNN", "100000", 1);
  CHECK(said(kCudaStandin) ==
        std::string(kCudaStandin) + " is version 10.0.0, and 9 is the one that is known");
  CHECK(cuda_client().dnn().library() == std::string(kCudaStandin) + ", version 9.19.0");
}

TEST_CASE("a convolution that fails says so, and the next one works", "[cuda][cuda_convolutions]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  // Of a shape that no other test has: equal programs are one, with the lines of the first.
  std::string text = Text{"f32", "[2,3,8,6]", "[4,3,3,2]", "[2,4,6,5]", ""}.text();
  text.insert(text.find("\n  return"), " @\"model.py\":12");
  const ComputationPtr program = parsed(text);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto executable = Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  const auto run = [&] {
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments)
      in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
    return (*executable)->run(in, out);
  };
  using jit::cuda::DnnStatus;
  standin()->fail(kStandinConvolve, 0, static_cast<int>(DnnStatus::kExecutionFailed));
  const absl::Status failed = run();
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(failed.message() ==
        "cuda:0 failed convolving: CUDNN_STATUS_EXECUTION_FAILED, in convolution at model.py:12");
  standin()->fail(kStandinConvolve, 0, static_cast<int>(DnnStatus::kDeviceAllocFailed));
  CHECK(absl::IsResourceExhausted(run()));
  CHECK(run().ok());
  CHECK(standin_violations() == kNone);
}

TEST_CASE("planted: a convolution does not wait for what it reads", "[cuda][cuda_convolutions][planted]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ComputationPtr program = parsed(kSmall.text());
  const auto executable = Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  standin()->set_mistake(kStandinForgetsWaits);
  CHECK(standin_finds("nothing orders a convolution of 3 features", [&] {
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments_of(*program))
      in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
    (*executable)->run(in, out).IgnoreError();
  }));
}

// The library's functions, called as they must not be.
TEST_CASE("planted: what cuDNN refuses", "[cuda][cuda_convolutions][planted]") {
  using namespace jit::cuda;
  using enum DnnAttribute;
  const CleanStandin clean;
  const auto dnn = load_dnn(12040);
  REQUIRE(dnn.ok());
  const auto all = [](const std::vector<int64_t>& values) { return std::span<const int64_t>(values); };
  const auto tensor = [&](int64_t id, const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
    DnnObject out(*dnn, DnnKind::kTensor);
    out.set(kTensorType, DnnType::kF32)
        .set(kTensorDims, all(dims))
        .set(kTensorStrides, all(strides))
        .set(kTensorId, id)
        .set(kTensorAlignment, int64_t{16});
    return out;
  };
  DnnObject x = tensor(1, {1, 1, 4, 4}, {16, 16, 4, 1}), w = tensor(2, {1, 1, 3, 3}, {9, 9, 3, 1}),
            y = tensor(3, {1, 1, 2, 2}, {4, 4, 2, 1});
  CHECK(tensor(1, {1, 1, 4, 4}, {16, 4, 1}).finalize().status() == DnnStatus::kBadParam);
  CHECK(tensor(1, {1, 1, 0, 4}, {16, 16, 4, 1}).finalize().status() == DnnStatus::kBadParam);
  CHECK(DnnObject(*dnn, DnnKind::kTensor).set(kTensorId, 1.0).status() == DnnStatus::kAttributeType);
  CHECK(DnnObject(*dnn, DnnKind::kTensor).set(kStrides, int64_t{1}).status() == DnnStatus::kBadParam);
  CHECK(DnnObject(*dnn, DnnKind::kTensor).finalize().status() == DnnStatus::kBadParam);
  const auto convolution = [&](int64_t padding) {
    DnnObject out(*dnn, DnnKind::kConvolution);
    out.set(kComputeType, DnnType::kF32)
        .set(kConvolutionMode, DnnConvolutionMode::kCrossCorrelation)
        .set(kSpatialDims, int64_t{2})
        .set(kStrides, all({1, 1}))
        .set(kDilations, all({1, 1}))
        .set(kPaddingBefore, all({padding, 0}))
        .set(kPaddingAfter, all({0, 0}))
        .finalize();
    return out;
  };
  CHECK(convolution(-1).status() == DnnStatus::kBadParam);
  const auto operation = [&](const DnnObject& how) {
    DnnObject out(*dnn, DnnKind::kForward);
    out.set(kForwardAlpha, 1.0F)
        .set(kForwardBeta, 0.0F)
        .set(kForwardConvolution, how)
        .set(kForwardInput, x)
        .set(kForwardFilter, w)
        .set(kForwardOutput, y)
        .finalize();
    return out;
  };
  CHECK(operation(convolution(0)).status() == DnnStatus::kNotFinalized);
  for (DnnObject* t : {&x, &w, &y}) REQUIRE(t->finalize().ok());
  CHECK(operation(convolution(1)).status() == DnnStatus::kShapeMismatch);
  const DnnObject good = operation(convolution(0));
  REQUIRE(good.ok());
  CHECK(x.set(kTensorId, int64_t{4}).status() == DnnStatus::kBadParam);
  DnnObject graph(*dnn, DnnKind::kGraph);
  REQUIRE(graph.set(kGraphOperations, good).finalize().ok());
  DnnObject heuristic(*dnn, DnnKind::kHeuristic);
  heuristic.set(kHeuristicGraph, graph).set(kHeuristicMode, DnnHeuristic::kA).finalize();
  CHECK(heuristic.status() == DnnStatus::kNotInitialized);  // of which device is not said
  DnnHandle handle = nullptr;
  CHECK(dnn->create(&handle) == DnnStatus::kNotInitialized);  // no context is current
}

// On any device with the library: what an order of its own may change.
TEST_CASE("convolutions by the library are as good as the CPU's", "[cuda][cuda_library][cuda_dnn]") {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto check = [](const Conv& c, DType type, Order order, double unit) {
    const ComputationPtr program = with_gradients(c, type, order);
    const std::vector<LiteralPtr> arguments = arguments_of(*program);
    const auto want = evaluate(*program, arguments);
    REQUIRE(want.ok());
    const ScopedLeastWork all(0);
    const auto executable = Executable::compile(cuda_device(), program);
    REQUIRE(executable.ok());
    INFO((*executable)->describe());
    if (is_taken(c)) CHECK(count((*executable)->describe(), "convolution by cuDNN") == 3);
    std::vector<std::vector<std::byte>> first;
    for (int again = 0; again < 2; ++again) {
      std::vector<BufferRef> in, out;
      for (const LiteralPtr& a : arguments)
        in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
      REQUIRE((*executable)->run(in, out).ok());
      std::vector<std::vector<std::byte>> got;
      for (const BufferRef& b : out) {
        got.emplace_back(static_cast<size_t>(b->bytes()));
        const jit::Client::Read all_of_it{&*b, 0, b->bytes(), got.back().data()};
        REQUIRE(cuda_client().read({&all_of_it, 1}, nullptr).ok());
      }
      if (again == 0) first = got;
      CHECK(got == first);
    }
    for (size_t r = 0; r < first.size(); ++r) {
      const LiteralPtr found = Literal::copy_of((*want)[r]->type(), first[r].data());
      double worst = 0;
      for (int64_t i = 0; i < found->type()->num_elements; ++i)
        worst = std::max(worst, std::abs(found->double_at(i) - (*want)[r]->double_at(i)));
      // Sums of products of numbers below 1, of which there are as many as arguments at most.
      double terms = 1;
      for (const LiteralPtr& a : arguments)
        terms = std::max(terms, static_cast<double>(a->type()->num_elements));
      CHECK(worst <= 16 * unit * std::sqrt(terms));
    }
  };
  for (const auto& [type, unit] : {std::pair(DType::kF32, 0x1p-23), std::pair(DType::kF64, 0x1p-52),
                                   std::pair(DType::kF16, 0x1p-10), std::pair(DType::kBF16, 0x1p-7)})
    for (const Order order : {Order::kFeaturesFirst, Order::kFeaturesLast})
      for (const Conv& c : kKinds) check(c, type, order, unit);
}

// The library plans for a device that it is told of, without one. By itself: it opens the machine's.
TEST_CASE("the machine's cuDNN, if there is one, has plans for an H100", "[.][cuda_dnn_plans]") {
  using jit::cuda::Convolutions;
  if (const char* named = std::getenv("LAMINA_CUDNN"); named && std::string_view(named) == kCudaStandin)
    unsetenv("LAMINA_CUDNN");
  const auto dnn = jit::cuda::load_dnn(99000);
  if (!dnn.ok()) return;
  const std::string properties = h100_properties();
  const auto chosen = [&](const Node& node) { return Convolutions::chosen_for(*dnn, properties, node); };
  const absl::Status device = chosen(*parsed(kSmall.text())->nodes().back()).status();
  // Without any driver, or in a version that wants to know more.
  if (has(std::string(device.message()), "it refuses the device")) return;
  const auto check = [&](const Conv& c, DType type, Order order) {
    const ComputationPtr program = with_gradients(c, type, order);
    size_t found = 0;
    for (const auto& node : program->nodes()) {
      if (node->op() != Op::convolution) continue;
      ++found;
      const auto plan = chosen(*node);
      INFO(to_string(*node->operand_type(0))
           << " " << to_string(*node->operand_type(1)) << " " << plan.status());
      REQUIRE(plan.ok());
      CHECK_FALSE(has(*plan, "tf32"));
    }
    CHECK(found == 3);
  };
  for (const DType type : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (const Conv& c : kKinds)
      if (is_taken(c)) check(c, type, Order::kFeaturesFirst);
    for (const Conv& c : kLarge) check(c, type, Order::kFeaturesFirst);
  }
}

}  // namespace lamina::testing
