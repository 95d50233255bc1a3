// What transforms made of computations, found again by content: the same function derived or batched once
// more costs a look-up.
//
// Contract: computations are interned, so one is its content. At most kMaxRemembered results are kept, the
// last ones used. Computations that hold custom rules are not remembered: a rule is the user's code and may
// give something else next time.
#ifndef LAMINA_TRACE_TRANSFORM_MEMO_H_
#define LAMINA_TRACE_TRANSFORM_MEMO_H_

#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include <variant>

#include "trace/graph_transforms.h"

namespace lamina::trace {

inline constexpr size_t kMaxRemembered = 512;
void forget_transformed();

using Transformed = std::variant<ComputationPtr, JvpComputation, BatchComputation, SplitComputation>;

// Looks up what `make` made of the computations with these options; calls it where that is not known.
absl::StatusOr<Transformed> remembered(std::initializer_list<const Computation*> of, std::string options,
                                       const std::function<absl::StatusOr<Transformed>()>& make);
// Masks and numbers as part of `options`.
std::string option_text(std::string_view what, std::initializer_list<std::span<const bool>> masks,
                        int64_t number = 0);

template <typename T>
absl::StatusOr<T> remembered_as(std::initializer_list<const Computation*> of, std::string options,
                                const std::function<absl::StatusOr<T>()>& make) {
  absl::StatusOr<Transformed> found =
      remembered(of, std::move(options), [&]() -> absl::StatusOr<Transformed> {
        absl::StatusOr<T> made = make();
        if (!made.ok()) return made.status();
        return Transformed(*std::move(made));
      });
  if (!found.ok()) return found.status();
  return std::get<T>(*std::move(found));
}

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_TRANSFORM_MEMO_H_
