#include "hlo/scalar/program.h"

#include <array>

#include "absl/strings/str_format.h"
#include "hlo/scalar/check.h"
#include "hlo/scalar/kernels.h"
#include "hlo/scalar/narrow.h"
#include "hlo/scalar/primitives.h"
#include "hlo/scalar/tables.h"

namespace lamina::hlo {
namespace {

std::string dtype_name(DType t) { return std::string(info(t).name); }

bool is_commutative(Prim p) {
  switch (p) {
    case Prim::add:
    case Prim::mul:
    case Prim::mul_high:
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::eq:
    case Prim::ne:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool prim_accepts(Prim prim, DType result, std::span<const DType> operands, uint64_t imm) {
  return prim_fault(prim, result, operands, imm).empty();
}

std::string to_string(const ScalarProgram& program) {
  std::string text;
  const auto define = [&](size_t value) {
    absl::StrAppendFormat(&text, "%%%d: %s = ", value,
                          dtype_name(program.type_of(static_cast<uint32_t>(value))));
  };
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    define(i);
    text += "input\n";
  }
  for (size_t i = 0; i < program.code.size(); ++i) {
    const ScalarInstr& instr = program.code[i];
    define(program.inputs.size() + i);
    text += prim_name(instr.prim);
    for (int k = 0; k < prim_arity(instr.prim); ++k)
      absl::StrAppendFormat(&text, "%s%d", k ? ", %" : " %", instr.operands[k]);
    if (has_immediate(instr.prim)) {
      absl::StrAppendFormat(&text, " 0x%x", instr.imm);
      if (instr.prim == Prim::constant && instr.type == DType::kF64)
        absl::StrAppendFormat(&text, " (%.17g)", std::bit_cast<double>(instr.imm));
      if (instr.prim == Prim::constant && instr.type == DType::kF32)
        absl::StrAppendFormat(&text, " (%.9g)", std::bit_cast<float>(static_cast<uint32_t>(instr.imm)));
    }
    text += '\n';
  }
  text += "return";
  for (size_t i = 0; i < program.outputs.size(); ++i)
    absl::StrAppendFormat(&text, "%s%d", i ? ", %" : " %", program.outputs[i]);
  text += '\n';
  return text;
}

ScalarRecorder::ScalarRecorder(std::span<const DType> inputs) {
  program_.inputs.assign(inputs.begin(), inputs.end());
  for (DType t : inputs) LAMINA_SCALAR_CHECK(!is_complex(t), "programs take parts, not complex values");
}

Scalar ScalarRecorder::input(int i) {
  LAMINA_SCALAR_CHECK(i >= 0 && static_cast<size_t>(i) < program_.inputs.size(), "no such input");
  return Scalar(this, static_cast<uint32_t>(i), program_.inputs[i]);
}

const ScalarInstr* ScalarRecorder::definition(uint32_t value) const {
  const size_t n = program_.inputs.size();
  return value < n ? nullptr : &program_.code[value - n];
}

Scalar ScalarRecorder::append(const ScalarInstr& instr) {
  const uint32_t next = static_cast<uint32_t>(program_.inputs.size() + program_.code.size());
  const auto [it, fresh] = known_.try_emplace(instr, next);
  if (fresh) program_.code.push_back(instr);
  return Scalar(this, it->second, instr.type);
}

Scalar ScalarRecorder::constant_bits(DType type, uint64_t bits) {
  const int width = static_cast<int>(byte_size(type)) * 8;
  if (type == DType::kBool) bits &= 1;
  if (is_narrow(type)) {
    bits &= (uint64_t{1} << bit_width(type)) - 1;
    if (is_signed(type) && bits >> (bit_width(type) - 1) != 0) bits |= ~uint64_t{0} << bit_width(type);
  }
  if (width < 64) bits &= (uint64_t{1} << width) - 1;
  return append({.prim = Prim::constant, .type = type, .imm = bits});
}

Scalar ScalarRecorder::constant(DType type, double value) {
  const Scalar wide = constant_bits(DType::kF64, std::bit_cast<uint64_t>(value));
  return type == DType::kF64 ? wide : emit(Prim::convert, type, std::array{wide});
}

Scalar ScalarRecorder::emit(Prim prim, DType result, std::span<const Scalar> operands, uint64_t imm) {
  if (prim == Prim::constant) return constant_bits(result, imm);
  std::array<DType, 3> types{};
  LAMINA_SCALAR_CHECK(operands.size() <= types.size(), "too many operands");
  for (size_t i = 0; i < operands.size(); ++i) {
    LAMINA_SCALAR_CHECK(operands[i].recorder() == this, "a scalar of another recording");
    types[i] = operands[i].type();
  }
  if ((prim == Prim::convert || prim == Prim::bitcast) && types[0] == result) return operands[0];
  if ((is_narrow(result) || is_narrow(types[0])) && prim != Prim::bitcast && !is_select(prim))
    return scalar::record_narrow(prim, result, operands);
  LAMINA_SCALAR_CHECK(
      prim_accepts(prim, result, std::span(types).first(operands.size()), imm),
      absl::StrFormat("%s of %s to %s", prim_name(prim), dtype_name(types[0]), dtype_name(result)));

  ScalarInstr instr{.prim = prim, .type = result, .imm = imm};
  bool foldable = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    instr.operands[i] = operands[i].id();
    const ScalarInstr* def = definition(operands[i].id());
    foldable &= def != nullptr && def->prim == Prim::constant;
  }
  if (is_select(prim)) {
    if (instr.operands[1] == instr.operands[2]) return operands[1];
    const ScalarInstr* def = definition(instr.operands[0]);
    if (def != nullptr && def->prim == Prim::constant) return operands[def->imm != 0 ? 1 : 2];
  }
  if (foldable) {
    uint64_t values[3] = {0, 0, 0};
    uint64_t folded = 0;
    for (size_t i = 0; i < operands.size(); ++i) values[i] = definition(instr.operands[i])->imm;
    const DType operand = is_select(prim) ? result : types[0];
    const void* const second = prim == Prim::lookup ? scalar::table(result, imm) : &values[1];
    find_kernel(prim, result, operand)(&folded, &values[0], second, &values[2], 1);
    return constant_bits(result, folded);
  }
  // One order of operands, which is the same wherever a function is recorded again: a constant may be older.
  if (is_commutative(prim)) {
    const auto place = [&](uint32_t v) {
      const ScalarInstr* def = definition(v);
      return std::pair(def != nullptr && def->prim == Prim::constant, v);
    };
    if (place(instr.operands[1]) < place(instr.operands[0])) std::swap(instr.operands[0], instr.operands[1]);
  }
  return append(instr);
}

std::vector<Scalar> ScalarRecorder::inline_program(const ScalarProgram& program,
                                                   std::span<const Scalar> inputs) {
  LAMINA_SCALAR_CHECK(inputs.size() == program.inputs.size(), "wrong number of inputs");
  std::vector<Scalar> values(inputs.begin(), inputs.end());
  for (size_t i = 0; i < inputs.size(); ++i)
    LAMINA_SCALAR_CHECK(inputs[i].type() == program.inputs[i], "wrong type of input");
  for (const ScalarInstr& instr : program.code) {
    Scalar operands[3];
    const int arity = prim_arity(instr.prim);
    for (int k = 0; k < arity; ++k) operands[k] = values[instr.operands[k]];
    values.push_back(emit(instr.prim, instr.type, std::span(operands, arity), instr.imm));
  }
  std::vector<Scalar> outputs;
  for (uint32_t o : program.outputs) outputs.push_back(values[o]);
  return outputs;
}

ScalarProgram ScalarRecorder::finish(std::span<const Scalar> outputs) {
  const size_t num_inputs = program_.inputs.size();
  std::vector<bool> live(program_.code.size(), false);
  for (const Scalar& o : outputs) {
    LAMINA_SCALAR_CHECK(o.recorder() == this, "a scalar of another recording");
    if (o.id() >= num_inputs) live[o.id() - num_inputs] = true;
  }
  for (size_t i = live.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (int k = 0; k < prim_arity(program_.code[i].prim); ++k) {
      const uint32_t v = program_.code[i].operands[k];
      if (v >= num_inputs) live[v - num_inputs] = true;
    }
  }
  ScalarProgram result{.inputs = program_.inputs, .code = {}, .outputs = {}};
  std::vector<uint32_t> renamed(num_inputs + live.size());
  for (size_t i = 0; i < num_inputs; ++i) renamed[i] = static_cast<uint32_t>(i);
  for (size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    ScalarInstr instr = program_.code[i];
    for (int k = 0; k < prim_arity(instr.prim); ++k) instr.operands[k] = renamed[instr.operands[k]];
    renamed[num_inputs + i] = static_cast<uint32_t>(num_inputs + result.code.size());
    result.code.push_back(instr);
  }
  for (const Scalar& o : outputs) result.outputs.push_back(renamed[o.id()]);
  return result;
}

}  // namespace lamina::hlo
