#include "hlo/rules/support.h"

#include "hlo/evaluator.h"

namespace lamina::hlo {

absl::Status check_region(std::string_view what, const ComputationPtr& region, Types parameters,
                          Types results) {
  if (!region) return invalid("has no ", what);
  auto same = [&](std::string_view kind, const std::vector<const Type*>& have, Types want) -> absl::Status {
    if (have.size() != want.size())
      return invalid(what, " has ", have.size(), " ", kind, " where ", want.size(), " are needed");
    for (size_t i = 0; i < have.size(); ++i)
      if (have[i] != want[i])
        return invalid(what, ": ", kind, " ", i, " is ", to_string(*have[i]), " where ", to_string(*want[i]),
                       " is needed");
    return absl::OkStatus();
  };
  LAMINA_RETURN_IF_ERROR(same("parameters", region->parameter_types(), parameters));
  return same("results", region->result_types(), results);
}

absl::Status check_reduction_region(const ComputationPtr& region, Types operands) {
  std::vector<const Type*> results, parameters;
  for (const Type* t : operands) results.push_back(scalar_type(t->dtype));
  parameters = results;
  parameters.insert(parameters.end(), results.begin(), results.end());
  return check_region("the body", region, parameters, results);
}

RegionRunner::RegionRunner(const Computation& region) : region_(region) {
  if (std::optional<ScalarProgram> program = region_program(region)) program_.emplace(*std::move(program));
}

absl::Status RegionRunner::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                               int64_t count) const {
  bool real = true;
  for (const Value& p : region_.parameters()) real &= !is_complex(p.dtype());
  for (const Value& r : region_.roots()) real &= !is_complex(r.dtype());
  if (program_ && real) {
    program_->run(inputs, outputs, count);
    return absl::OkStatus();
  }
  for (int64_t i = 0; i < count; ++i) {
    std::vector<LiteralPtr> arguments;
    for (size_t p = 0; p < inputs.size(); ++p) {
      const Type* t = region_.parameters()[p].type();
      arguments.push_back(
          Literal::copy_of(t, static_cast<const std::byte*>(inputs[p]) + i * byte_size(t->dtype)));
    }
    absl::StatusOr<std::vector<LiteralPtr>> results = evaluate(region_, arguments);
    if (!results.ok()) return results.status();
    for (size_t r = 0; r < outputs.size(); ++r) {
      const Literal& lit = *(*results)[r];
      std::memcpy(static_cast<std::byte*>(outputs[r]) + i * byte_size(lit.dtype()), lit.data(), lit.bytes());
    }
  }
  return absl::OkStatus();
}

}  // namespace lamina::hlo
