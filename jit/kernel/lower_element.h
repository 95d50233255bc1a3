// Values per element: what nodes compute, read and store at an index, as instructions of a kernel's section.
//
// Contract: the part of lowering that does not depend on what a kernel is made of. Groups of maps and
// reductions and loops over elements (lower.cc) and loops over arrays (lower_arrays.cc) say what parameters
// of regions stand for, and how ops run that have code of their own.
#ifndef LAMINA_JIT_KERNEL_LOWER_ELEMENT_H_
#define LAMINA_JIT_KERNEL_LOWER_ELEMENT_H_

#include <optional>
#include <utility>
#include <vector>

#include "cluster/array_loop.h"
#include "jit/kernel/choice.h"
#include "jit/kernel/lower.h"
#include "jit/kernel/lower_sections.h"

namespace lamina::jit {

class ElementLowering {
 public:
  ElementLowering(const cluster::FusionPlan& plan, const cluster::Group& group) : plan_(plan), group_(group) {
    for (const hlo::Node* n : group.anchors) members_.insert(n);
  }

 protected:
  using Dims = hlo::Dims;
  using Node = hlo::Node;
  using Operand = hlo::Operand;
  using Prim = hlo::Prim;
  using Value = hlo::Value;

  ~ElementLowering() = default;

  // Loops, cases, and ops that do not read their operands at other indices.
  virtual std::vector<uint32_t> special(Operand o, const Index& index, uint32_t predicate) = 0;
  // Of the region that is being lowered.
  virtual std::vector<uint32_t> parameter(Operand o, const Index& index, uint32_t predicate);
  // What an operand of a case that is not in memory stands for in its branches.
  virtual Binding value_binding(Operand o);

  void fail(std::string_view message);
  // What the element that the kernel is at has of an array: the element, or in loops those that share its
  // place in the space, row-major (cluster/repeat.h). A scalar is one.
  std::vector<Index> own_elements(const hlo::Type& type) const;
  // Which of them it is.
  size_t own_number(const hlo::Type& type, const Index& index);
  std::vector<uint32_t> emit_own(Operand o);
  // The parts of one, of those that begin at `first`.
  uint64_t own_part(const hlo::Type& type, const Index& index, uint64_t first) {
    return first + own_number(type, index) * static_cast<uint64_t>(hlo::num_parts(type.dtype));
  }
  void store(const Value& v, const std::vector<uint32_t>& parts, const Index& index,
             std::vector<Store>& stores);
  // An instruction, or the value that it is known to give.
  uint32_t emit_instr(const KernelInstr& instr);
  uint32_t prim(Prim p, DType type, std::initializer_list<uint32_t> operands, uint64_t imm = 0);
  // An integer known for this shape, passed as an argument so that the structure does not depend on it.
  uint32_t argument(int64_t value, DType type = DType::kS64);
  // Likewise a number of a float type, but for those by which the code of a vector differs; and in loops,
  // where every step would pay for it.
  bool is_argument(DType type, uint64_t bits) const;
  DType type_of(uint32_t value) const { return section_->code[value].type; }
  uint32_t number(int64_t n, DType type = DType::kS64) {
    return prim(Prim::constant, type, {}, static_cast<uint64_t>(n));
  }
  uint32_t less(uint32_t a, uint32_t b) { return prim(Prim::lt, DType::kBool, {a, b}); }
  uint32_t least(uint32_t a, uint32_t b) { return choose(less(b, a), b, a); }
  uint32_t most(uint32_t a, uint32_t b) { return choose(less(a, b), b, a); }
  uint32_t choose(uint32_t condition, uint32_t yes, uint32_t no) {
    return prim(Prim::select, type_of(yes), {condition, yes, no});
  }
  // An element of an integer array as an s64, values that do not fit as the largest one.
  uint32_t as_index(uint32_t value);
  // The integer, or the end of 0 ... last that is nearer.
  uint32_t clamped(uint32_t value, int64_t last) {
    const DType type = type_of(value);
    const uint32_t end = argument(last);
    return least(most(value, number(0, type)), type == DType::kS64 ? end : prim(Prim::convert, type, {end}));
  }
  uint32_t index_value(const DimIndex& d);
  uint32_t both(uint32_t a, uint32_t b);
  static bool is_known(const DimIndex& d) { return d.terms.empty() && d.value == kNone; }
  static DimIndex computed(uint32_t value) {
    DimIndex out;
    out.value = value;
    return out;
  }
  uint32_t buffer(const Value& v, bool written);
  // Linear element index of `index` in an array of `dims`, in parts.
  static DimIndex linear(const Dims& dims, const Index& index, int parts, int part);
  // The same as a value, of an index that is computed in parts.
  uint32_t position(const Dims& dims, const Index& index, int parts, int part);
  uint32_t raw_access(RawAccess a);
  // `dims` are the array's, or those it is seen with after a reshape.
  uint32_t access(const Value& v, const Dims& dims, const Index& index, int part, bool written);
  std::vector<uint32_t> load(const Value& v, const Dims& dims, const Index& index, uint32_t predicate);
  // Chains of elementwise nodes, which may be long, are walked with a stack of their own; other ops recurse.
  std::vector<uint32_t> emit(Operand o, const Index& index, uint32_t predicate);
  // Whether the node is read from memory here.
  bool is_loaded(const Node& n) const;
  bool is_inlined_elementwise(const Node& n) const;
  // A number, in the code for the elements of an array.
  bool comes_from_around(Operand o) const {
    return frame_ && frame_->fills && o.node()->result_type(o.index())->is_scalar();
  }
  std::vector<uint32_t> compute(Operand o, const Index& index, uint32_t predicate);
  std::vector<uint32_t> immediate(const Node& n);
  std::vector<uint32_t> elementwise(const Node& n, const Index& index, uint32_t predicate);
  // A power of floats with a known exponent: the part of its rule that can matter.
  std::vector<uint32_t> power(const Node& n, double y, const Index& index, uint32_t predicate);
  std::vector<uint32_t> apply(const hlo::ScalarProgram& program, std::vector<uint32_t> values);
  // Ops that read their operands at another index.
  std::vector<uint32_t> moved(Operand o, const Index& index, uint32_t predicate);
  DimIndex times(const DimIndex& d, int64_t factor);
  DimIndex reversed(const DimIndex& d, int64_t size) { return shifted(times(d, -1), size - 1); }
  DimIndex plus(const DimIndex& a, const DimIndex& b);
  std::vector<uint32_t> reshape(const Node& n, const Index& index, uint32_t predicate);
  std::vector<uint32_t> select(uint32_t condition, const std::vector<uint32_t>& yes,
                               const std::vector<uint32_t>& no);
  std::vector<uint32_t> pad(const Node& n, const Index& index, uint32_t predicate);
  std::vector<uint32_t> concatenate(const Node& n, const Index& index, uint32_t predicate);
  std::vector<uint32_t> gather(const Node& n, const Index& index, uint32_t predicate);
  // An element of a dot_general or a reduce of so few terms that they are written out: those of a product one
  // after the other, those of a reduction (at most one per lane) in its tree.
  std::vector<uint32_t> product(const Node& n, int64_t terms, const Index& index, uint32_t predicate);
  std::vector<uint32_t> reduced(Operand o, int64_t terms, const Index& index, uint32_t predicate);
  // Of reductions that choose (choice.h): whether their pairs come in the order of their positions, ...
  bool ascends(const std::vector<std::vector<uint32_t>>& pairs) const;
  // ... which of two that do is chosen, ...
  std::vector<uint32_t> better(Choice choice, const std::vector<uint32_t>& before,
                               const std::vector<uint32_t>& next);
  // ... and whether the initial pair changes nothing, where the elements begin at `first`: it has the worst
  // value there is, and elements that all have it are beaten by an earlier position only.
  bool never_wins(Choice choice, const Value& init, uint32_t position, uint32_t first) const;

  // What is known of integers in loops (lower_limits.cc).
  std::optional<int64_t> known_number(uint32_t value) const;
  int64_t limit_of(uint32_t value) const;
  void set_limit(uint32_t value, int64_t limit);
  std::optional<uint32_t> decided(const KernelInstr& i);
  // Divisions and conversions of what is never negative, by unsigned ones, which take fewer instructions.
  std::optional<uint32_t> as_unsigned(const KernelInstr& i);
  void note_limit(const KernelInstr& i, uint32_t value);
  // An integer of a step: what it is in the first one, and how much more in each that follows.
  struct Stepped {
    int64_t first, by;
  };
  std::optional<Stepped> stepped(uint32_t value, const Repeat& r, int step_dim) const;
  // Remainders of such integers, in the code of a counted loop whose other carried values are known, are
  // carried on from step to step: a test and a sum in place of a division.
  void step_remainders(Repeat& r, int step_dim);
  // Of a carried integer that counts the steps of a loop; 0: it does not.
  static int64_t counter_limit(const Node& loop, size_t carried);

  // Windows, in loops: of arrays that are read or updated at positions which may be computed.
  struct Window {
    cluster::WindowUpdate update;
    std::vector<DimIndex> start;
  };
  uint32_t below(uint32_t value, int64_t limit);
  // A start index, moved to 0 ... last if `clamped`.
  DimIndex start(Operand o, const Index& element, bool clamped, int64_t last);
  std::optional<Window> window(const Node& n);
  std::vector<uint32_t> combined(const cluster::WindowUpdate& u, std::vector<uint32_t> old,
                                 const std::vector<uint32_t>& update);
  Index within(const cluster::WindowUpdate& u) const {
    return Index(u.update.node()->result_type(u.update.index())->dims.size());
  }
  // An element of an array that has been updated.
  std::vector<uint32_t> read_updated(const Node& n, const Window& w, const Index& index, uint32_t predicate);
  std::vector<uint32_t> sliced(const Node& n, const Index& index, uint32_t predicate);
  void enter(Frame* frame);
  // What lies in memory is read where it is needed, however many loops stand in between.
  std::vector<uint32_t> memory(Operand o, Index index, uint32_t predicate);
  static bool depends_on(const Index& index, int dim);
  // Whether the operand, seen from the present section, lies in memory.
  bool in_memory(Operand o) const;

  // Values that the code of `where`, the present section or one around it, computes.
  template <class F>
  std::vector<uint32_t> from_outside(Frame* where, F&& compute) {
    if (where == frame_) return compute();
    Frame* const inside = frame_;
    enter(inside->around);
    const std::vector<uint32_t> parts = from_outside(where, compute);
    if (section_ == inside->section) {
      enter(inside);
      return parts;
    }
    std::vector<std::pair<DType, int64_t>> kinds;
    for (uint32_t p : parts) kinds.emplace_back(section_->code[p].type, limit_of(p));
    enter(inside);
    std::vector<uint32_t> out;
    for (size_t i = 0; i < parts.size(); ++i) {
      out.push_back(section_->emit({.op = KernelOp::kOuter, .type = kinds[i].first, .imm = parts[i]}));
      set_limit(out.back(), kinds[i].second);
    }
    return out;
  }

  // A case among the steps of a loop: the result of every branch, and one chosen. An index that names no
  // branch is that of the last one.
  std::vector<uint32_t> chosen(Operand o, const Index& index);

  template <class F>
  Section region(const hlo::Computation& c, const std::vector<Binding>& bindings, int step_dim, F&& fill) {
    Section section;
    Frame frame{frame_, &section, step_dim, {}, &c};
    for (size_t i = 0; i < bindings.size(); ++i)
      frame.parameters.emplace(c.parameters()[i].node(), bindings[i]);
    enter(&frame);
    fill(c);
    enter(frame.around);
    return section;
  }

  // Loop dims that are no steps of repeats.
  size_t element_dims() const { return extents_.size() - repeats_.size(); }
  template <class F>
  void for_each_code(F&& f) {
    f(body_.code);
    f(epilogue_.code);
    for (Repeat& r : repeats_) {
      f(r.cond);
      f(r.body);
    }
  }
  bool reduces() const { return !reduction_.inputs.empty(); }
  // Whether loop dims d and d + 1 can become one: every access walks them as one contiguous run.
  bool can_join(int d) const;
  void drop_dim(int d);
  // Dims of one element are dropped, and those that can become one do.
  void simplify_dims();
  int64_t place_beside(const RawAccess& a) const;
  absl::StatusOr<LoweredLoop> finish();

  const cluster::FusionPlan& plan_;
  const cluster::Group& group_;
  HashSet<const Node*> members_;
  absl::Status status_;
  std::vector<int64_t> extents_;
  int parallel_rank_ = 0;
  HashSet<int> pinned_;  // loop dims whose index is read as a value
  std::vector<int64_t> immediates_;
  std::vector<RawAccess> accesses_;
  std::vector<Value> buffers_;
  std::vector<int64_t> own_bytes_;  // of buffers that hold no value
  std::vector<BufferDecl> decls_;
  HashMap<std::pair<uint64_t, bool>, uint32_t> buffer_of_;
  Section body_, epilogue_;
  Section* section_ = nullptr;
  bool writes_terms_ = false;   // of the group's reduction each term has code of its own
  bool joins_columns_ = false;  // elements of a last dimension are asked which piece they are of
  Frame* frame_ = nullptr;      // the region that `section_` is the code of
  Index identity_;
  std::vector<Repeat> repeats_;
  Reduction reduction_;
  std::vector<Store> stores_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_LOWER_ELEMENT_H_
