// Effects: host callbacks that run for what they do, in program order, once each.
//
// Contract: an effect is a custom_call with has_side_effect, (function, token, arrays...) -> (token,
// results...). Its token, an s32[] whose value nobody reads, is the last effect's result, so that order is a
// dependence like any other: equal effects are two, none is dropped or moved over another, and regions carry
// the token as one more carry or operand. Where nothing unknown is open an effect runs when it is recorded,
// else when the outermost transform closes (transforms) or with the program (jit).
#ifndef LAMINA_LAZY_EFFECTS_H_
#define LAMINA_LAZY_EFFECTS_H_

#include <functional>
#include <vector>

#include "lazy/lazy.h"

namespace lamina::lazy {

// Results of the host callback `attrs` names on (function, arrays...), as an effect.
std::vector<Lazy> record_effect(std::vector<Lazy> operands, const hlo::Attrs* attrs);
// Effects were recorded that began from last_token() and end with `token`: they run now, or wait.
void note_effects(const Value& token);
// Runs the effects that wait, where nothing is open on this thread that they may depend on.
void run_effects();

// What a run that computes `roots` must keep of what lies beneath: nodes with effects, which may not run
// again for another of their results.
std::vector<Value> effects_beneath(std::span<const Value> roots);
// Which of the values depend on nodes with effects that have not run; empty where none does.
std::vector<bool> behind_effects(std::span<const Value> values);

// The token of the last effect recorded on this thread; a constant where there was none. Null: none waits.
Value last_token();
Value& waiting_token();
const hlo::Type* token_of_effects();

// What is recorded while this lives starts from another token; afterwards the old one is back.
class TokenScope {
 public:
  explicit TokenScope(Value token)
      : start_(token), saved_(std::exchange(waiting_token(), std::move(token))) {}
  ~TokenScope() { waiting_token() = saved_; }
  TokenScope(const TokenScope&) = delete;
  TokenScope& operator=(const TokenScope&) = delete;
  // The token of the last effect so far, and whether there was one.
  const Value& token() const { return waiting_token(); }
  bool any() const { return !(waiting_token() == start_); }

 private:
  Value start_, saved_;
};

// Effects wait while one lives, although their operands may be known: what is recorded is about to be made
// anew.
class EffectsWait {
 public:
  EffectsWait() { ++depth(); }
  ~EffectsWait() { --depth(); }
  EffectsWait(const EffectsWait&) = delete;
  EffectsWait& operator=(const EffectsWait&) = delete;
  static int& depth();
};

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_EFFECTS_H_
