#include "hlo/builder.h"

#include <array>
#include <cstdlib>

#include "absl/container/fixed_array.h"
#include "absl/strings/str_join.h"
#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

std::string operand_list(std::span<const Type* const> types) {
  return absl::StrJoin(types, ", ", [](std::string* out, const Type* t) { str_append(out, to_string(*t)); });
}

// Whether the op is folded when all operands are constants: literals only, and small ones.
bool folds(const OpDef& def, const Type* type) {
  return (def.is_elementwise() || def.op == Op::reshape) && type->is_scalar();
}

// Types inferred before, by op, the attributes' id and up to three operand types. The graph lock guards it.
struct InferenceMemo {
  static constexpr size_t kOperands = 3, kSize = 4096;
  struct Entry {
    Op op;
    uint8_t count;
    uint64_t attrs = 0;
    std::array<const Type*, kOperands> operands;
    const Type* result;
  };
  std::array<Entry, kSize> entries;

  static InferenceMemo& get() {
    static constinit Once<InferenceMemo> memo;
    return memo.get();
  }
  Entry& at(Op op, std::span<const Type* const> types, const Attrs* attrs) {
    uint64_t h = attrs->id() << 16 ^ static_cast<uint64_t>(op);
    for (const Type* t : types) h = (h ^ reinterpret_cast<uint64_t>(t)) * 0x9E3779B97F4A7C15u;
    return entries[h >> 52];
  }
};
static_assert(InferenceMemo::kSize == size_t{1} << (64 - 52));

absl::StatusOr<const Type*> infer_type(const OpDef& def, std::span<const Type* const> types,
                                       const Attrs* attrs) {
  const bool memoised = types.size() <= InferenceMemo::kOperands;
  InferenceMemo::Entry* entry = nullptr;
  if (memoised) {
    entry = &InferenceMemo::get().at(def.op, types, attrs);
    bool same = entry->attrs == attrs->id() && entry->op == def.op && entry->count == types.size();
    for (size_t i = 0; same && i < types.size(); ++i) same = types[i] == entry->operands[i];
    if (same) return entry->result;
  }
  absl::StatusOr<const Type*> type = def.type(types, *attrs);
  if (memoised && type.ok()) {
    *entry = {def.op, static_cast<uint8_t>(types.size()), attrs->id(), {}, *type};
    std::copy(types.begin(), types.end(), entry->operands.begin());
  }
  return type;
}

// Of operands that are held apart: what they are and where.
absl::Status held_apart(const OpDef& def, std::span<const Operand> operands) {
  std::string all;
  for (Operand o : operands) {
    const Node& n = *o.node();
    str_append(&all, all.empty() ? "" : " and ", to_string(*n.result_type(o.index())), " on ",
               n.place() == kAnywhere ? "no device in particular" : place_name(n.place()));
  }
  return absl::InvalidArgumentError(str_cat(def.name, ": its operands are on different devices: ", all,
                                            "; bring them to one with device_put"));
}

// Products of narrow elements are summed in f32 or a byte and rounded, or wrapped, once.
Value narrow_product(Builder& b, Op op, std::span<const Operand> operands, const Attrs* attrs) {
  const DType t = operands[0].node()->result_type(operands[0].index())->dtype;
  const DType wide = is_float(t) ? DType::kF32 : storage_type(t);
  Values widened;
  for (const Operand o : operands) widened.push_back(b.convert(Value(o.node(), o.index()), wide));
  const Value product = b.make(op, widened, attrs);
  return product ? b.convert(product, t) : Value();
}

}  // namespace

Value Builder::fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  return Value();
}

Value Builder::fold(const OpDef& def, const Type* type, std::span<const Type* const> types,
                    std::span<const Operand> operands, const Attrs* attrs) {
  std::vector<LiteralPtr> literals;
  for (Operand o : operands) {
    if (o.node()->op() != Op::constant) return Value();
    literals.push_back(o.node()->attrs().literal(Attr::value));
  }
  auto out = std::make_shared<Literal>(type);
  if (def.is_elementwise()) {
    // The evaluator's rule needs a node; a scalar elementwise program can be run without one.
    absl::InlinedVector<DType, 3> dtypes;
    for (const Type* t : types) dtypes.push_back(t->dtype);
    const ScalarProgram& program = scalar_program(def.op, dtypes, type->dtype, *attrs);
    std::vector<const void*> in;
    for (const LiteralPtr& l : literals)
      for (int p = 0; p < num_parts(l->dtype()); ++p)
        in.push_back(l->element(0) + p * byte_size(part_type(l->dtype())));
    std::vector<void*> outs;
    for (int p = 0; p < num_parts(out->dtype()); ++p)
      outs.push_back(out->element(0) + p * byte_size(part_type(out->dtype())));
    interpret(program, in, outs, 1);
  } else {
    std::memcpy(out->data(), literals[0]->data(), out->bytes());
  }
  return constant(std::move(out));
}

Value Builder::record(Op op, std::span<const Operand> operands, const Attrs* attrs) {
  const OpDef& def = op_def(op);
  absl::FixedArray<const Type*, 4> types(operands.size());
  // The first operand of an effect is the effect before it, wherever that was.
  const size_t placed = op == Op::custom_call && attrs->flag(Attr::has_side_effect) ? 1 : 0;
  Place place = kAnywhere;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Operand o = operands[i];
    types[i] = o.node()->result_type(o.index());
    if (i < placed) continue;
    if (const Place at = o.node()->place(); at != kAnywhere) {
      if (place != kAnywhere && place != at) return fail(held_apart(def, operands));
      place = at;
    }
  }
  if (def.arity >= 0 && static_cast<int>(operands.size()) != def.arity)
    return fail(absl::InvalidArgumentError(
        str_cat(def.name, " takes ", def.arity, " operands, not ", operands.size())));
  if (operands.size() > 65535)
    return fail(absl::InvalidArgumentError(
        str_cat(def.name, " takes at most 65535 operands, not ", operands.size())));
  if ((op == Op::dot_general || op == Op::convolution) && types[0]->is_array() &&
      is_narrow(types[0]->dtype) && types[1]->is_array() && types[0]->dtype == types[1]->dtype)
    return narrow_product(*this, op, operands, attrs);
  GraphLock lock;
  const absl::StatusOr<const Type*> type = infer_type(def, types, attrs);
  if (!type.ok())
    return fail(absl::Status(type.status().code(),
                             str_cat(def.name, "(", operand_list(types), "): ", type.status().message())));
  if (!operands.empty() && folds(def, *type))
    if (Value folded = fold(def, *type, types, operands, attrs)) return folded;
  return make_node(op, *type, attrs, operands);
}

Value Builder::make(Op op, std::span<const Value> operands, const Attrs* attrs) {
  absl::InlinedVector<Operand, 4> slots;
  for (const Value& v : operands) {
    if (!v) {
      if (status_.ok()) fail(absl::InternalError(str_cat(op_def(op).name, ": an operand is missing")));
      return Value();
    }
    slots.push_back(v.operand());
  }
  return record(op, slots, attrs);
}

Values Builder::make_multi(Op op, std::span<const Value> operands, const Attrs* attrs) {
  const Value node = make(op, operands, attrs);
  if (!node) return {Value()};
  Values results;
  for (uint32_t i = 0; i < node.node()->num_results(); ++i) results.push_back(Value(node.node(), i));
  return results;
}

Values Builder::remake(const Node& node, std::span<const Value> operands) {
  return make_multi(node.op(), operands, &node.attrs());
}

Value Builder::constant(LiteralPtr literal) {
  const Attrs* attrs = intern_attrs({{Attr::value, std::move(literal)}});
  return make(Op::constant, {}, attrs);
}

Value Builder::scalar(DType dtype, double value) { return constant(Literal::scalar(dtype, value)); }
Value Builder::scalar_int(DType dtype, int64_t value) { return constant(Literal::scalar_int(dtype, value)); }

Value Builder::full(const Type* type, double value) {
  return broadcast_scalar(scalar(type->dtype, value), type->dims);
}

Value Builder::compare(const Value& x, const Value& y, std::string_view direction) {
  return make(Op::compare, {{x, y}}, intern_attrs({{Attr::direction, std::string(direction)}}));
}

Value Builder::convert(const Value& x, DType dtype) {
  if (x && x.dtype() == dtype) return x;
  return make(Op::convert, {{x}}, intern_attrs({{Attr::dtype, dtype}}));
}

Value Builder::bitcast_convert(const Value& x, DType dtype) {
  if (x && x.dtype() == dtype) return x;
  return make(Op::bitcast_convert, {{x}}, intern_attrs({{Attr::dtype, dtype}}));
}

namespace {
Dims to_dims(std::span<const int64_t> s) { return Dims(s.begin(), s.end()); }
}  // namespace

Value Builder::broadcast_in_dim(const Value& x, std::span<const int64_t> shape,
                                std::span<const int64_t> dims) {
  if (x && x.rank() == static_cast<int64_t>(shape.size()) &&
      std::equal(shape.begin(), shape.end(), x.dims().begin(), x.dims().end())) {
    bool in_order = true;
    for (size_t i = 0; i < dims.size(); ++i) in_order &= dims[i] == static_cast<int64_t>(i);
    if (in_order && dims.size() == shape.size()) return x;
  }
  return make(Op::broadcast_in_dim, {{x}},
              intern_attrs({{Attr::shape, to_dims(shape)}, {Attr::broadcast_dimensions, to_dims(dims)}}));
}

Value Builder::reshape(const Value& x, std::span<const int64_t> shape) {
  if (x && std::equal(shape.begin(), shape.end(), x.dims().begin(), x.dims().end())) return x;
  return make(Op::reshape, {{x}}, intern_attrs({{Attr::shape, to_dims(shape)}}));
}

Value Builder::transpose(const Value& x, std::span<const int64_t> permutation) {
  bool in_order = true;
  for (size_t i = 0; i < permutation.size(); ++i) in_order &= permutation[i] == static_cast<int64_t>(i);
  if (x && in_order && static_cast<int64_t>(permutation.size()) == x.rank()) return x;
  return make(Op::transpose, {{x}}, intern_attrs({{Attr::permutation, to_dims(permutation)}}));
}

Value Builder::move_dim(const Value& x, int64_t from, int64_t to) {
  if (!x) return x;
  Dims perm;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != from) perm.push_back(i);
  perm.insert(perm.begin() + to, from);
  return transpose(x, perm);
}

Value Builder::reverse(const Value& x, std::span<const int64_t> dims) {
  if (x && dims.empty()) return x;
  return make(Op::reverse, {{x}}, intern_attrs({{Attr::dimensions, to_dims(dims)}}));
}

Value Builder::slice(const Value& x, std::span<const int64_t> start, std::span<const int64_t> limit,
                     std::span<const int64_t> strides) {
  Dims step = strides.empty() ? Dims(start.size(), 1) : to_dims(strides);
  if (x && std::equal(limit.begin(), limit.end(), x.dims().begin(), x.dims().end()) &&
      std::all_of(start.begin(), start.end(), [](int64_t s) { return s == 0; }) &&
      std::all_of(step.begin(), step.end(), [](int64_t s) { return s == 1; }))
    return x;
  return make(Op::slice, {{x}},
              intern_attrs({{Attr::start_indices, to_dims(start)},
                            {Attr::limit_indices, to_dims(limit)},
                            {Attr::strides, std::move(step)}}));
}

Value Builder::pad(const Value& x, const Value& padding_value, std::span<const int64_t> low,
                   std::span<const int64_t> high, std::span<const int64_t> interior) {
  Dims inner = interior.empty() ? Dims(low.size(), 0) : to_dims(interior);
  return make(Op::pad, {{x, padding_value}},
              intern_attrs({{Attr::edge_padding_low, to_dims(low)},
                            {Attr::edge_padding_high, to_dims(high)},
                            {Attr::interior_padding, std::move(inner)}}));
}

Value Builder::concatenate(std::span<const Value> xs, int64_t dimension) {
  if (xs.size() == 1) return xs[0];
  return make(Op::concatenate, xs, intern_attrs({{Attr::dimension, dimension}}));
}

Value Builder::iota(DType dtype, std::span<const int64_t> shape, int64_t dimension) {
  return make(
      Op::iota, {},
      intern_attrs({{Attr::dtype, dtype}, {Attr::shape, to_dims(shape)}, {Attr::iota_dimension, dimension}}));
}

Value Builder::dynamic_slice(const Value& x, std::span<const Value> starts, std::span<const int64_t> sizes) {
  Values operands{x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return make(Op::dynamic_slice, operands, intern_attrs({{Attr::slice_sizes, to_dims(sizes)}}));
}

Value Builder::dynamic_update_slice(const Value& x, const Value& update, std::span<const Value> starts) {
  Values operands{x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return make(Op::dynamic_update_slice, operands);
}

Values Builder::reduce(std::span<const Value> operands, std::span<const Value> inits, ComputationPtr body,
                       std::span<const int64_t> dims) {
  Values all(operands.begin(), operands.end());
  all.insert(all.end(), inits.begin(), inits.end());
  return make_multi(Op::reduce, all,
                    intern_attrs({{Attr::dimensions, to_dims(dims)}, {Attr::body, std::move(body)}}));
}

Value Builder::reduce(const Value& x, Op op, const Value& init, std::span<const int64_t> dims) {
  if (!x || !init) return make(Op::reduce, {{x, init}});
  return reduce({{x}}, {{init}}, binary_region(op, x.dtype()), dims)[0];
}

Value Builder::reduce_sum(const Value& x, std::span<const int64_t> dims) {
  if (!x || dims.empty()) return x;
  return reduce(x, Op::add, scalar(x.dtype(), 0), dims);
}

Value Builder::dot_general(const Value& lhs, const Value& rhs, const DotDims& d) {
  return make(Op::dot_general, {{lhs, rhs}},
              intern_attrs({{Attr::lhs_batching_dimensions, d.lhs_batch},
                            {Attr::rhs_batching_dimensions, d.rhs_batch},
                            {Attr::lhs_contracting_dimensions, d.lhs_contract},
                            {Attr::rhs_contracting_dimensions, d.rhs_contract},
                            {Attr::precision, d.precision}}));
}

Value Builder::convolution(const Value& lhs, const Value& rhs, const ConvDims& d) {
  return make(Op::convolution, {{lhs, rhs}},
              intern_attrs({{Attr::window_strides, d.window_strides},
                            {Attr::padding, d.padding},
                            {Attr::lhs_dilation, d.lhs_dilation},
                            {Attr::rhs_dilation, d.rhs_dilation},
                            {Attr::input_batch_dimension, d.input_batch},
                            {Attr::input_feature_dimension, d.input_feature},
                            {Attr::input_spatial_dimensions, d.input_spatial},
                            {Attr::kernel_input_feature_dimension, d.kernel_input_feature},
                            {Attr::kernel_output_feature_dimension, d.kernel_output_feature},
                            {Attr::kernel_spatial_dimensions, d.kernel_spatial},
                            {Attr::output_batch_dimension, d.output_batch},
                            {Attr::output_feature_dimension, d.output_feature},
                            {Attr::output_spatial_dimensions, d.output_spatial},
                            {Attr::feature_group_count, d.feature_groups},
                            {Attr::batch_group_count, d.batch_groups},
                            {Attr::precision, d.precision}}));
}

ConvDims conv_dims(const Node& n) {
  const Attrs& a = n.attrs();
  ConvDims d;
  d.input_spatial = a.ints(Attr::input_spatial_dimensions);
  const size_t spatial = d.input_spatial.size();
  auto list = [&](Attr key, size_t count, int64_t fill) {
    const Dims& v = a.ints(key);
    return v.empty() ? Dims(count, fill) : v;
  };
  d.window_strides = list(Attr::window_strides, spatial, 1);
  d.padding = list(Attr::padding, 2 * spatial, 0);
  d.lhs_dilation = list(Attr::lhs_dilation, spatial, 1);
  d.rhs_dilation = list(Attr::rhs_dilation, spatial, 1);
  d.input_batch = a.integer(Attr::input_batch_dimension);
  d.input_feature = a.integer(Attr::input_feature_dimension);
  d.kernel_input_feature = a.integer(Attr::kernel_input_feature_dimension);
  d.kernel_output_feature = a.integer(Attr::kernel_output_feature_dimension);
  d.kernel_spatial = a.ints(Attr::kernel_spatial_dimensions);
  d.output_batch = a.integer(Attr::output_batch_dimension);
  d.output_feature = a.integer(Attr::output_feature_dimension);
  d.output_spatial = a.ints(Attr::output_spatial_dimensions);
  d.feature_groups = a.integer(Attr::feature_group_count);
  d.batch_groups = a.integer(Attr::batch_group_count);
  d.precision = a.string(Attr::precision);
  return d;
}

Value Builder::cumsum(const Value& x, int64_t dimension, bool reverse) {
  return make(Op::cumsum, {{x}}, intern_attrs({{Attr::dimension, dimension}, {Attr::reverse, reverse}}));
}

Values Builder::reduce_window(std::span<const Value> operands, std::span<const Value> inits,
                              ComputationPtr body, const WindowDims& w) {
  Values all(operands.begin(), operands.end());
  all.insert(all.end(), inits.begin(), inits.end());
  return make_multi(Op::reduce_window, all,
                    intern_attrs({{Attr::window_dimensions, w.dimensions},
                                  {Attr::window_strides, w.strides},
                                  {Attr::base_dilations, w.base_dilations},
                                  {Attr::window_dilations, w.window_dilations},
                                  {Attr::padding, w.padding},
                                  {Attr::body, std::move(body)}}));
}

Values Builder::while_loop(std::span<const Value> carries, ComputationPtr cond, ComputationPtr body) {
  return make_multi(Op::while_, carries,
                    intern_attrs({{Attr::cond, std::move(cond)}, {Attr::body, std::move(body)}}));
}

Values Builder::conditional(const Value& index, std::span<const ComputationPtr> branches,
                            std::span<const Value> operands) {
  Values all{index};
  all.insert(all.end(), operands.begin(), operands.end());
  return make_multi(
      Op::case_, all,
      intern_attrs({{Attr::branches, std::vector<ComputationPtr>(branches.begin(), branches.end())}}));
}

Values Builder::scan(ComputationPtr body, std::span<const Value> carries, std::span<const Value> xs,
                     int64_t length, bool reverse) {
  Values all(carries.begin(), carries.end());
  all.insert(all.end(), xs.begin(), xs.end());
  return make_multi(Op::scan, all,
                    intern_attrs({{Attr::body, std::move(body)},
                                  {Attr::num_carry, static_cast<int64_t>(carries.size())},
                                  {Attr::length, length},
                                  {Attr::reverse, reverse}}));
}

Values Builder::call(ComputationPtr body, std::span<const Value> operands) {
  const ComputationPtr called = body;
  Values out = make_multi(Op::call, operands, intern_attrs({{Attr::body, std::move(body)}}));
  if (!ok()) return out;
  for (size_t i = 0; i < out.size(); ++i)
    for (size_t k = 0; k < operands.size(); ++k)
      if (called->roots()[i] == called->parameters()[k]) out[i] = operands[k];
  return out;
}

Value Builder::add_any(const Value& x, const Value& y) {
  if (!x) return y;
  if (!y) return x;
  return add(x, y);
}

absl::StatusOr<ComputationPtr> record_region(
    std::span<const Type* const> types,
    const std::function<Values(Builder& b, std::span<const Value> parameters)>& record) {
  GraphLock lock;
  Values parameters;
  for (const Type* t : types) parameters.push_back(make_parameter(t));
  Builder b;
  Values results = record(b, parameters);
  if (!b.ok()) return b.status();
  return Computation::make(parameters, results);
}

ComputationPtr binary_region(Op op, DType dtype) {
  const Type* t = scalar_type(dtype);
  absl::StatusOr<ComputationPtr> region = record_region({{t, t}}, [&](Builder& b, std::span<const Value> p) {
    return Values{b.make(op, {{p[0], p[1]}})};
  });
  if (!region.ok()) std::abort();  // only for ops and types that the caller knows to fit
  return *region;
}

}  // namespace lamina::hlo
