// hlo/hash_map.h against the standard library's tables.
#include "hlo/hash_map.h"

#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>

namespace lamina {
namespace {

// Many keys of few hashes lie beside each other.
struct PoorHash {
  size_t operator()(int key) const { return static_cast<size_t>(key % 7); }
};

template <typename Map>
void check_like_std(int keys, int steps) {
  std::mt19937 random(7);
  Map map;
  std::map<int, int> want;
  for (int step = 0; step < steps; ++step) {
    const int key = static_cast<int>(random() % keys);
    switch (random() % 4) {
      case 0:
        REQUIRE(map.erase(key) == want.erase(key));
        break;
      case 1:
        map[key] = step;
        want[key] = step;
        break;
      case 2:
        REQUIRE(map.try_emplace(key, step).second == want.try_emplace(key, step).second);
        break;
      default:
        const auto found = map.find(key);
        REQUIRE((found != map.end()) == want.contains(key));
        if (found != map.end()) REQUIRE(found->second == want.at(key));
    }
    REQUIRE(map.size() == want.size());
  }
  for (const auto& [key, value] : map) REQUIRE(want.at(key) == value);
  erase_if(map, [](const auto& entry) { return entry.first % 2 == 0; });
  std::erase_if(want, [](const auto& entry) { return entry.first % 2 == 0; });
  REQUIRE(map.size() == want.size());
  for (const auto& [key, value] : want) REQUIRE(map.at(key) == value);
}

TEST_CASE("hash maps hold what was put in", "[hash_map]") {
  check_like_std<HashMap<int, int>>(5, 2000);
  check_like_std<HashMap<int, int>>(40, 5000);
  check_like_std<HashMap<int, int>>(3000, 30000);
  check_like_std<HashMap<int, int, PoorHash>>(200, 20000);
}

TEST_CASE("hash maps take keys and values that only move, and strings by views", "[hash_map]") {
  HashMap<std::string, std::unique_ptr<int>> map;
  for (int i = 0; i < 100; ++i) map.emplace(std::to_string(i), std::make_unique<int>(i));
  CHECK(*map.try_emplace("7", nullptr).first->second == 7);
  CHECK(*map.at(std::string_view("99")) == 99);
  CHECK_FALSE(map.contains("100"));
  CHECK_THROWS_AS(map.at("100"), std::out_of_range);
  const HashSet<std::string> set{"a", "b", "a"};
  CHECK(set.size() == 2);
  CHECK(set.count("b") == 1);
}

TEST_CASE("entries stand in the order of insertion", "[hash_map]") {
  HashSet<int> set;
  for (int i = 0; i < 50; ++i) set.insert(i * 37 % 50);
  int at = 0;
  for (int key : set) CHECK(key == at++ * 37 % 50);
}

}  // namespace
}  // namespace lamina
