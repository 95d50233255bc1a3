// Element type promotion (JAX's lattice), broadcasting, and recording of elementwise ops with both.
#include <algorithm>

#include "hlo/op.h"
#include "hlo/strings.h"
#include "lazy/lazy.h"

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

PromotedType promote_strong(DType a, DType b) {
  if (a == b) return {a, false};
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
  return {DType::kF32, true};  // u64 with a signed type: a weak float
}

// The default type of a kind, for weak operands among themselves and against lower kinds.
DType default_of(DType t) {
  switch (category(t)) {
    case 0:
      return DType::kBool;
    case 1:
      return DType::kS32;
    case 2:
      return DType::kF32;
    default:
      return DType::kC64;
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
  // A float's width survives a weak complex number.
  if (category(weak) == 3 && category(strong) == 2)
    return {strong == DType::kF64 ? DType::kC128 : DType::kC64, false};
  return {default_of(weak), true};
}

bool promote_operands(hlo::Builder& b, std::span<Lazy> operands) {
  PromotedType type{operands[0].value.dtype(), operands[0].weak};
  for (const Lazy& o : operands.subspan(1)) type = promote(type.dtype, type.weak, o.value.dtype(), o.weak);
  for (Lazy& o : operands) o.value = b.convert(o.value, type.dtype);
  return type.weak;
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

Value broadcast_to(hlo::Builder& b, const Value& x, std::span<const int64_t> dims) {
  Dims map;
  for (int64_t i = 0; i < x.rank(); ++i) map.push_back(static_cast<int64_t>(dims.size()) - x.rank() + i);
  return b.broadcast_in_dim(x, dims, map);
}

Lazy elementwise(hlo::Op op, std::vector<Lazy> operands, const hlo::Attrs* attrs) {
  hlo::GraphLock lock;
  hlo::Builder b;
  const hlo::OpDef& def = hlo::op_def(op);
  bool weak = operands[0].weak;
  if (op == hlo::Op::select) {
    weak = promote_operands(b, std::span(operands).subspan(1));
    operands[0].value = b.convert(operands[0].value, DType::kBool);
  } else if (operands.size() > 1) {
    weak = promote_operands(b, operands);
  }
  if (op == hlo::Op::compare || op == hlo::Op::is_finite || op == hlo::Op::convert) weak = false;
  bool same = true;
  for (const Lazy& o : operands) same &= o.value.dims() == operands[0].value.dims();
  if (!same) {
    std::vector<Dims> shapes;
    for (const Lazy& o : operands) shapes.push_back(o.value.dims());
    const Dims dims = broadcast_shapes(shapes, def.name);
    for (Lazy& o : operands) o.value = broadcast_to(b, o.value, dims);
  }
  std::vector<Value> values;
  for (Lazy& o : operands) values.push_back(std::move(o.value));
  Value out = b.make(op, values, attrs);
  check(b.status());
  note_recorded();
  return {std::move(out), weak};
}

std::vector<Lazy> record(hlo::Op op, std::span<const Lazy> operands, const hlo::Attrs* attrs) {
  hlo::GraphLock lock;
  hlo::Builder b;
  std::vector<Value> values;
  bool weak = !operands.empty();
  for (const Lazy& o : operands) {
    values.push_back(o.value);
    weak &= o.weak;
  }
  hlo::Values results = b.make_multi(op, values, attrs);
  check(b.status());
  note_recorded();
  std::vector<Lazy> out;
  for (Value& r : results) out.push_back({std::move(r), weak});
  return out;
}

}  // namespace lamina::lazy
