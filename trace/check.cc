#include "trace/check.h"

#include "hlo/hash_map.h"

namespace lamina::trace {

using hlo::Value;

absl::Status check_ends(std::string_view what, std::span<const Value> outputs,
                        std::span<const Value> inputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i]) return absl::InvalidArgumentError(str_cat(what, ": output ", i, " is missing"));
  HashSet<const hlo::Node*> seen;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) return absl::InvalidArgumentError(str_cat(what, ": input ", i, " is missing"));
    if (inputs[i].node()->num_results() != 1)
      return absl::InvalidArgumentError(str_cat(what, ": input ", i, " is a node with several results"));
    if (!seen.insert(inputs[i].node()).second)
      return absl::InvalidArgumentError(str_cat(what, ": input ", i, " is given twice"));
  }
  return absl::OkStatus();
}

absl::Status check_types(std::string_view what, std::span<const Value> values, std::span<const Value> like) {
  if (values.size() != like.size())
    return absl::InvalidArgumentError(
        str_cat(what, ": ", values.size(), " given for ", like.size(), " values"));
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i] && values[i].type() != like[i].type())
      return absl::InvalidArgumentError(str_cat(what, " ", i, " has type ", hlo::to_string(*values[i].type()),
                                                " but its value has ", hlo::to_string(*like[i].type())));
  return absl::OkStatus();
}

}  // namespace lamina::trace
