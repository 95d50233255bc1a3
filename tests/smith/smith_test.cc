// Random programs through the text form, the verifier and the passes.
#include <catch2/catch.hpp>
#include <cstring>
#include <set>

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/verifier.h"
#include "jit/engine.h"
#include "tests/smith/generator.h"
#include "tests/smith/text_cases.h"

namespace lamina::testing {
namespace {

using namespace hlo;

constexpr uint64_t kPrograms = 1000;

std::string message(const absl::Status& s) { return std::string(s.message()); }

std::vector<const Computation*> with_regions(const Computation& c) {
  std::vector<const Computation*> all = regions_of(c);
  all.push_back(&c);
  return all;
}

TEST_CASE("random programs hold every op and are sound", "[smith]") {
  std::set<Op> seen;
  std::set<DType> types;
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const ComputationPtr program = random_program(seed);
    CHECK(random_program(seed) == program);
    const absl::Status sound = verify(*program);
    INFO("seed " << seed << "\n" << print(*program));
    INFO(message(sound));
    CHECK(sound.ok());
    for (const Computation* c : with_regions(*program))
      for (const Node* n : c->nodes()) {
        seen.insert(n->op());
        if (n->type()->is_array()) types.insert(n->type()->dtype);
      }
  }
  CHECK(types.size() == kNumDTypes);
  for (int i = 0; i < num_ops(); ++i) {
    const Op op = static_cast<Op>(i);
    INFO(std::string(op_def(op).name));
    CHECK((!in_smith(op) || seen.contains(op)));
  }
}

// Prints, parses and evaluates.
SmithExecutor text_executor() {
  return {"text", [](const ComputationPtr& program, std::span<const LiteralPtr> arguments) {
            const auto back = parse(print(*program));
            if (!back.ok()) return absl::StatusOr<std::vector<LiteralPtr>>(back.status());
            if (*back != program)
              return absl::StatusOr<std::vector<LiteralPtr>>(
                  absl::InternalError("another program was read back"));
            return evaluate(**back, arguments);
          }};
}

SmithExecutor pass_executor(const Pass& pass) {
  return {
      std::string(pass.name), [&pass](const ComputationPtr& program, std::span<const LiteralPtr> arguments) {
        const auto after = pass.run(program);
        if (!after.ok()) return absl::StatusOr<std::vector<LiteralPtr>>(after.status());
        if (absl::Status s = verify(**after); !s.ok()) return absl::StatusOr<std::vector<LiteralPtr>>(s);
        const auto again = pass.run(*after);
        if (!again.ok() || *again != *after)
          return absl::StatusOr<std::vector<LiteralPtr>>(absl::InternalError("the pass is not idempotent"));
        return evaluate(**after, arguments);
      }};
}

// Runs as an executable, on the interpreting tier or as machine code.
SmithExecutor jit_executor(bool compiled) {
  return {
      compiled ? "compiled" : "interpreted",
      [compiled](const ComputationPtr& program,
                 std::span<const LiteralPtr> arguments) -> absl::StatusOr<std::vector<LiteralPtr>> {
        jit::Engine& engine = jit::Engine::get();
        engine.kernels().set_generator_options({.library_path = LAMINA_LLVM_PATH, .cpu = {}, .features = {}});
        engine.kernels().set_compiling(compiled);
        engine.kernels().set_eager(compiled);
        const auto executable = jit::Executable::compile(engine, program);
        if (!executable.ok()) return executable.status();
        std::vector<jit::BufferRef> buffers, results;
        for (const LiteralPtr& a : arguments) {
          buffers.push_back(*engine.allocator().allocate(a->bytes()));
          if (a->bytes() > 0) std::memcpy(buffers.back()->data(), a->data(), a->bytes());
        }
        const absl::Status status = (*executable)->run(buffers, results);
        engine.kernels().set_compiling(true);
        engine.kernels().set_eager(false);
        if (!status.ok()) return status;
        if (!engine.kernels().unavailable().empty())
          return absl::InternalError(engine.kernels().unavailable());
        std::vector<LiteralPtr> out;
        for (size_t i = 0; i < results.size(); ++i)
          out.push_back(Literal::copy_of(program->roots()[i].type(), results[i]->data()));
        return out;
      }};
}

void check_all(const SmithExecutor& executor) {
  for (uint64_t seed = 0; seed < kPrograms; ++seed) {
    const ComputationPtr program = random_program(seed);
    std::string what = difference(program, executor, seed);
    if (what.empty()) continue;
    const ComputationPtr small = reduce_program(
        program, [&](const ComputationPtr& p) { return !difference(p, executor, seed).empty(); });
    INFO("seed " << seed << "\n" << print(*small));
    INFO(difference(small, executor, seed));
    CHECK(what.empty());
  }
}

TEST_CASE("random programs read back and give the same results", "[smith]") { check_all(text_executor()); }

TEST_CASE("passes keep the bits of random programs", "[smith][passes]") {
  for (const Pass& pass : passes()) check_all(pass_executor(pass));
}

TEST_CASE("executables keep the bits of random programs", "[smith][executable]") {
  check_all(jit_executor(false));
  check_all(jit_executor(true));
}

TEST_CASE("programs that fail are made small", "[smith]") {
  auto sorts = [](const ComputationPtr& p) {
    return std::any_of(p->nodes().begin(), p->nodes().end(),
                       [](const Node* n) { return n->op() == Op::sort; });
  };
  int found = 0;
  for (uint64_t seed = 0; seed < kPrograms && found < 5; ++seed) {
    const ComputationPtr program = random_program(seed);
    if (!sorts(program)) continue;
    ++found;
    const ComputationPtr small = reduce_program(program, sorts);
    INFO(print(*small));
    CHECK(sorts(small));
    CHECK(small->nodes().size() <= 4);
    CHECK(small->roots().size() == 1);
  }
  CHECK(found == 5);
}

}  // namespace
}  // namespace lamina::testing
