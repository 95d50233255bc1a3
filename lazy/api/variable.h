// What stands behind the public Tensor: a cell of the lazy layer, and the conversions between both.
#ifndef LAMINA_LAZY_API_VARIABLE_H_
#define LAMINA_LAZY_API_VARIABLE_H_

#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/builder.h"
#include "hlo/location.h"
#include "hlo/strings.h"
#include "lamina/tensor.h"
#include "lazy/lazy.h"

namespace lamina::detail {

struct Variable final : Counted {
  explicit Variable(lazy::Lazy value);
  lazy::Cell cell;
  Shape shape;
  // Stamp of the innermost transform that was open when it was made, 0 for none: only there it may be
  // written.
  uint32_t made_in;
};

// The value of a tensor; throws for one that names nothing.
const lazy::Lazy& lazy_of(const Tensor& tensor);
// Of a number: weak, in the default type of its kind (booleans are not weak).
lazy::Lazy lazy_of(const TensorOrNumber& operand);
// The operands in their common element type; numbers are rounded once, to it, or keep their bits where it is
// that of numbers.
std::vector<lazy::Lazy> promoted(hlo::Builder& b, std::initializer_list<const TensorOrNumber*> operands);
hlo::DType default_type(const Number& number);
lazy::Lazy number_value(const Number& number, hlo::DType dtype);
// In its default type, with all its bits.
lazy::Lazy weak_number(const Number& number);
Tensor tensor_of(lazy::Lazy value);
inline Tensor tensor_of(hlo::Value value, bool weak = false) {
  return tensor_of(lazy::Lazy{std::move(value), weak});
}

inline hlo::DType to_hlo(DType dtype) { return static_cast<hlo::DType>(dtype); }
inline DType from_hlo(hlo::DType dtype) { return static_cast<DType>(dtype); }

// An error that carries the user's place already.
class PlacedError final : public Error {
 public:
  PlacedError(ErrorKind kind, const std::string& message, const std::source_location& where)
      : Error(kind, str_cat(where.file_name(), ":", static_cast<int64_t>(where.line()), ": ", message)) {}
};

// Whether this thread is serving a call of the user's: then places that the library's own code passes do not
// count.
bool& serving();
class ServingScope {
 public:
  explicit ServingScope(bool now) : saved_(std::exchange(serving(), now)) {}
  ~ServingScope() { serving() = saved_; }
  ServingScope(const ServingScope&) = delete;
  ServingScope& operator=(const ServingScope&) = delete;

 private:
  bool saved_;
};

// Runs a public call: what it records and its errors carry the place of the user's call, the outermost one.
template <typename F>
auto located(const std::source_location& where, F&& body) {
  if (serving()) return body();
  ServingScope scope(true);
  hlo::LocationScope place(
      hlo::intern_location(where.file_name(), static_cast<int>(where.line()), where.function_name()));
  try {
    return body();
  } catch (const PlacedError&) {
    throw;  // of a user's function that a transform called
  } catch (const Error& e) {
    throw PlacedError(e.kind(), e.what(), where);
  }
}

// Records with a builder and checks it.
template <typename F>
Tensor build(const TensorOrNumber& like, F&& body) {
  return located(like.where(), [&] {
    hlo::GraphLock lock;
    hlo::Builder b;
    lazy::Lazy result = body(b);
    lazy::check(b.status());
    lazy::note_recorded();
    return tensor_of(std::move(result));
  });
}

[[noreturn]] void fail(ErrorKind kind, const std::string& message);

// NumPy's text of the elements, of which long ones are cut; lines but the first are indented.
std::string elements_text(const Tensor& tensor, size_t indent);
// "float32[3,4]"
std::string describe(const lazy::Lazy& x);
// Axes in range and without repetition, sorted; all of them for {}.
hlo::Dims canonical_axes(const Axes& axes, int64_t rank, const char* what);
int64_t canonical_axis(int64_t axis, int64_t rank, const char* what);
hlo::Dims dims_of(const Shape& shape, const char* what);
// Converted to a float type if it is not inexact: float64 for 64-bit integers.
lazy::Lazy inexact(hlo::Builder& b, lazy::Lazy x);
inline hlo::Value inexact(hlo::Builder& b, const hlo::Value& x) {
  return b.convert(x, lazy::inexact_type(x.dtype()));
}
// What `body`, from values to a value, makes of operands. Of numbers whose element type is not decided (see
// Lazy::wide) it gets the unrounded elements, and the result is rounded last: to the type that it has of
// rounded ones.
template <typename F>
lazy::Lazy computed(hlo::Builder& b, std::span<const lazy::Lazy> operands, F&& body) {
  absl::InlinedVector<hlo::Value, 3> values, wides;
  bool weak = true, numbers = false;
  for (const lazy::Lazy& x : operands) {
    values.push_back(x.value);
    wides.push_back(lazy::wide_of(x));
    weak &= x.weak;
    numbers |= static_cast<bool>(x.wide);
  }
  for (const hlo::Value& w : wides) numbers &= static_cast<bool>(w);
  const std::span<const hlo::Value> rounded(values.data(), values.size());
  hlo::Value result = body(rounded);
  if (!weak || !numbers || !result) return {std::move(result), weak};
  return lazy::from_carrier(b, body(std::span<const hlo::Value>(wides.data(), wides.size())), result.dtype(),
                            true);
}
template <typename F>
lazy::Lazy computed(hlo::Builder& b, const lazy::Lazy& operand, F&& body) {
  return computed(b, std::span(&operand, 1), [&](std::span<const hlo::Value> x) { return body(x[0]); });
}
// Of results whose element type has nothing to do with the operands': truth values, places.
inline lazy::Lazy strong(lazy::Lazy x) { return {std::move(x.value), false}; }
// The operands in one shape, and one type if they are to be promoted.
std::vector<lazy::Lazy> same_shape(hlo::Builder& b, std::vector<lazy::Lazy> operands, bool promote,
                                   const char* what);

}  // namespace lamina::detail

#endif  // LAMINA_LAZY_API_VARIABLE_H_
