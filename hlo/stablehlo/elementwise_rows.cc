// Rows of elementwise operations that need more than their name: attributes, or operands spread first.
#include <algorithm>

#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// A scalar beside arrays is spread over their shape.
Value spread_like(OpReader& r, const Value& x, const Value& like) {
  if (!x || !like || x.rank() != 0 || like.rank() == 0) return x;
  return r.b.broadcast_scalar(x, like.dims());
}

// Complex numbers by their real parts, then by their imaginary ones.
Value lexicographic(Builder& b, const Value& x, const Value& y, std::string_view direction) {
  const std::string_view strict = direction.substr(0, 1) == "L" ? "LT" : "GT";
  const Value rx = b.real(x), ry = b.real(y);
  const Value tied = b.and_(b.compare(rx, ry, "EQ"), b.compare(b.imag(x), b.imag(y), direction));
  return b.or_(b.compare(rx, ry, strict), tied);
}

bool has_order_of_parts(const Value& x, std::string_view direction) {
  return x && is_complex(x.dtype()) && direction.size() == 2 &&
         (direction[0] == 'L' || direction[0] == 'G') && (direction[1] == 'T' || direction[1] == 'E');
}

void compare(OpReader& r) {
  std::string direction = r.word({"comparison_direction"}), type = r.word({"compare_type"});
  if (direction.empty()) {
    direction = r.positional_word(0);
    type = r.positional_word(1);
  }
  const Value x = r.in(0), y = r.in(1);
  if (has_order_of_parts(x, direction)) return r.yield(lexicographic(r.b, x, y, direction));
  std::vector<Attrs::Entry> attrs{{Attr::direction, direction}};
  if (type == "TOTALORDER") attrs.emplace_back(Attr::compare_type, type);
  r.yield(r.b.make(Op::compare, {{x, y}}, intern_attrs(std::move(attrs))));
}

// The principal root of complex numbers.
void cbrt(OpReader& r) {
  const Value x = r.in(0);
  Builder& b = r.b;
  if (!x || !is_complex(x.dtype())) return r.yield(b.make(Op::cbrt, {{x}}));
  const Value third = b.divide(b.log(x), b.full_like(x, 3)), zero = b.zeros_like(x);
  r.yield(b.select(b.compare(x, zero, "EQ"), x, b.exponential(third)));
}

void select(OpReader& r) {
  const Value x = r.in(1), y = r.in(2);
  r.yield(r.b.select(spread_like(r, r.in(0), x), x, y));
}

void clamp(OpReader& r) {
  const Value x = r.in(1);
  const Value low = spread_like(r, r.in(0), x), high = spread_like(r, r.in(2), x);
  if (x && is_complex(x.dtype())) return r.yield(r.b.minimum(r.b.maximum(x, low), high));
  r.yield(r.b.make(Op::clamp, {{low, x, high}}));
}

void convert(OpReader& r) {
  const TypeTree* t = r.declared_tree(0);
  if (!t || !t->is_array())
    return r.fail(t && !t->why.empty() ? t->why : "needs an array type for its result");
  r.yield(r.b.convert(r.in(0), t->dtype));
}

// Between element types of different widths the last dimension takes the difference.
void bitcast_convert(OpReader& r) {
  const TypeTree* t = r.declared_tree(0);
  const Value x = r.in(0);
  if (!t || !t->is_array()) return r.fail("needs an array type for its result");
  if (!x) return;
  const DType from = x.dtype(), to = t->dtype;
  if (from == to || (bit_width(from) == bit_width(to) && !is_complex(from) && !is_complex(to)))
    return r.yield(r.b.bitcast_convert(x, to));
  if (is_complex(from) || is_complex(to) || is_bool(from) || is_bool(to))
    return r.fail("complex and boolean elements have no bits to see as others");
  if (bit_width(from) == 6 || bit_width(to) == 6)
    return r.fail("elements of six bits have no bits to see as others");
  const DType narrow = bit_width(from) < bit_width(to) ? bits_type(from) : bits_type(to);
  const DType wide = bit_width(from) < bit_width(to) ? bits_type(to) : bits_type(from);
  const int64_t ratio = bit_width(wide) / bit_width(narrow), bits = bit_width(narrow);
  Builder& b = r.b;
  if (bit_width(from) > bit_width(to)) {
    Dims dims = x.dims(), order(x.rank());
    for (int64_t d = 0; d < x.rank(); ++d) order[d] = d;
    dims.push_back(ratio);
    const Value spread = b.broadcast_in_dim(b.bitcast_convert(x, wide), dims, order);
    const Value place = b.iota(wide, dims, x.rank());
    const Value shift = b.multiply(place, b.full_like(place, static_cast<double>(bits)));
    return r.yield(b.bitcast_convert(b.convert(b.shift_right_logical(spread, shift), narrow), to));
  }
  if (x.rank() == 0 || x.dims().back() != ratio)
    return r.fail(str_cat("the last dimension of ", hlo::to_string(*x.type()), " must be ", ratio));
  const Value wider = b.convert(b.bitcast_convert(x, narrow), wide);
  const Value place = b.iota(wide, x.dims(), x.rank() - 1);
  const Value shift = b.multiply(place, b.full_like(place, static_cast<double>(bits)));
  const Value placed = b.shift_left(wider, shift);
  const int64_t last[] = {x.rank() - 1};
  r.yield(b.bitcast_convert(b.reduce(placed, Op::or_, b.scalar_int(wide, 0), last), to));
}

void reduce_precision(OpReader& r) {
  int64_t exponent = r.integer({"exponent_bits"}, -1), mantissa = r.integer({"mantissa_bits"}, -1);
  if (const std::string format = r.word({"format"}); !format.empty()) {
    const size_t m = format.find('m');
    if (format[0] != 'e' || m == std::string::npos)
      return r.fail(str_cat("the format ", in_quotes(format), " is none"));
    exponent = std::atoi(format.c_str() + 1);
    mantissa = std::atoi(format.c_str() + m + 1);
  }
  r.yield(r.b.make(Op::reduce_precision, {{r.in(0)}},
                   intern_attrs({{Attr::exponent_bits, exponent}, {Attr::mantissa_bits, mantissa}})));
}

void is_inf(OpReader& r) {
  Value x = r.in(0);
  if (!x) return;
  if (is_narrow(x.dtype())) x = r.b.convert(x, DType::kF32);  // infinity may be none of its values
  const double inf = std::numeric_limits<double>::infinity();
  if (r.name() == "is_pos_inf") return r.yield(r.b.compare(x, r.b.full_like(x, inf), "EQ"));
  if (r.name() == "is_neg_inf") return r.yield(r.b.compare(x, r.b.full_like(x, -inf), "EQ"));
  r.yield(r.b.compare(r.b.abs(x), r.b.full_like(x, inf), "EQ"));
}

void conj(OpReader& r) {
  const Value x = r.in(0);
  if (!x || !is_complex(x.dtype())) return r.yield(x);
  r.yield(r.b.complex(r.b.real(x), r.b.negate(r.b.imag(x))));
}

void square(OpReader& r) {
  const Value x = r.in(0);
  r.yield(r.b.multiply(x, x));
}

void constant_like(OpReader& r) {
  const Value x = r.in(0);
  if (x) r.yield(r.b.full_like(x, r.real({"value"}, 0)));
}

// The upper half of a product.
void mulhi(OpReader& r) {
  const Value x = r.in(0), y = r.in(1);
  if (!x || !y) return;
  const DType t = x.dtype();
  if (!is_integer(t) || byte_size(t) == 8)
    return r.fail(str_cat("is supported for integers of up to 32 bits, not ", info(t).name));
  const DType wide = is_signed(t) ? DType::kS64 : DType::kU64;
  const Value product = r.b.multiply(r.b.convert(x, wide), r.b.convert(y, wide));
  if (!product) return;
  const Value bits = r.b.broadcast_scalar(r.b.scalar_int(wide, 8 * byte_size(t)), product.dims());
  r.yield(r.b.convert(is_signed(t) ? r.b.make(Op::shift_right_arithmetic, {{product, bits}})
                                   : r.b.shift_right_logical(product, bits),
                      t));
}

constexpr NamedRow kElementwiseRows[] = {
    {"stablehlo.compare", compare},
    {"stablehlo.cbrt", cbrt},
    {"stablehlo.select", select},
    {"stablehlo.clamp", clamp},
    {"stablehlo.convert", convert},
    {"stablehlo.bitcast_convert", bitcast_convert},
    {"stablehlo.reduce_precision", reduce_precision},
    {"chlo.is_inf", is_inf},
    {"chlo.is_pos_inf", is_inf},
    {"chlo.is_neg_inf", is_inf},
    {"chlo.conj", conj},
    {"chlo.square", square},
    {"chlo.mulhi", mulhi},
    {"chlo.constant_like", constant_like},
};

}  // namespace

std::span<const NamedRow> elementwise_rows() { return kElementwiseRows; }

}  // namespace lamina::hlo::stablehlo
