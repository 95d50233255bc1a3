#include "jit/program/step_costs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "hlo/attributes.h"
#include "hlo/computation.h"
#include "hlo/conv_shape.h"
#include "hlo/hash_map.h"
#include "hlo/linalg/calls.h"
#include "hlo/op.h"
#include "hlo/regions.h"
#include "jit/program/executable.h"

namespace lamina::jit {
namespace {

using cluster::Group;
using cluster::GroupKind;
using hlo::Attr;
using hlo::DType;
using hlo::Node;
using hlo::Op;
using hlo::Prim;
using hlo::Type;
using hlo::Value;

// What one node does, on all its elements.
struct Work {
  int64_t instrs = 0, flops = 0, double_flops = 0;

  Work times(int64_t n) const { return {instrs * n, flops * n, double_flops * n}; }
};

Work work_of(const hlo::ScalarProgram& program) {
  Work out;
  for (const hlo::ScalarInstr& i : program.code) {
    if (i.prim == Prim::constant) continue;
    ++out.instrs;
    const bool counts = i.prim == Prim::add || i.prim == Prim::sub || i.prim == Prim::mul ||
                        i.prim == Prim::div || i.prim == Prim::sqrt || i.prim == Prim::fma;
    if (!counts || !hlo::is_float(i.type)) continue;
    const int64_t flops = i.prim == Prim::fma ? 2 : 1;
    out.flops += flops;
    if (i.type == DType::kF64) out.double_flops += flops;
  }
  return out;
}

int64_t elements_of(const Type& type) {
  if (!type.is_tuple()) return type.num_elements;
  int64_t most = 0;
  for (const Type* t : type.elements) most = std::max(most, t->num_elements);
  return most;
}

int64_t bytes_of_results(const Node& n) {
  int64_t bytes = 0;
  for (uint32_t i = 0; i < n.num_results(); ++i) bytes += n.result_type(i)->bytes();
  return bytes;
}

// Of one application of a region that may hold more than elementwise ops.
Work work_of(const hlo::Computation& region);

// As many products and sums of the elements of a dot or convolution.
Work products(const Node& n, int64_t count) {
  const DType type = n.operand_type(0)->dtype;
  Work out{2 * count, hlo::is_inexact(type) ? (hlo::is_complex(type) ? 8 : 2) * count : 0, 0};
  if (hlo::part_type(type) == DType::kF64) out.double_flops = out.flops;
  return out;
}

int64_t dot_products(const Node& n) {
  int64_t count = n.type()->num_elements;
  for (int64_t d : n.attrs().ints(Attr::lhs_contracting_dimensions)) count *= n.operand_type(0)->dims[d];
  return count;
}

// By the customary leading terms, of a matrix of m rows and n columns, with r further columns.
double routine_flops(std::string_view name, double m, double n, double r) {
  const double k = std::min(m, n), most = std::max(m, n);
  if (name == "lamina.cholesky" || name == "lamina.mean_cholesky") return n * n * n / 3;
  if (name == "lamina.lu") return k * k * (most - k / 3);
  if (name == "lamina.geqrf" || name == "lamina.qr") return 2 * k * k * (most - k / 3);
  if (name == "lamina.solve") return 2 * n * n * (n / 3 + r);
  if (name.starts_with("lamina.solve_")) return n * n * r;
  if (name.starts_with("lamina.lu_solve")) return 2 * n * n * r;
  if (name == "lamina.eigh") return 9 * n * n * n;
  if (name == "lamina.eigvalsh") return 4 * n * n * n / 3;
  if (name == "lamina.svd") return 14 * most * k * k + 8 * k * k * k;
  if (name == "lamina.svdvals") return 4 * most * k * k - 4 * k * k * k / 3;
  if (name == "lamina.eigvals") return 10 * n * n * n;
  if (name == "lamina.hessenberg") return 10 * n * n * n / 3;
  if (name == "lamina.det" || name == "lamina.slogdet") return n;
  return 25 * n * n * n;  // eig, schur and what is made of them
}

Work routine_work(const Node& n, std::string_view name) {
  const Type& a = *n.operand_type(0);
  if (a.rank() == 0 || a.num_elements == 0) return {};
  const int64_t columns = a.dims.back(), rows = a.rank() > 1 ? a.dims[a.rank() - 2] : 1;
  const int64_t batch = a.num_elements / (rows * columns);
  if (name.find("fft") != std::string_view::npos) {
    const int64_t planes = name.ends_with('3') ? a.dims[a.rank() - 3] : 1;
    const auto length =
        static_cast<double>(name.ends_with("_columns")                   ? rows
                            : name.ends_with('2') || name.ends_with('3') ? planes * rows * columns
                                                                         : columns);
    const double one = (hlo::is_complex(a.dtype) ? 5 : 2.5) * std::log2(std::max(length, 2.0));
    const auto flops = static_cast<int64_t>(std::llround(one * static_cast<double>(a.num_elements)));
    return {flops, flops, hlo::part_type(a.dtype) == DType::kF64 ? flops : 0};
  }
  const Type& last = *n.operand_type(n.operands().size() - 1);
  const double further = last.rank() > 0 ? static_cast<double>(last.dims.back()) : 1;
  const double one = routine_flops(name, static_cast<double>(rows), static_cast<double>(columns), further);
  const auto flops = static_cast<int64_t>(std::llround(one * (hlo::is_complex(a.dtype) ? 4 : 1))) * batch;
  return {flops, flops, flops};  // they compute in double precision
}

Work work_of(const Node& n) {
  const int64_t elements = elements_of(*n.type());
  const auto region = [&](Attr a) { return work_of(*n.attrs().computation(a)); };
  if (n.def().is_elementwise()) {
    Work out = work_of(hlo::scalar_program(n)).times(elements);
    out.instrs = std::max(out.instrs, elements);
    return out;
  }
  switch (n.op()) {
    case Op::reduce:
      return region(Attr::body).times(n.operand_type(0)->num_elements);
    case Op::reduce_window: {
      int64_t window = 1;
      for (int64_t d : n.attrs().ints(Attr::window_dimensions)) window *= d;
      return region(Attr::body).times(elements * window);
    }
    case Op::select_and_scatter: {
      int64_t window = 1;
      for (int64_t d : n.attrs().ints(Attr::window_dimensions)) window *= d;
      const int64_t sources = n.operand_type(1)->num_elements;
      Work out = region(Attr::scatter).times(sources);
      out.instrs += 2 * sources * window;
      return out;
    }
    case Op::scatter: {
      const int64_t updates = n.operand_type(n.operands().size() - 1)->num_elements;
      Work out = region(Attr::body).times(updates);
      out.instrs += updates;
      return out;
    }
    case Op::sort: {
      const int64_t levels = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(elements, 2) - 1));
      return {elements * levels, 0, 0};
    }
    case Op::cumsum:
      return {2 * elements, hlo::is_integer(n.type()->dtype) ? 0 : elements,
              hlo::part_type(n.type()->dtype) == DType::kF64 ? elements : 0};
    case Op::dot_general:
      return products(n, dot_products(n));
    case Op::convolution: {
      const hlo::ConvShape shape = hlo::conv_shape(n);
      return products(n, elements * shape.window() * shape.filter_input);
    }
    case Op::rng_bit_generator:
      return {16 * elements, 0, 0};
    case Op::custom_call: {
      const std::string& name = n.attrs().string(Attr::call_target_name);
      if (hlo::linalg::find_routine(name)) return routine_work(n, name);
      // One that stands for what its body does.
      return n.attrs().has(Attr::body) ? region(Attr::body) : Work{elements, 0, 0};
    }
    case Op::scan:
      return region(Attr::body).times(n.attrs().integer(Attr::length));
    case Op::while_:
      return region(Attr::body);
    case Op::call:
      return region(Attr::body);
    default:
      return {};  // it moves elements
  }
}

Work work_of(const hlo::Computation& region) {
  Work out;
  for (const Node* n : region.nodes()) {
    if (n->op() == Op::parameter || n->op() == Op::constant) continue;
    const Work w = work_of(*n);
    out.instrs += w.instrs;
    out.flops += w.flops;
    out.double_flops += w.double_flops;
  }
  return out;
}

// Bytes that `n` reads of operand `i`.
int64_t bytes_read(const Node& n, size_t i) {
  const Type& type = *n.operand_type(i);
  switch (n.op()) {
    case Op::slice:
    case Op::dynamic_slice:
    case Op::gather:
      return i == 0 ? std::min(type.bytes(), bytes_of_results(n)) : type.bytes();
    case Op::dynamic_update_slice:
      return i == 0 ? 0 : type.bytes();  // it is written over
    default:
      return type.bytes();
  }
}

class Counter {
 public:
  explicit Counter(const Executable& program) : program_(program), groups_(program.fusion().groups) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      if (group.kind == GroupKind::kAlias || group.anchors[0]->op() == Op::constant) continue;
      group_of_step_.push_back(g);
    }
  }

  // Of steps `first` to `last`.
  StepCost count(int first, int last) {
    parts_.clear();
    StepCost out;
    out.device = program_.device().name();
    for (int s = first; s <= last; ++s) {
      const Step& step = *program_.steps()[static_cast<size_t>(s)];
      out.what += (s == first ? "" : "; ") + step.describe();
      out.is_parent |= !step.programs().empty();
      add_group(group_of_step_[static_cast<size_t>(s)], first, last, !step.programs().empty());
    }
    double sum = 0;
    for (const auto& [line, part] : parts_) sum += part.weight;
    for (const auto& [line, part] : parts_) {
      out.cost += part.cost;
      const double share = sum > 0 ? part.weight / sum : 1.0 / static_cast<double>(parts_.size());
      out.parts.push_back({line, part.cost, share});
    }
    return out;
  }

 private:
  struct Part {
    Cost cost;
    double weight = 0;
  };

  Part& part(const Node& n) { return parts_[n.location()]; }

  void add_work(const Node& n, const Work& work) {
    Part& p = part(n);
    p.cost.flops += work.flops;
    p.cost.double_flops += work.double_flops;
    p.weight += static_cast<double>(work.instrs);
  }

  // The nodes of a region that runs inside the kernel, each at its own line.
  void add_region(const hlo::Computation& region, int64_t turns) {
    for (const Node* n : region.nodes()) {
      if (n->op() == Op::parameter || n->op() == Op::constant) continue;
      if (n->op() == Op::scan)
        add_region(*n->attrs().computation(Attr::body), turns * n->attrs().integer(Attr::length));
      else if (n->op() == Op::while_)
        add_region(*n->attrs().computation(Attr::body), turns);
      else
        add_work(*n, work_of(*n).times(turns));
    }
  }

  // Whether a value is made by a step that runs together with steps `first` to `last`.
  bool made_among(const Node& n, int first, int last) const {
    const auto group = program_.fusion().group_of.find(&n);
    if (group == program_.fusion().group_of.end()) return false;
    for (int s = first; s <= last; ++s)
      if (group_of_step_[static_cast<size_t>(s)] == static_cast<size_t>(group->second)) return true;
    return false;
  }

  void add_group(size_t number, int first, int last, bool is_parent) {
    const Group& group = groups_[number];
    if (is_parent) {
      part(*group.anchors[0]).weight += 1;
      return;
    }
    const auto& group_of = program_.fusion().group_of;
    HashSet<const Node*> seen;
    std::vector<const Node*> members(group.anchors.begin(), group.anchors.end());
    for (const Node* n : members) seen.insert(n);
    struct Read {
      const Node* by;
      int64_t bytes;
    };
    HashMap<uint64_t, std::pair<Value, std::vector<Read>>> reads;
    for (size_t m = 0; m < members.size(); ++m) {
      const Node& n = *members[m];
      for (size_t i = 0; i < n.operands().size(); ++i) {
        const Node& from = *n.operand(i).node();
        const auto made = group_of.find(&from);
        const bool here = made != group_of.end() && static_cast<size_t>(made->second) == number;
        const bool inlined =
            made == group_of.end() && from.op() != Op::parameter && from.op() != Op::constant;
        if (here || inlined) {
          if (seen.insert(&from).second) members.push_back(&from);
          continue;
        }
        if (from.op() == Op::constant && from.type()->num_elements <= 1) continue;  // part of the code
        auto& [value, by] = reads[n.operand(i).bits()];
        if (!value) value = n.operand_value(i);
        by.push_back({&n, bytes_read(n, i)});
      }
    }
    for (const Node* n : members) {
      if (group.kind == GroupKind::kLoop && hlo::is_loop_op(n->op()))
        add_region(*n->attrs().computation(Attr::body),
                   n->op() == Op::scan ? n->attrs().integer(Attr::length) : 1);
      else
        add_work(*n, work_of(*n));
    }
    for (const auto& [bits, read] : reads) {
      const auto& [value, by] = read;
      int64_t left = value.type()->bytes();
      for (const Read& r : by) {
        const int64_t bytes = std::min(left, r.bytes);
        left -= bytes;
        Part& p = part(*r.by);
        if (!made_among(*value.node(), first, last)) p.cost.bytes += bytes;
        p.weight += static_cast<double>(bytes) / static_cast<double>(element_bytes(*value.type()));
      }
    }
    const std::vector<const Node*>& outputs = group.kind == GroupKind::kLoop ? group.outputs : group.anchors;
    for (const Node* n : outputs) {
      Part& p = part(*n);
      for (uint32_t i = 0; i < n->num_results(); ++i) {
        const bool may_be_unread = n == group.repeat || n == group.reduction;
        if (may_be_unread && i < group.repeat_read.size() && !group.repeat_read[i]) continue;
        const Type& type = *n->result_type(i);
        const int64_t bytes =
            n->op() == Op::dynamic_update_slice ? n->operand_type(1)->bytes() : type.bytes();
        p.cost.bytes += bytes;
        p.weight += static_cast<double>(bytes) / static_cast<double>(element_bytes(type));
      }
    }
  }

  static int64_t element_bytes(const Type& type) {
    return std::max<int64_t>(1, type.num_elements > 0 ? type.bytes() / type.num_elements : 1);
  }

  const Executable& program_;
  const std::vector<Group>& groups_;
  std::vector<size_t> group_of_step_;
  HashMap<hlo::LocationId, Part> parts_;
};

}  // namespace

std::vector<StepCost> step_costs(const Executable& program) {
  Counter counter(program);
  std::vector<StepCost> out;
  auto together = program.plan().together.begin();
  for (int s = 0; s < static_cast<int>(program.steps().size());) {
    const bool chained = together != program.plan().together.end() && together->first == s;
    const int last = chained ? (together++)->last : s;
    out.push_back(counter.count(s, last));
    s = last + 1;
  }
  return out;
}

}  // namespace lamina::jit
