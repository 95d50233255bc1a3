#include "jit/kernel/call_lowering.h"

#include "hlo/op.h"
#include "hlo/scalar/adapters.h"

namespace lamina::jit {

void CallLowering::begin(const Dims& space) {
  for (int64_t d : space) extents_.push_back(d);
  parallel_rank_ = static_cast<int>(space.size());
  identity_.resize(space.size());
  for (size_t d = 0; d < space.size(); ++d)
    if (space[d] != 1) identity_[d].terms = {{static_cast<int>(d), 1}};
}

absl::StatusOr<LoweredLoop> CallLowering::end() {
  if (!status_.ok()) return status_;
  simplify_dims();
  return finish();
}

absl::StatusOr<KernelSequence::Part> CallLowering::end_part() {
  absl::StatusOr<LoweredLoop> loop = end();
  if (!loop.ok()) return loop.status();
  KernelSequence::Part part{*std::move(loop), {}};
  part.shared.assign(part.loop.buffers.size(), -1);
  for (const auto& [buffer, number] : shared_) part.shared[buffer] = number;
  return part;
}

uint32_t CallLowering::here(const Known& k) {
  if (k.value == kNone) return kNone;
  return from_outside(k.where, [&] { return std::vector<uint32_t>{k.value}; })[0];
}

DimIndex CallLowering::here(const KnownIndex& k) {
  DimIndex out = k.affine;
  out.value = here(k.value);
  return out;
}

std::vector<uint32_t> CallLowering::read(size_t i, const Index& index, uint32_t predicate) {
  const Value v = node_.operand_value(i);
  if (v.node()->op() == hlo::Op::constant && v.type()->is_scalar()) return immediate(*v.node());
  return load(v, v.dims(), index, predicate);
}

uint32_t CallLowering::within(uint32_t at, uint32_t size) {
  // One unsigned comparison tests both ends.
  return less(prim(Prim::bitcast, DType::kU64, {at}), prim(Prim::bitcast, DType::kU64, {size}));
}

std::vector<DimIndex> CallLowering::coordinates(const DimIndex& linear, const Dims& dims) {
  std::vector<DimIndex> out(dims.size());
  size_t many = 0;
  for (int64_t d : dims) many += d != 1;
  if (many == 0) return out;
  const Dims strides = hlo::row_major_strides(dims);
  const uint32_t all = many > 1 ? index_value(linear) : kNone;
  bool first = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    if (many == 1) {
      out[d] = linear;
      break;
    }
    uint32_t at = all;
    if (strides[d] != 1) at = prim(Prim::div, DType::kS64, {at, argument(strides[d])});
    if (!first) at = prim(Prim::rem, DType::kS64, {at, argument(dims[d])});
    out[d] = computed(at);
    first = false;
  }
  return out;
}

uint32_t CallLowering::shared_array(DType type, bool written, int number) {
  buffers_.emplace_back();
  decls_.push_back({type, written});
  shared_.emplace_back(static_cast<uint32_t>(buffers_.size() - 1), number);
  return shared_.back().first;
}

uint32_t CallLowering::load_shared(uint32_t buffer, const DimIndex& at, uint32_t predicate) {
  KernelInstr i{.op = KernelOp::kLoad, .type = decls_[buffer].type, .predicated = predicate != kNone};
  if (at.value == kNone) {
    i.imm = raw_access({buffer, at.offset, at.terms});
    if (i.predicated) i.operands[0] = predicate;
  } else {
    i.op = KernelOp::kLoadAt;
    i.imm = buffer;
    i.operands[0] = index_value(at);
    if (i.predicated) i.operands[1] = predicate;
  }
  return section_->emit(i);
}

void CallLowering::store_shared(uint32_t buffer, const DimIndex& at, uint32_t value) {
  stores_.push_back({raw_access({buffer, at.offset, at.terms}), value});
}

std::vector<uint32_t> CallLowering::carried(const std::vector<DType>& types) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < types.size(); ++i)
    out.push_back(section_->emit({.op = KernelOp::kCarried, .type = types[i], .imm = i}));
  return out;
}

std::vector<uint32_t> CallLowering::repeated(size_t number, const std::vector<DType>& types) {
  const uint32_t instr = section_->emit({.op = KernelOp::kRepeat, .type = DType::kS64, .imm = number});
  std::vector<uint32_t> out;
  for (size_t i = 0; i < types.size(); ++i)
    out.push_back(
        section_->emit({.op = KernelOp::kRepeated, .type = types[i], .operands = {instr, 0, 0}, .imm = i}));
  return out;
}

}  // namespace lamina::jit
