// What rows of the table of opcodes add to the operation that stands for an instruction.
#ifndef LAMINA_HLO_XLA_TEXT_TRANSLATE_H_
#define LAMINA_HLO_XLA_TEXT_TRANSLATE_H_

#include "hlo/xla_text/instruction.h"

namespace lamina::hlo::xla_text {

// The operation's results: `type`, or the elements of that tuple.
void set_result(const TypeTree& type, OpTree* op);

absl::Status slice(const Instruction& in, Ops* out);
absl::Status pad(const Instruction& in, Ops* out);
absl::Status gather(const Instruction& in, Ops* out);
absl::Status scatter(const Instruction& in, Ops* out);
absl::Status bitcast(const Instruction& in, Ops* out);
absl::Status compare(const Instruction& in, Ops* out);
absl::Status reduce_window(const Instruction& in, Ops* out);
absl::Status select_and_scatter(const Instruction& in, Ops* out);
absl::Status top_k(const Instruction& in, Ops* out);
absl::Status dot(const Instruction& in, Ops* out);
absl::Status convolution(const Instruction& in, Ops* out);
absl::Status triangular_solve(const Instruction& in, Ops* out);
absl::Status rng_bit_generator(const Instruction& in, Ops* out);
absl::Status rng(const Instruction& in, Ops* out);
absl::Status conditional(const Instruction& in, Ops* out);
absl::Status callee(const Instruction& in, Ops* out);
absl::Status custom_call(const Instruction& in, Ops* out);
absl::Status alone(const Instruction& in, Ops* out);

}  // namespace lamina::hlo::xla_text

#endif  // LAMINA_HLO_XLA_TEXT_TRANSLATE_H_
