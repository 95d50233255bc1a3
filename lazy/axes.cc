#include "lazy/axes.h"

#include <algorithm>

#include "hlo/hash_map.h"
#include "hlo/once.h"
#include "hlo/strings.h"

namespace lamina::lazy {

std::vector<BoundAxis>& bound_axes() {
  thread_local std::vector<BoundAxis> axes;
  return axes;
}

const BoundAxis* find_axis(std::string_view name) {
  const std::vector<BoundAxis>& axes = bound_axes();
  const auto it =
      std::find_if(axes.rbegin(), axes.rend(), [&](const BoundAxis& a) { return a.name == name; });
  return it == axes.rend() ? nullptr : &*it;
}

uint64_t axes_key() {
  if (bound_axes().empty()) return 0;
  std::string text;
  for (const BoundAxis& a : bound_axes()) str_append(&text, a.name.size(), ":", a.name, "=", a.size, ",");
  static constinit hlo::Once<HashMap<std::string, uint64_t>> keys;
  hlo::GraphLock lock;
  HashMap<std::string, uint64_t>& known = keys.get();
  return known.try_emplace(std::move(text), known.size() + 1).first->second;
}

}  // namespace lamina::lazy
