#include "jit/program/frame.h"

namespace lamina::jit {

Frame::Frame(const MemoryPlan& of, Device& on, std::span<const BufferRef> constants)
    : plan(of), device(on), at(of.places.size()) {
  for (size_t p = 0; p < at.size(); ++p)
    if (plan.places[p].storage == Storage::kConstant) at[p] = constants[plan.places[p].number]->address();
}

Frame::Frame(const Frame& of, Device& on) : plan(of.plan), device(on), at(of.at.size()), step(of.step) {}

void Frame::set_arena(std::array<Address, 2> blocks) {
  if (arena == blocks) return;  // most often they are those of the last run
  arena = blocks;
  for (size_t p = 0; p < at.size(); ++p) {
    if (plan.places[p].storage != Storage::kArena) continue;
    const MemoryPlan::Part& part = plan.parts[plan.places[p].number];
    at[p] = arena[part.space] + part.offset;
  }
}

}  // namespace lamina::jit
