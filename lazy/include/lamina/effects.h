// Host callbacks: functions of C++ in the middle of programs, which get values.
//
// Contract: a callback runs each time the program passes there, on the thread that runs the program, with
// tensors whose values are known, of the arguments' shapes and element types; it may use the library. It
// returns a tree like `like`, whose tensors only tell shapes and element types (zeros cost nothing). What it
// throws reaches the caller of the program unchanged; results of other types are lamina::Error (kType). It
// has no derivative: give the function around it one with custom_jvp or custom_vjp. It lives as long as the
// programs that call it.
#ifndef LAMINA_EFFECTS_H_
#define LAMINA_EFFECTS_H_

#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/flat_transforms.h"
#include "lamina/transforms.h"
#include "lamina/tree.h"

namespace lamina {

namespace detail {

template <typename Like, typename F, typename... A>
Like callback(F&& f, const std::tuple<A...>& arguments, const Like& like, bool effect, CallbackLanes lanes,
              std::source_location where) {
  using Function = std::decay_t<F>;
  const Ref<Box<Function>> held(new Box<Function>(std::forward<F>(f)));
  FlatFunction run = [held, arguments](const std::vector<Tensor>& leaves) {
    std::tuple<A...> inner = arguments;
    size_t at = 0;
    put_leaves(inner, leaves, at);
    if constexpr (std::is_void_v<decltype(std::apply(held->value, inner))>) {
      std::apply(held->value, inner);
      return std::vector<Tensor>();
    } else {
      return tensors_of(Like(std::apply(held->value, inner)));
    }
  };
  Like out = like;
  size_t at = 0;
  put_leaves(
      out, flat_callback(std::move(run), tensors_of(arguments), tensors_of(like), effect, lanes, where), at);
  return out;
}

}  // namespace detail

// f(arguments...), a function of its arguments alone: it may be called again, or not at all where its result
// is not used.
//
//   Tensor y = pure_callback(table_lookup, std::tuple(x), zeros_like(x));
template <typename F, typename... A, typename Like>
Like pure_callback(F&& f, const std::tuple<A...>& arguments, const Like& like,
                   CallbackLanes lanes = CallbackLanes::kOneByOne,
                   std::source_location where = std::source_location::current()) {
  return detail::callback(std::forward<F>(f), arguments, like, false, lanes, where);
}

// f(arguments...) for what it does: once each time the program passes there, in program order, although its
// result is not used. Outside jit and vmap it runs at once; vmap calls it lane after lane, a derivative in
// the forward pass, once. Without `like`, f returns nothing.
template <typename F, typename... A, typename Like>
Like io_callback(F&& f, const std::tuple<A...>& arguments, const Like& like,
                 std::source_location where = std::source_location::current()) {
  return detail::callback(std::forward<F>(f), arguments, like, true, CallbackLanes::kOneByOne, where);
}
template <typename F, typename... A>
void io_callback(F&& f, const std::tuple<A...>& arguments,
                 std::source_location where = std::source_location::current()) {
  detail::callback(std::forward<F>(f), arguments, std::tuple<>{}, true, CallbackLanes::kOneByOne, where);
}

// The same, by the name that Python has for it.
template <typename F, typename... A>
void debug_callback(F&& f, const std::tuple<A...>& arguments,
                    std::source_location where = std::source_location::current()) {
  io_callback(std::forward<F>(f), arguments, where);
}

// Prints a line to standard output, as an io_callback: `format` with the arguments' elements in the places
// of its {}, of which there are as many ({{ and }} are braces), otherwise lamina::Error (kValue).
inline void debug_print(std::string format, const std::vector<Tensor>& arguments,
                        std::source_location where = std::source_location::current()) {
  detail::flat_print(std::move(format), arguments, where);
}

// Waits until the effects recorded so far have run, as those outside jit and vmap always have.
inline void effects_barrier() { detail::run_effects(); }

}  // namespace lamina

#endif  // LAMINA_EFFECTS_H_
