// What the fuzz targets of the text readers share: claims about what was read.
#ifndef LAMINA_TESTS_FUZZ_FUZZ_H_
#define LAMINA_TESTS_FUZZ_FUZZ_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "hlo/computation.h"
#include "hlo/verifier.h"

// One input; libFuzzer's main or replay_main.cc calls it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lamina::fuzz {

// A claim that must hold whatever the input was.
inline void claim(bool holds, std::string_view what, std::string_view detail = {}) {
  if (holds) return;
  std::fprintf(stderr, "%.*s\n%.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

// Errors of a text start with line:column.
inline void claim_located(const absl::Status& s) {
  const std::string message(s.message());
  size_t i = 0;
  const auto number = [&] {
    const size_t begin = i;
    while (i < message.size() && message[i] >= '0' && message[i] <= '9') ++i;
    return i > begin;
  };
  const bool located = number() && message[i++] == ':' && number() && message.substr(i, 2) == ": ";
  claim(located, "an error without a place", message);
}

inline void claim_verified(const hlo::Computation& c) {
  const absl::Status s = hlo::verify(c);
  claim(s.ok(), "what was read does not verify", std::string(s.message()));
}

}  // namespace lamina::fuzz

#endif  // LAMINA_TESTS_FUZZ_FUZZ_H_
