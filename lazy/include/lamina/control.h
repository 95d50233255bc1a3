// Control flow over C++ callables: scan, while_loop, fori_loop, map, associative_scan, cond, switch_case.
//
// Contract: carries, scanned arrays, operands and results are trees (lamina/tree.h); a number in the place of
// a carry, operand or result is a Tensor. The functions are called while the loop or branch is recorded, a
// fixed number of times (once, or twice where a number takes the element type of a tensor), with tensors that
// stand for the arguments of any step, also outside jit; so they are deterministic and read no values.
// Tensors that they use from outside (captured by a lambda) are inputs as well, and are differentiated.
// Everything works under grad, vmap and jit in any nesting. Reverse mode keeps what every step of a scan, a
// map or a fori_loop with C++ integers as bounds needs; of other loops it keeps LoopOptions::checkpoint
// states.
//
// A carry comes out of the body with the C++ type, structure, shapes and element types that it went in with,
// and its numbers (a struct's `int`, say) with their values; branches agree on all of these. Otherwise
// lamina::Error (kType) names the tensor, both types and the caller's file and line. Weak numbers take the
// element type that they meet.
#ifndef LAMINA_CONTROL_H_
#define LAMINA_CONTROL_H_

#include <array>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lamina/flat_transforms.h"
#include "lamina/transforms.h"
#include "lamina/tree.h"

namespace lamina {
namespace detail {

// Numbers become tensors, which can change from step to step.
template <typename T>
using Traced = std::conditional_t<Element<std::decay_t<T>>, Tensor, std::decay_t<T>>;

// Of a pair or tuple of two.
template <typename T, size_t I>
using Part = Traced<std::tuple_element_t<I, std::decay_t<T>>>;

// What a body returned, if it has the structure of the first: a carry's that went in, a branch's result.
template <typename T>
T alike(const T& first, T second, const char* what, std::source_location where) {
  if (fixed_part(first) != fixed_part(second))
    fail_at(ErrorKind::kType, std::string(what) + " the lengths, keys and numbers of containers alike",
            where);
  return second;
}

}  // namespace detail

struct ScanOptions {
  std::optional<int64_t> length = {};  // needed where nothing is scanned
  bool reverse = false;                // from the last element to the first; ys stay in their places
};

// (carry, y) = f(carry, x) for the elements x of xs along dimension 0, where x has the type of xs; gives the
// last carry and the ys, stacked. f returns a pair or tuple of two. Throws lamina::Error (kValue) where the
// tensors of xs differ in length. xs may be std::tuple<>{}, with options.length.
template <typename F, typename Carry, typename Xs>
auto scan(F&& f, const Carry& init, const Xs& xs, ScanOptions options = {},
          std::source_location where = std::source_location::current()) {
  using C = detail::Traced<Carry>;
  using Out = std::invoke_result_t<F&, const C&, const Xs&>;
  static_assert(std::tuple_size_v<std::decay_t<Out>> == 2, "the body of a scan returns a pair (carry, y)");
  static_assert(std::is_convertible_v<detail::Part<Out, 0>, C>,
                "the body of a scan returns the carry in the type it was given");
  using Y = detail::Part<Out, 1>;
  const C carry(init);
  std::optional<Y> ys;
  const detail::FlatFunction step = [&](const std::vector<Tensor>& p) {
    C inner = carry;
    Xs slices = xs;
    size_t at = 0;
    detail::put_leaves(inner, p, at);
    detail::put_leaves(slices, p, at);
    Out out = f(std::as_const(inner), std::as_const(slices));
    const C next = detail::alike(carry, C(std::get<0>(std::move(out))), "scan: the body must keep", where);
    ys.emplace(std::get<1>(std::move(out)));
    std::vector<Tensor> leaves = detail::tensors_of(next);
    for (const Tensor& y : detail::tensors_of(*ys)) leaves.push_back(y);
    return leaves;
  };
  const std::vector<Tensor> results =
      detail::flat_scan(step, detail::tensors_of(carry), detail::tensors_of(xs), tensor_paths(carry),
                        tensor_paths(xs), options.length, options.reverse, where);
  std::pair<C, Y> out(carry, *std::move(ys));
  size_t at = 0;
  detail::put_leaves(out.first, results, at);
  detail::put_leaves(out.second, results, at);
  return out;
}

struct MapOptions {
  std::optional<int64_t> batch_size = {};  // so many elements at a time, as vmap does; absent: one
};

// f(x) for the elements x of xs along dimension 0, one after the other or some at a time; the results
// stacked. Throws lamina::Error (kValue) where the tensors of xs differ in length, or for a batch_size below
// 1.
template <typename F, typename Xs>
auto map(F&& f, const Xs& xs, MapOptions options = {},
         std::source_location where = std::source_location::current()) {
  std::optional<detail::Traced<std::invoke_result_t<F&, const Xs&>>> result;
  const detail::FlatFunction each = [&](const std::vector<Tensor>& p) {
    const Xs element = detail::with_leaves(xs, p);
    return detail::tensors_of(result.emplace(f(element)));
  };
  const std::vector<Tensor> out =
      detail::flat_map(each, detail::tensors_of(xs), tensor_paths(xs), options.batch_size, where);
  return detail::with_leaves(*std::move(result), out);
}

struct LoopOptions {
  // How many states of the loop reverse mode keeps at a time, at least 1; those between are computed again.
  // With s of them every step runs at most t + 1 times forward in a loop of (s + t)! / (s! t!) steps. Absent:
  // as many as fit 16 MiB, at least 16 and at most 1024. Throws Error(kValue) for a number below 1 that is
  // not checkpoint_sqrt.
  std::optional<int64_t> checkpoint = {};
};

// body(carry) as long as test(carry), one bool scalar, holds.
template <typename Test, typename Body, typename Carry>
detail::Traced<Carry> while_loop(Test&& test, Body&& body, const Carry& init, LoopOptions options = {},
                                 std::source_location where = std::source_location::current()) {
  using C = detail::Traced<Carry>;
  const C carry(init);
  const detail::FlatFunction go = [&](const std::vector<Tensor>& p) {
    C inner = carry;
    size_t at = 0;
    detail::put_leaves(inner, p, at);
    return std::vector<Tensor>{Tensor(test(std::as_const(inner)))};
  };
  const detail::FlatFunction step = [&](const std::vector<Tensor>& p) {
    C inner = carry;
    size_t at = 0;
    detail::put_leaves(inner, p, at);
    return detail::tensors_of(
        detail::alike(carry, C(body(std::as_const(inner))), "while_loop: the body must keep", where));
  };
  C out = carry;
  size_t at = 0;
  detail::put_leaves(
      out,
      detail::flat_while(go, step, detail::tensors_of(carry), tensor_paths(carry), options.checkpoint, where),
      at);
  return out;
}

// carry = body(i, carry) for i = lower ... upper-1, a Tensor that takes the type of what it meets, as numbers
// do, unless a bound is a Tensor that has a type of its own. With C++ integers as bounds and no
// options.checkpoint it is a scan, else a while loop.
template <typename Lower, typename Upper, typename Body, typename Carry>
detail::Traced<Carry> fori_loop(const Lower& lower, const Upper& upper, Body&& body, const Carry& init,
                                LoopOptions options = {},
                                std::source_location where = std::source_location::current()) {
  using C = detail::Traced<Carry>;
  const C carry(init);
  const detail::FlatFunction step = [&](const std::vector<Tensor>& p) {
    C inner = carry;
    size_t at = 1;
    detail::put_leaves(inner, p, at);
    return detail::tensors_of(
        detail::alike(carry, C(body(p.at(0), std::as_const(inner))), "fori_loop: the body must keep", where));
  };
  detail::FlatBounds bounds;
  if constexpr (std::is_integral_v<Lower> && std::is_integral_v<Upper>) {
    bounds.known = {static_cast<int64_t>(lower), static_cast<int64_t>(upper)};
  } else {
    bounds.lower = detail::Traced<Lower>(lower);
    bounds.upper = detail::Traced<Upper>(upper);
  }
  C out = carry;
  size_t at = 0;
  detail::put_leaves(out,
                     detail::flat_fori(bounds, step, detail::tensors_of(carry), tensor_paths(carry),
                                       options.checkpoint, where),
                     at);
  return out;
}

struct AssociativeScanOptions {
  bool reverse = false;  // suffixes instead of prefixes
};

// All prefixes of elems along dimension 0, combined by the associative f, in about 2 log2(n) calls of it:
// f(a, b) takes two trees like elems, of any length along dimension 0, and combines them element by element.
// Throws lamina::Error (kValue) where the tensors differ in length.
template <typename F, typename T>
T associative_scan(F&& f, const T& elems, AssociativeScanOptions options = {},
                   std::source_location where = std::source_location::current()) {
  const detail::FlatFunction combine = [&](const std::vector<Tensor>& p) {
    T a = elems, b = elems;
    size_t at = 0;
    detail::put_leaves(a, p, at);
    detail::put_leaves(b, p, at);
    return detail::tensors_of(T(f(std::as_const(a), std::as_const(b))));
  };
  T out = elems;
  size_t at = 0;
  detail::put_leaves(out,
                     detail::flat_associative_scan(combine, detail::tensors_of(elems), tensor_paths(elems),
                                                   options.reverse, where),
                     at);
  return out;
}

namespace detail {

// One of `branches`, callables of one result type, chosen by the index.
template <typename Result, typename Branches, typename... A>
Result branched(bool is_cond, const TensorOrNumber& index, const Branches& branches, const A&... arguments) {
  const std::tuple<Traced<A>...> operands(arguments...);
  std::optional<Result> first;
  LeafNames names;  // of its tensors
  std::vector<FlatFunction> functions;
  auto add = [&](auto& f) {
    functions.emplace_back([&](const std::vector<Tensor>& leaves) {
      std::tuple<Traced<A>...> inner = operands;
      size_t at = 0;
      put_leaves(inner, leaves, at);
      Result result(std::apply(f, std::as_const(inner)));
      if (!first) {
        first.emplace(result);
        names = tensor_paths(result);
      }
      return tensors_of(alike(*first, std::move(result), "all branches must return", index.where()));
    });
  };
  branches(add);
  const std::vector<Tensor> results = flat_branches(is_cond, index, functions, tensors_of(operands), names);
  Result out = *std::move(first);
  size_t at = 0;
  put_leaves(out, results, at);
  return out;
}

template <typename F, typename... A>
using BranchResult = Traced<std::invoke_result_t<F&, const Traced<A>&...>>;

}  // namespace detail

// if_true(operands...) where the scalar is true or not zero, else if_false(operands...): only that one runs.
template <typename T, typename F, typename... A>
auto cond(TensorOrNumber predicate, T&& if_true, F&& if_false, const A&... operands) {
  using Result = detail::BranchResult<T, A...>;
  static_assert(std::is_same_v<Result, detail::BranchResult<F, A...>>,
                "both branches of a cond return one type");
  return detail::branched<Result>(
      true, predicate,
      [&](auto&& add) {
        add(if_false);
        add(if_true);
      },
      operands...);
}

// branches[index](operands...), the index limited to the branches: only that one runs. The branches are a
// std::tuple of callables, or a std::vector or std::array of callables of one type (std::function).
template <typename Branches, typename... A>
auto switch_case(TensorOrNumber index, Branches&& branches, const A&... operands) {
  using All = std::decay_t<Branches>;
  if constexpr (detail::kIsTuple<All>) {
    using Result = detail::BranchResult<std::tuple_element_t<0, All>, A...>;
    return detail::branched<Result>(
        false, index,
        [&](auto&& add) {
          std::apply(
              [&](auto&... f) {
                static_assert((std::is_same_v<Result, detail::BranchResult<decltype(f), A...>> && ...),
                              "all branches return one type");
                (add(f), ...);
              },
              branches);
        },
        operands...);
  } else {
    using Result = detail::BranchResult<decltype(*branches.begin()), A...>;
    return detail::branched<Result>(
        false, index,
        [&](auto&& add) {
          for (auto& f : branches) add(f);
        },
        operands...);
  }
}

}  // namespace lamina

#endif  // LAMINA_CONTROL_H_
