#include "hlo/stablehlo/elements.h"

#include <charconv>

#include "hlo/literal_text.h"
#include "hlo/narrow.h"

namespace lamina::hlo::stablehlo {
namespace {

bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '+' || c == '_';
}

// The numbers of dense<...>, in order.
class Numbers {
 public:
  Numbers(const ModuleTree& module, const AttrTree& attr)
      : in_(module.text, begin(module, attr), end(module, attr)) {}

  Cursor& in() { return in_; }

  absl::Status element(DType t, std::byte* out) {
    if (!is_complex(t)) return real(t, out);
    const DType part = part_type(t);
    LAMINA_RETURN_IF_ERROR(in_.expect('('));
    LAMINA_RETURN_IF_ERROR(real(part, out));
    LAMINA_RETURN_IF_ERROR(in_.expect(','));
    LAMINA_RETURN_IF_ERROR(real(part, out + byte_size(part)));
    return in_.expect(')');
  }

 private:
  static Place begin(const ModuleTree& m, const AttrTree& a) { return a.body.data() - m.text.data(); }
  static Place end(const ModuleTree& m, const AttrTree& a) { return begin(m, a) + a.body.size(); }

  absl::Status real(DType t, std::byte* out) {
    const Place at = in_.position();
    const std::string_view text = in_.text();
    Place stop = at;
    while (stop < text.size() && is_token_char(text[stop])) ++stop;
    const std::string_view token = text.substr(at, stop - at);
    if (token.empty()) return in_.expected(str_cat("a number of type ", info(t).name));
    if (!read(token, t, out))
      return in_.error(str_cat(in_quotes(token), " is no number of type ", info(t).name));
    in_.move_to(stop);
    return absl::OkStatus();
  }

  static bool read(std::string_view token, DType t, std::byte* out) {
    if (is_bool(t) && (token == "true" || token == "false")) {
      *out = std::byte{token == "true"};
      return true;
    }
    if (token.starts_with("0x") || token.starts_with("0X")) {  // for floats: their bits
      uint64_t bits = 0;
      const auto r = std::from_chars(token.data() + 2, token.data() + token.size(), bits, 16);
      if (r.ec != std::errc() || r.ptr != token.data() + token.size()) return false;
      if (is_bool(t) || (bit_width(t) < 64 && bits >> bit_width(t) != 0)) return false;
      std::memcpy(out, &bits, byte_size(t));
      make_canonical(t, out, 1);
      return true;
    }
    return parse_number(token, t, out);
  }

  Cursor in_;
};

int nibble(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

// Hexadecimal digits of the elements in memory order; booleans eight a byte, or one.
absl::StatusOr<LiteralPtr> from_hex(const ModuleTree& module, Place at, std::string_view digits,
                                    const Type* type) {
  const int64_t given = static_cast<int64_t>(digits.size() / 2), width = byte_size(type->dtype);
  std::string bytes(given, '\0');
  for (int64_t i = 0; i < given; ++i) {
    const int high = nibble(digits[2 * i]), low = nibble(digits[2 * i + 1]);
    if (high < 0 || low < 0) return error_at(module.text, at, "the text in dense<> is not hexadecimal");
    bytes[i] = static_cast<char>(high * 16 + low);
  }
  if (is_bool(type->dtype)) {
    const bool packed = given == (type->num_elements + 7) / 8;
    if (given == 1 && (static_cast<unsigned char>(bytes[0]) == 0xFF || bytes[0] == 0)) {
      const std::byte value{bytes[0] != 0};
      return Literal::splat(scalar_type(DType::kBool), &value);
    }
    if (packed || given == type->num_elements) {
      auto literal = std::make_shared<Literal>(type);
      for (int64_t i = 0; i < type->num_elements; ++i)
        *literal->element(i) = std::byte{
            packed ? (static_cast<unsigned char>(bytes[i / 8]) >> (i % 8) & 1) != 0 : bytes[i] != 0};
      return literal;
    }
  } else if (given == width && type->num_elements != 1) {
    make_canonical(type->dtype, bytes.data(), 1);
    return Literal::copy_of(scalar_type(type->dtype), bytes.data());
  } else if (given == type->bytes()) {
    make_canonical(type->dtype, bytes.data(), type->num_elements);
    return Literal::copy_of(type, bytes.data());
  }
  return error_at(
      module.text, at,
      str_cat("dense<> holds ", given, " bytes where ", to_string(*type), " has ", type->bytes()));
}

// Numbers in the brackets that `dims` ask for.
absl::Status nested(Numbers& numbers, const Type* type, Literal& out) {
  Cursor& in = numbers.in();
  for (int64_t i = 0; i < type->num_elements; ++i) {
    if (i > 0) LAMINA_RETURN_IF_ERROR(in.expect(','));
    int64_t block = 1;
    for (size_t d = type->dims.size(); d-- > 0;)
      if (i % (block *= type->dims[d]) == 0) LAMINA_RETURN_IF_ERROR(in.expect('['));
    LAMINA_RETURN_IF_ERROR(numbers.element(type->dtype, out.element(i)));
    block = 1;
    for (size_t d = type->dims.size(); d-- > 0;)
      if ((i + 1) % (block *= type->dims[d]) == 0) LAMINA_RETURN_IF_ERROR(in.expect(']'));
  }
  return in.at_end() ? absl::OkStatus() : in.expected("the end of dense<>");
}

}  // namespace

absl::StatusOr<LiteralPtr> read_dense(const ModuleTree& module, const AttrTree& attr, const Type* type) {
  auto error = [&](std::string_view message) { return error_at(module.text, attr.at, message); };
  if (attr.kind == AttrTree::Kind::kLiteral) {
    if (attr.literal->type() == type) return attr.literal;
    return error(str_cat("this is no constant of type ", to_string(*type)));
  }
  if (attr.kind == AttrTree::Kind::kResource) {
    const auto it = module.resources.find(std::string(attr.body));
    if (it == module.resources.end()) return error(str_cat("there is no resource ", in_quotes(attr.body)));
    std::string_view digits = it->second;
    // "0x", the alignment in four bytes, the elements.
    if (!digits.starts_with("0x") || digits.size() < 10)
      return error("a resource starts with 0x and an alignment");
    return from_hex(module, attr.at, digits.substr(10), type);
  }
  if (attr.kind == AttrTree::Kind::kList || attr.kind == AttrTree::Kind::kInt ||
      attr.kind == AttrTree::Kind::kBool) {
    absl::StatusOr<Dims> values = read_ints(module, attr);
    if (!values.ok()) return values.status();
    if (static_cast<int64_t>(values->size()) != type->num_elements || is_inexact(type->dtype))
      return error(str_cat("this is no constant of type ", to_string(*type)));
    auto literal = std::make_shared<Literal>(type);
    for (size_t i = 0; i < values->size(); ++i)
      std::memcpy(literal->element(static_cast<int64_t>(i)), &(*values)[i], byte_size(type->dtype));
    return literal;
  }
  if (attr.kind != AttrTree::Kind::kDense) return error("expected dense<...>");
  Numbers numbers(module, attr);
  Cursor& in = numbers.in();
  if (in.at_end()) {
    if (type->num_elements != 0) return error(str_cat("dense<> without numbers for ", to_string(*type)));
    return std::make_shared<Literal>(type);
  }
  if (in.peek() == '"') {
    std::string digits;
    LAMINA_RETURN_IF_ERROR(in.string("hexadecimal digits", &digits));
    if (!digits.starts_with("0x") || digits.size() % 2 != 0)
      return error("dense<\"...\"> needs 0x and pairs of digits");
    return from_hex(module, attr.at, std::string_view(digits).substr(2), type);
  }
  if (in.peek() != '[') {
    auto scalar = std::make_shared<Literal>(scalar_type(type->dtype));
    LAMINA_RETURN_IF_ERROR(numbers.element(type->dtype, scalar->element(0)));
    if (!in.at_end()) return in.expected("the end of dense<>");
    return scalar;
  }
  if (type->num_elements > static_cast<int64_t>(attr.body.size()))
    return error(str_cat("dense<[...]> holds fewer numbers than ", to_string(*type)));
  if (type->num_elements == 0) return std::make_shared<Literal>(type);
  if (type->dims.empty()) return error(str_cat("a list of numbers is no ", to_string(*type)));
  auto literal = std::make_shared<Literal>(type);
  LAMINA_RETURN_IF_ERROR(nested(numbers, type, *literal));
  return literal;
}

absl::StatusOr<Dims> read_ints(const ModuleTree& module, const AttrTree& attr) {
  Dims out;
  switch (attr.kind) {
    case AttrTree::Kind::kInt:
      return Dims{attr.integer};
    case AttrTree::Kind::kBool:
      return Dims{attr.flag};
    case AttrTree::Kind::kList:
      for (const AttrTree& item : attr.items) {
        absl::StatusOr<Dims> part = read_ints(module, item);
        if (!part.ok()) return part.status();
        out.insert(out.end(), part->begin(), part->end());
      }
      return out;
    case AttrTree::Kind::kDense: {
      absl::StatusOr<const Type*> type = static_type(attr.type);
      if (!type.ok()) return error_at(module.text, attr.at, "dense<> needs a type behind it here");
      absl::StatusOr<LiteralPtr> literal = read_dense(module, attr, *type);
      if (!literal.ok()) return literal.status();
      if (is_inexact((*type)->dtype)) return error_at(module.text, attr.at, "expected integers");
      const bool splat = (*literal)->type() != *type;
      if (splat && (*type)->num_elements > 4096)
        return error_at(module.text, attr.at, "the list is too long");
      for (int64_t i = 0; i < (*type)->num_elements; ++i) out.push_back((*literal)->int_at(splat ? 0 : i));
      return out;
    }
    default:
      return error_at(module.text, attr.at, "expected a list of integers");
  }
}

absl::StatusOr<const Type*> static_type(const TypeTree& tree) {
  if (tree.kind == TypeTree::Kind::kToken) return token_type();
  if (!tree.is_array())
    return absl::UnimplementedError(tree.why.empty() ? "a tuple stands where an array is needed" : tree.why);
  for (const int64_t d : tree.dims)
    if (d == kDynamic)
      return absl::UnimplementedError(str_cat("the shape of ", to_string(tree), " is not known"));
  return array_type(tree.dtype, tree.dims);
}

bool matches(const TypeTree& tree, const Type* type) {
  if (!tree.is_array() || !type->is_array()) return false;
  if (tree.dtype != type->dtype || tree.dims.size() != type->dims.size()) return false;
  for (size_t i = 0; i < tree.dims.size(); ++i)
    if (tree.dims[i] != kDynamic && tree.dims[i] != type->dims[i]) return false;
  return true;
}

std::string to_string(const Quantization& q) {
  std::string out =
      str_cat("quantized<", info(q.storage).name, "<", q.min, ":", q.max, ">:", info(q.expressed).name);
  if (q.is_per_axis()) return str_cat(out, ":", q.dimension, ", ", q.scales.size(), " scales>");
  return str_cat(out, ", ", q.scales[0], ":", q.zero_points[0], ">");
}

std::string to_string(const TypeTree& tree) {
  if (tree.kind == TypeTree::Kind::kTuple) {
    std::string out = "(";
    for (size_t i = 0; i < tree.elements.size(); ++i)
      str_append(&out, i == 0 ? "" : ", ", to_string(tree.elements[i]));
    return out + ")";
  }
  if (tree.kind == TypeTree::Kind::kToken) return "token";
  if (!tree.is_array()) return "a type that is not supported";
  const Quantization* q = tree.quantization.get();
  std::string out = str_cat(q ? to_string(*q) : std::string(info(tree.dtype).name), "[");
  for (size_t i = 0; i < tree.dims.size(); ++i)
    str_append(&out, i == 0 ? "" : ",", tree.dims[i] == kDynamic ? std::string("?") : str_cat(tree.dims[i]));
  return out + "]";
}

}  // namespace lamina::hlo::stablehlo
