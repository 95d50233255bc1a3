// Recursion: functions that call themselves as deep as traced values say.
//
// Contract: as lamina/control.h. The function is called while it is recorded, a few times, with itself as its
// first argument; a call of itself stands in a branch of `cond` or `switch_case`, or in a loop, so that there
// is a path on which it returns without. Arguments and results keep their structure and shapes in every call,
// and numbers among the parameters their values: else lamina::Error (kType). It runs as one loop with a
// stack, compiled; grad, vmap and jit go through it. Calls that lie deeper inside each other than
// RecursionOptions::depth, or than 256 MiB of what callers keep, are lamina::Error (kValue) when it runs.
#ifndef LAMINA_RECURSION_H_
#define LAMINA_RECURSION_H_

#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/callable.h"

namespace lamina {

struct RecursionOptions {
  int64_t depth = 10000;  // how deep calls may lie inside each other, at least 1
};

// What a recursive function calls: itself.
template <typename Signature>
class Self;
template <typename R, typename... A>
class Self<R(A...)> {
 public:
  using Arguments = std::tuple<std::decay_t<A>...>;
  using Result = std::decay_t<R>;
  Self(const detail::FlatFunction& call, const Arguments& arguments, const std::optional<Result>& result,
       std::source_location where)
      : call_(call), arguments_(arguments), result_(result), where_(where) {}

  Result operator()(const std::decay_t<A>&... a) const {
    const Arguments arguments(a...);
    if (detail::fixed_part(arguments) != detail::fixed_part(arguments_))
      detail::fail_at(
          ErrorKind::kType,
          "recursive: the function must keep the lengths, keys and numbers among its arguments in "
          "each call; make a number that changes a Tensor",
          where_);
    const std::vector<Tensor> made = call_(detail::tensors_of(arguments));
    return detail::with_leaves(*result_, made);
  }

 private:
  const detail::FlatFunction& call_;
  const Arguments& arguments_;
  const std::optional<Result>& result_;
  std::source_location where_;
};

// f(self, arguments...) as a function of the arguments, which calls itself by self(arguments...):
//
//   auto factorial = recursive<Tensor(Tensor)>([](const auto& self, const Tensor& n) {
//     return cond(n < 2, [](const Tensor&) { return Tensor(1.0); },
//                 [&](const Tensor& m) { return m * self(m - 1); }, n);
//   });
template <typename Signature, typename F>
auto recursive(F&& f, RecursionOptions options = {},
               std::source_location where = std::source_location::current()) {
  using Arguments = typename Self<Signature>::Arguments;
  using Result = typename Self<Signature>::Result;
  return detail::typed<Arguments, Result>([f = detail::Held{std::forward<F>(f)}, options,
                                           where]<typename... A>(A&&... a) -> Result {
    const Arguments arguments(std::forward<A>(a)...);
    detail::FlatFunction call;
    std::optional<Result> result;
    const Self<Signature> self(call, arguments, result, where);
    const detail::FlatFunction body = [&](const std::vector<Tensor>& leaves) {
      Result made = std::apply([&](const auto&... x) -> Result { return f.call(self, x...); },
                               detail::with_leaves(arguments, leaves));
      if (result && detail::fixed_part(*result) != detail::fixed_part(made))
        detail::fail_at(ErrorKind::kType,
                        "recursive: all paths must return the lengths, keys and numbers of containers alike",
                        where);
      result.emplace(std::move(made));
      return detail::tensors_of(*result);
    };
    const std::vector<Tensor> out = detail::flat_recursive(body, call, detail::tensors_of(arguments),
                                                           tensor_paths(arguments), options.depth, where);
    return detail::with_leaves(*std::move(result), out);
  });
}

}  // namespace lamina

#endif  // LAMINA_RECURSION_H_
