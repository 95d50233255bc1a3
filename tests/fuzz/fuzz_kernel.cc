// Kernel texts: what is read verifies and prints back byte for byte; the rest is refused with its place.
#include "jit/kernel/kernel.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<jit::LoopKernel> kernel = jit::parse_kernel(text);
  if (!kernel.ok()) {
    fuzz::claim_located(kernel.status());
    return 0;
  }
  fuzz::claim(jit::verify(*kernel).ok(), "what was read does not verify", text);
  fuzz::claim(jit::to_string(*kernel) == text, "what was read prints differently", text);
  return 0;
}
