// One row per op: everything the rest of the library asks about it but its transforms, which lie in
// trace/rules/rules.h.
//
// Contract: `op_def(op)` is complete for every op of ops.def (a test goes through the members). Printer,
// parser, verifier, hash, equality and the Python layer read rows; none of them switches over ops.
#ifndef LAMINA_HLO_OP_H_
#define LAMINA_HLO_OP_H_

#include <atomic>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "hlo/mutex.h"
#include "hlo/scalar/program.h"

namespace lamina::hlo {

enum class OpFamily : uint8_t {
  kStructure,
  kElementwise,
  kShape,
  kIndexing,
  kReduction,
  kLinear,
  kRandom,
  kCollective,
  kControl
};

enum OpFlag : uint32_t {
  kCommutative = 1,
  kNoDedup = 2,  // two equal records are two nodes
  kDear = 4,     // fusion does not compute it twice
};

struct AttrSpec {
  Attr attr;
  bool optional;
};

// Result type from operand types and attributes; errors in words, with shapes.
using TypeRule = absl::StatusOr<const Type*> (*)(std::span<const Type* const> operands, const Attrs& attrs);

// The scalar program of an elementwise op for given operand and result element types (inputs and outputs by
// part).
using ScalarRecordRule = ScalarProgram (*)(std::span<const DType> operands, DType result, const Attrs& attrs);

// Host evaluation: the op's meaning, written plainly. One output per result, already typed.
using EvalRule = absl::Status (*)(const Node& node, std::span<const LiteralPtr> operands,
                                  std::span<const std::shared_ptr<Literal>> results);

struct OpDef {
  Op op;
  std::string_view name;  // text and Python name, without the trailing underscore of and_, while_, ...
  OpFamily family;
  int arity;
  uint32_t flags;
  std::vector<AttrSpec> attrs;

  TypeRule type = nullptr;
  ScalarRecordRule scalar = nullptr;  // elementwise ops
  EvalRule eval = nullptr;            // the others

  bool is_elementwise() const { return family == OpFamily::kElementwise; }
};

const OpDef& op_def(Op op);
// Rows of the table: those of ops.def and those that were added.
int num_ops();
// Adds an elementwise op for the life of the process: `row` needs name, arity, type and scalar rule; the id
// is given. Text, verifier, evaluator, passes, fusion and code generation know it from then on, and
// transforms, for which its derivative is zero (trace/rules/rules.h adds one that has a derivative).
// InvalidArgument if a member is missing, AlreadyExists for a taken name, ResourceExhausted beyond
// kMaxAddedOps.
absl::StatusOr<Op> add_elementwise_op(OpDef row);
inline constexpr int kMaxAddedOps = 256;
std::optional<Op> parse_op(std::string_view name);

// The scalar program of an elementwise node, memoised by op, types and attributes.
const ScalarProgram& scalar_program(Op op, std::span<const DType> operands, DType result, const Attrs& attrs);
const ScalarProgram& scalar_program(const Node& node);

// A region of scalar elementwise nodes as one program (inputs and outputs by part); absent if it holds
// anything else.
std::optional<ScalarProgram> region_program(const Computation& region);

class OpTable;
// Each rule file adds its members to the rows of its family.
void add_structure_rules(OpTable& table);
void add_elementwise_rules(OpTable& table);
void add_shape_rules(OpTable& table);
void add_indexing_rules(OpTable& table);
void add_reduction_rules(OpTable& table);
void add_linear_rules(OpTable& table);
void add_random_rules(OpTable& table);
void add_collective_rules(OpTable& table);
void add_control_rules(OpTable& table);

class OpTable {
 public:
  OpTable();
  OpDef& operator[](Op op) { return rows_[static_cast<int>(op)]; }
  const OpDef& operator[](Op op) const { return rows_[static_cast<int>(op)]; }
  std::span<const OpDef> rows() const {
    return {rows_.data(), static_cast<size_t>(count_.load(std::memory_order_acquire))};
  }
  absl::StatusOr<Op> add(OpDef row);
  std::optional<Op> find(std::string_view name) const;

 private:
  std::vector<OpDef> rows_;  // never grows: rows have stable addresses
  std::atomic<int> count_{0};
  mutable Mutex mutex_{LockRank::kOps};  // guards names_ and the adding of rows
  std::map<std::string, Op, std::less<>> names_;
};

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_OP_H_
