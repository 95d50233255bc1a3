#include "python/doctor.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "hlo/isa.h"
#include "hlo/strings.h"
#include "jit/cpu/onednn_client.h"
#include "jit/cuda/client.h"

namespace lamina::python {
namespace {

// What is looked for, and what was found.
using Findings = std::vector<std::pair<std::string, std::string>>;

std::string found_or(const std::string& missing) {
  return missing.empty() ? "found" : str_cat("missing: ", missing);
}

std::string instruction_set() {
  constexpr const char* kNames[] = {"baseline", "AVX2 and FMA", "AVX-512"};
  return kNames[static_cast<int>(hlo::best_isa())];
}

void add_cuda(Findings& out) {
  const absl::StatusOr<jit::cuda::CudaClient*> client = jit::cuda::CudaClient::get();
  if (!client.ok()) {
    out.emplace_back("CUDA", str_cat("missing: ", client.status().message()));
    return;
  }
  const jit::cuda::Driver& driver = (*client)->driver();
  out.emplace_back("CUDA", absl::StrFormat("found: %s, for CUDA %d.%d", driver.library, driver.version / 1000,
                                           driver.version % 1000 / 10));
  out.emplace_back("kernel assembler", (*client)->kernels().assembler());
  out.emplace_back("matrix products", (*client)->products().library());
  out.emplace_back("convolutions", (*client)->dnn().library());
  out.emplace_back("transforms (FFT)", (*client)->fourier().library());
  out.emplace_back("factorizations", (*client)->factorizations().library());
  out.emplace_back("triangular solves", (*client)->triangles().library());
  for (const auto& gpu : (*client)->gpus()) {
    const jit::cuda::GpuFacts& facts = gpu->facts();
    out.emplace_back(
        gpu->name(),
        absl::StrFormat("%s, compute capability %d.%d, %d multiprocessors, %.1f GiB", facts.model,
                        facts.capability / 10, facts.capability % 10, facts.multiprocessors,
                        static_cast<double>(facts.bytes) / (int64_t{1} << 30)));
  }
  for (const std::string& why : (*client)->refused()) out.emplace_back("not used", why);
}

}  // namespace

void add_doctor(pybind11::module_& m) {
  m.def(
      "findings",
      [] {
        Findings out{{"instruction set", instruction_set()}, {"oneDNN", found_or(jit::onednn_missing())}};
        add_cuda(out);
        return out;
      },
      "What this machine has besides the code generator: pairs of what it is, and what was found or why "
      "not.");
}

}  // namespace lamina::python
