// What the parser says of wrong text, what it takes beyond the printer's form, and numbers to the bit.
#include "hlo/parser.h"

#include <catch2/catch.hpp>

#include "hlo/builder.h"
#include "hlo/literal_text.h"
#include "hlo/location.h"
#include "hlo/narrow.h"
#include "hlo/printer.h"

namespace lamina::hlo {
namespace {

using Catch::Matchers::Equals;

std::string error(std::string_view text, const ParseLimits& limits = {}) {
  const absl::StatusOr<ComputationPtr> c = parse(text, limits);
  return c.ok() ? "parsed" : std::string(c.status().message());
}
// Of the body of a program with parameters p: f32[2,3] and i: s32[].
std::string error_in(std::string_view body) {
  return error("computation main(p: f32[2,3], i: s32[]) -> (f32[2,3]) {\n" + std::string(body) +
               "\n  return (p)\n}");
}

TEST_CASE("errors of the parser name the place and the fault", "[parser]") {
  CHECK_THAT(error(""), Equals("1:1: expected 'computation', but the text ends"));
  CHECK_THAT(error("  // nothing\n func"), Equals("2:2: expected 'computation', not 'func'"));
  CHECK_THAT(error("computation main(x) -> () {}"), Equals("1:19: expected ':', not ')'"));
  CHECK_THAT(error("computation main(x: f33[]) -> () {}"),
             Equals("1:21: expected an element type, not 'f33'"));
  CHECK_THAT(error("computation main(x: f32[-1]) -> () {}"),
             Equals("1:21: shape [-1] has the negative dimension -1"));
  CHECK_THAT(error("computation main(x: f32[2,"), Equals("1:27: expected an integer, but the text ends"));
  CHECK_THAT(error("computation main(x: f32[99999999999999999999]) -> () {}"),
             Equals("1:25: an integer is out of range"));
  CHECK_THAT(error("computation main(x: (f32[], s32[])) -> () {}"),
             Equals("1:21: a parameter cannot be a tuple"));
  CHECK_THAT(error("computation main(x: f32[], x: f32[]) -> () {}"), Equals("1:28: 'x' is defined already"));
  CHECK_THAT(error("computation main(x: f32[]) -> (f32[]) { return (x, x) }"),
             Equals("1:48: returns 2 values where 1 are declared"));
  CHECK_THAT(error("computation main(x: f32[]) -> (s32[]) { return (x) }"),
             Equals("1:48: result 0 is f32[] where s32[] is declared"));
  CHECK_THAT(error("computation a() -> () { return () } computation a() -> () { return () }"),
             Equals("1:49: the computation a exists already"));
  CHECK_THAT(error("computation a() -> () { return () } ?"), Equals("1:37: expected 'computation', not '?'"));
  CHECK_THAT(error(std::string("computation a() -> () { \x01")),
             Equals("1:25: expected an operation or 'return', not 'byte 1'"));

  CHECK_THAT(error_in("x = f32[2,3] expo(p)"), Equals("2:14: there is no operation 'expo'"));
  CHECK_THAT(error_in("x = f32[2,3] negate(q)"), Equals("2:21: there is no value 'q' here"));
  CHECK_THAT(error_in("x = f32[2,3] negate(f32[2] p)"), Equals("2:28: p is f32[2,3], not f32[2]"));
  CHECK_THAT(error_in("x = f32[3,2] negate(p)"), Equals("2:5: negate gives f32[2,3], not f32[3,2]"));
  CHECK_THAT(error_in("x = negate(p, p)"), Equals("2:5: negate takes 1 operands, not 2"));
  CHECK_THAT(error_in("x = add(p, i)"), Equals("2:5: add(f32[2,3], s32[]): shapes [2,3] and [] differ"));
  CHECK_THAT(error_in("x = negate(p) negate(p)"), Equals("2:21: expected '=', not '('"));
  CHECK_THAT(error_in("p = negate(p)"), Equals("2:1: 'p' is defined already"));
  CHECK_THAT(error_in("x = convert(p)"), Equals("2:5: convert needs the attribute dtype"));
  CHECK_THAT(error_in("x = convert(p), shape=[1]"), Equals("2:17: convert has no attribute 'shape'"));
  CHECK_THAT(error_in("x = convert(p), dtype=f32, dtype=f32"),
             Equals("2:28: the attribute dtype is given twice"));
  CHECK_THAT(error_in("x = convert(p), dtype=7"), Equals("2:23: expected an element type, not '7'"));
  CHECK_THAT(error_in("x = reshape(p), shape=[2 3]"), Equals("2:26: expected ',' or ']', not '3'"));
  CHECK_THAT(error_in("x = call(p), body=r9"), Equals("2:19: there is no computation 'r9' above"));
  CHECK_THAT(error_in("x = negate(p), mode=256"), Equals("2:16: the mode lies in 0..255"));
  CHECK_THAT(error_in("x = compare(p, p), direction=LT"),
             Equals("2:30: expected text in double quotes, not 'LT'"));
  CHECK_THAT(error_in("x = compare(p, p), direction=\"LT"),
             Equals("2:30: the string does not end on its line"));
  CHECK_THAT(error_in("x = compare(p, p), direction=\"\\q\""), Equals("2:32: unknown escape \\q"));
  CHECK_THAT(error_in("x = compare(p, p), direction=\"\\x1\""),
             Equals("2:33: \\x needs two hexadecimal digits"));
  CHECK_THAT(error_in("x = negate(p) @\"a\":-1"), Equals("2:20: the line number is out of range"));
  CHECK_THAT(error_in("x = sort(p, p), dimension=1, body=r"),
             Equals("2:35: there is no computation 'r' above"));
  CHECK_THAT(error_in("x = optimization_barrier(p, i)"),
             Equals("2:1: optimization_barrier has 2 results: name them (a, b, ...)"));
  CHECK_THAT(error_in("(x, y, z) = optimization_barrier(p, i)"),
             Equals("2:13: optimization_barrier has 2 results, not the 3 named"));
  CHECK_THAT(error_in("x = parameter()").substr(0, 16), Equals("2:5: parameter()"));

  CHECK_THAT(error_in("c = constant(1)"), Equals("2:5: a constant needs an array type before it"));
  CHECK_THAT(error_in("c = f32[] constant(one)"), Equals("2:20: 'one' is no number of type f32"));
  CHECK_THAT(error_in("c = u8[] constant(256)"), Equals("2:19: '256' is no number of type u8"));
  CHECK_THAT(error_in("c = u8[] constant(-1)"), Equals("2:19: '-1' is no number of type u8"));
  CHECK_THAT(error_in("c = f32[] constant(nan:0x7f800000)"),
             Equals("2:20: 'nan:0x7f800000' is no number of type f32"));
  CHECK_THAT(error_in("c = f32[] constant(1e99)"), Equals("2:20: '1e99' is no number of type f32"));
  CHECK_THAT(error_in("c = f32[2,2] constant({{1, 2}, {3}})"), Equals("2:34: expected ',', not '}'"));
  CHECK_THAT(error_in("c = f32[2] constant({...})"), Equals("2:22: '...' is no number of type f32"));
  CHECK_THAT(error_in("c = f32[0] constant({1})"), Equals("2:22: expected '}', not '1'"));
  CHECK_THAT(error_in("c = c64[] constant(1)"), Equals("2:20: expected '(', not '1'"));
}

TEST_CASE("limits of the parser", "[parser]") {
  ParseLimits limits;
  limits.literal_bytes = 1000;
  limits.all_literal_bytes = 1500;
  auto program = [](std::string_view body) {
    return "computation main() -> () {\n" + std::string(body) + "\nreturn ()\n}";
  };
  CHECK(error(program("a = f64[125] constant(splat(1))"), limits) == "parsed");
  CHECK_THAT(error(program("a = f64[126] constant(splat(1))"), limits),
             Catch::Matchers::Contains("above the limit"));
  CHECK_THAT(error(program("a = f64[288230376151711744] constant(splat(1))"), limits),
             Catch::Matchers::Contains("above the limit"));
  CHECK_THAT(error(program("a = f64[125] constant(splat(1))\nb = f64[125] constant(splat(2))"), limits),
             Catch::Matchers::Contains("above the limit"));
  std::string dims = "1";
  for (int i = 0; i < 64; ++i) dims += ",1";
  CHECK_THAT(error("computation main(p: f32[" + dims + "]) -> () { return () }"),
             Catch::Matchers::Contains("rank 65 is above 64"));
  std::string nested = "computation main(p: ";
  for (int i = 0; i < 100000; ++i) nested += "(";
  CHECK_THAT(error(nested), Catch::Matchers::Contains("tuple types nest deeper than 16"));
}

// Depth of the graph and of the nesting of regions costs no stack.
TEST_CASE("deep programs", "[parser]") {
  std::string text = "computation c0(p: f32[]) -> (f32[]) {\n  v0 = negate(p)\n";
  for (int i = 1; i < 20000; ++i)
    text += "v" + std::to_string(i) + " = negate(v" + std::to_string(i - 1) + ")\n";
  text += "return (v19999)\n}\n";
  for (int i = 1; i < 3000; ++i)
    text += "computation c" + std::to_string(i) + "(p: f32[]) -> (f32[]) { x = call(p), body=c" +
            std::to_string(i - 1) + " return (x) }\n";
  const absl::StatusOr<ComputationPtr> program = parse(text);
  REQUIRE(program.ok());
  CHECK(regions_of(**program).size() == 2999);
  const std::string printed = print(**program);
  const absl::StatusOr<ComputationPtr> again = parse(printed);
  REQUIRE(again.ok());
  CHECK(*again == *program);
}

TEST_CASE("numbers read back to the bit", "[parser]") {
  // All values of 16 bits, and many of 32 and 64.
  uint64_t state = 7;
  for (DType t :
       {DType::kF16, DType::kBF16, DType::kS16, DType::kU16, DType::kF32, DType::kF64, DType::kS64}) {
    const int64_t width = byte_size(t);
    for (uint64_t i = 0; i < (width == 2 ? 65536u : 20000u); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      uint64_t bits = width == 2 ? i : state ^ state >> 31, back = 0;
      if (i % 16 == 1) bits &= ~(t == DType::kF32 ? uint64_t{0x7F800000} : uint64_t{0x7FF0000000000000});
      if (width < 8) bits &= (uint64_t{1} << (8 * width)) - 1;
      std::string text;
      append_number(&text, t, &bits);
      const bool read = parse_number(text, t, &back);
      if (!read || back != bits) {
        INFO(text << " of " << std::string(info(t).name));
        CHECK(read);
        CHECK(back == bits);
      }
    }
  }
  float f = 0;
  CHECK(parse_number("0x1.8p-3", DType::kF32, &f));
  CHECK(f == 0.1875F);
  CHECK(parse_number("-0x.1p4", DType::kF32, &f));
  CHECK(f == -1);
  for (std::string_view bad :
       {"", "-", "--1", "+1", "0x", "1x", "nan:", "nan:0x", "-nan", "nan(1)", "1e", "infinit"})
    CHECK_FALSE(parse_number(bad, DType::kF32, &f));
}

TEST_CASE("every pattern of a byte or less reads back", "[parser]") {
  for (int k = 0; k < kNumDTypes; ++k) {
    const auto t = static_cast<DType>(k);
    if (byte_size(t) != 1 || is_bool(t)) continue;
    for (int code = 0; code < 1 << bit_width(t); ++code) {
      auto bits = static_cast<uint8_t>(code);
      make_canonical(t, &bits, 1);
      std::string text;
      append_number(&text, t, &bits);
      uint8_t back = 0xA5;
      INFO(text << " of " << std::string(info(t).name));
      CHECK(parse_number(text, t, &back));
      CHECK(int{back} == int{bits});
    }
  }
  uint8_t out = 0;
  const std::pair<DType, const char*> kNone[] = {{DType::kS4, "8"},
                                                 {DType::kS4, "-9"},
                                                 {DType::kS2, "2"},
                                                 {DType::kU4, "16"},
                                                 {DType::kU2, "-1"},
                                                 {DType::kU2, "4"},
                                                 {DType::kS4, "1.5"},
                                                 {DType::kF8E4M3FN, "inf"},
                                                 {DType::kF4E2M1FN, "nan"},
                                                 {DType::kF6E3M2FN, "-inf"},
                                                 {DType::kF8E8M0FNU, "0"},
                                                 {DType::kF8E8M0FNU, "-1"},
                                                 {DType::kF8E5M2, "nan:0x7c"},
                                                 {DType::kF8E4M3FNUZ, "nan:0x7f"}};
  for (const auto& [t, text] : kNone) {
    INFO(text << " of " << std::string(info(t).name));
    CHECK_FALSE(parse_number(text, t, &out));
  }
}

TEST_CASE("presets", "[parser]") {
  const absl::StatusOr<ComputationPtr> c = parse(R"(
    computation main(p: f32[20]) -> (f32[20]) {
      a = f32[20] constant({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
      b = f32[20] add(p, a) @"x.py":3
      return (b)
    })");
  REQUIRE(c.ok());
  CHECK(print(**c, TextOptions::brief(), "f") ==
        "computation f(p0: f32[20]) -> (f32[20]) {\n  v0 = f32[20] constant({...})\n  v1 = f32[20] add(p0, "
        "v0)\n"
        "  return (v1)\n}\n");
  TextOptions typed = TextOptions::brief();
  typed.operand_types = typed.locations = true;
  CHECK_THAT(print(**c, typed),
             Catch::Matchers::Contains("v1 = f32[20] add(f32[20] p0, f32[20] v0) @\"x.py\":3\n"));
  CHECK(parse_preset("full").has_value());
  CHECK_FALSE(parse_preset("long").has_value());
}

}  // namespace
}  // namespace lamina::hlo
