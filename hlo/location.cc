#include "hlo/location.h"

#include <tuple>

#include "hlo/hash_map.h"
#include "hlo/mutex.h"

namespace lamina::hlo {
namespace {

struct Table {
  Mutex mutex{LockRank::kLocations};
  std::vector<Location> rows{{}};
  HashMap<std::tuple<std::string, int, std::string>, LocationId> ids;
};

Table& table() {
  static Table* t = new Table;
  return *t;
}

}  // namespace

LocationId intern_location(std::string_view file, int line, std::string_view function) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  auto [it, inserted] = t.ids.try_emplace({std::string(file), line, std::string(function)},
                                          static_cast<LocationId>(t.rows.size()));
  if (inserted) t.rows.push_back({std::string(file), line, std::string(function)});
  return it->second;
}

Location location(LocationId id) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  return id < t.rows.size() ? t.rows[id] : Location{};
}

}  // namespace lamina::hlo
