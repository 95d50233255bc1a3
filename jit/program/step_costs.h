// What the steps of a program cost: bytes moved and operations done, by the lines that recorded them.
//
// Contract: counted from the plan, not measured. Bytes are those that a step must read and write at least:
// of what it reads in part only that part, nothing of what stays inside a kernel or is left to the next of
// steps that run together. Flops are additions, subtractions, products, quotients and roots of floating-point
// numbers, a fused multiply-add counting two; functions count what their scalar programs do, matrix routines
// the customary leading terms. A loop of unknown length inside a kernel counts as one turn of it; the steps
// of other loops, and of branches, are counted where they run.
#ifndef LAMINA_JIT_PROGRAM_STEP_COSTS_H_
#define LAMINA_JIT_PROGRAM_STEP_COSTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hlo/graph.h"

namespace lamina::jit {

class Executable;

struct Cost {
  int64_t bytes = 0;
  int64_t flops = 0;         // of any width
  int64_t double_flops = 0;  // of these, of float64

  Cost& operator+=(const Cost& o) {
    bytes += o.bytes;
    flops += o.flops;
    double_flops += o.double_flops;
    return *this;
  }
};

struct StepCost {
  struct Part {
    hlo::LocationId line;
    Cost cost;
    double share;  // of the step's time: by elements times instructions, with loads and stores
  };
  std::string what;
  std::string device;
  bool is_parent = false;  // it runs programs, whose steps are counted by themselves
  Cost cost;
  std::vector<Part> parts;  // one per line; the shares add up to 1
};

// By turn: a step, or steps that run together.
std::vector<StepCost> step_costs(const Executable& program);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_STEP_COSTS_H_
