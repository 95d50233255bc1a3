// What functions record, without computing it: eval_shape, make_trace, closure_convert.
//
// Contract: as lamina/transforms.h. The function is called once, with tensors that stand for its arguments.
#ifndef LAMINA_TRACE_H_
#define LAMINA_TRACE_H_

#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/callable.h"

namespace lamina {

// The result of f for arguments like these, as zeros, which cost nothing: its structure, shapes and element
// types. Nothing of f is computed.
template <typename F, typename... A>
auto eval_shape(F&& f, const std::tuple<A...>& like,
                std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  const typename detail::Callable<std::decay_t<F>>::Arguments arguments(like);
  std::optional<Result> result;
  const std::vector<Tensor> zeros =
      detail::flat_result_types(detail::flat(f, arguments, result), detail::tensors_of(arguments), where);
  return detail::with_leaves(*std::move(result), zeros);
}

// A recorded program, as it is before it is compiled.
struct Trace {
  struct Operation {
    std::string name, result;  // "add", "float32[3]"
    std::string where;         // "file:line"; empty: unknown
  };
  std::vector<Operation> operations;  // in the order of their computation, those of loops and branches not
  std::string text;                   // the whole, in the form that lamina-opt reads
};

// What f records for arguments like these. What its results do not need is left out.
template <typename F, typename... A>
Trace make_trace(F&& f, const std::tuple<A...>& like,
                 std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  const typename detail::Callable<std::decay_t<F>>::Arguments arguments(like);
  std::optional<Result> result;
  const detail::FlatTrace made =
      detail::flat_trace(detail::flat(f, arguments, result), detail::tensors_of(arguments), where);
  Trace out{{}, made.text};
  for (const auto& [name, type, place] : made.operations) out.operations.push_back({name, type, place});
  return out;
}

// (converted, tensors) with f(arguments...) = converted(arguments..., tensors), where the tensors are those
// that f uses from outside and that a derivative may be taken by: of real or complex elements, differentiated
// or of a traced function. So a custom rule can take derivatives by them. `like` tells the types of the
// arguments.
template <typename F, typename... A>
auto closure_convert(F&& f, const std::tuple<A...>& like,
                     std::source_location where = std::source_location::current()) {
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  const typename detail::Callable<std::decay_t<F>>::Arguments arguments(like);
  std::optional<Result> result;
  detail::FlatClosure closure(detail::flat(f, arguments, result), detail::tensors_of(arguments), false,
                              where);
  const std::vector<Tensor> none(detail::tensors_of(*result).size());
  std::vector<Tensor> tensors = closure.take_captured();
  auto converted = [closure, structure = detail::with_leaves(*std::move(result), none)](
                       const std::decay_t<A>&... a, const std::vector<Tensor>& captured) -> Result {
    std::vector<Tensor> leaves = detail::tensors_of(std::tuple<std::decay_t<A>...>(a...));
    leaves.insert(leaves.end(), captured.begin(), captured.end());
    return detail::with_leaves(structure, closure.call(leaves));
  };
  return std::pair<decltype(converted), std::vector<Tensor>>(std::move(converted), std::move(tensors));
}

}  // namespace lamina

#endif  // LAMINA_TRACE_H_
