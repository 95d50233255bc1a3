#include "hlo/scalar/program.h"

#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

struct PrimInfo {
  const char* name;
  int arity;
};
constexpr PrimInfo kPrims[] = {
#define PRIM(name, arity, meaning) {#name, arity},
#include "hlo/scalar/primitives.def"
#undef PRIM
};

struct InstrHash {
  size_t operator()(const ScalarInstr& i) const {
    return absl::HashOf(i.prim, i.type, i.operands[0], i.operands[1], i.operands[2], i.imm);
  }
};

}  // namespace

int prim_arity(Prim p) { return kPrims[static_cast<int>(p)].arity; }
const char* prim_name(Prim p) { return kPrims[static_cast<int>(p)].name; }

std::string to_string(const ScalarProgram& program) {
  std::string out = "in";
  for (DType t : program.inputs) str_append(&out, " ", info(t).name);
  str_append(&out, "\n");
  for (size_t i = 0; i < program.code.size(); ++i) {
    const ScalarInstr& c = program.code[i];
    str_append(&out, "%", program.inputs.size() + i, " = ", info(c.type).name, " ", prim_name(c.prim));
    if (c.prim == Prim::constant) str_append(&out, " ", absl::Hex(c.imm));
    for (int a = 0; a < prim_arity(c.prim); ++a) str_append(&out, " %", c.operands[a]);
    str_append(&out, "\n");
  }
  str_append(&out, "out");
  for (uint32_t o : program.outputs) str_append(&out, " %", o);
  return out + "\n";
}

struct ScalarRecorder::Known {
  absl::flat_hash_map<ScalarInstr, uint32_t, InstrHash> map;
};

ScalarRecorder::ScalarRecorder(std::span<const DType> inputs) : known_(new Known) {
  program_.inputs.assign(inputs.begin(), inputs.end());
}
ScalarRecorder::~ScalarRecorder() = default;

Scalar ScalarRecorder::input(int i) { return Scalar(this, static_cast<uint32_t>(i), program_.inputs[i]); }

Scalar ScalarRecorder::emit(Prim prim, DType result, std::span<const Scalar> operands, uint64_t imm) {
  ScalarInstr instr{prim, result, {0, 0, 0}, imm};
  bool folds = !operands.empty();
  for (size_t i = 0; i < operands.size(); ++i) {
    instr.operands[i] = operands[i].id();
    const uint32_t id = operands[i].id();
    folds &= id >= program_.inputs.size() && program_.code[id - program_.inputs.size()].prim == Prim::constant;
  }
  if (folds) {
    // A program of constants and this instruction, run once.
    ScalarProgram p;
    for (size_t i = 0; i < operands.size(); ++i) {
      p.code.push_back(program_.code[operands[i].id() - program_.inputs.size()]);
      instr.operands[i] = static_cast<uint32_t>(i);
    }
    p.code.push_back(instr);
    p.outputs = {static_cast<uint32_t>(operands.size())};
    alignas(16) unsigned char bytes[16] = {};
    void* out[] = {bytes};
    interpret(p, {}, out, 1);
    uint64_t bits = 0;
    std::memcpy(&bits, bytes, byte_size(result));
    return constant_bits(result, bits);
  }
  auto [it, inserted] =
      known_->map.try_emplace(instr, static_cast<uint32_t>(program_.inputs.size() + program_.code.size()));
  if (inserted) program_.code.push_back(instr);
  return Scalar(this, it->second, result);
}

Scalar ScalarRecorder::constant_bits(DType type, uint64_t bits) { return emit(Prim::constant, type, {}, bits); }

Scalar ScalarRecorder::constant(DType type, double value) {
  const Scalar wide = constant_bits(DType::kF64, std::bit_cast<uint64_t>(value));
  return type == DType::kF64 ? wide : emit(Prim::convert, type, std::span(&wide, 1));
}

std::vector<Scalar> ScalarRecorder::inline_program(const ScalarProgram& program, std::span<const Scalar> inputs) {
  std::vector<Scalar> values(inputs.begin(), inputs.end());
  for (const ScalarInstr& i : program.code) {
    Scalar operands[3];
    const int arity = prim_arity(i.prim);
    for (int a = 0; a < arity; ++a) operands[a] = values[i.operands[a]];
    values.push_back(emit(i.prim, i.type, std::span(operands, arity), i.imm));
  }
  std::vector<Scalar> outputs;
  for (uint32_t o : program.outputs) outputs.push_back(values[o]);
  return outputs;
}

ScalarProgram ScalarRecorder::finish(std::span<const Scalar> outputs) {
  const size_t n = program_.inputs.size();
  std::vector<bool> live(n + program_.code.size(), false);
  for (const Scalar& o : outputs) live[o.id()] = true;
  for (size_t i = program_.code.size(); i-- > 0;) {
    if (!live[n + i]) continue;
    for (int a = 0; a < prim_arity(program_.code[i].prim); ++a) live[program_.code[i].operands[a]] = true;
  }
  ScalarProgram out;
  out.inputs = program_.inputs;
  std::vector<uint32_t> number(live.size());
  for (size_t i = 0; i < n; ++i) number[i] = static_cast<uint32_t>(i);
  for (size_t i = 0; i < program_.code.size(); ++i) {
    if (!live[n + i]) continue;
    ScalarInstr instr = program_.code[i];
    for (int a = 0; a < prim_arity(instr.prim); ++a) instr.operands[a] = number[instr.operands[a]];
    number[n + i] = static_cast<uint32_t>(n + out.code.size());
    out.code.push_back(instr);
  }
  for (const Scalar& o : outputs) out.outputs.push_back(number[o.id()]);
  return out;
}

}  // namespace lamina::hlo
