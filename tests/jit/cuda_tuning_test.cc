// Algorithms of cublasLt and cuDNN that are chosen by their times, which the stand-in has as a test sets
// them.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "jit/cuda/tuning.h"
#include "tests/jit/executable_testing.h"
#include "tests/jit/program_text.h"

namespace lamina::testing {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

// A directory of its own for what is kept, and times that are asked for.
class ScopedTuning {
 public:
  ScopedTuning() : directory_(fs::temp_directory_path() / str_cat("lamina_tuning_", getpid())) {
    fs::remove_all(directory_);
    if (const char* set = std::getenv("LAMINA_CACHE_DIR")) before_ = set;
    setenv("LAMINA_CACHE_DIR", directory_.c_str(), 1);
    set(true);
  }
  ~ScopedTuning() {
    set(false);
    before_ ? setenv("LAMINA_CACHE_DIR", before_->c_str(), 1) : unsetenv("LAMINA_CACHE_DIR");
    fs::remove_all(directory_);
  }
  ScopedTuning(const ScopedTuning&) = delete;
  ScopedTuning& operator=(const ScopedTuning&) = delete;

  static void set(bool on) { on ? setenv("LAMINA_CUDA_TUNE", "1", 1) : unsetenv("LAMINA_CUDA_TUNE"); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    if (fs::exists(directory_))
      for (const fs::directory_entry& e : fs::directory_iterator(directory_)) out.push_back(e.path());
    return out;
  }

 private:
  const fs::path directory_;
  std::optional<std::string> before_;
};

struct Planned {
  std::string steps;
  float number = 0;  // of the result
  int64_t timings = 0;
};
Planned planned(const std::string& text, const std::vector<std::vector<float>>& arguments) {
  standin()->take_counts();
  const ComputationPtr program = parsed(text);
  const auto executable = Executable::compile(cuda_device(), program);
  REQUIRE(executable.ok());
  Planned out{(*executable)->describe(), 0, standin()->take_counts().timings};
  std::vector<BufferRef> in, results;
  for (const std::vector<float>& a : arguments)
    in.push_back(*cuda_client().put(cuda_device(), a.data(), static_cast<int64_t>(a.size() * sizeof(float))));
  REQUIRE((*executable)->run(in, results).ok());
  const jit::Client::Read first{&*results[0], 0, sizeof out.number, &out.number};
  REQUIRE(cuda_client().read({&first, 1}, nullptr).ok());
  CHECK(standin_violations() == std::vector<std::string>());
  return out;
}

// 1 and two numbers of half a unit in its last place: 1 where these are added to it one by one, more where
// they come first.
Planned product(bool has_bias = false) {
  const std::string text = str_cat(
      "computation main(p0: f32[4,3], p1: f32[3,4], p2: f32[4]) -> (f32[4,4]) {\n"
      "  v0 = f32[4,4] dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]\n"
      "  v1 = f32[4,4] broadcast_in_dim(p2), shape=[4,4], broadcast_dimensions=[1]\n"
      "  v2 = f32[4,4] add(v0, v1)\n  return (",
      has_bias ? "v2" : "v0", ")\n}\n");
  std::vector<float> left;
  for (int row = 0; row < 4; ++row) left.insert(left.end(), {1, 0x1p-24F, 0x1p-24F});
  return planned(text, {left, std::vector<float>(12, 1), std::vector<float>(4, 0)});
}
constexpr float kInTurn = 1, kBackwards = 1 + 0x1p-23F;

}  // namespace

TEST_CASE("without the option nothing is timed, and the first algorithm serves", "[cuda][cuda_tuning]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ScopedTuning tuning;
  ScopedTuning::set(false);
  standin()->set_time(11, 5);
  const Planned found = product();
  CHECK(found.timings == 0);
  CHECK(has(found.steps, "algorithm 11"));
  CHECK_FALSE(has(found.steps, "quickest"));
  CHECK(found.number == kInTurn);
  CHECK(tuning.files().empty());
}

TEST_CASE("an algorithm that gains more than two per cent is taken, and its bits", "[cuda][cuda_tuning]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  for (const auto& [first, other, is_other] :
       {std::tuple(1.0, 0.97, true), std::tuple(1.0, 0.985, false), std::tuple(1.0, 1.5, false)}) {
    const ScopedTuning tuning;
    standin()->set_time(11, first);
    standin()->set_time(41, other);
    const Planned found = product();
    INFO(found.steps);
    // The devices are of one kind: the second takes what the first has chosen.
    CHECK(found.timings == 2 * 6);
    CHECK(has(found.steps, is_other ? "algorithm 41" : "algorithm 11"));
    CHECK(has(found.steps, ", the quickest of 2"));
    CHECK(found.number == (is_other ? kBackwards : kInTurn));
    CHECK(tuning.files().size() == 1);
  }
}

TEST_CASE("a product with a bias is timed with it, and chosen for by itself", "[cuda][cuda_tuning]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ScopedTuning tuning;
  CHECK(has(product().steps, "algorithm 11"));
  standin()->set_time(41, 0.5);
  const Planned found = product(true);
  INFO(found.steps);
  CHECK(found.timings == 2 * 6);
  CHECK(has(found.steps, "algorithm 41"));
  CHECK(has(found.steps, ", with a bias"));
  CHECK(found.number == kBackwards);
  CHECK(has(product().steps, "algorithm 11"));
  CHECK(tuning.files().size() == 2);
}

TEST_CASE("what was chosen is kept: later times change nothing, and none are taken", "[cuda][cuda_tuning]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const ScopedTuning tuning;
  standin()->set_time(41, 0.5);
  const auto is_chosen = [](const char* algorithm, int64_t timings) {
    const Planned found = product();
    INFO(found.steps);
    CHECK(found.timings == timings);
    CHECK(has(found.steps, algorithm));
  };
  is_chosen("algorithm 41", 2 * 6);
  standin()->set_time(41, 2);
  is_chosen("algorithm 41", 0);
  REQUIRE(tuning.files().size() == 1);
  const fs::path file = tuning.files()[0];
  const auto write = [&](auto change) {
    std::ifstream in(file, std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    change(bytes);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  };
  // What is damaged is measured again, and written anew.
  write([](std::string& bytes) { bytes.back() = static_cast<char>(~bytes.back()); });
  is_chosen("algorithm 11", 2 * 6);
  is_chosen("algorithm 11", 0);
  write([](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  standin()->set_time(41, 0.5);
  is_chosen("algorithm 41", 2 * 6);
  CHECK(tuning.files().size() == 1);
  // What another version of the library has chosen is not looked at.
  setenv("LAMINA_STANDIN_CUBLASLT", "120403", 1);
  standin()->set_time(41, 2);
  is_chosen("algorithm 11", 2 * 6);
  unsetenv("LAMINA_STANDIN_CUBLASLT");
  is_chosen("algorithm 41", 0);
  CHECK(tuning.files().size() == 2);
}

TEST_CASE("an algorithm that the library does not name is no choice", "[cuda][cuda_tuning]") {
  const CleanStandin clean;
  const ScopedTuning tuning;
  jit::cuda::Gpu& gpu = *cuda_client().gpus()[0];
  const int64_t bytes[] = {256};
  int64_t runs = 0;
  const auto named = [&](const std::string& name) {
    return jit::cuda::TimedAlgorithm{name, [&](jit::cuda::StreamHandle, std::span<const jit::Address>) {
                                       ++runs;
                                       return absl::OkStatus();
                                     }};
  };
  const auto failing = jit::cuda::TimedAlgorithm{
      "none",
      [](jit::cuda::StreamHandle, std::span<const jit::Address>) { return absl::InternalError("no"); }};
  const std::vector one{named("a")}, two{named("a"), named("b")}, other{named("c"), named("d")},
      first_fails{failing, named("b")};
  CHECK(quickest(gpu, "it", bytes, one) == 0);
  CHECK(runs == 0);
  CHECK(quickest(gpu, "it", bytes, two) == 0);
  CHECK(runs == 2 * 6);
  CHECK(quickest(gpu, "it", bytes, other) == 0);
  CHECK(runs == 4 * 6);
  CHECK(quickest(gpu, "it", bytes, std::vector{named("d"), named("c")}) == 1);
  CHECK(runs == 4 * 6);
  CHECK(quickest(gpu, "another", bytes, first_fails) == 1);
  // Nothing is kept where nothing could be measured.
  standin()->fail(kStandinEvent, 0, static_cast<int>(jit::cuda::Result::kOutOfMemory));
  CHECK(quickest(gpu, "a third", bytes, two) == 0);
  CHECK(tuning.files().size() == 2);
  CHECK(standin_violations() == std::vector<std::string>());
}

TEST_CASE("convolutions take the quickest engine, with its bits", "[cuda][cuda_tuning]") {
  const CleanStandin clean;
  const ScopedLeastWork all(0);
  const std::string text =
      "computation main(p0: f32[1,8,1,1], p1: f32[1,8,1,1]) -> (f32[1,1,1,1]) {\n"
      "  v0 = f32[1,1,1,1] convolution(p0, p1), input_batch_dimension=0, input_feature_dimension=1, "
      "input_spatial_dimensions=[2,3], kernel_input_feature_dimension=1, kernel_output_feature_dimension=0, "
      "kernel_spatial_dimensions=[2,3], output_batch_dimension=0, output_feature_dimension=1, "
      "output_spatial_dimensions=[2,3], feature_group_count=1, batch_group_count=1, mode=1\n  return "
      "(v0)\n}\n";
  const std::vector<std::vector<float>> arguments{std::vector<float>(8, 1 + 0x1p-11F),
                                                  std::vector<float>(8, 1)};
  for (const bool is_exact : {false, true}) {
    const ScopedTuning tuning;
    standin()->set_time(70, is_exact ? 0.5 : 0.99);
    const Planned found = planned(text, arguments);
    INFO(found.steps);
    CHECK(found.timings > 0);
    CHECK(has(found.steps, is_exact ? "in f32, forward, engine 70" : "in tf32, forward, engine 38"));
    CHECK(has(found.steps, ", the quickest of "));
    // 1 + 2^-11 is no number of TF32, 1 + 2^-10 is.
    CHECK(found.number == (is_exact ? 8 + 0x1p-8F : 8 + 0x1p-7F));
    standin()->set_time(70, is_exact ? 2 : 0.5);
    const Planned again = planned(text, arguments);
    CHECK(again.timings == 0);
    CHECK(again.number == found.number);
  }
}

}  // namespace lamina::testing
