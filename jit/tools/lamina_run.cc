// lamina-run FILE [--on=NAME] [--entry=NAME] [ARGUMENT.npy ...] [-o OUT]
//
// Runs a program in text form, ours, StableHLO (FILE.mlir) or XLA's HLO text (known by its first word,
// HloModule), on arrays from .npy files, one per parameter. Results are printed, or written to OUT.npy
// (OUT.0.npy, OUT.1.npy, ... if there are several). A StableHLO module runs its entry, @main or the only
// public function; without an entry and arguments every public function without parameters. The exit status
// is 0 only if everything ran and every check.expect_ holds.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "hlo/literal_text.h"
#include "hlo/op.h"
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "hlo/stablehlo/reader.h"
#include "hlo/strings.h"
#include "hlo/xla_text/reader.h"
#include "jit/tools/executors.h"
#include "jit/tools/failures.h"
#include "jit/tools/npy.h"

namespace lamina {
namespace {

using hlo::stablehlo::Module;
using hlo::stablehlo::Program;
using jit::fail;
using jit::fail_parse;

int usage(std::FILE* to, int code) {
  std::string names;
  for (const jit::Executor& e : jit::executors()) str_append(&names, names.empty() ? "" : "|", e.name);
  std::fprintf(to, "usage: lamina-run FILE [--on=%s] [--entry=NAME] [ARGUMENT.npy ...] [-o OUT]\n",
               names.c_str());
  return code;
}

struct Options {
  std::string file, out, entry;
  const jit::Executor* executor = nullptr;
  std::vector<std::string> inputs;
};

// An array that the machine cannot hold is refused before anything runs.
absl::Status check_sizes(const hlo::Computation& program) {
  const int64_t limit = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  std::vector<const hlo::Computation*> all = hlo::regions_of(program);
  all.push_back(&program);
  for (const hlo::Computation* c : all)
    for (const hlo::Node* n : c->nodes())
      for (uint32_t i = 0; i < n->num_results(); ++i)
        if (const hlo::Type* t = n->result_type(i); t->is_array() && t->bytes() > limit)
          return absl::ResourceExhaustedError(str_cat(n->def().name, " makes ", to_string(*t),
                                                      ", which is larger than this machine's memory"));
  return absl::OkStatus();
}

// The arrays of the command line; `wanted` settles what 16-bit data mean.
absl::StatusOr<std::vector<hlo::LiteralPtr>> read_inputs(const Options& o,
                                                         std::span<const hlo::Type* const> wanted) {
  if (o.inputs.size() != wanted.size())
    return absl::InvalidArgumentError(
        str_cat(o.file, ": the program takes ", wanted.size(), " arguments, not ", o.inputs.size()));
  std::vector<hlo::LiteralPtr> values;
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    absl::StatusOr<hlo::LiteralPtr> value = jit::read_npy(o.inputs[i], wanted[i]);
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
  }
  return values;
}

int run_program(const Options& o, const Program& program, std::span<const hlo::LiteralPtr> values) {
  if (absl::Status s = check_sizes(*program.computation); !s.ok()) return fail(o.file, s);
  absl::StatusOr<std::vector<hlo::LiteralPtr>> results = o.executor->run(program.computation, values);
  if (!results.ok()) return fail(o.file, results.status());
  for (size_t i = 0; i < program.num_results; ++i) {
    const hlo::Literal& result = *(*results)[i];
    if (o.out.empty()) {
      std::string text = to_string(*result.type()) + " ";
      hlo::append_literal(&text, result, std::numeric_limits<int64_t>::max());
      std::cout << text << "\n";
      continue;
    }
    const std::string path = program.num_results == 1 ? o.out + ".npy" : str_cat(o.out, ".", i, ".npy");
    if (absl::Status s = jit::write_npy(path, result); !s.ok()) return fail(path, s);
  }
  int code = 0;
  for (const hlo::stablehlo::Check& c : program.checks)
    if (absl::Status s = judge(c, *(*results)[c.first], *(*results)[c.first + 1]); !s.ok())
      code = fail_parse(o.file, s);
  return code;
}

int run_module(const Options& o, const absl::StatusOr<Module>& module) {
  if (!module.ok()) return fail_parse(o.file, module.status());
  std::vector<std::string> names;
  const absl::StatusOr<std::string> entry = module->entry();
  if (!o.entry.empty()) {
    names.push_back(o.entry);
  } else if (entry.ok()) {
    names.push_back(*entry);
  } else {
    for (const Module::Function& f : module->functions())
      if (f.is_public && f.num_arguments == 0) names.push_back(f.name);
    if (names.empty() || !o.inputs.empty()) return fail_parse(o.file, entry.status());
  }
  int code = 0;
  for (const std::string& name : names) {
    // Dimensions written ? are those of the arrays.
    std::vector<const hlo::Type*> types;
    for (const Module::Function& f : module->functions())
      if (f.name == name)
        for (const auto& a : f.arguments) types.push_back(hlo::scalar_type(a.dtype));
    const absl::StatusOr<std::vector<hlo::LiteralPtr>> values = read_inputs(o, types);
    if (!values.ok()) return fail("lamina-run", values.status());
    for (size_t i = 0; i < types.size(); ++i) types[i] = (*values)[i]->type();
    const absl::StatusOr<Program> program = module->program(name, types);
    code = std::max(code,
                    program.ok() ? run_program(o, *program, *values) : fail_parse(o.file, program.status()));
  }
  return code;
}

int run(std::span<char*> arguments) {
  Options o;
  std::string_view on = "evaluator";
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view a = arguments[i];
    if (a == "--help") return usage(stdout, 0);
    if (a.starts_with("--on=")) {
      on = a.substr(5);
    } else if (a.starts_with("--entry=")) {
      o.entry = a.substr(8);
    } else if (a == "-o" && i + 1 < arguments.size()) {
      o.out = arguments[++i];
    } else if (a.starts_with("-")) {
      return usage(stderr, 2);
    } else if (o.file.empty()) {
      o.file = a;
    } else {
      o.inputs.emplace_back(a);
    }
  }
  for (const jit::Executor& e : jit::executors())
    if (e.name == on) o.executor = &e;
  if (o.file.empty() || !o.executor) return usage(stderr, 2);

  absl::StatusOr<std::string> source = jit::read_file(o.file);
  if (!source.ok()) return fail("lamina-run", source.status());
  if (o.file.ends_with(".mlir") || hlo::stablehlo::looks_like_stablehlo(*source))
    return run_module(o, Module::parse(*std::move(source)));
  if (hlo::xla_text::looks_like_xla_text(*source))
    return run_module(o, hlo::xla_text::parse(*std::move(source)));
  absl::StatusOr<hlo::ComputationPtr> program = hlo::parse(*source);
  if (!program.ok()) return fail_parse(o.file, program.status());
  const absl::StatusOr<std::vector<hlo::LiteralPtr>> values = read_inputs(o, (*program)->parameter_types());
  if (!values.ok()) return fail("lamina-run", values.status());
  return run_program(o, {*program, (*program)->roots().size(), {}}, *values);
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) { return lamina::run(std::span(argv, argc).subspan(1)); }
