// Checks in traced programs: what must hold is stated in the program, and told beside its results or thrown.
//
// Contract: `check` works under every transform and in loops and branches. In checkify(f) a check that fails
// becomes part of the result, at compiled speed, and the program goes on; elsewhere the program throws
// lamina::Error (kValue) with the message, file and line. The first failure is the one that is told.
#ifndef LAMINA_CHECKS_H_
#define LAMINA_CHECKS_H_

#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lamina/callable.h"

namespace lamina {

// States that the scalar `holds` is true, or not zero; `message` has the elements of `values` in the places
// of its {}. Throws kType where `holds` is no scalar (use all()), kValue where the places do not fit.
inline void check(const Tensor& holds, std::string message, const std::vector<Tensor>& values = {},
                  std::source_location where = std::source_location::current()) {
  detail::flat_check(holds, std::move(message), values, where);
}

struct CheckOptions {
  bool user = true;       // what `check` states
  bool nan = false;       // every NaN that an operation makes
  bool division = false;  // every division by zero
  bool index = false;     // every index out of range in what a program computes; then `user` ones too
};

// What checkify found; a tree.
struct CheckError {
  Tensor number;  // 0: nothing
  auto fields() { return std::tie(number); }

  // What the first check that failed says, under vmap that of each lane; empty: all held.
  std::optional<std::string> message() const {
    std::string text = detail::check_messages(number);
    if (text.empty()) return std::nullopt;
    return text;
  }
  // lamina::Error (kValue) where a check failed.
  void raise(std::source_location where = std::source_location::current()) const {
    if (const std::optional<std::string> text = message()) detail::fail_at(ErrorKind::kValue, *text, where);
  }
};

// A function that gives (CheckError, result of f). f is recorded as by jit, loops, branches and derivatives
// that it takes included.
template <typename F>
auto checkify(F&& f, CheckOptions options = {},
              std::source_location where = std::source_location::current()) {
  using Arguments = typename detail::Callable<std::decay_t<F>>::Arguments;
  using Result = typename detail::Callable<std::decay_t<F>>::Result;
  using Out = std::pair<CheckError, Result>;
  return detail::typed<Arguments, Out>(
      [f = detail::Held{std::forward<F>(f)}, options, where]<typename... A>(A&&... a) -> Out {
        const Arguments arguments(std::forward<A>(a)...);
        std::optional<Result> result;
        const std::vector<Tensor> out = detail::flat_checked(
            detail::flat(f.call, arguments, result), detail::tensors_of(arguments),
            options.user || options.index, options.nan, options.division, options.index, where);
        return {CheckError{out.back()}, detail::with_leaves(*std::move(result), out)};
      });
}

struct Checks {
  bool nan = false;    // a NaN that an operation made, among the results of what runs
  bool index = false;  // an index out of range, which elsewhere means the nearest element, or none
};

// While it lives, what this thread records and runs is checked, with the operation or index and its line:
// lamina::Error (kFloatingPoint, kIndex). Only where there is a NaN is the program run once more, step by
// step. A jitted function is traced once for `index`, and runs slower. Scopes nest.
#pragma GCC visibility push(default)
class ChecksScope {
 public:
  explicit ChecksScope(Checks checks);
  ~ChecksScope();
  ChecksScope(const ChecksScope&) = delete;
  ChecksScope& operator=(const ChecksScope&) = delete;

 private:
  Checks saved_;
};
#pragma GCC visibility pop

}  // namespace lamina

#endif  // LAMINA_CHECKS_H_
