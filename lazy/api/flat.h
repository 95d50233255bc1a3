// Between lists of public tensors and of lazy arrays.
#ifndef LAMINA_LAZY_API_FLAT_H_
#define LAMINA_LAZY_API_FLAT_H_

#include <vector>

#include "lamina/flat_transforms.h"
#include "lazy/api/variable.h"
#include "lazy/transforms.h"

namespace lamina::detail {

inline std::vector<lazy::Lazy> lazies(const std::vector<Tensor>& tensors) {
  std::vector<lazy::Lazy> out;
  for (const Tensor& t : tensors) out.push_back(lazy_of(t));
  return out;
}
// A null value becomes a Tensor that names nothing.
inline std::vector<Tensor> tensors(std::vector<lazy::Lazy> values) {
  std::vector<Tensor> out;
  for (lazy::Lazy& v : values) out.push_back(v.value ? tensor_of(std::move(v)) : Tensor());
  return out;
}
// The user's function as the core's, for as long as `f` lives.
inline lazy::FlatFunction inner(const FlatFunction& f) {
  return [&f](const std::vector<lazy::Lazy>& x) {
    ServingScope users_code(false);
    return lazies(f(tensors(x)));
  };
}

}  // namespace lamina::detail

#endif  // LAMINA_LAZY_API_FLAT_H_
