// What a StableHLO module's author is told.
#ifndef LAMINA_TESTS_STABLEHLO_MODULE_ERROR_H_
#define LAMINA_TESTS_STABLEHLO_MODULE_ERROR_H_

#include <string>

#include "hlo/stablehlo/reader.h"

namespace lamina::testing {

// The error of reading a module and making its entry, or "accepted".
inline std::string module_error(const std::string& text) {
  const auto module = hlo::stablehlo::Module::parse(text);
  if (!module.ok()) return std::string(module.status().message());
  const auto entry = module->entry();
  if (!entry.ok()) return std::string(entry.status().message());
  const auto program = module->program(*entry);
  return program.ok() ? "accepted" : std::string(program.status().message());
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_STABLEHLO_MODULE_ERROR_H_
