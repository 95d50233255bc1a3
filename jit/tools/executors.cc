#include "jit/tools/executors.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "hlo/evaluator.h"
#include "jit/cpu/client.h"
#include "jit/program/listing.h"
#include "jit/tools/ptx_listing.h"

namespace lamina::jit {
namespace {

absl::StatusOr<std::vector<hlo::LiteralPtr>> run_evaluator(const hlo::ComputationPtr& program,
                                                           std::span<const hlo::LiteralPtr> arguments) {
  return hlo::evaluate(*program, arguments);
}

Device& compiling_device() {
  KernelStore& kernels = CpuClient::get().kernels();
  kernels.set_eager(true);
#ifdef LAMINA_LLVM_PATH
  // The tools stay in the build tree, where the library lies elsewhere.
  if (!std::getenv("LAMINA_LLVM_PATH"))
    kernels.set_generator_options({.library_path = LAMINA_LLVM_PATH, .cpu = {}, .features = {}});
#endif
  return host_device();
}

absl::StatusOr<std::vector<hlo::LiteralPtr>> run_cpu(const hlo::ComputationPtr& program,
                                                     std::span<const hlo::LiteralPtr> arguments) {
  Device& device = compiling_device();
  const absl::StatusOr<std::shared_ptr<const Executable>> executable = Executable::compile(device, program);
  if (!executable.ok()) return executable.status();
  std::vector<BufferRef> buffers, results;
  for (const hlo::LiteralPtr& a : arguments) {
    absl::StatusOr<BufferRef> buffer = device.client().put(device, a->data(), a->bytes());
    if (!buffer.ok()) return buffer.status();
    buffers.push_back(*std::move(buffer));
  }
  if (absl::Status status = (*executable)->run(buffers, results); !status.ok()) return status;
  if (const std::string why = CpuClient::get().kernels().unavailable(); !why.empty())
    std::fprintf(stderr, "interpreted, not compiled: %s\n", why.c_str());
  std::vector<hlo::LiteralPtr> out;
  for (size_t i = 0; i < results.size(); ++i)
    out.push_back(hlo::Literal::copy_of(program->roots()[i].type(), device.client().view(*results[i])));
  return out;
}

constexpr Executor kExecutors[] = {
    {"cpu", run_cpu},
    {"evaluator", run_evaluator},
};

}  // namespace

std::span<const Executor> executors() { return kExecutors; }

absl::StatusOr<std::string> compiled_stage(const hlo::ComputationPtr& program, std::string_view stage) {
  Device& device = compiling_device();
  const absl::StatusOr<std::shared_ptr<const Executable>> executable = Executable::compile(device, program);
  if (!executable.ok()) return executable.status();
  constexpr std::string_view kPtx = "ptx";
  if (stage == kPtx) return ptx_listing(**executable, "sm_90");
  if (stage.starts_with(kPtx) && stage.substr(kPtx.size(), 1) == ":")
    return ptx_listing(**executable, std::string(stage.substr(kPtx.size() + 1)));
  return listing(**executable, stage);
}

absl::StatusOr<std::string> loaded_stage(const PlanFile& file, std::string_view stage) {
  Device& device = compiling_device();
  const Target& target = device.target();
  std::vector<std::shared_ptr<const void>> held;
  if (target.check_machine(file.machine).ok())
    for (const KernelCode& code : file.kernels) {
      absl::StatusOr<std::shared_ptr<const void>> kernel = target.adopt(code);
      if (!kernel.ok()) return kernel.status();
      held.push_back(*std::move(kernel));
    }
  const absl::StatusOr<std::shared_ptr<const Executable>> executable =
      Executable::of_simplified(device, file.program);
  if (!executable.ok()) return executable.status();
  return listing(**executable, stage);
}

}  // namespace lamina::jit
