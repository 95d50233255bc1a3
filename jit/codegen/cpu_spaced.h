// Elements that lie a few apart, moved by vectors of all that lies between the first and the last of them.
//
// Contract: nothing before the first element or after the last one is touched, so either may be at an end of
// its buffer.
#ifndef LAMINA_JIT_CODEGEN_CPU_SPACED_H_
#define LAMINA_JIT_CODEGEN_CPU_SPACED_H_

#include <llvm/IR/IRBuilder.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace lamina::jit::codegen {

class SpacedElements {
 public:
  // Of this type, by registers of so many bytes.
  SpacedElements(llvm::IRBuilder<>& b, llvm::Type* element, int64_t vector_bytes);

  // Which of `lanes` elements from the place `at` on may be touched.
  using Mask = std::function<llvm::Value*(int64_t at, unsigned lanes)>;
  // `n` elements `step` apart, the lowest of them at `address`; in the order of their addresses or, for a
  // negative step, in the reverse one. What a mask leaves out is 0.
  llvm::Value* load(llvm::Value* address, int64_t step, unsigned n, const Mask& mask = {});

  // Vectors of as many lanes each: first their first elements, then their second ones, and so on,
  // from `address` on. Without a mask all are written.
  void store(llvm::Value* address, const std::vector<llvm::Value*>& values, const Mask& mask);

 private:
  using Values = std::vector<llvm::Value*>;
  llvm::Value* load_part(llvm::Value* address, int64_t step, unsigned n, const Mask& mask);
  Values interleaved(const Values& values);
  Values interleaved_pair(llvm::Value* a, llvm::Value* b);
  Values interleaved_odd(const Values& values);

  llvm::IRBuilder<>& b_;
  llvm::Type* element_;
  unsigned half_;  // elements of 16 bytes
  unsigned most_;  // elements of a register, in which lanes are moved
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_SPACED_H_
