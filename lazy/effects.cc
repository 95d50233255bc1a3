#include "lazy/effects.h"

#include "hlo/nodes.h"
#include "hlo/op.h"
#include "lazy/scopes.h"

namespace lamina::lazy {

using hlo::Node;

Value& waiting_token() {
  thread_local Value token;
  return token;
}

int& EffectsWait::depth() {
  thread_local int depth = 0;
  return depth;
}

const hlo::Type* token_of_effects() { return hlo::scalar_type(DType::kS32); }

Value last_token() {
  if (waiting_token()) return waiting_token();
  hlo::Builder b;
  const Value start = b.scalar_int(DType::kS32, 0);
  check(b.status());
  return start;
}

namespace {

// Whether effects are being run on this thread, or wait.
bool& running() {
  thread_local bool on = false;
  return on;
}

void run_up_to(const Value& token) {
  struct Running {
    bool saved = std::exchange(running(), true);
    ~Running() { running() = saved; }
  } const now;
  force(std::span(&token, 1));
}

// Whether everything recorded here has a value: no jit or vmap is open, nor is the graph being changed.
bool all_known() {
  if (hlo::GraphLock::is_held() || EffectsWait::depth() > 0) return false;
  for (const Scope& s : open_scopes())
    if (s.kind != Scope::kDerivative) return false;
  return true;
}

}  // namespace

std::vector<Lazy> record_effect(std::vector<Lazy> operands, const hlo::Attrs* attrs) {
  operands.insert(operands.begin() + 1, {last_token(), false});
  std::vector<Lazy> out = record(hlo::Op::custom_call, operands, attrs);
  const Value token = out[0].value;
  out.erase(out.begin());
  note_effects(token);
  return out;
}

void note_effects(const Value& token) {
  // Behind effects that wait, as those of a loop in a derivative do, these wait too.
  Value& waiting = waiting_token();
  if (!waiting && all_known())
    run_up_to(token);
  else
    waiting = token;
}

void run_effects() {
  if (!waiting_token() || !open_scopes().empty() || !all_known()) return;
  const Value token = std::exchange(waiting_token(), Value());
  run_up_to(token);
}

std::vector<Value> effects_beneath(std::span<const Value> roots) {
  std::vector<Value> out;
  if (!running() && !waiting_token()) return out;
  const auto known = [](const Node& n, void*) { return n.data() != nullptr; };
  for (Node* n : hlo::postorder(roots, known))
    if (!n->data() && hlo::anywhere(*n, hlo::is_effect)) out.push_back(Value(n));
  return out;
}

std::vector<bool> behind_effects(std::span<const Value> values) {
  if (!running() && !waiting_token()) return {};
  HashSet<const Node*> behind;
  const auto known = [](const Node& n, void*) { return n.data() != nullptr; };
  for (const Node* n : hlo::postorder(values, known)) {
    if (n->data()) continue;
    const std::span<const hlo::Operand> in = n->operands();
    if (hlo::anywhere(*n, hlo::is_effect) ||
        std::any_of(in.begin(), in.end(), [&](const hlo::Operand& o) { return behind.contains(o.node()); }))
      behind.insert(n);
  }
  if (behind.empty()) return {};
  std::vector<bool> out;
  for (const Value& v : values) out.push_back(behind.contains(v.node()));
  return out;
}

}  // namespace lamina::lazy
