// Subgraphs that a library computes by one call: made one node of the program, a call whose body is the
// subgraph, so that it is found again in there.
#ifndef LAMINA_JIT_CUDA_SUBGRAPH_CALL_H_
#define LAMINA_JIT_CUDA_SUBGRAPH_CALL_H_

#include <span>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "hlo/graph.h"
#include "hlo/hash_map.h"

namespace lamina::jit::cuda {

// Who reads the results of a node, as often as they do; null stands for whoever runs the computation.
using Users = HashMap<const hlo::Node*, std::vector<const hlo::Node*>>;
Users users_of(const hlo::Computation& computation);
// Whether nobody else reads what these nodes make, but the result's.
bool are_read_only_here(std::span<const hlo::Node* const> nodes, const hlo::Node* result, const Users& users);

// What parameters of loops' bodies hold in every turn, by their nodes: values outside of the loop. Of all
// loops that have their bodies for themselves.
using Invariants = HashMap<const hlo::Node*, hlo::Value>;
Invariants invariants_of(const hlo::ComputationPtr& program);
hlo::Value outermost(const Invariants& invariants, hlo::Value v);

// What makes `result` of the operands, and of what is constant.
struct Subgraph {
  hlo::Value result;
  hlo::Values operands;
};
absl::StatusOr<hlo::ComputationPtr> with_subgraph_calls(const hlo::ComputationPtr& program,
                                                        std::string_view target,
                                                        std::span<const Subgraph> subgraphs,
                                                        const Invariants& invariants);
// The body of such a call; null of other nodes.
const hlo::Computation* subgraph_of(const hlo::Node& node, std::string_view target);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_SUBGRAPH_CALL_H_
