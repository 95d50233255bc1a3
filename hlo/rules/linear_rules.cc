// Type and evaluation rules of dot_general and convolution.
#include "hlo/conv_shape.h"
#include "hlo/reference_dot.h"
#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

TypeOr dot_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  if (t[0]->dtype != t[1]->dtype)
    return type_error("element types ", info(t[0]->dtype).name, " and ", info(t[1]->dtype).name, " differ");
  LAMINA_RETURN_IF_ERROR(check_dot_types(t[0]->dtype, t[0]->dtype));
  const Dims &lb = a.ints(Attr::lhs_batching_dimensions), &rb = a.ints(Attr::rhs_batching_dimensions),
             &lc = a.ints(Attr::lhs_contracting_dimensions), &rc = a.ints(Attr::rhs_contracting_dimensions);
  Dims left = lb, right = rb;
  left.insert(left.end(), lc.begin(), lc.end());
  right.insert(right.end(), rc.begin(), rc.end());
  LAMINA_RETURN_IF_ERROR(check_dims("lhs batching and contracting dimensions", left, t[0]->rank()));
  LAMINA_RETURN_IF_ERROR(check_dims("rhs batching and contracting dimensions", right, t[1]->rank()));
  LAMINA_RETURN_IF_ERROR(check_length("rhs_batching_dimensions", rb, lb.size()));
  LAMINA_RETURN_IF_ERROR(check_length("rhs_contracting_dimensions", rc, lc.size()));
  for (size_t i = 0; i < left.size(); ++i)
    if (t[0]->dims[left[i]] != t[1]->dims[right[i]])
      return invalid(i < lb.size() ? "batching" : "contracting", " dimension ", left[i],
                     " of the left side has size ", t[0]->dims[left[i]], " but dimension ", right[i],
                     " of the right side has size ", t[1]->dims[right[i]]);
  Dims out;
  for (int64_t d : lb) out.push_back(t[0]->dims[d]);
  for (int64_t d = 0; d < t[0]->rank(); ++d)
    if (!contains(left, d)) out.push_back(t[0]->dims[d]);
  for (int64_t d = 0; d < t[1]->rank(); ++d)
    if (!contains(right, d)) out.push_back(t[1]->dims[d]);
  return array_type(t[0]->dtype, out);
}

TypeOr convolution_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const Type &x = *t[0], &w = *t[1];
  if (x.dtype != w.dtype)
    return type_error("element types ", info(x.dtype).name, " and ", info(w.dtype).name, " differ");
  LAMINA_RETURN_IF_ERROR(check_dot_types(x.dtype, x.dtype));
  if (x.rank() < 2 || w.rank() != x.rank())
    return invalid("input and kernel must have one rank of at least 2, not ", x.rank(), " and ", w.rank());
  const int64_t rank = x.rank(), spatial = rank - 2;
  const Dims &xs = a.ints(Attr::input_spatial_dimensions), &ws = a.ints(Attr::kernel_spatial_dimensions),
             &os = a.ints(Attr::output_spatial_dimensions);
  auto layout = [&](std::string_view what, int64_t first, int64_t second, const Dims& rest) -> absl::Status {
    LAMINA_RETURN_IF_ERROR(check_length(what, rest, spatial));
    Dims all{first, second};
    all.insert(all.end(), rest.begin(), rest.end());
    return check_dims(what, all, rank);
  };
  const int64_t xb = a.integer(Attr::input_batch_dimension), xf = a.integer(Attr::input_feature_dimension);
  const int64_t wi = a.integer(Attr::kernel_input_feature_dimension),
                wo = a.integer(Attr::kernel_output_feature_dimension);
  const int64_t ob = a.integer(Attr::output_batch_dimension), of = a.integer(Attr::output_feature_dimension);
  LAMINA_RETURN_IF_ERROR(layout("the input's dimension numbers", xb, xf, xs));
  LAMINA_RETURN_IF_ERROR(layout("the kernel's dimension numbers", wi, wo, ws));
  LAMINA_RETURN_IF_ERROR(layout("the output's dimension numbers", ob, of, os));
  auto list = [&](Attr key, size_t n, int64_t fill) {
    const Dims& v = a.ints(key);
    return v.empty() ? Dims(n, fill) : v;
  };
  const Dims stride = list(Attr::window_strides, spatial, 1), padding = list(Attr::padding, 2 * spatial, 0),
             base = list(Attr::lhs_dilation, spatial, 1), hole = list(Attr::rhs_dilation, spatial, 1);
  LAMINA_RETURN_IF_ERROR(check_length("window_strides", stride, spatial));
  LAMINA_RETURN_IF_ERROR(check_length("padding", padding, 2 * spatial));
  LAMINA_RETURN_IF_ERROR(check_length("lhs_dilation", base, spatial));
  LAMINA_RETURN_IF_ERROR(check_length("rhs_dilation", hole, spatial));
  const int64_t fg = a.integer(Attr::feature_group_count), bg = a.integer(Attr::batch_group_count);
  if (fg < 1 || bg < 1 || (fg > 1 && bg > 1))
    return invalid("group counts must be at least 1 and not both above 1, not ", fg, " and ", bg);
  if (x.dims[xf] % fg != 0 || w.dims[wo] % fg != 0 || x.dims[xf] / fg != w.dims[wi])
    return invalid("input features ", x.dims[xf], " in ", fg, " groups do not fit the kernel's ", w.dims[wi],
                   " input and ", w.dims[wo], " output features");
  if (x.dims[xb] % bg != 0 || w.dims[wo] % bg != 0)
    return invalid("batch size ", x.dims[xb], " and output features ", w.dims[wo], " do not divide into ", bg,
                   " batch groups");
  Dims out(rank);
  out[ob] = x.dims[xb] / bg;
  out[of] = w.dims[wo];
  constexpr int64_t kLimit = int64_t{1} << 40;
  for (int64_t i = 0; i < spatial; ++i) {
    if (stride[i] < 1 || base[i] < 1 || hole[i] < 1 || stride[i] > kLimit || base[i] > kLimit ||
        hole[i] > kLimit)
      return invalid("strides and dilations must be at least 1");
    const int64_t n = x.dims[xs[i]], k = w.dims[ws[i]];
    if (std::abs(padding[2 * i]) > kLimit || std::abs(padding[2 * i + 1]) > kLimit || n > kLimit ||
        k > kLimit || (n > 0 && n > kLimit / base[i]) || (k > 0 && k > kLimit / hole[i]))
      return invalid("spatial dimension ", i, " is too large");
    const int64_t padded = (n == 0 ? 0 : (n - 1) * base[i] + 1) + padding[2 * i] + padding[2 * i + 1];
    const int64_t span = k == 0 ? 0 : (k - 1) * hole[i] + 1;
    out[os[i]] = padded < span ? 0 : (padded - span) / stride[i] + 1;
  }
  return array_type(x.dtype, out);
}

// --- evaluation ---

// Dims not named in either list.
Dims free_dims(int64_t rank, const Dims& a, const Dims& b) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  return out;
}

// The operand's elements in the order [batch..., free..., contracted...].
std::vector<std::byte> packed(const Literal& x, const Dims& batch, const Dims& free, const Dims& contract) {
  Dims order = batch;
  order.insert(order.end(), free.begin(), free.end());
  order.insert(order.end(), contract.begin(), contract.end());
  const Dims strides = row_major_strides(x.dims());
  Dims dims, steps;
  for (int64_t d : order) {
    dims.push_back(x.dims()[d]);
    steps.push_back(strides[d]);
  }
  const int64_t width = byte_size(x.dtype());
  std::vector<std::byte> out(x.bytes() + 1);
  for_each_index(dims, [&](std::span<const int64_t> index, int64_t linear) {
    std::memcpy(out.data() + linear * width, x.element(linear_index(index, steps)), width);
  });
  return out;
}

int64_t product_of(const Dims& dims, const Dims& which) {
  int64_t n = 1;
  for (int64_t d : which) n *= dims[d];
  return n;
}

absl::Status eval_dot(const Node& n, EvalIn in, EvalOut out) {
  const Attrs& a = n.attrs();
  const Dims &lb = a.ints(Attr::lhs_batching_dimensions), &rb = a.ints(Attr::rhs_batching_dimensions),
             &lc = a.ints(Attr::lhs_contracting_dimensions), &rc = a.ints(Attr::rhs_contracting_dimensions);
  const Dims lf = free_dims(in[0]->type()->rank(), lb, lc), rf = free_dims(in[1]->type()->rank(), rb, rc);
  const std::vector<std::byte> lhs = packed(*in[0], lb, lf, lc), rhs = packed(*in[1], rb, rf, rc);
  DotShape s;
  s.batch = product_of(in[0]->dims(), lb);
  s.m = product_of(in[0]->dims(), lf);
  s.n = product_of(in[1]->dims(), rf);
  s.k = product_of(in[0]->dims(), lc);
  s.lhs_batch = s.m * s.k;
  s.lhs_m = s.k;
  s.lhs_k = 1;
  s.rhs_batch = s.n * s.k;
  s.rhs_n = s.k;
  s.rhs_k = 1;
  return reference_dot(in[0]->dtype(), out[0]->dtype(), s, lhs.data(), rhs.data(), out[0]->data());
}

absl::Status eval_convolution(const Node& n, EvalIn in, EvalOut out) {
  return reference_conv(in[0]->dtype(), out[0]->dtype(), conv_shape(n), in[0]->data(), in[1]->data(),
                        out[0]->data());
}

}  // namespace

void add_linear_rules(OpTable& table) {
  table[Op::dot_general].type = dot_type;
  table[Op::dot_general].eval = eval_dot;
  table[Op::convolution].type = convolution_type;
  table[Op::convolution].eval = eval_convolution;
}

}  // namespace lamina::hlo
