#include "hlo/stablehlo/importer.h"

#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/location.h"

namespace lamina::hlo::stablehlo {
namespace {

constexpr double kMaxExpanded = 1e6;  // operations with all calls expanded

bool is_terminator(std::string_view name) {
  return name == "stablehlo.return" || name == "func.return" || name == "return" || name == "mhlo.return";
}

}  // namespace

const std::vector<Item>* Scope::find(std::string_view name) const {
  for (const Scope* s = this; s; s = s->outer_)
    if (const auto it = s->names_.find(name); it != s->names_.end()) return &it->second;
  return nullptr;
}

bool Scope::define(std::string_view name, std::vector<Item> items) {
  return names_.emplace(name, std::move(items)).second;
}

absl::Status Importer::too_long(Place at) const {
  return error(at, str_cat("with its calls expanded the program has more than ",
                           static_cast<int64_t>(kMaxExpanded), " operations"));
}

absl::Status Importer::index_functions() {
  for (const FunctionTree& f : module_.functions)
    if (!functions_.emplace(f.name, Function{&f, nullptr}).second)
      return error(f.at, str_cat("the function @", f.name, " exists already"));
  return absl::OkStatus();
}

absl::Status Importer::types_of(const TypeTree& type, std::vector<const Type*>* out) const {
  if (type.kind == TypeTree::Kind::kToken) return absl::OkStatus();
  if (type.kind == TypeTree::Kind::kTuple) {
    for (const TypeTree& e : type.elements) LAMINA_RETURN_IF_ERROR(types_of(e, out));
    return absl::OkStatus();
  }
  absl::StatusOr<const Type*> made = static_type(type);
  if (!made.ok()) return error(type.at, view(made.status()));
  out->push_back(*made);
  return absl::OkStatus();
}

absl::Status Importer::bind(const BlockArgument& a, std::span<const Value> flat, size_t* next,
                            Scope& scope) const {
  const size_t n = num_leaves(a.type);
  if (n > flat.size() - *next)
    return error(a.at, str_cat("the block has more arguments than the ", flat.size(), " values it is given"));
  Item item;
  for (size_t i = 0; i < n; ++i) item.flat.push_back(flat[(*next)++]);
  if (a.type.kind == TypeTree::Kind::kTuple) {
    item.tuple = &a.type;
  } else if (n == 1 && !matches(a.type, item.flat[0].type())) {
    if (!a.type.is_array()) return error(a.type.at, a.type.why);
    return error(a.at, str_cat("%", a.name, " is declared ", to_string(a.type), " and given ",
                               hlo::to_string(*item.flat[0].type())));
  }
  item.quantization = a.type.quantization.get();
  if (!scope.define(a.name, {std::move(item)}))
    return error(a.at, str_cat("%", a.name, " is defined already"));
  return absl::OkStatus();
}

absl::Status Importer::arguments(const RegionTree& region, std::span<const Value> flat, Scope& scope) const {
  size_t next = 0;
  for (const BlockArgument& a : region.arguments) LAMINA_RETURN_IF_ERROR(bind(a, flat, &next, scope));
  if (next == flat.size()) return absl::OkStatus();
  return error(region.at, str_cat("the block takes ", next, " values where ", flat.size(), " are given"));
}

absl::Status Importer::operands(const OpTree& op, const Scope& scope, std::vector<const Item*>* out) const {
  for (const OperandTree& o : op.operands) {
    const std::vector<Item>* items = scope.find(o.name);
    if (!items) return error(o.at, str_cat("there is no value %", o.name, " here"));
    if (o.index >= items->size())
      return error(o.at, str_cat("%", o.name, " has ", items->size(), " results, not a result ", o.index));
    out->push_back(&(*items)[o.index]);
  }
  return absl::OkStatus();
}

absl::Status Importer::block(const RegionTree& region, Scope& scope, Values* results) {
  if (++level_ > kMaxLevels)
    return error(region.at, str_cat("calls and regions nest deeper than ", kMaxLevels, " levels"));
  height_ = std::max(height_, level_);
  for (size_t i = 0; i < region.ops.size(); ++i) {
    const OpTree& o = region.ops[i];
    cost_ += 1;
    if (cost_ > kMaxExpanded) return too_long(o.at);
    if (is_terminator(o.name)) {
      if (i + 1 < region.ops.size())
        return error(region.ops[i + 1].at, "an operation behind the block's return");
      std::vector<const Item*> items;
      LAMINA_RETURN_IF_ERROR(operands(o, scope, &items));
      LAMINA_RETURN_IF_ERROR(check_quantized_operands(o, items));
      for (const Item* item : items) results->insert(results->end(), item->flat.begin(), item->flat.end());
      --level_;
      return absl::OkStatus();
    }
    LAMINA_RETURN_IF_ERROR(op(o, scope));
  }
  return error(region.at, "the block does not end with a return");
}

// The arrays of one result are of the declared types.
absl::Status Importer::check_leaves(const OpTree& tree, const TypeTree& declared, std::span<const Value> flat,
                                    size_t* leaf) const {
  for (const TypeTree& e : declared.elements) LAMINA_RETURN_IF_ERROR(check_leaves(tree, e, flat, leaf));
  if (declared.kind == TypeTree::Kind::kTuple || declared.kind == TypeTree::Kind::kToken)
    return absl::OkStatus();
  if (*leaf < flat.size() && declared.is_array() && !matches(declared, flat[*leaf].type()))
    return error(tree.at, str_cat(tree.shown(), ": gives ", hlo::to_string(*flat[*leaf].type()), ", not ",
                                  to_string(declared)));
  ++*leaf;
  return absl::OkStatus();
}

absl::Status Importer::run(OpRow row, const OpTree& tree, Scope& scope, std::vector<const Item*> items,
                           std::vector<Item>* results) {
  OpReader reader(*this, tree, scope, std::move(items));
  row(reader);
  if (!reader.ok()) {
    if (!reader.inner().ok()) return reader.inner();
    const absl::Status s = reader.status();
    return error_at(module_.text, tree.at, str_cat(tree.shown(), ": ", view(s)), s.code());
  }
  *results = std::move(reader.results());
  return absl::OkStatus();
}

absl::Status Importer::op(const OpTree& tree, Scope& scope) {
  std::vector<const Item*> items;
  LAMINA_RETURN_IF_ERROR(operands(tree, scope, &items));
  const OpRow row = tree.row ? tree.row : find_op_row(tree.name);
  if (!row) {
    const std::string_view what = tree.name.find('.') == std::string::npos ? " (a dialect is missing?)" : "";
    return error_at(module_.text, tree.at, str_cat("the operation ", tree.name, " is not supported", what),
                    absl::StatusCode::kUnimplemented);
  }
  const LocationScope at(tree.place ? tree.place : location(tree.location));
  auto is_quantized = [](const TypeTree& t) { return t.quantization != nullptr; };
  const bool quantized =
      std::any_of(items.begin(), items.end(), [](const Item* item) { return item->quantization; }) ||
      std::any_of(tree.types.begin(), tree.types.end(), is_quantized) ||
      std::any_of(tree.result_types.begin(), tree.result_types.end(), is_quantized);
  LAMINA_RETURN_IF_ERROR(check_quantized_call(tree, items));
  std::vector<Item> results;
  LAMINA_RETURN_IF_ERROR(quantized ? run_quantized(row, tree, scope, std::move(items), &results)
                                   : run(row, tree, scope, std::move(items), &results));
  for (size_t i = 0; i < results.size(); ++i) {
    const TypeTree* declared = declared_type(tree, i);
    if (!declared) continue;
    if (declared->is_array()) results[i].quantization = declared->quantization.get();
    size_t leaf = 0;
    LAMINA_RETURN_IF_ERROR(check_leaves(tree, *declared, results[i].flat, &leaf));
    if (leaf != results[i].flat.size())
      return error(tree.at, str_cat(tree.shown(), ": gives ", results[i].flat.size(), " arrays, not ",
                                    to_string(*declared)));
  }
  if (tree.tupled) {
    if (results.size() != tree.result_types.size())
      return error(tree.at, str_cat(tree.shown(), " has ", results.size(), " results, not ",
                                    to_string(tree.types[0])));
    Item whole;
    for (const Item& item : results) whole.flat.insert(whole.flat.end(), item.flat.begin(), item.flat.end());
    whole.tuple = &tree.types[0];
    results.clear();
    results.push_back(std::move(whole));
  }
  size_t next = 0;
  for (const ResultTree& r : tree.results) {
    if (r.count > results.size() - next)
      return error(r.at, str_cat(tree.shown(), " has ", results.size(), " results, more are named"));
    std::vector<Item> named(std::make_move_iterator(results.begin() + next),
                            std::make_move_iterator(results.begin() + next + r.count));
    next += r.count;
    if (!scope.define(r.name, std::move(named)))
      return error(r.at, str_cat("%", r.name, " is defined already"));
  }
  return absl::OkStatus();
}

void Importer::free_names(const RegionTree& region, const Scope& scope,
                          std::vector<std::string_view>* out) const {
  for (const OpTree& o : region.ops) {
    for (const OperandTree& x : o.operands)
      if (scope.find(x.name)) out->push_back(x.name);
    for (const RegionTree& r : o.regions) free_names(r, scope, out);
  }
}

absl::StatusOr<Importer::Function*> Importer::function(std::string_view name, Place at) {
  const auto it = functions_.find(name);
  if (it == functions_.end()) return error(at, str_cat("there is no function @", name));
  Function& f = it->second;
  if (f.open) return error(at, str_cat("@", name, " calls itself, directly or through others"));
  if (!f.computation) {
    if (!f.tree->has_body) return error(at, str_cat("the function @", name, " has no body"));
    f.open = true;
    const int level = std::exchange(level_, 0), height = std::exchange(height_, 0);
    const double cost = std::exchange(cost_, 0);
    const bool in_entry = std::exchange(in_entry_, false);
    // The levels around count against the limit of nesting too, since this recursion uses the stack.
    level_ = level;
    height_ = level;
    Values parameters;
    std::vector<const Type*> types;
    for (const BlockArgument& a : f.tree->body.arguments) LAMINA_RETURN_IF_ERROR(types_of(a.type, &types));
    for (const Type* t : types) parameters.push_back(make_parameter(t));
    Scope scope;
    LAMINA_RETURN_IF_ERROR(arguments(f.tree->body, parameters, scope));
    Values results;
    LAMINA_RETURN_IF_ERROR(block(f.tree->body, scope, &results));
    LAMINA_RETURN_IF_ERROR(check_quantized_results(*f.tree));
    absl::StatusOr<ComputationPtr> made = Computation::make(parameters, results);
    if (!made.ok()) return error(f.tree->at, view(made.status()));
    f.computation = *std::move(made);
    f.height = height_ - level;
    f.cost = cost_;
    f.open = false;
    level_ = level;
    height_ = height;
    cost_ = cost;
    in_entry_ = in_entry;
  }
  if (level_ + f.height > kMaxLevels)
    return error(at, str_cat("calls and regions nest deeper than ", kMaxLevels, " levels"));
  height_ = std::max(height_, level_ + f.height);
  cost_ += f.cost;
  if (cost_ > kMaxExpanded) return too_long(at);
  return &f;
}

bool Importer::is_polymorphic(const FunctionTree& f) {
  auto open = [](const TypeTree& t) {
    return std::find(t.dims.begin(), t.dims.end(), kDynamic) != t.dims.end();
  };
  for (const BlockArgument& a : f.body.arguments)
    if (open(a.type)) return true;
  return std::any_of(f.results.begin(), f.results.end(), open);
}

absl::StatusOr<Values> Importer::call(std::string_view name, std::span<const Value> operands, Builder& b,
                                      Place at) {
  const auto it = functions_.find(name);
  if (it != functions_.end() && is_polymorphic(*it->second.tree)) {
    // Its shapes depend on this call's operands: expanded in place.
    Function& f = it->second;
    if (f.open) return error(at, str_cat("@", name, " calls itself, directly or through others"));
    if (!f.tree->has_body) return error(at, str_cat("the function @", name, " has no body"));
    f.open = true;
    const bool in_entry = std::exchange(in_entry_, false);
    Scope scope;
    LAMINA_RETURN_IF_ERROR(arguments(f.tree->body, operands, scope));
    Values results;
    LAMINA_RETURN_IF_ERROR(block(f.tree->body, scope, &results));
    LAMINA_RETURN_IF_ERROR(check_quantized_results(*f.tree));
    f.open = false;
    in_entry_ = in_entry;
    return results;
  }
  absl::StatusOr<Function*> f = function(name, at);
  if (!f.ok()) return f.status();
  return b.call((*f)->computation, operands);
}

absl::StatusOr<Program> Importer::program(const FunctionTree& f, const std::vector<const Type*>* given) {
  LAMINA_RETURN_IF_ERROR(index_functions());
  if (!f.has_body) return error(f.at, str_cat("the function @", f.name, " has no body"));
  functions_.at(f.name).open = true;
  std::vector<const Type*> types;
  if (given) {
    types = *given;
  } else {
    for (const BlockArgument& a : f.body.arguments) LAMINA_RETURN_IF_ERROR(types_of(a.type, &types));
  }
  Values parameters;
  for (const Type* t : types) parameters.push_back(make_parameter(t));
  Scope scope;
  LAMINA_RETURN_IF_ERROR(arguments(f.body, parameters, scope));
  Values roots;
  in_entry_ = true;
  LAMINA_RETURN_IF_ERROR(block(f.body, scope, &roots));
  LAMINA_RETURN_IF_ERROR(check_quantized_results(f));
  Program program;
  program.num_results = roots.size();
  program.checks = std::move(checks_);
  for (Check& c : program.checks) c.first += roots.size();
  roots.insert(roots.end(), checked_.begin(), checked_.end());
  absl::StatusOr<ComputationPtr> made = Computation::make(parameters, roots);
  if (!made.ok()) return error(f.at, view(made.status()));
  program.computation = *std::move(made);
  return program;
}

// What stands in loc(): "file":3:5, "name"(inner), callsite(inner at caller), fused[...], #alias, unknown.
LocationId Importer::location(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto it = locations_.find(text.data()); it != locations_.end()) return it->second;
  const char* key = text.data();
  std::string function, file;
  int64_t line = 0;
  for (int hop = 0; hop < 64 && !text.empty(); ++hop) {
    Cursor in(module_.text, text.data() - module_.text.data(),
              text.data() - module_.text.data() + text.size());
    if (in.accept('#')) {
      std::string_view name;
      if (!in.suffix("a location", &name).ok()) break;
      const auto it = module_.locations.find(name);
      if (it == module_.locations.end()) break;
      text = it->second;
    } else if (in.peek() == '"') {
      std::string name;
      if (!in.string("a location", &name).ok()) break;
      if (in.accept(':')) {
        file = std::move(name);
        if (!in.integer("a line", &line).ok() || line < 0 || line > (int64_t{1} << 30)) line = 0;
        break;
      }
      function = std::move(name);
      if (!in.accept('(')) break;
      if (!in.balanced('(', &text).ok()) break;
    } else if (in.accept("callsite") && in.accept('(')) {
      if (!in.balanced('(', &text).ok()) break;
    } else if (in.accept("fused")) {
      std::string_view metadata;
      if (in.accept('<') && !in.balanced('<', &metadata).ok()) break;
      if (!in.accept('[') || !in.balanced('[', &text).ok()) break;
    } else {
      break;
    }
  }
  const LocationId id = file.empty() ? 0 : intern_location(file, static_cast<int>(line), function);
  locations_.emplace(key, id);
  return id;
}

}  // namespace lamina::hlo::stablehlo
