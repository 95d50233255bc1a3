// Derivatives that users define for a function of their own.
//
// Contract: a rule is attached to a `call` node by its id (attribute `rule`); the call's body is the function
// itself. The callbacks run when a transform reaches the call, any number of times, under the graph lock;
// they record nodes on the values given, with the builder or otherwise, and leave errors in the builder. A
// rule has `jvp`, or `forward` and `backward`. One with `jvp` may have `transpose`, for a function that is
// linear in some operands and whose body cannot be transposed (an iteration that solves a linear system).
#ifndef LAMINA_HLO_CUSTOM_RULE_H_
#define LAMINA_HLO_CUSTOM_RULE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "hlo/batching.h"
#include "hlo/builder.h"

namespace lamina::hlo {

// One tangent per result (null: none). What must be re-recorded to have a tangent (loops, branches, calls)
// also gives its results.
struct JvpResult {
  Values tangents;
  Values primals;  // empty: the node's own results stand
};

// Forward derivative: tangents[i] is null where operand i has none.
using JvpRule = JvpResult (*)(Builder& b, const Node& node, std::span<const Value> operands,
                              std::span<const Value> tangents);

// For a node linear in the operands marked in `linear`: cotangents of those operands (null: none or zero).
// cotangents[i] belongs to result i, null if zero.
using TransposeRule = Values (*)(Builder& b, const Node& node, std::span<const Value> operands,
                                 std::span<const bool> linear, std::span<const Value> cotangents);

// Batching over a leading dimension of `size`: operands[i] carries it as dimension 0 where batched[i].
using BatchRule = BatchResult (*)(Builder& b, const Node& node, std::span<const Value> operands,
                                  std::span<const bool> batched, int64_t size);

class CustomRule {
 public:
  virtual ~CustomRule() = default;

  enum class Kind : uint8_t { kJvp, kVjp };
  virtual Kind kind() const = 0;

  // Whether the rule tells zeros by null values: tangents of operands, and cotangents of results, that are
  // zero are null then; otherwise they are there for every element type that has them.
  virtual bool symbolic_zeros() const { return false; }

  // How many operands are the function's own, in front. The rule sees no tangents of the others, which the
  // body uses from outside: it is an error where they have any.
  virtual size_t arguments() const { return SIZE_MAX; }

  // kJvp. Tangents are null for operands whose element type has none. Returns one tangent per result (null:
  // none), linear in the tangents, and the results, which must not depend on the tangents; no results means
  // that the call's own stand.
  virtual JvpResult jvp(Builder& b, std::span<const Value> operands, std::span<const Value> tangents);

  // kJvp. Whether there is `transpose`, and it: cotangents of the operands that are `linear` (null: zero, and
  // for the others) from those of the results (all there; null for integer results).
  virtual bool has_transpose() const { return false; }
  virtual Values transpose(Builder& b, std::span<const Value> operands, std::span<const bool> linear,
                           std::span<const Value> cotangents);

  // Whether there is `batch`, and it: the call over `size` lanes. Operands that are `batched` hold the lanes
  // along axis 0, and so do the results that are said to.
  virtual bool has_batch() const { return false; }
  virtual BatchResult batch(Builder& b, std::span<const Value> operands, std::span<const bool> batched,
                            int64_t size);

  // kVjp. The results and whatever `backward` wants to see again; which operands are being differentiated.
  // The rule runs again for other passes before `backward` of this one does: what it is to know of this pass
  // besides arrays (their structure, say) is `form`. Null: what it knows without one.
  using Form = std::shared_ptr<const void>;
  struct Forward {
    Values results, residuals;
    Form form = nullptr;
  };
  virtual Forward forward(Builder& b, std::span<const Value> operands, std::span<const bool> perturbed);
  // Cotangents of all operands, or of the function's own (null: zero), from those of the results (null for
  // integer results).
  virtual Values backward(Builder& b, const Form& form, std::span<const Value> residuals,
                          std::span<const Value> cotangents);
};

// Returns the rule's id, at least 1, which is never used twice. The rule is counted, once for the caller and
// once for every set of attributes that names it; it goes with its last owner, and those derived from it with
// it.
int64_t register_custom_rule(std::shared_ptr<CustomRule> rule);
void retain_custom_rule(int64_t id);
void release_custom_rule(int64_t id);
// One more owner, for as long as it lives.
class RuleOwner {
 public:
  explicit RuleOwner(int64_t id) : id_(id) { retain_custom_rule(id); }
  ~RuleOwner() { release_custom_rule(id_); }
  RuleOwner(const RuleOwner&) = delete;
  RuleOwner& operator=(const RuleOwner&) = delete;

 private:
  int64_t id_;
};
// Of the rule; 0 if there is none (any more).
int64_t custom_rule_owners(int64_t id);
// Null if there is none (any more).
std::shared_ptr<CustomRule> find_custom_rule(int64_t id);

// The id of a rule made from rule `id` (its batched form), the same for the same key; 0 if rule `id` is gone.
// What is made must not own that rule: it is owned as long as anything names either, and if it were by what
// is made of it, nobody could tell when only its own functions hold it.
int64_t derived_custom_rule(int64_t id, const std::string& key,
                            const std::function<std::shared_ptr<CustomRule>()>& make);

// A call of `body` with the rule's derivative.
Values custom_call_with_rule(Builder& b, int64_t rule, ComputationPtr body, std::span<const Value> operands);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_CUSTOM_RULE_H_
