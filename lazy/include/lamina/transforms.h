// Function transforms over C++ callables: jit, grad, value_and_grad, vmap, jvp, vjp, linearize, jacfwd,
// jacrev, hessian, checkpoint, and functions with derivatives of their own: custom_jvp, custom_vjp. Loops and
// branches: lamina/control.h.
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
  return detail::typed<Arguments, std::pair<Result, First>>([f = detail::Held{std::forward<F>(f)},
                                                             where]<typename... Rest>(const First& first,
                                                                                      Rest&&... rest) {
    std::optional<Result> result;
    const std::tuple<First> differentiated(first);
    auto of_first = [&](const First& x) -> Result { return f.call(x, rest...); };
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
                                             const First& first, Rest&&... rest) -> First {
    return both(first, std::forward<Rest>(rest)...).second;
  });
}

struct VmapOptions {
  std::vector<bool> mapped = {};          // by argument; {}: all are
  std::string axis_name = {};             // for the collectives of lamina/axes.h; {}: none
  std::optional<int64_t> axis_size = {};  // needed where no argument is mapped
};

// Maps over dimension 0 of every tensor among the arguments, of those that are mapped. Results carry the
// batch at dimension 0.
template <typename F>
auto vmap(F&& f, VmapOptions options, std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  return detail::typed<Arguments, Result>([f = detail::Held{std::forward<F>(f)}, options = std::move(options),
                                           where]<typename... A>(A&&... a) -> Result {
    const Arguments arguments(std::forward<A>(a)...);
    const std::vector<bool>& mapped = options.mapped;
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
        detail::flat_vmap(detail::flat(f.call, arguments, result), detail::tensors_of(arguments), batched,
                          options.axis_name, options.axis_size, where);
    size_t at = 0;
    detail::put_leaves(*result, out, at);
    return *result;
  });
}
template <typename F>
auto vmap(F&& f, std::vector<bool> mapped = {},
          std::source_location where = std::source_location::current()) {
  return vmap(std::forward<F>(f), VmapOptions{.mapped = std::move(mapped)}, where);
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
  Result value = *result;
  size_t k = 0;
  detail::put_leaves(value, at.outputs, k);
  auto push_forward = [at, value](const Arguments& tangents) {
    Result out = value;
    size_t i = 0;
    detail::put_leaves(out, at.push_forward(detail::tensors_of(tangents)), i);
    return out;
  };
  return std::pair<Result, decltype(push_forward)>(std::move(value), std::move(push_forward));
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

template <typename F>
auto jacobian(F&& f, bool forward, const char* what, std::source_location where) {
  using Function = std::decay_t<F>;
  using Arguments = typename Callable<Function>::Arguments;
  using Result = typename Callable<Function>::Result;
  using First = std::tuple_element_t<0, Arguments>;
  using Whole = Jacobian<Result, First>;
  return typed<Arguments, Whole>([f = Held{std::forward<F>(f)}, forward, what, where]<typename... Rest>(
                                     const First& first, Rest&&... rest) -> Whole {
    std::optional<Result> result;
    const std::tuple<First> differentiated(first);
    auto of_first = [&](const First& x) -> Result { return f.call(x, rest...); };
    const std::vector<std::vector<Tensor>> blocks =
        flat_jacobian(flat(of_first, differentiated, result), tensors_of(first), forward, what, where);
    size_t output = 0;
    return nested<First>(*result, [&] {
      First block = first;
      size_t at = 0;
      put_leaves(block, blocks.at(output++), at);
      return block;
    });
  });
}

}  // namespace detail

// The Jacobian of f by its first argument: the result's tree, in the place of each Tensor the argument's tree
// of Tensors of the result's shape followed by the argument's. jacfwd goes column by column with forward
// mode, for few inputs, jacrev row by row with reverse mode, for few outputs. Inputs and results are real
// floats, otherwise lamina::Error (kType).
template <typename F>
auto jacfwd(F&& f, std::source_location where = std::source_location::current()) {
  return detail::jacobian(std::forward<F>(f), true, "jacfwd", where);
}
template <typename F>
auto jacrev(F&& f, std::source_location where = std::source_location::current()) {
  return detail::jacobian(std::forward<F>(f), false, "jacrev", where);
}
// Second derivatives by the first argument, forward over reverse mode: Jacobian of the Jacobian.
template <typename F>
auto hessian(F&& f, std::source_location where = std::source_location::current()) {
  return jacfwd(jacrev(std::forward<F>(f), where), where);
}

namespace detail {

// What custom_jvp and custom_vjp share: one rule per structure and types of the arguments. Make gives the
// rule.
template <typename F, typename Make>
class Custom {
 public:
  using Arguments = typename Callable<F>::Arguments;
  using Result = typename Callable<F>::Result;
  Custom(F f, Make make, std::source_location where)
      : f_(std::move(f)), make_(std::move(make)), where_(where) {}

  template <typename... A>
  Result operator()(A&&... a) const {
    const Arguments arguments(std::forward<A>(a)...);
    const std::vector<Tensor> leaves = decided(tensors_of(arguments));
    std::string key = signature(leaves);
    key += fixed_part(arguments);
    Ref<Counted> rule = rules_.find(key);
    if (!rule)
      rule = rules_.insert(std::move(key), Ref<Counted>(new Box<FlatRule>(make_(arguments, leaves))));
    std::optional<Result> result;
    const std::vector<Tensor> out =
        static_cast<const Box<FlatRule>&>(*rule).value.call(flat(f_, arguments, result), leaves, where_);
    Result value = *std::move(result);
    size_t at = 0;
    put_leaves(value, out, at);
    return value;
  }

 private:
  mutable F f_;
  Make make_;
  std::source_location where_;
  TraceTable rules_;  // copies share it
};

// A tree with other tensors.
template <typename T>
T with_leaves(T tree, const std::vector<Tensor>& leaves, size_t& at) {
  put_leaves(tree, leaves, at);
  return tree;
}

}  // namespace detail

// f with a forward derivative of its own, from which reverse mode is made:
// rule(primals, tangents) -> (result, tangent of the result), where primals and tangents are std::tuples of
// f's arguments. A rule runs for any number of steps or batches at once, like every traced function; what it
// captures has no derivative, and what f captures must not be differentiated: lamina::Error (kType). Copies
// of the object are one function, so make it once, not in a loop.
template <typename F, typename Rule>
auto custom_jvp(F&& f, Rule&& rule, std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  auto make = [rule = std::decay_t<Rule>(std::forward<Rule>(rule))](const Arguments& arguments,
                                                                    const std::vector<Tensor>& leaves) {
    return detail::FlatRule::of_jvp(
        [rule, arguments](const std::vector<Tensor>& both) {
          size_t at = 0;
          const Arguments primals = detail::with_leaves(arguments, both, at);
          const Arguments tangents = detail::with_leaves(arguments, both, at);
          auto out = rule(primals, tangents);
          std::vector<Tensor> flat = detail::tensors_of(Result(std::get<0>(out)));
          const std::vector<Tensor> derivatives = detail::tensors_of(Result(std::get<1>(out)));
          flat.insert(flat.end(), derivatives.begin(), derivatives.end());
          return flat;
        },
        leaves);
  };
  return detail::Custom<Function, decltype(make)>(std::forward<F>(f), std::move(make), where);
}

// f with a reverse derivative of its own: forward(arguments...) -> (result, residuals), a tree of any type,
// and backward(residuals, cotangent of the result) -> std::tuple of cotangents of the arguments, in which a
// Tensor that names nothing is zero. Otherwise as custom_jvp.
template <typename F, typename Forward, typename Backward>
auto custom_vjp(F&& f, Forward&& forward, Backward&& backward,
                std::source_location where = std::source_location::current()) {
  using Function = std::decay_t<F>;
  using Arguments = typename detail::Callable<Function>::Arguments;
  using Result = typename detail::Callable<Function>::Result;
  using Out = std::decay_t<decltype(std::apply(forward, std::declval<const Arguments&>()))>;
  using Residuals = std::decay_t<std::tuple_element_t<1, Out>>;
  auto make = [forward = std::decay_t<Forward>(std::forward<Forward>(forward)),
               backward = std::decay_t<Backward>(std::forward<Backward>(backward))](
                  const Arguments& arguments, const std::vector<Tensor>& leaves) {
    // What the forward function returned last: the structures that the backward function sees.
    struct Seen {
      std::optional<Result> result;
      std::optional<Residuals> residuals;
    };
    const detail::Ref<detail::Box<Seen>> seen(new detail::Box<Seen>({}));
    const detail::Ref<detail::Box<size_t>> results(new detail::Box<size_t>(0));
    return detail::FlatRule::of_vjp(
        [forward, arguments, seen, results](const std::vector<Tensor>& inputs) {
          size_t at = 0;
          auto out = std::apply(forward, detail::with_leaves(arguments, inputs, at));
          std::vector<Tensor> flat = detail::tensors_of(Result(std::get<0>(out)));
          results->value = flat.size();
          const std::vector<Tensor> kept = detail::tensors_of(std::get<1>(out));
          flat.insert(flat.end(), kept.begin(), kept.end());
          // The structures stay; the tensors do not.
          const std::vector<Tensor> none(flat.size());
          size_t i = 0, j = 0;
          seen->value.result.emplace(detail::with_leaves(Result(std::get<0>(out)), none, i));
          seen->value.residuals.emplace(detail::with_leaves(Residuals(std::get<1>(out)), none, j));
          return flat;
        },
        [backward, seen](const std::vector<Tensor>& both) {
          size_t at = 0;
          const Residuals residuals = detail::with_leaves(*seen->value.residuals, both, at);
          const Result cotangent = detail::with_leaves(*seen->value.result, both, at);
          return detail::tensors_of(Arguments(backward(residuals, cotangent)));
        },
        results, leaves);
  };
  return detail::Custom<Function, decltype(make)>(std::forward<F>(f), std::move(make), where);
}

// f, computed again in reverse mode instead of kept.
template <typename F>
auto checkpoint(F&& f, std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  return detail::typed<Arguments, Result>(
      [f = detail::Held{std::forward<F>(f)}, where]<typename... A>(A&&... a) -> Result {
        const Arguments arguments(std::forward<A>(a)...);
        std::optional<Result> result;
        const std::vector<Tensor> out = detail::flat_checkpoint(detail::flat(f.call, arguments, result),
                                                                detail::tensors_of(arguments), where);
        size_t at = 0;
        detail::put_leaves(*result, out, at);
        return *result;
      });
}

}  // namespace lamina

#endif  // LAMINA_TRANSFORMS_H_
