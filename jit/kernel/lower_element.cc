#include "jit/kernel/lower_element.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "cluster/repeat.h"
#include "hlo/match.h"
#include "hlo/op.h"
#include "hlo/scalar/adapters.h"
#include "hlo/strings.h"

namespace lamina::jit {

using hlo::Attr;
using hlo::Attrs;
using hlo::Op;

namespace {

// Starting one step of a repeat for a block of elements, in element operations of the interpreting tier.
constexpr int64_t kStepWork = 100;
constexpr double kMostWork = 1e15;

// The exponent of a power of floats, if it is known. One on its way to fewer digits has a rule of its own.
std::optional<double> known_exponent(const hlo::Node& n) {
  if (n.op() != hlo::Op::power || n.attrs().has(Attr::mantissa_bits)) return {};
  const hlo::Literal* const literal = hlo::match::uniform_literal(n.operand_value(1));
  if (!literal) return {};
  if (literal->dtype() == DType::kF32) {
    float y;
    std::memcpy(&y, literal->element(0), sizeof y);
    return y;
  }
  if (literal->dtype() != DType::kF64) return {};
  double y;
  std::memcpy(&y, literal->element(0), sizeof y);
  return y;
}

}  // namespace

void ElementLowering::fail(std::string_view message) {
  if (status_.ok()) status_ = absl::InternalError(absl::string_view(message.data(), message.size()));
}

std::vector<Index> ElementLowering::own_elements(const hlo::Type& type) const {
  if (type.is_scalar()) return {Index()};
  const size_t more = type.dims.size() - identity_.size(),
               first = group_.repeat_trailing ? 0 : identity_.size();
  const Dims dims(type.dims.begin() + first, type.dims.begin() + first + more);
  const Dims strides = hlo::row_major_strides(dims);
  std::vector<Index> out;
  for (int64_t e = 0; e < hlo::product(dims); ++e) {
    Index index = identity_;
    for (size_t d = 0; d < more; ++d)
      index.insert(index.begin() + first + d, {.offset = e / strides[d] % dims[d], .terms = {}});
    out.push_back(std::move(index));
  }
  return out;
}

size_t ElementLowering::own_number(const hlo::Type& type, const Index& index) {
  if (type.is_scalar()) return 0;
  const size_t first = group_.repeat_trailing ? 0 : identity_.size(),
               end = first + index.size() - identity_.size();
  int64_t number = 0;
  for (size_t d = first; d < end; ++d) {
    if (!is_known(index[d])) fail("a carried array is read at a computed position");
    number = number * type.dims[d] + index[d].offset;
  }
  return static_cast<size_t>(number);
}

std::vector<uint32_t> ElementLowering::emit_own(Operand o) {
  std::vector<uint32_t> out;
  for (const Index& index : own_elements(*o.node()->result_type(o.index())))
    for (uint32_t part : emit(o, index, kNone)) out.push_back(part);
  return out;
}

void ElementLowering::store(const Value& v, const std::vector<uint32_t>& parts, const Index& index,
                            std::vector<Store>& stores) {
  for (size_t p = 0; p < parts.size(); ++p)
    stores.push_back({access(v, v.dims(), index, static_cast<int>(p), true), parts[p]});
}

uint32_t ElementLowering::prim(Prim p, DType type, std::initializer_list<uint32_t> operands, uint64_t imm) {
  KernelInstr i{.op = KernelOp::kPrim, .prim = p, .type = type, .imm = imm};
  std::copy(operands.begin(), operands.end(), i.operands);
  return emit_instr(i);
}

uint32_t ElementLowering::emit_instr(const KernelInstr& instr) {
  if (const std::optional<uint32_t> known = decided(instr)) return *known;
  if (const std::optional<uint32_t> same = as_unsigned(instr)) return *same;
  const uint32_t value = section_->emit(instr);
  note_limit(instr, value);
  return value;
}

uint32_t ElementLowering::argument(int64_t value, DType type) {
  immediates_.push_back(value);
  return section_->emit({.op = KernelOp::kArg, .type = type, .imm = immediates_.size() - 1});
}

bool ElementLowering::is_argument(DType type, uint64_t bits) const {
  if (frame_ || (type != DType::kF32 && type != DType::kF64)) return false;
  const double value =
      type == DType::kF32 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
  return std::isfinite(value) && value != 0 && std::abs(value) != 1;
}

uint32_t ElementLowering::as_index(uint32_t value) {
  const DType type = type_of(value);
  if (type == DType::kS64) return value;
  const uint32_t wide =
      apply(hlo::scalar::record_rule(hlo::scalar::convert_rule, std::array{type}, DType::kS64), {value})[0];
  if (type != DType::kU64) return wide;
  return choose(less(wide, number(0)), number(std::numeric_limits<int64_t>::max()), wide);
}

uint32_t ElementLowering::index_value(const DimIndex& d) {
  uint32_t v = d.value;
  auto add = [&](uint32_t x) { v = v == kNone ? x : prim(Prim::add, DType::kS64, {v, x}); };
  for (const auto& [dim, coef] : d.terms) {
    pinned_.insert(dim);
    uint32_t x =
        section_->emit({.op = KernelOp::kIndex, .type = DType::kS64, .imm = static_cast<uint64_t>(dim)});
    if (frame_) set_limit(x, extents_[dim]);
    if (coef != 1) x = prim(Prim::mul, DType::kS64, {x, argument(coef)});
    add(x);
  }
  if (d.offset != 0 || v == kNone) add(argument(d.offset));
  return v;
}

uint32_t ElementLowering::both(uint32_t a, uint32_t b) {
  return a == kNone ? b : b == kNone ? a : prim(Prim::bit_and, DType::kBool, {a, b});
}

uint32_t ElementLowering::buffer(const Value& v, bool written) {
  const auto [it, inserted] = buffer_of_.try_emplace({v.operand().bits(), written}, buffers_.size());
  if (inserted) {
    buffers_.push_back(v);
    decls_.push_back({hlo::part_type(v.dtype()), written});
  }
  return it->second;
}

DimIndex ElementLowering::linear(const Dims& dims, const Index& index, int parts, int part) {
  const Dims strides = hlo::row_major_strides(dims);
  DimIndex at;
  for (size_t d = 0; d < dims.size(); ++d) at = sum(at, scaled(index[d], strides[d] * parts));
  at.offset += part;
  return at;
}

uint32_t ElementLowering::raw_access(RawAccess a) {
  auto it = std::find(accesses_.begin(), accesses_.end(), a);
  if (it != accesses_.end()) return static_cast<uint32_t>(it - accesses_.begin());
  accesses_.push_back(std::move(a));
  return static_cast<uint32_t>(accesses_.size() - 1);
}

uint32_t ElementLowering::access(const Value& v, const Dims& dims, const Index& index, int part,
                                 bool written) {
  DimIndex at = linear(dims, index, hlo::num_parts(v.dtype()), part);
  return raw_access({buffer(v, written), at.offset, std::move(at.terms)});
}

// Sum of computed and affine parts.
uint32_t ElementLowering::position(const Dims& dims, const Index& index, int parts, int part) {
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
  affine.offset += part;
  affine.value = at;
  return index_value(affine);
}

std::vector<uint32_t> ElementLowering::load(const Value& v, const Dims& dims, const Index& index,
                                            uint32_t predicate) {
  const int parts = hlo::num_parts(v.dtype());
  bool computed = false;
  for (const DimIndex& d : index) computed |= d.value != kNone;
  std::vector<uint32_t> out;
  for (int p = 0; p < parts; ++p) {
    KernelInstr i{.op = KernelOp::kLoad, .type = hlo::part_type(v.dtype()), .predicated = predicate != kNone};
    if (!computed) {
      i.imm = access(v, dims, index, p, false);
      if (i.predicated) i.operands[0] = predicate;
    } else {
      i.op = KernelOp::kLoadAt;
      i.imm = buffer(v, false);
      i.operands[0] = position(dims, index, parts, p);
      if (i.predicated) i.operands[1] = predicate;
    }
    out.push_back(section_->emit(i));
  }
  return out;
}

std::vector<uint32_t> ElementLowering::emit(Operand o, const Index& index, uint32_t predicate) {
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

bool ElementLowering::is_loaded(const Node& n) const {
  const bool is_leaf = n.op() == Op::parameter || n.op() == Op::leaf || n.op() == Op::constant;
  return is_leaf || (!frame_ && plan_.group_of.contains(&n) && !members_.contains(&n));
}

bool ElementLowering::is_inlined_elementwise(const Node& n) const {
  return n.def().is_elementwise() && !is_loaded(n) && &n != group_.reduction &&
         !comes_from_around(Operand(const_cast<Node*>(&n), 0));
}

std::vector<uint32_t> ElementLowering::compute(Operand o, const Index& index, uint32_t predicate) {
  const Node& n = *o.node();
  if (n.op() == Op::constant && n.type()->is_scalar()) return immediate(n);
  if (comes_from_around(o)) return from_outside(frame_->around, [&] { return emit(o, {}, kNone); });
  if (frame_ && n.op() == Op::parameter) return parameter(o, index, predicate);
  if (is_loaded(n)) return load(Value(o), Value(o).dims(), index, predicate);
  if (cluster::is_loop_op(n.op()) || n.op() == Op::case_) return special(o, index, predicate);
  if (&n == group_.reduction && !writes_terms_) {
    std::vector<uint32_t> out;
    uint64_t at = 0;
    for (uint32_t r = 0; r < o.index(); ++r) at += hlo::num_parts(n.result_type(r)->dtype);
    const DType dtype = n.result_type(o.index())->dtype;
    for (int p = 0; p < hlo::num_parts(dtype); ++p)
      out.push_back(section_->emit({.op = KernelOp::kReduced, .type = hlo::part_type(dtype), .imm = at + p}));
    return out;
  }
  if (n.def().is_elementwise()) return elementwise(n, index, predicate);
  return moved(o, index, predicate);
}

std::vector<uint32_t> ElementLowering::immediate(const Node& n) {
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

std::vector<uint32_t> ElementLowering::elementwise(const Node& n, const Index& index, uint32_t predicate) {
  if (const std::optional<double> y = known_exponent(n)) return power(n, *y, index, predicate);
  std::vector<uint32_t> values;
  for (Operand o : n.operands())
    for (uint32_t v : emit(o, index, predicate)) values.push_back(v);
  return apply(hlo::scalar_program(n), std::move(values));
}

std::vector<uint32_t> ElementLowering::power(const Node& n, double y, const Index& index,
                                             uint32_t predicate) {
  const DType dtype = n.type()->dtype;
  const bool quick = hlo::scalar::is_quick_exponent(dtype, y);
  std::vector<uint32_t> values = emit(n.operand(0), index, predicate);
  std::vector<DType> types = {dtype};
  if (!quick) {
    values.push_back(emit(n.operand(1), index, predicate)[0]);
    types.push_back(dtype);
  }
  const auto rule = [&](std::span<const hlo::scalar::RuleArg> of, DType) {
    const hlo::Scalar x = of[0].re;
    return hlo::scalar::to_rule_arg(quick ? hlo::scalar::power(x, hlo::scalar::constant(x, y))
                                          : hlo::scalar::power_of_others(x, of[1].re));
  };
  return apply(hlo::scalar::record_rule(rule, types, dtype), std::move(values));
}

std::vector<uint32_t> ElementLowering::apply(const hlo::ScalarProgram& program,
                                             std::vector<uint32_t> values) {
  for (const hlo::ScalarInstr& i : program.code) {
    KernelInstr k{.op = KernelOp::kPrim, .prim = i.prim, .type = i.type, .imm = i.imm};
    for (int a = 0; a < hlo::prim_arity(i.prim); ++a) k.operands[a] = values[i.operands[a]];
    values.push_back(emit_instr(k));
  }
  std::vector<uint32_t> out;
  for (uint32_t v : program.outputs) out.push_back(values[v]);
  return out;
}

std::vector<uint32_t> ElementLowering::moved(Operand o, const Index& index, uint32_t predicate) {
  const Node& n = *o.node();
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
    case Op::gather:
      return gather(n, index, predicate);
    default:
      return special(o, index, predicate);
  }
}

DimIndex ElementLowering::times(const DimIndex& d, int64_t factor) {
  DimIndex out = scaled(d, factor);
  if (out.value != kNone && factor != 1)
    out.value = prim(Prim::mul, DType::kS64, {out.value, argument(factor)});
  return out;
}

DimIndex ElementLowering::plus(const DimIndex& a, const DimIndex& b) {
  DimIndex out = sum(a, b);
  if (a.value != kNone && b.value != kNone)
    out.value = prim(Prim::add, DType::kS64, {a.value, b.value});
  else
    out.value = a.value != kNone ? a.value : b.value;
  return out;
}

std::vector<uint32_t> ElementLowering::reshape(const Node& n, const Index& index, uint32_t predicate) {
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
  if (frame_) {
    const cluster::MergedDims same = cluster::merged_dims(n);
    const Dims &from = n.operand_type(0)->dims, &to = n.type()->dims;
    int64_t at = 0;
    for (size_t d = same.before; d < to.size() - same.after; ++d) {
      if (!is_known(index[d])) fail("a step reshapes what it computes");
      at = at * to[d] + index[d].offset;
    }
    Index in(from.size());
    std::copy_n(index.begin(), same.before, in.begin());
    std::copy_n(index.end() - same.after, same.after, in.end() - same.after);
    for (size_t d = from.size() - same.after; d-- > same.before; at /= from[d]) in[d].offset = at % from[d];
    return emit(n.operand(0), in, predicate);
  }
  // The operand has a buffer of its own (see fuse.cc), which is read with the new dims.
  return load(n.operand_value(0), n.type()->dims, index, predicate);
}

std::vector<uint32_t> ElementLowering::select(uint32_t condition, const std::vector<uint32_t>& yes,
                                              const std::vector<uint32_t>& no) {
  std::vector<uint32_t> out;
  for (size_t p = 0; p < yes.size(); ++p)
    out.push_back(prim(Prim::select, section_->code[yes[p]].type, {condition, yes[p], no[p]}));
  return out;
}

std::vector<uint32_t> ElementLowering::pad(const Node& n, const Index& index, uint32_t predicate) {
  const Dims &low = n.attrs().ints(Attr::edge_padding_low), &high = n.attrs().ints(Attr::edge_padding_high),
             &inner = n.attrs().ints(Attr::interior_padding);
  Index in = index;
  uint32_t inside = kNone;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t size = n.operand_type(0)->dims[d];
    in[d] = shifted(in[d], -low[d]);
    if (low[d] <= 0 && high[d] <= 0 && inner[d] == 0) continue;
    if (is_known(in[d])) {
      const int64_t at = in[d].offset, step = inner[d] + 1;
      if (at < 0 || at % step != 0 || at / step >= size) return emit(n.operand(1), {}, predicate);
      in[d].offset = at / step;
      continue;
    }
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

std::vector<uint32_t> ElementLowering::concatenate(const Node& n, const Index& index, uint32_t predicate) {
  const int64_t d = n.attrs().integer(Attr::dimension);
  if (index[d].value == kNone && index[d].terms.empty()) {
    Index in = index;
    for (const Operand o : n.operands()) {
      const int64_t size = o.node()->result_type(o.index())->dims[d];
      if (in[d].offset < size) return emit(o, in, predicate);
      in[d].offset -= size;
    }
  }
  std::vector<uint32_t> value;
  int64_t end = n.type()->dims[d];
  if (is_known(index[d])) {
    Index in = index;
    size_t i = 0;
    for (; in[d].offset >= n.operand_type(i)->dims[d]; ++i) in[d].offset -= n.operand_type(i)->dims[d];
    return emit(n.operand(i), in, predicate);
  }
  joins_columns_ = joins_columns_ || d + 1 == std::ssize(index);
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

std::vector<uint32_t> ElementLowering::gather(const Node& n, const Index& index, uint32_t predicate) {
  const Attrs& a = n.attrs();
  const Dims &offset_dims = a.ints(Attr::offset_dims), &collapsed = a.ints(Attr::collapsed_slice_dims),
             &batching = a.ints(Attr::operand_batching_dims),
             &index_batching = a.ints(Attr::start_indices_batching_dims),
             &map = a.ints(Attr::start_index_map), &sizes = a.ints(Attr::slice_sizes);
  const Dims &dims = n.operand_type(0)->dims, &index_dims = n.operand_type(1)->dims;
  const int64_t vector_dim = a.integer(Attr::index_vector_dim);
  const auto contains = [](const Dims& list, size_t x) {
    return std::find(list.begin(), list.end(), static_cast<int64_t>(x)) != list.end();
  };
  Index vector(index_dims.size()), at(dims.size());
  size_t next = 0;
  for (size_t d = 0; d < vector.size(); ++d) {
    if (static_cast<int64_t>(d) == vector_dim) continue;
    while (contains(offset_dims, next)) ++next;
    vector[d] = index[next++];
  }
  next = 0;
  for (size_t d = 0; d < dims.size(); ++d)
    if (!contains(collapsed, d) && !contains(batching, d)) at[d] = index[offset_dims[next++]];
  for (size_t k = 0; k < batching.size(); ++k) at[batching[k]] = vector[index_batching[k]];
  for (size_t k = 0; k < map.size(); ++k) {
    const int64_t d = map[k], last = dims[d] - sizes[d];
    if (last == 0) continue;
    if (vector_dim < std::ssize(index_dims)) vector[vector_dim].offset = static_cast<int64_t>(k);
    const uint32_t start = emit(n.operand(1), vector, predicate)[0];
    // In the narrower type twice as many fit a register.
    const bool narrow = type_of(start) == DType::kS32 && last <= std::numeric_limits<int32_t>::max();
    DimIndex first;
    first.value = narrow ? as_index(clamped(start, last)) : clamped(as_index(start), last);
    at[d] = plus(at[d], first);
  }
  return emit(n.operand(0), at, predicate);
}

std::vector<uint32_t> ElementLowering::parameter(Operand o, const Index& index, uint32_t predicate) {
  const Binding& b = frame_->parameters.at(o.node());
  std::vector<uint32_t> out;
  const DType dtype = Value(o).dtype();
  switch (b.kind) {
    case Binding::kCarried:
      for (int p = 0; p < hlo::num_parts(dtype); ++p)
        out.push_back(
            section_->emit({.op = KernelOp::kCarried,
                            .type = hlo::part_type(dtype),
                            .imm = own_part(*Value(o).type(), index, b.first) + static_cast<uint64_t>(p)}));
      set_limit(out[0], b.limit);
      return out;
    case Binding::kValue: {
      const auto own = b.parts.begin() + static_cast<int64_t>(own_part(*Value(o).type(), index, 0));
      return {own, own + hlo::num_parts(dtype)};
    }
    case Binding::kOuter:
      return from_outside(frame_->around, [&] { return emit(b.outer, index, kNone); });
    default:
      return memory(o, index, predicate);
  }
}

Binding ElementLowering::value_binding(Operand o) {
  return {.kind = Binding::kValue, .first = 0, .outer = o, .step = {}, .parts = emit_own(o)};
}

void ElementLowering::enter(Frame* frame) {
  frame_ = frame;
  section_ = frame ? frame->section : &body_;
}

std::vector<uint32_t> ElementLowering::memory(Operand o, Index index, uint32_t predicate) {
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

bool ElementLowering::depends_on(const Index& index, int dim) {
  for (const DimIndex& d : index) {
    if (d.value != kNone) return true;  // computed by the present section
    for (const auto& [term, coef] : d.terms)
      if (term == dim) return true;
  }
  return false;
}

bool ElementLowering::in_memory(Operand o) const {
  if (!frame_ || o.node()->op() == Op::constant) return true;
  const auto it = frame_->parameters.find(o.node());
  return it != frame_->parameters.end() &&
         (it->second.kind == Binding::kMemory || it->second.kind == Binding::kSlice);
}

std::vector<uint32_t> ElementLowering::chosen(Operand o, const Index& index) {
  const Node& n = *o.node();
  const uint32_t at = emit(n.operand(0), {}, kNone)[0];
  std::vector<Binding> bindings;
  for (size_t i = 1; i < n.operands().size(); ++i) {
    const Operand operand = n.operand(i);
    bindings.push_back(in_memory(operand)
                           ? Binding{.kind = Binding::kMemory, .first = 0, .outer = operand, .step = {}}
                           : value_binding(operand));
  }
  const std::vector<hlo::ComputationPtr>& branches = n.attrs().computations(Attr::branches);
  std::vector<uint32_t> out;
  for (size_t k = branches.size(); k-- > 0;) {
    // One branch may stand in several places, with other values each.
    auto memo = std::exchange(section_->memo, {});
    auto arrays = std::exchange(section_->arrays, {});
    Frame frame{frame_, section_, -1, {}, branches[k].get()};
    for (size_t i = 0; i < bindings.size(); ++i)
      frame.parameters.emplace(branches[k]->parameters()[i].node(), bindings[i]);
    enter(&frame);
    const Value& root = branches[k]->roots()[o.index()];
    const std::vector<uint32_t> parts = emit(root.operand(), index, kNone);
    enter(frame.around);
    section_->memo = std::move(memo);
    section_->arrays = std::move(arrays);
    if (out.empty()) {
      out = parts;
      continue;
    }
    const uint32_t number = prim(Prim::constant, DType::kS32, {}, k);
    out = select(prim(Prim::eq, DType::kBool, {at, number}), parts, out);
  }
  return out;
}

bool ElementLowering::can_join(int d) const {
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

void ElementLowering::drop_dim(int d) {
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

void ElementLowering::simplify_dims() {
  for (int d = static_cast<int>(element_dims()); d-- > 0;)
    if (extents_[d] == 1 && !pinned_.contains(d)) drop_dim(d);
  for (int d = static_cast<int>(element_dims()) - 2; d >= 0; --d) {
    if (d + 1 == parallel_rank_ || !can_join(d)) continue;
    extents_[d + 1] *= extents_[d];
    drop_dim(d);
  }
  // A reduction keeps one reduced dimension even if it has one element.
  if (reduces() && static_cast<int>(extents_.size()) == parallel_rank_) extents_.push_back(1);
}

// Which of the elements it is that alternate along a dimension, where others are accessed besides.
int64_t ElementLowering::place_beside(const RawAccess& a) const {
  int64_t stride = 1, first = a.offset;
  for (const auto& [dim, coef] : a.terms)
    if (coef <= kMostKnownStride) stride = std::max(stride, coef);
  for (const RawAccess& other : accesses_)
    if (other.buffer == a.buffer && other.terms == a.terms) first = std::min(first, other.offset);
  return (a.offset - first) % stride;
}

absl::StatusOr<LoweredLoop> ElementLowering::finish() {
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
    const int64_t beside = place_beside(a), offset = a.offset - beside;
    // What alternates shares its arguments.
    size_t same = 0;
    while (same < k.accesses.size() &&
           (accesses_[same].offset - k.accesses[same].beside != offset ||
            accesses_[same].buffer != a.buffer || accesses_[same].terms != a.terms))
      ++same;
    if (same < k.accesses.size()) {
      k.accesses.push_back(k.accesses[same]);
      k.accesses.back().beside = static_cast<uint8_t>(beside);
      continue;
    }
    Access access;
    access.buffer = a.buffer;
    access.beside = static_cast<uint8_t>(beside);
    if (offset != 0) access.offset_slot = static_cast<int32_t>(slot(offset));
    for (const auto& [dim, coef] : a.terms) {
      const bool known = std::abs(coef) <= kMostKnownStride;
      AccessTerm term{static_cast<uint8_t>(dim), static_cast<int8_t>(known ? coef : 0), 0};
      if (!term.unit) term.stride_slot = slot(coef);
      access.terms.push_back(term);
    }
    k.accesses.push_back(std::move(access));
  }
  k.buffers = std::move(decls_);
  k.parallel_rank = static_cast<uint8_t>(parallel_rank_);
  k.reduce_rank = static_cast<uint8_t>(element_dims() - parallel_rank_);
  k.num_args = static_cast<uint32_t>(out.args.size());
  k.has_reduction = reduces();
  k.reduction = std::move(reduction_);
  k.body = std::move(body_.code);
  k.epilogue = std::move(epilogue_.code);
  k.stores = std::move(stores_);
  out.buffers = std::move(buffers_);
  out.own_bytes = std::move(own_bytes_);
  out.own_bytes.resize(out.buffers.size(), 0);
  k.repeats = std::move(repeats_);
  drop_unused(k);
  double total = 1;
  for (int d = 0; d < k.parallel_rank + k.reduce_rank; ++d)
    total *= static_cast<double>(std::max<int64_t>(extents_[d], 1));
  const Cost each = cost_of(k, k.body, extents_);
  out.work = static_cast<int64_t>(std::min(total * each.work + each.steps * kStepWork, kMostWork));
  out.instructions = static_cast<int64_t>(std::min(each.work, kMostWork));
  if (parallel_rank_ > 0) out.inner = extents_[parallel_rank_ - 1];
  for (int d = 0; d + 1 < parallel_rank_; ++d) out.outer *= extents_[d];
  return out;
}

}  // namespace lamina::jit
