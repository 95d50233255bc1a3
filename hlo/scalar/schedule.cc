#include "hlo/scalar/schedule.h"

#include <algorithm>

namespace lamina::hlo {

namespace {

// The select_rares that alone need an instruction, none of which stands behind a guard of another one's.
using Owners = std::vector<int32_t>;
constexpr int32_t kNobody = -1;
// Code behind more guards than these is made once, behind none.
constexpr size_t kMostOwners = 3;

class Ownership {
 public:
  Ownership(std::span<const ScheduleInput> code, const std::vector<bool>& wanted) : owners_(code.size()) {
    // Users stand behind what they use, so one walk backwards sees all users of an instruction before the
    // instruction itself.
    for (size_t i = code.size(); i-- > 0;) {
      if (wanted[i] || owners_[i].empty()) owners_[i] = {kNobody};
      const std::vector<uint32_t>& operands = code[i].operands;
      for (uint32_t operand : operands) {
        // An operand used both ways is needed in any case.
        const bool rare = static_cast<int32_t>(operand) == code[i].rare_operand &&
                          std::count(operands.begin(), operands.end(), operand) == 1;
        if (rare)
          add(owners_[operand], static_cast<int32_t>(i));
        else
          for (int32_t by : owners_[i]) add(owners_[operand], by);
      }
    }
  }
  // kNobody alone: it is not guarded.
  const Owners& of(size_t i) const { return owners_[i]; }

 private:
  // The owner, what owns it, and so on; empty where one of them has several owners.
  Owners chain(int32_t owner) const {
    Owners out;
    for (; owner != kNobody; owner = owners_[owner][0]) {
      out.push_back(owner);
      if (owners_[owner].size() > 1) return {};
    }
    return out;
  }

  void add(Owners& owners, int32_t by) {
    if (by == kNobody || (!owners.empty() && owners[0] == kNobody)) {
      owners = {kNobody};
      return;
    }
    for (int32_t& o : owners) {
      if (o == by) return;
      const Owners a = chain(o), b = chain(by);
      if (a.empty() || b.empty()) {
        owners = {kNobody};
        return;
      }
      // Two users behind one guard: the innermost around both.
      const auto common = std::find_first_of(a.begin(), a.end(), b.begin(), b.end());
      if (common == a.end()) continue;
      o = *common;
      return;
    }
    owners.push_back(by);
    if (owners.size() > kMostOwners) owners = {kNobody};
  }

  std::vector<Owners> owners_;
};

}  // namespace

std::vector<Scheduled> schedule(std::span<const ScheduleInput> code, const std::vector<bool>& wanted) {
  const size_t n = code.size();
  const Ownership owners(code, wanted);
  std::vector<std::vector<uint32_t>> owned(n);
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < n; ++i)
    for (int32_t owner : owners.of(i)) (owner == kNobody ? free : owned[owner]).push_back(i);
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
