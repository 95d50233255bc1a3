#include "jit/kernel/lower_call.h"

#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/kernel/call_lowering.h"

namespace lamina::jit {
namespace {

using cluster::FusionPlan;
using cluster::Group;
using hlo::Attr;
using hlo::Dims;
using hlo::Op;
using hlo::Prim;

absl::StatusOr<KernelSequence> sequence_of(absl::StatusOr<KernelSequence::Part> part) {
  if (!part.ok()) return part.status();
  KernelSequence out;
  out.parts.push_back(*std::move(part));
  return out;
}

class Slices final : CallLowering {
 public:
  Slices(const FusionPlan& plan, const Group& group) : CallLowering(plan, group) {}

  absl::StatusOr<KernelSequence::Part> slice() {
    const Dims &dims = node_.operand_type(0)->dims, &sizes = node_.type()->dims;
    begin(sizes);
    Index at = identity_;
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] > sizes[d]) at[d] = plus(at[d], computed(start(1 + d, dims[d] - sizes[d])));
    store_result(0, read(0, at));
    return end_part();
  }

  absl::StatusOr<KernelSequence::Part> update() {
    const Dims &dims = node_.type()->dims, &sizes = node_.operand_type(1)->dims;
    begin(dims);
    Index at = identity_;
    uint32_t inside = kNone;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] == sizes[d]) continue;
      at[d] = computed(sub(index_value(identity_[d]), start(2 + d, dims[d] - sizes[d])));
      inside = both(inside, within(at[d].value, sizes[d]));
    }
    const std::vector<uint32_t> now = read(1, at, inside);
    store_result(0, inside == kNone ? now : select(inside, now, read(0, identity_)));
    return end_part();
  }

 private:
  uint32_t start(size_t operand, int64_t last) { return clamped(as_index(read(operand, {})[0]), last); }
};

class Gather final : CallLowering {
 public:
  Gather(const FusionPlan& plan, const Group& group) : CallLowering(plan, group) {}

  absl::StatusOr<KernelSequence::Part> run() {
    begin(node_.type()->dims);
    store_result(0, gather(node_, identity_, kNone));
    return end_part();
  }
};

// As hlo/rules/random_rules.cc says.
class RandomBits final : CallLowering {
 public:
  RandomBits(const FusionPlan& plan, const Group& group) : CallLowering(plan, group) {
    const hlo::Type& bits = *node_.result_type(1);
    elements_ = bits.num_elements;
    wide_ = hlo::byte_size(bits.dtype) == 8;
    blocks_ = wide_ ? elements_ : (elements_ + 1) / 2;
  }

  absl::StatusOr<KernelSequence::Part> bits() {
    begin({elements_});
    const uint32_t i = index_value(identity_[0]);
    const DType type = node_.result_type(1)->dtype;
    uint32_t block = i, is_second = kNone;
    if (!wide_ && elements_ > 1) {
      is_second = prim(Prim::le, DType::kBool, {argument(blocks_), i});
      block = choose(is_second, sub(i, argument(blocks_)), i);
    }
    const auto [x0, x1] = threefry(state(0), add(state(1), unsigned_of(block)));
    uint32_t value;
    if (wide_)
      value = prim(Prim::bit_or, DType::kU64,
                   {prim(Prim::convert, DType::kU64, {x0}),
                    prim(Prim::shl, DType::kU64, {prim(Prim::convert, DType::kU64, {x1}), word64(32)})});
    else
      value = is_second == kNone ? x0 : choose(is_second, x1, x0);
    if (type_of(value) != type) value = prim(Prim::convert, type, {value});
    stores_.push_back({access(result(1), {elements_}, identity_, 0, true), value});
    return end_part();
  }

  absl::StatusOr<KernelSequence::Part> next_state() {
    begin({2});
    const uint32_t i = index_value(identity_[0]);
    const uint32_t moved = choose(prim(Prim::eq, DType::kBool, {i, number(1)}), argument(blocks_), number(0));
    store_result(0, {add(read(0, identity_)[0], unsigned_of(moved))});
    return end_part();
  }

 private:
  uint32_t unsigned_of(uint32_t v) { return prim(Prim::bitcast, DType::kU64, {v}); }
  uint32_t word(uint32_t n) { return prim(Prim::constant, DType::kU32, {}, n); }
  uint32_t word64(uint64_t n) { return prim(Prim::constant, DType::kU64, {}, n); }
  uint32_t state(int64_t n) {
    DimIndex at;
    at.offset = n;
    return read(0, {at})[0];
  }
  std::pair<uint32_t, uint32_t> halves(uint32_t v) {
    return {prim(Prim::convert, DType::kU32, {v}),
            prim(Prim::convert, DType::kU32, {prim(Prim::shr_logical, DType::kU64, {v, word64(32)})})};
  }
  uint32_t rotated(uint32_t v, uint32_t by) {
    return prim(Prim::bit_or, DType::kU32,
                {prim(Prim::shl, DType::kU32, {v, word(by)}),
                 prim(Prim::shr_logical, DType::kU32, {v, word(32 - by)})});
  }
  std::pair<uint32_t, uint32_t> threefry(uint32_t key, uint32_t counter) {
    constexpr uint32_t kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
    const auto [k0, k1] = halves(key);
    const uint32_t keys[3] = {
        k0, k1,
        prim(Prim::bit_xor, DType::kU32, {prim(Prim::bit_xor, DType::kU32, {k0, k1}), word(0x1BD11BDA)})};
    auto [x0, x1] = halves(counter);
    x0 = add(x0, keys[0]);
    x1 = add(x1, keys[1]);
    for (uint32_t group = 0; group < 5; ++group) {
      for (uint32_t r : kRotations[group % 2]) {
        x0 = add(x0, x1);
        x1 = prim(Prim::bit_xor, DType::kU32, {rotated(x1, r), x0});
      }
      x0 = add(x0, keys[(group + 1) % 3]);
      x1 = add(x1, add(keys[(group + 2) % 3], word(group + 1)));
    }
    return {x0, x1};
  }

  int64_t elements_, blocks_;
  bool wide_;
};

absl::StatusOr<KernelSequence> lower_dynamic_slice(const FusionPlan& plan, const Group& group) {
  return sequence_of(Slices(plan, group).slice());
}
absl::StatusOr<KernelSequence> lower_dynamic_update_slice(const FusionPlan& plan, const Group& group) {
  return sequence_of(Slices(plan, group).update());
}
absl::StatusOr<KernelSequence> lower_gather(const FusionPlan& plan, const Group& group) {
  return sequence_of(Gather(plan, group).run());
}
absl::StatusOr<KernelSequence> lower_random_bits(const FusionPlan& plan, const Group& group) {
  absl::StatusOr<KernelSequence> out = sequence_of(RandomBits(plan, group).bits());
  if (!out.ok()) return out;
  absl::StatusOr<KernelSequence::Part> state = RandomBits(plan, group).next_state();
  if (!state.ok()) return state.status();
  out->parts.push_back(*std::move(state));
  return out;
}

struct Row {
  Op op;
  absl::StatusOr<KernelSequence> (*lower)(const FusionPlan&, const Group&);
};
constexpr Row kRows[] = {
    {Op::dynamic_slice, lower_dynamic_slice},
    {Op::dynamic_update_slice, lower_dynamic_update_slice},
    {Op::gather, lower_gather},
    {Op::scatter, lower_scatter},
    {Op::reduce_window, lower_reduce_window},
    {Op::select_and_scatter, lower_select_and_scatter},
    {Op::sort, lower_sort},
    {Op::cumsum, lower_cumsum},
    {Op::dot_general, lower_dot},
    {Op::convolution, lower_convolution},
    {Op::rng_bit_generator, lower_random_bits},
};

}  // namespace

absl::StatusOr<KernelSequence> lower_call(const FusionPlan& plan, const Group& group) {
  const hlo::Node& node = *group.anchors[0];
  // What lies outside of an array is read at its nearest element, and not used: there has to be one.
  for (uint32_t i = 0; i < node.operands().size() && node.op() != Op::dot_general; ++i)
    if (node.operand_type(i)->num_elements == 0)
      return absl::UnimplementedError(str_cat("a ", node.def().name, " of an array without elements"));
  for (const Row& row : kRows)
    if (row.op == node.op()) return row.lower(plan, group);
  return absl::UnimplementedError(str_cat("a ", node.def().name, " has no form as a loop"));
}

absl::StatusOr<KernelSequence> lower_group(const FusionPlan& plan, const Group& group) {
  if (group.kind == cluster::GroupKind::kLibrary) return lower_call(plan, group);
  absl::StatusOr<LoweredLoop> loop = lower_loop(plan, group);
  if (!loop.ok()) return loop.status();
  KernelSequence out;
  out.parts.push_back({*std::move(loop), {}});
  out.parts[0].shared.assign(out.parts[0].loop.buffers.size(), -1);
  return out;
}

}  // namespace lamina::jit
