// All rows by name. An elementwise operation that needs no attributes has none: its name is our op's.
#include <memory>

#include "hlo/hash_map.h"
#include "hlo/linalg/calls.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/stablehlo/importer.h"
#include "hlo/stablehlo/plain_op.h"

namespace lamina::hlo::stablehlo {
namespace {

using Table = HashMap<std::string_view, OpRow>;

const Table& table() {
  static constinit Once<const Table> t;
  return t.get([] {
    auto made = std::make_unique<Table>();
    for (const auto rows : {elementwise_rows(), shape_rows(), indexing_rows(), reduction_rows(),
                            linear_rows(), control_rows(), dynamic_rows(), check_rows(), custom_call_op(),
                            linear_algebra_rows(), statistics_rows(), special_rows(), quantized_rows()})
      for (const NamedRow& r : rows) made->emplace(r.name, r.row);
    return made.release();
  });
}

const Table& custom_calls() {
  static constinit Once<const Table> t;
  return t.get([] {
    auto made = std::make_unique<Table>();
    for (const NamedRow& r : custom_call_rows()) made->emplace(r.name, r.row);
    for (const NamedRow& r : check_rows()) made->emplace(r.name, r.row);
    for (const NamedRow& r : linear_algebra_calls()) made->emplace(r.name, r.row);
    return made.release();
  });
}

// Our elementwise op of that name, if it needs no attributes.
std::optional<Op> plain_op(std::string_view name) {
  const std::optional<Op> op = parse_op(name);
  return op && is_plain(op_def(*op)) ? op : std::nullopt;
}

void elementwise(OpReader& r) { r.yield(r.b.make(*plain_op(r.name()), r.ins())); }

// chlo.broadcast_add: operands spread over their common shape first.
void broadcasting(OpReader& r) {
  const std::string_view name = r.name().substr(std::string_view("broadcast_").size());
  Values xs = r.ins();
  if (xs.empty()) return r.fail("needs operands");
  size_t rank = 0;
  for (const Value& x : xs) rank = std::max(rank, x.dims().size());
  const Dims placed = r.ints({"broadcast_dimensions"});
  Dims shape(rank, 1);
  std::vector<Dims> at;
  for (const Value& x : xs) {
    Dims dims;
    for (int64_t d = 0; d < x.rank(); ++d)
      dims.push_back(x.dims().size() < rank && static_cast<int64_t>(placed.size()) == x.rank()
                         ? placed[d]
                         : static_cast<int64_t>(rank) - x.rank() + d);
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (dims[d] < 0 || dims[d] >= static_cast<int64_t>(rank))
        return r.fail("broadcast_dimensions are out of range");
      int64_t& size = shape[dims[d]];
      if (size != 1 && x.dims()[d] != 1 && size != x.dims()[d])
        return r.fail(str_cat("shapes ", dims_to_string(xs[0].dims()), " and ", dims_to_string(x.dims()),
                              " do not broadcast together"));
      if (x.dims()[d] != 1) size = x.dims()[d];
    }
    at.push_back(std::move(dims));
  }
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = r.b.broadcast_in_dim(xs[i], shape, at[i]);
  if (name == "compare") {
    std::vector<Attrs::Entry> attrs{{Attr::direction, r.word({"comparison_direction"})}};
    if (r.word({"compare_type"}) == "TOTALORDER")
      attrs.emplace_back(Attr::compare_type, std::string("TOTALORDER"));
    return r.yield(r.b.make(Op::compare, xs, intern_attrs(std::move(attrs))));
  }
  if (const std::optional<Op> op = plain_op(name)) return r.yield(r.b.make(*op, xs));
  r.fail(str_cat("there is no operation ", name));
}

}  // namespace

OpRow find_op_row(std::string_view name) {
  if (const auto it = table().find(name); it != table().end()) return it->second;
  const bool ours = name.starts_with("stablehlo.") || name.starts_with("chlo.");
  if (!ours) return nullptr;
  const std::string_view bare = name.substr(name.find('.') + 1);
  if (bare.starts_with("broadcast_")) return broadcasting;
  return plain_op(bare) ? elementwise : nullptr;
}

OpRow find_custom_call_row(std::string_view target) {
  if (const auto it = custom_calls().find(target); it != custom_calls().end()) return it->second;
  return linalg::find_routine(target) ? routine_row : nullptr;
}

}  // namespace lamina::hlo::stablehlo
