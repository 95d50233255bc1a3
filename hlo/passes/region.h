// Taking regions apart and putting them together again.
#ifndef LAMINA_HLO_PASSES_REGION_H_
#define LAMINA_HLO_PASSES_REGION_H_

#include <functional>

#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "hlo/computation.h"
#include "hlo/hash_map.h"

namespace lamina::hlo {

// Values that stand for operands of a region's nodes, by Operand::bits.
using Substitution = HashMap<uint64_t, Value>;

// The region's results with some of its values replaced (nodes below those stay out); each node keeps its
// numerics mode and location. Nodes nothing changes under are reused.
Values substitute(Builder& b, const Computation& region, const Substitution& replaced);

// What became of computations.
using Remade = HashMap<const Computation*, ComputationPtr>;
// The computation after `rewrite` has seen its regions, each before those around it, and itself. It gives
// null where nothing changes; `remade` has what the regions became.
absl::StatusOr<ComputationPtr> rewrite_inside_out(
    const ComputationPtr& computation, Remade* remade,
    const std::function<absl::StatusOr<ComputationPtr>(const Computation&)>& rewrite);
// The node's attributes with the regions that became others; the same ones where none did.
const Attrs* with_remade(const Attrs& attrs, const Remade& remade);

// The region's results on `arguments`.
Values expand(Builder& b, const Computation& region, std::span<const Value> arguments);

// As Computation::make, with errors left in the builder.
ComputationPtr make_region(Builder& b, std::span<const Value> parameters, std::span<const Value> roots);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PASSES_REGION_H_
