#include "lazy/implicit.h"

#include "lamina/flat_transforms.h"
#include "lazy/api/flat.h"

namespace lamina::detail {
namespace {

// The user's solver as the core's, for as long as it lives.
lazy::Solver solver(const FlatSolver& solve, std::string name) {
  return {[solve](const lazy::FlatFunction& f, const std::vector<lazy::Lazy>& given) {
            ServingScope users_code(false);
            const FlatFunction outer = [f](const std::vector<Tensor>& x) { return tensors(f(lazies(x))); };
            return lazies(solve(outer, tensors(given)));
          },
          std::move(name)};
}

}  // namespace

std::vector<Tensor> flat_linear_solve(const FlatFunction& matvec, const std::vector<Tensor>& b,
                                      const FlatSolver& solve, const FlatSolver& transpose_solve,
                                      bool symmetric, std::source_location where) {
  return located(where, [&] {
    std::optional<lazy::Solver> transposed;
    if (transpose_solve) transposed = solver(transpose_solve, "transpose_solve");
    return tensors(lazy::custom_linear_solve({inner(matvec), "matvec"}, lazies(b), solver(solve, "solve"),
                                             transposed, symmetric));
  });
}

std::vector<Tensor> flat_root(const FlatFunction& f, const std::vector<Tensor>& guess,
                              const FlatSolver& solve, const FlatSolver& tangent_solve,
                              std::source_location where) {
  return located(where, [&] {
    return tensors(lazy::custom_root({inner(f), "f"}, lazies(guess), solver(solve, "solve"),
                                     solver(tangent_solve, "tangent_solve")));
  });
}

}  // namespace lamina::detail
