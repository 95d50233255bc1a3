// What all transforms do with C++ callables: their parameter and result types, and trees as flat lists.
#ifndef LAMINA_CALLABLE_H_
#define LAMINA_CALLABLE_H_

#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lamina/flat_transforms.h"
#include "lamina/tree.h"

namespace lamina::detail {

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

// A callable inside a lambda that is called as const, as what a transform made may be.
template <typename F>
struct Held {
  mutable F call;
};
template <typename F>
Held(F) -> Held<F>;

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

// A tree with other tensors.
template <typename T>
T with_leaves(T tree, const std::vector<Tensor>& leaves, size_t& at) {
  put_leaves(tree, leaves, at);
  return tree;
}
template <typename T>
T with_leaves(T tree, const std::vector<Tensor>& leaves) {
  size_t at = 0;
  put_leaves(tree, leaves, at);
  return tree;
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

}  // namespace lamina::detail

#endif  // LAMINA_CALLABLE_H_
