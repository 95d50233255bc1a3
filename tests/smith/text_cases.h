// The text files of tests/text: cases of one program each.
//
//   // CASE: name
//   // RUN: pass,pass          (absent: nothing is run)
//   program
//   // EXPECT:                 (absent: the program itself, in canonical form)
//   program
//
// LAMINA_UPDATE_TEXT=1 writes what the library gives in place of what is expected.
#ifndef LAMINA_TESTS_SMITH_TEXT_CASES_H_
#define LAMINA_TESTS_SMITH_TEXT_CASES_H_

#include <string>
#include <vector>

#include "hlo/computation.h"
#include "hlo/literal.h"

namespace lamina::testing {

struct TextCase {
  std::string name;
  std::vector<std::string> passes;
  std::string input, expected;
  bool has_expected = false;
};

struct TextFile {
  std::string path;
  std::vector<TextCase> cases;
};

// Every .hlo file below `folder` of tests/text, sorted.
std::vector<TextFile> text_files(const std::string& folder);
TextFile parse_text_file(const std::string& path);
void write_text_file(const TextFile& file);

// Arguments for a program, the same for the same seed: small numbers, and now and then zeros, infinities,
// NaNs and subnormals.
std::vector<hlo::LiteralPtr> arguments_for(const hlo::Computation& program, uint64_t seed);
hlo::LiteralPtr random_literal(const hlo::Type* type, uint64_t* state);

// Equal to the bit, but for which NaN it is.
bool same_values(const hlo::Literal& a, const hlo::Literal& b);

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_SMITH_TEXT_CASES_H_
