#include "jit/program/listing.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "hlo/strings.h"
#include "jit/program/row_chain.h"
#include "jit/program/target.h"

namespace lamina::jit {
namespace {

constexpr std::string_view kStages[] = {"steps", "plan", "kernels", "ir", "assembly"};

using Used = std::pair<const KernelText*, std::string>;  // and by which steps

void collect(const Executable& executable, const std::string& path, std::vector<Used>* out) {
  const auto add = [&](const Step& step, const std::string& name) {
    for (const KernelText* kernel : step.kernels()) {
      const auto known =
          std::find_if(out->begin(), out->end(), [&](const Used& used) { return used.first == kernel; });
      if (known == out->end())
        out->emplace_back(kernel, name);
      else
        known->second += str_cat(", ", name);
    }
  };
  for (size_t i = 0; i < executable.steps().size(); ++i) {
    const Step& step = *executable.steps()[i];
    const std::string name = str_cat(path, i);
    add(step, str_cat("step ", name));
    for (const Executable* inside : step.programs()) collect(*inside, str_cat(name, " / "), out);
  }
  for (const RowChain& c : executable.chains())
    add(*c.step, str_cat("steps ", path, c.first, " to ", path, c.last, " together"));
}

// The plan, and those of the programs inside its steps.
std::string plan_text(const Executable& executable, const std::string& path) {
  std::string text =
      str_cat(path.empty() ? "" : str_cat("// step ", path, "\n"), to_string(executable.plan()));
  for (size_t i = 0; i < executable.steps().size(); ++i)
    for (const Executable* inside : executable.steps()[i]->programs())
      text += plan_text(*inside, path.empty() ? str_cat(i) : str_cat(path, " / ", i));
  return text;
}

}  // namespace

std::string to_string(const KernelText& kernel) {
  return kernel.text + (kernel.grid.empty() ? to_string(kernel.schedule) : kernel.grid);
}

std::span<const std::string_view> listing_stages() { return kStages; }

absl::StatusOr<std::string> listing(const Executable& executable, std::string_view stage) {
  if (std::find(std::begin(kStages), std::end(kStages), stage) == std::end(kStages)) {
    std::string all;
    for (std::string_view known : kStages) str_append(&all, all.empty() ? "" : ", ", known);
    return absl::InvalidArgumentError(str_cat("there is no stage '", stage, "'; there are ", all));
  }
  if (stage == "steps")
    return executable.describe() + cluster::report(executable.program(), executable.fusion());
  if (stage == "plan") return plan_text(executable, "");
  std::vector<Used> kernels;
  collect(executable, "", &kernels);
  const Target& target = executable.device().target();
  std::string text;
  for (const auto& [kernel, steps] : kernels) {
    absl::StatusOr<std::string> listed = stage == "ir"         ? target.ir(*kernel)
                                         : stage == "assembly" ? target.assembly(*kernel)
                                                               : to_string(*kernel);
    if (!listed.ok()) return listed.status();
    str_append(&text, "// ", steps, "\n", *listed);
  }
  return text;
}

std::vector<const KernelText*> kernels_of(const Executable& executable) {
  std::vector<Used> used;
  collect(executable, "", &used);
  std::vector<const KernelText*> out;
  for (const auto& [kernel, steps] : used) out.push_back(kernel);
  return out;
}

}  // namespace lamina::jit
