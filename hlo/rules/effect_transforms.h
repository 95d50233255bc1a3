// Transforms of host callbacks: effects and their tokens (lazy/effects.h), and callbacks that take all lanes
// at once.
#ifndef LAMINA_HLO_RULES_EFFECT_TRANSFORMS_H_
#define LAMINA_HLO_RULES_EFFECT_TRANSFORMS_H_

#include <span>

#include "hlo/rules/transform_support.h"

namespace lamina::hlo {

// An effect of each lane, lane after lane: a scan that carries the token, which stays one for all lanes.
BatchResult effect_batch(Builder& b, const Node& node, std::span<const Value> x,
                         std::span<const bool> batched, int64_t size);

// A host callback that takes all lanes in one call, by its vmap_method: operands that are not batched get a
// dimension of 1 (expand_dims), all lanes (broadcast_all), or stay as they are (legacy_vectorized).
BatchResult callback_batch(Builder& b, const Node& node, std::span<const Value> x,
                           std::span<const bool> batched, int64_t size);

// What has run, for a derivative that runs it again: without the effects that give nothing but a token. Those
// with results cannot happen twice: an error (of a node of regions, in the builder).
absl::StatusOr<ComputationPtr> without_effects(const Computation& c);
Value without_effects(Builder& b, const Node& node);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_RULES_EFFECT_TRANSFORMS_H_
