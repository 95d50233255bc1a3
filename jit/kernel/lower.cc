#include "jit/kernel/lower.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "cluster/repeat.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/scalar/adapters.h"
#include "hlo/strings.h"
#include "jit/kernel/lower_sections.h"

namespace lamina::jit {
namespace {

using cluster::Group;
using hlo::Attr;
using hlo::Attrs;
using hlo::Dims;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Prim;
using hlo::Value;

// Starting one step of a repeat for a block of elements, in element operations of the interpreting tier.
constexpr int64_t kStepWork = 100;
constexpr double kMostWork = 1e15;

class Lowering {
 public:
  Lowering(const cluster::Plan& plan, const Group& group) : plan_(plan), group_(group) {
    for (const Node* n : group.anchors) members_.insert(n);
  }

  absl::StatusOr<LoweredLoop> run() {
    const Node& first = *group_.anchors[0];
    const Dims space = group_.repeat ? group_.repeat_space : first.result_type(0)->dims;
    for (int64_t d : space) extents_.push_back(d);
    parallel_rank_ = static_cast<int>(space.size());
    Index identity(space.size());
    for (size_t d = 0; d < space.size(); ++d)
      if (space[d] != 1) identity[d].terms = {{static_cast<int>(d), 1}};
    if (group_.reduction) lower_reduction(*group_.reduction, identity);
    Section& section = group_.reduction ? epilogue_ : body_;
    section_ = &section;
    identity_ = identity;
    for (const Node* n : group_.outputs)
      for (uint32_t r = 0; r < n->num_results(); ++r) {
        if (group_.repeat && (r >= cluster::num_carried(*n) || !group_.repeat_read[r])) continue;
        const Value v(const_cast<Node*>(n), r);
        store(v, emit(v.operand(), element_of(v), kNone), element_of(v), stores_);
      }
    if (group_.repeat && body_.repeats.empty()) repeat_use(*group_.repeat);
    if (!status_.ok()) return status_;
    return finish();
  }

 private:
  void fail(std::string_view message) {
    if (status_.ok()) status_ = absl::InternalError(absl::string_view(message.data(), message.size()));
  }

  // A scalar, or the element that the kernel is at.
  Index element_of(const Value& v) const { return v.type()->is_scalar() ? Index() : identity_; }

  void store(const Value& v, const std::vector<uint32_t>& parts, const Index& index,
             std::vector<Store>& stores) {
    for (size_t p = 0; p < parts.size(); ++p)
      stores.push_back({access(v, v.dims(), index, static_cast<int>(p), true), parts[p]});
  }

  // --- instructions ---

  uint32_t prim(Prim p, DType type, std::initializer_list<uint32_t> operands, uint64_t imm = 0) {
    KernelInstr i{.op = KernelOp::kPrim, .prim = p, .type = type, .imm = imm};
    std::copy(operands.begin(), operands.end(), i.operands);
    return section_->emit(i);
  }
  // An integer known for this shape, passed as an argument so that the structure does not depend on it.
  uint32_t argument(int64_t value, DType type = DType::kS64) {
    immediates_.push_back(value);
    return section_->emit({.op = KernelOp::kArg, .type = type, .imm = immediates_.size() - 1});
  }
  // Likewise a number of a float type, but for those by which the code of a vector differs; and in loops,
  // where every step would pay for it.
  bool is_argument(DType type, uint64_t bits) const {
    if (frame_ || (type != DType::kF32 && type != DType::kF64)) return false;
    const double value =
        type == DType::kF32 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
    return std::isfinite(value) && value != 0 && std::abs(value) != 1;
  }
  uint32_t index_value(const DimIndex& d) {
    uint32_t v = d.value;
    auto add = [&](uint32_t x) { v = v == kNone ? x : prim(Prim::add, DType::kS64, {v, x}); };
    for (const auto& [dim, coef] : d.terms) {
      pinned_.insert(dim);
      uint32_t x =
          section_->emit({.op = KernelOp::kIndex, .type = DType::kS64, .imm = static_cast<uint64_t>(dim)});
      if (coef != 1) x = prim(Prim::mul, DType::kS64, {x, argument(coef)});
      add(x);
    }
    if (d.offset != 0 || v == kNone) add(argument(d.offset));
    return v;
  }
  uint32_t both(uint32_t a, uint32_t b) {
    return a == kNone ? b : b == kNone ? a : prim(Prim::bit_and, DType::kBool, {a, b});
  }

  // --- memory ---

  uint32_t buffer(const Value& v, bool written) {
    const auto [it, inserted] = buffer_of_.try_emplace({v.operand().bits(), written}, buffers_.size());
    if (inserted) {
      buffers_.push_back(v);
      decls_.push_back({hlo::part_type(v.dtype()), written});
    }
    return it->second;
  }

  // Linear element index of `index` in an array of `dims`, in parts.
  static DimIndex linear(const Dims& dims, const Index& index, int parts, int part) {
    const Dims strides = hlo::row_major_strides(dims);
    DimIndex at;
    for (size_t d = 0; d < dims.size(); ++d) at = sum(at, scaled(index[d], strides[d] * parts));
    at.offset += part;
    return at;
  }

  uint32_t raw_access(RawAccess a) {
    auto it = std::find(accesses_.begin(), accesses_.end(), a);
    if (it != accesses_.end()) return static_cast<uint32_t>(it - accesses_.begin());
    accesses_.push_back(std::move(a));
    return static_cast<uint32_t>(accesses_.size() - 1);
  }

  // `dims` are the array's, or those it is seen with after a reshape.
  uint32_t access(const Value& v, const Dims& dims, const Index& index, int part, bool written) {
    DimIndex at = linear(dims, index, hlo::num_parts(v.dtype()), part);
    return raw_access({buffer(v, written), at.offset, std::move(at.terms)});
  }

  std::vector<uint32_t> load(const Value& v, const Dims& dims, const Index& index, uint32_t predicate) {
    const int parts = hlo::num_parts(v.dtype());
    bool computed = false;
    for (const DimIndex& d : index) computed |= d.value != kNone;
    std::vector<uint32_t> out;
    for (int p = 0; p < parts; ++p) {
      KernelInstr i{
          .op = KernelOp::kLoad, .type = hlo::part_type(v.dtype()), .predicated = predicate != kNone};
      if (!computed) {
        i.imm = access(v, dims, index, p, false);
        if (i.predicated) i.operands[0] = predicate;
      } else {
        // Sum of computed and affine parts, element by element.
        const Dims strides = hlo::row_major_strides(dims);
        DimIndex affine;
        uint32_t at = kNone;
        for (size_t d = 0; d < index.size(); ++d) {
          DimIndex known = index[d];
          known.value = kNone;
          affine = sum(affine, scaled(known, strides[d] * parts));
          if (index[d].value == kNone) continue;
          uint32_t x = index[d].value;
          if (strides[d] * parts != 1) x = prim(Prim::mul, DType::kS64, {x, argument(strides[d] * parts)});
          at = at == kNone ? x : prim(Prim::add, DType::kS64, {at, x});
        }
        affine.offset += p;
        affine.value = at;
        i.op = KernelOp::kLoadAt;
        i.imm = buffer(v, false);
        i.operands[0] = index_value(affine);
        if (i.predicated) i.operands[1] = predicate;
      }
      out.push_back(section_->emit(i));
    }
    return out;
  }

  // --- values ---

  // Chains of elementwise nodes, which may be long, are walked with a stack of their own; other ops recurse.
  std::vector<uint32_t> emit(Operand o, const Index& index, uint32_t predicate) {
    auto known = [&](Operand x) { return section_->memo.find(MemoKey{x, index, predicate}); };
    if (auto it = known(o); it != section_->memo.end()) return it->second;
    std::vector<Operand> work{o};
    while (!work.empty()) {
      const Operand top = work.back();
      if (known(top) != section_->memo.end()) {
        work.pop_back();
        continue;
      }
      const size_t waiting = work.size();
      if (is_inlined_elementwise(*top.node())) {
        const std::span<const Operand> operands = top.node()->operands();
        for (size_t i = operands.size(); i-- > 0;)
          if (known(operands[i]) == section_->memo.end()) work.push_back(operands[i]);
      }
      if (work.size() > waiting) continue;
      std::vector<uint32_t> parts = compute(top, index, predicate);
      section_->memo.emplace(MemoKey{top, index, predicate}, std::move(parts));
      work.pop_back();
    }
    return known(o)->second;
  }

  // Whether the node is read from memory here.
  bool is_loaded(const Node& n) const {
    const bool is_leaf = n.op() == Op::parameter || n.op() == Op::leaf || n.op() == Op::constant;
    return is_leaf || (!frame_ && plan_.group_of.contains(&n) && !members_.contains(&n));
  }
  bool is_inlined_elementwise(const Node& n) const {
    return n.def().is_elementwise() && !is_loaded(n) && &n != group_.reduction;
  }

  std::vector<uint32_t> compute(Operand o, const Index& index, uint32_t predicate) {
    const Node& n = *o.node();
    if (n.op() == Op::constant && n.type()->is_scalar()) return immediate(n);
    if (frame_ && n.op() == Op::parameter) return parameter(o, index, predicate);
    if (is_loaded(n)) return load(Value(o), Value(o).dims(), index, predicate);
    if (cluster::is_loop_op(n.op())) return repeated(o, index, predicate);
    if (n.op() == Op::case_) return chosen(o);
    if (&n == group_.reduction) {
      std::vector<uint32_t> out;
      uint64_t at = 0;
      for (uint32_t r = 0; r < o.index(); ++r) at += hlo::num_parts(n.result_type(r)->dtype);
      const DType dtype = n.result_type(o.index())->dtype;
      for (int p = 0; p < hlo::num_parts(dtype); ++p)
        out.push_back(
            section_->emit({.op = KernelOp::kReduced, .type = hlo::part_type(dtype), .imm = at + p}));
      return out;
    }
    if (n.def().is_elementwise()) return elementwise(n, index, predicate);
    return moved(n, index, predicate);
  }

  std::vector<uint32_t> immediate(const Node& n) {
    const hlo::Literal& lit = *n.attrs().literal(Attr::value);
    const DType part = hlo::part_type(lit.dtype());
    std::vector<uint32_t> out;
    for (int p = 0; p < hlo::num_parts(lit.dtype()); ++p) {
      uint64_t bits = 0;
      std::memcpy(&bits, lit.element(0) + p * hlo::byte_size(part), hlo::byte_size(part));
      out.push_back(is_argument(part, bits) ? argument(static_cast<int64_t>(bits), part)
                                            : prim(Prim::constant, part, {}, bits));
    }
    return out;
  }

  std::vector<uint32_t> elementwise(const Node& n, const Index& index, uint32_t predicate) {
    std::vector<uint32_t> values;
    for (Operand o : n.operands())
      for (uint32_t v : emit(o, index, predicate)) values.push_back(v);
    return apply(hlo::scalar_program(n), std::move(values));
  }

  std::vector<uint32_t> apply(const hlo::ScalarProgram& program, std::vector<uint32_t> values) {
    for (const hlo::ScalarInstr& i : program.code) {
      KernelInstr k{.op = KernelOp::kPrim, .prim = i.prim, .type = i.type, .imm = i.imm};
      for (int a = 0; a < hlo::prim_arity(i.prim); ++a) k.operands[a] = values[i.operands[a]];
      values.push_back(section_->emit(k));
    }
    std::vector<uint32_t> out;
    for (uint32_t v : program.outputs) out.push_back(values[v]);
    return out;
  }

  // Ops that read their operands at another index.
  std::vector<uint32_t> moved(const Node& n, const Index& index, uint32_t predicate) {
    const Attrs& a = n.attrs();
    switch (n.op()) {
      case Op::identity:
      case Op::stop_gradient:
        return emit(n.operand(0), index, predicate);
      case Op::broadcast_in_dim: {
        const Dims& dims = a.ints(Attr::broadcast_dimensions);
        Index in(dims.size());
        for (size_t i = 0; i < dims.size(); ++i)
          if (n.operand_type(0)->dims[i] != 1) in[i] = index[dims[i]];
        return emit(n.operand(0), in, predicate);
      }
      case Op::transpose: {
        const Dims& perm = a.ints(Attr::permutation);
        Index in(perm.size());
        for (size_t i = 0; i < perm.size(); ++i) in[perm[i]] = index[i];
        return emit(n.operand(0), in, predicate);
      }
      case Op::reverse: {
        Index in = index;
        for (int64_t d : a.ints(Attr::dimensions)) in[d] = reversed(in[d], n.type()->dims[d]);
        return emit(n.operand(0), in, predicate);
      }
      case Op::slice: {
        Index in = index;
        for (size_t d = 0; d < in.size(); ++d)
          in[d] = shifted(times(in[d], a.ints(Attr::strides)[d]), a.ints(Attr::start_indices)[d]);
        return emit(n.operand(0), in, predicate);
      }
      case Op::reshape:
        return reshape(n, index, predicate);
      case Op::iota: {
        const uint32_t at = index_value(index[a.integer(Attr::iota_dimension)]);
        const DType dtype = n.type()->dtype, part = hlo::part_type(dtype);
        std::vector<uint32_t> out =
            apply(hlo::scalar::record_rule(hlo::scalar::convert_rule, std::array{DType::kS64}, part), {at});
        if (hlo::is_complex(dtype)) out.push_back(prim(Prim::constant, part, {}, 0));
        return out;
      }
      case Op::pad:
        return pad(n, index, predicate);
      case Op::concatenate:
        return concatenate(n, index, predicate);
      default:
        fail(str_cat(n.def().name, " has no loop form"));
        return {0, 0};
    }
  }

  DimIndex times(const DimIndex& d, int64_t factor) {
    DimIndex out = scaled(d, factor);
    if (out.value != kNone && factor != 1)
      out.value = prim(Prim::mul, DType::kS64, {out.value, argument(factor)});
    return out;
  }
  DimIndex reversed(const DimIndex& d, int64_t size) { return shifted(times(d, -1), size - 1); }
  DimIndex plus(const DimIndex& a, const DimIndex& b) {
    DimIndex out = sum(a, b);
    if (a.value != kNone && b.value != kNone)
      out.value = prim(Prim::add, DType::kS64, {a.value, b.value});
    else
      out.value = a.value != kNone ? a.value : b.value;
    return out;
  }

  std::vector<uint32_t> reshape(const Node& n, const Index& index, uint32_t predicate) {
    std::vector<std::vector<int64_t>> parts;
    if (cluster::is_splitting_reshape(n, &parts)) {
      Index in(parts.size());
      for (size_t i = 0; i < parts.size(); ++i) {
        int64_t stride = 1;
        for (size_t k = parts[i].size(); k-- > 0;) {
          in[i] = plus(in[i], times(index[parts[i][k]], stride));
          stride *= n.type()->dims[parts[i][k]];
        }
      }
      return emit(n.operand(0), in, predicate);
    }
    // The operand has a buffer of its own (see fuse.cc), which is read with the new dims.
    return load(n.operand_value(0), n.type()->dims, index, predicate);
  }

  std::vector<uint32_t> select(uint32_t condition, const std::vector<uint32_t>& yes,
                               const std::vector<uint32_t>& no) {
    std::vector<uint32_t> out;
    for (size_t p = 0; p < yes.size(); ++p)
      out.push_back(prim(Prim::select, section_->code[yes[p]].type, {condition, yes[p], no[p]}));
    return out;
  }

  std::vector<uint32_t> pad(const Node& n, const Index& index, uint32_t predicate) {
    const Dims &low = n.attrs().ints(Attr::edge_padding_low), &high = n.attrs().ints(Attr::edge_padding_high),
               &inner = n.attrs().ints(Attr::interior_padding);
    Index in = index;
    uint32_t inside = kNone;
    for (size_t d = 0; d < in.size(); ++d) {
      const int64_t size = n.operand_type(0)->dims[d];
      in[d] = shifted(in[d], -low[d]);
      if (low[d] <= 0 && high[d] <= 0 && inner[d] == 0) continue;
      uint32_t at = index_value(in[d]);
      const int64_t span = size == 0 ? 0 : (size - 1) * (inner[d] + 1) + 1;
      // One unsigned comparison tests both ends.
      const uint32_t bits = prim(Prim::bitcast, DType::kU64, {at});
      const uint32_t limit = prim(Prim::bitcast, DType::kU64, {argument(span)});
      inside = both(inside, prim(Prim::lt, DType::kBool, {bits, limit}));
      if (inner[d] == 0) continue;
      const uint32_t step = argument(inner[d] + 1), zero = argument(0);
      inside = both(inside, prim(Prim::eq, DType::kBool, {prim(Prim::rem, DType::kS64, {at, step}), zero}));
      in[d] = DimIndex{};
      in[d].value = prim(Prim::div, DType::kS64, {at, step});
    }
    if (inside == kNone) return emit(n.operand(0), in, predicate);
    const std::vector<uint32_t> value = emit(n.operand(0), in, both(predicate, inside));
    return select(inside, value, emit(n.operand(1), {}, predicate));
  }

  std::vector<uint32_t> concatenate(const Node& n, const Index& index, uint32_t predicate) {
    const int64_t d = n.attrs().integer(Attr::dimension);
    std::vector<uint32_t> value;
    int64_t end = n.type()->dims[d];
    const uint32_t at = index_value(index[d]);
    // From the last piece to the first: each earlier one takes over where the index lies below its end.
    for (size_t i = n.operands().size(); i-- > 0;) {
      const int64_t size = n.operand_type(i)->dims[d];
      const int64_t begin = end - size;
      uint32_t from = kNone, below = kNone;
      if (begin > 0) {
        const uint32_t b = argument(begin);
        from = prim(Prim::le, DType::kBool, {b, at});
      }
      if (i + 1 < n.operands().size()) below = prim(Prim::lt, DType::kBool, {at, argument(end)});
      Index in = index;
      in[d] = shifted(in[d], -begin);
      end = begin;
      if (size == 0 && !(value.empty() && i == 0)) continue;
      const std::vector<uint32_t> piece = emit(n.operand(i), in, both(predicate, both(from, below)));
      value = value.empty() ? piece : select(below, piece, value);
    }
    return value;
  }

  // --- reductions ---

  void lower_reduction(const Node& n, const Index& identity) {
    const size_t m = n.operands().size() / 2;
    const Dims& reduced = n.attrs().ints(Attr::dimensions);
    const Dims& dims = n.operand_type(0)->dims;
    Index full(dims.size());
    size_t parallel = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end()) {
        full[d] = identity[parallel++];
        continue;
      }
      if (dims[d] != 1) full[d].terms = {{static_cast<int>(extents_.size()), 1}};
      extents_.push_back(dims[d]);
    }
    section_ = &body_;
    for (size_t i = 0; i < m; ++i)
      for (uint32_t v : emit(n.operand(i), full, kNone)) reduction_.inputs.push_back(v);
    for (size_t i = 0; i < m; ++i) {
      const Value init(n.operand(m + i));
      for (int p = 0; p < hlo::num_parts(init.dtype()); ++p)
        reduction_.init.push_back(access(init, {}, {}, p, false));
    }
    reduction_.combine = *hlo::region_program(*n.attrs().computation(Attr::body));
  }

  // --- loops in the kernel ---

  std::vector<uint32_t> parameter(Operand o, const Index& index, uint32_t predicate) {
    const Binding& b = frame_->parameters.at(o.node());
    std::vector<uint32_t> out;
    const DType dtype = Value(o).dtype();
    switch (b.kind) {
      case Binding::kCarried:
        for (int p = 0; p < hlo::num_parts(dtype); ++p)
          out.push_back(section_->emit({.op = KernelOp::kCarried,
                                        .type = hlo::part_type(dtype),
                                        .imm = b.first + static_cast<uint64_t>(p)}));
        return out;
      case Binding::kValue:
        return b.parts;
      case Binding::kOuter:
        return from_outside(frame_->around, [&] { return emit(b.outer, index, kNone); });
      default:
        return memory(o, index, predicate);
    }
  }

  void enter(Frame* frame) {
    frame_ = frame;
    section_ = frame ? frame->section : &body_;
  }

  // What lies in memory is read where it is needed, however many loops stand in between.
  std::vector<uint32_t> memory(Operand o, Index index, uint32_t predicate) {
    for (const Frame* f = frame_; f && o.node()->op() == Op::parameter; f = f->around) {
      const Binding& b = f->parameters.at(o.node());
      if (b.kind == Binding::kSlice) index.insert(index.begin(), b.step);
      o = b.outer;
    }
    if (o.node()->op() == Op::constant && o.node()->type()->is_scalar()) return immediate(*o.node());
    // What no step changes is read before the steps.
    Frame* where = frame_;
    while (where && predicate == kNone && !depends_on(index, where->step_dim)) where = where->around;
    return from_outside(where, [&] { return load(Value(o), Value(o).dims(), index, predicate); });
  }

  static bool depends_on(const Index& index, int dim) {
    for (const DimIndex& d : index) {
      if (d.value != kNone) return true;  // computed by the present section
      for (const auto& [term, coef] : d.terms)
        if (term == dim) return true;
    }
    return false;
  }

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
    std::vector<DType> types;
    for (uint32_t p : parts) types.push_back(section_->code[p].type);
    enter(inside);
    std::vector<uint32_t> out;
    for (size_t i = 0; i < parts.size(); ++i)
      out.push_back(section_->emit({.op = KernelOp::kOuter, .type = types[i], .imm = parts[i]}));
    return out;
  }

  // Whether the operand, seen from the present section, lies in memory.
  bool in_memory(Operand o) const {
    if (!frame_ || o.node()->op() == Op::constant) return true;
    const auto it = frame_->parameters.find(o.node());
    return it != frame_->parameters.end() &&
           (it->second.kind == Binding::kMemory || it->second.kind == Binding::kSlice);
  }

  // A case among the steps of a loop: the result of every branch, and one chosen. An index that names no
  // branch is that of the last one.
  std::vector<uint32_t> chosen(Operand o) {
    const Node& n = *o.node();
    const uint32_t at = emit(n.operand(0), {}, kNone)[0];
    std::vector<Binding> bindings;
    for (size_t i = 1; i < n.operands().size(); ++i) {
      const Operand operand = n.operand(i);
      Binding b{.kind = Binding::kMemory, .first = 0, .outer = operand, .step = {}};
      if (!in_memory(operand)) {
        b.kind = Binding::kValue;
        b.parts = emit(operand, element_of(Value(operand)), kNone);
      }
      bindings.push_back(std::move(b));
    }
    const std::vector<hlo::ComputationPtr>& branches = n.attrs().computations(Attr::branches);
    std::vector<uint32_t> out;
    for (size_t k = branches.size(); k-- > 0;) {
      // One branch may stand in several places, with other values each.
      auto memo = std::exchange(section_->memo, {});
      Frame frame{frame_, section_, -1, {}};
      for (size_t i = 0; i < bindings.size(); ++i)
        frame.parameters.emplace(branches[k]->parameters()[i].node(), bindings[i]);
      enter(&frame);
      const Value& root = branches[k]->roots()[o.index()];
      const std::vector<uint32_t> parts = emit(root.operand(), element_of(root), kNone);
      enter(frame.around);
      section_->memo = std::move(memo);
      if (out.empty()) {
        out = parts;
        continue;
      }
      const uint32_t number = prim(Prim::constant, DType::kS32, {}, k);
      out = select(prim(Prim::eq, DType::kBool, {at, number}), parts, out);
    }
    return out;
  }

  std::vector<uint32_t> repeated(Operand o, const Index& index, uint32_t predicate) {
    const Node& n = *o.node();
    if (cluster::is_unchanged(n, o.index())) return emit(n.operand(o.index()), index, predicate);
    const RepeatUse& use = repeat_use(n);
    const DType dtype = n.result_type(o.index())->dtype;
    std::vector<uint32_t> out;
    for (int p = 0; p < hlo::num_parts(dtype); ++p)
      out.push_back(section_->emit({.op = KernelOp::kRepeated,
                                    .type = hlo::part_type(dtype),
                                    .operands = {use.instr, 0, 0},
                                    .imm = use.first[o.index()] + static_cast<uint64_t>(p)}));
    return out;
  }

  // The instruction that runs the loop in the present section.
  const RepeatUse& repeat_use(const Node& n) {
    if (const auto it = section_->repeats.find(&n); it != section_->repeats.end()) return it->second;
    const size_t number = repeats_.size(), carried = cluster::num_carried(n);
    const bool counted = n.op() == Op::scan;
    const int64_t length = counted ? n.attrs().integer(Attr::length) : 0;
    const int step_dim = static_cast<int>(extents_.size());
    extents_.push_back(length);
    repeats_.emplace_back();
    Repeat r;
    r.counted = counted;
    DimIndex step{.offset = 0, .terms = {{step_dim, 1}}};
    if (n.attrs().flag(Attr::reverse)) step = {.offset = length - 1, .terms = {{step_dim, -1}}};
    RepeatUse use;
    std::vector<Binding> bindings;
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const Operand o = n.operand(i);
      Binding b{.kind = Binding::kMemory, .first = 0, .outer = o, .step = {}};
      use.first.push_back(static_cast<uint32_t>(r.init.size()));
      if (i >= carried) {
        b.kind = Binding::kSlice;
        b.step = step;
      } else if (!cluster::is_unchanged(n, i)) {
        b.kind = Binding::kCarried;
        b.first = use.first.back();
        for (uint32_t v : emit(o, element_of(Value(o)), kNone)) r.init.push_back(v);
      } else if (!in_memory(o)) {
        b.kind = Binding::kOuter;
      }
      bindings.push_back(std::move(b));
    }
    Frame* const around = frame_;
    const std::optional<cluster::LaneLoop> lanes = cluster::lane_loop(n);
    if (!counted) {
      const Section cond =
          region(*n.attrs().computation(Attr::cond), bindings, step_dim, [&](const hlo::Computation& c) {
            r.condition = lanes ? emit(c.parameters()[lanes->flag].operand(), identity_, kNone)[0]
                                : emit(c.roots()[0].operand(), {}, kNone)[0];
          });
      r.cond = cond.code;
    }
    const Section body =
        region(*n.attrs().computation(Attr::body), bindings, step_dim, [&](const hlo::Computation& c) {
          for (size_t i = 0; i < c.roots().size(); ++i) {
            const Value& root = c.roots()[i];
            if (i < carried ? cluster::is_unchanged(n, i) : around || !group_.repeat_read[i]) continue;
            const std::vector<uint32_t> parts =
                emit(lanes ? lanes->next[i] : root.operand(), element_of(root), kNone);
            if (i < carried) {
              r.next.insert(r.next.end(), parts.begin(), parts.end());
              continue;
            }
            Index at = element_of(root);
            at.insert(at.begin(), step);
            store(Value(const_cast<Node*>(&n), static_cast<uint32_t>(i)), parts, at, r.stores);
          }
        });
    r.body = body.code;
    repeats_[number] = std::move(r);
    use.instr = section_->emit({.op = KernelOp::kRepeat, .type = DType::kS64, .imm = number});
    return section_->repeats.emplace(&n, std::move(use)).first->second;
  }

  template <class F>
  Section region(const hlo::Computation& c, const std::vector<Binding>& bindings, int step_dim, F&& fill) {
    Section section;
    Frame frame{frame_, &section, step_dim, {}};
    for (size_t i = 0; i < bindings.size(); ++i)
      frame.parameters.emplace(c.parameters()[i].node(), bindings[i]);
    enter(&frame);
    fill(c);
    enter(frame.around);
    return section;
  }

  // --- assembling ---

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

  // Whether loop dims d and d + 1 can become one: every access walks them as one contiguous run.
  bool can_join(int d) const {
    if (pinned_.contains(d) || pinned_.contains(d + 1)) return false;
    for (const RawAccess& a : accesses_) {
      int64_t outer = 0, inner = 0;
      for (const auto& [dim, coef] : a.terms) {
        if (dim == d) outer = coef;
        if (dim == d + 1) inner = coef;
      }
      if (outer != inner * extents_[d + 1]) return false;
    }
    return true;
  }

  void drop_dim(int d) {
    extents_.erase(extents_.begin() + d);
    for (RawAccess& a : accesses_) {
      std::erase_if(a.terms, [&](const auto& t) { return t.first == d; });
      for (auto& t : a.terms)
        if (t.first > d) --t.first;
    }
    for_each_code([&](std::vector<KernelInstr>& code) {
      for (KernelInstr& i : code)
        if (i.op == KernelOp::kIndex && static_cast<int>(i.imm) > d) --i.imm;
    });
    HashSet<int> pinned;
    for (int p : pinned_) pinned.insert(p > d ? p - 1 : p);
    pinned_ = std::move(pinned);
    if (d < parallel_rank_) --parallel_rank_;
  }

  void simplify_dims() {
    for (int d = static_cast<int>(element_dims()); d-- > 0;)
      if (extents_[d] == 1 && !pinned_.contains(d)) drop_dim(d);
    for (int d = static_cast<int>(element_dims()) - 2; d >= 0; --d) {
      if (d + 1 == parallel_rank_ || !can_join(d)) continue;
      extents_[d + 1] *= extents_[d];
      drop_dim(d);
    }
    // A reduction keeps one reduced dimension even if it has one element.
    if (group_.reduction && static_cast<int>(extents_.size()) == parallel_rank_) extents_.push_back(1);
  }

  absl::StatusOr<LoweredLoop> finish() {
    simplify_dims();
    if (extents_.size() > kMaxLoopRank)
      return absl::UnimplementedError(
          str_cat("a kernel over ", extents_.size(), " dimensions; the limit is ", kMaxLoopRank));
    LoweredLoop out;
    LoopKernel& k = out.kernel;
    const size_t rank = extents_.size();
    out.args.assign(extents_.begin(), extents_.end());
    out.args.insert(out.args.end(), immediates_.begin(), immediates_.end());
    for_each_code([&](std::vector<KernelInstr>& code) {
      for (KernelInstr& i : code)
        if (i.op == KernelOp::kArg) i.imm += rank;
    });
    auto slot = [&](int64_t value) {
      out.args.push_back(value);
      return static_cast<uint32_t>(out.args.size() - 1);
    };
    for (const RawAccess& a : accesses_) {
      Access access;
      access.buffer = a.buffer;
      if (a.offset != 0) access.offset_slot = static_cast<int32_t>(slot(a.offset));
      for (const auto& [dim, coef] : a.terms) {
        AccessTerm term{static_cast<uint8_t>(dim), static_cast<uint8_t>(coef == 1 || coef == 2 ? coef : 0),
                        0};
        if (!term.unit) term.stride_slot = slot(coef);
        access.terms.push_back(term);
      }
      k.accesses.push_back(std::move(access));
    }
    k.buffers = std::move(decls_);
    k.parallel_rank = static_cast<uint8_t>(parallel_rank_);
    k.reduce_rank = static_cast<uint8_t>(element_dims() - parallel_rank_);
    k.num_args = static_cast<uint32_t>(out.args.size());
    k.has_reduction = group_.reduction != nullptr;
    k.reduction = std::move(reduction_);
    k.body = std::move(body_.code);
    k.epilogue = std::move(epilogue_.code);
    k.stores = std::move(stores_);
    out.buffers = std::move(buffers_);
    k.repeats = std::move(repeats_);
    drop_unused(k);
    double total = 1;
    for (int d = 0; d < k.parallel_rank + k.reduce_rank; ++d)
      total *= static_cast<double>(std::max<int64_t>(extents_[d], 1));
    const Cost each = cost_of(k, k.body, extents_);
    out.work = static_cast<int64_t>(std::min(total * each.work + each.steps * kStepWork, kMostWork));
    if (parallel_rank_ > 0) out.inner = extents_[parallel_rank_ - 1];
    for (int d = 0; d + 1 < parallel_rank_; ++d) out.outer *= extents_[d];
    return out;
  }

  const cluster::Plan& plan_;
  const Group& group_;
  HashSet<const Node*> members_;
  absl::Status status_;
  std::vector<int64_t> extents_;
  int parallel_rank_ = 0;
  HashSet<int> pinned_;  // loop dims whose index is read as a value
  std::vector<int64_t> immediates_;
  std::vector<RawAccess> accesses_;
  std::vector<Value> buffers_;
  std::vector<BufferDecl> decls_;
  HashMap<std::pair<uint64_t, bool>, uint32_t> buffer_of_;
  Section body_, epilogue_;
  Section* section_ = nullptr;
  Frame* frame_ = nullptr;  // the region that `section_` is the code of
  Index identity_;
  std::vector<Repeat> repeats_;
  Reduction reduction_;
  std::vector<Store> stores_;
};

}  // namespace

absl::StatusOr<LoweredLoop> lower_loop(const cluster::Plan& plan, const cluster::Group& group) {
  return Lowering(plan, group).run();
}

}  // namespace lamina::jit
