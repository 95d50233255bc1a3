// Ways through a loop in reverse mode: by states that are kept (loop_states.cc), or by a log of what its
// steps leave for the way back, for all that is carried (loop_log.cc) or tile by tile (loop_tiles.cc).
//
// Contract: `of` gives none where the way does not fit the loop. `record` takes the carries x and cotangents
// of the marked results, and gives those of the marked carries. `primal` gives the results by a program that
// `record` begins with: in one program the two run once.
#ifndef LAMINA_TRACE_RULES_LOOP_LOG_H_
#define LAMINA_TRACE_RULES_LOOP_LOG_H_

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "trace/rules/loop_sums.h"
#include "trace/rules/loops.h"

namespace lamina::trace {

// Cotangents of the marked carries of a loop from its carries x and the cotangents of the marked results,
// with states kept; back: (carries, cotangents after a step) -> those before it.
Values reversed_by_states(Builder& b, const Loop& loop, const Mask& marked, const ComputationPtr& back,
                          std::span<const Value> x, std::span<const Value> ct);
// The results, by what `reversed_by_states` begins with.
Values run_by_states(Builder& b, const Loop& loop, const Mask& marked, std::span<const Value> x);

// A step cut in two: what it leaves for its linear part, and the way back through that.
struct SplitStep {
  // What the linear part needs: the result of `known` or the carry of this number.
  struct Residual {
    enum Kind : uint8_t { kComputed, kCarry, kFixed, kUnread } kind;
    size_t index;
    bool is_logged() const { return kind == kComputed || kind == kCarry; }
  };
  Loop loop;             // differentiated
  ComputationPtr known;  // carries -> (carries after the step..., computed residuals...)
  ComputationPtr back;   // (residuals..., cotangents of the marked after the step) -> those before it
  std::vector<Residual> residuals;

  // The residuals of a step in their order: rows of the log, carries that stay (`fixed`), zeros where unread.
  Values residual_values(Builder& b, std::span<const Value> logged, std::span<const Value> fixed) const;
  // What a step from carries `x` leaves in the log, `made` by `known`.
  Values logged(std::span<const Value> x, std::span<const Value> made) const;
  // The carries after it.
  Values carries(std::span<const Value> x, std::span<const Value> made) const;
  Values fixed(std::span<const Value> x) const;
  int64_t logged_bytes() const;  // of one step
};
// Where `given` is not empty cotangents come of these marked results alone, and those of others are taken for
// zeros; what a step leaves is the same.
absl::StatusOr<SplitStep> split_step(const Loop& loop, const Mask& marked, const Mask& given = {});
// The step with the computed residuals that are marked in `again` made on the way back, from the carries that
// they are made of.
absl::StatusOr<SplitStep> made_again(const SplitStep& step, const Mask& again);

// For steps that need little of what they carry, or that are dearer than what they leave.
class StepLog {
 public:
  // `given`: as of split_step.
  static absl::StatusOr<std::optional<StepLog>> of(const Loop& loop, const Mask& marked, const Mask& given);
  Values primal(Builder& b, std::span<const Value> x) const;
  Values record(Builder& b, std::span<const Value> x, std::span<const Value> ct) const;

 private:
  struct Run {
    Values carries;
    Value steps;
    Values logs;
  };
  // Cotangents before the steps that are left, of carries and cotangents after them.
  using Rest = std::function<Values(Builder&, std::span<const Value> x, std::span<const Value> ct)>;
  // As many steps as there are rows for.
  Run run_on(Builder& b, std::span<const Value> from, int64_t rows) const;
  // What sums over steps are made after the loop that undoes the steps of so many rows, as of a scan of
  // (carries that stay, cotangents; rows).
  absl::StatusOr<SummedAfter> summed_after(int64_t rows) const;
  void add_sums(Builder& b, const SummedAfter& sums, std::span<const Value> logs, const Value& steps,
                size_t carries, Values* results) const;
  // Cotangents before the steps of the log, of those after them.
  Values undone(Builder& b, const Run& run, std::span<const Value> ct) const;
  // The same, of those after the whole loop: the steps that the run left, if any, are undone by `rest`.
  Values before(Builder& b, const Run& run, std::span<const Value> ct, const Rest& rest) const;
  // The loop whose steps are so many as a log has rows, and a way back through one of them.
  absl::StatusOr<Loop> loop_of_parts() const;
  absl::StatusOr<ComputationPtr> part_back() const;

  Mask marked_;
  SplitStep step_;
  int64_t most_rows_ = 0, first_rows_ = 0;
};

// For steps that compute element by element.
class TiledLoop {
 public:
  static absl::StatusOr<std::optional<TiledLoop>> of(const Loop& loop, const Mask& marked);
  // Whether what a scan of so many steps would stack is more than caches hold, and needs not be stacked.
  static bool is_better(const Loop& loop, const Mask& tangents, int64_t steps);
  // Whether a loop over lanes that end apart is one of which each element is a lane: its kernel takes no more
  // steps than the longest of a few lanes side by side, so little is gained by lanes one after the other.
  static bool has_lanes_of_elements(const Loop& loop);
  Values primal(Builder& b, std::span<const Value> x) const;
  Values record(Builder& b, std::span<const Value> x, std::span<const Value> ct) const;

 private:
  // Without the derivative of a step; of at least so many elements.
  static absl::StatusOr<std::optional<TiledLoop>> fitting(const Loop& loop, const Mask& marked,
                                                          int64_t least);
  // The results and, as a last one, the number of steps, of each lane's where lanes end apart.
  Values run(Builder& b, std::span<const Value> x) const;
  absl::StatusOr<Loop> counted() const;
  Value no_steps(Builder& b) const;
  // Of a tile: the carries that steps read or change, cotangents of the marked ones among them, the number of
  // steps.
  Values undone(Builder& b, std::span<const Value> x, std::span<const Value> ct, const Value& steps) const;
  // By a log of `length` rows, of which `steps` are of steps taken; without that all are.
  Values logged(Builder& b, int64_t length, std::span<const Value> x, std::span<const Value> ct,
                const Value& steps) const;
  Values in_parts(Builder& b, std::span<const Value> x, std::span<const Value> ct, const Value& steps) const;
  Values tile_by_tile(Builder& b, std::span<const Value> x, std::span<const Value> ct,
                      const Value& steps) const;

  Loop loop_;
  Mask marked_, used_, used_marked_;
  Dims space_;
  std::optional<size_t> flag_;  // the carry that says which lanes go on
  int64_t elements_ = 0, tile_ = 0;
  SplitStep step_;  // of a tile, of the carries used
};

}  // namespace lamina::trace

#endif  // LAMINA_TRACE_RULES_LOOP_LOG_H_
