// XLA's text from strangers: limits, absurd sizes, cycles, mutations. Everything ends at once, in words.
#include <catch2/catch.hpp>
#include <random>

#include "hlo/strings.h"
#include "hlo/xla_text/reader.h"
#include "tests/text/hostile_text.h"

namespace lamina::hlo::xla_text {
namespace {

using lamina::testing::mentions;
using lamina::testing::repeated;

// Reads the module and makes its entry; the error, or "accepted".
std::string read(const std::string& text) {
  return lamina::testing::said_at_once([&]() -> std::string {
    const absl::StatusOr<stablehlo::Module> module = parse(text);
    if (!module.ok()) return std::string(module.status().message());
    const auto program = module->program(*module->entry());
    return program.ok() ? "accepted" : std::string(program.status().message());
  });
}

std::string in_entry(const std::string& body) { return "HloModule m\nENTRY e {\n" + body + "\n}\n"; }

TEST_CASE("hostile nesting has a limit", "[xla_text]") {
  const int deep = 100000;
  mentions(read(in_entry("x = " + repeated("(", deep))), "nest deeper");
  mentions(read(in_entry("x = f32[] constant(" + repeated("{", deep))), "never closed");
  mentions(read(in_entry("x = f32[] constant(" + repeated("{", deep) + repeated("}", deep) + ")")), "f32");
  mentions(read(in_entry("x = f32[] iota(), a=" + repeated("{", deep))), "never closed");
  CHECK(read(in_entry("x = f32[] parameter(0), metadata=" + repeated("{", deep) + repeated("}", deep))) ==
        "accepted");
}

TEST_CASE("hostile modules end in words", "[xla_text]") {
  mentions(read(""), "expected 'HloModule', but the text ends");
  mentions(read("HloModule m"), "has no computation");
  mentions(read("HloModule m\na { x = f32[] parameter(0) }\nb { x = f32[] parameter(0) }"), "marked ENTRY");
  mentions(read("HloModule m\nENTRY a { x = f32[] parameter(0) }\nENTRY b { x = f32[] parameter(0) }"),
           "a second computation is marked ENTRY");
  mentions(read("HloModule m\nENTRY a { x = f32[] parameter(0) }\na { x = f32[] parameter(0) }"),
           "exists already");
  mentions(read(in_entry("")), "has no instructions");
  mentions(read(in_entry("x = f32[] parameter(0)\nx = f32[] parameter(1)")), "%x is defined already");
  mentions(read(in_entry("x = f32[] parameter(0)\ny = f32[] parameter(0)")), "a second parameter 0");
  mentions(read(in_entry("x = f32[] parameter(1)")), "no parameter 0 before parameter 1");
  mentions(read(in_entry("x = f32[] parameter(-1)")), "is not negative");
  mentions(read(in_entry("ROOT x = f32[] parameter(0)\nROOT y = f32[] parameter(1)")), "second instruction");
  mentions(read(in_entry("x = f32[] negate(y)")), "%y is not defined before");
  mentions(read(in_entry("x = f32[] negate(x)")), "%x is not defined before");
  mentions(read(in_entry("x = f32[] frobnicate()")), "the opcode 'frobnicate' is not known");
  mentions(read(in_entry("x = f32[] parameter(0)\ny = f32[] negate(x), dimensions={0}")),
           "no attribute 'dimensions'");
  mentions(read(in_entry("x = f32[] parameter(0)\ny = f32[] negate(x), sharding={}, sharding={}")),
           "a second attribute");
  mentions(read(in_entry("x = f32[] parameter(0)\ny = f32[] negate(x, x)")), "negate");
  mentions(read(in_entry("x = f32[] parameter(0)\ny = f32[] negate()")), "negate");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = f32[2] negate(f32[2])")), "print names too");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = f32[] reduce(x, x), dimensions={0}")),
           "needs to_apply");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = f32[] call(x), to_apply=nobody")),
           "no function @nobody");
  mentions(read(in_entry("x = (f32[2]) parameter(0)\ny = f32[2] get-tuple-element(x), index=1")),
           "no tuple with an element 1");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = (f32[2], f32[2]) tuple(x)")),
           "where its types give 2");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = (f32[3]) tuple(x)")), "gives f32[2], not f32[3]");
  mentions(read(in_entry("x = f8e9m9[2] parameter(0)")), "f8e9m9");
  mentions(read(in_entry("x = f32[<=5] parameter(0)")), "only while the program runs");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = f32[2] stochastic-convert(x, x)")), "random bits");
  mentions(read(in_entry("x = u64[3] rng-get-and-update-state(), delta=1")), "rng-bit-generator");
}

TEST_CASE("hostile sizes are checked before anything is made", "[xla_text]") {
  mentions(read(in_entry("x = f32[99999999999,99999999999] parameter(0)")), "more elements");
  mentions(read(in_entry("x = f32[99999999999999999999999] parameter(0)")), "out of range");
  mentions(read(in_entry("x = f32[-1] parameter(0)")), "not negative");
  mentions(read(in_entry("x = f32[" + repeated("1,", 100) + "1] parameter(0)")), "at most 64");
  mentions(read(in_entry("x = f32[1000000000000] constant({1})")), "fewer elements");
  mentions(read(in_entry("x = f32[2] parameter(0)\ny = f32[2] slice(x), slice={[0:99999999999999999999]}")),
           "out of range");
  mentions(read(in_entry("x = f32[2] parameter(0)\nz = f32[] constant(0)\ny = f32[2] pad(x, z), "
                         "padding=9223372036854775807_9223372036854775807_9223372036854775807")),
           "pad");
  mentions(
      read(in_entry("x = f32[2] parameter(0)\nz = f32[] constant(0)\ny = f32[2] pad(x, z), padding=1_1_1_1")),
      "has the form");
}

TEST_CASE("hostile calls neither loop nor explode", "[xla_text]") {
  mentions(read("HloModule m\nENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=e }"),
           "calls itself");
  mentions(read("HloModule m\na { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=b }\n"
                "b { x = f32[] parameter(0) ROOT y = f32[] fusion(x), calls=a }\n"
                "ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=a }"),
           "calls itself");
  for (const std::string_view opcode : {"call", "fusion"}) {
    const std::string_view key = opcode == "call" ? "to_apply" : "calls";
    std::string doubling = "HloModule m\n", chain = "HloModule m\n";
    for (int i = 0; i < 60; ++i)
      str_append(&doubling, "f", i, " { x = f32[] parameter(0) y = f32[] ", opcode, "(x), ", key, "=f", i + 1,
                 " ROOT z = f32[] ", opcode, "(y), ", key, "=f", i + 1, " }\n");
    doubling += "f60 { x = f32[] parameter(0) ROOT y = f32[] sine(x) }\n";
    for (int i = 0; i < 5000; ++i)
      str_append(&chain, "f", i, " { x = f32[] parameter(0) ROOT y = f32[] ", opcode, "(x), ", key, "=f",
                 i + 1, " }\n");
    chain += "f5000 { x = f32[] parameter(0) ROOT y = f32[] sine(x) }\n";
    const std::string entry =
        str_cat("ENTRY e { x = f32[] parameter(0) ROOT y = f32[] call(x), to_apply=f0 }");
    mentions(read(doubling + entry), "expanded");
    mentions(read(chain + entry), "nest deeper");
  }
}

TEST_CASE("a tuple of many arrays takes linear time", "[xla_text]") {
  constexpr int n = 40000;
  std::string type = "(", names, uses;
  for (int i = 0; i < n; ++i) {
    str_append(&type, i == 0 ? "" : ", ", "f32[2]");
    str_append(&uses, "g", i, " = f32[2] get-tuple-element(p), index=", i, "\n");
  }
  type += ")";
  CHECK(read(in_entry(str_cat("p = ", type, " parameter(0)\n", uses, "ROOT r = f32[2] add(g0, g1)"))) ==
        "accepted");
}

constexpr std::string_view kSample = R"(HloModule jit_f, entry_computation_layout={(f32[2,3]{1,0})->f32[3]{0}}

region_0.1 {
  a.1 = f32[] parameter(0)
  b.1 = f32[] parameter(1)
  ROOT c.1 = f32[] add(a.1, b.1)
}

step { p = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(p), index=0 x = f32[3] get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(i, one) ROOT r = (s32[], f32[3]) tuple(j, x) }
more { p = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }

ENTRY main.2 {
  x.1 = f32[2,3]{1,0} parameter(0)
  z = f32[] constant(-inf), metadata={op_name="f" source_file="a.py" source_line=3}
  s = f32[2,2]{1,0} slice(x.1), slice={[0:2], [0:3:2]}
  w = f32[2,3] reduce-window(x.1, z), window={size=1x2 pad=0_0x1_0}, to_apply=region_0.1
  d = f32[2,2] dot(x.1, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  t = f32[3,2]{0,1} bitcast(w)
  y = f32[3] reduce(w, z), dimensions={0}, to_apply=region_0.1
  k = s32[] constant(0)
  u = (s32[], f32[3]) tuple(k, y)
  l = (s32[], f32[3]) while(u), condition=more, body=step
  ROOT r = f32[3] get-tuple-element(l), index=1
}
)";

TEST_CASE("a damaged text never crashes the reader", "[xla_text]") {
  REQUIRE(read(std::string(kSample)) == "accepted");
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  constexpr std::string_view kPieces[] = {
      "{",     "}",  "(",  ")", "[", "]",   ",",  "=",   "-", "%", "99999999999999999999",
      "ROOT ", "/*", "\"", "x", "0", "f32", "<=", "nan("};
  for (int round = 0; round < 4000; ++round) {
    std::string text(kSample);
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, 1 + below(20));
          break;
        case 1:
          text.insert(at, kPieces[below(std::size(kPieces))]);
          break;
        case 2:
          text[at] = static_cast<char>(below(256));
          break;
        default:
          text.insert(at, text.substr(below(text.size()), below(40)));
      }
    }
    const std::string said = read(text);
    if (said != "accepted" && said.find(':') > 8) {
      INFO(text);
      INFO(said);
      CHECK(false);
    }
  }
  for (size_t end = 0; end < kSample.size(); end += 3) read(std::string(kSample.substr(0, end)));
}

}  // namespace
}  // namespace lamina::hlo::xla_text
