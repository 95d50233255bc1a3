// Random programs that are valid, for comparing ways of running them.
//
// Contract: the same seed gives the same program. Ops come from the op table: an elementwise op joins by its
// row alone, its attributes drawn by kind; the other families have a sampler per op, and a test fails if an
// op has none. Arrays are small (0 to 3 dimensions, sizes 0 to 5), loops run a few steps, regions nest.
#ifndef LAMINA_TESTS_SMITH_GENERATOR_H_
#define LAMINA_TESTS_SMITH_GENERATOR_H_

#include <functional>
#include <string>
#include <vector>

#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/literal.h"

namespace lamina::testing {

struct SmithOptions {
  int parameters = 4;
  int operations = 20;
  int depth = 2;  // of regions of loops, branches and calls
  int64_t max_elements = 200;
};

// Ops that programs may hold; not those that the recorder makes, nor calls to the host.
bool in_smith(hlo::Op op);

hlo::ComputationPtr random_program(uint64_t seed, const SmithOptions& options = {});

using Literals = std::vector<hlo::LiteralPtr>;

// A way of running programs. What it chooses itself (where to cut, which arguments to batch) comes from the
// seed.
enum class SmithGroup : uint8_t { kText, kPass, kRun, kCompiled, kCuda, kBatch };
struct SmithExecutor {
  std::string name;
  SmithGroup group;
  std::function<absl::StatusOr<Literals>(const hlo::ComputationPtr&, std::span<const hlo::LiteralPtr>,
                                         uint64_t seed)>
      run;
};
// The program's results by `executor` on random arguments, against the evaluator's: "" if they are equal to
// the bit (NaN to NaN), else what differs.
std::string difference(const hlo::ComputationPtr& program, const SmithExecutor& executor, uint64_t seed);

// The smallest program found for which `fails` still holds, by keeping one result and cutting operations off:
// each is replaced by a parameter or by zeros.
hlo::ComputationPtr reduce_program(const hlo::ComputationPtr& program,
                                   const std::function<bool(const hlo::ComputationPtr&)>& fails);

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_SMITH_GENERATOR_H_
