#include "hlo/location.h"

#include <tuple>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"

namespace lamina::hlo {
namespace {

struct Table {
  Mutex mutex{LockRank::kLocations};
  std::vector<Location> rows{{}};
  HashMap<std::tuple<std::string, int, std::string>, LocationId> ids;
};

Table& table() {
  static constinit Once<Table> t;
  return t.get();
}

}  // namespace

LocationId intern_location(std::string_view file, int line, std::string_view function) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  std::tuple key{std::string(file), line, std::string(function)};
  if (const auto it = t.ids.find(key); it != t.ids.end()) return it->second;
  // Memory may run out at each of the two insertions: a row that has no id stays unused.
  t.rows.push_back({std::string(file), line, std::string(function)});
  const LocationId id = static_cast<LocationId>(t.rows.size() - 1);
  t.ids.try_emplace(std::move(key), id);
  return id;
}

Location location(LocationId id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return id < t.rows.size() ? t.rows[id] : Location{};
}

}  // namespace lamina::hlo
