#include "lazy/checkify.h"

#include "hlo/op.h"
#include "hlo/passes/checks.h"
#include "hlo/regions.h"
#include "hlo/strings.h"
#include "lazy/control.h"
#include "lazy/effects.h"
#include "lazy/location_text.h"

namespace lamina::lazy {

std::vector<Lazy> checked(const FlatFunction& f, const std::vector<Lazy>& args, const Checks& checks) {
  std::vector<Typed> types, results;
  for (const Lazy& a : args) types.push_back({a.value.type(), a.weak});
  std::vector<Lazy> operands = args, captured;
  bool effects = false;
  const hlo::ComputationPtr body = region(f, types, &captured, &results, true, &effects);
  hlo::CheckOptions options{
      checks.user, checks.nan, checks.division, [&](const hlo::Node& n, std::string_view what) {
        std::string name(n.def().name);
        if (n.op() == hlo::Op::reduce)
          if (const auto op = hlo::region_op(*n.attrs().computation(hlo::Attr::body)))
            name += str_cat(".", hlo::op_def(*op).name);
        return checks.number(std::string(what), str_cat(name, location_text(n.location())));
      }};
  const size_t n = results.size();
  const hlo::ComputationPtr with_error =
      check(hlo::with_checks(*body, options, body->parameters().size(), body->roots().size()));
  if (effects) {
    operands.push_back({last_token(), false});
    results.push_back({token_of_effects(), false});
  }
  operands.insert(operands.end(), captured.begin(), captured.end());
  hlo::Builder b;
  operands.push_back({b.scalar_int(DType::kS32, 0), false});
  check(b.status());
  results.push_back({hlo::scalar_type(DType::kS32), false});
  std::vector<Lazy> out = call_region(with_error, std::move(operands), results, effects);
  if (effects) {
    waiting_token() = out[n].value;
    out.erase(out.begin() + static_cast<ptrdiff_t>(n));
    run_effects();
  }
  return out;
}

}  // namespace lamina::lazy
