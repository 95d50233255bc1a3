// Programs as text for the routines of ops, run on odd data against the evaluator: the same bits.
#ifndef LAMINA_TESTS_JIT_NATIVE_OP_TESTING_H_
#define LAMINA_TESTS_JIT_NATIVE_OP_TESTING_H_

#include <random>

#include "tests/jit/executable_testing.h"
#include "tests/jit/program_text.h"

namespace lamina::testing {

// Values with repeats, both zeros, infinities and NaNs (floats), and integers in [low, high].
inline LiteralPtr data(const Type* type, std::mt19937& rng, int64_t low = -9, int64_t high = 9) {
  static constexpr double kSpecial[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-40, 1e30};
  auto lit = std::make_shared<Literal>(type);
  const int64_t parts = num_parts(type->dtype), width = byte_size(type->dtype) / parts;
  for (int64_t i = 0; i < type->num_elements * parts; ++i) {
    const int64_t v = low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
    LiteralPtr one;
    if (!is_inexact(type->dtype))
      one = Literal::scalar_int(type->dtype, is_bool(type->dtype) ? v & 1 : v);
    else if (rng() % 6 == 0)
      one = Literal::scalar(part_type(type->dtype), kSpecial[rng() % 7]);
    else
      one = Literal::scalar(part_type(type->dtype), static_cast<double>(v) / 4);
    std::memcpy(static_cast<std::byte*>(lit->data()) + i * width, one->data(), width);
  }
  return lit;
}

// Runs on random arguments; integer parameters get values in [low, high].
inline void check(const std::string& text, int64_t low = -9, int64_t high = 9) {
  INFO(text);
  const ComputationPtr c = parsed(text);
  for (uint32_t seed = 0; seed < 3; ++seed) {
    std::mt19937 rng(seed);
    std::vector<LiteralPtr> arguments;
    for (const Type* t : c->parameter_types()) arguments.push_back(data(t, rng, low, high));
    check_program(c, arguments);
  }
}

inline std::string binary_body(const std::string& op, const std::string& t) {
  return with("computation r0(p0: $t[], p1: $t[]) -> ($t[]) {\n  v0 = $t[] $op(p0, p1)\n  return (v0)\n}\n",
              {{"t", t}, {"op", op}});
}

inline const char* const kTypes[] = {"pred", "s8",  "s16",  "s32", "s64", "u8",  "u16", "u32",
                                     "u64",  "f16", "bf16", "f32", "f64", "c64", "c128"};

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_NATIVE_OP_TESTING_H_
