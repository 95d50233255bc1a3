// XLA's text: what is read verifies; what is written of it is read again and written to the same text.
#include "hlo/xla_text/reader.h"
#include "hlo/xla_text/writer.h"
#include "tests/fuzz/round_trip.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lamina;
  fuzz::round_trip(std::string(reinterpret_cast<const char*>(data), size), hlo::xla_text::parse,
                   [](const hlo::Computation& c) { return hlo::xla_text::write(c); });
  return 0;
}
