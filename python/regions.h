// Regions: functions on lists of tensors as computations, for what Python composes of them.
#ifndef LAMINA_PYTHON_REGIONS_H_
#define LAMINA_PYTHON_REGIONS_H_

#include <pybind11/pybind11.h>

#include <string>
#include <tuple>
#include <vector>

#include "lazy/transforms.h"

namespace lamina::python {

// A region with the values it captured.
struct Region {
  hlo::ComputationPtr computation;
  std::vector<lazy::Lazy> captured;
  std::vector<lazy::Typed> results;
};

using TypeSpec = std::tuple<std::string, hlo::Dims, bool>;  // element type, shape, whether weak

// Throws where there is no such type.
std::vector<lazy::Typed> typed(const std::vector<TypeSpec>& specs);

void add_regions(pybind11::module_& module);

}  // namespace lamina::python

#endif  // LAMINA_PYTHON_REGIONS_H_
