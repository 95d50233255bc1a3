// Lanes of the CPU's vectors: masks, gathers, elements a few apart, and the flag that stops a kernel.
#ifndef LAMINA_JIT_CODEGEN_CPU_LANES_H_
#define LAMINA_JIT_CODEGEN_CPU_LANES_H_

#include <functional>
#include <utility>
#include <vector>

#include "jit/codegen/cpu_spaced.h"
#include "jit/codegen/lanes.h"
#include "jit/codegen/variance.h"

namespace lamina::jit::codegen {

// A mask is made in one register.
inline constexpr unsigned kMostMasked = 64;
// The widest register of any target, in bytes.
inline constexpr unsigned kStreamAlign = 64;
// Long rows are asked for so many bytes early where what is done with their elements keeps the processor from
// looking far ahead itself.
inline constexpr int64_t kBytesAhead = 4096;

class CpuLanes : public LaneOps {
 public:
  // `stores_masked`: masked stores cost what others do; `long_rows`: rows are hardly of one vector.
  CpuLanes(const LoopKernel& kernel, FunctionBuilder& f, unsigned vector_bytes, bool stores_masked,
           bool long_rows);
  int64_t vector_bytes() const { return vector_bytes_; }  // of a register
  // The function has been entered; `cancel` is the address of its flag.
  void enter(llvm::Value* cancel);

  void address(Row& row, uint32_t access) override;
  llvm::Value* load(Row& row, uint32_t access, llvm::Value* index, llvm::Value* predicate,
                    unsigned n) override;
  llvm::Value* load_at(uint32_t buffer, llvm::Value* position, llvm::Value* predicate, unsigned n) override;
  void store_at(uint32_t buffer, llvm::Value* position, llvm::Value* value, llvm::Value* predicate) override;
  void copy(uint32_t to, uint32_t from, llvm::Value* count) override;
  void store(Row& row, uint32_t access, llvm::Value* value, llvm::Value* index, unsigned n) override;
  void store_alternating(Row& row, std::span<const Store> stores, const Values& values, llvm::Value* index,
                         unsigned n) override;
  llvm::Value* index(llvm::Value* along, unsigned n) override;
  llvm::Value* any(llvm::Value* mask) override;
  // Lane after lane, so that the code is made once and for one lane.
  llvm::Value* rarely(llvm::Value* chosen, const TypedValue& usual, const std::vector<uint32_t>& read,
                      const std::vector<TypedValue>& values, const RareCode& code) override;
  // On x86-64 the convention of Windows leaves ten floats in registers, the usual one none. (That of OpenCL
  // would leave more, but takes no heed of frame pointers and of vzeroupper.)
  llvm::CallingConv::ID rare_convention() const override {
    return vector_bytes_ >= 32 ? llvm::CallingConv::Win64 : llvm::CallingConv::C;
  }
  // The widest vectors are divided by halves; a row of one is over before its divisor has an inverse.
  bool divides_slowly() const override { return vector_bytes_ == 64 && long_rows_; }
  // Scalar divisions wait for each other as long as vectors of 128 (f32) and 256 bits do.
  unsigned quotients_at_once() const override { return vector_bytes_ >= 32 ? 4 : 1; }
  void poll(llvm::Value* due) override;
  // Looks at the flag now.
  void poll_cancel();

  // `body` with the lanes from `index` on masked that lie before `end`.
  void masked(llvm::Value* index, llvm::Value* end, unsigned n, const std::function<void()>& body);
  // A mask of the first `count` lanes, all if it is more than there are.
  llvm::Value* first_lanes(llvm::Value* count, unsigned n);
  // Where an access reads its element at `indices`, and how far its next one along the last dimension is.
  std::pair<llvm::Value*, llvm::Value*> place_of(uint32_t access, const Values& indices);
  // Whether vector stores from here on go past the caches: their addresses must be multiples of their size,
  // at most of kStreamAlign.
  void stream_stores(bool streams) { streams_ = streams; }
  // Lets the row read the access from `pointer` on, where its elements lie side by side.
  void read_from(Row& row, uint32_t access, llvm::Value* pointer);
  // Lets vector loads of the row also fetch the element that lies `rows` further along `dim`.
  void prefetch_along(Row& row, int dim, int64_t rows);

 private:
  // How an access stands in a row.
  struct Place {
    llvm::Value* pointer = nullptr;  // address at index 0 of D; null: not asked for
    llvm::Value* stride = nullptr;   // null for unit stride
    int step = 0;                    // the stride if it is known and not 1; 0: it is not
    llvm::Value* ahead = nullptr;    // how far ahead loads prefetch, in elements; null: not
  };
  struct Places : RowMemory {
    std::vector<Place> of;  // by access
  };

  Place& place(Row& row, uint32_t access);
  DType type_of(uint32_t access) const { return kernel_.buffers[kernel_.accesses[access].buffer].type; }
  bool varies(const Row& row, uint32_t access) const { return variance_.access(access, row.dim); }
  llvm::Value* load_one(llvm::Type* element, llvm::Value* address, llvm::Value* predicate);
  llvm::Value* load_vector(Row& row, uint32_t access, llvm::Value* index, llvm::Value* predicate, unsigned n);
  llvm::Value* load_uniform(Row& row, uint32_t access, llvm::Value* predicate, unsigned n);
  llvm::Value* load_pairs(DType t, llvm::Value* address, llvm::Value* mask, unsigned n);
  // What `mask` lets move: `some` does, and `plain` where the mask is that of a masked vector all of whose
  // lanes are on, for some processors fetch nothing ahead of masked loads. Each makes a value, or null.
  // `some` is given a mask that is made there, so that whole vectors do without.
  llvm::Value* plain_or_masked(llvm::Value* mask, unsigned n, const std::function<llvm::Value*()>& plain,
                               const std::function<llvm::Value*(llvm::Value* lanes)>& some);
  // Of a masked vector: the mask of its lanes.
  llvm::Value* left_lanes(unsigned n);
  // So many bytes of zeros.
  llvm::Value* zeros(int64_t bytes);
  // `address`, or one of memory if the predicate is false in every lane; null stands for always true.
  llvm::Value* if_any(llvm::Value* predicate, llvm::Value* address);
  // Lets the first `count` elements be touched.
  SpacedElements::Mask first_elements(llvm::Value* count);
  void store_left(llvm::Value* value, llvm::Value* address, DType t, unsigned n);
  llvm::Value* addresses(Row& row, uint32_t access, llvm::Value* index, unsigned n);
  llvm::Value* spread(llvm::Value* value, unsigned n);
  llvm::Value* all_lanes(unsigned n);

  const LoopKernel& kernel_;
  llvm::IRBuilder<>& b_;
  PrimEmitter& prim_;
  Variance variance_;
  const int64_t vector_bytes_;
  const bool stores_masked_, long_rows_;
  bool streams_ = false;
  llvm::Value* left_ = nullptr;       // of a masked vector: how many lanes
  llvm::Value* left_mask_ = nullptr;  // and these
  llvm::Value* cancel_ = nullptr;
  llvm::BasicBlock* cancelled_ = nullptr;
  llvm::Value* waste_slot_ = nullptr;  // where stores with a false predicate go
  llvm::Value* zero_slot_ = nullptr;   // where scalar loads with a false predicate read
  llvm::Value* zeros_ = nullptr;       // the same for vectors
  int64_t zero_bytes_ = 0;
};

}  // namespace lamina::jit::codegen

#endif  // LAMINA_JIT_CODEGEN_CPU_LANES_H_
