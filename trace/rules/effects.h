// Transforms of host callbacks: effects and their tokens (lazy/effects.h), and callbacks that take all lanes
// at once.
#ifndef LAMINA_TRACE_RULES_EFFECTS_H_
#define LAMINA_TRACE_RULES_EFFECTS_H_

#include <span>

#include "trace/rules/support.h"

namespace lamina::trace {

// An effect of each lane, lane after lane: a scan that carries the token, which stays one for all lanes.
BatchResult effect_batch(Builder& b, const Node& node, std::span<const Value> x,
                         std::span<const bool> batched, int64_t size);

// A host callback that takes all lanes in one call, by its vmap_method: operands that are not batched get a
// dimension of 1 (expand_dims), all lanes (broadcast_all), or stay as they are (legacy_vectorized).
BatchResult callback_batch(Builder& b, const Node& node, std::span<const Value> x,
                           std::span<const bool> batched, int64_t size);

// The token of effects of all lanes as one, where lanes had one each.
Value joined_token(Builder& b, const Value& token);

// What has run, for a derivative that runs it again: without the effects that give nothing but a token. Those
// with results cannot happen twice: an error (of a node of regions, in the builder).
absl::StatusOr<ComputationPtr> without_effects(const Computation& c);
Value without_effects(Builder& b, const Node& node);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_EFFECTS_H_
