// Random numbers from explicit keys: the streams of the Python package, which are those of jax.random
// (Threefry-2x32).
//
// Contract: a key is uint32[2]. The same key gives the same numbers everywhere; element i depends on the key
// and on i.
#ifndef LAMINA_RANDOM_H_
#define LAMINA_RANDOM_H_

#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina::random {

Tensor key(int64_t seed, std::source_location where = std::source_location::current());
// uint32[num, 2]: independent keys; the old one is not to be used again.
Tensor split(TensorOrNumber key, int64_t num = 2);
// A new key of a key and a number below 2^32, such as a step.
Tensor fold_in(TensorOrNumber key, TensorOrNumber data);
// Uniform random bits, uint32.
Tensor bits(TensorOrNumber key, const Shape& shape);
// Uniform in [low, high), float32.
Tensor uniform(TensorOrNumber key, const Shape& shape, TensorOrNumber low = 0.0, TensorOrNumber high = 1.0);
// Standard normal numbers, float32.
Tensor normal(TensorOrNumber key, const Shape& shape);
// True with probability p.
Tensor bernoulli(TensorOrNumber key, TensorOrNumber p, const Shape& shape);
// Uniform integers in [low, high), int32.
Tensor randint(TensorOrNumber key, const Shape& shape, int32_t low, int32_t high);

}  // namespace lamina::random

#pragma GCC visibility pop

#endif  // LAMINA_RANDOM_H_
