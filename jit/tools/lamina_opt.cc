// lamina-opt FILE [--passes=a,b] [--print-after-each] [--preset=full|canonical|short]
//
// Reads a program in text form (- for standard input), runs passes, prints the result. Every step is
// verified.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "absl/strings/str_split.h"
#include "hlo/parser.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "hlo/verifier.h"
#include "jit/tools/npy.h"

namespace lamina {
namespace {

int usage(std::FILE* to, int code) {
  std::fputs(
      "usage: lamina-opt FILE [--passes=a,b,...] [--print-after-each] "
      "[--preset=full|canonical|short]\npasses:\n",
      to);
  for (const hlo::Pass& pass : hlo::passes())
    std::fprintf(to, "  %-11s %.*s\n", std::string(pass.name).c_str(),
                 static_cast<int>(pass.description.size()), pass.description.data());
  return code;
}

int fail(const std::string& file, const absl::Status& status) {
  std::cerr << file << ": " << std::string(status.message()) << "\n";
  return 1;
}

// The message starts with line:column.
int fail_parse(const std::string& file, const absl::Status& status) {
  std::cerr << file << ":" << std::string(status.message()) << "\n";
  return 1;
}

int run(std::span<char*> arguments) {
  std::string file;
  std::vector<std::string> names;
  hlo::TextOptions text = hlo::TextOptions::full();
  bool each = false;
  for (const std::string_view a : arguments) {
    if (a == "--help") return usage(stdout, 0);
    if (a == "--print-after-each") {
      each = true;
    } else if (a.starts_with("--passes=")) {
      names = absl::StrSplit(std::string(a.substr(9)), ',', absl::SkipEmpty());
    } else if (a.starts_with("--preset=")) {
      const std::optional<hlo::TextOptions> preset = hlo::parse_preset(a.substr(9));
      if (!preset) return usage(stderr, 2);
      text = *preset;
    } else if (file.empty() && (a == "-" || !a.starts_with("-"))) {
      file = a;
    } else {
      return usage(stderr, 2);
    }
  }
  if (file.empty()) return usage(stderr, 2);
  std::string source;
  if (file == "-") {
    source.assign(std::istreambuf_iterator<char>(std::cin), {});
  } else {
    absl::StatusOr<std::string> read = jit::read_file(file);
    if (!read.ok()) return fail("lamina-opt", read.status());
    source = *std::move(read);
  }
  absl::StatusOr<hlo::ComputationPtr> program = hlo::parse(source);
  if (!program.ok()) return fail_parse(file, program.status());
  absl::StatusOr<hlo::ComputationPtr> result = hlo::run_passes(
      names, *program,
      [&](const hlo::Pass& pass, const hlo::ComputationPtr& before,
          const hlo::ComputationPtr& after) -> absl::Status {
        if (absl::Status s = hlo::verify(*after); !s.ok())
          return absl::InternalError(str_cat("after ", pass.name, ": ", std::string(s.message())));
        if (each)
          std::cout << "// after " << pass.name << "\n"
                    << (before == after ? "// unchanged\n" : print(*after, text)) << "\n";
        return absl::OkStatus();
      });
  if (!result.ok()) return fail(file, result.status());
  if (!each || names.empty()) std::cout << print(**result, text);
  return 0;
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) { return lamina::run(std::span(argv, argc).subspan(1)); }
