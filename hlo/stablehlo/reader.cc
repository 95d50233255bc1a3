#include "hlo/stablehlo/reader.h"

#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {

namespace {

void add_arrays(const TypeTree& type, std::vector<Module::Function::Array>* out) {
  if (type.is_array()) out->push_back({type.dtype, type.dims});
  for (const TypeTree& e : type.elements) add_arrays(e, out);
}

}  // namespace

absl::StatusOr<Module> Module::parse(std::string text) {
  if (text.starts_with("ML\xEFR"))
    return absl::InvalidArgumentError(
        "1:1: this is a module in MLIR's bytecode; write it as text (str(module), mlir_module()) to have it "
        "read");
  auto kept = std::make_shared<const std::string>(std::move(text));
  absl::StatusOr<ModuleTree> tree = TextParser(*kept).run();
  if (!tree.ok()) return tree.status();
  return of(std::move(kept), *std::move(tree), "");
}

Module Module::of(std::shared_ptr<const std::string> text, ModuleTree tree, std::string entry) {
  Module m;
  m.text_ = std::move(text);
  m.entry_ = std::move(entry);
  m.tree_ = std::make_shared<const ModuleTree>(std::move(tree));
  for (const FunctionTree& f : m.tree_->functions) {
    m.functions_.push_back({f.name, f.is_public, f.body.arguments.size(), {}});
    for (const BlockArgument& a : f.body.arguments) add_arrays(a.type, &m.functions_.back().arguments);
  }
  return m;
}

absl::StatusOr<std::string> Module::entry() const {
  if (!entry_.empty()) return entry_;
  const Function* only = functions_.size() == 1 ? &functions_[0] : nullptr;
  int open = 0;
  for (const Function& f : functions_) {
    if (f.name == "main") return f.name;
    if (f.is_public && ++open == 1) only = &f;
  }
  if (only && open <= 1) return only->name;
  return absl::NotFoundError(str_cat("1:1: the module has no function @main, and ", open, " public ones"));
}

absl::StatusOr<Program> Module::program(std::string_view name) const {
  for (const FunctionTree& f : tree_->functions)
    if (f.name == name) return Importer(*tree_).program(f, nullptr);
  return absl::NotFoundError(str_cat("1:1: there is no function @", name));
}

absl::StatusOr<Program> Module::program(std::string_view name, std::span<const Type* const> arguments) const {
  const std::vector<const Type*> types(arguments.begin(), arguments.end());
  for (const FunctionTree& f : tree_->functions)
    if (f.name == name) return Importer(*tree_).program(f, &types);
  return absl::NotFoundError(str_cat("1:1: there is no function @", name));
}

bool looks_like_stablehlo(std::string_view text) {
  Cursor in(text);
  const std::string_view word = in.peek_word();
  for (const std::string_view start : {"module", "builtin.module", "func.func", "func"})
    if (word == start) return true;
  const char c = in.peek();
  if (text.starts_with("ML\xEFR")) return true;
  return c == '#' || c == '!' || c == '"' || c == '{';
}

}  // namespace lamina::hlo::stablehlo
