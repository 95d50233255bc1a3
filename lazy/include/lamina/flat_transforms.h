// The library's side of the transforms, on flat lists of tensors; lamina/transforms.h puts trees around it.
#ifndef LAMINA_FLAT_TRANSFORMS_H_
#define LAMINA_FLAT_TRANSFORMS_H_

#include <array>
#include <limits>
#include <optional>
#include <source_location>
#include <string>
#include <utility>
#include <vector>

#include "lamina/tensor.h"

#pragma GCC visibility push(default)
namespace lamina {

// As a number of states: between once and six times the square root of a loop's steps (at least 16), which
// need not be known before it runs. Every step runs at most three times forward.
inline constexpr int64_t checkpoint_sqrt = std::numeric_limits<int64_t>::min();

// How vmap calls a callback: once per lane; or once for all, with the lanes as dimension 0 of every argument
// and result, of size 1 or repeated where an argument is not mapped.
enum class CallbackLanes { kOneByOne, kExpanded, kRepeated };

struct DerivativeOptions {
  bool holomorphic = false;  // complex arguments and values, and the complex derivative
  bool allow_int = false;    // arguments of integers and booleans too, whose derivatives are zeros
};

namespace detail {

// A function on lists of tensors.
using FlatFunction = Function<std::vector<Tensor>(const std::vector<Tensor>&)>;

// A function traced for the types of `like`, compiled when it is first called.
class FlatProgram {
 public:
  FlatProgram(const FlatFunction& f, const std::vector<Tensor>& like, std::string name,
              std::source_location where);
  std::vector<Tensor> call(const std::vector<Tensor>& arguments) const;

 private:
  Ref<Counted> program_;
};
// What was traced, by signature; used from any thread.
class TraceTable {
 public:
  TraceTable();
  Ref<Counted> find(const std::string& key) const;  // null if there is none
  // Keeps `trace` unless there is one already; gives what is kept.
  Ref<Counted> insert(std::string key, const Ref<Counted>& trace) const;
  int64_t size() const;

 private:
  Ref<Counted> table_;
};
// Element type, shape and weakness of each, and the named axes around: what a specialization depends on.
std::string signature(const std::vector<Tensor>& tensors);
struct FlatPullback {
  std::vector<Tensor> outputs;
  FlatFunction pull_back;     // from cotangents of the outputs to those of the inputs
  FlatFunction push_forward;  // from tangents of the inputs to those of the outputs
};
FlatPullback flat_vjp(const FlatFunction& f, const std::vector<Tensor>& primals, std::source_location where);
std::pair<std::vector<Tensor>, std::vector<Tensor>> flat_jvp(const FlatFunction& f,
                                                             const std::vector<Tensor>& primals,
                                                             const std::vector<Tensor>& tangents,
                                                             std::source_location where);
// axes[i]: the dimension of argument i that holds the lanes, if it has them. The results have them in front.
std::vector<Tensor> flat_vmap(const FlatFunction& f, std::vector<Tensor> arguments,
                              const std::vector<std::optional<int64_t>>& axes, const std::string& axis_name,
                              std::optional<int64_t> axis_size, int strategy, std::source_location where);
// Results of it with the lanes at these dimensions.
std::vector<Tensor> flat_lanes_at(std::vector<Tensor> results, const std::vector<int64_t>& axes,
                                  std::source_location where);
// The outputs of f, and the gradients of the first of them.
struct FlatGradients {
  std::vector<Tensor> outputs, gradients;
};
FlatGradients flat_gradients(const FlatFunction& f, const std::vector<Tensor>& arguments,
                             DerivativeOptions options, std::source_location where);
// blocks[output][input]: the derivative of each of the first `values` outputs, which f sets, by each input,
// of the output's shape followed by the input's. Without `aux` no `outputs` are needed.
struct FlatJacobian {
  std::vector<Tensor> outputs;
  std::vector<std::vector<Tensor>> blocks;
};
FlatJacobian flat_jacobian(const FlatFunction& f, const std::vector<Tensor>& arguments, const size_t& values,
                           bool forward, bool aux, DerivativeOptions options, std::source_location where);
// The first argument that `what` has no derivative by, and the error that says so.
std::optional<size_t> without_derivative(const std::vector<Tensor>& arguments, const char* what,
                                         DerivativeOptions options);
[[noreturn]] void fail_without_derivative(const Tensor& argument, const std::string& name, const char* what,
                                          DerivativeOptions options, std::source_location where);
// Zeros of their types.
std::vector<Tensor> flat_zeros(const std::vector<Tensor>& like, std::source_location where);

// What messages call each tensor of a container.
using LeafNames = std::vector<std::string>;
// The results are the carry, then the stacked ys.
std::vector<Tensor> flat_scan(const FlatFunction& step, const std::vector<Tensor>& carry,
                              const std::vector<Tensor>& items, const LeafNames& carry_names,
                              const LeafNames& item_names, std::optional<int64_t> length, bool reverse,
                              std::source_location where);
// `batch` rows at a time, or one after the other.
std::vector<Tensor> flat_map(const FlatFunction& f, const std::vector<Tensor>& items,
                             const LeafNames& item_names, std::optional<int64_t> batch,
                             std::source_location where);
std::vector<Tensor> flat_while(const FlatFunction& test, const FlatFunction& body,
                               const std::vector<Tensor>& carry, const LeafNames& carry_names,
                               std::optional<int64_t> checkpoint, std::source_location where);
// Bounds are both integers or both tensors.
struct FlatBounds {
  std::optional<std::pair<int64_t, int64_t>> known;
  Tensor lower, upper;
};
std::vector<Tensor> flat_fori(const FlatBounds& bounds, const FlatFunction& body,
                              const std::vector<Tensor>& carry, const LeafNames& carry_names,
                              std::optional<int64_t> checkpoint, std::source_location where);
// All prefixes along dimension 0 of tensors of one length, or suffixes; `combine` takes (lefts...,
// rights...).
std::vector<Tensor> flat_associative_scan(const FlatFunction& combine, const std::vector<Tensor>& items,
                                          const LeafNames& item_names, bool reverse,
                                          std::source_location where);
// With `is_cond`, two branches, the first where the index is false. `result_names` are read after the first
// ran.
std::vector<Tensor> flat_branches(bool is_cond, const TensorOrNumber& index,
                                  const std::vector<FlatFunction>& branches,
                                  const std::vector<Tensor>& operands, const LeafNames& result_names);

// The form under vmap of a function: of `size` lanes along dimension 0 of all tensors of the arguments that
// are `batched`, with the function itself; the results, and whether they hold the lanes.
using FlatLanes = Function<std::pair<std::vector<Tensor>, bool>(
    int64_t size, const std::vector<bool>& batched, const std::vector<Tensor>& x, const FlatFunction& self)>;

// A forward pass of a rule: its `form` is what the backward function has to know of it besides tensors.
struct FlatPass {
  std::vector<Tensor> results, residuals;
  Ref<Counted> form;
};

// A derivative by the user's functions, for arguments of the types of `like`. kJvp: (operands, tangents) ->
// (results, tangents). kVjp: operands -> a pass, and (its form, residuals and cotangents) -> cotangents,
// where a Tensor that names nothing is zero. With `symbolic_zeros`, tangents of operands and cotangents of
// results that are zero are given so, too.
class FlatRule {
 public:
  // With which operands are being differentiated.
  using Forward =
      Function<FlatPass(const std::vector<Tensor>& operands, const std::vector<bool>& differentiated)>;
  using Backward = Function<std::vector<Tensor>(const Ref<Counted>& form, const std::vector<Tensor>& both)>;
  static FlatRule of_jvp(FlatFunction rule, bool symbolic_zeros, const std::vector<Tensor>& like);
  static FlatRule of_vjp(Forward forward, Backward backward, bool symbolic_zeros,
                         const std::vector<Tensor>& like);
  // Of arguments of so many tensors each.
  static FlatRule of_lanes(FlatFunction f, FlatLanes lanes, std::vector<size_t> tensors_of_arguments);
  static FlatRule sequential(FlatFunction f, std::vector<size_t> tensors_of_arguments,
                             std::source_location where);
  std::vector<Tensor> call(const FlatFunction& f, const std::vector<Tensor>& arguments,
                           std::source_location where) const;

 private:
  Ref<Counted> rule_;
};
// Numbers beside 64-bit floats in their type: a rule sees what its function sees.
std::vector<Tensor> decided(const std::vector<Tensor>& arguments);

// Finds the unknown of an equation in a function from a right-hand side or a first guess: its tensors, then
// what else the solver gives.
using FlatSolver = Function<std::vector<Tensor>(const FlatFunction& f, const std::vector<Tensor>& given)>;
// Without `transpose_solve`, no reverse mode but for a symmetric system.
std::vector<Tensor> flat_linear_solve(const FlatFunction& matvec, const std::vector<Tensor>& b,
                                      const FlatSolver& solve, const FlatSolver& transpose_solve,
                                      bool symmetric, std::source_location where);
std::vector<Tensor> flat_root(const FlatFunction& f, const std::vector<Tensor>& guess,
                              const FlatSolver& solve, const FlatSolver& tangent_solve,
                              std::source_location where);

// A function in the middle of programs, an effect or not; `like` tells the results' types (lamina/effects.h).
std::vector<Tensor> flat_callback(FlatFunction f, const std::vector<Tensor>& arguments,
                                  const std::vector<Tensor>& like, bool effect, CallbackLanes lanes,
                                  std::source_location where);
void flat_print(std::string format, const std::vector<Tensor>& arguments, std::source_location where);
void run_effects();

// A function without what it uses from outside, which is `captured` and comes behind its arguments, of the
// types of `like`: all of it, or only what a derivative may be taken by.
class FlatClosure {
 public:
  FlatClosure(const FlatFunction& f, const std::vector<Tensor>& like, bool all, std::source_location where);
  std::vector<Tensor> take_captured();  // once
  std::vector<Tensor> call(const std::vector<Tensor>& arguments_and_captured) const;

 private:
  Ref<Counted> closure_;
};
// Zeros of the types of f's results.
std::vector<Tensor> flat_result_types(const FlatFunction& f, const std::vector<Tensor>& like,
                                      std::source_location where);
struct FlatTrace {
  std::vector<std::array<std::string, 3>> operations;  // name, type of the result, place
  std::string text;
};
FlatTrace flat_trace(const FlatFunction& f, const std::vector<Tensor>& like, std::source_location where);

// `self` is set, to the function for calls of itself, before `body` runs.
std::vector<Tensor> flat_recursive(const FlatFunction& body, FlatFunction& self,
                                   const std::vector<Tensor>& arguments, const LeafNames& names,
                                   int64_t deepest, std::source_location where);

// States that `holds`, a scalar, does (lamina/checks.h).
void flat_check(const Tensor& holds, std::string message, const std::vector<Tensor>& values,
                std::source_location where);
// f's outputs, then the number of the first check that failed (0: none), of the kinds that are looked at.
std::vector<Tensor> flat_checked(const FlatFunction& f, const std::vector<Tensor>& arguments, bool user,
                                 bool nan, bool division, bool index, std::source_location where);
// What failed, by these numbers, one per lane; empty: nothing.
std::string check_messages(const Tensor& numbers);

[[noreturn]] void fail_at(ErrorKind kind, const std::string& message, std::source_location where);

}  // namespace detail
}  // namespace lamina

#pragma GCC visibility pop

#endif  // LAMINA_FLAT_TRANSFORMS_H_
