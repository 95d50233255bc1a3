// Rows of reductions, windows, sorting and map.
#include <algorithm>

#include "hlo/cumsum_window.h"
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

// Scalar types of the first `n` values, twice: accumulators, then elements.
std::vector<const Type*> twice(std::span<const Value> values) {
  std::vector<const Type*> out;
  for (int round = 0; round < 2; ++round)
    for (const Value& v : values) out.push_back(scalar_type(v.dtype()));
  return out;
}

// `reduce(...) applies op`: a region of that one operation.
ComputationPtr applied(OpReader& r, const std::string& op, std::span<const Type* const> types) {
  if (types.size() != 2) {
    r.fail("applies one operation to one array");
    return nullptr;
  }
  RegionTree region;
  region.at = r.tree().at;
  for (const std::string_view name : {"lhs", "rhs"}) {
    BlockArgument a;
    a.name = name;
    a.type.kind = TypeTree::Kind::kArray;
    a.type.dtype = types[0]->dtype;
    if (!r.tree().types.empty()) a.type.quantization = r.tree().types[0].quantization;
    region.arguments.push_back(std::move(a));
  }
  OpTree body, end;
  body.name = op;
  end.name = "stablehlo.return";
  body.at = end.at = region.at;
  body.operands = {{"lhs", 0, region.at}, {"rhs", 0, region.at}};
  body.results.push_back({"result", 1, region.at});
  if (region.arguments[0].type.quantization) body.types = end.types = {region.arguments[0].type};
  end.operands = {{"result", 0, region.at}};
  region.ops.push_back(std::move(body));
  region.ops.push_back(std::move(end));
  return r.region(region, types, {}, false);
}

void reduce(OpReader& r) {
  const Values all = r.ins();
  const std::span<const Value> arrays(all.data(), all.size() / 2);
  const std::vector<const Type*> types = twice(arrays);
  const ComputationPtr body =
      r.find({"applies"}) ? applied(r, r.word({"applies"}), types) : r.region(0, types);
  if (!body) return;
  r.yield_all(r.b.reduce(arrays, std::span(all).subspan(arrays.size()), body, r.ints({"dimensions"})));
}

void reduce_window(OpReader& r) {
  const Values all = r.ins();
  const std::span<const Value> arrays(all.data(), all.size() / 2);
  const ComputationPtr body = r.region(0, twice(arrays));
  if (!body) return;
  const auto inits = std::span(all).subspan(arrays.size());
  const WindowDims window{r.ints({"window_dimensions"}), r.ints({"window_strides"}),
                          r.ints({"base_dilations"}), r.ints({"window_dilations"}), r.ints({"padding"})};
  if (const Value sums = cumsum_of_window(r.b, arrays, inits, *body, window))
    r.yield(sums);
  else
    r.yield_all(r.b.reduce_window(arrays, inits, body, window));
}

void select_and_scatter(OpReader& r) {
  const Value x = r.in(0), source = r.in(1), init = r.in(2);
  if (!x || !source || !init) return;
  const Type* scalar = scalar_type(x.dtype());
  const ComputationPtr select = r.region(0, {{scalar, scalar}}), scatter = r.region(1, {{scalar, scalar}});
  if (!select || !scatter) return;
  r.yield(r.b.make(Op::select_and_scatter, {{x, source, init}},
                   intern_attrs({{Attr::window_dimensions, r.ints({"window_dimensions"})},
                                 {Attr::window_strides, r.ints({"window_strides"})},
                                 {Attr::padding, r.ints({"padding"})},
                                 {Attr::select, select},
                                 {Attr::scatter, scatter}})));
}

void sort(OpReader& r) {
  const Values xs = r.ins();
  std::vector<const Type*> types;
  for (const Value& x : xs) types.insert(types.end(), 2, scalar_type(x.dtype()));
  const ComputationPtr body = r.region(0, types);
  if (!body) return;
  int64_t dimension = r.integer({"dimension"}, -1);
  if (dimension < 0 && !xs.empty()) dimension += xs[0].rank();
  r.yield_all(r.b.make_multi(
      Op::sort, xs,
      intern_attrs(
          {{Attr::dimension, dimension}, {Attr::is_stable, r.flag({"is_stable"})}, {Attr::body, body}})));
}

// A scalar graph of elementwise operations, rebuilt on arrays of one shape.
Value lifted(OpReader& r, const Computation& body, std::span<const Value> arrays, const Dims& shape) {
  HashMap<const Node*, Values> made;
  for (size_t i = 0; i < arrays.size(); ++i) made[body.parameters()[i].node()] = {arrays[i]};
  for (const Node* n : body.nodes()) {
    if (made.contains(n)) continue;
    Values operands;
    for (Operand o : n->operands()) operands.push_back(made.at(o.node())[o.index()]);
    if (n->op() == Op::constant) {
      made[n] = {r.b.broadcast_scalar(r.b.constant(n->attrs().literal(Attr::value)), shape)};
    } else if (n->def().is_elementwise()) {
      made[n] = r.b.remake(*n, operands);
    } else {
      r.fail(str_cat("its region holds ", n->def().name, ", which is not elementwise"));
    }
    if (!r.ok()) return Value();
  }
  const Value& root = body.roots()[0];
  return made.at(root.node())[root.index()];
}

void map(OpReader& r) {
  const Values xs = r.ins();
  if (xs.empty()) return r.fail("needs at least one array");
  std::vector<const Type*> types;
  for (const Value& x : xs) types.push_back(scalar_type(x.dtype()));
  const ComputationPtr body = r.region(0, types);
  if (!body) return;
  if (body->roots().size() != 1) return r.fail("its region returns one scalar");
  r.yield(lifted(r, *body, xs, xs[0].dims()));
}

// The k greatest along the last dimension, NaN the greatest of all, equal ones in order of place.
void top_k(OpReader& r) {
  const Value x = r.in(0);
  const int64_t k = r.integer({"k"}, -1);
  if (!x) return;
  const int64_t last = x.rank() - 1;
  if (last < 0 || k < 0 || k > x.dims()[last]) return r.fail("k must lie within the last dimension");
  const Type *element = scalar_type(x.dtype()), *place = scalar_type(DType::kS32);
  absl::StatusOr<ComputationPtr> greater =
      record_region({{element, element, place, place}}, [&](Builder& b, std::span<const Value> p) {
        std::vector<Attrs::Entry> attrs{{Attr::direction, std::string("GT")}};
        if (is_float(element->dtype)) attrs.emplace_back(Attr::compare_type, std::string("TOTALORDER"));
        return Values{b.make(Op::compare, {{p[0], p[1]}}, intern_attrs(std::move(attrs)))};
      });
  if (!greater.ok()) return r.fail(view(greater.status()));
  const Values sorted = r.b.make_multi(
      Op::sort, {{x, r.b.iota(DType::kS32, x.dims(), last)}},
      intern_attrs({{Attr::dimension, last}, {Attr::is_stable, true}, {Attr::body, *greater}}));
  if (!r.ok()) return;
  Dims limit = x.dims();
  limit[last] = k;
  const Dims start(x.rank(), 0);
  r.yield(r.b.slice(sorted[0], start, limit));
  r.yield(r.b.slice(sorted[1], start, limit));
}

constexpr NamedRow kReductionRows[] = {
    {"stablehlo.reduce", reduce},
    {"stablehlo.reduce_window", reduce_window},
    {"stablehlo.select_and_scatter", select_and_scatter},
    {"stablehlo.sort", sort},
    {"stablehlo.map", map},
    {"chlo.top_k", top_k},
};

}  // namespace

std::span<const NamedRow> reduction_rows() { return kReductionRows; }

}  // namespace lamina::hlo::stablehlo
