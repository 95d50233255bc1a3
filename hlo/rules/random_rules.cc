// rng_bit_generator: Threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
// 3", SC11, section 3.3).
//
// The state is u64[2]: key, counter. Results of at most 32 bits take both words of a block: of n elements,
// element i and element i + ceil(n/2) come from the block of counter + i, its first and second word
// (truncated). 64-bit results take one block each, first word low. The new state's counter has moved on by
// the number of blocks.
#include <bit>

#include "hlo/rules/support.h"

namespace lamina::hlo {
namespace {

TypeOr rng_type(Types t, const Attrs& a) {
  const int64_t two = 2;
  TypeOr state = array_type(DType::kU64, std::span(&two, 1));
  if (t[0] != *state) return invalid("the state must be u64[2] (key, counter), not ", to_string(*t[0]));
  const std::string& algorithm = a.string(Attr::rng_algorithm);
  if (algorithm != "THREE_FRY" && algorithm != "DEFAULT")
    return invalid("rng_algorithm must be THREE_FRY or DEFAULT, not '", algorithm, "'");
  const DType dtype = a.dtype(Attr::dtype);
  if (!is_unsigned(dtype) || is_narrow(dtype))
    return invalid("makes unsigned integers of 8 bits or more, not ", info(dtype).name);
  TypeOr bits = array_type(dtype, a.ints(Attr::shape));
  if (!bits.ok()) return bits;
  return tuple_type({{t[0], *bits}});
}

struct Block {
  uint32_t x0, x1;
};

Block threefry(uint64_t key, uint64_t counter) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t ks[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  uint32_t x0 = static_cast<uint32_t>(counter) + ks[0], x1 = static_cast<uint32_t>(counter >> 32) + ks[1];
  for (uint32_t group = 0; group < 5; ++group) {
    for (int r : kRotations[group % 2]) {
      x0 += x1;
      x1 = std::rotl(x1, r) ^ x0;
    }
    x0 += ks[(group + 1) % 3];
    x1 += ks[(group + 2) % 3] + group + 1;
  }
  return {x0, x1};
}

absl::Status eval_rng(const Node&, EvalIn in, EvalOut out) {
  const uint64_t key = in[0]->as<uint64_t>()[0], counter = in[0]->as<uint64_t>()[1];
  const int64_t n = out[1]->size(), width = byte_size(out[1]->dtype());
  const int64_t blocks = width == 8 ? n : (n + 1) / 2;
  for (int64_t i = 0; i < blocks; ++i) {
    const Block b = threefry(key, counter + static_cast<uint64_t>(i));
    if (width == 8) {
      out[1]->as<uint64_t>()[i] = b.x0 | uint64_t{b.x1} << 32;
      continue;
    }
    std::memcpy(out[1]->element(i), &b.x0, width);
    if (i + blocks < n) std::memcpy(out[1]->element(i + blocks), &b.x1, width);
  }
  out[0]->as<uint64_t>()[0] = key;
  out[0]->as<uint64_t>()[1] = counter + static_cast<uint64_t>(blocks);
  return absl::OkStatus();
}

}  // namespace

void add_random_rules(OpTable& table) {
  table[Op::rng_bit_generator].type = rng_type;
  table[Op::rng_bit_generator].eval = eval_rng;
}

}  // namespace lamina::hlo
