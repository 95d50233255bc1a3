// Derivatives, transposes and batching of dot_general and convolution: linear in each operand.
#include <algorithm>
#include <numeric>

#include "hlo/rules/support.h"
#include "trace/rules/support.h"

namespace lamina::trace {
namespace {

JvpResult bilinear_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  Value sum;
  if (t[0]) sum = b.remake(node, {{t[0], x[1]}})[0];
  if (t[1]) sum = b.add_any(sum, b.remake(node, {{x[0], t[1]}})[0]);
  return {{sum}, {}};
}

// --- dot_general ---

DotDims dot_dims(const Node& n) {
  const Attrs& a = n.attrs();
  return {a.ints(Attr::lhs_batching_dimensions), a.ints(Attr::rhs_batching_dimensions),
          a.ints(Attr::lhs_contracting_dimensions), a.ints(Attr::rhs_contracting_dimensions),
          a.string(Attr::precision)};
}

Dims free_dims(int64_t rank, const Dims& batch, const Dims& contract) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(batch, d) && !contains(contract, d)) out.push_back(d);
  return out;
}

Dims range(int64_t from, size_t count) {
  Dims out(count);
  std::iota(out.begin(), out.end(), from);
  return out;
}

// The cotangent of one side. `x...` are dims of the side asked for, `y...` those of `other`, the other side;
// ct's dims are batch, lhs free, rhs free.
Value dot_side(Builder& b, const Value& ct, const Value& other, int64_t x_rank, bool x_is_lhs,
               const Dims& x_batch, const Dims& y_batch, const Dims& x_contract, const Dims& y_contract,
               const std::string& precision) {
  const Dims x_free = free_dims(x_rank, x_batch, x_contract);
  const Dims y_free = free_dims(other.rank(), y_batch, y_contract);
  const int64_t n = static_cast<int64_t>(x_batch.size());
  const Dims ct_batch = range(0, x_batch.size());
  const Dims ct_y = range(n + (x_is_lhs ? static_cast<int64_t>(x_free.size()) : 0), y_free.size());
  const Value bar = b.dot_general(ct, other, {ct_batch, y_batch, ct_y, y_free, precision});
  // bar's dims: batch, x free, then y's contracting dims in increasing order.
  Dims order(y_contract.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return y_contract[i] < y_contract[j]; });
  Dims where = x_batch;
  where.insert(where.end(), x_free.begin(), x_free.end());
  for (int64_t i : order) where.push_back(x_contract[i]);
  Dims permutation(where.size());
  for (size_t i = 0; i < where.size(); ++i) permutation[where[i]] = static_cast<int64_t>(i);
  return b.transpose(bar, permutation);
}

Values refuse_bilinear(Builder& b, const Node& node) {
  b.fail(absl::InvalidArgumentError(
      str_cat("cannot transpose a ", node.def().name, " of two linear values: it is not linear")));
  return Values(2);
}

Values dot_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (linear[0] && linear[1]) return refuse_bilinear(b, node);
  const DotDims d = dot_dims(node);
  if (linear[0])
    return {dot_side(b, ct[0], x[1], node.operand_type(0)->rank(), true, d.lhs_batch, d.rhs_batch,
                     d.lhs_contract, d.rhs_contract, d.precision),
            Value()};
  return {Value(), dot_side(b, ct[0], x[0], node.operand_type(1)->rank(), false, d.rhs_batch, d.lhs_batch,
                            d.rhs_contract, d.lhs_contract, d.precision)};
}

// A side that alone carries the batch keeps it as its first free dimension, so the other is read once.
BatchResult dot_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t) {
  DotDims d = dot_dims(node);
  const int64_t n = static_cast<int64_t>(d.lhs_batch.size());
  if (batched[0] && batched[1]) {
    return all_batched({b.dot_general(x[0], x[1],
                                      {shifted_with_zero(d.lhs_batch), shifted_with_zero(d.rhs_batch),
                                       shifted(d.lhs_contract), shifted(d.rhs_contract), d.precision})});
  }
  int64_t at = n;
  if (batched[0]) {
    d.lhs_batch = shifted(d.lhs_batch);
    d.lhs_contract = shifted(d.lhs_contract);
  } else {
    at += x[0].rank() - n - static_cast<int64_t>(d.lhs_contract.size());
    d.rhs_batch = shifted(d.rhs_batch);
    d.rhs_contract = shifted(d.rhs_contract);
  }
  return all_batched({b.move_dim(b.dot_general(x[0], x[1], d), at, 0)});
}

// --- convolution ---

int64_t dilated(int64_t n, int64_t step) { return n == 0 ? 0 : 1 + step * (n - 1); }

// Splits dimension `d` of x into (count, rest) and merges `count` in front of dimension `into` of what
// remains.
Value regroup(Builder& b, const Value& x, int64_t d, int64_t count, int64_t into) {
  if (!x) return x;
  Dims split = x.dims();
  split[d] /= count;
  split.insert(split.begin() + d, count);
  // Dimension `into` stands at `into` (+1 behind the new one) of the split value; the group goes right before
  // it.
  const Value moved = b.move_dim(b.reshape(x, split), d, into);
  Dims merged = x.dims();
  merged[d] /= count;
  merged[into] *= count;
  return b.reshape(moved, merged);
}

Value conv_lhs_cotangent(Builder& b, const Node& node, const Value& rhs, const Value& ct) {
  const ConvDims d = conv_dims(node);
  const Type *lhs = node.operand_type(0), *out = node.type();
  const int64_t groups = std::max(d.feature_groups, d.batch_groups);
  // The transposed kernel swaps its features; a group axis moves from the output to the input features.
  Value kernel = rhs;
  if (groups > 1) kernel = regroup(b, rhs, d.kernel_output_feature, groups, d.kernel_input_feature);
  kernel = b.reverse(kernel, d.kernel_spatial);
  ConvDims t;
  t.window_strides = d.lhs_dilation;
  t.lhs_dilation = d.window_strides;
  t.rhs_dilation = d.rhs_dilation;
  t.input_batch = d.output_batch;
  t.input_feature = d.output_feature;
  t.input_spatial = d.output_spatial;
  t.kernel_input_feature = d.kernel_output_feature;
  t.kernel_output_feature = d.kernel_input_feature;
  t.kernel_spatial = d.kernel_spatial;
  t.output_batch = d.input_batch;
  t.output_feature = d.input_feature;
  t.output_spatial = d.input_spatial;
  t.feature_groups = groups;
  t.precision = d.precision;
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    const int64_t in = dilated(lhs->dims[d.input_spatial[i]], d.lhs_dilation[i]);
    const int64_t window = dilated(rhs.dims()[d.kernel_spatial[i]], d.rhs_dilation[i]);
    const int64_t result = dilated(out->dims[d.output_spatial[i]], d.window_strides[i]);
    const int64_t before = window - d.padding[2 * i] - 1;
    t.padding.push_back(before);
    t.padding.push_back(in + window - 1 - result - before);
  }
  const Value bar = b.convolution(ct, kernel, t);
  return d.batch_groups > 1 ? regroup(b, bar, d.input_feature, groups, d.input_batch) : bar;
}

Value conv_rhs_cotangent(Builder& b, const Node& node, const Value& lhs, const Value& ct) {
  const ConvDims d = conv_dims(node);
  const Type *rhs = node.operand_type(1), *out = node.type();
  ConvDims t;
  t.window_strides = d.rhs_dilation;
  t.lhs_dilation = d.lhs_dilation;
  t.rhs_dilation = d.window_strides;
  t.input_batch = d.input_feature;
  t.input_feature = d.input_batch;
  t.input_spatial = d.input_spatial;
  t.kernel_input_feature = d.output_batch;
  t.kernel_output_feature = d.output_feature;
  t.kernel_spatial = d.output_spatial;
  t.output_batch = d.kernel_input_feature;
  t.output_feature = d.kernel_output_feature;
  t.output_spatial = d.kernel_spatial;
  t.feature_groups = d.batch_groups;
  t.batch_groups = d.feature_groups;
  t.precision = d.precision;
  for (size_t i = 0; i < d.input_spatial.size(); ++i) {
    const int64_t in = dilated(lhs.dims()[d.input_spatial[i]], d.lhs_dilation[i]);
    const int64_t window = dilated(rhs->dims[d.kernel_spatial[i]], d.rhs_dilation[i]);
    const int64_t result = dilated(out->dims[d.output_spatial[i]], d.window_strides[i]);
    t.padding.push_back(d.padding[2 * i]);
    t.padding.push_back(result - in + window - d.padding[2 * i] - 1);
  }
  return b.convolution(lhs, ct, t);
}

Values conv_transpose(Builder& b, const Node& node, Ops x, Marks linear, Ops ct) {
  if (linear[0] && linear[1]) return refuse_bilinear(b, node);
  const int side = linear[0] ? 0 : 1;
  Values out(2);
  // Without elements in the result (or the operand) there is no window to transpose.
  if (node.type()->num_elements == 0 || node.operand_type(side)->num_elements == 0)
    out[side] = b.zeros(node.operand_type(side));
  else
    out[side] =
        side == 0 ? conv_lhs_cotangent(b, node, x[1], ct[0]) : conv_rhs_cotangent(b, node, x[0], ct[0]);
  return out;
}

// Puts dimension 0 of x in front of the elements of dimension `into` (numbered without it); `inner` > 0 puts
// it behind the first 1/inner-th coordinate instead: [into] = [groups, batch, rest].
Value merge_batch(Builder& b, const Value& x, int64_t into, int64_t groups = 1) {
  if (!x) return x;
  Dims split(x.dims().begin() + 1, x.dims().end());
  const int64_t size = x.dims()[0];
  Dims merged = split;
  merged[into] *= size;
  if (groups == 1) return b.reshape(b.move_dim(x, 0, into), merged);
  split[into] /= groups;
  split.insert(split.begin() + into, groups);
  return b.reshape(b.move_dim(b.reshape(x, prepend(size, split)), 0, into + 1), merged);
}

// The inverse on a result dimension: [groups, batch, rest] becomes a leading batch.
Value unmerge_batch(Builder& b, const Value& x, int64_t from, int64_t size, int64_t groups = 1) {
  if (!x) return x;
  Dims split = x.dims(), out = x.dims();
  out[from] /= size;
  split[from] = out[from] / groups;
  split.insert(split.begin() + from, size);
  split.insert(split.begin() + from, groups);
  return b.reshape(b.move_dim(b.reshape(x, split), from + 1, 0), prepend(size, out));
}

BatchResult conv_batch(Builder& b, const Node& node, Ops x, Marks batched, int64_t size) {
  if (size == 0) return all_batched({b.zeros(batched_type(node.type(), 0))});
  ConvDims d = conv_dims(node);
  Value lhs = x[0];
  // Batch groups are feature groups of the input with the groups moved from batch to features.
  if (d.batch_groups > 1) {
    const int64_t shift = batched[0] ? 1 : 0;
    lhs = regroup(b, lhs, d.input_batch + shift, d.batch_groups, d.input_feature + shift);
    d.feature_groups = d.batch_groups;
    d.batch_groups = 1;
  }
  if (batched[0] && batched[1]) {
    d.feature_groups *= size;
    const Value out =
        b.convolution(merge_batch(b, lhs, d.input_feature), merge_batch(b, x[1], d.kernel_output_feature), d);
    return all_batched({unmerge_batch(b, out, d.output_feature, size)});
  }
  if (batched[0]) {
    const Value out = b.convolution(merge_batch(b, lhs, d.input_batch), x[1], d);
    return all_batched({unmerge_batch(b, out, d.output_batch, size)});
  }
  const Value out = b.convolution(lhs, merge_batch(b, x[1], d.kernel_output_feature, d.feature_groups), d);
  return all_batched({unmerge_batch(b, out, d.output_feature, size, d.feature_groups)});
}

}  // namespace

void add_linear_transforms(TransformTable& table) {
  table[Op::dot_general] = {bilinear_jvp, dot_transpose, dot_batch};
  table[Op::convolution] = {bilinear_jvp, conv_transpose, conv_batch};
}

}  // namespace lamina::trace
