// From tree to computation: functions, regions, names; and what the rows of the op table work with.
#ifndef LAMINA_HLO_STABLEHLO_IMPORTER_H_
#define LAMINA_HLO_STABLEHLO_IMPORTER_H_

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "hlo/builder.h"
#include "hlo/hash_map.h"
#include "hlo/stablehlo/elements.h"
#include "hlo/stablehlo/reader.h"
#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {

// What a name stands for: an array, nothing (a token), or a tuple's arrays one after the other.
struct Item {
  Values flat;
  const TypeTree* tuple = nullptr;             // the type of a tuple
  const Quantization* quantization = nullptr;  // of an array: what its integers stand for
};

// Names of one block and of those around it. Regions that become computations start a new chain.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  // Null if there is no such name.
  const std::vector<Item>* find(std::string_view name) const;
  // False if the name is taken in this block.
  bool define(std::string_view name, std::vector<Item> items);

 private:
  const Scope* outer_;
  HashMap<std::string_view, std::vector<Item>> names_;
};

using OpRow = void (*)(OpReader& r);

class Importer {
 public:
  explicit Importer(const ModuleTree& module) : module_(module), floor_(fresh_stamp()), scope_(floor_) {}

  // The entry, with its checks. Arguments of the declared types where `arguments` is null.
  absl::StatusOr<Program> program(const FunctionTree& function, const std::vector<const Type*>* arguments);

 private:
  friend class OpReader;

  struct Function {
    const FunctionTree* tree;
    ComputationPtr computation;  // once made
    bool open = false;           // being made: another call of it is a cycle
    int height = 0;              // levels of calls and regions below it
    double cost = 0;             // operations if every call is expanded
  };

  absl::Status error(Place at, std::string_view message) const { return error_at(module_.text, at, message); }
  absl::Status index_functions();
  // The computation of a function that declares static types.
  absl::StatusOr<Function*> function(std::string_view name, Place at);
  // Results of a call; functions with shapes written ? are expanded in place.
  absl::StatusOr<Values> call(std::string_view name, std::span<const Value> operands, Builder& b, Place at);
  static bool is_polymorphic(const FunctionTree& f);
  absl::Status too_long(Place at) const;
  absl::Status block(const RegionTree& region, Scope& scope, Values* results);
  absl::Status op(const OpTree& op, Scope& scope);
  // The results of an op's row.
  absl::Status run(OpRow row, const OpTree& op, Scope& scope, std::vector<const Item*> items,
                   std::vector<Item>* results);
  // The same of an op that takes, gives or passes on quantized arrays (quantized.cc).
  absl::Status run_quantized(OpRow row, const OpTree& op, Scope& scope, std::vector<const Item*> items,
                             std::vector<Item>* results);
  // What the op says of its operands' quantization agrees with them.
  absl::Status check_quantized_operands(const OpTree& op, std::span<const Item* const> items) const;
  absl::Status check_quantized_results(const FunctionTree& f) const;
  absl::Status check_quantized_call(const OpTree& op, std::span<const Item* const> items) const;
  absl::Status check_leaves(const OpTree& op, const TypeTree& declared, std::span<const Value> flat,
                            size_t* leaf) const;
  // Where `scope` keeps them, until it gets another name.
  absl::Status operands(const OpTree& op, const Scope& scope, std::vector<const Item*>* out) const;
  absl::Status bind(const BlockArgument& argument, std::span<const Value> flat, size_t* next,
                    Scope& scope) const;
  absl::Status arguments(const RegionTree& region, std::span<const Value> flat, Scope& scope) const;
  // Appends the names that `region` uses and `scope` defines.
  void free_names(const RegionTree& region, const Scope& scope, std::vector<std::string_view>* out) const;
  absl::Status types_of(const TypeTree& type, std::vector<const Type*>* out) const;
  LocationId location(std::string_view text);

  const ModuleTree& module_;
  const GraphLock lock_;
  const uint32_t floor_;  // values with this stamp follow from constants alone
  const FloorScope scope_;
  HashMap<std::string_view, Function> functions_;
  HashMap<const char*, LocationId> locations_;
  int level_ = 0;           // calls and regions around the current op
  int height_ = 0;          // of what the current function holds
  double cost_ = 0;         // of the current function
  bool in_entry_ = false;   // directly in the entry's block: checks may stand here
  double shape_steps_ = 0;  // taken to compute shapes
  HashMap<ComputationPtr, double> steps_;
  HashMap<const Node*, std::vector<std::pair<Value, Dims>>> shapes_;  // computed so far
  std::vector<Check> checks_;
  Values checked_;
};

// Types that a region's parameters get beside its own arguments: values used from outside.
struct Captured {
  std::vector<std::string_view> names;  // all names used from outside
  Values values;                        // those of their arrays that depend on arguments
};

// What the row of an op sees: operands, attributes, regions, and a builder. The first error sticks.
class OpReader {
 public:
  OpReader(Importer& importer, const OpTree& tree, Scope& scope, std::vector<const Item*> operands)
      : importer_(importer), tree_(tree), scope_(scope), operands_(std::move(operands)) {}

  Builder b;

  const OpTree& tree() const { return tree_; }
  // The name without its dialect.
  std::string_view name() const;
  absl::Status status() const { return !inner_.ok() ? inner_ : status_.ok() ? b.status() : status_; }
  // The error of a region or of a function that is called: it has a place of its own.
  const absl::Status& inner() const { return inner_; }
  bool ok() const { return status().ok(); }
  void fail(std::string_view message);

  size_t num_operands() const { return operands_.size(); }
  Value in(size_t i);
  const Item* item(size_t i);
  // The arrays of operands [first, last).
  Values ins(size_t first = 0, size_t last = SIZE_MAX);
  // An operand that follows from constants and shapes, as integers.
  Dims constant_ints(size_t i);

  bool has(std::initializer_list<std::string_view> names) const { return find(names) != nullptr; }
  const AttrTree* find(std::initializer_list<std::string_view> names) const;
  Dims ints(std::initializer_list<std::string_view> names);
  int64_t integer(std::initializer_list<std::string_view> names, int64_t otherwise = 0);
  bool flag(std::initializer_list<std::string_view> names, bool otherwise = false);
  double real(std::initializer_list<std::string_view> names, double otherwise);
  // A word, string, symbol, or the last word of #stablehlo<kind WORD>; empty if absent.
  std::string word(std::initializer_list<std::string_view> names);
  // The n-th attribute given by position.
  const AttrTree* positional(size_t n) const;
  std::string positional_word(size_t n);
  // The fields of #name<...> or of a dictionary.
  std::vector<Field> fields(std::initializer_list<std::string_view> names);
  Dims ints(const std::vector<Field>& fields, std::string_view name);
  int64_t integer(const std::vector<Field>& fields, std::string_view name, int64_t otherwise = 0);
  Dims ints(const AttrTree& attr);
  // Reads a piece of the text as an attribute.
  void parse_attribute(std::string_view text, AttrTree* out);
  // A dense attribute spread over `type`.
  Value dense(const AttrTree& attr, const Type* type);

  // The declared type of result i, which must be static; null (and an error) if it is not.
  const Type* declared(size_t i = 0);
  const TypeTree* declared_tree(size_t i) const;
  size_t num_results() const;

  // Region i as a computation on parameters of these types, captured constants inside.
  ComputationPtr region(size_t i, std::span<const Type* const> types);
  // What regions use from outside.
  Captured captured();
  // Region i on parameters of `types` and then of the captured values; `keep`: returns those as well.
  ComputationPtr region(size_t i, std::span<const Type* const> types, const Captured& captured, bool keep);
  ComputationPtr region(const RegionTree& region, std::span<const Type* const> types,
                        const Captured& captured, bool keep);
  // A function of the module as a computation.
  ComputationPtr function(std::string_view name);
  // The result of a call of the module's function.
  Values call(std::string_view function, std::span<const Value> arguments);

  void yield(Value value) { results_.push_back({{std::move(value)}, nullptr}); }
  void yield_all(std::span<const Value> values) {
    for (const Value& v : values) yield(v);
  }
  // Arrays of all results one after the other, tuples and tokens included.
  void yield_flat(std::span<const Value> values);
  void yield_item(Item item) { results_.push_back(std::move(item)); }
  std::vector<Item>& results() { return results_; }

  void check(Check::Kind kind, const Value& value, const Value& expected);

 private:
  Importer& importer_;
  const OpTree& tree_;
  Scope& scope_;
  std::vector<const Item*> operands_;
  std::vector<Item> results_;
  absl::Status status_, inner_;
};

// Results are the operands.
inline void pass_through(OpReader& r) { r.yield_flat(r.ins()); }

struct NamedRow {
  std::string_view name;  // with its dialect; custom calls: the target
  OpRow row;
};
// The declared type of result i; null if the op names none.
const TypeTree* declared_type(const OpTree& op, size_t i);
size_t num_results(const OpTree& op);

// What dot_general and convolution say of their dimensions, but for the sizes of windows.
DotDims read_dot_dims(OpReader& r);
void read_layouts(OpReader& r, ConvDims* dims);

// Null if there is none.
OpRow find_op_row(std::string_view name);
OpRow find_custom_call_row(std::string_view target);

// Each file of rows.
std::span<const NamedRow> elementwise_rows();
std::span<const NamedRow> shape_rows();
std::span<const NamedRow> indexing_rows();
std::span<const NamedRow> reduction_rows();
std::span<const NamedRow> linear_rows();
std::span<const NamedRow> control_rows();
std::span<const NamedRow> dynamic_rows();
std::span<const NamedRow> statistics_rows();
std::span<const NamedRow> special_rows();
std::span<const NamedRow> linear_algebra_rows();
std::span<const NamedRow> linear_algebra_calls();  // by target
// A call of one of this library's own routines.
void routine_row(OpReader& r);
std::span<const NamedRow> check_rows();
std::span<const NamedRow> custom_call_rows();  // by target
std::span<const NamedRow> custom_call_op();
std::span<const NamedRow> quantized_rows();

}  // namespace lamina::hlo::stablehlo

#endif  // LAMINA_HLO_STABLEHLO_IMPORTER_H_
