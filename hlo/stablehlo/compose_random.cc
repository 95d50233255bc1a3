// Philox-4x32 with 10 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11,
// section 3.4), made of elementwise operations on counters.
#include <array>

#include "hlo/stablehlo/compose.h"

namespace lamina::hlo::stablehlo {
namespace {

struct Wide {
  Value low, high;  // u64
};

Value number(Builder& b, const Value& like, int64_t value) {
  return like ? b.broadcast_scalar(b.scalar_int(like.dtype(), value), like.dims()) : Value();
}

Value low_word(Builder& b, const Value& x) { return b.convert(x, DType::kU32); }
Value high_word(Builder& b, const Value& x) {
  return b.convert(b.shift_right_logical(x, number(b, x, 32)), DType::kU32);
}

Wide plus(Builder& b, const Wide& x, const Value& y) {
  const Value low = b.add(x.low, y);
  return {low, b.add(x.high, b.convert(b.compare(low, y, "LT"), DType::kU64))};
}

// Words of the blocks of these counters.
std::array<Value, 4> philox(Builder& b, const Wide& counter, const Value& key) {
  constexpr int64_t kMultipliers[2] = {0xD2511F53, 0xCD9E8D57}, kSteps[2] = {0x9E3779B9, 0xBB67AE85};
  std::array<Value, 4> c = {low_word(b, counter.low), high_word(b, counter.low), low_word(b, counter.high),
                            high_word(b, counter.high)};
  std::array<Value, 2> k = {low_word(b, key), high_word(b, key)};
  for (int round = 0; round < 10; ++round) {
    std::array<Value, 2> product;
    for (const int i : {0, 1}) {
      const Value wide = b.convert(c[2 * i], DType::kU64);
      product[i] = b.multiply(wide, number(b, wide, kMultipliers[i]));
    }
    c = {b.xor_(b.xor_(high_word(b, product[1]), c[1]), k[0]), low_word(b, product[1]),
         b.xor_(b.xor_(high_word(b, product[0]), c[3]), k[1]), low_word(b, product[0])};
    for (const int i : {0, 1}) k[i] = b.add(k[i], number(b, k[i], kSteps[i]));
  }
  return c;
}

}  // namespace

RandomBits compose_philox(Builder& b, const Value& state, DType dtype, const Dims& shape) {
  const absl::StatusOr<const Type*> type = array_type(dtype, shape);
  if (!type.ok()) {
    b.fail(type.status());
    return {};
  }
  const bool wide = byte_size(dtype) == 8;
  const int64_t each = wide ? 2 : 4, n = (*type)->num_elements, blocks = (n + each - 1) / each;
  auto scalar = [&](int64_t i) { return b.reshape(b.slice(state, Dims{i}, Dims{i + 1}), Dims{}); };
  auto spread = [&](const Value& x) { return b.broadcast_scalar(x, Dims{blocks}); };
  const bool long_counter = state.dims()[0] == 3;
  const Value key = scalar(0);
  const Wide counter = {scalar(1), long_counter ? scalar(2) : key};
  const std::array<Value, 4> words =
      philox(b, plus(b, {spread(counter.low), spread(counter.high)}, b.iota(DType::kU64, Dims{blocks}, 0)),
             spread(key));
  Values columns;
  for (size_t i = 0; i < 4; i += wide ? 2 : 1) {
    Value word = words[i];
    if (wide) {
      const Value high = b.convert(words[i + 1], DType::kU64);
      word = b.or_(b.convert(word, DType::kU64), b.shift_left(high, number(b, high, 32)));
    }
    columns.push_back(b.reshape(b.convert(word, dtype), Dims{blocks, 1}));
  }
  const Value flat = b.reshape(b.concatenate(columns, 1), Dims{blocks * each});
  const Wide next = plus(b, counter, b.scalar_int(DType::kU64, blocks));
  Values parts = {b.slice(state, Dims{0}, Dims{1}), b.reshape(next.low, Dims{1})};
  if (long_counter) parts.push_back(b.reshape(next.high, Dims{1}));
  return {b.concatenate(parts, 0), b.reshape(b.slice(flat, Dims{0}, Dims{n}), shape)};
}

}  // namespace lamina::hlo::stablehlo
