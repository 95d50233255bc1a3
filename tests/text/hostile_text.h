// What tests of text from strangers share: readers must answer at once, with a located message.
#ifndef LAMINA_TESTS_TEXT_HOSTILE_TEXT_H_
#define LAMINA_TESTS_TEXT_HOSTILE_TEXT_H_

#include <catch2/catch.hpp>
#include <ctime>
#include <string>
#include <string_view>

namespace lamina::testing {

// What `read` says. The ceiling of the processor's time is ten times what the slowest took.
template <typename Read>
std::string said_at_once(Read read) {
  const std::clock_t start = std::clock();
  std::string said = read();
  const double took = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
#ifdef __SANITIZE_ADDRESS__
  CHECK(took < 50.0);
#else
  CHECK(took < 5.0);
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
