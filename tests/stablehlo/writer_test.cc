// Written StableHLO reads back to the same computation.
#include "hlo/stablehlo/writer.h"

#include <catch2/catch.hpp>
#include <set>

#include "hlo/builder.h"
#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "hlo/stablehlo/reader.h"
#include "tests/smith/generator.h"
#include "tests/smith/text_cases.h"

namespace lamina::hlo::stablehlo {
namespace {

std::string canonical(const Computation& c) { return print(c, TextOptions::canonical(), "main"); }

// The computation that the written text gives.
ComputationPtr again(const std::string& text) {
  INFO(text);
  absl::StatusOr<Module> module = Module::parse(text);
  REQUIRE(std::string(module.status().message()) == "");
  absl::StatusOr<Program> program = module->program("main");
  REQUIRE(std::string(program.status().message()) == "");
  return program->computation;
}

// Ops that become something else, or cannot be written.
bool changes(const Computation& c) {
  for (const Node* n : c.nodes()) {
    if (n->op() == Op::scan || n->op() == Op::identity || n->op() == Op::stop_gradient ||
        n->op() == Op::leaf || n->op() == Op::custom_call || n->mode() != 0)
      return true;
    if (n->op() == Op::constant && n->type()->num_elements > 64 &&
        n->attrs().literal(Attr::value)->is_splat())
      return true;
    for (const Attr a : {Attr::instance, Attr::rule, Attr::has_side_effect})
      if (n->attrs().has(a)) return true;
    // What reverse mode keeps of a loop, and which loop a call is the derivative of.
    if (n->op() == Op::while_ && n->attrs().has(Attr::length)) return true;
    if (n->op() == Op::call && n->attrs().has(Attr::direction)) return true;
    for (const ComputationPtr& r : regions_of(*n))
      if (changes(*r)) return true;
  }
  return false;
}

TEST_CASE("every op of the text corpus is written and read back", "[stablehlo]") {
  std::set<std::string_view> seen;
  for (const testing::TextFile& file : testing::text_files("ops"))
    for (const testing::TextCase& one : file.cases) {
      INFO(file.path << ": " << one.name);
      const absl::StatusOr<ComputationPtr> program = parse(one.input);
      REQUIRE(program.ok());
      const absl::StatusOr<std::string> text = write(**program);
      if (!text.ok()) {
        CHECK(text.status().code() == absl::StatusCode::kUnimplemented);
        continue;
      }
      const ComputationPtr back = again(*text);
      if (changes(**program)) continue;
      CHECK(canonical(*back) == canonical(**program));
      for (const Node* n : (*program)->nodes()) seen.insert(n->def().name);
    }
  CHECK(seen.size() > 60);
}

TEST_CASE("random programs are written and read back", "[stablehlo]") {
  int same = 0;
  std::set<std::string_view> seen;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const ComputationPtr program = testing::random_program(seed);
    const absl::StatusOr<std::string> text = write(*program);
    if (!text.ok()) {
      CHECK(text.status().code() == absl::StatusCode::kUnimplemented);
      continue;
    }
    const ComputationPtr back = again(*text);
    INFO(*text);
    REQUIRE(back->result_types() == program->result_types());
    const std::vector<LiteralPtr> arguments = testing::arguments_for(*program, seed);
    const auto want = evaluate(*program, arguments), got = evaluate(*back, arguments);
    REQUIRE(want.ok() == got.ok());
    if (!want.ok()) continue;
    for (size_t i = 0; i < want->size(); ++i) CHECK(testing::same_values(*(*want)[i], *(*got)[i]));
    ++same;
    for (const Node* n : program->nodes()) seen.insert(n->def().name);
  }
  CHECK(same > 50);
  CHECK(seen.size() > 60);
}

TEST_CASE("a scan is written as a loop of the same results", "[stablehlo]") {
  for (const bool reverse : {false, true})
    for (const int64_t length : {0, 1, 4}) {
      const Type *row = array_type_or_die(DType::kF32, Dims{3}),
                 *stack = array_type_or_die(DType::kF32, Dims{length, 3});
      absl::StatusOr<ComputationPtr> step =
          record_region({{row, row}}, [](Builder& b, std::span<const Value> p) {
            const Value sum = b.add(p[0], p[1]);
            return Values{sum, b.multiply(sum, p[0])};
          });
      REQUIRE(step.ok());
      absl::StatusOr<ComputationPtr> program =
          record_region({{row, stack}}, [&](Builder& b, std::span<const Value> p) {
            return b.scan(*step, p.first(1), p.subspan(1), length, reverse);
          });
      REQUIRE(program.ok());
      const absl::StatusOr<std::string> text = write(**program);
      REQUIRE(text.ok());
      std::vector<LiteralPtr> arguments;
      for (const Type* t : {row, stack}) {
        auto l = std::make_shared<Literal>(t);
        for (int64_t i = 0; i < l->size(); ++i) l->as<float>()[i] = 0.25F * static_cast<float>(i % 7) - 0.5F;
        arguments.push_back(l);
      }
      const auto want = evaluate(**program, arguments), got = evaluate(*again(*text), arguments);
      REQUIRE(want.ok());
      REQUIRE(got.ok());
      for (size_t i = 0; i < want->size(); ++i) CHECK(*(*want)[i] == *(*got)[i]);
    }
}

}  // namespace
}  // namespace lamina::hlo::stablehlo
