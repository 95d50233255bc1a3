// Our own text form: what is read verifies, prints, and reads back as the same computation.
#include "hlo/parser.h"
#include "hlo/printer.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  const hlo::ParseLimits limits{.literal_bytes = 1 << 20, .all_literal_bytes = 1 << 24};
  const auto first = hlo::parse({reinterpret_cast<const char*>(data), size}, limits);
  if (!first.ok()) {
    fuzz::claim_located(first.status());
    return 0;
  }
  fuzz::claim_verified(**first);
  const std::string text = hlo::print(**first, hlo::TextOptions::canonical());
  const auto second = hlo::parse(text);
  fuzz::claim(second.ok() && *second == *first, "what is printed reads back differently", text);
  return 0;
}
