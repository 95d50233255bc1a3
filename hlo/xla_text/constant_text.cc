#include "hlo/xla_text/constant_text.h"

#include <cmath>

#include "hlo/literal_text.h"
#include "hlo/stablehlo/elements_text.h"
#include "hlo/strings.h"

namespace lamina::hlo::xla_text {
namespace {

// inf, -inf, nan, and nan(0x..) with all bits of the fraction unless the leading one stands alone.
std::string special_text(DType t, const std::byte* p) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, byte_size(t));
  const int width = static_cast<int>(8 * byte_size(t));
  const int fraction = float_format(t).mantissa;
  const uint64_t payload = bits & ((uint64_t{1} << fraction) - 1);
  const std::string sign = (bits >> (width - 1) & 1) != 0 ? "-" : "";
  if (payload == 0) return sign + "inf";
  if (payload == uint64_t{1} << (fraction - 1)) return sign + "nan";
  return str_cat(sign, "nan(0x", absl::StrCat(absl::Hex(payload)), ")");
}

void append_real(std::string* out, DType t, const std::byte* p) {
  if (!is_float(t)) return append_number(out, t, p);
  const std::string text = stablehlo::finite_text(t, p);
  out->append(text.empty() ? special_text(t, p) : text);
}

void append_element(std::string* out, const Literal& l, int64_t i) {
  const DType t = l.dtype(), part = part_type(t);
  if (!is_complex(t)) return append_real(out, t, l.element(i));
  out->push_back('(');
  append_real(out, part, l.element(i));
  out->append(", ");
  append_real(out, part, l.element(i) + byte_size(part));
  out->push_back(')');
}

}  // namespace

std::string type_text(const Type& type) { return type.is_token() ? std::string("token[]") : to_string(type); }

bool needs_parts(const Literal& l) {
  if (!is_complex(l.dtype())) return false;
  const DType part = part_type(l.dtype());
  for (int64_t i = 0; i < 2 * l.size(); ++i)
    if (stablehlo::finite_text(part, l.element(0) + i * byte_size(part)).empty()) return true;
  return false;
}

std::string constant_text(const Literal& l) {
  std::string out;
  const Dims& dims = l.dims();
  for (int64_t i = 0; i < l.size(); ++i) {
    if (i > 0) out += ", ";
    int64_t block = 1;
    for (size_t d = dims.size(); d-- > 0;)
      if (i % (block *= dims[d]) == 0) out += "{";
    append_element(&out, l, i);
    block = 1;
    for (size_t d = dims.size(); d-- > 0;)
      if ((i + 1) % (block *= dims[d]) == 0) out += "}";
  }
  return out;
}

}  // namespace lamina::hlo::xla_text
