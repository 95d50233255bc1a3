// What the instructions of a kernel mean, for any schedule: uniform values once per row, guards of
// select_rare, repeats, the step of a reduction.
//
// Contract: memory and other lanes are reached through LaneOps alone. No mid-level passes are needed
// afterwards: code is in its final vector form.
#ifndef LAMINA_JIT_CODEGEN_SECTION_H_
#define LAMINA_JIT_CODEGEN_SECTION_H_

#include <llvm/ADT/StringMap.h>

#include <vector>

#include "jit/codegen/function.h"
#include "jit/codegen/lanes.h"
#include "jit/codegen/steady.h"
#include "jit/codegen/variance.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit::codegen {

// Magnitudes of a float type, by their bits.
struct Magnitudes {
  uint64_t least, most;
};

class SectionEmitter {
 public:
  // `widest`: the lanes that most code is made for.
  SectionEmitter(const LoopKernel& kernel, FunctionBuilder& f, LaneOps& lanes, unsigned widest);

  // Of values and accesses that instructions of the section do not use, but somebody else will.
  struct Uses {
    std::vector<uint32_t> accesses;
    std::vector<uint32_t> values;
  };
  // `stretch`: the row is that part only, if given.
  Row begin(const Instrs& section, int dim, const Values& indices, const Uses& uses,
            Reduced reduced = nullptr, const Inside* inside = nullptr, const Stretch* stretch = nullptr);
  // All values of the section at D = index; result of varying instructions only, others come through `value`.
  Values emit(Row& row, llvm::Value* index, unsigned n);
  llvm::Value* value(Row& row, const Values& values, uint32_t id, unsigned n);
  void store(Row& row, const std::vector<Store>& stores, const Values& values, llvm::Value* index,
             unsigned n);
  // What stores use.
  static Uses uses_of(const std::vector<Store>& stores);
  // A step of the reduction: accumulators and elements to accumulators.
  Values combine(const Values& a, const Values& e, unsigned n);

 private:
  void prepare(Row& row, const std::vector<uint32_t>& accesses, const Stretch* stretch);
  llvm::Value* at_begin(const Row& row, const Stretch& stretch, uint32_t id);
  void make_splats(Row& row, const std::vector<uint32_t>& uses);
  void make_inverses(Row& row);
  llvm::Value* is_among(llvm::Value* x, const Magnitudes& magnitudes, DType t, unsigned n);
  // Of vectors by a divisor that has one.
  llvm::Value* emit_quotient(Row& row, const KernelInstr& instr, const Values& values, unsigned n);
  // Whether the quotient at a place of the order, and others behind it whose dividends are there, became one
  // vector.
  bool emit_quotients(Row& row, size_t at, Values& values);
  bool reads_changing(const KernelInstr& instr) const;
  void set_order(Row& row, const std::vector<uint32_t>& uses);
  llvm::Value* emit_instr(Row& row, const KernelInstr& instr, const Values& values, llvm::Value* index,
                          unsigned n);
  // What stands behind a guard and the select that it guards; gives the position of the select in the order.
  size_t emit_guarded(Row& row, size_t guard, Values& values, llvm::Value* index, unsigned n);
  llvm::Value* emit_rare(Row& row, size_t guard, Values& values, llvm::Value* index, unsigned n);
  llvm::Value* emit_rare_lane(Row& row, size_t guard, Values& values, llvm::Value* index);
  // What the guarded code gives for one lane, by a call; null where the code is not primitives alone. It is
  // long, and the same for every use of a function such as sine: one copy in the module serves all.
  llvm::Value* call_rare(Row& row, size_t guard, const Values& values);
  llvm::Value* emit_rare_lanes(Row& row, size_t guard, const Values& values, llvm::Value* chosen,
                               llvm::Value* usual, llvm::Value* index);

  // repeat.cc
  void emit_repeat(Row& row, uint64_t number, const Values& values, llvm::Value* index, unsigned n);
  llvm::Value* emit_condition(const Repeat& r, const Inside& inside, const Values& indices,
                              llvm::Value* index, llvm::Value** active);
  void emit_step(const Repeat& r, const Inside& inside, const Values& indices, llvm::Value* index,
                 llvm::Value* active);
  void count_steps(llvm::Value* steps);
  // Addresses that code of the repeat needs and that no step changes.
  void address_repeat(Row& row, const Repeat& repeat);
  int step_dim(uint64_t repeat) const {
    return kernel_.parallel_rank + kernel_.reduce_rank + static_cast<int>(repeat);
  }

  const LoopKernel& kernel_;
  FunctionBuilder& f_;
  LaneOps& lanes_;
  llvm::IRBuilder<>& b_;
  Variance variance_;
  unsigned widest_;
  llvm::StringMap<llvm::Function*> rare_functions_;  // by what they do
  std::vector<Values> repeated_;                     // per repeat: what the last emitted run of it gave
  llvm::Value* inner_steps_ = nullptr;  // counter in memory: steps of nested repeats since the last poll
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_SECTION_H_
