// Random programs through the text form, the verifier and the passes.
#include <catch2/catch.hpp>
#include <set>

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/verifier.h"
#include "tests/build_paths.h"
#include "tests/smith/executors.h"
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

// Every way of running programs that `group` holds, on the programs of these seeds.
void check_group(SmithGroup group, uint64_t first, uint64_t last) {
  int ways = 0;
  for (const SmithExecutor& executor : smith_executors(kCodeGenerator)) {
    if (executor.group != group) continue;
    ++ways;
    for (uint64_t seed = first; seed < last; ++seed) {
      const ComputationPtr program = random_program(seed);
      const std::string what = difference(program, executor, seed);
      if (what.empty()) continue;
      const ComputationPtr small = reduce_program(
          program, [&](const ComputationPtr& p) { return !difference(p, executor, seed).empty(); });
      INFO("seed " << seed << "\n" << print(*small));
      INFO(difference(small, executor, seed));
      CHECK(what.empty());
    }
  }
  CHECK(ways > 0);
}

TEST_CASE("random programs read back and give the same results", "[smith]") {
  check_group(SmithGroup::kText, 0, 10000);
}

TEST_CASE("passes keep the bits of random programs", "[smith][passes]") {
  check_group(SmithGroup::kPass, 0, 2000);
}

TEST_CASE("random programs give the same bits lazily, cut anywhere, and on any number of threads",
          "[smith][executable]") {
  check_group(SmithGroup::kRun, 0, 5000);
}
// Each takes as long as thirty of those.
TEST_CASE("random programs give the same bits compiled", "[smith][executable]") {
  check_group(SmithGroup::kCompiled, 0, 2000);
}
TEST_CASE("so do others", "[smith][executable][others]") {
  check_group(SmithGroup::kRun, 5000, 10000);
  check_group(SmithGroup::kCompiled, 2000, 10000);
}

TEST_CASE("CUDA devices give the bits of random programs", "[smith][cuda_programs]") {
  check_group(SmithGroup::kCuda, 0, 2000);
}

TEST_CASE("vmap of random programs has the bits of a loop", "[smith][vmap]") {
  check_group(SmithGroup::kBatch, 0, 10000);
}

TEST_CASE("a wrong way of running is found", "[smith]") {
  const SmithExecutor off{"off by one bit", SmithGroup::kRun,
                          [](const ComputationPtr& p, auto arguments, uint64_t) {
                            auto results = evaluate(*p, arguments);
                            if (!results.ok()) return results;
                            for (LiteralPtr& r : *results) {
                              if (r->bytes() == 0 || r->dtype() != DType::kS32) continue;
                              std::vector<std::byte> changed(r->element(0), r->element(0) + r->bytes());
                              changed.back() ^= std::byte{1};
                              r = Literal::copy_of(r->type(), changed.data());
                            }
                            return results;
                          }};
  int found = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) found += !difference(random_program(seed), off, seed).empty();
  CHECK(found > 10);
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
