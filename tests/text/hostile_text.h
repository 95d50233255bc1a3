// What tests of text from strangers share: readers must answer at once, with a located message.
#ifndef LAMINA_TESTS_TEXT_HOSTILE_TEXT_H_
#define LAMINA_TESTS_TEXT_HOSTILE_TEXT_H_

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <string_view>

namespace lamina::testing {

// What `read` says, which must not take long.
template <typename Read>
std::string said_at_once(Read read) {
  const auto start = std::chrono::steady_clock::now();
  std::string said = read();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
#ifdef __SANITIZE_ADDRESS__
  CHECK(took.count() < 20.0);
#else
  CHECK(took.count() < 1.0);
#endif
  return said;
}

// Checks that a message begins with a place and says `what`.
inline bool mentions(const std::string& message, std::string_view what) {
  INFO(message.substr(0, 300));
  const bool found = message.find(what) != std::string::npos && message.find(':') < 12;
  CHECK(found);
  return found;
}

inline std::string repeated(std::string_view piece, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += piece;
  return out;
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_TEXT_HOSTILE_TEXT_H_
