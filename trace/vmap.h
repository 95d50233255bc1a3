// Batching of recorded graphs, and replacing inputs of a graph.
#ifndef LAMINA_TRACE_VMAP_H_
#define LAMINA_TRACE_VMAP_H_

#include <span>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "trace/lanes.h"

namespace lamina::trace {

// `outputs` for `size` values of the inputs at once: inputs[i] (distinct parameters or identity nodes) is
// replaced by values[i], which carries the batch at dimension 0 where batched[i] and else has the input's
// type. Every result carries the batch at dimension 0. Lane k has the bits that the graph gives for the k-th
// values alone.
absl::StatusOr<std::vector<hlo::Value>> vmap(std::span<const hlo::Value> outputs,
                                             std::span<const hlo::Value> inputs,
                                             std::span<const hlo::Value> values,
                                             std::span<const bool> batched, int64_t size);

struct VmapOut {
  std::vector<hlo::Value> results;
  std::vector<bool> batched;  // which results carry the batch; the others are the same for every lane
};
// As vmap, by a strategy for lanes that go different ways, leaving results that do not depend on batched
// inputs without the batch.
absl::StatusOr<VmapOut> vmap_lazily(std::span<const hlo::Value> outputs, std::span<const hlo::Value> inputs,
                                    std::span<const hlo::Value> values, std::span<const bool> batched,
                                    int64_t size, LaneStrategy strategy = LaneStrategy::kSelect);

// `outputs` with inputs replaced by values of the same types; nodes that do not depend on inputs are shared.
absl::StatusOr<std::vector<hlo::Value>> substitute(std::span<const hlo::Value> outputs,
                                                   std::span<const hlo::Value> inputs,
                                                   std::span<const hlo::Value> values);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_VMAP_H_
