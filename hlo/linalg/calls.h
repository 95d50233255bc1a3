// Matrix routines that run on the host: targets of `custom_call` that every process of this library knows by
// name ("lamina.NAME"), with their types, derivatives and batches.
//
// Contract: matrices are the last dimensions, everything before them is a batch, whose dimensions are equal
// or 1; each matrix of a batch is computed by itself, so batches and loops give the same bits. Arithmetic is
// in double precision and rounded once. What is used depends on the size of one matrix only: LAPACK, if the
// machine has it, for large ones, own code for small ones. Numbers that are not finite give NaN, and so does
// a factorization that does not exist. Fourier transforms of lines are called so, too, in arithmetic of their
// own (hlo/linalg/fourier.h).
#ifndef LAMINA_HLO_LINALG_CALLS_H_
#define LAMINA_HLO_LINALG_CALLS_H_

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "hlo/batching.h"
#include "hlo/builder.h"
#include "hlo/custom_rule.h"
#include "hlo/linalg/host.h"
#include "hlo/op.h"

namespace lamina::hlo::linalg {

class Problem;
struct Group;

// Calls its function once for each number below the count, in any order and on any threads.
using EachMatrix = std::function<void(int64_t count, const std::function<void(int64_t)>& one)>;
// Of all matrices of one operand.
using PlannedRoutine = std::function<void(const void* operand, void* result, const EachMatrix& each)>;
// What is made once for many runs, for types that fit.
struct Plans {
  bool (*exist)(const Type& operand, const Type& result);
  PlannedRoutine (*make)(const Type& operand, const Type& result);
};

// A row of the table of routines. The signature names operands and results: T is the element type, R its real
// part type, C its complex type, I is s32; k is the smaller of m and n; p and q are sizes of a result, k or
// more, p up to m and q up to n; n is even beside h, and h is half of it and one more.
struct Routine {
  std::string_view name, signature;
  void (*real)(const Problem&);
  void (*complex)(const Problem&);
  JvpRule jvp;
  TransposeRule transpose;
  // Of several small real problems at once, with the same bits; may be null.
  void (*lanes)(const Group& group) = nullptr;
  const Plans* plans = nullptr;  // in place of all these functions
  // Whether a small problem takes little longer than to read and write its matrices.
  bool is_brief = false;
  // Matrices with more rows or columns go to LAPACK, where the machine has it, not to `lanes`.
  int64_t most_lane_rows = kMostLaneRows;
};

// Null if there is none of this name.
const Routine* find_routine(std::string_view name);
// Whether operands and results have the types that the signature asks for; the error says what does not fit.
absl::Status check_call(const Routine& routine, std::span<const Type* const> operands,
                        std::span<const Type* const> results);
absl::Status run_call(const Routine& routine, std::span<const LiteralPtr> operands,
                      std::span<const std::shared_ptr<Literal>> results);
// Calls of a routine without plans on dense arrays of the same types.
class MatrixCall {
 public:
  static absl::StatusOr<MatrixCall> make(const Routine& routine, std::span<const Type* const> operands,
                                         std::span<const Type* const> results);
  // Matrices of the batch.
  int64_t count() const { return count_; }
  // Extent of the first dimension of the batch; 0 without one.
  int64_t leading() const { return outer_.empty() ? 0 : outer_[0]; }
  // Whether several are solved side by side.
  bool in_lanes() const { return in_lanes_; }
  // Those from `begin` to `end`, by whom `each` says.
  absl::Status run(const void* const* operands, void* const* results, int64_t begin, int64_t end,
                   const EachMatrix& each) const;

 private:
  struct Array {
    const Type* type;
    int rank;       // of one matrix
    int64_t count;  // of matrices
  };

  void place(int64_t linear, std::span<int64_t> at) const;

  const Routine* routine_ = nullptr;
  std::vector<Array> in_, out_;
  std::vector<int64_t> outer_;
  int64_t count_ = 0;
  bool complex_ = false, in_lanes_ = false;
};
// Batched operands get their batch in front; others stay, but for the last one.
BatchResult batch_call(Builder& b, const Node& node, std::span<const Value> operands,
                       std::span<const bool> batched, int64_t size);

// Records a call; results have the types of the signature, with p = m and q = n if `full`, else k.
Values call(Builder& b, std::string_view name, std::span<const Value> operands, bool full = false);

}  // namespace lamina::hlo::linalg

#endif  // LAMINA_HLO_LINALG_CALLS_H_
