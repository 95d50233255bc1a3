#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include "jit/kernel/kernel.h"

namespace lamina::jit {
namespace {

using hlo::Prim;

// Abseil may be built with a string_view of its own.
std::string access_text(const Access& access) {
  std::string text = absl::StrCat("b", access.buffer, "[");
  text += access.offset_slot < 0 ? "0" : absl::StrCat("a", access.offset_slot);
  if (access.beside != 0) absl::StrAppend(&text, "+", static_cast<int>(access.beside));
  for (const AccessTerm& term : access.terms) {
    absl::StrAppend(&text, " + i", term.dim);
    if (term.unit == 0) absl::StrAppend(&text, "*a", term.stride_slot);
    if (term.unit != 0 && term.unit != 1) absl::StrAppend(&text, "*", static_cast<int>(term.unit));
  }
  return text + "]";
}

void append_operands(std::string* text, const uint32_t* operands, int count) {
  for (int k = 0; k < count; ++k) absl::StrAppend(text, k ? ", %" : " %", operands[k]);
}

void append_section(std::string* text, const std::vector<KernelInstr>& section) {
  for (size_t i = 0; i < section.size(); ++i) {
    const KernelInstr& instr = section[i];
    absl::StrAppend(text, "  %", i, " = ", type_name(instr.type), " ");
    switch (instr.op) {
      case KernelOp::kPrim:
        text->append(hlo::prim_name(instr.prim));
        append_operands(text, instr.operands, hlo::prim_arity(instr.prim));
        if (hlo::has_immediate(instr.prim)) absl::StrAppend(text, " 0x", absl::Hex(instr.imm));
        break;
      case KernelOp::kLoad:
        absl::StrAppend(text, "load x", instr.imm);
        if (instr.predicated) absl::StrAppend(text, " if %", instr.operands[0]);
        break;
      case KernelOp::kLoadAt:
        absl::StrAppend(text, "load_at b", instr.imm, " %", instr.operands[0]);
        if (instr.predicated) absl::StrAppend(text, " if %", instr.operands[1]);
        break;
      case KernelOp::kStoreAt:
        absl::StrAppend(text, "store_at b", instr.imm, " %", instr.operands[0], " %", instr.operands[1]);
        if (instr.predicated) absl::StrAppend(text, " if %", instr.operands[2]);
        break;
      case KernelOp::kCopy:
        absl::StrAppend(text, "copy b", instr.imm >> 32, " b", static_cast<uint32_t>(instr.imm), " %",
                        instr.operands[0]);
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
      case KernelOp::kRepeat:
        absl::StrAppend(text, "repeat p", instr.imm);
        break;
      case KernelOp::kRepeated:
        absl::StrAppend(text, "repeated %", instr.operands[0], " c", instr.imm);
        break;
      case KernelOp::kCarried:
        absl::StrAppend(text, "carried c", instr.imm);
        break;
      case KernelOp::kOuter:
        absl::StrAppend(text, "outer %", instr.imm);
        break;
    }
    text->push_back('\n');
  }
}

void append_program(std::string* text, absl::string_view name, const hlo::ScalarProgram& program) {
  absl::StrAppend(text, "  ", name, " (");
  for (size_t i = 0; i < program.inputs.size(); ++i)
    absl::StrAppend(text, i ? ", " : "", type_name(program.inputs[i]));
  text->append(")\n");
  for (size_t i = 0; i < program.code.size(); ++i) {
    const hlo::ScalarInstr& instr = program.code[i];
    absl::StrAppend(text, "  %", program.inputs.size() + i, " = ", type_name(instr.type), " ",
                    hlo::prim_name(instr.prim));
    append_operands(text, instr.operands, hlo::prim_arity(instr.prim));
    if (hlo::has_immediate(instr.prim)) absl::StrAppend(text, " 0x", absl::Hex(instr.imm));
    text->push_back('\n');
  }
  text->append("  return");
  append_operands(text, program.outputs.data(), static_cast<int>(program.outputs.size()));
  text->push_back('\n');
}

void append_stores(std::string* text, const std::vector<Store>& stores) {
  for (const Store& s : stores) absl::StrAppend(text, "  x", s.access, " = %", s.value, "\n");
}

void append_repeat(std::string* text, const Repeat& repeat, size_t number) {
  absl::StrAppend(text, "repeat p", number, repeat.counted ? " counted" : " while", " from");
  append_operands(text, repeat.init.data(), static_cast<int>(repeat.init.size()));
  text->push_back('\n');
  if (!repeat.counted) {
    append_section(text, repeat.cond);
    absl::StrAppend(text, " condition %", repeat.condition, "\n");
  }
  append_section(text, repeat.body);
  text->append(" next");
  append_operands(text, repeat.next.data(), static_cast<int>(repeat.next.size()));
  text->push_back('\n');
  append_stores(text, repeat.stores);
}

}  // namespace

std::string to_string(const LoopKernel& kernel) {
  std::string text = absl::StrCat("kernel 1 parallel ", static_cast<int>(kernel.parallel_rank), " reduce ",
                                  static_cast<int>(kernel.reduce_rank), " args ", kernel.num_args, "\n");
  for (size_t i = 0; i < kernel.buffers.size(); ++i)
    absl::StrAppend(&text, "  b", i, ": ", type_name(kernel.buffers[i].type),
                    kernel.buffers[i].written ? " out\n" : "\n");
  for (size_t i = 0; i < kernel.accesses.size(); ++i)
    absl::StrAppend(&text, "  x", i, ": ", access_text(kernel.accesses[i]), "\n");
  text += "body\n";
  append_section(&text, kernel.body);
  if (kernel.has_reduction) {
    const Reduction& r = kernel.reduction;
    text += "reduce";
    append_operands(&text, r.inputs.data(), static_cast<int>(r.inputs.size()));
    text += " init";
    for (uint32_t access : r.init) absl::StrAppend(&text, " x", access);
    text.push_back('\n');
    append_program(&text, "combine", r.combine);
    text += "epilogue\n";
    append_section(&text, kernel.epilogue);
  }
  if (kernel.before) {
    text += "sort\n";
    append_program(&text, "before", *kernel.before);
  }
  for (size_t i = 0; i < kernel.repeats.size(); ++i) append_repeat(&text, kernel.repeats[i], i);
  text += "stores\n";
  append_stores(&text, kernel.stores);
  return text += "end\n";
}

}  // namespace lamina::jit
