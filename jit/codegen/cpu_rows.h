// How the CPU walks a row: in vectors of how many lanes, and what becomes of the rest.
//
// Contract: a body is made for vectors and for the rest of the row, masked where masks cost nothing, else
// scalar; each index is visited once, in order.
#ifndef LAMINA_JIT_CODEGEN_CPU_ROWS_H_
#define LAMINA_JIT_CODEGEN_CPU_ROWS_H_

#include <functional>
#include <string>

#include "jit/codegen/cpu_lanes.h"
#include "jit/codegen/function.h"
#include "jit/kernel/kernel.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit::codegen {

struct TargetText {
  std::string cpu;
  std::string features;
  unsigned vector_bits = 128;
  bool has_masks = false;       // masked loads and stores of any element type cost what others do
  bool has_word_masks = false;  // masked loads of elements of 4 and 8 bytes do
};

// The vectors that suit a kernel.
struct CpuWidths {
  CpuWidths(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target);
  bool is_long;            // the body is a long chain of instructions
  bool masks;              // the rest of a row is one masked vector
  bool word_masks;         // reading it so costs what others do, for elements of 4 and 8 bytes
  unsigned single, lanes;  // of one vector, and of the vectors side by side

  // Whether masks cost nothing where vectors along `dim` are only read.
  bool reads_masked(const LoopKernel& kernel, int dim) const;
};

class CpuRows {
 public:
  // Called with the index along D and the number of lanes.
  using Body = std::function<void(llvm::Value* index, unsigned n)>;

  CpuRows(const LoopKernel& kernel, FunctionBuilder& f, CpuLanes& lanes, const CpuWidths& widths);

  // [begin, end) of any length, looking at the flag.
  void whole(llvm::Value* begin, llvm::Value* end, const Body& body);
  // The same for short parts of rows, which do not.
  void part(llvm::Value* begin, llvm::Value* end, const Body& body);
  // The same with every vector masked, so that the body is made once; where masks cost, it is made twice.
  void masked_part(llvm::Value* begin, llvm::Value* end, const Body& body);
  // As `part`, for bodies that only read; `masked`: by masks that cost nothing.
  void read_part(llvm::Value* begin, llvm::Value* end, bool masked, const Body& body);

 private:
  // Whole vectors of n lanes; gives where they end.
  llvm::Value* vectors(llvm::Value* begin, llvm::Value* end, unsigned n, const Body& body);
  void scalar_rest(llvm::Value* begin, llvm::Value* end, const Body& body);
  void all_masked(llvm::Value* begin, llvm::Value* end, unsigned n, const Body& body);
  // For code that runs long for each element: several vectors side by side, then single ones.
  void repeats(llvm::Value* begin, llvm::Value* end, const Body& body);

  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  CpuLanes& lanes_;
  const CpuWidths widths_;
  const bool has_repeats_;
  const bool masks_rest_;  // of rows where masks cost: the body costs more
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_ROWS_H_
