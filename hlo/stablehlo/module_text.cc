// Modules and functions of StableHLO text.
#include "hlo/stablehlo/deeper.h"
#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {

absl::StatusOr<ModuleTree> TextParser::run() {
  LAMINA_RETURN_IF_ERROR(module_body('\0'));
  return std::move(module_);
}

// #name = attribute, #loc1 = loc(...), !name = type
absl::Status TextParser::alias() {
  const bool is_type = in_.peek() == '!';
  in_.advance();
  std::string_view name;
  LAMINA_RETURN_IF_ERROR(in_.suffix("an alias", &name));
  LAMINA_RETURN_IF_ERROR(in_.expect('='));
  if (is_type) return type(&types_[name]);
  if (in_.peek_word() == "loc") return location(&module_.locations[name]);
  AttrTree value;
  LAMINA_RETURN_IF_ERROR(attribute(&value, true));
  attributes_[name] = std::move(value);
  return absl::OkStatus();
}

absl::Status TextParser::module_body(char close) {
  const Deeper deeper(*this);
  LAMINA_RETURN_IF_ERROR(deeper.check());
  while (true) {
    if (close == '\0' && in_.at_end()) return absl::OkStatus();
    if (close != '\0' && in_.accept(close)) return absl::OkStatus();
    const char c = in_.peek();
    if (c == '#' || c == '!') {
      LAMINA_RETURN_IF_ERROR(alias());
      continue;
    }
    if (in_.accept("{-#")) {
      LAMINA_RETURN_IF_ERROR(resources());
      continue;
    }
    const std::string_view word = in_.peek_word();
    if (word == "module" || word == "builtin.module") {
      LAMINA_RETURN_IF_ERROR(in_.expect(word));
      AttrTree name;
      if (in_.peek() == '@') LAMINA_RETURN_IF_ERROR(attribute(&name, false));
      std::vector<Field> ignored;
      if (in_.accept_word("attributes")) LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
      LAMINA_RETURN_IF_ERROR(in_.expect('{'));
      LAMINA_RETURN_IF_ERROR(module_body('}'));
      LAMINA_RETURN_IF_ERROR(skip_location());
      continue;
    }
    if (word == "func.func" || word == "func") {
      LAMINA_RETURN_IF_ERROR(function());
      continue;
    }
    if (word == "sdy.mesh") {
      LAMINA_RETURN_IF_ERROR(in_.expect(word));
      AttrTree ignored;
      LAMINA_RETURN_IF_ERROR(attribute(&ignored, false));
      LAMINA_RETURN_IF_ERROR(in_.expect('='));
      LAMINA_RETURN_IF_ERROR(attribute(&ignored, false));
      LAMINA_RETURN_IF_ERROR(skip_location());
      continue;
    }
    if (c == '"') {
      OpTree op;
      const Place at = in_.position();
      std::string name;
      LAMINA_RETURN_IF_ERROR(in_.string("an operation", &name));
      if (name == "builtin.module") {
        LAMINA_RETURN_IF_ERROR(in_.expect('('));
        LAMINA_RETURN_IF_ERROR(in_.expect(')'));
        std::vector<Field> ignored;
        if (in_.accept('<')) {
          LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
          LAMINA_RETURN_IF_ERROR(in_.expect('>'));
        }
        LAMINA_RETURN_IF_ERROR(in_.expect('('));
        LAMINA_RETURN_IF_ERROR(in_.expect('{'));
        if (in_.accept('^')) {
          std::string_view label;
          LAMINA_RETURN_IF_ERROR(in_.suffix("a block's name", &label));
          LAMINA_RETURN_IF_ERROR(in_.expect(':'));
        }
        LAMINA_RETURN_IF_ERROR(module_body('}'));
        LAMINA_RETURN_IF_ERROR(in_.expect(')'));
        if (in_.peek() == '{') LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
        LAMINA_RETURN_IF_ERROR(signature(&op));
        LAMINA_RETURN_IF_ERROR(skip_location());
        continue;
      }
      in_.move_to(at);
      LAMINA_RETURN_IF_ERROR(this->op(&op));
      if (op.name == "sdy.mesh") continue;
      if (op.name != "func.func") return in_.error(at, str_cat("a module holds functions, not ", op.name));
      LAMINA_RETURN_IF_ERROR(generic_function(std::move(op)));
      continue;
    }
    return in_.expected("a function");
  }
}

// func.func public @name(arguments) -> results attributes {..} {body}
absl::Status TextParser::function() {
  LAMINA_RETURN_IF_ERROR(in_.expect(in_.peek_word()));
  FunctionTree f;
  for (const std::string_view word : {"public", "private", "nested"})
    if (in_.accept_word(word)) f.is_public = word == "public";
  f.at = in_.position();
  if (in_.peek() != '@') return in_.expected("the function's name");
  AttrTree name;
  LAMINA_RETURN_IF_ERROR(attribute(&name, false));
  f.name = std::move(name.text);
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  bool named = true;
  if (!in_.accept(')')) {
    do {
      f.body.arguments.emplace_back();
      if (in_.peek() == '%') {
        LAMINA_RETURN_IF_ERROR(block_argument(&f.body.arguments.back()));
        continue;
      }
      named = false;
      LAMINA_RETURN_IF_ERROR(type(&f.body.arguments.back().type));
      std::vector<Field> ignored;
      if (in_.peek() == '{') LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect(')'));
  }
  if (in_.accept("->")) {
    const bool several = in_.accept('(');
    if (!several || !in_.accept(')')) {
      do {
        f.results.emplace_back();
        LAMINA_RETURN_IF_ERROR(type(&f.results.back()));
        std::vector<Field> ignored;
        if (several && in_.peek() == '{') LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
      } while (several && in_.accept(','));
      if (several) LAMINA_RETURN_IF_ERROR(in_.expect(')'));
    }
  }
  std::vector<Field> ignored;
  if (in_.accept_word("attributes")) LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
  if (in_.peek() == '{') {
    if (!named) return in_.error(f.at, "a function with a body names its arguments");
    f.has_body = true;
    LAMINA_RETURN_IF_ERROR(region(&f.body));
  }
  LAMINA_RETURN_IF_ERROR(skip_location());
  module_.functions.push_back(std::move(f));
  return absl::OkStatus();
}

absl::Status TextParser::generic_function(OpTree op) {
  FunctionTree f;
  f.at = op.at;
  const AttrTree* name = op.find("sym_name");
  if (!name || op.regions.size() != 1) return in_.error(op.at, "func.func needs sym_name and one region");
  f.name = name->text;
  const AttrTree* visibility = op.find("sym_visibility");
  f.is_public = !visibility || visibility->text == "public";
  f.body = std::move(op.regions[0]);
  f.has_body = !f.body.ops.empty();
  if (f.has_body)
    if (const OpTree& last = f.body.ops.back(); last.name == "func.return") f.results = last.types;
  module_.functions.push_back(std::move(f));
  return absl::OkStatus();
}

// dialect_resources: { builtin: { name: "0x...", ... } }, ... #-}
absl::Status TextParser::resources() {
  int open = 0;
  std::string_view key;
  while (!in_.accept("#-}")) {
    if (in_.at_end()) return in_.expected("'#-}'");
    if (in_.accept('{')) {
      ++open;
    } else if (in_.accept('}')) {
      if (--open < 0) return in_.error("'}' closes nothing");
    } else if (in_.peek() == '"') {
      std::string text;
      const Place at = in_.position();
      LAMINA_RETURN_IF_ERROR(in_.string("a resource", &text));
      if (in_.accept(':')) {  // a quoted key
        key = in_.text().substr(at + 1, text.size());
      } else {
        module_.resources[std::string(key)] = std::move(text);
      }
    } else if (!in_.accept(',')) {
      LAMINA_RETURN_IF_ERROR(in_.word("a key", &key));
      LAMINA_RETURN_IF_ERROR(in_.expect(':'));
    }
  }
  return absl::OkStatus();
}

}  // namespace lamina::hlo::stablehlo
