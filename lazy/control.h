// Control flow over flat lists of lazy arrays: what cond, switch, while_loop, fori_loop and scan are made of,
// in C++ and Python.
//
// Contract: a function is traced as a region on parameters of its arguments' types, once, or twice where
// numbers among its carry or results take the element type of an array they meet. What it uses from outside
// becomes a further operand: an unchanged carry of a loop, an argument of every branch. Numbers go through
// regions with all their bits. Types that do not fit each other throw Error(kType), lengths that do not
// Error(kValue), both naming the leaves with their types. Errors of the functions pass through.
#ifndef LAMINA_LAZY_CONTROL_H_
#define LAMINA_LAZY_CONTROL_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lazy/transforms.h"
#include "trace/recursion.h"

namespace lamina::lazy {

// The results, of these types, of a region with carriers (lazy::region) on operands of its types. One that it
// gives back as it got it is the operand, but where it has effects: their token is a new one.
std::vector<Lazy> call_region(const hlo::ComputationPtr& region, std::vector<Lazy> operands,
                              std::span<const Typed> results, bool effects = false);

// The same, its ops recorded one by one: each result depends on what it is computed from only.
std::vector<Lazy> inline_region(const hlo::ComputationPtr& region, const std::vector<Lazy>& operands,
                                std::span<const Typed> results);

// A function and what messages call it.
struct Named {
  FlatFunction f;
  std::string name;
};
// What messages call leaf k of a container: "['a'][0]".
using LeafName = std::function<std::string(size_t k)>;
// Of one loop or branch, for messages: what the user called ("lax.scan"), the leaves of the carry or result.
struct ControlNames {
  std::string what;
  LeafName leaf;
};

// Steps (carry, slices of items along axis 0) -> (carry, y): the last carry, then the ys stacked. The
// function returns as many carries as it is given, then its ys. `length` may be absent where there are items.
std::vector<Lazy> scan(const ControlNames& names, const Named& step, std::vector<Lazy> carry,
                       const std::vector<Lazy>& items, const LeafName& item_name,
                       std::optional<int64_t> length, bool reverse);

// What a function of rows gives for those along axis 0 of the items, `batch` of them at a time: `scanned`
// gets the rows that fill batches as [count / batch, batch, ...], and gives its results so; `batched` gets
// those that are left as [rest, ...]. Throws Error(kValue) where batch is below 1, or as `scan` does of its
// items.
std::vector<Lazy> in_batches(const std::string& what, const FlatFunction& scanned,
                             const FlatFunction& batched, const std::vector<Lazy>& items,
                             const LeafName& item_name, int64_t batch);

// `body` of the carry while `test` of it, one bool scalar, holds. Reverse mode keeps `checkpoint` states at
// a time, or trace::kRootOfSteps, and computes the others again; absent: as many as fit a budget. Throws
// Error(kValue) for other numbers below 1.
std::vector<Lazy> while_loop(const ControlNames& names, const Named& test, const Named& body,
                             std::vector<Lazy> carry, std::optional<int64_t> checkpoint = {});

// body(i, carry) for i = lower ... upper-1. Known bounds make it a scan, others, which are integer scalars,
// or `checkpoint`, a while loop.
std::vector<Lazy> fori_loop(const ControlNames& names, const Named& body, int64_t lower, int64_t upper,
                            std::vector<Lazy> carry, std::optional<int64_t> checkpoint = {});
std::vector<Lazy> fori_loop(const ControlNames& names, const Named& body, const Lazy& lower,
                            const Lazy& upper, std::vector<Lazy> carry,
                            std::optional<int64_t> checkpoint = {});

// branches[index](operands); the index, an integer scalar, is limited to the branches. Only that branch runs.
std::vector<Lazy> switch_case(const ControlNames& names, const Lazy& index,
                              const std::vector<Named>& branches, const std::vector<Lazy>& operands);
// if_true(operands) where the scalar is true or not zero, else if_false(operands).
std::vector<Lazy> cond(const ControlNames& names, const Lazy& predicate, const Named& if_true,
                       const Named& if_false, const std::vector<Lazy>& operands);

// Thrown by a call of a recursive function whose results are not known yet (lazy/recursion.h): a branch that
// throws it gives what the others give, a loop its carry.
class NoResultYet {};

// A call of a recursive function while its region is traced (trace/call_sequence.h); the error is among
// operands and results.
std::vector<Lazy> recursive_call(int64_t function, const std::vector<Lazy>& operands,
                                 std::span<const Typed> results);
// The first of recursive functions, regions with carriers, on its arguments and captured values.
std::vector<Lazy> recursion(std::span<const trace::RecursiveFunction> functions,
                            const std::vector<Lazy>& operands, std::span<const Typed> results,
                            int64_t deepest, int64_t too_deep);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_CONTROL_H_
