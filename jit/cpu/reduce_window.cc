// reduce_window and select_and_scatter, many positions at a time: element by element of the window, rows of
// positions are combined as vectors, in the order of hlo/reduce_tree.h for each.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "hlo/attributes.h"
#include "hlo/reduce_tree.h"
#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/region.h"
#include "jit/cpu/target_list.h"
#include "jit/cpu/window.h"
#include "jit/cpu/window_fold.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Node;

// Positions of a run that are combined at a time: the lanes of the tree stay in the first cache levels.
constexpr int64_t kRowBlock = 128;
// Positions this many elements apart at most are combined with those between them, of which nobody asks.
constexpr int64_t kMostFoldedStep = 3;
// Elements visited by one task; tasks are cut by size only.
constexpr int64_t kWindowTask = 256 * 1024;

// Whether any order of combining gives the same bits.
bool is_order_free(CombineKind kind, hlo::DType type) {
  switch (kind) {
    case CombineKind::kMaximum:
    case CombineKind::kMinimum:
      return !hlo::is_complex(type);
    case CombineKind::kAdd:
    case CombineKind::kMultiply:
      return !hlo::is_inexact(type);
    default:
      return false;
  }
}

// What one operand contributes: `n` elements, `step` apart.
struct Source {
  const std::byte* data;
  int64_t step;
};

constexpr size_t kFewOperands = 2;
using Pointers = absl::InlinedVector<const void*, kFewOperands>;

// The tree over rows: row after row is pushed, then they fold to one.
class RowTree {
 public:
  RowTree(const Region& body, std::vector<int64_t> widths, int64_t lanes)
      : body_(body), widths_(std::move(widths)), lanes_(lanes), scratch_(body) {}

  void start(int64_t n) {
    n_ = n;
    for (Level& l : levels_) l.count = 0;
  }

  absl::Status push(size_t level, std::span<const Source> row) {
    if (level == levels_.size()) add_level();
    Level& l = levels_[level];
    const int64_t lane = l.count % lanes_;
    if (l.count < lanes_) {
      for (size_t i = 0; i < widths_.size(); ++i)
        copy_row(row[i].data, l.row(i, lane, n_ * widths_[i]), n_, row[i].step, 1, widths_[i]);
    } else {
      Pointers rows;
      for (size_t i = 0; i < widths_.size(); ++i) {
        copy_row(row[i].data, spare_[i].data(), n_, row[i].step, 1, widths_[i]);
        rows.push_back(spare_[i].data());
      }
      if (absl::Status s = combine(l, lane, rows, n_); !s.ok()) return s;
    }
    if (++l.count < hlo::kReduceChunk) return absl::OkStatus();
    return carry(level);
  }

  // The result of operand `i`, one row, once `finish` was called after at least one push.
  const std::byte* result(size_t i) { return levels_[top_].row(i, 0, 0); }
  std::byte* mutable_result(size_t i) { return levels_[top_].row(i, 0, 0); }
  absl::Status finish() {
    for (size_t level = 0;; ++level) {
      bool above = false;
      for (size_t k = level + 1; k < levels_.size(); ++k) above |= levels_[k].count > 0;
      if (!above) {
        top_ = level;
        return fold(levels_[level]);
      }
      if (levels_[level].count > 0)
        if (absl::Status s = carry(level); !s.ok()) return s;
    }
  }
  // result = body(result, rows).
  absl::Status combine_result(std::span<const void* const> rows) {
    return combine(levels_[top_], 0, rows, n_);
  }

 private:
  struct Level {
    std::vector<std::vector<std::byte>> lanes;  // per operand, lane after lane, pitch: the row
    int64_t count = 0;
    std::byte* row(size_t operand, int64_t lane, int64_t pitch) {
      return lanes[operand].data() + lane * pitch;
    }
  };

  void add_level() {
    Level l;
    for (int64_t w : widths_) l.lanes.emplace_back(lanes_ * kRowBlock * w);
    levels_.push_back(std::move(l));
    if (spare_.empty())
      for (int64_t w : widths_) spare_.emplace_back(kRowBlock * w);
  }

  // `n` elements from lane `lane` on = body(those, rows).
  absl::Status combine(Level& l, int64_t lane, std::span<const void* const> rows, int64_t n) {
    if (body_.combine()) {
      body_.combine()(l.row(0, lane, n_ * widths_[0]), rows[0], 1, n);
      return absl::OkStatus();
    }
    Pointers in;
    absl::InlinedVector<void*, kFewOperands> out;
    for (size_t i = 0; i < widths_.size(); ++i) out.push_back(l.row(i, lane, n_ * widths_[i]));
    in.assign(out.begin(), out.end());
    in.insert(in.end(), rows.begin(), rows.end());
    return body_.run(scratch_, in, out, n);
  }

  absl::Status fold(Level& l) {
    int64_t held = std::min(l.count, lanes_);
    for (int64_t s = lanes_ / 2; s >= 1; s /= 2) {
      if (held > s) {
        Pointers rows;
        for (size_t i = 0; i < widths_.size(); ++i) rows.push_back(l.row(i, s, n_ * widths_[i]));
        if (absl::Status status = combine(l, 0, rows, (held - s) * n_); !status.ok()) return status;
      }
      held = std::min(held, s);
    }
    return absl::OkStatus();
  }

  // Folds a level into one more row of the next.
  absl::Status carry(size_t level) {
    if (absl::Status s = fold(levels_[level]); !s.ok()) return s;
    levels_[level].count = 0;
    if (level + 1 == levels_.size()) add_level();
    absl::InlinedVector<Source, kFewOperands> row;
    for (size_t i = 0; i < widths_.size(); ++i) row.push_back({levels_[level].row(i, 0, 0), 1});
    return push(level + 1, row);
  }

  const Region& body_;
  const std::vector<int64_t> widths_;
  const int64_t lanes_;
  Region::Scratch scratch_;
  std::vector<Level> levels_;
  std::vector<std::vector<std::byte>> spare_;
  int64_t n_ = 0;
  size_t top_ = 0;
};

// Calls f(first_row, last_row) for parts of the walk, in parallel; the first error wins.
template <typename F>
absl::Status for_parts(const WindowWalk& walk, const KernelContext& context, F&& f) {
  if (walk.rows() * walk.row_length() == 0) return absl::OkStatus();
  const int64_t work = walk.rows() * walk.row_length() * walk.volume();
  const int64_t tasks = std::min(walk.rows(), work / kWindowTask + 1);
  std::vector<absl::Status> statuses(tasks);
  context.parallel(
      tasks, [&](int64_t t) { statuses[t] = f(walk.rows() * t / tasks, walk.rows() * (t + 1) / tasks); });
  for (const absl::Status& s : statuses)
    if (!s.ok()) return s;
  return absl::OkStatus();
}

absl::Status cancelled() { return absl::CancelledError("the run was cancelled"); }

struct ReduceWindow {
  WindowWalk walk;
  Region body;
  std::vector<int64_t> widths;
  int64_t lanes;
  bool order_free;
  bool one_per_lane;  // an element of a window is alone in its lane, and one routine combines them
  WindowFold fold;    // where either holds; null if there is none

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    return for_parts(walk, context,
                     [&](int64_t begin, int64_t end) { return run_rows(in, out, begin, end, context); });
  }

  absl::Status run_rows(const void* const* in, void* const* out, int64_t begin, int64_t end,
                        const KernelContext& context) const {
    const size_t m = widths.size();
    WindowWalk::State state;
    RowTree tree(body, widths, lanes);
    std::vector<std::vector<std::byte>> inits;
    std::vector<const void*> init_rows;
    for (size_t i = 0; i < m; ++i) {
      inits.emplace_back(kRowBlock * widths[i]);
      for (int64_t e = 0; e < kRowBlock; ++e)
        std::memcpy(inits[i].data() + e * widths[i], in[m + i], widths[i]);
      init_rows.push_back(inits[i].data());
    }
    std::vector<std::byte> row((one_per_lane ? lanes : 1) * kRowBlock * widths[0]);
    std::vector<std::byte> spans(fold ? 2 * kMostFoldedStep * kRowBlock * widths[0] : 0);
    std::vector<Source> sources(m);
    absl::Status status;
    for (int64_t r = begin; r < end; ++r) {
      if (context.cancelled()) return cancelled();
      walk.for_row(r, state, [&](const WindowWalk::Stretch& run, int64_t place) {
        for (int64_t at = run.begin; at < run.end && status.ok(); at += kRowBlock) {
          const int64_t n = std::min(kRowBlock, run.end - at), shift = run.base + (at - run.begin) * run.step;
          const int64_t to = place + at * walk.row_step();
          const auto store = [&](size_t i, const std::byte* from) {
            copy_row(from, static_cast<std::byte*>(out[i]) + to * widths[i], n, 1, walk.row_step(),
                     widths[i]);
          };
          if (run.offsets->empty()) {
            for (size_t i = 0; i < m; ++i) store(i, inits[i].data());
          } else if (fold && run.step <= kMostFoldedStep) {
            const bool in_place = walk.row_step() == 1;
            std::byte* const all = in_place ? static_cast<std::byte*>(out[0]) + to * widths[0] : row.data();
            fold_span(static_cast<const std::byte*>(in[0]) + shift * widths[0], in[1], run, n, spans, all);
            if (!in_place) store(0, all);
          } else if (order_free) {
            const std::byte* const from = static_cast<const std::byte*>(in[0]) + shift * widths[0];
            std::memcpy(row.data(), inits[0].data(), n * widths[0]);
            for (const int64_t offset : *run.offsets)
              body.combine()(row.data(), from + offset * widths[0], run.step, n);
            store(0, row.data());
          } else if (one_per_lane) {
            fold_lanes(static_cast<const std::byte*>(in[0]) + shift * widths[0], run, n, row.data());
            body.combine()(row.data(), inits[0].data(), 1, n);
            store(0, row.data());
          } else {
            tree.start(n);
            for (const int64_t offset : *run.offsets) {
              for (size_t i = 0; i < m; ++i)
                sources[i] = {static_cast<const std::byte*>(in[i]) + (shift + offset) * widths[i], run.step};
              if (status.ok()) status = tree.push(0, sources);
            }
            if (status.ok()) status = tree.finish();
            if (status.ok()) status = tree.combine_result(init_rows);
            if (status.ok())
              for (size_t i = 0; i < m; ++i) store(i, tree.result(i));
          }
        }
      });
      if (!status.ok()) return status;
    }
    return status;
  }

  // `row` = the elements of the windows of `n` positions that are a few elements apart, and `init`.
  void fold_span(const std::byte* from, const void* init, const WindowWalk::Stretch& run, int64_t n,
                 std::vector<std::byte>& spans, std::byte* row) const {
    const std::vector<int64_t>& offsets = *run.offsets;
    const int64_t width = widths[0], count = std::ssize(offsets), length = (n - 1) * run.step + 1;
    std::byte* const all = run.step == 1 ? row : spans.data();
    fold(all, from, offsets.data(), std::min(count, kMostFolded), length, init);
    for (int64_t k = kMostFolded; k < count; k += kMostFolded) {
      std::byte* const more = spans.data() + kMostFoldedStep * kRowBlock * width;
      fold(more, from, offsets.data() + k, std::min(count - k, kMostFolded), length, nullptr);
      body.combine()(all, more, 1, length);
    }
    if (run.step != 1) copy_row(all, row, n, run.step, 1, width);
  }

  // The first of `rows` = the tree over the windows of `n` positions. Each lane holds one element, so the
  // upper half of them combines straight from the array.
  void fold_lanes(const std::byte* from, const WindowWalk::Stretch& run, int64_t n, std::byte* rows) const {
    const std::vector<int64_t>& offsets = *run.offsets;
    const int64_t width = widths[0], pitch = n * width, count = std::ssize(offsets);
    const int64_t half = std::max<int64_t>(1, std::bit_ceil(static_cast<uint64_t>(count)) / 2);
    for (int64_t k = 0; k < half; ++k)
      copy_row(from + offsets[k] * width, rows + k * pitch, n, run.step, 1, width);
    for (int64_t k = half; k < count; ++k)
      body.combine()(rows + (k - half) * pitch, from + offsets[k] * width, run.step, n);
    for (int64_t s = half / 2; s >= 1; s /= 2) body.combine()(rows, rows + s * pitch, 1, s * n);
  }
};

// First where each position's choice stands, in parallel; then the updates, in the order of the positions.
struct SelectAndScatter {
  WindowWalk walk;
  Region select, scatter;
  int64_t width, positions, elements;

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    absl::StatusOr<BufferRef> buffer = context.scratch->allocate(positions * int64_t{8});
    if (!buffer.ok()) return buffer.status();
    int64_t* const chosen = static_cast<int64_t*>(pointer((*buffer)->address()));
    absl::Status status = for_parts(walk, context, [&](int64_t begin, int64_t end) {
      return choose(static_cast<const std::byte*>(in[0]), chosen, begin, end, context);
    });
    if (!status.ok()) return status;
    std::byte* const to = static_cast<std::byte*>(out[0]);
    for (int64_t i = 0; i < elements; ++i) std::memcpy(to + i * width, in[2], width);
    const std::byte* const source = static_cast<const std::byte*>(in[1]);
    Region::Scratch scratch(scatter);
    TargetList targets;
    for (int64_t begin = 0; begin < positions; begin += kWindowTask) {
      if (context.cancelled()) return cancelled();
      const int64_t n = std::min(kWindowTask, positions - begin);
      if (scatter.indexed_combine() && elements <= std::numeric_limits<int32_t>::max()) {
        for (int64_t p = begin; p < begin + n; p += TargetList::kMost) {
          targets.keep(chosen + p, std::min(TargetList::kMost, begin + n - p), 0,
                       static_cast<int32_t>(elements), context.isa);
          scatter.indexed_combine()(to, source + p * width, targets.targets(), targets.updates(),
                                    targets.size());
        }
        continue;
      }
      for (int64_t p = begin; p < begin + n; ++p) {
        if (chosen[p] < 0) continue;
        const void* args[] = {to + chosen[p] * width, source + p * width};
        void* result[] = {to + chosen[p] * width};
        if (absl::Status s = scatter.run(scratch, args, result, 1); !s.ok()) return s;
      }
    }
    return absl::OkStatus();
  }

  absl::Status choose(const std::byte* array, int64_t* chosen, int64_t begin, int64_t end,
                      const KernelContext& context) const {
    WindowWalk::State state;
    Region::Scratch scratch(select);
    std::vector<std::byte> best(kRowBlock * width), candidate(kRowBlock * width);
    std::vector<uint8_t> keep(kRowBlock);
    std::vector<int64_t> index(kRowBlock);
    absl::Status status;
    for (int64_t r = begin; r < end; ++r) {
      if (context.cancelled()) return cancelled();
      walk.for_row(r, state, [&](const WindowWalk::Stretch& run, int64_t place) {
        for (int64_t at = run.begin; at < run.end && status.ok(); at += kRowBlock) {
          const int64_t n = std::min(kRowBlock, run.end - at), shift = run.base + (at - run.begin) * run.step;
          std::fill(index.begin(), index.begin() + n, -1);
          for (size_t k = 0; k < run.offsets->size() && status.ok(); ++k) {
            const int64_t from = shift + (*run.offsets)[k];
            std::byte* const row = k == 0 ? best.data() : candidate.data();
            copy_row(array + from * width, row, n, run.step, 1, width);
            if (k == 0) {
              for (int64_t i = 0; i < n; ++i) index[i] = from + i * run.step;
              continue;
            }
            const void* args[] = {best.data(), candidate.data()};
            void* result[] = {keep.data()};
            status = select.run(scratch, args, result, n);
            for (int64_t i = 0; i < n; ++i) {
              if (keep[i]) continue;
              index[i] = from + i * run.step;
              std::memcpy(best.data() + i * width, candidate.data() + i * width, width);
            }
          }
          for (int64_t i = 0; i < n; ++i) chosen[place + (at + i) * walk.row_step()] = index[i];
        }
      });
      if (!status.ok()) return status;
    }
    return status;
  }
};

}  // namespace

NativeOp make_reduce_window(const Node& n) {
  const size_t m = n.operands().size() / 2;
  ReduceWindow w{WindowWalk(n, n.operand_type(0)->dims, n.result_type(0)->dims),
                 Region(n.attrs().computation(Attr::body)),
                 {},
                 1,
                 false,
                 false,
                 nullptr};
  int64_t part = 1;
  for (size_t i = 0; i < m; ++i) {
    const hlo::DType type = n.operand_type(i)->dtype;
    w.widths.push_back(hlo::byte_size(type));
    part = std::max(part, hlo::byte_size(hlo::part_type(type)));
  }
  w.lanes = hlo::kReduceLaneBytes / part;
  w.order_free = w.body.combine() && is_order_free(w.body.kind(), n.operand_type(0)->dtype);
  w.one_per_lane = m == 1 && w.body.combine() && w.walk.volume() <= w.lanes;
  if (w.order_free || (w.one_per_lane && w.walk.volume() <= kMostFolded))
    w.fold = window_fold(w.body.kind(), n.operand_type(0)->dtype);
  NativeOp op;
  op.what = str_cat("windows of up to ", w.walk.volume(), " elements, ",
                    w.order_free       ? "plain"
                    : w.one_per_lane   ? "lanes"
                    : w.body.combine() ? "row tree"
                                       : "region tree");
  op.run = [w = std::move(w)](const void* const* in, void* const* out, const KernelContext& context) {
    return w.run(in, out, context);
  };
  return op;
}

NativeOp make_select_and_scatter(const Node& n) {
  const hlo::Type &array = *n.operand_type(0), &source = *n.operand_type(1);
  SelectAndScatter s{WindowWalk(n, array.dims, source.dims),
                     Region(n.attrs().computation(Attr::select)),
                     Region(n.attrs().computation(Attr::scatter)),
                     hlo::byte_size(array.dtype),
                     source.num_elements,
                     array.num_elements};
  NativeOp op;
  op.what = str_cat("windows of up to ", s.walk.volume(), " elements");
  op.run = [s = std::move(s)](const void* const* in, void* const* out, const KernelContext& context) {
    return s.run(in, out, context);
  };
  return op;
}

}  // namespace lamina::jit
