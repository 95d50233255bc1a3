// Rows of the operations that move elements by run-time indices.
#include "hlo/stablehlo/importer.h"

namespace lamina::hlo::stablehlo {
namespace {

void dynamic_slice(OpReader& r) {
  r.yield(r.b.dynamic_slice(r.in(0), r.ins(1), r.ints({"slice_sizes", "sizes"})));
}

void dynamic_update_slice(OpReader& r) { r.yield(r.b.dynamic_update_slice(r.in(0), r.in(1), r.ins(2))); }

void gather(OpReader& r) {
  const std::vector<Field> d = r.fields({"dimension_numbers"});
  // dynamic_gather has the sizes as an operand.
  const Dims sizes = r.name() == "dynamic_gather" ? r.constant_ints(2) : r.ints({"slice_sizes"});
  r.yield(
      r.b.make(Op::gather, {{r.in(0), r.in(1)}},
               intern_attrs({{Attr::offset_dims, r.ints(d, "offset_dims")},
                             {Attr::collapsed_slice_dims, r.ints(d, "collapsed_slice_dims")},
                             {Attr::operand_batching_dims, r.ints(d, "operand_batching_dims")},
                             {Attr::start_indices_batching_dims, r.ints(d, "start_indices_batching_dims")},
                             {Attr::start_index_map, r.ints(d, "start_index_map")},
                             {Attr::index_vector_dim, r.integer(d, "index_vector_dim")},
                             {Attr::slice_sizes, sizes},
                             {Attr::indices_are_sorted, r.flag({"indices_are_sorted"})}})));
}

void scatter(OpReader& r) {
  const std::vector<Field> d = r.fields({"scatter_dimension_numbers"});
  const Values all = r.ins();
  std::vector<const Type*> scalars;
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < all.size() / 2; ++i) scalars.push_back(scalar_type(all[i].dtype()));
  const ComputationPtr body = r.region(0, scalars);
  if (!body) return;
  r.yield_all(r.b.make_multi(
      Op::scatter, all,
      intern_attrs({{Attr::update_window_dims, r.ints(d, "update_window_dims")},
                    {Attr::inserted_window_dims, r.ints(d, "inserted_window_dims")},
                    {Attr::input_batching_dims, r.ints(d, "input_batching_dims")},
                    {Attr::scatter_indices_batching_dims, r.ints(d, "scatter_indices_batching_dims")},
                    {Attr::scatter_dims_to_operand_dims, r.ints(d, "scatter_dims_to_operand_dims")},
                    {Attr::index_vector_dim, r.integer(d, "index_vector_dim")},
                    {Attr::indices_are_sorted, r.flag({"indices_are_sorted"})},
                    {Attr::unique_indices, r.flag({"unique_indices"})},
                    {Attr::body, body}})));
}

// Rows of `operand` along `dim` named by `index`, beside `batch_dims` dimensions that both share.
void torch_index_select(OpReader& r) {
  const Value x = r.in(0), index = r.in(1);
  const int64_t dim = r.integer({"dim"}), batch = r.integer({"batch_dims"});
  if (!x || !index) return;
  if (dim < batch || dim >= x.rank() || batch > index.rank())
    return r.fail("dim and batch_dims do not fit the operand");
  Dims sizes = x.dims(), shared, offset;
  for (int64_t d = 0; d < batch; ++d) {
    shared.push_back(d);
    sizes[d] = 1;
  }
  sizes[dim] = 1;
  // Result: dimensions of the operand, with those of the index (behind the shared ones) in the place of
  // `dim`.
  const int64_t inner = index.rank() - batch;
  for (int64_t d = batch; d < x.rank(); ++d)
    if (d != dim) offset.push_back(d < dim ? d : d - 1 + inner);
  r.yield(r.b.make(Op::gather, {{x, index}},
                   intern_attrs({{Attr::offset_dims, offset},
                                 {Attr::collapsed_slice_dims, Dims{dim}},
                                 {Attr::operand_batching_dims, shared},
                                 {Attr::start_indices_batching_dims, shared},
                                 {Attr::start_index_map, Dims{dim}},
                                 {Attr::index_vector_dim, index.rank()},
                                 {Attr::slice_sizes, sizes}})));
}

constexpr NamedRow kIndexingRows[] = {
    {"stablehlo.dynamic_slice", dynamic_slice},
    {"stablehlo.dynamic_update_slice", dynamic_update_slice},
    {"stablehlo.gather", gather},
    {"stablehlo.dynamic_gather", gather},
    {"stablehlo.scatter", scatter},
    {"stablehlo.torch_index_select", torch_index_select},
};

}  // namespace

std::span<const NamedRow> indexing_rows() { return kIndexingRows; }

}  // namespace lamina::hlo::stablehlo
