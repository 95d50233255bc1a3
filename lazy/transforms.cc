#include "lazy/transforms.h"

#include <cstring>
#include <optional>

#include "hlo/custom_call.h"
#include "hlo/host_lock.h"
#include "hlo/mutex.h"
#include "hlo/nodes.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"
#include "jit/program/engine.h"
#include "lazy/axes.h"
#include "lazy/derivative_memo.h"
#include "lazy/effects.h"
#include "lazy/location_text.h"
#include "lazy/nan_check.h"
#include "lazy/raised.h"
#include "lazy/rebuild.h"
#include "lazy/scopes.h"
#include "trace/checkpoint.h"
#include "trace/jvp.h"
#include "trace/linearity.h"
#include "trace/rules/effects.h"
#include "trace/transpose.h"
#include "trace/vmap.h"

namespace lamina::lazy {
std::vector<Typed> types_of(const std::vector<Lazy>& values) {
  std::vector<Typed> out;
  for (const Lazy& x : values) out.push_back(typed(x));
  return out;
}
std::string text(const Typed& type) {
  return str_cat(hlo::info(type.type->dtype).numpy_name, hlo::dims_to_string(type.type->dims));
}

namespace {

std::vector<Value> carriers_of(const std::vector<Lazy>& lazies) {
  hlo::Builder b;
  std::vector<Value> out;
  for (const Lazy& l : lazies) out.push_back(carrier(b, l));
  check(b.status());
  return out;
}

// What the carriers of arrays of these types stand for.
std::vector<Lazy> from_carriers(std::vector<Value> carried, const std::vector<Typed>& types) {
  hlo::Builder b;
  std::vector<Lazy> out;
  for (size_t i = 0; i < carried.size(); ++i)
    out.push_back(from_carrier(b, std::move(carried[i]), types[i].type->dtype, types[i].weak));
  check(b.status());
  return out;
}

// Opaque copies of the arguments' carriers that belong to a derivative scope with this stamp.
std::vector<Value> open_identities(const std::vector<Lazy>& args, uint32_t stamp) {
  std::vector<Value> out;
  for (const Value& a : carriers_of(args)) {
    const hlo::Operand operand = a.operand();
    out.push_back(hlo::make_fresh_node(hlo::Op::identity, a.type(), hlo::no_attrs(), std::span(&operand, 1),
                                       std::max(stamp, a.node()->stamp())));
  }
  return out;
}

bool has_tangent(const Value& x) { return hlo::is_inexact(x.dtype()); }

struct Outputs {
  std::vector<Typed> types;
  std::vector<Value> values;  // their carriers
};
// What f makes of the inputs within a scope. The graph lock is taken before the scope closes: until it is let
// go of, no thread takes the graph beneath for one that nobody transforms any more.
Outputs outputs_in_scope(std::optional<hlo::GraphLock>& lock, const FlatFunction& f,
                         const std::vector<Lazy>& inputs, Scope::Kind kind, uint32_t stamp,
                         std::vector<Value> parameters = {}, bool carriers = true) {
  const ScopeGuard scope(kind, stamp, std::move(parameters));
  const std::vector<Lazy> results = f(inputs);
  lock.emplace();
  if (carriers) return {types_of(results), carriers_of(results)};
  Outputs out{types_of(results), {}};
  for (const Lazy& r : results) out.values.push_back(r.value);
  return out;
}

// f of opaque copies of the arguments, inside a derivative scope.
struct Opened {
  std::vector<Value> points, values;  // carriers of the arguments and the outputs
  std::vector<Typed> outputs;

  Opened(std::optional<hlo::GraphLock>& lock, const FlatFunction& f, const std::vector<Lazy>& args)
      : stamp(hlo::fresh_stamp()) {
    points = open_identities(args, stamp);
    before = waiting_token();
    const TokenScope tokens(before);
    Outputs made =
        outputs_in_scope(lock, f, from_carriers(points, types_of(args)), Scope::kDerivative, stamp);
    outputs = std::move(made.types);
    values = std::move(made.values);
    if (tokens.any()) token = tokens.token();
  }

  uint32_t stamp;
  // Effects that wait: their token is transformed as one more output.
  Value before, token;
  std::vector<Value> with_token() const {
    std::vector<Value> out = values;
    if (token) out.push_back(token);
    return out;
  }
  // Takes what became of it from the transformed outputs.
  void take_token(std::vector<Value>& made) const {
    if (!token) return;
    Value& waiting = waiting_token();
    if (!waiting || waiting == before) {
      waiting = std::move(made.back());
    } else {  // custom rules had some of their own
      hlo::Builder b;
      waiting = b.maximum(made.back(), waiting);
      check(b.status());
    }
    made.pop_back();
  }
};

// Runs what waits when a transform is over, without the graph lock.
template <typename F>
auto then_effects(F&& transform) {
  auto out = transform();
  run_effects();
  return out;
}

// `given` in the types of `like`, zeros of them where there is none.
std::vector<Value> like_types(const std::vector<Lazy>& given, const std::vector<Value>& like) {
  hlo::Builder b;
  std::vector<Value> out;
  for (size_t i = 0; i < given.size(); ++i)
    out.push_back(given[i].value && has_tangent(like[i]) ? converted(b, given[i], like[i].dtype())
                                                         : given[i].value);
  check(b.status());
  return out;
}
std::vector<Value> or_zeros(std::vector<Value> given, const std::vector<Value>& like) {
  hlo::Builder b;
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i]) given[i] = b.zeros_like(like[i]);
  check(b.status());
  return given;
}
// The tangents of these outputs.
std::vector<Value> output_tangents(std::vector<Value> given, const std::vector<Value>& outputs) {
  hlo::Builder b;
  for (size_t i = 0; i < given.size(); ++i)
    if (!given[i]) given[i] = zeros_unless_raised(b, outputs[i], outputs);
  check(b.status());
  return given;
}

}  // namespace

namespace {

JvpResult recorded_jvp(const FlatFunction& f, const std::vector<Lazy>& primals,
                       const std::vector<Lazy>& tangents) {
  std::optional<hlo::GraphLock> lock;
  const Opened open(lock, f, primals);
  std::vector<Value> input_tangents = like_types(tangents, open.points);
  for (size_t i = 0; i < open.points.size(); ++i)
    if (!has_tangent(open.points[i])) input_tangents[i] = Value();
  trace::JvpOut out = check(trace::jvp(open.with_token(), open.points, input_tangents));
  open.take_token(out.primals);
  out.tangents.resize(open.values.size());
  return {from_carriers(out.primals, open.outputs),
          from_carriers(output_tangents(out.tangents, open.values), open.outputs)};
}

// The derivative of what was recorded for arguments of these types.
VjpResult derived(const Opened& open, const std::vector<Typed>& inputs,
                  std::string_view must_be_linear = {}) {
  if (!must_be_linear.empty())
    if (const absl::Status s = trace::check_linear(open.values, open.points); !s.ok())
      throw Error(ErrorKind::kType, str_cat(must_be_linear, ": ", s.message()));
  auto linear =
      std::make_shared<trace::Linearized>(check(trace::linearize_fresh(open.with_token(), open.points)));
  open.take_token(linear->primals);
  linear->tangents.resize(open.values.size());
  VjpResult result;
  result.outputs = from_carriers(linear->primals, open.outputs);
  const auto pull_back = [linear, open, inputs](const std::vector<Lazy>& cotangents) {
    hlo::GraphLock inner;
    std::vector<Value> grads = check(trace::pull_back(*linear, like_types(cotangents, open.values)));
    hlo::Builder b;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!has_tangent(open.points[i]))
        grads[i] = Value();
      else if (!grads[i])
        grads[i] = zeros_unless_raised(b, open.points[i], open.values);
    }
    check(b.status());
    return from_carriers(std::move(grads), inputs);
  };
  result.pull_back = [pull_back](const std::vector<Lazy>& cotangents) {
    return then_effects([&] { return pull_back(cotangents); });
  };
  result.push_forward = [linear, open](const std::vector<Lazy>& tangents) {
    hlo::GraphLock inner;
    std::vector<Value> inputs, given;
    const std::vector<Value> all = like_types(tangents, open.points);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!linear->tangent_inputs[i]) continue;
      inputs.push_back(linear->tangent_inputs[i]);
      given.push_back(all[i]);
    }
    return from_carriers(check(trace::substitute(output_tangents(linear->tangents, open.values), inputs,
                                                 or_zeros(given, inputs))),
                         open.outputs);
  };
  return result;
}

}  // namespace

JvpResult jvp(const FlatFunction& f, const std::vector<Lazy>& primals, const std::vector<Lazy>& tangents) {
  return then_effects([&] { return recorded_jvp(f, primals, tangents); });
}

VjpResult vjp(const FlatFunction& f, const std::vector<Lazy>& primals, std::string_view linear) {
  return then_effects([&] {
    std::optional<hlo::GraphLock> lock;
    const Opened open(lock, f, primals);
    return derived(open, types_of(primals), linear);
  });
}

namespace {

ValueAndGradients recorded_gradients(const FlatFunction& f, const std::vector<Lazy>& primals,
                                     const std::function<hlo::LocationId()>& where) {
  const std::vector<Typed> inputs = types_of(primals);
  std::optional<hlo::GraphLock> lock;
  const Opened open(lock, f, primals);
  const auto derive = [&] {
    VjpResult r = derived(open, inputs);
    const hlo::LocationScope location(where());
    std::vector<Lazy> cotangents(r.outputs.size());
    hlo::Builder b;
    cotangents.at(0) = {b.full_like(r.outputs[0].value, 1), false};
    check(b.status());
    std::vector<Lazy> gradients = r.pull_back(cotangents);
    return ValueAndGradients{std::move(r.outputs), std::move(gradients)};
  };
  if (open.token || !nothing_open() || nan_checks()) return derive();
  const ForwardGraph graph(open.points, open.values, open.stamp);
  const std::vector<Value> arguments = carriers_of(primals);
  std::optional<std::vector<Value>> known;
  {
    const hlo::LocationScope location(where());
    known = graph.found(arguments);
  }
  if (!known) {
    const ValueAndGradients made = derive();
    std::vector<Value> carried = carriers_of(made.outputs);
    hlo::Builder b;
    for (const Lazy& g : made.gradients) carried.push_back(g.value ? carrier(b, g) : Value());
    check(b.status());
    known = graph.remembered(std::move(carried), arguments);
  }
  const auto first = known->begin() + static_cast<ptrdiff_t>(open.outputs.size());
  return {from_carriers({known->begin(), first}, open.outputs), from_carriers({first, known->end()}, inputs)};
}

}  // namespace

ValueAndGradients value_and_gradients(const FlatFunction& f, const std::vector<Lazy>& primals,
                                      const std::function<hlo::LocationId()>& where) {
  return then_effects([&] { return recorded_gradients(f, primals, where); });
}

namespace {

std::vector<Lazy> recorded_vmap(const FlatFunction& f, const std::vector<Lazy>& args,
                                const std::vector<bool>& batched, int64_t size,
                                std::vector<bool>* lanes_differ, std::string axis_name,
                                trace::LaneStrategy strategy) {
  std::vector<Lazy> inputs;
  std::vector<Value> parameters, values;
  absl::InlinedVector<bool, 8> flags;
  uint32_t stamp = 0;
  hlo::Builder b;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!batched[i]) {
      inputs.push_back(args[i]);
      continue;
    }
    Value carried = carrier(b, args[i]);
    const hlo::Type* t = carried.type();
    Value p = hlo::make_parameter(hlo::array_type_or_die(t->dtype, std::span(t->dims).subspan(1)));
    if (stamp == 0) stamp = p.node()->stamp();
    inputs.push_back(from_carrier(b, p, args[i].value.dtype(), args[i].weak));
    parameters.push_back(std::move(p));
    values.push_back(std::move(carried));
    flags.push_back(true);
  }
  std::vector<BoundAxis> axes = bound_axes();
  if (!axis_name.empty()) {
    const Value lane = hlo::make_parameter(hlo::scalar_type(DType::kS32));
    if (stamp == 0) stamp = lane.node()->stamp();
    parameters.push_back(lane);
    values.push_back(b.iota(DType::kS32, {{size}}, 0));
    flags.push_back(true);
    axes.push_back({std::move(axis_name), size, lane});
    check(b.status());
  }
  if (stamp == 0) stamp = hlo::fresh_stamp();
  std::optional<hlo::GraphLock> lock;
  Value token;
  Outputs outputs = [&] {
    const AxesScope named(std::move(axes));
    const TokenScope before(waiting_token());
    Outputs made = outputs_in_scope(lock, f, inputs, Scope::kVmap, stamp, parameters);
    if (before.any()) token = before.token();
    return made;
  }();
  if (token) outputs.values.push_back(token);
  trace::VmapOut results =
      check(trace::vmap_lazily(outputs.values, parameters, values, flags, size, strategy));
  if (token) {
    waiting_token() = trace::joined_token(b, results.results.back());
    check(b.status());
    outputs.values.pop_back();
    results.batched.pop_back();
  }
  std::vector<Value> out;
  for (size_t i = 0; i < outputs.values.size(); ++i)
    out.push_back(hlo::with_batch(b, results.results[i], results.batched[i], size));
  check(b.status());
  if (lanes_differ) *lanes_differ = std::move(results.batched);
  return from_carriers(std::move(out), outputs.types);
}

std::vector<Lazy> recorded_checkpoint(const FlatFunction& f, const std::vector<Lazy>& args, int64_t policy,
                                      const std::vector<bool>& shared) {
  std::optional<hlo::GraphLock> lock;
  const EffectsWait wait;
  const Opened open(lock, f, args);
  HashSet<const hlo::Node*> reached;
  const auto stop = [](const hlo::Node& n, void* all) {
    const auto& points = *static_cast<const std::vector<Value>*>(all);
    return std::any_of(points.begin(), points.end(), [&](const Value& v) { return v.node() == &n; });
  };
  std::vector<Value> points = open.points;
  const std::vector<Value> outputs = open.with_token(), values = carriers_of(args);
  for (const hlo::Node* n : hlo::postorder(outputs, stop, &points)) reached.insert(n);
  std::vector<Value> used, given;
  hlo::Dims unguarded;
  for (size_t i = 0; i < points.size(); ++i)
    if (reached.contains(points[i].node())) {
      if (i < shared.size() && shared[i]) unguarded.push_back(static_cast<int64_t>(used.size()));
      used.push_back(points[i]);
      given.push_back(values[i]);
    }
  std::vector<Value> out =
      check(trace::checkpoint(outputs, used, given, open.token ? 0 : policy, std::move(unguarded)));
  open.take_token(out);
  return from_carriers(std::move(out), open.outputs);
}

std::vector<Lazy> recorded_composite(const FlatFunction& f, const std::vector<Lazy>& args,
                                     const std::string& name, int64_t version,
                                     const std::string& attributes) {
  std::optional<hlo::GraphLock> lock;
  const EffectsWait wait;
  const Opened open(lock, f, args);
  std::vector<Value> out =
      check(trace::composite(open.with_token(), open.points, carriers_of(args), name, version, attributes));
  open.take_token(out);
  return from_carriers(std::move(out), open.outputs);
}

}  // namespace

std::vector<Lazy> vmap(const FlatFunction& f, const std::vector<Lazy>& args, const std::vector<bool>& batched,
                       int64_t size, std::vector<bool>* lanes_differ, std::string axis_name,
                       trace::LaneStrategy strategy) {
  return then_effects(
      [&] { return recorded_vmap(f, args, batched, size, lanes_differ, std::move(axis_name), strategy); });
}

std::vector<Lazy> checkpoint(const FlatFunction& f, const std::vector<Lazy>& args, int64_t policy,
                             const std::vector<bool>& shared) {
  return then_effects([&] { return recorded_checkpoint(f, args, policy, shared); });
}

std::vector<Lazy> composite(const FlatFunction& f, const std::vector<Lazy>& args, const std::string& name,
                            int64_t version, const std::string& attributes) {
  return then_effects([&] { return recorded_composite(f, args, name, version, attributes); });
}

Lazy named(const Lazy& x, std::string_view name) {
  hlo::GraphLock lock;
  hlo::Builder b;
  const std::string target = str_cat(hlo::kNameTarget, name);
  const auto under_name = [&](const Value& v) {
    return b
        .make_multi(hlo::Op::custom_call, {{v}},
                    hlo::intern_attrs({{hlo::Attr::call_target_name, target},
                                       {hlo::Attr::result_types, std::vector<const hlo::Type*>{v.type()}}}))
        .at(0);
  };
  Lazy out{under_name(x.value), x.weak};
  if (x.wide && b.ok()) out.wide = under_name(x.wide);
  check(b.status());
  note_recorded();
  return out;
}

hlo::ComputationPtr region(const FlatFunction& f, const std::vector<Typed>& types,
                           std::vector<Lazy>* captured, std::vector<Typed>* results, bool carriers,
                           bool* effects) {
  const uint32_t stamp = hlo::fresh_stamp();
  std::vector<Value> parameters;
  for (const Typed& t : types)
    parameters.push_back(hlo::make_parameter(
        carriers && t.weak ? hlo::array_type_or_die(carrier_type(t.type->dtype, true), t.type->dims)
                           : t.type));
  std::optional<hlo::GraphLock> lock;
  Outputs outputs;
  const Value token = hlo::make_parameter(token_of_effects());
  {
    const TokenScope own(token);
    hlo::FloorScope floor(stamp);
    std::vector<Value> unknown = parameters;
    unknown.push_back(token);
    outputs =
        outputs_in_scope(lock, f, from_carriers(parameters, types), Scope::kJit, stamp, unknown, carriers);
    if (effects) *effects = own.any();
    if (own.any() && !effects)
      throw Error(
          ErrorKind::kNotImplemented,
          "a host callback with effects cannot stand in the body of a reduction, a sort or a closed "
          "function, under a converted test on traced values or in a recursion as deep as they say: call it "
          "outside, or with lax.cond or lax.scan");
    if (own.any()) {
      parameters.push_back(token);
      outputs.values.push_back(own.token());
    }
  }
  if (results) *results = outputs.types;
  std::vector<Value> outside;
  hlo::ComputationPtr body = check(close_at_floor(outputs.values, parameters, stamp, &outside));
  for (Value& v : outside) captured->push_back({std::move(v), false});
  return body;
}

Program::Program(const FlatFunction& f, std::vector<Typed> arguments, std::string name, std::string where)
    : arguments_(std::move(arguments)), name_(std::move(name)), where_(std::move(where)) {
  const jit::ProfiledSpan span(jit::Doing::kTrace);
  std::vector<Lazy> captured;
  computation_ = region(f, arguments_, &captured, &results_, true, &effects_);
  if (effects_) {
    const int32_t start = 0;
    captured_.push_back(from_host(DType::kS32, {}, &start));
  }
  for (Lazy& c : captured) captured_.push_back(std::move(c.value));
  const std::vector<BoundAxis>& axes = bound_axes();
  for (size_t i = 0; i < captured_.size(); ++i)
    for (size_t k = 0; k < axes.size(); ++k)
      if (captured_[i] == axes[k].lane) lanes_.emplace_back(i, k);
}

namespace {
// Of the entries of all programs: held for the copy of a pointer.
hlo::Mutex& entry_mutex() {
  static constinit hlo::Once<hlo::Mutex> mutex;
  return mutex.get([] { return new hlo::Mutex(hlo::LockRank::kPrograms); });
}
}  // namespace

const jit::SpecializationPtr& Program::compile() { return compile(default_device()); }

const jit::SpecializationPtr& Program::compile(jit::Device& device) {
  if (compiled_.load(std::memory_order_acquire) && &entry_->device() == &device) return entry_;
  if (compiled_.load(std::memory_order_acquire)) {
    std::lock_guard lock(entry_mutex());
    for (const jit::SpecializationPtr& other : elsewhere_)
      if (&other->device() == &device) return other;
  }
  std::vector<uint64_t> key = check(hlo::encode_graph(computation_->parameters(), computation_->roots(),
                                                      nullptr, nullptr, hlo::EncodedFor::kRun));
  hlo::HostLockReleased away;
  jit::SpecializationPtr made = check(jit::Engine::get().cache().get(
      device, std::move(key), [&] { return absl::StatusOr<hlo::ComputationPtr>(computation_); },
      [&] {
        return jit::SpecializationCache::Origin{"jit", name_, where_, reason_};
      }));
  std::lock_guard lock(entry_mutex());
  if (entry_ && &entry_->device() != &device) return elsewhere_.emplace_back(std::move(made));
  if (!entry_) entry_ = std::move(made);
  compiled_.store(true, std::memory_order_release);
  return entry_;
}

jit::Device& Program::device_for(std::span<const Value> arguments) const {
  std::vector<Value> all(arguments.begin(), arguments.end());
  all.insert(all.end(), captured_.begin(), captured_.end());
  return device_at(bound_place(all, name_));
}

std::shared_ptr<Program> Program::of(hlo::ComputationPtr computation, std::string name, std::string where) {
  std::shared_ptr<Program> program(new Program);
  for (const Value& p : computation->parameters()) program->arguments_.push_back({p.type(), false});
  for (const Value& r : computation->roots()) program->results_.push_back({r.type(), false});
  program->computation_ = std::move(computation);
  program->name_ = std::move(name);
  program->where_ = std::move(where);
  return program;
}

std::shared_ptr<Program> Program::compiled(jit::SpecializationPtr entry, std::vector<Typed> arguments,
                                           std::vector<Typed> results, std::vector<Value> captured) {
  std::shared_ptr<Program> program(new Program);
  program->computation_ = entry->recorded;
  program->name_ = entry->info.name;
  program->where_ = entry->info.where;
  program->arguments_ = std::move(arguments);
  program->results_ = std::move(results);
  program->captured_ = std::move(captured);
  program->entry_ = std::move(entry);
  program->compiled_.store(true, std::memory_order_release);
  return program;
}

std::shared_ptr<Program> Program::closed(const std::vector<Lazy>& outputs, const std::vector<Lazy>& inputs,
                                         uint32_t stamp, std::string name, std::string where,
                                         std::string reason) {
  std::shared_ptr<Program> program(new Program);
  std::vector<Value> parameters;
  for (const Lazy& i : inputs) parameters.push_back(i.wide ? i.wide : i.value);
  program->computation_ = check(close_at_floor(carriers_of(outputs), parameters, stamp, &program->captured_));
  for (const Value& v : program->captured_)
    if (v.node()->op() == hlo::Op::parameter && v.node()->stamp() >= stamp) return nullptr;
  program->arguments_ = types_of(inputs);
  program->results_ = types_of(outputs);
  program->name_ = std::move(name);
  program->where_ = std::move(where);
  program->reason_ = std::move(reason);
  return program;
}

std::vector<bool> Program::bind_hidden(std::span<const Value> values) {
  std::vector<bool> found;
  hidden_at_.clear();
  taken_from_.assign(captured_.size(), -1);
  for (const Value& v : values) {
    const auto it = std::find(captured_.begin(), captured_.end(), v);
    found.push_back(it != captured_.end());
    hidden_at_.push_back(found.back() ? static_cast<int>(it - captured_.begin()) : -1);
    if (found.back()) taken_from_[it - captured_.begin()] = static_cast<int>(hidden_at_.size()) - 1;
  }
  return found;
}

std::vector<Value> Program::captured(std::span<const Value> hidden) const {
  std::vector<Value> out = captured_;
  for (size_t i = 0; i < std::min(hidden.size(), hidden_at_.size()); ++i)
    if (hidden_at_[i] >= 0) out[hidden_at_[i]] = hidden[i];
  return out;
}

std::vector<Value> Program::operands(const std::vector<Lazy>& args, std::span<const Value> hidden) const {
  hlo::Builder b;
  std::vector<Value> out;
  for (size_t i = 0; i < args.size(); ++i) {
    const hlo::Type* type = computation_->parameters()[i].type();
    out.push_back(args[i].value.type() == type                  ? args[i].value
                  : args[i].wide && args[i].wide.type() == type ? args[i].wide
                                                                : converted(b, args[i], type->dtype));
  }
  check(b.status());
  for (Value& v : captured(hidden)) out.push_back(std::move(v));
  for (const auto& [at, axis] : lanes_) {
    if (axis >= bound_axes().size())
      throw Error(ErrorKind::kRuntime,
                  str_cat(name_, " was traced inside a vmap with a named axis, and is called outside of it"));
    out[args.size() + at] = bound_axes()[axis].lane;
  }
  if (effects_ && waiting_token()) out[args.size()] = waiting_token();
  return out;
}

std::vector<Lazy> Program::leaves(std::span<jit::BufferRef> results, hlo::Place place) const {
  std::vector<Lazy> out;
  out.reserve(results_.size());
  hlo::LeafMaker make_leaf(place);
  hlo::Builder b;
  for (size_t i = 0; i < results_.size(); ++i) {
    // Only weak arrays come out in another type than their own.
    const auto& [type, weak] = results_[i];
    const hlo::Type* t = weak ? computation_->roots()[i].type() : type;
    Value leaf = make_leaf(t, new (make_leaf) jit::Array(t, std::move(results[i])));
    if (weak)
      out.push_back(from_carrier(b, std::move(leaf), type->dtype, weak));
    else
      out.push_back({std::move(leaf)});
  }
  check(b.status());
  return out;
}

Placed Program::forced_operands(const std::vector<Value>& given) const {
  force(given);
  return placed(given, name_);
}

std::vector<Lazy> Program::call(const std::vector<Lazy>& args, std::span<const Value> hidden) {
  const std::vector<Value> given = operands(args, hidden);
  bool recorded = inside_jit() || (effects_ && waiting_token());
  for (const Value& v : given) recorded |= in_open_scope(v);
  if (recorded) {
    hlo::GraphLock lock;
    hlo::Builder b;
    hlo::Values results =
        effects_ ? b.make_multi(hlo::Op::call, given, hlo::intern_attrs({{hlo::Attr::body, computation_}}))
                 : b.call(computation_, given);
    check(b.status());
    if (effects_) {
      waiting_token() = std::move(results.back());
      results.pop_back();
    }
    return from_carriers({results.begin(), results.end()}, results_);
  }
  Placed at = forced_operands(given);
  std::vector<jit::BufferRef> results;
  check(run_program(compile(*at.device), at.buffers, false, results));
  if (nan_checks()) check_nan(*computation_, at.buffers, results);
  return leaves(results, at.place);
}

namespace {

// The buffers of operands that are there, on one device.
class ReadyOperands {
 public:
  explicit ReadyOperands(size_t count) { buffers_.reserve(count); }

  // Looks for them there.
  void begin(jit::Device& device) {
    device_ = &device;
    place_ = hlo::kAnywhere;
    apart_ = false;
    while (!buffers_.empty()) buffers_.pop_back();  // clear() would let go of its memory
  }
  // False where it has no value, is bound elsewhere or belongs to an open transform.
  bool add(const Value& v) {
    if (!v.node()->data()) return false;
    if (v.node()->stamp() == 0) return add_known(v);
    const Value held = v;  // a Tensor's, which another thread may write to while this one waits for a lock
    return !in_open_scope(held) && add_known(held);
  }
  void add_number() { buffers_.emplace_back(); }

  // Whether all were found.
  bool complete() const { return !apart_; }
  // Where to begin anew: the device to which one is bound that was not found.
  jit::Device* bound_to() const { return bound_to_; }
  jit::Device& device() const { return *device_; }
  hlo::Place place() const { return place_; }
  std::span<jit::BufferRef> buffers() { return {buffers_.data(), buffers_.size()}; }

 private:
  bool add_known(const Value& v) {
    const jit::Array* const array = jit::known_array(v);
    if (const hlo::Place at = v.node()->place(); at != hlo::kAnywhere && at != place_) {
      if (place_ != hlo::kAnywhere) return false;  // the general way says what is wrong
      place_ = at;
      if (jit::Device& bound = array->device(); &bound != device_) {
        bound_to_ = &bound;
        return false;
      }
    }
    const jit::BufferRef* const there = array->known_on(*device_);
    apart_ |= !there;
    // A conditional expression of a reference and a new one is a constant: it would be copied, not moved.
    if (there)
      buffers_.push_back(*there);
    else
      buffers_.emplace_back();
    return true;
  }

  jit::Device* device_ = nullptr;
  jit::Device* bound_to_ = nullptr;
  hlo::Place place_ = hlo::kAnywhere;
  bool apart_ = false;
  absl::InlinedVector<jit::BufferRef, 12> buffers_;
};

}  // namespace

bool Program::call_ready(std::span<const Argument> args, std::span<const Lazy* const> hidden,
                         std::vector<Lazy>& results) {
  if (!nothing_open()) return false;
  ReadyOperands operands(args.size() + captured_.size());
  const auto gather = [&](jit::Device& device) {
    operands.begin(device);
    for (size_t i = 0; i < args.size(); ++i) {
      const hlo::Type* type = computation_->parameters()[i].type();
      if (const Lazy* x = args[i].array) {
        const Value* v = x->value.type() == type ? &x->value : &x->wide;
        if (!*v || v->type() != type || !operands.add(*v)) return false;
      } else {
        if (type != hlo::scalar_type(args[i].kind)) return false;
        operands.add_number();
      }
    }
    for (size_t i = 0; i < captured_.size(); ++i) {
      // Of each hidden argument bind_hidden named two values: as it is, and unrounded.
      const int from = i < taken_from_.size() ? taken_from_[i] : -1;
      if (from < 0 || static_cast<size_t>(from) / 2 >= hidden.size()) {
        if (!operands.add(captured_[i])) return false;
        continue;
      }
      const Lazy& x = *hidden[static_cast<size_t>(from) / 2];
      const bool unrounded = from % 2 == 1;
      if (unrounded && !x.weak) return false;
      const Value& v = unrounded && x.wide ? x.wide : x.value;
      if (v.type() != captured_[i].type() || !operands.add(v)) return false;
    }
    return operands.complete();
  };
  if (!gather(default_device()) && (!operands.bound_to() || !gather(*operands.bound_to()))) return false;
  jit::Device& device = operands.device();
  {
    hlo::HostLockReleased away(hlo::HostLockReleased::kLater);
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].array) continue;
      if (&device.client() != &jit::host()) away.leave();
      const int64_t bytes = hlo::scalar_type(args[i].kind)->bytes();
      operands.buffers()[i] = check(device.client().put(device, &args[i].number, bytes));
    }
  }
  std::vector<jit::BufferRef> made;
  check(run_program(compile(device), operands.buffers(), false, made));
  if (nan_checks()) check_nan(*computation_, operands.buffers(), made);
  results = leaves(made, operands.place());
  return true;
}

std::vector<Lazy> Program::call_giving_up(std::vector<Lazy> args, std::span<const Value> hidden,
                                          std::span<Cell* const> given_up) {
  Placed at = forced_operands(operands(args, hidden));
  std::vector<jit::BufferRef>& buffers = at.buffers;
  const jit::SpecializationPtr entry = compile(*at.device);
  const std::vector<Typed> were = types_of(args);
  std::vector<hlo::Place> bound_to;
  for (const Lazy& a : args) bound_to.push_back(a.value.node()->place());
  // Numbers are small, and in another type in the program: they are kept.
  std::vector<Lazy> numbers(args.size());
  for (size_t i = 0; i < args.size(); ++i)
    if (args[i].weak) numbers[i] = args[i];
  // From here on only the buffers hold what nobody else does.
  args.clear();
  for (size_t i = 0; i < given_up.size(); ++i)
    if (given_up[i]) given_up[i]->set({hlo::make_donated(were[i].type), were[i].weak});
  auto restore = [&] {
    for (size_t i = 0; i < given_up.size(); ++i)
      if (given_up[i] && numbers[i].value) {
        given_up[i]->set(numbers[i]);
      } else if (given_up[i] && buffers[i]) {
        const auto& [type, weak] = were[i];
        given_up[i]->set({hlo::make_leaf(type, new jit::Array(type, buffers[i]), bound_to[i]), weak});
      }
  };
  std::vector<jit::BufferRef> results;
  absl::Status status;
  try {
    status = run_program(entry, buffers, true, results);
  } catch (...) {
    restore();
    throw;
  }
  if (!status.ok()) restore();
  check(status);
  if (nan_checks()) check_nan(*computation_, {}, results);
  return leaves(results, at.place);
}

}  // namespace lamina::lazy
