// Products and convolutions as loops: an element adds its terms as hlo/reference_dot.h says.
#include <algorithm>
#include <array>
#include <functional>

#include "hlo/builder.h"
#include "hlo/conv_shape.h"
#include "hlo/op.h"
#include "hlo/reference_dot.h"
#include "hlo/scalar/adapters.h"
#include "jit/kernel/call_lowering.h"

namespace lamina::jit {
namespace {

using cluster::FusionPlan;
using cluster::Group;
using hlo::Attr;

class ChainLowering : protected CallLowering {
 protected:
  using Parts = std::vector<uint32_t>;

  ChainLowering(const FusionPlan& plan, const Group& group, int64_t terms)
      : CallLowering(plan, group), type_(node_.type()->dtype), terms_(terms) {
    accumulator_ = hlo::part_type(type_);
    if (hlo::is_storage_float(accumulator_)) accumulator_ = DType::kF32;
    // Sums of integers wrap, in any order.
    in_blocks_ = terms_ > hlo::kDotBlock && hlo::is_float(accumulator_);
  }

  // The carried values: the sum of each part, and those of the blocks before.
  Parts first() {
    Parts out(static_cast<size_t>(hlo::num_parts(type_)) * (in_blocks_ ? 2 : 1), nothing());
    return out;
  }
  // Term number `k`.
  Parts next(const DimIndex& k, const Parts& carried, const Parts& x, const Parts& y) {
    const size_t parts = static_cast<size_t>(hlo::num_parts(type_));
    Parts sums(carried.begin(), carried.begin() + static_cast<std::ptrdiff_t>(parts)), totals;
    if (in_blocks_) {
      const uint32_t in_block =
          prim(Prim::bit_and, DType::kS64, {index_value(k), number(hlo::kDotBlock - 1)});
      const uint32_t begins = prim(Prim::eq, DType::kBool, {in_block, number(0)});
      for (size_t p = 0; p < parts; ++p) {
        totals.push_back(choose(begins, add(carried[parts + p], sums[p]), carried[parts + p]));
        sums[p] = choose(begins, nothing(), sums[p]);
      }
    }
    Parts a, b;
    for (uint32_t v : x) a.push_back(wide(v));
    for (uint32_t v : y) b.push_back(wide(v));
    if (parts == 1) {
      sums[0] = with(a[0], b[0], sums[0]);
    } else {
      sums[0] = with(prim(Prim::neg, accumulator_, {a[1]}), b[1], with(a[0], b[0], sums[0]));
      sums[1] = with(a[1], b[0], with(a[0], b[1], sums[1]));
    }
    sums.insert(sums.end(), totals.begin(), totals.end());
    return sums;
  }
  Parts last(const Parts& carried) {
    Parts out;
    for (size_t p = 0; p < static_cast<size_t>(hlo::num_parts(type_)); ++p) {
      uint32_t v = terms_ == 0 ? prim(Prim::constant, accumulator_, {}, 0) : carried[p];
      if (in_blocks_) v = add(carried[carried.size() / 2 + p], v);
      if (accumulator_ != hlo::part_type(type_)) v = prim(Prim::convert, type_, {v});
      out.push_back(v);
    }
    return out;
  }

 private:
  // What added to a first term leaves it as it is: -0, of which a sum with +0 is +0.
  uint32_t nothing() {
    uint64_t bits = 0;
    if (hlo::is_float(accumulator_)) bits = uint64_t{1} << (8 * hlo::byte_size(accumulator_) - 1);
    return prim(Prim::constant, accumulator_, {}, bits);
  }
  uint32_t wide(uint32_t v) {
    return type_of(v) == accumulator_ ? v : prim(Prim::convert, accumulator_, {v});
  }
  uint32_t with(uint32_t x, uint32_t y, uint32_t sum) {
    if (hlo::is_float(accumulator_)) return prim(Prim::fma, accumulator_, {x, y, sum});
    return add(prim(Prim::mul, accumulator_, {x, y}), sum);
  }

  const DType type_;
  DType accumulator_;
  const int64_t terms_;
  bool in_blocks_;
};

int64_t terms_of_dot(const hlo::Node& n) {
  int64_t terms = 1;
  for (int64_t d : n.attrs().ints(Attr::lhs_contracting_dimensions)) terms *= n.operand_type(0)->dims[d];
  return terms;
}

class DotLowering final : ChainLowering {
 public:
  DotLowering(const FusionPlan& plan, const Group& group)
      : ChainLowering(plan, group, terms_of_dot(*group.anchors[0])) {}

  absl::StatusOr<KernelSequence::Part> run() {
    const hlo::Attrs& a = node_.attrs();
    const Dims &left_batch = a.ints(Attr::lhs_batching_dimensions),
               &right_batch = a.ints(Attr::rhs_batching_dimensions);
    left_summed_ = a.ints(Attr::lhs_contracting_dimensions);
    right_summed_ = a.ints(Attr::rhs_contracting_dimensions);
    begin(node_.type()->dims);
    left_.resize(node_.operand_type(0)->dims.size());
    right_.resize(node_.operand_type(1)->dims.size());
    size_t next = 0;
    for (size_t i = 0; i < left_batch.size(); ++i)
      left_[left_batch[i]] = right_[right_batch[i]] = identity_[next++];
    const auto rest = [&](Index& index, const Dims& batch, const Dims& summed) {
      for (size_t d = 0; d < index.size(); ++d) {
        const auto is = [&](const Dims& list) {
          return std::find(list.begin(), list.end(), static_cast<int64_t>(d)) != list.end();
        };
        if (!is(batch) && !is(summed)) index[d] = identity_[next++];
      }
    };
    rest(left_, left_batch, left_summed_);
    rest(right_, right_batch, right_summed_);
    store_result(0, last(sum(0, {}, first())));
    return end_part();
  }

 private:
  // What the factor is converted from, if that is what is read (cluster/read_through.h).
  Parts factor(size_t i, const Index& index) {
    if (group_.reads.empty()) return read(i, index);
    const Value& from = group_.reads[i];
    return apply(hlo::scalar::record_rule(hlo::scalar::convert_rule, std::array{from.dtype()},
                                          node_.operand_type(i)->dtype),
                 load(from, from.dims(), index, kNone));
  }
  // Over the summed dimensions from number `level` on, the last one fastest.
  Parts sum(size_t level, const DimIndex& k, const Parts& carried) {
    if (level == left_summed_.size()) return next(k, carried, factor(0, left_), factor(1, right_));
    const int64_t size = node_.operand_type(0)->dims[left_summed_[level]];
    return steps_if_many(size, carried, [&](const DimIndex& i, const Parts& now) {
      left_[left_summed_[level]] = right_[right_summed_[level]] = i;
      return sum(level + 1, jit::sum(scaled(k, size), i), now);
    });
  }

  Dims left_summed_, right_summed_;
  Index left_, right_;
};

class ConvolutionLowering final : ChainLowering {
 public:
  ConvolutionLowering(const FusionPlan& plan, const Group& group)
      : ChainLowering(plan, group, terms_of(hlo::conv_shape(*group.anchors[0]))),
        shape_(hlo::conv_shape(node_)),
        dims_(hlo::conv_dims(node_)) {}

  absl::StatusOr<KernelSequence::Part> run() {
    begin(node_.type()->dims);
    input_.resize(node_.operand_type(0)->dims.size());
    filter_.resize(input_.size());
    position_.resize(shape_.spatial.size());
    const DimIndex feature = identity_[dims_.output_feature];
    DimIndex batch = identity_[dims_.output_batch];
    filter_[dims_.kernel_output_feature] = feature;
    if (shape_.groups() > 1) {
      const int64_t each = shape_.output_features / shape_.groups();
      const uint32_t group = prim(Prim::div, DType::kS64, {index_value(feature), argument(each)});
      if (shape_.batch_groups > 1)
        batch = plus(batch, times(computed(group), shape_.output_batch()));
      else
        first_feature_ = known(times(computed(group), shape_.filter_input));
    }
    batch_ = known(batch);
    store_result(0, last(window(0, {}, kNone, first())));
    return end_part();
  }

 private:
  static int64_t terms_of(const hlo::ConvShape& s) { return s.window() * s.filter_input; }

  // Over the window's dimensions from number `level` on; `inside`: whether the patch has elements there.
  Parts window(size_t level, const DimIndex& k, uint32_t inside, const Parts& carried) {
    if (level == shape_.spatial.size()) return features(k, inside, carried);
    const hlo::ConvDim& d = shape_.spatial[level];
    const Known around = known(inside);
    return steps_if_many(d.filter, carried, [&](const DimIndex& w, const Parts& now) {
      const DimIndex at = shifted(
          jit::sum(scaled(identity_[dims_.output_spatial[level]], d.stride), scaled(w, d.filter_dilation)),
          -d.pad_low);
      uint32_t within_input = here(around);
      position_[level] = known(patch(d, at, within_input));
      filter_[dims_.kernel_spatial[level]] = d.reversed ? reversed(w, d.filter) : w;
      return window(level + 1, jit::sum(scaled(k, d.filter), w), within_input, now);
    });
  }
  // The input's index where the window meets it.
  DimIndex patch(const hlo::ConvDim& d, const DimIndex& at, uint32_t& inside) {
    const int64_t span = d.input == 0 ? 0 : (d.input - 1) * d.input_dilation + 1;
    const int64_t last = (d.output - 1) * d.stride + (d.filter - 1) * d.filter_dilation - d.pad_low;
    if (d.pad_low <= 0 && last < span && d.input_dilation == 1) return at;
    const uint32_t place = index_value(at);
    inside = both(inside, within(place, span));
    if (d.input_dilation == 1) return computed(place);
    const uint32_t step = argument(d.input_dilation);
    const uint32_t beside = prim(Prim::rem, DType::kS64, {place, step});
    inside = both(inside, prim(Prim::eq, DType::kBool, {beside, number(0)}));
    return computed(prim(Prim::div, DType::kS64, {place, step}));
  }
  Parts features(const DimIndex& k, uint32_t inside, const Parts& carried) {
    const Known around = known(inside);
    return steps_if_many(shape_.filter_input, carried, [&](const DimIndex& c, const Parts& now) {
      input_[dims_.input_batch] = here(batch_);
      input_[dims_.input_feature] = plus(here(first_feature_), c);
      for (size_t i = 0; i < position_.size(); ++i) input_[dims_.input_spatial[i]] = here(position_[i]);
      filter_[dims_.kernel_input_feature] = c;
      return next(jit::sum(scaled(k, shape_.filter_input), c), now, read(0, input_, here(around)),
                  read(1, filter_));
    });
  }

  const hlo::ConvShape shape_;
  const hlo::ConvDims dims_;
  Index input_, filter_;
  KnownIndex batch_, first_feature_;
  std::vector<KnownIndex> position_;
};

template <class Lowering>
absl::StatusOr<KernelSequence> lowered(const FusionPlan& plan, const Group& group) {
  absl::StatusOr<KernelSequence::Part> part = Lowering(plan, group).run();
  if (!part.ok()) return part.status();
  KernelSequence out;
  out.parts.push_back(*std::move(part));
  return out;
}

}  // namespace

absl::StatusOr<KernelSequence> lower_dot(const FusionPlan& plan, const Group& group) {
  return lowered<DotLowering>(plan, group);
}
absl::StatusOr<KernelSequence> lower_convolution(const FusionPlan& plan, const Group& group) {
  return lowered<ConvolutionLowering>(plan, group);
}

}  // namespace lamina::jit
