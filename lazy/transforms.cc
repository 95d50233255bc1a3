#include "lazy/transforms.h"

#include "hlo/host_lock.h"
#include "hlo/op.h"
#include "hlo/rules/transform_support.h"
#include "hlo/strings.h"
#include "jit/engine.h"
#include "lazy/location_text.h"
#include "lazy/rebuild.h"
#include "lazy/scopes.h"
#include "trace/checkpoint.h"
#include "trace/jvp.h"
#include "trace/transpose.h"
#include "trace/vmap.h"

namespace lamina::lazy {
namespace {

std::vector<Value> values_of(const std::vector<Lazy>& lazies) {
  std::vector<Value> out;
  for (const Lazy& l : lazies) out.push_back(l.value);
  return out;
}

// Opaque copies of the arguments that belong to a derivative scope with this stamp.
std::vector<Lazy> open_identities(const std::vector<Lazy>& args, uint32_t stamp) {
  std::vector<Lazy> out;
  for (const Lazy& a : args) {
    const hlo::Operand operand = a.value.operand();
    out.push_back({hlo::make_fresh_node(hlo::Op::identity, a.value.type(), hlo::no_attrs(),
                                        std::span(&operand, 1), std::max(stamp, a.value.node()->stamp())),
                   a.weak});
  }
  return out;
}

bool has_tangent(const Lazy& x) { return hlo::is_inexact(x.value.dtype()); }

Lazy zeros(hlo::Builder& b, const Lazy& like) { return {b.zeros_like(like.value), false}; }

}  // namespace

JvpResult jvp(const FlatFunction& f, const std::vector<Lazy>& primals, const std::vector<Lazy>& tangents) {
  const uint32_t stamp = hlo::fresh_stamp();
  const std::vector<Lazy> inputs = open_identities(primals, stamp);
  std::vector<Lazy> outputs;
  {
    ScopeGuard scope(Scope::kDerivative, stamp);
    outputs = f(inputs);
  }
  hlo::GraphLock lock;
  std::vector<Value> input_tangents;
  for (size_t i = 0; i < inputs.size(); ++i)
    input_tangents.push_back(has_tangent(inputs[i]) ? tangents[i].value : Value());
  trace::JvpOut out = check(trace::jvp(values_of(outputs), values_of(inputs), input_tangents));
  hlo::Builder b;
  JvpResult result;
  for (size_t i = 0; i < outputs.size(); ++i) {
    result.outputs.push_back({out.primals[i], outputs[i].weak});
    result.tangents.push_back(out.tangents[i] ? Lazy{out.tangents[i], false} : zeros(b, outputs[i]));
  }
  check(b.status());
  return result;
}

VjpResult vjp(const FlatFunction& f, const std::vector<Lazy>& primals) {
  const uint32_t stamp = hlo::fresh_stamp();
  const std::vector<Lazy> inputs = open_identities(primals, stamp);
  std::vector<Lazy> outputs;
  {
    ScopeGuard scope(Scope::kDerivative, stamp);
    outputs = f(inputs);
  }
  hlo::GraphLock lock;
  auto linear = std::make_shared<trace::Linearized>(
      check(trace::linearize_fresh(values_of(outputs), values_of(inputs))));
  VjpResult result;
  for (size_t i = 0; i < outputs.size(); ++i) result.outputs.push_back({linear->primals[i], outputs[i].weak});
  result.pull_back = [linear, inputs](const std::vector<Lazy>& cotangents) {
    hlo::GraphLock inner;
    std::vector<Value> grads = check(trace::pull_back(*linear, values_of(cotangents)));
    hlo::Builder b;
    std::vector<Lazy> out;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!has_tangent(inputs[i]))
        out.push_back({});
      else
        out.push_back(grads[i] ? Lazy{grads[i], inputs[i].weak} : zeros(b, inputs[i]));
    }
    check(b.status());
    return out;
  };
  result.push_forward = [linear, outputs](const std::vector<Lazy>& tangents) {
    hlo::GraphLock inner;
    hlo::Builder b;
    std::vector<Value> results, inputs, given;
    for (size_t i = 0; i < outputs.size(); ++i)
      results.push_back(linear->tangents[i] ? linear->tangents[i] : zeros(b, outputs[i]).value);
    for (size_t i = 0; i < tangents.size(); ++i) {
      if (!linear->tangent_inputs[i]) continue;
      inputs.push_back(linear->tangent_inputs[i]);
      given.push_back(tangents[i].value);
    }
    // The derivative of a linear function is the function.
    const trace::JvpOut along = check(trace::jvp(results, inputs, given));
    std::vector<Lazy> out;
    for (size_t i = 0; i < outputs.size(); ++i)
      out.push_back(along.tangents[i] ? Lazy{along.tangents[i], false} : zeros(b, outputs[i]));
    check(b.status());
    return out;
  };
  return result;
}

std::vector<Lazy> vmap(const FlatFunction& f, const std::vector<Lazy>& args, const std::vector<bool>& batched,
                       int64_t size, std::vector<bool>* lanes_differ) {
  std::vector<Lazy> inputs;
  std::vector<Value> parameters, values;
  absl::InlinedVector<bool, 8> flags;
  uint32_t stamp = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!batched[i]) {
      inputs.push_back(args[i]);
      continue;
    }
    const hlo::Type* t = args[i].value.type();
    Value p = hlo::make_parameter(hlo::array_type_or_die(t->dtype, std::span(t->dims).subspan(1)));
    if (stamp == 0) stamp = p.node()->stamp();
    inputs.push_back({p, args[i].weak});
    parameters.push_back(p);
    values.push_back(args[i].value);
    flags.push_back(true);
  }
  if (stamp == 0) stamp = hlo::fresh_stamp();
  std::vector<Lazy> outputs;
  {
    ScopeGuard scope(Scope::kVmap, stamp, parameters);
    outputs = f(inputs);
  }
  hlo::GraphLock lock;
  trace::VmapOut results = check(trace::vmap_lazily(values_of(outputs), parameters, values, flags, size));
  hlo::Builder b;
  std::vector<Lazy> out;
  for (size_t i = 0; i < outputs.size(); ++i)
    out.push_back({hlo::with_batch(b, results.results[i], results.batched[i], size), outputs[i].weak});
  check(b.status());
  if (lanes_differ) *lanes_differ = std::move(results.batched);
  return out;
}

std::vector<Lazy> checkpoint(const FlatFunction& f, const std::vector<Lazy>& args) {
  const uint32_t stamp = hlo::fresh_stamp();
  const std::vector<Lazy> inputs = open_identities(args, stamp);
  std::vector<Lazy> outputs;
  {
    ScopeGuard scope(Scope::kDerivative, stamp);
    outputs = f(inputs);
  }
  hlo::GraphLock lock;
  std::vector<Value> results =
      check(trace::checkpoint(values_of(outputs), values_of(inputs), values_of(args)));
  std::vector<Lazy> out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back({results[i], outputs[i].weak});
  return out;
}

hlo::ComputationPtr region(const FlatFunction& f, const std::vector<const hlo::Type*>& types,
                           const std::vector<bool>& weak, std::vector<Lazy>* captured,
                           std::vector<bool>* result_weak) {
  const uint32_t stamp = hlo::fresh_stamp();
  std::vector<Lazy> inputs;
  for (size_t i = 0; i < types.size(); ++i) inputs.push_back({hlo::make_parameter(types[i]), weak[i]});
  std::vector<Lazy> outputs;
  {
    ScopeGuard scope(Scope::kJit, stamp, values_of(inputs));
    hlo::FloorScope floor(stamp);
    outputs = f(inputs);
  }
  if (result_weak)
    for (const Lazy& o : outputs) result_weak->push_back(o.weak);
  std::vector<Value> outside;
  hlo::ComputationPtr body = check(close_at_floor(values_of(outputs), values_of(inputs), stamp, &outside));
  for (Value& v : outside) captured->push_back({std::move(v), false});
  return body;
}

Program::Program(const FlatFunction& f, const std::vector<const hlo::Type*>& types,
                 const std::vector<bool>& weak, std::string name, std::string where)
    : name_(std::move(name)), where_(std::move(where)) {
  std::vector<Lazy> captured;
  computation_ = region(f, types, weak, &captured, &result_weak_);
  for (Lazy& c : captured) captured_.push_back(std::move(c.value));
}

jit::SpecializationPtr Program::compile() {
  {
    std::lock_guard lock(mutex_);
    if (entry_) return entry_;
  }
  std::vector<uint64_t> key =
      check(hlo::encode_graph(computation_->parameters(), computation_->roots(), nullptr, nullptr));
  hlo::HostLockReleased away;
  jit::SpecializationPtr made = check(jit::Engine::get().cache().get(
      std::move(key), [&] { return absl::StatusOr<hlo::ComputationPtr>(computation_); },
      [&] {
        return jit::SpecializationCache::Origin{"jit", name_, where_, reason_};
      }));
  std::lock_guard lock(mutex_);
  if (!entry_) entry_ = std::move(made);
  return entry_;
}

std::shared_ptr<Program> Program::of(hlo::ComputationPtr computation, std::string name, std::string where) {
  std::shared_ptr<Program> program(new Program);
  program->result_weak_.assign(computation->roots().size(), false);
  program->computation_ = std::move(computation);
  program->name_ = std::move(name);
  program->where_ = std::move(where);
  return program;
}

std::shared_ptr<Program> Program::closed(const std::vector<Lazy>& outputs, const std::vector<Lazy>& inputs,
                                         uint32_t stamp, std::string name, std::string where,
                                         std::string reason) {
  std::shared_ptr<Program> program(new Program);
  program->computation_ =
      check(close_at_floor(values_of(outputs), values_of(inputs), stamp, &program->captured_));
  for (const Value& v : program->captured_)
    if (v.node()->op() == hlo::Op::parameter && v.node()->stamp() >= stamp) return nullptr;
  for (const Lazy& o : outputs) program->result_weak_.push_back(o.weak);
  program->name_ = std::move(name);
  program->where_ = std::move(where);
  program->reason_ = std::move(reason);
  return program;
}

std::vector<bool> Program::bind_hidden(std::span<const Value> values) {
  std::vector<bool> found;
  hidden_at_.clear();
  for (const Value& v : values) {
    const auto it = std::find(captured_.begin(), captured_.end(), v);
    found.push_back(it != captured_.end());
    hidden_at_.push_back(found.back() ? static_cast<int>(it - captured_.begin()) : -1);
  }
  return found;
}

std::vector<Value> Program::operands(const std::vector<Lazy>& args, std::span<const Value> hidden) const {
  std::vector<Value> out = values_of(args);
  out.insert(out.end(), captured_.begin(), captured_.end());
  for (size_t i = 0; i < std::min(hidden.size(), hidden_at_.size()); ++i)
    if (hidden_at_[i] >= 0) out[args.size() + hidden_at_[i]] = hidden[i];
  return out;
}

std::vector<Lazy> Program::leaves(std::vector<jit::BufferRef> results) const {
  std::vector<Lazy> out;
  for (size_t i = 0; i < results.size(); ++i) {
    const hlo::Type* t = computation_->roots()[i].type();
    out.push_back({hlo::make_leaf(t, new jit::Array(t, std::move(results[i]))), result_weak_[i]});
  }
  return out;
}

namespace {

std::vector<jit::BufferRef> forced_buffers(const std::vector<Value>& values) {
  force(values);
  std::vector<jit::BufferRef> out;
  for (const Value& v : values) out.push_back(jit::array_of(v)->buffer());
  return out;
}

}  // namespace

std::vector<Lazy> Program::call(const std::vector<Lazy>& args, std::span<const Value> hidden) {
  const std::vector<Value> given = operands(args, hidden);
  const uint32_t open = lowest_open_stamp();
  bool recorded = inside_jit();
  for (const Value& v : given) recorded |= v.node()->stamp() >= open;
  if (recorded) {
    hlo::GraphLock lock;
    hlo::Builder b;
    hlo::Values results = b.call(computation_, given);
    check(b.status());
    std::vector<Lazy> out;
    for (size_t i = 0; i < result_weak_.size(); ++i) out.push_back({results[i], result_weak_[i]});
    return out;
  }
  std::vector<jit::BufferRef> buffers = forced_buffers(given), results;
  check(run_program(compile(), buffers, false, results));
  return leaves(std::move(results));
}

std::vector<Lazy> Program::call_giving_up(std::vector<Lazy> args, std::span<const Value> hidden,
                                          std::span<Cell* const> given_up) {
  std::vector<jit::BufferRef> buffers = forced_buffers(operands(args, hidden)), results;
  const jit::SpecializationPtr entry = compile();
  std::vector<std::pair<const hlo::Type*, bool>> were;
  for (const Lazy& a : args) were.emplace_back(a.value.type(), a.weak);
  // From here on only the buffers hold what nobody else does.
  args.clear();
  for (size_t i = 0; i < given_up.size(); ++i)
    if (given_up[i]) given_up[i]->set({hlo::make_donated(were[i].first), were[i].second});
  auto restore = [&] {
    for (size_t i = 0; i < given_up.size(); ++i)
      if (given_up[i] && buffers[i]) {
        const auto& [type, weak] = were[i];
        given_up[i]->set({hlo::make_leaf(type, new jit::Array(type, buffers[i])), weak});
      }
  };
  absl::Status status;
  try {
    status = run_program(entry, buffers, true, results);
  } catch (...) {
    restore();
    throw;
  }
  if (!status.ok()) restore();
  check(status);
  return leaves(std::move(results));
}

}  // namespace lamina::lazy
