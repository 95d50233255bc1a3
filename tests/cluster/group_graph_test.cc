#include "cluster/group_graph.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace lamina::cluster {
namespace {

using Edges = std::vector<std::vector<int>>;

// From a walk over all groups, where the graph itself looks between the two ends only.
bool outside_path(const GroupGraph& graph, const Edges& readers, int from, int to) {
  std::vector<bool> seen(readers.size(), false);
  std::vector<int> stack{from};
  while (!stack.empty()) {
    const int g = stack.back();
    stack.pop_back();
    for (int m : graph.members(g))
      for (int r : readers[m]) {
        const int next = graph.group_of(r);
        if (next == to && g != from) return true;
        if (next == to || next == from || seen[next]) continue;
        seen[next] = true;
        stack.push_back(next);
      }
  }
  return false;
}

bool has_cycle(const GroupGraph& graph, const Edges& readers) {
  std::vector<int> waiting(readers.size(), 0), ready;
  size_t left = 0, done = 0;
  for (size_t i = 0; i < readers.size(); ++i) {
    left += !graph.members(static_cast<int>(i)).empty();
    for (int r : readers[i])
      waiting[graph.group_of(r)] += graph.group_of(r) != graph.group_of(static_cast<int>(i));
  }
  for (size_t g = 0; g < readers.size(); ++g)
    if (!graph.members(static_cast<int>(g)).empty() && waiting[g] == 0) ready.push_back(static_cast<int>(g));
  while (!ready.empty()) {
    const int g = ready.back();
    ready.pop_back();
    ++done;
    for (int m : graph.members(g))
      for (int r : readers[m])
        if (const int n = graph.group_of(r); n != g && --waiting[n] == 0) ready.push_back(n);
  }
  return done != left;
}

TEST_CASE("groups are joined where no path leads around, and stay free of cycles", "[cluster]") {
  int joined = 0, refused = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    const int n = 5 + static_cast<int>(rng() % 60), reach = 2 + static_cast<int>(rng() % 20);
    Edges readers(n);
    for (int i = 0; i + 1 < n; ++i)
      for (uint32_t k = rng() % 4; k-- > 0;)
        readers[i].push_back(std::min(n - 1, i + 1 + static_cast<int>(rng() % reach)));
    GroupGraph graph(readers);
    // Backwards as fusion goes, and in any order.
    for (int step = 0; step < 3 * n; ++step) {
      const int i = step < n ? n - 1 - step : static_cast<int>(rng() % n);
      for (int r : readers[i]) {
        const int from = graph.group_of(i), to = graph.group_of(r);
        if (from == to || rng() % 4 == 0) continue;
        INFO("seed " << seed << ", group " << from << " into " << to);
        const bool around = outside_path(graph, readers, from, to);
        REQUIRE(graph.has_outside_path(from, to) == around);
        if (!around) graph.join(from, to);
        ++(around ? refused : joined);
        REQUIRE_FALSE(has_cycle(graph, readers));
      }
    }
  }
  CHECK(joined > 1000);
  CHECK(refused > 500);
}

}  // namespace
}  // namespace lamina::cluster
