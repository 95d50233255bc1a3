// Type and evaluation rules of the ops that move elements to places known when recorded.
#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

// --- types ---

TypeOr broadcast_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Dims& shape = a.ints(Attr::shape);
  const Dims& dims = a.ints(Attr::broadcast_dimensions);
  LAMINA_RETURN_IF_ERROR(check_length("broadcast_dimensions", dims, t[0]->rank()));
  LAMINA_RETURN_IF_ERROR(check_dims("broadcast_dimensions", dims, static_cast<int64_t>(shape.size())));
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t have = t[0]->dims[i], want = shape[dims[i]];
    if (have != want && have != 1)
      return invalid("dimension ", i, " of size ", have, " cannot be spread over size ", want, " of ",
                     dims_to_string(shape));
  }
  return array_type(t[0]->dtype, shape);
}

TypeOr reshape_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  TypeOr out = array_type(t[0]->dtype, a.ints(Attr::shape));
  if (out.ok() && (*out)->num_elements != t[0]->num_elements)
    return invalid("cannot give ", t[0]->num_elements, " elements the shape ", dims_to_string((*out)->dims),
                   " of ", (*out)->num_elements);
  return out;
}

TypeOr transpose_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Dims& perm = a.ints(Attr::permutation);
  LAMINA_RETURN_IF_ERROR(check_length("permutation", perm, t[0]->rank()));
  LAMINA_RETURN_IF_ERROR(check_dims("permutation", perm, t[0]->rank()));
  Dims out;
  for (int64_t p : perm) out.push_back(t[0]->dims[p]);
  return array_type(t[0]->dtype, out);
}

TypeOr reverse_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  LAMINA_RETURN_IF_ERROR(check_dims("dimensions", a.ints(Attr::dimensions), t[0]->rank()));
  return t[0];
}

TypeOr slice_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Dims &start = a.ints(Attr::start_indices), &limit = a.ints(Attr::limit_indices),
             &step = a.ints(Attr::strides);
  for (const Dims* list : {&start, &limit, &step})
    LAMINA_RETURN_IF_ERROR(check_length("start, limit or strides", *list, t[0]->rank()));
  Dims out;
  for (size_t i = 0; i < start.size(); ++i) {
    if (start[i] < 0 || limit[i] < start[i] || limit[i] > t[0]->dims[i])
      return invalid("the range ", start[i], ":", limit[i], " of dimension ", i, " is not within its size ",
                     t[0]->dims[i]);
    if (step[i] < 1) return invalid("stride ", step[i], " of dimension ", i, " must be at least 1");
    out.push_back((limit[i] - start[i]) / step[i] + ((limit[i] - start[i]) % step[i] != 0));
  }
  return array_type(t[0]->dtype, out);
}

TypeOr pad_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (!t[1]->is_scalar() || t[1]->dtype != t[0]->dtype)
    return invalid("the padding value must be ", info(t[0]->dtype).name, "[], not ", to_string(*t[1]));
  const Dims &low = a.ints(Attr::edge_padding_low), &high = a.ints(Attr::edge_padding_high),
             &inner = a.ints(Attr::interior_padding);
  for (const Dims* list : {&low, &high, &inner})
    LAMINA_RETURN_IF_ERROR(check_length("low, high or interior padding", *list, t[0]->rank()));
  Dims out;
  for (size_t i = 0; i < low.size(); ++i) {
    if (inner[i] < 0) return invalid("interior padding ", inner[i], " of dimension ", i, " is negative");
    constexpr int64_t kLimit = int64_t{1} << 58;
    const int64_t n = t[0]->dims[i], gaps = std::max<int64_t>(n - 1, 0);
    if (std::abs(low[i]) > kLimit || std::abs(high[i]) > kLimit || (gaps > 0 && inner[i] > kLimit / gaps))
      return invalid("padding of dimension ", i, " is too large");
    const int64_t size = n + gaps * inner[i] + low[i] + high[i];
    if (size < 0)
      return invalid("negative padding ", low[i], ", ", high[i], " of dimension ", i,
                     " takes more than its size ", n);
    out.push_back(size);
  }
  return array_type(t[0]->dtype, out);
}

TypeOr concatenate_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t.empty()) return invalid("needs at least one array");
  const int64_t d = a.integer(Attr::dimension);
  LAMINA_RETURN_IF_ERROR(check_dims("dimension", std::span(&d, 1), t[0]->rank()));
  Dims out = t[0]->dims;
  for (size_t i = 1; i < t.size(); ++i) {
    if (t[i]->dtype != t[0]->dtype || t[i]->rank() != t[0]->rank())
      return invalid("array ", i, " is ", to_string(*t[i]), " but the first is ", to_string(*t[0]));
    for (int64_t k = 0; k < t[0]->rank(); ++k)
      if (k != d && t[i]->dims[k] != t[0]->dims[k])
        return invalid("array ", i, " of shape ", dims_to_string(t[i]->dims), " differs from ",
                       dims_to_string(t[0]->dims), " in dimension ", k, ", which is not the joined one (", d,
                       ")");
    out[d] += t[i]->dims[d];
    if (out[d] > int64_t{1} << 58) return invalid("the joined dimension ", d, " is too large");
  }
  return array_type(t[0]->dtype, out);
}

TypeOr iota_type(Types, const Attrs& a) {
  const int64_t d = a.integer(Attr::iota_dimension);
  const Dims& shape = a.ints(Attr::shape);
  if (is_bool(a.dtype(Attr::dtype))) return invalid("cannot count in pred");
  LAMINA_RETURN_IF_ERROR(check_dims("iota_dimension", std::span(&d, 1), static_cast<int64_t>(shape.size())));
  return array_type(a.dtype(Attr::dtype), shape);
}

// --- evaluation ---

// Copies element source(index) of `in` to each element of `out`; a negative source leaves the element as it
// is.
template <typename F>
void copy_elements(const Literal& in, Literal& out, F&& source) {
  const int64_t width = byte_size(out.dtype());
  for_each_index(out.dims(), [&](std::span<const int64_t> index, int64_t linear) {
    const int64_t from = source(index);
    if (from >= 0) std::memcpy(out.element(linear), in.element(from), width);
  });
}

absl::Status eval_broadcast(const Node& n, EvalIn in, EvalOut out) {
  const Dims& dims = n.attrs().ints(Attr::broadcast_dimensions);
  Dims strides = row_major_strides(in[0]->dims());
  for (size_t i = 0; i < strides.size(); ++i)
    if (in[0]->dims()[i] == 1) strides[i] = 0;
  copy_elements(*in[0], *out[0], [&](std::span<const int64_t> index) {
    int64_t at = 0;
    for (size_t i = 0; i < dims.size(); ++i) at += index[dims[i]] * strides[i];
    return at;
  });
  return absl::OkStatus();
}

absl::Status eval_reshape(const Node&, EvalIn in, EvalOut out) {
  if (out[0]->bytes() > 0) std::memcpy(out[0]->data(), in[0]->data(), out[0]->bytes());
  return absl::OkStatus();
}

absl::Status eval_transpose(const Node& n, EvalIn in, EvalOut out) {
  const Dims& perm = n.attrs().ints(Attr::permutation);
  const Dims strides = row_major_strides(in[0]->dims());
  copy_elements(*in[0], *out[0], [&](std::span<const int64_t> index) {
    int64_t at = 0;
    for (size_t i = 0; i < perm.size(); ++i) at += index[i] * strides[perm[i]];
    return at;
  });
  return absl::OkStatus();
}

absl::Status eval_reverse(const Node& n, EvalIn in, EvalOut out) {
  const Dims& reversed = n.attrs().ints(Attr::dimensions);
  const Dims strides = row_major_strides(in[0]->dims());
  copy_elements(*in[0], *out[0], [&](std::span<const int64_t> index) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i)
      at += strides[i] * (contains(reversed, i) ? in[0]->dims()[i] - 1 - index[i] : index[i]);
    return at;
  });
  return absl::OkStatus();
}

absl::Status eval_slice(const Node& n, EvalIn in, EvalOut out) {
  const Dims &start = n.attrs().ints(Attr::start_indices), &step = n.attrs().ints(Attr::strides);
  const Dims strides = row_major_strides(in[0]->dims());
  copy_elements(*in[0], *out[0], [&](std::span<const int64_t> index) {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) at += strides[i] * (start[i] + index[i] * step[i]);
    return at;
  });
  return absl::OkStatus();
}

absl::Status eval_pad(const Node& n, EvalIn in, EvalOut out) {
  const Dims &low = n.attrs().ints(Attr::edge_padding_low), &inner = n.attrs().ints(Attr::interior_padding);
  const int64_t width = byte_size(out[0]->dtype());
  for (int64_t i = 0; i < out[0]->size(); ++i) std::memcpy(out[0]->element(i), in[1]->data(), width);
  const Dims strides = row_major_strides(in[0]->dims());
  copy_elements(*in[0], *out[0], [&](std::span<const int64_t> index) -> int64_t {
    int64_t at = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      const int64_t from = index[i] - low[i], step = inner[i] + 1;
      if (from < 0 || from % step != 0 || from / step >= in[0]->dims()[i]) return -1;
      at += strides[i] * (from / step);
    }
    return at;
  });
  return absl::OkStatus();
}

absl::Status eval_concatenate(const Node& n, EvalIn in, EvalOut out) {
  const int64_t d = n.attrs().integer(Attr::dimension);
  const Dims& dims = out[0]->dims();
  const int64_t outer = product(std::span(dims).first(d));
  const int64_t width = byte_size(out[0]->dtype()) * product(std::span(dims).subspan(d + 1));
  std::byte* to = out[0]->element(0);
  for (int64_t o = 0; o < outer; ++o)
    for (const LiteralPtr& piece : in) {
      const int64_t bytes = piece->dims()[d] * width;
      if (bytes > 0) std::memcpy(to, piece->element(0) + o * bytes, bytes);
      to += bytes;
    }
  return absl::OkStatus();
}

absl::Status eval_iota(const Node& n, EvalIn, EvalOut out) {
  const int64_t d = n.attrs().integer(Attr::iota_dimension);
  const int64_t width = byte_size(out[0]->dtype());
  std::vector<LiteralPtr> values;
  for (int64_t i = 0; i < out[0]->dims()[d]; ++i) values.push_back(Literal::scalar_int(out[0]->dtype(), i));
  for_each_index(out[0]->dims(), [&](std::span<const int64_t> index, int64_t linear) {
    std::memcpy(out[0]->element(linear), values[index[d]]->data(), width);
  });
  return absl::OkStatus();
}

}  // namespace

void add_shape_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type, EvalRule eval) {
    table[op].type = type;
    table[op].eval = eval;
  };
  row(Op::broadcast_in_dim, broadcast_type, eval_broadcast);
  row(Op::concatenate, concatenate_type, eval_concatenate);
  row(Op::iota, iota_type, eval_iota);
  row(Op::pad, pad_type, eval_pad);
  row(Op::reshape, reshape_type, eval_reshape);
  row(Op::reverse, reverse_type, eval_reverse);
  row(Op::slice, slice_type, eval_slice);
  row(Op::transpose, transpose_type, eval_transpose);
}

}  // namespace lamina::hlo
