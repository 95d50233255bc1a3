// Limits of integers in loops: what a section's instructions tell of how large their values can be, and the
// tests that fall away for it. A loop's counter is known, and so are remainders and positions made of it;
// remainders that a step moves on by the same number become counters themselves.
#include <algorithm>
#include <limits>

#include "hlo/op.h"
#include "jit/kernel/lower_element.h"

namespace lamina::jit {
namespace {

// Larger ones are not told apart from all others.
constexpr int64_t kMost = int64_t{1} << 40;

// The greatest value of an integer type, as far as that matters.
int64_t greatest(DType type) {
  const int64_t bits = hlo::byte_size(type) * 8 - (hlo::is_signed(type) ? 1 : 0);
  return bits >= 40 ? kMost : (int64_t{1} << bits) - 1;
}

}  // namespace

std::optional<int64_t> ElementLowering::known_number(uint32_t value) const {
  const KernelInstr& i = section_->code[value];
  if (!hlo::is_integer(i.type)) return std::nullopt;
  if (i.op == KernelOp::kArg) return immediates_[i.imm];
  if (i.op != KernelOp::kPrim) return std::nullopt;
  if (i.prim == Prim::bitcast || i.prim == Prim::convert) {
    const std::optional<int64_t> number = known_number(i.operands[0]);
    return number && *number >= 0 && *number <= greatest(i.type) ? number : std::nullopt;
  }
  if (i.prim != Prim::constant) return std::nullopt;
  const int unused = 64 - static_cast<int>(hlo::byte_size(i.type)) * 8;
  if (hlo::is_signed(i.type)) return static_cast<int64_t>(i.imm << unused) >> unused;
  const uint64_t number = i.imm << unused >> unused;
  return number < kMost ? std::optional<int64_t>(number) : std::nullopt;
}

int64_t ElementLowering::limit_of(uint32_t value) const {
  if (const auto known = section_->limits.find(value); known != section_->limits.end()) return known->second;
  const std::optional<int64_t> number = known_number(value);
  return number && *number >= 0 && *number < kMost ? *number + 1 : 0;
}

void ElementLowering::set_limit(uint32_t value, int64_t limit) {
  if (limit > 0 && limit <= kMost) section_->limits.try_emplace(value, limit);
}

std::optional<uint32_t> ElementLowering::decided(const KernelInstr& i) {
  if (!frame_ || i.op != KernelOp::kPrim) return std::nullopt;
  const auto flag = [&](bool on) { return prim(Prim::constant, DType::kBool, {}, on ? 1 : 0); };
  const auto known_flag = [&](uint32_t v) -> std::optional<bool> {
    const KernelInstr& made = section_->code[v];
    if (made.type != DType::kBool || made.op != KernelOp::kPrim || made.prim != Prim::constant)
      return std::nullopt;
    return made.imm != 0;
  };
  if (i.prim == Prim::lt && hlo::is_integer(section_->code[i.operands[0]].type)) {
    const int64_t below[2] = {limit_of(i.operands[0]), limit_of(i.operands[1])};
    const std::optional<int64_t> left = known_number(i.operands[0]), right = known_number(i.operands[1]);
    if (below[0] > 0 && right && (*right >= below[0] || *right <= 0)) return flag(*right > 0);
    if (below[1] > 0 && left && (*left < 0 || *left >= below[1] - 1)) return flag(*left < 0);
  }
  if (i.prim == Prim::rem && hlo::is_integer(i.type)) {
    const int64_t below = limit_of(i.operands[0]);
    if (const std::optional<int64_t> by = known_number(i.operands[1]); below > 0 && by && *by >= below)
      return i.operands[0];
  }
  if (i.prim == Prim::bit_and && i.type == DType::kBool)
    for (const int k : {0, 1})
      if (const std::optional<bool> on = known_flag(i.operands[k]))
        return *on ? i.operands[1 - k] : i.operands[k];
  if (i.prim == Prim::select)
    if (const std::optional<bool> on = known_flag(i.operands[0])) return i.operands[*on ? 1 : 2];
  return std::nullopt;
}

void ElementLowering::note_limit(const KernelInstr& i, uint32_t value) {
  if (!frame_ || i.op != KernelOp::kPrim || !hlo::is_integer(i.type) || i.prim == Prim::constant) return;
  const int64_t a = hlo::prim_arity(i.prim) > 0 && i.prim != Prim::select ? limit_of(i.operands[0]) : 0;
  const int64_t b = hlo::prim_arity(i.prim) > 1 ? limit_of(i.operands[1]) : 0;
  int64_t limit = 0;
  switch (i.prim) {
    case Prim::convert:
    case Prim::bitcast:
      if (hlo::is_integer(section_->code[i.operands[0]].type)) limit = a;
      break;
    case Prim::add:
      if (a > 0 && b > 0) limit = a + b - 1;
      break;
    case Prim::mul:
      if (a > 0 && b > 0 && a <= kMost / b) limit = (a - 1) * (b - 1) + 1;
      break;
    case Prim::rem:
      if (const std::optional<int64_t> by = known_number(i.operands[1]); a > 0 && by && *by > 0)
        limit = std::min(a, *by);
      break;
    case Prim::div:
      if (const std::optional<int64_t> by = known_number(i.operands[1]); a > 0 && by && *by > 0)
        limit = (a - 1) / *by + 1;
      break;
    case Prim::bit_and:
      limit = a == 0 ? b : b == 0 ? a : std::min(a, b);
      break;
    case Prim::select:
      if (const int64_t c = limit_of(i.operands[2]); b > 0 && c > 0) limit = std::max(b, c);
      break;
    default:
      break;
  }
  if (limit - 1 <= greatest(i.type)) set_limit(value, limit);
}

std::optional<uint32_t> ElementLowering::as_unsigned(const KernelInstr& i) {
  if (!frame_ || i.op != KernelOp::kPrim || !hlo::is_signed(i.type)) return std::nullopt;
  const auto bits_of = [&](uint32_t v, DType type) { return prim(Prim::bitcast, type, {v}); };
  if (i.prim == Prim::rem || i.prim == Prim::div) {
    const std::optional<int64_t> by = known_number(i.operands[1]);
    if (limit_of(i.operands[0]) == 0 || !by || *by <= 0) return std::nullopt;
    const DType type = hlo::bits_type(i.type);
    const uint32_t divisor = prim(Prim::constant, type, {}, static_cast<uint64_t>(*by));
    return bits_of(prim(i.prim, type, {bits_of(i.operands[0], type), divisor}), i.type);
  }
  if (i.prim == Prim::convert && i.type == DType::kS64 && type_of(i.operands[0]) == DType::kS32 &&
      limit_of(i.operands[0]) > 0)
    return prim(Prim::convert, i.type, {bits_of(i.operands[0], DType::kU32)});
  return std::nullopt;
}

int64_t ElementLowering::counter_limit(const Node& loop, size_t carried) {
  const hlo::Computation& body = *loop.attrs().computation(hlo::Attr::body);
  const Operand start = loop.operand(carried);
  const hlo::Type& type = *loop.operand_type(carried);
  const Node& next = *body.roots()[carried].node();
  if (loop.op() != hlo::Op::scan || !type.is_scalar() || !hlo::is_integer(type.dtype) ||
      start.node()->op() != hlo::Op::constant || next.op() != hlo::Op::add ||
      next.operand(0) != body.parameters()[carried].operand() ||
      next.operand(1).node()->op() != hlo::Op::constant)
    return 0;
  const int64_t length = loop.attrs().integer(hlo::Attr::length);
  const int64_t first = start.node()->attrs().literal(hlo::Attr::value)->int_at(0);
  const int64_t by = next.operand(1).node()->attrs().literal(hlo::Attr::value)->int_at(0);
  if (first < 0 || first >= kMost || by <= 0 || length <= 0 || length >= kMost / by) return 0;
  const int64_t last = first + by * (length - 1);
  return last <= greatest(type.dtype) ? last + 1 : 0;
}

// Values that have limits are those of the integers: nothing has wrapped. Arguments, which are other ones for
// other shapes, are not seen.
std::optional<ElementLowering::Stepped> ElementLowering::stepped(uint32_t value, const Repeat& r,
                                                                 int step_dim) const {
  const KernelInstr& i = section_->code[value];
  if (i.op == KernelOp::kPrim && i.prim == Prim::constant)
    if (const std::optional<int64_t> number = known_number(value); number && *number >= 0)
      return Stepped{*number, 0};
  if (limit_of(value) == 0) return std::nullopt;
  if (i.op == KernelOp::kIndex && static_cast<int>(i.imm) == step_dim) return Stepped{0, 1};
  if (i.op == KernelOp::kCarried) {
    const KernelInstr& next = section_->code[r.next[i.imm]];
    if (next.op != KernelOp::kPrim || next.prim != Prim::add || next.operands[0] != value)
      return std::nullopt;
    const std::optional<int64_t> by = known_number(next.operands[1]);
    const Section& around = frame_->around ? *frame_->around->section : body_;
    const KernelInstr& first = around.code[r.init[i.imm]];
    if (!by || *by < 0 || first.op != KernelOp::kPrim || first.prim != Prim::constant) return std::nullopt;
    return Stepped{static_cast<int64_t>(first.imm), *by};
  }
  if (i.op != KernelOp::kPrim) return std::nullopt;
  const auto of = [&](int k) { return stepped(i.operands[k], r, step_dim); };
  if (i.prim == Prim::bitcast || i.prim == Prim::convert) return of(0);
  if (i.prim != Prim::add && i.prim != Prim::mul) return std::nullopt;
  const std::optional<Stepped> a = of(0), b = a ? of(1) : std::nullopt;
  if (!b) return std::nullopt;
  if (i.prim == Prim::add) return Stepped{a->first + b->first, a->by + b->by};
  if (a->by > 0 && b->by > 0) return std::nullopt;
  return Stepped{a->first * b->first, a->by * b->first + a->first * b->by};
}

void ElementLowering::step_remainders(Repeat& r, int step_dim) {
  constexpr int64_t kMostDivisor = int64_t{1} << 31;
  const size_t made = section_->code.size();
  for (uint32_t value = 0; value < made; ++value) {
    const KernelInstr i = section_->code[value];
    if (i.op != KernelOp::kPrim || i.prim != Prim::rem || !hlo::is_integer(i.type)) continue;
    const std::optional<int64_t> by = known_number(i.operands[1]);
    if (!by || *by <= 0 || *by > kMostDivisor) continue;
    const std::optional<Stepped> of = stepped(i.operands[0], r, step_dim);
    if (!of || of->by == 0) continue;
    const int64_t more = of->by % *by;
    const uint64_t place = r.init.size();
    section_->code[value] = {.op = KernelOp::kCarried, .type = i.type, .imm = place};
    // The test is of the remainder before the step, so that it need not wait for the sum.
    const uint32_t within = less(value, number(*by - more, i.type));
    r.next.push_back(choose(within, prim(Prim::add, i.type, {value, number(more, i.type)}),
                            prim(Prim::sub, i.type, {value, number(*by - more, i.type)})));
    Frame* const inside = frame_;
    enter(inside->around);
    r.init.push_back(number(of->first % *by, i.type));
    enter(inside);
  }
}

}  // namespace lamina::jit
