// What the lowerings of library ops to loop kernels share: one kernel with an element for each index of a
// space, loops of known length in it, and operands that lie in memory.
#ifndef LAMINA_JIT_KERNEL_CALL_LOWERING_H_
#define LAMINA_JIT_KERNEL_CALL_LOWERING_H_

#include <utility>
#include <vector>

#include "jit/kernel/lower_call.h"
#include "jit/kernel/lower_element.h"

namespace lamina::jit {

class CallLowering : protected ElementLowering {
 protected:
  CallLowering(const cluster::FusionPlan& plan, const cluster::Group& group)
      : ElementLowering(plan, group), node_(*group.anchors[0]) {
    section_ = &body_;
  }
  ~CallLowering() = default;

  std::vector<uint32_t> special(Operand, const Index&, uint32_t) final {
    fail("a library op is read as an element");
    return {0, 0};
  }

  // The indices of the elements are `identity_`.
  void begin(const Dims& space);
  absl::StatusOr<LoweredLoop> end();
  Value result(uint32_t r) const { return Value(const_cast<Node*>(&node_), r); }
  void store_result(uint32_t r, const std::vector<uint32_t>& parts) {
    store(result(r), parts, identity_, stores_);
  }

  // A value of some section, for use in those inside it.
  struct Known {
    Frame* where = nullptr;
    uint32_t value = kNone;
  };
  Known known(uint32_t value) const { return {frame_, value}; }
  uint32_t here(const Known& k);
  // Likewise an index along a dimension.
  struct KnownIndex {
    DimIndex affine;
    Known value;
  };
  KnownIndex known(DimIndex index) const {
    const uint32_t value = std::exchange(index.value, kNone);
    return {std::move(index), known(value)};
  }
  DimIndex here(const KnownIndex& k);

  // Element `index` of operand `i`, in parts; 0 where the predicate does not hold, and nothing is read.
  std::vector<uint32_t> read(size_t i, const Index& index, uint32_t predicate = kNone);

  // `step(index, carried)` gives the next carried values; what they are after `length` steps.
  template <class F>
  std::vector<uint32_t> steps(int64_t length, const std::vector<uint32_t>& init, F&& step) {
    const int dim = static_cast<int>(extents_.size());
    const size_t number = repeats_.size();
    extents_.push_back(length);
    repeats_.emplace_back();
    std::vector<DType> types;
    for (uint32_t v : init) types.push_back(section_->code[v].type);
    Section section;
    Frame frame{frame_, &section, dim, {}, nullptr};
    enter(&frame);
    const std::vector<uint32_t> now = carried(types);
    std::vector<uint32_t> next = step(DimIndex{.offset = 0, .terms = {{dim, 1}}}, now);
    enter(frame.around);
    Repeat& r = repeats_[number];
    r.init = init;
    r.body = std::move(section.code);
    r.next = std::move(next);
    return repeated(number, types);
  }
  // The same where a single step is no loop.
  template <class F>
  std::vector<uint32_t> steps_if_many(int64_t length, const std::vector<uint32_t>& init, F&& step) {
    return length == 1 ? step(DimIndex{}, init) : steps(length, init, step);
  }
  // As long as `condition(carried)` holds.
  template <class C, class F>
  std::vector<uint32_t> steps_while(const std::vector<uint32_t>& init, C&& condition, F&& step) {
    const int dim = static_cast<int>(extents_.size());
    const size_t number = repeats_.size();
    extents_.push_back(0);
    repeats_.emplace_back();
    std::vector<DType> types;
    for (uint32_t v : init) types.push_back(section_->code[v].type);
    Repeat r;
    r.counted = false;
    r.init = init;
    {
      Section section;
      Frame frame{frame_, &section, dim, {}, nullptr};
      enter(&frame);
      r.condition = condition(carried(types));
      enter(frame.around);
      r.cond = std::move(section.code);
    }
    Section section;
    Frame frame{frame_, &section, dim, {}, nullptr};
    enter(&frame);
    r.next = step(carried(types));
    enter(frame.around);
    r.body = std::move(section.code);
    repeats_[number] = std::move(r);
    return repeated(number, types);
  }

  static DimIndex computed(uint32_t value) {
    DimIndex out;
    out.value = value;
    return out;
  }
  uint32_t add(uint32_t a, uint32_t b) { return prim(Prim::add, type_of(a), {a, b}); }
  uint32_t sub(uint32_t a, uint32_t b) { return prim(Prim::sub, type_of(a), {a, b}); }
  uint32_t negated(uint32_t condition) { return prim(Prim::bit_not, DType::kBool, {condition}); }
  // 0 <= at < size.
  uint32_t within(uint32_t at, uint32_t size);
  uint32_t within(uint32_t at, int64_t size) { return within(at, argument(size)); }
  // Coordinates of a row-major index over `dims`; dims of one element have none.
  std::vector<DimIndex> coordinates(const DimIndex& linear, const Dims& dims);

  // Memory that other kernels of the sequence write or read.
  uint32_t shared_array(DType type, bool written, int number);
  uint32_t load_shared(uint32_t buffer, const DimIndex& at, uint32_t predicate = kNone);
  void store_shared(uint32_t buffer, const DimIndex& at, uint32_t value);
  // The kernel as a part of a sequence.
  absl::StatusOr<KernelSequence::Part> end_part();

  const Node& node_;

 private:
  std::vector<uint32_t> carried(const std::vector<DType>& types);
  std::vector<uint32_t> repeated(size_t number, const std::vector<DType>& types);

  std::vector<std::pair<uint32_t, int>> shared_;  // buffers and their numbers
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_CALL_LOWERING_H_
