// Function transforms over C++ callables: jit and vmap here, derivatives, custom rules and checkpoint in the
// headers that this one includes. Loops and branches: lamina/control.h.
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
#include <utility>

#include "lamina/callable.h"
#include "lamina/checkpoint.h"
#include "lamina/custom.h"
#include "lamina/derivatives.h"

namespace lamina {

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

// How lanes go on that take different branches or numbers of steps; the bits are those of a loop over them.
enum class LaneStrategy : uint8_t {
  select,     // together: all branches run, steps are taken until the last lane has ended
  loop,       // one after the other, each through its own branch and steps
  automatic,  // by cost: together while enough lanes take steps, then those that are left one by one
};

struct VmapOptions {
  // By argument: the dimension of all its tensors that is mapped over, or std::nullopt: none; {}: 0 for all.
  std::vector<std::optional<int64_t>> in_axes = {};
  // The dimension of results that holds the lanes: one for all, or one for each element of a std::tuple or
  // pair; {}: 0. Negative dimensions count from the end, here and there.
  std::vector<int64_t> out_axes = {};
  std::string axis_name = {};             // for the collectives of lamina/axes.h; {}: none
  std::optional<int64_t> axis_size = {};  // needed where no argument is mapped
  LaneStrategy strategy = LaneStrategy::select;
};

namespace detail {
// One for each tensor of a result from one for each of its elements.
template <typename Result>
std::vector<int64_t> axes_of_tensors(const Result& result, const std::vector<int64_t>& by_element,
                                     std::source_location where) {
  if (by_element.size() == 1) return std::vector<int64_t>(tensors_of(result).size(), by_element[0]);
  if constexpr (kIsTuple<Result> || kIsPair<Result>) {
    if (by_element.size() == std::tuple_size_v<Result>) {
      std::vector<int64_t> out;
      auto axis = by_element.begin();
      std::apply([&](const auto&... part) { (out.insert(out.end(), tensors_of(part).size(), *axis++), ...); },
                 result);
      return out;
    }
  }
  fail_at(ErrorKind::kValue, "vmap: there has to be one of out_axes, or one per element of the result",
          where);
}
}  // namespace detail

// Maps over one dimension of every tensor among the arguments, of those that are mapped; all have as many
// lanes there. lamina::Error (kValue) for dimensions that a tensor does not have, and sizes that differ.
template <typename F>
auto vmap(F&& f, VmapOptions options, std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  return detail::typed<Arguments, Result>([f = detail::Held{std::forward<F>(f)}, options = std::move(options),
                                           where]<typename... A>(A&&... a) -> Result {
    const Arguments arguments(std::forward<A>(a)...);
    constexpr size_t kCount = std::tuple_size_v<Arguments>;
    const std::vector<std::optional<int64_t>>& axes = options.in_axes;
    if (!axes.empty() && axes.size() != kCount)
      detail::fail_at(ErrorKind::kValue, "vmap: there has to be one of in_axes per argument", where);
    std::vector<std::optional<int64_t>> in_axes;
    size_t position = 0;
    std::apply(
        [&](const auto&... x) {
          ((in_axes.insert(in_axes.end(), detail::tensors_of(x).size(),
                           axes.empty() ? std::optional<int64_t>(0) : axes[position]),
            ++position),
           ...);
        },
        arguments);
    std::optional<Result> result;
    std::vector<Tensor> out =
        detail::flat_vmap(detail::flat(f.call, arguments, result), detail::tensors_of(arguments), in_axes,
                          options.axis_name, options.axis_size, static_cast<int>(options.strategy), where);
    if (!options.out_axes.empty())
      out = detail::flat_lanes_at(std::move(out), detail::axes_of_tensors(*result, options.out_axes, where),
                                  where);
    size_t at = 0;
    detail::put_leaves(*result, out, at);
    return *result;
  });
}
// Over dimension 0 of the arguments that are `mapped`; {}: all are.
template <typename F>
auto vmap(F&& f, const std::vector<bool>& mapped = {},
          std::source_location where = std::source_location::current()) {
  VmapOptions options;
  for (const bool is_mapped : mapped)
    options.in_axes.push_back(is_mapped ? std::optional<int64_t>(0) : std::nullopt);
  return vmap(std::forward<F>(f), std::move(options), where);
}

}  // namespace lamina

#endif  // LAMINA_TRANSFORMS_H_
