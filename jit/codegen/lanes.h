// Rows, and how one schedule reaches memory and the other lanes.
//
// A row is a run of one dimension D with every other index fixed: the last parallel one or, where a reduction
// goes along its vectors, the last reduced one. Values that do not depend on D are computed once per row as
// scalars. A value of n lanes is one LLVM vector, of elements that follow each other along D (n = 1: a
// scalar). One body, any number of lanes: the bits cannot depend on the width.
#ifndef LAMINA_JIT_CODEGEN_LANES_H_
#define LAMINA_JIT_CODEGEN_LANES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "hlo/scalar/schedule.h"
#include "jit/codegen/function.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit::codegen {

using Instrs = std::vector<KernelInstr>;

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

// What a LaneOps knows of the accesses of a row; only it looks inside.
struct RowMemory {
  virtual ~RowMemory() = default;
};

// Value number `v` of the reduction at an index along D.
using Reduced = std::function<llvm::Value*(uint64_t v, llvm::Value* index, unsigned n)>;

// Of a divisor that is one for the whole row. Null where divisions by it are left as they are.
struct Inverse {
  llvm::Value *number = nullptr, *splat = nullptr;
  llvm::Value* is_usual = nullptr;  // whether quotients may be products
};

// What is fixed along a row. `indices` has every dimension; that of D is unused.
struct Row {
  int dim = -1;  // D, -1 for none
  Values indices;
  const Instrs* section = nullptr;
  Values uniform;                 // scalar values that do not depend on D, null for others
  Values splats;                  // the same as vectors where a vector needs them
  std::vector<Inverse> inverses;  // by number of the divisor; empty: there are none
  std::vector<bool> varies;
  std::vector<hlo::Scheduled> order;  // of the varying instructions
  std::unique_ptr<RowMemory> memory;
  Reduced reduced;
  const Inside* inside = nullptr;  // of the code of a repeat
};

class LaneOps {
 public:
  explicit LaneOps(FunctionBuilder& f) : f_(f) {}
  virtual ~LaneOps() = default;

  // What is fixed along the row is computed here, once, for `load` and `store`.
  virtual void address(Row& row, uint32_t access) = 0;
  // Where `predicate` (null: everywhere; a scalar is that of every lane) is false nothing is read, and the
  // value is 0.
  virtual llvm::Value* load(Row& row, uint32_t access, llvm::Value* index, llvm::Value* predicate,
                            unsigned n) = 0;
  virtual llvm::Value* load_at(uint32_t buffer, llvm::Value* position, llvm::Value* predicate,
                               unsigned n) = 0;
  // For one element: as the instructions of these names.
  virtual void store_at(uint32_t buffer, llvm::Value* position, llvm::Value* value,
                        llvm::Value* predicate) = 0;
  virtual void copy(uint32_t to, uint32_t from, llvm::Value* count) = 0;
  virtual void store(Row& row, uint32_t access, llvm::Value* value, llvm::Value* index, unsigned n) = 0;
  // Of accesses that alternate along D.
  virtual void store_alternating(Row& row, std::span<const Store> stores, const Values& values,
                                 llvm::Value* index, unsigned n) {
    for (size_t k = 0; k < stores.size(); ++k) store(row, stores[k].access, values[k], index, n);
  }
  // The index along D of each lane, as s64.
  virtual llvm::Value* index(llvm::Value* along, unsigned n) = 0;
  // Whether it holds for some lane: to enter rare code, to go on stepping.
  virtual llvm::Value* any(llvm::Value* mask) = 0;
  // Code that is long and seldom runs, on several lanes: its result where `chosen`, which holds for some
  // lane, and `usual` elsewhere. `code` gives the result of n lanes from the lane `first` on, from as many of
  // the values numbered `read`.
  using RareCode = std::function<llvm::Value*(Values& values, llvm::Value* first, unsigned n)>;
  virtual llvm::Value* rarely(llvm::Value* chosen, const TypedValue& usual, const std::vector<uint32_t>& read,
                              const std::vector<TypedValue>& values, const RareCode& code) = 0;
  // Of functions that hold such code.
  virtual llvm::CallingConv::ID rare_convention() const { return llvm::CallingConv::C; }
  // Whether divisions of vectors by one divisor for a row are better made from products.
  virtual bool divides_slowly() const { return false; }
  // How many quotients of scalar code by one divisor are one division; 1: each is one.
  virtual unsigned quotients_at_once() const { return 1; }
  // Between steps: leaves the kernel if that was asked for; looks only where `due`.
  virtual void poll(llvm::Value* due) = 0;

  // The lanes for which code is made at present, null for all. Others hold anything, and touch no memory.
  llvm::Value* on() const { return on_; }
  // `predicate` (may be null) on these lanes; null for everywhere.
  llvm::Value* within(llvm::Value* predicate) {
    if (!on_ || !predicate) return predicate ? predicate : on_;
    return f_.builder().CreateAnd(predicate, on_);
  }
  // Makes code for the lanes `on` as long as it lives.
  class Only {
   public:
    Only(LaneOps& lanes, llvm::Value* on) : lanes_(lanes), around_(lanes.on_) { lanes.on_ = on; }
    ~Only() { lanes_.on_ = around_; }
    Only(const Only&) = delete;
    Only& operator=(const Only&) = delete;

   private:
    LaneOps& lanes_;
    llvm::Value* around_;
  };

 protected:
  FunctionBuilder& f_;

 private:
  llvm::Value* on_ = nullptr;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_LANES_H_
