// Places in user programs, numbered, as nodes carry them.
//
// Contract: equal places have equal numbers; 0 is "unknown". Locations never enter hashes, equality or keys.
#ifndef LAMINA_HLO_LOCATION_H_
#define LAMINA_HLO_LOCATION_H_

#include <string>
#include <string_view>

#include "hlo/graph.h"

namespace lamina::hlo {

struct Location {
  std::string file;
  int line = 0;
  std::string function;  // may be empty
};

LocationId intern_location(std::string_view file, int line, std::string_view function = {});
// The empty location for 0 and unknown numbers.
Location location(LocationId id);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_LOCATION_H_
