// What lowering to a loop kernel works with: affine indices, instruction lists that hold each instruction
// once, and the regions of loops.
#ifndef LAMINA_JIT_KERNEL_LOWER_SECTIONS_H_
#define LAMINA_JIT_KERNEL_LOWER_SECTIONS_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "hlo/computation.h"
#include "hlo/hash_map.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit {

inline constexpr uint32_t kNone = ~uint32_t{0};

// Index along one dimension of some array: offset + sum of coef * loop index, or a computed value plus that.
struct DimIndex {
  int64_t offset = 0;
  std::vector<std::pair<int, int64_t>> terms;  // (loop dim, coefficient), coefficients not 0, dims ascending
  uint32_t value = kNone;                      // s64 value added, if any

  bool operator==(const DimIndex&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const DimIndex& d) {
    return H::combine(std::move(h), d.offset, d.terms, d.value);
  }
};
using Index = std::vector<DimIndex>;

inline DimIndex scaled(DimIndex d, int64_t factor) {
  d.offset *= factor;
  for (auto& t : d.terms) t.second *= factor;
  if (factor == 0) d.terms.clear();
  return d;
}

inline DimIndex sum(const DimIndex& a, const DimIndex& b) {
  DimIndex out = a;
  out.offset += b.offset;
  for (const auto& [dim, coef] : b.terms) {
    auto it = std::find_if(out.terms.begin(), out.terms.end(),
                           [&, d = dim](const auto& t) { return t.first == d; });
    if (it == out.terms.end())
      out.terms.emplace_back(dim, coef);
    else
      it->second += coef;
  }
  std::erase_if(out.terms, [](const auto& t) { return t.second == 0; });
  std::sort(out.terms.begin(), out.terms.end());
  return out;
}

inline DimIndex shifted(DimIndex d, int64_t by) {
  d.offset += by;
  return d;
}

struct RawAccess {
  uint32_t buffer;
  int64_t offset;
  std::vector<std::pair<int, int64_t>> terms;
  bool operator==(const RawAccess&) const = default;
};

struct MemoKey {
  hlo::Operand value;
  Index index;
  uint32_t predicate;
  bool operator==(const MemoKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const MemoKey& k) {
    return H::combine(std::move(h), k.value.bits(), k.index, k.predicate);
  }
};

struct InstrHash {
  size_t operator()(const KernelInstr& i) const {
    return absl::HashOf(i.op, i.prim, i.type, i.predicated, i.operands[0], i.operands[1], i.operands[2],
                        i.imm);
  }
};

// A while or scan that a section runs.
struct RepeatUse {
  uint32_t instr = 0;
  std::vector<uint32_t> first;  // of each operand that changes: its first carried part
};

// An array in memory of the kernel's own, as long as nothing has written it since.
struct ArrayVersion {
  uint32_t array = 0;
  int version = 0;
};

// One of the kernel's instruction lists, with memo tables.
struct Section {
  std::vector<KernelInstr> code;
  HashMap<KernelInstr, uint32_t, InstrHash> known;
  HashMap<MemoKey, std::vector<uint32_t>> memo;
  HashMap<const hlo::Node*, RepeatUse> repeats;
  HashMap<uint64_t, ArrayVersion> arrays;  // by operand: values that lie in one
  HashMap<uint32_t, int64_t> limits;       // by value: integers that are in 0 ... limit - 1

  uint32_t emit(const KernelInstr& instr) {
    auto [it, inserted] = known.try_emplace(instr, static_cast<uint32_t>(code.size()));
    if (inserted) code.push_back(instr);
    return it->second;
  }
};

// What a parameter of a region stands for.
struct Binding {
  enum Kind { kCarried, kOuter, kMemory, kSlice, kValue, kArray } kind;
  uint32_t first = 0;                // carried: part number
  hlo::Operand outer;                // the others: in the program or region that holds the loop
  DimIndex step;                     // slice: index along the scanned dimension
  std::vector<uint32_t> parts = {};  // value: of the present section
  ArrayVersion array = {};           // array: which
  bool sliced = false;               // array: at index `step` of its first dimension
  int64_t limit = 0;                 // carried: an integer in 0 ... limit - 1; 0: any
};

// A region being lowered.
struct Frame {
  Frame* around;     // null: the program itself
  Section* section;  // that of `around` in a branch of a case
  int step_dim;      // of its loop, -1 in a branch
  HashMap<const hlo::Node*, Binding> parameters;
  const hlo::Computation* region;  // null: no region of its own
  bool fills = false;              // a loop over the elements of an array, which takes numbers from `around`
};

// What a loop of unknown length is taken to do: enough to be compiled before its first run.
inline constexpr int64_t kAssumedSteps = 32'768;

// A branch of a case: a loop whose carried condition a step ends.
inline bool runs_once(const Repeat& r) {
  if (r.counted || r.next.empty() || r.cond.size() != 1) return false;
  const KernelInstr &condition = r.cond[0], &next = r.body[r.next[0]];
  return condition.op == KernelOp::kCarried && condition.imm == 0 && next.op == KernelOp::kPrim &&
         next.prim == hlo::Prim::constant && next.imm == 0;
}

// Work of one element, and steps of repeats that it starts.
struct Cost {
  double work = 1, steps = 0;
};
inline Cost cost_of(const LoopKernel& k, const std::vector<KernelInstr>& code,
                    const std::vector<int64_t>& extents) {
  Cost out{static_cast<double>(code.size()) + 1, 0};
  for (const KernelInstr& i : code) {
    if (i.op != KernelOp::kRepeat) continue;
    const Repeat& r = k.repeats[i.imm];
    const double trips =
        runs_once(r) ? 1
                     : static_cast<double>(r.counted ? extents[k.parallel_rank + k.reduce_rank + i.imm]
                                                     : kAssumedSteps);
    for (const auto* part : {&r.cond, &r.body}) {
      const Cost inner = cost_of(k, *part, extents);
      out.work += trips * inner.work;
      out.steps += trips * (1 + inner.steps);
    }
  }
  return out;
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_LOWER_SECTIONS_H_
