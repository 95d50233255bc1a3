// Forcing: from pending values to arrays.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "hlo/hash_map.h"
#include "hlo/host_lock.h"
#include "hlo/linalg/calls.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"
#include "jit/program/engine.h"
#include "lazy/effects.h"
#include "lazy/known_number.h"
#include "lazy/lazy.h"
#include "lazy/location_text.h"
#include "lazy/nan_check.h"
#include "lazy/placement.h"
#include "lazy/profiled_lines.h"
#include "lazy/rebuild.h"
#include "lazy/scopes.h"

namespace lamina::lazy {

using hlo::Node;
using hlo::Op;

namespace {

// Ops recorded between automatic flushes: bounds the pending graph of a loop that never reads.
constexpr int64_t kFlushEvery = 4096;

bool is_pending(const Value& v) { return v.node()->data() == nullptr && v.node()->op() != Op::parameter; }

// Lowest stamp of an unbound (jit or vmap) scope.
uint32_t lowest_unbound() {
  for (const Scope& s : open_scopes())
    if (s.kind != Scope::kDerivative) return s.stamp;
  return ~uint32_t{0};
}

// Of a computed node with one result, if it lies on that device. Under the graph lock, without counting.
const jit::BufferRef* buffer_of(const Node& n, jit::Device& device) {
  return static_cast<const jit::Array*>(n.data())->known_on(device);
}

// Programs of one op on arrays that are there, as `x + y` read at once makes them, found without encoding a
// graph.
class SingleOps {
 public:
  struct Key {
    Op op;
    uint8_t mode;
    uint8_t operands;
    hlo::Place device;  // that it runs on
    uint8_t repeats;    // pairs of operands that are one
    const hlo::Type* type;
    uint64_t attrs;
    std::array<const hlo::Type*, 3> types;
    bool operator==(const Key&) const = default;
  };

  // Of a pending node outside all transforms, which runs on `device`; empty where it is no such program.
  static std::optional<Key> key_of(const Node& n, jit::Device& device) {
    const std::span<const hlo::Operand> in = n.operands();
    if (!nothing_open() || n.data() || n.stamp() != 0 || n.shared() || n.type()->is_tuple() || in.empty() ||
        in.size() > 3)
      return {};
    Key key{n.op(),         n.mode(), static_cast<uint8_t>(in.size()), device.place(), 0, n.type(),
            n.attrs().id(), {}};
    for (size_t i = 0; i < in.size(); ++i) {
      const Node& o = *in[i].node();
      if (!o.data() || o.type()->is_tuple() || !buffer_of(o, device)) return {};
      key.types[i] = o.type();
      for (size_t j = 0; j < i; ++j) key.repeats |= (in[j] == in[i]) << (i * (i - 1) / 2 + j);
    }
    return key;
  }

  jit::SpecializationPtr find(const Key& key, int64_t generation) {
    const Slot& slot = slots_[place(key)];
    return slot.generation == generation && slot.key == key ? slot.entry.lock() : nullptr;
  }
  void put(const Key& key, const jit::SpecializationPtr& entry, int64_t generation) {
    slots_[place(key)] = {key, generation, entry};
  }

 private:
  struct Slot {
    Key key = {};
    int64_t generation = -1;
    std::weak_ptr<jit::Specialization> entry = {};
  };
  static constexpr int kSlotBits = 5;
  static size_t place(const Key& key) {
    uint64_t h = static_cast<uint64_t>(key.op) ^ reinterpret_cast<uint64_t>(key.type) ^ key.attrs * 3;
    for (const hlo::Type* t : key.types) h = h * 5 + reinterpret_cast<uint64_t>(t);
    return h * 0x9E3779B97F4A7C15u >> (64 - kSlotBits);
  }
  std::array<Slot, size_t{1} << kSlotBits> slots_;
};

}  // namespace

// What a thread has recorded and keeps. Sessions of threads that have ended are taken over by later ones.
class Session {
 public:
  static Session& here() {
    thread_local Session* session = nullptr;
    if (!session) [[unlikely]]
      session = &of(hlo::session_number());
    return *session;
  }

  // The cells with pending values, and some whose values have become known since the last walk over them. All
  // changes are made under the graph lock, those by other threads included.
  void add(Cell* cell) {
    cells_.push_back(cell);
    cell->position_ = cells_.size() - 1;
    cell->session_.store(this, std::memory_order_relaxed);
  }
  void remove(Cell* cell) {
    cells_.back()->position_ = cell->position_;
    cells_[cell->position_] = cells_.back();
    cells_.pop_back();
  }

  // Pending values of live cells, outside open unbound traces and suspended scopes; without those that take
  // no program.
  void collect(std::vector<Value>& roots) {
    hlo::GraphLock lock;
    const uint32_t suspended = suspended_from();
    const bool traces_ended = nothing_open();
    drop_known();
    for (Cell* c : cells_) {
      if (c->lost_) continue;
      for (const Value* v : {&c->lazy_.value, &c->lazy_.wide}) {
        if (!*v || !is_pending(*v) || v->node()->held_back() || v->node()->stamp() >= suspended) continue;
        if (!forceable(*v))
          c->lost_ = traces_ended;
        else if (!known_unrounded(*v))
          roots.push_back(*v);
      }
    }
  }
  static bool is_listed(const Lazy& lazy) {
    return (lazy.value && is_pending(lazy.value)) || (lazy.wide && is_pending(lazy.wide));
  }

  void run(std::span<const Value> wanted, bool automatic);
  // As run_on, and where what was not asked for fails, it is left until somebody asks for it.
  void run_with_others(jit::Device& device, std::vector<Value> named, size_t wanted,
                       const std::optional<SingleOps::Key>& single, bool automatic,
                       std::optional<hlo::GraphLock>& lock);
  // Computes values that are pending, the first `wanted` of which were asked for, and what they need on one
  // device. `single`: what single_ops_ may find it by.
  void run_on(jit::Device& device, std::vector<Value> named, size_t wanted,
              const std::optional<SingleOps::Key>& single, std::optional<hlo::GraphLock>& lock);
  // Runs the program of one op on operands that are there, under the lock until it runs.
  static void run_single(const Value& wanted, const jit::SpecializationPtr& entry,
                         std::optional<hlo::GraphLock>& lock);
  void note_recorded() {
    // Counted under the graph lock, read by others without.
    const int64_t n = recorded_.load(std::memory_order_relaxed) + 1;
    recorded_.store(n, std::memory_order_relaxed);
    if (n - flushed_at_ < kFlushEvery || !open_scopes().empty()) return;
    run({}, true);
  }

  static SyncStats stats() {
    hlo::GraphLock lock;
    SyncStats sum;
    for (const auto& session : all()) {
      if (!session) continue;
      sum.flushes += session->flushes_;
      sum.automatic_flushes += session->automatic_;
      sum.recorded += session->recorded_.load(std::memory_order_relaxed);
    }
    return sum;
  }

 private:
  static std::vector<std::unique_ptr<Session>>& all() {
    static constinit hlo::Once<std::vector<std::unique_ptr<Session>>> sessions;
    return sessions.get();
  }
  // Under the graph lock.
  void drop_known() {
    size_t listed = 0;
    for (Cell* c : cells_) {
      if (is_listed(c->lazy_)) {
        c->position_ = listed;
        cells_[listed++] = c;
      } else {
        c->session_.store(nullptr, std::memory_order_release);
      }
    }
    cells_.resize(listed);
  }
  static Session& of(uint16_t number) {
    hlo::GraphLock lock;
    if (all().size() <= number) all().resize(size_t{number} + 1);
    if (!all()[number]) all()[number] = std::make_unique<Session>();
    return *all()[number];
  }

  std::vector<Cell*> cells_;
  SingleOps single_ops_;  // used on its own thread only
  int64_t flushes_ = 0, automatic_ = 0, flushed_at_ = 0;
  std::atomic<int64_t> recorded_{0};
};

Cell::Cell(Lazy&& lazy) : lazy_(std::move(lazy)) {
  if (!Session::is_listed(lazy_)) return;
  hlo::GraphLock lock;
  Session::here().add(this);
}
Cell::~Cell() {
  if (!session_.load(std::memory_order_acquire)) return;
  hlo::GraphLock lock;
  // A walk of the session's own thread may have taken it off the list meanwhile.
  if (Session* const session = session_.load(std::memory_order_relaxed)) session->remove(this);
  lazy_ = {};
}
void Cell::set(Lazy lazy) {
  hlo::GraphLock lock;
  std::swap(lazy_, lazy);
  lost_ = false;
  if (!session_.load(std::memory_order_relaxed) && Session::is_listed(lazy_)) Session::here().add(this);
}

namespace {

bool has_parameter_beneath(const Value& value) {
  auto stop = [](const Node& n, void*) { return n.data() != nullptr; };
  const std::vector<Node*> nodes = hlo::postorder(std::span(&value, 1), stop);
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* n) { return n->op() == Op::parameter && !n->data(); });
}

// Whether these, which were not held back before, are made of others that were.
bool builds_on_held_back(std::span<const Value> values) {
  hlo::GraphLock lock;
  HashSet<const Node*> own;
  for (const Value& v : values) own.insert(v.node());
  const auto known = [](const Node& n, void*) { return n.data() != nullptr; };
  const std::vector<Node*> beneath = hlo::postorder(values, known);
  return std::any_of(beneath.begin(), beneath.end(),
                     [&](const Node* n) { return !n->data() && n->held_back() && !own.contains(n); });
}

}  // namespace

bool forceable(const Value& value) {
  hlo::GraphLock lock;
  const uint32_t unbound = lowest_unbound();
  if (unbound != ~uint32_t{0} && value.node()->stamp() < unbound) return true;
  return value.node()->stamp() == 0 || !has_parameter_beneath(value);
}

void Session::run_single(const Value& wanted, const jit::SpecializationPtr& entry,
                         std::optional<hlo::GraphLock>& lock) {
  jit::Device& device = entry->device();
  Node* const n = wanted.node();
  absl::InlinedVector<jit::BufferRef, 3> arguments;
  const std::span<const hlo::Operand> in = n->operands();
  for (size_t i = 0; i < in.size(); ++i)
    if (std::find(in.begin(), in.end(), in[i]) == in.begin() + static_cast<ptrdiff_t>(i))
      arguments.push_back(*buffer_of(*in[i].node(), device));
  hlo::hold_back(n);
  const uint32_t lines = jit::Profiler::on() ? lines_of_run(*entry, {&wanted, 1}) : 0;
  lock.reset();
  std::vector<jit::BufferRef> results;
  check(run_program(entry, std::span(arguments.data(), arguments.size()), false, results, lines));
  lock.emplace();
  if (!n->data()) hlo::set_data(n, new jit::Array(n->type(), std::move(results[0])), hlo::is_open(*n));
}

void Session::run(std::span<const Value> wanted, bool automatic) {
  // Held until the program is known; others may record while it is compiled and run.
  std::optional<hlo::GraphLock> lock(std::in_place);
  // Where only one op was recorded since the last flush nothing else waits to be computed.
  std::optional<SingleOps::Key> single;
  if (!nan_checks() && wanted.size() == 1 && recorded_.load(std::memory_order_relaxed) == flushed_at_ + 1)
    single = SingleOps::key_of(*wanted[0].node(), device_of(wanted[0]));
  ++flushes_;
  if (automatic) ++automatic_;
  flushed_at_ = recorded_.load(std::memory_order_relaxed);
  for (const Value& v : wanted)
    if (v.node()->op() == Op::parameter && !v.node()->data()) throw Error(ErrorKind::kType, why_unknown(v));
  jit::SpecializationCache& cache = jit::Engine::get().cache();
  const int64_t generation = cache.generation();
  if (single) {
    if (const jit::SpecializationPtr known = single_ops_.find(*single, generation)) {
      cache.count_hit();
      run_single(wanted[0], known, lock);
      return;
    }
  }
  std::vector<Value> named(wanted.begin(), wanted.end());
  collect(named);
  if (only_host()) {
    run_with_others(jit::host_device(), std::move(named), wanted.size(), single, automatic, lock);
    return;
  }
  // By device, in the order of their first values.
  while (!named.empty()) {
    const hlo::Place place = named[0].node()->place();
    const auto is_here = [&](const Value& v) { return v.node()->place() == place; };
    std::vector<Value> here, others;
    for (Value& v : named) (is_here(v) ? here : others).push_back(v);
    const auto asked = std::count_if(wanted.begin(), wanted.end(), is_here);
    if (!lock) lock.emplace();
    run_with_others(device_at(place), std::move(here), static_cast<size_t>(asked), single, automatic, lock);
    single = {};  // of the one that is wanted, which comes first
    named = std::move(others);
  }
}

void Session::run_with_others(jit::Device& device, std::vector<Value> named, size_t wanted,
                              const std::optional<SingleOps::Key>& single, bool automatic,
                              std::optional<hlo::GraphLock>& lock) {
  // An effect runs once, so that its program is never run again: nothing else is in it.
  if (const std::vector<bool> behind = behind_effects(named); !behind.empty()) {
    std::vector<Value> pure, effects;
    size_t pure_asked = 0;
    for (size_t i = 0; i < named.size(); ++i) {
      if (!behind[i]) {
        pure.push_back(named[i]);
        pure_asked += i < wanted;
      } else if (i < wanted || wanted == 0) {
        effects.push_back(named[i]);
      }
    }
    if (!pure.empty()) run_with_others(device, std::move(pure), pure_asked, {}, automatic, lock);
    if (!lock) lock.emplace();
    if (!effects.empty()) run_on(device, effects, effects.size(), {}, lock);
    return;
  }
  if (named.size() == wanted) {
    run_on(device, std::move(named), wanted, single, lock);
    return;
  }
  try {
    run_on(device, named, wanted, single, lock);
    return;
  } catch (const Error& e) {
    lock.reset();  // what the exception holds is let go of without it
    // A user who looks for invalid values wants to be told of the first one.
    if (e.kind() == ErrorKind::kCancelled || e.kind() == ErrorKind::kFloatingPoint) throw;
    // A loop that goes on from what failed, and reads nothing, would record for ever.
    if (automatic && builds_on_held_back(named)) throw;
  } catch (const std::bad_alloc&) {
    throw;  // there is none for the one asked for either
  } catch (const std::exception&) {
    lock.reset();
    if (automatic && builds_on_held_back(named)) throw;
  }
  lock.emplace();
  named.resize(wanted);
  run_on(device, std::move(named), wanted, single, lock);
}

void Session::run_on(jit::Device& device, std::vector<Value> named, size_t wanted,
                     const std::optional<SingleOps::Key>& single, std::optional<hlo::GraphLock>& lock) {
  jit::SpecializationCache& cache = jit::Engine::get().cache();
  const int64_t generation = cache.generation();
  std::vector<Value> roots, leaves;
  HashMap<const Node*, size_t> first;
  std::vector<uint64_t> key;
  const auto unknown_leaf = [&] {
    return std::find_if(leaves.begin(), leaves.end(), [](const Value& leaf) { return !leaf.node()->data(); });
  };
  const auto encode = [&] {
    // Every result of a node with several is kept: another may be asked for later.
    roots.clear();
    leaves.clear();
    first.clear();
    for (const Value& v : named) {
      if (!is_pending(v) || !first.try_emplace(v.node(), roots.size()).second) continue;
      for (uint32_t i = 0; i < v.node()->num_results(); ++i) roots.push_back(Value(v.node(), i));
    }
    key = check(hlo::encode_graph({}, roots, &leaves, nullptr, hlo::EncodedFor::kRun));
  };
  encode();
  if (unknown_leaf() != leaves.end()) {
    // Something alive leaked out of a trace that has ended, as an exception's frames may hold: nobody asks
    // for it.
    named.erase(
        std::remove_if(named.begin() + static_cast<ptrdiff_t>(wanted), named.end(), has_parameter_beneath),
        named.end());
    encode();
  }
  if (std::vector<Value> effects = effects_beneath(roots); !effects.empty()) {
    named.insert(named.end(), effects.begin(), effects.end());
    encode();
  }
  if (roots.empty()) return;
  if (const auto leaf = unknown_leaf(); leaf != leaves.end())
    throw Error(ErrorKind::kType, why_unknown(*leaf));
  std::vector<Value> known;
  for (const Value& leaf : leaves)
    for (uint32_t i = 0; i < leaf.node()->num_results(); ++i) known.emplace_back(leaf.node(), i);
  const hlo::LocationId where = roots.back().node()->location();
  // From now on they are computed here: a flush meanwhile, as by a host callback of theirs, leaves them
  // alone.
  for (const Value& root : roots) hlo::hold_back(root.node());
  jit::SpecializationPtr entry;
  {
    hlo::HostLockReleased away(hlo::HostLockReleased::kLater);
    std::optional<absl::StatusOr<hlo::ComputationPtr>> program;
    const auto take_program = [&] {
      if (!program) program = rebuild_with_parameters(roots, leaves);
      lock.reset();
      away.leave();
      return *program;
    };
    entry = check(cache.get(
        device, std::move(key), take_program,
        [&] {
          return jit::SpecializationCache::Origin{"lazy", "", location_name(where)};
        },
        take_program));
  }
  if (single && roots.size() == 1) single_ops_.put(*single, entry, generation);
  // Where it is compiled now the lock has been let go of, and its lines are these.
  const uint32_t lines = lock && jit::Profiler::on() ? lines_of_run(*entry, roots) : 0;
  lock.reset();
  std::vector<jit::BufferRef> arguments = buffers_on(device, known), results;
  check(run_program(entry, arguments, false, results, lines));
  // The program with this trace's lines, which the entry, made for another, may not have.
  if (nan_checks()) check_nan(*check(rebuild_with_parameters(roots, leaves)), arguments, results);
  lock.emplace();
  for (const auto& [node, at] : first) {
    Node* n = const_cast<Node*>(node);
    if (n->data()) continue;  // another thread was first
    hlo::Data* data;
    if (n->type()->is_tuple()) {
      std::vector<jit::ArrayPtr> arrays;
      for (uint32_t i = 0; i < n->num_results(); ++i)
        arrays.emplace_back(new jit::Array(n->result_type(i), results[at + i]));
      data = new jit::ArrayTuple(std::move(arrays));
    } else {
      data = new jit::Array(n->type(), results[at]);
    }
    hlo::set_data(n, data, hlo::is_open(*n));
  }
}

void force_recorded() {
  if (nothing_open()) Session::here().run({}, false);
}

void force(std::span<const Value> values) {
  for (const Value& v : values) {
    if (is_pending(v) || v.node()->op() == Op::parameter) {
      Session::here().run(values, false);
      break;
    }
  }
}

std::string why_unknown(const Value& value) {
  hlo::GraphLock lock;
  auto stop = [](const Node& n, void*) { return n.data() != nullptr; };
  const Node* parameter = nullptr;
  for (const Node* n : hlo::postorder(std::span(&value, 1), stop)) {
    if (n->op() != Op::parameter) continue;
    if (n->donated())
      return str_cat("the array ", hlo::to_string(*n->type()), " was donated or deleted",
                     location_text(n->location()),
                     " and is gone; use what the call returned, or do not donate or delete it");
    if (!parameter) parameter = n;
  }
  const std::string what =
      str_cat("the value ", hlo::to_string(*value.type()), " made", location_text(value.node()->location()));
  if (parameter && parameter->stamp() < lowest_open_stamp())
    return str_cat(what,
                   " belongs to a jit or vmap trace that has ended: it leaked out of the traced function; "
                   "return it from the function instead");
  return str_cat(what,
                 " depends on an argument of a jit or vmap that is being traced, so it is not known yet; "
                 "use lamina.where, lax.cond or lax.while_loop on it, or move the read outside");
}

jit::ArrayPtr array(const Value& value) {
  if (!value.node()->data()) {
    if (!forceable(value)) throw Error(ErrorKind::kType, why_unknown(value));
    if (const Value unrounded = known_unrounded(value))
      round_known(value, unrounded);
    else
      force(std::span(&value, 1));
  }
  return jit::array_of(value);
}

void note_recorded() { Session::here().note_recorded(); }
SyncStats sync_stats() { return Session::stats(); }

namespace {

using Clock = std::chrono::steady_clock;
// Runs that took less keep the host lock: taking it back can cost a switch interval of the host.
constexpr double kShortRunMs = 0.2;
// Runs that took more go to a thread of their own where this one can handle signals.
constexpr double kLongRunMs = 5;
constexpr auto kPollEvery = std::chrono::milliseconds(20);

// Whether a program runs host callbacks, which belong on the caller's thread.
bool calls_host(const hlo::Computation& program) {
  for (const Node* n : program.nodes()) {
    if (n->op() == Op::custom_call &&
        !hlo::linalg::find_routine(n->attrs().string(hlo::Attr::call_target_name)))
      return true;
    for (const auto& [attr, value] : n->attrs().entries()) {
      if (const auto* one = std::get_if<hlo::ComputationPtr>(&value); one && *one && calls_host(**one))
        return true;
      if (const auto* list = std::get_if<std::vector<hlo::ComputationPtr>>(&value))
        for (const hlo::ComputationPtr& c : *list)
          if (calls_host(*c)) return true;
    }
  }
  return false;
}

// Lets go of the host lock and polls signals between the steps of a run that turns out to be long.
class Watcher final : public jit::StepWatcher {
 public:
  Watcher(const hlo::HostLock* host, hlo::HostLockReleased& away) : host_(host), away_(away) {}
  bool between_steps() override {
    if (checks_++ == 0) return false;  // a run of one step reads no clock
    const Clock::time_point now = Clock::now();
    if (checks_ == 2) last_ = now;
    if (now - last_ < kPollEvery) return false;
    away_.leave();
    last_ = now;
    return host_->poll();
  }

 private:
  const hlo::HostLock* host_;
  hlo::HostLockReleased& away_;
  int64_t checks_ = 0;
  Clock::time_point last_;
};

}  // namespace

absl::Status run_program(const jit::SpecializationPtr& entry, std::span<jit::BufferRef> arguments,
                         bool giving_up, std::vector<jit::BufferRef>& results, uint32_t lines) {
  const jit::ProfiledSpan span(jit::Doing::kRun);
  const jit::ProfiledLines told(lines);
  jit::SpecializationCache& cache = jit::Engine::get().cache();
  const hlo::HostLock* host = hlo::host_lock();
  if (!host) return cache.run(entry, arguments, giving_up, results, nullptr);
  const double last = entry->last_run_ms.load(std::memory_order_relaxed);
  const bool maybe_long = last < 0 || last > kLongRunMs;
  hlo::HostLockReleased away(maybe_long || last > kShortRunMs ? hlo::HostLockReleased::kNow
                                                              : hlo::HostLockReleased::kLater);
  if (!maybe_long || !host->can_poll() || calls_host(entry->executable->program())) {
    Watcher watcher(host, away);
    jit::CancelFlag cancel(&watcher);
    return cache.run(entry, arguments, giving_up, results, &cancel);
  }
  jit::CancelFlag cancel;
  return jit::run_interruptible(cancel, host->poll,
                                [&] { return cache.run(entry, arguments, giving_up, results, &cancel); });
}

}  // namespace lamina::lazy
