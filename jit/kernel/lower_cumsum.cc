// cumsum as loops, in the order of hlo/reference_cumsum.h. For each level from the array up a kernel makes
// the sums of the level's groups, which are the elements of the next; then for each level down to the array
// one makes the running sums. Each element reads those before it in its group, so that all are made side by
// side.
#include <array>

#include "hlo/op.h"
#include "hlo/reference_cumsum.h"
#include "jit/kernel/call_lowering.h"

namespace lamina::jit {
namespace {

using cluster::FusionPlan;
using cluster::Group;
using hlo::kCumsumGroup;

// Lines along the middle of [outer, length, inner]: of the array, or of the sums of groups.
struct LevelShape {
  int64_t outer, length, inner;

  hlo::Dims dims() const { return {outer, length, inner}; }
  // Of the sums of all groups but the last.
  LevelShape above() const { return {outer, (length + kCumsumGroup - 1) / kCumsumGroup - 1, inner}; }
};

// SharedSums that the kernels share: of each part of each level but the array, the sums of groups and what
// runs over those.
struct SharedSums {
  int number(size_t level, int part, bool running) const {
    return static_cast<int>(2 * (static_cast<size_t>(parts) * (level - 1) + static_cast<size_t>(part))) +
           running;
  }
  int parts;
};

class CumsumLowering final : CallLowering {
 public:
  using Parts = std::vector<uint32_t>;

  // A kernel of this level: the array's is 0.
  CumsumLowering(const FusionPlan& plan, const Group& group, size_t level, const LevelShape& shape)
      : CallLowering(plan, group),
        level_(level),
        shape_(shape),
        type_(node_.type()->dtype),
        memory_{hlo::num_parts(type_)},
        add_(hlo::scalar_program(hlo::Op::add, std::array{type_, type_}, type_, *hlo::intern_attrs({}))) {}

  absl::StatusOr<KernelSequence::Part> sums_of_groups() {
    const LevelShape above = shape_.above();
    begin(above.dims());
    std::array<Parts, kCumsumGroup> sums;
    const std::vector<uint32_t> from = array_of(level_, false, false);
    for (int64_t i = 0; i < kCumsumGroup; ++i)
      sums[static_cast<size_t>(i)] = element(from, shifted(times(identity_[1], kCumsumGroup), i), kNone);
    for (size_t count = kCumsumGroup; count > 1; count /= 2)
      for (size_t i = 0; i < count / 2; ++i) sums[i] = added(sums[2 * i], sums[2 * i + 1]);
    const std::vector<uint32_t> to = array_of(level_ + 1, false, true);
    for (size_t p = 0; p < to.size(); ++p) store_shared(to[p], place(above, identity_[1]), sums[0][p]);
    return end_part();
  }

  absl::StatusOr<KernelSequence::Part> running_sums() {
    begin(shape_.dims());
    const DimIndex at = logical(identity_[1]);
    const uint32_t i = index_value(at), in_group = prim(Prim::rem, DType::kS64, {i, number(kCumsumGroup)});
    // Whether so many elements lie before this one in its group.
    std::array<uint32_t, kCumsumGroup> has;
    has[0] = kNone;
    for (size_t d = 1; d < has.size(); ++d)
      has[d] = prim(Prim::le, DType::kBool, {number(static_cast<int64_t>(d)), in_group});
    // What doubling makes of the elements d before this one, from the nearest on.
    std::array<Parts, kCumsumGroup> sums;
    const std::vector<uint32_t> from = array_of(level_, false, false);
    for (size_t d = 0; d < sums.size(); ++d)
      sums[d] = element(from, shifted(at, -static_cast<int64_t>(d)), has[d]);
    for (size_t step = 1; step < sums.size(); step *= 2)
      for (size_t d = 0; d < sums.size(); d += 2 * step)
        sums[d] = select(has[d + step], added(sums[d + step], sums[d]), sums[d]);
    Parts out = sums[0];
    if (const LevelShape above = shape_.above(); above.length > 0) {
      const uint32_t group = prim(Prim::div, DType::kS64, {i, number(kCumsumGroup)});
      const uint32_t is_behind_another = less(number(0), group);
      const DimIndex before = place(above, computed(sub(group, number(1))));
      Parts sum;
      for (uint32_t array : array_of(level_ + 1, true, false))
        sum.push_back(load_shared(array, before, is_behind_another));
      out = select(is_behind_another, added(sum, out), out);
    }
    const std::vector<uint32_t> to = level_ == 0 ? std::vector<uint32_t>() : array_of(level_, true, true);
    for (size_t p = 0; p < out.size(); ++p) {
      if (level_ == 0)
        stores_.push_back({access(result(0), shape_.dims(), identity_, static_cast<int>(p), true), out[p]});
      else
        store_shared(to[p], place(shape_, identity_[1]), out[p]);
    }
    return end_part();
  }

 private:
  Parts added(const Parts& a, const Parts& b) {
    Parts both = a;
    both.insert(both.end(), b.begin(), b.end());
    return apply(add_, both);
  }
  // Sums may run from the array's end.
  DimIndex logical(const DimIndex& along) {
    const bool reverse = level_ == 0 && node_.attrs().flag(hlo::Attr::reverse);
    return reverse ? shifted(times(along, -1), shape_.length - 1) : along;
  }
  // By part; none of the operand.
  std::vector<uint32_t> array_of(size_t level, bool running, bool written) {
    std::vector<uint32_t> out;
    for (int p = 0; p < memory_.parts && level > 0; ++p)
      out.push_back(shared_array(hlo::part_type(type_), written, memory_.number(level, p, running)));
    return out;
  }
  // Of a line at this element's place.
  DimIndex place(const LevelShape& shape, const DimIndex& along) {
    return plus(plus(times(identity_[0], shape.length * shape.inner), times(along, shape.inner)),
                identity_[2]);
  }
  // The line's element, counted from where its sums begin.
  Parts element(const std::vector<uint32_t>& from, const DimIndex& at, uint32_t predicate) {
    if (level_ == 0)
      return load(node_.operand_value(0), shape_.dims(), {identity_[0], logical(at), identity_[2]},
                  predicate);
    Parts out;
    for (uint32_t array : from) out.push_back(load_shared(array, place(shape_, at), predicate));
    return out;
  }

  const size_t level_;
  const LevelShape shape_;
  const DType type_;
  const SharedSums memory_;
  const hlo::ScalarProgram& add_;
};

}  // namespace

absl::StatusOr<KernelSequence> lower_cumsum(const FusionPlan& plan, const Group& group) {
  const hlo::Node& node = *group.anchors[0];
  const hlo::CumsumLines lines = hlo::cumsum_lines(node);
  std::vector<LevelShape> levels{{lines.outer, lines.length, lines.inner}};
  while (levels.back().above().length > 0) levels.push_back(levels.back().above());
  KernelSequence out;
  const hlo::DType part = hlo::part_type(node.type()->dtype);
  for (size_t l = 1; l < levels.size(); ++l)
    out.shared_bytes.insert(out.shared_bytes.end(),
                            2 * static_cast<size_t>(hlo::num_parts(node.type()->dtype)),
                            hlo::product(levels[l].dims()) * hlo::byte_size(part));
  const auto add = [&](absl::StatusOr<KernelSequence::Part> kernel) {
    if (kernel.ok()) out.parts.push_back(*std::move(kernel));
    return kernel.status();
  };
  for (size_t l = 0; l + 1 < levels.size(); ++l)
    if (absl::Status s = add(CumsumLowering(plan, group, l, levels[l]).sums_of_groups()); !s.ok()) return s;
  for (size_t l = levels.size(); l-- > 0;)
    if (absl::Status s = add(CumsumLowering(plan, group, l, levels[l]).running_sums()); !s.ok()) return s;
  return out;
}

}  // namespace lamina::jit
