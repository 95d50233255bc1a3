#include "jit/kernel/split_reduction.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "jit/kernel/choice.h"

namespace lamina::jit {
namespace {

uint32_t appended(std::vector<KernelInstr>* code, const KernelInstr& instr) {
  code->push_back(instr);
  return static_cast<uint32_t>(code->size() - 1);
}

// `local`, a position of that type in the chunk that is the index along dimension 0, among all elements.
uint32_t global_position(std::vector<KernelInstr>* code, uint32_t local, DType type) {
  const DType wide = DType::kS64;
  const uint32_t chunk = appended(code, {.op = KernelOp::kIndex, .type = wide, .imm = 0});
  const uint32_t size = appended(code, {.op = KernelOp::kPrim, .type = wide, .imm = kReduceChunk});
  uint32_t start = appended(
      code, {.op = KernelOp::kPrim, .prim = hlo::Prim::mul, .type = wide, .operands = {chunk, size, 0}});
  if (type != wide)
    start = appended(
        code, {.op = KernelOp::kPrim, .prim = hlo::Prim::convert, .type = type, .operands = {start, 0, 0}});
  return appended(
      code, {.op = KernelOp::kPrim, .prim = hlo::Prim::add, .type = type, .operands = {start, local, 0}});
}

// A kernel made of parts of another one, with what they need of its accesses and buffers.
class Part {
 public:
  // Dimensions and further arguments of the other come `dims` and `slots` later here.
  Part(const LoweredLoop& from, int dims, uint32_t slots) : from_(from), dims_(dims), slots_(slots) {}

  LoweredLoop loop;

  // Memory of the kernel's own; its number.
  uint32_t own_buffer(DType type, int64_t bytes, bool written) {
    loop.kernel.buffers.push_back({type, written});
    loop.buffers.emplace_back();
    loop.own_bytes.push_back(bytes);
    return static_cast<uint32_t>(loop.buffers.size() - 1);
  }
  uint32_t access(uint32_t number) {
    int32_t& known = accesses_[number];
    if (known < 0) {
      Access a = from_.kernel.accesses[number];
      a.buffer = buffer(a.buffer);
      if (a.offset_slot >= 0) a.offset_slot += static_cast<int32_t>(slots_);
      for (AccessTerm& t : a.terms) {
        t.dim = static_cast<uint8_t>(t.dim + dims_);
        if (t.unit == 0) t.stride_slot += slots_;
      }
      known = static_cast<int32_t>(add(std::move(a)));
    }
    return static_cast<uint32_t>(known);
  }
  uint32_t add(Access access) {
    loop.kernel.accesses.push_back(std::move(access));
    return static_cast<uint32_t>(loop.kernel.accesses.size() - 1);
  }
  AccessTerm term(int dim, int64_t stride) {
    AccessTerm t{static_cast<uint8_t>(dim), 0, 0};
    if (stride != 0 && std::abs(stride) <= kMostKnownStride) {
      t.unit = static_cast<int8_t>(stride);
    } else {
      t.stride_slot = static_cast<uint32_t>(loop.args.size());
      loop.args.push_back(stride);
    }
    return t;
  }
  // Of a section without loops. In place of the index along a dimension of the other, if it is given, stands
  // what `index` adds to the code. Gives the number of each value.
  template <typename F>
  std::vector<uint32_t> copy(const std::vector<KernelInstr>& section, std::vector<KernelInstr>* out, int dim,
                             F index) {
    std::vector<uint32_t> values;
    for (KernelInstr i : section) {
      if (i.op == KernelOp::kIndex && static_cast<int>(i.imm) == dim) {
        values.push_back(index());
        continue;
      }
      for (int k = 0; k < operand_count(i); ++k) i.operands[k] = values[i.operands[k]];
      if (i.op == KernelOp::kLoad) i.imm = access(static_cast<uint32_t>(i.imm));
      if (i.op == KernelOp::kLoadAt) i.imm = buffer(static_cast<uint32_t>(i.imm));
      if (i.op == KernelOp::kIndex) i.imm += static_cast<uint64_t>(dims_);
      if (i.op == KernelOp::kArg) i.imm += slots_;
      values.push_back(appended(out, i));
    }
    return values;
  }

 private:
  uint32_t buffer(uint32_t number) {
    int32_t& known = buffers_[number];
    if (known < 0) {
      known = static_cast<int32_t>(loop.buffers.size());
      loop.kernel.buffers.push_back(from_.kernel.buffers[number]);
      loop.buffers.push_back(from_.buffers[number]);
      loop.own_bytes.push_back(0);
    }
    return static_cast<uint32_t>(known);
  }

  const LoweredLoop& from_;
  const int dims_;
  const uint32_t slots_;
  std::vector<int32_t> buffers_ = std::vector<int32_t>(from_.kernel.buffers.size(), -1);  // their number here
  std::vector<int32_t> accesses_ = std::vector<int32_t>(from_.kernel.accesses.size(), -1);
};

bool can_be_split(const LoweredLoop& loop) {
  const LoopKernel& k = loop.kernel;
  if (!k.has_reduction || k.reduce_rank != 1 || !k.repeats.empty() || k.parallel_rank + 2 > kMaxLoopRank)
    return false;
  if (loop.args[k.parallel_rank] < 2 * kReduceChunk || loop.outer * loop.inner == 0) return false;
  return std::none_of(loop.own_bytes.begin(), loop.own_bytes.end(), [](int64_t bytes) { return bytes > 0; });
}

}  // namespace

std::optional<SplitReduction> split_reduction(const LoweredLoop& loop) {
  if (!can_be_split(loop)) return std::nullopt;
  const LoopKernel& k = loop.kernel;
  const int rank = k.parallel_rank;
  const int64_t total = loop.args[rank], results = loop.outer * loop.inner;
  SplitReduction out;
  out.count = (total + kReduceChunk - 1) / kReduceChunk;

  constexpr uint32_t added = 1;
  Part chunks(loop, static_cast<int>(added), added);
  LoopKernel& c = chunks.loop.kernel;
  c.parallel_rank = static_cast<uint8_t>(rank + static_cast<int>(added));
  c.reduce_rank = 1;
  c.has_reduction = true;
  std::vector<int64_t>& args = chunks.loop.args = loop.args;
  args.insert(args.begin(), out.count);
  args[c.parallel_rank] = kReduceChunk;
  // Which element of a chunk is chosen does not depend on where the chunk is, and choices are recognized by
  // their positions being the index.
  const bool chooses = choice_of(k).has_value();
  const std::vector<uint32_t> values = chunks.copy(k.body, &c.body, chooses ? -1 : rank, [&] {
    const DType type = DType::kS64;
    return global_position(
        &c.body, appended(&c.body, {.op = KernelOp::kIndex, .type = type, .imm = uint64_t{c.parallel_rank}}),
        type);
  });
  for (Access& a : c.accesses)
    for (const AccessTerm& t : a.terms)
      if (t.dim == c.parallel_rank) {
        const AccessTerm by_chunk = chunks.term(0, (t.unit ? t.unit : args[t.stride_slot]) * kReduceChunk);
        a.terms.insert(a.terms.begin(), by_chunk);
        break;
      }
  c.reduction.combine = k.reduction.combine;
  for (uint32_t input : k.reduction.inputs) c.reduction.inputs.push_back(values[input]);

  Part rest(loop, 0, 0);
  LoopKernel& r = rest.loop.kernel;
  r.parallel_rank = k.parallel_rank;
  r.reduce_rank = 1;
  r.has_reduction = true;
  rest.loop.args = loop.args;
  rest.loop.args[rank] = out.count;
  r.reduction.combine = k.reduction.combine;

  for (size_t v = 0; v < k.reduction.inputs.size(); ++v) {
    const DType type = k.reduction.combine.inputs[v];
    out.bytes.push_back(out.count * results * hlo::byte_size(type));
    Access stored{chunks.own_buffer(type, out.bytes.back(), true), -1, {}, 0};
    Access read{rest.own_buffer(type, out.bytes.back(), false), -1, {}, 0};
    int64_t stride = results;
    stored.terms.push_back(chunks.term(0, stride));
    for (int d = 0; d < rank; ++d) {
      stride /= loop.args[d];
      stored.terms.push_back(chunks.term(d + static_cast<int>(added), stride));
      read.terms.push_back(rest.term(d, stride));
    }
    read.terms.push_back(rest.term(rank, results));
    uint32_t result = appended(&c.epilogue, {.op = KernelOp::kReduced, .type = type, .imm = v});
    if (chooses && v == kChosenPosition) result = global_position(&c.epilogue, result, type);
    c.stores.push_back({chunks.add(std::move(stored)), result});
    r.reduction.inputs.push_back(
        appended(&r.body, {.op = KernelOp::kLoad, .type = type, .imm = rest.add(std::move(read))}));
  }
  for (uint32_t init : k.reduction.init) r.reduction.init.push_back(rest.access(init));
  rest.copy(k.epilogue, &r.epilogue, -1, [] { return 0U; });
  for (const Store& s : k.stores) r.stores.push_back({rest.access(s.access), s.value});

  const auto finished = [](Part& part, int64_t outer, int64_t inner, int64_t work) {
    part.loop.kernel.num_args = static_cast<uint32_t>(part.loop.args.size());
    part.loop.outer = outer;
    part.loop.inner = inner;
    part.loop.work = work;
    return std::move(part.loop);
  };
  // A kernel's last parallel dimension is its inner range.
  out.chunks = rank == 0 ? finished(chunks, 1, out.count, loop.work)
                         : finished(chunks, out.count * loop.outer, loop.inner, loop.work);
  out.chunks.instructions = loop.instructions;
  out.last_args = out.chunks.args;
  out.last_args[c.parallel_rank] = total - (out.count - 1) * kReduceChunk;
  out.rest = finished(rest, loop.outer, loop.inner, out.count * results);
  out.rest.instructions = loop.instructions;
  return out;
}

}  // namespace lamina::jit
