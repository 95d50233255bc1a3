// Rows of the operations that take their shapes as operands, which must follow from constants and shapes.
#include <algorithm>

#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// A shape given by an operand; sizes must not be negative.
Dims shape_operand(OpReader& r, size_t i) { return r.constant_ints(i); }

void dynamic_broadcast_in_dim(OpReader& r) {
  const Dims shape = shape_operand(r, 1);
  r.yield(r.b.broadcast_in_dim(r.in(0), shape, r.ints({"broadcast_dimensions", "dims"})));
}

void dynamic_iota(OpReader& r) {
  const TypeTree* t = r.declared_tree(0);
  if (!t || !t->is_array()) return r.fail("needs an array type for its result");
  const Dims shape = shape_operand(r, 0);
  const int64_t d = r.integer({"iota_dimension", "dim"});
  if (r.ok())
    r.yield(r.b.convert(
        r.b.iota(is_integer(t->dtype) || is_float(t->dtype) ? t->dtype : DType::kS64, shape, d), t->dtype));
}

void dynamic_reshape(OpReader& r) { r.yield(r.b.reshape(r.in(0), shape_operand(r, 1))); }

void dynamic_pad(OpReader& r) {
  r.yield(r.b.pad(r.in(0), r.in(1), r.constant_ints(2), r.constant_ints(3), r.constant_ints(4)));
}

// Constant bounds give a slice; otherwise the start moves and the size must be known.
void real_dynamic_slice(OpReader& r) {
  r.yield(r.b.slice(r.in(0), r.constant_ints(1), r.constant_ints(2), r.constant_ints(3)));
}

// Sizes only shrink or stay; the array keeps its elements.
void set_dimension_size(OpReader& r) {
  const Value x = r.in(0);
  const Dims size = r.constant_ints(1);
  const int64_t d = r.integer({"dimension", "dim"});
  if (!x || size.size() != 1) return r.fail("needs an array and a size");
  if (d < 0 || d >= x.rank()) return r.fail(str_cat("there is no dimension ", d));
  Dims start(x.rank(), 0), limit = x.dims();
  limit[d] = size[0];
  r.yield(r.b.slice(x, start, limit));
}

constexpr NamedRow kDynamicRows[] = {
    {"stablehlo.dynamic_broadcast_in_dim", dynamic_broadcast_in_dim},
    {"stablehlo.dynamic_iota", dynamic_iota},
    {"stablehlo.dynamic_reshape", dynamic_reshape},
    {"chlo.dynamic_reshape", dynamic_reshape},
    {"stablehlo.dynamic_pad", dynamic_pad},
    {"stablehlo.real_dynamic_slice", real_dynamic_slice},
    {"stablehlo.set_dimension_size", set_dimension_size},
};

}  // namespace

std::span<const NamedRow> dynamic_rows() { return kDynamicRows; }

}  // namespace lamina::hlo::stablehlo
