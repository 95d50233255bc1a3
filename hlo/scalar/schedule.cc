#include "hlo/scalar/schedule.h"

#include <algorithm>

namespace lamina::hlo {

std::vector<Scheduled> schedule(std::span<const ScheduleInput> code, const std::vector<bool>& wanted) {
  // owner[i]: the select_rare that alone needs instruction i, or nobody. Users stand behind what they use, so
  // one walk backwards sees all users of an instruction before the instruction itself.
  constexpr int32_t kUnused = -1, kNobody = -2;
  const size_t n = code.size();
  std::vector<int32_t> owner(n, kUnused);
  auto use = [&](uint32_t operand, int32_t by) {
    if (owner[operand] == kUnused) {
      owner[operand] = by;
      return;
    }
    // Two users: the innermost select around both. Owners stand behind what they own.
    int32_t a = owner[operand], b = by;
    while (a != b && a != kNobody && b != kNobody) {
      int32_t& first = a < b ? a : b;
      first = owner[first];
    }
    owner[operand] = a == b ? a : kNobody;
  };
  for (size_t i = n; i-- > 0;) {
    if (wanted[i] || owner[i] == kUnused) owner[i] = kNobody;
    const std::vector<uint32_t>& operands = code[i].operands;
    for (uint32_t operand : operands) {
      // An operand used both ways is needed in any case.
      const bool rare = static_cast<int32_t>(operand) == code[i].rare_operand &&
                        std::count(operands.begin(), operands.end(), operand) == 1;
      use(operand, rare ? static_cast<int32_t>(i) : owner[i]);
    }
  }

  std::vector<std::vector<uint32_t>> owned(n);
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < n; ++i) (owner[i] < 0 ? free : owned[owner[i]]).push_back(i);
  std::vector<Scheduled> order;
  order.reserve(n);
  // Nesting is as deep as rare cases stand within rare cases: an explicit stack of (list, position, guard).
  struct Frame {
    const std::vector<uint32_t>* list;
    size_t next;
    size_t guard;
  };
  std::vector<Frame> stack{{&free, 0, 0}};
  while (!stack.empty()) {
    Frame& frame = stack.back();
    if (frame.next == frame.list->size()) {
      stack.pop_back();
      if (!stack.empty()) {
        order[frame.guard].guarded = static_cast<uint32_t>(order.size() - frame.guard - 1);
        const uint32_t select = order[frame.guard].instr;
        order.push_back({select});
      }
      continue;
    }
    const uint32_t i = (*frame.list)[frame.next++];
    order.push_back({i});
    if (!owned[i].empty()) stack.push_back({&owned[i], 0, order.size() - 1});
  }
  return order;
}

}  // namespace lamina::hlo
