#include "cluster/group_graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lamina::cluster {

GroupGraph::GroupGraph(std::vector<std::vector<int>> readers)
    : readers_(std::move(readers)),
      sources_(readers_.size()),
      members_(readers_.size()),
      group_(readers_.size()),
      place_(readers_.size()),
      seen_(readers_.size(), 0) {
  std::iota(group_.begin(), group_.end(), 0);
  place_ = group_;
  for (size_t i = 0; i < readers_.size(); ++i) {
    members_[i] = {static_cast<int>(i)};
    for (int r : readers_[i]) sources_[r].push_back(static_cast<int>(i));
  }
}

std::vector<int> GroupGraph::reached(int start, int other, const std::vector<std::vector<int>>& edges,
                                     int after, int before) {
  ++search_;
  seen_[start] = seen_[other] = search_;
  std::vector<int> found, stack{start};
  while (!stack.empty()) {
    const int g = stack.back();
    stack.pop_back();
    for (int m : members_[g])
      for (int next : edges[m]) {
        const int n = group_[next];
        if (seen_[n] == search_ || place_[n] <= after || place_[n] >= before) continue;
        seen_[n] = search_;
        found.push_back(n);
        stack.push_back(n);
      }
  }
  return found;
}

bool GroupGraph::has_outside_path(int from, int to) {
  for (int g : reached(from, to, readers_, place_[from], place_[to]))
    for (int m : members_[g])
      for (int r : readers_[m])
        if (group_[r] == to) return true;
  return false;
}

void GroupGraph::join(int from, int to) {
  const int low = place_[from], high = place_[to];
  std::vector<int> before = reached(to, from, sources_, low, high),
                   after = reached(from, to, readers_, low, high);
  const auto by_place = [&](int a, int b) { return place_[a] < place_[b]; };
  std::sort(before.begin(), before.end(), by_place);
  std::sort(after.begin(), after.end(), by_place);
  std::vector<int> places{low, high}, order = std::move(before);
  order.push_back(to);
  order.insert(order.end(), after.begin(), after.end());
  for (int g : order)
    if (g != to) places.push_back(place_[g]);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < order.size(); ++i) place_[order[i]] = places[i];
  for (int m : members_[from]) {
    group_[m] = to;
    members_[to].push_back(m);
  }
  members_[from].clear();
}

}  // namespace lamina::cluster
