// reduce_window and select_and_scatter as loops. A window that lies inside the array wherever it stands is
// reduced like any dimension. Where part of it may lie outside, the elements that are there have to enter the
// tree side by side: small windows are written out, and larger ones take a combination of which any order
// gives the same bits.
#include <algorithm>
#include <optional>

#include "hlo/op.h"
#include "jit/kernel/call_lowering.h"

namespace lamina::jit {
namespace {

using cluster::FusionPlan;
using cluster::Group;
using hlo::Attr;
using hlo::Op;

// Windows of so many elements are written out.
constexpr int64_t kMostWindowCode = 32;

struct WindowDim {
  int64_t size, stride, base_dilation, dilation, low;
  int64_t array, positions;  // extents
  // Whether it never reaches past an end of the array, nor between its elements.
  bool is_inside() const {
    return base_dilation == 1 && low <= 0 && (positions - 1) * stride + (size - 1) * dilation - low < array;
  }
};

std::vector<WindowDim> window_of(const hlo::Node& n, const hlo::Dims& array, const hlo::Dims& positions) {
  const hlo::Attrs& a = n.attrs();
  const auto at = [&](Attr key, size_t i, int64_t otherwise) {
    const hlo::Dims& list = a.ints(key);
    return list.empty() ? otherwise : list[i];
  };
  std::vector<WindowDim> out;
  for (size_t d = 0; d < array.size(); ++d)
    out.push_back({at(Attr::window_dimensions, d, 1), at(Attr::window_strides, d, 1),
                   at(Attr::base_dilations, d, 1), at(Attr::window_dilations, d, 1),
                   at(Attr::padding, 2 * d, 0), array[d], positions[d]});
  return out;
}

// Whether any order of combining gives the same bits.
bool is_order_free(const hlo::Computation& body, DType type) {
  if (body.roots().size() != 1) return false;
  const hlo::Node& root = *body.roots()[0].node();
  if (root.operands().size() != 2) return false;
  const auto is = [&](size_t a, size_t b) {
    return root.operand(0) == body.parameters()[a].operand() &&
           root.operand(1) == body.parameters()[b].operand();
  };
  if (!is(0, 1) && !is(1, 0)) return false;
  switch (root.op()) {
    case Op::maximum:
    case Op::minimum:
      return !hlo::is_complex(type);
    case Op::add:
    case Op::multiply:
      return !hlo::is_inexact(type);
    case Op::and_:
    case Op::or_:
    case Op::xor_:
      return true;
    default:
      return false;
  }
}

class WindowLowering : protected CallLowering {
 protected:
  using Parts = std::vector<uint32_t>;

  WindowLowering(const FusionPlan& plan, const Group& group, const hlo::Type& positions)
      : CallLowering(plan, group), window_(window_of(node_, node_.operand_type(0)->dims, positions.dims)) {
    for (const WindowDim& d : window_) volume_ *= d.size;
  }

  // Where element `offset` of the window at `position` lies along a dimension; `inside` gets whether it does.
  DimIndex element(const WindowDim& d, const DimIndex& position, const DimIndex& offset, uint32_t& inside) {
    const DimIndex at = shifted(plus(times(position, d.stride), times(offset, d.dilation)), -d.low);
    if (d.is_inside()) return at;
    const uint32_t place = index_value(at);
    inside = both(inside, within(place, d.array == 0 ? 0 : (d.array - 1) * d.base_dilation + 1));
    if (d.base_dilation == 1) return computed(place);
    const uint32_t step = argument(d.base_dilation);
    const uint32_t beside = prim(Prim::rem, DType::kS64, {place, step});
    inside = both(inside, prim(Prim::eq, DType::kBool, {beside, number(0)}));
    return computed(prim(Prim::div, DType::kS64, {place, step}));
  }

  const std::vector<WindowDim> window_;
  int64_t volume_ = 1;
};

class ReduceWindow final : WindowLowering {
 public:
  ReduceWindow(const FusionPlan& plan, const Group& group)
      : WindowLowering(plan, group, *group.anchors[0]->result_type(0)),
        arrays_(node_.operands().size() / 2),
        program_(hlo::region_program(*node_.attrs().computation(Attr::body))) {}

  absl::StatusOr<KernelSequence::Part> run() {
    if (!program_) return absl::UnimplementedError("what a window is combined by holds more than scalar ops");
    bool inside = true, dilated = false;
    for (const WindowDim& d : window_) {
      inside &= d.is_inside();
      dilated |= d.base_dilation != 1;
    }
    begin(node_.result_type(0)->dims);
    const bool order_free =
        arrays_ == 1 && is_order_free(*node_.attrs().computation(Attr::body), node_.operand_type(0)->dtype);
    if (inside)
      reduced();
    else if (order_free)
      in_any_order();
    else if (volume_ <= kMostWindowCode && !dilated)
      written_out();
    else
      return absl::UnimplementedError(
          "a large window that reaches past an end of the array has no form as a loop");
    return end_part();
  }

 private:
  void reduced() {
    Index at(window_.size());
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDim& w = window_[d];
      DimIndex offset;
      if (w.size != 1) {
        offset.terms = {{static_cast<int>(extents_.size()), w.dilation}};
        extents_.push_back(w.size);
      }
      at[d] = shifted(sum(scaled(identity_[d], w.stride), offset), -w.low);
    }
    for (size_t i = 0; i < arrays_; ++i)
      for (uint32_t v : read(i, at)) reduction_.inputs.push_back(v);
    for (size_t i = 0; i < arrays_; ++i) {
      const Value init = node_.operand_value(arrays_ + i);
      for (int p = 0; p < hlo::num_parts(init.dtype()); ++p)
        reduction_.init.push_back(access(init, {}, {}, p, false));
    }
    reduction_.combine = *program_;
    section_ = &epilogue_;
    uint64_t number = 0;
    for (uint32_t r = 0; r < node_.num_results(); ++r) {
      const DType type = node_.result_type(r)->dtype;
      Parts parts;
      for (int p = 0; p < hlo::num_parts(type); ++p)
        parts.push_back(
            section_->emit({.op = KernelOp::kReduced, .type = hlo::part_type(type), .imm = number++}));
      store_result(r, parts);
    }
  }

  Parts combined(Parts a, const Parts& b) {
    a.insert(a.end(), b.begin(), b.end());
    return apply(*program_, std::move(a));
  }

  void in_any_order() { store_result(0, over(0, kNone, read(1, {}))); }
  Parts over(size_t level, uint32_t inside, const Parts& carried) {
    if (level == window_.size()) {
      const Parts now = combined(carried, read(0, at_, inside));
      return inside == kNone ? now : select(inside, now, carried);
    }
    const Known around = known(inside);
    return steps_if_many(window_[level].size, carried, [&](const DimIndex& offset, const Parts& now) {
      uint32_t within_array = here(around);
      // Indices of the dimensions before are values of the sections around.
      const DimIndex at = element(window_[level], identity_[level], offset, within_array);
      if (at_.size() <= level) at_.resize(window_.size());
      places_.resize(window_.size());
      places_[level] = known(at);
      for (size_t d = 0; d <= level; ++d) at_[d] = here(places_[d]);
      return over(level + 1, within_array, now);
    });
  }

  // The elements that are there, one behind the other, in the lanes of the tree.
  void written_out() {
    std::vector<uint32_t> first(window_.size()), many(window_.size());
    uint32_t count = kNone;
    for (size_t d = 0; d < window_.size(); ++d) {
      const WindowDim& w = window_[d];
      if (w.size == 1 && w.is_inside()) continue;
      // Offsets o with 0 <= begin + o * dilation < array.
      const uint32_t begin = index_value(shifted(scaled(identity_[d], w.stride), -w.low));
      const uint32_t dilation = argument(w.dilation);
      const uint32_t missing = sub(add(dilation, number(-1)), begin);  // below 0: none
      const uint32_t low = most(prim(Prim::div, DType::kS64, {missing, dilation}), number(0));
      const uint32_t room = add(sub(argument(w.array), begin), add(dilation, number(-1)));
      const uint32_t high =
          least(most(prim(Prim::div, DType::kS64, {room, dilation}), number(0)), argument(w.size));
      first[d] = low;
      many[d] = most(sub(high, low), number(0));
      count = count == kNone ? many[d] : prim(Prim::mul, DType::kS64, {count, many[d]});
    }
    std::vector<Parts> lanes;
    for (int64_t j = 0; j < volume_; ++j) lanes.push_back(element_number(j, first, many, count));
    int64_t half = 1;
    while (half * 2 < volume_) half *= 2;
    for (; half >= 1; half /= 2)
      for (int64_t j = 0; j < half && j + half < volume_; ++j) {
        const uint32_t both_there = less(number(j + half), count);
        lanes[static_cast<size_t>(j)] =
            select(both_there, combined(lanes[static_cast<size_t>(j)], lanes[static_cast<size_t>(j + half)]),
                   lanes[static_cast<size_t>(j)]);
      }
    Parts init;
    for (size_t i = 0; i < arrays_; ++i)
      for (uint32_t v : read(arrays_ + i, {})) init.push_back(v);
    const Parts all = select(less(number(0), count), combined(lanes[0], init), init);
    size_t from = 0;
    for (uint32_t r = 0; r < node_.num_results(); ++r) {
      const auto parts = static_cast<size_t>(hlo::num_parts(node_.result_type(r)->dtype));
      store_result(r, Parts(all.begin() + static_cast<std::ptrdiff_t>(from),
                            all.begin() + static_cast<std::ptrdiff_t>(from + parts)));
      from += parts;
    }
  }
  Parts element_number(int64_t j, const std::vector<uint32_t>& first, const std::vector<uint32_t>& many,
                       uint32_t count) {
    const uint32_t is_there = less(number(j), count);
    Index at(window_.size());
    uint32_t left = number(j);
    for (size_t d = window_.size(); d-- > 0;) {
      const WindowDim& w = window_[d];
      at[d] = shifted(scaled(identity_[d], w.stride), -w.low);
      if (w.size == 1 && w.is_inside()) continue;
      const uint32_t offset = add(first[d], prim(Prim::rem, DType::kS64, {left, many[d]}));
      at[d] = plus(at[d], times(computed(offset), w.dilation));
      left = prim(Prim::div, DType::kS64, {left, many[d]});
    }
    Parts out;
    for (size_t i = 0; i < arrays_; ++i)
      for (uint32_t v : read(i, at, is_there)) out.push_back(v);
    return out;
  }

  const size_t arrays_;
  const std::optional<hlo::ScalarProgram> program_;
  Index at_;
  std::vector<KnownIndex> places_;
};

// Each element looks at the windows that hold it, in their order, and at what those choose.
class SelectAndScatter final : WindowLowering {
 public:
  SelectAndScatter(const FusionPlan& plan, const Group& group)
      : WindowLowering(plan, group, *group.anchors[0]->operand_type(1)),
        select_(hlo::region_program(*node_.attrs().computation(Attr::select))),
        scatter_(hlo::region_program(*node_.attrs().computation(Attr::scatter))) {}

  absl::StatusOr<KernelSequence::Part> run() {
    if (!select_ || !scatter_)
      return absl::UnimplementedError("what a window is selected or combined by holds more than scalar ops");
    begin(node_.type()->dims);
    at_.resize(window_.size());
    position_.resize(window_.size());
    own_ = known(position(node_.type()->dims, identity_, 1, 0));
    store_result(0, windows(0, kNone, read(2, {})));
    return end_part();
  }

 private:
  Parts windows(size_t level, uint32_t holds, const Parts& carried) {
    if (level == window_.size()) return chosen(holds, carried);
    const WindowDim& w = window_[level];
    const Known around = known(holds);
    const int64_t many = std::min((w.size + w.stride - 1) / w.stride, std::max<int64_t>(w.positions, 1));
    return steps_if_many(many, carried, [&](const DimIndex& i, const Parts& now) {
      const uint32_t own = index_value(shifted(identity_[level], w.low));
      // The first window that ends at or after the element.
      const uint32_t past = most(add(own, argument(w.stride - w.size)), number(0));
      const uint32_t first = prim(Prim::div, DType::kS64, {past, argument(w.stride)});
      const uint32_t at = index_value(plus(computed(first), i));
      const uint32_t offset = sub(own, prim(Prim::mul, DType::kS64, {at, argument(w.stride)}));
      const uint32_t is_one = both(within(at, w.positions), within(offset, w.size));
      position_[level] = known(computed(at));
      return windows(level + 1, both(here(around), is_one), now);
    });
  }

  // The source of the window, where that chooses this element.
  Parts chosen(uint32_t holds, const Parts& carried) {
    Index window(window_.size());
    for (size_t d = 0; d < window.size(); ++d) window[d] = here(position_[d]);
    const DType type = node_.operand_type(0)->dtype;
    Parts start{number(-1)};
    for (int p = 0; p < hlo::num_parts(type); ++p)
      start.push_back(prim(Prim::constant, hlo::part_type(type), {}, 0));
    const Parts best = elements(0, holds, start);
    const uint32_t hit = both(holds, prim(Prim::eq, DType::kBool, {best[0], here(own_)}));
    Parts operands = carried;
    for (uint32_t v : read(1, window, hit)) operands.push_back(v);
    return select(hit, apply(*scatter_, std::move(operands)), carried);
  }

  // Over the window's elements: which is chosen (-1: none yet), and its value.
  Parts elements(size_t level, uint32_t inside, const Parts& carried) {
    if (level == window_.size()) {
      Index at(window_.size());
      for (size_t d = 0; d < at.size(); ++d) at[d] = here(at_[d]);
      const Parts value = read(0, at, inside);
      Parts operands(carried.begin() + 1, carried.end());
      operands.insert(operands.end(), value.begin(), value.end());
      const uint32_t none = less(carried[0], number(0));
      const uint32_t keeps = apply(*select_, std::move(operands))[0];
      const uint32_t takes = both(inside, prim(Prim::bit_or, DType::kBool, {none, negated(keeps)}));
      Parts next{position(node_.operand_type(0)->dims, at, 1, 0)};
      next.insert(next.end(), value.begin(), value.end());
      return select(takes, next, carried);
    }
    const WindowDim& w = window_[level];
    const Known around = known(inside);
    return steps_if_many(w.size, carried, [&](const DimIndex& offset, const Parts& now) {
      uint32_t there = here(around);
      at_[level] = known(element(w, here(position_[level]), offset, there));
      return elements(level + 1, there, now);
    });
  }

  const std::optional<hlo::ScalarProgram> select_, scatter_;
  Known own_;
  std::vector<KnownIndex> position_, at_;
};

template <class Lowering>
absl::StatusOr<KernelSequence> lowered_window(const FusionPlan& plan, const Group& group) {
  absl::StatusOr<KernelSequence::Part> part = Lowering(plan, group).run();
  if (!part.ok()) return part.status();
  KernelSequence out;
  out.parts.push_back(*std::move(part));
  return out;
}

}  // namespace

absl::StatusOr<KernelSequence> lower_reduce_window(const FusionPlan& plan, const Group& group) {
  return lowered_window<ReduceWindow>(plan, group);
}
absl::StatusOr<KernelSequence> lower_select_and_scatter(const FusionPlan& plan, const Group& group) {
  return lowered_window<SelectAndScatter>(plan, group);
}

}  // namespace lamina::jit
