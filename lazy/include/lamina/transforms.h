// Function transforms over C++ callables: jit, grad, value_and_grad, vmap, jvp, vjp, checkpoint.
//
// Contract: a callable takes and returns trees (lamina/tree.h) and is called with tensors that stand for its
// arguments; it may call transforms itself, to any depth. A transform is an object that is called like the
// function, and can be transformed again: jit(vmap(grad(f))). Arguments are given as values of the function's
// parameter types, which are deduced from a lambda or function that is not generic. Numbers among the
// parameters are not differentiated. Errors of the function pass through.
#ifndef LAMINA_TRANSFORMS_H_
#define LAMINA_TRANSFORMS_H_

#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

#include "lamina/flat_transforms.h"
#include "lamina/tree.h"

namespace lamina {
namespace detail {

// Parameter and result types of a callable.
template <typename F>
struct Callable : Callable<decltype(&F::operator())> {};
// Of what a transform made: its call is generic, so it names them.
template <typename F>
requires requires {
  typename F::Arguments;
  typename F::Result;
}
struct Callable<F> {
  using Arguments = typename F::Arguments;
  using Result = typename F::Result;
};
template <typename R, typename... A>
struct Callable<R (*)(A...)> {
  using Result = std::decay_t<R>;
  using Arguments = std::tuple<std::decay_t<A>...>;
};
template <typename R, typename... A>
struct Callable<R(A...)> : Callable<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct Callable<R (C::*)(A...) const> : Callable<R (*)(A...)> {};
template <typename C, typename R, typename... A>
struct Callable<R (C::*)(A...)> : Callable<R (*)(A...)> {};

// A generic lambda with parameter and result types for further transforms.
template <typename A, typename R, typename F>
struct Typed : F {
  using Arguments = A;
  using Result = R;
};
template <typename A, typename R, typename F>
Typed<A, R, F> typed(F f) {
  return {std::move(f)};
}

// Puts tensors where a tree's leaves are. Numbers keep their values: inside a trace they are constants.
template <typename T>
void put_leaves(T& tree, const std::vector<Tensor>& leaves, size_t& at) {
  visit_tree(
      tree,
      [&](auto& leaf) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>) leaf = leaves.at(at++);
      },
      [](const std::string&) {});
}
// The tensors of a tree, without its numbers.
template <typename T>
std::vector<Tensor> tensors_of(const T& tree) {
  std::vector<Tensor> out;
  visit_tree(
      tree,
      [&](const auto& leaf) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(leaf)>, Tensor>) out.push_back(leaf);
      },
      [](const std::string&) {});
  return out;
}
// The values of a tree's numbers and its structure: what is fixed in a trace.
template <typename T>
std::string fixed_part(const T& tree) {
  std::string out;
  visit_tree(
      tree,
      [&](const auto& leaf) {
        using Leaf = std::remove_cvref_t<decltype(leaf)>;
        if constexpr (std::is_same_v<Leaf, Tensor>)
          out += '*';
        else
          out.append(reinterpret_cast<const char*>(&leaf), sizeof leaf);
      },
      [&](const std::string& text) { append_note(out, text); });
  return out;
}

// A callable on trees as one on flat lists of tensors; keeps the last result for its structure.
template <typename F, typename Arguments, typename Result>
FlatFunction flat(F& f, const Arguments& arguments, std::optional<Result>& result) {
  return [&f, &arguments, &result](const std::vector<Tensor>& leaves) {
    Arguments inner = arguments;
    size_t at = 0;
    put_leaves(inner, leaves, at);
    result.emplace(std::apply(f, inner));
    return tensors_of(*result);
  };
}

template <typename F>
class Transform {
 public:
  using Arguments = typename Callable<std::remove_cvref_t<F>>::Arguments;
  using Result = typename Callable<std::remove_cvref_t<F>>::Result;

 protected:
  Transform(F f, std::source_location where) : f_(std::move(f)), where_(where) {}
  mutable std::decay_t<F> f_;
  std::source_location where_;
};

}  // namespace detail

// Compiled once per signature: structure, shapes, element types, values of number arguments.
template <typename F>
class Jitted : public detail::Transform<F> {
  using Base = detail::Transform<F>;

 public:
  using typename Base::Arguments;
  using typename Base::Result;
  Jitted(F f, std::string name, std::source_location where)
      : Base(std::move(f), where), name_(std::move(name)) {}

  template <typename... A>
  Result operator()(A&&... a) const {
    const Arguments arguments(std::forward<A>(a)...);
    const std::vector<Tensor> leaves = detail::tensors_of(arguments);
    std::string key = detail::signature(leaves);
    key += detail::fixed_part(arguments);
    detail::Ref<detail::Counted> found = traces_.find(key);
    if (!found) {
      std::optional<Result> result;
      detail::FlatProgram program(detail::flat(this->f_, arguments, result), leaves, name_, this->where_);
      // The structure stays; the tensors of the trace do not.
      const std::vector<Tensor> none(detail::tensors_of(*result).size());
      size_t at = 0;
      detail::put_leaves(*result, none, at);
      found = traces_.insert(
          std::move(key), detail::Ref<detail::Counted>(new Entry({std::move(program), *std::move(result)})));
    }
    const Trace& trace = static_cast<const Entry&>(*found).value;
    Result result = trace.result;
    size_t at = 0;
    detail::put_leaves(result, trace.program.call(leaves), at);
    return result;
  }
  // How many signatures were traced.
  int64_t traces() const { return traces_.size(); }

 private:
  struct Trace {
    detail::FlatProgram program;
    Result result;
  };
  using Entry = detail::Box<Trace>;
  std::string name_;
  detail::TraceTable traces_;  // copies share it
};

// `name` is what the cache tool shows.
template <typename F>
Jitted<std::decay_t<F>> jit(F&& f, std::string name = "jit",
                            std::source_location where = std::source_location::current()) {
  return Jitted<std::decay_t<F>>(std::forward<F>(f), std::move(name), where);
}

// (value, gradient with respect to the first argument) of a function whose result is one real number, or that
// number first in a pair whose second part is passed through.
template <typename F>
auto value_and_grad(F&& f, std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  using First = std::tuple_element_t<0, Arguments>;
  return detail::typed<Arguments, std::pair<Result, First>>([f = std::forward<F>(f), where]<typename... Rest>(
                                                                const First& first, Rest&&... rest) mutable {
    std::optional<Result> result;
    const std::tuple<First> differentiated(first);
    auto of_first = [&](const First& x) -> Result { return f(x, rest...); };
    const detail::FlatPullback back =
        detail::flat_vjp(detail::flat(of_first, differentiated, result), detail::tensors_of(first), where);
    std::vector<Tensor> cotangents;
    cotangents.push_back(detail::unit_cotangent(back.outputs.empty() ? Tensor() : back.outputs[0], where));
    for (size_t i = 1; i < back.outputs.size(); ++i) cotangents.push_back(Tensor());
    Result value = *result;
    size_t at = 0;
    detail::put_leaves(value, back.outputs, at);
    First gradient = first;
    at = 0;
    detail::put_leaves(gradient, back.pull_back(cotangents), at);
    return std::pair<Result, First>(std::move(value), std::move(gradient));
  });
}

template <typename F>
auto grad(F&& f, std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using First = std::tuple_element_t<0, Arguments>;
  return detail::typed<Arguments, First>([both = value_and_grad(std::forward<F>(f), where)]<typename... Rest>(
                                             const First& first, Rest&&... rest) mutable -> First {
    return both(first, std::forward<Rest>(rest)...).second;
  });
}

// Maps over dimension 0 of every tensor among the arguments; in_axes says per argument whether it is mapped
// (absent: all are). Results carry the batch at dimension 0.
template <typename F>
auto vmap(F&& f, std::vector<bool> mapped = {},
          std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  return detail::typed<Arguments, Result>([f = std::forward<F>(f), mapped,
                                           where]<typename... A>(A&&... a) mutable -> Result {
    const Arguments arguments(std::forward<A>(a)...);
    std::vector<bool> batched;
    size_t position = 0;
    std::apply(
        [&](const auto&... x) {
          ((batched.insert(batched.end(), detail::tensors_of(x).size(),
                           mapped.empty() || (position < mapped.size() && mapped[position])),
            ++position),
           ...);
        },
        arguments);
    if (!mapped.empty() && mapped.size() != position)
      detail::fail_at(ErrorKind::kValue, "vmap: there has to be one flag per argument", where);
    std::optional<Result> result;
    const std::vector<Tensor> out =
        detail::flat_vmap(detail::flat(f, arguments, result), detail::tensors_of(arguments), batched, where);
    size_t at = 0;
    detail::put_leaves(*result, out, at);
    return *result;
  });
}

// The result of f at `primals` (a std::tuple of its arguments) and its derivative along `tangents` (the
// same).
template <typename F, typename Primals>
auto jvp(F&& f, const Primals& primals, const Primals& tangents,
         std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  const Arguments arguments(primals);
  std::optional<Result> result;
  const auto [outputs, derivatives] = detail::flat_jvp(
      detail::flat(f, arguments, result), detail::tensors_of(primals), detail::tensors_of(tangents), where);
  std::pair<Result, Result> out(*result, *result);
  size_t at = 0;
  detail::put_leaves(out.first, outputs, at);
  at = 0;
  detail::put_leaves(out.second, derivatives, at);
  return out;
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
  Result value = *result;
  size_t at = 0;
  detail::put_leaves(value, back.outputs, at);
  auto pull_back = [back, arguments](const Result& cotangent) {
    Arguments out = arguments;
    size_t k = 0;
    detail::put_leaves(out, back.pull_back(detail::tensors_of(cotangent)), k);
    return out;
  };
  return std::pair<Result, decltype(pull_back)>(std::move(value), std::move(pull_back));
}

// f, computed again in reverse mode instead of kept.
template <typename F>
auto checkpoint(F&& f, std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  return detail::typed<Arguments, Result>(
      [f = std::forward<F>(f), where]<typename... A>(A&&... a) mutable -> Result {
        const Arguments arguments(std::forward<A>(a)...);
        std::optional<Result> result;
        const std::vector<Tensor> out =
            detail::flat_checkpoint(detail::flat(f, arguments, result), detail::tensors_of(arguments), where);
        size_t at = 0;
        detail::put_leaves(*result, out, at);
        return *result;
      });
}

}  // namespace lamina

#endif  // LAMINA_TRANSFORMS_H_
