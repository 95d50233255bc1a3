// Containers of tensors, as transforms take and return them: flattening and rebuilding by type.
//
// Tensors and numbers are leaves. std::vector, std::array, std::pair, std::tuple, std::map and std::optional
// hold leaves or each other, to any depth. A struct joins with one line that ties its members:
//   struct Layer { Tensor weight, bias; auto fields() { return std::tie(weight, bias); } };
#ifndef LAMINA_TREE_H_
#define LAMINA_TREE_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/tensor.h"

namespace lamina {

template <typename T>
concept HasFields = requires(T& t) {
  t.fields();
};

namespace detail {
template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsSequence = false;
template <typename T, typename A>
inline constexpr bool kIsSequence<std::vector<T, A>> = true;
template <typename T, size_t N>
inline constexpr bool kIsSequence<std::array<T, N>> = true;
template <typename T>
inline constexpr bool kIsMap = false;
template <typename K, typename V, typename C, typename A>
inline constexpr bool kIsMap<std::map<K, V, C, A>> = true;
template <typename T>
inline constexpr bool kIsTuple = false;
template <typename... T>
inline constexpr bool kIsTuple<std::tuple<T...>> = true;
template <typename T>
inline constexpr bool kIsPair = false;
template <typename A, typename B>
inline constexpr bool kIsPair<std::pair<A, B>> = true;
template <typename T>
inline constexpr bool kIsLeaf = std::is_same_v<T, Tensor> || Element<T>;
template <typename T>
inline constexpr bool kIsUnknown = false;
// With its length, so that no two lists of notes read the same.
inline void append_note(std::string& out, const std::string& text) {
  out += std::to_string(text.size());
  out += ':';
  out += text;
}
}  // namespace detail

// Calls child(part, step) for each part of a container by reference, in order, where step() says in words how
// to reach it, and note(text) for what else its structure consists of: lengths, keys, presence.
template <typename T, typename Child, typename Note>
void visit_children(T& tree, Child&& child, Note&& note) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (detail::kIsSequence<Plain>) {
    note(std::to_string(tree.size()));
    size_t i = 0;
    for (auto& x : tree) {
      child(x, [&] { return '[' + std::to_string(i) + ']'; });
      ++i;
    }
  } else if constexpr (detail::kIsMap<Plain>) {
    note(std::to_string(tree.size()));
    for (auto& [key, x] : tree) {
      std::string text;
      if constexpr (std::is_convertible_v<decltype(key), std::string>)
        text = std::string(key);
      else
        text = std::to_string(key);
      note(text);
      child(x, [&] { return '[' + text + ']'; });
    }
  } else if constexpr (detail::kIsPair<Plain>) {
    child(tree.first, [] { return std::string(".first"); });
    child(tree.second, [] { return std::string(".second"); });
  } else if constexpr (detail::kIsTuple<Plain>) {
    size_t i = 0;
    std::apply([&](auto&... x) { ((child(x, [&] { return '<' + std::to_string(i) + '>'; }), ++i), ...); },
               tree);
  } else if constexpr (detail::kIsOptional<Plain>) {
    note(tree ? "some" : "none");
    if (tree) child(*tree, [] { return std::string(); });
  } else if constexpr (HasFields<Plain>) {
    size_t i = 0;
    std::apply([&](auto&... x) { ((child(x, [&] { return ".field " + std::to_string(i); }), ++i), ...); },
               const_cast<Plain&>(tree).fields());
  } else {
    static_assert(
        detail::kIsUnknown<T>,
        "transforms take Tensors, numbers, std containers of them, and structs with a fields() member");
  }
}

// Calls visit(leaf) for each Tensor or number of `tree` by reference, in order, and `note` as above.
template <typename T, typename Visit, typename Note>
void visit_tree(T& tree, Visit&& visit, Note&& note) {
  if constexpr (detail::kIsLeaf<std::remove_cv_t<T>>)
    visit(tree);
  else
    visit_children(
        tree, [&](auto& x, auto&&) { visit_tree(x, visit, note); }, note);
}

// How to reach each Tensor, in order: "[2].first", "<0>" for std::get<0>, ".field 1" of fields().
template <typename T>
std::vector<std::string> tensor_paths(const T& tree, const std::string& above = {}) {
  if constexpr (detail::kIsLeaf<T>) {
    if constexpr (std::is_same_v<T, Tensor>) return {above};
    return {};
  } else {
    std::vector<std::string> out;
    visit_children(
        tree,
        [&](const auto& x, auto&& step) {
          for (std::string& path : tensor_paths(x, above + step())) out.push_back(std::move(path));
        },
        [](const std::string&) {});
    return out;
  }
}

// The leaves as tensors, in order. Numbers become weak 0-d tensors.
template <typename T>
std::vector<Tensor> tree_leaves(const T& tree) {
  std::vector<Tensor> out;
  visit_tree(
      tree, [&](const auto& leaf) { out.push_back(Tensor(leaf)); }, [](const std::string&) {});
  return out;
}

// What two trees of one C++ type may differ in.
template <typename T>
std::string tree_structure(const T& tree) {
  std::string out;
  visit_tree(
      tree, [&](const auto&) { out += '*'; },
      [&](const std::string& text) { detail::append_note(out, text); });
  return out;
}

// f(leaf, leaf, ...) of corresponding leaves, in a tree like the first.
template <typename F, typename T, typename... More>
T tree_map(F&& f, const T& tree, const More&... more) {
  T out = tree;
  const std::vector<std::vector<Tensor>> others{tree_leaves(more)...};
  size_t at = 0;
  visit_tree(
      out,
      [&](Tensor& leaf) {
        [&]<size_t... I>(std::index_sequence<I...>) { leaf = f(leaf, others.at(I).at(at)...); }
        (std::index_sequence_for<More...>{});
        ++at;
      },
      [](const std::string&) {});
  return out;
}

}  // namespace lamina

#endif  // LAMINA_TREE_H_
