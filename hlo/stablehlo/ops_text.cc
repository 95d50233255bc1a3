// Operations and regions of StableHLO text.
//
// Most pretty forms are read by one loose rule: operands, words, symbols, `key = value` pairs, ranges and an
// attribute dictionary in any order, then the types. The forms that hold more than that have readers here.
#include "hlo/stablehlo/deeper.h"
#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {

absl::Status TextParser::location(std::string_view* out) {
  if (in_.peek_word() != "loc") return absl::OkStatus();
  LAMINA_RETURN_IF_ERROR(in_.expect("loc"));
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  return in_.balanced('(', out);
}

absl::Status TextParser::skip_location() {
  std::string_view ignored;
  return location(&ignored);
}

absl::Status TextParser::operand(OperandTree* out) {
  out->at = in_.position();
  LAMINA_RETURN_IF_ERROR(in_.expect('%'));
  LAMINA_RETURN_IF_ERROR(in_.suffix("a value's name", &out->name));
  if (in_.here() != '#') return absl::OkStatus();
  in_.advance();
  int64_t index = 0;
  LAMINA_RETURN_IF_ERROR(in_.integer("the number of a result", &index));
  if (index < 0 || index > 65535) return in_.error(out->at, "the number of a result lies in 0..65535");
  out->index = static_cast<uint32_t>(index);
  return absl::OkStatus();
}

absl::Status TextParser::operands(std::vector<OperandTree>* out) {
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  if (in_.accept(')')) return absl::OkStatus();
  do {
    out->emplace_back();
    LAMINA_RETURN_IF_ERROR(operand(&out->back()));
  } while (in_.accept(','));
  return in_.expect(')');
}

absl::Status TextParser::block_argument(BlockArgument* out) {
  out->at = in_.position();
  LAMINA_RETURN_IF_ERROR(in_.expect('%'));
  LAMINA_RETURN_IF_ERROR(in_.suffix("an argument's name", &out->name));
  LAMINA_RETURN_IF_ERROR(in_.expect(':'));
  LAMINA_RETURN_IF_ERROR(type(&out->type));
  if (in_.peek() == '{') {
    std::vector<Field> ignored;
    LAMINA_RETURN_IF_ERROR(dictionary(&ignored));
  }
  return skip_location();
}

absl::Status TextParser::block_arguments(std::vector<BlockArgument>* out) {
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  if (in_.accept(')')) return absl::OkStatus();
  do {
    out->emplace_back();
    LAMINA_RETURN_IF_ERROR(block_argument(&out->back()));
  } while (in_.accept(','));
  return in_.expect(')');
}

// { ops } or { ^name(arguments): ops }. Arguments that are known already stay.
absl::Status TextParser::region(RegionTree* out) {
  const Deeper deeper(*this);
  LAMINA_RETURN_IF_ERROR(deeper.check());
  out->at = in_.position();
  LAMINA_RETURN_IF_ERROR(in_.expect('{'));
  if (in_.accept('^')) {
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.suffix("a block's name", &name));
    if (in_.peek() == '(') LAMINA_RETURN_IF_ERROR(block_arguments(&out->arguments));
    LAMINA_RETURN_IF_ERROR(in_.expect(':'));
  }
  while (!in_.accept('}')) {
    if (in_.peek() == '^') return in_.error("a region of several blocks is not supported");
    out->ops.emplace_back();
    LAMINA_RETURN_IF_ERROR(op(&out->ops.back()));
  }
  return absl::OkStatus();
}

// (types) -> types, type -> type, or types.
absl::Status TextParser::signature(OpTree* out) {
  if (!in_.accept(':')) return absl::OkStatus();
  if (in_.peek() == '(') {
    LAMINA_RETURN_IF_ERROR(type_list(&out->types));
    if (in_.peek() != '-') return in_.expected("'->'");
  } else {
    do {
      out->types.emplace_back();
      LAMINA_RETURN_IF_ERROR(type(&out->types.back()));
    } while (in_.accept(','));
  }
  if (!in_.accept("->")) return absl::OkStatus();
  out->functional = true;
  if (in_.peek() == '(') return type_list(&out->result_types);
  out->result_types.emplace_back();
  return type(&out->result_types.back());
}

absl::Status TextParser::op(OpTree* out) {
  const Place start = in_.position();
  if (in_.peek() == '%') {
    do {
      out->results.emplace_back();
      ResultTree& r = out->results.back();
      r.at = in_.position();
      LAMINA_RETURN_IF_ERROR(in_.expect('%'));
      LAMINA_RETURN_IF_ERROR(in_.suffix("a value's name", &r.name));
      if (in_.accept(':')) {
        int64_t count = 0;
        LAMINA_RETURN_IF_ERROR(in_.integer("the number of results", &count));
        if (count < 1 || count > 65535) return in_.error(r.at, "the number of results lies in 1..65535");
        r.count = static_cast<uint32_t>(count);
      }
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect('='));
  }
  out->at = in_.position();
  if (in_.peek() == '"') {
    LAMINA_RETURN_IF_ERROR(generic_op(out));
  } else if (!in_.peek_word().empty()) {
    LAMINA_RETURN_IF_ERROR(pretty_op(out));
  } else {
    return in_.expected(start == out->at ? "an operation or '}'" : "an operation");
  }
  return location(&out->location);
}

// "name"(operands) <{properties}> ({regions}) {attributes} : types
absl::Status TextParser::generic_op(OpTree* out) {
  LAMINA_RETURN_IF_ERROR(in_.string("the operation's name", &out->name));
  LAMINA_RETURN_IF_ERROR(operands(&out->operands));
  if (in_.peek() == '[') return in_.error("jumps between blocks are not supported");
  if (in_.accept('<')) {
    LAMINA_RETURN_IF_ERROR(dictionary(&out->attrs));
    LAMINA_RETURN_IF_ERROR(in_.expect('>'));
  }
  if (in_.accept('(')) {
    do {
      out->regions.emplace_back();
      LAMINA_RETURN_IF_ERROR(region(&out->regions.back()));
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect(')'));
  }
  if (in_.peek() == '{') LAMINA_RETURN_IF_ERROR(dictionary(&out->attrs));
  if (in_.peek() != ':') return in_.expected("':' and the operation's types");
  LAMINA_RETURN_IF_ERROR(signature(out));
  if (!out->functional) return in_.expected("'->' and the types of the results");
  return absl::OkStatus();
}

absl::Status TextParser::pretty_op(OpTree* out) {
  std::string_view name;
  LAMINA_RETURN_IF_ERROR(in_.word("an operation", &name));
  out->name = std::string(name);
  if (name == "stablehlo.reduce") return reduce_op(out);
  if (name == "stablehlo.while") return while_op(out);
  if (name == "stablehlo.slice") {
    out->operands.emplace_back();
    LAMINA_RETURN_IF_ERROR(operand(&out->operands.back()));
    LAMINA_RETURN_IF_ERROR(slice_ranges(out));
  }
  LAMINA_RETURN_IF_ERROR(loose(out, '\0'));
  return signature(out);
}

// Items up to `close`, or (if that is 0) to the types or the end of the operation.
absl::Status TextParser::loose(OpTree* out, char close) {
  const Deeper deeper(*this);
  LAMINA_RETURN_IF_ERROR(deeper.check());
  while (true) {
    const char c = in_.peek();
    if (close != '\0' && in_.accept(close)) return absl::OkStatus();
    if (close == '\0' && (c == ':' || c == '}' || c == '^' || c == '\0' || in_.peek_word() == "loc"))
      return absl::OkStatus();
    if (c == '(') {
      in_.advance();
      LAMINA_RETURN_IF_ERROR(loose(out, ')'));
    } else if (c == '{') {
      LAMINA_RETURN_IF_ERROR(dictionary(&out->attrs));
    } else if (c == '%') {
      out->operands.emplace_back();
      LAMINA_RETURN_IF_ERROR(operand(&out->operands.back()));
      if (in_.here() == '[') {  // %tuple[index]
        out->attrs.push_back({"index", {}});
        LAMINA_RETURN_IF_ERROR(attribute(&out->attrs.back().value, false));
      }
    } else {
      LAMINA_RETURN_IF_ERROR(loose_item(out));
    }
    if (!in_.accept(',') && close != '\0' && in_.peek() != close)
      return in_.expected(str_cat("',' or ", in_quotes(std::string_view(&close, 1))));
  }
}

// A word, symbol, string or dense value by position, or key = value.
absl::Status TextParser::loose_item(OpTree* out) {
  const std::string_view word = in_.peek_word();
  const Place at = in_.position();
  out->attrs.emplace_back();
  Field& f = out->attrs.back();
  if (!word.empty()) {
    LAMINA_RETURN_IF_ERROR(in_.expect(word));
    if (in_.accept('=')) {
      f.name = std::string(word);
      return attribute(&f.value, false);
    }
    in_.move_to(at);
  }
  LAMINA_RETURN_IF_ERROR(attribute(&f.value, false));
  if (f.value.kind == AttrTree::Kind::kWord) {
    const char next = in_.peek();
    if (next == '\0' || (next != ',' && next != ':' && next != ')' && next != '{' && next != '('))
      return in_.error(at, str_cat(in_quotes(word), " is not understood in ", out->name));
  }
  return absl::OkStatus();
}

// [start:limit:stride, ...]
absl::Status TextParser::slice_ranges(OpTree* out) {
  const Place at = in_.position();
  AttrTree lists[3];
  for (AttrTree& l : lists) {
    l.kind = AttrTree::Kind::kList;
    l.at = at;
  }
  LAMINA_RETURN_IF_ERROR(in_.expect('['));
  if (!in_.accept(']')) {
    do {
      for (int i = 0; i < 3; ++i) {
        AttrTree n;
        n.kind = AttrTree::Kind::kInt;
        n.integer = 1;
        if (i == 1) LAMINA_RETURN_IF_ERROR(in_.expect(':'));
        if (i < 2 || in_.accept(':')) LAMINA_RETURN_IF_ERROR(in_.integer("a bound of a slice", &n.integer));
        lists[i].items.push_back(std::move(n));
      }
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect(']'));
  }
  out->attrs.push_back({"start_indices", std::move(lists[0])});
  out->attrs.push_back({"limit_indices", std::move(lists[1])});
  out->attrs.push_back({"strides", std::move(lists[2])});
  return absl::OkStatus();
}

// (%x init: %i), (%y init: %j) [applies op] across dimensions = [..] {..} : types [reducer(..) (..) {..}]
absl::Status TextParser::reduce_op(OpTree* out) {
  std::vector<OperandTree> inits;
  do {
    LAMINA_RETURN_IF_ERROR(in_.expect('('));
    out->operands.emplace_back();
    LAMINA_RETURN_IF_ERROR(operand(&out->operands.back()));
    if (!in_.accept_word("init")) return in_.expected("'init:'");
    LAMINA_RETURN_IF_ERROR(in_.expect(':'));
    inits.emplace_back();
    LAMINA_RETURN_IF_ERROR(operand(&inits.back()));
    LAMINA_RETURN_IF_ERROR(in_.expect(')'));
  } while (in_.accept(','));
  out->operands.insert(out->operands.end(), inits.begin(), inits.end());
  if (in_.accept_word("applies")) {
    out->attrs.push_back({"applies", {}});
    AttrTree& applied = out->attrs.back().value;
    applied.at = in_.position();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.word("an operation", &name));
    applied.kind = AttrTree::Kind::kWord;
    applied.text = std::string(name);
  }
  if (!in_.accept_word("across")) return in_.expected("'across dimensions = [...]'");
  if (!in_.accept_word("dimensions")) return in_.expected("'dimensions'");
  LAMINA_RETURN_IF_ERROR(in_.expect('='));
  out->attrs.push_back({"dimensions", {}});
  LAMINA_RETURN_IF_ERROR(attribute(&out->attrs.back().value, false));
  if (in_.peek() == '{') LAMINA_RETURN_IF_ERROR(dictionary(&out->attrs));
  LAMINA_RETURN_IF_ERROR(signature(out));
  if (out->find("applies")) return absl::OkStatus();
  if (!in_.accept_word("reducer")) return in_.expected("'reducer'");
  // One pair (accumulator, element) per array; the region takes the accumulators first.
  out->regions.emplace_back();
  RegionTree& r = out->regions.back();
  std::vector<BlockArgument> elements;
  while (in_.peek() == '(') {
    const Place at = in_.position();
    std::vector<BlockArgument> pair;
    LAMINA_RETURN_IF_ERROR(block_arguments(&pair));
    if (pair.size() != 2) return in_.error(at, "a reducer takes its arguments in pairs");
    r.arguments.push_back(std::move(pair[0]));
    elements.push_back(std::move(pair[1]));
  }
  r.arguments.insert(r.arguments.end(), std::make_move_iterator(elements.begin()),
                     std::make_move_iterator(elements.end()));
  return region(&r);
}

// (%a = %x, ...) : types [attributes {..}] cond {..} do {..}
absl::Status TextParser::while_op(OpTree* out) {
  RegionTree cond;
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  if (!in_.accept(')')) {
    do {
      cond.arguments.emplace_back();
      BlockArgument& a = cond.arguments.back();
      a.at = in_.position();
      LAMINA_RETURN_IF_ERROR(in_.expect('%'));
      LAMINA_RETURN_IF_ERROR(in_.suffix("an argument's name", &a.name));
      LAMINA_RETURN_IF_ERROR(in_.expect('='));
      out->operands.emplace_back();
      LAMINA_RETURN_IF_ERROR(operand(&out->operands.back()));
    } while (in_.accept(','));
    LAMINA_RETURN_IF_ERROR(in_.expect(')'));
  }
  const Place typed = in_.position();
  LAMINA_RETURN_IF_ERROR(signature(out));
  if (out->types.size() != cond.arguments.size())
    return in_.error(
        typed, str_cat("the loop has ", cond.arguments.size(), " values and ", out->types.size(), " types"));
  for (size_t i = 0; i < out->types.size(); ++i) cond.arguments[i].type = out->types[i];
  if (in_.accept_word("attributes")) LAMINA_RETURN_IF_ERROR(dictionary(&out->attrs));
  if (in_.peek() == '{') LAMINA_RETURN_IF_ERROR(dictionary(&out->attrs));
  RegionTree body;
  body.arguments = cond.arguments;
  if (!in_.accept_word("cond")) return in_.expected("'cond'");
  LAMINA_RETURN_IF_ERROR(region(&cond));
  if (!in_.accept_word("do")) return in_.expected("'do'");
  LAMINA_RETURN_IF_ERROR(region(&body));
  out->regions.push_back(std::move(cond));
  out->regions.push_back(std::move(body));
  return absl::OkStatus();
}

}  // namespace lamina::hlo::stablehlo
