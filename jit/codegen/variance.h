// Which values of a kernel differ along a dimension, and which are one value for all of a row.
//
// Contract: a pure function of the kernel, before any code is made.
#ifndef LAMINA_JIT_CODEGEN_VARIANCE_H_
#define LAMINA_JIT_CODEGEN_VARIANCE_H_

#include <cstdint>
#include <vector>

#include "jit/kernel/kernel.h"

namespace lamina::jit::codegen {

class Variance {
 public:
  explicit Variance(const LoopKernel& kernel) : kernel_(kernel) {}

  bool access(uint32_t access, int dim) const;
  // Of each value of a section. `outer`: of the section around the repeat whose code this is; `carried`: of
  // that repeat's carried values. Both are empty elsewhere. `steady`: values that are one for the part of the
  // row in question, if there are any.
  std::vector<bool> section(const std::vector<KernelInstr>& code, int dim, const std::vector<bool>& outer,
                            const std::vector<bool>& carried, const std::vector<bool>& steady = {}) const;
  // Of the carried values of a repeat, given those around it.
  std::vector<bool> carried(const Repeat& repeat, int dim, const std::vector<bool>& outer) const;

 private:
  bool repeat(const Repeat& repeat, int dim, const std::vector<bool>& outer) const;

  const LoopKernel& kernel_;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_VARIANCE_H_
