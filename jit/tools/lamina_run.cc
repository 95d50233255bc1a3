// lamina-run FILE [--on=NAME] [ARGUMENT.npy ...] [-o OUT]
//
// Runs a program in text form on arrays from .npy files, one per parameter. Results are printed, or written
// to OUT.npy (OUT.0.npy, OUT.1.npy, ... if there are several).
#include <cstdio>
#include <iostream>

#include "hlo/literal_text.h"
#include "hlo/parser.h"
#include "hlo/strings.h"
#include "jit/tools/executors.h"
#include "jit/tools/npy.h"

namespace lamina {
namespace {

int usage(std::FILE* to, int code) {
  std::string names;
  for (const jit::Executor& e : jit::executors()) str_append(&names, names.empty() ? "" : "|", e.name);
  std::fprintf(to, "usage: lamina-run FILE [--on=%s] [ARGUMENT.npy ...] [-o OUT]\n", names.c_str());
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
  std::string file, out;
  std::string_view on = "evaluator";
  std::vector<std::string> inputs;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view a = arguments[i];
    if (a == "--help") return usage(stdout, 0);
    if (a.starts_with("--on=")) {
      on = a.substr(5);
    } else if (a == "-o" && i + 1 < arguments.size()) {
      out = arguments[++i];
    } else if (a.starts_with("-")) {
      return usage(stderr, 2);
    } else if (file.empty()) {
      file = a;
    } else {
      inputs.emplace_back(a);
    }
  }
  const jit::Executor* executor = nullptr;
  for (const jit::Executor& e : jit::executors())
    if (e.name == on) executor = &e;
  if (file.empty() || !executor) return usage(stderr, 2);

  absl::StatusOr<std::string> source = jit::read_file(file);
  if (!source.ok()) return fail("lamina-run", source.status());
  absl::StatusOr<hlo::ComputationPtr> program = hlo::parse(*source);
  if (!program.ok()) return fail_parse(file, program.status());
  const std::vector<const hlo::Type*> types = (*program)->parameter_types();
  if (inputs.size() != types.size())
    return fail(file, absl::InvalidArgumentError(
                          str_cat("the program takes ", types.size(), " arguments, not ", inputs.size())));
  std::vector<hlo::LiteralPtr> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    absl::StatusOr<hlo::LiteralPtr> value = jit::read_npy(inputs[i], types[i]);
    if (!value.ok()) return fail("lamina-run", value.status());
    values.push_back(*std::move(value));
  }
  absl::StatusOr<std::vector<hlo::LiteralPtr>> results = executor->run(*program, values);
  if (!results.ok()) return fail(file, results.status());
  for (size_t i = 0; i < results->size(); ++i) {
    const hlo::Literal& result = *(*results)[i];
    if (out.empty()) {
      std::string text = to_string(*result.type()) + " ";
      hlo::append_literal(&text, result, std::numeric_limits<int64_t>::max());
      std::cout << text << "\n";
      continue;
    }
    const std::string path = results->size() == 1 ? out + ".npy" : str_cat(out, ".", i, ".npy");
    if (absl::Status s = jit::write_npy(path, result); !s.ok()) return fail(path, s);
  }
  return 0;
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) { return lamina::run(std::span(argv, argc).subspan(1)); }
