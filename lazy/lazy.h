// Lazy arrays: a graph value, and whether its element type is weak (made from a Python or C++ number).
//
// Contract: functions here throw lamina::Error. Recording an op costs no computation; a value is computed
// when it is forced, together with everything live that was recorded before. Forced values are kept, and
// computed once.
#ifndef LAMINA_LAZY_LAZY_H_
#define LAMINA_LAZY_LAZY_H_

#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "jit/array.h"
#include "lamina/error.h"

namespace lamina::lazy {

using hlo::Dims;
using hlo::DType;
using hlo::Value;

struct Lazy {
  Value value;
  bool weak = false;
};

[[noreturn]] void throw_status(const absl::Status& status);
inline void check(const absl::Status& status) {
  if (!status.ok()) throw_status(status);
}
template <typename T>
T check(absl::StatusOr<T> result) {
  if (!result.ok()) throw_status(result.status());
  return *std::move(result);
}

// A handle to a lazy array, counted as live: a flush computes what live handles name. Copies share the cell,
// so that an in-place update is seen by all holders.
class Cell {
 public:
  explicit Cell(Lazy lazy);
  ~Cell();
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  const Lazy& get() const { return lazy_; }
  void set(Lazy lazy);

 private:
  friend class Session;
  Lazy lazy_;
  size_t position_;  // in the session's list
};

// --- making values ---

// Copies host memory in (row-major, dense).
Value from_host(DType dtype, std::span<const int64_t> dims, const void* data);
// Shares memory; `release` runs when the last user is gone.
Value from_foreign(DType dtype, std::span<const int64_t> dims, void* data, std::function<void()> release);
// A number as a leaf: its value never enters a key. Inside a jit trace numbers are constants.
Value number(DType dtype, const void* element);

// --- forcing ---

// Computes the values (and everything live recorded so far); they hold arrays afterwards.
void force(std::span<const Value> values);
// The array of one value, forced.
jit::ArrayPtr array(const Value& value);
// Whether the value can be forced: no unbound jit or vmap parameter lies beneath it.
bool forceable(const Value& value);
// Why a value that is not forceable is not known, in words.
std::string why_unknown(const Value& value);
// Flushes when much has been recorded since the last flush; called after each recorded op.
void note_recorded();

struct SyncStats {
  int64_t flushes = 0;
  int64_t automatic_flushes = 0;
  int64_t recorded = 0;
};
SyncStats sync_stats();

// --- element types (JAX's promotion lattice) ---

struct PromotedType {
  DType dtype;
  bool weak;
};
PromotedType promote(DType a, bool weak_a, DType b, bool weak_b);
// Operands converted to their common type.
bool promote_operands(hlo::Builder& b, std::span<Lazy> operands);
// NumPy's broadcasting of shapes; throws with both shapes and the axis that does not fit.
Dims broadcast_shapes(std::span<const Dims> shapes, std::string_view what);
Value broadcast_to(hlo::Builder& b, const Value& x, std::span<const int64_t> dims);

// An elementwise op with broadcasting and promotion of its operands.
Lazy elementwise(hlo::Op op, std::span<const Lazy* const> operands,
                 const hlo::Attrs* attrs = hlo::no_attrs());
Lazy elementwise(hlo::Op op, std::span<const Lazy> operands, const hlo::Attrs* attrs = hlo::no_attrs());
// Any op as it is.
std::vector<Lazy> record(hlo::Op op, std::span<const Lazy> operands, const hlo::Attrs* attrs);

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_LAZY_H_
