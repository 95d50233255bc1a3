// Type and evaluation rules of the ops that move elements by run-time indices (StableHLO's meaning).
//
// Start indices of slices are clamped so that the slice fits; a gather clamps each slice likewise; a scatter
// skips updates that would fall outside.
#include <algorithm>

#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

absl::Status check_indices(Types indices, int64_t count) {
  if (static_cast<int64_t>(indices.size()) != count)
    return invalid("needs one start index per dimension: ", count, ", not ", indices.size());
  for (const Type* t : indices)
    if (!t->is_scalar() || !is_integer(t->dtype))
      return invalid("start indices are integer scalars, not ", to_string(*t));
  return absl::OkStatus();
}

TypeOr dynamic_slice_type(Types t, const Attrs& a) {
  if (t.empty()) return invalid("needs an array");
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Dims& sizes = a.ints(Attr::slice_sizes);
  LAMINA_RETURN_IF_ERROR(check_length("slice_sizes", sizes, t[0]->rank()));
  LAMINA_RETURN_IF_ERROR(check_indices(t.subspan(1), t[0]->rank()));
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 || sizes[i] > t[0]->dims[i])
      return invalid("slice size ", sizes[i], " of dimension ", i, " is not within its size ", t[0]->dims[i]);
  return array_type(t[0]->dtype, sizes);
}

TypeOr dynamic_update_slice_type(Types t, const Attrs&) {
  if (t.size() < 2) return invalid("needs an array and an update");
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t[1]->dtype != t[0]->dtype || t[1]->rank() != t[0]->rank())
    return invalid("the update ", to_string(*t[1]), " must have the element type and rank of ",
                   to_string(*t[0]));
  for (int64_t i = 0; i < t[0]->rank(); ++i)
    if (t[1]->dims[i] > t[0]->dims[i])
      return invalid("the update ", dims_to_string(t[1]->dims), " is larger than ",
                     dims_to_string(t[0]->dims));
  LAMINA_RETURN_IF_ERROR(check_indices(t.subspan(2), t[0]->rank()));
  return t[0];
}

// Dimensions of `rank` that are in neither list.
Dims others(int64_t rank, std::span<const int64_t> a, std::span<const int64_t> b = {}) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  return out;
}

absl::Status check_index_operand(const Type* indices, int64_t vector_dim, int64_t map_size) {
  if (!is_integer(indices->dtype))
    return invalid("indices must be integers, not ", info(indices->dtype).name);
  if (vector_dim < 0 || vector_dim > indices->rank())
    return invalid("index_vector_dim ", vector_dim, " must lie in 0..", indices->rank());
  const int64_t length = vector_dim == indices->rank() ? 1 : indices->dims[vector_dim];
  if (length != map_size)
    return invalid("index vectors have ", length, " entries but ", map_size, " dimensions are indexed");
  return absl::OkStatus();
}

// Results and updates hold window dimensions in the operand's order.
absl::Status check_ascending(std::string_view what, const Dims& dims) {
  if (std::is_sorted(dims.begin(), dims.end())) return absl::OkStatus();
  return invalid(what, " ", dims_to_string(dims), " must be in ascending order");
}

// A batching dimension is neither indexed nor left out of windows for another reason.
absl::Status check_batching(const Type* operand, const Type* indices, const Dims& operand_dims,
                            const Dims& indices_dims, int64_t vector_dim, const Dims& indexed,
                            const Dims& left_out) {
  LAMINA_RETURN_IF_ERROR(check_dims("operand batching dims", operand_dims, operand->rank()));
  for (const auto& [what, dims] :
       {std::pair<std::string_view, const Dims&>("indexed", indexed),
        std::pair<std::string_view, const Dims&>("collapsed or inserted", left_out)}) {
    Dims all = operand_dims;
    all.insert(all.end(), dims.begin(), dims.end());
    LAMINA_RETURN_IF_ERROR(check_dims(str_cat("operand batching and ", what, " dims"), all, operand->rank()));
  }
  LAMINA_RETURN_IF_ERROR(check_dims("indices batching dims", indices_dims, indices->rank()));
  LAMINA_RETURN_IF_ERROR(check_length("indices batching dims", indices_dims, operand_dims.size()));
  for (size_t i = 0; i < operand_dims.size(); ++i) {
    if (indices_dims[i] == vector_dim) return invalid("a batching dimension is the index vector dimension");
    if (operand->dims[operand_dims[i]] != indices->dims[indices_dims[i]])
      return invalid("batching dimensions of sizes ", operand->dims[operand_dims[i]], " and ",
                     indices->dims[indices_dims[i]], " differ");
  }
  return absl::OkStatus();
}

TypeOr gather_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Dims &offset = a.ints(Attr::offset_dims), &collapsed = a.ints(Attr::collapsed_slice_dims),
             &batching = a.ints(Attr::operand_batching_dims), &map = a.ints(Attr::start_index_map),
             &sizes = a.ints(Attr::slice_sizes);
  const int64_t rank = t[0]->rank(), vector_dim = a.integer(Attr::index_vector_dim);
  LAMINA_RETURN_IF_ERROR(check_index_operand(t[1], vector_dim, map.size()));
  LAMINA_RETURN_IF_ERROR(check_dims("start_index_map", map, rank));
  LAMINA_RETURN_IF_ERROR(check_dims("collapsed_slice_dims", collapsed, rank));
  LAMINA_RETURN_IF_ERROR(check_batching(t[0], t[1], batching, a.ints(Attr::start_indices_batching_dims),
                                        vector_dim, map, collapsed));
  LAMINA_RETURN_IF_ERROR(check_length("slice_sizes", sizes, rank));
  for (int64_t d = 0; d < rank; ++d) {
    if (sizes[d] < 0 || sizes[d] > t[0]->dims[d])
      return invalid("slice size ", sizes[d], " of dimension ", d, " is not within its size ", t[0]->dims[d]);
    if ((contains(collapsed, d) || contains(batching, d)) && sizes[d] > 1)
      return invalid("collapsed or batching dimension ", d, " must have slice size 1, not ", sizes[d]);
  }
  const Dims kept = others(rank, collapsed, batching);
  LAMINA_RETURN_IF_ERROR(check_length("offset_dims", offset, kept.size()));
  const Dims batch = others(t[1]->rank(), std::span(&vector_dim, 1));
  const int64_t out_rank = static_cast<int64_t>(batch.size() + offset.size());
  LAMINA_RETURN_IF_ERROR(check_dims("offset_dims", offset, out_rank));
  LAMINA_RETURN_IF_ERROR(check_ascending("offset_dims", offset));
  Dims out;
  size_t next_batch = 0, next_offset = 0;
  for (int64_t d = 0; d < out_rank; ++d)
    out.push_back(contains(offset, d) ? sizes[kept[next_offset++]] : t[1]->dims[batch[next_batch++]]);
  TypeOr type = array_type(t[0]->dtype, out);
  for (int64_t d : collapsed)
    if (type.ok() && (*type)->num_elements > 0 && sizes[d] == 0)
      return invalid("dimension ", d, " is empty: there is nothing to take from it");
  return type;
}

TypeOr scatter_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t.size() < 3 || t.size() % 2 == 0)
    return invalid("needs arrays, indices and as many updates as arrays");
  const size_t m = t.size() / 2;
  const Type* indices = t[m];
  const Dims &window = a.ints(Attr::update_window_dims), &inserted = a.ints(Attr::inserted_window_dims),
             &batching = a.ints(Attr::input_batching_dims), &map = a.ints(Attr::scatter_dims_to_operand_dims);
  const int64_t rank = t[0]->rank(), vector_dim = a.integer(Attr::index_vector_dim);
  LAMINA_RETURN_IF_ERROR(check_index_operand(indices, vector_dim, map.size()));
  LAMINA_RETURN_IF_ERROR(check_dims("scatter_dims_to_operand_dims", map, rank));
  LAMINA_RETURN_IF_ERROR(check_dims("inserted_window_dims", inserted, rank));
  LAMINA_RETURN_IF_ERROR(check_batching(t[0], indices, batching, a.ints(Attr::scatter_indices_batching_dims),
                                        vector_dim, map, inserted));
  const Dims kept = others(rank, inserted, batching);
  LAMINA_RETURN_IF_ERROR(check_length("update_window_dims", window, kept.size()));
  const Dims batch = others(indices->rank(), std::span(&vector_dim, 1));
  const int64_t update_rank = static_cast<int64_t>(batch.size() + window.size());
  LAMINA_RETURN_IF_ERROR(check_dims("update_window_dims", window, update_rank));
  LAMINA_RETURN_IF_ERROR(check_ascending("update_window_dims", window));
  for (size_t i = 0; i < m; ++i) {
    const Type *operand = t[i], *update = t[m + 1 + i];
    if (operand->dims != t[0]->dims) return invalid("arrays of different shapes cannot be updated together");
    if (update->dtype != operand->dtype || update->rank() != update_rank)
      return invalid("update ", i, " is ", to_string(*update), " where rank ", update_rank, " of ",
                     info(operand->dtype).name, " is needed");
    size_t next_batch = 0, next_window = 0;
    for (int64_t d = 0; d < update_rank; ++d) {
      if (contains(window, d)) {
        const int64_t limit = operand->dims[kept[next_window++]];
        if (update->dims[d] > limit)
          return invalid("update window dimension ", d, " of size ", update->dims[d], " is larger than ",
                         limit);
      } else if (const int64_t want = indices->dims[batch[next_batch++]]; update->dims[d] != want) {
        return invalid("update dimension ", d, " has size ", update->dims[d], " where the indices have ",
                       want);
      }
    }
  }
  LAMINA_RETURN_IF_ERROR(check_reduction_region(a.computation(Attr::body), t.first(m)));
  return results_type(t.first(m));
}

// --- evaluation ---

Dims clamped_starts(std::span<const LiteralPtr> indices, const Dims& dims, const Dims& sizes) {
  Dims out;
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t at = indices[i]->int_at(0);
    if (indices[i]->dtype() == DType::kU64 && at < 0) at = std::numeric_limits<int64_t>::max();
    out.push_back(std::clamp<int64_t>(at, 0, dims[i] - sizes[i]));
  }
  return out;
}

absl::Status eval_dynamic_slice(const Node&, EvalIn in, EvalOut out) {
  const Dims strides = row_major_strides(in[0]->dims());
  const int64_t base = linear_index(clamped_starts(in.subspan(1), in[0]->dims(), out[0]->dims()), strides);
  const int64_t width = byte_size(out[0]->dtype());
  for_each_index(out[0]->dims(), [&](std::span<const int64_t> index, int64_t linear) {
    std::memcpy(out[0]->element(linear), in[0]->element(base + linear_index(index, strides)), width);
  });
  return absl::OkStatus();
}

absl::Status eval_dynamic_update_slice(const Node&, EvalIn in, EvalOut out) {
  if (out[0]->bytes() > 0) std::memcpy(out[0]->data(), in[0]->data(), out[0]->bytes());
  const Dims strides = row_major_strides(in[0]->dims());
  const int64_t base = linear_index(clamped_starts(in.subspan(2), in[0]->dims(), in[1]->dims()), strides);
  const int64_t width = byte_size(out[0]->dtype());
  for_each_index(in[1]->dims(), [&](std::span<const int64_t> index, int64_t linear) {
    std::memcpy(out[0]->element(base + linear_index(index, strides)), in[1]->element(linear), width);
  });
  return absl::OkStatus();
}

// Reads the index vector that belongs to a batch position.
class IndexVectors {
 public:
  IndexVectors(const Literal& indices, int64_t vector_dim) : indices_(indices) {
    strides_ = row_major_strides(indices.dims());
    const bool implicit = vector_dim == indices.type()->rank();
    step_ = implicit ? 0 : strides_[vector_dim];
    batch_ = others(indices.type()->rank(), std::span(&vector_dim, 1));
  }
  // Entry k of the vector at `position` (one coordinate per batch dimension), saturated for u64.
  int64_t at(std::span<const int64_t> position, int64_t k) const {
    int64_t from = k * step_;
    for (size_t i = 0; i < batch_.size(); ++i) from += position[i] * strides_[batch_[i]];
    const int64_t v = indices_.int_at(from);
    return indices_.dtype() == DType::kU64 && v < 0 ? std::numeric_limits<int64_t>::max() : v;
  }
  // Coordinate of `position` along dimension `dim` of the indices.
  int64_t coordinate(std::span<const int64_t> position, int64_t dim) const {
    for (size_t i = 0; i < batch_.size(); ++i)
      if (batch_[i] == dim) return position[i];
    return 0;
  }

 private:
  const Literal& indices_;
  Dims strides_, batch_;
  int64_t step_;
};

// Splits an index into the coordinates in `picked` and the others.
void split_index(std::span<const int64_t> index, const Dims& picked, Dims& chosen, Dims& rest) {
  chosen.clear();
  rest.clear();
  for (size_t d = 0; d < index.size(); ++d) (contains(picked, d) ? chosen : rest).push_back(index[d]);
}

absl::Status eval_gather(const Node& n, EvalIn in, EvalOut out) {
  const Attrs& a = n.attrs();
  const Dims &batching = a.ints(Attr::operand_batching_dims),
             &index_batching = a.ints(Attr::start_indices_batching_dims),
             &map = a.ints(Attr::start_index_map), &sizes = a.ints(Attr::slice_sizes),
             &offset_dims = a.ints(Attr::offset_dims);
  const Literal& operand = *in[0];
  const IndexVectors vectors(*in[1], a.integer(Attr::index_vector_dim));
  const Dims kept = others(operand.type()->rank(), a.ints(Attr::collapsed_slice_dims), batching);
  const Dims strides = row_major_strides(operand.dims());
  const int64_t width = byte_size(out[0]->dtype());
  Dims offset, position;
  for_each_index(out[0]->dims(), [&](std::span<const int64_t> index, int64_t linear) {
    split_index(index, offset_dims, offset, position);
    int64_t from = 0;
    for (size_t k = 0; k < map.size(); ++k) {
      const int64_t d = map[k];
      from += strides[d] * std::clamp<int64_t>(vectors.at(position, k), 0, operand.dims()[d] - sizes[d]);
    }
    for (size_t k = 0; k < batching.size(); ++k)
      from += strides[batching[k]] * vectors.coordinate(position, index_batching[k]);
    for (size_t k = 0; k < kept.size(); ++k) from += strides[kept[k]] * offset[k];
    std::memcpy(out[0]->element(linear), operand.element(from), width);
  });
  return absl::OkStatus();
}

absl::Status eval_scatter(const Node& n, EvalIn in, EvalOut out) {
  const Attrs& a = n.attrs();
  const size_t m = in.size() / 2;
  const Dims &batching = a.ints(Attr::input_batching_dims),
             &index_batching = a.ints(Attr::scatter_indices_batching_dims),
             &map = a.ints(Attr::scatter_dims_to_operand_dims),
             &window_dims = a.ints(Attr::update_window_dims);
  const Dims& dims = in[0]->dims();
  const IndexVectors vectors(*in[m], a.integer(Attr::index_vector_dim));
  const Dims kept = others(in[0]->type()->rank(), a.ints(Attr::inserted_window_dims), batching);
  const Dims strides = row_major_strides(dims);
  for (size_t i = 0; i < m; ++i)
    if (out[i]->bytes() > 0) std::memcpy(out[i]->data(), in[i]->data(), out[i]->bytes());
  const RegionRunner body(*a.computation(Attr::body));
  absl::Status status;
  Dims window, position;
  for_each_index(in[m + 1]->dims(), [&](std::span<const int64_t> index, int64_t linear) {
    if (!status.ok()) return;
    split_index(index, window_dims, window, position);
    Dims at(dims.size(), 0);
    for (size_t k = 0; k < map.size(); ++k) at[map[k]] = vectors.at(position, k);
    for (size_t k = 0; k < batching.size(); ++k)
      at[batching[k]] = vectors.coordinate(position, index_batching[k]);
    for (size_t k = 0; k < kept.size(); ++k) {
      if (at[kept[k]] > dims[kept[k]]) return;  // before the sum, so that it cannot overflow
      at[kept[k]] += window[k];
    }
    for (size_t d = 0; d < dims.size(); ++d)
      if (at[d] < 0 || at[d] >= dims[d]) return;
    const int64_t to = linear_index(at, strides);
    std::vector<const void*> args;
    std::vector<void*> results;
    for (size_t i = 0; i < m; ++i) args.push_back(out[i]->element(to));
    for (size_t i = 0; i < m; ++i) args.push_back(in[m + 1 + i]->element(linear));
    for (size_t i = 0; i < m; ++i) results.push_back(out[i]->element(to));
    status = body.run(args, results, 1);
  });
  return status;
}

}  // namespace

void add_indexing_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type, EvalRule eval) {
    table[op].type = type;
    table[op].eval = eval;
  };
  row(Op::dynamic_slice, dynamic_slice_type, eval_dynamic_slice);
  row(Op::dynamic_update_slice, dynamic_update_slice_type, eval_dynamic_update_slice);
  row(Op::gather, gather_type, eval_gather);
  row(Op::scatter, scatter_type, eval_scatter);
}

}  // namespace lamina::hlo
