#include "lazy/location_text.h"

#include "hlo/strings.h"

namespace lamina::lazy {

std::string location_name(hlo::LocationId id) {
  const hlo::Location at = hlo::location(id);
  return at.file.empty() ? std::string() : str_cat(at.file, ":", at.line);
}

std::string location_text(hlo::LocationId id) {
  const std::string name = location_name(id);
  return name.empty() ? name : str_cat(" at ", name);
}

}  // namespace lamina::lazy
