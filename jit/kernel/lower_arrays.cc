// How array values become memory: each carried array that changes lies in a buffer of the kernel's own. A
// step reads the arrays as they were when it began, whatever it computes from them, and writes all of them at
// its end: elements of what is updated in place, or the whole array by way of another buffer. So no order of
// reads and writes has to be found. An inner loop writes the arrays that it starts with where they lie, if
// nobody needs them as they were: that is tried, each read says if it comes too late, and then the loop gets
// copies.
#include "jit/kernel/lower_arrays.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "cluster/array_loop.h"
#include "cluster/repeat.h"
#include "hlo/known_limit.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/kernel/lower_element.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Op;

class ArrayLowering final : ElementLowering {
 public:
  // Loops in `apart` get copies of the arrays that they start with.
  ArrayLowering(const cluster::FusionPlan& plan, const cluster::Group& group,
                const HashSet<const Node*>& apart)
      : ElementLowering(plan, group), apart_(apart) {}

  absl::StatusOr<LoweredLoop> run() {
    section_ = &body_;
    const Node& loop = *group_.repeat;
    run_loop(loop);
    for (uint32_t r = 0; r < cluster::num_carried(loop); ++r) {
      if (!group_.repeat_read[r]) continue;
      const Value v(const_cast<Node*>(&loop), r);
      if (v.type()->is_scalar())
        store(v, emit(v.operand(), {}, kNone), {}, stores_);
      else if (cluster::is_unchanged(loop, r))
        copy(buffer(v, true), buffer(loop.operand_value(r), false), *v.type());
    }
    if (!status_.ok()) return status_;
    return finish();
  }
  // The loop that wrote arrays of which something was read later; null: none.
  const Node* hasty() const { return hasty_; }

 private:
  struct Array {
    uint32_t buffer;
    const hlo::Type* type;
    int version = 0;
    const Node* writer = nullptr;    // the loop that made this version
    const Section* owner = nullptr;  // the section whose loops may write it
  };
  struct Write {
    uint32_t position, value, predicate;
  };
  // How an array gets its next value.
  struct Assignment {
    uint32_t array;
    std::optional<ArrayVersion> base = {};  // the array that it starts from must still be this
    std::optional<uint32_t> from = {};      // buffer that is copied first
    std::vector<Write> writes = {};
  };

  // --- arrays ---

  uint32_t own_buffer(const hlo::Type& type) {
    own_bytes_.resize(buffers_.size(), 0);
    own_bytes_.push_back(type.bytes());
    buffers_.emplace_back();
    decls_.push_back({hlo::part_type(type.dtype), true});
    return static_cast<uint32_t>(buffers_.size() - 1);
  }
  uint32_t new_array(uint32_t buffer, const hlo::Type& type) {
    arrays_.push_back({.buffer = buffer, .type = &type, .owner = section_});
    return static_cast<uint32_t>(arrays_.size() - 1);
  }
  ArrayVersion written(uint32_t array, const Node* by) {
    arrays_[array].version = ++versions_;
    arrays_[array].writer = by;
    return {array, versions_};
  }
  bool is_present(ArrayVersion a) {
    const Array& array = arrays_[a.array];
    if (array.version == a.version) return true;
    if (!hasty_) hasty_ = array.writer;
    fail("an array is read after it has been written");
    return false;
  }

  // Effects are emitted once each, in order; so are reads of arrays, which
  // differ from time to time.
  uint32_t effect(const KernelInstr& instr) {
    section_->code.push_back(instr);
    return static_cast<uint32_t>(section_->code.size() - 1);
  }
  void copy(uint32_t to, uint32_t from, const hlo::Type& type) {
    const uint32_t count = argument(type.num_elements * hlo::num_parts(type.dtype));
    effect({.op = KernelOp::kCopy, .type = DType::kS64, .operands = {count, 0, 0}, .imm = copy_of(from, to)});
  }
  void write(uint32_t buffer, const Write& w) {
    KernelInstr i{.op = KernelOp::kStoreAt,
                  .type = decls_[buffer].type,
                  .predicated = w.predicate != kNone,
                  .operands = {w.position, w.value, 0},
                  .imm = buffer};
    if (i.predicated) i.operands[2] = w.predicate;
    effect(i);
  }
  std::vector<uint32_t> load_array(ArrayVersion a, const Index& index, uint32_t predicate) {
    const Array array = arrays_[a.array];
    const DType part = hlo::part_type(array.type->dtype);
    const int parts = hlo::num_parts(array.type->dtype);
    const bool present = is_present(a);
    std::vector<uint32_t> out;
    for (int p = 0; p < parts; ++p) {
      KernelInstr i{.op = KernelOp::kLoadAt,
                    .type = part,
                    .predicated = predicate != kNone,
                    .operands = {position(array.type->dims, index, parts, p), predicate, 0},
                    .imm = array.buffer};
      if (!i.predicated) i.operands[1] = 0;
      out.push_back(present ? effect(i) : prim(Prim::constant, part, {}, 0));
    }
    return out;
  }

  // The array that the value lies in as a whole, if it does.
  std::optional<ArrayVersion> resident(Operand o) {
    if (!frame_) return std::nullopt;
    if (frame_ && frame_->fills) {
      Frame* const inside = frame_;
      enter(inside->around);
      const std::optional<ArrayVersion> out = resident(o);
      enter(inside);
      return out;
    }
    if (const auto known = section_->arrays.find(o.bits()); known != section_->arrays.end())
      return known->second;
    const Node& n = *o.node();
    if (n.op() == Op::parameter) {
      const Binding& b = frame_->parameters.at(&n);
      if (b.kind == Binding::kArray && !b.sliced) return b.array;
    }
    if (n.op() == Op::identity || n.op() == Op::stop_gradient) return resident(n.operand(0));
    if (cluster::runs_branch(n)) {
      run_case(n);
      return section_->arrays.at(o.bits());
    }
    if (!cluster::is_loop_op(n.op())) return std::nullopt;
    if (o.index() < cluster::num_carried(n) && cluster::is_unchanged(n, o.index()))
      return resident(n.operand(o.index()));
    run_loop(n);
    return section_->arrays.at(o.bits());
  }
  // The buffer of a value that lies in memory as a whole and never changes.
  std::optional<uint32_t> memory_buffer(Operand o) {
    const Frame* f = frame_;
    for (; f && o.node()->op() == Op::parameter; f = f->around) {
      const Binding& b = f->parameters.at(o.node());
      if (b.kind != Binding::kMemory) return std::nullopt;
      o = b.outer;
    }
    if (f && o.node()->op() != Op::constant) return std::nullopt;
    return buffer(Value(o), false);
  }

  // --- writing whole arrays ---

  DimIndex component(const DimIndex& linear, const hlo::Type& type, size_t d, int64_t stride) {
    if (type.dims[d] == 1) return {};
    if (type.rank() == 1) return linear;
    const auto number = [&](int64_t n) {
      return prim(Prim::constant, DType::kS64, {}, static_cast<uint64_t>(n));
    };
    uint32_t at = index_value(linear);
    if (stride != 1) at = prim(Prim::div, DType::kS64, {at, number(stride)});
    if (d > 0) at = prim(Prim::rem, DType::kS64, {at, number(type.dims[d])});
    return computed(at);
  }
  // Element number `linear` of the value becomes that, counted from `first`, of some buffer.
  void add_element(Operand o, const DimIndex& first, const DimIndex& linear, std::vector<Write>& writes) {
    const hlo::Type& type = *o.node()->result_type(o.index());
    const Dims strides = hlo::row_major_strides(type.dims);
    Index index;
    for (size_t d = 0; d < type.dims.size(); ++d)
      index.push_back(linear.terms.empty()
                          ? DimIndex{.offset = linear.offset / strides[d] % type.dims[d], .terms = {}}
                          : component(linear, type, d, strides[d]));
    const std::vector<uint32_t> parts = emit(o, index, kNone);
    const int count = static_cast<int>(parts.size());
    for (int p = 0; p < count; ++p)
      writes.push_back({index_value(shifted(scaled(sum(first, linear), count), p)), parts[p], kNone});
  }
  void write_element(Operand o, uint32_t buffer, const DimIndex& first, const DimIndex& linear) {
    std::vector<Write> writes;
    add_element(o, first, linear, writes);
    for (const Write& w : writes) write(buffer, w);
  }
  void fill(Operand o, uint32_t buffer, const DimIndex& first) {
    const int64_t elements = o.node()->result_type(o.index())->num_elements;
    if (elements <= cluster::kMostWrittenOut) {
      for (int64_t e = 0; e < elements; ++e) write_element(o, buffer, first, {.offset = e, .terms = {}});
      return;
    }
    const size_t number = repeats_.size();
    const int dim = static_cast<int>(extents_.size());
    extents_.push_back(elements);
    repeats_.emplace_back();
    Section inside;
    Frame frame{frame_, &inside, dim, {}, nullptr, true};
    if (frame_)
      for (const auto& [node, b] : frame_->parameters)
        frame.parameters.emplace(node, b.kind == Binding::kArray
                                           ? b
                                           : Binding{.kind = Binding::kMemory,
                                                     .first = 0,
                                                     .outer = Operand(const_cast<Node*>(node), 0),
                                                     .step = {}});
    enter(&frame);
    write_element(o, buffer, first, {.offset = 0, .terms = {{dim, 1}}});
    enter(frame.around);
    repeats_[number].body = std::move(inside.code);
    effect({.op = KernelOp::kRepeat, .type = DType::kS64, .imm = number});
  }

  // --- windows ---

  static bool is_within(Operand start, int64_t last) {
    const int64_t limit = hlo::known_limit(Value(start));
    return limit > 0 && limit <= last + 1;
  }

  // What the window's elements become, and where.
  void add_writes(const Node& n, const Window& w, std::vector<Write>& writes) {
    const Dims& dims = n.type()->dims;
    int64_t count = 1;
    for (int64_t size : w.update.sizes) count *= size;
    const Dims strides = hlo::row_major_strides(w.update.sizes);
    for (int64_t e = 0; e < count; ++e) {
      Index to, from = within(w.update);
      uint32_t inside = kNone;
      for (size_t d = 0; d < dims.size(); ++d) {
        const int64_t offset = e / strides[d] % w.update.sizes[d];
        to.push_back(shifted(w.start[d], offset));
        if (w.update.from[d] >= 0) from[w.update.from[d]].offset = offset;
        if (!w.update.clamped && w.update.starts[d].node() &&
            !is_within(w.update.starts[d], dims[d] - w.update.sizes[d])) {
          to[d] = computed(index_value(to[d]));
          inside = both(inside, below(to[d].value, dims[d]));
        }
      }
      std::vector<uint32_t> old;
      if (w.update.combine) old = emit(n.operand(0), to, inside);
      const std::vector<uint32_t> parts =
          combined(w.update, std::move(old), emit(w.update.update, from, kNone));
      for (size_t p = 0; p < parts.size(); ++p)
        writes.push_back(
            {position(dims, to, static_cast<int>(parts.size()), static_cast<int>(p)), parts[p], inside});
    }
  }

  // --- assignments ---

  // The value without the updates that can be written in place, which are
  // collected, last first.
  Operand base_of(Operand o, std::vector<const Node*>* updates) const {
    while (true) {
      if (!frame_) return o;  // in memory
      const std::optional<cluster::WindowUpdate> u = cluster::window_update(*o.node());
      if (!u || u->update.node()->result_type(u->update.index())->num_elements > cluster::kMostWrittenOut)
        return o;
      updates->push_back(o.node());
      o = o.node()->operand(0);
    }
  }

  // Everything that the value of `o` needs is read now; what it becomes can be
  // written when nothing reads the arrays `changing` any more. An array that
  // nothing else knows of (`fresh`) is written now.
  Assignment prepare(Operand o, uint32_t target, bool fresh, const std::vector<uint32_t>& changing) {
    const uint32_t to = arrays_[target].buffer;
    const hlo::Type& type = *arrays_[target].type;
    Assignment out{.array = target};
    std::vector<const Node*> updates;
    const Operand base = base_of(o, &updates);
    if (const std::optional<ArrayVersion> known = resident(base)) {
      out.base = known;
      if (known->array != target) out.from = arrays_[known->array].buffer;
      if (out.from && std::find(changing.begin(), changing.end(), known->array) != changing.end() && !fresh) {
        is_present(*known);
        const uint32_t between = own_buffer(type);
        copy(between, *out.from, type);
        out.from = between;
        out.base.reset();
      }
    } else if (const std::optional<uint32_t> memory = memory_buffer(base)) {
      out.from = memory;
    } else if (type.num_elements <= cluster::kMostWrittenOut) {
      for (int64_t e = 0; e < type.num_elements; ++e)
        add_element(base, {}, {.offset = e, .terms = {}}, out.writes);
    } else if (fresh) {
      fill(base, to, {});
    } else {
      out.from = own_buffer(type);
      fill(base, *out.from, {});
    }
    if (fresh && out.from) {
      if (out.base) is_present(*out.base);
      copy(to, *out.from, type);
      out.from.reset();
      out.base.reset();
    }
    for (size_t i = updates.size(); i-- > 0;) add_writes(*updates[i], *window(*updates[i]), out.writes);
    return out;
  }
  void commit(const Assignment& a) {
    if (a.base) is_present(*a.base);
    if (a.from) copy(arrays_[a.array].buffer, *a.from, *arrays_[a.array].type);
    for (const Write& w : a.writes) write(arrays_[a.array].buffer, w);
  }

  // --- loops ---

  // The array of the section's own that the loop may write in place of a copy
  // of what it starts with.
  std::optional<uint32_t> taken_over(const Node& loop, size_t i, const std::vector<uint32_t>& taken) {
    if (!frame_ || apart_.contains(&loop)) return std::nullopt;
    std::vector<const Node*> updates;
    const std::optional<ArrayVersion> known = resident(base_of(loop.operand(i), &updates));
    if (!known || arrays_[known->array].owner != section_ || !is_present(*known) ||
        std::find(taken.begin(), taken.end(), known->array) != taken.end())
      return std::nullopt;
    return known->array;
  }

  // What the region computes for these values.
  void need(const hlo::Computation& region, std::vector<Operand> values) {
    const auto needed = std::make_shared<HashSet<const Node*>>();
    needed_[&region] = needed;
    while (!values.empty()) {
      const Node* n = values.back().node();
      values.pop_back();
      if (needed->insert(n).second) values.insert(values.end(), n->operands().begin(), n->operands().end());
    }
  }

  // Numbers that do not wait for a loop are computed now, before one writes
  // what they may read.
  void settle() {
    HashMap<const Node*, bool> waits;
    const std::shared_ptr<HashSet<const Node*>> needed = needed_.at(frame_->region);
    for (const Node* n : frame_->region->nodes()) {
      if (!needed->contains(n)) continue;
      bool w = (cluster::is_loop_op(n->op()) || cluster::runs_branch(*n)) && !section_->repeats.contains(n);
      for (Operand o : n->operands()) w = w || waits.at(o.node());
      waits.emplace(n, w);
      if (!w && n->type()->is_array() && n->type()->is_scalar())
        emit(Operand(const_cast<Node*>(n), 0), {}, kNone);
    }
  }

  // What an operand that no step changes stands for in the loop's regions.
  Binding binding(Operand o, const DimIndex* step) {
    Binding b{.kind = Binding::kMemory, .first = 0, .outer = o, .step = step ? *step : DimIndex{}};
    if (in_memory(o)) {
      if (step) b.kind = Binding::kSlice;
    } else if (o.node()->result_type(o.index())->is_scalar()) {
      b.kind = Binding::kOuter;
    } else {
      b.kind = Binding::kArray;
      b.array = array_value(o);
      b.sliced = step != nullptr;
    }
    return b;
  }
  Binding value_binding(Operand o) override {
    if (o.node()->result_type(o.index())->is_scalar()) return ElementLowering::value_binding(o);
    return binding(o, nullptr);
  }
  // An array that holds the value.
  ArrayVersion array_value(Operand o) {
    if (const std::optional<ArrayVersion> known = resident(o)) return *known;
    const hlo::Type& type = *o.node()->result_type(o.index());
    const uint32_t array = new_array(own_buffer(type), type);
    prepare_fresh(o, array);
    const ArrayVersion made = written(array, nullptr);
    section_->arrays.emplace(o.bits(), made);
    return made;
  }
  void prepare_fresh(Operand o, uint32_t array) { commit(prepare(o, array, true, {})); }

  struct Carried {
    size_t i;  // operand
    uint32_t array;
  };
  // Gives the arrays that the loop changes what it starts with.
  std::vector<Carried> start_arrays(const Node& n) {
    std::vector<Carried> out;
    std::vector<uint32_t> taken;
    for (size_t i = 0; i < cluster::num_carried(n); ++i) {
      if (cluster::is_unchanged(n, i) || n.operand_type(i)->is_scalar()) continue;
      if (const std::optional<uint32_t> array = taken_over(n, i, taken)) {
        taken.push_back(*array);
        out.push_back({i, *array});
        continue;
      }
      const Value result(const_cast<Node*>(&n), static_cast<uint32_t>(i));
      const bool is_result = !frame_ && group_.repeat_read[i];
      out.push_back({i, new_array(is_result ? buffer(result, true) : own_buffer(*n.operand_type(i)),
                                  *n.operand_type(i))});
    }
    if (!taken.empty()) settle();
    std::vector<Assignment> assignments;
    for (const Carried& c : out) {
      const bool fresh = std::find(taken.begin(), taken.end(), c.array) == taken.end();
      assignments.push_back(prepare(n.operand(c.i), c.array, fresh, taken));
    }
    for (const Assignment& a : assignments) {
      commit(a);
      written(a.array, &n);
    }
    return out;
  }
  // The arrays that a scan stacks values in, by result.
  std::vector<std::optional<uint32_t>> stacked_arrays(const Node& n) {
    std::vector<std::optional<uint32_t>> out(n.num_results());
    for (size_t i = cluster::num_carried(n); i < out.size(); ++i) {
      const Value result(const_cast<Node*>(&n), static_cast<uint32_t>(i));
      if (frame_)
        out[i] = new_array(own_buffer(*result.type()), *result.type());
      else if (group_.repeat_read[i])
        out[i] = new_array(buffer(result, true), *result.type());
    }
    return out;
  }

  // One step: numbers, then arrays as a whole; then all that changes is
  // written.
  void emit_step(const Node& n, const hlo::Computation& body, const std::vector<Carried>& carried,
                 const std::vector<std::optional<uint32_t>>& stacked, const DimIndex& step, int step_dim,
                 Repeat& r) {
    std::vector<Operand> values;
    for (size_t i = 0; i < stacked.size(); ++i)
      if (stacked[i] || (i < cluster::num_carried(n) && !cluster::is_unchanged(n, i)))
        values.push_back(body.roots()[i].operand());
    need(body, std::move(values));
    std::vector<uint32_t> changing;
    for (const Carried& c : carried) {
      arrays_[c.array].owner = section_;
      changing.push_back(c.array);
    }
    const size_t num_carried = cluster::num_carried(n);
    for (size_t i = 0; i < num_carried; ++i) {
      const Value& root = body.roots()[i];
      if (cluster::is_unchanged(n, i) || !root.type()->is_scalar()) continue;
      const std::vector<uint32_t> parts = emit(root.operand(), {}, kNone);
      r.next.insert(r.next.end(), parts.begin(), parts.end());
    }
    for (size_t i = num_carried; i < stacked.size(); ++i)
      if (stacked[i])
        fill(body.roots()[i].operand(), arrays_[*stacked[i]].buffer,
             scaled(step, body.roots()[i].type()->num_elements));
    std::vector<Assignment> assignments;
    for (const Carried& c : carried)
      assignments.push_back(prepare(body.roots()[c.i].operand(), c.array, false, changing));
    for (const Assignment& a : assignments) commit(a);
    if (r.counted) step_remainders(r, step_dim);
  }

  // What the operands stand for in the loop's regions: numbers that change are
  // carried.
  std::vector<Binding> bindings_of(const Node& n, const std::vector<Carried>& carried, Repeat& r,
                                   RepeatUse& use) {
    std::vector<Binding> out;
    for (size_t i = 0; i < n.operands().size(); ++i) {
      use.first.push_back(static_cast<uint32_t>(r.init.size()));
      const Operand o = n.operand(i);
      Binding b{.kind = Binding::kArray, .first = use.first.back(), .outer = o, .step = {}};
      const auto array =
          std::find_if(carried.begin(), carried.end(), [&](const Carried& c) { return c.i == i; });
      if (i >= cluster::num_carried(n)) {
        if (!in_memory(o)) array_value(o);  // which may take loops, ahead of this one
      } else if (array != carried.end()) {
        b.array = {array->array, arrays_[array->array].version};
      } else if (cluster::is_unchanged(n, i)) {
        b = binding(o, nullptr);
      } else {
        b.kind = Binding::kCarried;
        b.limit = counter_limit(n, i);
        for (uint32_t v : emit(o, {}, kNone)) r.init.push_back(v);
      }
      out.push_back(std::move(b));
    }
    return out;
  }

  // Emits the instruction that runs the loop in the present section, if that
  // has none yet.
  void run_loop(const Node& n) {
    if (section_->repeats.contains(&n)) return;
    const std::vector<Carried> carried = start_arrays(n);
    const std::vector<std::optional<uint32_t>> stacked = stacked_arrays(n);
    Repeat r;
    r.counted = n.op() == Op::scan;
    const int64_t length = r.counted ? n.attrs().integer(Attr::length) : 0;
    RepeatUse use;
    std::vector<Binding> bindings = bindings_of(n, carried, r, use);
    const size_t number = repeats_.size();
    const int step_dim = static_cast<int>(extents_.size());
    extents_.push_back(length);
    repeats_.emplace_back();
    DimIndex step{.offset = 0, .terms = {{step_dim, 1}}};
    if (n.attrs().flag(Attr::reverse)) step = {.offset = length - 1, .terms = {{step_dim, -1}}};
    for (size_t i = cluster::num_carried(n); i < bindings.size(); ++i)
      bindings[i] = binding(n.operand(i), &step);
    if (!r.counted) {
      const Section cond =
          region(*n.attrs().computation(Attr::cond), bindings, step_dim, [&](const hlo::Computation& c) {
            need(c, {c.roots()[0].operand()});
            r.condition = emit(c.roots()[0].operand(), {}, kNone)[0];
          });
      r.cond = cond.code;
    }
    const Section body =
        region(*n.attrs().computation(Attr::body), bindings, step_dim,
               [&](const hlo::Computation& c) { emit_step(n, c, carried, stacked, step, step_dim, r); });
    r.body = body.code;
    repeats_[number] = std::move(r);
    use.instr = effect({.op = KernelOp::kRepeat, .type = DType::kS64, .imm = number});
    section_->repeats.emplace(&n, std::move(use));
    const auto made = [&](uint32_t result, uint32_t array) {
      arrays_[array].owner = section_;
      section_->arrays.emplace(Operand(const_cast<Node*>(&n), result).bits(), written(array, &n));
    };
    for (const Carried& c : carried) made(static_cast<uint32_t>(c.i), c.array);
    for (uint32_t i = 0; i < stacked.size(); ++i)
      if (stacked[i]) made(i, *stacked[i]);
  }

  // --- branches ---

  // For each result of a case that is an array: where the branches leave it,
  // and the operand that lies there before (0: none).
  struct Outcome {
    size_t result;
    uint32_t array;
    size_t operand = 0;
  };
  std::vector<Outcome> outcomes_of(const Node& n) {
    std::vector<Outcome> out;
    std::vector<uint32_t> taken;
    for (uint32_t r = 0; r < n.num_results(); ++r) {
      if (n.result_type(r)->is_scalar()) continue;
      Outcome o{.result = r, .array = 0};
      for (const hlo::ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
        std::vector<const Node*> updates;
        const Node* base = base_of(branch->roots()[r].operand(), &updates).node();
        for (size_t p = 0; p < branch->parameters().size() && o.operand == 0; ++p)
          if (branch->parameters()[p].node() == base)
            if (const std::optional<uint32_t> array = taken_over(n, p + 1, taken)) {
              o.array = *array;
              o.operand = p + 1;
              taken.push_back(*array);
            }
      }
      if (o.operand == 0) o.array = new_array(own_buffer(*n.result_type(r)), *n.result_type(r));
      out.push_back(o);
    }
    if (!taken.empty()) settle();
    std::vector<Assignment> assignments;
    for (const Outcome& o : out)
      if (o.operand > 0) assignments.push_back(prepare(n.operand(o.operand), o.array, false, taken));
    for (const Assignment& a : assignments) commit(a);
    for (const Outcome& o : out) written(o.array, &n);
    return out;
  }

  // One branch, whose numbers are the carried ones but the first.
  Section emit_branch(const hlo::Computation& branch, const std::vector<Outcome>& outcomes,
                      const std::vector<Binding>& bindings, int dim, Repeat& r) {
    return region(branch, bindings, dim, [&](const hlo::Computation& c) {
      std::vector<Operand> values;
      for (const Value& root : c.roots()) values.push_back(root.operand());
      need(c, std::move(values));
      std::vector<uint32_t> changing;
      for (const Outcome& o : outcomes) {
        if (o.operand > 0) arrays_[o.array].owner = section_;
        changing.push_back(o.array);
      }
      r.next.push_back(prim(Prim::constant, DType::kBool, {}, 0));
      for (const Value& root : c.roots())
        if (root.type()->is_scalar())
          for (uint32_t v : emit(root.operand(), {}, kNone)) r.next.push_back(v);
      std::vector<Assignment> assignments;
      for (const Outcome& o : outcomes)
        assignments.push_back(prepare(c.roots()[o.result].operand(), o.array, o.operand == 0, changing));
      for (const Assignment& a : assignments) commit(a);
    });
  }

  // A case of which one branch runs: a loop for each, of one step or none.
  void run_case(const Node& n) {
    if (section_->repeats.contains(&n)) return;
    const std::vector<hlo::ComputationPtr>& branches = n.attrs().computations(Attr::branches);
    const uint32_t at = emit(n.operand(0), {}, kNone)[0];
    const std::vector<Outcome> outcomes = outcomes_of(n);
    std::vector<Binding> bindings;
    for (size_t i = 1; i < n.operands().size(); ++i) {
      const auto own =
          std::find_if(outcomes.begin(), outcomes.end(), [&](const Outcome& o) { return o.operand == i; });
      bindings.push_back(own == outcomes.end() ? binding(n.operand(i), nullptr) : Binding{});
      if (own == outcomes.end()) continue;
      bindings.back().kind = Binding::kArray;
      bindings.back().outer = n.operand(i);
      bindings.back().array = {own->array, arrays_[own->array].version};
    }
    RepeatUse use;
    std::vector<DType> types;
    for (uint32_t r = 0; r < n.num_results(); ++r) {
      use.first.push_back(static_cast<uint32_t>(1 + types.size()));
      const hlo::Type& type = *n.result_type(r);
      if (type.is_scalar()) types.insert(types.end(), hlo::num_parts(type.dtype), hlo::part_type(type.dtype));
    }
    std::vector<int> before;
    for (const Outcome& o : outcomes) before.push_back(arrays_[o.array].version);
    uint32_t others = kNone;  // whether an earlier branch has run
    for (size_t k = 0; k < branches.size(); ++k) {
      const uint32_t number = prim(Prim::constant, DType::kS32, {}, k);
      uint32_t runs = prim(Prim::eq, DType::kBool, {at, number});
      if (k + 1 == branches.size())
        runs = others == kNone ? prim(Prim::constant, DType::kBool, {}, 1)
                               : prim(Prim::bit_not, DType::kBool, {others});
      else
        others = others == kNone ? runs : prim(Prim::bit_or, DType::kBool, {others, runs});
      Repeat r;
      r.counted = false;
      r.init.push_back(runs);
      for (uint32_t v = 0; v < types.size(); ++v)
        r.init.push_back(k == 0 ? prim(Prim::constant, types[v], {}, 0)
                                : section_->emit({.op = KernelOp::kRepeated,
                                                  .type = types[v],
                                                  .operands = {use.instr, 0, 0},
                                                  .imm = v + uint64_t{1}}));
      r.cond = {{.op = KernelOp::kCarried, .type = DType::kBool}};
      const uint64_t place = repeats_.size();
      const int dim = static_cast<int>(extents_.size());
      extents_.push_back(0);
      repeats_.emplace_back();
      r.body = emit_branch(*branches[k], outcomes, bindings, dim, r).code;
      repeats_[place] = std::move(r);
      use.instr = effect({.op = KernelOp::kRepeat, .type = DType::kS64, .imm = place});
      // The next branch runs instead of this one.
      for (size_t i = 0; i < outcomes.size(); ++i) arrays_[outcomes[i].array].version = before[i];
    }
    section_->repeats.emplace(&n, std::move(use));
    for (const Outcome& o : outcomes) {
      arrays_[o.array].owner = section_;
      section_->arrays.emplace(Operand(const_cast<Node*>(&n), static_cast<uint32_t>(o.result)).bits(),
                               written(o.array, &n));
    }
  }

  // --- values ---

  std::vector<uint32_t> parameter(Operand o, const Index& index, uint32_t predicate) override {
    const Binding& b = frame_->parameters.at(o.node());
    if (b.kind != Binding::kArray) return ElementLowering::parameter(o, index, predicate);
    Index at = index;
    if (b.sliced) at.insert(at.begin(), b.step);
    return load_array(b.array, at, predicate);
  }

  std::vector<uint32_t> special(Operand o, const Index& index, uint32_t predicate) override {
    const Node& n = *o.node();
    if (cluster::is_loop_op(n.op())) return looped(o, index, predicate);
    if (n.op() == Op::case_) return cluster::runs_branch(n) ? looped(o, index, predicate) : chosen(o, index);
    if (const int64_t terms = cluster::written_out_terms(n))
      return n.op() == Op::reduce ? reduced(o, terms, index, predicate) : product(n, terms, index, predicate);
    if (n.op() == Op::dynamic_slice) return sliced(n, index, predicate);
    if (const std::optional<Window> w = window(n)) return read_updated(n, *w, index, predicate);
    fail(str_cat(n.def().name, " has no form in a loop over arrays"));
    return {0, 0};
  }

  std::vector<uint32_t> looped(Operand o, const Index& index, uint32_t predicate) {
    const Node& n = *o.node();
    const bool is_case = n.op() == Op::case_;
    if (!is_case && o.index() < cluster::num_carried(n) && cluster::is_unchanged(n, o.index()))
      return emit(n.operand(o.index()), index, predicate);
    const hlo::Type& type = *n.result_type(o.index());
    if (!type.is_scalar()) return load_array(*resident(o), index, predicate);
    if (is_case)
      run_case(n);
    else
      run_loop(n);
    const RepeatUse& use = section_->repeats.at(&n);
    std::vector<uint32_t> out;
    for (int p = 0; p < hlo::num_parts(type.dtype); ++p)
      out.push_back(section_->emit({.op = KernelOp::kRepeated,
                                    .type = hlo::part_type(type.dtype),
                                    .operands = {use.instr, 0, 0},
                                    .imm = use.first[o.index()] + static_cast<uint64_t>(p)}));
    return out;
  }

  const HashSet<const Node*>& apart_;
  const Node* hasty_ = nullptr;
  std::vector<Array> arrays_;
  int versions_ = 0;
  HashMap<const hlo::Computation*, std::shared_ptr<HashSet<const Node*>>> needed_;  // by region
};

}  // namespace

absl::StatusOr<LoweredLoop> lower_array_loop(const cluster::FusionPlan& plan, const cluster::Group& group) {
  HashSet<const hlo::Node*> apart;
  while (true) {
    ArrayLowering lowering(plan, group, apart);
    absl::StatusOr<LoweredLoop> loop = lowering.run();
    if (loop.ok() || !lowering.hasty() || !apart.insert(lowering.hasty()).second) return loop;
  }
}

}  // namespace lamina::jit
