// Random loop kernels over random layouts of memory, with everything that a kernel without repeats may hold.
#ifndef LAMINA_TESTS_JIT_RANDOM_KERNEL_H_
#define LAMINA_TESTS_JIT_RANDOM_KERNEL_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/jit/kernel_util.h"

namespace lamina::jit {

using hlo::Prim;

// A kernel with its run-time arguments and input bytes.
struct Case {
  LoopKernel kernel;
  Schedule schedule;
  std::vector<int64_t> args;
  std::vector<std::vector<char>> memory;  // per buffer
  std::vector<int64_t> extents;

  int64_t outer() const {
    int64_t n = 1;
    for (int d = 0; d + 1 < kernel.parallel_rank; ++d) n *= extents[d];
    return n;
  }
  int64_t inner() const { return kernel.parallel_rank ? extents[kernel.parallel_rank - 1] : 1; }
};

using Memory = std::vector<std::vector<char>>;

inline bool same_memory(const Case& c, const Memory& a, const Memory& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const DType t = c.kernel.buffers[i].type;
    const int64_t size = hlo::byte_size(t);
    for (size_t at = 0; at + size <= a[i].size(); at += size)
      if (!same_element(t, &a[i][at], &b[i][at])) {
        UNSCOPED_INFO("buffer " << i << " element " << at / size);
        return false;
      }
  }
  return true;
}

class RandomKernel {
 public:
  explicit RandomKernel(uint64_t seed) : rng_(seed) {}

  Case make() {
    const int parallel = pick(5);
    const int reduce = pick(2) ? 0 : 1 + pick(3);
    return make(parallel, reduce);
  }

  // With `reduced` elements of one reduced dimension, if that is not 0.
  Case make(int parallel, int reduce, int64_t reduced = 0) {
    KernelBuilder k(parallel, reduce);
    Case c;
    int64_t budget = reduced > 0 ? 6 : 6000;
    for (int d = 0; d < parallel + reduce; ++d) {
      static constexpr int64_t kExtents[] = {0, 1, 2, 3, 5, 16, 17, 33, 100, 515};
      int64_t e = kExtents[1 + pick(9)];
      if (pick(40) == 0) e = 0;
      e = std::min(e, std::max<int64_t>(budget, 1));
      budget /= std::max<int64_t>(e, 1);
      c.extents.push_back(reduced > 0 && d == parallel ? reduced : e);
    }
    c.args = c.extents;
    std::vector<uint32_t> values;
    std::vector<DType> types;
    const int loads = 1 + pick(3);
    for (int i = 0; i < loads; ++i) load(k, c, parallel + reduce, values);
    for (int d = 0; d < parallel + reduce; ++d)
      if (pick(4) == 0 && !c.args.empty()) {
        KernelInstr index{KernelOp::kIndex, Prim::constant, DType::kS64};
        index.imm = d;
        values.push_back(k.add(index));
      }
    if (pick(4) == 0 && !c.args.empty()) {
      KernelInstr arg{KernelOp::kArg, Prim::constant, DType::kS64};
      arg.imm = pick(static_cast<int>(c.args.size()));
      values.push_back(k.add(arg));
    }
    prims(k, k.kernel.body, values, 3 + pick(15));
    if (pick(3) == 0) predicated_loads(k, c, parallel + reduce, values);
    prims(k, k.kernel.body, values, 2);
    if (reduce > 0) {
      reduction(k, c, values);
      k.in_epilogue = true;
      values.clear();
      for (size_t v = 0; v < k.kernel.reduction.inputs.size(); ++v) {
        KernelInstr r{KernelOp::kReduced, Prim::constant, k.kernel.reduction.combine.inputs[v]};
        r.imm = v;
        values.push_back(k.add(r));
      }
      if (pick(2)) load(k, c, parallel, values);
      prims(k, k.kernel.epilogue, values, pick(5));
    }
    const auto& section = reduce > 0 ? k.kernel.epilogue : k.kernel.body;
    const int stores = 1 + pick(2);
    for (int i = 0; i < stores; ++i) {
      const uint32_t value = i == 0 ? values.back() : values[pick(static_cast<int>(values.size()))];
      store(k, c, parallel, section[value].type, value);
    }
    c.kernel = k.kernel;
    c.args.resize(k.kernel.num_args);
    c.schedule.tiles = pick(2) == 0;
    return c;
  }

  // Sums of elements that lie as the loop walks them and elements whose dimensions `dim` and 2 are exchanged.
  Case turned(DType t, std::vector<int64_t> extents, int dim, int reads) {
    KernelBuilder k(3, 0);
    Case c;
    c.extents = std::move(extents);
    c.args = c.extents;
    const auto access = [&](bool written, bool turned) {
      const uint32_t buffer = k.buffer(t, written);
      std::vector<int> order = {0, 1, 2};
      if (turned) std::swap(order[dim], order[2]);
      int64_t stride = 1;
      std::vector<AccessTerm> terms;
      for (int d = 3; d-- > 0;) {
        const bool unit = d == 2;
        AccessTerm term{static_cast<uint8_t>(order[d]), static_cast<int8_t>(unit), 0};
        if (!unit) {
          term.stride_slot = k.arg();
          c.args.push_back(stride);
        }
        terms.push_back(term);
        stride = stride * c.extents[order[d]] + pick(3);
      }
      c.memory.push_back(random_elements(t, stride, rng_));
      return k.access(buffer, std::move(terms));
    };
    uint32_t value = k.load(access(false, false));
    for (int i = 0; i < reads; ++i) {
      const uint32_t other = k.load(access(false, true));
      value = k.prim(t == DType::kBool ? Prim::bit_xor : Prim::add, t, {value, other});
    }
    k.store(access(true, false), value);
    c.kernel = k.kernel;
    c.schedule.tiles = true;
    return c;
  }

 private:
  int pick(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  DType part_type() {
    for (;;) {
      const DType t = static_cast<DType>(pick(hlo::kNumDTypes));
      if (!hlo::is_complex(t) && !hlo::is_narrow(t)) return t;  // narrow ones compute as their bytes
    }
  }

  // Terms over `rank` dimensions in some layout of a buffer that is made large enough. Dense: every index has
  // an element of its own.
  uint32_t place(KernelBuilder& k, Case& c, int rank, DType t, bool written) {
    const uint32_t buffer = k.buffer(t, written);
    std::vector<int> order(rank);
    for (int d = 0; d < rank; ++d) order[d] = rank - 1 - d;
    if (pick(3) == 0) std::shuffle(order.begin(), order.end(), rng_);
    int64_t stride = pick(4) == 0 ? 2 + pick(3) : 1;
    int64_t low = 0, high = 0;
    std::vector<AccessTerm> terms;
    for (int d : order) {
      if (!written && pick(4) == 0) continue;
      const int64_t e = std::max<int64_t>(c.extents[d], 1);
      int64_t s = pick(5) == 0 ? -stride : stride;
      if (!written && pick(12) == 0) s = 0;
      const bool known = std::abs(s) <= kMostKnownStride && pick(4) != 0;
      const int8_t unit = known ? static_cast<int8_t>(s) : 0;
      AccessTerm term{static_cast<uint8_t>(d), unit, 0};
      if (!unit) {
        term.stride_slot = k.arg();
        c.args.resize(k.kernel.num_args);
        c.args[term.stride_slot] = s;
      }
      terms.push_back(term);
      (s < 0 ? low : high) += s * (e - 1);
      stride *= e;
    }
    const int64_t extra = pick(3);
    int32_t offset = -1;
    if (low < 0 || extra > 0) {
      offset = static_cast<int32_t>(k.arg());
      c.args.resize(k.kernel.num_args);
      c.args[offset] = extra - low;
    }
    c.memory.resize(k.kernel.buffers.size());
    c.memory[buffer] = random_elements(t, high - low + 1 + extra, rng_);
    return k.access(buffer, terms, offset);
  }

  void load(KernelBuilder& k, Case& c, int rank, std::vector<uint32_t>& values) {
    values.push_back(k.load(place(k, c, rank, part_type(), false)));
  }

  void predicated_loads(KernelBuilder& k, Case& c, int rank, std::vector<uint32_t>& values) {
    // A predicate; the address is wild where it is false.
    const uint32_t mask = k.load(place(k, c, rank, DType::kBool, false));
    const DType t = part_type();
    KernelInstr load{KernelOp::kLoad, Prim::constant, t, true, {mask}};
    load.imm = place(k, c, rank, t, false);
    values.push_back(k.add(load));
    constexpr int64_t kTable = 64;
    const uint32_t table = k.buffer(t);
    c.memory.resize(k.kernel.buffers.size());
    c.memory[table] = random_elements(t, kTable, rng_);
    const uint32_t position = k.load(place(k, c, rank, DType::kS64, false));
    const uint32_t most = k.prim(Prim::constant, DType::kS64, {}, kTable - 1);
    const uint32_t inside = k.prim(Prim::bit_and, DType::kS64, {position, most});
    const uint32_t at = k.prim(Prim::select, DType::kS64, {mask, inside, position});
    KernelInstr load_at{KernelOp::kLoadAt, Prim::constant, t, true, {at, mask}};
    load_at.imm = table;
    values.push_back(k.add(load_at));
  }

  void prims(KernelBuilder& k, const std::vector<KernelInstr>& section, std::vector<uint32_t>& values,
             int count) {
    for (int i = 0; i < count; ++i) {
      for (int attempt = 0; attempt < 50; ++attempt) {
        const Prim p = static_cast<Prim>(pick(static_cast<int>(Prim::convert) + 1));
        if (p == Prim::scale) continue;  // of most operands anything
        const int arity = hlo::prim_arity(p);
        KernelInstr instr{KernelOp::kPrim, p, DType::kBool};
        for (int o = 0; o < arity; ++o) instr.operands[o] = values[pick(static_cast<int>(values.size()))];
        // The bits of a NaN are unspecified, so they must not become a number.
        if (p == Prim::bitcast && hlo::is_float(section[instr.operands[0]].type)) continue;
        const DType last = arity > 0 ? section[instr.operands[arity - 1]].type : part_type();
        instr.type = p == Prim::convert || p == Prim::bitcast ? part_type()
                     : p >= Prim::eq && p <= Prim::le         ? DType::kBool
                                                              : last;
        if (p == Prim::constant) {
          instr.imm = 0;
          const auto bytes = random_elements(instr.type, 1, rng_);
          std::memcpy(&instr.imm, bytes.data(), bytes.size());
        }
        LoopKernel probe = k.kernel;
        (k.in_epilogue ? probe.epilogue : probe.body).push_back(instr);
        probe.stores.clear();
        if (!verify(probe).ok() && !ignorable(probe)) continue;
        values.push_back(k.add(instr));
        break;
      }
    }
  }

  // While a kernel with reduced dimensions is being built its reduction is not there yet.
  bool ignorable(LoopKernel probe) {
    if (!probe.reduction.inputs.empty() || !probe.has_reduction) return false;
    probe.has_reduction = false;
    probe.parallel_rank += probe.reduce_rank;
    probe.reduce_rank = 0;
    return verify(probe).ok();
  }

  void reduction(KernelBuilder& k, Case& c, const std::vector<uint32_t>& values) {
    Reduction& r = k.kernel.reduction;
    const uint32_t value = values.back();
    const DType t = k.kernel.body[value].type;
    c.schedule.reduce = pick(2) ? ReduceForm::kAlongReduced : ReduceForm::kAcrossParallel;
    const bool pairs = pick(3) == 0;
    if (pairs && !hlo::is_storage_float(t)) {
      // (value, index) pairs: the larger value, the earlier index among equals.
      KernelInstr index{KernelOp::kIndex, Prim::constant, DType::kS64};
      index.imm = k.kernel.parallel_rank + k.kernel.reduce_rank - 1;
      const DType positions = pick(2) ? DType::kS32 : DType::kS64;
      uint32_t position = k.add(index);
      if (positions != DType::kS64) position = k.prim(Prim::convert, positions, {position});
      r.inputs = {value, position};
      r.combine.inputs = {t, positions, t, positions};
      auto instr = [](Prim p, DType type, uint32_t a, uint32_t b, uint32_t d) {
        hlo::ScalarInstr i;
        i.prim = p;
        i.type = type;
        i.operands[0] = a;
        i.operands[1] = b;
        i.operands[2] = d;
        return i;
      };
      r.combine.code = {instr(Prim::lt, DType::kBool, 0, 2, 0), instr(Prim::select, t, 4, 2, 0),
                        instr(Prim::select, positions, 4, 3, 1)};
      r.combine.outputs = {5, 6};
    } else {
      r.inputs = {value};
      r.combine.inputs = {t, t};
      hlo::ScalarInstr i;
      i.type = t;
      i.operands[0] = 0;
      i.operands[1] = 1;
      if (t == DType::kBool) {
        i.prim = pick(2) ? Prim::bit_or : Prim::bit_xor;
        r.combine.code = {i};
        r.combine.outputs = {2};
      } else if (hlo::is_storage_float(t)) {
        hlo::ScalarInstr a, b, s, back;
        a.prim = b.prim = back.prim = Prim::convert;
        a.type = b.type = s.type = DType::kF32;
        a.operands[0] = 0;
        b.operands[0] = 1;
        s.prim = Prim::add;
        s.operands[0] = 2;
        s.operands[1] = 3;
        back.type = t;
        back.operands[0] = 4;
        r.combine.code = {a, b, s, back};
        r.combine.outputs = {5};
      } else {
        i.prim = pick(2) ? Prim::add : Prim::mul;
        r.combine.code = {i};
        r.combine.outputs = {2};
      }
    }
    for (size_t v = 0; v < r.inputs.size(); ++v)
      r.init.push_back(place(k, c, k.kernel.parallel_rank, r.combine.inputs[v], false));
  }

  void store(KernelBuilder& k, Case& c, int rank, DType t, uint32_t value) {
    k.store(place(k, c, rank, t, true), value);
  }

  std::mt19937_64 rng_;
};

}  // namespace lamina::jit

#endif  // LAMINA_TESTS_JIT_RANDOM_KERNEL_H_
