// Checks of arguments that every driver makes: bad input gives an error in words.
#ifndef LAMINA_TRACE_CHECK_H_
#define LAMINA_TRACE_CHECK_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "hlo/graph.h"
#include "hlo/strings.h"

namespace lamina::trace {

// Inputs are distinct one-result nodes, outputs are there.
absl::Status check_ends(std::string_view what, std::span<const hlo::Value> outputs,
                        std::span<const hlo::Value> inputs);

// values[i], where not null, has the type of like[i].
absl::Status check_types(std::string_view what, std::span<const hlo::Value> values,
                         std::span<const hlo::Value> like);

template <typename List>
std::vector<hlo::Value> to_vector(const List& list) {
  return std::vector<hlo::Value>(list.begin(), list.end());
}

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_CHECK_H_
