// lamina-opt FILE [--passes=a,b] [--print-after-each] [--preset=full|canonical|short] [--stablehlo|--hlo]
//            [--stage=file|steps|plan|kernels|ir|assembly|ptx[:CHIP]]
//
// Reads a program in text form (- for standard input), ours, StableHLO or XLA's HLO text (known by its first
// word, HloModule), or in a plan file, runs passes, prints the result in our form, in StableHLO or as XLA's
// text. Every step is verified. With --stage it is compiled, and that stage is printed
// (jit/program/listing.h): of a plan file, to which no passes are asked for, what becomes of it where it is
// loaded; "file" is what the file itself holds, "ptx" the kernels of a CUDA device (jit/tools/executors.h).
// lamina-opt --ops prints the table of docs/ops.md.
#include <cstdio>
#include <iostream>
#include <iterator>

#include "absl/strings/str_split.h"
#include "hlo/parser.h"
#include "hlo/passes/pass.h"
#include "hlo/printer.h"
#include "hlo/stablehlo/reader.h"
#include "hlo/stablehlo/writer.h"
#include "hlo/strings.h"
#include "hlo/verifier.h"
#include "hlo/xla_text/reader.h"
#include "hlo/xla_text/writer.h"
#include "jit/program/plan_file.h"
#include "jit/tools/executors.h"
#include "jit/tools/failures.h"
#include "jit/tools/npy.h"
#include "jit/tools/op_support.h"

namespace lamina {
namespace {

using jit::fail;
using jit::fail_parse;

int usage(std::FILE* to, int code) {
  std::fputs(
      "usage: lamina-opt FILE [--passes=a,b,...] [--print-after-each] "
      "[--preset=full|canonical|short] [--stablehlo|--hlo] "
      "[--stage=file|steps|plan|kernels|ir|assembly|ptx[:CHIP]]\n"
      "       lamina-opt --ops\npasses:\n",
      to);
  for (const hlo::Pass& pass : hlo::passes())
    std::fprintf(to, "  %-11s %.*s\n", std::string(pass.name).c_str(),
                 static_cast<int>(pass.description.size()), pass.description.data());
  return code;
}

// The module's entry; what checks claim is left out.
absl::StatusOr<hlo::ComputationPtr> entry_of(const absl::StatusOr<hlo::stablehlo::Module>& module) {
  if (!module.ok()) return module.status();
  absl::StatusOr<std::string> entry = module->entry();
  if (!entry.ok()) return entry.status();
  absl::StatusOr<hlo::stablehlo::Program> program = module->program(*entry);
  if (!program.ok()) return program.status();
  const std::span<const hlo::Value> roots = program->computation->roots();
  return hlo::Computation::make(program->computation->parameters(), roots.first(program->num_results));
}

absl::StatusOr<hlo::ComputationPtr> parse_text(const std::string& file, std::string source) {
  if (file.ends_with(".mlir") || hlo::stablehlo::looks_like_stablehlo(source))
    return entry_of(hlo::stablehlo::Module::parse(std::move(source)));
  if (hlo::xla_text::looks_like_xla_text(source)) return entry_of(hlo::xla_text::parse(std::move(source)));
  return hlo::parse(source);
}

// Prints it, or why there is nothing to print; the exit status.
int show(const std::string& file, const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return fail(file, text.status());
  std::cout << *text;
  return 0;
}

int run(std::span<char*> arguments) {
  std::string file, stage;
  std::vector<std::string> names;
  hlo::TextOptions text = hlo::TextOptions::full();
  bool each = false, to_stablehlo = false, to_xla = false;
  for (const std::string_view a : arguments) {
    if (a == "--help") return usage(stdout, 0);
    if (a == "--print-after-each") {
      each = true;
    } else if (a == "--stablehlo") {
      to_stablehlo = true;
    } else if (a == "--hlo") {
      to_xla = true;
    } else if (a == "--ops") {
      std::cout << jit::op_support_table();
      return 0;
    } else if (a.starts_with("--stage=")) {
      stage = a.substr(8);
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
  absl::StatusOr<hlo::ComputationPtr> program;
  if (stage == "file" || jit::looks_like_plan_file(source)) {
    const absl::StatusOr<jit::PlanFile> plan = jit::parse_plan_file(source);
    if (!plan.ok()) return fail(file, plan.status());
    if (stage == "file") {
      std::cout << describe(*plan);
      return 0;
    }
    if (!stage.empty() && names.empty()) return show(file, jit::loaded_stage(*plan, stage));
    program = plan->program;
  } else {
    program = parse_text(file, std::move(source));
    if (!program.ok()) return fail_parse(file, program.status());
  }
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
  if (each && !names.empty()) return 0;
  if (!stage.empty()) return show(file, jit::compiled_stage(*result, stage));
  if (!to_stablehlo && !to_xla) {
    std::cout << print(**result, text);
    return 0;
  }
  const absl::StatusOr<std::string> written =
      to_xla ? hlo::xla_text::write(**result, {.module = "main", .locations = text.locations})
             : hlo::stablehlo::write(**result, {.module = "main", .locations = text.locations});
  return show(file, written);
}

}  // namespace
}  // namespace lamina

int main(int argc, char** argv) { return lamina::run(std::span(argv, argc).subspan(1)); }
