#include "jit/executable.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "hlo/builder.h"
#include "hlo/op.h"
#include "hlo/passes/pass.h"
#include "hlo/strings.h"
#include "jit/engine.h"
#include "jit/steps.h"

namespace lamina::jit {

using hlo::Attr;
using hlo::Computation;
using hlo::ComputationPtr;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Value;
using hlo::Values;

absl::StatusOr<BufferRef> Run::allocate(const hlo::Type* type) {
  return engine.allocator().allocate(type->bytes());
}

namespace {

// Nodes that only mark a value for transforms; their result is their operand.
bool is_marker(const Node& n) { return n.op() == Op::identity || n.op() == Op::stop_gradient; }

// The program with the bodies of its calls in place, however deep, and without markers.
absl::StatusOr<ComputationPtr> flatten_program(ComputationPtr program) {
  auto needs_work = [](const Computation& c) {
    for (const Node* n : c.nodes())
      if (n->op() == Op::call || is_marker(*n)) return true;
    return false;
  };
  while (needs_work(*program)) {
    hlo::Builder b;
    hlo::GraphLock lock;
    absl::flat_hash_map<const Node*, Values> made;
    for (const Value& p : program->parameters()) made[p.node()] = {p};
    Values operands;
    for (Node* n : program->nodes()) {
      if (made.contains(n)) continue;
      operands.clear();
      for (Operand o : n->operands()) operands.push_back(made.at(o.node())[o.index()]);
      if (is_marker(*n)) {
        made[n] = operands;
        continue;
      }
      hlo::LocationScope location(n->location());
      made[n] = n->op() == Op::call ? inline_computation(b, *n->attrs().computation(Attr::body), operands)
                                    : b.remake(*n, operands);
      if (!b.ok()) return b.status();
    }
    Values roots;
    for (const Value& r : program->roots()) roots.push_back(made.at(r.node())[r.index()]);
    absl::StatusOr<ComputationPtr> next = Computation::make(program->parameters(), roots);
    if (!next.ok()) return next;
    program = *std::move(next);
  }
  return program;
}

}  // namespace

class ExecutableBuilder {
 public:
  ExecutableBuilder(Engine& engine, ComputationPtr program) : engine_(engine), program_(std::move(program)) {}

  absl::StatusOr<std::shared_ptr<const Executable>> build() {
    std::shared_ptr<Executable> exe(new Executable(engine_));
    exe->program_ = program_;
    exe->plan_ = cluster::make_plan(*program_);
    const SlotOf slot_of = [this](const Value& v) { return slot(v); };
    for (const Value& p : program_->parameters()) slot(p);
    for (const cluster::Group& group : exe->plan_.groups) {
      if (absl::Status s = add_group(*exe, group, slot_of); !s.ok()) return s;
    }
    for (const Value& r : program_->roots()) exe->result_slots_.push_back(slot(r));
    exe->constants_ = std::move(constants_);
    if (!status_.ok()) return status_;
    exe->num_slots_ = next_slot_;
    find_deaths(*exe);
    exe->peak_bytes_ = peak_bytes(*exe);
    return std::shared_ptr<const Executable>(exe);
  }

 private:
  absl::Status add_group(Executable& exe, const cluster::Group& group, const SlotOf& slot_of) {
    const Node& n = *group.anchors[0];
    if (n.op() == Op::constant) return absl::OkStatus();  // its slot is filled before the first step
    touched_.clear();
    absl::StatusOr<std::unique_ptr<Step>> step;
    switch (group.kind) {
      case cluster::GroupKind::kLoop:
        step = make_loop_step(engine_, exe.plan_, group, slot_of);
        break;
      case cluster::GroupKind::kAlias:
        step = make_alias_step(n, slot_of);
        same_memory_.emplace_back(slot(Value(const_cast<Node*>(&n))), slot(n.operand_value(0)));
        break;
      default:
        step = make_library_step(engine_, n, slot_of);
        break;
    }
    if (!step.ok()) return step.status();
    exe.steps_.push_back(*std::move(step));
    step_slots_.push_back(touched_);
    return absl::OkStatus();
  }

  int slot(const Value& v) {
    auto [it, inserted] = slots_.try_emplace(v.operand().bits(), next_slot_);
    if (inserted) {
      ++next_slot_;
      slot_bytes_.push_back(Allocator::block_bytes(v.type()->bytes()));
      if (v.node()->op() == Op::constant) add_constant(v, it->second);
    }
    touched_.push_back(it->second);
    return it->second;
  }

  void add_constant(const Value& v, int at) {
    const hlo::Literal& literal = *v.node()->attrs().literal(Attr::value);
    absl::StatusOr<BufferRef> buffer = engine_.allocator().allocate(literal.bytes());
    if (!buffer.ok()) {
      status_ = buffer.status();
      return;
    }
    if (literal.bytes() > 0) std::memcpy((*buffer)->data(), literal.data(), literal.bytes());
    constants_.emplace_back(at, *std::move(buffer));
  }

  // A slot dies after the last step that touches it, unless it is a result; constants stay.
  void find_deaths(Executable& exe) {
    std::vector<int> last(next_slot_, -1);
    for (size_t s = 0; s < step_slots_.size(); ++s)
      for (int slot : step_slots_[s]) last[slot] = static_cast<int>(s);
    for (int slot : exe.result_slots_) last[slot] = -1;
    std::vector<bool> stays(next_slot_, false);
    for (const auto& [slot, buffer] : exe.constants_) stays[slot] = true;
    exe.dead_after_.resize(exe.steps_.size());
    for (int slot = 0; slot < next_slot_; ++slot) {
      if (stays[slot]) continue;
      if (last[slot] >= 0)
        exe.dead_after_[last[slot]].push_back(slot);
      else
        exe.left_.push_back(slot);
    }
  }

  // The most that intervals of steps in which memory is held add up to.
  int64_t peak_bytes(const Executable& exe) const {
    const size_t steps = exe.steps_.size();
    std::vector<int> memory(next_slot_);  // the slot that a slot's memory was allocated for
    for (int slot = 0; slot < next_slot_; ++slot) memory[slot] = slot;
    for (const auto& [alias, of] : same_memory_) memory[alias] = memory[of];
    constexpr size_t kNever = SIZE_MAX;
    std::vector<size_t> first(next_slot_, kNever), last(next_slot_, 0);
    for (size_t s = 0; s < steps; ++s)
      for (int slot : step_slots_[s]) {
        first[memory[slot]] = std::min(first[memory[slot]], s);
        last[memory[slot]] = s;
      }
    for (int slot : exe.result_slots_) last[memory[slot]] = steps;
    for (const Value& p : program_->parameters()) first[slots_.at(p.operand().bits())] = kNever;
    for (const auto& [slot, buffer] : exe.constants_) first[slot] = kNever;
    std::vector<int64_t> change(steps + 2, 0);
    for (int slot = 0; slot < next_slot_; ++slot) {
      if (first[slot] == kNever) continue;
      change[first[slot]] += slot_bytes_[slot];
      change[last[slot] + 1] -= slot_bytes_[slot];
    }
    int64_t held = 0, peak = 0;
    for (size_t s = 0; s < steps; ++s) {
      held += change[s];
      peak = std::max(peak, held + exe.steps_[s]->inner_peak_bytes());
    }
    return peak;
  }

  Engine& engine_;
  ComputationPtr program_;
  absl::Status status_;
  absl::flat_hash_map<uint64_t, int> slots_;
  int next_slot_ = 0;
  std::vector<int64_t> slot_bytes_;
  std::vector<std::pair<int, int>> same_memory_;  // a slot and the one whose memory it names
  std::vector<int> touched_;
  std::vector<std::vector<int>> step_slots_;
  std::vector<std::pair<int, BufferRef>> constants_;
};

absl::StatusOr<std::shared_ptr<const Executable>> Executable::compile(Engine& engine,
                                                                      const ComputationPtr& program) {
  absl::StatusOr<ComputationPtr> flat = flatten_program(program);
  if (!flat.ok()) return flat.status();
  absl::StatusOr<ComputationPtr> simple = hlo::simplify(*flat);
  if (!simple.ok()) return simple.status();
  return ExecutableBuilder(engine, *std::move(simple)).build();
}

Run Executable::start(const CancelFlag* cancel) const {
  Run state{engine_, std::vector<BufferRef>(num_slots_), cancel};
  for (const auto& [slot, buffer] : constants_) state.slots[slot] = buffer;
  return state;
}

absl::Status Executable::run_in(Run& state, std::span<BufferRef> arguments,
                                std::vector<BufferRef>& results) const {
  std::move(arguments.begin(), arguments.end(), state.slots.begin());
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (state.stop_before(steps_[s]->work())) return absl::CancelledError("the run was cancelled");
    state.dying = dead_after_[s];
    if (absl::Status status = steps_[s]->run(state); !status.ok()) return status;
    for (int slot : dead_after_[s]) state.slots[slot].reset();
  }
  results.clear();
  for (int slot : result_slots_) results.push_back(state.slots[slot]);
  for (int slot : left_) state.slots[slot].reset();
  return absl::OkStatus();
}

absl::Status Executable::run(std::span<const BufferRef> arguments, std::vector<BufferRef>& results,
                             const CancelFlag* cancel) const {
  Run state = start(cancel);
  std::vector<BufferRef> taken(arguments.begin(), arguments.end());
  return run_in(state, taken, results);
}

std::string Executable::describe() const {
  std::string out;
  for (size_t i = 0; i < steps_.size(); ++i) str_append(&out, "step ", i, ": ", steps_[i]->describe(), "\n");
  return out;
}

}  // namespace lamina::jit
