#include "hlo/passes/pass.h"

#include "hlo/passes/rewrite.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

constexpr Pass kPasses[] = {
    {"fold", "computes small constants; one number throughout becomes a broadcast scalar", fold},
    {"arithmetic",
     "elementwise identities that keep every bit: x*1, integer x+0, select with a known condition",
     simplify_arithmetic},
    {"shapes", "merges and removes operations that only move elements", simplify_shapes},
    {"control", "branches with a known index, loops that do not run or run once", simplify_control},
    {"inline", "replaces calls by their bodies, except those with a rule or to be computed again",
     inline_calls},
    {"propagate", "takes constants into the bodies of loops, branches and calls", propagate_constants},
    {"unused", "drops operands of branches and calls and carries of loops that nothing needs", drop_unused},
    {"results", "drops results of loops and branches that nothing needs", drop_results},
    {"hoist", "moves what does not change out of loops, never effects", hoist_invariants},
    {"products", "products with what does not change are made for all steps of a scan at once",
     hoist_products},
    {"factors", "products read what their factors are transposes of, and give what they are transposed to",
     turn_factors},
    {"routines", "matrix routines that do by one call what was asked for by two: factor and solve",
     join_routines},
    {"simplify", "all of the above until nothing changes", simplify},
    {"transforms", "Fourier transforms along several dimensions by one call, in any order of these",
     join_transforms},
};

// The order in which `simplify` runs the others, but for the one that ends it. Transposes that do not change
// in a loop have left it before its products turn factors back: one by rows is made once, for a product in
// every step.
constexpr absl::StatusOr<ComputationPtr> (*kSimplify[])(const ComputationPtr&) = {
    inline_calls,     propagate_constants, fold,        simplify_arithmetic,
    simplify_shapes,  simplify_control,    drop_unused, drop_results,
    hoist_invariants, hoist_products,      turn_factors};

}  // namespace

std::span<const Pass> passes() { return kPasses; }

const Pass* find_pass(std::string_view name) {
  for (const Pass& pass : kPasses)
    if (pass.name == name) return &pass;
  return nullptr;
}

absl::StatusOr<ComputationPtr> run_passes(std::span<const std::string> names, ComputationPtr computation,
                                          const PassObserver& observer) {
  for (const std::string& name : names) {
    const Pass* pass = find_pass(name);
    if (!pass) {
      std::string known;
      for (const Pass& p : kPasses) str_append(&known, known.empty() ? "" : ", ", p.name);
      return absl::NotFoundError(str_cat("there is no pass '", name, "'; there are ", known));
    }
    absl::StatusOr<ComputationPtr> next = pass->run(computation);
    if (!next.ok()) return next;
    if (observer) {
      if (absl::Status s = observer(*pass, computation, *next); !s.ok()) return s;
    }
    computation = *std::move(next);
  }
  return computation;
}

absl::StatusOr<ComputationPtr> simplify(const ComputationPtr& computation) {
  // Every pass removes operations or moves them one way, so this ends; the limit bounds the time spent.
  constexpr int kRounds = 32;
  NormalForms known;
  ComputationPtr current = computation;
  for (int round = 0; round < kRounds; ++round) {
    const ComputationPtr before = current;
    for (const auto run : kSimplify) {
      absl::StatusOr<ComputationPtr> next = run(current);
      if (!next.ok()) return next;
      current = *std::move(next);
    }
    if (current == before) break;
  }
  // It looks for the forms that the others leave.
  return join_routines(current);
}

}  // namespace lamina::hlo
