// Derivatives of C++ callables: grad, value_and_grad, jvp, vjp, linearize, linear_transpose, jacfwd, jacrev,
// hessian.
//
// Contract: as lamina/transforms.h. Derivatives are by the arguments whose numbers are given: grad<0, 2>(f)
// by two, as a std::tuple; grad(f) by the first, as it is. Arguments are real or complex floats, of jacfwd
// real ones, unless DerivativeOptions says otherwise; else lamina::Error (kType) names the tensor. A gradient
// by a complex argument is JAX's: of the real and imaginary part in one number, conjugated. A Hessian-vector
// product is jvp(grad(f), std::tuple(x), std::tuple(v)).second.
//
// With `has_aux`, f returns a pair or tuple (value, aux), of which only the value is differentiated, and aux
// comes last in the result.
#ifndef LAMINA_DERIVATIVES_H_
#define LAMINA_DERIVATIVES_H_

#include <array>
#include <map>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/callable.h"

namespace lamina {

struct HasAux {};
inline constexpr HasAux has_aux{};

namespace detail {

// The parts of a result (value, aux).
template <typename Result>
struct WithAux {
  static_assert(kIsPair<Result> || kIsTuple<Result>, "with has_aux, a function returns a pair (value, aux)");
  static_assert(std::tuple_size_v<Result> == 2, "with has_aux, a function returns a pair (value, aux)");
  using Value = std::tuple_element_t<0, Result>;
  using Aux = std::tuple_element_t<1, Result>;
};

// One alone, several as a tuple.
template <typename Tuple>
struct AloneOr {
  using type = Tuple;
};
template <typename T>
struct AloneOr<std::tuple<T>> {
  using type = T;
};

// The arguments that a derivative is by, by their numbers.
template <size_t... N>
struct Chosen {
  static constexpr bool distinct() {
    const std::array<size_t, sizeof...(N)> all{N...};
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t k = 0; k < i; ++k)
        if (all[i] == all[k]) return false;
    return true;
  }
  static_assert(distinct(), "an argument is differentiated by once");
  template <typename Arguments>
  static constexpr bool valid() {
    static_assert(((N < std::tuple_size_v<Arguments>)&&...), "there is no argument of this number");
    static_assert((!Element<std::tuple_element_t<N, Arguments>> && ...),
                  "numbers are not differentiated: make the parameter a Tensor");
    return true;
  }
  template <typename Arguments>
  using Derivative = typename AloneOr<std::tuple<std::tuple_element_t<N, Arguments>...>>::type;

  template <typename Arguments>
  static std::vector<Tensor> tensors(const Arguments& arguments) {
    static_assert(valid<Arguments>());
    std::vector<Tensor> out;
    const auto add = [&](const auto& x) {
      for (Tensor& t : tensors_of(x)) out.push_back(std::move(t));
    };
    (add(std::get<N>(arguments)), ...);
    return out;
  }
  // What messages call each of them.
  template <typename Arguments>
  static std::vector<std::string> names(const Arguments& arguments) {
    std::vector<std::string> out;
    const auto add = [&](const auto& x, size_t number) {
      for (const std::string& path : tensor_paths(x))
        out.push_back("argument " + std::to_string(number) + path);
    };
    (add(std::get<N>(arguments), N), ...);
    return out;
  }
  template <typename Arguments>
  static Arguments put(Arguments arguments, const std::vector<Tensor>& leaves) {
    size_t at = 0;
    (put_leaves(std::get<N>(arguments), leaves, at), ...);
    return arguments;
  }
  template <typename Arguments>
  static Derivative<Arguments> derivative(const Arguments& arguments, const std::vector<Tensor>& leaves) {
    return with_leaves(Derivative<Arguments>(std::get<N>(arguments)...), leaves);
  }
  template <typename Arguments>
  static void check(const Arguments& arguments, const std::vector<Tensor>& tensors, const char* what,
                    DerivativeOptions options, std::source_location where) {
    if (const std::optional<size_t> wrong = without_derivative(tensors, what, options))
      fail_without_derivative(tensors[*wrong], names(arguments).at(*wrong), what, options, where);
  }
};
template <>
struct Chosen<> : Chosen<0> {};

// f as a function of the tensors among the chosen arguments.
template <typename By, typename F, typename Arguments, typename Result>
FlatFunction flat_by(F& f, const Arguments& arguments, std::optional<Result>& result) {
  return [&f, &arguments, &result](const std::vector<Tensor>& leaves) {
    result.emplace(std::apply(f, By::put(arguments, leaves)));
    return tensors_of(*result);
  };
}

}  // namespace detail

// (value, gradient) of a function whose result is one real number (holomorphic: one complex number), or that
// number first in a pair whose second part is passed through. Gradients have the structure of the arguments,
// with zeros for what is no float.
template <size_t... Arguments, typename F>
auto value_and_grad(F&& f, DerivativeOptions options = {},
                    std::source_location where = std::source_location::current()) {
  using All = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  using By = detail::Chosen<Arguments...>;
  using Both = std::pair<Result, typename By::template Derivative<All>>;
  return detail::typed<All, Both>([f = detail::Held{std::forward<F>(f)}, options,
                                   where]<typename... A>(A&&... a) -> Both {
    const All arguments(std::forward<A>(a)...);
    const std::vector<Tensor> inputs = By::tensors(arguments);
    By::check(arguments, inputs, "grad", options, where);
    std::optional<Result> result;
    const detail::FlatGradients made =
        detail::flat_gradients(detail::flat_by<By>(f.call, arguments, result), inputs, options, where);
    return {detail::with_leaves(*std::move(result), made.outputs), By::derivative(arguments, made.gradients)};
  });
}

template <size_t... Arguments, typename F>
auto grad(F&& f, DerivativeOptions options = {},
          std::source_location where = std::source_location::current()) {
  using Both = decltype(value_and_grad<Arguments...>(std::forward<F>(f), options, where));
  return detail::typed<typename Both::Arguments, typename Both::Result::second_type>(
      [both = value_and_grad<Arguments...>(std::forward<F>(f), options, where)]<typename... A>(A&&... a) {
        return both(std::forward<A>(a)...).second;
      });
}
// (gradient, aux) of a function that returns (value, aux).
template <size_t... Arguments, typename F>
auto grad(F&& f, HasAux, DerivativeOptions options = {},
          std::source_location where = std::source_location::current()) {
  using Both = decltype(value_and_grad<Arguments...>(std::forward<F>(f), options, where));
  using Aux = typename detail::WithAux<typename Both::Result::first_type>::Aux;
  using Out = std::pair<typename Both::Result::second_type, Aux>;
  return detail::typed<typename Both::Arguments, Out>(
      [both =
           value_and_grad<Arguments...>(std::forward<F>(f), options, where)]<typename... A>(A&&... a) -> Out {
        auto made = both(std::forward<A>(a)...);
        return {std::move(made.second), std::get<1>(std::move(made.first))};
      });
}

// The result of f at `primals` (a std::tuple of its arguments) and its derivative along `tangents` (the
// same).
template <typename F, typename Primals>
auto jvp(F&& f, const Primals& primals, const Primals& tangents,
         std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  const typename detail::Callable<std::decay_t<F>>::Arguments arguments(primals);
  std::optional<Result> result;
  const auto [outputs, derivatives] = detail::flat_jvp(
      detail::flat(f, arguments, result), detail::tensors_of(primals), detail::tensors_of(tangents), where);
  return std::pair<Result, Result>(detail::with_leaves(*result, outputs),
                                   detail::with_leaves(*result, derivatives));
}
// (value, derivative of the value, aux).
template <typename F, typename Primals>
auto jvp(F&& f, const Primals& primals, const Primals& tangents, HasAux,
         std::source_location where = std::source_location::current()) {
  using Pair = detail::WithAux<typename detail::Callable<std::decay_t<F>>::Result>;
  auto [result, derivative] = jvp(std::forward<F>(f), primals, tangents, where);
  return std::tuple<typename Pair::Value, typename Pair::Value, typename Pair::Aux>(
      std::get<0>(result), std::get<0>(derivative), std::get<1>(result));
}

// The result of f at `primals` and the function from a cotangent of the result to a std::tuple of cotangents
// of the arguments.
template <typename F, typename... A>
auto vjp(F&& f, const std::tuple<A...>& primals,
         std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  const Arguments arguments(primals);
  std::optional<Result> result;
  const detail::FlatPullback back =
      detail::flat_vjp(detail::flat(f, arguments, result), detail::tensors_of(arguments), where);
  // Without the value, which nobody may want: it may have none (of what linearize gives).
  auto pull_back = [back = back.pull_back, arguments](const Result& cotangent) {
    return detail::with_leaves(arguments, back(detail::tensors_of(cotangent)));
  };
  return std::pair<Result, decltype(pull_back)>(detail::with_leaves(*std::move(result), back.outputs),
                                                std::move(pull_back));
}
// (value, pull-back of a cotangent of the value, aux).
template <typename F, typename... A>
auto vjp(F&& f, const std::tuple<A...>& primals, HasAux,
         std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  using Pair = detail::WithAux<Result>;
  auto [both, back] = vjp(std::forward<F>(f), primals, where);
  const std::vector<Tensor> zeros(detail::tensors_of(std::get<1>(both)).size());  // of the aux
  auto pull_back = [back = std::move(back), none = detail::with_leaves(std::get<1>(both), zeros)](
                       const typename Pair::Value& cotangent) { return back(Result(cotangent, none)); };
  return std::tuple<typename Pair::Value, decltype(pull_back), typename Pair::Aux>(
      std::get<0>(both), std::move(pull_back), std::get<1>(both));
}

// The result of f at `primals` (a std::tuple of its arguments) and the linear function from a std::tuple of
// tangents to the tangent of the result. It computes nothing of f anew.
template <typename F, typename... A>
auto linearize(F&& f, const std::tuple<A...>& primals,
               std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  const Arguments arguments(primals);
  std::optional<Result> result;
  const detail::FlatPullback at =
      detail::flat_vjp(detail::flat(f, arguments, result), detail::tensors_of(arguments), where);
  const Result value = detail::with_leaves(*std::move(result), at.outputs);
  const std::vector<Tensor> none(at.outputs.size());
  auto push_forward = [along = at.push_forward,
                       structure = detail::with_leaves(value, none)](const Arguments& tangents) {
    return detail::with_leaves(structure, along(detail::tensors_of(tangents)));
  };
  return std::pair<Result, decltype(push_forward)>(value, std::move(push_forward));
}
// (value, push-forward to the tangent of the value, aux).
template <typename F, typename... A>
auto linearize(F&& f, const std::tuple<A...>& primals, HasAux,
               std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Pair = detail::WithAux<typename detail::Callable<std::decay_t<F>>::Result>;
  auto [both, forward] = linearize(std::forward<F>(f), primals, where);
  auto push_forward = [forward = std::move(forward)](const Arguments& tangents) {
    return std::get<0>(forward(tangents));
  };
  return std::tuple<typename Pair::Value, decltype(push_forward), typename Pair::Aux>(
      std::get<0>(both), std::move(push_forward), std::get<1>(both));
}

// The transpose of a linear function: from a cotangent of its result to a std::tuple of cotangents of its
// arguments, whose shapes and element types `like` tells. Nothing checks that f is linear: it is linearized
// at zero.
template <typename F, typename... A>
auto linear_transpose(F&& f, const std::tuple<A...>& like,
                      std::source_location where = std::source_location::current()) {
  const typename detail::Callable<std::decay_t<F>>::Arguments arguments(like);
  return vjp(std::forward<F>(f),
             detail::with_leaves(arguments, detail::flat_zeros(detail::tensors_of(arguments), where)), where)
      .second;
}

namespace detail {

// The type of a Jacobian: that of the result with the argument's in the place of each Tensor.
template <typename Out, typename In>
struct JacobianOf {
  static_assert(std::is_same_v<In, Tensor>,
                "the Jacobian of a struct or number by a container has no type: return std containers");
  using type = Out;
};
template <typename In>
struct JacobianOf<Tensor, In> {
  using type = In;
};
template <typename Out, typename In>
using Jacobian = typename JacobianOf<Out, In>::type;
template <typename T, typename In>
struct JacobianOf<std::vector<T>, In> {
  using type = std::vector<Jacobian<T, In>>;
};
template <typename T, size_t N, typename In>
struct JacobianOf<std::array<T, N>, In> {
  using type = std::array<Jacobian<T, In>, N>;
};
template <typename K, typename T, typename In>
struct JacobianOf<std::map<K, T>, In> {
  using type = std::map<K, Jacobian<T, In>>;
};
template <typename T, typename In>
struct JacobianOf<std::optional<T>, In> {
  using type = std::optional<Jacobian<T, In>>;
};
template <typename A, typename B, typename In>
struct JacobianOf<std::pair<A, B>, In> {
  using type = std::pair<Jacobian<A, In>, Jacobian<B, In>>;
};
template <typename... T, typename In>
struct JacobianOf<std::tuple<T...>, In> {
  using type = std::tuple<Jacobian<T, In>...>;
};

// `out` with what make() gives, in order, in the place of each Tensor.
template <typename In, typename Out, typename Make>
Jacobian<Out, In> nested(const Out& out, const Make& make) {
  if constexpr (std::is_same_v<Out, Tensor>) {
    return make();
  } else if constexpr (std::is_same_v<In, Tensor>) {
    Out filled = out;
    visit_tree(
        filled,
        [&](auto& leaf) {
          if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>) leaf = make();
        },
        [](const std::string&) {});
    return filled;
  } else if constexpr (kIsMap<Out>) {
    Jacobian<Out, In> all;
    for (const auto& [key, x] : out) all.emplace(key, nested<In>(x, make));
    return all;
  } else if constexpr (kIsOptional<Out>) {
    if (!out) return std::nullopt;
    return nested<In>(*out, make);
  } else if constexpr (kIsTuple<Out> || kIsPair<Out>) {
    // Braces keep the order.
    return std::apply([&](const auto&... x) { return Jacobian<Out, In>{nested<In>(x, make)...}; }, out);
  } else if constexpr (requires { std::tuple_size<Out>::value; }) {
    Jacobian<Out, In> all;  // std::array
    for (size_t i = 0; i < out.size(); ++i) all[i] = nested<In>(out[i], make);
    return all;
  } else {
    Jacobian<Out, In> all;
    for (const auto& x : out) all.push_back(nested<In>(x, make));
    return all;
  }
}

// The Jacobian, and the whole result of f.
template <typename By, typename F, typename Value, typename Arguments, typename Result>
auto jacobian(F& f, const Arguments& arguments, std::optional<Result>& result, bool forward, bool aux,
              DerivativeOptions options, std::source_location where) {
  using Derivative = typename By::template Derivative<Arguments>;
  const char* const what = forward ? "jacfwd" : "jacrev";
  const std::vector<Tensor> inputs = By::tensors(arguments);
  By::check(arguments, inputs, what, options, where);
  size_t values = 0;
  const FlatFunction of_inputs = [&](const std::vector<Tensor>& leaves) {
    std::vector<Tensor> out = flat_by<By>(f, arguments, result)(leaves);
    values = out.size();
    if constexpr (!std::is_same_v<Value, Result>) values = tensors_of(std::get<0>(*result)).size();
    return out;
  };
  const FlatJacobian made = flat_jacobian(of_inputs, inputs, values, forward, aux, options, where);
  const auto blocks = [&](const Value& like) {
    size_t output = 0;
    return nested<Derivative>(like, [&] { return By::derivative(arguments, made.blocks.at(output++)); });
  };
  if constexpr (std::is_same_v<Value, Result>)
    return blocks(*result);
  else
    return std::pair(blocks(std::get<0>(*result)), std::get<1>(with_leaves(*result, made.outputs)));
}

template <typename By, bool kAux, typename F>
auto jacobian_of(F&& f, bool forward, DerivativeOptions options, std::source_location where) {
  using Function = std::decay_t<F>;
  using Arguments = typename Callable<Function>::Arguments;
  using Result = typename Callable<Function>::Result;
  if constexpr (kAux) {
    using Pair = WithAux<Result>;
    using Out = std::pair<Jacobian<typename Pair::Value, typename By::template Derivative<Arguments>>,
                          typename Pair::Aux>;
    return typed<Arguments, Out>(
        [f = Held{std::forward<F>(f)}, forward, options, where]<typename... A>(A&&... a) -> Out {
          const Arguments arguments(std::forward<A>(a)...);
          std::optional<Result> result;
          return jacobian<By, Function, typename Pair::Value>(f.call, arguments, result, forward, true,
                                                              options, where);
        });
  } else {
    using Out = Jacobian<Result, typename By::template Derivative<Arguments>>;
    return typed<Arguments, Out>(
        [f = Held{std::forward<F>(f)}, forward, options, where]<typename... A>(A&&... a) -> Out {
          const Arguments arguments(std::forward<A>(a)...);
          std::optional<Result> result;
          return jacobian<By, Function, Result>(f.call, arguments, result, forward, false, options, where);
        });
  }
}

}  // namespace detail

// The Jacobian of f: the result's tree, in the place of each Tensor the argument's tree (of several arguments
// a std::tuple) of Tensors of the result's shape followed by the argument's. jacfwd goes column by column
// with forward mode, for few inputs, jacrev row by row with reverse mode, for few outputs. Results are real
// floats, holomorphic complex ones, otherwise lamina::Error (kType).
template <size_t... Arguments, typename F>
auto jacfwd(F&& f, DerivativeOptions options = {},
            std::source_location where = std::source_location::current()) {
  return detail::jacobian_of<detail::Chosen<Arguments...>, false>(std::forward<F>(f), true, options, where);
}
template <size_t... Arguments, typename F>
auto jacrev(F&& f, DerivativeOptions options = {},
            std::source_location where = std::source_location::current()) {
  return detail::jacobian_of<detail::Chosen<Arguments...>, false>(std::forward<F>(f), false, options, where);
}
// (Jacobian of the value, aux).
template <size_t... Arguments, typename F>
auto jacfwd(F&& f, HasAux, DerivativeOptions options = {},
            std::source_location where = std::source_location::current()) {
  return detail::jacobian_of<detail::Chosen<Arguments...>, true>(std::forward<F>(f), true, options, where);
}
template <size_t... Arguments, typename F>
auto jacrev(F&& f, HasAux, DerivativeOptions options = {},
            std::source_location where = std::source_location::current()) {
  return detail::jacobian_of<detail::Chosen<Arguments...>, true>(std::forward<F>(f), false, options, where);
}
// Second derivatives, forward over reverse mode: Jacobian of the Jacobian.
template <size_t... Arguments, typename F>
auto hessian(F&& f, DerivativeOptions options = {},
             std::source_location where = std::source_location::current()) {
  return jacfwd<Arguments...>(jacrev<Arguments...>(std::forward<F>(f), options, where), options, where);
}
template <size_t... Arguments, typename F>
auto hessian(F&& f, HasAux, DerivativeOptions options = {},
             std::source_location where = std::source_location::current()) {
  return jacfwd<Arguments...>(jacrev<Arguments...>(std::forward<F>(f), has_aux, options, where), has_aux,
                              options, where);
}

}  // namespace lamina

#endif  // LAMINA_DERIVATIVES_H_
