// How the lanes of a batch go on where their branches and loops differ.
//
// Contract: all strategies give the bits of a loop over the lanes; they differ in what that costs. Lanes that
// exchange values (collectives) go together, and lanes with effects one after the other, under every
// strategy.
#ifndef LAMINA_TRACE_LANES_H_
#define LAMINA_TRACE_LANES_H_

#include <cstdint>

namespace lamina::trace {

enum class LaneStrategy : uint8_t {
  kSelect,  // together: every branch runs, steps are taken until the last lane has ended, each lane keeps its
            // own
  kLoop,    // one after the other, each through its own branch and its own steps
  kAuto,  // by cost: together as long as enough lanes take part, then those that are left one after the other
};

// That of the batching at hand, which is the innermost scope of this thread; outside of all kSelect.
LaneStrategy lane_strategy();

class LaneStrategyScope {
 public:
  explicit LaneStrategyScope(LaneStrategy strategy);
  ~LaneStrategyScope();
  LaneStrategyScope(const LaneStrategyScope&) = delete;
  LaneStrategyScope& operator=(const LaneStrategyScope&) = delete;

 private:
  LaneStrategy before_;
};

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_LANES_H_
