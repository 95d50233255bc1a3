// docs/ops.md says what the tables say.
#include "jit/tools/op_support.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/build_paths.h"

TEST_CASE("the table of ops in docs is up to date", "[docs]") {
  std::ifstream file(std::string(lamina::kTestsFolder) + "/../docs/ops.md");
  const std::string written{std::istreambuf_iterator<char>(file), {}};
  INFO("make it anew: lamina-opt --ops > docs/ops.md");
  CHECK(written == lamina::jit::op_support_table());
}
