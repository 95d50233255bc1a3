// Rows of the check dialect, and what its claims mean.
#include <bit>
#include <cmath>
#include <cstdlib>

#include "hlo/literal_text.h"
#include "hlo/narrow.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

Check::Kind kind_of(std::string_view name) {
  if (name.starts_with("expect_almost_eq")) return Check::Kind::kAlmostEqual;
  if (name.starts_with("expect_close")) return Check::Kind::kClose;
  return Check::Kind::kEqual;
}

// check.expect_eq %x, %y, or a custom call of that name.
void expect(OpReader& r) {
  std::string_view name = r.name();
  std::string target;
  if (name == "custom_call") {
    target = r.word({"call_target_name"});
    if (target.empty()) target = r.positional_word(0);
    name = std::string_view(target).substr(std::string_view("check.").size());
  }
  const Value x = r.in(0);
  if (!x) return;
  Value expected;
  if (name.ends_with("_const")) {
    const AttrTree* value = r.find({"value"});
    if (!value) value = r.positional(0);
    if (!value) return r.fail("has no expected value");
    expected = r.dense(*value, x.type());
  } else {
    expected = r.in(1);
  }
  r.check(kind_of(name), x, expected);
}

constexpr NamedRow kCheckRows[] = {
    {"check.expect_eq", expect},        {"check.expect_eq_const", expect},
    {"check.expect_almost_eq", expect}, {"check.expect_almost_eq_const", expect},
    {"check.expect_close", expect},
};

// Places of floats on a line, neighbours one apart.
template <typename Bits>
int64_t ordinal(Bits bits) {
  constexpr int kWidth = 8 * sizeof(Bits);
  const auto magnitude = static_cast<int64_t>(bits & ~(Bits{1} << (kWidth - 1)));
  return bits >> (kWidth - 1) ? -magnitude : magnitude;
}

int64_t ordinal_at(const std::byte* p, DType t) {
  uint64_t bits = 0;
  std::memcpy(&bits, p, byte_size(t));
  if (byte_size(t) == 8) return ordinal(bits);
  if (byte_size(t) == 1) return ordinal(static_cast<uint8_t>(bits));
  return byte_size(t) == 4 ? ordinal(static_cast<uint32_t>(bits)) : ordinal(static_cast<uint16_t>(bits));
}

double real_at(const std::byte* p, DType t) {
  if (t != DType::kF64) return element_to_f32(t, p);
  double x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

bool holds(const Check& c, const std::byte* x, const std::byte* y, DType t) {
  if (std::memcmp(x, y, byte_size(t)) == 0) return true;
  if (!is_float(t)) return false;
  const double a = real_at(x, t), b = real_at(y, t);
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  switch (c.kind) {
    case Check::Kind::kEqual:
      return a == b;
    case Check::Kind::kAlmostEqual:
      return std::isinf(a) || std::isinf(b) ? a == b : std::abs(a - b) <= c.tolerance;
    case Check::Kind::kClose: {
      if (std::isinf(a) != std::isinf(b)) return false;
      const int64_t at = ordinal_at(x, t), wanted = ordinal_at(y, t);
      const uint64_t distance = at > wanted ? static_cast<uint64_t>(at) - static_cast<uint64_t>(wanted)
                                            : static_cast<uint64_t>(wanted) - static_cast<uint64_t>(at);
      return distance >= static_cast<uint64_t>(c.min_ulps) && distance <= static_cast<uint64_t>(c.max_ulps);
    }
  }
  return false;
}

}  // namespace

std::span<const NamedRow> check_rows() { return kCheckRows; }

absl::Status judge(const Check& check, const Literal& value, const Literal& expected) {
  const DType part = part_type(value.dtype());
  const int64_t width = byte_size(part), parts = num_parts(value.dtype());
  for (int64_t i = 0; i < value.size(); ++i)
    for (int64_t p = 0; p < parts; ++p) {
      const std::byte *x = value.element(i) + p * width, *y = expected.element(i) + p * width;
      if (holds(check, x, y, part)) continue;
      Dims index(value.dims().size());
      int64_t rest = i;
      for (size_t d = index.size(); d-- > 0; rest /= value.dims()[d]) index[d] = rest % value.dims()[d];
      std::string message = str_cat(check.where, ": element ", dims_to_string(index), " is ");
      append_number(&message, part, x);
      message += ", expected ";
      append_number(&message, part, y);
      return absl::FailedPreconditionError(message);
    }
  return absl::OkStatus();
}

}  // namespace lamina::hlo::stablehlo
