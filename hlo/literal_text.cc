#include "hlo/literal_text.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "hlo/half.h"
#include "hlo/narrow.h"

namespace lamina::hlo {
namespace {

template <typename T>
void append_chars(std::string* out, T value, auto... format) {
  char buffer[64];
  const std::to_chars_result r = std::to_chars(buffer, buffer + sizeof buffer, value, format...);
  out->append(buffer, r.ptr);
}

template <typename T>
T load(const void* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

uint64_t magnitude_mask(DType t) { return (uint64_t{1} << (bit_width(t) - 1)) - 1; }

// The pattern of infinity where the largest exponent holds it.
uint64_t infinity_bits(DType t) {
  const int mantissa = float_format(t).mantissa;
  return magnitude_mask(t) >> mantissa << mantissa;
}

// The bits of a NaN that is written without them: quiet, positive, no payload.
uint64_t default_nan(DType t) {
  switch (float_format(t).specials) {
    case FloatSpecials::kIeee:
      return infinity_bits(t) | uint64_t{1} << (float_format(t).mantissa - 1);
    case FloatSpecials::kNanMinusZero:
      return magnitude_mask(t) + 1;
    case FloatSpecials::kScale:
      return 2 * magnitude_mask(t) + 1;
    default:
      return magnitude_mask(t);
  }
}

uint64_t load_bits(DType t, const void* p) {
  switch (byte_size(t)) {
    case 1:
      return load<uint8_t>(p);
    case 2:
      return load<uint16_t>(p);
    case 4:
      return load<uint32_t>(p);
    default:
      return load<uint64_t>(p);
  }
}

void store_bits(DType t, uint64_t bits, void* p) {
  const auto b16 = static_cast<uint16_t>(bits);
  const auto b32 = static_cast<uint32_t>(bits);
  switch (byte_size(t)) {
    case 1:
      *static_cast<uint8_t*>(p) = static_cast<uint8_t>(bits);
      break;
    case 2:
      std::memcpy(p, &b16, 2);
      break;
    case 4:
      std::memcpy(p, &b32, 4);
      break;
    default:
      std::memcpy(p, &bits, 8);
      break;
  }
}

bool is_nan_bits(DType t, uint64_t bits) {
  switch (float_format(t).specials) {
    case FloatSpecials::kIeee:
      return (bits & magnitude_mask(t)) > infinity_bits(t);
    case FloatSpecials::kNan:
      return (bits & magnitude_mask(t)) == magnitude_mask(t);
    case FloatSpecials::kNone:
      return false;
    default:
      return bits == default_nan(t);
  }
}

template <typename T>
void append_float(std::string* out, T value) {
  if (std::isinf(value)) {
    out->append(value < 0 ? "-inf" : "inf");
  } else {
    append_chars(out, value);
  }
}

template <typename T>
bool parse_integer(std::string_view text, DType t, void* p) {
  T value{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return false;
  std::memcpy(p, &value, sizeof value);
  make_canonical(t, p, 1);
  return std::memcmp(p, &value, sizeof value) == 0;  // within the type's range
}

template <typename T>
bool parse_float(std::string_view text, T* value) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  auto format = std::chars_format::general;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    format = std::chars_format::hex;
  }
  if (text.empty() || text[0] == '-') return false;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), *value, format);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size() || std::isnan(*value)) return false;
  if (negative) *value = -*value;
  return true;
}

uint64_t float_bits(DType t, float x) {
  if (is_narrow(t)) return to_narrow(t, x);
  return t == DType::kF16 ? to_f16(x).bits : t == DType::kBF16 ? to_bf16(x).bits : std::bit_cast<uint32_t>(x);
}

// Whether `x` has a place in a narrow float type: what has none is no number of it, what lies between two is.
bool represents(DType t, float x) {
  switch (float_format(t).specials) {
    case FloatSpecials::kIeee:
      return true;
    case FloatSpecials::kScale:
      return x > 0 && !std::isinf(x);
    default:
      return !std::isinf(x);
  }
}

// One element, complex or not.
void append_element(std::string* out, DType t, const std::byte* p) {
  if (!is_complex(t)) return append_number(out, t, p);
  const DType part = part_type(t);
  out->push_back('(');
  append_number(out, part, p);
  out->append(", ");
  append_number(out, part, p + byte_size(part));
  out->push_back(')');
}

}  // namespace

void append_number(std::string* out, DType t, const void* p) {
  if (is_float(t)) {
    if (const uint64_t bits = load_bits(t, p); is_nan_bits(t, bits)) {
      out->append("nan");
      if (bits == default_nan(t)) return;
      out->append(":0x");
      append_chars(out, bits, 16);
      return;
    }
    if (t == DType::kF64) return append_float(out, load<double>(p));
    return append_float(out, element_to_f32(t, p));
  }
  switch (storage_type(t)) {
    case DType::kBool:
      out->append(load<uint8_t>(p) ? "true" : "false");
      break;
    case DType::kS8:
      append_chars(out, static_cast<int>(load<int8_t>(p)));
      break;
    case DType::kS16:
      append_chars(out, load<int16_t>(p));
      break;
    case DType::kS32:
      append_chars(out, load<int32_t>(p));
      break;
    case DType::kS64:
      append_chars(out, load<int64_t>(p));
      break;
    case DType::kU8:
      append_chars(out, static_cast<int>(load<uint8_t>(p)));
      break;
    case DType::kU16:
      append_chars(out, load<uint16_t>(p));
      break;
    case DType::kU32:
      append_chars(out, load<uint32_t>(p));
      break;
    case DType::kU64:
      append_chars(out, load<uint64_t>(p));
      break;
    default:
      break;  // floats; complex elements are two numbers: see append_element
  }
}

bool parse_number(std::string_view text, DType t, void* p) {
  if (is_float(t) && text.starts_with("nan")) {
    if (float_format(t).specials == FloatSpecials::kNone) return false;
    uint64_t bits = default_nan(t);
    text.remove_prefix(3);
    if (!text.empty()) {
      if (!text.starts_with(":0x")) return false;
      text.remove_prefix(3);
      const auto r = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
      if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return false;
      if (bit_width(t) < 64 && bits >> bit_width(t) != 0) return false;
      if (!is_nan_bits(t, bits)) return false;
    }
    store_bits(t, bits, p);
    return true;
  }
  if (t == DType::kF64) {
    double x;
    if (!parse_float(text, &x)) return false;
    std::memcpy(p, &x, sizeof x);
    return true;
  }
  if (is_float(t)) {
    float x;
    if (!parse_float(text, &x)) return false;
    if (is_narrow(t) && !represents(t, x)) return false;
    store_bits(t, float_bits(t, x), p);
    return true;
  }
  switch (storage_type(t)) {
    case DType::kBool: {
      const uint8_t value = text == "true";
      std::memcpy(p, &value, 1);
      return text == "true" || text == "false";
    }
    case DType::kS8:
      return parse_integer<int8_t>(text, t, p);
    case DType::kS16:
      return parse_integer<int16_t>(text, t, p);
    case DType::kS32:
      return parse_integer<int32_t>(text, t, p);
    case DType::kS64:
      return parse_integer<int64_t>(text, t, p);
    case DType::kU8:
      return parse_integer<uint8_t>(text, t, p);
    case DType::kU16:
      return parse_integer<uint16_t>(text, t, p);
    case DType::kU32:
      return parse_integer<uint32_t>(text, t, p);
    case DType::kU64:
      return parse_integer<uint64_t>(text, t, p);
    default:
      return false;
  }
}

void append_literal(std::string* out, const Literal& literal, int64_t limit) {
  const Dims& dims = literal.dims();
  if (dims.empty()) return append_element(out, literal.dtype(), literal.element(0));
  if (literal.is_splat()) {
    out->append("splat(");
    append_element(out, literal.dtype(), literal.element(0));
    out->push_back(')');
    return;
  }
  if (literal.size() > limit) {
    out->append("{...}");
    return;
  }
  if (literal.size() == 0) {
    out->append("{}");
    return;
  }
  // Braces open before, and close after, each element that starts or ends a row, a matrix, ...
  for (int64_t i = 0; i < literal.size(); ++i) {
    if (i > 0) out->append(", ");
    int64_t block = 1;
    for (size_t d = dims.size(); d-- > 0;)
      if (i % (block *= dims[d]) == 0) out->push_back('{');
    append_element(out, literal.dtype(), literal.element(i));
    block = 1;
    for (size_t d = dims.size(); d-- > 0;)
      if ((i + 1) % (block *= dims[d]) == 0) out->push_back('}');
  }
}

}  // namespace lamina::hlo
