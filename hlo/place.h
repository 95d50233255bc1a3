// Devices by number, as nodes know them: a value that was put on a device stays there, and what is made of it
// is made there.
//
// Contract: 0 is no place: such a value goes where the others are. The runtime numbers its devices as it
// makes them.
#ifndef LAMINA_HLO_PLACE_H_
#define LAMINA_HLO_PLACE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace lamina::hlo {

using Place = uint8_t;
inline constexpr Place kAnywhere = 0;
inline constexpr int kMostPlaces = 63;

// The number of the device of this name, the same each time; kAnywhere if there are too many.
Place place_of(std::string_view device);
// Of a number that place_of gave.
const std::string& place_name(Place place);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_PLACE_H_
