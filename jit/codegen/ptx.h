// PTX of kernels, as the rest of the library sees it.
//
// Contract: as CodeGenerator (jit/codegen/client.h), whose thread it uses, but needs nothing of the host's
// processor. Entries, their parameters and what to launch: jit/kernel/grid.h. A generator may be used from
// any thread.
#ifndef LAMINA_JIT_CODEGEN_PTX_H_
#define LAMINA_JIT_CODEGEN_PTX_H_

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <utility>

#include "jit/kernel/grid_chain.h"

struct LaminaLlvmApi;  // jit/codegen/api.h

namespace lamina::jit {

class PtxGenerator {
 public:
  // Opens liblamina_llvm; `library_path` as in CodeGeneratorOptions.
  static absl::StatusOr<PtxGenerator> create(const std::string& library_path = "");

  // The name of the library's contents, on which saved code depends besides kernel, schedule and chip. Empty
  // if it has none: then nothing may be saved.
  const std::string& build() const { return build_; }
  // The same of the library that `create` would open, which is not opened.
  static std::string build_of(const std::string& library_path);

  // PTX of ISA 7.8 for a chip such as "sm_90", which is of use for every later chip: of one kernel, or those
  // of a chain, as texts (jit/kernel/grid_chain.h). InternalError with the reason where they are no texts of
  // kernels and schedules, the chip is not known, or a schedule is none for its kernel (what `grid_takes`
  // refuses is best asked before).
  absl::StatusOr<std::string> ptx(const std::string& kernels, const std::string& schedules,
                                  const std::string& chip) const;

 private:
  PtxGenerator(const LaminaLlvmApi* api, std::string build) : api_(api), build_(std::move(build)) {}
  const LaminaLlvmApi* api_;  // never unloaded
  std::string build_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CODEGEN_PTX_H_
