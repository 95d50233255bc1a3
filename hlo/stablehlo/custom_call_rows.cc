// Rows of custom calls by target: those that JAX writes for operations StableHLO has no name for.
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// A sharding of the one process that runs the program.
void pass_through(OpReader& r) { r.yield_flat(r.ins()); }

// A claim about shapes, which holds or failed while they were read.
void shape_assertion(OpReader& r) {
  const Dims holds = r.constant_ints(0);
  if (r.ok() && !holds.empty() && holds[0] == 0) r.fail("the shapes break an assertion of the program");
  r.yield_flat({});
}

constexpr NamedRow kRows[] = {
    {"Sharding", pass_through},
    {"SPMDFullToShardShape", pass_through},
    {"SPMDShardToFullShape", pass_through},
    {"annotate_device_placement", pass_through},
    {"LayoutConstraint", pass_through},
    {"shape_assertion", shape_assertion},
};

void custom_call(OpReader& r) {
  std::string target = r.word({"call_target_name"});
  if (target.empty()) target = r.positional_word(0);
  if (target.empty()) return r.fail("names no target");
  if (const OpRow row = find_custom_call_row(target)) return row(r);
  r.fail(str_cat("the target @", target, " is not known"));
}

constexpr NamedRow kCall[] = {{"stablehlo.custom_call", custom_call}};

}  // namespace

std::span<const NamedRow> custom_call_rows() { return kRows; }
std::span<const NamedRow> custom_call_op() { return kCall; }

}  // namespace lamina::hlo::stablehlo
