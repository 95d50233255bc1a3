// Plan files: what comes back, and that no bytes whatever crash a reader, be their checksum right or wrong.
#include "jit/program/plan_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "hlo/parser.h"
#include "hlo/printer.h"
#include "jit/client/client.h"
#include "jit/cpu/cpu_features.h"
#include "jit/cpu/object_code.h"
#include "jit/program/executable.h"
#include "jit/program/listing.h"

using namespace lamina;
using jit::PlanFile;

namespace {

constexpr const char* kProgram = R"(
computation r0(p0: f32[], p1: f32[]) -> (f32[]) {
  v0 = f32[] add(p0, p1)
  return (v0)
}
computation main(p0: f32[2,3], p1: f32[3]) -> (f32[2], f32[2,3]) {
  v0 = f32[] constant(0)
  v1 = f32[2,3] broadcast_in_dim(p1), shape=[2,3], broadcast_dimensions=[1]
  v2 = f32[2,3] multiply(p0, v1)
  v3 = f32[2] reduce(v2, v0), dimensions=[1], body=r0
  return (v3, v2)
}
)";

PlanFile sample(bool with_code) {
  PlanFile file;
  file.name = "sample";
  file.structure = R"({"in": []})";
  file.program = *hlo::parse(kProgram);
  const auto port = [&](const hlo::Value& v, const char* path) {
    return PlanFile::Port{v.type(), false, false, path};
  };
  file.arguments = {port(file.program->parameters()[0], "x['a']")};
  file.arguments[0].given_up = true;
  for (const hlo::Value& r : file.program->roots()) file.results.push_back(port(r, ""));
  const float captured[] = {1, -0.0f, 3};
  file.captured = {std::string(reinterpret_cast<const char*>(captured), sizeof(captured))};
  file.machine = "x86_64 avx2";
  if (!with_code) return file;
  jit::Device& device = jit::host_device();
  const auto executable = jit::Executable::of_simplified(device, file.program);
  REQUIRE(executable.ok());
  for (const jit::KernelText* kernel : jit::kernels_of(**executable))
    file.kernels.push_back({*kernel, std::string(100, '\xc3'), 3});
  REQUIRE(!file.kernels.empty());
  return file;
}

// With the checksum of what is in it, so that what is behind the checksum is reached.
void seal(std::string& bytes) {
  constexpr size_t kHeader = 40, kSize = 16, kSum = 24;
  if (bytes.size() < kHeader) return;
  const uint64_t size = bytes.size();
  const XXH128_hash_t sum = XXH3_128bits_withSeed(bytes.data() + kHeader, size - kHeader, size);
  std::memcpy(bytes.data() + kSize, &size, sizeof(size));
  std::memcpy(bytes.data() + kSum, &sum, sizeof(sum));
}

}  // namespace

TEST_CASE("a plan file gives back what was written", "[plan_file]") {
  const PlanFile file = sample(true);
  const auto bytes = jit::to_bytes(file);
  REQUIRE(bytes.ok());
  const auto back = jit::parse_plan_file(*bytes);
  REQUIRE(back.ok());
  CHECK(back->name == file.name);
  CHECK(back->structure == file.structure);
  CHECK(back->arguments == file.arguments);
  CHECK(back->results == file.results);
  CHECK(back->program == file.program);
  CHECK(back->captured == file.captured);
  CHECK(back->machine == file.machine);
  REQUIRE(back->kernels.size() == file.kernels.size());
  for (size_t i = 0; i < file.kernels.size(); ++i) {
    CHECK(back->kernels[i].kernel.text == file.kernels[i].kernel.text);
    CHECK(back->kernels[i].kernel.schedule == file.kernels[i].kernel.schedule);
    CHECK(back->kernels[i].image == file.kernels[i].image);
    CHECK(back->kernels[i].entry == 3);
  }
  CHECK(*jit::to_bytes(*back) == *bytes);
}

// The number that readers compare is made of this text. Where it changes, so does the number, and old files
// are refused; where what is in a file changes and this does not, a line of it has to (kMeanings).
TEST_CASE("the format of a plan file is that of its layout", "[plan_file]") {
  CHECK(jit::plan_file_layout() ==
        R"(name: bytes
structure: bytes
arguments: list
  element type: bytes
  dims: list
    each: number
  flags: number
  path: bytes
results: list
  element type: bytes
  dims: list
    each: number
  flags: number
  path: bytes
program: bytes
captured: list
  each: bytes
machine: bytes
kernels: list
  text: bytes
  schedule: bytes
  entry: number
  image: bytes
flags: 1 weak, 2 given up
program: text, version 1
kernels' text: version 1, schedule: version 1
entry: s32 (buffers, args, outer begin, outer end, inner begin, inner end, cancel)
)");
  CHECK(jit::plan_file_format() == 0x0f88057d);
  // All bytes of a file whose parts are given, the program's text as it is printed.
  PlanFile file = sample(false);
  file.kernels.push_back({{"kernel", jit::Schedule{}}, "image", 3});
  const std::string bytes = *jit::to_bytes(file);
  uint32_t format = 0;
  std::memcpy(&format, bytes.data() + 8, sizeof(format));
  CHECK(format == jit::plan_file_format());
  CHECK(XXH3_64bits(bytes.data(), bytes.size()) == 0x70828d6bd1b4cab0);
}

TEST_CASE("a program of another shape than its file says is refused", "[plan_file]") {
  for (const int what : {0, 1, 2, 3}) {
    PlanFile file = sample(false);
    if (what == 0) file.captured.clear();
    if (what == 1) file.captured[0].pop_back();
    if (what == 2) file.results.pop_back();
    if (what == 3) std::swap(file.results[0], file.results[1]);
    const auto bytes = jit::to_bytes(file);
    CHECK(bytes.status().code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("what calls the host cannot be written", "[plan_file]") {
  const auto program = hlo::parse(
      "computation main(p0: f32[2]) -> (f32[2]) {\n"
      "  v0 = f32[2] custom_call(p0), call_target_name=\"nobody\", result_types=[f32[2]]\n"
      "  return (v0)\n}\n");
  INFO(program.status());
  REQUIRE(program.ok());
  CHECK(absl::IsUnimplemented(jit::without_process(*program).status()));
}

TEST_CASE("no bytes crash the reader, whether their checksum is right or not", "[plan_file]") {
  const std::string good = *jit::to_bytes(sample(true));
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  int read = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = good;
    for (size_t changes = 1 + below(3); changes > 0; --changes) {
      const size_t at = 40 + below(bytes.size() - 40);
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 1:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.erase(at, 1 + below(40));
          break;
        case 3:
          bytes.insert(at, good, below(good.size()), 1 + below(40));
          break;
        default: {  // a length or a count
          const uint64_t number = uint64_t{1} << below(64);
          if (bytes.size() - at >= sizeof(number)) std::memcpy(bytes.data() + at, &number, sizeof(number));
        }
      }
      if (bytes.size() < 41) bytes = good;
    }
    if (bytes != good) CHECK_FALSE(jit::parse_plan_file(bytes).ok());
    seal(bytes);
    const auto file = jit::parse_plan_file(bytes);
    if (!file.ok()) {
      ++refused;
      CHECK(!file.status().message().empty());
      continue;
    }
    ++read;
    CHECK(jit::to_bytes(*file).ok());
    CHECK(jit::Executable::of_simplified(jit::host_device(), file->program).ok());
  }
  CHECK(read > 100);
  CHECK(refused > 1000);
}

TEST_CASE("objects that are none are refused", "[plan_file]") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::string bytes(
        "\x7f"
        "ELF\x02\x01\x01",
        7);
    bytes.resize(64 + round, '\0');
    for (size_t i = 16; i < bytes.size(); ++i) bytes[i] = static_cast<char>(random());
    CHECK_FALSE(jit::link_object(bytes).ok());
  }
  CHECK_FALSE(jit::link_object("").ok());
  CHECK_FALSE(jit::MappedCode::map("", 0).ok());
  CHECK_FALSE(jit::MappedCode::map("abc", 3).ok());
}

TEST_CASE("machines are told by what they must have", "[plan_file]") {
  const auto line = jit::machine_line("x86_64-pc-linux-gnu znver4 +avx2,-sha,+avx512f,+rdrnd 512");
  REQUIRE(line.ok());
  CHECK(*line == "x86_64 avx2 avx512f");
  CHECK(jit::machine_line("x86_64-pc-linux-gnu x86-64-v3  256")->find("f16c") != std::string::npos);
  CHECK(absl::IsUnimplemented(jit::machine_line("aarch64-linux-gnu generic +neon 128").status()));
  CHECK(absl::IsUnimplemented(jit::machine_line("x86_64-pc-linux-gnu znver4  512").status()));
  const absl::Status other = jit::check_machine_line("x86_64 sse2 warp_drive");
  CHECK(absl::IsFailedPrecondition(other));
#if defined(__x86_64__)
  CHECK(other.message().find("no warp_drive") != absl::string_view::npos);
#endif
  CHECK(jit::check_machine_line("aarch64 neon").message().find("aarch64") != absl::string_view::npos);
  CHECK_FALSE(jit::check_machine_line("").ok());
}
