// Lazy arrays: a graph value, and whether its element type is weak (made from a Python or C++ number).
//
// Contract: functions here throw lamina::Error. Recording an op costs no computation; a value is computed
// when it is forced, together with everything live that this thread recorded before. Forced values are kept,
// and computed once. Each thread has a session: its live handles, open scopes and count of recorded ops.
#ifndef LAMINA_LAZY_LAZY_H_
#define LAMINA_LAZY_LAZY_H_

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "jit/client/array.h"
#include "lamina/error.h"

namespace lamina::lazy {

using hlo::Dims;
using hlo::DType;
using hlo::Value;

struct Lazy {
  Value value;
  bool weak = false;
  // Of a weak value made of numbers: the same elements unrounded, in the widest type of their kind; `value`
  // is it converted. Conversions, and arithmetic among such values, start from it, so that a number keeps its
  // bits until its element type is decided. Null elsewhere.
  Value wide = {};
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

class Session;

// A handle to a lazy array, counted as live: a flush computes what live handles of its thread name. Copies
// share the cell, so that an in-place update is seen by all holders. While its value is not known it belongs
// to the session of the thread that gave it that value; it may be used and destroyed on any.
class Cell {
 public:
  explicit Cell(Lazy&& lazy);
  ~Cell();
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  const Lazy& get() const { return lazy_; }
  void set(Lazy lazy);

 private:
  friend class Session;
  Lazy lazy_;
  std::atomic<Session*> session_{nullptr};  // that lists it; null: none, which no other thread changes then
  size_t position_ = 0;                     // in the session's list
  bool lost_ = false;  // found to depend on a trace that has ended: flushes do not look at it again
};

// --- making values ---

// Copies host memory in (row-major, dense).
Value from_host(DType dtype, std::span<const int64_t> dims, const void* data);
// What `fill` writes, all of it, row-major, to memory of the host that is the array's where that is the
// device.
Value filled(DType dtype, std::span<const int64_t> dims, absl::FunctionRef<void(void*)> fill);
// Shares memory; `release` runs when the last user is gone.
Value from_foreign(DType dtype, std::span<const int64_t> dims, void* data, std::function<void()> release);
// A copy, on the same device, of memory that others may write to. Waits for it.
jit::BufferRef snapshot(const jit::BufferRef& theirs);
// The same array, in memory that nobody else writes to. Inside a jit trace as it is.
Lazy owned(const Lazy& x);
// A number as a leaf: its value never enters a key. Inside a jit trace numbers are constants.
Value number(DType dtype, const void* element);

// --- forcing ---

// Computes the values (and everything live that this thread recorded so far); they hold arrays afterwards.
void force(std::span<const Value> values);
// Computes all that this thread has recorded and somebody holds.
void force_recorded();
// The array of one value, forced.
jit::ArrayPtr array(const Value& value);
// Whether the value can be forced: no unbound jit or vmap parameter lies beneath it.
bool forceable(const Value& value);
// Why a value that is not forceable is not known, in words.
std::string why_unknown(const Value& value);
// Flushes when this thread has recorded much since its last flush; called after each recorded op.
void note_recorded();

// Of all threads together.
struct SyncStats {
  int64_t flushes = 0;
  int64_t automatic_flushes = 0;
  int64_t recorded = 0;
};
SyncStats sync_stats();

// --- element types (JAX's promotion lattice; NumPy's for 64-bit integers) ---

struct PromotedType {
  DType dtype;
  bool weak;
};
PromotedType promote(DType a, bool weak_a, DType b, bool weak_b);
// Operands converted to their common type, and whether it is that of numbers, which keep their bits then.
bool promote_operands(hlo::Builder& b, std::span<Lazy> operands);

// What numbers are on their own, and what integers become where a float is needed.
struct DefaultTypes {
  DType floating = DType::kF32, integer = DType::kS32;
  bool wide = true;  // whether numbers keep their bits until they meet an array (see Lazy::wide)
  // Whether functions make the default float of integers of fewer than 64 bits and of booleans, else float32.
  bool for_integers = true;
  DType complex() const { return floating == DType::kF64 ? DType::kC128 : DType::kC64; }
  // Part of the key of what was traced under these; 0 for the usual ones.
  uint32_t key() const {
    const uint32_t usual = static_cast<uint32_t>(DType::kF32) << 8 | static_cast<uint32_t>(DType::kS32);
    return ((static_cast<uint32_t>(floating) << 8 | static_cast<uint32_t>(integer)) ^ usual) |
           static_cast<uint32_t>(!wide) << 16 | static_cast<uint32_t>(!for_integers) << 17;
  }
};
// Those of this thread.
DefaultTypes& default_types();
// The float or complex type of a function's result for elements of this type: 64-bit integers give float64,
// narrower ones and booleans the default float or float32 (see DefaultTypes::for_integers).
DType inexact_type(DType dtype);
// The element type of a sum or product of `count` elements, as in NumPy: 64 bits for integers; for booleans,
// whose sum is a count, the default integer where it holds it.
DType sum_type(DType dtype, int64_t count);
// Running sums of up to so many elements are made one after the other, as in NumPy, by a scan, which can
// become part of the loops around it; those of more are the op cumsum.
inline constexpr int64_t kSumsInTurn = 64;

// --- numbers whose type is not decided (see Lazy::wide) ---

// The widest type of a kind: float64, int64, complex128. Booleans, unsigned and narrow types stay.
DType wide_type(DType dtype);
// The unrounded elements of a weak value; null if they are not known.
Value wide_of(const Lazy& x);
// x with another element type, rounded once.
Value converted(hlo::Builder& b, const Lazy& x, DType dtype);
// The same, weak where x is, its bits kept.
Lazy recast(hlo::Builder& b, const Lazy& x, DType dtype);
// The type in which an array goes into and comes out of what is traced: a weak one unrounded.
DType carrier_type(DType dtype, bool weak);
Value carrier(hlo::Builder& b, const Lazy& x);
// The array of element type `dtype` that `carried` stands for.
Lazy from_carrier(hlo::Builder& b, Value carried, DType dtype, bool weak);
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
