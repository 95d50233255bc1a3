#include "hlo/xla_text/lower.h"

#include "hlo/builder.h"
#include "hlo/op.h"
#include "hlo/scalar/tables.h"
#include "hlo/strings.h"

namespace lamina::hlo::xla_text {
namespace {

std::vector<const Type*> operand_types(const Node& n) {
  std::vector<const Type*> out;
  for (size_t i = 0; i < n.operands().size(); ++i) out.push_back(n.operand_type(i));
  return out;
}

Values start_at(Builder& b, const Value& row, int64_t rank) {
  Values out(rank, b.scalar_int(DType::kS32, 0));
  out[0] = row;
  return out;
}

// Primitives on arrays of one shape.
class Expansion {
 public:
  Expansion(Builder& b, Dims dims) : b_(b), dims_(std::move(dims)) {}

  Value prim(const ScalarInstr& i, const Value& x, const Value& y, const Value& z) {
    switch (i.prim) {
      case Prim::constant: {
        const Type* scalar = scalar_type(i.type);
        std::byte bytes[8];
        std::memcpy(bytes, &i.imm, 8);
        return b_.broadcast_scalar(b_.constant(Literal::copy_of(scalar, bytes)), dims_);
      }
      case Prim::add:
        return b_.add(x, y);
      case Prim::sub:
        return b_.subtract(x, y);
      case Prim::mul:
        return b_.multiply(x, y);
      case Prim::div:
        return b_.divide(x, y);
      case Prim::rem:
        return b_.remainder(x, y);
      case Prim::fma:
        return fma(x, y, z);
      case Prim::maximum:
        return b_.maximum(x, y);
      case Prim::minimum:
        return b_.minimum(x, y);
      case Prim::neg:
        return b_.negate(x);
      case Prim::abs:
        return b_.abs(x);
      case Prim::sqrt:
        return b_.sqrt(x);
      case Prim::floor:
        return b_.floor(x);
      case Prim::ceil:
        return b_.make(Op::ceil, {{x}});
      case Prim::trunc:
        return b_.select(b_.compare(x, b_.zeros_like(x), "LT"), b_.make(Op::ceil, {{x}}), b_.floor(x));
      case Prim::round_even:
        return b_.make(Op::round_nearest_even, {{x}});
      case Prim::bit_and:
        return b_.and_(x, y);
      case Prim::bit_or:
        return b_.or_(x, y);
      case Prim::bit_xor:
        return b_.xor_(x, y);
      case Prim::bit_not:
        return b_.not_(x);
      case Prim::shl:
        return b_.shift_left(x, y);
      case Prim::shr_logical:
        return b_.shift_right_logical(x, y);
      case Prim::shr_arithmetic:
        return b_.make(Op::shift_right_arithmetic, {{x, y}});
      case Prim::popcount:
        return b_.make(Op::popcnt, {{x}});
      case Prim::count_leading_zeros:
        return b_.make(Op::count_leading_zeros, {{x}});
      case Prim::mul_high:
        return mul_high(x, y);
      case Prim::scale:
        return scale(x, y);
      case Prim::lookup:
        return lookup(x, i);
      case Prim::eq:
        return b_.compare(x, y, "EQ");
      case Prim::ne:
        return b_.compare(x, y, "NE");
      case Prim::lt:
        return b_.compare(x, y, "LT");
      case Prim::le:
        return b_.compare(x, y, "LE");
      case Prim::select:
      case Prim::select_rare:
        return b_.select(x, y, z);
      case Prim::bitcast:
        return b_.bitcast_convert(x, i.type);
      case Prim::convert:
        return b_.convert(x, i.type);
    }
    return Value();
  }

 private:
  // XLA has none. In f64 the product of two f32 is exact.
  Value fma(const Value& x, const Value& y, const Value& z) {
    if (!x || x.dtype() == DType::kF64) return b_.add(b_.multiply(x, y), z);
    auto wide = [&](const Value& v) { return b_.convert(v, DType::kF64); };
    return b_.convert(b_.add(b_.multiply(wide(x), wide(y)), wide(z)), x.dtype());
  }

  Value bits(const Value& like, uint64_t value) {
    return b_.broadcast_scalar(b_.scalar_int(like.dtype(), static_cast<int64_t>(value)), dims_);
  }

  // The bits of y hold the sum of two biased exponents, above those of quarters or, in f64, eighths.
  Value scale(const Value& x, const Value& y) {
    if (!x || !y) return Value();
    const bool wide = x.dtype() == DType::kF64;
    const Value counted = b_.bitcast_convert(y, bits_type(x.dtype()));
    const auto shr = [&](const Value& v, uint64_t n) { return b_.shift_right_logical(v, bits(v, n)); };
    const auto power = [&](const Value& v) {
      const Value exponent = shr(v, 1);
      return b_.bitcast_convert(b_.shift_left(exponent, bits(exponent, wide ? 52 : 23)), x.dtype());
    };
    const Value both = shr(counted, wide ? 3 : 2);
    return b_.multiply(b_.multiply(x, power(both)), power(b_.add(both, bits(both, 1))));
  }

  // By the bits of the place, the lowest first.
  Value lookup(const Value& place, const ScalarInstr& i) {
    if (!place) return Value();
    const auto* numbers = static_cast<const std::byte*>(scalar::table(i.type, i.imm));
    Values left;
    for (uint64_t k = 0; k < scalar::kTableSize; ++k)
      left.push_back(b_.broadcast_scalar(
          b_.constant(Literal::copy_of(scalar_type(i.type), numbers + k * byte_size(i.type))), dims_));
    for (uint64_t bit = 1; left.size() > 1; bit *= 2) {
      const Value odd = b_.compare(b_.and_(place, bits(place, bit)), bits(place, 0), "NE");
      for (size_t k = 0; k < left.size() / 2; ++k) left[k] = b_.select(odd, left[2 * k + 1], left[2 * k]);
      left.resize(left.size() / 2);
    }
    return left[0];
  }

  Value mul_high(const Value& x, const Value& y) {
    if (!x || !y) return Value();
    if (x.dtype() == DType::kU32) {
      const Value product = b_.multiply(b_.convert(x, DType::kU64), b_.convert(y, DType::kU64));
      return b_.convert(b_.shift_right_logical(product, product ? bits(product, 32) : product), DType::kU32);
    }
    // By halves.
    const Value mask = bits(x, 0xFFFFFFFFu), shift = bits(x, 32);
    auto low = [&](const Value& v) { return b_.and_(v, mask); };
    auto high = [&](const Value& v) { return b_.shift_right_logical(v, shift); };
    const Value ll = b_.multiply(low(x), low(y)), lh = b_.multiply(low(x), high(y));
    const Value hl = b_.multiply(high(x), low(y)), hh = b_.multiply(high(x), high(y));
    const Value middle = b_.add(b_.add(high(ll), low(lh)), low(hl));
    return b_.add(b_.add(hh, high(lh)), b_.add(high(hl), high(middle)));
  }

  Builder& b_;
  const Dims dims_;
};

}  // namespace

absl::StatusOr<ComputationPtr> lower_elementwise(const Node& n) {
  return record_region(operand_types(n), [&](Builder& b, std::span<const Value> operands) {
    const ScalarProgram& program = scalar_program(n);
    Values values;  // by number
    for (const Value& x : operands) {
      if (is_complex(x.dtype())) {
        values.push_back(b.real(x));
        values.push_back(b.imag(x));
      } else {
        values.push_back(x);
      }
    }
    Expansion expansion(b, n.type()->dims);
    for (const ScalarInstr& i : program.code) {
      const int arity = prim_arity(i.prim);
      auto operand = [&](int k) { return k < arity ? values[i.operands[k]] : Value(); };
      values.push_back(expansion.prim(i, operand(0), operand(1), operand(2)));
      if (!b.ok()) return Values();
    }
    if (program.outputs.size() == 1) return Values{values[program.outputs[0]]};
    return Values{b.complex(values[program.outputs[0]], values[program.outputs[1]])};
  });
}

absl::StatusOr<ComputationPtr> lower_scan(const Node& n) {
  const Attrs& a = n.attrs();
  const auto carries = static_cast<size_t>(a.integer(Attr::num_carry));
  const int64_t length = a.integer(Attr::length);
  const Computation& step = *a.computation(Attr::body);
  // Counter, carries, stacked results, scanned arrays.
  std::vector<const Type*> types{scalar_type(DType::kS32)};
  for (uint32_t i = 0; i < n.num_results(); ++i) types.push_back(n.result_type(i));
  const size_t scanned = types.size();
  for (size_t i = carries; i < n.operands().size(); ++i) types.push_back(n.operand_type(i));
  absl::StatusOr<ComputationPtr> cond = record_region(types, [&](Builder& b, std::span<const Value> p) {
    return Values{b.compare(p[0], b.scalar_int(DType::kS32, length), "LT")};
  });
  if (!cond.ok()) return cond.status();
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, std::span<const Value> p) {
    const Value at = a.flag(Attr::reverse) ? b.subtract(b.scalar_int(DType::kS32, length - 1), p[0]) : p[0];
    Values arguments(p.begin() + 1, p.begin() + 1 + static_cast<int64_t>(carries));
    for (size_t i = scanned; i < p.size(); ++i) {
      Dims sizes = p[i].dims();
      sizes[0] = 1;
      const Value row = b.dynamic_slice(p[i], start_at(b, at, p[i].rank()), sizes);
      arguments.push_back(b.reshape(row, Dims(sizes.begin() + 1, sizes.end())));
    }
    const Values results = inline_computation(b, step, arguments);
    if (!b.ok()) return Values();
    Values next{b.add(p[0], b.scalar_int(DType::kS32, 1))};
    for (size_t i = 0; i < results.size(); ++i) {
      if (i < carries) {
        next.push_back(results[i]);
        continue;
      }
      const Value& stacked = p[1 + i];
      Dims sizes = stacked.dims();
      sizes[0] = 1;
      next.push_back(
          b.dynamic_update_slice(stacked, b.reshape(results[i], sizes), start_at(b, at, stacked.rank())));
    }
    next.insert(next.end(), p.begin() + static_cast<int64_t>(scanned), p.end());
    return next;
  });
  if (!body.ok()) return body.status();
  return record_region(operand_types(n), [&](Builder& b, std::span<const Value> p) {
    Values init{b.scalar_int(DType::kS32, 0)};
    init.insert(init.end(), p.begin(), p.begin() + static_cast<int64_t>(carries));
    for (size_t i = 1 + carries; i < scanned; ++i) init.push_back(b.zeros(types[i]));
    if (length == 0) return Values(init.begin() + 1, init.end());
    init.insert(init.end(), p.begin() + static_cast<int64_t>(carries), p.end());
    const Values out = b.while_loop(init, *cond, *body);
    if (!b.ok()) return Values();
    return Values(out.begin() + 1, out.begin() + static_cast<int64_t>(scanned));
  });
}

}  // namespace lamina::hlo::xla_text
