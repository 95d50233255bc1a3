// Lanes of a grid's threads: a thread makes the code for one element after another, and moves 16 bytes at a
// time.
//
// Contract: code is made for single elements (n = 1) only, since a thread has scalar registers. What a thread
// makes of one row is a `Part`: vectors of elements side by side. All its loads that nothing guards are made
// before any of their values is used, its stores after all elements are made. Elements past the end of the
// row are made like the last one, and not stored.
#ifndef LAMINA_JIT_CODEGEN_GRID_LANES_H_
#define LAMINA_JIT_CODEGEN_GRID_LANES_H_

#include <functional>
#include <span>
#include <vector>

#include "jit/codegen/lanes.h"
#include "jit/codegen/variance.h"

namespace lamina::jit::codegen {

class GridLanes : public LaneOps {
 public:
  // `chained`: other kernels of the same launch may write what this one reads. `exact`: as GridSchedule has
  // it.
  GridLanes(const LoopKernel& kernel, FunctionBuilder& f, bool chained, bool exact);
  // The function has been entered; `stop` is the address of the word that ends it, null for none.
  void enter(llvm::Value* stop) { stop_ = stop; }

  void address(Row& row, uint32_t access) override;
  llvm::Value* load(Row& row, uint32_t access, llvm::Value* index, llvm::Value* predicate,
                    unsigned n) override;
  llvm::Value* load_at(uint32_t buffer, llvm::Value* position, llvm::Value* predicate, unsigned n) override;
  void store_at(uint32_t buffer, llvm::Value* position, llvm::Value* value, llvm::Value* predicate) override;
  void copy(uint32_t to, uint32_t from, llvm::Value* count) override;
  void store(Row& row, uint32_t access, llvm::Value* value, llvm::Value* index, unsigned n) override;
  llvm::Value* index(llvm::Value* along, unsigned n) override;
  llvm::Value* any(llvm::Value* mask) override;
  llvm::Value* rarely(llvm::Value* chosen, const TypedValue& usual, const std::vector<uint32_t>& read,
                      const std::vector<TypedValue>& values, const RareCode& code) override;
  void poll(llvm::Value* due) override;

  // The elements of a row that one thread makes.
  struct Part {
    unsigned lanes;      // of a vector
    Values starts;       // of each vector: the index of its first element, a multiple of `lanes`; ascending
    llvm::Value* end;    // of the row, which is not empty
    bool whole = false;  // no element lies past the end
  };
  // A part of one element has none past the end.
  static bool may_pass(const Part& part) { return !part.whole && part.lanes * part.starts.size() > 1; }
  // Calls body(index, number) for each element, in order. `stores` are those that the body makes.
  using Body = std::function<void(llvm::Value* index, unsigned number)>;
  void part(Row& row, const Part& part, const std::vector<Store>& stores, const Body& body);
  // The same part of several rows of one section, whose loads are all under way together; nothing is stored.
  using LinesBody = std::function<void(size_t line, llvm::Value* index, unsigned number)>;
  void lines(std::span<Row> rows, const Part& part, const LinesBody& body);

  // Accesses that are moved together: one, or some that lie side by side along the row.
  using Group = std::vector<uint32_t>;
  // The same in two steps, between which threads may meet. A part whose loads have been made:
  struct Making {
    Row* row;
    Part part;
    llvm::Value* fast = nullptr;         // whether the vectors of its accesses are moved at once; null: yes
    std::vector<Values> loaded, stored;  // by access, and element; in memory's types
    std::vector<Group> written;
    unsigned number = 0;  // of the element that is made
  };
  // `given`: loads that are not made here; their values are put into `loaded` before `finish`.
  Making begin(Row& row, const Part& part, const std::vector<Store>& stores,
               const std::vector<uint32_t>& given);
  void finish(Making& making, const Body& body);

  // What threads hold of an access from one kernel of a chain to the next (jit/kernel/grid_held.h): elements
  // of a line, where they begin in shared memory, with room for whole parts; or one value for the line, of
  // memory's type. The access reaches memory too if `memory`; of a value that is stored, others do that, at
  // the address that is put there.
  struct Held {
    llvm::Value* elements = nullptr;
    llvm::Value** value = nullptr;
    bool memory = true;
    llvm::Value* address = nullptr;
  };
  void hold(uint32_t access, Held held) { held_[access] = held; }
  const Held& held(uint32_t access) const { return held_[access]; }

  // Whether what a load gives of a buffer stays as it is.
  bool is_constant(uint32_t buffer) const { return one_store_ && !kernel_.buffers[buffer].written; }
  // Of memory's types, side by side at a multiple of their size together (at most 16 bytes of it).
  void store_vector(DType t, llvm::Value* address, const Values& values);
  // A load of a value that is 0 where `predicate` (null: everywhere) is false.
  llvm::Value* load_one(llvm::Type* type, llvm::Value* address, llvm::Value* predicate, bool constant);

 private:
  // How an access stands in a row.
  struct Place {
    llvm::Value* pointer = nullptr;  // address at index 0 of D; null: not asked for
    llvm::Value* stride = nullptr;   // null for unit stride
  };
  struct Places : RowMemory {
    std::vector<Place> of;  // by access
  };

  Place& place(Row& row, uint32_t access);
  DType type_of(uint32_t access) const { return kernel_.buffers[kernel_.accesses[access].buffer].type; }
  bool varies(const Row& row, uint32_t access) const { return variance_.access(access, row.dim); }
  bool in_vectors(Row& row, const Group& group) {
    return varies(row, group[0]) && (group.size() > 1 || !place(row, group[0]).stride);
  }
  llvm::Value* element_address(Row& row, uint32_t access, llvm::Value* index);
  llvm::Value* element_index(const Part& part, unsigned number);
  llvm::Value* clamped(const Part& part, llvm::Value* index);
  // Whether the vectors of these accesses can be moved at once.
  llvm::Value* is_fast(std::span<const Making> lines, const std::vector<Group>& groups);
  // Elements that follow each other in memory.
  Values load_vector(DType t, llvm::Value* address, unsigned count, bool constant);
  void fetch(std::span<Making> lines, const std::vector<Group>& groups, llvm::Value* fast);
  // What the section loads anew for each element, unguarded, but for `given`.
  std::vector<Group> fetched(const Row& row, const std::vector<uint32_t>& given) const;
  Making making(Row& row, const Part& part) const;
  void write(Row& row, const Part& part, const Group& group, llvm::Value* fast);
  // Loads of what is held, and holding what has been loaded.
  void take_held(Making& making);
  void keep_held(Making& making);
  bool skips_memory(uint32_t access) const { return held_[access].elements && !held_[access].memory; }
  llvm::Value* held_address(uint32_t access, llvm::Value* index);

  const LoopKernel& kernel_;
  llvm::IRBuilder<>& b_;
  PrimEmitter& prim_;
  Variance variance_;
  const bool one_store_;  // what is read and not written does not change until it was used
  const bool exact_;
  std::vector<Held> held_;  // by access
  llvm::Value* stop_ = nullptr;
  Making* making_ = nullptr;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_GRID_LANES_H_
