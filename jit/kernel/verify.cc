#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <cstdlib>

#include "hlo/scalar/primitives.h"
#include "jit/kernel/kernel.h"

namespace lamina::jit {
namespace {

using hlo::Prim;
using hlo::prim_fault;

// Abseil may be built with a string_view of its own.
template <class... Parts>
absl::Status wrong(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("malformed kernel: ", parts...));
}

class Verifier {
 public:
  explicit Verifier(const LoopKernel& kernel) : k_(kernel) {}

  absl::Status run() {
    first_step_ = k_.parallel_rank + k_.reduce_rank;
    if (k_.repeats.size() > kMaxLoopRank) return wrong(k_.repeats.size(), " repeats");
    const int rank = first_step_ + static_cast<int>(k_.repeats.size());
    runs_.assign(k_.repeats.size(), 0);
    if (rank > kMaxLoopRank) return wrong("rank ", rank, " is above ", kMaxLoopRank);
    if (k_.num_args < static_cast<uint32_t>(rank)) return wrong("fewer arguments than dimensions");
    if (k_.has_reduction != (k_.reduce_rank > 0))
      return wrong("reduced dimensions and no reduction, or the reverse");
    for (const BufferDecl& b : k_.buffers)
      if (hlo::is_complex(b.type)) return wrong("a buffer of complex elements");
    for (const Access& a : k_.accesses) {
      if (a.buffer >= k_.buffers.size()) return wrong("an access to buffer ", a.buffer);
      if (a.offset_slot >= 0 && static_cast<uint32_t>(a.offset_slot) >= k_.num_args)
        return wrong("an offset in argument ", a.offset_slot);
      if (a.beside >= kMostKnownStride)
        return wrong("element ", static_cast<int>(a.beside), " of some that alternate");
      for (const AccessTerm& t : a.terms) {
        if (t.dim >= rank) return wrong("an access along dimension ", static_cast<int>(t.dim));
        if (std::abs(t.unit) > kMostKnownStride) return wrong("a known stride of ", static_cast<int>(t.unit));
        if (!t.unit && t.stride_slot >= k_.num_args) return wrong("a stride in argument ", t.stride_slot);
      }
    }
    if (absl::Status s = section(k_.body, "body", Scope{first_step_}); !s.ok()) return s;
    for (int count : runs_)
      if (count != 1) return wrong("a repeat is run by ", count, " instructions");
    if (!k_.has_reduction) {
      if (!k_.epilogue.empty()) return wrong("an epilogue without a reduction");
      if (absl::Status s = stores(k_.stores, k_.body, Scope{k_.parallel_rank}); !s.ok()) return s;
      return k_.before ? order() : absl::OkStatus();
    }
    if (k_.before) return wrong("a reduction that sorts");
    if (absl::Status s = reduction(); !s.ok()) return s;
    if (absl::Status s = section(k_.epilogue, "epilogue", Scope{k_.parallel_rank, true}); !s.ok()) return s;
    return stores(k_.stores, k_.epilogue, Scope{k_.parallel_rank});
  }

 private:
  // What the code of a section can see.
  struct Scope {
    int rank;  // dimensions below it, and those of the repeats around
    bool epilogue = false;
    const Repeat* repeat = nullptr;  // whose code it is
    const std::vector<KernelInstr>* outer = nullptr;
    uint32_t steps = 0;  // bit k: repeat k is around
    bool may_store = true;
  };

  bool dim_within(uint64_t dim, const Scope& scope) const {
    if (dim < static_cast<uint64_t>(scope.rank)) return true;
    const uint64_t first = static_cast<uint64_t>(first_step_);
    return dim >= first && dim < first + k_.repeats.size() && (scope.steps >> (dim - first) & 1);
  }

  bool access_within(uint64_t access, const Scope& scope) const {
    if (access >= k_.accesses.size()) return false;
    for (const AccessTerm& t : k_.accesses[access].terms)
      if (!dim_within(t.dim, scope)) return false;
    return true;
  }

  static bool is_value(const std::vector<KernelInstr>& code, uint32_t v) {
    return v < code.size() && has_value(code[v].op);
  }

  absl::Status repeat(uint64_t number, const std::vector<KernelInstr>& outer, size_t position,
                      const Scope& around) {
    const Repeat& r = k_.repeats[number];
    if (++runs_[number] > 1) return wrong("repeat ", number, " is run by several instructions");
    if (r.init.size() != r.next.size())
      return wrong("repeat ", number, " starts with ", r.init.size(), " values and carries ", r.next.size());
    for (uint32_t v : r.init)
      if (v >= position || !is_value(outer, v))
        return wrong("repeat ", number, " starts with a value that is not defined yet");
    for (const auto* code : {&r.cond, &r.body})
      for (const KernelInstr& i : *code)
        if (i.op == KernelOp::kOuter && i.imm >= position)
          return wrong("repeat ", number, " reads an outer value that is not defined yet");
    Scope inside{
        around.rank, false, &r, &outer, around.steps | uint32_t{1} << number, around.may_store && r.counted};
    if (absl::Status s = section(r.cond, "condition", inside); !s.ok()) return s;
    if (absl::Status s = section(r.body, "step", inside); !s.ok()) return s;
    if (r.counted ? !r.cond.empty() : r.condition >= r.cond.size() || !hlo::is_bool(r.cond[r.condition].type))
      return wrong("the condition of repeat ", number);
    for (size_t i = 0; i < r.next.size(); ++i)
      if (!is_value(r.body, r.next[i]) || r.body[r.next[i]].type != outer[r.init[i]].type)
        return wrong("carried value ", i, " of repeat ", number);
    if (!inside.may_store && !r.stores.empty()) return wrong("a store in a loop of unknown length");
    return stores(r.stores, r.body, inside);
  }

  absl::Status section(const std::vector<KernelInstr>& code, absl::string_view where, const Scope& scope) {
    for (size_t i = 0; i < code.size(); ++i) {
      const KernelInstr& instr = code[i];
      auto bad = [&](const auto&... parts) { return wrong(where, " %", i, ": ", parts...); };
      auto type_of = [&](int k) { return code[instr.operands[k]].type; };
      if (static_cast<int>(instr.type) >= hlo::kNumDTypes || hlo::is_complex(instr.type))
        return bad("no part type");
      if (instr.op == KernelOp::kPrim && instr.prim > Prim::convert) return bad("unknown primitive");
      const int operands = operand_count(instr);
      for (int k = 0; k < operands; ++k) {
        if (instr.operands[k] >= i) return bad("operand %", instr.operands[k], " is not defined yet");
        if (instr.op != KernelOp::kRepeated && !is_value(code, instr.operands[k]))
          return bad("operand %", instr.operands[k], " has no value");
      }
      if (instr.predicated && instr.op != KernelOp::kLoad && instr.op != KernelOp::kLoadAt &&
          instr.op != KernelOp::kStoreAt)
        return bad("only loads and stores are predicated");
      if (instr.predicated && !hlo::is_bool(type_of(operands - 1)))
        return bad("the predicate is ", type_name(type_of(operands - 1)));
      switch (instr.op) {
        case KernelOp::kPrim: {
          DType types[3] = {};
          for (int k = 0; k < operands; ++k) types[k] = type_of(k);
          if (std::string fault =
                  prim_fault(instr.prim, instr.type, {types, static_cast<size_t>(operands)}, instr.imm);
              !fault.empty())
            return bad(fault);
          break;
        }
        case KernelOp::kLoad:
          if (!access_within(instr.imm, scope)) return bad("no access ", instr.imm, " here");
          if (k_.buffers[k_.accesses[instr.imm].buffer].type != instr.type)
            return bad("type differs from the buffer's");
          break;
        case KernelOp::kLoadAt:
          if (instr.imm >= k_.buffers.size()) return bad("no buffer ", instr.imm);
          if (k_.buffers[instr.imm].type != instr.type) return bad("type differs from the buffer's");
          if (type_of(0) != DType::kS64) return bad("the position is not s64");
          break;
        case KernelOp::kStoreAt:
          if (first_step_ > 0) return bad("a store at a computed position by many elements");
          if (instr.imm >= k_.buffers.size() || !k_.buffers[instr.imm].written)
            return bad("no written buffer ", instr.imm);
          if (k_.buffers[instr.imm].type != instr.type || type_of(1) != instr.type)
            return bad("type differs from the buffer's");
          if (type_of(0) != DType::kS64) return bad("the position is not s64");
          break;
        case KernelOp::kCopy: {
          const uint64_t to = instr.imm >> 32, from = instr.imm & ~uint32_t{0};
          if (first_step_ > 0) return bad("a copy by many elements");
          if (to >= k_.buffers.size() || !k_.buffers[to].written) return bad("no written buffer ", to);
          if (from >= k_.buffers.size() || from == to || k_.buffers[from].type != k_.buffers[to].type)
            return bad("a copy of buffer ", from, " to buffer ", to);
          if (instr.type != DType::kS64 || type_of(0) != DType::kS64) return bad("the count is not s64");
          break;
        }
        case KernelOp::kIndex:
          if (!dim_within(instr.imm, scope)) return bad("no dimension ", instr.imm, " here");
          if (instr.type != DType::kS64) return bad("an index is s64");
          break;
        case KernelOp::kArg:
          if (instr.imm >= k_.num_args) return bad("no argument ", instr.imm);
          if (instr.type != DType::kS64 && instr.type != DType::kF32 && instr.type != DType::kF64)
            return bad("an argument is s64, f32 or f64");
          break;
        case KernelOp::kReduced:
          if (!scope.epilogue || instr.imm >= k_.reduction.inputs.size())
            return bad("no reduction result ", instr.imm);
          if (k_.reduction.combine.inputs[instr.imm] != instr.type)
            return bad("type differs from the result's");
          break;
        case KernelOp::kRepeat:
          if (scope.epilogue || instr.imm >= k_.repeats.size()) return bad("no repeat ", instr.imm, " here");
          if (instr.type != DType::kS64) return bad("a repeat is s64");
          if (absl::Status s = repeat(instr.imm, code, i, scope); !s.ok()) return s;
          break;
        case KernelOp::kRepeated: {
          const KernelInstr& from = code[instr.operands[0]];
          if (from.op != KernelOp::kRepeat || instr.imm >= k_.repeats[from.imm].init.size())
            return bad("no carried value ", instr.imm);
          if (code[k_.repeats[from.imm].init[instr.imm]].type != instr.type)
            return bad("type differs from the carried value's");
          break;
        }
        case KernelOp::kCarried:
          if (!scope.repeat || instr.imm >= scope.repeat->init.size())
            return bad("no carried value ", instr.imm);
          if ((*scope.outer)[scope.repeat->init[instr.imm]].type != instr.type)
            return bad("type differs from the carried value's");
          break;
        case KernelOp::kOuter:  // in range: see `repeat`
          if (!scope.repeat) return bad("no section around this one");
          if ((*scope.outer)[instr.imm].type != instr.type ||
              !is_value(*scope.outer, static_cast<uint32_t>(instr.imm)))
            return bad("type differs from the outer value's");
          break;
        default:
          return bad("unknown operation");
      }
    }
    return absl::OkStatus();
  }

  static absl::Status program(const hlo::ScalarProgram& p, absl::string_view name) {
    size_t known = p.inputs.size();
    for (const hlo::ScalarInstr& instr : p.code) {
      if (instr.prim > Prim::convert || static_cast<int>(instr.type) >= hlo::kNumDTypes)
        return wrong("unknown primitive in the ", name);
      DType types[3] = {};
      for (int k = 0; k < hlo::prim_arity(instr.prim); ++k) {
        if (instr.operands[k] >= known) return wrong("the ", name, " uses a value before it is defined");
        types[k] = p.type_of(instr.operands[k]);
      }
      if (std::string fault = prim_fault(
              instr.prim, instr.type, {types, static_cast<size_t>(hlo::prim_arity(instr.prim))}, instr.imm);
          !fault.empty())
        return wrong(name, ": ", fault);
      ++known;
    }
    return absl::OkStatus();
  }

  absl::Status order() {
    const hlo::ScalarProgram& p = *k_.before;
    const size_t m = k_.stores.size();
    if (k_.parallel_rank == 0 || m == 0 || !k_.repeats.empty() || changes_arrays(k_))
      return wrong("a sort of no row, of nothing, or with loops or arrays that change");
    if (p.inputs.size() != 2 * m || p.outputs.size() != 1)
      return wrong("a sort of ", m, " values by an order of ", p.inputs.size(), " inputs and ",
                   p.outputs.size(), " outputs");
    for (size_t i = 0; i < 2 * m; ++i)
      if (p.inputs[i] != k_.body[k_.stores[i % m].value].type)
        return wrong("types of sorted value ", i % m, " differ");
    if (absl::Status s = program(p, "order"); !s.ok()) return s;
    if (p.outputs[0] >= 2 * m + p.code.size() || !hlo::is_bool(p.type_of(p.outputs[0])))
      return wrong("the order is no condition");
    return absl::OkStatus();
  }

  absl::Status reduction() {
    const Reduction& r = k_.reduction;
    const size_t m = r.inputs.size();
    if (m == 0 || (r.init.size() != m && !r.init.empty()) || r.combine.inputs.size() != 2 * m ||
        r.combine.outputs.size() != m)
      return wrong("a reduction of ", m, " values has ", r.init.size(), " inits and a combiner of ",
                   r.combine.inputs.size(), " inputs and ", r.combine.outputs.size(), " outputs");
    if (absl::Status s = program(r.combine, "combiner"); !s.ok()) return s;
    const size_t known = 2 * m + r.combine.code.size();
    for (size_t v = 0; v < m; ++v) {
      const DType t = r.combine.inputs[v];
      if (hlo::is_complex(t) || !is_value(k_.body, r.inputs[v]) || k_.body[r.inputs[v]].type != t ||
          r.combine.inputs[m + v] != t || r.combine.outputs[v] >= known ||
          r.combine.type_of(r.combine.outputs[v]) != t)
        return wrong("types of reduced value ", v, " differ");
      if (!r.init.empty() && (!access_within(r.init[v], Scope{k_.parallel_rank}) ||
                              k_.buffers[k_.accesses[r.init[v]].buffer].type != t))
        return wrong("the init of reduced value ", v);
    }
    return absl::OkStatus();
  }

  absl::Status stores(const std::vector<Store>& stores, const std::vector<KernelInstr>& code,
                      const Scope& scope) {
    for (const Store& s : stores) {
      if (!access_within(s.access, scope) || !is_value(code, s.value)) return wrong("a store");
      const BufferDecl& buffer = k_.buffers[k_.accesses[s.access].buffer];
      if (!buffer.written) return wrong("a store into a buffer that is only read");
      if (buffer.type != code[s.value].type)
        return wrong("a store of ", type_name(code[s.value].type), " into ", type_name(buffer.type));
    }
    return absl::OkStatus();
  }

  const LoopKernel& k_;
  int first_step_ = 0;     // the dimension of the first repeat
  std::vector<int> runs_;  // of each repeat: instructions that run it
};

}  // namespace

absl::Status verify(const LoopKernel& kernel) { return Verifier(kernel).run(); }

}  // namespace lamina::jit
