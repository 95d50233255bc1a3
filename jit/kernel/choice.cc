#include "jit/kernel/choice.h"

#include <array>

namespace lamina::jit {
namespace {

using hlo::Prim;
using hlo::ScalarInstr;
using hlo::ScalarProgram;

// Comparisons see no more of two values than how they lie to each other.
struct Sample {
  int number = 0;
  bool nan = false;
  int input = -1;  // that it is, unchanged
};

// Runs a program of comparisons, logic and selections; false if it holds anything else.
bool run(const ScalarProgram& program, const std::array<Sample, 4>& inputs, std::array<int, 2>& chosen) {
  std::vector<Sample> values(inputs.begin(), inputs.end());
  for (const ScalarInstr& i : program.code) {
    const Sample a = values[i.operands[0]];
    const Sample b = hlo::prim_arity(i.prim) > 1 ? values[i.operands[1]] : Sample();
    const bool ordered = !a.nan && !b.nan;
    Sample r;
    switch (i.prim) {
      case Prim::eq:
        r.number = ordered && a.number == b.number;
        break;
      case Prim::ne:
        r.number = !ordered || a.number != b.number;
        break;
      case Prim::lt:
        r.number = ordered && a.number < b.number;
        break;
      case Prim::le:
        r.number = ordered && a.number <= b.number;
        break;
      case Prim::bit_and:
        r.number = a.number & b.number;
        break;
      case Prim::bit_or:
        r.number = a.number | b.number;
        break;
      case Prim::bit_not:
        r.number = !a.number;
        break;
      case Prim::select:
        r = a.number ? b : values[i.operands[2]];
        break;
      default:
        return false;
    }
    const bool is_logic = i.prim == Prim::bit_and || i.prim == Prim::bit_or || i.prim == Prim::bit_not;
    if (is_logic && i.type != DType::kBool) return false;
    values.push_back(r);
  }
  for (size_t v = 0; v < 2; ++v) chosen[v] = values[program.outputs[v]].input;
  return true;
}

// Whether it is that choice, whatever values and positions meet.
bool chooses(const ScalarProgram& program, bool largest, bool has_nan) {
  for (const int first : {-1, 0, 1})
    for (const int nans : {0, 1, 2, 3})
      for (const bool earlier : {false, true}) {
        if (nans && !has_nan) continue;
        const bool a_nan = nans & 1, b_nan = nans & 2;
        const std::array<Sample, 4> inputs = {Sample{first, a_nan, 0}, Sample{earlier ? 0 : 1, false, 1},
                                              Sample{0, b_nan, 2}, Sample{earlier ? 1 : 0, false, 3}};
        const bool a_first = a_nan || b_nan ? a_nan && (!b_nan || earlier)
                             : first == 0   ? earlier
                                            : (first > 0) == largest;
        std::array<int, 2> chosen;
        if (!run(program, inputs, chosen)) return false;
        if (chosen != (a_first ? std::array<int, 2>{0, 1} : std::array<int, 2>{2, 3})) return false;
      }
  return true;
}

}  // namespace

std::optional<Choice> choice_of(const LoopKernel& kernel) {
  const Reduction& r = kernel.reduction;
  if (!kernel.has_reduction || kernel.reduce_rank != 1 || r.inputs.size() != 2) return std::nullopt;
  const KernelInstr* position = &kernel.body[r.inputs[1]];
  if (position->op == KernelOp::kPrim && position->prim == Prim::convert &&
      hlo::byte_size(position->type) >= 4)
    position = &kernel.body[position->operands[0]];
  if (position->op != KernelOp::kIndex || position->imm != kernel.parallel_rank) return std::nullopt;
  return choice_of(r.combine);
}

std::optional<Choice> choice_of(const ScalarProgram& combine) {
  if (combine.inputs.size() != 4) return std::nullopt;
  const DType value = combine.inputs[0], index = combine.inputs[1];
  if (hlo::is_storage_float(value) || hlo::is_float(index)) return std::nullopt;
  for (const bool largest : {true, false})
    if (chooses(combine, largest, hlo::is_float(value))) return Choice{largest};
  return std::nullopt;
}

}  // namespace lamina::jit
