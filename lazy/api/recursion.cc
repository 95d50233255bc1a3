// Recursion of C++ callables.
#include "lazy/recursion.h"

#include "lamina/ops.h"
#include "lazy/api/flat.h"

namespace lamina::detail {

std::vector<Tensor> flat_recursive(const FlatFunction& body, FlatFunction& self,
                                   const std::vector<Tensor>& arguments, const LeafNames& names,
                                   int64_t deepest, std::source_location where) {
  return located(where, [&] {
    const lazy::ControlNames named{"recursive",
                                   [&names](size_t k) { return str_cat("argument ", names.at(k)); }};
    const auto run = [&](const lazy::FlatFunction& call, const std::vector<lazy::Lazy>& parameters) {
      self = [&call, where](const std::vector<Tensor>& given) {
        return located(where, [&] { return tensors(call(lazies(given))); });
      };
      return inner(body)(parameters);
    };
    std::vector<Tensor> out = tensors(lazy::recursive(named, run, lazies(arguments), deepest));
    const Tensor error = std::move(out.back());
    out.pop_back();
    if (lazy::recursion_key() == 0)
      flat_check(error == 0,
                 str_cat("a recursive function calls itself deeper than ", deepest,
                         " calls (RecursionOptions::depth) or 256 MiB of what callers keep"),
                 {}, where);
    return out;
  });
}

}  // namespace lamina::detail
