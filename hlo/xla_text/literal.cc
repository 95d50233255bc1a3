// Constants of XLA's text: numbers in brackets, one level for each dimension.
#include <charconv>

#include "hlo/literal_text.h"
#include "hlo/xla_text/instruction.h"

namespace lamina::hlo::xla_text {

using stablehlo::in_quotes;

namespace {

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '+';
}

// nan, -nan, nan(0x1): quiet without a payload; a payload stands for all bits of the fraction.
bool read_nan(std::string_view token, std::string_view payload, DType t, std::byte* out) {
  const bool negative = token.starts_with('-');
  if (negative) token.remove_prefix(1);
  if (token != "nan" || !is_float(t)) return false;
  if (float_format(t).specials != FloatSpecials::kIeee) {  // one NaN, or one of either sign: no payload
    if (!payload.empty() || !parse_number(token, t, out)) return false;
    if (negative && float_format(t).specials == FloatSpecials::kNan)
      *out |= std::byte{1} << (bit_width(t) - 1);
    return true;
  }
  const int width = static_cast<int>(8 * byte_size(t));
  const int fraction = float_format(t).mantissa;
  const uint64_t fraction_mask = (uint64_t{1} << fraction) - 1;
  uint64_t bits = uint64_t{1} << (fraction - 1);
  if (!payload.empty()) {
    if (!payload.starts_with("0x")) return false;
    const char* end = payload.data() + payload.size();
    const auto r = std::from_chars(payload.data() + 2, end, bits, 16);
    if (r.ec != std::errc() || r.ptr != end || bits == 0 || (bits & ~fraction_mask) != 0) return false;
  }
  bits |= ((uint64_t{1} << (width - 1 - fraction)) - 1) << fraction;
  if (negative) bits |= uint64_t{1} << (width - 1);
  std::memcpy(out, &bits, byte_size(t));
  return true;
}

absl::Status real(Cursor& in, Place stop, DType t, std::byte* out) {
  const Place at = in.position();
  const std::string_view text = in.text();
  Place end = at;
  while (end < stop && is_number_char(text[end])) ++end;
  std::string_view token = text.substr(at, end - at), payload;
  if (token.empty()) return in.expected(str_cat("a number of type ", info(t).name));
  if (token.ends_with("nan") && end < stop && text[end] == '(') {
    const size_t close = text.find(')', end);
    if (close == std::string_view::npos || close >= stop) return in.error("the payload of nan( does not end");
    payload = text.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  if (is_bool(t) && (token == "1" || token == "0")) token = token == "1" ? "true" : "false";
  const bool read = token.ends_with("nan") ? read_nan(token, payload, t, out) : parse_number(token, t, out);
  if (!read) return in.error(str_cat(in_quotes(token.substr(0, 60)), " is no number of type ", info(t).name));
  in.move_to(end);
  return absl::OkStatus();
}

absl::Status element(Cursor& in, Place stop, DType t, std::byte* out) {
  if (!is_complex(t)) return real(in, stop, t, out);
  const DType part = part_type(t);
  LAMINA_RETURN_IF_ERROR(in.expect('('));
  LAMINA_RETURN_IF_ERROR(real(in, stop, part, out));
  LAMINA_RETURN_IF_ERROR(in.expect(','));
  LAMINA_RETURN_IF_ERROR(real(in, stop, part, out + byte_size(part)));
  return in.expect(')');
}

}  // namespace

absl::StatusOr<LiteralPtr> read_literal(std::string_view text, Place begin, Place end, const Type* type) {
  Cursor in(text, begin, end);
  if (type->num_elements == 0) {
    // Brackets without numbers.
    while (!in.at_end())
      if (!in.accept('{') && !in.accept('}') && !in.accept(','))
        return in.error(str_cat(to_string(*type), " has no elements"));
    return std::make_shared<Literal>(type);
  }
  if (in.at_end()) return in.error(str_cat("expected a constant of type ", to_string(*type)));
  if (const size_t dots = text.substr(begin, end - begin).find("..."); dots != std::string_view::npos)
    return in.error(begin + dots,
                    "the elements were left out when this was printed; print large constants too");
  if (type->num_elements > 1 && type->num_elements > static_cast<int64_t>(end - begin))
    return in.error(str_cat("the constant has fewer elements than ", to_string(*type)));
  auto literal = std::make_shared<Literal>(type);
  for (int64_t i = 0; i < type->num_elements; ++i) {
    if (i > 0) LAMINA_RETURN_IF_ERROR(in.expect(','));
    int64_t block = 1;
    for (size_t d = type->dims.size(); d-- > 0;)
      if (i % (block *= type->dims[d]) == 0) LAMINA_RETURN_IF_ERROR(in.expect('{'));
    LAMINA_RETURN_IF_ERROR(element(in, end, type->dtype, literal->element(i)));
    block = 1;
    for (size_t d = type->dims.size(); d-- > 0;)
      if ((i + 1) % (block *= type->dims[d]) == 0) LAMINA_RETURN_IF_ERROR(in.expect('}'));
  }
  if (!in.at_end()) return in.expected("the end of the constant");
  return literal;
}

}  // namespace lamina::hlo::xla_text
