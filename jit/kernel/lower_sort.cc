// sort and scatter as loops: kernels that sort, whose order is the comparator. Targets of scattered vectors
// are sorted so, and each element of the array takes those that are its own, in their order.
#include <algorithm>
#include <bit>
#include <limits>
#include <optional>

#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/kernel/call_lowering.h"
#include "jit/kernel/sort_order.h"

namespace lamina::jit {
namespace {

using cluster::FusionPlan;
using cluster::Group;
using hlo::Attr;
using hlo::Dims;

// A kernel whose order is `before` and whose last parallel dimension is sorted.
absl::StatusOr<KernelSequence::Part> sorting(absl::StatusOr<KernelSequence::Part> part,
                                             hlo::ScalarProgram before) {
  if (part.ok()) part->loop.kernel.before = std::move(before);
  return part;
}

class SortLowering final : CallLowering {
 public:
  SortLowering(const FusionPlan& plan, const Group& group) : CallLowering(plan, group) {
    dim_ = static_cast<size_t>(node_.attrs().integer(Attr::dimension));
  }

  absl::StatusOr<KernelSequence::Part> run(const hlo::ScalarProgram& comparator) {
    const Dims& dims = node_.result_type(0)->dims;
    Dims space = dims;
    space.erase(space.begin() + static_cast<std::ptrdiff_t>(dim_));
    space.push_back(dims[dim_]);
    begin(space);
    // The sorted dimension comes last.
    Index of_array;
    for (size_t d = 0; d < dims.size(); ++d)
      of_array.push_back(identity_[d == dim_ ? dims.size() - 1 : d < dim_ ? d : d - 1]);
    identity_ = std::move(of_array);
    const bool is_sorted = dims[dim_] <= 1;
    if (!is_sorted) pinned_.insert(static_cast<int>(dims.size()) - 1);
    for (uint32_t r = 0; r < node_.num_results(); ++r) store_result(r, read(r, identity_));
    return is_sorted ? end_part() : sorting(end_part(), by_element(comparator));
  }

 private:
  // The comparator's parameters are x0, y0, x1, y1, ...: all of x, then all of y.
  hlo::ScalarProgram by_element(const hlo::ScalarProgram& comparator) const {
    std::vector<uint32_t> number(comparator.inputs.size() + comparator.code.size());
    const auto half = static_cast<uint32_t>(comparator.inputs.size() / 2);
    uint32_t from = 0, to = 0;
    for (uint32_t r = 0; r < node_.num_results(); ++r) {
      const auto parts = static_cast<uint32_t>(hlo::num_parts(node_.result_type(r)->dtype));
      for (const uint32_t side : {0U, half})
        for (uint32_t p = 0; p < parts; ++p) number[from++] = side + to + p;
      to += parts;
    }
    for (uint32_t v = from; v < number.size(); ++v) number[v] = v;
    hlo::ScalarProgram out = comparator;
    for (uint32_t i = 0; i < from; ++i) out.inputs[number[i]] = comparator.inputs[i];
    for (hlo::ScalarInstr& i : out.code)
      for (int k = 0; k < hlo::prim_arity(i.prim); ++k) i.operands[k] = number[i.operands[k]];
    for (uint32_t& v : out.outputs) v = number[v];
    return out;
  }

  size_t dim_;
};

// What is known of a scatter before it runs.
struct ScatterShape {
  explicit ScatterShape(const hlo::Node& n) : arrays(n.operands().size() / 2) {
    const hlo::Attrs& a = n.attrs();
    const auto contains = [](const Dims& list, int64_t x) {
      return std::find(list.begin(), list.end(), x) != list.end();
    };
    const Dims &inserted = a.ints(Attr::inserted_window_dims), &batching = a.ints(Attr::input_batching_dims),
               &index_batching = a.ints(Attr::scatter_indices_batching_dims),
               &map = a.ints(Attr::scatter_dims_to_operand_dims), &window = a.ints(Attr::update_window_dims);
    dims = n.operand_type(0)->dims;
    index_dims = n.operand_type(arrays)->dims;
    const Dims& updates = n.operand_type(arrays + 1)->dims;
    vector_dim = a.integer(Attr::index_vector_dim);
    for (int64_t d = 0; d < std::ssize(index_dims); ++d)
      if (d != vector_dim) {
        vector_dims.push_back(index_dims[d]);
        vectors *= index_dims[d];
      }
    from.assign(dims.size(), -1);
    entry = batch = from;
    for (size_t k = 0; k < map.size(); ++k) entry[map[k]] = static_cast<int64_t>(k);
    // Vector dimensions in the updates, and among themselves.
    std::vector<int64_t> of_index(index_dims.size(), -1);
    int64_t next = 0;
    for (int64_t d = 0; d < std::ssize(index_dims); ++d)
      if (d != vector_dim) of_index[d] = next++;
    for (size_t k = 0; k < batching.size(); ++k) batch[batching[k]] = of_index[index_batching[k]];
    size_t next_window = 0;
    Dims window_dims;
    for (int64_t d = 0; d < std::ssize(updates); ++d)
      if (contains(window, d))
        window_dims.push_back(d);
      else
        vector_updates.push_back(d);
    sizes.assign(dims.size(), 1);
    for (size_t d = 0; d < dims.size(); ++d) {
      const auto n_dim = static_cast<int64_t>(d);
      if (contains(inserted, n_dim) || contains(batching, n_dim)) continue;
      from[d] = window_dims[next_window++];
      sizes[d] = updates[from[d]];
      if (entry[d] >= 0 && sizes[d] != 1) moves_windows = true;
      // A window that is moved along a dimension before those of the vectors: the order of updates is not
      // that of the vectors.
      if (entry[d] >= 0 && sizes[d] != 1 && !vector_updates.empty() && from[d] < vector_updates.back())
        in_vector_order = false;
    }
    for (int64_t d : dims) elements *= d;
  }

  size_t arrays;
  Dims dims, index_dims, vector_dims;
  int64_t vector_dim = 0, vectors = 1, elements = 1;
  // By dimension of the arrays: its dimension in the updates, its entry of the vectors, the dimension of the
  // vectors that it goes along with; -1: none. And the extent of the window.
  std::vector<int64_t> from, entry, batch;
  Dims sizes, vector_updates;  // and the dimension of the updates that each of the vectors' is
  bool moves_windows = false, in_vector_order = true;
};

class ScatterLowering final : CallLowering {
 public:
  ScatterLowering(const FusionPlan& plan, const Group& group, const ScatterShape& shape,
                  const hlo::ScalarProgram& body)
      : CallLowering(plan, group), shape_(shape), body_(body) {}

  // Each element looks at all vectors.
  absl::StatusOr<KernelSequence::Part> by_element() {
    begin(shape_.dims);
    store_all(steps_if_many(shape_.vectors, own(), [&](const DimIndex& vector, const Parts& now) {
      return updated(coordinates(vector, shape_.vector_dims), now, true);
    }));
    return end_part();
  }

  // Where the vectors of windows that are not moved, or have one element, go: a place among those that can be
  // told apart; behind all of them what lies outside.
  absl::StatusOr<KernelSequence::Part> targets() {
    begin({shape_.vectors});
    const std::vector<DimIndex> vector = coordinates(identity_[0], shape_.vector_dims);
    const std::vector<DimIndex> entries = start(vector);
    uint32_t inside = kNone;
    DimIndex target;
    for (size_t d = 0; d < shape_.dims.size(); ++d) {
      if (!is_key(d)) continue;
      const uint32_t at = index_value(entries[d]);
      if (shape_.entry[d] >= 0) inside = both(inside, within(at, shape_.dims[d]));
      target = plus(times(target, shape_.dims[d]), computed(at));
    }
    uint32_t value = index_value(target);
    if (inside != kNone) value = choose(inside, value, number(kNowhere));
    store_shared(shared_array(DType::kS64, true, 0), identity_[0], value);
    store_shared(shared_array(DType::kS64, true, 1), identity_[0], index_value(identity_[0]));
    pinned_.insert(0);
    const hlo::ScalarInstr below{Prim::lt, DType::kBool, {0, 2}};
    return sorting(end_part(), {std::vector<DType>(4, DType::kS64), {below}, {4}});
  }

  // Each element takes the updates of its place from the sorted ones.
  absl::StatusOr<KernelSequence::Part> from_sorted() {
    begin(shape_.dims);
    const uint32_t targets = shared_array(DType::kS64, false, 0),
                   numbers = shared_array(DType::kS64, false, 1);
    DimIndex place;
    for (size_t d = 0; d < shape_.dims.size(); ++d)
      if (is_key(d)) place = plus(times(place, shape_.dims[d]), identity_[d]);
    const Known own_place = known(index_value(place));
    const Parts range =
        steps(std::bit_width(static_cast<uint64_t>(shape_.vectors)), {number(0), argument(shape_.vectors)},
              [&](const DimIndex&, const Parts& r) {
                const uint32_t open = less(r[0], r[1]);
                const uint32_t half = prim(Prim::shr_logical, DType::kS64, {add(r[0], r[1]), number(1)});
                const uint32_t below = less(load_shared(targets, computed(half), open), here(own_place));
                return Parts{choose(both(open, below), add(half, number(1)), r[0]),
                             choose(both(open, negated(below)), half, r[1])};
              });
    Parts init{range[0]};
    for (uint32_t v : own()) init.push_back(v);
    const Parts last = steps_while(
        init,
        [&](const Parts& now) {
          const uint32_t is_one = less(now[0], argument(shape_.vectors));
          const uint32_t target = load_shared(targets, computed(now[0]), is_one);
          return both(is_one, prim(Prim::eq, DType::kBool, {target, here(own_place)}));
        },
        [&](const Parts& now) {
          // An element that has stopped may be behind the last vector.
          const uint32_t is_one = less(now[0], argument(shape_.vectors));
          const uint32_t vector = load_shared(numbers, computed(now[0]), is_one);
          Parts next{add(now[0], number(1))};
          for (uint32_t v : updated(coordinates(computed(vector), shape_.vector_dims),
                                    Parts(now.begin() + 1, now.end()), false))
            next.push_back(v);
          return next;
        });
    store_all(Parts(last.begin() + 1, last.end()));
    return end_part();
  }

  static constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

 private:
  using Parts = std::vector<uint32_t>;
  bool is_key(size_t d) const { return shape_.entry[d] >= 0 || shape_.batch[d] >= 0; }

  // Where the window of a vector begins, by dimension of the arrays.
  std::vector<DimIndex> start(const std::vector<DimIndex>& vector) {
    Index at(shape_.index_dims.size());
    size_t next = 0;
    for (size_t d = 0; d < at.size(); ++d)
      if (static_cast<int64_t>(d) != shape_.vector_dim) at[d] = vector[next++];
    std::vector<DimIndex> out(shape_.dims.size());
    for (size_t d = 0; d < out.size(); ++d) {
      if (shape_.batch[d] >= 0) out[d] = vector[static_cast<size_t>(shape_.batch[d])];
      if (shape_.entry[d] < 0) continue;
      if (shape_.vector_dim < std::ssize(at)) at[shape_.vector_dim].offset = shape_.entry[d];
      out[d] = computed(as_index(read(shape_.arrays, at)[0]));
    }
    return out;
  }

  // The element of the arrays.
  Parts own() {
    Parts out;
    for (size_t i = 0; i < shape_.arrays; ++i)
      for (uint32_t v : read(i, identity_)) out.push_back(v);
    return out;
  }

  // `now` and the update of this vector, if there is one for the element.
  Parts updated(const std::vector<DimIndex>& vector, const Parts& now, bool asks) {
    Index update(node_.operand_type(shape_.arrays + 1)->dims.size());
    for (size_t i = 0; i < vector.size(); ++i) update[shape_.vector_updates[i]] = vector[i];
    uint32_t hit = kNone;
    if (asks) {
      const std::vector<DimIndex> entries = start(vector);
      for (size_t d = 0; d < shape_.dims.size(); ++d) {
        DimIndex in_window = identity_[d];
        if (is_key(d)) {
          const uint32_t offset = sub(index_value(identity_[d]), index_value(entries[d]));
          hit = both(hit, within(offset, shape_.sizes[d]));
          in_window = computed(offset);
        } else if (shape_.sizes[d] < shape_.dims[d]) {
          hit = both(hit, within(index_value(identity_[d]), shape_.sizes[d]));
        }
        if (shape_.from[d] >= 0 && shape_.sizes[d] != 1) update[shape_.from[d]] = in_window;
      }
    } else {
      for (size_t d = 0; d < shape_.dims.size(); ++d) {
        if (is_key(d) || shape_.from[d] < 0) continue;
        if (shape_.sizes[d] < shape_.dims[d])
          hit = both(hit, within(index_value(identity_[d]), shape_.sizes[d]));
        if (shape_.sizes[d] != 1) update[shape_.from[d]] = identity_[d];
      }
    }
    Parts operands = now;
    for (size_t i = 0; i < shape_.arrays; ++i)
      for (uint32_t v : read(shape_.arrays + 1 + i, update, hit)) operands.push_back(v);
    const Parts next = apply(body_, std::move(operands));
    return hit == kNone ? next : select(hit, next, now);
  }

  void store_all(const Parts& all) {
    auto from = all.begin();
    for (uint32_t r = 0; r < node_.num_results(); ++r) {
      const auto parts = hlo::num_parts(node_.result_type(r)->dtype);
      store_result(r, Parts(from, from + parts));
      from += parts;
    }
  }

  const ScatterShape& shape_;
  const hlo::ScalarProgram& body_;
};

// Looks of elements at vectors that take less time than sorting those.
constexpr int64_t kFewVectors = 16;
// And the most that are worth it where sorting is of no use.
constexpr int64_t kMostLooks = int64_t{1} << 32;

}  // namespace

absl::StatusOr<KernelSequence> lower_sort(const FusionPlan& plan, const Group& group) {
  const hlo::Node& node = *group.anchors[0];
  const hlo::Computation& body = *node.attrs().computation(Attr::body);
  const std::optional<hlo::ScalarProgram> comparator = hlo::region_program(body);
  const std::optional<std::vector<SortKey>> keys = sort_keys(body);
  if (!comparator || !keys)
    return absl::UnimplementedError("a sort by what is not known to be an order has no form as loops");
  for (const SortKey& key : *keys)
    if (hlo::is_float(key.type) && key.nan == NanPlace::kUnordered)
      return absl::UnimplementedError("a sort by an order with no place for NaN has no form as loops");
  absl::StatusOr<KernelSequence::Part> part = SortLowering(plan, group).run(*comparator);
  if (!part.ok()) return part.status();
  KernelSequence out;
  out.parts.push_back(*std::move(part));
  return out;
}

absl::StatusOr<KernelSequence> lower_scatter(const FusionPlan& plan, const Group& group) {
  const hlo::Node& node = *group.anchors[0];
  const std::optional<hlo::ScalarProgram> body = hlo::region_program(*node.attrs().computation(Attr::body));
  if (!body) return absl::UnimplementedError("what a scatter combines by holds more than scalar ops");
  const ScatterShape shape(node);
  KernelSequence out;
  absl::Status status;
  const auto add = [&](absl::StatusOr<KernelSequence::Part> part) {
    if (part.ok())
      out.parts.push_back(*std::move(part));
    else if (status.ok())
      status = part.status();
  };
  if (shape.vectors <= kFewVectors || shape.moves_windows) {
    if (shape.vectors > 1 && !shape.in_vector_order)
      return absl::UnimplementedError(
          "a scatter of windows whose elements are updated in another order than by window has no form as "
          "loops");
    if (shape.elements > 0 && shape.vectors > kMostLooks / shape.elements)
      return absl::UnimplementedError("a scatter of so many windows takes too long as loops");
    add(ScatterLowering(plan, group, shape, *body).by_element());
    if (!status.ok()) return status;
    return out;
  }
  add(ScatterLowering(plan, group, shape, *body).targets());
  add(ScatterLowering(plan, group, shape, *body).from_sorted());
  if (!status.ok()) return status;
  out.shared_bytes.assign(2, shape.vectors * static_cast<int64_t>(sizeof(int64_t)));
  return out;
}

}  // namespace lamina::jit
