#include "jit/loop_kernel.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

namespace lamina::jit {
namespace {

using hlo::Prim;

// Abseil may be built with a string_view of its own.
absl::string_view name(DType t) { return {hlo::info(t).name.data(), hlo::info(t).name.size()}; }

std::string access_text(const Access& access) {
  std::string text = absl::StrCat("b", access.buffer, "[");
  text += access.offset_slot < 0 ? "0" : absl::StrCat("a", access.offset_slot);
  for (const AccessTerm& term : access.terms) {
    absl::StrAppend(&text, " + i", term.dim);
    if (term.unit == 0) absl::StrAppend(&text, "*a", term.stride_slot);
    if (term.unit == 2) text += "*2";
  }
  return text + "]";
}

void append_operands(std::string* text, const uint32_t* operands, int count) {
  for (int k = 0; k < count; ++k) absl::StrAppend(text, k ? ", %" : " %", operands[k]);
}

void append_section(std::string* text, const std::vector<KernelInstr>& section) {
  for (size_t i = 0; i < section.size(); ++i) {
    const KernelInstr& instr = section[i];
    absl::StrAppend(text, "  %", i, " = ", name(instr.type), " ");
    switch (instr.op) {
      case KernelOp::kPrim:
        text->append(hlo::prim_name(instr.prim));
        append_operands(text, instr.operands, hlo::prim_arity(instr.prim));
        if (instr.prim == Prim::constant) absl::StrAppend(text, " 0x", absl::Hex(instr.imm));
        break;
      case KernelOp::kLoad:
        absl::StrAppend(text, "load x", instr.imm);
        if (instr.predicated) absl::StrAppend(text, " if %", instr.operands[0]);
        break;
      case KernelOp::kLoadAt:
        absl::StrAppend(text, "load_at b", instr.imm, " %", instr.operands[0]);
        if (instr.predicated) absl::StrAppend(text, " if %", instr.operands[1]);
        break;
      case KernelOp::kIndex:
        absl::StrAppend(text, "index i", instr.imm);
        break;
      case KernelOp::kArg:
        absl::StrAppend(text, "arg a", instr.imm);
        break;
      case KernelOp::kReduced:
        absl::StrAppend(text, "reduced r", instr.imm);
        break;
    }
    text->push_back('\n');
  }
}

template <class... Parts>
absl::Status wrong(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("malformed kernel: ", parts...));
}

// Types of one primitive: what is wrong with them, or nothing.
std::string prim_fault(Prim prim, DType r, const DType* o) {
  auto no = [&](absl::string_view why) {
    return absl::StrCat(hlo::prim_name(prim), " of type ", name(r), ": ", why);
  };
  const int arity = hlo::prim_arity(prim);
  for (int k = 0; k < arity; ++k)
    if (hlo::is_complex(o[k])) return no("an operand is complex");
  if (hlo::is_complex(r)) return no("the result is complex");
  auto same = [&](int from) {
    for (int k = from; k < arity; ++k)
      if (o[k] != r) return false;
    return true;
  };
  const bool real = hlo::is_float(r) && !hlo::is_half(r);
  switch (prim) {
    case Prim::constant:
    case Prim::convert:
      return "";
    case Prim::add:
    case Prim::sub:
    case Prim::mul:
    case Prim::div:
    case Prim::neg:
    case Prim::abs:
      return same(0) && (real || hlo::is_integer(r)) ? ""
                                                     : no("operands must be numbers of the result's type");
    case Prim::fma:
    case Prim::sqrt:
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round_even:
      return same(0) && real ? "" : no("operands must be f32 or f64 as the result");
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::bit_not:
      return same(0) && (hlo::is_integer(r) || hlo::is_bool(r)) ? ""
                                                                : no("operands must be integers or pred");
    case Prim::rem:
    case Prim::shl:
    case Prim::shr_logical:
    case Prim::shr_arithmetic:
    case Prim::popcount:
    case Prim::count_leading_zeros:
      return same(0) && hlo::is_integer(r) ? "" : no("operands must be integers of the result's type");
    case Prim::mul_high:
      return same(0) && (r == DType::kU32 || r == DType::kU64) ? "" : no("operands must be u32 or u64");
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
      return hlo::is_bool(r) && o[0] == o[1] && !hlo::is_half(o[0]) ? ""
                                                                    : no("gives pred from two of one type");
    case Prim::select:
    case Prim::select_rare:
      return hlo::is_bool(o[0]) && same(1) ? "" : no("takes pred and two of the result's type");
    case Prim::bitcast:
      return !hlo::is_bool(r) && !hlo::is_bool(o[0]) && hlo::byte_size(r) == hlo::byte_size(o[0])
                 ? ""
                 : no("widths differ");
  }
  return "unknown primitive";
}

class Verifier {
 public:
  explicit Verifier(const LoopKernel& kernel) : k_(kernel) {}

  absl::Status run() {
    const int rank = k_.parallel_rank + k_.reduce_rank;
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
      for (const AccessTerm& t : a.terms) {
        if (t.dim >= rank) return wrong("an access along dimension ", static_cast<int>(t.dim));
        if (t.unit > 2) return wrong("a known stride of ", static_cast<int>(t.unit));
        if (!t.unit && t.stride_slot >= k_.num_args) return wrong("a stride in argument ", t.stride_slot);
      }
    }
    if (absl::Status s = section(k_.body, "body", rank, false); !s.ok()) return s;
    if (!k_.has_reduction) {
      if (!k_.epilogue.empty()) return wrong("an epilogue without a reduction");
      return stores(k_.body);
    }
    if (absl::Status s = reduction(); !s.ok()) return s;
    if (absl::Status s = section(k_.epilogue, "epilogue", k_.parallel_rank, true); !s.ok()) return s;
    return stores(k_.epilogue);
  }

 private:
  bool access_within(uint64_t access, int rank) const {
    if (access >= k_.accesses.size()) return false;
    for (const AccessTerm& t : k_.accesses[access].terms)
      if (t.dim >= rank) return false;
    return true;
  }

  absl::Status section(const std::vector<KernelInstr>& code, absl::string_view where, int rank,
                       bool epilogue) {
    for (size_t i = 0; i < code.size(); ++i) {
      const KernelInstr& instr = code[i];
      auto bad = [&](const auto&... parts) { return wrong(where, " %", i, ": ", parts...); };
      auto type_of = [&](int k) { return code[instr.operands[k]].type; };
      if (static_cast<int>(instr.type) >= hlo::kNumDTypes || hlo::is_complex(instr.type))
        return bad("no part type");
      int operands = 0;
      if (instr.op == KernelOp::kPrim) {
        if (instr.prim > Prim::convert) return bad("unknown primitive");
        operands = hlo::prim_arity(instr.prim);
      } else if (instr.op == KernelOp::kLoad) {
        operands = instr.predicated ? 1 : 0;
      } else if (instr.op == KernelOp::kLoadAt) {
        operands = instr.predicated ? 2 : 1;
      }
      for (int k = 0; k < operands; ++k)
        if (instr.operands[k] >= i) return bad("operand %", instr.operands[k], " is not defined yet");
      if (instr.predicated && operands > 0 && !hlo::is_bool(type_of(operands - 1)))
        return bad("the predicate is ", name(type_of(operands - 1)));
      switch (instr.op) {
        case KernelOp::kPrim: {
          DType types[3] = {};
          for (int k = 0; k < operands; ++k) types[k] = type_of(k);
          if (std::string fault = prim_fault(instr.prim, instr.type, types); !fault.empty())
            return bad(fault);
          break;
        }
        case KernelOp::kLoad:
          if (!access_within(instr.imm, rank)) return bad("no access ", instr.imm, " here");
          if (k_.buffers[k_.accesses[instr.imm].buffer].type != instr.type)
            return bad("type differs from the buffer's");
          break;
        case KernelOp::kLoadAt:
          if (instr.imm >= k_.buffers.size()) return bad("no buffer ", instr.imm);
          if (k_.buffers[instr.imm].type != instr.type) return bad("type differs from the buffer's");
          if (type_of(0) != DType::kS64) return bad("the position is not s64");
          break;
        case KernelOp::kIndex:
          if (instr.imm >= static_cast<uint64_t>(rank)) return bad("no dimension ", instr.imm, " here");
          if (instr.type != DType::kS64) return bad("an index is s64");
          break;
        case KernelOp::kArg:
          if (instr.imm >= k_.num_args) return bad("no argument ", instr.imm);
          if (instr.type != DType::kS64) return bad("an argument is s64");
          break;
        case KernelOp::kReduced:
          if (!epilogue || instr.imm >= k_.reduction.inputs.size())
            return bad("no reduction result ", instr.imm);
          if (k_.reduction.combine.inputs[instr.imm] != instr.type)
            return bad("type differs from the result's");
          break;
        default:
          return bad("unknown operation");
      }
    }
    return absl::OkStatus();
  }

  absl::Status reduction() {
    const Reduction& r = k_.reduction;
    const size_t m = r.inputs.size();
    if (m == 0 || r.init.size() != m || r.combine.inputs.size() != 2 * m || r.combine.outputs.size() != m)
      return wrong("a reduction of ", m, " values has ", r.init.size(), " inits and a combiner of ",
                   r.combine.inputs.size(), " inputs and ", r.combine.outputs.size(), " outputs");
    if (r.form != ReduceForm::kAlongReduced && r.form != ReduceForm::kAcrossParallel)
      return wrong("unknown form");
    size_t known = 2 * m;
    for (const hlo::ScalarInstr& instr : r.combine.code) {
      if (instr.prim > Prim::convert || static_cast<int>(instr.type) >= hlo::kNumDTypes)
        return wrong("unknown primitive in the combiner");
      DType types[3] = {};
      for (int k = 0; k < hlo::prim_arity(instr.prim); ++k) {
        if (instr.operands[k] >= known) return wrong("the combiner uses a value before it is defined");
        types[k] = r.combine.type_of(instr.operands[k]);
      }
      if (std::string fault = prim_fault(instr.prim, instr.type, types); !fault.empty())
        return wrong("combiner: ", fault);
      ++known;
    }
    for (size_t v = 0; v < m; ++v) {
      const DType t = r.combine.inputs[v];
      if (hlo::is_complex(t) || r.inputs[v] >= k_.body.size() || k_.body[r.inputs[v]].type != t ||
          r.combine.inputs[m + v] != t || r.combine.outputs[v] >= known ||
          r.combine.type_of(r.combine.outputs[v]) != t)
        return wrong("types of reduced value ", v, " differ");
      if (!access_within(r.init[v], k_.parallel_rank) || k_.buffers[k_.accesses[r.init[v]].buffer].type != t)
        return wrong("the init of reduced value ", v);
    }
    return absl::OkStatus();
  }

  absl::Status stores(const std::vector<KernelInstr>& code) {
    for (const Store& s : k_.stores) {
      if (!access_within(s.access, k_.parallel_rank) || s.value >= code.size()) return wrong("a store");
      const BufferDecl& buffer = k_.buffers[k_.accesses[s.access].buffer];
      if (!buffer.written) return wrong("a store into a buffer that is only read");
      if (buffer.type != code[s.value].type)
        return wrong("a store of ", name(code[s.value].type), " into ", name(buffer.type));
    }
    return absl::OkStatus();
  }

  const LoopKernel& k_;
};

}  // namespace

std::string to_string(const LoopKernel& kernel) {
  std::string text = absl::StrCat("kernel parallel ", static_cast<int>(kernel.parallel_rank), " reduce ",
                                  static_cast<int>(kernel.reduce_rank), " args ", kernel.num_args, "\n");
  for (size_t i = 0; i < kernel.buffers.size(); ++i)
    absl::StrAppend(&text, "  b", i, ": ", name(kernel.buffers[i].type),
                    kernel.buffers[i].written ? " out\n" : "\n");
  for (size_t i = 0; i < kernel.accesses.size(); ++i)
    absl::StrAppend(&text, "  x", i, ": ", access_text(kernel.accesses[i]), "\n");
  text += "body\n";
  append_section(&text, kernel.body);
  if (kernel.has_reduction) {
    const Reduction& r = kernel.reduction;
    text += r.form == ReduceForm::kAlongReduced ? "reduce along" : "reduce across";
    append_operands(&text, r.inputs.data(), static_cast<int>(r.inputs.size()));
    text += " init";
    for (uint32_t access : r.init) absl::StrAppend(&text, " x", access);
    text += "\n  combine (";
    for (size_t i = 0; i < r.combine.inputs.size(); ++i)
      absl::StrAppend(&text, i ? ", " : "", name(r.combine.inputs[i]));
    text += ")\n";
    for (size_t i = 0; i < r.combine.code.size(); ++i) {
      const hlo::ScalarInstr& instr = r.combine.code[i];
      absl::StrAppend(&text, "  %", r.combine.inputs.size() + i, " = ", name(instr.type), " ",
                      hlo::prim_name(instr.prim));
      append_operands(&text, instr.operands, hlo::prim_arity(instr.prim));
      if (instr.prim == Prim::constant) absl::StrAppend(&text, " 0x", absl::Hex(instr.imm));
      text.push_back('\n');
    }
    text += "  return";
    append_operands(&text, r.combine.outputs.data(), static_cast<int>(r.combine.outputs.size()));
    text += "\nepilogue\n";
    append_section(&text, kernel.epilogue);
  }
  text += "stores\n";
  for (const Store& s : kernel.stores) absl::StrAppend(&text, "  x", s.access, " = %", s.value, "\n");
  return text;
}

absl::Status verify(const LoopKernel& kernel) { return Verifier(kernel).run(); }

}  // namespace lamina::jit
