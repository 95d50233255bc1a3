// What the CPU makes of a routine of linear algebra, for the stand-ins of libraries that have the same.
#ifndef LAMINA_TESTS_JIT_CUDA_STANDIN_ROUTINE_H_
#define LAMINA_TESTS_JIT_CUDA_STANDIN_ROUTINE_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "hlo/linalg/calls.h"
#include "tests/jit/cuda_standin/standin.h"

namespace standins {

using Bytes = std::vector<std::byte>;

// What the CPU makes of dense rows.
inline std::vector<Bytes> routine(const char* name, const std::vector<const lamina::hlo::Type*>& operands,
                                  const std::vector<Bytes>& rows,
                                  const std::vector<const lamina::hlo::Type*>& results) {
  std::vector<Bytes> out;
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const Bytes& r : rows) from.push_back(r.data());
  for (const lamina::hlo::Type* t : results) out.emplace_back(static_cast<size_t>(t->bytes()));
  for (Bytes& o : out) to.push_back(o.data());
  const auto call =
      lamina::hlo::linalg::MatrixCall::make(*lamina::hlo::linalg::find_routine(name), operands, results);
  const auto in_turn = [](int64_t count, const std::function<void(int64_t)>& one) {
    for (int64_t i = 0; i < count; ++i) one(i);
  };
  if (!call.ok() || !call->run(from.data(), to.data(), 0, 1, in_turn).ok())
    violation("a routine that the CPU does not have");
  return out;
}

}  // namespace standins

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_ROUTINE_H_
