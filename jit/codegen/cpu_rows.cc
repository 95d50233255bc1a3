#include "jit/codegen/cpu_rows.h"

#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <cstddef>

namespace lamina::jit::codegen {

using llvm::Value;

namespace {

constexpr int64_t kPollElements = 65536;

// Vectors side by side fill the time that one of a long body waits for itself: with AVX-512's 32 registers
// two do, and four where the body is longer still. With 16 registers it is the other way round, as the values
// of four vectors of such a body are out in memory most of the time.
constexpr size_t kMediumBody = 76;

// The steps of a repeat wait for each other: vectors side by side fill the time, as long as their carried
// values have registers.
constexpr size_t kMostCarriedByFour = 3, kMostCarriedByTwo = 6;

bool is_long_body(const LoopKernel& kernel) {
  if (kernel.repeats.empty()) return !kernel.has_reduction && kernel.body.size() >= kLongBody;
  size_t size = 0;
  for (const Repeat& r : kernel.repeats) size += r.cond.size() + r.body.size();
  return size >= 4 * kLongBody;
}

// A masked vector of so many instructions takes less time than the elements of the rest one by one.
constexpr size_t kWorthMasks = 12;

// Whether the access reads or writes elements that lie side by side along `dim`, or one element.
bool is_beside(const Access& access, int dim) {
  return std::ranges::all_of(access.terms, [&](const AccessTerm& t) { return t.dim != dim || t.unit == 1; });
}

bool masks_rest(const LoopKernel& kernel, const CpuWidths& widths) {
  const int dim = kernel.parallel_rank - 1;
  return !kernel.has_reduction && kernel.repeats.empty() && kernel.body.size() >= kWorthMasks &&
         widths.reads_masked(kernel, dim) && std::ranges::all_of(kernel.stores, [&](const Store& s) {
           return is_beside(kernel.accesses[s.access], dim);
         });
}

// Types of 4 bytes and more decide: with one of them a register is filled, with two the wider takes two
// registers.
unsigned single_lanes(const LoopKernel& kernel, unsigned vector_bits) {
  int64_t widest = 1, narrowest = 8;
  auto see = [&](DType t) {
    widest = std::max(widest, hlo::byte_size(t));
    if (hlo::byte_size(t) >= 4) narrowest = std::min(narrowest, hlo::byte_size(t));
  };
  for_each_section(kernel, [&](const Instrs& section) {
    for (const KernelInstr& instr : section)
      if (instr.op != KernelOp::kArg && instr.op != KernelOp::kRepeat) see(instr.type);
  });
  for (const hlo::ScalarInstr& instr : kernel.reduction.combine.code) see(instr.type);
  const int64_t bytes = widest >= 4 ? narrowest : widest;
  return static_cast<unsigned>(vector_bits / 8 / bytes);
}

unsigned side_by_side(const LoopKernel& kernel, bool is_long, bool many_registers) {
  if (!kernel.repeats.empty()) {
    size_t carried = 0;
    for (const Repeat& r : kernel.repeats) carried = std::max(carried, r.init.size());
    return carried <= kMostCarriedByFour && !is_long ? 4 : carried <= kMostCarriedByTwo ? 2 : 1;
  }
  if (!is_long) return 1;
  return (kernel.body.size() <= kMediumBody) == many_registers ? 2 : 4;
}

}  // namespace

CpuWidths::CpuWidths(const LoopKernel& kernel, const Schedule& schedule, const TargetText& target)
    : is_long(is_long_body(kernel)),
      masks(target.has_masks),
      word_masks(target.has_word_masks),
      single(single_lanes(kernel, target.vector_bits)),
      lanes(schedule.lanes > 0
                ? std::min(single, static_cast<unsigned>(schedule.lanes))
                : std::max(single, std::min(side_by_side(kernel, is_long, masks) * single, kMostMasked))) {}

bool CpuWidths::reads_masked(const LoopKernel& kernel, int dim) const {
  if (masks) return true;
  bool reads_at = false;
  for_each_section(kernel, [&](const Instrs& section) {
    for (const KernelInstr& i : section) reads_at = reads_at || i.op == KernelOp::kLoadAt;
  });
  return word_masks && !reads_at && std::ranges::all_of(kernel.accesses, [&](const Access& a) {
           const BufferDecl& buffer = kernel.buffers[a.buffer];
           return buffer.written || (hlo::byte_size(buffer.type) >= 4 && is_beside(a, dim));
         });
}

CpuRows::CpuRows(const LoopKernel& kernel, FunctionBuilder& f, CpuLanes& lanes, const CpuWidths& widths)
    : f_(f),
      b_(f.builder()),
      lanes_(lanes),
      widths_(widths),
      has_repeats_(!kernel.repeats.empty()),
      masks_rest_(masks_rest(kernel, widths)) {}

Value* CpuRows::vectors(Value* begin, Value* end, unsigned n, const Body& body) {
  Value* length = b_.CreateAnd(b_.CreateSub(end, begin), f_.i64(-static_cast<int64_t>(n)));
  Value* stop = b_.CreateAdd(begin, length);
  f_.loop(begin, stop, f_.i64(n), [&](Value* i) { body(i, n); });
  return stop;
}

void CpuRows::scalar_rest(Value* begin, Value* end, const Body& body) {
  f_.loop(begin, end, f_.i64(1), [&](Value* i) { body(i, 1); });
}

void CpuRows::all_masked(Value* begin, Value* end, unsigned n, const Body& body) {
  f_.loop(begin, end, f_.i64(n), [&](Value* i) { lanes_.masked(i, end, n, [&] { body(i, n); }); });
}

void CpuRows::masked_part(Value* begin, Value* end, const Body& body) {
  if (widths_.masks)
    all_masked(begin, end, widths_.lanes, body);
  else if (masks_rest_)
    all_masked(vectors(begin, end, widths_.lanes, body), end, widths_.single, body);
  else
    scalar_rest(vectors(begin, end, widths_.lanes, body), end, body);
}

void CpuRows::read_part(Value* begin, Value* end, bool masked, const Body& body) {
  if (!masked || widths_.masks) {
    part(begin, end, body);
    return;
  }
  const unsigned n = widths_.lanes;
  Value* rest = vectors(begin, end, n, body);
  f_.if_then(b_.CreateICmpSLT(rest, end), [&] { lanes_.masked(rest, end, n, [&] { body(rest, n); }); });
}

// A long body is made once, always masked; a short one also without a mask.
void CpuRows::part(Value* begin, Value* end, const Body& body) {
  if (!widths_.masks || widths_.is_long) {
    masked_part(begin, end, body);
    return;
  }
  const unsigned n = widths_.lanes;
  Value* rest = vectors(begin, end, n, body);
  f_.if_then(b_.CreateICmpSLT(rest, end), [&] { lanes_.masked(rest, end, n, [&] { body(rest, n); }); });
}

void CpuRows::repeats(Value* begin, Value* end, const Body& body) {
  // A long body is made once.
  const unsigned rest = widths_.masks && widths_.is_long ? widths_.lanes : widths_.single;
  Value* from = widths_.lanes > rest ? vectors(begin, end, widths_.lanes, body) : begin;
  if (widths_.masks)
    all_masked(from, end, rest, body);
  else
    scalar_rest(vectors(from, end, widths_.single, body), end, body);
}

void CpuRows::whole(Value* begin, Value* end, const Body& body) {
  f_.loop(begin, end, f_.i64(kPollElements), [&](Value* strip) {
    lanes_.poll_cancel();
    Value* stop =
        b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(strip, f_.i64(kPollElements)), end);
    if (has_repeats_)
      repeats(strip, stop, body);
    else
      part(strip, stop, body);
  });
}

}  // namespace lamina::jit::codegen
