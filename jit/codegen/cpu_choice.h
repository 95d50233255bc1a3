// Reductions that choose an element (jit/kernel/choice.h), in the order that is cheapest. Along a row: the
// extreme value first, then where it is. Across rows: element after element.
#ifndef LAMINA_JIT_CODEGEN_CPU_CHOICE_H_
#define LAMINA_JIT_CODEGEN_CPU_CHOICE_H_

#include <functional>

#include "jit/codegen/cpu_schedule.h"
#include "jit/kernel/choice.h"

namespace lamina::jit::codegen {

class CpuChoice {
 public:
  CpuChoice(CpuParts& parts, Choice choice);
  // Whether going over the elements twice costs less than carrying positions along.
  static bool suits(const LoopKernel& kernel);
  // The value chosen of `count` elements, at least as many as a vector has lanes, and its position.
  Values row(const Values& indices, llvm::Value* count);
  // Of rows side by side: those elements of theirs that are at an index of the reduced dimension, ...
  Row beside(const Values& parallel, llvm::Value* element);
  // ... of which these are `n` from `index` of the last parallel dimension on, and their position.
  Values at(Row& row, llvm::Value* index, llvm::Value* element, unsigned n);
  // Of a choice and an element that comes after it.
  Values chosen(const Values& before, const Values& next);

 private:
  // Elements [begin, end) of a row, and what is known of them.
  struct Block {
    Row& row;
    llvm::Value *begin, *end;
    llvm::Value *extreme = nullptr, *has_nan = nullptr;
  };
  llvm::Value* element(Row& row, llvm::Value* index, unsigned n);
  llvm::Value* compare(Prim prim, llvm::Value* a, llvm::Value* b);
  llvm::Value* beats(llvm::Value* a, llvm::Value* b);
  llvm::Value* better(llvm::Value* a, llvm::Value* b);
  llvm::Value* either_nan(llvm::Value* nan, llvm::Value* a, llvm::Value* b);
  llvm::Value* no_nan();
  // Reads the elements by way of `row`.
  void find_extreme(Row& row, Block& block);
  Values search(const Block& block);
  llvm::Value* find(const Block& block, const std::function<llvm::Value*(llvm::Value* values)>& is);

  CpuParts& c_;
  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const Choice choice_;
  const uint32_t input_;
  const DType type_;
  const bool is_float_;
  const unsigned width_;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_CHOICE_H_
