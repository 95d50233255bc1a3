// Where a step finds the operands and results of a node.
#ifndef LAMINA_JIT_PROGRAM_NODE_SLOTS_H_
#define LAMINA_JIT_PROGRAM_NODE_SLOTS_H_

#include <span>
#include <vector>

#include "hlo/graph.h"
#include "jit/program/step.h"

namespace lamina::jit {

// Slots, and once placed their places (Step::place).
struct NodeSlots {
  std::vector<int> operands, results;
  std::vector<const hlo::Type*> operand_types, result_types;

  // `reads` are what stands for the operands, if they do not stand for themselves (cluster/read_through.h).
  NodeSlots(const hlo::Node& n, const SlotOf& slot_of, std::span<const hlo::Value> reads = {}) {
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const hlo::Value operand = reads.empty() ? n.operand_value(i) : reads[i];
      operands.push_back(slot_of(operand));
      operand_types.push_back(operand.type());
    }
    for (uint32_t i = 0; i < n.num_results(); ++i) {
      results.push_back(slot_of(hlo::Value(const_cast<hlo::Node*>(&n), i)));
      result_types.push_back(n.result_type(i));
    }
  }

  void place(std::span<const int> of_slot) {
    for (int& o : operands) o = of_slot[o];
    for (int& r : results) r = of_slot[r];
  }
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_NODE_SLOTS_H_
