// Closed sub-graphs: bodies of reductions, sorts, loops, branches and calls, and whole programs.
//
// Contract: a computation owns its parameters and roots; every node below the roots is a parameter or is made
// from parameters and constants only. Computations are interned: structurally equal ones are the same object,
// which lives as long as anyone has it.
#ifndef LAMINA_HLO_COMPUTATION_H_
#define LAMINA_HLO_COMPUTATION_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"

namespace lamina::hlo {

class Builder;

class Computation {
 public:
  Computation() = default;
  Computation(const Computation&) = delete;
  Computation& operator=(const Computation&) = delete;
  ~Computation();

  std::span<const Value> parameters() const { return parameters_; }
  std::span<const Value> roots() const { return roots_; }
  // Nodes below the roots, postorder; parameters that are used are among them.
  const std::vector<Node*>& nodes() const { return nodes_; }
  std::vector<const Type*> parameter_types() const;
  std::vector<const Type*> result_types() const;
  // Structure only (locations excluded).
  uint64_t hash() const { return hash_; }

  // Not interned by name: a name is for reading only.
  static absl::StatusOr<ComputationPtr> make(std::span<const Value> parameters, std::span<const Value> roots);

 private:
  friend struct ComputationTable;
  std::vector<Value> parameters_;
  std::vector<Value> roots_;
  std::vector<Node*> nodes_;
  std::vector<uint64_t> code_;  // canonical encoding: equal code, equal structure
  uint64_t hash_ = 0;
};

// A fresh parameter: never deduplicated, with a stamp of its own.
Value make_parameter(const Type* type);

// Canonical encoding of the graph between `parameters` and `roots`: op, mode, type, attributes and operand
// numbers in postorder. Equal encodings mean equal graphs. Any other leaf found is appended to `leaves` (if
// null: it must not occur) and numbered as a further parameter. For what is only run it is the same whatever
// rules its calls name, but for those in regions: transforms alone ask for them.
enum class EncodedFor : uint8_t { kTransforms, kRun };
absl::StatusOr<std::vector<uint64_t>> encode_graph(std::span<const Value> parameters,
                                                   std::span<const Value> roots, std::vector<Value>* leaves,
                                                   std::vector<Node*>* nodes,
                                                   EncodedFor use = EncodedFor::kTransforms);

// Rebuilds the computation's nodes with `builder` on `arguments`; returns its results.
Values inline_computation(Builder& builder, const Computation& computation, std::span<const Value> arguments);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_COMPUTATION_H_
