// Rows of constants and of the operations that move elements to places known while reading.
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

void constant(OpReader& r) {
  const AttrTree* value = r.find({"value"});
  if (!value) value = r.positional(0);
  if (!value) return r.fail("has no value");
  r.yield(r.dense(*value, r.declared()));
}

void iota(OpReader& r) {
  const Type* t = r.declared();
  if (!t || !t->is_array()) return r.fail("needs an array type for its result");
  const int64_t d = r.integer({"iota_dimension", "dim"});
  if (!is_complex(t->dtype) && !is_bool(t->dtype)) return r.yield(r.b.iota(t->dtype, t->dims, d));
  r.yield(r.b.convert(r.b.iota(DType::kS64, t->dims, d), t->dtype));
}

void broadcast_in_dim(OpReader& r) {
  if (const Type* t = r.declared())
    r.yield(r.b.broadcast_in_dim(r.in(0), t->dims, r.ints({"broadcast_dimensions", "dims"})));
}

// The sizes are put in front.
void broadcast(OpReader& r) {
  const Value x = r.in(0);
  if (!x) return;
  Dims shape = r.ints({"broadcast_sizes", "sizes"}), dims;
  for (int64_t d = 0; d < x.rank(); ++d) {
    dims.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(x.dims()[d]);
  }
  r.yield(r.b.broadcast_in_dim(x, shape, dims));
}

void reshape(OpReader& r) {
  if (const Type* t = r.declared()) r.yield(r.b.reshape(r.in(0), t->dims));
}

void transpose(OpReader& r) { r.yield(r.b.transpose(r.in(0), r.ints({"permutation", "dims"}))); }

void reverse(OpReader& r) { r.yield(r.b.reverse(r.in(0), r.ints({"dimensions", "dims"}))); }

void concatenate(OpReader& r) {
  const Values xs = r.ins();
  if (xs.empty()) return r.fail("needs at least one array");
  r.yield(r.b.concatenate(xs, r.integer({"dimension", "dim"})));
}

void slice(OpReader& r) {
  r.yield(r.b.slice(r.in(0), r.ints({"start_indices"}), r.ints({"limit_indices"}), r.ints({"strides"})));
}

void pad(OpReader& r) {
  r.yield(r.b.pad(r.in(0), r.in(1), r.ints({"edge_padding_low", "low"}),
                  r.ints({"edge_padding_high", "high"}), r.ints({"interior_padding", "interior"})));
}

void tuple(OpReader& r) {
  const TypeTree* t = r.declared_tree(0);
  if (!t || t->kind != TypeTree::Kind::kTuple) return r.fail("gives a tuple");
  r.yield_item({r.ins(), t});
}

void get_tuple_element(OpReader& r) {
  const Item* item = r.item(0);
  if (!item) return;
  const int64_t index = r.integer({"index"}, -1);
  if (!item->tuple || index < 0 || index >= static_cast<int64_t>(item->tuple->elements.size()))
    return r.fail(str_cat("the operand is no tuple with an element ", index));
  size_t begin = 0;
  for (int64_t i = 0; i < index; ++i) begin += num_leaves(item->tuple->elements[i]);
  const TypeTree& type = item->tuple->elements[index];
  Item out;
  for (size_t i = 0; i < num_leaves(type) && begin + i < item->flat.size(); ++i)
    out.flat.push_back(item->flat[begin + i]);
  if (type.kind == TypeTree::Kind::kTuple) out.tuple = &type;
  r.yield_item(std::move(out));
}

// Results are the operands, which nothing is moved across.
void optimization_barrier(OpReader& r) {
  const Values xs = r.ins();
  if (xs.empty()) return r.yield_flat({});
  r.yield_flat(r.b.make_multi(Op::optimization_barrier, xs, no_attrs()));
}

void no_value(OpReader& r) { r.yield_item({}); }

void get_dimension_size(OpReader& r) {
  const Value x = r.in(0);
  const int64_t d = r.integer({"dimension", "dim"});
  if (!x) return;
  if (d < 0 || d >= x.rank())
    return r.fail(str_cat("there is no dimension ", d, " in ", hlo::to_string(*x.type())));
  r.yield(r.b.scalar_int(DType::kS32, x.dims()[d]));
}

void process_number(OpReader& r) { r.yield(r.b.scalar_int(DType::kU32, 0)); }

constexpr NamedRow kShapeRows[] = {
    {"stablehlo.constant", constant},
    {"chlo.constant", constant},
    {"stablehlo.iota", iota},
    {"stablehlo.broadcast_in_dim", broadcast_in_dim},
    {"stablehlo.broadcast", broadcast},
    {"stablehlo.reshape", reshape},
    {"stablehlo.transpose", transpose},
    {"stablehlo.reverse", reverse},
    {"stablehlo.concatenate", concatenate},
    {"stablehlo.slice", slice},
    {"stablehlo.pad", pad},
    {"stablehlo.tuple", tuple},
    {"stablehlo.get_tuple_element", get_tuple_element},
    {"stablehlo.optimization_barrier", optimization_barrier},
    {"stablehlo.after_all", no_value},
    {"stablehlo.create_token", no_value},
    {"stablehlo.get_dimension_size", get_dimension_size},
    {"stablehlo.partition_id", process_number},
    {"stablehlo.replica_id", process_number},
    {"sdy.sharding_constraint", pass_through},
    {"sdy.propagation_barrier", pass_through},
    {"sdy.reshard", pass_through},
};

}  // namespace

std::span<const NamedRow> shape_rows() { return kShapeRows; }

}  // namespace lamina::hlo::stablehlo
