// The simplification passes, by name.
//
// Contract of a pass: it returns a computation of the same signature whose results have the same bits and
// which has the same effects, in normal form: running it again returns the same object. Equal operations are
// one node by construction and dead ones do not exist in a computation, so there are no passes for them.
#ifndef LAMINA_HLO_PASSES_PASS_H_
#define LAMINA_HLO_PASSES_PASS_H_

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "hlo/computation.h"

namespace lamina::hlo {

struct Pass {
  std::string_view name;
  std::string_view description;  // one line
  absl::StatusOr<ComputationPtr> (*run)(const ComputationPtr& computation);
};

std::span<const Pass> passes();
// Null if there is none.
const Pass* find_pass(std::string_view name);

// Called after each pass; an error ends the run.
using PassObserver =
    std::function<absl::Status(const Pass& pass, const ComputationPtr& before, const ComputationPtr& after)>;

// In order. NotFound, with the names that exist, for an unknown one.
absl::StatusOr<ComputationPtr> run_passes(std::span<const std::string> names, ComputationPtr computation,
                                          const PassObserver& observer = nullptr);

absl::StatusOr<ComputationPtr> fold(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> simplify_arithmetic(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> simplify_shapes(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> simplify_control(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> inline_calls(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> propagate_constants(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> drop_unused(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> drop_results(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> hoist_invariants(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> hoist_products(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> turn_factors(const ComputationPtr& computation);
absl::StatusOr<ComputationPtr> join_routines(const ComputationPtr& computation);
// All of them, in turn, until nothing changes.
absl::StatusOr<ComputationPtr> simplify(const ComputationPtr& computation);
// For devices where that is quicker: the order of dimensions, and so the bits, are no longer what was asked
// for.
absl::StatusOr<ComputationPtr> join_transforms(const ComputationPtr& computation);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PASSES_PASS_H_
