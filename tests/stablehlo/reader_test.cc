// StableHLO text: both forms of every construct, the check dialect, and what is refused, with its place.
#include "hlo/stablehlo/reader.h"

#include <catch2/catch.hpp>

#include "hlo/evaluator.h"
#include "hlo/literal.h"
#include "hlo/location.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "tests/stablehlo/module_error.h"

namespace lamina::hlo::stablehlo {
namespace {

using lamina::testing::module_error;

// Runs the entry, which takes nothing; OK if every check holds.
absl::Status run(const std::string& text) {
  const absl::StatusOr<Module> module = Module::parse(text);
  if (!module.ok()) return module.status();
  const absl::StatusOr<std::string> entry = module->entry();
  if (!entry.ok()) return entry.status();
  const absl::StatusOr<Program> program = module->program(*entry);
  if (!program.ok()) return program.status();
  const absl::StatusOr<std::vector<LiteralPtr>> results = evaluate(*program->computation, {});
  if (!results.ok()) return results.status();
  for (const Check& c : program->checks)
    if (absl::Status s = judge(c, *(*results)[c.first], *(*results)[c.first + 1]); !s.ok()) return s;
  return program->checks.empty() ? absl::InternalError("the program checks nothing") : absl::OkStatus();
}

void holds(const std::string& body, const std::string& more = "") {
  INFO(body);
  const absl::Status s = run("func.func @main() {\n" + body + "\n  return\n}\n" + more);
  CHECK(std::string(s.message()) == "");
}

std::string refused_body(const std::string& body) {
  return module_error("func.func @main() {\n" + body + "\n  return\n}\n");
}

TEST_CASE("constants in every spelling", "[stablehlo]") {
  holds(R"(
  %a = stablehlo.constant dense<[[1.5, -2.0], [0x7FC00000, 3.0e-2]]> : tensor<2x2xf32>
  %b = "stablehlo.constant"() <{value = dense<"0x0000C03F000000C00000C07F8FC2F53C"> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  check.expect_eq %a, %b : tensor<2x2xf32>
  %c = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
  %d = stablehlo.constant dense<"0x05"> : tensor<3xi1>
  check.expect_eq %c, %d : tensor<3xi1>
  %e = stablehlo.constant dense<7> : tensor<2x3xi64>
  check.expect_eq_const %e, dense<[[7, 7, 7], [7, 7, 7]]> : tensor<2x3xi64>
  %f = stablehlo.constant dense<(1.0, -2.0)> : tensor<2xcomplex<f32>>
  check.expect_eq_const %f, dense<[(1.0, -2.0), (1.0, -2.0)]> : tensor<2xcomplex<f32>>
  %g = stablehlo.constant dense<> : tensor<0x3xf32>
  %h = stablehlo.constant dense_resource<big> : tensor<2xi32>
  check.expect_eq_const %h, dense<[1, 2]> : tensor<2xi32>
  %i = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
  check.expect_eq_const %i, dense<0xFFFFFFFFFFFFFFFF> : tensor<ui64>
)",
        "{-#\n dialect_resources: { builtin: { big: \"0x040000000100000002000000\" } }\n#-}\n");
}

TEST_CASE("the pretty and the generic form mean the same", "[stablehlo]") {
  const absl::StatusOr<Module> pretty = Module::parse(R"(
module @m attributes {jax.x = 1 : i32} {
  func.func public @main(%x: tensor<2x4xf32> {jax.arg = "x"} loc("x"), %k: tensor<i32>) -> (tensor<4xf32> {r = "y"}) {
    %init = stablehlo.constant dense<0.0> : tensor<f32> loc(#loc)
    %0 = stablehlo.slice %x [0:2, 1:4:2] : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.reduce(%0 init: %init) applies stablehlo.add across dimensions = [0] : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %2 = stablehlo.compare LT, %k, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = stablehlo.concatenate %1, %1, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %4 = stablehlo.broadcast_in_dim %init, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %5 = stablehlo.select %2, %3, %4 : tensor<i1>, tensor<4xf32>
    %6:2 = stablehlo.while(%a = %k, %b = %5) : tensor<i32>, tensor<4xf32>
     cond {
      %8 = stablehlo.compare LT, %a, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %8 : tensor<i1>
    } do {
      %8 = stablehlo.add %b, %5 : tensor<4xf32>
      stablehlo.return %a, %8 : tensor<i32>, tensor<4xf32>
    }
    %7 = stablehlo.dot_general %6#1, %6#1, batching_dims = [0] x [0], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %7 : tensor<4xf32>
  }
}
#loc = loc("here.py":3:4)
)");
  REQUIRE(pretty.ok());
  const absl::StatusOr<Module> generic = Module::parse(R"(
"builtin.module"() ({
  "func.func"() <{function_type = (tensor<2x4xf32>, tensor<i32>) -> tensor<4xf32>, sym_name = "main"}> ({
  ^bb0(%x: tensor<2x4xf32>, %k: tensor<i32>):
    %init = "stablehlo.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
    %0 = "stablehlo.slice"(%x) {start_indices = dense<[0, 1]> : tensor<2xi64>, limit_indices = array<i64: 2, 4>, strides = array<i64: 1, 2>} : (tensor<2x4xf32>) -> tensor<2x2xf32>
    %1 = "stablehlo.reduce"(%0, %init) <{dimensions = array<i64: 0>}> ({
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %r = "stablehlo.add"(%p, %q) : (tensor<f32>, tensor<f32>) -> tensor<f32>
      "stablehlo.return"(%r) : (tensor<f32>) -> ()
    }) : (tensor<2x2xf32>, tensor<f32>) -> tensor<2xf32>
    %2 = "stablehlo.compare"(%k, %k) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %3 = "stablehlo.concatenate"(%1, %1) <{dimension = 0 : i64}> : (tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
    %4 = "stablehlo.broadcast_in_dim"(%init) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4xf32>
    %5 = "stablehlo.select"(%2, %3, %4) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %6:2 = "stablehlo.while"(%k, %5) ({
    ^bb0(%a: tensor<i32>, %b: tensor<4xf32>):
      %8 = "stablehlo.compare"(%a, %k) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%8) : (tensor<i1>) -> ()
    }, {
    ^bb0(%a: tensor<i32>, %b: tensor<4xf32>):
      %8 = "stablehlo.add"(%b, %5) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      "stablehlo.return"(%a, %8) : (tensor<i32>, tensor<4xf32>) -> ()
    }) : (tensor<i32>, tensor<4xf32>) -> (tensor<i32>, tensor<4xf32>)
    %7 = "stablehlo.dot_general"(%6#1, %6#1) <{dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], lhs_contracting_dimensions = [], rhs_contracting_dimensions = []>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%7) : (tensor<4xf32>) -> ()
  }) {sym_visibility = "public"} : () -> ()
}) : () -> ()
)");
  REQUIRE(std::string(generic.status().message()) == "");
  const absl::StatusOr<Program> a = pretty->program("main"), b = generic->program("main");
  REQUIRE(std::string(a.status().message()) == "");
  REQUIRE(std::string(b.status().message()) == "");
  CHECK(print(*a->computation, TextOptions::canonical(), "main") ==
        print(*b->computation, TextOptions::canonical(), "main"));
  bool located = false;
  for (const Node* n : a->computation->nodes()) located |= location(n->location()).file == "here.py";
  CHECK(located);
}

TEST_CASE("control flow, tuples and calls", "[stablehlo]") {
  holds(R"(
  %p = stablehlo.constant dense<true> : tensor<i1>
  %x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %0 = "stablehlo.if"(%p) ({
    %y = func.call @twice(%x) : (tensor<2xi32>) -> tensor<2xi32>
    stablehlo.return %y : tensor<2xi32>
  }, {
    stablehlo.return %x : tensor<2xi32>
  }) : (tensor<i1>) -> tensor<2xi32>
  check.expect_eq_const %0, dense<[2, 4]> : tensor<2xi32>
  %i = stablehlo.constant dense<-1> : tensor<i32>
  %1 = "stablehlo.case"(%i) ({ stablehlo.return %x : tensor<2xi32> }, { stablehlo.return %0 : tensor<2xi32> }) : (tensor<i32>) -> tensor<2xi32>
  stablehlo.custom_call @check.expect_eq(%1, %0) {has_side_effect = true} : (tensor<2xi32>, tensor<2xi32>) -> ()
  %t = stablehlo.tuple %x, %p : tuple<tensor<2xi32>, tensor<i1>>
  %u = "stablehlo.tuple"(%t, %0) : (tuple<tensor<2xi32>, tensor<i1>>, tensor<2xi32>) -> tuple<tuple<tensor<2xi32>, tensor<i1>>, tensor<2xi32>>
  %v = stablehlo.get_tuple_element %u[1] : (tuple<tuple<tensor<2xi32>, tensor<i1>>, tensor<2xi32>>) -> tensor<2xi32>
  check.expect_eq %v, %0 : tensor<2xi32>
  %w = stablehlo.get_tuple_element %u[0] : (tuple<tuple<tensor<2xi32>, tensor<i1>>, tensor<2xi32>>) -> tuple<tensor<2xi32>, tensor<i1>>
  %z = stablehlo.get_tuple_element %w[1] : (tuple<tensor<2xi32>, tensor<i1>>) -> tensor<i1>
  check.expect_eq %z, %p : tensor<i1>
  %m = "stablehlo.map"(%x, %0) <{dimensions = array<i64: 0>}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %s = stablehlo.multiply %a, %b : tensor<i32>
    stablehlo.return %s : tensor<i32>
  }) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  check.expect_eq_const %m, dense<[2, 8]> : tensor<2xi32>
)",
        R"(
func.func private @twice(%x: tensor<2xi32>) -> tensor<2xi32> {
  %0 = stablehlo.add %x, %x : tensor<2xi32>
  return %0 : tensor<2xi32>
}
)");
}

TEST_CASE("shapes given by operands follow from constants and shapes", "[stablehlo]") {
  holds(R"(
  %x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<2xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %c = stablehlo.constant dense<3> : tensor<1xi32>
  %shape = stablehlo.concatenate %c, %n1, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %0 = stablehlo.dynamic_broadcast_in_dim %x, %shape, dims = [1] : (tensor<2xf32>, tensor<2xi32>) -> tensor<?x?xf32>
  %1 = stablehlo.reshape %0 : (tensor<?x?xf32>) -> tensor<6xf32>
  check.expect_eq_const %1, dense<[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]> : tensor<6xf32>
  %2 = stablehlo.dynamic_iota %n1, dim = 0 : (tensor<1xi32>) -> tensor<?xi32>
  %3 = func.call @poly(%2) : (tensor<?xi32>) -> tensor<?xi32>
  %4 = stablehlo.convert %3 : (tensor<?xi32>) -> tensor<2xi32>
  check.expect_eq_const %4, dense<[0, 2]> : tensor<2xi32>
)",
        R"(
func.func private @poly(%x: tensor<?xi32>) -> tensor<?xi32> {
  %0 = stablehlo.add %x, %x : tensor<?xi32>
  return %0 : tensor<?xi32>
}
)");
}

TEST_CASE("checks say which element differs", "[stablehlo]") {
  auto failing = [](const std::string& check) {
    return std::string(
        run("func.func @main() {\n  %x = stablehlo.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>\n  " +
            check + "\n  return\n}\n")
            .message());
  };
  CHECK(failing("check.expect_eq_const %x, dense<[[1.0, 2.5]]> : tensor<1x2xf32>") ==
        "3:3: check.expect_eq_const: element [0,1] is 2, expected 2.5");
  CHECK(failing("check.expect_almost_eq_const %x, dense<[[1.0, 2.00005]]> : tensor<1x2xf32>") == "");
  CHECK(failing("check.expect_almost_eq_const %x, dense<[[1.0, 2.01]]> : tensor<1x2xf32>") != "");
  CHECK(failing("%y = stablehlo.constant dense<[[1.0, 2.0000005]]> : tensor<1x2xf32>\n"
                "check.expect_close %x, %y, max_ulp_difference = 3 : tensor<1x2xf32>, tensor<1x2xf32>") ==
        "");
  CHECK(failing("%y = stablehlo.constant dense<[[1.0, 2.000005]]> : tensor<1x2xf32>\n"
                "check.expect_close %x, %y, max_ulp_difference = 3 : tensor<1x2xf32>, tensor<1x2xf32>") !=
        "");
}

TEST_CASE("mistakes are located and named", "[stablehlo]") {
  CHECK(refused_body("  %0 = stablehlo.add %a, %a : tensor<2xf32>") == "2:22: there is no value %a here");
  CHECK(refused_body("  %a = stablehlo.constant dense<1.0> : tensor<2xf32>\n"
                     "  %b = stablehlo.constant dense<1.0> : tensor<3xf32>\n"
                     "  %0 = stablehlo.add %a, %b : tensor<2xf32>") ==
        "4:8: stablehlo.add: add(f32[2], f32[3]): shapes [2] and [3] differ");
  CHECK(refused_body("  %a = stablehlo.constant dense<1.0> : tensor<2xf32>\n"
                     "  %0 = stablehlo.transpose %a, dims = [0] : (tensor<2xf32>) -> tensor<3xf32>") ==
        "3:8: stablehlo.transpose: gives f32[2], not f32[3]");
  CHECK(refused_body("  %a = stablehlo.constant dense<1.0> : tensor<2xi3>") ==
        "2:8: stablehlo.constant: elements of type i3 are not supported");
  CHECK(refused_body("  %a = stablehlo.frobnicate : tensor<2xf32>") ==
        "2:8: the operation stablehlo.frobnicate is not supported");
  CHECK(refused_body("  %a = stablehlo.constant dense<[1.0, x]> : tensor<2xf32>")
            .find("2:39: 'x' is no number") == 0);
  CHECK(refused_body("  %a = stablehlo.constant dense<[1.0]> : tensor<2xf32>").find("expected ','") !=
        std::string::npos);
  CHECK(refused_body("  call @nothing() : () -> ()") == "2:3: there is no function @nothing");
  CHECK(module_error("func.func @main() {\n  call @f() : () -> ()\n  return\n}\n"
                     "func.func private @f() {\n  call @g() : () -> ()\n  return\n}\n"
                     "func.func private @g() {\n  call @f() : () -> ()\n  return\n}\n") ==
        "10:3: @f calls itself, directly or through others");
  CHECK(module_error("func.func @main() {\n").find("2:1: expected an operation or '}', but the text ends") ==
        0);
  CHECK(module_error("ML\xEFR\x01").find("1:1: this is a module in MLIR's bytecode") == 0);
  CHECK(module_error("module {").find("1:9: expected a function, but the text ends") == 0);
}

}  // namespace
}  // namespace lamina::hlo::stablehlo
