// Products by cublasLt on CUDA devices. The stand-in adds as the CPU does, so that all bits show what was
// multiplied with what; what it refuses, and in what order things may run, is that of the library.
#include <cstdlib>
#include <random>
#include <tuple>

#include "hlo/strings.h"
#include "tests/jit/executable_testing.h"
#include "tests/jit/kernel_testing.h"
#include "tests/jit/program_text.h"

namespace lamina::testing {
namespace {

const std::vector<std::string> kNone;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

ScopedLibrary cublaslt(const char* named, int driver_version) {
  const auto serve = [](int version) { cuda_client().products().serve(cuda_client().gpus(), version); };
  return {"CUBLASLT", serve, named, driver_version};
}

struct Dot {
  std::string type, left, right, result, dims;
  std::string text() const {
    return "computation main(p0: " + type + left + ", p1: " + type + right + ") -> (" + type + result +
           ") {\n  v0 = " + type + result + " dot_general(p0, p1), " + dims + "\n  return (v0)\n}\n";
  }
};

std::string contracting(const std::string& left, const std::string& right) {
  return "lhs_contracting_dimensions=[" + left + "], rhs_contracting_dimensions=[" + right + "]";
}
std::string batching(const std::string& left, const std::string& right) {
  return "lhs_batching_dimensions=[" + left + "], rhs_batching_dimensions=[" + right + "], ";
}

// Of what is converted to the type of the sums before.
std::string converted(const Dot& d, const std::string& left, const std::string& sums,
                      const std::string& right = "", const std::string& mode = "") {
  const std::string& other = right.empty() ? left : right;
  return "computation main(p0: " + left + d.left + ", p1: " + other + d.right + ") -> (" + sums + d.result +
         ") {\n  v0 = " + sums + d.left + " convert(p0), dtype=" + sums + "\n  v1 = " + sums + d.right +
         " convert(p1), dtype=" + sums + "\n  v2 = " + sums + d.result + " dot_general(v0, v1), " + d.dims +
         (mode.empty() ? "" : ", mode=" + mode) + "\n  return (v2)\n}\n";
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
std::string steps_of(const std::string& text) {
  const ComputationPtr program = parsed(text);
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto want = evaluate(*program, arguments);
  REQUIRE(want.ok());
  INFO(text);
  return check_on_cuda(program, arguments, *want);
}

const Dot kPlain{"f32", "[24,40]", "[40,16]", "[24,16]", contracting("1", "0")};

}  // namespace

TEST_CASE("large products are calls of cublasLt, small ones our kernels", "[cuda][cuda_products]") {
  const CleanStandin clean;
  CHECK(has(steps_of(kPlain.text()), "dot_general as loop"));
  const Dot large{"f32", "[32,1024]", "[1024,32]", "[32,32]", contracting("1", "0")};
  const std::string steps = steps_of(large.text());
  INFO(steps);
  CHECK(has(steps, "dot by cublasLt 12.4.2 in f32, algorithm 21, tile 5"));
  CHECK_FALSE(has(steps, "loop"));
  const Dot larger{"f32", "[128,128]", "[128,128]", "[128,128]", contracting("1", "0")};
  CHECK(has(steps_of(larger.text()), "dot by cublasLt 12.4.2 in f32, algorithm 31, tile 5"));
}

TEST_CASE("every element type that cublasLt takes, however the operands lie", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const std::string t : {"f32", "f64", "f16", "bf16", "c64", "c128"}) {
    for (const Dot& d : {
             Dot{t, "[24,40]", "[40,16]", "[24,16]", contracting("1", "0")},
             Dot{t, "[40,24]", "[40,16]", "[24,16]", contracting("0", "0")},
             Dot{t, "[24,40]", "[16,40]", "[24,16]", contracting("1", "1")},
             Dot{t, "[40,24]", "[16,40]", "[24,16]", contracting("0", "1")},
             // Odd sizes, which no vector divides; a block of 256 terms and a part of one.
             Dot{t, "[7,301]", "[301,5]", "[7,5]", contracting("1", "0")},
             // Vectors.
             Dot{t, "[33]", "[33]", "[]", contracting("0", "0")},
             Dot{t, "[9,33]", "[33]", "[9]", contracting("1", "0")},
             Dot{t, "[33]", "[33,9]", "[9]", contracting("0", "0")},
             // Batches, in front and in between.
             Dot{t, "[3,7,5]", "[3,5,4]", "[3,7,4]", batching("0", "0") + contracting("2", "1")},
             Dot{t, "[7,3,5]", "[5,3,4]", "[3,7,4]", batching("1", "1") + contracting("2", "0")},
             // Several dimensions that are one.
             Dot{t, "[2,3,4,5]", "[4,5,6]", "[2,3,6]", contracting("2,3", "0,1")},
         }) {
      const std::string steps = steps_of(d.text());
      INFO(steps);
      CHECK(has(steps, "dot by cublasLt"));
      CHECK_FALSE(has(steps, "loop"));
    }
    // Real products without terms to add are products of elements, which loops compute.
    const Dot outer{t, "[9]", "[5]", "[9,5]", contracting("", "")};
    CHECK(has(steps_of(outer.text()), t[0] == 'c' ? "dot by cublasLt" : "loop"));
  }
}

TEST_CASE("batches that are no one step in memory are several calls", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  // As attention has it: sequences of heads.
  const Dot heads{"f32", "[2,5,3,8]", "[2,6,3,8]", "[2,3,5,6]",
                  batching("0,2", "0,2") + contracting("3", "3")};
  const std::string steps = steps_of(heads.text());
  INFO(steps);
  CHECK(has(steps, "dot by cublasLt"));
  CHECK(has(steps, ", 2 calls"));
  const Dot many{"f32", "[65,2,3,4]", "[65,3,2,4]", "[65,3,2,2]",
                 batching("0,2", "0,1") + contracting("3", "3")};
  const std::string copied = steps_of(many.text());
  INFO(copied);
  CHECK(has(copied, ", of a copy of the left operand, f32[65,2,3,4]"));
  CHECK_FALSE(has(copied, "calls"));
}

TEST_CASE("operands that are no matrix in memory are copied before", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const std::string t : {"f32", "f16", "c128"}) {
    const Dot both{t, "[2,4,3,6]", "[6,5,4,2]", "[2,3,5]", batching("0", "3") + contracting("3,1", "0,2")};
    const std::string steps = steps_of(both.text());
    INFO(steps);
    CHECK(has(steps, "of a copy of the left operand, of a copy of the right operand"));
  }
  // So that there is work space besides.
  const Dot long_sums{"f32", "[4,3,90]", "[4,90,5]", "[3,5]", contracting("0,2", "0,1")};
  const std::string steps = steps_of(long_sums.text());
  INFO(steps);
  CHECK(has(steps, "bytes beside, of a copy of the left operand, f32"));
}

TEST_CASE("what cublasLt does not take is a kernel of ours, which says why", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const std::string t : {"s32", "u8", "s64"}) {
    const Dot d{t, "[24,40]", "[40,16]", "[24,16]", contracting("1", "0")};
    const std::string steps = steps_of(d.text());
    INFO(steps);
    CHECK(has(steps, "dot_general as loop"));
    CHECK(has(steps, ", without cublasLt: it has no products of " + t));
  }
  // Nothing to add, or to give.
  for (const Dot& d : {Dot{"f32", "[3,0]", "[0,4]", "[3,4]", contracting("1", "0")},
                       Dot{"f32", "[0,3]", "[3,4]", "[0,4]", contracting("1", "0")}})
    CHECK_FALSE(has(steps_of(d.text()), "cublasLt"));
}

TEST_CASE("products of bytes are exact calls of cublasLt, copied only where that pays",
          "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  struct Case {
    Dot dot;
    std::string_view says;
  };
  const std::string turned = contracting("1", "1");
  for (const std::string sums : {"s32", "u32"})
    for (const Case& c : {
             // What is summed lies side by side, four by four.
             Case{{"s8", "[24,40]", "[16,40]", "[24,16]", turned},
                  "dot by cublasLt 12.4.2 in s32, algorithm 11, "
                  "tile 5, stages 5, splits 1, scheme 0, s8[24"},
             Case{{"s8", "[48,64]", "[48,64]", "[48,48]", turned}, "in s32, algorithm 31"},
             Case{{"s8", "[3,24,40]", "[3,16,40]", "[3,24,16]", batching("0", "0") + contracting("2", "2")},
                  "scheme 0, s8[3,24,40] s8[3,16,40]"},
             Case{{"s8", "[1,40]", "[16,40]", "[1,16]", turned}, "s8[1,40] s8[16,40]"},
             Case{{"s8", "[40]", "[16,40]", "[16]", contracting("0", "1")}, "s8[40] s8[16,40]"},
             Case{{"s8", "[2,24,3,40]", "[2,16,3,40]", "[2,3,24,16]",
                   batching("0,2", "0,2") + contracting("3", "3")},
                  ", 2 calls, s8[2"},
             // Else in copies, which may have zeros behind them.
             Case{{"s8", "[64,40]", "[40,64]", "[64,64]", contracting("1", "0")},
                  "scheme 0, of a copy of the right operand, s8"},
             Case{{"s8", "[40,64]", "[64,40]", "[64,64]", contracting("0", "1")},
                  "scheme 0, of a copy of the left operand, s8"},
             Case{{"s8", "[64,41]", "[64,41]", "[64,64]", turned},
                  "of a copy of the left operand, of a copy of the right operand, s8"},
             Case{{"s8", "[64,66]", "[66,67]", "[64,67]", contracting("1", "0")},
                  "of a copy of the right operand, into a copy of the result, s8"},
             Case{{"s8", "[2,64,7,6]", "[7,2,6,67]", "[2,64,67]",
                   batching("0", "1") + contracting("2,3", "0,2")},
                  "of a copy of the right operand, into a copy of the result, s8"},
             // Each element of the copy would be multiplied by one other, or a few.
             Case{{"s8", "[1,40]", "[40,16]", "[1,16]", contracting("1", "0")}, "as loop 1 x 16"},
             Case{{"s8", "[15,40]", "[40,16]", "[15,16]", contracting("1", "0")},
                  ", without cublasLt: it wants what is summed side by side, 4 by 4, and copies that have it "
                  "so would "
                  "take as long as the product"},
             Case{{"u8", "[24,40]", "[16,40]", "[24,16]", turned},
                  ", without cublasLt: it has no products of u8"},
         }) {
      const std::string steps = steps_of(converted(c.dot, c.dot.type, sums));
      INFO(steps);
      CHECK(has(steps, c.says));
      CHECK(has(steps, "cublasLt"));
      CHECK_FALSE(has(steps, "convert"));
    }
  // The least numbers, whose sum is the largest that fits; of more the library would stay there.
  for (const auto& [terms, is_library] : {std::pair(131'068, true), std::pair(131'072, false)}) {
    const std::string many = str_cat("[4,", terms, "]");
    const ComputationPtr program = parsed(converted({"s8", many, many, "[4,4]", turned}, "s8", "s32"));
    const std::vector<int8_t> least(static_cast<size_t>(4 * terms), -128);
    const LiteralPtr all_least = Literal::copy_of(program->parameter_types()[0], least.data());
    const std::vector<LiteralPtr> arguments{all_least, all_least};
    const auto want = evaluate(*program, arguments);
    REQUIRE(want.ok());
    const std::string steps = check_on_cuda(program, arguments, *want);
    INFO(steps);
    CHECK(has(steps, is_library
                         ? "dot by cublasLt"
                         : ", without cublasLt: sums of so many bytes might be more than it has room for"));
  }
}

TEST_CASE("floats of one byte are multiplied as they are in `fast` numerics only", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const std::string turned = contracting("1", "1");
  const Dot plain{"", "[48,64]", "[48,64]", "[48,48]", turned};
  for (const std::string result : {"f32", "f16", "bf16"})
    for (const auto& [left, right, compute] :
         {std::tuple("f8e4m3fn", "f8e4m3fn", ""), std::tuple("f8e4m3fn", "f8e5m2", ""),
          std::tuple("f8e5m2", "f8e4m3fn", ""), std::tuple("f8e5m2", "f8e5m2", "wider"),
          std::tuple("f8e4m3", "f8e4m3", "wider")}) {
      const auto run = [&](const Dot& dot, const std::string& mode) {
        const std::string steps = steps_of(converted(dot, left, result, right, mode));
        INFO(steps);
        CHECK(has(steps, "dot by cublasLt"));
        return steps;
      };
      const bool is_wider = *compute != 0;
      CHECK_FALSE(has(run(plain, ""), ", f8"));
      CHECK(has(run(plain, "1"), is_wider ? str_cat(result, "[48,64]") : str_cat(left, "[48,64]")));
      if (is_wider) continue;
      // With a copy, and one that has more elements.
      CHECK(has(run({"", "[48,64]", "[64,48]", "[48,48]", contracting("1", "0")}, "1"),
                "scheme 0, of a copy of the right operand, f8"));
      CHECK(has(
          run({"", "[64,65]", "[63,65]", "[64,63]", turned}, "1"),
          "of a copy of the left operand, of a copy of the right operand, into a copy of the result, f8"));
      // Where copies do not pay, what they are converted to.
      CHECK(has(run({"", "[8,64]", "[64,32]", "[8,32]", contracting("1", "0")}, "1"),
                ", not of one byte: it wants what is summed side by side, 16 by 16, and copies"));
    }
}

TEST_CASE("long sums are split, in work space of the run", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  // Two products, the space of one may be that of the other.
  const std::string text =
      "computation main(p0: f32[8,300], p1: f32[300,8]) -> (f32[8,8], f32[300,300]) {\n"
      "  v0 = f32[8,8] dot_general(p0, p1), " +
      contracting("1", "0") + "\n  v1 = f32[300,300] dot_general(p1, p0), " + contracting("1", "0") +
      "\n  return (v0, v1)\n}\n";
  const std::string steps = steps_of(text);
  INFO(steps);
  CHECK(has(steps, "algorithm 21, tile 5, stages 5, splits 4, scheme 2, 1024 bytes beside"));
  CHECK(has(steps, "algorithm 31, tile 5, stages 5, splits 1, scheme 0, f32"));
}

TEST_CASE("only `fast` numerics multiply in TF32", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const std::string text =
      "computation main(p0: f32[8,8], p1: f32[8,8]) -> (f32[8,8], f32[8,8]) {\n"
      "  v0 = f32[8,8] dot_general(p0, p1), " +
      contracting("1", "0") + "\n  v1 = f32[8,8] dot_general(p0, p1), " + contracting("1", "0") +
      ", mode=1\n  return (v0, v1)\n}\n";
  const ComputationPtr program = parsed(text);
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  CHECK(has((*executable)->describe(), " in f32"));
  CHECK(has((*executable)->describe(), " in tf32"));
  // 1 + 2^-11 is no number of TF32, 1 + 2^-10 is.
  std::vector<float> a(64, 1.0F + 0x1p-11F), b(64, 1.0F);
  std::vector<BufferRef> in{*cuda_client().put(cuda_device(), a.data(), 256),
                            *cuda_client().put(cuda_device(), b.data(), 256)},
      out;
  REQUIRE((*executable)->run(in, out).ok());
  std::vector<float> same(64), fast(64);
  const jit::Client::Read reads[] = {{&*out[0], 0, 256, same.data()}, {&*out[1], 0, 256, fast.data()}};
  REQUIRE(cuda_client().read(reads, nullptr).ok());
  CHECK(same == std::vector<float>(64, 8.0F + 0x1p-8F));
  CHECK(fast == std::vector<float>(64, 8.0F + 0x1p-7F));
  CHECK(standin_violations() == kNone);
}

TEST_CASE("without cublasLt our kernels multiply, and it is said why", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const auto said = [](const char* named, int driver = 12040) {
    const ScopedLibrary other = cublaslt(named, driver);
    const std::string steps = steps_of(kPlain.text()), library = cuda_client().products().library();
    INFO(steps);
    const std::string begin = "our own kernels: ";
    REQUIRE(has(library, begin));
    CHECK(has(steps, "dot_general as loop"));
    CHECK(has(steps, ", without cublasLt: " + library.substr(begin.size())));
    return library.substr(begin.size());
  };
  CHECK(said("") == "LAMINA_CUBLASLT says that there is none");
  CHECK(said("/nowhere/it.so") == "/nowhere/it.so, which LAMINA_CUBLASLT names, cannot be loaded");
  CHECK(said("libm.so.6") == "libm.so.6 has no cublasLtGetVersion");
  setenv("LAMINA_STANDIN_CUBLASLT", "130100", 1);
  CHECK(said(kCudaStandin) ==
        std::string(kCudaStandin) + " is for drivers of CUDA 13, and this one is older");
  CHECK(cuda_client().products().library() == std::string(kCudaStandin) + ", version 12.4.2");
}

TEST_CASE("a product that fails says so, and the next one works", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  // Of a shape that no other test has: equal programs are one, with the lines of the first.
  std::string text = Dot{"f32", "[25,41]", "[41,17]", "[25,17]", contracting("1", "0")}.text();
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
  standin()->fail(kStandinMultiply, 0, static_cast<int>(jit::cuda::BlasStatus::kExecutionFailed));
  const absl::Status failed = run();
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(failed.message() ==
        "cuda:0 failed multiplying: CUBLAS_STATUS_EXECUTION_FAILED, in dot_general at model.py:12");
  standin()->fail(kStandinMultiply, 0, static_cast<int>(jit::cuda::BlasStatus::kAllocFailed));
  CHECK(absl::IsResourceExhausted(run()));
  CHECK(run().ok());
  CHECK(standin_violations() == kNone);
}

TEST_CASE("planted: a product does not wait for what it reads", "[cuda][cuda_products][planted]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ComputationPtr program = parsed(kPlain.text());
  const std::vector<LiteralPtr> arguments = arguments_of(*program);
  const auto executable = Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  standin()->set_mistake(kStandinForgetsWaits);
  CHECK(standin_finds("nothing orders a product of 24 x 40 and 40 x 16", [&] {
    std::vector<BufferRef> in, out;
    for (const LiteralPtr& a : arguments)
      in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
    (*executable)->run(in, out).IgnoreError();
  }));
}

// The library's functions, called as they must not be.
TEST_CASE("planted: what cublasLt refuses", "[cuda][cuda_products][planted]") {
  using namespace jit::cuda;
  const CleanStandin clean;
  const auto blas = load_blas(12040);
  REQUIRE(blas.ok());
  auto& stream = static_cast<CudaStream&>(cuda_device().stream());
  const auto within = [&](auto work) { return answer_on(stream, work); };
  // d = a * b of 8 x 64 and 64 x 8.
  ProductHandle product = nullptr;
  MatrixHandle a = nullptr, b = nullptr, d = nullptr, narrow = nullptr, other = nullptr, wide = nullptr;
  SearchHandle search = nullptr;
  REQUIRE(blas->create_product(&product, ComputeType::kF32, MatrixType::kF32) == BlasStatus::kSuccess);
  blas->create_matrix(&a, MatrixType::kF32, 8, 64, 8);
  blas->create_matrix(&b, MatrixType::kF32, 64, 8, 64);
  blas->create_matrix(&d, MatrixType::kF32, 8, 8, 8);
  blas->create_matrix(&narrow, MatrixType::kF32, 8, 64, 7);
  blas->create_matrix(&other, MatrixType::kF64, 8, 64, 8);
  blas->create_matrix(&wide, MatrixType::kF32, 8, 63, 8);
  blas->create_search(&search);
  const uint64_t most = 1 << 20;
  REQUIRE(blas->set_search(search, SearchAttribute::kMostWorkspace, &most, sizeof most) ==
          BlasStatus::kSuccess);
  CHECK(blas->set_search(search, SearchAttribute::kMostWorkspace, &most, 4) == BlasStatus::kInvalidValue);

  BlasHandle handle = nullptr;
  CHECK(blas->create(&handle) == BlasStatus::kNotInitialized);  // no context is current
  REQUIRE(within([&](StreamHandle) { return blas->create(&handle); }) == BlasStatus::kSuccess);
  std::array<FoundAlgorithm, 4> found{};
  int count = 0;
  const auto look = [&](MatrixHandle left) {
    return blas->search(handle, product, left, b, d, d, search, 4, found.data(), &count);
  };
  CHECK(look(narrow) == BlasStatus::kInvalidValue);
  CHECK(look(wide) == BlasStatus::kInvalidValue);
  CHECK(look(other) == BlasStatus::kNotSupported);
  REQUIRE(look(a) == BlasStatus::kSuccess);
  REQUIRE(count == 4);
  CHECK(found[0].state == BlasStatus::kNotSupported);
  const FoundAlgorithm split = found[1];
  REQUIRE(split.workspace_bytes == 1024);

  const std::vector<float> ones(8 * 64 + 64, 1.0F);
  const BufferRef left = *cuda_client().put(cuda_device(), ones.data(), 2304),
                  right = *cuda_client().put(cuda_device(), ones.data(), 2304);
  const BufferRef result = *cuda_device().memory().allocate(256),
                  space = *cuda_device().memory().allocate(4096);
  for (const BufferRef& x : {left, right}) REQUIRE(stream.takes(x->written()).ok());
  const float one = 1, zero = 0;
  struct Call {
    jit::Address left, space;
    size_t space_bytes = 1024;
    const Algorithm* algorithm;
    const float* beta;
  };
  const auto multiply = [&](const Call& c) {
    return within([&](StreamHandle on) {
      const auto pointer = [](jit::Address at) { return reinterpret_cast<void*>(at.bits()); };
      return blas->multiply(handle, product, &one, pointer(c.left), a, pointer(right->address()), b, c.beta,
                            pointer(result->address()), d, pointer(result->address()), d, c.algorithm,
                            pointer(c.space), c.space_bytes, on);
    });
  };
  const Call good{left->address(), space->address(), 1024, &split.algorithm, &zero};
  CHECK(multiply(good) == BlasStatus::kSuccess);
  CHECK(standin_violations() == kNone);
  Call bad = good;
  bad.left = good.left + 4;
  CHECK(multiply(bad) == BlasStatus::kInvalidValue);
  bad = good;
  bad.space = good.space + 64;
  CHECK(multiply(bad) == BlasStatus::kInvalidValue);
  bad = good;
  bad.space_bytes = 1023;
  CHECK(multiply(bad) == BlasStatus::kInvalidValue);
  const Algorithm unknown{};
  bad = good;
  bad.algorithm = &unknown;
  CHECK(multiply(bad) == BlasStatus::kInvalidValue);
  CHECK(standin_violations() == kNone);
  bad.algorithm = nullptr;
  CHECK(multiply(bad) == BlasStatus::kInvalidValue);
  CHECK(standin_found("whose algorithm was not chosen"));
  bad = good;
  bad.beta = &one;
  CHECK(multiply(bad) == BlasStatus::kNotSupported);
  CHECK(standin_found("scaled or added to"));
  bad = good;
  bad.left = good.left + 2304;
  multiply(bad);
  CHECK(standin_found("touches"));
  // On the stream of another device.
  auto& there = static_cast<CudaStream&>(cuda_device(1).stream());
  REQUIRE(there
              .call([&](StreamHandle on) {
                blas->multiply(handle, product, &one, nullptr, a, nullptr, b, &zero, nullptr, d, nullptr, d,
                               &split.algorithm, nullptr, 0, on);
                return absl::OkStatus();
              })
              .ok());
  CHECK(standin_found("a product while the context of another device"));
  for (MatrixHandle m : {a, b, d, narrow, other, wide}) blas->destroy_matrix(m);
  blas->destroy_product(product);
  blas->destroy_search(search);
}

TEST_CASE("planted: what cublasLt refuses of elements of one byte", "[cuda][cuda_products][planted]") {
  using namespace jit::cuda;
  const CleanStandin clean;
  const auto blas = load_blas(12040);
  REQUIRE(blas.ok());
  BlasHandle handle = nullptr;
  REQUIRE(cuda_client()
              .gpus()[0]
              ->within([&] {
                CHECK(blas->create(&handle) == BlasStatus::kSuccess);
                return absl::OkStatus();
              })
              .ok());
  // d = a^T * b, both of k rows.
  struct Asked {
    DType a, b, d;
    ComputeType compute = ComputeType::kF32;
    int64_t m = 32, n = 32, k = 64, stride = 64, result_stride = 32;
    int32_t turns_a = kTransposed, turns_b = 0;
    uint32_t alignment = 16;
  };
  const auto answer = [&](const Asked& x) {
    const MatrixType scale = x.d == DType::kS32 ? MatrixType::kS32 : MatrixType::kF32;
    ProductHandle product = nullptr;
    MatrixHandle a = nullptr, b = nullptr, d = nullptr;
    SearchHandle search = nullptr;
    blas->create_product(&product, x.compute, scale);
    blas->set_product(product, ProductAttribute::kTransposesA, &x.turns_a, sizeof x.turns_a);
    blas->set_product(product, ProductAttribute::kTransposesB, &x.turns_b, sizeof x.turns_b);
    const auto make = [&](MatrixHandle* matrix, DType type, int64_t rows, int64_t columns, int64_t stride) {
      blas->create_matrix(matrix, matrix_type(type), static_cast<uint64_t>(rows),
                          static_cast<uint64_t>(columns), stride);
    };
    x.turns_a ? make(&a, x.a, x.k, x.m, x.stride) : make(&a, x.a, x.m, x.k, x.stride);
    x.turns_b ? make(&b, x.b, x.n, x.k, x.stride) : make(&b, x.b, x.k, x.n, x.stride);
    make(&d, x.d, x.m, x.n, x.result_stride);
    blas->create_search(&search);
    for (const auto attribute : {SearchAttribute::kLeastAlignmentOfA, SearchAttribute::kLeastAlignmentOfD})
      blas->set_search(search, attribute, &x.alignment, sizeof x.alignment);
    std::array<FoundAlgorithm, 4> found{};
    int count = 0;
    const BlasStatus status = blas->search(handle, product, a, b, d, d, search, 4, found.data(), &count);
    for (MatrixHandle matrix : {a, b, d}) blas->destroy_matrix(matrix);
    blas->destroy_product(product);
    blas->destroy_search(search);
    return status;
  };
  using enum DType;
  const Asked bytes{kS8, kS8, kS32, ComputeType::kS32}, floats{kF8E4M3FN, kF8E5M2, kBF16};
  CHECK(answer(bytes) == BlasStatus::kSuccess);
  CHECK(answer(floats) == BlasStatus::kSuccess);
  const auto refuses = [&](Asked x, auto change) {
    change(x);
    CHECK(answer(x) == BlasStatus::kNotSupported);
  };
  for (const Asked& good : {bytes, floats}) {
    const int64_t odd = good.d == kS32 ? 2 : 8;  // half of what is wanted
    refuses(good, [](Asked& x) { x.turns_a = 0; });
    refuses(good, [](Asked& x) { x.turns_b = kTransposed; });
    refuses(good, [&](Asked& x) { x.k += odd, x.stride += 16; });
    refuses(good, [&](Asked& x) { x.stride += odd; });
    refuses(good, [](Asked& x) { x.m += 2, x.result_stride += 16; });
    refuses(good, [](Asked& x) { x.result_stride += 2; });
    refuses(good, [&](Asked& x) { x.alignment = static_cast<uint32_t>(odd); });
    refuses(good, [](Asked& x) { x.compute = ComputeType::kTf32; });
  }
  refuses(bytes, [](Asked& x) { x.d = kS8; });
  refuses(bytes, [](Asked& x) { x.b = kS32; });
  refuses(floats, [](Asked& x) { x.a = kF8E5M2; });
  refuses(floats, [](Asked& x) { x.b = kBF16; });
  CHECK(standin_violations() == kNone);
}

// On any device: what an order of its own may change.
TEST_CASE("products by the library are as good as the CPU's", "[cuda][cuda_library]") {
  const ScopedLeastWork all(0);
  cuda_client().kernels().set_library(kCodeGenerator);
  for (const auto& [t, unit] : {std::pair("f32", 0x1p-23), std::pair("f64", 0x1p-52),
                                std::pair("f16", 0x1p-10), std::pair("bf16", 0x1p-7)}) {
    const Dot dot{t, "[3,65,300]", "[3,72,300]", "[3,65,72]", batching("0", "0") + contracting("2", "2")};
    const ComputationPtr program = parsed(dot.text());
    const std::vector<LiteralPtr> arguments = arguments_of(*program);
    const auto want = evaluate(*program, arguments);
    REQUIRE(want.ok());
    const auto executable = Executable::compile(cuda_device(), program);
    REQUIRE(executable.ok());
    INFO((*executable)->describe());
    CHECK(has((*executable)->describe(), "dot by cublasLt"));
    std::vector<std::byte> first;
    for (int again = 0; again < 2; ++again) {
      std::vector<BufferRef> in, out;
      for (const LiteralPtr& a : arguments)
        in.push_back(*cuda_client().put(cuda_device(), a->data(), a->bytes()));
      REQUIRE((*executable)->run(in, out).ok());
      std::vector<std::byte> got(static_cast<size_t>(out[0]->bytes()));
      const jit::Client::Read all_of_it{&*out[0], 0, out[0]->bytes(), got.data()};
      REQUIRE(cuda_client().read({&all_of_it, 1}, nullptr).ok());
      if (again == 0) {
        first = got;
        const LiteralPtr found = Literal::copy_of((*want)[0]->type(), got.data());
        double worst = 0;
        for (int64_t i = 0; i < found->type()->num_elements; ++i)
          worst = std::max(worst, std::abs(found->double_at(i) - (*want)[0]->double_at(i)));
        // Sums of 300 products of numbers below 1.
        CHECK(worst <= 16 * unit * std::sqrt(300.0));
      }
      CHECK(got == first);
    }
  }
}

// It describes products without a device, and does not start without a driver.
TEST_CASE("the machine's cublasLt, if there is one, takes our descriptions", "[cuda][cuda_products]") {
  const CleanStandin clean;
  const ScopedLibrary real = cublaslt(nullptr, 99000);
  const auto blas = jit::cuda::load_blas(99000);
  if (!blas.ok()) return;
  const ScopedLeastWork all(0);
  for (const std::string t : {"f32", "bf16", "c64", "f64"}) {
    const Dot d{t, "[3,7,5]", "[3,4,5]", "[3,7,4]", batching("0", "0") + contracting("2", "2")};
    const auto product = cuda_client().products().plan(*parsed(d.text())->nodes().back());
    REQUIRE_FALSE(product.ok());
    INFO(product.status());
    CHECK(has(std::string(product.status().message()), "does not start on cuda:0"));
  }
  CHECK(has(cuda_client().products().library(), "our own kernels: " + blas->library + " does not start on"));
}

}  // namespace lamina::testing
