#include "cluster/repeat.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "cluster/array_loop.h"
#include "cluster/fuse.h"
#include "hlo/dot_shape.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::cluster {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::Op;
using hlo::Operand;

// Values in all regions together, those of arrays counted for each place that reads them; bounds compile
// time and recursion depth. Where an element has several values of an array, each is code of its own.
struct Limits {
  int values, dear;  // what a value with a long program counts as
};
constexpr Limits kOneEach{400, 6}, kSeveralEach{1000, 16};
// Multiplications that each element of the space may spend on a product with a matrix that all share: one of
// more is quicker as a step by itself, for all of them.
constexpr int64_t kMostProduct = 100;
constexpr int kMostLoops = 6;
constexpr int64_t kMostSpaceRank = 8;
// Values of one array, and in all, that an element carries.
constexpr int64_t kMostEach = 64, kMostCarried = 128;
// An element of more that is written at a computed position is better found in memory.
constexpr int64_t kMostChosen = 4;
// Smaller spaces leave most lanes of a vector empty.
constexpr int64_t kLeastSpace = 4;

// Where a step reads an array, per dimension: d, not negative, for the index of its own element along
// dimension d of the space; an index that is known; or anywhere.
constexpr int kKnown = -1, kAnywhere = -2;
using Place = std::vector<int>;

// What a region's parameter stands for: an array in memory that no step changes, or values per element.
enum class Source : uint8_t { kMemory, kElement };

// Whether a loop fits a space: the one given, or that of the first array which it carries, which all others
// have to have then.
class Fit {
 public:
  Fit() = default;
  Fit(Dims space, bool trailing) : space_(std::move(space)), several_(true), trailing_(trailing) {}

  RepeatForm run(const Node& loop, const std::vector<bool>& read) {
    enter(loop, nullptr, &read);
    RepeatForm out;
    if (refusal_.empty() && space_)
      for (int64_t d : *space_)
        if (d == 0) refuse("has no elements");
    out.refusal = refusal_;
    if (space_) out.space = *space_;
    out.trailing = trailing_;
    return out;
  }
  // The carried array of the lowest rank among those seen; empty if all were numbers.
  const Dims& least() const { return least_; }

 private:
  struct Region {
    bool branch = false;  // of a case
    HashMap<const Node*, Source> parameters;
    HashMap<std::pair<uint64_t, Place>, int64_t> seen;  // values and places: how often read
    HashSet<const Node*> entered;                       // loops
  };

  bool refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
    return false;
  }

  bool in_space(const hlo::Type& type) {
    if (!type.is_array()) return refuse("carries what is no array");
    if (type.is_scalar()) return true;
    if (least_.empty() || type.dims.size() < least_.size()) least_ = type.dims;
    if (!space_) space_ = type.dims;
    if (static_cast<int64_t>(space_->size()) > kMostSpaceRank) return refuse("has too many dimensions");
    if (!several_) return *space_ == type.dims || refuse("carries arrays of several shapes");
    const int64_t each = values_each(type, *space_, trailing_);
    return (each > 0 && each <= kMostEach) || refuse("carries arrays of several shapes");
  }
  bool carries(const hlo::Type& type) {
    if (!in_space(type)) return false;
    if (several_ && (carried_ += values_each(type, *space_, trailing_)) > kMostCarried)
      return refuse("carries many values");
    return true;
  }
  // Of an array in the space: what one element has of it.
  Place own_place(const hlo::Type& type) const {
    Place out(type.dims.size(), kKnown);
    if (type.is_scalar()) return out;
    const size_t first = trailing_ ? out.size() - space_->size() : 0;
    for (size_t d = 0; d < space_->size(); ++d) out[first + d] = static_cast<int>(d);
    return out;
  }
  bool is_own(const hlo::Type& type, const Place& place) const {
    const Place own = own_place(type);
    for (size_t d = 0; d < own.size(); ++d)
      if (place[d] != own[d] && (place[d] != kKnown || type.dims[d] != 1)) return false;
    return true;
  }
  bool reads_own(Operand o, Region& region) {
    const hlo::Type& type = *o.node()->result_type(o.index());
    const int64_t each = several_ ? values_each(type, *space_, trailing_) : 1;
    for (int64_t i = 0; i < each; ++i)
      if (!reads(o, own_place(type), region)) return false;
    return true;
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
      if (!carries(*loop.operand_type(i))) return false;
      if (outer && !reads_own(loop.operand(i), *outer)) return false;
    }
    const std::optional<LaneLoop> lanes = lane_loop(loop);
    if (lanes && (!in_space(*loop.operand_type(lanes->flag)) || !has_own_flags(loop, *lanes))) return false;
    if (loop.op() == Op::while_ && !lanes) {
      Region cond = region(*loop.attrs().computation(Attr::cond), sources);
      if (!reads(loop.attrs().computation(Attr::cond)->roots()[0].operand(), {}, cond)) return false;
    }
    Region step = region(body, sources);
    for (size_t i = 0; i < body.roots().size(); ++i) {
      if (i < carried && is_unchanged(loop, i)) continue;
      if (i >= carried && (outer || !(*read)[i])) continue;
      if (i >= carried && !in_space(*body.roots()[i].type())) return false;
      if (!reads_own(body.roots()[i].operand(), step)) return false;
    }
    // What is handed through is written as the other results are.
    for (size_t i = 0; !outer && i < carried; ++i)
      if ((*read)[i] && is_unchanged(loop, i) && !in_space(*loop.operand_type(i))) return false;
    return true;
  }

  // A flag for each element of the space.
  bool has_own_flags(const Node& loop, const LaneLoop& lanes) {
    const Dims& flags = loop.operand_type(lanes.flag)->dims;
    return (flags == *space_ && !(trailing_ && lanes.spreads)) || refuse("has lanes of several elements");
  }

  // All branches are computed, and one result chosen: they have no effects.
  bool chooses(const Node& n, Region& around) {
    std::vector<Source> sources;
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const bool memory = i > 0 && in_memory(n.operand(i), around);
      sources.push_back(memory ? Source::kMemory : Source::kElement);
      if (memory) continue;
      if (!in_space(*n.operand_type(i)) || !reads_own(n.operand(i), around)) return false;
    }
    sources.erase(sources.begin());
    for (const hlo::ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
      Region inside = region(*branch, sources);
      inside.branch = true;
      for (const hlo::Value& root : branch->roots())
        if (!in_space(*root.type()) || !reads_own(root.operand(), inside)) return false;
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

  // Of places that are known there are as many as there are elements, each of which is computed once.
  bool is_computed(Operand o, const Place& place, const hlo::Type& type, Region& region) const {
    int64_t places = 1;
    for (size_t d = 0; d < place.size(); ++d) {
      if (place[d] == kAnywhere) return false;
      if (place[d] == kKnown) places *= type.dims[d];
    }
    int64_t& times = region.seen[{o.bits(), place}];
    if (times == places) return true;
    ++times;
    return false;
  }

  bool reads(Operand o, const Place& place, Region& region) {
    const Node& n = *o.node();
    const hlo::Type& type = *n.result_type(o.index());
    if (!type.is_array()) return refuse("computes what is no array");
    if (is_loop_op(n.op()) && o.index() >= num_carried(n)) return refuse("stacks values in an inner loop");
    if (is_loop_op(n.op()) || n.op() == Op::case_) {
      if (!in_space(type)) return false;
      if (!is_own(type, place))
        return refuse(str_cat("reads what an inner ", n.def().name, " gives at other indices"));
    }
    if (is_computed(o, place, type, region)) return true;
    const Limits& limits = several_ ? kSeveralEach : kOneEach;
    values_ += n.def().is_elementwise() && n.def().flags & hlo::kDear ? limits.dear : 1;
    if (values_ > limits.values) return refuse("has reached the size limit of a kernel");
    switch (n.op()) {
      case Op::parameter:
        return region.parameters.at(&n) == Source::kMemory || is_own(type, place) ||
               refuse("reads what it carries at other indices");
      case Op::constant:
      case Op::iota:
        return true;
      case Op::while_:
      case Op::scan:
        if (region.branch) return refuse("a branch holds a loop");
        return !region.entered.insert(&n).second || enter(n, &region, nullptr);
      case Op::case_:
        return !region.entered.insert(&n).second || chooses(n, region);
      default:
        return reads_operands(n, place, region);
    }
  }

  bool reads_operands(const Node& n, const Place& place, Region& region) {
    if (n.def().is_elementwise() || n.op() == Op::identity || n.op() == Op::stop_gradient) {
      for (Operand operand : n.operands())
        if (!reads(operand, place, region)) return false;
      return true;
    }
    if (written_out_terms(n) > 0) return reads_terms(n, place, region);
    const std::optional<std::vector<Place>> places = moved(n, place);
    if (!places) return refuse(str_cat("a step holds a ", n.def().name));
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const bool is_start =
          (*places)[i].empty() && (n.op() == Op::dynamic_slice || n.op() == Op::dynamic_update_slice);
      if (is_start && !is_index(*n.operand_type(i))) return refuse("an index is no integer");
      if (!reads(n.operand(i), (*places)[i], region)) return false;
    }
    return true;
  }

  // The terms of a product or of a reduction, at known places.
  bool reads_terms(const Node& n, const Place& place, Region& region) {
    const int64_t terms = written_out_terms(n);
    if ((values_ += terms) > (several_ ? kSeveralEach : kOneEach).values)
      return refuse("has reached the size limit of a kernel");
    if (several_ && n.op() == Op::dot_general && n.attrs().ints(Attr::lhs_batching_dimensions).empty() &&
        hlo::multiplications(n) > kMostProduct * hlo::product(*space_))
      return refuse("a step holds a product with one matrix for all");
    std::vector<Place> in;
    if (n.op() == Op::reduce) {
      Place array(n.operand_type(0)->dims.size(), kKnown);
      const Dims& over = n.attrs().ints(Attr::dimensions);
      size_t kept = 0;
      for (size_t d = 0; d < array.size(); ++d)
        if (std::find(over.begin(), over.end(), static_cast<int64_t>(d)) == over.end())
          array[d] = place[kept++];
      in.assign(n.operands().size() / 2, array);
      in.resize(n.operands().size());
    } else {
      in = factor_places(n, place);
    }
    for (int64_t t = 0; t < terms; ++t)
      for (size_t i = 0; i < in.size(); ++i)
        if (!reads(n.operand(i), in[i], region)) return false;
    return true;
  }
  static std::vector<Place> factor_places(const Node& dot, const Place& place) {
    const hlo::Attrs& a = dot.attrs();
    std::vector<Place> out;
    size_t free = a.ints(Attr::lhs_batching_dimensions).size();
    for (size_t side = 0; side < 2; ++side) {
      const Dims& batching = a.ints(side ? Attr::rhs_batching_dimensions : Attr::lhs_batching_dimensions);
      const Dims& summed = a.ints(side ? Attr::rhs_contracting_dimensions : Attr::lhs_contracting_dimensions);
      out.emplace_back();
      for (int64_t d = 0; d < dot.operand_type(side)->rank(); ++d) {
        const auto batch = std::find(batching.begin(), batching.end(), d);
        const bool sums = std::find(summed.begin(), summed.end(), d) != summed.end();
        out.back().push_back(sums                      ? kKnown
                             : batch != batching.end() ? place[batch - batching.begin()]
                                                       : place[free++]);
      }
    }
    return out;
  }

  // Where the op, which only moves elements, reads each operand; nullopt: it is none of these.
  static std::optional<std::vector<Place>> moved(const Node& n, const Place& place) {
    const hlo::Attrs& a = n.attrs();
    const Dims& dims = n.type()->dims;
    // The same element, or one that is not an element's own.
    const auto unless = [&](bool moves, size_t d) { return moves && place[d] >= 0 ? kAnywhere : place[d]; };
    Place in = place;
    switch (n.op()) {
      case Op::broadcast_in_dim: {
        const Dims& to = a.ints(Attr::broadcast_dimensions);
        in.assign(to.size(), kKnown);
        for (size_t d = 0; d < to.size(); ++d)
          if (n.operand_type(0)->dims[d] != 1) in[d] = place[to[d]];
        return {{in}};
      }
      case Op::transpose: {
        const Dims& order = a.ints(Attr::permutation);
        for (size_t d = 0; d < order.size(); ++d) in[order[d]] = place[d];
        return {{in}};
      }
      case Op::reverse:
        for (int64_t d : a.ints(Attr::dimensions)) in[d] = unless(dims[d] > 1, d);
        return {{in}};
      case Op::slice:
        for (size_t d = 0; d < in.size(); ++d)
          in[d] = unless(a.ints(Attr::start_indices)[d] != 0 || a.ints(Attr::strides)[d] != 1, d);
        return {{in}};
      case Op::pad:
        for (size_t d = 0; d < in.size(); ++d)
          in[d] = unless(a.ints(Attr::edge_padding_low)[d] != 0 || a.ints(Attr::edge_padding_high)[d] != 0 ||
                             a.ints(Attr::interior_padding)[d] != 0,
                         d);
        return {{in, {}}};
      case Op::concatenate:
        in[a.integer(Attr::dimension)] = unless(true, a.integer(Attr::dimension));
        return std::vector<Place>(n.operands().size(), in);
      case Op::reshape:
        return reshaped(n, place);
      case Op::dynamic_slice: {
        std::vector<Place> out(n.operands().size());
        for (size_t d = 0; d < in.size(); ++d)
          if (dims[d] != n.operand_type(0)->dims[d])
            in[d] = n.operand(d + 1).node()->op() == Op::constant ? unless(true, d) : kAnywhere;
        out[0] = std::move(in);
        return out;
      }
      case Op::dynamic_update_slice: {
        std::vector<Place> out(n.operands().size());
        Place window = place;
        for (size_t d = 0; d < in.size(); ++d) {
          const int64_t size = n.operand_type(1)->dims[d];
          if (size == dims[d]) continue;
          const bool is_known = n.operand(d + 2).node()->op() == Op::constant;
          in[d] = window[d] = is_known || dims[d] <= kMostChosen ? unless(true, d) : kAnywhere;
          if (size == 1)
            window[d] = kKnown;
          else if (!is_known)
            window[d] = kAnywhere;
        }
        out[0] = std::move(in);
        out[1] = std::move(window);
        return out;
      }
      default:
        return std::nullopt;
    }
  }

  static std::optional<std::vector<Place>> reshaped(const Node& n, const Place& place) {
    Place in(n.operand_type(0)->dims.size(), kKnown);
    if (std::all_of(place.begin(), place.end(), [](int p) { return p == kKnown; })) return {{in}};
    std::vector<std::vector<int64_t>> parts;
    if (is_splitting_reshape(n, &parts)) {
      for (size_t d = 0; d < in.size(); ++d) {
        if (parts[d].size() == 1) in[d] = place[parts[d][0]];
        if (parts[d].size() < 2) continue;
        for (int64_t part : parts[d])
          if (place[part] != kKnown) in[d] = kAnywhere;
      }
      return {{in}};
    }
    const MergedDims same = merged_dims(n);
    const size_t end = place.size() - same.after;
    for (size_t d = same.before; d < end; ++d)
      if (place[d] != kKnown) return std::nullopt;
    std::copy_n(place.begin(), same.before, in.begin());
    std::copy_n(place.begin() + end, same.after, in.end() - same.after);
    return {{in}};
  }

  std::string refusal_;
  std::optional<Dims> space_;
  Dims least_;
  bool several_ = false, trailing_ = false;
  int loops_ = 0;
  int64_t values_ = 0, carried_ = 0;
};

}  // namespace

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
  // The flag, or each lane's for all elements of the lane.
  const auto chooses_lanes = [&](Operand o) {
    if (o == goes_on) return true;
    const Node& spread = *o.node();
    if (spread.op() != Op::broadcast_in_dim || spread.operand(0) != goes_on) return false;
    const Dims& to = spread.attrs().ints(Attr::broadcast_dimensions);
    for (size_t d = 0; d < to.size(); ++d)
      if (to[d] != static_cast<int64_t>(d) || spread.type()->dims[d] != spread.operand_type(0)->dims[d])
        return false;
    return out.spreads = true;
  };
  for (size_t i = 0; i < loop.operands().size(); ++i) {
    const Node& n = *body.roots()[i].node();
    const Operand before = body.parameters()[i].operand();
    if (is_unchanged(loop, i) && i != out.flag)
      out.next.push_back(before);
    else if (i == out.flag && n.op() == Op::and_ && (n.operand(0) == goes_on || n.operand(1) == goes_on))
      out.next.push_back(n.operand(n.operand(0) == goes_on ? 1 : 0));
    else if (i != out.flag && n.op() == Op::select && chooses_lanes(n.operand(0)) && n.operand(2) == before)
      out.next.push_back(n.operand(1));
    else
      return std::nullopt;
  }
  return out;
}

int64_t values_each(const hlo::Type& type, const Dims& space, bool trailing) {
  if (type.is_scalar()) return 1;
  const Dims& dims = type.dims;
  if (dims.size() < space.size()) return 0;
  const size_t first = trailing ? dims.size() - space.size() : 0;
  int64_t each = 1;
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool shared = d >= first && d - first < space.size();
    if (shared && dims[d] != space[d - first]) return 0;
    if (!shared) each *= dims[d];
  }
  return each;
}

MergedDims merged_dims(const Node& reshape) {
  const Dims &in = reshape.operand_type(0)->dims, &out = reshape.type()->dims;
  const size_t most = std::min(in.size(), out.size());
  MergedDims m;
  while (m.before < most && in[m.before] == out[m.before]) ++m.before;
  while (m.before + m.after < most && in[in.size() - 1 - m.after] == out[out.size() - 1 - m.after]) ++m.after;
  return m;
}

// One value of each array if all have one shape; else as many elements as there are in what is left when few
// dimensions are taken away, or one element that has all.
RepeatForm repeat_form(const Node& loop, const std::vector<bool>& read) {
  Fit whole;
  RepeatForm form = whole.run(loop, read);
  if (form.refusal.empty()) return form;
  const Dims dims = whole.least();
  std::vector<std::pair<Dims, bool>> spaces, small;
  for (size_t rank = dims.size(); rank > 0; --rank)
    for (const bool trailing : {false, true}) {
      Dims space = trailing ? Dims(dims.end() - rank, dims.end()) : Dims(dims.begin(), dims.begin() + rank);
      (hlo::product(space) < kLeastSpace ? small : spaces).emplace_back(std::move(space), trailing);
    }
  spaces.emplace_back();
  spaces.insert(spaces.end(), small.begin(), small.end());
  for (auto& [space, trailing] : spaces)
    if (RepeatForm other = Fit(std::move(space), trailing).run(loop, read); other.refusal.empty())
      return other;
  return form;
}

}  // namespace lamina::cluster
