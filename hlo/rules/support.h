// What the rule files share: error text, index walks, region evaluation.
#ifndef LAMINA_HLO_RULES_SUPPORT_H_
#define LAMINA_HLO_RULES_SUPPORT_H_

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "hlo/builder.h"
#include "hlo/literal.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "hlo/type_error.h"

namespace lamina::hlo {

#define LAMINA_RETURN_IF_ERROR(expr)                   \
  do {                                                 \
    if (absl::Status s_ = (expr); !s_.ok()) return s_; \
  } while (0)

using TypeOr = absl::StatusOr<const Type*>;
using Types = std::span<const Type* const>;
using EvalIn = std::span<const LiteralPtr>;
using EvalOut = std::span<const std::shared_ptr<Literal>>;

template <typename... Args>
absl::Status invalid(const Args&... args) {
  return absl::InvalidArgumentError(str_cat(args...));
}

// Error unless every operand is an array.
inline absl::Status check_arrays(Types types) {
  for (const Type* t : types)
    if (!t->is_array()) return invalid("needs arrays, not ", to_string(*t));
  return absl::OkStatus();
}

// Error unless `dims` are distinct and within [0, rank).
inline absl::Status check_dims(std::string_view what, std::span<const int64_t> dims, int64_t rank) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank)
      return invalid(what, " ", dims_to_string(dims), " must lie in 0..", rank - 1, " for rank ", rank);
    for (size_t j = 0; j < i; ++j)
      if (dims[i] == dims[j])
        return invalid(what, " ", dims_to_string(dims), " names dimension ", dims[i], " twice");
  }
  return absl::OkStatus();
}

inline absl::Status check_length(std::string_view what, std::span<const int64_t> list, int64_t length) {
  if (static_cast<int64_t>(list.size()) == length) return absl::OkStatus();
  return invalid(what, " ", dims_to_string(list), " has ", list.size(), " entries where ", length,
                 " are needed");
}

inline bool contains(std::span<const int64_t> list, int64_t x) {
  for (int64_t y : list)
    if (x == y) return true;
  return false;
}

// A function of the type rules: results of a region as one type (a tuple unless there is exactly one).
inline const Type* results_type(std::span<const Type* const> types) {
  return types.size() == 1 ? types[0] : tuple_type(types);
}

// Row-major walk over `dims`: calls f(index, linear) for each.
template <typename F>
void for_each_index(std::span<const int64_t> dims, F&& f) {
  const int64_t n = product(dims);
  Dims index(dims.size(), 0);
  for (int64_t linear = 0; linear < n; ++linear) {
    f(std::span<const int64_t>(index), linear);
    for (size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}

inline int64_t linear_index(std::span<const int64_t> index, std::span<const int64_t> strides) {
  int64_t at = 0;
  for (size_t i = 0; i < index.size(); ++i) at += index[i] * strides[i];
  return at;
}

// Checks a region's signature: parameters and results as given.
absl::Status check_region(std::string_view what, const ComputationPtr& region, Types parameters,
                          Types results);
// Checks a reduction body over scalars of the operands' element types: (acc..., element...) -> acc...
absl::Status check_reduction_region(const ComputationPtr& region, Types operands);

// Element-wise application of a scalar region to `count` elements held as arrays of whole elements (complex
// interleaved): in one run of its scalar program where it has one, else element by element.
class RegionRunner {
 public:
  explicit RegionRunner(const Computation& region);
  // inputs[i]: count contiguous elements of parameter i; outputs likewise; outputs may alias inputs exactly.
  absl::Status run(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t count) const;

 private:
  const Computation& region_;
  std::optional<PreparedProgram> program_;
};

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_RULES_SUPPORT_H_
