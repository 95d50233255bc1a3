// A compiled program as data: what runs in which order, on which places of memory.
//
// Contract: places, never addresses. What a step reads and writes is all it may touch, so that the order of
// steps, or that a device may run two at one time, follows from the plan alone.
#ifndef LAMINA_JIT_PROGRAM_PLAN_H_
#define LAMINA_JIT_PROGRAM_PLAN_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/program/memory_plan.h"

namespace lamina::jit {

// The first `bytes` bytes of a place.
struct Use {
  int place;
  int64_t bytes;
  bool operator==(const Use&) const = default;
};

struct StepPlan {
  std::string what;  // one line, for people
  std::vector<Use> in, out;
  std::vector<Use> scratch;  // written before it is read, and of no use afterwards
  int64_t work = 0;          // element operations
};

// Steps that run block of rows by block (jit/program/row_chain.h).
struct TogetherPlan {
  int first, last;
  int64_t rows, block;
};

struct ProgramPlan {
  std::vector<StepPlan> steps;
  std::vector<TogetherPlan> together;
  std::vector<int64_t> place_bytes;
  std::vector<int64_t> constant_bytes;
  // Of a run that gives no argument up, and of one that gives up all.
  std::unique_ptr<const MemoryPlan> keeping, giving_up;
};

// For each step the earlier ones, sorted, that have to have ended, those aside that are implied by others of
// them. Order in memory counts: a step that writes waits for those that read what lay there.
std::vector<std::vector<int>> order_of(const ProgramPlan& plan);

// One line per place and step.
std::string to_string(const ProgramPlan& plan);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_PLAN_H_
