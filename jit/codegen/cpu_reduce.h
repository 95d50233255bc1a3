// Reductions on the CPU, with the tree of jit/kernel/kernel.h.
//
// Accumulators of one level live in a block of memory: for value v of the m, an array of L rows of
// `row_elements` elements, so a row may start at any lane and the body is made once per width.
#ifndef LAMINA_JIT_CODEGEN_CPU_REDUCE_H_
#define LAMINA_JIT_CODEGEN_CPU_REDUCE_H_

#include <functional>
#include <memory>
#include <vector>

#include "jit/codegen/cpu_schedule.h"

namespace lamina::jit::codegen {

// Lanes of the tree stay in registers where they fit in so many vectors.
inline constexpr size_t kMostRegisters = 8;
// Of extremes there are so many vectors of lanes, and so many elements of each are looked at together.
inline constexpr int64_t kExtremeVectors = 4, kExtremesTogether = 4;

class CpuReduction {
 public:
  virtual ~CpuReduction() = default;
  virtual void emit(const CpuBounds& bounds) = 0;
};

// Makes the functions that the reduction calls; `emit` is called once the kernel's entry is there.
std::unique_ptr<CpuReduction> make_cpu_reduction(CpuParts& parts, const Schedule& schedule);
// With lanes along the reduced index, and along the last parallel dimension; `turned` are read by blocks.
std::unique_ptr<CpuReduction> make_cpu_along(CpuParts& parts);
std::unique_ptr<CpuReduction> make_cpu_across(CpuParts& parts, const Turned& turned);

// The tree: accumulators in memory, what combines and folds them, and what follows.
class CpuTree {
 public:
  CpuTree(CpuParts& parts, int64_t row_elements);
  // Blocks of the first `levels`, in the entered function.
  void enter(size_t levels = 3);
  llvm::Value* new_level();
  llvm::Value* level(int k) const { return levels_[k]; }

  unsigned size() const { return offsets_.size(); }  // reduced values
  int64_t lanes() const { return lanes_; }           // L
  DType type(unsigned v) const { return kernel_.reduction.combine.inputs[v]; }

  llvm::Value* address(llvm::Value* level, unsigned v, llvm::Value* lane, llvm::Value* column);
  llvm::Value* load(llvm::Value* address, unsigned v, unsigned n);
  void store(llvm::Value* value, llvm::Value* address, unsigned v, unsigned n);
  Values combine(const Values& a, const Values& e, unsigned n) { return sections_.combine(a, e, n); }
  // Whether a maximum or a minimum is looked for: in any order, and of the same elements again and again.
  static bool is_extreme(const LoopKernel& kernel);
  bool is_extreme() const { return is_extreme(kernel_); }
  // Several, one after the other.
  Values combine_all(const std::vector<Values>& elements, unsigned n);

  // The reduced values at an index of a row.
  Values elements(Row& row, llvm::Value* index, unsigned n);
  // Elements enter the tree at a lane of level 0, one after the other; `first`: as the lane's first.
  void accumulate(const std::vector<Values>& elements, llvm::Value* lane, llvm::Value* column,
                  llvm::Value* first, unsigned n);
  // Row to_lane of `to` becomes row from_lane of `from`, in `vectors` vectors.
  void copy_row(llvm::Value* to, llvm::Value* to_lane, llvm::Value* from, llvm::Value* from_lane,
                llvm::Value* vectors);
  // The first `count` lanes of a level fold into lane 0.
  void fold(llvm::Value* level, llvm::Value* count, llvm::Value* vectors);

  // How many elements are reduced.
  llvm::Value* total();
  llvm::Value* several_chunks(llvm::Value* total);
  // Runs `chunk(start, count)`, which leaves its result in row 0 of level 0, for every chunk and, if they are
  // `several`, reduces their results to row 0 of level 2.
  void chunks(llvm::Value* total, llvm::Value* several, llvm::Value* vectors,
              const std::function<void(llvm::Value*, llvm::Value*)>& chunk);
  // What follows the reduction, for the elements [column, column_end) of the last parallel dimension; their
  // results are in row 0 of `level`, that of the element `first` first.
  void epilogue(const Values& outer, llvm::Value* level, llvm::Value* total, llvm::Value* first,
                llvm::Value* column, llvm::Value* column_end);

 private:
  void make_combine_rows();
  void make_fold_rows();
  void make_push();
  Values finish(Row& init_row, llvm::Value* level, llvm::Value* total, llvm::Value* index,
                llvm::Value* column, unsigned n);

  CpuParts& c_;
  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  llvm::IRBuilder<>& b_;
  PrimEmitter& prim_;
  SectionEmitter& sections_;
  const unsigned width_;  // lanes of a vector
  const int64_t row_elements_;
  int64_t lanes_ = 0;
  int64_t bytes_ = 0;             // of a level
  std::vector<int64_t> offsets_;  // per reduced value
  llvm::Value* levels_[3] = {nullptr, nullptr, nullptr};
  llvm::Function* combine_rows_ = nullptr;
  llvm::Function* fold_rows_ = nullptr;
  llvm::Function* push_ = nullptr;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_REDUCE_H_
