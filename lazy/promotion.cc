// Element type promotion (JAX's lattice), broadcasting, and recording of elementwise ops with both.
#include <algorithm>
#include <array>
#include <complex>

#include "absl/container/fixed_array.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "lazy/known_number.h"
#include "lazy/lazy.h"
#include "lazy/scopes.h"

namespace lamina::lazy {
namespace {

// Order of kinds in the lattice.
int category(DType t) {
  if (hlo::is_bool(t)) return 0;
  if (hlo::is_integer(t)) return 1;
  return hlo::is_float(t) ? 2 : 3;
}

DType wider_float(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
  return DType::kF32;  // f32 with anything narrower, and f16 with bf16
}

DType signed_of_bytes(int64_t bytes) {
  return bytes == 1 ? DType::kS8 : bytes == 2 ? DType::kS16 : bytes == 4 ? DType::kS32 : DType::kS64;
}

[[noreturn]] void no_promotion(DType a, DType b) {
  throw Error(ErrorKind::kType,
              str_cat("element types ", std::string(hlo::info(a).numpy_name), " and ",
                      std::string(hlo::info(b).numpy_name),
                      " have no common one: integers below 8 bits and floats of one byte are never "
                      "converted unasked; use x.astype('int32') or x.astype('float32') first"));
}

// Narrow types, as in JAX: they stand above bool; the floats above wider integers, too.
PromotedType promote_narrow(DType a, DType b) {
  if (!hlo::is_narrow(a)) std::swap(a, b);
  if (hlo::is_bool(b) || (hlo::is_float(a) && hlo::is_integer(b) && !hlo::is_narrow(b))) return {a, false};
  no_promotion(a, b);
}

PromotedType promote_strong(DType a, DType b) {
  if (a == b) return {a, false};
  if (hlo::is_narrow(a) || hlo::is_narrow(b)) return promote_narrow(a, b);
  if (category(a) > category(b)) std::swap(a, b);
  if (category(a) == 0) return {b, false};
  if (category(b) == 3) {
    if (category(a) == 1) return {b, false};
    return {wider_float(hlo::part_type(a), hlo::part_type(b)) == DType::kF64 ? DType::kC128 : DType::kC64,
            false};
  }
  if (category(b) == 2) return {category(a) == 1 ? b : wider_float(a, b), false};
  const int64_t wa = hlo::byte_size(a), wb = hlo::byte_size(b);
  if (hlo::is_signed(a) == hlo::is_signed(b)) return {wa > wb ? a : b, false};
  const int64_t s = hlo::is_signed(a) ? wa : wb, u = hlo::is_signed(a) ? wb : wa;
  if (s > u) return {signed_of_bytes(s), false};
  if (u < 8) return {signed_of_bytes(2 * u), false};
  return {DType::kF64, true};  // u64 with a signed type: a weak float, which is a double as beside either
}

// The default type of a kind, for weak operands among themselves and against lower kinds.
DType default_of(DType t) {
  switch (category(t)) {
    case 0:
      return DType::kBool;
    case 1:
      return default_types().integer;
    case 2:
      return default_types().floating;
    default:
      return default_types().complex();
  }
}

}  // namespace

PromotedType promote(DType a, bool weak_a, DType b, bool weak_b) {
  if (weak_a == weak_b) {
    if (!weak_a) return promote_strong(a, b);
    if (category(a) == category(b)) return {promote_strong(a, b).dtype, true};
    return {category(a) > category(b) ? a : b, true};
  }
  const DType weak = weak_a ? a : b, strong = weak_a ? b : a;
  if (category(weak) <= category(strong)) return {strong, false};
  if (hlo::is_narrow(strong)) no_promotion(strong, weak);
  // A float's width survives a weak complex number.
  if (category(weak) == 3 && category(strong) == 2)
    return {strong == DType::kF64 ? DType::kC128 : DType::kC64, false};
  // Beside a 64-bit integer, which would lose digits otherwise, a weak float is a double.
  if (category(weak) > 1 && hlo::is_integer(strong) && hlo::byte_size(strong) == 8)
    return {category(weak) == 2 ? DType::kF64 : DType::kC128, true};
  return {default_of(weak), true};
}

bool promote_operands(hlo::Builder& b, std::span<Lazy> operands) {
  if (operands.empty()) return false;
  PromotedType type{operands[0].value.dtype(), operands[0].weak};
  for (const Lazy& o : operands.subspan(1)) type = promote(type.dtype, type.weak, o.value.dtype(), o.weak);
  for (Lazy& o : operands) {
    o = type.weak ? recast(b, o, type.dtype) : Lazy{converted(b, o, type.dtype), false};
    o.weak = type.weak;
  }
  return type.weak;
}

DefaultTypes& default_types() {
  thread_local DefaultTypes types;
  return types;
}

DType inexact_type(DType dtype) {
  if (hlo::is_inexact(dtype)) return dtype;
  if (hlo::byte_size(dtype) == 8) return DType::kF64;
  return default_types().for_integers ? default_types().floating : DType::kF32;
}

DType sum_type(DType dtype, int64_t count) {
  if (hlo::is_bool(dtype)) {
    const DType usual = default_types().integer;
    return count >> (hlo::bit_width(usual) - 1) == 0 ? usual : DType::kS64;
  }
  if (!hlo::is_integer(dtype)) return dtype;
  return hlo::is_signed(dtype) ? DType::kS64 : DType::kU64;
}

DType wide_type(DType dtype) {
  if (hlo::is_narrow(dtype) || !default_types().wide) return dtype;
  if (hlo::is_complex(dtype)) return DType::kC128;
  if (hlo::is_float(dtype)) return DType::kF64;
  return hlo::is_integer(dtype) && hlo::is_signed(dtype) ? DType::kS64 : dtype;
}

namespace {
// Whether a weak value's unrounded elements are known.
bool is_wide(const Lazy& x) {
  return x.wide || (default_types().wide && x.value.dtype() == wide_type(x.value.dtype()));
}
}  // namespace

Value wide_of(const Lazy& x) { return x.wide || !x.weak || !is_wide(x) ? x.wide : x.value; }

Value converted(hlo::Builder& b, const Lazy& x, DType dtype) {
  return b.convert(x.wide && x.value.dtype() != dtype ? x.wide : x.value, dtype);
}

Lazy recast(hlo::Builder& b, const Lazy& x, DType dtype) {
  const Value wide = wide_of(x);
  const DType widest = wide_type(dtype);
  return {converted(b, x, dtype), x.weak, wide && widest != dtype ? b.convert(wide, widest) : Value()};
}

DType carrier_type(DType dtype, bool weak) { return weak ? wide_type(dtype) : dtype; }

Value carrier(hlo::Builder& b, const Lazy& x) {
  if (!x.weak) return x.value;
  return x.wide ? x.wide : b.convert(x.value, wide_type(x.value.dtype()));
}

Lazy from_carrier(hlo::Builder& b, Value carried, DType dtype, bool weak) {
  if (!carried || carried.dtype() == dtype) return {std::move(carried), weak};
  Value value = rounded_on_host(carried, dtype);
  if (!value) value = b.convert(carried, dtype);
  return {std::move(value), weak, std::move(carried)};
}

Dims broadcast_shapes(std::span<const Dims> shapes, std::string_view what) {
  size_t rank = 0;
  for (const Dims& s : shapes) rank = std::max(rank, s.size());
  Dims out(rank, 1);
  for (const Dims& s : shapes) {
    for (size_t i = 0; i < s.size(); ++i) {
      int64_t& d = out[rank - s.size() + i];
      if (s[i] == d || s[i] == 1) continue;
      if (d == 1) {
        d = s[i];
        continue;
      }
      std::string all;
      for (const Dims& x : shapes) str_append(&all, all.empty() ? "" : " and ", hlo::dims_to_string(x));
      throw Error(ErrorKind::kValue,
                  str_cat(what, ": shapes ", all, " cannot be broadcast together: size ", s[i], " against ",
                          d, " in dimension ", static_cast<int64_t>(i) - static_cast<int64_t>(s.size()),
                          " (counted from the end)"));
    }
  }
  return out;
}

namespace {

// Attributes of broadcasts from one shape to another, made before: shapes that meet meet again. The graph
// lock guards it.
struct BroadcastMemo {
  static constexpr size_t kSize = 1024;
  struct Entry {
    const hlo::Type* from = nullptr;
    const hlo::Attrs* attrs = nullptr;
  };
  std::array<Entry, kSize> entries;

  static BroadcastMemo& get() {
    static constinit hlo::Once<BroadcastMemo> memo;
    return memo.get();
  }
  Entry& at(const hlo::Type* from, std::span<const int64_t> to) {
    uint64_t h = reinterpret_cast<uint64_t>(from);
    for (int64_t d : to) h = (h ^ static_cast<uint64_t>(d)) * 0x9E3779B97F4A7C15u;
    return entries[(h ^ h >> 32) % kSize];
  }
};

}  // namespace

Value broadcast_to(hlo::Builder& b, const Value& x, std::span<const int64_t> dims) {
  if (!x || std::equal(dims.begin(), dims.end(), x.dims().begin(), x.dims().end())) return x;
  hlo::GraphLock lock;
  BroadcastMemo::Entry& entry = BroadcastMemo::get().at(x.type(), dims);
  if (entry.from != x.type() || !std::ranges::equal(entry.attrs->ints(hlo::Attr::shape), dims)) {
    Dims map;
    for (int64_t i = 0; i < x.rank(); ++i) map.push_back(static_cast<int64_t>(dims.size()) - x.rank() + i);
    const Value out = b.broadcast_in_dim(x, dims, map);
    if (out) entry = {x.type(), &out.node()->attrs()};
    return out;
  }
  return b.record(hlo::Op::broadcast_in_dim, {{x.operand()}}, entry.attrs);
}

namespace {

// Whether the result's element type has nothing to do with the operands' weakness.
bool gives_strong(hlo::Op op) {
  return op == hlo::Op::compare || op == hlo::Op::is_finite || op == hlo::Op::convert;
}

using Operands = absl::InlinedVector<Lazy, 3>;

// Whether a select's first operand, which takes no part in promotion, leads them.
bool led_by_condition(hlo::Op op) { return op == hlo::Op::select; }

// Operands of different element types or shapes.
Lazy mixed_elementwise(hlo::Builder& b, hlo::Op op, Operands operands, const hlo::Attrs* attrs) {
  const size_t apart = led_by_condition(op) ? 1 : 0;
  if (apart) operands[0].value = b.convert(operands[0].value, DType::kBool);
  const bool weak = promote_operands(b, std::span(operands.data(), operands.size()).subspan(apart));
  // Numbers are scalars beside a shape; anything else asks for more thought.
  const Dims* dims = &operands[0].value.dims();
  for (const Lazy& o : operands)
    if (dims->empty()) dims = &o.value.dims();
  bool scalars = true;
  for (const Lazy& o : operands) scalars &= o.value.rank() == 0 || o.value.dims() == *dims;
  Dims common;
  if (!scalars) {
    std::vector<Dims> shapes;
    for (const Lazy& o : operands) shapes.push_back(o.value.dims());
    common = broadcast_shapes(shapes, hlo::op_def(op).name);
    dims = &common;
  }
  hlo::Values values;
  for (const Lazy& o : operands) values.push_back(broadcast_to(b, o.value, *dims));
  return {b.make(op, values, attrs), weak};
}

// The shape of operands that are as the op takes them, but that some are scalars beside it: of one element
// type, none weak. Null for all others.
const Dims* shape_beside_scalars(hlo::Op op, std::span<const Lazy* const> operands) {
  const size_t apart = led_by_condition(op) ? 1 : 0;
  if (apart && !hlo::is_bool(operands[0]->value.dtype())) return nullptr;
  const DType dtype = operands[apart]->value.dtype();
  const Dims* shape = &operands[0]->value.dims();
  for (size_t i = 0; i < operands.size(); ++i) {
    const Lazy& o = *operands[i];
    if (i >= apart && (o.weak || o.value.dtype() != dtype)) return nullptr;
    const Dims& dims = o.value.dims();
    if (dims.empty() || dims == *shape) continue;
    if (!shape->empty()) return nullptr;
    shape = &dims;
  }
  return shape;
}

// Of such operands. Most have a number among them, which costs as little as may be.
Value beside_scalars(hlo::Builder& b, hlo::Op op, std::span<const Lazy* const> operands, const Dims& shape,
                     const hlo::Attrs* attrs) {
  hlo::Values spread;
  absl::FixedArray<hlo::Operand, 3> slots(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& x = operands[i]->value;
    if (x.rank() > 0 || shape.empty()) {
      slots[i] = x.operand();
      continue;
    }
    spread.push_back(broadcast_to(b, x, shape));
    if (!spread.back()) return Value();
    slots[i] = spread.back().operand();
  }
  return b.record(op, slots, attrs);
}

// Ops whose result depends on the width of the elements: of numbers they see the rounded ones.
bool sees_width(hlo::Op op) {
  return op == hlo::Op::bitcast_convert || op == hlo::Op::count_leading_zeros || op == hlo::Op::next_after ||
         op == hlo::Op::popcnt || op == hlo::Op::reduce_precision || op == hlo::Op::shift_right_logical;
}

// Among numbers whose types are not decided: the result is not rounded either.
Lazy wide_elementwise(hlo::Builder& b, hlo::Op op, std::span<const Lazy* const> operands,
                      const hlo::Attrs* attrs) {
  const size_t apart = led_by_condition(op) ? 1 : 0;
  PromotedType narrow{operands[apart]->value.dtype(), true};
  Operands copies;
  for (size_t i = 0; i < operands.size(); ++i) {
    copies.push_back(i < apart ? *operands[i] : Lazy{wide_of(*operands[i]), true});
    if (i > apart) narrow = promote(narrow.dtype, true, operands[i]->value.dtype(), true);
  }
  Lazy wide = mixed_elementwise(b, op, std::move(copies), attrs);
  if (!wide.value || gives_strong(op)) return wide;
  const DType own = wide.value.dtype();
  return from_carrier(b, wide.value, category(own) == category(narrow.dtype) ? narrow.dtype : default_of(own),
                      true);
}

// Throws what is wrong in terms of the rounded numbers, whose types the user sees.
void check_rounded(hlo::Op op, std::span<const Lazy* const> operands, const hlo::Attrs* attrs) {
  hlo::Builder b;
  Operands copies;
  for (const Lazy* o : operands) copies.push_back(Lazy{o->value, false});
  mixed_elementwise(b, op, std::move(copies), attrs);
  if (!b.ok()) throw_status(b.status());
}

// Whether it asks for the order of complex numbers, for which programs have no operation.
bool orders_complex(hlo::Op op, std::span<const Lazy* const> operands, const hlo::Attrs* attrs) {
  if (op != hlo::Op::compare) return false;
  const std::string& direction = attrs->string(hlo::Attr::direction);
  return direction != "EQ" && direction != "NE" && attrs->string(hlo::Attr::compare_type).empty() &&
         std::any_of(operands.begin(), operands.end(),
                     [](const Lazy* o) { return hlo::is_complex(o->value.dtype()); });
}

// By real parts, of equal ones by imaginary parts; nothing is before or after a number with a NaN, as in
// NumPy.
Lazy ordered_complex(std::span<const Lazy* const> operands, const hlo::Attrs* attrs) {
  hlo::Builder b;
  Operands both{*operands[0], *operands[1]};
  promote_operands(b, std::span(both.data(), both.size()));
  check(b.status());
  const auto compared = [](const Lazy& x, const Lazy& y, const std::string& direction) {
    const Lazy* of[] = {&x, &y};
    return elementwise(hlo::Op::compare, of, hlo::intern_attrs({{hlo::Attr::direction, direction}}));
  };
  const auto of = [](hlo::Op op, const Lazy& x) { return elementwise(op, std::span(&x, 1)); };
  const auto joined = [](hlo::Op op, Lazy x, Lazy y) {
    return elementwise(op, std::vector<Lazy>{std::move(x), std::move(y)});
  };
  const std::string& direction = attrs->string(hlo::Attr::direction);
  const Lazy real[] = {of(hlo::Op::real, both[0]), of(hlo::Op::real, both[1])};
  const Lazy imag[] = {of(hlo::Op::imag, both[0]), of(hlo::Op::imag, both[1])};
  const Lazy numbers =
      joined(hlo::Op::and_, compared(imag[0], imag[0], "EQ"), compared(imag[1], imag[1], "EQ"));
  const Lazy apart = compared(real[0], real[1], direction.substr(0, 1) + "T");
  const Lazy tied =
      joined(hlo::Op::and_, compared(real[0], real[1], "EQ"), compared(imag[0], imag[1], direction));
  return joined(hlo::Op::or_, joined(hlo::Op::and_, apart, numbers), tied);
}

// Whether it compares a 64-bit unsigned integer with a signed one, which have no common type that holds both.
bool compares_signs(hlo::Op op, std::span<const Lazy* const> operands) {
  if (op != hlo::Op::compare || operands[0]->weak || operands[1]->weak) return false;
  const DType a = operands[0]->value.dtype(), b = operands[1]->value.dtype();
  const auto is_signed = [](DType t) {
    return hlo::is_integer(t) && hlo::is_signed(t) && !hlo::is_narrow(t);
  };
  return (a == DType::kU64 && is_signed(b)) || (b == DType::kU64 && is_signed(a));
}

// As unsigned ones, but that a negative number is below all of them.
Lazy compared_signs(std::span<const Lazy* const> operands, const hlo::Attrs* attrs) {
  const bool signed_first = operands[1]->value.dtype() == DType::kU64;
  const Lazy& number = *operands[signed_first ? 0 : 1];
  hlo::Builder b;
  const Lazy zero{b.zeros_like(number.value), false}, bits{b.convert(number.value, DType::kU64), false};
  check(b.status());
  const Lazy* sides[] = {signed_first ? &bits : operands[0], signed_first ? operands[1] : &bits};
  const Lazy unsigned_ = elementwise(hlo::Op::compare, sides, attrs);
  const Lazy* tested[] = {&number, &zero};
  const auto against_zero = [&](const char* direction) {
    return elementwise(hlo::Op::compare, tested, hlo::intern_attrs({{hlo::Attr::direction, direction}}));
  };
  const std::string& direction = attrs->string(hlo::Attr::direction);
  const bool below = direction == "NE" || direction[0] == (signed_first ? 'L' : 'G');
  return below ? elementwise(hlo::Op::or_, std::vector<Lazy>{against_zero("LT"), unsigned_})
               : elementwise(hlo::Op::and_, std::vector<Lazy>{against_zero("GE"), unsigned_});
}

}  // namespace

Lazy elementwise(hlo::Op op, std::span<const Lazy* const> operands, const hlo::Attrs* attrs) {
  if (orders_complex(op, operands, attrs)) return ordered_complex(operands, attrs);
  if (compares_signs(op, operands)) return compared_signs(operands, attrs);
  hlo::GraphLock lock;
  hlo::Builder b;
  const hlo::Type* type = operands[0]->value.type();
  bool same = !led_by_condition(op), weak = true, wide = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Lazy* o = operands[i];
    same &= o->value.type() == type;
    weak &= o->weak;
    if (wide && (i > 0 || !led_by_condition(op))) wide = o->weak && is_wide(*o);
  }
  Lazy out;
  if (op == hlo::Op::convert) {
    out.value = converted(b, *operands[0], attrs->dtype(hlo::Attr::dtype));
  } else if (wide && !sees_width(op)) {
    out = wide_elementwise(b, op, operands, attrs);
  } else if (same) {
    absl::FixedArray<hlo::Operand, 3> slots(operands.size());
    for (size_t i = 0; i < operands.size(); ++i) slots[i] = operands[i]->value.operand();
    out.value = b.record(op, slots, attrs);
    out.weak = weak;
  } else if (const Dims* const shape = shape_beside_scalars(op, operands)) {
    out.value = beside_scalars(b, op, operands, *shape, attrs);
  } else {
    Operands copies;
    for (const Lazy* o : operands) copies.push_back(*o);
    out = mixed_elementwise(b, op, std::move(copies), attrs);
  }
  if (!b.ok() && wide) check_rounded(op, operands, attrs);
  if (!b.ok()) throw_status(b.status());
  if (gives_strong(op)) out.weak = false;
  note_recorded();
  return out;
}

Lazy elementwise(hlo::Op op, std::span<const Lazy> operands, const hlo::Attrs* attrs) {
  absl::InlinedVector<const Lazy*, 3> pointers;
  for (const Lazy& o : operands) pointers.push_back(&o);
  return elementwise(op, pointers, attrs);
}

namespace {

// Ops that put elements elsewhere, whatever their type.
bool moves_elements(hlo::Op op) {
  return op == hlo::Op::broadcast_in_dim || op == hlo::Op::concatenate || op == hlo::Op::reshape ||
         op == hlo::Op::reverse || op == hlo::Op::slice || op == hlo::Op::stop_gradient ||
         op == hlo::Op::transpose;
}

}  // namespace

std::vector<Lazy> record(hlo::Op op, std::span<const Lazy> operands, const hlo::Attrs* attrs) {
  hlo::GraphLock lock;
  hlo::Builder b;
  std::vector<Value> values, wides;
  bool weak = !operands.empty(), wide = false;
  for (const Lazy& o : operands) {
    values.push_back(o.value);
    weak &= o.weak;
    wide |= static_cast<bool>(o.wide);
  }
  hlo::Values results = b.make_multi(op, values, attrs);
  check(b.status());
  note_recorded();
  std::vector<Lazy> out;
  for (Value& r : results) out.push_back({std::move(r), weak});
  if (!weak || !wide || !moves_elements(op)) return out;
  for (const Lazy& o : operands) {
    wides.push_back(wide_of(o));
    if (!wides.back()) return out;
  }
  out[0].wide = b.make(op, wides, attrs);
  check(b.status());
  return out;
}

}  // namespace lamina::lazy
