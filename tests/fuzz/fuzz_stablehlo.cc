// StableHLO text: what is read verifies; what is written of it is read again and written to the same text.
#include "hlo/stablehlo/reader.h"
#include "hlo/stablehlo/writer.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  fuzz::round_trip(std::string(reinterpret_cast<const char*>(data), size), hlo::stablehlo::Module::parse,
                   [](const hlo::Computation& c) { return hlo::stablehlo::write(c); });
  return 0;
}
