#include "jit/program/row_access.h"

#include <algorithm>

#include "jit/kernel/in_place.h"

namespace lamina::jit {

std::vector<RowAccess> row_accesses_of(const LoopKernel& k, const LoweredLoop& loop) {
  std::vector<RowAccess> out;
  if (k.parallel_rank == 0 || !k.repeats.empty()) return out;
  for (const std::vector<KernelInstr>* section : {&k.body, &k.epilogue})
    for (const KernelInstr& i : *section)
      if (i.op == KernelOp::kLoadAt) return out;
  for (const Access& a : k.accesses) {
    const hlo::Value& value = loop.buffers[a.buffer];
    if (!value) return {};
    const std::vector<int64_t> steps = resolved(a, loop.args);
    const hlo::Type& type = *value.type();
    RowAccess access{static_cast<int>(a.buffer),
                     k.buffers[a.buffer].written,
                     steps[0],
                     steps[kMaxLoopRank],
                     steps[kMaxLoopRank] + 1,
                     type.num_elements * hlo::num_parts(type.dtype),
                     type.bytes()};
    for (int d = 1; d < k.parallel_rank + k.reduce_rank; ++d)
      (steps[d] < 0 ? access.low : access.high) += steps[d] * std::max<int64_t>(loop.args[d] - 1, 0);
    out.push_back(access);
  }
  return out;
}

}  // namespace lamina::jit
