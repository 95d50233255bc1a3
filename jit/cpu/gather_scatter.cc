// gather and scatter: boxes at offsets that are read from an array of index vectors.
#include <algorithm>
#include <array>
#include <limits>

#include "hlo/attributes.h"
#include "hlo/strings.h"
#include "hlo/with_vectors.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/region.h"
#include "jit/cpu/target_list.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::Node;

// Index vectors between two looks at the cancel flag.
constexpr int64_t kPollEvery = 4096;
// Index vectors turned into offsets at a time.
constexpr int64_t kBlock = TargetList::kMost;
// Updates of single elements that are worth a thread. It looks through all indices, which brings nothing for
// more threads than so many, and where that takes as long as the updates: without vectors.
constexpr int64_t kSharedUpdates = 64 * 1024, kMostShares = 8;

bool contains(const Dims& list, int64_t x) { return std::find(list.begin(), list.end(), x) != list.end(); }

// One entry of the index vectors: it moves along `dim` of the array.
struct IndexEntry {
  int64_t dim, stride, size;  // of the array
  int64_t last = 0;           // gathers: the largest start that keeps the slice inside
};

// What gather and scatter share: where index vectors stand and what they address.
struct IndexSpace {
  hlo::DType type;
  int64_t entry_step = 0;           // between the entries of a vector
  std::vector<IndexEntry> entries;  // in vector order
  Dims batch_dims;                  // dimensions of the indices but that of the vectors
  Dims batch_strides;               // of the indices, per batch dimension
  Dims batching_strides;            // of the array: where a batch dimension is one of the array's too, else 0
  Dims batching_dims;               // that dimension of the array, or -1
  // Whether index vector p begins at element p * flat_step: one dimension of vectors, none a batching one.
  bool is_flat = true;
  int64_t flat_step = 1;
  bool from_end = false;  // negative indices count from there

  IndexSpace(const hlo::Type& array, const hlo::Type& indices, int64_t vector_dim, const Dims& map,
             const Dims& array_batching, const Dims& index_batching)
      : type(indices.dtype) {
    const Dims strides = hlo::row_major_strides(array.dims), at = hlo::row_major_strides(indices.dims);
    if (vector_dim < indices.rank()) entry_step = at[vector_dim];
    for (int64_t d : map) entries.push_back({.dim = d, .stride = strides[d], .size = array.dims[d]});
    for (int64_t d = 0; d < indices.rank(); ++d) {
      if (d == vector_dim) continue;
      batch_dims.push_back(indices.dims[d]);
      batch_strides.push_back(at[d]);
      const auto found = std::find(index_batching.begin(), index_batching.end(), d);
      const bool is_batching = found != index_batching.end();
      batching_dims.push_back(is_batching ? array_batching[found - index_batching.begin()] : -1);
      batching_strides.push_back(is_batching ? strides[batching_dims.back()] : 0);
      is_flat &= !is_batching;
    }
    int64_t step = flat_step = vector_dim == indices.rank() - 1 ? indices.dims[vector_dim] : 1;
    for (size_t d = batch_dims.size(); d-- > 0; step *= std::max<int64_t>(batch_dims[d], 1))
      is_flat &= batch_dims[d] == 1 || batch_strides[d] == step;
  }

  // Entry `k` of the vector whose first entry lies at `at`.
  int64_t read(const void* indices, int64_t at, size_t k) const {
    const int64_t v = read_index(type, indices, at + static_cast<int64_t>(k) * entry_step);
    return v < 0 && from_end ? v + entries[k].size : v;
  }

  // Offsets into the array of flat vectors begin ... begin + count - 1, starts moved inside.
  void starts(const void* indices, int64_t begin, int64_t count, int64_t* to) const {
    if (is_narrow()) return narrow_starts(static_cast<const int32_t*>(indices) + begin, count, to);
    std::fill(to, to + count, 0);
    std::array<int64_t, kBlock> at;
    for (size_t k = 0; k < entries.size(); ++k) {
      const IndexEntry e = entries[k];
      read_entry(indices, begin, count, k, at.data());
      for (int64_t i = 0; i < count; ++i) to[i] += e.stride * std::clamp<int64_t>(at[i], 0, e.last);
    }
  }

  // What tells boxes apart that vectors address: a single entry itself, of more entries the offset. Places
  // are place_stride() elements apart, below places().
  bool is_single() const { return entries.size() == 1; }
  int64_t place_stride() const { return is_single() ? entries[0].stride : 1; }
  int64_t places() const {
    if (is_single()) return entries[0].size;
    int64_t last = 0;
    for (const IndexEntry& e : entries) last += (e.size - 1) * e.stride;
    return last + 1;
  }
  // Those of the vectors that are inside, and in [first, last).
  void keep(const void* indices, int64_t begin, int64_t count, int64_t first, int64_t last, Isa isa,
            TargetList& list) const {
    const auto low = static_cast<int32_t>(first), high = static_cast<int32_t>(last);
    if (is_narrow())
      return list.keep(static_cast<const int32_t*>(indices) + begin, count,
                       from_end ? static_cast<int32_t>(entries[0].size) : 0, low, high, isa);
    std::array<int64_t, kBlock> places, at;
    if (!is_single()) std::fill_n(places.begin(), count, 0);
    for (size_t k = 0; k < entries.size(); ++k) {
      read_entry(indices, begin, count, k, is_single() ? places.data() : at.data());
      hlo::with_vectors([&, this] {
        if (is_single())
          put_outside(places.data(), count, entries[k].size);
        else
          add_places(at.data(), count, entries[k], places.data());
      });
    }
    list.keep(places.data(), count, low, high, isa);
  }

  // One index of 32 bits after the other.
  bool is_narrow() const {
    return type == hlo::DType::kS32 && entries.size() == 1 && flat_step == 1 &&
           entries[0].size <= std::numeric_limits<int32_t>::max();
  }

 private:
  static void put_outside(int64_t* at, int64_t count, int64_t size) {
    for (int64_t i = 0; i < count; ++i) at[i] = at[i] < size ? at[i] : -1;
  }
  static void add_places(const int64_t* at, int64_t count, const IndexEntry& e, int64_t* to) {
    const int64_t size = e.size, stride = e.stride;
    for (int64_t i = 0; i < count; ++i)
      to[i] = (to[i] >= 0) & (at[i] >= 0) & (at[i] < size) ? to[i] + stride * at[i] : -1;
  }

  // Entry `k` of flat vectors begin ... begin + count - 1.
  void read_entry(const void* indices, int64_t begin, int64_t count, size_t k, int64_t* to) const {
    const int64_t first = begin * flat_step + static_cast<int64_t>(k) * entry_step;
    const int64_t end = from_end ? entries[k].size : 0;
    if (type == hlo::DType::kS32)
      hlo::with_vectors([&, this] { read_typed<int32_t>(indices, first, flat_step, count, end, to); });
    else if (type == hlo::DType::kS64)
      hlo::with_vectors([&, this] { read_typed<int64_t>(indices, first, flat_step, count, end, to); });
    else
      for (int64_t i = 0; i < count; ++i) {
        to[i] = read_index(type, indices, first + i * flat_step);
        if (to[i] < 0) to[i] += end;
      }
  }
  template <typename T>
  static void read_typed(const void* indices, int64_t first, int64_t step, int64_t count, int64_t end,
                         int64_t* to) {
    const T* const from = static_cast<const T*>(indices) + first;
    if (step == 1)
      for (int64_t i = 0; i < count; ++i) to[i] = from[i] + (from[i] < 0 ? end : 0);
    else
      for (int64_t i = 0; i < count; ++i) to[i] = from[i * step] + (from[i * step] < 0 ? end : 0);
  }

  // Decided in the indices' own 32 bits, of which a vector register holds most.
  void narrow_starts(const int32_t* indices, int64_t count, int64_t* to) const {
    const IndexEntry& e = entries[0];
    const auto end = static_cast<int32_t>(from_end ? e.size : 0), last = static_cast<int32_t>(e.last);
    std::array<int32_t, kBlock> at;
    for (int64_t i = 0; i < count; ++i) at[i] = indices[i] + (indices[i] < 0 ? end : 0);
    for (int64_t i = 0; i < count; ++i) at[i] = std::min(std::max(at[i], 0), last);
    if (e.stride == 1)
      for (int64_t i = 0; i < count; ++i) to[i] = at[i];
    else
      for (int64_t i = 0; i < count; ++i) to[i] = at[i] * e.stride;
  }
};

// Steps through the positions of `dims` in row-major order, keeping several weighted sums of the coordinates.
template <size_t kSums>
class Odometer {
 public:
  Odometer(const Dims& dims, const std::array<const Dims*, kSums>& weights)
      : dims_(dims), weights_(weights) {}
  void seek(int64_t position) {
    index_.assign(dims_.size(), 0);
    sums_ = {};
    for (size_t d = dims_.size(); d-- > 0;) {
      index_[d] = position % dims_[d];
      position /= dims_[d];
      for (size_t s = 0; s < kSums; ++s) sums_[s] += index_[d] * (*weights_[s])[d];
    }
  }
  void step() {
    for (size_t d = dims_.size(); d-- > 0;) {
      const bool carry = ++index_[d] == dims_[d];
      for (size_t s = 0; s < kSums; ++s) sums_[s] += (carry ? 1 - dims_[d] : 1) * (*weights_[s])[d];
      if (!carry) return;
      index_[d] = 0;
    }
  }
  int64_t sum(size_t s) const { return sums_[s]; }
  int64_t at(size_t d) const { return index_[d]; }

 private:
  const Dims& dims_;
  std::array<const Dims*, kSums> weights_;
  Dims index_;
  std::array<int64_t, kSums> sums_{};
};

struct Gather {
  IndexSpace space;
  Dims out_strides;  // of the result, per batch dimension
  std::vector<BoxDim> slice;
  int64_t positions, slice_bytes, width;
  // Runs of so many elements of slice p go to place p * run_length, and of each further row of `outer` beside
  // that.
  bool is_flat = false;
  int64_t run_length = 1;
  std::vector<BoxDim> outer{};

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    const int64_t total = positions * slice_bytes;
    if (total == 0) return absl::OkStatus();
    // Rows are cut rather than positions, so that each is read once.
    const bool by_rows = is_flat && !outer.empty();
    const int64_t cut = by_rows ? outer[0].extent : positions, tasks = std::min(cut, total / kTaskBytes + 1);
    context.parallel(tasks, [&](int64_t t) {
      const int64_t begin = cut * t / tasks, end = cut * (t + 1) / tasks;
      if (!by_rows) return run_part(in, out[0], begin, end, context);
      std::vector<BoxDim> rows = outer;
      rows[0].extent = end - begin;
      run_flat(in, out[0], 0, positions, rows, begin * outer[0].from, begin * outer[0].to, context);
    });
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  void run_part(const void* const* in, void* out, int64_t begin, int64_t end,
                const KernelContext& context) const {
    if (is_flat) return run_flat(in, out, begin, end, {}, 0, 0, context);
    Odometer<3> at(space.batch_dims, {&space.batch_strides, &space.batching_strides, &out_strides});
    at.seek(begin);
    for (int64_t p = begin; p < end; ++p, at.step()) {
      if ((p - begin) % kPollEvery == 0 && context.cancelled()) return;
      int64_t from = at.sum(1);
      for (size_t k = 0; k < space.entries.size(); ++k) {
        const IndexEntry& e = space.entries[k];
        const int64_t v = space.read(in[1], at.sum(0), k);
        from += e.stride * std::clamp<int64_t>(v, 0, e.last);
      }
      copy_box(slice, in[0], from, out, at.sum(2), width);
    }
  }

  // All vectors of a block for one row of their slices after the other: neighbours in the result.
  void run_flat(const void* const* in, void* out, int64_t begin, int64_t end, const std::vector<BoxDim>& rows,
                int64_t first_from, int64_t first_to, const KernelContext& context) const {
    std::array<int64_t, kBlock> offsets;
    for (int64_t p = begin; p < end && !context.cancelled(); p += kBlock) {
      const int64_t count = std::min(kBlock, end - p);
      space.starts(in[1], p, count, offsets.data());
      for_each_row(rows.data(), rows.size(), first_from, first_to + p * run_length,
                   [&](int64_t from, int64_t to, int64_t n, int64_t from_step, int64_t to_step) {
                     for (int64_t i = 0; i < n; ++i)
                       copy_runs(static_cast<const std::byte*>(in[0]) + (from + i * from_step) * width,
                                 offsets.data(), count,
                                 static_cast<std::byte*>(out) + (to + i * to_step) * width);
                   });
    }
  }

  void copy_runs(const std::byte* from, const int64_t* offsets, int64_t count, std::byte* to) const {
    const auto copy = [&]<typename T>(T) {
#pragma GCC unroll 8
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(to + i * sizeof(T), from + offsets[i] * sizeof(T), sizeof(T));
    };
    switch (run_length == 1 ? width : 0) {
      case 1:
        return copy(uint8_t{});
      case 2:
        return copy(uint16_t{});
      case 4:
        return copy(uint32_t{});
      case 8:
        return copy(uint64_t{});
      default:
        const int64_t bytes = run_length * width;
        for (int64_t i = 0; i < count; ++i) copy_contiguous(from + offsets[i] * width, to + i * bytes, bytes);
    }
  }
};

// Whether the box is one contiguous run on both sides.
bool is_run(const std::vector<BoxDim>& box) {
  return box.empty() || (box.size() == 1 && box[0].from == 1 && box[0].to == 1);
}

// Updates in the row-major order of the update array: the outer dimensions one position at a time, the
// trailing window dimensions as a box, whose elements all have targets of their own.
struct Scatter {
  struct WindowDim {
    int64_t extent, update, target;  // steps in the updates and in the arrays
    int64_t dim, size;               // of the arrays
  };
  struct FixedDim {
    int64_t dim, size, stride;
  };

  IndexSpace space;
  Region body;
  Dims outer_dims{}, outer_updates{}, outer_indices{};
  std::vector<int64_t>
      outer_array_dim{};  // the dimension of the arrays that an outer dimension moves along, or -1
  std::vector<bool> outer_is_window{};  // adds to the start index there; a batching dimension is the index
  std::vector<WindowDim> window{};      // the box, outermost first
  std::vector<FixedDim> fixed{};        // the arrays' other dimensions
  std::vector<BoxDim> whole{};          // the box where it lies inside the arrays
  std::vector<int64_t> widths{};
  int64_t rank = 0, positions = 1;
  int64_t run_length =
      0;  // if box p is a contiguous run at p * run_length of the updates: its length, else 0
  // Then: leading dimensions of the updates that the indices do not tell apart.
  Dims leading_dims{}, leading_strides{};
  int64_t leading = 1;

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    if (run_length > 0 && (body.combine() || body.kind() == CombineKind::kReplace))
      return run_flat(in, out, context);
    const size_t m = widths.size();
    Region::Scratch scratch(body);
    std::vector<const void*> inputs(2 * m);
    std::vector<void*> targets(m);
    Odometer<2> at(outer_dims, {&outer_updates, &outer_indices});
    if (positions > 0) at.seek(0);
    std::vector<int64_t> start(rank);
    std::vector<BoxDim> part;
    absl::Status status;
    for (int64_t p = 0; p < positions; ++p, at.step()) {
      if (p % kPollEvery == 0 && context.cancelled()) return absl::CancelledError("the run was cancelled");
      int64_t update = at.sum(0), target = 0;
      place(in[m], at, start);
      const std::vector<BoxDim>* box = clip(start, part, update, target);
      if (!box) continue;
      for_each_row(box->data(), box->size(), update, target,
                   [&](int64_t from, int64_t to, int64_t n, int64_t from_step, int64_t to_step) {
                     if (status.ok())
                       status =
                           update_row(in, out, from, to, n, from_step, to_step, scratch, inputs, targets);
                   });
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Threads share the array, not the updates: each looks through all indices for its own.
  absl::Status run_flat(const void* const* in, void* const* out, const KernelContext& context) const {
    if (positions == 0) return absl::OkStatus();
    const bool shared = run_length == 1 && context.isa != Isa::kPortable;
    const int64_t most = shared ? std::min<int64_t>(context.parallel.threads, kMostShares) : 1;
    const int64_t tasks = std::clamp<int64_t>(positions / kSharedUpdates, 1, most), places = space.places();
    context.parallel(tasks, [&](int64_t t) {
      const int64_t first = places * t / tasks, last = places * (t + 1) / tasks;
      const std::byte* updates = static_cast<const std::byte*>(in[2]);
      Odometer<1> at(leading_dims, {&leading_strides});
      at.seek(0);
      for (int64_t block = 0; block < leading; ++block, at.step()) {
        std::byte* const array = static_cast<std::byte*>(out[0]) + at.sum(0) * widths[0];
        update_places(in[1], first, last, updates, array, context);
        updates += positions / leading * run_length * widths[0];
      }
    });
    return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  // The updates of one leading position whose place is in [first, last).
  void update_places(const void* indices, int64_t first, int64_t last, const std::byte* updates,
                     std::byte* array, const KernelContext& context) const {
    const int64_t total = positions / leading, bytes = run_length * widths[0], step = space.place_stride();
    TargetList list;
    for (int64_t p = 0; p < total && !context.cancelled(); p += kBlock) {
      const std::byte* const block = updates + p * bytes;
      space.keep(indices, p, std::min(kBlock, total - p), first, last, context.isa, list);
      if (run_length == 1 && step == 1 && body.indexed_combine()) {
        body.indexed_combine()(array, block, list.targets(), list.updates(), list.size());
        continue;
      }
      const auto each = [&](const auto& f) {
        for (int64_t i = 0; i < list.size(); ++i)
          f(array + list.targets()[i] * step * widths[0], block + list.update(i) * bytes);
      };
      if (body.combine())
        each([&](std::byte* to, const std::byte* update) { body.combine()(to, update, 1, run_length); });
      else if (run_length > 1)
        each([&](std::byte* to, const std::byte* update) { copy_contiguous(update, to, bytes); });
      else
        with_bytes_type(bytes, [&]<typename T>() {
          each([](std::byte* to, const std::byte* update) { std::memcpy(to, update, sizeof(T)); });
        });
    }
  }

  // Coordinates of the box's first element in the arrays, perhaps outside.
  void place(const void* indices, const Odometer<2>& at, std::vector<int64_t>& start) const {
    std::fill(start.begin(), start.end(), 0);
    for (size_t k = 0; k < space.entries.size(); ++k)
      start[space.entries[k].dim] = space.read(indices, at.sum(1), k);
    for (size_t d = 0; d < outer_dims.size(); ++d) {
      const int64_t dim = outer_array_dim[d];
      if (dim < 0) continue;
      if (!outer_is_window[d]) start[dim] = at.at(d);
      // An index near the end of the range is outside anyway, and the sum would overflow.
      else if (start[dim] < std::numeric_limits<int64_t>::max() - at.at(d))
        start[dim] += at.at(d);
    }
  }

  // The part of the box that lies inside the arrays, adding the offsets of its first element; null if none
  // does.
  const std::vector<BoxDim>* clip(const std::vector<int64_t>& start, std::vector<BoxDim>& part,
                                  int64_t& update, int64_t& target) const {
    for (const FixedDim& f : fixed) {
      if (start[f.dim] < 0 || start[f.dim] >= f.size) return nullptr;
      target += start[f.dim] * f.stride;
    }
    bool inside = true;
    part.clear();
    for (const WindowDim& w : window) {
      const int64_t s = start[w.dim];
      if (s >= w.size || s <= -w.extent) return nullptr;
      const int64_t low = std::max<int64_t>(0, -s), high = std::min(w.extent, w.size - s);
      inside &= low == 0 && high == w.extent;
      update += low * w.update;
      target += (s + low) * w.target;
      part.push_back({high - low, w.update, w.target});
    }
    return inside ? &whole : &part;
  }

  absl::Status update_row(const void* const* in, void* const* out, int64_t from, int64_t to, int64_t n,
                          int64_t from_step, int64_t to_step, Region::Scratch& scratch,
                          std::vector<const void*>& inputs, std::vector<void*>& targets) const {
    const size_t m = widths.size();
    const auto source = [&](size_t i, int64_t e) {
      return static_cast<const std::byte*>(in[m + 1 + i]) + (from + e * from_step) * widths[i];
    };
    const auto target = [&](size_t i, int64_t e) {
      return static_cast<std::byte*>(out[i]) + (to + e * to_step) * widths[i];
    };
    if (body.kind() == CombineKind::kKeep) return absl::OkStatus();
    if (body.kind() == CombineKind::kReplace) {
      copy_row(source(0, 0), target(0, 0), n, from_step, to_step, widths[0]);
      return absl::OkStatus();
    }
    const int64_t together = n > 1 && from_step == 1 && to_step == 1 ? n : 1;
    for (int64_t e = 0; e < n; e += together) {
      if (body.combine()) {
        body.combine()(target(0, e), source(0, e), 1, together);
        continue;
      }
      for (size_t i = 0; i < m; ++i) {
        inputs[i] = targets[i] = target(i, e);
        inputs[m + i] = source(i, e);
      }
      if (absl::Status s = body.run(scratch, inputs, targets, together); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
};

// Dimensions of `rank` in neither list.
Dims others(int64_t rank, const Dims& a, const Dims& b) {
  Dims out;
  for (int64_t d = 0; d < rank; ++d)
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  return out;
}

NativeOp gather(const Node& n, bool from_end) {
  const hlo::Attrs& a = n.attrs();
  const hlo::Type &array = *n.operand_type(0), &indices = *n.operand_type(1), &result = *n.type();
  const Dims &sizes = a.ints(Attr::slice_sizes), &offset_dims = a.ints(Attr::offset_dims);
  Gather g{IndexSpace(array, indices, a.integer(Attr::index_vector_dim), a.ints(Attr::start_index_map),
                      a.ints(Attr::operand_batching_dims), a.ints(Attr::start_indices_batching_dims)),
           {},
           {},
           1,
           0,
           hlo::byte_size(array.dtype)};
  g.space.from_end = from_end;
  for (IndexEntry& e : g.space.entries) e.last = array.dims[e.dim] - sizes[e.dim];
  const Dims kept =
      others(array.rank(), a.ints(Attr::collapsed_slice_dims), a.ints(Attr::operand_batching_dims));
  const Dims strides = hlo::row_major_strides(array.dims), out = hlo::row_major_strides(result.dims);
  int64_t elements = 1;
  for (int64_t d = 0; d < result.rank(); ++d) {
    if (!contains(offset_dims, d)) {
      g.out_strides.push_back(out[d]);
      g.positions *= result.dims[d];
      continue;
    }
    const int64_t from = kept[g.slice.size()];
    g.slice.push_back({result.dims[d], strides[from], out[d]});
    elements *= result.dims[d];
  }
  g.slice = simplified(g.slice);
  g.slice_bytes = elements * g.width;
  g.outer = g.slice;
  if (!g.outer.empty() && g.outer.back().from == 1 && g.outer.back().to == 1) {
    g.run_length = g.outer.back().extent;
    g.outer.pop_back();
  }
  g.is_flat = g.space.is_flat;
  int64_t step = g.run_length;
  for (size_t d = g.out_strides.size(); d-- > 0; step *= g.space.batch_dims[d])
    g.is_flat &= g.space.batch_dims[d] == 1 || g.out_strides[d] == step;
  NativeOp op;
  op.what = str_cat(g.positions, " slices of ", elements, " elements");
  op.run = [g = std::move(g)](const void* const* in, void* const* out, const KernelContext& context) {
    return g.run(in, out, context);
  };
  return op;
}

NativeOp scatter(const Node& n, bool from_end) {
  const hlo::Attrs& a = n.attrs();
  const int64_t m = static_cast<int64_t>(n.operands().size()) / 2;
  const hlo::Type &array = *n.operand_type(0), &indices = *n.operand_type(m),
                  &updates = *n.operand_type(m + 1);
  const Dims& window_dims = a.ints(Attr::update_window_dims);
  Scatter s{IndexSpace(array, indices, a.integer(Attr::index_vector_dim),
                       a.ints(Attr::scatter_dims_to_operand_dims), a.ints(Attr::input_batching_dims),
                       a.ints(Attr::scatter_indices_batching_dims)),
            Region(a.computation(Attr::body))};
  s.space.from_end = from_end;
  s.rank = array.rank();
  for (int64_t i = 0; i < m; ++i) s.widths.push_back(hlo::byte_size(n.operand_type(i)->dtype));
  const Dims kept =
      others(array.rank(), a.ints(Attr::inserted_window_dims), a.ints(Attr::input_batching_dims));
  const Dims strides = hlo::row_major_strides(array.dims), steps = hlo::row_major_strides(updates.dims);
  // The longest tail of window dimensions is the box.
  int64_t tail = updates.rank();
  while (tail > 0 && contains(window_dims, tail - 1)) --tail;
  size_t next_batch = 0, next_kept = 0;
  Dims in_box;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    const bool is_window = contains(window_dims, d);
    const int64_t dim = is_window ? kept[next_kept++] : -1;
    if (d >= tail) {
      s.window.push_back({updates.dims[d], steps[d], strides[dim], dim, array.dims[dim]});
      s.whole.push_back({updates.dims[d], steps[d], strides[dim]});
      in_box.push_back(dim);
      continue;
    }
    s.outer_dims.push_back(updates.dims[d]);
    s.outer_updates.push_back(steps[d]);
    s.outer_indices.push_back(is_window ? 0 : s.space.batch_strides[next_batch]);
    s.outer_array_dim.push_back(is_window ? dim : s.space.batching_dims[next_batch]);
    s.outer_is_window.push_back(is_window);
    next_batch += !is_window;
    s.positions *= updates.dims[d];
  }
  s.whole = simplified(s.whole);
  for (int64_t d = 0; d < array.rank(); ++d)
    if (!contains(in_box, d)) s.fixed.push_back({d, array.dims[d], strides[d]});
  // The box must move along its fixed dimensions only, and every outer dimension be one of the indices' but
  // for leading ones, along which they do not move it.
  bool flat = s.space.is_flat && is_run(s.whole) && s.space.places() <= std::numeric_limits<int32_t>::max();
  for (size_t d = 0; d < s.outer_dims.size() && s.outer_is_window[d]; ++d) {
    s.leading_dims.push_back(s.outer_dims[d]);
    s.leading_strides.push_back(strides[s.outer_array_dim[d]]);
    s.leading *= s.outer_dims[d];
    in_box.push_back(s.outer_array_dim[d]);
  }
  for (size_t d = s.leading_dims.size(); d < s.outer_dims.size(); ++d) flat &= !s.outer_is_window[d];
  flat &= s.fixed.size() == s.space.entries.size() + s.leading_dims.size();
  for (const IndexEntry& e : s.space.entries) flat &= !contains(in_box, e.dim);
  if (flat) s.run_length = s.whole.empty() ? 1 : s.whole[0].extent;
  NativeOp op;
  op.updated = static_cast<int>(m);
  op.what = str_cat(s.positions, " boxes, ",
                    s.body.combine() || s.body.kind() == CombineKind::kReplace ? "row" : "region", " form");
  op.run = [s = std::move(s)](const void* const* in, void* const* out, const KernelContext& context) {
    return s.run(in, out, context);
  };
  return op;
}

}  // namespace

NativeOp make_gather(const Node& n) { return gather(n, false); }
NativeOp make_scatter(const Node& n) { return scatter(n, false); }
NativeOp make_indexed_from_end(const Node& n) {
  return n.op() == hlo::Op::gather ? gather(n, true) : scatter(n, true);
}

}  // namespace lamina::jit
