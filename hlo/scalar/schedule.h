// The order in which a straight-line program runs, with what only rare cases need set apart.
//
// Contract: every instruction appears after its operands. What only the chosen operand of a `select_rare`
// needs stands right before that select, behind a guard: where the select's condition holds for no element of
// a group, the guarded instructions may be left out, and the select gives its other operand. Guarded runs
// nest. What a few selects need so, as sine and cosine of one number do, stands behind the guard of each; all
// else appears once.
#ifndef LAMINA_HLO_SCALAR_SCHEDULE_H_
#define LAMINA_HLO_SCALAR_SCHEDULE_H_

#include <cstdint>
#include <span>
#include <vector>

namespace lamina::hlo {

struct Scheduled {
  uint32_t instr;        // to run; of a guard: the select_rare
  uint32_t guarded = 0;  // a guard of so many following entries; 0 for an instruction
};

// One instruction as the schedule sees it: operands that are results of other instructions, by position.
struct ScheduleInput {
  std::vector<uint32_t> operands;
  int32_t rare_operand = -1;  // of a select_rare: the instruction that gives its rare operand, if one does
};

// `wanted`: instructions whose results are read from outside; they are never guarded.
std::vector<Scheduled> schedule(std::span<const ScheduleInput> code, const std::vector<bool>& wanted);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_SCALAR_SCHEDULE_H_
