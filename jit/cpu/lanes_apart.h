// The lanes of a vector of eight, those of a set before the others, for permutations that compress vectors.
#ifndef LAMINA_JIT_CPU_LANES_APART_H_
#define LAMINA_JIT_CPU_LANES_APART_H_

#include <cstdint>

namespace lamina::jit {

// For each set of eight lanes the numbers of those, then of the others.
struct LanesApart {
  uint8_t of[256][8] = {};
  constexpr LanesApart() {
    for (unsigned set = 0; set < 256; ++set) {
      int n = 0;
      for (const unsigned wanted : {1U, 0U})
        for (int lane = 0; lane < 8; ++lane)
          if ((set >> lane & 1U) == wanted) of[set][n++] = static_cast<uint8_t>(lane);
    }
  }
};
inline constexpr LanesApart kLanesApart;

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_LANES_APART_H_
