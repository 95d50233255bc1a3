// Text from strangers: limits, absurd sizes, cycles, mutations. Everything ends at once, in words.
#include <catch2/catch.hpp>
#include <random>

#include "hlo/stablehlo/reader.h"
#include "hlo/strings.h"
#include "tests/stablehlo/module_error.h"
#include "tests/text/hostile_text.h"

namespace lamina::hlo::stablehlo {
namespace {

using lamina::testing::mentions;
using lamina::testing::repeated;

std::string read(const std::string& text) {
  return lamina::testing::said_at_once([&] { return lamina::testing::module_error(text); });
}

std::string in_main(const std::string& body) { return "func.func @main() {\n" + body + "\n  return\n}\n"; }

TEST_CASE("nesting has a limit", "[stablehlo]") {
  const int deep = 100000;
  mentions(read(repeated("module {", deep)), "nests deeper");
  mentions(read(in_main("\"x\"() {a = " + repeated("[", deep))), "nests deeper");
  mentions(read(in_main("\"x\"() {a = " + repeated("{a = ", deep))), "nests deeper");
  mentions(read(in_main("%0 = stablehlo.tuple : " + repeated("tuple<", deep))), "nests deeper");
  mentions(read(in_main("%0 = stablehlo.x " + repeated("(", deep))), "nests deeper");
  mentions(read(in_main(repeated("\"stablehlo.if\"() ({ ", deep))), "nests deeper");
  mentions(read("#a = " + repeated("(", deep)), "nests deeper");
  mentions(read(in_main("\"x\"() {a = #b<" + repeated("<", deep))), "closes no bracket");
  mentions(read("#loc = loc(" + repeated("\"a\"(", deep)), "never closed");
}

TEST_CASE("sizes are checked before anything is made", "[stablehlo]") {
  mentions(read(in_main("  %0 = stablehlo.constant dense<1.0> : tensor<99999999999x99999999999xf32>")),
           "more elements");
  mentions(read(in_main("  %0 = stablehlo.constant dense<1.0> : tensor<999999999999999999999999xf32>")),
           "out of range");
  mentions(read(in_main("  %0 = stablehlo.constant dense<[1.0]> : tensor<1000000000000xf32>")),
           "fewer numbers");
  mentions(read(in_main("  %0 = stablehlo.constant dense<\"0x00\"> : tensor<1000000000000xf32>")), "bytes");
  // A splat is one value however large; nothing is allocated for it.
  CHECK(read(in_main("  %0 = stablehlo.constant dense<1.0> : tensor<1000000x1000000xf32>")) == "accepted");
  mentions(read(in_main("  %0 = stablehlo.constant dense<1> : tensor<2xi32>\n"
                        "  %1 = stablehlo.iota dim = 0 : tensor<1000000000000xi32>\n"
                        "  %2 = stablehlo.slice %1 [0:2] : (tensor<1000000000000xi32>) -> tensor<2xi32>\n"
                        "  %3 = stablehlo.dynamic_iota %2, dim = 0 : (tensor<2xi32>) -> tensor<?x?xi32>")),
           "gives a shape and takes more");
  mentions(read(in_main("  %1 = stablehlo.iota dim = 0 : tensor<288230376151711744xf64>\n"
                        "  %2 = stablehlo.bitcast_convert %1 : (tensor<288230376151711744xf64>) -> "
                        "tensor<288230376151711744x8xi8>")),
           "stablehlo.bitcast_convert");
  mentions(read(in_main("  %1 = call @shape() : () -> tensor<1xi32>\n"
                        "  %2 = stablehlo.dynamic_iota %1, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>") +
                "func.func private @shape() -> tensor<1xi32> {\n"
                "  %1 = stablehlo.iota dim = 0 : tensor<1000000000000xi32>\n"
                "  %2 = stablehlo.slice %1 [0:1] : (tensor<1000000000000xi32>) -> tensor<1xi32>\n"
                "  return %2 : tensor<1xi32>\n}\n"),
           "gives a shape and takes more");
  mentions(
      read("func.func @main(%n: tensor<1xi32>) {\n"
           "  %0 = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\n  return\n}\n"),
      "must follow from constants");
  std::string costly =
      "  %0 = stablehlo.constant dense<2> : tensor<1xi32>\n  %x0 = stablehlo.constant dense<1> : "
      "tensor<1xi32>\n";
  for (int i = 0; i < 4000; ++i)
    str_append(&costly, "  %x", i + 1, " = stablehlo.multiply %x", i, ", %0 : tensor<1xi32>\n");
  for (int i = 0; i < 4000; ++i)
    str_append(&costly, "  %y", i, " = stablehlo.dynamic_iota %x", 4000 - i,
               ", dim = 0 : (tensor<1xi32>) -> tensor<?xi32>\n");
  mentions(read(in_main(costly)), "gives a shape and takes more");
  mentions(read(in_main("  %0 = stablehlo.constant dense<[-5, 99999999]> : tensor<2xi64>\n"
                        "  %1 = stablehlo.dynamic_iota %0, dim = 0 : (tensor<2xi64>) -> tensor<?x?xi32>")),
           "stablehlo.dynamic_iota");
  mentions(
      read(in_main(
          "  %0 = stablehlo.constant dense<1.0> : tensor<4xf32>\n"
          "  %1 = stablehlo.pad %0, %0, low = [4611686018427387904], high = [4611686018427387904], interior "
          "= [4611686018427387904] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>")),
      "stablehlo.pad");
  mentions(read(in_main("  %0 = stablehlo.constant dense<0> : tensor<99999999xi64>\n"
                        "  %1 = \"stablehlo.x\"() {a = dense<0> : tensor<999999999x999999xi64>} : () -> ()")),
           "not supported");
  mentions(read(in_main("  %0 = stablehlo.constant dense<1.0> : tensor<4xf32>\n"
                        "  %1 = stablehlo.transpose %0, dims = dense<0> : (tensor<4xf32>) -> tensor<4xf32>")),
           "needs a type");
  mentions(read(in_main("  %0:65536 = stablehlo.constant dense<1.0> : tensor<4xf32>")), "lies in 1..65535");
  mentions(read(in_main("  %0:9 = stablehlo.constant dense<1.0> : tensor<4xf32>")), "more are named");
}

TEST_CASE("calls neither loop nor explode", "[stablehlo]") {
  mentions(read("func.func @main() {\n  call @main() : () -> ()\n  return\n}\n"), "calls itself");
  // Each function calls the next one twice: 2^60 operations when expanded.
  std::string doubling =
      "func.func public @main(%x: tensor<f32>) -> tensor<f32> {\n  %0 = call @f0(%x) : (tensor<f32>) "
      "-> tensor<f32>\n  return %0 : tensor<f32>\n}\n";
  std::string chain = doubling;
  auto function = [](int i, bool twice) {
    std::string f = str_cat("func.func private @f", i, "(%x: tensor<f32>) -> tensor<f32> {\n");
    if (i < 60 || (!twice && i < 5000)) {
      str_append(&f, "  %0 = call @f", i + 1, "(%x) : (tensor<f32>) -> tensor<f32>\n");
      if (twice) str_append(&f, "  %1 = call @f", i + 1, "(%0) : (tensor<f32>) -> tensor<f32>\n");
      str_append(&f, "  return %", twice ? 1 : 0, " : tensor<f32>\n}\n");
    } else {
      str_append(&f, "  return %x : tensor<f32>\n}\n");
    }
    return f;
  };
  for (int i = 0; i <= 60; ++i) doubling += function(i, true);
  for (int i = 0; i <= 5000; ++i) chain += function(i, false);
  mentions(read(doubling), "expanded");
  mentions(read(chain), "nest deeper");
  std::string open = doubling;
  for (size_t at = 0; (at = open.find("tensor<f32>", at)) != std::string::npos; at += 12)
    open.replace(at, 11, "tensor<?xf32>");
  const absl::StatusOr<Module> module = Module::parse(open);
  REQUIRE(module.ok());
  const Type* four = array_type_or_die(DType::kF32, Dims{4});
  const absl::StatusOr<Program> program = module->program("main", {{four}});
  REQUIRE(!program.ok());
  mentions(std::string(program.status().message()), "expanded");
}

TEST_CASE("missing and wrong pieces", "[stablehlo]") {
  mentions(read(in_main("  %0 = \"stablehlo.while\"() : () -> ()")), "regions");
  mentions(read(in_main("  %0 = \"stablehlo.reduce\"() : () -> ()")), "stablehlo.reduce");
  mentions(read(in_main("  %0 = \"stablehlo.gather\"() : () -> tensor<2xf32>")), "stablehlo.gather");
  mentions(read(in_main("  %0 = \"stablehlo.convolution\"() : () -> tensor<2xf32>")),
           "stablehlo.convolution");
  mentions(read(in_main("  %0 = \"stablehlo.compare\"() : () -> tensor<2xi1>")), "stablehlo.compare");
  mentions(read(in_main("  %0 = \"stablehlo.sort\"() ({}) : () -> ()")), "return");
  mentions(read(in_main("  %0 = stablehlo.constant dense_resource<x> : tensor<2xi32>")), "no resource");
  mentions(read("func.func @main() {\n^bb0:\n  return\n^bb1:\n  return\n}\n"), "several blocks");
  mentions(
      read("#loc0 = loc(#loc0)\nfunc.func @main() {\n  return loc(#loc0)\n}\nfunc.func @main() { return }"),
      "exists already");
  CHECK(read("#loc0 = loc(#loc1)\n#loc1 = loc(#loc0)\nfunc.func @main() {\n  %0 = stablehlo.constant "
             "dense<1> : tensor<i32> "
             "loc(#loc0)\n  return\n}") == "accepted");
  CHECK(read("") != "accepted");
  CHECK(read(std::string("\0\0", 2)) != "accepted");
}

// Every operation's row gets operands, regions and attributes that do not fit it.
TEST_CASE("any operation on anything is an error or a program", "[stablehlo]") {
  for (const std::string_view name : {"add",
                                      "compare",
                                      "select",
                                      "clamp",
                                      "convert",
                                      "bitcast_convert",
                                      "reduce_precision",
                                      "constant",
                                      "iota",
                                      "broadcast_in_dim",
                                      "broadcast",
                                      "reshape",
                                      "transpose",
                                      "reverse",
                                      "concatenate",
                                      "slice",
                                      "pad",
                                      "tuple",
                                      "get_tuple_element",
                                      "optimization_barrier",
                                      "after_all",
                                      "get_dimension_size",
                                      "dynamic_slice",
                                      "dynamic_update_slice",
                                      "gather",
                                      "dynamic_gather",
                                      "scatter",
                                      "torch_index_select",
                                      "reduce",
                                      "reduce_window",
                                      "select_and_scatter",
                                      "sort",
                                      "map",
                                      "dot_general",
                                      "dot",
                                      "convolution",
                                      "dynamic_conv",
                                      "while",
                                      "case",
                                      "if",
                                      "composite",
                                      "rng_bit_generator",
                                      "custom_call",
                                      "dynamic_broadcast_in_dim",
                                      "dynamic_iota",
                                      "dynamic_reshape",
                                      "dynamic_pad",
                                      "real_dynamic_slice",
                                      "set_dimension_size",
                                      "complex",
                                      "is_finite"})
    for (const std::string_view operands :
         {"", "%s", "%v", "%v, %s", "%v, %v, %v", "%m, %i, %i", "%t", "%i, %i, %i, %i, %i"})
      for (const std::string_view attrs :
           {"", "{dim = -3, dimension = 99 : i64, dimensions = array<i64: 7, -1>, index = 4}"})
        for (const std::string_view regions :
             {"", " ({ stablehlo.return }, { stablehlo.return %v : tensor<3xf32> })"})
          for (const std::string_view result :
               {"()", "tensor<3xf32>", "(tensor<?xf32>, tensor<i32>)", "tuple<tensor<f32>>"}) {
            const std::string text =
                in_main(str_cat("  %s = stablehlo.constant dense<1.0> : tensor<f32>\n  %v = "
                                "stablehlo.constant dense<1.0> : tensor<3xf32>\n"
                                "  %m = stablehlo.constant dense<1.0> : tensor<2x3xf32>\n  %i = "
                                "stablehlo.constant dense<[-1, 5]> : "
                                "tensor<2xi64>\n  %t = stablehlo.tuple %s, %i : tuple<tensor<f32>, "
                                "tensor<2xi64>>\n  \"stablehlo.",
                                name, "\"(", operands, ")", regions, attrs, " : () -> ", result));
            const absl::StatusOr<Module> module = Module::parse(text);
            REQUIRE(module.ok());
            (void)module->program("main");
          }
}

// Mutations of a program that holds a bit of everything; the seed is fixed.
TEST_CASE("mutated text never harms", "[stablehlo]") {
  const std::string base = R"(#loc1 = loc("a.py":3:4)
module @m attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<3x4xf32> loc("x")) -> (tensor<f32> {jax.result_info = ""}, tensor<3x4xi32>) {
    %cst = stablehlo.constant dense<[[1.5, 0xFF800000, 3.0, -4.0e+1]]> : tensor<1x4xf32> loc(#loc1)
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %c:2 = stablehlo.while(%a = %z, %b = %arg0) : tensor<f32>, tensor<3x4xf32> cond {
      %p = stablehlo.compare LT, %a, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %q = "stablehlo.gather"(%b, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<3x4xf32>, tensor<3x1xi32>) -> tensor<3x4xf32>
      stablehlo.return %a, %q : tensor<f32>, tensor<3x4xf32>
    } loc(callsite("f"(#loc1) at #loc1))
    %i = stablehlo.iota dim = 0 : tensor<3x1xi32>
    %r = stablehlo.reduce(%c#1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<3x4xf32>, tensor<f32>) -> tensor<f32>
    %k = stablehlo.convolution(%arg0, %arg0) dim_numbers = [b, f]x[i, o]->[b, f], window = {} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %s = call @f(%arg0) : (tensor<3x4xf32>) -> tensor<3x4xi32>
    return %r, %s : tensor<f32>, tensor<3x4xi32>
  }
  func.func private @f(%x: tensor<3x4xf32>) -> tensor<3x4xi32> {
    %0 = stablehlo.convert %x : (tensor<3x4xf32>) -> tensor<3x4xi32>
    %1 = "stablehlo.sort"(%0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>):
      %2 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    }) : (tensor<3x4xi32>) -> tensor<3x4xi32>
    return %1 : tensor<3x4xi32>
  }
}
)";
  std::mt19937 random(12345);
  auto pick = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const std::string_view pieces[] = {
      "<",  ">", "(",  ")",       "{",      "}",    "[",  "]", "%",
      "#",  "@", "\"", "-",       "->",     ":",    ",",  "0", "9999999999999999999",
      "-1", "x", "?",  "tensor<", "dense<", "loc(", "= ", "\0"};
  for (int round = 0; round < 40000; ++round) {
    std::string text = base;
    for (size_t n = 1 + pick(4); n > 0; --n) {
      const size_t at = pick(text.size());
      switch (pick(5)) {
        case 0:
          text.erase(at, 1 + pick(12));
          break;
        case 1:
          text.insert(at, pieces[pick(std::size(pieces))]);
          break;
        case 2:
          text[at] = static_cast<char>(pick(256));
          break;
        case 3:
          text.insert(at, text.substr(pick(text.size()), pick(40)));
          break;
        default:
          std::swap(text[at], text[pick(text.size())]);
      }
    }
    const absl::StatusOr<Module> module = Module::parse(text);
    if (!module.ok()) continue;
    for (const Module::Function& f : module->functions()) (void)module->program(f.name);
  }
}

}  // namespace
}  // namespace lamina::hlo::stablehlo
