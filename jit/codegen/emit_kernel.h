// Loop kernels as LLVM IR in final vector form: no mid-level passes are needed afterwards.
//
// A function is made of rows: runs of one dimension D (the last parallel one, or the last reduced one in the
// kAlongReduced form) with every other index fixed. Values that do not depend on D are computed once per row
// as scalars; the rest is emitted twice, for vectors and for the scalar rest of the row. One body, any number
// of lanes: the bits cannot depend on the width.
#ifndef LAMINA_JIT_CODEGEN_EMIT_KERNEL_H_
#define LAMINA_JIT_CODEGEN_EMIT_KERNEL_H_

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Module.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hlo/scalar/schedule.h"
#include "jit/codegen/prim.h"
#include "jit/kernel/schedule.h"

namespace lamina::jit::cpu {

inline constexpr char kEntryName[] = "lamina_kernel";
// A mask is made in one register.
inline constexpr unsigned kMostMasked = 64;

struct TargetText {
  std::string cpu;
  std::string features;
  unsigned vector_bits = 128;
  bool has_masks = false;  // masked loads and stores of any element type cost what others do
};

class KernelEmitter {
 public:
  KernelEmitter(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target,
                llvm::Module& module);
  void emit();
  unsigned lanes() const { return lanes_; }

 private:
  using Values = std::vector<llvm::Value*>;
  using Instrs = std::vector<KernelInstr>;
  // Value number `v` of the reduction at an index along D.
  using Reduced = std::function<llvm::Value*(uint64_t v, llvm::Value* index, unsigned lanes)>;

  struct Row;
  // Where the code of a repeat stands.
  struct Inside {
    Row* outer;  // the section that holds the repeat, and its values
    const Values* outer_values;
    int step_dim;
    unsigned lanes;
    std::vector<bool> carried_vary;
    Values carried;  // vectors where they vary, else scalars
  };

  // What is fixed along a row. `indices` has every dimension; that of D is unused.
  struct Row {
    int dim = -1;  // D, -1 for none
    Values indices;
    const Instrs* section = nullptr;
    Values uniform;  // scalar values that do not depend on D, null for others
    Values splats;   // the same as vectors where a vector needs them
    std::vector<bool> varies;
    std::vector<hlo::Scheduled> order;  // of the varying instructions
    Values pointers;                    // per access used: address at index 0 of D
    Values strides;                     // per access used: null for unit stride
    Values prefetch;                    // per access, empty or null for none: how far ahead, in elements
    std::vector<bool> pairs;            // per access used: stride 2 along D, known
    Reduced reduced;
    const Inside* inside = nullptr;  // of the code of a repeat
  };
  // Called with the index along D and the number of lanes.
  using RowBody = std::function<void(llvm::Value* index, unsigned lanes)>;
  using LoopBody = std::function<Values(llvm::Value* index, const Values& carried)>;

  static bool is_long(const LoopKernel& kernel);
  static unsigned single_lanes(const LoopKernel& kernel, unsigned vector_bits);
  static unsigned side_by_side(const LoopKernel& kernel);
  llvm::Function* make_function(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Type*> parameters,
                                bool external);
  void set_attributes(llvm::Function* function);

  // Control flow. Loops test at the bottom; `carried` values flow through them.
  Values loop(llvm::Value* begin, llvm::Value* end, llvm::Value* step, const Values& init,
              const LoopBody& body);
  void if_then(llvm::Value* condition, const std::function<void()>& then);
  void poll_cancel();
  // [begin, end) in vectors, then in scalars.
  void row_part(llvm::Value* begin, llvm::Value* end, const RowBody& body);
  // The same for rows of any length, polling. Where masks cost nothing the rest of a row is one masked
  // vector.
  void row_loop(llvm::Value* begin, llvm::Value* end, const RowBody& body);
  void masked_row_part(llvm::Value* begin, llvm::Value* end, const RowBody& body);
  // The same for code that runs long for each element: several vectors side by side, then single ones.
  void repeat_row_part(llvm::Value* begin, llvm::Value* end, const RowBody& body);
  // `body` with the lanes from `index` on masked that lie before `end`.
  void masked(llvm::Value* index, llvm::Value* end, unsigned lanes, const std::function<void()>& body);
  // `predicate` (may be null) where the row goes on; null for everywhere.
  llvm::Value* within_row(llvm::Value* predicate);

  // Arguments, loaded once at entry.
  llvm::Value* arg(uint32_t slot);
  llvm::Value* buffer(uint32_t index);
  llvm::Value* i64(int64_t value) { return b_.getInt64(value); }

  // Rows and values.
  Row begin_row(const Instrs& section, int dim, const Values& indices,
                const std::vector<uint32_t>& more_accesses, const std::vector<uint32_t>& vector_uses,
                Reduced reduced = nullptr, const Inside* inside = nullptr);
  void address_row(Row& row, uint32_t access);
  llvm::Value* row_value(Row& row, const Values& values, uint32_t id, unsigned lanes);
  // All values of the section at D = index; result of varying instructions only, others come through
  // row_value.
  Values emit_section(Row& row, llvm::Value* index, unsigned lanes);
  llvm::Value* emit_instr(Row& row, const KernelInstr& instr, const Values& values, llvm::Value* index,
                          unsigned lanes);
  // What stands behind a guard and the select that it guards; gives the position of the select in the order.
  size_t emit_guarded(Row& row, size_t guard, Values& values, llvm::Value* index, unsigned lanes);
  // What the guarded code gives, of one element.
  llvm::Value* emit_rare(Row& row, size_t guard, Values& values, llvm::Value* index);
  // The same for the lanes where `chosen` holds, one after the other, and `usual` elsewhere: guarded code is
  // long and seldom runs, so it is made once, for one lane.
  llvm::Value* emit_rare_lanes(Row& row, size_t guard, const Values& values, llvm::Value* chosen,
                               llvm::Value* usual, llvm::Value* index, unsigned lanes);
  void emit_stores(Row& row, const std::vector<Store>& stores, const Values& values, llvm::Value* index,
                   unsigned lanes);

  // Repeats (repeat.cc).
  void emit_repeat(Row& row, uint64_t number, const Values& values, llvm::Value* index, unsigned lanes);
  void poll_steps(llvm::Value* due);
  llvm::Value* emit_condition(Row& row, llvm::Value* index, unsigned lanes, llvm::Value** active);
  // Which values of a section differ along `dim`, and which carried values do, given those around them.
  std::vector<bool> variance(const Instrs& section, int dim, const std::vector<bool>& outer,
                             const std::vector<bool>& carried) const;
  std::vector<bool> carried_variance(const Repeat& repeat, int dim, const std::vector<bool>& outer) const;
  bool repeat_varies(const Repeat& repeat, int dim, const std::vector<bool>& outer) const;
  // Addresses that code of the repeat needs and that no step changes.
  void address_repeat(Row& row, const Repeat& repeat);
  int step_dim(uint64_t repeat) const {
    return kernel_.parallel_rank + kernel_.reduce_rank + static_cast<int>(repeat);
  }

  std::vector<uint32_t> store_accesses() const;
  std::vector<uint32_t> store_values() const;
  llvm::Value* load(Row& row, uint32_t access, llvm::Value* index, llvm::Value* predicate, unsigned lanes);
  llvm::Value* load_at(uint32_t buffer_index, llvm::Value* position, llvm::Value* predicate, unsigned lanes);
  void store(Row& row, uint32_t access, llvm::Value* value, llvm::Value* index, unsigned lanes);
  llvm::Value* spread(llvm::Value* value, unsigned lanes);
  llvm::Value* splat(llvm::Value* value, unsigned lanes);
  llvm::Value* lane_indices(llvm::Value* index, unsigned lanes);
  llvm::Value* lane_addresses(Row& row, uint32_t access, llvm::Value* index, unsigned lanes);
  bool access_varies(uint32_t access, int dim) const;

  // Multi-indices over extents args[first] ... args[first + count - 1].
  Values decompose(llvm::Value* linear, unsigned first, unsigned count);
  Values increment(const Values& indices, unsigned first);

  void emit_elementwise(llvm::Value* outer_begin, llvm::Value* outer_end, llvm::Value* inner_begin,
                        llvm::Value* inner_end);

  // Reductions (cpu_reduce.cc, and cpu_reduce_along.cc for the kAlongReduced form). Accumulators of one
  // level live in a block of memory: for value v of the m, an array of L rows of `row_elements` elements. In
  // the kAlongReduced form level 0 uses it as L single elements until they are folded to one vector, which is
  // row 0; rows_ has such a vector per row of results.
  void layout_levels();
  void emit_combine_rows();
  void emit_fold_rows();
  void emit_fold_block();
  void emit_push();
  llvm::Value* acc_address(llvm::Value* level, unsigned v, llvm::Value* lane, llvm::Value* column);
  llvm::Value* acc_load(llvm::Value* address, unsigned v, unsigned lanes);
  void acc_store(llvm::Value* value, llvm::Value* address, unsigned v, unsigned lanes);
  Values combine(const Values& a, const Values& e, unsigned lanes);
  DType reduced_type(unsigned v) const { return kernel_.reduction.combine.inputs[v]; }
  void emit_along(llvm::Value* outer_begin, llvm::Value* outer_end, llvm::Value* inner_begin,
                  llvm::Value* inner_end);
  void emit_across(llvm::Value* outer_begin, llvm::Value* outer_end, llvm::Value* inner_begin,
                   llvm::Value* inner_end);
  void across_lanes(const Values& parallel, llvm::Value* start, llvm::Value* count, llvm::Value* column,
                    llvm::Value* column_end);
  Values along_chunk(const Values& parallel, llvm::Value* start, llvm::Value* count);
  bool lanes_fit_registers() const;
  bool stays_in_registers() const;
  bool is_peeled() const;
  llvm::Value* first_lanes(llvm::Value* count);
  void short_row(const Values& parallel, llvm::Value* place, const Values& masks);
  Values along_in_registers(const Values& indices, llvm::Value* start, llvm::Value* count);
  Values along_peeled(const Values& indices, llvm::Value* start, llvm::Value* count);
  Values partial_segment(llvm::Value* begin, llvm::Value* left, Values& lanes,
                         const std::function<Values(llvm::Value*)>& elements_at,
                         const std::function<void(unsigned, const Values&)>& take);
  Values whole_segments(llvm::Value* begin, llvm::Value* end, const Values& lanes,
                        const std::function<Values(llvm::Value*)>& elements_at);
  void along_runs(Values indices, llvm::Value* start, llvm::Value* count);
  void along_run(const Values& indices, llvm::Value* column, llvm::Value* position, llvm::Value* end);
  llvm::Value* along_registers(llvm::Value* begin, llvm::Value* end,
                               const std::function<Values(llvm::Value*)>& elements_at);
  Values fold_vectors(Values lanes, llvm::Value* count);
  Values row_elements(Row& row, llvm::Value* index, unsigned lanes);
  void emit_epilogue(const Values& outer, llvm::Value* level, llvm::Value* total, llvm::Value* column,
                     llvm::Value* column_end);
  void prefetch_along(Row& row, int dim, int64_t rows);
  void across_chunk(const Values& parallel, llvm::Value* start, llvm::Value* count, llvm::Value* column,
                    llvm::Value* column_end);
  void reduce_chunks(llvm::Value* total, llvm::Value* several, llvm::Value* row_vectors,
                     const std::function<void(llvm::Value*, llvm::Value*)>& chunk);
  void accumulate(const Values& elements, llvm::Value* lane, llvm::Value* column, llvm::Value* first,
                  unsigned lanes);
  Values finish(Row& init_row, llvm::Value* level, llvm::Value* total, llvm::Value* index,
                llvm::Value* column, unsigned lanes);
  llvm::Value* reduced_count();

  const LoopKernel& kernel_;
  const TargetText& target_;
  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  PrimEmitter prim_;
  unsigned lanes_, single_;                                // of the vectors side by side, and of one
  llvm::Value *row_mask_ = nullptr, *row_left_ = nullptr;  // of a masked vector: which lanes, how many
  bool along_;  // the form of the reduction; without parallel dimensions there is only one

  llvm::Function* function_ = nullptr;
  llvm::Value* cancel_ = nullptr;
  llvm::BasicBlock* cancelled_ = nullptr;
  llvm::Instruction* entry_end_ = nullptr;  // arguments are loaded before it
  Values args_;
  Values buffers_;
  llvm::Value* zero_slot_ = nullptr;  // where scalar loads with a false predicate read

  llvm::Value* inner_steps_ = nullptr;  // counter in memory: steps of nested repeats since the last poll
  std::vector<Values> repeated_;        // per repeat: what the last emitted run of it gave

  int64_t tree_lanes_ = 0;
  int64_t row_elements_ = 0;
  int64_t level_bytes_ = 0;
  std::vector<int64_t> level_offsets_;  // per reduced value
  llvm::Value* levels_[3] = {nullptr, nullptr, nullptr};
  llvm::Value* rows_ = nullptr;
  llvm::Function* combine_rows_ = nullptr;
  llvm::Function* fold_rows_ = nullptr;
  llvm::Function* fold_block_ = nullptr;
  llvm::Function* push_ = nullptr;
};

}  // namespace lamina::jit::cpu

#endif  // LAMINA_JIT_CODEGEN_EMIT_KERNEL_H_
