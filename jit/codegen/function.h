// The functions of one kernel's module: control flow, the kernel's arguments, multi-indices.
//
// Contract: builds code at one place, where its builder stands; knows neither what instructions mean nor what
// device runs them.
#ifndef LAMINA_JIT_CODEGEN_FUNCTION_H_
#define LAMINA_JIT_CODEGEN_FUNCTION_H_

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "jit/codegen/prim.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit::codegen {

using Values = std::vector<llvm::Value*>;

class FunctionBuilder {
 public:
  using LoopBody = std::function<Values(llvm::Value* index, const Values& carried)>;
  // Of every function: names and their values.
  using Attributes = std::vector<std::pair<std::string, std::string>>;

  FunctionBuilder(const LoopKernel& kernel, llvm::Module& module, Attributes attributes);

  llvm::IRBuilder<>& builder() { return b_; }
  PrimEmitter& prims() { return prims_; }
  llvm::LLVMContext& context() { return module_.getContext(); }
  llvm::Value* i64(int64_t value) { return b_.getInt64(value); }
  // `value` in each of n lanes.
  llvm::Value* splat(llvm::Value* value, unsigned n);

  llvm::Function* make_function(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> parameters,
                                llvm::GlobalValue::LinkageTypes linkage);
  // From here on code is that of `function`, after what is done once at its entry. `buffers` and `args` are
  // the tables of pointers and of integers that the kernel was given.
  void enter(llvm::Function* function, llvm::Value* buffers, llvm::Value* args);
  // The same of a function that was given each buffer and each argument (as s64) by itself.
  void enter(llvm::Function* function, Values buffers, Values args);
  // Where the entry ends: what stands there is done once and known everywhere.
  llvm::IRBuilder<> at_entry() { return llvm::IRBuilder<>(entry_end_); }

  // A new block of the function that is written.
  llvm::BasicBlock* block(const char* name);
  // Here several ways meet: their values, as many of each, whichever way was taken.
  using Way = std::pair<llvm::BasicBlock*, Values>;
  Values meet(const std::vector<Way>& ways);
  // Tests at the bottom; `carried` values flow through, and their last ones are the result.
  Values loop(llvm::Value* begin, llvm::Value* end, llvm::Value* step, const Values& init,
              const LoopBody& body);
  // The same without values.
  void loop(llvm::Value* begin, llvm::Value* end, llvm::Value* step,
            const std::function<void(llvm::Value* index)>& body);
  void if_then(llvm::Value* condition, const std::function<void()>& then);

  // Arguments and buffers of the kernel; from tables they are loaded once, at entry.
  llvm::Value* arg(uint32_t slot);
  // An argument that is a number of a float type; from the table it is loaded where the builder stands.
  llvm::Value* number(uint32_t slot, hlo::DType type);
  llvm::Value* buffer(uint32_t index);

  // Multi-indices over the extents args[first] ... args[first + count - 1].
  Values decompose(llvm::Value* linear, unsigned first, unsigned count);
  Values increment(const Values& indices, unsigned first);

 private:
  void begin(llvm::Function* function);

  llvm::Module& module_;
  Attributes attributes_;
  llvm::IRBuilder<> b_;
  PrimEmitter prims_;
  llvm::Instruction* entry_end_ = nullptr;
  llvm::Value *buffers_table_ = nullptr, *args_table_ = nullptr;
  Values args_, buffers_;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_FUNCTION_H_
