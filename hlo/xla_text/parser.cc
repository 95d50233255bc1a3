#include "hlo/xla_text/parser.h"

#include <algorithm>

#include "hlo/xla_text/reader.h"
#include "hlo/xla_text/translate.h"

namespace lamina::hlo::xla_text {

using stablehlo::BlockArgument;
using stablehlo::FunctionTree;
using stablehlo::in_quotes;
using stablehlo::view;

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

absl::Status Parser::run(stablehlo::ModuleTree* module, std::string* entry) {
  LAMINA_RETURN_IF_ERROR(header());
  for (std::string_view word = in_.peek_word();
       word == "FileNames" || word == "FunctionNames" || word == "FileLocations" || word == "StackFrames";
       word = in_.peek_word())
    LAMINA_RETURN_IF_ERROR(table(word));
  while (!in_.at_end()) LAMINA_RETURN_IF_ERROR(computation());
  if (module_.functions.empty()) return in_.error("the module has no computation");
  if (entry_.empty()) {
    if (module_.functions.size() > 1) return in_.error("no computation of the module is marked ENTRY");
    module_.functions[0].is_public = true;
    entry_ = module_.functions[0].name;
  }
  *module = std::move(module_);
  *entry = std::move(entry_);
  return absl::OkStatus();
}

// HloModule name, key=value, ...
absl::Status Parser::header() {
  if (!in_.accept_word("HloModule")) return in_.expected("'HloModule'");
  std::string_view module;
  LAMINA_RETURN_IF_ERROR(name("the module's name", &module));
  std::vector<RawAttribute> ignored;  // layouts, aliases and schedules say how to run, not what
  return attributes(&ignored);
}

absl::Status Parser::name(std::string_view what, std::string_view* out) {
  in_.accept('%');
  in_.position();
  return in_.suffix(what, out);
}

// FileNames, then lines of a number and a string; FileLocations, then lines of a number and {key=number ...}.
absl::Status Parser::table(std::string_view which) {
  LAMINA_RETURN_IF_ERROR(in_.expect(which));
  while (in_.peek() >= '0' && in_.peek() <= '9') {
    int64_t id = 0;
    LAMINA_RETURN_IF_ERROR(in_.integer("a number", &id));
    if (in_.peek() == '"') {
      LAMINA_RETURN_IF_ERROR(in_.string("a name", &(which == "FileNames" ? files_ : functions_)[id]));
      continue;
    }
    LAMINA_RETURN_IF_ERROR(in_.expect('{'));
    FileLocation at;
    while (!in_.accept('}')) {
      std::string_view key;
      int64_t value = 0;
      LAMINA_RETURN_IF_ERROR(in_.word("a key", &key));
      LAMINA_RETURN_IF_ERROR(in_.expect('='));
      LAMINA_RETURN_IF_ERROR(in_.integer("a number", &value));
      if (key == "file_name_id") at.file = value;
      if (key == "function_name_id") at.function = value;
      if (key == "line") at.line = value;
      if (key == "file_location_id") frames_[id] = value;
    }
    if (which == "FileLocations") locations_[id] = at;
  }
  return absl::OkStatus();
}

// [ENTRY] name [(parameters) -> type] { instructions } [, key=value ...]
absl::Status Parser::computation() {
  const bool is_entry = in_.accept_word("ENTRY");
  Body body;
  body.function.at = in_.position();
  body.function.is_public = is_entry;
  body.function.has_body = true;
  std::string_view called;
  LAMINA_RETURN_IF_ERROR(name("a computation's name", &called));
  body.function.name = std::string(called);
  body.function.body.at = body.function.at;
  if (is_entry) {
    if (!entry_.empty()) return in_.error(body.function.at, "a second computation is marked ENTRY");
    entry_ = body.function.name;
  }
  if (in_.accept('(')) {
    // The instructions say it again.
    std::string_view ignored;
    LAMINA_RETURN_IF_ERROR(in_.balanced('(', &ignored));
  }
  Shape result;
  const bool has_result = in_.accept("->");
  const Place result_at = in_.position();
  if (has_result) LAMINA_RETURN_IF_ERROR(shape(&result));
  LAMINA_RETURN_IF_ERROR(in_.expect('{'));
  while (!in_.accept('}')) {
    if (in_.at_end()) return in_.expected("an instruction or '}'");
    LAMINA_RETURN_IF_ERROR(instruction(body));
  }
  std::vector<RawAttribute> ignored;  // the thread that runs it
  LAMINA_RETURN_IF_ERROR(attributes(&ignored));
  if (body.last.empty()) return in_.error(body.function.at, "the computation has no instructions");
  const std::string_view root = body.root.empty() ? body.last : body.root;
  if (const TypeTree& declared = body.shapes.at(root)->type;
      has_result && to_string(declared) != to_string(result.type))
    return in_.error(result_at, str_cat("the computation gives ", to_string(result.type), ", its root ",
                                        to_string(declared)));
  return finish(std::move(body), is_entry);
}

absl::Status Parser::finish(Body body, bool is_entry) {
  FunctionTree& f = body.function;
  std::sort(body.parameters.begin(), body.parameters.end(),
            [](const auto& x, const auto& y) { return x.first < y.first; });
  for (size_t i = 0; i < body.parameters.size(); ++i) {
    auto& [number, argument] = body.parameters[i];
    if (number < static_cast<int64_t>(i))
      return in_.error(argument.at, str_cat("there is a second parameter ", number));
    if (number > static_cast<int64_t>(i))
      return in_.error(argument.at, str_cat("there is no parameter ", i, " before parameter ", number));
    f.body.arguments.push_back(std::move(argument));
  }
  // Without a mark the last instruction is the root.
  OpTree end;
  end.name = "return";
  end.at = body.root.empty() ? f.at : body.root_at;
  end.operands.push_back({body.root.empty() ? body.last : body.root, 0, end.at});
  f.body.ops.push_back(std::move(end));
  if (is_entry) f.results.push_back(body.shapes.at(f.body.ops.back().operands[0].name)->type);
  module_.functions.push_back(std::move(f));
  return absl::OkStatus();
}

// [ROOT] name = type opcode(operands), key=value, ...
absl::Status Parser::instruction(Body& body) {
  const Place start = in_.position();
  const bool is_root = in_.accept_word("ROOT");
  Instruction x;
  x.text = in_.text();
  x.at = in_.position();
  LAMINA_RETURN_IF_ERROR(name("an instruction's name", &x.name));
  if (is_root) {
    if (!body.root.empty()) return in_.error(start, "a second instruction is marked ROOT");
    body.root = x.name;
    body.root_at = x.at;
  }
  LAMINA_RETURN_IF_ERROR(in_.expect('='));
  LAMINA_RETURN_IF_ERROR(shape(&x.shape));
  x.opcode_at = in_.position();
  LAMINA_RETURN_IF_ERROR(in_.suffix("an opcode", &x.opcode));
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  if (x.opcode == "parameter" || x.opcode == "constant") {
    x.argument_at = in_.position();
    LAMINA_RETURN_IF_ERROR(in_.balanced('(', &x.argument));
    x.argument_at = x.argument.data() - in_.text().data();
  } else {
    LAMINA_RETURN_IF_ERROR(operands(body, &x));
  }
  LAMINA_RETURN_IF_ERROR(attributes(&x.attributes));
  if (x.opcode == "parameter") {
    LAMINA_RETURN_IF_ERROR(parameter(x, body));
  } else {
    Ops ops;
    if (x.opcode == "constant") {
      LAMINA_RETURN_IF_ERROR(constant(x, body));
    } else {
      LAMINA_RETURN_IF_ERROR(translate(x, &ops));
      const LocationId place = place_of(x);
      for (OpTree& op : ops) {
        op.place = place;
        body.function.body.ops.push_back(std::move(op));
      }
    }
  }
  body.last = x.name;
  body.owned.push_back(std::move(x.shape));
  if (!body.shapes.emplace(x.name, &body.owned.back()).second)
    return in_.error(x.at, str_cat("%", x.name, " is defined already"));
  return absl::OkStatus();
}

// Names with or without their types, up to the closing bracket.
absl::Status Parser::operands(Body& body, Instruction* out) {
  if (in_.accept(')')) return absl::OkStatus();
  do {
    if (in_.peek() != '%') {
      // A word in front of [ is a type.
      const std::string_view word = in_.peek_word();
      const size_t behind = in_.position() + word.size();
      if (in_.peek() == '(' || (behind < in_.text().size() && in_.text()[behind] == '[')) {
        Shape declared;
        const Place at = in_.position();
        LAMINA_RETURN_IF_ERROR(shape(&declared));
        if (in_.peek() == ',' || in_.peek() == ')')
          return in_.error(at, "the operand has a type and no name; print names too");
      }
    }
    const Place at = in_.position();
    std::string_view operand;
    LAMINA_RETURN_IF_ERROR(name("an operand", &operand));
    const auto it = body.shapes.find(operand);
    if (it == body.shapes.end())
      return in_.error(at, str_cat("%", operand, " is not defined before in this computation"));
    out->operands.push_back({operand, 0, at});
    out->operand_shapes.push_back(it->second);
  } while (in_.accept(','));
  return in_.expect(')');
}

absl::Status Parser::attributes(std::vector<RawAttribute>* out) {
  while (in_.accept(',')) {
    RawAttribute a;
    in_.position();
    LAMINA_RETURN_IF_ERROR(in_.suffix("an attribute", &a.key));
    LAMINA_RETURN_IF_ERROR(in_.expect('='));
    a.at = in_.position();
    LAMINA_RETURN_IF_ERROR(raw_value(&a.value));
    for (const RawAttribute& other : *out)
      if (other.key == a.key) return in_.error(a.at, str_cat("a second attribute ", in_quotes(a.key)));
    if (out->size() >= 64) return in_.error(a.at, "too many attributes");
    out->push_back(a);
  }
  return absl::OkStatus();
}

// Up to the comma or space behind the value that no bracket of the value holds.
absl::Status Parser::raw_value(std::string_view* out) {
  const std::string_view text = in_.text();
  const Place begin = in_.position();
  std::string open;  // the brackets that are to come
  Place at = begin;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      std::string ignored;
      in_.move_to(at);
      LAMINA_RETURN_IF_ERROR(in_.string("text", &ignored));
      at = in_.position();
      // Spaces behind the string are not part of it.
      while (is_space(text[at - 1])) --at;
      continue;
    }
    if (open.empty() && (c == ',' || is_space(c))) break;
    if (c == '{' || c == '(' || c == '[') {
      open.push_back(c == '{' ? '}' : c == '(' ? ')' : ']');
    } else if (c == '}' || c == ')' || c == ']') {
      if (open.empty()) break;
      if (open.back() != c)
        return in_.error(at,
                         str_cat(in_quotes(std::string_view(&c, 1)), " closes no bracket that is open here"));
      open.pop_back();
    }
    ++at;
  }
  if (!open.empty()) return in_.error(begin, "a bracket of the attribute is never closed");
  if (at == begin) return in_.expected("a value");
  in_.move_to(at);
  *out = text.substr(begin, at - begin);
  return absl::OkStatus();
}

absl::Status Parser::parameter(const Instruction& x, Body& body) {
  Cursor in(in_.text(), x.argument_at, x.argument_at + x.argument.size());
  int64_t number = 0;
  LAMINA_RETURN_IF_ERROR(in.integer("the parameter's number", &number));
  if (!in.at_end()) return in.expected("')'");
  if (number < 0) return in.error(x.argument_at, "a parameter's number is not negative");
  BlockArgument argument;
  argument.name = x.name;
  argument.type = x.shape.type;
  argument.at = x.at;
  body.parameters.emplace_back(number, std::move(argument));
  return absl::OkStatus();
}

absl::Status Parser::constant(const Instruction& x, Body& body) {
  std::vector<OpTree>& ops = body.function.body.ops;
  Cursor in(in_.text(), x.argument_at, x.argument_at + x.argument.size());
  std::vector<stablehlo::OperandTree> leaves;
  LAMINA_RETURN_IF_ERROR(constant_leaves(x, x.shape.type, in, &ops, &leaves));
  if (!in.at_end()) return in.expected("the end of the constant");
  if (x.shape.type.kind != TypeTree::Kind::kTuple) {
    ops.back().results = {{x.name, 1, x.at}};
    return absl::OkStatus();
  }
  OpTree tuple;
  tuple.row = op_rows::pass_through;
  tuple.spelled = x.opcode;
  tuple.at = x.at;
  tuple.operands = std::move(leaves);
  tuple.results = {{x.name, 1, x.at}};
  set_result(x.shape.type, &tuple);
  ops.push_back(std::move(tuple));
  return absl::OkStatus();
}

// One operation for each array of a constant; of tuples, (1, {2, 3}), one after the other.
absl::Status Parser::constant_leaves(const Instruction& x, const TypeTree& t, Cursor& in,
                                     std::vector<OpTree>* ops,
                                     std::vector<stablehlo::OperandTree>* leaves) const {
  if (t.kind == TypeTree::Kind::kTuple) {
    LAMINA_RETURN_IF_ERROR(in.expect('('));
    for (size_t i = 0; i < t.elements.size(); ++i) {
      if (i > 0) LAMINA_RETURN_IF_ERROR(in.expect(','));
      LAMINA_RETURN_IF_ERROR(constant_leaves(x, t.elements[i], in, ops, leaves));
    }
    return in.expect(')');
  }
  if (!t.is_array())
    return x.unsupported(t.why.empty() ? "a constant is an array or a tuple of arrays" : t.why);
  const absl::StatusOr<const Type*> type = stablehlo::static_type(t);
  if (!type.ok()) return x.error(view(type.status()));
  // Up to the comma or bracket that ends the element of a tuple.
  const std::string_view text = in_.text();
  const Place begin = in.position(), stop = x.argument_at + x.argument.size();
  Place end = begin;
  for (int depth = 0; end < stop; ++end) {
    const char c = text[end];
    if (depth == 0 && (c == ')' || c == '}' || (c == ',' && x.shape.type.kind == TypeTree::Kind::kTuple)))
      break;
    depth += (c == '{' || c == '(') - (c == '}' || c == ')');
  }
  absl::StatusOr<LiteralPtr> literal = read_literal(text, begin, end, *type);
  if (!literal.ok()) return literal.status();
  in.move_to(end);
  OpTree op;
  op.name = "stablehlo.constant";
  op.spelled = x.opcode;
  op.at = x.at;
  op.place = place_of(x);
  leaves->push_back({x.helper_name(leaves->size() + 1), 0, x.at});
  op.results.push_back({leaves->back().name, 1, x.at});
  set_result(t, &op);
  AttrTree value;
  value.kind = AttrTree::Kind::kLiteral;
  value.literal = *std::move(literal);
  value.at = begin;
  op.attrs.push_back({"value", std::move(value)});
  ops->push_back(std::move(op));
  return absl::OkStatus();
}

// metadata={op_name="f" source_file="x.py" source_line=3}, or a number of the tables in front.
LocationId Parser::place_of(const Instruction& x) const {
  const RawAttribute* metadata = x.find("metadata");
  if (!metadata) return 0;
  Cursor in(in_.text(), metadata->at, metadata->at + metadata->value.size());
  std::string file, function;
  int64_t line = 0;
  if (!in.accept('{')) return 0;
  while (!in.accept('}')) {
    std::string_view key;
    if (!in.word("a key", &key).ok() || !in.expect('=').ok()) return 0;
    if (in.peek() == '"') {
      std::string value;
      if (!in.string("text", &value).ok()) return 0;
      if (key == "op_name" && function.empty()) {
        function = std::move(value);
      } else if (key == "source_file") {
        file = std::move(value);
      }
    } else if (in.accept('{')) {
      std::string_view ignored;
      if (!in.balanced('{', &ignored).ok()) return 0;
    } else {
      int64_t value = 0;
      std::string_view ignored;
      if ((in.peek() < '0' || in.peek() > '9') && in.peek() != '-') {
        if (!in.word("a value", &ignored).ok()) return 0;
        continue;
      }
      if (!in.integer("a number", &value).ok()) return 0;
      if (key == "source_line") line = value;
      const auto frame = frames_.find(value);
      if (key != "stack_frame_id" || frame == frames_.end()) continue;
      const auto at = locations_.find(frame->second);
      if (at == locations_.end()) continue;
      if (const auto f = files_.find(at->second.file); f != files_.end()) file = f->second;
      if (const auto f = functions_.find(at->second.function); f != functions_.end()) function = f->second;
      line = at->second.line;
    }
  }
  if (file.empty() || line < 0 || line > (int64_t{1} << 30)) return 0;
  return intern_location(file, static_cast<int>(line), function);
}

// --- types ---

absl::Status Parser::shape(Shape* out) {
  const Place at = in_.position();
  out->type.at = at;
  if (!in_.accept('(')) return array(out);
  if (++depth_ > stablehlo::kMaxNesting)
    return in_.error(at, str_cat("types nest deeper than ", stablehlo::kMaxNesting, " levels"));
  out->type.kind = TypeTree::Kind::kTuple;
  if (!in_.accept(')')) {
    size_t leaves = 0;
    do {
      Shape element;
      LAMINA_RETURN_IF_ERROR(shape(&element));
      out->type.begins.push_back(leaves);
      leaves += num_leaves(element.type);
      out->type.elements.push_back(std::move(element.type));
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect(')'));
  }
  --depth_;
  return absl::OkStatus();
}

// f32[2,3]{1,0}
absl::Status Parser::array(Shape* out) {
  const Place at = in_.position();
  std::string_view word;
  LAMINA_RETURN_IF_ERROR(in_.word("a type such as f32[2,3]", &word));
  TypeTree& t = out->type;
  if (const std::optional<DType> dtype = parse_dtype(word); dtype && info(*dtype).name == word) {
    t.kind = TypeTree::Kind::kArray;
    t.dtype = *dtype;
  } else if (word == "token") {
    t.kind = TypeTree::Kind::kToken;
  } else {
    t.kind = TypeTree::Kind::kOther;
    t.why = str_cat("the element type ", word, " is not supported");
  }
  LAMINA_RETURN_IF_ERROR(in_.expect('['));
  if (!in_.accept(']')) {
    do {
      if (in_.accept("<=") || in_.accept('?')) {
        t.kind = TypeTree::Kind::kOther;
        t.why = "sizes that are known only while the program runs (<=) are not supported";
        if (in_.peek() == ',' || in_.peek() == ']') continue;
      }
      t.dims.emplace_back();
      LAMINA_RETURN_IF_ERROR(in_.integer("a size", &t.dims.back()));
      if (t.dims.back() < 0) return in_.error(at, "a size is not negative");
      if (t.dims.size() > 64) return in_.error(at, "a type has at most 64 dimensions");
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect(']'));
  }
  if (t.is_array())
    if (const absl::StatusOr<const Type*> type = array_type(t.dtype, t.dims); !type.ok())
      return in_.error(at, view(type.status()));
  return in_.here() == '{' ? layout(out) : absl::OkStatus();
}

// {1,0:T(8,128)}: the order in memory, then how it is cut into tiles.
absl::Status Parser::layout(Shape* out) {
  const Place at = in_.position();
  LAMINA_RETURN_IF_ERROR(in_.expect('{'));
  Dims& order = out->minor_to_major;
  while (in_.peek() >= '0' && in_.peek() <= '9') {
    order.emplace_back();
    LAMINA_RETURN_IF_ERROR(in_.integer("a dimension", &order.back()));
    if (order.size() > 64) return in_.error(at, "a layout has at most 64 dimensions");
    if (!in_.accept(',')) break;
  }
  std::string_view ignored;
  LAMINA_RETURN_IF_ERROR(in_.balanced('{', &ignored));
  if (order.empty() || !out->type.is_array()) return absl::OkStatus();
  const size_t rank = out->type.dims.size();
  std::vector<bool> seen(rank, false);
  bool sound = order.size() == rank;
  for (const int64_t d : order) {
    sound = sound && d >= 0 && d < static_cast<int64_t>(rank) && !seen[d];
    if (sound) seen[d] = true;
  }
  if (!sound)
    return in_.error(at, str_cat("the layout does not order the dimensions of ", to_string(out->type)));
  return absl::OkStatus();
}

absl::StatusOr<stablehlo::Module> parse(std::string text) {
  auto kept = std::make_shared<const std::string>(std::move(text));
  stablehlo::ModuleTree tree;
  std::string entry;
  LAMINA_RETURN_IF_ERROR(Parser(*kept).run(&tree, &entry));
  return stablehlo::Module::of(kept, std::move(tree), std::move(entry));
}

bool looks_like_xla_text(std::string_view text) { return Cursor(text).peek_word() == "HloModule"; }

}  // namespace lamina::hlo::xla_text
