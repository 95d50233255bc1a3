// Conditions that hold, or do not, for long stretches of a row: comparisons of the index along it with
// bounds, as pieces that are joined or padded have them.
//
// Contract: a pure function of the kernel; between two places that `next` gives, each has one value.
#ifndef LAMINA_JIT_CODEGEN_STEADY_H_
#define LAMINA_JIT_CODEGEN_STEADY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "jit/codegen/function.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit::codegen {

class SteadyConditions {
 public:
  // Those of a section along `dim`.
  SteadyConditions(const std::vector<KernelInstr>& section, int dim);

  bool empty() const { return changes_.empty(); }
  const std::vector<bool>& conditions() const { return conditions_; }
  // The first place after `begin` where one of them may change, or `end`.
  llvm::Value* next(FunctionBuilder& f, llvm::Value* begin, llvm::Value* end) const;

 private:
  // Values known to the whole kernel; none is 0.
  using Bound = std::optional<uint32_t>;
  // A place: bound - offset, or the one after it.
  struct Change {
    Bound bound, offset;
    bool after;
  };

  void see(uint32_t condition);
  bool is_bound(uint32_t value) const;
  // Whether the value is the index plus an offset.
  bool is_along(uint32_t value, Bound* offset) const;
  llvm::Value* number(FunctionBuilder& f, Bound bound) const;

  const std::vector<KernelInstr>& section_;
  const int dim_;
  std::vector<bool> conditions_;
  std::vector<Change> changes_;
};

// The part of a row from `begin` to where one of the conditions may change.
struct Stretch {
  const SteadyConditions& steady;
  llvm::Value* begin;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_STEADY_H_
