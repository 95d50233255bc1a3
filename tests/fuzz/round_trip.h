// Modules of functions: read, written, read and written again.
#ifndef LAMINA_TESTS_FUZZ_ROUND_TRIP_H_
#define LAMINA_TESTS_FUZZ_ROUND_TRIP_H_

#include "hlo/stablehlo/reader.h"
#include "tests/fuzz/fuzz.h"

namespace lamina::fuzz {

template <typename Parse, typename Write>
void round_trip(std::string input, Parse&& parse, Write&& write) {
  const auto program_of = [&](std::string text) -> absl::StatusOr<hlo::stablehlo::Program> {
    const absl::StatusOr<hlo::stablehlo::Module> module = parse(std::move(text));
    if (!module.ok()) return module.status();
    const absl::StatusOr<std::string> entry = module->entry();
    if (!entry.ok()) return entry.status();
    return module->program(*entry);
  };
  const auto first = program_of(std::move(input));
  if (!first.ok()) return claim_located(first.status());
  claim_verified(*first->computation);
  const absl::StatusOr<std::string> written = write(*first->computation);
  if (!written.ok()) return;  // host calls of names that no process knows
  const auto second = program_of(*written);
  claim(second.ok(), "what is written is not read: " + std::string(second.status().message()), *written);
  const absl::StatusOr<std::string> again = write(*second->computation);
  claim(again.ok(), "what is read again is not written", *written);
  const auto third = program_of(*again);
  claim(third.ok() && third->computation == second->computation, "what is written reads back differently",
        *written + "\n---\n" + *again);
}

}  // namespace lamina::fuzz

#endif  // LAMINA_TESTS_FUZZ_ROUND_TRIP_H_
