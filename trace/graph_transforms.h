// The three walks that transforms are made of, over any part of a graph: forward derivative, transpose,
// batching.
//
// Contract: only nodes that depend on `inputs` are visited (stamps prune the rest) and only those get
// successors; walks use explicit stacks and go in postorder by operand position, which fixes the order of
// cotangent sums. Errors are left in the builder, with the place where the node was recorded. New nodes take
// numerics mode and location of the node they stem from. The rules of loops, branches and calls use these
// walks on their bodies; jvp.h, transpose.h and vmap.h wrap them.
#ifndef LAMINA_TRACE_GRAPH_TRANSFORMS_H_
#define LAMINA_TRACE_GRAPH_TRANSFORMS_H_

#include <functional>
#include <span>

#include "trace/names.h"

namespace lamina::trace {

using Mask = absl::InlinedVector<bool, 8>;

// Whether values of this type have tangents.
inline bool has_tangent(const Type* type) { return type->is_array() && is_inexact(type->dtype); }

// How a derivative is recorded.
enum class JvpMode : uint8_t {
  kForward,    // primal and tangent may be computed together
  kLinearize,  // primal results do not depend on tangents, and tangents are linear nodes of them
};

struct JvpGraph {
  Values primals;   // the outputs, re-recorded where a rule asked for it
  Values tangents;  // null: none
};
// tangents[i] belongs to inputs[i], null for none.
JvpGraph jvp_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                   std::span<const Value> tangents, JvpMode mode);

// Cotangents of `inputs` (null: none) of the part of the graph between them and `outputs`, which must be
// linear in them; cotangents[i] belongs to outputs[i].
Values transpose_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                       std::span<const Value> cotangents);

// `outputs` with inputs[i] replaced by values[i], which carries a batch of `size` at dimension 0 where
// batched[i].
BatchResult batch_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                        std::span<const Value> values, std::span<const bool> batched, int64_t size);

// `outputs` with inputs replaced by values.
Values substitute_graph(Builder& b, std::span<const Value> outputs, std::span<const Value> inputs,
                        std::span<const Value> values);

// Which results of a computation depend on a parameter marked in `marked`.
Mask dependence(const Computation& c, std::span<const bool> marked);

// The derivative of `record` at `operands` by a graph recorded for the purpose: for ops whose derivative is
// that of an equivalent graph. Returns the tangents of record's results.
Values tangents_through(Builder& b, std::span<const Value> operands, std::span<const Value> tangents,
                        const std::function<Values(Builder&, std::span<const Value>)>& record);

// The graph between `inputs` and `outputs` as a computation (inputs..., captured...) -> outputs. Captured are
// the values from outside that it uses; constants are kept inside.
struct ClosedGraph {
  ComputationPtr body;
  Values captured;
};
absl::StatusOr<ClosedGraph> close_graph(std::span<const Value> outputs, std::span<const Value> inputs);

// --- on closed computations ---

struct JvpComputation {
  ComputationPtr
      body;      // (parameters..., tangents of the marked) -> (results..., tangents of the marked results)
  Mask results;  // which results have a tangent
};
// Tangents for the parameters marked; results marked in `forced` get zeros if they have no tangent of their
// own.
absl::StatusOr<JvpComputation> jvp_computation(const Computation& c, std::span<const bool> marked,
                                               std::span<const bool> forced, JvpMode mode);

// For a computation linear in the parameters marked: (other parameters..., cotangents of the results marked
// in `results`) -> cotangents of the marked parameters (zeros where none).
absl::StatusOr<ComputationPtr> transpose_computation(const Computation& c, std::span<const bool> linear,
                                                     std::span<const bool> results);

struct BatchComputation {
  ComputationPtr body;  // the marked parameters and results carry the batch at dimension 0
  Mask results;
};
absl::StatusOr<BatchComputation> batch_computation(const Computation& c, std::span<const bool> marked,
                                                   std::span<const bool> forced, int64_t size);

// A computation cut in two: `known` computes what does not depend on the marked parameters, `unknown` the
// rest.
struct SplitComputation {
  Mask results;            // which results are unknown
  ComputationPtr known;    // (unmarked parameters) -> (known results..., residuals...)
  ComputationPtr unknown;  // (residuals..., marked parameters) -> unknown results
  // Residual i is unmarked parameter number parameter[i] itself (then `known` does not return it), or -1.
  std::vector<int64_t> residual_parameter;
};
// Results marked in `forced` count as unknown even if they do not depend on marked parameters.
absl::StatusOr<SplitComputation> split_computation(const Computation& c, std::span<const bool> marked,
                                                   std::span<const bool> forced);

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_GRAPH_TRANSFORMS_H_
