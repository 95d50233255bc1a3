// Function transforms over flat lists of lazy arrays: what grad, vmap, jvp and jit are made of, in C++ and
// Python.
//
// Contract: the function is called once per transform call (jit: once per signature) on fresh parameters; it
// may call transforms itself, to any depth. Errors of the function pass through; nothing stays open after
// one.
#ifndef LAMINA_LAZY_TRANSFORMS_H_
#define LAMINA_LAZY_TRANSFORMS_H_

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "hlo/hash_map.h"
#include "jit/program/specialization_cache.h"
#include "lazy/lazy.h"
#include "lazy/placement.h"
#include "trace/lanes.h"

namespace lamina::lazy {

using FlatFunction = std::function<std::vector<Lazy>(const std::vector<Lazy>&)>;

// An array's type as users see it. A weak one goes into and comes out of what is traced as its carrier.
struct Typed {
  const hlo::Type* type;
  bool weak;
  bool operator==(const Typed&) const = default;
};
inline Typed typed(const Lazy& x) { return {x.value.type(), x.weak}; }
std::vector<Typed> types_of(const std::vector<Lazy>& values);
// As NumPy names it: float32[2,3].
std::string text(const Typed& type);

struct JvpResult {
  std::vector<Lazy> outputs, tangents;  // tangents: zeros where there is none
};
JvpResult jvp(const FlatFunction& f, const std::vector<Lazy>& primals, const std::vector<Lazy>& tangents);

// Outputs, the pull-back from output cotangents to input cotangents (zeros where there is none; float
// operands only, others give null), and the push-forward from input tangents to output tangents. Both are
// linear and compute nothing of the function anew.
struct VjpResult {
  std::vector<Lazy> outputs;
  std::function<std::vector<Lazy>(const std::vector<Lazy>&)> pull_back, push_forward;
};
// With `linear`, the name of what needs f to be linear, throws Error(kType) where it is not.
VjpResult vjp(const FlatFunction& f, const std::vector<Lazy>& primals, std::string_view linear = {});

// Outputs, and the gradients of the first of them, a scalar, as of `vjp`. Outside of all transforms a
// derivative that was derived before is looked up (lazy/derivative_memo.h). `where` gives the line that
// gradients are recorded at, once f is through.
struct ValueAndGradients {
  std::vector<Lazy> outputs, gradients;
};
ValueAndGradients value_and_gradients(const FlatFunction& f, const std::vector<Lazy>& primals,
                                      const std::function<hlo::LocationId()>& where);

// args[i] carries the batch at dimension 0 where batched[i]; all outputs carry it at dimension 0.
// `lanes_differ` gets for each output whether it depends on a batched argument. With a name, collectives over
// the axis of that name are between these lanes (lazy/axes.h). Lanes that go different ways do so by
// `strategy`.
std::vector<Lazy> vmap(const FlatFunction& f, const std::vector<Lazy>& args, const std::vector<bool>& batched,
                       int64_t size, std::vector<bool>* lanes_differ = nullptr, std::string axis_name = {},
                       trace::LaneStrategy strategy = trace::LaneStrategy::kSelect);

// Outputs of f as one region that reverse mode computes again instead of keeping, but for what the rule
// `policy` (trace/kept.h) says of its derivative; not where f has effects. Of arguments that are `shared` it
// may take what the forward computation made of them.
std::vector<Lazy> checkpoint(const FlatFunction& f, const std::vector<Lazy>& args, int64_t policy = 0,
                             const std::vector<bool>& shared = {});
// Outputs of f as one operation that compilers may know by a name (trace/checkpoint.h).
std::vector<Lazy> composite(const FlatFunction& f, const std::vector<Lazy>& args, const std::string& name,
                            int64_t version, const std::string& attributes);
// x under a name that policies see.
Lazy named(const Lazy& x, std::string_view name);

// A region for control flow: f on parameters of the given types. Values it uses from outside are appended to
// `captured` and become further parameters. Unless `carriers`, weak values go in and out rounded. With
// `effects`, which says whether f has any, a token (lazy/effects.h) goes in between the types and the
// captured values, and comes out last; without, effects raise.
hlo::ComputationPtr region(const FlatFunction& f, const std::vector<Typed>& types,
                           std::vector<Lazy>* captured, std::vector<Typed>* results, bool carriers = true,
                           bool* effects = nullptr);

// A program traced for one signature.
class Program {
 public:
  // Traces f on parameters of these types.
  Program(const FlatFunction& f, std::vector<Typed> arguments, std::string name, std::string where);
  // A computation made elsewhere.
  static std::shared_ptr<Program> of(hlo::ComputationPtr computation, std::string name, std::string where);
  // One that was compiled elsewhere, with the values of its further parameters.
  static std::shared_ptr<Program> compiled(jit::SpecializationPtr entry, std::vector<Typed> arguments,
                                           std::vector<Typed> results, std::vector<Value> captured);
  // The graph between `inputs`, parameters of the open jit scope with this stamp, and `outputs`. Null if it
  // depends on an argument of a transform opened inside that scope.
  static std::shared_ptr<Program> closed(const std::vector<Lazy>& outputs, const std::vector<Lazy>& inputs,
                                         uint32_t stamp, std::string name, std::string where,
                                         std::string reason);
  // Runs it, or records a call inside an open transform of its operands. `hidden` replaces the captured
  // values that bind_hidden named.
  std::vector<Lazy> call(const std::vector<Lazy>& args, std::span<const Value> hidden = {});
  // An argument, or an element of a type that a number of that kind is given in.
  struct Argument {
    const Lazy* array = nullptr;
    DType kind = DType::kF64;
    union {
      double f64;
      int64_t s64;
    } number{};
  };
  // As `call` where nothing is open on this thread and all operands have their values where it runs, as they
  // mostly do; the weak values among `hidden` unrounded. False, with nothing done, elsewhere. `results` is
  // empty before.
  bool call_ready(std::span<const Argument> args, std::span<const Lazy* const> hidden,
                  std::vector<Lazy>& results);
  // Runs it, outside all transforms. given_up[i] (may be null) is a handle to argument i whose value is gone
  // afterwards: its memory is written over where nobody else holds it. After a failure it has its value
  // still, unless that has been written over.
  std::vector<Lazy> call_giving_up(std::vector<Lazy> args, std::span<const Value> hidden,
                                   std::span<Cell* const> given_up);
  // Marks captured values that `call` gets anew each time; whether each of `values` was captured.
  std::vector<bool> bind_hidden(std::span<const Value> values);
  // Said of the cache entry; empty: found by comparing entries.
  void set_reason(std::string reason) { reason_ = std::move(reason); }
  const hlo::ComputationPtr& computation() const { return computation_; }
  const std::vector<Typed>& arguments() const { return arguments_; }
  const std::vector<Typed>& results() const { return results_; }
  // Values from outside that became parameters behind those of the arguments.
  const std::vector<Value>& captured() const { return captured_; }
  // The same, `hidden` in the place of those that bind_hidden named.
  std::vector<Value> captured(std::span<const Value> hidden) const;
  const std::string& name() const { return name_; }
  int64_t num_captured() const { return static_cast<int64_t>(captured_.size()); }
  // Compiles now, for the default device or another; its entry in the specialization cache.
  const jit::SpecializationPtr& compile();
  const jit::SpecializationPtr& compile(jit::Device& device);
  // Where a call with these arguments, or some of them, runs. Throws kValue where they and what is captured
  // are bound to several devices.
  jit::Device& device_for(std::span<const Value> arguments) const;

 private:
  Program() = default;
  Placed forced_operands(const std::vector<Value>& given) const;
  std::vector<Value> operands(const std::vector<Lazy>& args, std::span<const Value> hidden) const;
  std::vector<Lazy> leaves(std::span<jit::BufferRef> results, hlo::Place place) const;

  hlo::ComputationPtr computation_;
  std::vector<Value> captured_;
  std::vector<int> hidden_at_;   // index in captured_, or -1
  std::vector<int> taken_from_;  // by captured value: which of those that bind_hidden named, or -1
  // Captured values that are lanes of axes, by their places among those bound: each call gets its own.
  std::vector<std::pair<size_t, size_t>> lanes_;
  bool effects_ = false;  // the first captured value is then their token, and the last root
  std::vector<Typed> arguments_, results_;
  std::string name_, where_, reason_;
  jit::SpecializationPtr entry_;                 // set once, under the lock of all programs
  std::atomic<bool> compiled_{false};            // whether it is
  std::list<jit::SpecializationPtr> elsewhere_;  // for other devices, under that lock
};

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_TRANSFORMS_H_
