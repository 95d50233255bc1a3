#include "hlo/literal_text.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "hlo/half.h"

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

// The bits of a NaN that is written without them: quiet, positive, no payload.
uint64_t default_nan(DType t) {
  switch (t) {
    case DType::kF16:
      return 0x7E00;
    case DType::kBF16:
      return 0x7FC0;
    case DType::kF32:
      return 0x7FC00000;
    default:
      return 0x7FF8000000000000;
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

// Exponent bits all ones, and whether anything is below them.
bool is_nan_bits(DType t, uint64_t bits) {
  const int mantissa = t == DType::kF16 ? 10 : t == DType::kBF16 ? 7 : t == DType::kF32 ? 23 : 52;
  const uint64_t magnitude = bits & ((uint64_t{1} << (bit_width(t) - 1)) - 1);
  const uint64_t infinity = ((uint64_t{1} << (bit_width(t) - 1)) - 1) >> mantissa << mantissa;
  return magnitude > infinity;
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
bool parse_integer(std::string_view text, void* p) {
  T value{};
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) return false;
  std::memcpy(p, &value, sizeof value);
  return true;
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
  }
  switch (t) {
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
    case DType::kF16:
      append_float(out, to_f32(load<F16>(p)));
      break;
    case DType::kBF16:
      append_float(out, to_f32(load<BF16>(p)));
      break;
    case DType::kF32:
      append_float(out, load<float>(p));
      break;
    case DType::kF64:
      append_float(out, load<double>(p));
      break;
    case DType::kC64:
    case DType::kC128:
      break;  // two numbers: see append_element
  }
}

bool parse_number(std::string_view text, DType t, void* p) {
  if (is_float(t) && text.starts_with("nan")) {
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
  switch (t) {
    case DType::kBool: {
      const uint8_t value = text == "true";
      std::memcpy(p, &value, 1);
      return text == "true" || text == "false";
    }
    case DType::kS8:
      return parse_integer<int8_t>(text, p);
    case DType::kS16:
      return parse_integer<int16_t>(text, p);
    case DType::kS32:
      return parse_integer<int32_t>(text, p);
    case DType::kS64:
      return parse_integer<int64_t>(text, p);
    case DType::kU8:
      return parse_integer<uint8_t>(text, p);
    case DType::kU16:
      return parse_integer<uint16_t>(text, p);
    case DType::kU32:
      return parse_integer<uint32_t>(text, p);
    case DType::kU64:
      return parse_integer<uint64_t>(text, p);
    case DType::kF16:
    case DType::kBF16: {
      float f;
      if (!parse_float(text, &f)) return false;
      store_bits(t, t == DType::kF16 ? to_f16(f).bits : to_bf16(f).bits, p);
      return true;
    }
    case DType::kF32: {
      float f;
      if (!parse_float(text, &f)) return false;
      std::memcpy(p, &f, sizeof f);
      return true;
    }
    case DType::kF64: {
      double f;
      if (!parse_float(text, &f)) return false;
      std::memcpy(p, &f, sizeof f);
      return true;
    }
    case DType::kC64:
    case DType::kC128:
      return false;
  }
  return false;
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
