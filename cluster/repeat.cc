#include "cluster/repeat.h"

#include <optional>

#include "cluster/fuse.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::cluster {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::Op;
using hlo::Operand;

// Nodes in all regions together, those that are read at several indices counted for each; bounds compile
// time and recursion depth.
constexpr int kMostNodes = 400;
constexpr int kDearNodes = 6;  // what one with a long program counts as
constexpr int kMostLoops = 6;
constexpr int64_t kMostSpaceRank = 8;

// How a step reads a value: at its own element (or a scalar), or anywhere.
enum class Reach : uint8_t { kElement, kAnywhere };
// What a region's parameter stands for: an array in memory that no step changes, or a value per element.
enum class Source : uint8_t { kMemory, kElement };

class Fit {
 public:
  RepeatForm run(const Node& loop, const std::vector<bool>& read) {
    enter(loop, nullptr, &read);
    RepeatForm out;
    if (refusal_.empty() && space_)
      for (int64_t d : *space_)
        if (d == 0) refuse("has no elements");
    out.refusal = refusal_;
    if (space_) out.space = *space_;
    return out;
  }

 private:
  struct Region {
    bool branch = false;  // of a case
    HashMap<const Node*, Source> parameters;
    HashMap<const Node*, bool> seen;  // read at its own element
  };

  bool refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
    return false;
  }

  bool in_space(const hlo::Type& type) {
    if (!type.is_array()) return refuse("carries what is no array");
    if (type.is_scalar()) return true;
    if (!space_) space_ = type.dims;
    if (static_cast<int64_t>(space_->size()) > kMostSpaceRank) return refuse("has too many dimensions");
    return *space_ == type.dims || refuse("carries arrays of several shapes");
  }

  // `outer`: the region that the loop stands in, null for the program itself, whose values are in memory.
  bool enter(const Node& loop, Region* outer, const std::vector<bool>* read) {
    if (++loops_ > kMostLoops) return refuse("holds too many loops");
    const size_t carried = num_carried(loop);
    const Computation& body = *loop.attrs().computation(Attr::body);
    std::vector<Source> sources;
    for (size_t i = 0; i < loop.operands().size(); ++i) {
      if (!loop.operand_type(i)->is_array()) return refuse("carries what is no array");
      const bool changes = i < carried && !is_unchanged(loop, i);
      const bool memory = !changes && (!outer || in_memory(loop.operand(i), *outer));
      sources.push_back(memory ? Source::kMemory : Source::kElement);
      if (memory) continue;
      if (i >= carried) return refuse("scans an array that is made in a step");
      if (!in_space(*loop.operand_type(i))) return false;
      if (outer && !reads(loop.operand(i), Reach::kElement, *outer)) return false;
    }
    const std::optional<LaneLoop> lanes = lane_loop(loop);
    if (lanes && !in_space(*loop.operand_type(lanes->flag))) return false;
    if (loop.op() == Op::while_ && !lanes) {
      Region cond = region(*loop.attrs().computation(Attr::cond), sources);
      if (!reads(loop.attrs().computation(Attr::cond)->roots()[0].operand(), Reach::kElement, cond))
        return false;
    }
    Region step = region(body, sources);
    for (size_t i = 0; i < body.roots().size(); ++i) {
      if (i < carried && is_unchanged(loop, i)) continue;
      if (i >= carried && (outer || !(*read)[i])) continue;
      if (i >= carried && !in_space(*body.roots()[i].type())) return false;
      if (!reads(body.roots()[i].operand(), Reach::kElement, step)) return false;
    }
    // What is handed through is written as the other results are.
    for (size_t i = 0; !outer && i < carried; ++i)
      if ((*read)[i] && is_unchanged(loop, i) && !in_space(*loop.operand_type(i))) return false;
    return true;
  }

  // All branches are computed, and one result chosen: they have no effects.
  bool chooses(const Node& n, Region& around) {
    std::vector<Source> sources;
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const bool memory = i > 0 && in_memory(n.operand(i), around);
      sources.push_back(memory ? Source::kMemory : Source::kElement);
      if (memory) continue;
      if (!in_space(*n.operand_type(i)) || !reads(n.operand(i), Reach::kElement, around)) return false;
    }
    sources.erase(sources.begin());
    for (const hlo::ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
      Region inside = region(*branch, sources);
      inside.branch = true;
      for (const hlo::Value& root : branch->roots())
        if (!in_space(*root.type()) || !reads(root.operand(), Reach::kElement, inside)) return false;
    }
    return true;
  }

  static Region region(const Computation& c, const std::vector<Source>& sources) {
    Region out;
    for (size_t i = 0; i < sources.size(); ++i) out.parameters[c.parameters()[i].node()] = sources[i];
    return out;
  }

  static bool in_memory(Operand o, const Region& region) {
    const Node& n = *o.node();
    if (n.op() == Op::constant) return true;
    const auto it = region.parameters.find(&n);
    return it != region.parameters.end() && it->second == Source::kMemory;
  }

  bool reads(Operand o, Reach reach, Region& region) {
    const Node& n = *o.node();
    const hlo::Type& type = *n.result_type(o.index());
    if (!type.is_array()) return refuse("computes what is no array");
    if (type.is_scalar()) reach = Reach::kElement;
    if (is_loop_op(n.op()) && o.index() >= num_carried(n)) return refuse("stacks values in an inner loop");
    if ((is_loop_op(n.op()) || n.op() == Op::case_) && (reach != Reach::kElement || !in_space(type)))
      return refuse(str_cat("reads what an inner ", n.def().name, " gives at other indices"));
    if (reach == Reach::kElement && !region.seen.try_emplace(&n, true).second) return true;
    nodes_ += n.def().is_elementwise() && n.def().flags & hlo::kDear ? kDearNodes : 1;
    if (nodes_ > kMostNodes) return refuse("has reached the size limit of a kernel");
    if (n.op() == Op::parameter)
      return reach == Reach::kElement || region.parameters.at(&n) == Source::kMemory ||
             refuse("reads what it carries at other indices");
    if (n.op() == Op::constant || n.op() == Op::iota) return true;
    if (is_loop_op(n.op()))
      return region.branch ? refuse("a branch holds a loop") : enter(n, &region, nullptr);
    if (n.op() == Op::case_) return chooses(n, region);
    if (n.op() == Op::reduce || !may_join_loop(n.op()))
      return refuse(str_cat("a step holds a ", n.def().name));
    if (n.op() == Op::reshape && !is_splitting_reshape(n)) return refuse("a step holds a reshape");
    const bool stays = n.def().is_elementwise() || n.op() == Op::identity || n.op() == Op::stop_gradient;
    for (Operand operand : n.operands())
      if (!reads(operand, stays ? reach : Reach::kAnywhere, region)) return false;
    return true;
  }

  std::string refusal_;
  std::optional<Dims> space_;
  int loops_ = 0, nodes_ = 0;
};

}  // namespace

bool is_loop_op(Op op) { return op == Op::while_ || op == Op::scan; }

size_t num_carried(const Node& loop) {
  return loop.op() == Op::scan ? static_cast<size_t>(loop.attrs().integer(Attr::num_carry))
                               : loop.operands().size();
}

bool is_unchanged(const Node& loop, size_t carried) {
  const Computation& body = *loop.attrs().computation(Attr::body);
  return body.roots()[carried] == body.parameters()[carried];
}

bool is_running_scan(const Node& loop) {
  if (loop.op() != Op::scan || num_carried(loop) != 1 || loop.operands().size() != 2) return false;
  const std::span<const hlo::Value> roots = loop.attrs().computation(Attr::body)->roots();
  return roots.size() == 2 && roots[0] == roots[1];
}

std::optional<LaneLoop> lane_loop(const Node& loop) {
  if (loop.op() != Op::while_) return std::nullopt;
  const Computation &cond = *loop.attrs().computation(Attr::cond),
                    &body = *loop.attrs().computation(Attr::body);
  const Node& any = *cond.roots()[0].node();
  if (any.op() != Op::reduce || any.operands().size() != 2) return std::nullopt;
  const std::vector<Node*>& combine = any.attrs().computation(Attr::body)->nodes();
  const Node& init = *any.operand(1).node();
  if (any.attrs().ints(Attr::dimensions).size() != any.operand_type(0)->dims.size() ||
      combine.back()->op() != Op::or_ || combine.size() != 3 || init.op() != Op::constant ||
      *init.attrs().literal(Attr::value)->element(0) != std::byte{0})
    return std::nullopt;
  LaneLoop out{loop.operands().size(), {}};
  for (size_t i = 0; i < loop.operands().size(); ++i)
    if (cond.parameters()[i].operand() == any.operand(0)) out.flag = i;
  if (out.flag == loop.operands().size()) return std::nullopt;
  const Operand goes_on = body.parameters()[out.flag].operand();
  for (size_t i = 0; i < loop.operands().size(); ++i) {
    const Node& n = *body.roots()[i].node();
    const Operand before = body.parameters()[i].operand();
    if (is_unchanged(loop, i) && i != out.flag)
      out.next.push_back(before);
    else if (i == out.flag && n.op() == Op::and_ && (n.operand(0) == goes_on || n.operand(1) == goes_on))
      out.next.push_back(n.operand(n.operand(0) == goes_on ? 1 : 0));
    else if (i != out.flag && n.op() == Op::select && n.operand(0) == goes_on && n.operand(2) == before)
      out.next.push_back(n.operand(1));
    else
      return std::nullopt;
  }
  return out;
}

RepeatForm repeat_form(const Node& loop, const std::vector<bool>& read) { return Fit().run(loop, read); }

}  // namespace lamina::cluster
