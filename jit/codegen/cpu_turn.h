// Blocks on the stack in which elements lie the other way round than in memory.
#ifndef LAMINA_JIT_CODEGEN_CPU_TURN_H_
#define LAMINA_JIT_CODEGEN_CPU_TURN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "jit/codegen/cpu_schedule.h"

namespace lamina::jit::codegen {

class CpuTurn {
 public:
  // Makes the functions that turn parts of the accesses.
  CpuTurn(CpuParts& parts, std::vector<uint32_t> accesses);
  // Blocks of so many rows of kTurnedColumns, in the entered function.
  void enter(int64_t rows);
  // Fills block k: row r of it gets, for column c, the element that lies r + c * step after `from`.
  void fill(size_t k, llvm::Value* from, llvm::Value* step, llvm::Value* rows, llvm::Value* columns);
  // Lets the vectors of a row read row `r` of the blocks, whose first column has the index `first`.
  void read(Row& row, llvm::Value* r, llvm::Value* first);

  const std::vector<uint32_t>& accesses() const { return accesses_; }
  DType type_of(size_t k) const { return c_.kernel.buffers[c_.kernel.accesses[accesses_[k]].buffer].type; }
  // Rows of block k that are filled at once take no longer than fewer.
  int64_t rows_together(size_t k) const;

 private:
  llvm::Function* make(unsigned bytes);
  void turn(llvm::Function* function, llvm::Type* element, unsigned bytes);

  CpuParts& c_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  const std::vector<uint32_t> accesses_;
  std::vector<std::pair<unsigned, llvm::Function*>> turns_;  // by bytes of an element
  Values blocks_;                                            // by place in accesses_
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_TURN_H_
