#include "jit/kernel/lower.h"

#include <algorithm>

#include "cluster/array_loop.h"
#include "cluster/repeat.h"
#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/kernel/lower_arrays.h"
#include "jit/kernel/lower_element.h"

namespace lamina::jit {
namespace {

using cluster::Group;
using hlo::Attr;
using hlo::Op;

// Instructions of a body in which the elements of a dimension are written out: more of them take longer to
// compile than they save.
constexpr size_t kMostWrittenOut = 160;
// Of columns, which would else all be computed for each element.
constexpr size_t kMostOfColumns = 640;

class Lowering final : ElementLowering {
 public:
  using ElementLowering::ElementLowering;

  // The elements of the last dimensions are `written_out`: each has code of its own. `terms`: so have those
  // that the group's reduction combines.
  absl::StatusOr<LoweredLoop> run(int64_t written_out, bool terms) {
    writes_terms_ = terms;
    const Node& first = *group_.anchors[0];
    const Dims space = group_.repeat ? group_.repeat_space : first.result_type(0)->dims;
    for (int64_t d : space) extents_.push_back(d);
    parallel_rank_ = static_cast<int>(space.size());
    Index identity(space.size());
    for (size_t d = 0; d < space.size(); ++d)
      if (space[d] != 1) identity[d].terms = {{static_cast<int>(d), 1}};
    std::vector<Index> elements = {identity};
    size_t kept = space.size();
    for (int64_t count = 1; count < written_out && kept > 0; count *= space[kept]) {
      --kept;
      extents_[kept] = 1;
      std::vector<Index> more;
      for (int64_t i = 0; i < space[kept]; ++i)
        for (const Index& e : elements) {
          more.push_back(e);
          more.back()[kept] = {.offset = i, .terms = {}};
        }
      elements = std::move(more);
    }
    const bool reduces = group_.reduction && !terms;
    if (reduces) lower_reduction(*group_.reduction, identity);
    Section& section = reduces ? epilogue_ : body_;
    section_ = &section;
    identity_ = identity;
    for (const Node* n : group_.outputs)
      for (uint32_t r = 0; r < n->num_results(); ++r) {
        if (group_.repeat && r >= cluster::num_carried(*n)) continue;
        if ((n == group_.repeat || n == group_.reduction) && !group_.repeat_read[r]) continue;
        const Value v(const_cast<Node*>(n), r);
        for (const Index& element : elements) {
          identity_ = element;
          for (const Index& own : own_elements(*v.type()))
            store(v, emit(v.operand(), own, kNone), own, stores_);
        }
      }
    if (group_.repeat && body_.repeats.empty()) repeat_use(*group_.repeat);
    if (!status_.ok()) return status_;
    simplify_dims();
    return finish();
  }

  // How many elements the last dimension of the loop has if they may be written out, else 1.
  int64_t short_side(const LoweredLoop& loop) const {
    if (group_.reduction || group_.repeat || loop.kernel.parallel_rank < 2) return 1;
    int64_t parts = 1;
    for (const Node* n : group_.outputs) parts = std::max<int64_t>(parts, hlo::num_parts(n->type()->dtype));
    return loop.inner * parts <= (joins_columns_ ? plan_.most_columns : plan_.most_written_out) ? loop.inner
                                                                                                : 1;
  }
  size_t most_instructions() const { return joins_columns_ ? kMostOfColumns : kMostWrittenOut; }

 private:
  std::vector<uint32_t> special(Operand o, const Index& index, uint32_t predicate) override {
    const Node& n = *o.node();
    if (cluster::is_loop_op(n.op())) return repeated(o, index, predicate);
    if (n.op() == Op::case_) return chosen(o, index);
    if (const int64_t terms = cluster::written_out_terms(n))
      return n.op() == Op::reduce ? reduced(o, terms, index, predicate) : product(n, terms, index, predicate);
    if (n.op() == Op::dynamic_slice) return sliced(n, index, predicate);
    if (const std::optional<Window> w = window(n)) return read_updated(n, *w, index, predicate);
    fail(str_cat(n.def().name, " has no loop form"));
    return {0, 0};
  }

  // --- reductions ---

  void lower_reduction(const Node& n, const Index& identity) {
    const size_t m = n.operands().size() / 2;
    const Dims& reduced = n.attrs().ints(Attr::dimensions);
    const Dims& dims = n.operand_type(0)->dims;
    Index full(dims.size());
    size_t parallel = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end()) {
        full[d] = identity[parallel++];
        continue;
      }
      if (dims[d] != 1) full[d].terms = {{static_cast<int>(extents_.size()), 1}};
      extents_.push_back(dims[d]);
    }
    section_ = &body_;
    for (size_t i = 0; i < m; ++i)
      for (uint32_t v : emit(n.operand(i), full, kNone)) reduction_.inputs.push_back(v);
    for (size_t i = 0; i < m; ++i) {
      const Value init(n.operand(m + i));
      for (int p = 0; p < hlo::num_parts(init.dtype()); ++p)
        reduction_.init.push_back(access(init, {}, {}, p, false));
    }
    reduction_.combine = *hlo::region_program(*n.attrs().computation(Attr::body));
  }

  // --- loops in the kernel ---

  std::vector<uint32_t> repeated(Operand o, const Index& index, uint32_t predicate) {
    const Node& n = *o.node();
    if (cluster::is_unchanged(n, o.index())) return emit(n.operand(o.index()), index, predicate);
    const RepeatUse& use = repeat_use(n);
    const hlo::Type& type = *n.result_type(o.index());
    const uint64_t first = own_part(type, index, use.first[o.index()]);
    std::vector<uint32_t> out;
    for (int p = 0; p < hlo::num_parts(type.dtype); ++p)
      out.push_back(section_->emit({.op = KernelOp::kRepeated,
                                    .type = hlo::part_type(type.dtype),
                                    .operands = {use.instr, 0, 0},
                                    .imm = first + static_cast<uint64_t>(p)}));
    return out;
  }

  // The instruction that runs the loop in the present section.
  const RepeatUse& repeat_use(const Node& n) {
    if (const auto it = section_->repeats.find(&n); it != section_->repeats.end()) return it->second;
    const size_t number = repeats_.size(), carried = cluster::num_carried(n);
    const bool counted = n.op() == Op::scan;
    const int64_t length = counted ? n.attrs().integer(Attr::length) : 0;
    const int step_dim = static_cast<int>(extents_.size());
    extents_.push_back(length);
    repeats_.emplace_back();
    Repeat r;
    r.counted = counted;
    DimIndex step{.offset = 0, .terms = {{step_dim, 1}}};
    if (n.attrs().flag(Attr::reverse)) step = {.offset = length - 1, .terms = {{step_dim, -1}}};
    RepeatUse use;
    std::vector<Binding> bindings;
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const Operand o = n.operand(i);
      Binding b{.kind = Binding::kMemory, .first = 0, .outer = o, .step = {}};
      use.first.push_back(static_cast<uint32_t>(r.init.size()));
      if (i >= carried) {
        b.kind = Binding::kSlice;
        b.step = step;
      } else if (!cluster::is_unchanged(n, i)) {
        b.kind = Binding::kCarried;
        b.first = use.first.back();
        b.limit = counter_limit(n, i);
        for (uint32_t v : emit_own(o)) r.init.push_back(v);
      } else if (!in_memory(o)) {
        b.kind = Binding::kOuter;
      }
      bindings.push_back(std::move(b));
    }
    Frame* const around = frame_;
    const std::optional<cluster::LaneLoop> lanes = cluster::lane_loop(n);
    if (!counted) {
      const Section cond =
          region(*n.attrs().computation(Attr::cond), bindings, step_dim, [&](const hlo::Computation& c) {
            r.condition = lanes ? emit(c.parameters()[lanes->flag].operand(), identity_, kNone)[0]
                                : emit(c.roots()[0].operand(), {}, kNone)[0];
          });
      r.cond = cond.code;
    }
    const Section body =
        region(*n.attrs().computation(Attr::body), bindings, step_dim, [&](const hlo::Computation& c) {
          for (size_t i = 0; i < c.roots().size(); ++i) {
            const Value& root = c.roots()[i];
            if (i < carried ? cluster::is_unchanged(n, i) : around || !group_.repeat_read[i]) continue;
            if (i < carried) {
              for (uint32_t v : emit_own(lanes ? lanes->next[i] : root.operand())) r.next.push_back(v);
              continue;
            }
            for (Index at : own_elements(*root.type())) {
              const std::vector<uint32_t> parts = emit(root.operand(), at, kNone);
              at.insert(at.begin(), step);
              store(Value(const_cast<Node*>(&n), static_cast<uint32_t>(i)), parts, at, r.stores);
            }
          }
        });
    r.body = body.code;
    repeats_[number] = std::move(r);
    use.instr = section_->emit({.op = KernelOp::kRepeat, .type = DType::kS64, .imm = number});
    return section_->repeats.emplace(&n, std::move(use)).first->second;
  }
};

}  // namespace

absl::StatusOr<LoweredLoop> lower_loop(const cluster::FusionPlan& plan, const cluster::Group& group) {
  if (group.array_loop) return lower_array_loop(plan, group);
  if (group.reduction && plan.most_written_out > 1)
    if (const int64_t terms = cluster::written_out_terms(*group.reduction);
        terms > 0 && terms <= plan.most_written_out) {
      absl::StatusOr<LoweredLoop> written_out = Lowering(plan, group).run(1, true);
      if (written_out.ok() && written_out->kernel.body.size() <= kMostWrittenOut) return written_out;
    }
  Lowering whole(plan, group);
  absl::StatusOr<LoweredLoop> loop = whole.run(1, false);
  const int64_t side = loop.ok() ? whole.short_side(*loop) : 1;
  if (side <= 1) return loop;
  absl::StatusOr<LoweredLoop> written_out = Lowering(plan, group).run(side, false);
  return written_out.ok() && written_out->kernel.body.size() <= whole.most_instructions()
             ? std::move(written_out)
             : std::move(loop);
}

}  // namespace lamina::jit
