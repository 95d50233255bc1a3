// lamina-smith: random programs, run in every way that has to agree.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "hlo/printer.h"
#include "tests/build_paths.h"
#include "tests/smith/executors.h"

namespace {

constexpr char kUsage[] =
    "usage: lamina-smith [--programs N] [--seed S] [--operations K] [--only NAME] [--print]\n"
    "  Makes N random programs (1000) from seed S (0) on, of K operations (20) each, runs each in every way "
    "(--only:\n"
    "  in one, by its name), and compares with the evaluator bit by bit. A program that differs is made "
    "small and\n"
    "  printed. --print shows the programs instead of running them. Exit status 1 if anything differs, 2 for "
    "a wrong\n"
    "  command line.\n";

bool number(const char* text, uint64_t* out) {
  char* end = nullptr;
  *out = std::strtoull(text, &end, 10);
  return *text >= '0' && *text <= '9' && *end == 0;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace lamina::testing;
  uint64_t programs = 1000, first = 0, operations = 20;
  std::string only;
  bool print_only = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "";
    bool good = true;
    if (word == "--programs") {
      good = number(next, &programs);
    } else if (word == "--seed") {
      good = number(next, &first);
    } else if (word == "--operations") {
      good = number(next, &operations) && operations <= 100000;
    } else if (word == "--only") {
      only = next;
    } else if (word == "--print") {
      print_only = true;
      continue;
    } else {
      good = false;
    }
    if (!good) {
      std::fputs(kUsage, word == "--help" ? stdout : stderr);
      return word == "--help" ? 0 : 2;
    }
    ++i;
  }
  SmithOptions options;
  options.operations = static_cast<int>(operations);
  const std::vector<SmithExecutor> executors = smith_executors(lamina::kCodeGenerator);
  std::string names;
  bool known = only.empty();
  for (const SmithExecutor& e : executors) {
    names += (names.empty() ? "" : ", ") + e.name;
    known = known || e.name == only;
  }
  if (!known) {
    std::fprintf(stderr, "lamina-smith: there is no way of running called '%s'; there are: %s\n",
                 only.c_str(), names.c_str());
    return 2;
  }
  int64_t different = 0, runs = 0;
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    const lamina::hlo::ComputationPtr program = random_program(seed, options);
    if (print_only) {
      std::printf("// seed %llu\n%s\n", static_cast<unsigned long long>(seed),
                  lamina::hlo::print(*program).c_str());
      continue;
    }
    for (const SmithExecutor& executor : executors) {
      if (!only.empty() && executor.name != only) continue;
      ++runs;
      if (difference(program, executor, seed).empty()) continue;
      ++different;
      const auto fails = [&](const lamina::hlo::ComputationPtr& p) {
        return !difference(p, executor, seed).empty();
      };
      const lamina::hlo::ComputationPtr small = reduce_program(program, fails);
      std::printf("seed %llu, %s:\n%s%s\n", static_cast<unsigned long long>(seed), executor.name.c_str(),
                  lamina::hlo::print(*small).c_str(), difference(small, executor, seed).c_str());
    }
  }
  if (print_only) return 0;
  std::printf("%llu programs, %lld runs, %lld differ\n", static_cast<unsigned long long>(programs),
              static_cast<long long>(runs), static_cast<long long>(different));
  return different > 0;
}
