#include "hlo/place.h"

#include <algorithm>
#include <array>

#include "hlo/mutex.h"
#include "hlo/once.h"

namespace lamina::hlo {
namespace {

// Names never move: their readers hold no lock.
struct Places {
  Mutex mutex{LockRank::kPlaces};
  std::array<std::string, kMostPlaces + 1> names;
  int count = 1;  // the first is kAnywhere

  static Places& get() {
    static constinit Once<Places> places;
    return places.get();
  }
};

}  // namespace

Place place_of(std::string_view device) {
  Places& places = Places::get();
  std::lock_guard lock(places.mutex);
  const auto end = places.names.begin() + places.count;
  const auto known = std::find(places.names.begin() + 1, end, device);
  if (known != end) return static_cast<Place>(known - places.names.begin());
  if (places.count > kMostPlaces) return kAnywhere;
  places.names[static_cast<size_t>(places.count)] = device;
  return static_cast<Place>(places.count++);
}

const std::string& place_name(Place place) { return Places::get().names[place]; }

}  // namespace lamina::hlo
