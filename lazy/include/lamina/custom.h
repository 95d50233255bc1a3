// Functions with derivatives of their own: custom_jvp, custom_vjp, custom_gradient; and with forms of their
// own under vmap: custom_vmap, sequential_vmap.
//
// Contract: as lamina/transforms.h.
#ifndef LAMINA_CUSTOM_H_
#define LAMINA_CUSTOM_H_

#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lamina/callable.h"
#include "lamina/ops.h"

namespace lamina {
namespace detail {

// What they share: one rule per structure and types of the arguments. Make gives the
// rule.
template <typename F, typename Make>
class Custom {
 public:
  using Arguments = typename Callable<F>::Arguments;
  using Result = typename Callable<F>::Result;
  Custom(F f, Make make, std::source_location where)
      : f_(std::move(f)), make_(std::move(make)), where_(where) {}

  template <typename... A>
  Result operator()(A&&... a) const {
    const Arguments arguments(std::forward<A>(a)...);
    const std::vector<Tensor> leaves = decided(tensors_of(arguments));
    std::string key = signature(leaves);
    key += fixed_part(arguments);
    Ref<Counted> rule = rules_.find(key);
    if (!rule)
      rule = rules_.insert(std::move(key), Ref<Counted>(new Box<FlatRule>(make_(arguments, leaves))));
    std::optional<Result> result;
    const std::vector<Tensor> out =
        static_cast<const Box<FlatRule>&>(*rule).value.call(flat(f_, arguments, result), leaves, where_);
    Result value = *std::move(result);
    size_t at = 0;
    put_leaves(value, out, at);
    return value;
  }

 private:
  mutable F f_;
  Make make_;
  std::source_location where_;
  TraceTable rules_;  // copies share it
};

}  // namespace detail

struct RuleOptions {
  // Tangents of arguments that are not differentiated, and cotangents of results that do not matter, are
  // Tensors that name nothing, where they are zeros without this; and a forward function may take, ahead of
  // the arguments, whether each of them is differentiated: const std::vector<bool>&.
  bool symbolic_zeros = false;
};

// f with a forward derivative of its own, from which reverse mode is made:
// rule(primals, tangents) -> (result, tangent of the result), where primals and tangents are std::tuples of
// f's arguments. A rule runs for any number of steps or batches at once, like every traced function; what it
// captures has no derivative, and what f captures must not be differentiated: lamina::Error (kType). Copies
// of the object are one function, so make it once, not in a loop.
template <typename F, typename Rule>
auto custom_jvp(F&& f, Rule&& rule, RuleOptions options = {},
                std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  auto make = [rule = std::decay_t<Rule>(std::forward<Rule>(rule)), options](
                  const Arguments& arguments, const std::vector<Tensor>& leaves) {
    return detail::FlatRule::of_jvp(
        [rule, arguments](const std::vector<Tensor>& both) {
          size_t at = 0;
          const Arguments primals = detail::with_leaves(arguments, both, at);
          const Arguments tangents = detail::with_leaves(arguments, both, at);
          auto out = rule(primals, tangents);
          std::vector<Tensor> flat = detail::tensors_of(Result(std::get<0>(out)));
          const std::vector<Tensor> derivatives = detail::tensors_of(Result(std::get<1>(out)));
          flat.insert(flat.end(), derivatives.begin(), derivatives.end());
          return flat;
        },
        options.symbolic_zeros, leaves);
  };
  return detail::Custom<Function, decltype(make)>(std::forward<F>(f), std::move(make), where);
}

namespace detail {

// One rule for each argument as one for all. Their parts are added up.
template <typename F, typename... Rules>
struct RuleByArgument {
  using Arguments = typename Callable<F>::Arguments;
  using Result = typename Callable<F>::Result;
  static_assert(std::tuple_size_v<Arguments> == sizeof...(Rules), "custom_jvps takes one rule per argument");
  F f;
  std::tuple<Rules...> rules;
  std::source_location where;

  std::pair<Result, Result> operator()(const Arguments& primals, const Arguments& tangents) const {
    const Result result = std::apply(custom_jvp(f, *this, {.symbolic_zeros = true}, where), primals);
    std::vector<Tensor> sum(tensors_of(result).size());
    [&]<size_t... I>(std::index_sequence<I...>) {
      (add<I>(std::get<I>(tangents), result, primals, sum), ...);
    }
    (std::index_sequence_for<Rules...>{});
    return {result, with_leaves(result, sum)};
  }

 private:
  template <size_t I, typename Tangent>
  void add(const Tangent& tangent, const Result& result, const Arguments& primals,
           std::vector<Tensor>& sum) const {
    if constexpr (!std::is_same_v<std::tuple_element_t<I, std::tuple<Rules...>>, std::nullptr_t>) {
      std::vector<Tensor> whole = tensors_of(tangent);
      const std::vector<Tensor> like = tensors_of(std::get<I>(primals));
      bool any = false;
      for (const Tensor& t : whole) any = any || t.defined();
      if (!any) return;
      for (size_t i = 0; i < whole.size(); ++i)
        if (!whole[i].defined()) whole[i] = zeros_like(like[i]);
      const std::vector<Tensor> part = tensors_of(std::apply(
          [&](const auto&... x) {
            return Result(std::get<I>(rules)(with_leaves(tangent, whole), result, x...));
          },
          primals));
      for (size_t i = 0; i < sum.size(); ++i) sum[i] = sum[i].defined() ? sum[i] + part[i] : part[i];
    }
  }
};

}  // namespace detail

// f with a forward derivative by each argument: rule(tangent of the argument, result, arguments...) -> its
// part of the result's tangent; nullptr: none. Otherwise as custom_jvp.
//
//   auto power = custom_jvps([](const Tensor& x, const Tensor& n) { return pow(x, n); },
//                            std::tuple([](const Tensor& t, const Tensor& out, const Tensor& x,
//                                          const Tensor& n) { return t * n * out / x; },
//                                       nullptr));
template <typename F, typename... Rules>
auto custom_jvps(F&& f, const std::tuple<Rules...>& rules,
                 std::source_location where = std::source_location::current()) {
  return custom_jvp(f, detail::RuleByArgument<std::decay_t<F>, Rules...>{f, rules, where},
                    {.symbolic_zeros = true}, where);
}

namespace detail {

// The forward function of a rule; `differentiated` is by tensor.
template <typename F, typename Arguments>
auto forward_pass(F& forward, const Arguments& arguments, const std::vector<bool>& differentiated) {
  return std::apply(
      [&](const auto&... x) {
        if constexpr (std::is_invocable_v<F&, decltype(x)...>) {
          return forward(x...);
        } else {
          std::vector<bool> by_argument;
          size_t at = 0;
          const auto add = [&](size_t tensors) {
            by_argument.push_back(false);
            for (const size_t end = at + tensors; at < end; ++at)
              if (differentiated[at]) by_argument.back() = true;
          };
          (add(tensors_of(x).size()), ...);
          return forward(by_argument, x...);
        }
      },
      arguments);
}

}  // namespace detail

// f with a reverse derivative of its own: forward(arguments...) -> (result, residuals), a tree of any type,
// and backward(residuals, cotangent of the result) -> std::tuple of cotangents of the arguments, in which a
// Tensor that names nothing is zero. Otherwise as custom_jvp.
template <typename F, typename Forward, typename Backward>
auto custom_vjp(F&& f, Forward&& forward, Backward&& backward, RuleOptions options = {},
                std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  using Out = decltype(detail::forward_pass(forward, std::declval<const Arguments&>(), {}));
  using Residuals = std::decay_t<std::tuple_element_t<1, Out>>;
  auto make = [forward = std::decay_t<Forward>(std::forward<Forward>(forward)),
               backward = std::decay_t<Backward>(std::forward<Backward>(backward)),
               options](const Arguments& arguments, const std::vector<Tensor>& leaves) {
    // The structures that the backward function sees, without tensors.
    struct Seen {
      Result result;
      Residuals residuals;
    };
    return detail::FlatRule::of_vjp(
        [forward, arguments](const std::vector<Tensor>& inputs, const std::vector<bool>& differentiated) {
          auto out = detail::forward_pass(forward, detail::with_leaves(arguments, inputs), differentiated);
          const Result result(std::get<0>(out));
          detail::FlatPass pass{detail::tensors_of(result), detail::tensors_of(std::get<1>(out)), {}};
          const std::vector<Tensor> none(pass.results.size() + pass.residuals.size());
          size_t i = 0, j = 0;
          pass.form = detail::Ref<detail::Counted>(
              new detail::Box<Seen>({detail::with_leaves(result, none, i),
                                     detail::with_leaves(Residuals(std::get<1>(out)), none, j)}));
          return pass;
        },
        [backward](const detail::Ref<detail::Counted>& form, const std::vector<Tensor>& both) {
          const Seen& seen = static_cast<const detail::Box<Seen>&>(*form).value;
          size_t at = 0;
          const Residuals residuals = detail::with_leaves(seen.residuals, both, at);
          const Result cotangent = detail::with_leaves(seen.result, both, at);
          return detail::tensors_of(Arguments(backward(residuals, cotangent)));
        },
        options.symbolic_zeros, leaves);
  };
  return detail::Custom<Function, decltype(make)>(std::forward<F>(f), std::move(make), where);
}

namespace detail {

// What custom_gradient keeps: the rule, and what it takes from outside.
template <typename Arguments>
struct KeptRule {
  Arguments arguments;
  std::vector<Tensor> captured;
  FlatClosure rule;
  auto fields() { return std::tie(arguments, captured); }
};

}  // namespace detail

// A function with a reverse derivative of its own from f, which returns a pair (value, rule): rule(cotangent
// of the value) gives the std::tuple of cotangents of the arguments, or that of the only one; what it
// captures is kept for it. Otherwise as custom_jvp.
//
//   auto clipped = custom_gradient([](const Tensor& x) {
//     return std::pair(x, [](const Tensor& g) { return clip(g, -1, 1); });
//   });
template <typename F>
auto custom_gradient(F&& f, std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Pair = typename detail::Callable<Function>::Result;
  using Result = std::tuple_element_t<0, Pair>;
  using Kept = detail::KeptRule<Arguments>;
  const detail::Ref<detail::Box<Function>> held(new detail::Box<Function>(std::forward<F>(f)));
  auto value = detail::typed<Arguments, Result>(
      [held]<typename... A>(A&&... a) -> Result { return std::get<0>(held->value(std::forward<A>(a)...)); });
  auto forward = [held, where](const auto&... a) {
    auto made = held->value(a...);
    const Result& out = std::get<0>(made);
    const detail::FlatFunction back = [&](const std::vector<Tensor>& leaves) {
      auto cotangents = std::get<1>(made)(detail::with_leaves(out, leaves));
      if constexpr (detail::kIsTuple<decltype(cotangents)>)
        return detail::tensors_of(Arguments(std::move(cotangents)));
      else
        return detail::tensors_of(Arguments(std::tuple(std::move(cotangents))));
    };
    detail::FlatClosure rule(back, detail::tensors_of(out), true, where);
    std::vector<Tensor> captured = rule.take_captured();
    return std::pair<Result, Kept>(out, Kept{Arguments(a...), std::move(captured), std::move(rule)});
  };
  auto backward = [](const Kept& kept, const Result& cotangent) {
    std::vector<Tensor> leaves = detail::tensors_of(cotangent);
    leaves.insert(leaves.end(), kept.captured.begin(), kept.captured.end());
    return detail::with_leaves(kept.arguments, kept.rule.call(leaves));
  };
  return custom_vjp(std::move(value), std::move(forward), std::move(backward), {}, where);
}

namespace detail {

// Of each argument, how many tensors it has.
template <typename Arguments>
std::vector<size_t> tensor_counts(const Arguments& arguments) {
  return std::apply([](const auto&... x) { return std::vector<size_t>{tensors_of(x).size()...}; }, arguments);
}
// A function with a rule that calls it: make(the function on flat lists, arguments) gives the rule.
template <typename F, typename Make>
auto custom_of_itself(F&& f, Make make, std::source_location where) {
  using Function = std::decay_t<F>;
  using Arguments = typename Callable<Function>::Arguments;
  using Result = typename Callable<Function>::Result;
  const Ref<Box<Function>> held(new Box<Function>(std::forward<F>(f)));
  auto value = typed<Arguments, Result>(
      [held]<typename... A>(A&&... a) -> Result { return held->value(std::forward<A>(a)...); });
  auto rule = [held, make = std::move(make)](const Arguments& arguments, const std::vector<Tensor>&) {
    return make(
        [held, arguments](const std::vector<Tensor>& x) {
          return tensors_of(Result(std::apply(held->value, with_leaves(arguments, x))));
        },
        arguments);
  };
  return Custom<decltype(value), decltype(rule)>(std::move(value), std::move(rule), where);
}

}  // namespace detail

// f with a form of its own under vmap: lanes(size, batched, arguments...) -> std::pair(result, whether it
// holds the lanes), where `batched`, a std::vector<bool>, says of each argument whether it does; arguments
// and results hold them along dimension 0 of all of their tensors. Derivatives of that form are the form's:
// of lanes, and forward ones in lanes. A reverse derivative of the function alone is made from the function,
// and so are its lanes. lamina::Error (kValue) where the results do not fit those of f.
//
//   auto solved = custom_vmap([](const Tensor& a, const Tensor& b) { return linalg::solve(a, b); },
//                             [](int64_t size, const std::vector<bool>& batched, const Tensor& a,
//                                const Tensor& b) { return std::pair(my_batched_solve(a, b), true); });
template <typename F, typename Lanes>
auto custom_vmap(F&& f, Lanes&& lanes, std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  return detail::custom_of_itself(
      std::forward<F>(f),
      [lanes = std::decay_t<Lanes>(std::forward<Lanes>(lanes))](detail::FlatFunction run,
                                                                const Arguments& arguments) {
        return detail::FlatRule::of_lanes(
            std::move(run),
            [lanes, arguments](int64_t size, const std::vector<bool>& batched, const std::vector<Tensor>& x,
                               const detail::FlatFunction&) {
              auto out = std::apply([&](const auto&... a) { return lanes(size, batched, a...); },
                                    detail::with_leaves(arguments, x));
              return std::pair<std::vector<Tensor>, bool>(detail::tensors_of(Result(std::get<0>(out))),
                                                          std::get<1>(out));
            },
            detail::tensor_counts(arguments));
      },
      where);
}

// f, of which vmap runs one lane after another, as `map` does: for what needs room.
template <typename F>
auto sequential_vmap(F&& f, std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  return detail::custom_of_itself(
      std::forward<F>(f),
      [where](detail::FlatFunction run, const Arguments& arguments) {
        return detail::FlatRule::sequential(std::move(run), detail::tensor_counts(arguments), where);
      },
      where);
}

}  // namespace lamina

#endif  // LAMINA_CUSTOM_H_
