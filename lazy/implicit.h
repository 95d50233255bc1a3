// Functions that are defined by an equation, over flat lists of lazy arrays: what custom_root and
// custom_linear_solve are made of, in C++ and Python.
//
// Their derivatives come from the equation, not from the iteration that solved it (Krantz, Parks, "The
// Implicit Function Theorem", 2003, section 3): of f(x, a) = 0, dx = -(df/dx)^-1 (df/da) da; of A x = b,
// A dx = db - dA x. What the functions use from outside (a) is found by tracing them once.
//
// Contract: derivatives of every order; by what a solver alone uses, and of its further results, there are
// none. Throws Error(kType) where a function or a solver gives other shapes or element types than those of
// the solution, naming the function and both. Errors of the functions pass through.
#ifndef LAMINA_LAZY_IMPLICIT_H_
#define LAMINA_LAZY_IMPLICIT_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lazy/control.h"

namespace lamina::lazy {

// Solves an equation in `f`, from a right-hand side or a first guess: the solution, then further results.
using SolveFunction = std::function<std::vector<Lazy>(const FlatFunction& f, const std::vector<Lazy>& given)>;
struct Solver {
  SolveFunction solve;
  std::string name;
};

// x with matvec(x) = b, where matvec is linear and b of real or complex elements, else Error(kType). In
// reverse mode the transposed system is solved by `transpose_solve`, or by `solve` where it is `symmetric`;
// Error(kType) with neither.
std::vector<Lazy> custom_linear_solve(const Named& matvec, std::vector<Lazy> b, const Solver& solve,
                                      const std::optional<Solver>& transpose_solve, bool symmetric);

// x with f(x) = 0, found from `guess`. `tangent_solve` gives v with g(v) = y, where g is the derivative of f
// at the root. It runs when a derivative is taken, any number of times.
std::vector<Lazy> custom_root(const Named& f, std::vector<Lazy> guess, const Solver& solve,
                              const Solver& tangent_solve);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_IMPLICIT_H_
