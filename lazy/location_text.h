// Where a node was recorded, as text for messages and reports.
#ifndef LAMINA_LAZY_LOCATION_TEXT_H_
#define LAMINA_LAZY_LOCATION_TEXT_H_

#include <string>

#include "hlo/location.h"

namespace lamina::lazy {

// "file.py:12", or "" if unknown.
std::string location_name(hlo::LocationId id);
// " at file.py:12", or "".
std::string location_text(hlo::LocationId id);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_LOCATION_TEXT_H_
