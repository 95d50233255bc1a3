// The one translation unit that carries Catch2's main.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#include <cstdlib>

int main(int argc, char** argv) {
  // Tests count compiles: what an earlier run left on disk must not change them.
  setenv("LAMINA_CACHE_DIR", "", 1);
  return Catch::Session().run(argc, argv);
}
