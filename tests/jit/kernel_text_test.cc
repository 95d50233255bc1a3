// Kernel texts: print and parse are inverse, and what is read is verified or refused with its place.
#include <absl/strings/str_cat.h>

#include <catch2/catch.hpp>

#include "tests/jit/kernel_util.h"

using namespace lamina::jit;

namespace {

// Every kind of line.
constexpr char kText[] =
    R"(kernel 1 parallel 1 reduce 1 args 6
  b0: f32
  b1: s32 out
  b2: f32
  x0: b0[a3 + i0*a4 + i1]
  x1: b1[0+1 + i0*-3]
  x2: b2[0]
body
  %0 = s64 arg a5
  %1 = s64 index i1
  %2 = pred lt %1, %0
  %3 = f32 load x0 if %2
  %4 = f32 constant 0x3f800000
  %5 = f32 load_at b2 %1 if %2
  %6 = s64 repeat p0
  %7 = f32 repeated %6 c0
  %8 = f32 add %7, %5
reduce %8, %1 init x2, x3
  combine (f32, s64, f32, s64)
  %4 = pred lt %0, %2
  %5 = f32 select %4, %2, %0
  %6 = s64 select %4, %3, %1
  return %5, %6
epilogue
  %0 = s64 reduced r1
  %1 = s32 convert %0
repeat p0 while from %3
  %0 = f32 carried c0
  %1 = f32 outer %4
  %2 = pred lt %0, %1
 condition %2
  %0 = f32 carried c0
  %1 = f32 add %0, %0
 next %1
stores
  x1 = %1
end
)";

// The text with `x2, x3` as the two inits that its reduction needs.
std::string full_text() {
  std::string text = kText;
  text.replace(text.find("init x2, x3"), 11, "init x2 x3");
  text.replace(text.find("  x2: b2[0]\n"), 12, "  x2: b2[0]\n  x3: b3[0]\n");
  text.replace(text.find("  b2: f32\n"), 10, "  b2: f32\n  b3: s64\n");
  return text;
}

std::string message(std::string_view text) {
  const absl::StatusOr<LoopKernel> kernel = parse_kernel(text);
  return kernel.ok() ? "" : std::string(kernel.status().message());
}

}  // namespace

TEST_CASE("a text with every kind of line reads back byte for byte", "[kernel_text]") {
  const absl::StatusOr<LoopKernel> kernel = parse_kernel(full_text());
  INFO(message(full_text()));
  REQUIRE(kernel.ok());
  CHECK(to_string(*kernel) == full_text());
  CHECK(kernel->repeats.size() == 1);
  CHECK_FALSE(kernel->repeats[0].counted);
  CHECK(kernel->body[3].predicated);
}

TEST_CASE("a changed text is another kernel or an error with its place, never the same kernel",
          "[kernel_text]") {
  const std::string text = full_text();
  int64_t accepted = 0, refused = 0;
  const auto check = [&](const std::string& changed) {
    const absl::StatusOr<LoopKernel> kernel = parse_kernel(changed);
    if (kernel.ok()) {
      ++accepted;
      REQUIRE(to_string(*kernel) == changed);
      return;
    }
    ++refused;
    const std::string what(kernel.status().message());
    INFO(changed << what);
    REQUIRE(what.find(':') != std::string::npos);
    REQUIRE(what.find_first_not_of("0123456789") == what.find(':'));
  };
  for (size_t at = 0; at < text.size(); ++at) {
    for (char c : std::string_view("0129 %abx,\n")) {
      std::string changed = text;
      if (changed[at] == c) continue;
      changed[at] = c;
      check(changed);
    }
    check(text.substr(0, at));
    check(text.substr(0, at) + text.substr(at + 1));
    check(text.substr(0, at) + text[at] + text.substr(at));
  }
  CHECK(accepted > 80);
  CHECK(refused > 5000);
}

TEST_CASE("faults of a kernel text are named with line and column", "[kernel_text]") {
  std::string text = full_text();
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  CHECK(message(with("kernel 1", "kernel 2")) == "1:1: expected 'kernel 1 parallel '");
  CHECK(message(with("add %7", "sum %7")) == "19:12: no such instruction");
  CHECK(message(with("b0: f32", "b0: f31")) == "2:7: expected an element type");
  CHECK(message(with("b1: s32", "b2: s32")) == "3:1: expected '  b1'");
  CHECK(message(with("0+1", "0+0")).find("a zero that is not written") != std::string::npos);
  CHECK(message(with("0+1", "0+8")).find("expected a number up to 7") != std::string::npos);
  CHECK(message(with("*-3", "*1")).find("a known stride that is written otherwise") != std::string::npos);
  CHECK(message(with("*-3", "*-9")).find("expected a number up to 8") != std::string::npos);
  CHECK(message(with("args 6", "args 06")) == "1:35: expected a number up to 1048576");
  CHECK(message(with("0x3f800000", "0x03f800000")).find("without leading zeros") != std::string::npos);
  CHECK(message(with("lt %1, %0", "lt %1, %9")) ==
        "1:1: malformed kernel: body %2: operand %9 is not defined yet");
  CHECK(message(text + "\n").find("text after the end") != std::string::npos);
  CHECK(message("").find("1:1: ") == 0);
}

TEST_CASE("kernel texts past their limits are refused before they cost memory", "[kernel_text]") {
  CHECK(message(std::string(kMaxKernelText + 1, 'k')) == "1:1: a kernel text of more than 1 MiB");
  std::string text = "kernel 1 parallel 0 reduce 0 args 0\nbody\nstores\n";
  for (size_t i = 0; i <= kMaxKernelInstrs; ++i) text += "  x0 = %0\n";
  CHECK(message(text) ==
        absl::StrCat(kMaxKernelInstrs + 4, ":1: more than ", kMaxKernelInstrs, " instructions"));
  CHECK(message("kernel 1 parallel 33 reduce 0 args 33\n").find("expected a number up to 32") !=
        std::string::npos);
}

TEST_CASE("schedules read back and anything else is refused", "[kernel_text]") {
  for (ReduceForm form : {ReduceForm::kAlongReduced, ReduceForm::kAcrossParallel})
    for (bool tiles : {false, true})
      for (bool streams : {false, true})
        for (int lanes : {0, 4, 8, 16}) {
          const Schedule schedule{form, tiles, streams, lanes};
          const absl::StatusOr<Schedule> read = parse_schedule(to_string(schedule));
          REQUIRE(read.ok());
          CHECK(*read == schedule);
        }
  for (const char* text : {"", "schedule cpu", "schedule cpu reduce=along", "schedule gpu reduce=along\n"})
    CHECK_FALSE(parse_schedule(text).ok());
}
