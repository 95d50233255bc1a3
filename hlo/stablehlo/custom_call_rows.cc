// Rows of custom calls by target: those that JAX writes for operations StableHLO has no name for.
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// A sharding of the one process that runs the program.
// A claim about shapes, which holds or failed while they were read.
void shape_assertion(OpReader& r) {
  const Dims holds = r.constant_ints(0);
  if (r.ok() && !holds.empty() && holds[0] == 0) r.fail("the shapes break an assertion of the program");
  r.yield_flat({});
}

// The greatest by the comparator along one dimension, exactly: operands are the arrays, then as many initial
// values.
void approximate_top_k(OpReader& r) {
  const Values all = r.ins();
  const Values xs(all.begin(), all.begin() + static_cast<int64_t>(all.size() / 2));
  const std::vector<Field> config = r.fields({"mhlo.backend_config"});
  const AttrTree* called = r.find({"called_computations"});
  const int64_t d = r.integer(config, "reduction_dim", -1), k = r.integer(config, "top_k", -1);
  if (xs.empty() || !called || called->items.size() != 1) return r.fail("needs arrays and a comparator");
  const int64_t size = d >= 0 && d < xs[0].rank() ? xs[0].dims()[d] : -1;
  if (k < 0 || k > size) return r.fail(str_cat("there are no ", k, " elements along dimension ", d));
  const ComputationPtr comparator = r.function(called->items[0].text);
  if (!comparator) return;
  const Values sorted = r.b.make_multi(
      Op::sort, xs, intern_attrs({{Attr::dimension, d}, {Attr::is_stable, true}, {Attr::body, comparator}}));
  if (!r.ok()) return;
  Dims limit = xs[0].dims();
  limit[d] = k;
  for (const Value& s : sorted) r.yield(r.b.slice(s, Dims(limit.size(), 0), limit));
}

constexpr NamedRow kCustomCallRows[] = {
    {"ApproxTopK", approximate_top_k},           {"Sharding", pass_through},
    {"SPMDFullToShardShape", pass_through},      {"SPMDShardToFullShape", pass_through},
    {"annotate_device_placement", pass_through}, {"LayoutConstraint", pass_through},
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

std::span<const NamedRow> custom_call_rows() { return kCustomCallRows; }
std::span<const NamedRow> custom_call_op() { return kCall; }

}  // namespace lamina::hlo::stablehlo
