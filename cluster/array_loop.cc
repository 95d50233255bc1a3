#include "cluster/array_loop.h"

#include <algorithm>
#include <numeric>

#include "cluster/fuse.h"
#include "cluster/repeat.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::cluster {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::Op;
using hlo::Operand;

// Bounds of compile time, in all regions together: values of arrays that are read
// at a place which is computed, once for each reader; instructions of those at known
// places, once for each element, as they are written out.
constexpr int64_t kMostComputed = 600, kMostKnown = 4000;
constexpr int64_t kDearComputed = 6;  // values that one with a long program counts as
constexpr int64_t kMostDepth = 1200;  // of values computed from others
constexpr int kMostArrayLoops = 12, kMostFills = 12;
// Bytes of the arrays that change: all of them, and those of inner loops, which
// may be copied at each start.
constexpr int64_t kMostBytes = 1 << 20, kMostInnerBytes = 1 << 18;
// Element operations that a step may spend on writing whole arrays, beside what
// the loops in it give it to do, and what would be programs of their own: one that
// is written out does in the time that it takes to start one about as much.
constexpr int64_t kMostWritten = 600, kPerInnerStep = 8, kPerProgram = 400;
constexpr int64_t kAssumedSteps = 16;  // of a loop of unknown length
constexpr int64_t kMostTerms = 16;     // of an element that is written out

class ArrayFit {
 public:
  std::string run(const Node& loop, const std::vector<bool>& read) {
    enter(loop, nullptr, &read);
    return refusal_;
  }

 private:
  static constexpr int64_t kComputed = 0;

  struct Region {
    HashMap<const Node*, bool> run;    // loops and branches
    HashMap<uint64_t, int64_t> known;  // elements that are read at known places, by operand
    int64_t written = 0;               // element operations for whole arrays in one step
    int64_t inner_steps = 0, programs = 0;
  };

  bool refuse(std::string why) {
    if (refusal_.empty()) refusal_ = std::move(why);
    return false;
  }

  bool holds(const hlo::Type& type) {
    if (!type.is_array()) return refuse("carries what is no array");
    return type.num_elements > 0 || refuse("carries arrays without elements");
  }

  bool changing(const hlo::Type& type, const Region* outer) {
    if (type.is_scalar()) return true;
    bytes_ += type.bytes();
    if (outer && type.bytes() > kMostInnerBytes) return refuse("an inner loop carries a large array");
    return bytes_ <= kMostBytes || refuse("carries large arrays");
  }

  // Writing all of `o` once in a step.
  bool fills(Operand o, Region& region) {
    const int64_t elements = o.node()->result_type(o.index())->num_elements;
    if (elements <= kMostWrittenOut) {
      const int64_t before = known_;
      if (!reads(o, region, elements)) return false;
      region.written += known_ - before;
      return true;
    }
    if (++fills_ > kMostFills) return refuse("writes too many whole arrays");
    const int64_t before = computed_;
    if (!reads(o, region, kComputed)) return false;
    region.written += elements * (computed_ - before + 1);
    return true;
  }

  // What an inner loop reads or starts with: a number, or an array that may
  // have to be written for it.
  bool enters(Operand o, Region& region) {
    const Node& n = *o.node();
    if (n.result_type(o.index())->is_scalar() || is_base(n)) return reads(o, region, kComputed);
    if (window_update(n)) return updates(o, region);
    return fills(o, region);
  }
  static bool is_base(const Node& n) {
    return n.op() == Op::parameter || n.op() == Op::constant || is_loop_op(n.op()) || runs_branch(n);
  }

  // What a carried array becomes: itself but for small windows, or all of it is
  // written.
  bool updates(Operand o, Region& region) {
    const Node* n = o.node();
    while (const std::optional<WindowUpdate> u = window_update(*n)) {
      const int64_t elements = u->update.node()->result_type(u->update.index())->num_elements;
      if (elements > kMostWrittenOut) break;
      if (!reads_window(*u, region, elements)) return false;
      o = n->operand(0);
      n = o.node();
    }
    if (!is_base(*n)) return fills(o, region);
    // An array that is handed on as another one is copied.
    if (n->op() != Op::parameter) return reads(o, region, kComputed);
    region.written += n->type()->num_elements / 16;
    return reads(o, region, kComputed);
  }

  bool reads_window(const WindowUpdate& u, Region& region, int64_t asked) {
    if (!reads(u.update, region, asked)) return false;
    for (Operand start : u.starts)
      if (start.node() && (!is_index(*start.node()->result_type(start.index())) || !reads(start, region, 1)))
        return refuse("an index is no integer");
    return true;
  }

  bool enter(const Node& loop, Region* outer, const std::vector<bool>* read) {
    if (++loops_ > kMostArrayLoops) return refuse("holds too many loops");
    const size_t carried = num_carried(loop);
    for (size_t i = 0; i < loop.operands().size(); ++i) {
      if (!holds(*loop.operand_type(i)) || (outer && !enters(loop.operand(i), *outer))) return false;
      if (i < carried && !is_unchanged(loop, i) && !changing(*loop.operand_type(i), outer)) return false;
    }
    if (loop.op() == Op::while_) {
      Region cond;
      if (!reads(loop.attrs().computation(Attr::cond)->roots()[0].operand(), cond, 1)) return false;
    }
    const Computation& body = *loop.attrs().computation(Attr::body);
    Region step;
    for (size_t i = 0; i < body.roots().size(); ++i) {
      if (i < carried && is_unchanged(loop, i)) continue;
      if (i >= carried && !outer && !(*read)[i]) continue;
      const Operand root = body.roots()[i].operand();
      const hlo::Type& type = *body.roots()[i].type();
      if (!holds(type)) return false;
      if (i >= carried && outer && !changing(*loop.result_type(i), outer)) return false;
      const bool own = i < carried && body.parameters()[i].node() == base_of(root);
      if (!(type.is_scalar() ? reads(root, step, 1) : i >= carried ? fills(root, step) : updates(root, step)))
        return false;
      if (own && !type.is_scalar()) step.written -= type.num_elements / 16;
    }
    if (step.written > kMostWritten + kPerInnerStep * step.inner_steps + kPerProgram * step.programs)
      return refuse("a step writes large arrays as a whole");
    if (outer)
      outer->inner_steps += loop.op() == Op::scan ? loop.attrs().integer(Attr::length) : kAssumedSteps;
    return true;
  }

  static const Node* base_of(Operand o) {
    const Node* n = o.node();
    while (const std::optional<WindowUpdate> u = window_update(*n)) {
      if (u->update.node()->result_type(u->update.index())->num_elements > kMostWrittenOut) break;
      n = n->operand(0).node();
    }
    return n;
  }

  // The operands, and what the branches give: all of it, or for arrays by the
  // one that runs.
  bool chooses(const Node& n, Region& region) {
    const std::vector<hlo::ComputationPtr>& branches = n.attrs().computations(Attr::branches);
    if (runs_branch(n) && (loops_ += static_cast<int>(branches.size())) > kMostArrayLoops)
      return refuse("holds too many loops and branches");
    for (uint32_t r = 0; r < n.num_results(); ++r)
      if (!holds(*n.result_type(r)) || !changing(*n.result_type(r), &region)) return false;
    for (Operand o : n.operands())
      if (!enters(o, region)) return false;
    for (const hlo::ComputationPtr& branch : branches) {
      Region inside;
      for (const hlo::Value& root : branch->roots())
        if (!(root.type()->is_scalar() ? reads(root.operand(), inside, 1) : updates(root.operand(), inside)))
          return false;
      region.written += inside.written;
      region.inner_steps += inside.inner_steps;
      region.programs += inside.programs;
    }
    return true;
  }

  // Of `o`: so many elements at known places, where the same ones are computed
  // once, or one at a place that is computed. Numbers are at known places.
  bool reads(Operand o, Region& region, int64_t asked) {
    if (depth_ == kMostDepth) return refuse("computes a value in too many steps");
    ++depth_;
    const bool fits = reads_here(o, region, asked);
    --depth_;
    return fits;
  }
  bool reads_here(Operand o, Region& region, int64_t asked) {
    const Node& n = *o.node();
    const hlo::Type& type = *n.result_type(o.index());
    if (!type.is_array() || type.num_elements == 0) return refuse("computes what has no elements");
    if (is_loop_op(n.op())) return !region.run.try_emplace(&n, true).second || enter(n, &region, nullptr);
    if (runs_branch(n)) return !region.run.try_emplace(&n, true).second || chooses(n, region);
    if (type.is_scalar()) asked = 1;
    bool is_first = false;
    if (asked != kComputed) {
      int64_t& had = region.known[o.bits()];
      asked = std::min(asked, type.num_elements - had);
      if (asked == 0) return true;
      is_first = had == 0;
      had += asked;
    }
    const int64_t terms = written_out_terms(n);
    const bool is_map = n.def().is_elementwise();
    if (asked == kComputed) {
      computed_ += is_map && n.def().flags & hlo::kDear ? kDearComputed : 1;
    } else {
      const auto each = is_map ? static_cast<int64_t>(hlo::scalar_program(n).code.size()) : terms;
      known_ += asked * std::max<int64_t>(each, 1);
      region.programs += is_first && (terms > 0 || n.op() == Op::reverse);
    }
    if (computed_ > kMostComputed || known_ > kMostKnown)
      return refuse("has reached the size limit of a kernel");
    if (n.op() == Op::parameter || n.op() == Op::constant || n.op() == Op::iota) return true;
    if (n.op() == Op::case_) return chooses(n, region);
    if (n.op() == Op::dynamic_slice) {
      for (size_t i = 1; i < n.operands().size(); ++i)
        if (!is_index(*n.operand_type(i)) || !reads(n.operand(i), region, 1))
          return refuse("an index is no integer");
      return reads_computed(n.operand(0), region, asked);
    }
    if (const std::optional<WindowUpdate> u = window_update(n))
      return reads_window(*u, region, kComputed) && reads(n.operand(0), region, asked);
    if (terms > 0) {
      for (int64_t t = 0; t < (asked == kComputed ? terms : 1); ++t)
        for (Operand operand : n.operands())
          if (!reads(operand, region, asked * terms)) return false;
      return true;
    }
    if (n.op() == Op::reduce || !may_join_loop(n.op()))
      return refuse(str_cat("a step holds a ", n.def().name));
    if (n.op() == Op::reshape && !is_splitting_reshape(n)) return refuse("a step holds a reshape");
    for (Operand operand : n.operands())
      if (n.op() == Op::gather ? !reads_computed(operand, region, asked) : !reads(operand, region, asked))
        return false;
    return true;
  }

  // Each of so many elements at a place that is computed.
  bool reads_computed(Operand o, Region& region, int64_t asked) {
    for (int64_t i = 0; i < std::max<int64_t>(asked, 1); ++i)
      if (!reads(o, region, kComputed)) return false;
    return true;
  }

  std::string refusal_;
  int loops_ = 0, fills_ = 0;
  int64_t computed_ = 0, known_ = 0, depth_ = 0, bytes_ = 0;
};

std::optional<WindowUpdate> scatter_of_one(const Node& n) {
  const hlo::Attrs& a = n.attrs();
  if (n.operands().size() != 3 || !a.ints(Attr::input_batching_dims).empty()) return std::nullopt;
  const hlo::Type &array = *n.operand_type(0), &indices = *n.operand_type(1), &updates = *n.operand_type(2);
  const hlo::ComputationPtr& body = a.computation(Attr::body);
  const std::optional<hlo::ScalarProgram> program = hlo::region_program(*body);
  if (!program) return std::nullopt;
  if (!hlo::has_one_index_vector(n)) return std::nullopt;
  const int64_t vector_dim = a.integer(Attr::index_vector_dim);
  const auto among = [](const Dims& dims, int64_t d) {
    return std::find(dims.begin(), dims.end(), d) != dims.end();
  };
  Dims window;
  for (int64_t d = 0; d < updates.rank(); ++d)
    if (among(a.ints(Attr::update_window_dims), d)) window.push_back(d);
  WindowUpdate out;
  out.update = n.operand(2);
  size_t next = 0;
  for (int64_t d = 0; d < array.rank(); ++d) {
    const bool inserted = among(a.ints(Attr::inserted_window_dims), d);
    out.from.push_back(inserted ? -1 : window[next++]);
    out.sizes.push_back(inserted ? 1 : updates.dims[out.from.back()]);
    const Dims& map = a.ints(Attr::scatter_dims_to_operand_dims);
    const auto found = std::find(map.begin(), map.end(), d);
    out.starts.push_back(found == map.end() ? Operand() : n.operand(1));
    out.start_element.emplace_back(indices.dims.size(), 0);
    if (found != map.end() && vector_dim < indices.rank())
      out.start_element.back()[vector_dim] = found - map.begin();
  }
  if (body->roots()[0] != body->parameters()[1]) out.combine = body;
  return out;
}

}  // namespace

std::optional<WindowUpdate> window_update(const Node& n) {
  if (n.op() == Op::scatter) return scatter_of_one(n);
  if (n.op() != Op::dynamic_update_slice) return std::nullopt;
  WindowUpdate out;
  out.clamped = true;
  out.update = n.operand(1);
  out.sizes = n.operand_type(1)->dims;
  out.from.resize(out.sizes.size());
  std::iota(out.from.begin(), out.from.end(), 0);
  for (size_t d = 0; d < out.sizes.size(); ++d) {
    out.starts.push_back(n.operand(d + 2));
    out.start_element.emplace_back();
  }
  return out;
}

bool runs_branch(const Node& n) {
  if (n.op() != Op::case_) return false;
  for (uint32_t r = 0; r < n.num_results(); ++r)
    if (!n.result_type(r)->is_scalar()) return true;
  for (const hlo::ComputationPtr& branch : n.attrs().computations(Attr::branches))
    for (const Node* inner : branch->nodes())
      if (is_loop_op(inner->op()) || runs_branch(*inner)) return true;
  return false;
}

int64_t written_out_terms(const Node& n) {
  if (n.op() != Op::dot_general && n.op() != Op::reduce) return 0;
  const bool is_dot = n.op() == Op::dot_general;
  const hlo::Type& array = *n.operand_type(0);
  const hlo::DType type = array.dtype;
  const bool is_number = type == hlo::DType::kF32 || type == hlo::DType::kF64 || hlo::is_integer(type);
  if (is_dot ? !is_number || type != n.type()->dtype || type != n.operand_type(1)->dtype
             : !hlo::region_program(*n.attrs().computation(Attr::body)))
    return 0;
  int64_t terms = 1;
  for (int64_t d : n.attrs().ints(is_dot ? Attr::lhs_contracting_dimensions : Attr::dimensions)) {
    terms *= array.dims[d];
    if (terms > kMostTerms) return 0;
  }
  return terms;
}

std::string array_loop_refusal(const Node& loop, const std::vector<bool>& read) {
  return ArrayFit().run(loop, read);
}

}  // namespace lamina::cluster
