// Functions that are defined by an equation: custom_root, custom_linear_solve.
//
// Contract: the unknown is a tree (lamina/tree.h); a number in its place is a Tensor. Derivatives come from
// the equation, not from the iteration that solved it, in both modes and of every order: by all that the
// equation's function uses from outside, and by the right-hand side. What a solver alone uses (a first guess,
// a preconditioner) has none. Inside of transforms the functions are traced once, as bodies of loops are
// (lamina/control.h). Solvers get the equation's function as a callable on the unknown, so they are generic
// lambdas. A solver may return a pair (solution, aux): then the result is one too, and aux, a tree, has no
// derivative. lamina::Error (kType) where a function gives other shapes or element types than the unknown's.
#ifndef LAMINA_IMPLICIT_H_
#define LAMINA_IMPLICIT_H_

#include <optional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lamina/control.h"

namespace lamina {
namespace detail {

// A function on flat lists as one on trees like `like`.
template <typename T>
struct OfUnknown {
  FlatFunction flat;
  T like;
  T operator()(const T& x) const { return with_leaves(like, flat(tensors_of(x))); }
};
template <typename F, typename T>
FlatFunction flat_of_unknown(F& f, const T& like) {
  return [&f, like](const std::vector<Tensor>& x) {
    const T given = with_leaves(like, x);
    return tensors_of(T(f(given)));
  };
}

// What a solver that found `Found` gives besides the solution.
template <typename Found, typename T>
struct AuxOf {
  static constexpr bool kThere = true;
  using Type = Part<Found, 1>;
};
template <typename Found, typename T>
requires std::is_convertible_v<Found, T>
struct AuxOf<Found, T> {
  static constexpr bool kThere = false;
  using Type = std::tuple<>;
};

// A solver on flat lists, and what it found last.
template <typename Solve, typename T>
class SolverOf {
  using Found = std::invoke_result_t<Solve&, const OfUnknown<T>&, const T&>;
  using Aux = AuxOf<Found, T>;

 public:
  SolverOf(Solve solve, const T& like)
      : state_(new Box<State>({std::move(solve), with_leaves(like, none(like)), {}})) {}
  FlatSolver flat() const {
    return [state = state_](const FlatFunction& f, const std::vector<Tensor>& given) {
      State& s = state->value;
      Found found = s.solve(OfUnknown<T>{f, s.like}, with_leaves(s.like, given));
      if constexpr (Aux::kThere) {
        s.aux.emplace(std::get<1>(found));
        std::vector<Tensor> out = tensors_of(T(std::get<0>(std::move(found))));
        for (const Tensor& t : tensors_of(*s.aux)) out.push_back(t);
        return out;
      } else {
        return tensors_of(T(std::move(found)));
      }
    };
  }
  // The solution, and aux if there is one.
  auto result(const std::vector<Tensor>& found) const {
    const State& s = state_->value;
    size_t at = 0;
    T x = with_leaves(s.like, found, at);
    if constexpr (Aux::kThere)
      return std::pair(std::move(x), with_leaves(*s.aux, found, at));
    else
      return x;
  }

 private:
  static std::vector<Tensor> none(const T& like) { return std::vector<Tensor>(tensors_of(like).size()); }
  struct State {
    Solve solve;
    T like;  // its structure
    std::optional<typename Aux::Type> aux;
  };
  Ref<Box<State>> state_;
};
template <typename Solve, typename T>
SolverOf(Solve, const T&) -> SolverOf<Solve, T>;

}  // namespace detail

struct LinearSolveOptions {
  bool symmetric = false;  // the transposed system is the system
};

// x with matvec(x) = b, as solve(matvec, b) finds it, where matvec is linear and b a tree of real or complex
// tensors. Without options.symmetric, lamina::Error (kType) in reverse mode.
template <typename Matvec, typename B, typename Solve>
auto custom_linear_solve(Matvec&& matvec, const B& b, Solve&& solve, LinearSolveOptions options = {},
                         std::source_location where = std::source_location::current()) {
  const detail::Traced<B> like(b);
  const detail::SolverOf of(std::decay_t<Solve>(std::forward<Solve>(solve)), like);
  return of.result(detail::flat_linear_solve(detail::flat_of_unknown(matvec, like), detail::tensors_of(like),
                                             of.flat(), {}, options.symmetric, where));
}
// In reverse mode transpose_solve(vecmat, b) solves the transposed system.
template <typename Matvec, typename B, typename Solve, typename TransposeSolve>
requires(!std::is_same_v<std::decay_t<TransposeSolve>, LinearSolveOptions>) auto custom_linear_solve(
    Matvec&& matvec, const B& b, Solve&& solve, TransposeSolve&& transpose_solve,
    std::source_location where = std::source_location::current()) {
  const detail::Traced<B> like(b);
  const detail::SolverOf of(std::decay_t<Solve>(std::forward<Solve>(solve)), like);
  const detail::SolverOf transposed(
      std::decay_t<TransposeSolve>(std::forward<TransposeSolve>(transpose_solve)), like);
  return of.result(detail::flat_linear_solve(detail::flat_of_unknown(matvec, like), detail::tensors_of(like),
                                             of.flat(), transposed.flat(), false, where));
}

// x with f(x) = 0, as solve(f, guess) finds it. tangent_solve(g, y) gives v with g(v) = y, where g is the
// derivative of f at the root, a linear function: y / g(1) for numbers, else usually by custom_linear_solve.
// It is kept, and runs when a derivative is taken: it captures by value.
//
//   auto cube_root = [](const Tensor& a) {
//     return custom_root([&](const Tensor& x) { return x * x * x - a; }, ones_like(a),
//                        [](const auto& f, const Tensor& guess) {
//                          return fori_loop(0, 30, [&](const Tensor&, const Tensor& x) {
//                            return x - f(x) / (3 * x * x); }, guess);
//                        },
//                        [](const auto& g, const Tensor& y) { return y / g(ones_like(y)); });
//   };
template <typename F, typename T, typename Solve, typename TangentSolve>
auto custom_root(F&& f, const T& guess, Solve&& solve, TangentSolve&& tangent_solve,
                 std::source_location where = std::source_location::current()) {
  const detail::Traced<T> like(guess);
  const detail::SolverOf of(std::decay_t<Solve>(std::forward<Solve>(solve)), like);
  const detail::SolverOf tangents(std::decay_t<TangentSolve>(std::forward<TangentSolve>(tangent_solve)),
                                  like);
  return of.result(detail::flat_root(detail::flat_of_unknown(f, like), detail::tensors_of(like), of.flat(),
                                     tangents.flat(), where));
}

}  // namespace lamina

#endif  // LAMINA_IMPLICIT_H_
