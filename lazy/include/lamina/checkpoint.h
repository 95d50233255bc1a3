// checkpoint: functions whose intermediate values reverse mode computes again.
//
// Contract: as lamina/transforms.h.
#ifndef LAMINA_CHECKPOINT_H_
#define LAMINA_CHECKPOINT_H_

#include <optional>
#include <source_location>
#include <utility>
#include <vector>

#include "lamina/callable.h"

namespace lamina {
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

#endif  // LAMINA_CHECKPOINT_H_
