// Programs of tests that are written as text, and texts with places to fill in.
#ifndef LAMINA_TESTS_JIT_PROGRAM_TEXT_H_
#define LAMINA_TESTS_JIT_PROGRAM_TEXT_H_

#include <catch2/catch.hpp>
#include <string>
#include <utility>

#include "hlo/parser.h"

namespace lamina::testing {

// The program of a text that has to parse.
inline hlo::ComputationPtr parsed(const std::string& text) {
  const auto program = hlo::parse(text);
  INFO(text << "\n" << program.status());
  REQUIRE(program.ok());
  return *program;
}

// The text with every $key replaced.
inline std::string with(std::string text, std::initializer_list<std::pair<std::string, std::string>> values) {
  for (const auto& [key, value] : values)
    for (size_t at; (at = text.find("$" + key)) != std::string::npos;)
      text.replace(at, key.size() + 1, value);
  return text;
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_PROGRAM_TEXT_H_
