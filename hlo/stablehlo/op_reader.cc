#include <algorithm>
#include <charconv>

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// Graphs that give shapes are small; anything larger is not evaluated while reading.
constexpr int64_t kMaxShapeElements = 4096;
constexpr double kMaxShapeSteps = 2e5;  // of all evaluations of one program

using Steps = HashMap<ComputationPtr, double>;

// Steps that evaluating a node takes with what it calls; infinite where that is not bounded by constants.
double steps_of(const Node& n, Steps& known) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (n.op() == Op::leaf || n.op() == Op::while_ || n.op() == Op::scan || n.op() == Op::sort ||
      n.op() == Op::custom_call)
    return kNever;
  double steps = 1, elements = 1;
  auto count = [&](const Type* t) {
    if (t->is_array()) elements = std::max(elements, static_cast<double>(t->num_elements));
  };
  for (uint32_t i = 0; i < n.num_results(); ++i) count(n.result_type(i));
  for (size_t i = 0; i < n.operands().size(); ++i) count(n.operand_type(i));
  if (elements > kMaxShapeElements) return kNever;
  for (const ComputationPtr& r : regions_of(n)) {
    // Regions nest no deeper than the reader lets them.
    if (const auto it = known.find(r); it != known.end()) {
      steps += it->second * elements;
      continue;
    }
    double inner = 0;
    for (const Node* m : r->nodes())
      if (m->op() != Op::parameter) inner += steps_of(*m, known);
    known[r] = inner;
    steps += inner * elements;
  }
  return steps;
}

std::string types_text(std::span<const Type* const> types) {
  std::string out = "(";
  for (const Type* t : types) str_append(&out, out.size() == 1 ? "" : ", ", to_string(*t));
  return out + ")";
}

std::string_view last_word(std::string_view body) {
  while (!body.empty() && body.back() == ' ') body.remove_suffix(1);
  const size_t space = body.rfind(' ');
  return space == std::string_view::npos ? body : body.substr(space + 1);
}

}  // namespace

std::string_view OpReader::name() const {
  const std::string_view full = tree_.name;
  const size_t dot = full.find('.');
  return dot == std::string_view::npos ? full : full.substr(dot + 1);
}

void OpReader::fail(std::string_view message) {
  if (ok()) status_ = absl::InvalidArgumentError(str_cat(message));
}

Value OpReader::in(size_t i) {
  const Item* found = item(i);
  if (!found) return Value();
  if (found->tuple || found->flat.size() != 1) {
    fail(str_cat("operand ", i, " is no array"));
    return Value();
  }
  return found->flat[0];
}

const Item* OpReader::item(size_t i) {
  if (i < operands_.size()) return operands_[i];
  fail(str_cat("needs an operand ", i, ", and has ", operands_.size()));
  return nullptr;
}

Values OpReader::ins(size_t first, size_t last) {
  Values out;
  for (size_t i = first; i < std::min(last, operands_.size()); ++i)
    out.insert(out.end(), operands_[i]->flat.begin(), operands_[i]->flat.end());
  return out;
}

Dims OpReader::constant_ints(size_t i) {
  const Value v = in(i);
  if (!v) return {};
  if (!v.type()->is_array() || is_inexact(v.dtype()) || v.type()->num_elements > kMaxShapeElements) {
    fail(str_cat("operand ", i, " gives a shape and must be a short list of integers"));
    return {};
  }
  if (v.node()->stamp() > importer_.floor_) {
    fail(str_cat("operand ", i, " gives a shape and must follow from constants and shapes"));
    return {};
  }
  // The same shape is asked for again and again.
  for (const auto& [known, dims] : importer_.shapes_[v.node()])
    if (known == v) return dims;
  absl::StatusOr<ComputationPtr> graph = Computation::make({}, {{v}});
  if (!graph.ok()) {
    fail(view(graph.status()));
    return {};
  }
  for (const Node* n : (*graph)->nodes()) importer_.shape_steps_ += steps_of(*n, importer_.steps_);
  if (importer_.shape_steps_ > kMaxShapeSteps) {
    fail(str_cat("operand ", i, " gives a shape and takes more to compute than reading may"));
    return {};
  }
  absl::StatusOr<std::vector<LiteralPtr>> value = evaluate(**graph, {});
  if (!value.ok()) {
    fail(view(value.status()));
    return {};
  }
  Dims out;
  for (int64_t k = 0; k < (*value)[0]->size(); ++k) out.push_back((*value)[0]->int_at(k));
  importer_.shapes_[v.node()].emplace_back(v, out);
  return out;
}

const AttrTree* OpReader::find(std::initializer_list<std::string_view> names) const {
  for (const std::string_view n : names)
    if (const AttrTree* a = tree_.find(n)) return a;
  return nullptr;
}

Dims OpReader::ints(const AttrTree& attr) {
  absl::StatusOr<Dims> out = read_ints(importer_.module_, attr);
  if (out.ok()) return *std::move(out);
  if (inner_.ok()) inner_ = out.status();
  return {};
}

Dims OpReader::ints(std::initializer_list<std::string_view> names) {
  const AttrTree* a = find(names);
  return a ? ints(*a) : Dims();
}

int64_t OpReader::integer(std::initializer_list<std::string_view> names, int64_t otherwise) {
  const AttrTree* a = find(names);
  if (!a) return otherwise;
  const Dims list = ints(*a);
  if (list.size() == 1) return list[0];
  fail(str_cat(*names.begin(), " must be one integer"));
  return otherwise;
}

bool OpReader::flag(std::initializer_list<std::string_view> names, bool otherwise) {
  const AttrTree* a = find(names);
  if (!a) return otherwise;
  if (a->kind == AttrTree::Kind::kUnit) return true;
  return integer(names, otherwise) != 0;
}

double OpReader::real(std::initializer_list<std::string_view> names, double otherwise) {
  const AttrTree* a = find(names);
  if (!a) return otherwise;
  if (a->kind == AttrTree::Kind::kInt) return static_cast<double>(a->integer);
  double value = otherwise;
  const char* end = a->text.data() + a->text.size();
  if (a->kind != AttrTree::Kind::kFloat || std::from_chars(a->text.data(), end, value).ec != std::errc())
    fail(str_cat(*names.begin(), " must be a number"));
  return value;
}

std::string OpReader::word(std::initializer_list<std::string_view> names) {
  const AttrTree* a = find(names);
  if (!a) return {};
  if (a->kind == AttrTree::Kind::kDialect) return std::string(last_word(a->body));
  return a->text;
}

const AttrTree* OpReader::positional(size_t n) const {
  for (const Field& f : tree_.attrs)
    if (f.name.empty() && n-- == 0) return &f.value;
  return nullptr;
}

std::string OpReader::positional_word(size_t n) {
  const AttrTree* a = positional(n);
  return a ? a->text : std::string();
}

std::vector<Field> OpReader::fields(std::initializer_list<std::string_view> names) {
  const AttrTree* a = find(names);
  if (!a) return {};
  if (a->kind == AttrTree::Kind::kDict) return a->fields;
  std::vector<Field> out;
  if (a->kind != AttrTree::Kind::kDialect) {
    fail(str_cat(*names.begin(), " must be a dictionary or #stablehlo.name<...>"));
  } else if (absl::Status s = TextParser(importer_.module_.text, a->body).fields_to_end(&out); !s.ok()) {
    if (inner_.ok()) inner_ = s;
  }
  return out;
}

Dims OpReader::ints(const std::vector<Field>& fields, std::string_view name) {
  for (const Field& f : fields)
    if (f.name == name) return ints(f.value);
  return {};
}

int64_t OpReader::integer(const std::vector<Field>& fields, std::string_view name, int64_t otherwise) {
  const Dims list = ints(fields, name);
  return list.empty() ? otherwise : list[0];
}

void OpReader::parse_attribute(std::string_view text, AttrTree* out) {
  *out = AttrTree();
  if (absl::Status s = TextParser(importer_.module_.text, text).attribute(out, false); !s.ok() && inner_.ok())
    inner_ = s;
}

Value OpReader::dense(const AttrTree& attr, const Type* type) {
  if (!type) return Value();
  absl::StatusOr<LiteralPtr> literal = read_dense(importer_.module_, attr, type);
  if (!literal.ok()) {
    if (inner_.ok()) inner_ = literal.status();
    return Value();
  }
  const Value constant = b.constant(*std::move(literal));
  return constant && constant.type() != type ? b.broadcast_scalar(constant, type->dims) : constant;
}

const TypeTree* declared_type(const OpTree& op, size_t i) {
  if (op.functional) return i < op.result_types.size() ? &op.result_types[i] : nullptr;
  // Without an arrow: one type for operands and results alike, the last one, or one for each.
  if (num_results(op) <= 1) return op.types.empty() ? nullptr : &op.types.back();
  return i < op.types.size() ? &op.types[i] : nullptr;
}

size_t num_results(const OpTree& op) {
  if (op.functional) return op.result_types.size();
  size_t n = 0;
  for (const ResultTree& r : op.results) n += r.count;
  return n;
}

const TypeTree* OpReader::declared_tree(size_t i) const { return declared_type(tree_, i); }
size_t OpReader::num_results() const { return stablehlo::num_results(tree_); }

const Type* OpReader::declared(size_t i) {
  const TypeTree* t = declared_tree(i);
  if (!t) {
    fail("names no result type");
    return nullptr;
  }
  absl::StatusOr<const Type*> type = static_type(*t);
  if (type.ok()) return *type;
  fail(view(type.status()));
  return nullptr;
}

void OpReader::yield_flat(std::span<const Value> values) {
  size_t next = 0;
  const std::function<void(const TypeTree&, Item&)> take = [&](const TypeTree& t, Item& item) {
    if (t.kind == TypeTree::Kind::kTuple) {
      for (const TypeTree& e : t.elements) take(e, item);
    } else if (t.kind != TypeTree::Kind::kToken) {
      if (next < values.size()) item.flat.push_back(values[next]);
      ++next;
    }
  };
  for (size_t i = 0; i < num_results(); ++i) {
    const TypeTree* t = declared_tree(i);
    Item item;
    if (!t) return fail("names too few result types");
    take(*t, item);
    if (t->kind == TypeTree::Kind::kTuple) item.tuple = t;
    yield_item(std::move(item));
  }
  if (next != values.size() && ok())
    fail(str_cat("has ", values.size(), " results where its types give ", next));
}

ComputationPtr OpReader::region(const RegionTree& tree, std::span<const Type* const> types,
                                const Captured& captured, bool keep) {
  if (!ok()) return nullptr;
  auto give_up = [&](absl::Status s) {
    inner_ = std::move(s);
    return nullptr;
  };
  if (!tree.function.empty()) {
    const ComputationPtr made = function(tree.function);
    const bool fits = made && made->parameter_types() == std::vector<const Type*>(types.begin(), types.end());
    if (made && !fits)
      return give_up(
          importer_.error(tree.at, str_cat("@", tree.function, " takes ", types_text(made->parameter_types()),
                                           " and is given ", types_text(types))));
    return made;
  }
  Scope scope;
  Values parameters, own;
  for (const Type* t : types) own.push_back(make_parameter(t));
  parameters = own;
  size_t next = 0;
  for (const std::string_view name : captured.names) {
    std::vector<Item> items = *scope_.find(name);
    for (Item& item : items)
      for (Value& v : item.flat) {
        if (next == captured.values.size() || !(captured.values[next] == v)) continue;
        parameters.push_back(make_parameter(v.type()));
        v = parameters.back();
        ++next;
      }
    scope.define(name, std::move(items));
  }
  if (absl::Status s = importer_.arguments(tree, own, scope); !s.ok()) return give_up(s);
  Values results;
  const bool in_entry = std::exchange(importer_.in_entry_, false);
  if (absl::Status s = importer_.block(tree, scope, &results); !s.ok()) return give_up(s);
  importer_.in_entry_ = in_entry;
  if (keep) results.insert(results.end(), parameters.begin() + own.size(), parameters.end());
  absl::StatusOr<ComputationPtr> made = Computation::make(parameters, results);
  if (!made.ok()) return give_up(importer_.error(tree.at, view(made.status())));
  return *std::move(made);
}

ComputationPtr OpReader::region(size_t i, std::span<const Type* const> types, const Captured& captured,
                                bool keep) {
  if (i < tree_.regions.size()) return region(tree_.regions[i], types, captured, keep);
  fail(str_cat("needs ", i + 1, " regions, and has ", tree_.regions.size()));
  return nullptr;
}

ComputationPtr OpReader::region(size_t i, std::span<const Type* const> types) {
  const Captured outside = captured();
  if (!outside.values.empty()) {
    fail("its region uses a value from outside that is not a constant");
    return nullptr;
  }
  return region(i, types, outside, false);
}

Captured OpReader::captured() {
  Captured out;
  std::vector<std::string_view> names;
  for (const RegionTree& r : tree_.regions) importer_.free_names(r, scope_, &names);
  HashMap<std::string_view, bool> seen;
  for (const std::string_view name : names) {
    if (!seen.emplace(name, true).second) continue;
    out.names.push_back(name);
    for (const Item& item : *scope_.find(name))
      for (const Value& v : item.flat)
        if (v && v.node()->stamp() > importer_.floor_) out.values.push_back(v);
  }
  return out;
}

ComputationPtr OpReader::function(std::string_view name) {
  if (!ok()) return nullptr;
  absl::StatusOr<Importer::Function*> f = importer_.function(name, tree_.at);
  if (f.ok()) return (*f)->computation;
  inner_ = f.status();
  return nullptr;
}

Values OpReader::call(std::string_view function, std::span<const Value> arguments) {
  if (!ok()) return {};
  absl::StatusOr<Values> results = importer_.call(function, arguments, b, tree_.at);
  if (results.ok()) return *std::move(results);
  inner_ = results.status();
  return {};
}

void OpReader::check(Check::Kind kind, const Value& value, const Value& expected) {
  if (!ok()) return;
  if (!importer_.in_entry_)
    return fail("a check stands in the entry function itself, not in a region or a callee");
  if (value.type() != expected.type())
    return fail(
        str_cat("compares ", hlo::to_string(*value.type()), " with ", hlo::to_string(*expected.type())));
  Check c;
  c.kind = kind;
  c.tolerance = real({"tolerance"}, 1e-4);
  c.min_ulps = integer({"min_ulp_difference"}, 0);
  c.max_ulps = integer({"max_ulp_difference"}, 3);
  c.first = importer_.checked_.size();
  const absl::Status where = importer_.error(tree_.at, tree_.name);
  c.where = std::string(view(where));
  importer_.checked_.push_back(value);
  importer_.checked_.push_back(expected);
  importer_.checks_.push_back(std::move(c));
}

}  // namespace lamina::hlo::stablehlo
