// What every test program runs under, set before Catch2's main: tests count compiles, and what an earlier run
// left on disk must not change them.
#include <cstdlib>

namespace {
[[maybe_unused]] const int no_disk_cache = setenv("LAMINA_CACHE_DIR", "", 1);
}
