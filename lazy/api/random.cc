// Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11),
// partitionable: element i is made from the key and the counter i.
#include "lamina/random.h"

#include <cmath>

#include "hlo/op.h"
#include "lamina/ops.h"
#include "lazy/api/variable.h"

namespace lamina::random {
namespace {

using detail::build;
using detail::lazy_of;
using detail::located;
using hlo::Builder;
using hlo::Dims;
using hlo::Value;
using hlo::Values;
using lazy::Lazy;

Value word(Builder& b, uint32_t value) { return b.scalar_int(hlo::DType::kU32, value); }

Values threefry(Builder& b, const Value& key, Value x0, Value x1) {
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Dims& dims = x1.dims();
  auto spread = [&](const Value& scalar) { return b.broadcast_scalar(scalar, dims); };
  auto part = [&](int64_t i) { return b.reshape(b.slice(key, Dims{i}, Dims{i + 1}), {}); };
  const Value k0 = part(0), k1 = part(1), k2 = b.xor_(b.xor_(k0, k1), word(b, 0x1BD11BDA));
  const Value keys[] = {k0, k1, k2};
  x0 = b.add(x0, spread(k0));
  x1 = b.add(x1, spread(k1));
  for (int group = 0; group < 5; ++group) {
    for (int r : kRotations[group % 2]) {
      x0 = b.add(x0, x1);
      const Value left = b.shift_left(x1, spread(word(b, static_cast<uint32_t>(r))));
      const Value right = b.shift_right_logical(x1, spread(word(b, static_cast<uint32_t>(32 - r))));
      x1 = b.xor_(b.or_(left, right), x0);
    }
    x0 = b.add(x0, spread(keys[(group + 1) % 3]));
    x1 = b.add(x1, spread(b.add(keys[(group + 2) % 3], word(b, static_cast<uint32_t>(group + 1)))));
  }
  return {x0, x1};
}

Value key_of(const TensorOrNumber& key) {
  const Lazy k = lazy_of(key);
  if (k.value.dtype() != hlo::DType::kU32 || k.value.dims() != Dims{2})
    detail::fail(ErrorKind::kType, str_cat("a key is uint32[2], as random::key and random::split make, not ",
                                           detail::describe(k)));
  return k.value;
}

// Both words of the blocks numbered by the elements of `shape`, as one call.
Values blocks(Builder& b, const Value& key, const Dims& shape) {
  const hlo::Type* type = lazy::check(hlo::array_type(hlo::DType::kU32, shape));
  if (type->num_elements >= (int64_t{1} << 32))
    detail::fail(ErrorKind::kNotImplemented, "random: 2^32 elements or more at once; use several keys");
  const hlo::Type* key_type = key.type();
  const hlo::ComputationPtr body =
      lazy::check(hlo::record_region({&key_type, 1}, [&](Builder& r, std::span<const Value> p) {
        const Value low = r.reshape(r.iota(hlo::DType::kU32, Dims{type->num_elements}, 0), shape);
        return threefry(r, p[0], r.zeros_like(low), low);
      }));
  return b.call(body, {{key}});
}

Value stack_last(Builder& b, const Values& words) {
  Dims wide = words[0].dims();
  wide.push_back(1);
  return b.concatenate({{b.reshape(words[0], wide), b.reshape(words[1], wide)}},
                       static_cast<int64_t>(wide.size()) - 1);
}

Value bits_of(Builder& b, const Value& key, const Dims& shape) {
  const Values w = blocks(b, key, shape);
  return b.xor_(w[0], w[1]);
}

}  // namespace

Tensor key(int64_t seed, std::source_location where) {
  return build({Tensor(), where}, [&](Builder&) {
    const bool wide = seed < INT32_MIN || seed > INT32_MAX;
    const uint32_t words[] = {wide ? static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32) : 0u,
                              static_cast<uint32_t>(seed)};
    return Lazy{lazy::from_host(hlo::DType::kU32, Dims{2}, words), false};
  });
}

Tensor split(TensorOrNumber key, int64_t num) {
  return build(key, [&](Builder& b) {
    return Lazy{stack_last(b, blocks(b, key_of(key), detail::dims_of({num}, "split"))), false};
  });
}

Tensor fold_in(TensorOrNumber key, TensorOrNumber data) {
  return build(key, [&](Builder& b) {
    if (data.number() && (data.number()->integer < 0 || data.number()->integer > UINT32_MAX))
      detail::fail(ErrorKind::kValue, "fold_in takes a number of 32 bits without sign");
    const Lazy x = data.number() ? detail::number_value(*data.number(), hlo::DType::kU32) : lazy_of(data);
    if (x.value.rank() != 0 || !hlo::is_integer(x.value.dtype()))
      detail::fail(ErrorKind::kType, str_cat("fold_in takes an integer, not ", detail::describe(x)));
    return Lazy{stack_last(b, threefry(b, key_of(key), word(b, 0), b.convert(x.value, hlo::DType::kU32))),
                false};
  });
}

Tensor bits(TensorOrNumber key, const Shape& shape) {
  return build(key, [&](Builder& b) {
    return Lazy{bits_of(b, key_of(key), detail::dims_of(shape, "bits")), false};
  });
}

Tensor uniform(TensorOrNumber key, const Shape& shape, TensorOrNumber low, TensorOrNumber high) {
  return located(key.where(), [&] {
    const Tensor unit = build(key, [&](Builder& b) {
      Value raw = bits_of(b, key_of(key), detail::dims_of(shape, "uniform"));
      const auto all = [&](uint32_t v) { return b.broadcast_scalar(word(b, v), raw.dims()); };
      raw = b.or_(b.shift_right_logical(raw, all(9)), all(0x3F800000));
      const Value from_one = b.bitcast_convert(raw, hlo::DType::kF32);
      return Lazy{b.subtract(from_one, b.full_like(from_one, 1)), false};
    });
    const Tensor lo = lamina::full({}, low).astype(lamina::DType::float32);
    const Tensor hi = lamina::full({}, high).astype(lamina::DType::float32);
    return lamina::maximum(lo, unit * (hi - lo) + lo);
  });
}

Tensor normal(TensorOrNumber key, const Shape& shape) {
  return located(key.where(), [&] {
    // From the least float above -1.
    return lamina::erf_inv(uniform(key, shape, -1.0 + 0x1p-24, 1.0)) * std::sqrt(2.0);
  });
}

Tensor bernoulli(TensorOrNumber key, TensorOrNumber p, const Shape& shape) {
  return located(key.where(), [&] { return uniform(key, shape) < p; });
}

Tensor randint(TensorOrNumber key, const Shape& shape, int32_t low, int32_t high) {
  return located(key.where(), [&] {
    const Tensor keys = split(key);
    return build(key, [&](Builder& b) {
      const Dims dims = detail::dims_of(shape, "randint");
      auto part = [&](int64_t i) {
        return b.reshape(b.slice(lazy_of(keys).value, Dims{i, 0}, Dims{i + 1, 2}), Dims{2});
      };
      const Value upper = bits_of(b, part(0), dims), lower = bits_of(b, part(1), dims);
      const uint32_t span = high > low ? static_cast<uint32_t>(high) - static_cast<uint32_t>(low) : 1;
      const uint32_t half = 65536u % span, factor = half * half % span;
      const auto all = [&](uint32_t v) { return b.broadcast_scalar(word(b, v), dims); };
      Value offset =
          b.add(b.multiply(b.remainder(upper, all(span)), all(factor)), b.remainder(lower, all(span)));
      offset = b.remainder(offset, all(span));
      const Value base = b.broadcast_scalar(b.scalar_int(hlo::DType::kS32, low), dims);
      return Lazy{b.add(base, b.convert(offset, hlo::DType::kS32)), false};
    });
  });
}

}  // namespace lamina::random
