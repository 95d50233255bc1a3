#include "jit/program/executable.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "hlo/builder.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/passes/pass.h"
#include "hlo/strings.h"
#include "jit/program/engine.h"
#include "jit/program/row_chain.h"
#include "jit/program/steps.h"

namespace lamina::jit {

using hlo::Attr;
using hlo::Computation;
using hlo::ComputationPtr;
using hlo::Node;
using hlo::Op;
using hlo::Operand;
using hlo::Value;
using hlo::Values;

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
    HashMap<const Node*, Values> made;
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
    request_.parameters = static_cast<int>(program_->parameters().size());
    for (const cluster::Group& group : exe->plan_.groups) {
      if (absl::Status s = add_group(*exe, group, slot_of); !s.ok()) return s;
    }
    for (const Value& r : program_->roots()) {
      const Op op = r.node()->op();
      if (op != Op::parameter && op != Op::constant && !exe->plan_.group_of.contains(r.node()))
        return absl::InternalError(str_cat("no step computes the result ", r.node()->def().name, " ",
                                           hlo::to_string(*r.type()), "; please report the program"));
      request_.results.push_back(slot(r));
    }
    if (!status_.ok()) return status_;
    exe->constants_ = std::move(constants_);
    const Places places(request_);
    exe->chains_ = make_row_chains(exe->steps_, places, request_);
    for (size_t s = 0; s < exe->steps_.size(); ++s) exe->steps_[s]->place(places.of_slot, places.scratch[s]);
    exe->memory_ = std::make_unique<MemoryPlan>(request_, places, false);
    exe->giving_up_ = std::make_unique<MemoryPlan>(request_, places, true);
    return std::shared_ptr<const Executable>(exe);
  }

 private:
  absl::Status add_group(Executable& exe, const cluster::Group& group, const SlotOf& slot_of) {
    const Node& n = *group.anchors[0];
    if (n.op() == Op::constant) return absl::OkStatus();  // it is there before the first step
    if (group.kind == cluster::GroupKind::kAlias) {
      for (uint32_t i = 0; i < n.num_results(); ++i)
        request_.same_memory.emplace_back(slot(Value(const_cast<Node*>(&n), i)), slot(n.operand_value(i)));
      return absl::OkStatus();
    }
    touched_.clear();
    absl::StatusOr<std::unique_ptr<Step>> made = group.kind == cluster::GroupKind::kLoop
                                                     ? make_loop_step(engine_, exe.plan_, group, slot_of)
                                                     : make_library_step(engine_, n, slot_of);
    if (!made.ok()) return made.status();
    const Step& step = **made;
    for (const Step::MayOverwrite& o : step.overwrites())
      request_.overwrites.push_back({static_cast<int>(exe.steps_.size()), o.result, o.operand, o.saves_copy});
    for (const auto& [result, operand] : step.same_memory())
      request_.same_memory.emplace_back(result, operand);
    request_.scratch_bytes.push_back(step.scratch_bytes());
    request_.step_slots.push_back(touched_);
    exe.steps_.push_back(*std::move(made));
    return absl::OkStatus();
  }

  int slot(const Value& v) {
    auto [it, inserted] = slots_.try_emplace(v.operand().bits(), static_cast<int>(slots_.size()));
    if (inserted) {
      request_.slot_bytes.push_back(v.type()->bytes());
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
    request_.constants.push_back(at);
    constants_.push_back(*std::move(buffer));
  }

  Engine& engine_;
  ComputationPtr program_;
  absl::Status status_;
  HashMap<uint64_t, int> slots_;
  MemoryRequest request_;
  std::vector<int> touched_;
  std::vector<BufferRef> constants_;
};

Executable::Executable(Engine& engine) : engine_(engine) {}
Executable::~Executable() = default;

absl::StatusOr<std::shared_ptr<const Executable>> Executable::compile(Engine& engine,
                                                                      const ComputationPtr& program) {
  absl::StatusOr<ComputationPtr> flat = flatten_program(program);
  if (!flat.ok()) return flat.status();
  absl::StatusOr<ComputationPtr> simple = hlo::simplify(*flat);
  if (!simple.ok()) return simple.status();
  return ExecutableBuilder(engine, *std::move(simple)).build();
}

Run Executable::prepared(const MemoryPlan& plan, const CancelFlag* cancel, int64_t& unwatched,
                         std::array<std::byte*, 2> arena) const {
  Run state{engine_, cancel, unwatched, arena, {}, {}};
  state.context.scratch = &engine_.allocator();
  state.context.parallel = engine_.runtime().pool().parallel();
  state.context.cancel = cancel ? cancel->flag() : nullptr;
  state.memory.resize(plan.places.size());
  for (size_t p = 0; p < plan.places.size(); ++p) {
    const MemoryPlan::Place& place = plan.places[p];
    if (place.storage == Storage::kConstant)
      state.memory[p] = constants_[place.number]->data();
    else if (place.storage == Storage::kArena)
      state.memory[p] = arena[plan.parts[place.number].space] + plan.parts[place.number].offset;
  }
  return state;
}

absl::Status Executable::run_steps(Run& state) const {
  auto chain = chains_.begin();
  for (state.step = 0; state.step < static_cast<int>(steps_.size());) {
    const bool chained = chain != chains_.end() && chain->first == state.step;
    const Step& step = *steps_[state.step];
    if (state.stop_before(chained ? chain->work : step.work()))
      return absl::CancelledError("the run was cancelled");
    if (absl::Status s = chained ? chain->run(state, steps_) : step.run(state); !s.ok()) return s;
    state.step = chained ? (chain++)->last + 1 : state.step + 1;
  }
  return absl::OkStatus();
}

namespace {

// By moving memory (MemoryPlan::moving), the argument whose memory it takes; -1: none.
using Taken = absl::InlinedVector<int, 12>;

int take(int argument, std::span<bool> writable) {
  if (argument < 0 || !writable[argument]) return -1;
  writable[argument] = false;
  return argument;
}

Taken take_arguments(const MemoryPlan& plan, std::span<bool> writable) {
  Taken out;
  for (const MemoryPlan::Result& r : plan.results) out.push_back(take(r.over, writable));
  for (int part : plan.lent) out.push_back(take(plan.parts[part].over, writable));
  for (size_t r = 0; r < plan.results.size(); ++r)
    for (size_t i = 0; out[r] < 0 && i < plan.results[r].after.size(); ++i)
      out[r] = take(plan.results[r].after[i], writable);
  return out;
}

// `result_memory`: by result memory that takes no argument.
template <typename Fn>
void move_places(const MemoryPlan& plan, Run& state, const Taken& taken, Fn result_memory) {
  for (const auto& [place, number] : plan.moving) {
    if (taken[number] >= 0) {
      state.memory[place] = state.memory[taken[number]];
    } else if (plan.places[place].storage == Storage::kResult) {
      state.memory[place] = static_cast<std::byte*>(result_memory(number)) + plan.places[place].offset;
    } else {
      const MemoryPlan::Part& part = plan.parts[plan.places[place].number];
      state.memory[place] = state.arena[part.space] + part.offset;
    }
  }
}

}  // namespace

Run Executable::start(const Run& outer, std::byte* arena) const {
  return prepared(*giving_up_, outer.cancel, outer.unwatched, {arena, arena + giving_up_->arena_bytes[0]});
}

absl::Status Executable::run_in(Run& state, const Binding& binding) const {
  const MemoryPlan& plan = *giving_up_;
  std::copy(binding.arguments.begin(), binding.arguments.end(), state.memory.begin());
  move_places(plan, state, take_arguments(plan, binding.writable),
              [&](int number) { return binding.destinations[plan.results[number].number]; });
  if (absl::Status status = run_steps(state); !status.ok()) return status;
  for (size_t r = 0; r < plan.result_places.size(); ++r)
    binding.results[r] = state.memory[plan.result_places[r]];
  return absl::OkStatus();
}

bool Executable::keeps_in(int result, int argument) const {
  const MemoryPlan::Place& place = giving_up_->places[giving_up_->result_places[result]];
  if (place.storage == Storage::kArgument) return passes_on(result, argument);
  if (place.storage != Storage::kResult) return false;
  const MemoryPlan::Result& memory = giving_up_->results[place.number];
  return memory.alone && memory.over == argument;
}

bool Executable::passes_on(int result, int argument) const {
  const MemoryPlan::Place& place = giving_up_->places[giving_up_->result_places[result]];
  return place.storage == Storage::kArgument && place.number == argument;
}

absl::Status Executable::run_alone(const MemoryPlan& plan, std::span<const BufferRef> arguments,
                                   std::span<BufferRef> given_up, std::vector<BufferRef>& results,
                                   const CancelFlag* cancel) const {
  std::array<BufferRef, 2> arena;
  std::array<std::byte*, 2> arena_at{};
  for (int i : {0, 1}) {
    if (plan.arena_bytes[i] == 0) continue;
    absl::StatusOr<BufferRef> block = engine_.allocator().allocate(plan.arena_bytes[i]);
    if (!block.ok()) return block.status();
    arena[i] = *std::move(block);
    arena_at[i] = static_cast<std::byte*>(arena[i]->data());
  }
  int64_t unwatched = 0;
  Run state = prepared(plan, cancel, unwatched, arena_at);
  for (size_t a = 0; a < arguments.size(); ++a) state.memory[a] = arguments[a]->data();
  absl::InlinedVector<bool, 32> writable(arguments.size(), false);
  for (size_t a = 0; a < given_up.size(); ++a) writable[a] = given_up[a]->may_reuse();
  const Taken taken = take_arguments(plan, writable);
  absl::InlinedVector<BufferRef, 8> made(taken.size());
  for (size_t r = 0; r < plan.results.size(); ++r) {
    if (taken[r] >= 0) continue;
    absl::StatusOr<BufferRef> block = engine_.allocator().allocate(plan.results[r].bytes);
    if (!block.ok()) return block.status();
    made[r] = *std::move(block);
  }
  for (size_t i = 0; i < taken.size(); ++i)
    if (taken[i] >= 0) made[i] = std::move(given_up[taken[i]]);
  move_places(plan, state, taken, [&](int number) { return made[number]->data(); });
  // Where it fails, also by an exception of a host callback, what has not been written over goes back.
  absl::Cleanup give_back = [&] {
    for (size_t i = 0; i < taken.size(); ++i) {
      const int first = i < plan.results.size() ? plan.results[i].first
                                                : plan.parts[plan.lent[i - plan.results.size()]].first;
      if (taken[i] >= 0 && first > state.step) given_up[taken[i]] = std::move(made[i]);
    }
  };
  if (absl::Status status = run_steps(state); !status.ok()) return status;
  std::move(give_back).Cancel();
  results.clear();
  for (int p : plan.result_places) {
    const MemoryPlan::Place& place = plan.places[p];
    results.push_back(place.storage == Storage::kResult     ? made[place.number]
                      : place.storage == Storage::kConstant ? constants_[place.number]
                                                            : arguments[place.number]);
  }
  return absl::OkStatus();
}

absl::Status Executable::run(std::span<const BufferRef> arguments, std::vector<BufferRef>& results,
                             const CancelFlag* cancel) const {
  return run_alone(*memory_, arguments, {}, results, cancel);
}

absl::Status Executable::run_giving_up(std::span<BufferRef> arguments, std::vector<BufferRef>& results,
                                       const CancelFlag* cancel) const {
  return run_alone(*giving_up_, arguments, arguments, results, cancel);
}

std::string Executable::describe() const {
  std::string out;
  for (size_t i = 0; i < steps_.size(); ++i) str_append(&out, "step ", i, ": ", steps_[i]->describe(), "\n");
  for (const RowChain& c : chains_)
    str_append(&out, "steps ", c.first, " to ", c.last, " together: ", c.block, " of ", c.rows,
               " rows at a time\n");
  int64_t results = 0;
  for (const MemoryPlan::Result& r : memory_->results) results += r.bytes;
  str_append(&out, "memory: ", memory_->results.size(), " results in ", results, " bytes, ",
             memory_->parts.size(), " temporaries in an arena of ", memory_->whole_arena_bytes(),
             " bytes, of which ", memory_->least_arena_bytes, " are held at one time\n");
  return out;
}

}  // namespace lamina::jit
