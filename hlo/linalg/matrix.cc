#include "hlo/linalg/matrix.h"

#include <algorithm>

#include "hlo/batching.h"
#include "hlo/nodes.h"
#include "hlo/rules/support.h"

namespace lamina::hlo::linalg {
namespace {

Value index(Builder& b, const Value& like, int64_t from_end) {
  return b.iota(DType::kS32, like.dims(), like.rank() - from_end);
}

Value masked(Builder& b, const Value& x, int64_t k, std::string_view direction) {
  if (!x) return x;
  const Value limit = b.full(array_type_or_die(DType::kS32, x.dims()), static_cast<double>(k));
  const Value kept = b.compare(b.subtract(index(b, x, 1), index(b, x, 2)), limit, direction);
  return b.select(kept, x, b.zeros_like(x));
}

}  // namespace

Dims outer_of(const Value& x) { return Dims(x.dims().begin(), x.dims().end() - 2); }

Value conj(Builder& b, const Value& x) {
  return x && is_complex(x.dtype()) ? b.complex(b.real(x), b.negate(b.imag(x))) : x;
}
Value transposed(Builder& b, const Value& x) {
  if (!x) return x;
  Dims order = all_dims(x.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return b.transpose(x, order);
}
Value adjoint(Builder& b, const Value& x) { return transposed(b, conj(b, x)); }

Value product(Builder& b, const Value& x, const Value& y) {
  if (!x || !y) return Value();
  Dims outer = outer_of(x);
  const Dims other = outer_of(y);
  for (size_t d = 0; d < outer.size(); ++d)
    if (outer[d] == 1) outer[d] = other[d];
  auto spread = [&](const Value& v) {
    Dims dims = outer;
    dims.insert(dims.end(), v.dims().end() - 2, v.dims().end());
    return dims == v.dims() ? v : b.broadcast_in_dim(v, dims, all_dims(v.rank()));
  };
  const int64_t n = static_cast<int64_t>(outer.size());
  return b.dot_general(spread(x), spread(y), {all_dims(n), all_dims(n), {n + 1}, {n}});
}

Value lower_part(Builder& b, const Value& x, int64_t k) { return masked(b, x, k, "LE"); }
Value upper_part(Builder& b, const Value& x, int64_t k) { return masked(b, x, k, "GE"); }

Value eye_like(Builder& b, const Value& like) {
  if (!like) return like;
  return b.convert(b.compare(index(b, like, 1), index(b, like, 2), "EQ"), like.dtype());
}

Value diagonal(Builder& b, const Value& x) {
  if (!x) return x;
  const int64_t m = x.dims()[x.rank() - 2], n = x.dims().back(), k = std::min(m, n);
  Value square = x;
  if (m != n) square = m > n ? rows(b, x, 0, k) : columns(b, x, 0, k);
  if (!square) return square;
  const Value on = b.compare(index(b, square, 1), index(b, square, 2), "EQ");
  return b.reduce_sum(b.select(on, square, b.zeros_like(square)), Dims{x.rank() - 2});
}

Value trace(Builder& b, const Value& x) {
  const Value d = diagonal(b, x);
  return d ? b.reduce_sum(d, Dims{d.rank() - 1}) : d;
}

Value along_columns(Builder& b, const Value& v, const Value& like) {
  if (!v || !like) return Value();
  Dims at = all_dims(v.rank());
  at.back() += 1;
  return b.broadcast_in_dim(v, like.dims(), at);
}
Value along_rows(Builder& b, const Value& v, const Value& like) {
  return v && like ? b.broadcast_in_dim(v, like.dims(), all_dims(v.rank())) : Value();
}

Value as_type(Builder& b, const Value& x, DType t) {
  return x && is_complex(t) && !is_complex(x.dtype()) ? b.complex(x, b.zeros_like(x)) : x;
}
Value real_part(Builder& b, const Value& x) { return x && is_complex(x.dtype()) ? b.real(x) : x; }

Value hermitian(Builder& b, const Value& x) {
  if (!x) return x;
  const Value strict = lower_part(b, x, -1);
  const Value on = b.multiply(as_type(b, real_part(b, x), x.dtype()), eye_like(b, x));
  return b.add(b.add(strict, adjoint(b, strict)), on);
}

Value take_rows(Builder& b, const Value& x, const Value& order) {
  if (!x || !order) return Value();
  const int64_t m = x.dims()[x.rank() - 2], n = x.dims().back(), count = hlo::product(outer_of(x));
  const Value taken =
      b.make(Op::gather, {{b.reshape(x, Dims{count, m, n}), b.reshape(order, Dims{count, m})}},
             intern_attrs({{Attr::offset_dims, Dims{2}},
                           {Attr::collapsed_slice_dims, Dims{1}},
                           {Attr::operand_batching_dims, Dims{0}},
                           {Attr::start_indices_batching_dims, Dims{0}},
                           {Attr::start_index_map, Dims{1}},
                           {Attr::index_vector_dim, int64_t{2}},
                           {Attr::slice_sizes, Dims{1, 1, n}}}));
  return taken ? b.reshape(taken, x.dims()) : taken;
}

Value columns(Builder& b, const Value& x, int64_t first, int64_t last) {
  if (!x) return x;
  Dims start(x.rank(), 0), limit = x.dims();
  start.back() = first;
  limit.back() = last;
  return b.slice(x, start, limit);
}
Value rows(Builder& b, const Value& x, int64_t first, int64_t last) {
  if (!x) return x;
  Dims start(x.rank(), 0), limit = x.dims();
  start[x.rank() - 2] = first;
  limit[x.rank() - 2] = last;
  return b.slice(x, start, limit);
}

}  // namespace lamina::hlo::linalg
