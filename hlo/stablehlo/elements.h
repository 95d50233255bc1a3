// The values of attributes: numbers of dense<...> and of lists.
//
// Contract: memory is bounded by the text: one value for many elements stays one value.
#ifndef LAMINA_HLO_STABLEHLO_ELEMENTS_H_
#define LAMINA_HLO_STABLEHLO_ELEMENTS_H_

#include "absl/status/statusor.h"
#include "hlo/literal.h"
#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {

// A dense attribute as `type`: a literal of that type, or of its scalar type if all elements are equal.
absl::StatusOr<LiteralPtr> read_dense(const ModuleTree& module, const AttrTree& attr, const Type* type);

// A list of integers or booleans, nested lists flattened; dense<[...]> and dense<1> : tensor<2xi64> likewise.
absl::StatusOr<Dims> read_ints(const ModuleTree& module, const AttrTree& attr);

// The types of the text as ours. `?` is an error.
absl::StatusOr<const Type*> static_type(const TypeTree& tree);
// Whether a value of `type` is one of `tree`, where ? stands for any size.
bool matches(const TypeTree& tree, const Type* type);
std::string to_string(const TypeTree& tree);
std::string to_string(const Quantization& quantization);

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_ELEMENTS_H_
