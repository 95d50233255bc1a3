#include "jit/program/executable.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "hlo/builder.h"
#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/nodes.h"
#include "hlo/op.h"
#include "hlo/passes/pass.h"
#include "hlo/regions.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"
#include "jit/program/control.h"
#include "jit/program/host_call.h"
#include "jit/program/row_chain.h"
#include "jit/program/target.h"

namespace lamina::jit {

using hlo::Attr;
using hlo::Computation;
using hlo::ComputationPtr;
using hlo::Node;
using hlo::Op;
using hlo::Value;
using hlo::Values;

namespace {

bool is_control(Op op) { return hlo::is_loop_op(op) || op == Op::case_; }

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
    hlo::GraphCopy copy(program->parameters(), program->parameters());
    const auto remade = [&](const Node& n, std::span<const Value> operands) {
      if (is_marker(n)) return Values(operands.begin(), operands.end());
      const hlo::NodeScope as(n);
      return n.op() == Op::call ? inline_computation(b, *n.attrs().computation(Attr::body), operands)
                                : b.remake(n, operands);
    };
    if (!copy.extend(b, program->nodes(), remade)) return b.status();
    absl::StatusOr<ComputationPtr> next = Computation::make(program->parameters(), copy(program->roots()));
    if (!next.ok()) return next;
    program = *std::move(next);
  }
  return program;
}

}  // namespace

class ExecutableBuilder {
 public:
  ExecutableBuilder(Device& device, ComputationPtr program) : device_(device), program_(std::move(program)) {}

  absl::StatusOr<std::shared_ptr<const Executable>> build() {
    std::shared_ptr<Executable> exe(new Executable(device_));
    exe->program_ = program_;
    exe->fusion_ = cluster::make_fusion_plan(*program_, device_.target().costs());
    const SlotOf slot_of = [this](const Value& v) { return slot(v); };
    for (const Value& p : program_->parameters()) slot(p);
    request_.parameters = static_cast<int>(program_->parameters().size());
    for (const cluster::Group& group : exe->fusion_.groups) {
      if (absl::Status s = add_group(*exe, group, slot_of); !s.ok()) return s;
    }
    for (const Value& r : program_->roots()) {
      const Op op = r.node()->op();
      if (op != Op::parameter && op != Op::constant && !exe->fusion_.group_of.contains(r.node()))
        return absl::InternalError(str_cat("no step computes the result ", r.node()->def().name, " ",
                                           hlo::to_string(*r.type()), "; please report the program"));
      request_.results.push_back(slot(r));
    }
    if (!status_.ok()) return status_;
    exe->constants_ = std::move(constants_);
    const Places places(request_);
    exe->chains_ = make_row_chains(exe->steps_, places, device_.target().costs(), request_);
    std::vector<std::pair<Step*, int>> holding;  // and the first of the steps that it stands for
    for (RowChain& chain : exe->chains_)
      if (Step* step = hold_rows(*exe, chain, places)) holding.emplace_back(step, chain.first);
    make_plan(*exe, places);
    for (const auto& [step, first] : holding) step->place({places.of_slot, exe->plan_.steps[first], 0});
    int frames = 0;
    for (size_t s = 0; s < exe->steps_.size(); ++s) {
      exe->steps_[s]->place({places.of_slot, exe->plan_.steps[s], frames});
      frames += static_cast<int>(exe->steps_[s]->programs().size());
    }
    take_turns(*exe);
    make_launches(*exe);
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
    absl::StatusOr<std::unique_ptr<Step>> made = device_.target().lower(exe.fusion_, group, slot_of);
    if (made.ok() && !*made && is_control(n.op())) made = make_control_step(device_, n, slot_of);
    if (!made.ok()) return made.status();
    if (!*made) *made = make_host_call(n, slot_of);
    const Step& step = **made;
    for (const Step::MayOverwrite& o : step.overwrites())
      request_.overwrites.push_back({static_cast<int>(exe.steps_.size()), o.result, o.operand, o.saves_copy});
    for (const auto& [result, operand] : step.same_memory())
      request_.same_memory.emplace_back(result, operand);
    request_.scratch_bytes.push_back(step.scratch_bytes());
    std::vector<int> slots;
    written_.emplace_back();
    for (const auto& [node, slot] : touched_) {
      slots.push_back(slot);
      const bool own = std::find(group.anchors.begin(), group.anchors.end(), node) != group.anchors.end();
      written_.back().push_back(own);
    }
    request_.step_slots.push_back(std::move(slots));
    exe.steps_.push_back(*std::move(made));
    return absl::OkStatus();
  }

  // The step of a chain that keeps what its steps make for each other out of memory; null: none.
  Step* hold_rows(Executable& exe, RowChain& chain, const Places& places) {
    std::vector<bool> inner(static_cast<size_t>(places.count), true);
    for (size_t s = 0; s < exe.steps_.size(); ++s)
      if (static_cast<int>(s) < chain.first || static_cast<int>(s) > chain.last)
        for (int slot : request_.step_slots[s]) inner[places.of_slot[slot]] = false;
    for (int slot : request_.results) inner[places.of_slot[slot]] = false;
    Target::HeldRows held =
        device_.target().hold_rows(members(exe, chain), chain.rows, places.of_slot, inner);
    chain.what = std::move(held.what);
    const auto needs_none = [&](int slot) {
      return std::find(held.unwritten.begin(), held.unwritten.end(), places.of_slot[slot]) !=
             held.unwritten.end();
    };
    for (size_t slot = 0; slot < request_.slot_bytes.size(); ++slot)
      if (needs_none(static_cast<int>(slot))) request_.slot_bytes[slot] = 0;
    std::erase_if(request_.overwrites,
                  [&](const Overwrite& o) { return needs_none(o.result) || needs_none(o.operand); });
    Step* const step = held.step.get();
    chain.step = std::move(held.step);
    return step;
  }

  static std::vector<const Step*> members(const Executable& exe, const RowChain& chain) {
    std::vector<const Step*> out;
    for (int s = chain.first; s <= chain.last; ++s) out.push_back(exe.steps_[s].get());
    return out;
  }

  void make_plan(Executable& exe, const Places& places) {
    ProgramPlan& plan = exe.plan_;
    plan.keeping = std::make_unique<MemoryPlan>(request_, places, false);
    plan.giving_up = std::make_unique<MemoryPlan>(request_, places, true);
    plan.place_bytes.resize(static_cast<size_t>(places.count));
    for (size_t slot = 0; slot < places.of_slot.size(); ++slot)
      plan.place_bytes[places.of_slot[slot]] = request_.slot_bytes[slot];
    for (size_t s = 0; s < exe.steps_.size(); ++s) {
      StepPlan step;
      step.what = exe.steps_[s]->describe();
      step.work = exe.steps_[s]->work();
      for (size_t i = 0; i < request_.step_slots[s].size(); ++i) {
        const int slot = request_.step_slots[s][i];
        const Use use{places.of_slot[slot], request_.slot_bytes[slot]};
        std::vector<Use>& uses = written_[s][i] ? step.out : step.in;
        if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
      }
      for (size_t i = 0; i < request_.scratch_bytes[s].size(); ++i) {
        const Use use{places.scratch[s][i], request_.scratch_bytes[s][i]};
        step.scratch.push_back(use);
        plan.place_bytes[use.place] = use.bytes;
      }
      plan.steps.push_back(std::move(step));
    }
    for (const RowChain& c : exe.chains_) plan.together.push_back({c.first, c.last, c.rows, c.block});
  }

  void take_turns(Executable& exe) {
    auto chain = exe.chains_.begin();
    int64_t work = 0;
    exe.brief_ = true;
    for (int s = 0; s < static_cast<int>(exe.steps_.size());) {
      const bool chained = chain != exe.chains_.end() && chain->first == s;
      if (chained && !chain->step)
        chain->step = device_.target().chain(members(exe, *chain), chain->rows, chain->block);
      const Step* const step = chained ? chain->step.get() : exe.steps_[s].get();
      exe.turns_.push_back({step, s, step->work()});
      work += step->work();
      exe.brief_ = exe.brief_ && !step->may_take_long() && work < RunControl::kWatchedWork;
      s = chained ? (chain++)->last + 1 : s + 1;
    }
  }

  // What a run starts where nobody looks at its turns one by one.
  void make_launches(Executable& exe) {
    std::vector<const Step*> steps;
    for (const Executable::Turn& turn : exe.turns_) steps.push_back(turn.step);
    for (size_t t = 0; t < steps.size();) {
      Target::Batch batch = device_.target().batch(std::span(steps).subspan(t));
      const Executable::Turn& last = exe.turns_[t + batch.count - 1];
      if (batch.step) {
        exe.launches_.push_back({batch.step.get(), last.number, batch.step->work()});
        exe.batches_.push_back(std::move(batch.step));
      } else {
        exe.launches_.push_back(last);
      }
      t += batch.count;
    }
  }

  int slot(const Value& v) {
    auto [it, inserted] = slots_.try_emplace(v.operand().bits(), static_cast<int>(slots_.size()));
    if (inserted) {
      request_.slot_bytes.push_back(v.type()->bytes());
      if (v.node()->op() == Op::constant) add_constant(v, it->second);
    }
    touched_.emplace_back(v.node(), it->second);
    return it->second;
  }

  void add_constant(const Value& v, int at) {
    const hlo::Literal& literal = *v.node()->attrs().literal(Attr::value);
    absl::StatusOr<BufferRef> buffer = device_.client().put(device_, literal.data(), literal.bytes());
    if (!buffer.ok()) {
      status_ = buffer.status();
      return;
    }
    // Programs inside steps do not take it run by run.
    if (const Point written = (*buffer)->written())
      if (absl::Status s = written.stream->wait(written.value, nullptr); !s.ok()) status_ = s;
    request_.constants.push_back(at);
    constants_.push_back(*std::move(buffer));
  }

  Device& device_;
  ComputationPtr program_;
  absl::Status status_;
  HashMap<uint64_t, int> slots_;
  MemoryRequest request_;
  std::vector<std::pair<const Node*, int>> touched_;  // values and their slots, by the group in the making
  std::vector<std::vector<bool>> written_;            // as request_.step_slots: whether the step writes it
  std::vector<BufferRef> constants_;
};

Executable::Executable(Device& device) : device_(device) {}
Executable::~Executable() {
  for (auto& of_plan : spare_)
    for (std::atomic<Frame*>& frame : of_plan) delete frame.load(std::memory_order_relaxed);
}

absl::StatusOr<std::shared_ptr<const Executable>> Executable::compile(Device& device,
                                                                      const ComputationPtr& program) {
  absl::StatusOr<ComputationPtr> flat = flatten_program(program);
  if (!flat.ok()) return flat.status();
  absl::StatusOr<ComputationPtr> simple = hlo::simplify(*flat);
  if (simple.ok()) simple = device.target().prepared(*simple);
  if (!simple.ok()) return simple.status();
  return of_simplified(device, *std::move(simple));
}

absl::StatusOr<std::shared_ptr<const Executable>> Executable::of_region(Device& device,
                                                                        const ComputationPtr& region) {
  absl::StatusOr<ComputationPtr> flat = flatten_program(region);
  if (!flat.ok()) return flat.status();
  return *flat == region ? of_simplified(device, region) : compile(device, *flat);
}

absl::StatusOr<std::shared_ptr<const Executable>> Executable::of_simplified(Device& device,
                                                                            ComputationPtr program) {
  return ExecutableBuilder(device, std::move(program)).build();
}

std::unique_ptr<Frame> Executable::make_frame(const MemoryPlan& plan) const {
  auto frame = std::make_unique<Frame>(plan, device_, constants_);
  for (const std::unique_ptr<Step>& step : steps_)
    for (const Executable* program : step->programs())
      frame->inner.push_back(program->make_frame(*program->plan_.giving_up));
  return frame;
}

// A frame for one run: one that an earlier run left, or a new one.
class Executable::BorrowedFrame {
 public:
  BorrowedFrame(const Executable& of, bool giving_up) : spare_(of.spare_[giving_up]) {
    for (std::atomic<Frame*>& place : spare_)
      if (place.load(std::memory_order_relaxed) && (frame_ = place.exchange(nullptr))) return;
    of.frames_made_.fetch_add(1, std::memory_order_relaxed);
    frame_ = of.make_frame(giving_up ? *of.plan_.giving_up : *of.plan_.keeping).release();
  }
  ~BorrowedFrame() {
    frame_->made.clear();
    for (std::atomic<Frame*>& place : spare_)
      if (Frame* none = nullptr; place.compare_exchange_strong(none, frame_)) return;
    delete frame_;
  }
  BorrowedFrame(const BorrowedFrame&) = delete;
  BorrowedFrame& operator=(const BorrowedFrame&) = delete;
  Frame& operator*() const { return *frame_; }

 private:
  std::array<std::atomic<Frame*>, kSpareFrames>& spare_;
  Frame* frame_;
};

int64_t Executable::taken_bytes() const {
  int64_t most = 0;
  for (const auto& step : steps_) most = std::max(most, step->taken_bytes());
  return most;
}

absl::Status Executable::run_steps(Frame& frame) const {
  if (Profiler::on()) [[unlikely]]
    return run_steps_profiled(frame);
  for (const Turn& turn : launches_) {
    frame.step = turn.number;
    if (frame.control->stop_before(turn.work)) return absl::CancelledError("the run was cancelled");
    if (absl::Status s = turn.step->enqueue(frame); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status Executable::run_steps_profiled(Frame& frame) const {
  const uint32_t number = Profiler::get().number_of(shared_from_this());
  const Doing doing = device_.stream().is_inline() ? Doing::kStep : Doing::kLaunch;
  for (size_t i = 0; i < turns_.size(); ++i) {
    const Turn& turn = turns_[i];
    frame.step = turn.number;
    if (frame.control->stop_before(turn.work)) return absl::CancelledError("the run was cancelled");
    const ProfiledSpan span(true, {doing, 0, step_subject(number, static_cast<uint32_t>(i))});
    if (absl::Status s = turn.step->enqueue(frame); !s.ok()) return s;
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
void move_places(Frame& frame, const Taken& taken, Fn result_memory) {
  const MemoryPlan& plan = frame.plan;
  for (const auto& [place, number] : plan.moving) {
    if (taken[number] >= 0) {
      frame.at[place] = frame.at[taken[number]];
    } else if (plan.places[place].storage == Storage::kResult) {
      frame.at[place] = result_memory(number) + plan.places[place].offset;
    } else {
      const MemoryPlan::Part& part = plan.parts[plan.places[place].number];
      frame.at[place] = frame.arena[part.space] + part.offset;
    }
  }
}

}  // namespace

void Executable::start(Frame& frame, const Frame& outer, Address arena) const {
  frame.control = outer.control;
  frame.set_arena({arena, arena + plan_.giving_up->arena_bytes[0]});
}

absl::Status Executable::run_in(Frame& frame, const Binding& binding) const {
  const MemoryPlan& plan = *plan_.giving_up;
  std::copy(binding.arguments.begin(), binding.arguments.end(), frame.at.begin());
  move_places(frame, take_arguments(plan, binding.writable),
              [&](int number) { return binding.destinations[plan.results[number].number]; });
  if (absl::Status status = run_steps(frame); !status.ok()) return status;
  for (size_t r = 0; r < plan.result_places.size(); ++r) binding.results[r] = frame.at[plan.result_places[r]];
  return absl::OkStatus();
}

bool Executable::keeps_in(int result, int argument) const {
  const MemoryPlan& plan = *plan_.giving_up;
  const MemoryPlan::Place& place = plan.places[plan.result_places[result]];
  if (place.storage == Storage::kArgument) return passes_on(result, argument);
  if (place.storage != Storage::kResult) return false;
  const MemoryPlan::Result& memory = plan.results[place.number];
  return memory.alone && memory.over == argument;
}

bool Executable::passes_on(int result, int argument) const {
  const MemoryPlan& plan = *plan_.giving_up;
  const MemoryPlan::Place& place = plan.places[plan.result_places[result]];
  return place.storage == Storage::kArgument && place.number == argument;
}

absl::Status Executable::run_alone(bool giving_up, std::span<const BufferRef> arguments,
                                   std::span<BufferRef> given_up, std::vector<BufferRef>& results,
                                   const CancelFlag* cancel) const {
  return device_.stream().is_inline() ? run_here(giving_up, arguments, given_up, results, cancel)
                                      : run_later(giving_up, arguments, given_up, results, cancel);
}

absl::Status Executable::run_later(bool giving_up, std::span<const BufferRef> arguments,
                                   std::span<BufferRef> given_up, std::vector<BufferRef>& results,
                                   const CancelFlag* cancel) const {
  for (const BufferRef& a : arguments)
    if (&a->memory() != &device_.memory())
      return absl::InternalError(str_cat("an argument lies in the memory of ", a->memory().device().name(),
                                         ", and the program runs on ", device_.name()));
  Stream& stream = device_.stream();
  stream.begin_run();
  Point end;
  absl::Status status;
  {
    // Also where an exception of a host callback leaves it.
    const absl::Cleanup ends = [&] {
      end = stream.end_run();
      stream.keep(shared_from_this());
    };
    for (const BufferRef& a : arguments)
      if (status.ok() && a->written()) status = stream.takes(a->written());
    if (status.ok()) status = run_here(giving_up, arguments, given_up, results, cancel);
  }
  if (!status.ok()) return status;
  const MemoryPlan& plan = giving_up ? *plan_.giving_up : *plan_.keeping;
  for (size_t r = 0; r < results.size(); ++r)
    if (plan.places[plan.result_places[r]].storage == Storage::kResult) results[r]->will_be_written(end);
  return absl::OkStatus();
}

absl::Status Executable::run_here(bool giving_up, std::span<const BufferRef> arguments,
                                  std::span<BufferRef> given_up, std::vector<BufferRef>& results,
                                  const CancelFlag* cancel) const {
  const BorrowedFrame borrowed(*this, giving_up);
  Frame& frame = *borrowed;
  const MemoryPlan& plan = frame.plan;
  RunControl control{cancel};
  frame.control = &control;
  std::array<BufferRef, 2> arena;
  std::array<Address, 2> arena_at;
  for (int i : {0, 1}) {
    if (plan.arena_bytes[i] == 0) continue;
    absl::StatusOr<BufferRef> block = device_.memory().allocate(plan.arena_bytes[i]);
    if (!block.ok()) return block.status();
    arena[i] = *std::move(block);
    arena_at[i] = arena[i]->address();
  }
  frame.set_arena(arena_at);
  for (size_t a = 0; a < arguments.size(); ++a) frame.at[a] = arguments[a]->address();
  Taken taken;
  std::vector<BufferRef>& made = frame.made;
  if (giving_up) {
    absl::InlinedVector<bool, 32> writable(arguments.size(), false);
    for (size_t a = 0; a < given_up.size(); ++a) writable[a] = given_up[a]->may_reuse();
    taken = take_arguments(plan, writable);
    made.resize(taken.size());
    for (size_t r = 0; r < plan.results.size(); ++r) {
      if (taken[r] >= 0) continue;
      absl::StatusOr<BufferRef> block = device_.memory().allocate(plan.results[r].bytes);
      if (!block.ok()) return block.status();
      made[r] = *std::move(block);
    }
  } else {
    taken.resize(plan.results.size() + plan.lent.size(), -1);
    made.resize(taken.size());
    if (absl::Status s = device_.memory().allocate(plan.result_bytes, made); !s.ok()) return s;
  }
  const bool later = !device_.stream().is_inline();
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i] < 0) continue;
    made[i] = std::move(given_up[taken[i]]);
    if (later) made[i]->wait_for_uses();
  }
  move_places(frame, taken, [&](int number) { return made[number]->address(); });
  // Where it fails, also by an exception of a host callback, what has not been written over goes back.
  absl::Cleanup give_back = [&] {
    for (size_t i = 0; i < taken.size(); ++i) {
      const int first = i < plan.results.size() ? plan.results[i].first
                                                : plan.parts[plan.lent[i - plan.results.size()]].first;
      if (taken[i] >= 0 && first > frame.step) given_up[taken[i]] = std::move(made[i]);
    }
  };
  if (absl::Status status = run_steps(frame); !status.ok()) return status;
  std::move(give_back).Cancel();
  results.clear();
  results.reserve(plan.result_places.size());
  for (int p : plan.result_places) {
    const MemoryPlan::Place& place = plan.places[p];
    if (place.storage == Storage::kResult && plan.results[place.number].alone)
      results.push_back(std::move(made[place.number]));
    else
      results.push_back(place.storage == Storage::kResult     ? made[place.number]
                        : place.storage == Storage::kConstant ? constants_[place.number]
                                                              : arguments[place.number]);
  }
  return absl::OkStatus();
}

absl::Status Executable::run(std::span<const BufferRef> arguments, std::vector<BufferRef>& results,
                             const CancelFlag* cancel) const {
  return run_alone(false, arguments, {}, results, cancel);
}

absl::Status Executable::run_giving_up(std::span<BufferRef> arguments, std::vector<BufferRef>& results,
                                       const CancelFlag* cancel) const {
  return run_alone(true, arguments, arguments, results, cancel);
}

std::span<const RowChain> Executable::chains() const { return chains_; }

std::string Executable::describe() const {
  std::string out;
  for (size_t i = 0; i < steps_.size(); ++i) str_append(&out, "step ", i, ": ", steps_[i]->describe(), "\n");
  for (const RowChain& c : chains_)
    str_append(&out, "steps ", c.first, " to ", c.last, " together: ", c.block, " of ", c.rows,
               " rows at a time", c.what.empty() ? "" : ", ", c.what, "\n");
  const MemoryPlan& memory = *plan_.keeping;
  int64_t results = 0;
  for (const MemoryPlan::Result& r : memory.results) results += r.bytes;
  str_append(&out, "memory: ", memory.results.size(), " results in ", results, " bytes, ",
             memory.parts.size(), " temporaries in an arena of ", memory.whole_arena_bytes(),
             " bytes, of which ", memory.least_arena_bytes, " are held at one time\n");
  return out;
}

}  // namespace lamina::jit
