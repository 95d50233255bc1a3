// Transposes, concatenations and padding with routines of their own against the evaluator: the same bits.
#include "tests/jit/native_op_testing.h"

namespace lamina::testing {
namespace {

TEST_CASE("Transposes that are stored move tiles", "[native][heavy]") {
  using Catch::Contains;
  struct Case {
    const char *in, *out, *permutation;
  };
  for (const char* t : {"pred", "f16", "f32", "f64", "c128"})
    for (const Case& c :
         {Case{"64,96", "96,64", "1,0"}, Case{"33,70", "70,33", "1,0"}, Case{"3,40,9", "3,9,40", "0,2,1"},
          Case{"9,40,35", "35,9,40", "2,0,1"}, Case{"2,12,3,11", "11,3,12,2", "3,2,1,0"},
          Case{"12,3,50", "3,50,12", "1,2,0"}, Case{"700,500", "500,700", "1,0"}}) {
      const std::string text = with(
          "computation main(p0: $t[$i]) -> ($t[$o]) {\n  v0 = $t[$o] transpose(p0), "
          "permutation=[$p]\n  return (v0)\n}\n",
          {{"t", t}, {"i", c.in}, {"o", c.out}, {"p", c.permutation}});
      check(text);
    }
  const auto exe = Executable::compile(
      jit::host_device(),
      parsed("computation main(p0: f32[64,96]) -> (f32[96,64]) {\n  v0 = f32[96,64] transpose(p0), "
             "permutation=[1,0]\n  return (v0)\n}\n"));
  CHECK_THAT((*exe)->describe(), Contains("native transpose"));
}

TEST_CASE("Concatenations of stored pieces are copied by rows", "[native]") {
  using Catch::Contains;
  struct Case {
    const char *a, *b, *c, *out, *dimension;
  };
  for (const char* t : {"pred", "f16", "f32", "f64", "c128"}) {
    for (const Case& c : {Case{"5", "0", "7", "12", "0"}, Case{"70000", "40001", "3", "110004", "0"},
                          Case{"20000,1", "20000,2", "20000,3", "20000,6", "1"},
                          Case{"40001,1", "40001,1", "40001,1", "40001,3", "1"},
                          Case{"40001,1", "40001,1", "40001,0", "40001,2", "1"},
                          Case{"30,1000", "30,300", "30,37", "30,1337", "1"},
                          Case{"7,3,5", "7,2,5", "7,9,5", "7,14,5", "1"}}) {
      const std::string text = with(
          "computation main(p0: $t[$a], p1: $t[$b], p2: $t[$c]) -> ($t[$o]) {\n  v0 = $t[$o] "
          "concatenate(p0, p1, p2), dimension=$d\n  return (v0)\n}\n",
          {{"t", t}, {"a", c.a}, {"b", c.b}, {"c", c.c}, {"o", c.out}, {"d", c.dimension}});
      check(text);
    }
    check(
        with("computation main(p0: $t[901,1], p1: $t[901,1], p2: $t[901,1], p3: $t[901,1]) -> ($t[901,4]) {\n"
             "  v0 = $t[901,4] concatenate(p0, p1, p2, p3), dimension=1\n  return (v0)\n}\n",
             {{"t", t}}));
  }
  const auto exe = Executable::compile(jit::host_device(),
                                       parsed("computation main(p0: f32[64], p1: f32[64]) -> (f32[64,2]) "
                                              "{\n  v0 = f32[64,1] reshape(p0), shape=[64,1]\n  "
                                              "v1 = f32[64,1] reshape(p1), shape=[64,1]\n  v2 = f32[64,2] "
                                              "concatenate(v0, v1), dimension=1\n  return "
                                              "(v2)\n}\n"));
  CHECK_THAT((*exe)->describe(), Contains("native concatenate"));
}

TEST_CASE("Padding of stored arrays is filled around rows that are copied", "[native]") {
  using Catch::Contains;
  struct Case {
    const char *in, *out, *low, *high, *inner;
  };
  const Case cases[] = {
      {"70", "93", "9", "14", "0"},                        // one row
      {"70001", "70008", "3", "4", "0"},                   // by several tasks
      {"70000", "140006", "3", "4", "1"},                  // gaps across tasks
      {"100", "70", "-10", "-20", "0"},                    // parts of the operand
      {"40", "70", "-41", "71", "0"},                      // nothing of it
      {"40", "100", "100", "-40", "0"},                    // nothing of it, either
      {"0", "80", "50", "30", "7"},                        // it has nothing
      {"1", "90", "50", "39", "7"},                        // it has no gaps
      {"30,40", "37,51", "3,5", "4,6", "0,0"},             // around a matrix
      {"300,400", "302,402", "1,1", "1,1", "0,0"},         // by several tasks
      {"30,40", "23,60", "-3,15", "-4,5", "0,0"},          // rows fewer, and longer
      {"7,5,11", "12,5,11", "2,0,0", "3,0,0", "0,0,0"},    // rows of whole matrices
      {"7,5,11", "17,5,11", "2,0,0", "2,0,0", "1,0,0"},    // gaps between matrices
      {"7,5,3", "7,17,3", "0,3,0", "0,1,0", "0,2,0"},      // gaps between short rows
      {"7,5,90", "7,17,90", "0,3,0", "0,1,0", "0,2,0"},    // and long ones
      {"9,31,3", "19,52,3", "0,-4,0", "2,-5,0", "1,1,0"},  // gaps and parts
      {"3,4,5,6", "6,3,10,20", "1,0,2,-1", "2,-1,-1,5", "0,0,1,2"},
      {"2,3,50", "2,5,50", "0,1,0", "0,1,0", "0,0,0"},
      {"20000,3", "20000,5", "0,1", "0,1", "0,0"},  // short rows
  };
  for (const char* t : {"pred", "f16", "f32", "f64", "c128"})
    for (const Case& c : cases) {
      const auto padded = [&](const char* value) {
        return with(
            "  v1 = $t[$o] pad(p0, $v), edge_padding_low=[$l], edge_padding_high=[$h], "
            "interior_padding=[$g]\n  return (v1)\n}\n",
            {{"t", t}, {"o", c.out}, {"v", value}, {"l", c.low}, {"h", c.high}, {"g", c.inner}});
      };
      const std::string main = with("computation main(p0: $t[$i]", {{"t", t}, {"i", c.in}});
      check(main + with(", p1: $t[]) -> ($t[$o]) {\n", {{"t", t}, {"o", c.out}}) + padded("p1"));
      if (std::string_view(t) != "f32") continue;
      check(main + with(") -> (f32[$o]) {\n  v0 = f32[] constant(-0.0)\n", {{"o", c.out}}) + padded("v0"));
    }
  const auto exe = Executable::compile(
      jit::host_device(),
      parsed("computation main(p0: f32[64,30]) -> (f32[66,34]) {\n  v0 = f32[] constant(0.0)\n  v1 = "
             "f32[66,34] pad(p0, v0), edge_padding_low=[1,2], edge_padding_high=[1,2], "
             "interior_padding=[0,0]\n  return (v1)\n}\n"));
  CHECK_THAT((*exe)->describe(), Contains("native pad"));
}

TEST_CASE("Padding of other dimensions than the first goes row by row with what it is of", "[native]") {
  const std::string text =
      "computation main(p0: f32[3000,6,6], p1: f32[]) -> (f32[3000,8,26]) {\n  v0 = f32[3000,6,6] "
      "custom_call(p0), call_target_name=\"lamina.cholesky\", result_types=[f32[3000,6,6]]\n  v1 = "
      "f32[3000,8,26] pad(v0, p1), edge_padding_low=[0,1,20], edge_padding_high=[0,1,0], "
      "interior_padding=[0,0,0]\n  return (v1)\n}\n";
  check(text);
  const auto exe = Executable::compile(jit::host_device(), parsed(text));
  CHECK((*exe)->chains().size() == 1);
}

}  // namespace
}  // namespace lamina::testing
