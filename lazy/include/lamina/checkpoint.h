// checkpoint: functions whose intermediate values reverse mode computes again, but for those that a policy
// keeps.
//
// Contract: as lamina/transforms.h. A policy is asked of every operation of the function and of its
// derivative, also inside loops and branches; functions with effects keep nothing.
#ifndef LAMINA_CHECKPOINT_H_
#define LAMINA_CHECKPOINT_H_

#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamina/callable.h"

#pragma GCC visibility push(default)

namespace lamina {

// What a policy is asked of: the result of an operation, by its name in docs/ops.md; "name" for what
// checkpoint_name has given one.
struct CheckpointValue {
  std::string op;
  std::optional<std::string> name = {};
  bool batched = false;  // of dot_general: whether it has batch dimensions
};
// Any function of one, that says whether reverse mode may keep it; empty: it keeps nothing.
struct CheckpointPolicy : detail::Function<bool(const CheckpointValue&)> {
  using Function::Function;
  bool names_decide = false;  // what has a name is kept under that alone, whatever is said of the operation
};

// `x` under a name for the policy of the checkpoint around it; the values stay.
Tensor checkpoint_name(const Tensor& x, std::string_view name,
                       std::source_location where = std::source_location::current());

namespace checkpoint_policies {
CheckpointPolicy everything_saveable();
CheckpointPolicy nothing_saveable();
CheckpointPolicy dots_saveable();  // products and convolutions
CheckpointPolicy dots_with_no_batch_dims_saveable();
CheckpointPolicy save_only_these_names(std::set<std::string> names);
CheckpointPolicy save_any_names_but_these(std::set<std::string> names);          // what has another name
CheckpointPolicy save_anything_except_these_names(std::set<std::string> names);  // or none
CheckpointPolicy save_from_both_policies(CheckpointPolicy a, CheckpointPolicy b);
}  // namespace checkpoint_policies

namespace detail {
std::vector<Tensor> flat_checkpoint(const FlatFunction& f, const std::vector<Tensor>& arguments,
                                    const CheckpointPolicy& policy, std::source_location where);
}  // namespace detail

#pragma GCC visibility pop

// f, computed again in reverse mode instead of kept, but for what `policy` keeps.
template <typename F>
auto checkpoint(F&& f, CheckpointPolicy policy,
                std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  return detail::typed<Arguments, Result>([f = detail::Held{std::forward<F>(f)}, policy = std::move(policy),
                                           where]<typename... A>(A&&... a) -> Result {
    const Arguments arguments(std::forward<A>(a)...);
    std::optional<Result> result;
    const std::vector<Tensor> out = detail::flat_checkpoint(detail::flat(f.call, arguments, result),
                                                            detail::tensors_of(arguments), policy, where);
    size_t at = 0;
    detail::put_leaves(*result, out, at);
    return *result;
  });
}
template <typename F>
auto checkpoint(F&& f, std::source_location where = std::source_location::current()) {
  return checkpoint(std::forward<F>(f), CheckpointPolicy(), where);
}

}  // namespace lamina

#endif  // LAMINA_CHECKPOINT_H_
