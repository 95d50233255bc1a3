// Operations on quantized arrays as operations on their integers, or on the numbers these stand for.
//
// Quantized types live in the text alone: a value is its integers, and beside it stands what these mean. An
// operation on numbers runs on the floats that its operands stand for, and its results are quantized again;
// one that moves elements moves integers; regions hold quantized operations of their own. The difference of
// integer and zero point is taken in integers that hold it, where the specification's formula would overflow
// in the storage type.
#include <algorithm>
#include <cstring>
#include <memory>

#include "hlo/hash_map.h"
#include "hlo/once.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// --- integers and the numbers they stand for ---

// One value for each index of the quantized dimension, or for all, in the shape of `like`.
template <typename T>
Value spread(Builder& b, const Value& like, const Quantization& q, DType dtype,
             const std::vector<T>& values) {
  if (!like) return Value();
  if (!q.is_per_axis())
    return b.broadcast_scalar(b.scalar(dtype, static_cast<double>(values[0])), like.dims());
  const auto n = static_cast<int64_t>(values.size());
  if (q.dimension >= like.rank() || like.dims()[q.dimension] != n)
    return b.fail(
        absl::InvalidArgumentError(str_cat(hlo::to_string(*like.type()), " is not quantized along dimension ",
                                           q.dimension, " by ", n, " scales")));
  const auto list = std::make_shared<Literal>(array_type_or_die(dtype, Dims{n}));
  for (int64_t i = 0; i < n; ++i)
    std::memcpy(list->element(i), Literal::scalar(dtype, static_cast<double>(values[i]))->data(),
                byte_size(dtype));
  return b.broadcast_in_dim(b.constant(list), like.dims(), Dims{q.dimension});
}

bool has_zero_points(const Quantization& q) {
  return std::any_of(q.zero_points.begin(), q.zero_points.end(), [](int64_t z) { return z != 0; });
}

// (i - zero_point) * scale, the difference in integers that hold it.
Value dequantize(Builder& b, Value x, const Quantization& q) {
  if (has_zero_points(q)) {
    const DType wide = byte_size(q.storage) < 4 ? DType::kS32 : DType::kS64;
    x = b.convert(x, wide);
    x = b.subtract(x, spread(b, x, q, wide, q.zero_points));
  }
  const Value number = b.convert(x, q.expressed);
  return b.multiply(number, spread(b, number, q, q.expressed, q.scales));
}

// The bounds as numbers may lie outside of the bounds, and NaN is stored as 0 would be.
bool needs_integer_bounds(const Quantization& q) {
  auto is_exact = [&](int64_t bound) {
    return Literal::scalar(q.expressed, static_cast<double>(bound))->double_at(0) ==
           static_cast<double>(bound);
  };
  return !is_exact(q.min) || !is_exact(q.max) || q.min > 0 || q.max < 0;
}

// x / scale + zero_point within the bounds, to the nearest integer, ties to even.
Value quantize(Builder& b, Value x, const Quantization& q) {
  if (!x) return x;
  x = b.divide(x, spread(b, x, q, q.expressed, q.scales));
  if (has_zero_points(q)) x = b.add(x, spread(b, x, q, q.expressed, q.zero_points));
  auto bound = [&](const Value& like, int64_t value) {
    return like ? b.broadcast_scalar(b.scalar(like.dtype(), static_cast<double>(value)), like.dims())
                : Value();
  };
  x = b.make(Op::clamp, {{bound(x, q.min), x, bound(x, q.max)}});
  x = b.make(Op::round_nearest_even, {{x}});
  if (needs_integer_bounds(q)) {
    x = b.convert(x, DType::kS64);
    x = b.make(Op::clamp, {{bound(x, q.min), x, bound(x, q.max)}});
  }
  return b.convert(x, q.storage);
}

// --- what an operation asks of its types; an empty message where that holds ---

struct Quantized {
  const OpTree& tree;
  std::span<const Item* const> items;
  OpReader& reader;

  const Quantization* in(size_t i) const { return i < items.size() ? items[i]->quantization : nullptr; }
  const Quantization* out(size_t i) const {
    const TypeTree* t = declared_type(tree, i);
    return t && t->is_array() ? t->quantization.get() : nullptr;
  }
};
using Check = std::string (*)(const Quantized& op);
using Quantizations = std::vector<const Quantization*>;

std::string described(const Quantization* q) { return q ? to_string(*q) : "not quantized"; }

bool equal(const Quantization* a, const Quantization* b) { return a == b || (a && b && *a == *b); }

// Equal but for scales and zero points.
bool alike(const Quantization* a, const Quantization* b) {
  return a && b && a->storage == b->storage && a->expressed == b->expressed && a->min == b->min &&
         a->max == b->max && a->dimension == b->dimension;
}

std::string one_scale(const Quantizations& all) {
  for (const Quantization* q : all)
    if (q && q->is_per_axis())
      return str_cat("takes and gives arrays with one scale, not with one for each index of dimension ",
                     q->dimension);
  return {};
}

std::string all_alike(const Quantizations& all) {
  if (std::string message = one_scale(all); !message.empty()) return message;
  for (const Quantization* q : all)
    if (!alike(all[0], q))
      return str_cat("its types must have the same storage, bounds and expressed type, and are ",
                     described(all[0]), " and ", described(q));
  return {};
}

Quantizations operands(const Quantized& op, size_t first = 0, size_t last = SIZE_MAX) {
  Quantizations all;
  for (size_t i = first; i < std::min(last, op.items.size()); ++i) all.push_back(op.in(i));
  return all;
}
Quantizations results(const Quantized& op) {
  Quantizations all;
  for (size_t i = 0; i < num_results(op.tree); ++i) all.push_back(op.out(i));
  return all;
}
Quantizations joined(Quantizations a, const Quantizations& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string everything_alike(const Quantized& op) { return all_alike(joined(operands(op), results(op))); }
std::string operands_alike(const Quantized& op) { return all_alike(operands(op)); }
std::string choices_alike(const Quantized& op) { return all_alike(joined(operands(op, 1), results(op))); }
std::string one_scaled_results(const Quantized& op) { return one_scale(results(op)); }

// The only elementwise operation along a quantized dimension.
std::string add(const Quantized& op) {
  const Quantization *x = op.in(0), *y = op.in(1), *z = op.out(0);
  for (const Quantization* q : {x, y, z})
    if (!q || !z || q->storage != z->storage || q->expressed != z->expressed)
      return str_cat("its types must have the same storage and expressed type, and are ", described(x), ", ",
                     described(y), " and ", described(z));
  if ((x->is_per_axis() || y->is_per_axis()) != z->is_per_axis())
    return "its result is quantized along a dimension just where an operand is";
  for (const Quantization* q : {x, y})
    if (q->is_per_axis() && q->dimension != z->dimension)
      return str_cat("an operand is quantized along dimension ", q->dimension, ", the result along ",
                     z->dimension);
  return {};
}

std::string products(const Quantized& op) {
  const Quantization *x = op.in(0), *y = op.in(1), *z = op.out(0);
  if (!y) return "its right operand must be quantized where another type is";
  if (!x != !z) return "its left operand and its result must both be quantized, or neither";
  if (!x) {
    const TypeTree* t = declared_type(op.tree, 0);
    const Value left = op.reader.in(0);
    if (left && t && (left.dtype() != y->expressed || t->dtype != y->expressed))
      return str_cat("its left operand and its result must be ", info(y->expressed).name,
                     ", which the right one expresses");
    return {};
  }
  if (x->is_per_axis()) return "its left operand must have one scale";
  if (x->storage != y->storage) return "its operands must have the same storage type";
  if (x->expressed != y->expressed || x->expressed != z->expressed)
    return "its operands and its result must have the same expressed type";
  if (!y->is_per_axis() && z->is_per_axis())
    return "its result is quantized along a dimension only where the right operand is";
  return {};
}

std::string dot_of(const Quantized& op, const Dims& contracted) {
  if (std::string message = products(op); !message.empty()) return message;
  const Quantization* y = op.in(1);
  if (has_zero_points(*y)) return "the zero points of its right operand must be 0";
  if (std::find(contracted.begin(), contracted.end(), y->dimension) != contracted.end())
    return "its right operand must not be quantized along a contracted dimension";
  return {};
}
std::string dot_general(const Quantized& op) { return dot_of(op, read_dot_dims(op.reader).rhs_contract); }
std::string dot(const Quantized& op) { return dot_of(op, Dims{0}); }

std::string convolution(const Quantized& op) {
  if (std::string message = products(op); !message.empty()) return message;
  ConvDims d;
  read_layouts(op.reader, &d);
  const Quantization *y = op.in(1), *z = op.out(0);
  if (y->is_per_axis() && y->dimension != d.kernel_output_feature)
    return "its right operand is quantized along the kernel's output features only";
  if (z && z->is_per_axis() && z->dimension != d.output_feature)
    return "its result is quantized along the output features only";
  return {};
}

std::string uniform_quantize(const Quantized& op) {
  const Quantization *x = op.in(0), *z = op.out(0);
  if (!z) return "its result must be quantized";
  const Value v = op.reader.in(0);
  if (v && (x ? x->expressed : v.dtype()) != z->expressed)
    return str_cat("its result expresses ", info(z->expressed).name, ", its operand is ",
                   info(x ? x->expressed : v.dtype()).name);
  return {};
}

std::string uniform_dequantize(const Quantized& op) {
  const Quantization* x = op.in(0);
  const TypeTree* t = declared_type(op.tree, 0);
  if (!x) return "its operand must be quantized";
  if (op.out(0) || (t && t->dtype != x->expressed))
    return str_cat("its result must be ", info(x->expressed).name, ", which its operand expresses");
  return {};
}

// --- operations that move integers ---

std::string all_equal(const Quantizations& all) {
  for (const Quantization* q : all)
    if (!equal(all[0], q))
      return str_cat("its types must be quantized in the same way, and are ", described(all[0]), " and ",
                     described(q));
  return {};
}

// The first `kData` operands and the result (all operands: 0), with one scale.
template <size_t kData>
std::string moved(const Quantized& op) {
  const Quantizations all = joined(operands(op, 0, kData == 0 ? SIZE_MAX : kData), results(op));
  const std::string message = one_scale(all);
  return message.empty() ? all_equal(all) : message;
}

// Result i like operand i.
std::string passed_on(const Quantized& op) {
  for (size_t i = 0; i < std::min(op.items.size(), num_results(op.tree)); ++i)
    if (std::string message = all_equal({op.in(i), op.out(i)}); !message.empty()) return message;
  return {};
}

// One operand and the result, whose quantized dimensions `places` relates; scales may be repeated if
// `repeats`.
std::string turned(const Quantized& op, std::string_view how,
                   bool (*fits)(const Quantized& op, int64_t from, int64_t to), bool repeats) {
  const Quantization *x = op.in(0), *z = op.out(0);
  if (!x || !z || !x->is_per_axis() || !z->is_per_axis()) return all_equal({x, z});
  const Value v = op.reader.in(0);
  if (!v) return {};
  Quantization placed = *x;
  placed.dimension = z->dimension;
  if (repeats && v.dims()[x->dimension] == 1) {
    placed.scales.assign(z->scales.size(), x->scales[0]);
    placed.zero_points.assign(z->scales.size(), x->zero_points[0]);
  }
  if (!(placed == *z) || !fits(op, x->dimension, z->dimension))
    return str_cat("its result, ", described(z), ", is not the operand, ", described(x), ", ", how);
  return {};
}

std::string transpose(const Quantized& op) {
  return turned(
      op, "transposed",
      [](const Quantized& o, int64_t from, int64_t to) {
        const Dims permutation = o.reader.ints({"permutation", "dims"});
        return to < static_cast<int64_t>(permutation.size()) && permutation[to] == from;
      },
      false);
}

std::string broadcast_in_dim(const Quantized& op) {
  return turned(
      op, "broadcast",
      [](const Quantized& o, int64_t from, int64_t to) {
        const Dims dims = o.reader.ints({"broadcast_dimensions", "dims"});
        return from < static_cast<int64_t>(dims.size()) && dims[from] == to;
      },
      true);
}

// As many elements stand before and behind the quantized dimension.
std::string reshape(const Quantized& op) {
  return turned(
      op, "reshaped",
      [](const Quantized& o, int64_t from, int64_t to) {
        const Value v = o.reader.in(0);
        const Type* t = o.reader.declared();
        if (!v || !t) return true;
        auto product = [](const Dims& dims, int64_t first, int64_t last) {
          int64_t n = 1;
          for (int64_t d = first; d < last; ++d) n *= dims[d];
          return n;
        };
        const auto rank = static_cast<int64_t>(t->dims.size());
        return product(v.dims(), 0, from) == product(t->dims, 0, to) &&
               product(v.dims(), from + 1, v.rank()) == product(t->dims, to + 1, rank);
      },
      false);
}

// --- operations with regions: their blocks take and return arrays quantized as these are ---

std::string region(const Quantized& op, size_t index, const Quantizations& taken,
                   const Quantizations& returned) {
  if (index >= op.tree.regions.size()) return {};
  const RegionTree& r = op.tree.regions[index];
  for (size_t i = 0; i < std::min(taken.size(), r.arguments.size()); ++i)
    if (!equal(r.arguments[i].type.quantization.get(), taken[i]))
      return str_cat("argument ", i, " of its region is ", described(r.arguments[i].type.quantization.get()),
                     ", and is given ", described(taken[i]));
  if (r.ops.empty()) return {};
  const std::vector<TypeTree>& types = r.ops.back().types;
  for (size_t i = 0; i < std::min(returned.size(), types.size()); ++i)
    if (!equal(types[i].quantization.get(), returned[i]))
      return str_cat("result ", i, " of its region is ", described(types[i].quantization.get()), ", not ",
                     described(returned[i]));
  return {};
}

Quantizations part(const Quantized& op, size_t first, size_t count) {
  Quantizations all;
  for (size_t i = first; i < first + count; ++i) all.push_back(op.in(i));
  return all;
}

// Arrays, then as many initial values or updates behind `kBetween` operands.
template <size_t kBetween>
std::string accumulated(const Quantized& op) {
  const size_t n = op.items.size() > kBetween ? (op.items.size() - kBetween) / 2 : 0;
  const Quantizations arrays = part(op, 0, n), others = part(op, n + kBetween, n);
  for (size_t i = 0; i < n; ++i) {
    const Quantizations all = {arrays[i], others[i], op.out(i)};
    if (std::string message = one_scale(all); !message.empty()) return message;
    if (std::string message = all_equal(all); !message.empty()) return message;
  }
  return region(op, 0, joined(arrays, arrays), arrays);
}

std::string select_and_scatter(const Quantized& op) {
  if (std::string message = moved<0>(op); !message.empty()) return message;
  const Quantizations two = {op.in(0), op.in(0)};
  const std::string message = region(op, 0, two, {nullptr});
  return message.empty() ? region(op, 1, two, {op.in(0)}) : message;
}

std::string sort(const Quantized& op) {
  if (std::string message = one_scale(operands(op)); !message.empty()) return message;
  if (std::string message = passed_on(op); !message.empty()) return message;
  Quantizations pairs;
  for (size_t i = 0; i < 2 * op.items.size(); ++i) pairs.push_back(op.in(i / 2));
  return region(op, 0, pairs, {nullptr});
}

std::string map(const Quantized& op) {
  if (std::string message = one_scale(joined(operands(op), results(op))); !message.empty()) return message;
  return region(op, 0, operands(op), results(op));
}

std::string while_loop(const Quantized& op) {
  if (std::string message = passed_on(op); !message.empty()) return message;
  if (std::string message = region(op, 0, operands(op), {nullptr}); !message.empty()) return message;
  return region(op, 1, operands(op), operands(op));
}

std::string branches(const Quantized& op) {
  for (size_t i = 0; i < op.tree.regions.size(); ++i)
    if (std::string message = region(op, i, {}, results(op)); !message.empty()) return message;
  return {};
}

std::string anything(const Quantized&) { return {}; }

// --- all of them ---

struct Rule {
  bool on_numbers;  // else on the integers
  Check check;
};

const HashMap<std::string_view, Rule>& rules() {
  static constinit Once<const HashMap<std::string_view, Rule>> all;
  return all.get([] {
    auto made = std::make_unique<HashMap<std::string_view, Rule>>();
    auto put = [&](bool on_numbers, Check check, std::initializer_list<std::string_view> names) {
      for (const std::string_view name : names) made->emplace(name, Rule{on_numbers, check});
    };
    put(true, everything_alike,
        {"abs",
         "atan2",
         "cbrt",
         "ceil",
         "clamp",
         "cosine",
         "divide",
         "floor",
         "log",
         "logistic",
         "maximum",
         "minimum",
         "multiply",
         "negate",
         "power",
         "rsqrt",
         "sign",
         "remainder",
         "sine",
         "sqrt",
         "subtract",
         "tan",
         "tanh",
         "cholesky",
         "triangular_solve",
         "exponential",
         "exponential_minus_one",
         "log_plus_one",
         "reduce_precision",
         "round_nearest_afz",
         "round_nearest_even",
         "batch_norm_grad",
         "batch_norm_inference",
         "batch_norm_training"});
    put(true, operands_alike, {"compare", "is_finite"});
    put(true, choices_alike, {"select"});
    put(true, one_scaled_results, {"iota", "dynamic_iota"});
    put(true, add, {"add"});
    put(true, dot_general, {"dot_general"});
    put(true, dot, {"dot"});
    put(true, convolution, {"convolution", "dynamic_conv"});
    put(true, uniform_quantize, {"uniform_quantize"});
    put(true, uniform_dequantize, {"uniform_dequantize"});
    put(false, moved<0>, {"concatenate"});
    put(false, moved<1>,
        {"slice", "real_dynamic_slice", "reverse", "gather", "dynamic_gather", "dynamic_slice"});
    put(false, moved<2>, {"pad", "dynamic_pad", "dynamic_update_slice"});
    put(false, passed_on,
        {"optimization_barrier", "set_dimension_size", "custom_call", "all_gather", "all_reduce",
         "all_to_all", "reduce_scatter", "collective_broadcast", "collective_permute"});
    put(false, transpose, {"transpose"});
    put(false, broadcast_in_dim, {"broadcast_in_dim", "dynamic_broadcast_in_dim"});
    put(false, reshape, {"reshape", "dynamic_reshape"});
    put(false, accumulated<0>, {"reduce", "reduce_window"});
    put(false, accumulated<1>, {"scatter"});
    put(false, select_and_scatter, {"select_and_scatter"});
    put(false, sort, {"sort"});
    put(false, map, {"map"});
    put(false, while_loop, {"while"});
    put(false, branches, {"if", "case"});
    put(false, anything,
        {"constant", "tuple", "get_tuple_element", "get_dimension_size", "bitcast_convert", "call",
         "composite"});
    return made.release();
  });
}

TypeTree expressed(TypeTree t) {
  if (t.quantization) t.dtype = t.quantization->expressed;
  t.quantization.reset();
  return t;
}

// The operand: what it stands for, or what stands for it, comes from its types.
void itself(OpReader& r) {
  const Value x = r.in(0);
  if (x && !is_float(x.dtype())) return r.fail("has no quantized type");
  r.yield(x);
}

void needs_types(OpReader& r) { r.fail("its result, or its operand, must have a quantized type"); }

constexpr NamedRow kQuantizedRows[] = {
    {"stablehlo.uniform_quantize", needs_types},
    {"stablehlo.uniform_dequantize", needs_types},
};

}  // namespace

std::span<const NamedRow> quantized_rows() { return kQuantizedRows; }

absl::Status Importer::check_quantized_operands(const OpTree& tree,
                                                std::span<const Item* const> items) const {
  if (tree.types.size() != 1 && tree.types.size() != items.size()) return absl::OkStatus();
  for (size_t i = 0; i < items.size(); ++i) {
    const TypeTree& t = tree.types.size() == 1 ? tree.types[0] : tree.types[i];
    if (t.is_array() && !equal(t.quantization.get(), items[i]->quantization))
      return error(tree.at, str_cat(tree.shown(), ": operand ", i, " is ", described(items[i]->quantization),
                                    ", and is called ", described(t.quantization.get())));
  }
  return absl::OkStatus();
}

absl::Status Importer::check_quantized_results(const FunctionTree& f) const {
  const OpTree& end = f.body.ops.back();
  for (size_t i = 0; i < std::min(f.results.size(), end.types.size()); ++i)
    if (!equal(f.results[i].quantization.get(), end.types[i].quantization.get()))
      return error(end.at,
                   str_cat("result ", i, " of @", f.name, " is ", described(end.types[i].quantization.get()),
                           ", not ", described(f.results[i].quantization.get())));
  return absl::OkStatus();
}

absl::Status Importer::check_quantized_call(const OpTree& tree, std::span<const Item* const> items) const {
  if (tree.name != "call" && tree.name != "func.call" && tree.name != "stablehlo.composite")
    return absl::OkStatus();
  std::string_view name;
  for (const Field& f : tree.attrs)
    if (f.value.kind == AttrTree::Kind::kSymbol &&
        (f.name.empty() || f.name == "callee" || f.name == "decomposition"))
      name = f.value.text;
  const auto callee = functions_.find(name);
  if (callee == functions_.end()) return absl::OkStatus();
  const FunctionTree& f = *callee->second.tree;
  for (size_t i = 0; i < std::min(items.size(), f.body.arguments.size()); ++i)
    if (const TypeTree& t = f.body.arguments[i].type; !equal(t.quantization.get(), items[i]->quantization))
      return error(tree.at, str_cat(tree.shown(), ": argument ", i, " of @", name, " is ",
                                    described(t.quantization.get()), ", and is given ",
                                    described(items[i]->quantization)));
  for (size_t i = 0; i < f.results.size(); ++i)
    if (const TypeTree* t = declared_type(tree, i);
        t && !equal(t->quantization.get(), f.results[i].quantization.get()))
      return error(tree.at, str_cat(tree.shown(), ": result ", i, " of @", name, " is ",
                                    described(f.results[i].quantization.get()), ", and is called ",
                                    described(t->quantization.get())));
  return absl::OkStatus();
}

absl::Status Importer::run_quantized(OpRow row, const OpTree& tree, Scope& scope,
                                     std::vector<const Item*> items, std::vector<Item>* results) {
  LAMINA_RETURN_IF_ERROR(check_quantized_operands(tree, items));
  OpReader reader(*this, tree, scope, items);
  const auto rule = rules().find(reader.name());
  if (rule == rules().end())
    return error(tree.at, str_cat(tree.shown(),
                                  ": is not defined on quantized arrays; uniform_dequantize gives the "
                                  "numbers they stand for"));
  const std::string message = rule->second.check({tree, items, reader});
  if (!message.empty()) reader.fail(message);
  if (!reader.inner().ok()) return reader.inner();
  if (!reader.ok()) return error(tree.at, str_cat(tree.shown(), ": ", view(reader.status())));
  if (!rule->second.on_numbers) return run(row, tree, scope, std::move(items), results);

  OpTree on_numbers = tree;
  for (std::vector<TypeTree>* types : {&on_numbers.types, &on_numbers.result_types})
    for (TypeTree& t : *types) t = expressed(std::move(t));
  Builder b;
  std::vector<Item> numbers;
  for (const Item* item : items) {
    numbers.push_back(*item);
    if (!item->quantization) continue;
    numbers.back().quantization = nullptr;
    for (Value& v : numbers.back().flat) v = dequantize(b, v, *item->quantization);
  }
  for (size_t i = 0; i < items.size(); ++i) items[i] = &numbers[i];
  if (!b.ok()) return error(tree.at, str_cat(tree.shown(), ": ", view(b.status())));
  LAMINA_RETURN_IF_ERROR(
      run(row == needs_types ? itself : row, on_numbers, scope, std::move(items), results));
  for (size_t i = 0; i < results->size(); ++i) {
    const TypeTree* t = declared_type(tree, i);
    if (t && t->quantization)
      for (Value& v : (*results)[i].flat) v = quantize(b, v, *t->quantization);
  }
  return b.ok() ? absl::OkStatus() : error(tree.at, str_cat(tree.shown(), ": ", view(b.status())));
}

}  // namespace lamina::hlo::stablehlo
