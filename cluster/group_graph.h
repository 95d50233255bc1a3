// The graph of groups of nodes that fusion joins step by step.
//
// Contract: it stays free of cycles, so that the groups have an order in which they can run. The order is
// kept up to date as groups are joined (Pearce and Kelly, "A dynamic topological sort algorithm for directed
// acyclic graphs", ACM Journal of Experimental Algorithmics 11, 2006): a search for a path looks at no group
// outside its two ends.
#ifndef LAMINA_CLUSTER_GROUP_GRAPH_H_
#define LAMINA_CLUSTER_GROUP_GRAPH_H_

#include <vector>

namespace lamina::cluster {

class GroupGraph {
 public:
  // Each node is a group of its own. readers[i]: the nodes that read node i, all of greater number.
  explicit GroupGraph(std::vector<std::vector<int>> readers);

  int group_of(int node) const { return group_[node]; }
  // Of a group; none once it has joined another.
  const std::vector<int>& members(int group) const { return members_[group]; }
  // Whether group `from`, which group `to` reads, leads to it through a third one as well.
  bool has_outside_path(int from, int to);
  // Adds the members of `from`, which `to` reads, to `to`. There is no outside path.
  void join(int from, int to);

 private:
  // Groups that a path leads to from `start` by `edges`, whose places are between the two, without `other`.
  std::vector<int> reached(int start, int other, const std::vector<std::vector<int>>& edges, int after,
                           int before);

  std::vector<std::vector<int>> readers_, sources_;  // of nodes
  std::vector<std::vector<int>> members_;
  std::vector<int> group_;
  std::vector<int> place_;  // of a group in the order
  std::vector<int> seen_;   // by group: the last search that found it
  int search_ = 0;
};

}  // namespace lamina::cluster

#endif  // LAMINA_CLUSTER_GROUP_GRAPH_H_
