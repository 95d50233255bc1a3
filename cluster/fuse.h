// Fusion: which nodes of a computation become one loop kernel, one library step, or a step on the host.
//
// Contract: every needed node is in exactly one group or is computed inside its consumers ("inlined"); groups
// are in an order in which they can run. Nothing dear is computed twice. Each "no" has its reason.
// Deterministic: depends on the computation only.
//
// A `while` or `scan` whose steps compute element by element, or on a few values for each element, is one
// kernel (see cluster/repeat.h), and so is one over small arrays in memory (cluster/array_loop.h).
//
// Anchors are the nodes that get a value of their own: roots, operands of library steps, reductions, and
// whatever is too dear or too large to be computed inside each consumer. Anchors over one iteration space
// that feed each other element by element join one group, as long as the groups stay free of cycles.
#ifndef LAMINA_CLUSTER_FUSE_H_
#define LAMINA_CLUSTER_FUSE_H_

#include <string>
#include <vector>

#include "hlo/computation.h"
#include "hlo/hash_map.h"

namespace lamina::cluster {

using hlo::Computation;
using hlo::Node;

enum class GroupKind : uint8_t {
  kLoop,     // one loop kernel
  kAlias,    // the operand's buffer under another type (reshape, barriers)
  kLibrary,  // one call of a library routine or of a nested program
  kHost,     // a callback into the host language: the border between two clusters
};

struct Group {
  GroupKind kind;
  std::vector<const Node*> anchors;  // loops: postorder; others: one
  const Node* reduction = nullptr;   // loops: at most one
  const Node* repeat = nullptr;      // loops: a while or scan that is the whole kernel (cluster/repeat.h)
  hlo::Dims repeat_space;            // of its elements
  bool repeat_trailing = false;      // where the space lies in arrays (see cluster/repeat.h)
  std::vector<bool> repeat_read;     // which results of the repeat, or else the reduction, anything reads
  bool array_loop = false;           // it is one over arrays in memory (cluster/array_loop.h)
  // A sort: of each line of results, how many elements from the first on anything reads; others may hold
  // anything. -1: all.
  int64_t sorted_read = -1;
  std::vector<hlo::Value> reads;     // library: by operand, if not the operands (cluster/read_through.h)
  std::vector<const Node*> outputs;  // anchors that are stored
  int cluster = 0;                   // groups between two host steps share a number
};

struct Refusal {
  const Node* producer;
  const Node* consumer;
  std::string reason;
};

struct FusionPlan {
  std::vector<Group> groups;
  HashMap<const Node*, int> group_of;  // anchors only
  std::vector<Refusal> refusals;
  int num_clusters = 0;
  int64_t most_written_out = 1, most_columns = 1;  // as in Costs
};

struct Costs;  // cluster/costs.h

FusionPlan make_fusion_plan(const Computation& computation, const Costs& costs);

// How a node can be part of a loop kernel.
enum class LoopRole : uint8_t { kNone, kMap, kReduction };
LoopRole loop_role(const Node& node);
// Whether nodes of the op can be part of one at all, and of the steps of a loop.
bool may_join_loop(hlo::Op op);
// A gather of single elements, not of slices: it reads its array at computed places.
bool is_element_gather(const Node& node);

// A reshape whose operand index is affine in the result index: it splits or drops dimensions but merges none.
// Gives, per operand dim, the result dims it splits into (possibly none).
bool is_splitting_reshape(const Node& reshape, std::vector<std::vector<int64_t>>* parts = nullptr);

// Table of groups with members and outputs, then the refusals; and the same as Graphviz.
std::string report(const Computation& computation, const FusionPlan& plan);
std::string to_dot(const Computation& computation, const FusionPlan& plan);

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_FUSE_H_
