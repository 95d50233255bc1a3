#include "hlo/stablehlo/elements_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_join.h"
#include "hlo/narrow.h"
#include "hlo/strings.h"

namespace lamina::hlo::stablehlo {
namespace {

void append_hex(std::string* out, const std::byte* p, int64_t n, bool reversed) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (int64_t i = 0; i < n; ++i) {
    const auto byte = static_cast<unsigned char>(p[reversed ? n - 1 - i : i]);
    out->push_back(kDigits[byte >> 4]);
    out->push_back(kDigits[byte & 15]);
  }
}

// A finite number with a point, so that it is read as a float, and to the same bits by way of a double: in
// six digits where these tell it, as MLIR writes it.
template <typename T>
std::string float_text(T value) {
  char buffer[64];
  const auto six = std::to_chars(buffer, buffer + sizeof buffer, static_cast<double>(value),
                                 std::chars_format::scientific, 5);
  double told = 0;
  std::from_chars(buffer, six.ptr, told);
  if (static_cast<T>(told) == value) {
    std::string text(buffer, six.ptr);
    text.insert(text.find('e'), "0");
    return text;
  }
  auto write = [&](auto x) {
    const auto r = std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific);
    std::string text(buffer, r.ptr);
    if (text.find('.') == std::string::npos) text.insert(text.find('e'), ".0");
    return text;
  };
  std::string text = write(value);
  double back = 0;
  std::from_chars(text.data(), text.data() + text.size(), back);
  return static_cast<T>(back) == value ? text : write(static_cast<double>(value));
}

void append_real(std::string* out, DType t, const std::byte* p) {
  if (const std::string text = finite_text(t, p); !text.empty()) {
    out->append(text);
    return;
  }
  out->append("0x");
  append_hex(out, p, byte_size(t), true);
}

void append_element(std::string* out, const Literal& l, int64_t i) {
  const DType t = l.dtype();
  if (is_complex(t)) {
    const DType part = part_type(t);
    out->push_back('(');
    append_real(out, part, l.element(i));
    out->append(", ");
    append_real(out, part, l.element(i) + byte_size(part));
    out->push_back(')');
  } else if (is_float(t)) {
    append_real(out, t, l.element(i));
  } else if (is_bool(t)) {
    out->append(l.int_at(i) != 0 ? "true" : "false");
  } else if (is_unsigned(t)) {
    str_append(out, static_cast<uint64_t>(l.int_at(i)));
  } else {
    str_append(out, l.int_at(i));
  }
}

}  // namespace

std::string finite_text(DType t, const std::byte* p) {
  if (t == DType::kF64) {
    double value = 0;
    std::memcpy(&value, p, 8);
    return std::isfinite(value) ? float_text(value) : "";
  }
  const float single = element_to_f32(t, p);
  // A scale above which XLA rounds up takes all digits.
  if (float_format(t).specials == FloatSpecials::kScale && std::isfinite(single))
    return float_text(static_cast<double>(single));
  return std::isfinite(single) ? float_text(single) : "";
}

std::string type_text(const Type& type) {
  if (type.is_token()) return "!stablehlo.token";
  std::string out = "tensor<";
  for (const int64_t d : type.dims) str_append(&out, d, "x");
  return str_cat(out, info(type.dtype).mlir_name, ">");
}

std::string dense_text(const Literal& l) {
  constexpr int64_t kLong = 64;
  std::string out = "dense<";
  if (l.size() == 0) return "dense<>";
  if (l.size() > kLong && l.is_splat()) {
    append_element(&out, l, 0);
    return out + ">";
  }
  if (l.size() > kLong && !is_bool(l.dtype())) {
    out += "\"0x";
    append_hex(&out, l.element(0), l.bytes(), false);
    return out + "\">";
  }
  const Dims& dims = l.dims();
  for (int64_t i = 0; i < l.size(); ++i) {
    if (i > 0) out += ", ";
    int64_t block = 1;
    for (size_t d = dims.size(); d-- > 0;)
      if (i % (block *= dims[d]) == 0) out += "[";
    append_element(&out, l, i);
    block = 1;
    for (size_t d = dims.size(); d-- > 0;)
      if ((i + 1) % (block *= dims[d]) == 0) out += "]";
  }
  return out + ">";
}

std::string ints_text(std::span<const int64_t> values) {
  if (values.empty()) return "array<i64>";
  return str_cat("array<i64: ", absl::StrJoin(values, ", "), ">");
}

std::string string_text(std::string_view name) {
  std::string out = "\"";
  for (const char c : name)
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    }
  return out + "\"";
}

}  // namespace lamina::hlo::stablehlo
