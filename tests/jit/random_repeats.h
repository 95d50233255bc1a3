// Random kernels that run nests of repeats.
#ifndef LAMINA_TESTS_JIT_RANDOM_REPEATS_H_
#define LAMINA_TESTS_JIT_RANDOM_REPEATS_H_

#include "tests/jit/kernel_util.h"

namespace lamina::testing {

using hlo::DType;
using hlo::Prim;
using jit::Access;
using jit::AccessTerm;
using jit::KernelInstr;
using jit::KernelOp;
using jit::LoopKernel;
using jit::Repeat;

// A kernel over `rows` x `columns` elements that runs a nest of repeats.
class RandomRepeats {
 public:
  explicit RandomRepeats(uint64_t seed) : rng_(seed) {}

  LoopKernel kernel;
  std::vector<int64_t> args;
  std::vector<std::vector<char>> memory;
  int64_t rows = 1, columns = 1;

  void make() {
    kernel.parallel_rank = static_cast<uint8_t>(pick(3));
    static constexpr int64_t kColumns[] = {1, 3, 8, 16, 31, 64, 100, 150};
    if (kernel.parallel_rank > 0) columns = kColumns[pick(8)];
    if (kernel.parallel_rank > 1) rows = 1 + pick(3);
    const int repeats = 1 + pick(3);
    for (int d = 0; d < kernel.parallel_rank; ++d)
      args.push_back(d + 1 == kernel.parallel_rank ? columns : rows);
    for (int r = 0; r < repeats; ++r) args.push_back(pick(6));  // trips of counted ones
    kernel.repeats.resize(repeats);
    left_ = repeats;
    std::vector<uint32_t> values;
    for (int i = 0; i < 3; ++i) values.push_back(load(kernel.body, {}));
    // The repeats stand one after the other or one in another.
    while (left_ > 0) repeat(kernel.body, values, {}, true);
    prims(kernel.body, values, 3);
    for (int i = 0; i < 2; ++i)
      kernel.stores.push_back(
          store(kernel.body[values[values.size() - 1 - i]].type, values[values.size() - 1 - i], {}));
    kernel.num_args = static_cast<uint32_t>(args.size());
  }

 private:
  int pick(int n) { return static_cast<int>(rng_() % static_cast<uint64_t>(n)); }
  static uint32_t add(std::vector<KernelInstr>& code, const KernelInstr& instr) {
    code.push_back(instr);
    return static_cast<uint32_t>(code.size() - 1);
  }
  uint32_t arg(int64_t value) {
    args.push_back(value);
    return static_cast<uint32_t>(args.size() - 1);
  }

  // An access with an element for every index over the elements and the steps around.
  uint32_t place(DType t, bool written, const std::vector<int>& steps) {
    kernel.buffers.push_back({t, written});
    Access a{static_cast<uint32_t>(kernel.buffers.size() - 1), -1, {}};
    int64_t size = 1;
    const auto term = [&](int dim, int64_t extent) {
      const bool unit = size == 1 && pick(3);
      a.terms.push_back({static_cast<uint8_t>(dim), static_cast<int8_t>(unit), unit ? 0 : arg(size)});
      size *= std::max<int64_t>(extent, 1);
    };
    for (int d = kernel.parallel_rank; d-- > 0;)
      if (written || pick(3)) term(d, args[d]);
    for (int s : steps)
      if (written || pick(2)) term(s, args[s]);
    memory.push_back(written ? std::vector<char>(size * hlo::byte_size(t), 0)
                             : jit::random_elements(t, size, rng_));
    kernel.accesses.push_back(std::move(a));
    return static_cast<uint32_t>(kernel.accesses.size() - 1);
  }
  DType any_type() {
    static constexpr DType kTypes[] = {DType::kF32, DType::kF32,  DType::kS32,
                                       DType::kF64, DType::kBool, DType::kU8};
    return kTypes[pick(6)];
  }
  uint32_t load(std::vector<KernelInstr>& code, const std::vector<int>& steps) {
    KernelInstr i{KernelOp::kLoad, Prim::constant, any_type()};
    i.imm = place(i.type, false, steps);
    return add(code, i);
  }
  jit::Store store(DType t, uint32_t value, const std::vector<int>& steps) {
    return {place(t, true, steps), value};
  }
  void prims(std::vector<KernelInstr>& code, std::vector<uint32_t>& values, int count) {
    for (int i = 0; i < count; ++i) {
      static constexpr Prim kPrims[] = {Prim::add, Prim::sub,    Prim::mul,    Prim::lt,
                                        Prim::eq,  Prim::select, Prim::convert};
      KernelInstr instr{KernelOp::kPrim, kPrims[pick(7)], DType::kF32};
      const uint32_t a = values[pick(static_cast<int>(values.size()))];
      uint32_t b = a, c = a;
      for (uint32_t v : values) {
        if (code[v].type == code[a].type && pick(2)) b = v;
        if (code[v].type == DType::kBool && pick(2)) c = v;
      }
      instr.type = code[a].type;
      instr.operands[0] = a;
      instr.operands[1] = b;
      if (instr.prim == Prim::lt || instr.prim == Prim::eq) instr.type = DType::kBool;
      if (instr.prim == Prim::convert) instr.type = any_type();
      if (instr.prim == Prim::select || instr.type == DType::kBool) {
        if (code[c].type != DType::kBool) continue;
        if (instr.prim != Prim::lt && instr.prim != Prim::eq && instr.prim != Prim::convert)
          instr = {KernelOp::kPrim, Prim::select, code[a].type, false, {c, a, b}};
      }
      values.push_back(add(code, instr));
    }
  }

  // A repeat in `code`, perhaps with others inside; its results join `values`.
  void repeat(std::vector<KernelInstr>& code, std::vector<uint32_t>& values, std::vector<int> steps,
              bool may_store) {
    const uint64_t number = kernel.repeats.size() - static_cast<size_t>(left_--);
    steps.push_back(kernel.parallel_rank + static_cast<int>(number));
    Repeat r;
    r.counted = pick(3) > 0;
    std::vector<DType> types;
    if (!r.counted) {  // a number of steps for each element
      KernelInstr i{KernelOp::kPrim, Prim::convert, DType::kU8};
      i.operands[0] = values[pick(static_cast<int>(values.size()))];
      KernelInstr most{KernelOp::kPrim, Prim::constant, DType::kU8};
      most.imm = 7;
      const uint32_t a = add(code, i), b = add(code, most);
      r.init.push_back(add(code, {KernelOp::kPrim, Prim::bit_and, DType::kU8, false, {a, b}}));
    }
    for (int n = 1 + pick(4); n > 0; --n) r.init.push_back(values[pick(static_cast<int>(values.size()))]);
    const auto enter = [&](std::vector<KernelInstr>& inside) {
      std::vector<uint32_t> out;
      for (size_t c = 0; c < r.init.size(); ++c) {
        KernelInstr i{KernelOp::kCarried, Prim::constant, code[r.init[c]].type};
        i.imm = c;
        out.push_back(add(inside, i));
      }
      const uint32_t v = values[pick(static_cast<int>(values.size()))];
      KernelInstr i{KernelOp::kOuter, Prim::constant, code[v].type};
      i.imm = v;
      out.push_back(add(inside, i));
      return out;
    };
    if (!r.counted) {
      const std::vector<uint32_t> inside = enter(r.cond);
      KernelInstr zero{KernelOp::kPrim, Prim::constant, DType::kU8};
      const uint32_t none = add(r.cond, zero);
      r.condition = add(r.cond, {KernelOp::kPrim, Prim::lt, DType::kBool, false, {none, inside[0]}});
    }
    std::vector<uint32_t> inside = enter(r.body);
    const std::vector<uint32_t> carried(inside.begin(), inside.end() - 1);
    if (pick(2)) {
      KernelInstr i{KernelOp::kIndex, Prim::constant, DType::kS64};
      i.imm = steps.back();
      inside.push_back(add(r.body, i));
    }
    // What varies with the steps of a loop of unknown length has no bounds.
    const bool bounded = may_store && r.counted;
    inside.push_back(load(r.body, bounded ? steps : std::vector<int>()));
    prims(r.body, inside, 4);
    if (left_ > 0 && pick(2)) repeat(r.body, inside, steps, bounded);
    prims(r.body, inside, 3);
    for (size_t c = 0; c < r.init.size(); ++c) {
      uint32_t next = carried[c];
      for (uint32_t v : inside)
        if (r.body[v].type == code[r.init[c]].type && pick(2)) next = v;
      r.next.push_back(next);
    }
    if (!r.counted) {
      KernelInstr one{KernelOp::kPrim, Prim::constant, DType::kU8};
      one.imm = 1;
      const uint32_t b = add(r.body, one);
      r.next[0] = add(r.body, {KernelOp::kPrim, Prim::sub, DType::kU8, false, {carried[0], b}});
    }
    if (bounded && pick(2)) {
      const uint32_t v = inside[pick(static_cast<int>(inside.size()))];
      r.stores.push_back(store(r.body[v].type, v, steps));
    }
    KernelInstr run{KernelOp::kRepeat, Prim::constant, DType::kS64};
    run.imm = number;
    const uint32_t at = add(code, run);
    for (size_t c = 0; c < r.init.size(); ++c) {
      KernelInstr i{KernelOp::kRepeated, Prim::constant, code[r.init[c]].type, false, {at}};
      i.imm = c;
      values.push_back(add(code, i));
    }
    kernel.repeats[number] = std::move(r);
  }

  std::mt19937_64 rng_;
  int left_ = 0;
};

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_RANDOM_REPEATS_H_
