#include "cluster/fuse.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <ranges>

#include "cluster/array_loop.h"
#include "cluster/costs.h"
#include "cluster/group_graph.h"
#include "cluster/read_through.h"
#include "cluster/repeat.h"
#include "hlo/hash_map.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::cluster {
namespace {

using hlo::Attr;
using hlo::Op;
using hlo::Operand;
using hlo::Value;

bool is_free(const Node& n) { return n.op() == Op::parameter || n.op() == Op::leaf; }
// A constant that is written into the code.
bool is_immediate(const Node& n) { return n.op() == Op::constant && n.type()->is_scalar(); }

// Reads its operand at the index of its own element.
bool is_same_space(Op op) {
  return hlo::op_def(op).is_elementwise() || op == Op::identity || op == Op::stop_gradient;
}
bool is_same_space(const Node& n) { return is_same_space(n.op()); }

// Says only where its operand is read: nothing to compute again.
bool is_way_of_reading(Op op) { return op == Op::broadcast_in_dim || op == Op::reshape; }

// Ops of an index that are computed again by each kernel that has a gather with it.
constexpr int kIndexOps = 16;
constexpr const char* kAsksManyPieces = "each of its many pieces would be asked for every element";

int64_t elements(const Node& n) {
  return n.type()->is_array() ? n.type()->num_elements : n.result_type(0)->num_elements;
}

// A gather of single elements whose indices have its own shape, but for a last dimension of one.
bool has_own_indices(const Node& n) {
  if (!is_element_gather(n)) return false;
  const hlo::Attrs& a = n.attrs();
  const hlo::Dims& indices = n.operand_type(1)->dims;
  const int64_t vector_dim = a.integer(Attr::index_vector_dim), rank = std::ssize(indices);
  return a.ints(Attr::offset_dims).empty() &&
         (vector_dim == rank || (vector_dim == rank - 1 && indices.back() == 1));
}

// The graph of anchors.
struct Anchor {
  const Node* node;
  int position;            // in postorder
  std::vector<int> same;   // anchors that read it element by element
  std::vector<int> moved;  // anchors that read it at other indices, or as a whole
  int cost = 1;            // ops of its expression
  bool is_root = false;
};

class Fuser {
 public:
  Fuser(const Computation& c, const Costs& costs) : computation_(c), costs_(costs), nodes_(c.nodes()) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      position_[nodes_[i]] = static_cast<int>(i);
      uses_.emplace_back();
    }
    for (const Value& r : c.roots()) roots_.insert(r.node());
    find_uses();
    for (const Node* n : nodes_)
      if (is_loop_op(n->op()) && is_needed(n)) examine_loop(n);
    plan_.most_written_out = costs_.most_written_out;
    plan_.most_columns = costs_.most_columns;
  }

  FusionPlan run() {
    choose_anchors();
    connect_anchors();
    merge_groups();
    return order_groups();
  }

 private:
  void refuse(const Node* producer, const Node* consumer, std::string reason) {
    plan_.refusals.emplace_back(producer, consumer, std::move(reason));
  }

  struct RepeatKernel {
    hlo::Dims space;
    bool trailing = false;
    std::vector<bool> read;
    bool over_arrays = false;
  };

  // What library steps read through is needed no longer, unless something else reads it.
  void find_uses() {
    const auto use = [&](const Node* operand, const Node* user) {
      auto& users = uses_[position_.at(operand)];
      if (users.empty() || users.back() != user) users.push_back(user);
    };
    for (const Node* n : nodes_ | std::views::reverse) {
      if (is_free(*n) || !is_needed(n)) continue;
      if (loop_role(*n) == LoopRole::kNone)
        if (std::vector<Value> reads = read_through(*n, costs_); !reads.empty())
          reads_.emplace(n, std::move(reads));
      for_each_read(*n, [&](Operand o) { use(o.node(), n); });
    }
    for (auto& users : uses_) std::ranges::reverse(users);
  }

  template <typename F>
  void for_each_read(const Node& n, F&& f) const {
    const auto reads = reads_.find(&n);
    if (reads == reads_.end())
      for (Operand o : n.operands()) f(o);
    else
      for (const Value& v : reads->second) f(v.operand());
  }

  bool is_needed(const Node* n) const { return roots_.contains(n) || !uses_[position_.at(n)].empty(); }
  // Whether a step or an expression in steps computes it.
  bool is_computed(const Node& n) const { return !is_free(n) && !is_immediate(n) && is_needed(&n); }

  // Which of its results anything reads.
  std::vector<bool> results_read(const Node* n) const {
    std::vector<bool> read(n->num_results(), false);
    for (const Value& r : computation_.roots())
      if (r.node() == n) read[r.index()] = true;
    for (const Node* u : uses_[position_.at(n)])
      for_each_read(*u, [&](Operand o) {
        if (o.node() == n) read[o.index()] = true;
      });
    return read;
  }

  void examine_loop(const Node* n) {
    std::vector<bool> read = results_read(n);
    RepeatForm form = repeat_form(*n, read);
    if (form.refusal.empty())
      repeats_.emplace(n, RepeatKernel{std::move(form.space), form.trailing, std::move(read), false});
    else if (const std::string reason = array_loop_refusal(*n, read); reason.empty())
      repeats_.emplace(n, RepeatKernel{{}, false, std::move(read), true});
    else
      refuse(n, nullptr, str_cat("no loop kernel: ", form.refusal, "; none over arrays: ", reason));
  }

  int64_t sorted_read(const Node* n) const {
    if (n->op() != Op::sort || roots_.contains(n)) return -1;
    int64_t read = 0;
    for (const Node* u : uses_[position_.at(n)]) {
      if (u->op() != Op::slice) return -1;
      read = std::max(read, u->attrs().ints(Attr::limit_indices)[n->attrs().integer(Attr::dimension)]);
    }
    return read;
  }

  // Forward: what is inlined into its consumers, and what gets a value of its own.
  void choose_anchors() {
    cost_.assign(nodes_.size(), 0);
    work_.assign(nodes_.size(), 0);
    dear_.assign(nodes_.size(), false);
    anchor_of_.assign(nodes_.size(), -1);
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node* n = nodes_[i];
      if (!is_computed(*n)) continue;
      const LoopRole role = loop_role(*n);
      if (role == LoopRole::kMap) {
        int cost = 1, work = is_way_of_reading(n->op()) ? 0 : 1;
        bool dear = (n->def().flags & hlo::kDear && !is_cheap_quotient(*n)) || is_element_gather(*n);
        for (Operand o : n->operands()) {
          const int p = position_.at(o.node());
          if (anchor_of_[p] >= 0) continue;
          cost += cost_[p];
          work += work_[p];
          dear |= dear_[p];
        }
        cost_[i] = cost;
        work_[i] = work;
        dear_[i] = dear;
        if (inlines(n, cost, work, dear)) continue;
      } else if (role == LoopRole::kReduction) {
        cost_[i] = 1;
        for (Operand o : n->operands())
          if (const int p = position_.at(o.node()); anchor_of_[p] < 0) cost_[i] += cost_[p];
      }
      anchor_of_[i] = static_cast<int>(anchors_.size());
      Anchor a;
      a.node = n;
      a.position = static_cast<int>(i);
      a.cost = std::max(cost_[i], 1);
      a.is_root = roots_.contains(n);
      anchors_.push_back(a);
    }
  }

  // A quotient of floats takes the time of a few other operations, which is less than a trip through memory.
  // One that others spread is stored all the same: what is made of it stays cheap.
  bool is_cheap_quotient(const Node& n) const {
    const auto& users = uses_[position_.at(&n)];
    return n.op() == Op::divide && hlo::is_float(n.type()->dtype) &&
           std::ranges::all_of(users, [](const Node* u) { return u->def().is_elementwise(); });
  }

  bool inlines(const Node* n, int cost, int work, bool dear) {
    if (roots_.contains(n)) return false;
    const auto& users = uses_[position_.at(n)];
    if (cost >= costs_.max_inlined_ops) {
      refuse(n, users.empty() ? nullptr : users[0], "the expression has reached the size limit of a kernel");
      return false;
    }
    if (const Node* strided = reads_across(n)) {
      refuse(n, strided, "would be read across its lines there, where no tiles turn them");
      return false;
    }
    if (has_many_pieces(*n)) {
      refuse(n, users.empty() ? nullptr : users[0], kAsksManyPieces);
      return false;
    }
    // Two gathers at one place are mostly in one kernel, which computes the place once.
    const bool cheap = !dear && work <= (makes_indices(*n) ? kIndexOps : costs_.cheap_ops);
    for (const Node* u : users) {
      if (has_many_pieces(*u)) {
        refuse(n, u, "is one of many pieces, each of which would be computed for every element");
        return false;
      }
      const LoopRole role = loop_role(*u);
      if (role == LoopRole::kNone && !starts_from(*u, n)) return false;
      if (u->op() == Op::reshape && (!is_splitting_reshape(*u) || is_read_as_a_whole(*u))) return false;
      // The initial value of a reduction is read from memory.
      if (role == LoopRole::kReduction && !reads_as_array(*u, n)) return false;
      if (cheap) continue;
      if (users.size() > 1) {
        if (!is_same_space(*u)) refuse(n, u, "has several users and is too dear to compute for each");
        return false;
      }
      if (!is_same_space(*u) && role == LoopRole::kMap && elements(*u) > elements(*n) && !writes_out(*u)) {
        refuse(n, u, "would be computed once per copied element");
        return false;
      }
    }
    return true;
  }

  // Whether the node is a value of its own for what is no loop. A reshape is then another name for its
  // operand.
  bool is_read_as_a_whole(const Node& n) const {
    const auto& users = uses_[position_.at(&n)];
    return roots_.contains(&n) || std::any_of(users.begin(), users.end(), [&](const Node* u) {
             return loop_role(*u) == LoopRole::kNone && !starts_from(*u, &n);
           });
  }

  // Whether it puts columns side by side, so few that a kernel knows for each of its elements which one it is
  // of.
  bool writes_out(const Node& n) const {
    return n.op() == Op::concatenate &&
           n.attrs().integer(Attr::dimension) + 1 == std::ssize(n.type()->dims) &&
           n.type()->dims.back() * hlo::num_parts(n.type()->dtype) <= costs_.most_columns &&
           stays_in_space(n);
  }

  // Whether only kernels over its own elements compute it: those of what is stored, or read as a whole.
  bool stays_in_space(const Node& n) const {
    std::vector<const Node*> seen = {&n};
    for (size_t i = 0; i < seen.size(); ++i) {
      const auto& users = uses_[position_.at(seen[i])];
      if (is_read_as_a_whole(*seen[i])) continue;
      for (const Node* u : users) {
        if (!is_same_space(*u) || seen.size() == kMostSeen) return false;
        if (std::find(seen.begin(), seen.end(), u) == seen.end()) seen.push_back(u);
      }
    }
    return true;
  }

  bool has_many_pieces(const Node& n) const {
    return n.op() == Op::concatenate && std::ssize(n.operands()) > costs_.most_read_pieces &&
           elements(n) >= costs_.least_turned_elements && !writes_out(n);
  }

  // What reads the large transpose `n`, through ops of the same space, in a kernel that cannot turn it by
  // tiles: part of a concatenation or of padding, or a reduction that walks another array along its own
  // lines. Null if nothing does.
  const Node* reads_across(const Node* n) const {
    if (n->op() != Op::transpose || elements(*n) < costs_.least_turned_elements) return nullptr;
    const hlo::Dims& order = n->attrs().ints(Attr::permutation);
    if (order.empty() || order.back() == std::ssize(order) - 1) return nullptr;
    std::vector<const Node*> seen = {n};
    for (size_t i = 0; i < seen.size(); ++i)
      for (const Node* u : uses_[position_.at(seen[i])]) {
        if (u->op() == Op::concatenate || u->op() == Op::pad) return u;
        if (u->op() == Op::reverse &&
            std::any_of(u->attrs().ints(Attr::dimensions).begin(), u->attrs().ints(Attr::dimensions).end(),
                        [&](int64_t d) { return order[d] == std::ssize(order) - 1; }))
          return u;
        if (loop_role(*u) == LoopRole::kReduction && has_other_order(*u, order)) return u;
        if (is_same_space(*u) && seen.size() < kMostSeen &&
            std::find(seen.begin(), seen.end(), u) == seen.end())
          seen.push_back(u);
      }
    return nullptr;
  }

  // Whether the reduction reads a whole array that is not transposed by `order`.
  bool has_other_order(const Node& reduction, const hlo::Dims& order) const {
    const int64_t whole = reduction.operand_type(0)->num_elements;
    std::vector<const Node*> seen;
    for (size_t i = 0; i < reduction.operands().size() / 2; ++i) seen.push_back(reduction.operand(i).node());
    for (size_t i = 0; i < seen.size(); ++i) {
      const Node* n = seen[i];
      if (n->op() == Op::transpose) {
        if (n->attrs().ints(Attr::permutation) != order) return true;
        continue;
      }
      if (is_same_space(*n) && anchor_of_[position_.at(n)] < 0) {
        for (Operand o : n->operands())
          if (seen.size() < kMostSeen && std::find(seen.begin(), seen.end(), o.node()) == seen.end())
            seen.push_back(o.node());
        continue;
      }
      if (n->op() != Op::broadcast_in_dim && n->op() != Op::iota && n->type()->is_array() &&
          n->type()->num_elements == whole)
        return true;
    }
    return false;
  }
  static constexpr size_t kMostSeen = 16;

  // Whether a loop kernel reads `n` as carried values at the start, element by element, and in no other way.
  bool starts_from(const Node& loop, const Node* n) const {
    const auto repeat = repeats_.find(&loop);
    if (repeat == repeats_.end() || is_running_scan(loop)) return false;
    if (!n->type()->is_scalar() && (repeat->second.over_arrays || n->type()->dims != repeat->second.space))
      return false;
    for (size_t i = 0; i < loop.operands().size(); ++i)
      if (loop.operand(i).node() == n && (i >= num_carried(loop) || is_unchanged(loop, i))) return false;
    return true;
  }

  // Whether every place of `n` among the operands of a reduction is an array operand, not an initial value.
  static bool reads_as_array(const Node& reduction, const Node* n) {
    const size_t m = reduction.operands().size() / 2;
    for (size_t i = m; i < 2 * m; ++i)
      if (reduction.operand(i).node() == n) return false;
    return true;
  }

  bool is_anchor(const Node& n) const { return anchor_of_[position_.at(&n)] >= 0; }

  // Whether `u` reads `n` at the place of its own element. Besides elementwise ops a gather does that with
  // its indices, if it has one for each element, and a reshape that makes such indices of `n`.
  bool reads_own_places(const Node& u, const Node& n) const {
    if (is_same_space(u)) return true;
    if (has_own_indices(u))
      return u.operand(0).node() != &n &&
             (n.type()->dims == u.type()->dims || (makes_indices(n) && !is_anchor(n)));
    return makes_indices(u) && !is_anchor(u);
  }

  // Whether it only gives its operand the shape of indices that gathers have for each element.
  bool makes_indices(const Node& n) const {
    if (n.op() != Op::reshape) return false;
    hlo::Dims indices = n.operand_type(0)->dims;
    indices.push_back(1);
    const auto& users = uses_[position_.at(&n)];
    return n.type()->dims == indices && std::all_of(users.begin(), users.end(), [&](const Node* gather) {
             return has_own_indices(*gather) && gather->operand(0).node() != &n;
           });
  }

  // Backward: which anchors read which, element by element or otherwise.
  void connect_anchors() {
    struct Readers {
      std::vector<int> same, moved;
    };
    std::vector<Readers> readers(nodes_.size());
    auto add = [](std::vector<int>& list, int x) {
      if (std::find(list.begin(), list.end(), x) == list.end()) list.push_back(x);
    };
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Node* n = nodes_[i];
      if (!is_computed(*n)) continue;
      for (const Node* u : uses_[i]) {
        const int p = position_.at(u);
        const int user_anchor = anchor_of_[p];
        const bool same = reads_own_places(*u, *n);
        if (user_anchor >= 0) {
          add(same ? readers[i].same : readers[i].moved, user_anchor);
          continue;
        }
        for (int a : readers[p].same) add(same ? readers[i].same : readers[i].moved, a);
        for (int a : readers[p].moved) add(readers[i].moved, a);
      }
      if (const int a = anchor_of_[i]; a >= 0) {
        anchors_[a].same = readers[i].same;
        anchors_[a].moved = readers[i].moved;
        std::sort(anchors_[a].same.begin(), anchors_[a].same.end());
        std::sort(anchors_[a].moved.begin(), anchors_[a].moved.end());
      }
    }
    std::vector<std::vector<int>> all;
    for (const Anchor& a : anchors_) {
      all.push_back(a.same);
      all.back().insert(all.back().end(), a.moved.begin(), a.moved.end());
    }
    groups_.emplace(std::move(all));
  }

  bool is_loop(const Anchor& a) const {
    return loop_role(*a.node) != LoopRole::kNone &&
           !(a.node->op() == Op::reshape && !is_splitting_reshape(*a.node));
  }

  // Whether kernels that read the node find it there. A reshape of it by itself copies what can stay.
  bool lies_in_memory(const Node& n) const {
    return is_free(n) || (n.op() == Op::constant && !is_immediate(n)) || anchor_of_[position_.at(&n)] >= 0;
  }

  void merge_groups() {
    for (int i = static_cast<int>(anchors_.size()); i-- > 0;) {
      if (!is_loop(anchors_[i])) continue;
      for (int reader : anchors_[i].same) {
        const int from = groups_->group_of(i), to = groups_->group_of(reader);
        if (!is_loop(anchors_[reader]) || from == to) continue;
        const std::string reason = why_not_merge(from, to);
        if (reason.empty())
          groups_->join(from, to);
        else
          refuse(anchors_[i].node, anchors_[reader].node, reason);
      }
    }
  }

  // Of group `a`, which group `b` reads.
  std::string why_not_merge(int a, int b) {
    int reductions = 0, cost = 0;
    for (int g : {a, b})
      for (int m : groups_->members(g)) {
        if (has_many_pieces(*anchors_[m].node)) return kAsksManyPieces;
        reductions += loop_role(*anchors_[m].node) == LoopRole::kReduction;
        cost += anchors_[m].cost;
      }
    if (reductions > 1) return "a kernel holds one reduction";
    if (cost > costs_.max_group_ops ||
        std::ssize(groups_->members(a)) + std::ssize(groups_->members(b)) > costs_.max_group_anchors)
      return "the kernel has reached its size limit";
    auto reads_moved = [&](int producers, int consumers) {
      for (int m : groups_->members(producers))
        for (int r : anchors_[m].moved)
          if (groups_->group_of(r) == consumers) return true;
      return false;
    };
    if (reads_moved(a, b) || reads_moved(b, a)) return "is also read at other indices by the same kernel";
    if (groups_->has_outside_path(a, b)) return "another step in between needs it first";
    return "";
  }

  // Kahn's algorithm over groups, ready groups in postorder of their last anchor.
  FusionPlan order_groups() {
    std::vector<int> waiting(anchors_.size(), 0);
    std::vector<std::vector<int>> successors(anchors_.size());
    for (size_t g = 0; g < anchors_.size(); ++g) {
      HashSet<int> next;
      for (int m : groups_->members(g))
        for (const auto* list : {&anchors_[m].same, &anchors_[m].moved})
          for (int r : *list)
            if (groups_->group_of(r) != static_cast<int>(g)) next.insert(groups_->group_of(r));
      for (int n : next) {
        successors[g].push_back(n);
        ++waiting[n];
      }
    }
    auto last = [&](int g) {
      int p = 0;
      for (int m : groups_->members(g)) p = std::max(p, anchors_[m].position);
      return p;
    };
    std::vector<std::pair<int, int>> ready;  // heap by last position, smallest first
    auto push = [&](int g) {
      ready.emplace_back(-last(g), g);
      std::push_heap(ready.begin(), ready.end());
    };
    for (size_t g = 0; g < anchors_.size(); ++g)
      if (!groups_->members(g).empty() && waiting[g] == 0) push(static_cast<int>(g));
    int cluster = 0;
    bool cluster_used = false;
    while (!ready.empty()) {
      std::pop_heap(ready.begin(), ready.end());
      const int g = ready.back().second;
      ready.pop_back();
      Group group = finish_group(g);
      if (group.kind == GroupKind::kHost) {
        if (cluster_used) ++cluster;
        cluster_used = false;
        group.cluster = -1;
      } else {
        cluster_used = true;
        group.cluster = cluster;
      }
      for (const Node* n : group.anchors) plan_.group_of[n] = static_cast<int>(plan_.groups.size());
      plan_.groups.push_back(std::move(group));
      for (int n : successors[g])
        if (--waiting[n] == 0) push(n);
    }
    plan_.num_clusters = cluster + cluster_used;
    return std::move(plan_);
  }

  Group finish_group(int g) {
    Group group;
    std::vector<int> members = groups_->members(g);
    std::sort(members.begin(), members.end());
    const Anchor& first = anchors_[members[0]];
    const Op op = first.node->op();
    const auto repeat = repeats_.find(first.node);
    if (repeat != repeats_.end()) {
      group.repeat = first.node;
      group.repeat_space = repeat->second.space;
      group.repeat_trailing = repeat->second.trailing;
      group.repeat_read = repeat->second.read;
      group.array_loop = repeat->second.over_arrays;
    }
    const bool copies =
        op == Op::reshape && members.size() == 1 && lies_in_memory(*first.node->operand(0).node());
    if ((is_loop(first) && !copies) || group.repeat)
      group.kind = GroupKind::kLoop;
    else if (op == Op::reshape || op == Op::optimization_barrier)
      group.kind = GroupKind::kAlias;
    else
      group.kind = op == Op::custom_call ? GroupKind::kHost : GroupKind::kLibrary;
    group.sorted_read = sorted_read(first.node);
    if (const auto reads = reads_.find(first.node); reads != reads_.end()) group.reads = reads->second;
    for (int m : members) {
      const Anchor& a = anchors_[m];
      group.anchors.push_back(a.node);
      if (loop_role(*a.node) == LoopRole::kReduction) group.reduction = a.node;
      bool stored = a.is_root || !a.moved.empty();
      for (int r : a.same) stored |= groups_->group_of(r) != g;
      if (stored || group.kind != GroupKind::kLoop) group.outputs.push_back(a.node);
    }
    if (group.reduction && !group.repeat) group.repeat_read = results_read(group.reduction);
    return group;
  }

  const Computation& computation_;
  const Costs& costs_;
  const std::vector<Node*>& nodes_;
  HashMap<const Node*, int> position_;
  std::vector<std::vector<const Node*>> uses_;
  HashSet<const Node*> roots_;
  HashMap<const Node*, RepeatKernel> repeats_;
  HashMap<const Node*, std::vector<Value>> reads_;  // of steps that read through
  std::vector<int> cost_;  // ops of the expression, and of them those that compute something
  std::vector<int> work_;
  std::vector<bool> dear_;
  std::vector<int> anchor_of_;
  std::vector<Anchor> anchors_;
  std::optional<GroupGraph> groups_;
  FusionPlan plan_;
};

}  // namespace

FusionPlan make_fusion_plan(const Computation& computation, const Costs& costs) {
  return Fuser(computation, costs).run();
}

bool may_join_loop(Op op) {
  switch (op) {
    case Op::broadcast_in_dim:
    case Op::concatenate:
    case Op::iota:
    case Op::pad:
    case Op::reduce:
    case Op::reshape:
    case Op::reverse:
    case Op::slice:
    case Op::transpose:
      return true;
    default:
      return is_same_space(op);
  }
}

bool is_element_gather(const Node& n) {
  if (n.op() != Op::gather || n.operand_type(0)->num_elements == 0) return false;
  const hlo::Dims& sizes = n.attrs().ints(Attr::slice_sizes);
  return std::all_of(sizes.begin(), sizes.end(), [](int64_t size) { return size == 1; });
}

LoopRole loop_role(const Node& n) {
  if (is_element_gather(n)) return LoopRole::kMap;
  if (!may_join_loop(n.op())) return LoopRole::kNone;
  if (n.op() == Op::reduce)
    return hlo::region_program(*n.attrs().computation(Attr::body)) ? LoopRole::kReduction : LoopRole::kNone;
  return n.type()->is_array() ? LoopRole::kMap : LoopRole::kNone;
}

bool is_splitting_reshape(const Node& reshape, std::vector<std::vector<int64_t>>* parts) {
  const hlo::Dims& in = reshape.operand_type(0)->dims;
  const hlo::Dims& out = reshape.type()->dims;
  if (reshape.type()->num_elements == 0) return false;
  std::vector<std::vector<int64_t>> result(in.size());
  size_t o = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    int64_t left = in[i];
    while (left > 1) {
      if (o == out.size() || left % out[o] != 0) return false;
      left /= out[o];
      if (out[o] > 1) result[i].push_back(static_cast<int64_t>(o));
      ++o;
    }
  }
  if (parts) *parts = std::move(result);
  return true;
}

std::string report(const Computation& computation, const FusionPlan& plan) {
  HashMap<const Node*, size_t> number;
  for (size_t i = 0; i < computation.nodes().size(); ++i) number[computation.nodes()[i]] = i;
  auto text = [&](const Node* n) {
    return n ? str_cat("%", number.at(n), " ", n->def().name, " ", hlo::to_string(*n->type()))
             : std::string("-");
  };
  // How the lanes of a batch go on in a loop or branch, as what recorded it says of its place.
  auto lanes = [](const Node* n) {
    const std::string part = hlo::location(n->location()).function;
    const bool told = n->def().family == hlo::OpFamily::kControl && part.starts_with("lanes ");
    return told ? str_cat(": ", part) : std::string();
  };
  static constexpr std::string_view kKinds[] = {"loop", "alias", "library", "host"};
  std::string out = str_cat(computation.nodes().size(), " nodes, ", plan.groups.size(), " steps, ",
                            plan.num_clusters, " clusters\n");
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    const Group& g = plan.groups[i];
    str_append(&out, "step ", i, " ", kKinds[static_cast<int>(g.kind)]);
    if (g.cluster >= 0) str_append(&out, " cluster ", g.cluster);
    str_append(&out, "\n");
    for (const Node* n : g.anchors) {
      const bool stored = std::find(g.outputs.begin(), g.outputs.end(), n) != g.outputs.end();
      str_append(&out, "  ", text(n), stored ? " stored" : "", lanes(n), "\n");
    }
  }
  for (const Refusal& r : plan.refusals)
    str_append(&out, "not fused: ", text(r.producer), " into ", text(r.consumer), ": ", r.reason, "\n");
  return out;
}

std::string to_dot(const Computation& computation, const FusionPlan& plan) {
  HashMap<const Node*, size_t> number;
  for (size_t i = 0; i < computation.nodes().size(); ++i) number[computation.nodes()[i]] = i;
  std::string out = "digraph lamina {\n  node [shape=box];\n";
  for (size_t i = 0; i < plan.groups.size(); ++i) {
    str_append(&out, "  subgraph cluster_", i, " {\n    label=\"step ", i, "\";\n");
    for (const Node* n : plan.groups[i].anchors) str_append(&out, "    n", number.at(n), " [style=bold];\n");
    str_append(&out, "  }\n");
  }
  for (const Node* n : computation.nodes()) {
    str_append(&out, "  n", number.at(n), " [label=\"", n->def().name, "\\n", hlo::to_string(*n->type()),
               "\"];\n");
    for (Operand o : n->operands())
      str_append(&out, "  n", number.at(o.node()), " -> n", number.at(n), ";\n");
  }
  for (const Refusal& r : plan.refusals)
    if (r.consumer)
      str_append(&out, "  n", number.at(r.producer), " -> n", number.at(r.consumer),
                 " [style=dashed, label=\"", r.reason, "\"];\n");
  return out + "}\n";
}

}  // namespace lamina::cluster
