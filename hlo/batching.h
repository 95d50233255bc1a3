// Values that carry a batch as their dimension 0.
#ifndef LAMINA_HLO_BATCHING_H_
#define LAMINA_HLO_BATCHING_H_

#include <span>

#include "hlo/builder.h"
#include "hlo/graph.h"

namespace lamina::hlo {

// Every result either carries the batch as dimension 0 or is unbatched.
struct BatchResult {
  Values results;
  absl::InlinedVector<bool, 3> batched;
};
// A result list in which every value carries the batch.
BatchResult all_batched(Values results);

// `x` with the batch at dimension 0, broadcast if it does not carry it.
Value with_batch(Builder& b, const Value& x, bool batched, int64_t size);
Values all_with_batch(Builder& b, std::span<const Value> xs, std::span<const bool> batched, int64_t size);
const Type* batched_type(const Type* type, int64_t size);

// {first, rest + 1, ...}, the shape of a list of dimensions after a batch dimension was put in front.
Dims prepend(int64_t first, std::span<const int64_t> rest);
Dims shifted(std::span<const int64_t> dims, int64_t by = 1);
// {0, dims + 1, ...}.
Dims shifted_with_zero(std::span<const int64_t> dims);
// 0 ... n-1.
Dims all_dims(int64_t n);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_BATCHING_H_
