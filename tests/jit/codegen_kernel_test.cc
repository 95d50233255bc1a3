// Random kernels and reductions: machine code for several targets against the interpreter, and reductions of
// both tiers against a plain statement of the tree.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "tests/jit/kernel_util.h"

using namespace lamina::jit;
using lamina::hlo::Prim;
namespace hlo = lamina::hlo;

namespace {

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

// Bytes that end where a page without access begins: reading or writing past them faults.
class Guarded {
 public:
  explicit Guarded(const std::vector<char>& bytes) : size_(bytes.size()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size_ + page - 1) / page * page + page;
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    REQUIRE(mprotect(base_ + mapped_ - page, page, PROT_NONE) == 0);
    data_ = base_ + mapped_ - page - size_;
    std::memcpy(data_, bytes.data(), size_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, mapped_); }
  char* data() { return data_; }
  std::vector<char> bytes() const { return {data_, data_ + size_}; }

 private:
  size_t size_, mapped_;
  char* base_;
  char* data_;
};

template <class F>
Memory run_case(const Case& c, const F& entry) {
  std::deque<Guarded> guarded;
  std::vector<void*> buffers;
  for (const auto& m : c.memory) buffers.push_back(guarded.emplace_back(m).data());
  const int32_t cancel = 0;
  // In three parts, as threads would.
  const int64_t outer = c.outer(), inner = c.inner(), cut = outer / 3, side = inner / 2;
  REQUIRE(entry(buffers.data(), c.args.data(), 0, cut, 0, inner, &cancel) == 0);
  REQUIRE(entry(buffers.data(), c.args.data(), cut, outer, 0, side, &cancel) == 0);
  REQUIRE(entry(buffers.data(), c.args.data(), cut, outer, side, inner, &cancel) == 0);
  Memory memory;
  for (const Guarded& g : guarded) memory.push_back(g.bytes());
  return memory;
}

bool same_memory(const Case& c, const Memory& a, const Memory& b) {
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

void check_tiers(const Case& c) {
  const absl::Status status = verify(c.kernel);
  INFO(to_string(c.kernel));
  for (int64_t e : c.extents) UNSCOPED_INFO("extent " << e);
  if (!status.ok()) FAIL(status.message());
  CHECK(reads_back(c.kernel));
  const KernelInterpreter interpreter(c.kernel);
  const Memory expected = run_case(c, [&](auto... a) { return interpreter.run(a...); });
  for (const char* cpu : {"", kLeastCpu}) {
    auto compiled = generator(cpu).compile(to_string(c.kernel), c.schedule);
    if (!compiled.ok()) FAIL(compiled.status().message());
    const Memory got = run_case(c, compiled->entry());
    INFO("target " << cpu);
    CHECK(same_memory(c, expected, got));
  }
}

class RandomKernel {
 public:
  explicit RandomKernel(uint64_t seed) : rng_(seed) {}

  Case make() {
    const int parallel = pick(5);
    const int reduce = pick(2) ? 0 : 1 + pick(3);
    return make(parallel, reduce);
  }

  Case make(int parallel, int reduce) {
    KernelBuilder k(parallel, reduce);
    Case c;
    int64_t budget = 6000;
    for (int d = 0; d < parallel + reduce; ++d) {
      static constexpr int64_t kExtents[] = {0, 1, 2, 3, 5, 16, 17, 33, 100, 515};
      int64_t e = kExtents[1 + pick(9)];
      if (pick(40) == 0) e = 0;
      e = std::min(e, std::max<int64_t>(budget, 1));
      budget /= std::max<int64_t>(e, 1);
      c.extents.push_back(e);
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
    int64_t stride = pick(4) == 0 ? 2 : 1;
    int64_t low = 0, high = 0;
    std::vector<AccessTerm> terms;
    for (int d : order) {
      if (!written && pick(4) == 0) continue;
      const int64_t e = std::max<int64_t>(c.extents[d], 1);
      int64_t s = pick(5) == 0 ? -stride : stride;
      if (!written && pick(12) == 0) s = 0;
      const uint8_t unit = (s == 1 || s == 2) && pick(4) != 0 ? static_cast<uint8_t>(s) : 0;
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
      r.inputs = {value, k.add(index)};
      r.combine.inputs = {t, DType::kS64, t, DType::kS64};
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
                        instr(Prim::select, DType::kS64, 4, 3, 1)};
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

// The sum of x over one of two dimensions.
LoopKernel sum_kernel(DType t, bool reduce_last) {
  KernelBuilder k(1, 1);
  const uint32_t x = k.buffer(t), init = k.buffer(t), out = k.buffer(t, true);
  const uint32_t stride = k.arg();
  const AccessTerm unit{static_cast<uint8_t>(reduce_last ? 1 : 0), true, 0};
  const AccessTerm far{static_cast<uint8_t>(reduce_last ? 0 : 1), false, stride};
  k.load(k.access(x, {unit, far}));
  Reduction& r = k.kernel.reduction;
  r.inputs = {0};
  r.combine.inputs = {t, t};
  hlo::ScalarInstr add;
  add.prim = Prim::add;
  add.type = t;
  add.operands[0] = 0;
  add.operands[1] = 1;
  r.combine.code = {add};
  r.combine.outputs = {2};
  r.init = {k.access(init, {})};
  k.in_epilogue = true;
  KernelInstr result{KernelOp::kReduced, Prim::constant, t};
  k.add(result);
  k.store(k.access(out, {{0, true, 0}}), 0);
  return k.kernel;
}

// The tree, stated once more.
template <class T>
T tree_sum(const std::vector<T>& x, T init) {
  constexpr size_t kLanes = 256 / sizeof(T);
  if (x.empty()) return init;
  std::vector<T> level = x;
  do {
    std::vector<T> next;
    for (size_t start = 0; start < level.size(); start += 16384) {
      const size_t n = std::min<size_t>(16384, level.size() - start);
      std::vector<T> lanes;
      for (size_t i = 0; i < n; ++i) {
        if (i < kLanes)
          lanes.push_back(level[start + i]);
        else
          lanes[i % kLanes] = lanes[i % kLanes] + level[start + i];
      }
      for (size_t s = kLanes / 2; s > 0; s /= 2)
        for (size_t j = 0; j < s; ++j)
          if (j + s < lanes.size()) lanes[j] = lanes[j] + lanes[j + s];
      next.push_back(lanes[0]);
    }
    level = next;
  } while (level.size() > 1);
  return level[0] + init;
}

template <class T>
void check_sum(DType t, int64_t rows, int64_t columns) {
  std::mt19937_64 rng(static_cast<uint64_t>(rows * 1000003 + columns));
  std::vector<T> x(static_cast<size_t>(rows * columns));
  for (T& v : x) v = static_cast<T>((static_cast<double>(rng() >> 11) / 9007199254740992.0 - 0.5) * 100);
  const T init = static_cast<T>(0.3);
  const int32_t cancel = 0;
  for (const bool reduce_last : {true, false}) {
    const int64_t outputs = reduce_last ? rows : columns, reduced = reduce_last ? columns : rows;
    std::vector<T> expected(outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      std::vector<T> sequence;
      for (int64_t i = 0; i < reduced; ++i)
        sequence.push_back(reduce_last ? x[o * columns + i] : x[i * columns + o]);
      expected[o] = tree_sum(sequence, init);
    }
    for (ReduceForm form : {ReduceForm::kAlongReduced, ReduceForm::kAcrossParallel}) {
      const LoopKernel kernel = sum_kernel(t, reduce_last);
      const int64_t args[] = {outputs, reduced, columns};
      for (int tier = 0; tier < 3; ++tier) {
        std::vector<T> got(outputs, T(77));
        T init_value = init;
        void* buffers[] = {x.data(), &init_value, got.data()};
        INFO("rows " << rows << " columns " << columns << " last " << reduce_last << " form "
                     << static_cast<int>(form) << " tier " << tier);
        if (tier == 0) {
          REQUIRE(interpret_kernel(kernel, buffers, args, 0, 1, 0, outputs, &cancel) == 0);
        } else {
          auto compiled = generator(tier == 1 ? "" : kLeastCpu).compile(to_string(kernel), {form});
          if (!compiled.ok()) FAIL(compiled.status().message());
          REQUIRE(compiled->entry()(buffers, args, 0, 1, 0, outputs, &cancel) == 0);
        }
        REQUIRE(std::memcmp(got.data(), expected.data(), outputs * sizeof(T)) == 0);
      }
    }
  }
}

}  // namespace

TEST_CASE("random kernels have the same bits in every tier and on every target", "[codegen]") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    check_tiers(RandomKernel(seed).make());
  }
}

TEST_CASE("sums follow the tree in both forms", "[codegen]") {
  for (int64_t columns : {1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 192, 1000})
    check_sum<float>(DType::kF32, 5, columns);
  for (int64_t rows : {1, 40, 300}) check_sum<double>(DType::kF64, rows, 259);
  for (int64_t columns : {95, 96, 97}) check_sum<double>(DType::kF64, 2, columns);
  // More rows than a vector has lanes, and more columns than a block.
  for (int64_t columns : {1, 3, 16, 17, 50, 130}) {
    check_sum<float>(DType::kF32, 37, columns);
    check_sum<double>(DType::kF64, 19, columns);
  }
  check_sum<float>(DType::kF32, 16500, 70);
  check_sum<float>(DType::kF32, 3, 16384);
  check_sum<float>(DType::kF32, 3, 16385);
  check_sum<double>(DType::kF64, 2, 3 * 16384 + 70);
  check_sum<float>(DType::kF32, 1, 70 * 16384 + 1);
}
