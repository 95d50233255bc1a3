#include "hlo/batching.h"

namespace lamina::hlo {

Dims prepend(int64_t first, std::span<const int64_t> rest) {
  Dims out{first};
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

Dims shifted(std::span<const int64_t> dims, int64_t by) {
  Dims out(dims.begin(), dims.end());
  for (int64_t& d : out) d += by;
  return out;
}

Dims shifted_with_zero(std::span<const int64_t> dims) { return prepend(0, shifted(dims)); }

Dims all_dims(int64_t n) {
  Dims out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

const Type* batched_type(const Type* type, int64_t size) {
  return array_type_or_die(type->dtype, prepend(size, type->dims));
}

Value with_batch(Builder& b, const Value& x, bool batched, int64_t size) {
  if (batched || !x) return x;
  return b.broadcast_in_dim(x, prepend(size, x.dims()), shifted(all_dims(x.rank())));
}

Values all_with_batch(Builder& b, std::span<const Value> xs, std::span<const bool> batched, int64_t size) {
  Values out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(with_batch(b, xs[i], batched[i], size));
  return out;
}

BatchResult all_batched(Values results) {
  BatchResult out;
  out.batched.assign(results.size(), true);
  out.results = std::move(results);
  return out;
}

}  // namespace lamina::hlo
