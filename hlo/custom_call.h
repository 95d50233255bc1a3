// Host callbacks that `custom_call` nodes name.
//
// Contract: a target is registered once and stays; it runs on the calling thread, sees operands and fills
// results of the recorded types, and may use the library. Its error reaches the caller unchanged.
#ifndef LAMINA_HLO_CUSTOM_CALL_H_
#define LAMINA_HLO_CUSTOM_CALL_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "hlo/graph.h"
#include "hlo/literal.h"

namespace lamina::hlo {

// What the Python module registers: the first operand stands for a Python function.
inline constexpr std::string_view kPythonTarget = "python";
// A custom_call of one operand whose target begins so is that operand, under the name that follows, for
// policies (trace/kept.h). Simplification takes it away.
inline constexpr std::string_view kNameTarget = "lamina.name/";
// The name; absent for other nodes.
std::optional<std::string_view> given_name(const Node& node);
// What the C++ API registers: likewise a function of C++.
inline constexpr std::string_view kCppTarget = "cpp";

using HostCallback = std::function<absl::Status(std::span<const LiteralPtr> operands,
                                                std::span<const std::shared_ptr<Literal>> results)>;

// AlreadyExists if the name is taken.
absl::Status register_custom_call(std::string name, HostCallback callback);
// Null if there is none.
std::shared_ptr<const HostCallback> find_custom_call(const std::string& name);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_CUSTOM_CALL_H_
