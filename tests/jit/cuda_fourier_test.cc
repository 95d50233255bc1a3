// Fourier transforms by cuFFT on CUDA devices, against sums of their definition. What the stand-in refuses,
// and in what order things may run, is that of the library.
#include <array>
#include <complex>
#include <cstdlib>
#include <numbers>
#include <random>

#include "hlo/builder.h"
#include "hlo/linalg/linalg.h"
#include "tests/jit/executable_testing.h"

namespace lamina::testing {
namespace {

using Number = std::complex<double>;

const std::vector<std::string> kNone;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

ScopedLibrary cufft(const char* named, int driver_version) {
  const auto serve = [](int version) { cuda_client().fourier().serve(cuda_client().gpus(), version); };
  return {"CUFFT", serve, named, driver_version};
}

struct Case {
  std::string kind;
  DType part;
  Dims dims;  // of the numbers that are transformed, or come out
  int64_t axis;

  DType number() const { return part == DType::kF32 ? DType::kC64 : DType::kC128; }
  const Type* operand() const {
    Dims of = dims;
    if (kind == "IRFFT") of[static_cast<size_t>(axis)] = of[static_cast<size_t>(axis)] / 2 + 1;
    return array_type_or_die(kind == "RFFT" ? part : number(), of);
  }
  int64_t length() const { return dims[static_cast<size_t>(axis)]; }
};

// And the operand again, which is still there.
ComputationPtr program_of(const Case& c) {
  const Type* types[] = {c.operand()};
  return *record_region(types, [&](Builder& b, std::span<const Value> x) {
    return Values{linalg::fft_along(b, x[0], c.kind, c.length(), c.axis), b.negate(x[0])};
  });
}

LiteralPtr random_literal(const Type* type) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> any(-1, 1);
  const bool is_f32 = part_type(type->dtype) == DType::kF32;
  std::vector<std::byte> bytes(static_cast<size_t>(type->bytes()));
  for (size_t at = 0; at < bytes.size(); at += is_f32 ? 4 : 8) {
    const double x = any(rng);
    const auto narrow = static_cast<float>(x);
    is_f32 ? std::memcpy(&bytes[at], &narrow, 4) : std::memcpy(&bytes[at], &x, 8);
  }
  return Literal::copy_of(type, bytes.data());
}

std::vector<Number> numbers_of(const Type* type, const void* data) {
  const auto part = [&](int64_t i) {
    return part_type(type->dtype) == DType::kF32 ? static_cast<double>(static_cast<const float*>(data)[i])
                                                 : static_cast<const double*>(data)[i];
  };
  std::vector<Number> out;
  for (int64_t i = 0; i < type->num_elements; ++i)
    out.push_back(is_complex(type->dtype) ? Number(part(2 * i), part(2 * i + 1)) : Number(part(i)));
  return out;
}

// By the definition; of a half spectrum the ends are taken as real.
std::vector<Number> transformed(const Case& c, const std::vector<Number>& x) {
  const int64_t n = c.length();
  const bool inverse = c.kind[0] == 'I', from_half = c.kind == "IRFFT", to_half = c.kind == "RFFT";
  const int64_t have = from_half ? n / 2 + 1 : n, want = to_half ? n / 2 + 1 : n;
  int64_t inner = 1, outer = 1;
  for (size_t d = 0; d < c.dims.size(); ++d) {
    if (static_cast<int64_t>(d) < c.axis) outer *= c.dims[d];
    if (static_cast<int64_t>(d) > c.axis) inner *= c.dims[d];
  }
  std::vector<Number> out(static_cast<size_t>(outer * want * inner));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      std::vector<Number> line;
      for (int64_t k = 0; k < have; ++k) line.push_back(x[static_cast<size_t>((o * have + k) * inner + i)]);
      if (from_half) {
        line[0] = line[0].real();
        if (n % 2 == 0) line.back() = line.back().real();
        for (int64_t k = have; k < n; ++k) line.push_back(std::conj(line[static_cast<size_t>(n - k)]));
      }
      for (int64_t k = 0; k < want; ++k) {
        // More exact than what is looked at.
        using Wide = long double;
        std::complex<Wide> sum = 0;
        for (int64_t j = 0; j < n; ++j)
          sum += std::complex<Wide>(line[static_cast<size_t>(j)]) *
                 std::polar(Wide{1}, (inverse ? 2 : -2) * std::numbers::pi_v<Wide> *
                                         static_cast<Wide>(j * k % n) / static_cast<Wide>(n));
        out[static_cast<size_t>((o * want + k) * inner + i)] =
            Number(inverse ? sum / static_cast<Wide>(n) : sum);
      }
    }
  return out;
}

std::shared_ptr<const Executable> compiled(const ComputationPtr& program) {
  cuda_client().kernels().set_library(kCodeGenerator);
  const auto executable = Executable::compile(cuda_device(), program);
  INFO(executable.status());
  REQUIRE(executable.ok());
  return *executable;
}

absl::StatusOr<std::vector<std::vector<std::byte>>> run(const Executable& executable, const LiteralPtr& x,
                                                        bool giving_up = false) {
  std::vector<BufferRef> in{*cuda_client().put(cuda_device(), x->data(), x->bytes())}, out;
  absl::Status status = giving_up ? executable.run_giving_up(in, out) : executable.run(in, out);
  in.clear();
  std::vector<std::vector<std::byte>> got;
  std::vector<jit::Client::Read> reads;
  for (const BufferRef& b : out) {
    got.emplace_back(static_cast<size_t>(b->bytes()));
    reads.push_back({&*b, 0, b->bytes(), got.back().data()});
  }
  if (status.ok()) status = cuda_client().read(reads, nullptr);
  if (!status.ok()) return status;
  return got;
}

// The steps of a program whose results are right.
std::string checked_steps(const Case& c) {
  const ComputationPtr program = program_of(c);
  const LiteralPtr x = random_literal(c.operand());
  const std::vector<Number> numbers = numbers_of(x->type(), x->data()), want = transformed(c, numbers);
  const auto executable = compiled(program);
  INFO(c.kind << " along " << c.axis << " of " << to_string(*c.operand()) << "\n" << executable->describe());
  const double unit = c.part == DType::kF32 ? 0x1p-23 : 0x1p-52;
  const double size = std::sqrt(static_cast<double>(c.length()));
  for (int turn = 0; turn < 4; ++turn) {
    if (standin()) standin()->set_seed(static_cast<uint64_t>(turn) + 1);
    const auto got = run(*executable, x, turn == 1);
    INFO(got.status());
    REQUIRE(got.ok());
    const std::vector<Number> found = numbers_of(program->result_types()[0], (*got)[0].data());
    const std::vector<Number> left = numbers_of(x->type(), (*got)[1].data());
    REQUIRE(found.size() == want.size());
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(found[i] - want[i]));
    CHECK(worst <= 8 * unit * (c.kind[0] == 'I' ? 1 : size));
    for (size_t i = 0; i < numbers.size(); ++i) REQUIRE(left[i] == -numbers[i]);
  }
  if (standin()) CHECK(standin_violations() == kNone);
  CHECK_FALSE(has(executable->describe(), "on the host"));
  return executable->describe();
}

}  // namespace

TEST_CASE("Fourier transforms of every kind and type are calls of cuFFT", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  for (const DType part : {DType::kF32, DType::kF64})
    for (const std::string kind : {"FFT", "IFFT", "RFFT", "IRFFT"})
      for (const Dims& dims : {Dims{8}, Dims{2}, Dims{3, 16}, Dims{2, 3, 30}, Dims{70, 4}, Dims{1, 122}}) {
        const std::string steps = checked_steps({kind, part, dims, std::ssize(dims) - 1});
        INFO(steps);
        CHECK(has(steps, "fft by cuFFT 11.2.3 in " + std::string(info(part).name)));
      }
  const std::string steps = checked_steps({"FFT", DType::kF32, Dims{2, 3, 30}, 2});
  CHECK(has(steps, "fft by cuFFT 11.2.3 in f32, 6 lines of 30, 1632 bytes beside, c64[2,3,30]"));
  CHECK(has(checked_steps({"IRFFT", DType::kF64, Dims{3, 8}, 1}),
            "irfft by cuFFT 11.2.3 in f64, 3 lines of 8, c128[3,5]"));
}

TEST_CASE("transforms have the bits of the CPU where a length is a power of 2", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  for (const DType part : {DType::kF32, DType::kF64})
    for (const std::string kind : {"FFT", "IFFT", "RFFT", "IRFFT"}) {
      const Case c{kind, part, Dims{5, 64}, 1};
      const ComputationPtr program = program_of(c);
      const std::vector<LiteralPtr> arguments{random_literal(c.operand())};
      const auto want = evaluate(*program, arguments);
      REQUIRE(want.ok());
      INFO(kind);
      check_on_cuda(program, arguments, *want);
    }
}

TEST_CASE("transforms of columns are calls with strides, of many matrices those of turned copies",
          "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  for (const std::string kind : {"FFT", "IFFT"}) {
    std::string steps = checked_steps({kind, DType::kF32, Dims{6, 5}, 0});
    INFO(steps);
    CHECK(has(steps, "fft by cuFFT 11.2.3 in f32, 5 columns of 6, "));
    CHECK_FALSE(has(steps, "calls"));
    steps = checked_steps({kind, DType::kF64, Dims{3, 8, 2, 2}, 1});
    INFO(steps);
    CHECK(has(steps, "4 columns of 8, 3 calls"));
    steps = checked_steps({kind, DType::kF32, Dims{17, 12, 3}, 1});
    INFO(steps);
    CHECK(has(steps, "51 lines of 12, of a turned copy"));
    steps = checked_steps({kind, DType::kF32, Dims{40, 12, 1}, 1});
    INFO(steps);
    CHECK(has(steps, "40 lines of 12, "));
    CHECK_FALSE(has(steps, "turned"));
  }
}

TEST_CASE("transforms along several dimensions are one call", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  struct Many {
    std::string kind;
    Dims dims;
    std::vector<int64_t> axes;  // in this order
    std::string steps;
  };
  const std::vector<Many> all{
      {"FFT", {6, 10}, {0, 1}, "fft2 by cuFFT 11.2.3 in f64, 1 arrays of 6 x 10, "},
      {"FFT", {20, 6, 10}, {2, 1}, "fft2 by cuFFT 11.2.3 in f64, 20 arrays of 6 x 10, "},
      {"IFFT", {20, 6, 10}, {1, 2}, "ifft2 by cuFFT 11.2.3 in f64, 20 arrays of 6 x 10, "},
      {"RFFT", {3, 6, 10}, {2, 1}, "rfft2 by cuFFT 11.2.3 in f64, 3 arrays of 6 x 10, "},
      {"FFT", {2, 4, 6, 10}, {1, 2, 3}, "fft3 by cuFFT 11.2.3 in f64, 2 arrays of 4 x 6 x 10, "},
      {"IFFT", {2, 4, 6, 10}, {3, 1, 2}, "ifft3 by cuFFT 11.2.3 in f64, 2 arrays of 4 x 6 x 10, "},
      {"RFFT", {2, 4, 6, 10}, {3, 2, 1}, "rfft3 by cuFFT 11.2.3 in f64, 2 arrays of 4 x 6 x 10, "},
      // Of four dimensions the last three.
      {"FFT", {2, 4, 6, 10}, {3, 2, 1, 0}, "fft3 by cuFFT 11.2.3 in f64, 2 arrays of 4 x 6 x 10, "}};
  for (const Many& many : all) {
    Dims operand = many.dims, before = many.dims;
    const Type* const type = array_type_or_die(many.kind == "RFFT" ? DType::kF64 : DType::kC128, operand);
    const auto kind_at = [&](size_t i) { return many.kind == "RFFT" && i > 0 ? "FFT" : many.kind; };
    const ComputationPtr program = *record_region(std::array{type}, [&](Builder& b, auto x) {
      Value y = x[0];
      for (size_t i = 0; i < many.axes.size(); ++i)
        y = linalg::fft_along(b, y, kind_at(i), many.dims[static_cast<size_t>(many.axes[i])], many.axes[i]);
      return Values{y, b.negate(x[0])};
    });
    const LiteralPtr x = random_literal(type);
    std::vector<Number> want = numbers_of(type, x->data());
    double size = 1;
    for (size_t i = 0; i < many.axes.size(); ++i) {
      const Case c{kind_at(i), DType::kF64, before, many.axes[i]};
      want = transformed(c, want);
      if (c.kind != "IFFT") size *= std::sqrt(static_cast<double>(c.length()));
      if (c.kind == "RFFT") before.back() = before.back() / 2 + 1;
    }
    const auto executable = compiled(program);
    INFO(executable->describe());
    CHECK(has(executable->describe(), many.steps));
    CHECK_FALSE(has(executable->describe(), "turned"));
    const size_t first = executable->describe().find("cuFFT");
    CHECK((executable->describe().find("cuFFT", first + 1) == std::string::npos) == (many.axes.size() < 4));
    for (const bool giving_up : {false, true}) {
      const auto got = run(*executable, x, giving_up);
      INFO(got.status());
      REQUIRE(got.ok());
      const std::vector<Number> found = numbers_of(program->result_types()[0], (*got)[0].data());
      REQUIRE(found.size() == want.size());
      double worst = 0;
      for (size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(found[i] - want[i]));
      CHECK(worst <= 16 * 0x1p-52 * size);
    }
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("transforms that are not of one array stay calls of their own", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  const Type* const type = array_type_or_die(DType::kC128, Dims{4, 6, 10});
  const auto steps = [&](auto record) {
    const auto executable = compiled(
        *record_region(std::array{type}, [&](Builder& b, auto x) { return Values{record(b, x[0])}; }));
    CHECK(run(*executable, random_literal(type)).ok());
    return executable->describe();
  };
  const auto along = [](Builder& b, const Value& x, const char* kind, int64_t d) {
    return linalg::fft_along(b, x, kind, x.dims()[static_cast<size_t>(d)], d);
  };
  // There and back, with a dimension between, and of what somebody else reads as well.
  for (const std::string& found :
       {steps([&](Builder&b, const Value&x) { return along(b, along(b, x, "FFT", 2), "IFFT", 1); }),
        steps([&](Builder&b, const Value&x) { return along(b, along(b, x, "FFT", 2), "FFT", 0); }),
        steps([&](Builder&b, const Value&x) {
          const Value y = along(b, x, "FFT", 2);
          return b.add(along(b, y, "FFT", 1), y);
        })}) {
    INFO(found);
    CHECK(has(found, "fft by cuFFT"));
    CHECK_FALSE((has(found, "fft2 by") || has(found, "fft3 by")));
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("without a plan of several dimensions the host has the same bits as with several calls",
          "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  for (const std::string kind : {"FFT", "IFFT", "RFFT"})
    for (const int64_t rank : {2, 3}) {
      const Type* const type =
          array_type_or_die(kind == "RFFT" ? DType::kF32 : DType::kC64, Dims{2, 4, 6, 8 + 2 * rank});
      const ComputationPtr program = *record_region(std::array{type}, [&](Builder& b, auto x) {
        Value y = x[0];
        for (int64_t d = 4; d-- > 4 - rank;)
          y = linalg::fft_along(b, y, kind == "RFFT" && d < 3 ? "FFT" : kind,
                                x[0].dims()[static_cast<size_t>(d)], d);
        return Values{y};
      });
      const std::vector<LiteralPtr> arguments{random_literal(type)};
      const auto want = evaluate(*program, arguments);
      REQUIRE(want.ok());
      standin()->fail(kStandinPlan, 0, static_cast<int>(jit::cuda::FftStatus::kInternalError));
      const auto executable = compiled(program);
      INFO(executable->describe());
      CHECK(
          has(executable->describe(), "on the host: no form for it on CUDA, without cuFFT: it has no plan"));
      const auto got = run(*executable, arguments[0]);
      REQUIRE(got.ok());
      CHECK(same_bits(*(*want)[0], (*got)[0].data()));
    }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("lengths with large prime factors are transforms of longer lines", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  for (const std::string kind : {"FFT", "IFFT", "RFFT", "IRFFT"})
    for (const int64_t n : {67, 134, 7}) {
      const std::string steps = checked_steps({kind, DType::kF64, Dims{2, n}, 1});
      INFO(steps);
      CHECK(has(steps, "fft by cuFFT"));
    }
}

TEST_CASE("nothing to transform is no call", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  for (const Dims& dims : {Dims{0, 8}, Dims{3, 1}}) {
    const Case c{"FFT", DType::kF32, dims, 1};
    const auto executable = compiled(program_of(c));
    CHECK_FALSE(has(executable->describe(), "cuFFT"));
    CHECK(run(*executable, random_literal(c.operand())).ok());
  }
  CHECK(standin_violations() == kNone);
}

TEST_CASE("transforms of one layout share a plan, which goes with the last of them", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  auto& fourier = cuda_client().fourier();
  const size_t before = fourier.plans(), devices = cuda_client().gpus().size();
  const auto compile = [](const std::string& kind, const Dims& dims) {
    return compiled(program_of({kind, DType::kF32, dims, std::ssize(dims) - 1}));
  };
  auto forward = compile("FFT", {3, 44}), back = compile("IFFT", {3, 44}), again = compile("FFT", {1, 3, 44});
  CHECK(fourier.plans() == before + devices);
  auto more = compile("FFT", {4, 44});
  CHECK(fourier.plans() == before + 2 * devices);
  // While its transforms wait.
  const LiteralPtr x = random_literal(array_type_or_die(DType::kC64, Dims{4, 44}));
  std::vector<BufferRef> in{*cuda_client().put(cuda_device(), x->data(), x->bytes())}, out;
  REQUIRE(more->run(in, out).ok());
  more = nullptr;
  forward = back = nullptr;
  standin()->drain();
  // What waited for them lets go.
  CHECK(cuda_device().stream().wait(cuda_device().stream().mark().value, nullptr).ok());
  CHECK(fourier.plans() == before + devices);
  again = nullptr;
  CHECK(fourier.plans() == before);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("transforms are in graphs", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  const Case c{"IRFFT", DType::kF32, Dims{3, 20}, 1};
  const auto executable = compiled(program_of(c));
  const LiteralPtr x = random_literal(c.operand());
  const auto first = run(*executable, x);
  REQUIRE(first.ok());
  const int64_t graphs = cuda_client().kernel_stats().graph_runs;
  for (int i = 0; i < 8; ++i) {
    const auto got = run(*executable, x);
    REQUIRE(got.ok());
    CHECK(*got == *first);
  }
  CHECK(cuda_client().kernel_stats().graph_runs > graphs);
  CHECK(standin_violations() == kNone);
}

TEST_CASE("without cuFFT transforms are the host's, and it is said why", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  const Case c{"FFT", DType::kF32, Dims{3, 8}, 1};
  const auto said = [&](const char* named, int driver = 12040) {
    const ScopedLibrary other = cufft(named, driver);
    const auto executable = compiled(program_of(c));
    const std::string steps = executable->describe(), library = cuda_client().fourier().library();
    INFO(steps);
    const std::string begin = "on the host: ";
    REQUIRE(has(library, begin));
    CHECK(has(steps, "on the host: no form for it on CUDA, without cuFFT: " + library.substr(begin.size())));
    CHECK(run(*executable, random_literal(c.operand())).ok());
    return library.substr(begin.size());
  };
  CHECK(said("") == "LAMINA_CUFFT says that there is none");
  CHECK(said("/nowhere/it.so") == "/nowhere/it.so, which LAMINA_CUFFT names, cannot be loaded");
  CHECK(said("libm.so.6") == "libm.so.6 has no cufftGetVersion");
  setenv("LAMINA_STANDIN_CUFFT", "12001", 1);
  CHECK(said(kCudaStandin) ==
        std::string(kCudaStandin) + " is for drivers of CUDA 13, and this one is older");
  CHECK(cuda_client().fourier().library() == std::string(kCudaStandin) + ", version 11.2.3");
  // Of a plan that the library refuses.
  standin()->fail(kStandinPlan, 0, static_cast<int>(jit::cuda::FftStatus::kInternalError));
  CHECK(has(compiled(program_of({"FFT", DType::kF32, Dims{3, 52}, 1}))->describe(),
            "without cuFFT: it has no plan: CUFFT_INTERNAL_ERROR"));
}

TEST_CASE("a transform that fails says so, and the next one works", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  const Case c{"FFT", DType::kF32, Dims{5, 26}, 1};
  const auto executable = compiled(program_of(c));
  const LiteralPtr x = random_literal(c.operand());
  standin()->fail(kStandinTransform, 0, static_cast<int>(jit::cuda::FftStatus::kExecFailed));
  const absl::Status failed = run(*executable, x).status();
  CHECK(failed.code() == absl::StatusCode::kInternal);
  CHECK(has(std::string(failed.message()), "cuda:0 failed transforming: CUFFT_EXEC_FAILED, in custom_call"));
  standin()->fail(kStandinTransform, 0, static_cast<int>(jit::cuda::FftStatus::kAllocFailed));
  CHECK(absl::IsResourceExhausted(run(*executable, x).status()));
  CHECK(run(*executable, x).ok());
  CHECK(standin_violations() == kNone);
}

TEST_CASE("planted: a transform does not wait for what it reads", "[cuda][cuda_fourier][planted]") {
  const CleanStandin clean;
  const Case c{"FFT", DType::kF32, Dims{5, 24}, 1};
  const auto executable = compiled(program_of(c));
  standin()->set_mistake(kStandinForgetsWaits);
  CHECK(standin_finds("nothing orders a transform of 24 numbers",
                      [&] { run(*executable, random_literal(c.operand())).IgnoreError(); }));
}

// The library's functions, called as they must not be.
TEST_CASE("planted: what cuFFT refuses", "[cuda][cuda_fourier][planted]") {
  using namespace jit::cuda;
  const CleanStandin clean;
  const auto fft = load_fft(12040);
  REQUIRE(fft.ok());
  auto& stream = static_cast<CudaStream&>(cuda_device().stream());
  const auto within = [&](auto work) { return answer_on(stream, work); };
  struct Layout {
    FftType type = FftType::kC64ToC64;
    long long length = 6, count = 4, step = 1, distance = 6, to_distance = 6;
    bool has_lengths = true, takes_memory = false;
  };
  size_t bytes = 0;
  const auto make = [&](const Layout& l, FftHandle* plan) {
    return within([&](StreamHandle) {
      fft->create(plan);
      if (!l.takes_memory) fft->set_takes_memory(*plan, 0);
      long long n = l.length;
      long long* const lengths = l.has_lengths ? &n : nullptr;
      return fft->make_plan(*plan, 1, &n, lengths, l.step, l.distance, lengths, l.step, l.to_distance, l.type,
                            l.count, &bytes);
    });
  };
  FftHandle plan = 0, bad = 0, real = 0;
  REQUIRE(make({}, &plan) == FftStatus::kSuccess);
  REQUIRE(bytes == 192);
  CHECK(make({.length = 0}, &bad) == FftStatus::kInvalidSize);
  CHECK(make({.to_distance = 5}, &bad) == FftStatus::kInvalidValue);
  long long n = 6;
  CHECK(fft->make_plan(plan, 1, &n, &n, 1, 6, &n, 1, 6, FftType::kC64ToC64, 4, &bytes) ==
        FftStatus::kInvalidPlan);
  CHECK(fft->create(&bad) == FftStatus::kSuccess);
  CHECK(fft->make_plan(bad, 1, &n, &n, 1, 6, &n, 1, 6, FftType::kC64ToC64, 4, &bytes) ==
        FftStatus::kSetupFailed);  // no context is current
  CHECK(standin_violations() == kNone);
  make({.has_lengths = false}, &bad);
  CHECK(standin_found("whose lines lie anywhere"));
  make({.takes_memory = true}, &bad);
  CHECK(standin_found("that takes memory of its own"));

  const std::vector<Number> numbers(32, 1.0);
  const BufferRef x = *cuda_client().put(cuda_device(), numbers.data(), 512),
                  y = *cuda_device().memory().allocate(512), space = *cuda_device().memory().allocate(1024);
  REQUIRE(stream.takes(x->written()).ok());
  const auto pointer = [](jit::Address at) { return reinterpret_cast<void*>(at.bits()); };
  const auto transform = [&](FftHandle of, jit::Address from, jit::Address to) {
    return within([&](StreamHandle) { return fft->c64_to_c64(of, pointer(from), pointer(to), kFftForward); });
  };
  CHECK(transform(plan, x->address(), y->address()) == FftStatus::kInvalidValue);
  CHECK(standin_found("a transform on no stream"));
  REQUIRE(within([&](StreamHandle on) { return fft->set_stream(plan, on); }) == FftStatus::kSuccess);
  CHECK(transform(plan, x->address(), y->address()) == FftStatus::kNoWorkspace);
  fft->set_workspace(plan, pointer(space->address() + 8));
  CHECK(standin_found("a work area of cuFFT that begins anywhere"));
  fft->set_workspace(plan, pointer(space->address()));
  CHECK(transform(plan, x->address(), y->address()) == FftStatus::kSuccess);
  CHECK(transform(plan, x->address(), x->address()) == FftStatus::kSuccess);
  CHECK(within([&](StreamHandle) {
          return fft->f32_to_c64(plan, pointer(x->address()), pointer(y->address()));
        }) == FftStatus::kInvalidPlan);
  CHECK(standin_violations() == kNone);
  transform(plan, x->address() + 4, y->address());
  CHECK(standin_found("begins where no complex number does"));
  transform(plan, x->address(), x->address() + 8);
  CHECK(standin_found("overlaps what it reads"));
  transform(plan, x->address() + 512, y->address());
  CHECK(standin_found("touches"));

  // The ends of these are not real, and they are lost.
  REQUIRE(make({.type = FftType::kC64ToF32, .distance = 4}, &real) == FftStatus::kSuccess);
  const std::vector<std::complex<float>> halves(16, {1.0F, 1.0F});
  const BufferRef half = *cuda_client().put(cuda_device(), halves.data(), 128);
  REQUIRE(stream.takes(half->written()).ok());
  within([&](StreamHandle on) {
    fft->set_stream(real, on);
    fft->set_workspace(real, pointer(space->address()));
    return fft->c64_to_f32(real, pointer(half->address()), pointer(y->address()));
  });
  standin()->drain();
  CHECK(standin_found("a spectrum whose ends are not real"));
  std::vector<std::complex<float>> left(16);
  const jit::Client::Read read{&*half, 0, 128, left.data()};
  REQUIRE(cuda_client().read({&read, 1}, nullptr).ok());
  CHECK(left != halves);

  transform(plan, x->address(), y->address());
  within([&](StreamHandle) { return fft->destroy(plan); });
  standin()->drain();
  CHECK(standin_found("a plan went while its transforms were waiting"));
  CHECK(fft->destroy(plan) == FftStatus::kInvalidPlan);
  within([&](StreamHandle) { return fft->destroy(real); });
}

// On any device: what an order of its own may change.
TEST_CASE("transforms by the library are as good as the CPU's", "[cuda][cuda_library]") {
  for (const DType part : {DType::kF32, DType::kF64})
    for (const std::string kind : {"FFT", "IFFT", "RFFT", "IRFFT"})
      for (const Dims& dims : {Dims{3, 1000}, Dims{5, 256}, Dims{2, 61 * 4}})
        CHECK(has(checked_steps({kind, part, dims, 1}), "fft by cuFFT"));
  CHECK(has(checked_steps({"IFFT", DType::kF32, Dims{48, 7}, 0}), "ifft by cuFFT"));
  CHECK(has(checked_steps({"FFT", DType::kF32, Dims{20, 48, 7}, 1}), "of a turned copy"));
}

// It makes no plan without a driver.
TEST_CASE("the machine's cuFFT, if there is one, says why it makes no plan", "[cuda][cuda_fourier]") {
  const CleanStandin clean;
  const ScopedLibrary real = cufft(nullptr, 99000);
  const auto fft = jit::cuda::load_fft(99000);
  if (!fft.ok()) return;
  INFO(fft->version_text());
  CHECK(std::stoi(fft->version_text()) >= 11);
  const ComputationPtr program = program_of({"FFT", DType::kF32, Dims{3, 8}, 1});
  for (const Node* node : program->nodes()) {
    if (!jit::cuda::transform_form(*node)) continue;
    const auto transform = cuda_client().fourier().plan(*node);
    REQUIRE_FALSE(transform.ok());
    INFO(transform.status());
    CHECK(has(std::string(transform.status().message()), "it has no plan: CUFFT_"));
  }
  CHECK(cuda_client().fourier().library() == fft->library + ", version " + fft->version_text());
}

}  // namespace lamina::testing
