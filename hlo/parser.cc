#include "hlo/parser.h"

#include <algorithm>
#include <charconv>

#include "hlo/builder.h"
#include "hlo/hash_map.h"
#include "hlo/literal_text.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/rules/support.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_char(char c) { return is_letter(c) || is_digit(c) || c == '.'; }
bool is_number_char(char c) { return is_name_char(c) || c == '-' || c == '+' || c == ':'; }

std::string in_quotes(std::string_view text) { return str_cat("'", text, "'"); }

constexpr int64_t kMaxValues = 65535;  // operands of a node, parameters, results

// Position in the text, and the small pieces of it: names, numbers, strings, types, lists. Regions are named,
// so nothing nests except tuple types, whose depth is limited.
class Cursor {
 public:
  Cursor(std::string_view text, const ParseLimits& limits) : text_(text), limits_(limits) {}

  size_t position() {
    skip_space();
    return at_;
  }
  bool at_end() {
    skip_space();
    return at_ == text_.size();
  }

  absl::Status error_at(size_t where, std::string_view message,
                        absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    const std::string_view before = text_.substr(0, where);
    const size_t line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t newline = before.rfind('\n');
    const size_t column = newline == std::string_view::npos ? where + 1 : where - newline;
    return absl::Status(code, str_cat(line, ":", column, ": ", message));
  }
  absl::Status error(std::string_view message) { return error_at(position(), message); }
  // `what` was expected here; says what stands here instead.
  absl::Status expected(std::string_view what) {
    skip_space();
    if (at_ == text_.size()) return error(str_cat("expected ", what, ", but the text ends"));
    return error(str_cat("expected ", what, ", not ", in_quotes(shown())));
  }

  bool looking_at(char c) {
    skip_space();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool accept(char c) {
    if (!looking_at(c)) return false;
    ++at_;
    return true;
  }
  bool accept(std::string_view symbol) {
    skip_space();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }
  absl::Status expect(char c) {
    if (accept(c)) return absl::OkStatus();
    return expected(in_quotes(std::string_view(&c, 1)));
  }

  // The name that stands here, not consumed; empty if there is none.
  std::string_view peek_name() {
    skip_space();
    size_t end = at_;
    if (end < text_.size() && is_letter(text_[end]))
      while (end < text_.size() && is_name_char(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  void skip(std::string_view name) { at_ += name.size(); }
  absl::Status name(std::string_view what, std::string_view* out) {
    *out = peek_name();
    if (out->empty()) return expected(what);
    skip(*out);
    return absl::OkStatus();
  }
  absl::Status keyword(std::string_view word) {
    if (peek_name() != word) return expected(in_quotes(word));
    skip(word);
    return absl::OkStatus();
  }

  absl::Status integer(std::string_view what, int64_t* out) {
    skip_space();
    const char* begin = text_.data() + at_;
    const auto r = std::from_chars(begin, text_.data() + text_.size(), *out);
    if (r.ec == std::errc::invalid_argument) return expected(what);
    if (r.ec != std::errc() || *out > limits_.integer || *out < -limits_.integer)
      return error(str_cat(what, " is out of range"));
    at_ += r.ptr - begin;
    return absl::OkStatus();
  }

  absl::Status number(DType t, std::byte* out) {
    skip_space();
    size_t end = at_;
    while (end < text_.size() && is_number_char(text_[end])) ++end;
    if (end == at_) return expected(str_cat("a number of type ", info(t).name));
    if (!parse_number(text_.substr(at_, end - at_), t, out))
      return error(str_cat(in_quotes(text_.substr(at_, end - at_)), " is no number of type ", info(t).name));
    at_ = end;
    return absl::OkStatus();
  }

  absl::Status string(std::string_view what, std::string* out) {
    if (!looking_at('"')) return expected(str_cat(what, " in double quotes"));
    const size_t start = at_++;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\n') return error_at(start, "the string does not end on its line");
      if (c == '\\') {
        if (at_ == text_.size()) break;
        const char escape = text_[at_++];
        switch (escape) {
          case 'n':
            c = '\n';
            break;
          case 't':
            c = '\t';
            break;
          case '"':
          case '\\':
            c = escape;
            break;
          case 'x': {
            unsigned byte = 0;
            const char* begin = text_.data() + at_;
            if (text_.size() - at_ < 2) return error_at(at_, "\\x needs two hexadecimal digits");
            const auto r = std::from_chars(begin, begin + 2, byte, 16);
            if (r.ptr != begin + 2) return error_at(at_, "\\x needs two hexadecimal digits");
            at_ += 2;
            c = static_cast<char>(byte);
            break;
          }
          default:
            return error_at(at_ - 1, str_cat("unknown escape \\", std::string_view(&escape, 1)));
        }
      }
      out->push_back(c);
    }
    if (at_ == text_.size()) return error_at(start, "the string does not end");
    ++at_;
    return absl::OkStatus();
  }

  // `open` items `close`, separated by commas; `item` reads one.
  template <typename F>
  absl::Status list(char open, char close, F&& item, int64_t limit = kMaxValues) {
    LAMINA_RETURN_IF_ERROR(expect(open));
    if (accept(close)) return absl::OkStatus();
    for (int64_t n = 1;; ++n) {
      if (n > limit) return error(str_cat("the list has more than ", limit, " entries"));
      LAMINA_RETURN_IF_ERROR(item());
      if (accept(close)) return absl::OkStatus();
      if (!accept(',')) return expected(str_cat("',' or ", in_quotes(std::string_view(&close, 1))));
    }
  }

  absl::Status integers(Dims* out) {
    auto one = [&] {
      out->push_back(0);
      return integer("an integer", &out->back());
    };
    return list('[', ']', one, limits_.integers);
  }

  absl::Status dtype(DType* out) {
    const std::string_view word = peek_name();
    for (int i = 0; i < kNumDTypes; ++i) {
      if (kDTypeInfo[i].name != word) continue;
      *out = static_cast<DType>(i);
      skip(word);
      return absl::OkStatus();
    }
    return expected("an element type");
  }

  absl::Status type(const Type** out, int depth = 0) {
    if (looking_at('(')) {
      if (depth == kTupleDepth) return error(str_cat("tuple types nest deeper than ", kTupleDepth));
      std::vector<const Type*> elements;
      LAMINA_RETURN_IF_ERROR(list('(', ')', [&] {
        elements.push_back(nullptr);
        return type(&elements.back(), depth + 1);
      }));
      *out = tuple_type(elements);
      return absl::OkStatus();
    }
    if (peek_name() == "token") {
      skip("token");
      *out = token_type();
      return absl::OkStatus();
    }
    const size_t where = position();
    DType element = DType::kBool;
    LAMINA_RETURN_IF_ERROR(dtype(&element));
    Dims dims;
    LAMINA_RETURN_IF_ERROR(integers(&dims));
    if (static_cast<int64_t>(dims.size()) > limits_.rank)
      return error_at(where, str_cat("rank ", dims.size(), " is above ", limits_.rank));
    absl::StatusOr<const Type*> made = array_type(element, dims);
    if (!made.ok())
      return error_at(where,
                      std::string_view(made.status().message().data(), made.status().message().size()));
    *out = *made;
    return absl::OkStatus();
  }

 private:
  static constexpr int kTupleDepth = 16;

  void skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
        const size_t end = text_.find('\n', at_);
        at_ = end == std::string_view::npos ? text_.size() : end;
      } else {
        return;
      }
    }
  }
  // What stands here, for messages: a word or one character.
  std::string shown() {
    size_t end = at_;
    while (end < text_.size() && is_number_char(text_[end]) && end - at_ < 40) ++end;
    if (end > at_) return std::string(text_.substr(at_, end - at_));
    const auto c = static_cast<unsigned char>(text_[at_]);
    return c >= 0x20 && c < 0x7F ? std::string(1, text_[at_]) : str_cat("byte ", static_cast<int>(c));
  }

  std::string_view text_;
  const ParseLimits& limits_;
  size_t at_ = 0;
};

class Parser {
 public:
  Parser(std::string_view text, const ParseLimits& limits) : limits_(limits), in_(text, limits) {}

  absl::StatusOr<ComputationPtr> run() {
    do {
      LAMINA_RETURN_IF_ERROR(computation());
    } while (!in_.at_end());
    return last_;
  }

 private:
  absl::Status computation() {
    LAMINA_RETURN_IF_ERROR(in_.keyword("computation"));
    const size_t where = in_.position();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.name("the computation's name", &name));
    if (computations_.contains(name))
      return in_.error_at(where, str_cat("the computation ", name, " exists already"));
    values_.clear();
    std::vector<Value> parameters;
    LAMINA_RETURN_IF_ERROR(in_.list('(', ')', [&] { return parameter(&parameters); }));
    if (!in_.accept("->")) return in_.expected("'->'");
    std::vector<const Type*> results;
    LAMINA_RETURN_IF_ERROR(in_.list('(', ')', [&] {
      results.push_back(nullptr);
      return in_.type(&results.back());
    }));
    LAMINA_RETURN_IF_ERROR(in_.expect('{'));
    while (in_.peek_name() != "return") LAMINA_RETURN_IF_ERROR(operation());
    in_.skip("return");
    const size_t returned = in_.position();
    std::vector<Value> roots;
    LAMINA_RETURN_IF_ERROR(in_.list('(', ')', [&] { return operand(&roots); }));
    if (roots.size() != results.size())
      return in_.error_at(
          returned, str_cat("returns ", roots.size(), " values where ", results.size(), " are declared"));
    for (size_t i = 0; i < roots.size(); ++i)
      if (roots[i].type() != results[i])
        return in_.error_at(returned, str_cat("result ", i, " is ", to_string(*roots[i].type()), " where ",
                                              to_string(*results[i]), " is declared"));
    LAMINA_RETURN_IF_ERROR(in_.expect('}'));
    absl::StatusOr<ComputationPtr> made = Computation::make(parameters, roots);
    if (!made.ok()) return with_place(where, made.status());
    last_ = *made;
    computations_.emplace(name, *std::move(made));
    return absl::OkStatus();
  }

  absl::Status parameter(std::vector<Value>* parameters) {
    const size_t where = in_.position();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.name("a parameter's name", &name));
    LAMINA_RETURN_IF_ERROR(in_.expect(':'));
    const size_t typed = in_.position();
    const Type* type = nullptr;
    LAMINA_RETURN_IF_ERROR(in_.type(&type));
    if (type->is_tuple()) return in_.error_at(typed, "a parameter cannot be a tuple");
    parameters->push_back(make_parameter(type));
    return define(where, name, parameters->back());
  }

  // NAME = ..., or (NAME, ...) = ... for several results.
  absl::Status operation() {
    std::vector<std::pair<size_t, std::string_view>> names;
    const bool several = in_.looking_at('(');
    auto one_name = [&] {
      names.emplace_back(in_.position(), std::string_view());
      return in_.name("a name", &names.back().second);
    };
    if (several) {
      LAMINA_RETURN_IF_ERROR(in_.list('(', ')', one_name));
    } else if (in_.peek_name().empty()) {
      return in_.expected("an operation or 'return'");
    } else {
      LAMINA_RETURN_IF_ERROR(one_name());
    }
    LAMINA_RETURN_IF_ERROR(in_.expect('='));
    const size_t typed = in_.position();
    const Type* type = nullptr;
    const std::string_view word = in_.peek_name();
    if (in_.looking_at('(') || word == "token" || (parse_dtype(word) && !parse_op(word)))
      LAMINA_RETURN_IF_ERROR(in_.type(&type));
    const size_t where = in_.position();
    std::string_view op_name;
    LAMINA_RETURN_IF_ERROR(in_.name("an operation", &op_name));
    const std::optional<Op> op = parse_op(op_name);
    if (!op) return in_.error_at(where, str_cat("there is no operation ", in_quotes(op_name)));
    const OpDef& def = op_def(*op);

    std::vector<Value> operands;
    std::vector<Attrs::Entry> attrs;
    if (*op == Op::constant) {
      if (!type || !type->is_array()) return in_.error_at(where, "a constant needs an array type before it");
      LAMINA_RETURN_IF_ERROR(in_.expect('('));
      LiteralPtr value;
      LAMINA_RETURN_IF_ERROR(literal(type, &value));
      attrs.emplace_back(Attr::value, std::move(value));
      LAMINA_RETURN_IF_ERROR(in_.expect(')'));
    } else {
      LAMINA_RETURN_IF_ERROR(in_.list('(', ')', [&] { return operand(&operands); }));
    }
    int64_t mode = 0;
    while (in_.accept(',')) LAMINA_RETURN_IF_ERROR(attribute(def, &attrs, &mode));
    for (const AttrSpec& spec : def.attrs) {
      const AttrKind kind = attr_kind(spec.attr);
      // The other kinds have a meaning when absent: 0, false, the empty list.
      const bool needed = kind == AttrKind::kDType || kind == AttrKind::kString ||
                          kind == AttrKind::kComputation || kind == AttrKind::kComputations;
      if (!spec.optional && needed && !has(attrs, spec.attr))
        return in_.error_at(where, str_cat(def.name, " needs the attribute ", attr_name(spec.attr)));
    }
    LocationId at = 0;
    LAMINA_RETURN_IF_ERROR(place(&at));

    LocationScope scope(at);
    NumericsScope numerics(static_cast<Numerics>(mode));
    Builder b;
    const Values made = b.make_multi(*op, operands, intern_attrs(std::move(attrs)));
    if (!b.ok()) return with_place(where, b.status());
    const Type* inferred = several && !made.empty() ? made[0].node()->type() : nullptr;
    if (!several) {
      if (made.size() != 1 || made[0].node()->type()->is_tuple())
        return in_.error_at(names[0].first,
                            str_cat(def.name, " has ", made.size(), " results: name them (a, b, ...)"));
      inferred = made[0].type();
    } else if (made.size() != names.size() || (inferred && !inferred->is_tuple())) {
      return in_.error_at(
          typed, str_cat(def.name, " has ", made.size(), " results, not the ", names.size(), " named"));
    }
    if (type && inferred && type != inferred)
      return in_.error_at(typed,
                          str_cat(def.name, " gives ", to_string(*inferred), ", not ", to_string(*type)));
    for (size_t i = 0; i < made.size(); ++i)
      LAMINA_RETURN_IF_ERROR(define(names[i].first, names[i].second, made[i]));
    return absl::OkStatus();
  }

  absl::Status define(size_t where, std::string_view name, const Value& value) {
    if (name == "return") return in_.error_at(where, "'return' is no name for a value");
    if (!values_.emplace(name, value).second)
      return in_.error_at(where, str_cat(in_quotes(name), " is defined already"));
    return absl::OkStatus();
  }

  absl::Status operand(std::vector<Value>* out) {
    size_t where = in_.position();
    const Type* type = nullptr;
    std::string_view name = in_.peek_name();
    if (in_.looking_at('(') || (!values_.contains(name) && (name == "token" || parse_dtype(name)))) {
      LAMINA_RETURN_IF_ERROR(in_.type(&type));
      where = in_.position();
    }
    LAMINA_RETURN_IF_ERROR(in_.name("a value's name", &name));
    const auto it = values_.find(name);
    if (it == values_.end())
      return in_.error_at(where, str_cat("there is no value ", in_quotes(name), " here"));
    if (type && type != it->second.type())
      return in_.error_at(where,
                          str_cat(name, " is ", to_string(*it->second.type()), ", not ", to_string(*type)));
    out->push_back(it->second);
    return absl::OkStatus();
  }

  static bool has(const std::vector<Attrs::Entry>& attrs, Attr key) {
    return std::any_of(attrs.begin(), attrs.end(), [&](const Attrs::Entry& e) { return e.first == key; });
  }

  absl::Status attribute(const OpDef& def, std::vector<Attrs::Entry>* attrs, int64_t* mode) {
    const size_t where = in_.position();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.name("an attribute", &name));
    LAMINA_RETURN_IF_ERROR(in_.expect('='));
    if (name == "mode") {
      LAMINA_RETURN_IF_ERROR(in_.integer("the mode", mode));
      if (*mode < 0 || *mode > 255) return in_.error_at(where, "the mode lies in 0..255");
      return absl::OkStatus();
    }
    const std::optional<Attr> key = parse_attr(name);
    if (!key ||
        std::none_of(def.attrs.begin(), def.attrs.end(), [&](const AttrSpec& s) { return s.attr == *key; }))
      return in_.error_at(where, str_cat(def.name, " has no attribute ", in_quotes(name)));
    if (has(*attrs, *key)) return in_.error_at(where, str_cat("the attribute ", name, " is given twice"));
    AttrValue value;
    LAMINA_RETURN_IF_ERROR(attribute_value(attr_kind(*key), &value));
    attrs->emplace_back(*key, std::move(value));
    return absl::OkStatus();
  }

  absl::Status attribute_value(AttrKind kind, AttrValue* out) {
    switch (kind) {
      case AttrKind::kInt:
        return in_.integer("an integer", &out->emplace<int64_t>(0));
      case AttrKind::kBool: {
        const std::string_view word = in_.peek_name();
        if (word != "true" && word != "false") return in_.expected("true or false");
        in_.skip(word);
        out->emplace<bool>(word == "true");
        return absl::OkStatus();
      }
      case AttrKind::kInts:
        return in_.integers(&out->emplace<Dims>());
      case AttrKind::kString:
        return in_.string("text", &out->emplace<std::string>());
      case AttrKind::kDType:
        return in_.dtype(&out->emplace<DType>());
      case AttrKind::kLiteral:
        return in_.error("only a constant holds a literal");
      case AttrKind::kComputation:
        return region(&out->emplace<ComputationPtr>());
      case AttrKind::kComputations: {
        auto& list = out->emplace<std::vector<ComputationPtr>>();
        return in_.list('[', ']', [&] { return region(&list.emplace_back()); });
      }
      case AttrKind::kTypes: {
        auto& list = out->emplace<std::vector<const Type*>>();
        return in_.list('[', ']', [&] { return in_.type(&list.emplace_back()); });
      }
    }
    return absl::OkStatus();
  }

  absl::Status region(ComputationPtr* out) {
    const size_t where = in_.position();
    std::string_view name;
    LAMINA_RETURN_IF_ERROR(in_.name("a computation's name", &name));
    const auto it = computations_.find(name);
    if (it == computations_.end())
      return in_.error_at(where, str_cat("there is no computation ", in_quotes(name), " above"));
    *out = it->second;
    return absl::OkStatus();
  }

  // @"file":line in "function", if it stands here.
  absl::Status place(LocationId* out) {
    if (!in_.accept('@')) return absl::OkStatus();
    std::string file, function;
    LAMINA_RETURN_IF_ERROR(in_.string("a file name", &file));
    LAMINA_RETURN_IF_ERROR(in_.expect(':'));
    const size_t where = in_.position();
    int64_t line = 0;
    LAMINA_RETURN_IF_ERROR(in_.integer("a line number", &line));
    if (line < 0 || line > std::numeric_limits<int>::max())
      return in_.error_at(where, "the line number is out of range");
    if (in_.peek_name() == "in") {
      in_.skip("in");
      LAMINA_RETURN_IF_ERROR(in_.string("a function's name", &function));
    }
    *out = intern_location(file, static_cast<int>(line), function);
    return absl::OkStatus();
  }

  absl::Status literal(const Type* type, LiteralPtr* out) {
    literal_bytes_ += type->num_elements > limits_.literal_bytes / byte_size(type->dtype)
                          ? limits_.all_literal_bytes + 1
                          : type->bytes();
    if (literal_bytes_ > limits_.all_literal_bytes)
      return in_.error(str_cat("a constant ", to_string(*type), " is above the limit of ",
                               limits_.literal_bytes, " bytes, or all are above ",
                               limits_.all_literal_bytes));
    if (type->dims.empty() || in_.peek_name() == "splat") {
      const bool scalar = type->dims.empty();
      if (!scalar) {
        in_.skip("splat");
        LAMINA_RETURN_IF_ERROR(in_.expect('('));
      }
      std::byte element[16];
      LAMINA_RETURN_IF_ERROR(this->element(type->dtype, element));
      if (!scalar) LAMINA_RETURN_IF_ERROR(in_.expect(')'));
      *out = Literal::splat(type, element);
      return absl::OkStatus();
    }
    if (type->num_elements == 0) {
      LAMINA_RETURN_IF_ERROR(in_.expect('{'));
      *out = std::make_shared<Literal>(type);
      return in_.expect('}');
    }
    auto literal = std::make_shared<Literal>(type);
    for (int64_t i = 0; i < type->num_elements; ++i) {
      if (i > 0) LAMINA_RETURN_IF_ERROR(in_.expect(','));
      int64_t block = 1;
      for (size_t d = type->dims.size(); d-- > 0;)
        if (i % (block *= type->dims[d]) == 0) LAMINA_RETURN_IF_ERROR(in_.expect('{'));
      LAMINA_RETURN_IF_ERROR(element(type->dtype, literal->element(i)));
      block = 1;
      for (size_t d = type->dims.size(); d-- > 0;)
        if ((i + 1) % (block *= type->dims[d]) == 0) LAMINA_RETURN_IF_ERROR(in_.expect('}'));
    }
    *out = std::move(literal);
    return absl::OkStatus();
  }

  absl::Status element(DType t, std::byte* out) {
    if (!is_complex(t)) return in_.number(t, out);
    const DType part = part_type(t);
    LAMINA_RETURN_IF_ERROR(in_.expect('('));
    LAMINA_RETURN_IF_ERROR(in_.number(part, out));
    LAMINA_RETURN_IF_ERROR(in_.expect(','));
    LAMINA_RETURN_IF_ERROR(in_.number(part, out + byte_size(part)));
    return in_.expect(')');
  }

  absl::Status with_place(size_t where, const absl::Status& status) const {
    return in_.error_at(where, std::string_view(status.message().data(), status.message().size()),
                        status.code());
  }

  const ParseLimits& limits_;
  Cursor in_;
  HashMap<std::string_view, ComputationPtr> computations_;
  HashMap<std::string_view, Value> values_;
  ComputationPtr last_;
  int64_t literal_bytes_ = 0;
};

}  // namespace

absl::StatusOr<ComputationPtr> parse(std::string_view text, const ParseLimits& limits) {
  GraphLock lock;
  return Parser(text, limits).run();
}

}  // namespace lamina::hlo
