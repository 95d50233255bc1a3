// Interned value types: arrays, tuples, tokens.
//
// Contract: equal types are the same object, at a stable address for the life of the process, so types
// compare by pointer. A type holds element type and dims only: never layout, never weakness.
#ifndef LAMINA_HLO_TYPE_H_
#define LAMINA_HLO_TYPE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/dtype.h"

namespace lamina::hlo {

using Dims = std::vector<int64_t>;

enum class TypeKind : uint8_t { kArray, kTuple, kToken };

struct Type {
  TypeKind kind;
  DType dtype;                        // arrays
  Dims dims;                          // arrays
  std::vector<const Type*> elements;  // tuples
  int64_t num_elements;               // arrays: product of dims, known not to overflow

  bool is_array() const { return kind == TypeKind::kArray; }
  bool is_tuple() const { return kind == TypeKind::kTuple; }
  bool is_token() const { return kind == TypeKind::kToken; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  bool is_scalar() const { return is_array() && dims.empty(); }
  int64_t bytes() const { return num_elements * byte_size(dtype); }
};

// Fails (InvalidArgument) if a dim is negative or the size in bytes does not fit 2^62.
absl::StatusOr<const Type*> array_type(DType dtype, std::span<const int64_t> dims);
// For dims that are known to be sound (those of an existing type).
const Type* array_type_or_die(DType dtype, std::span<const int64_t> dims);
const Type* scalar_type(DType dtype);
const Type* tuple_type(std::span<const Type* const> elements);
const Type* token_type();

// "f32[2,3]", "(f32[2], s32[])", "token".
std::string to_string(const Type& type);
std::string dims_to_string(std::span<const int64_t> dims);

// Product of dims; dims must be those of a valid type.
int64_t product(std::span<const int64_t> dims);
// Row-major strides in elements.
Dims row_major_strides(std::span<const int64_t> dims);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_TYPE_H_
