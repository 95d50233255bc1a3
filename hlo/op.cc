#include "hlo/op.h"

#include <cstdio>
#include <cstdlib>

#include "absl/hash/hash.h"
#include "absl/strings/str_split.h"
#include "hlo/computation.h"
#include "hlo/hash_map.h"
#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

struct Row {
  Op op;
  std::string_view name;
  OpFamily family;
  int arity;
  uint32_t flags;
  std::string_view attrs;
};
constexpr Row kRows[] = {
#define OP(name, family, arity, flags, attrs) {Op::name, #name, OpFamily::family, arity, flags, attrs},
#include "hlo/ops.def"
#undef OP
};

std::vector<AttrSpec> parse_schema(const Row& row) {
  std::vector<AttrSpec> specs;
  for (absl::string_view piece :
       absl::StrSplit(absl::string_view(row.attrs.data(), row.attrs.size()), ' ', absl::SkipEmpty())) {
    std::string_view word(piece.data(), piece.size());
    AttrSpec spec;
    spec.optional = word.back() == '?';
    if (spec.optional) word.remove_suffix(1);
    std::optional<Attr> attr = parse_attr(word);
    if (!attr) {
      std::fprintf(stderr, "ops.def: row %.*s names an unknown attribute\n",
                   static_cast<int>(row.name.size()), row.name.data());
      std::abort();
    }
    spec.attr = *attr;
    specs.push_back(spec);
  }
  return specs;
}

OpTable& op_table() {
  static constinit Once<OpTable> t;
  return t.get();
}

struct ProgramKey {
  Op op;
  absl::InlinedVector<DType, 4> types;  // operands, then the result
  const Attrs* attrs;
  bool operator==(const ProgramKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ProgramKey& k) {
    return H::combine(std::move(h), k.op, k.types, k.attrs);
  }
};

struct ProgramTable {
  Mutex mutex{LockRank::kScalarPrograms};
  HashMap<ProgramKey, std::unique_ptr<ScalarProgram>> map;
};

}  // namespace

OpTable::OpTable() : rows_(std::size(kRows) + kMaxAddedOps) {
  for (const Row& row : kRows) {
    OpDef def;
    def.op = row.op;
    def.name = row.name;
    if (def.name.ends_with('_')) def.name.remove_suffix(1);
    def.family = row.family;
    def.arity = row.arity;
    def.flags = row.flags;
    def.attrs = parse_schema(row);
    names_.emplace(def.name, def.op);
    rows_[static_cast<size_t>(row.op)] = std::move(def);
  }
  count_ = std::size(kRows);
  add_structure_rules(*this);
  add_elementwise_rules(*this);
  add_shape_rules(*this);
  add_indexing_rules(*this);
  add_reduction_rules(*this);
  add_linear_rules(*this);
  add_random_rules(*this);
  add_collective_rules(*this);
  add_control_rules(*this);
}

absl::StatusOr<Op> OpTable::add(OpDef row) {
  std::lock_guard lock(mutex_);
  const int at = count_.load(std::memory_order_relaxed);
  if (row.name.empty() || row.arity < 1 || row.arity > 3 || !row.type || !row.scalar)
    return absl::InvalidArgumentError(
        "an elementwise op needs a name, an arity of 1 to 3, a type rule and a scalar rule");
  if (names_.find(row.name) != names_.end())
    return absl::AlreadyExistsError(str_cat("there is an op ", row.name, " already"));
  if (static_cast<size_t>(at) == rows_.size())
    return absl::ResourceExhaustedError(str_cat("no more than ", kMaxAddedOps, " ops can be added"));
  row.op = static_cast<Op>(at);
  row.family = OpFamily::kElementwise;
  // The map owns the text that the row shows.
  row.name = names_.emplace(row.name, row.op).first->first;
  rows_[at] = std::move(row);
  count_.store(at + 1, std::memory_order_release);
  return static_cast<Op>(at);
}

std::optional<Op> OpTable::find(std::string_view name) const {
  std::lock_guard lock(mutex_);
  auto it = names_.find(name);
  return it == names_.end() ? std::nullopt : std::optional<Op>(it->second);
}

const OpDef& op_def(Op op) { return op_table()[op]; }
int num_ops() { return static_cast<int>(op_table().rows().size()); }
absl::StatusOr<Op> add_elementwise_op(OpDef row) { return op_table().add(std::move(row)); }
std::optional<Op> parse_op(std::string_view name) { return op_table().find(name); }

const ScalarProgram& scalar_program(Op op, std::span<const DType> operands, DType result,
                                    const Attrs& attrs) {
  static constinit Once<ProgramTable> programs;
  ProgramTable* const table = &programs.get();
  ProgramKey key{op, {operands.begin(), operands.end()}, &attrs};
  key.types.push_back(result);
  std::lock_guard lock(table->mutex);
  std::unique_ptr<ScalarProgram>& slot = table->map[key];
  if (!slot) slot = std::make_unique<ScalarProgram>(op_def(op).scalar(operands, result, attrs));
  return *slot;
}

const ScalarProgram& scalar_program(const Node& node) {
  absl::InlinedVector<DType, 3> types;
  for (size_t i = 0; i < node.operands().size(); ++i) types.push_back(node.operand_type(i)->dtype);
  return scalar_program(node.op(), types, node.type()->dtype, node.attrs());
}

std::optional<ScalarProgram> region_program(const Computation& region) {
  std::vector<DType> inputs;
  HashMap<const Node*, std::vector<Scalar>> parts;
  for (const Value& p : region.parameters()) {
    if (!p.type()->is_scalar()) return std::nullopt;
    for (int i = 0; i < num_parts(p.dtype()); ++i) inputs.push_back(part_type(p.dtype()));
  }
  ScalarRecorder recorder(inputs);
  int next = 0;
  for (const Value& p : region.parameters())
    for (int i = 0; i < num_parts(p.dtype()); ++i) parts[p.node()].push_back(recorder.input(next++));
  for (const Node* n : region.nodes()) {
    if (parts.contains(n)) continue;
    if (n->op() == Op::constant && n->type()->is_scalar()) {
      const Literal& lit = *n->attrs().literal(Attr::value);
      const DType part = part_type(lit.dtype());
      for (int i = 0; i < num_parts(lit.dtype()); ++i) {
        uint64_t bits = 0;
        std::memcpy(&bits, lit.element(0) + i * byte_size(part), byte_size(part));
        parts[n].push_back(recorder.constant_bits(part, bits));
      }
      continue;
    }
    if (!n->def().is_elementwise() || !n->type()->is_scalar()) return std::nullopt;
    std::vector<Scalar> args;
    for (Operand o : n->operands())
      for (const Scalar& s : parts.at(o.node())) args.push_back(s);
    parts[n] = recorder.inline_program(scalar_program(*n), args);
  }
  std::vector<Scalar> outputs;
  for (const Value& r : region.roots())
    for (const Scalar& s : parts.at(r.node())) outputs.push_back(s);
  return recorder.finish(outputs);
}

}  // namespace lamina::hlo
