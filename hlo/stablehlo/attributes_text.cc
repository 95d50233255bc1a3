// Types and attributes of StableHLO text.
#include <charconv>

#include "hlo/stablehlo/deeper.h"
#include "hlo/stablehlo/text_parser.h"

namespace lamina::hlo::stablehlo {
namespace {

// i32, f8E4M3FN, bf16: a letter or two, then a digit.
bool is_number_type(std::string_view word) {
  for (const std::string_view prefix : {"i", "ui", "si", "f", "bf", "tf"})
    if (word.size() > prefix.size() && word.starts_with(prefix) && is_digit(word[prefix.size()])) return true;
  return false;
}

bool starts_type(std::string_view word) {
  for (const std::string_view name : {"tensor", "tuple", "complex", "index", "none", "vector", "memref"})
    if (word == name) return true;
  return is_number_type(word);
}

}  // namespace

std::optional<DType> element_named(std::string_view name) {
  if (name.starts_with("si") && name != "si1") name.remove_prefix(1);  // si8 is i8; there is no si1
  for (int i = 0; i < kNumDTypes; ++i)
    if (kDTypeInfo[i].mlir_name == name) return static_cast<DType>(i);
  return std::nullopt;
}

absl::Status TextParser::element_type(TypeTree* out) {
  const Place at = in_.position();
  if (in_.peek() == '!') {
    in_.advance();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.suffix("a type's name", &name));
    if (name == "quant.uniform") return quantized_type(out);
    if (const auto it = types_.find(name); it != types_.end() && it->second.quantization) {
      out->dtype = it->second.dtype;
      out->quantization = it->second.quantization;
      return absl::OkStatus();
    }
    if (in_.here() == '<') {
      in_.advance();
      std::string_view ignored;
      LAMINA_RETURN_IF_ERROR(in_.balanced('<', &ignored));
    }
    out->kind = TypeTree::Kind::kOther;
    out->why = str_cat("elements of type !", name, " are not supported");
    return absl::OkStatus();
  }
  std::string_view word;
  LAMINA_RETURN_IF_ERROR(in_.word("an element type", &word));
  if (word == "complex") {
    LAMINA_RETURN_IF_ERROR(in_.expect('<'));
    TypeTree part;
    LAMINA_RETURN_IF_ERROR(element_type(&part));
    LAMINA_RETURN_IF_ERROR(in_.expect('>'));
    if (part.dtype != DType::kF32 && part.dtype != DType::kF64)
      return in_.error(at, "complex elements have parts f32 or f64");
    out->dtype = part.dtype == DType::kF32 ? DType::kC64 : DType::kC128;
    return absl::OkStatus();
  }
  if (const std::optional<DType> dtype = element_named(word)) {
    out->dtype = *dtype;
    return absl::OkStatus();
  }
  if (!is_number_type(word) && word != "index")
    return in_.error(at, str_cat("there is no element type ", in_quotes(word)));
  out->kind = TypeTree::Kind::kOther;
  out->why = str_cat("elements of type ", word, " are not supported");
  return absl::OkStatus();
}

// Behind `tensor<`.
absl::Status TextParser::tensor(TypeTree* out) {
  out->kind = TypeTree::Kind::kArray;
  if (in_.accept('*')) {
    LAMINA_RETURN_IF_ERROR(in_.expect('x'));
    out->kind = TypeTree::Kind::kOther;
    out->why = "arrays of unknown rank are not supported";
  }
  while (is_digit(in_.peek()) || in_.peek() == '?') {
    int64_t dim = kDynamic;
    // The x behind a size touches it; 0x4 is two sizes, not a hexadecimal one.
    if (!in_.accept('?')) {
      const Place at = in_.position();
      dim = 0;
      for (; is_digit(in_.here()); in_.advance()) {
        if (dim > (int64_t{1} << 58)) return in_.error(at, "the size of a dimension is out of range");
        dim = dim * 10 + (in_.here() - '0');
      }
    }
    if (in_.here() != 'x') return in_.expected("'x' after the size of a dimension");
    in_.advance();
    if (out->dims.size() == 64) return in_.error("the rank is above 64");
    out->dims.push_back(dim);
  }
  const Place element = in_.position();
  LAMINA_RETURN_IF_ERROR(element_type(out));
  LAMINA_RETURN_IF_ERROR(check_quantized_dimension(*out, element));
  if (in_.accept(',')) {
    AttrTree encoding;
    LAMINA_RETURN_IF_ERROR(attribute(&encoding, false));
    out->kind = TypeTree::Kind::kOther;
    out->why = "array types with an encoding are not supported";
  }
  return in_.expect('>');
}

absl::Status TextParser::type_list(std::vector<TypeTree>* out) {
  LAMINA_RETURN_IF_ERROR(in_.expect('('));
  if (in_.accept(')')) return absl::OkStatus();
  do {
    out->emplace_back();
    LAMINA_RETURN_IF_ERROR(type(&out->back()));
  } while (in_.accept(','));
  return in_.expect(')');
}

absl::Status TextParser::type(TypeTree* out) {
  const Deeper deeper(*this);
  LAMINA_RETURN_IF_ERROR(deeper.check());
  *out = TypeTree();
  out->at = in_.position();
  if (in_.peek() == '(') {
    LAMINA_RETURN_IF_ERROR(type_list(&out->elements));
    LAMINA_RETURN_IF_ERROR(in_.expect("->"));
    TypeTree results;
    if (in_.peek() == '(') {
      LAMINA_RETURN_IF_ERROR(type_list(&results.elements));
    } else {
      LAMINA_RETURN_IF_ERROR(type(&results));
    }
    out->kind = TypeTree::Kind::kFunction;
    out->why = "a function type is not the type of a value";
    return absl::OkStatus();
  }
  if (in_.accept('!')) {
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.suffix("a type's name", &name));
    if (const auto it = types_.find(name); it != types_.end()) {
      const Place at = out->at;
      *out = it->second;
      out->at = at;
      return absl::OkStatus();
    }
    if (name == "stablehlo.token" || name == "mhlo.token") {
      out->kind = TypeTree::Kind::kToken;
      return absl::OkStatus();
    }
    if (name == "quant.uniform") {
      out->why = "a quantized element type is not an array's";
      return quantized_type(out);
    }
    if (in_.here() == '<') {
      in_.advance();
      std::string_view ignored;
      LAMINA_RETURN_IF_ERROR(in_.balanced('<', &ignored));
    }
    out->why = str_cat("the type !", name, " is not supported");
    return absl::OkStatus();
  }
  const std::string_view word = in_.peek_word();
  if (word == "tensor") {
    LAMINA_RETURN_IF_ERROR(in_.expect(word));
    LAMINA_RETURN_IF_ERROR(in_.expect('<'));
    return tensor(out);
  }
  if (word == "tuple") {
    LAMINA_RETURN_IF_ERROR(in_.expect(word));
    out->kind = TypeTree::Kind::kTuple;
    LAMINA_RETURN_IF_ERROR(in_.expect('<'));
    if (in_.accept('>')) return absl::OkStatus();
    do {
      out->elements.emplace_back();
      LAMINA_RETURN_IF_ERROR(type(&out->elements.back()));
    } while (in_.accept(','));
    return in_.expect('>');
  }
  if (!starts_type(word)) return in_.expected("a type");
  LAMINA_RETURN_IF_ERROR(in_.expect(word));
  if (in_.here() == '<') {
    in_.advance();
    std::string_view ignored;
    LAMINA_RETURN_IF_ERROR(in_.balanced('<', &ignored));
  }
  out->why = str_cat("the type ", word, " is not an array's");
  return absl::OkStatus();
}

absl::Status TextParser::optional_type(TypeTree* out, bool typed) {
  if (!typed || in_.peek() != ':' || in_.starts_with("::")) return absl::OkStatus();
  in_.advance();
  return type(out);
}

absl::Status TextParser::number(AttrTree* out) {
  const std::string_view text = in_.text();
  const Place at = in_.position();
  Place end = at + (text[at] == '-');
  while (end < text.size() && is_digit(text[end])) ++end;
  const bool real = end < text.size() && (text[end] == '.' || text[end] == 'e' || text[end] == 'E');
  if (!real) {
    out->kind = AttrTree::Kind::kInt;
    return in_.integer("a number", &out->integer);
  }
  out->kind = AttrTree::Kind::kFloat;
  double ignored = 0;
  const auto r = std::from_chars(text.data() + at, text.data() + text.size(), ignored);
  if (r.ec == std::errc::invalid_argument) return in_.expected("a number");
  const Place stop = r.ptr - text.data();
  out->text = std::string(text.substr(at, stop - at));
  in_.move_to(stop);
  return absl::OkStatus();
}

absl::Status TextParser::list(AttrTree* out) {
  out->kind = AttrTree::Kind::kList;
  LAMINA_RETURN_IF_ERROR(in_.expect('['));
  if (in_.accept(']')) return absl::OkStatus();
  do {
    out->items.emplace_back();
    LAMINA_RETURN_IF_ERROR(attribute(&out->items.back(), true));
  } while (in_.accept(','));
  return in_.expect(']');
}

// Behind `array`: <i64: 1, 2>.
absl::Status TextParser::typed_array(AttrTree* out) {
  out->kind = AttrTree::Kind::kList;
  LAMINA_RETURN_IF_ERROR(in_.expect('<'));
  LAMINA_RETURN_IF_ERROR(type(&out->type));
  if (in_.accept(':')) do {
      out->items.emplace_back();
      LAMINA_RETURN_IF_ERROR(attribute(&out->items.back(), false));
    } while (in_.accept(','));
  return in_.expect('>');
}

// [a] x [b], [a]x[b]->[c], once the first list is read.
absl::Status TextParser::joined(AttrTree* out) {
  AttrTree first = std::move(*out);
  *out = AttrTree();
  out->kind = AttrTree::Kind::kJoined;
  out->at = first.at;
  out->items.push_back(std::move(first));
  while (in_.accept_word("x") || in_.accept("->")) {
    out->items.emplace_back();
    LAMINA_RETURN_IF_ERROR(list(&out->items.back()));
  }
  return absl::OkStatus();
}

absl::Status TextParser::field(std::vector<Field>* out) {
  out->emplace_back();
  Field& f = out->back();
  if (in_.peek() == '"') {
    LAMINA_RETURN_IF_ERROR(in_.string("an attribute's name", &f.name));
  } else {
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.word("an attribute's name", &name));
    f.name = std::string(name);
  }
  f.value.at = in_.position();
  if (!in_.accept('=')) return absl::OkStatus();  // a unit attribute
  return attribute(&f.value, true);
}

absl::Status TextParser::dictionary(std::vector<Field>* out) {
  LAMINA_RETURN_IF_ERROR(in_.expect('{'));
  if (in_.accept('}')) return absl::OkStatus();
  do {
    LAMINA_RETURN_IF_ERROR(field(out));
  } while (in_.accept(','));
  return in_.expect('}');
}

absl::Status TextParser::fields_to_end(std::vector<Field>* out) {
  while (!in_.at_end()) {
    LAMINA_RETURN_IF_ERROR(field(out));
    if (!in_.accept(',')) break;
  }
  return in_.at_end() ? absl::OkStatus() : in_.expected("',' or the end of the attribute");
}

absl::Status TextParser::attribute(AttrTree* out, bool typed) {
  const Deeper deeper(*this);
  LAMINA_RETURN_IF_ERROR(deeper.check());
  out->at = in_.position();
  const char c = in_.peek();
  if (c == '"') {
    out->kind = AttrTree::Kind::kString;
    LAMINA_RETURN_IF_ERROR(in_.string("text", &out->text));
    return optional_type(&out->type, typed);
  }
  if (c == '[') {
    LAMINA_RETURN_IF_ERROR(list(out));
    if (in_.starts_with("x") || in_.starts_with("->")) {
      if (const std::string_view w = in_.peek_word(); w.empty() || w == "x") return joined(out);
    }
    return absl::OkStatus();
  }
  if (c == '{') {
    out->kind = AttrTree::Kind::kDict;
    return dictionary(&out->fields);
  }
  if (c == '<') {
    in_.advance();
    out->kind = AttrTree::Kind::kDialect;
    return in_.balanced('<', &out->body);
  }
  if (c == '@') {
    out->kind = AttrTree::Kind::kSymbol;
    do {
      LAMINA_RETURN_IF_ERROR(in_.expect('@'));
      if (!out->text.empty()) out->text += "::";
      if (in_.here() == '"') {
        LAMINA_RETURN_IF_ERROR(in_.string("a symbol's name", &out->text));
      } else {
        std::string_view name;
        LAMINA_RETURN_IF_ERROR(in_.suffix("a symbol's name", &name));
        str_append(&out->text, name);
      }
    } while (in_.accept("::"));
    return absl::OkStatus();
  }
  if (c == '#') {
    in_.advance();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.suffix("an attribute's name", &name));
    if (in_.here() == '<') {
      in_.advance();
      out->kind = AttrTree::Kind::kDialect;
      out->text = std::string(name);
      LAMINA_RETURN_IF_ERROR(in_.balanced('<', &out->body));
      return optional_type(&out->type, typed);
    }
    if (const auto it = attributes_.find(name); it != attributes_.end()) {
      const Place at = out->at;
      *out = it->second;
      out->at = at;
      return absl::OkStatus();
    }
    if (name.find('.') == std::string_view::npos && !name.starts_with("loc"))
      return in_.error(out->at, str_cat("there is no alias #", name, " above"));
    out->kind = AttrTree::Kind::kDialect;
    out->text = std::string(name);
    return absl::OkStatus();
  }
  if (c == '!' || c == '(') {
    out->kind = AttrTree::Kind::kType;
    return type(&out->type);
  }
  if (c == '-' || (c >= '0' && c <= '9')) {
    LAMINA_RETURN_IF_ERROR(number(out));
    return optional_type(&out->type, typed);
  }
  std::string_view word = in_.peek_word();
  if (word.empty()) return in_.expected("an attribute");
  if (starts_type(word)) {
    out->kind = AttrTree::Kind::kType;
    return type(&out->type);
  }
  LAMINA_RETURN_IF_ERROR(in_.word("an attribute", &word));
  if (word == "array") return typed_array(out);
  if (word == "true" || word == "false") {
    out->kind = AttrTree::Kind::kBool;
    out->flag = word == "true";
    return absl::OkStatus();
  }
  if (word == "unit") return absl::OkStatus();
  if (in_.here() == '<') {
    in_.advance();
    out->kind = word == "dense"            ? AttrTree::Kind::kDense
                : word == "dense_resource" ? AttrTree::Kind::kResource
                                           : AttrTree::Kind::kDialect;
    out->text = std::string(word);
    LAMINA_RETURN_IF_ERROR(in_.balanced('<', &out->body));
    return optional_type(&out->type, typed);
  }
  if (word == "loc" && in_.here() == '(') {
    in_.advance();
    out->kind = AttrTree::Kind::kDialect;
    return in_.balanced('(', &out->body);
  }
  out->kind = AttrTree::Kind::kWord;
  out->text = std::string(word);
  return absl::OkStatus();
}

}  // namespace lamina::hlo::stablehlo
