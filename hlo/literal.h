// Host array values: constants in graphs, and operands and results of the evaluator.
//
// Contract: immutable once shared; row-major, contiguous; bool one byte (0 or 1); complex interleaved.
// Compared, hashed and printed by bits, so -0 and +0 differ and a NaN equals itself.
#ifndef LAMINA_HLO_LITERAL_H_
#define LAMINA_HLO_LITERAL_H_

#include <cstring>
#include <memory>
#include <span>

#include "hlo/type.h"

namespace lamina::hlo {

class Literal {
 public:
  explicit Literal(const Type* type) : type_(type), bytes_(new std::byte[allocated(type)]()) {}

  // Every element equal to the one at `element` (byte_size(dtype) bytes).
  static std::shared_ptr<const Literal> splat(const Type* type, const void* element);
  // `value` converted to `dtype` as by Prim::convert (complex: imaginary part 0).
  static std::shared_ptr<const Literal> scalar(DType dtype, double value);
  static std::shared_ptr<const Literal> scalar_int(DType dtype, int64_t value);
  static std::shared_ptr<const Literal> copy_of(const Type* type, const void* bytes);

  const Type* type() const { return type_; }
  DType dtype() const { return type_->dtype; }
  const Dims& dims() const { return type_->dims; }
  int64_t size() const { return type_->num_elements; }
  int64_t bytes() const { return type_->bytes(); }
  const void* data() const { return bytes_.get(); }
  void* data() { return bytes_.get(); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes_.get());
  }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(bytes_.get());
  }
  const std::byte* element(int64_t i) const { return bytes_.get() + i * byte_size(dtype()); }
  std::byte* element(int64_t i) { return bytes_.get() + i * byte_size(dtype()); }

  // All elements have the same bits (and there is at least one).
  bool is_splat() const;
  // Integer and bool element as int64 (u64 wraps).
  int64_t int_at(int64_t i) const;
  // Real element as double.
  double double_at(int64_t i) const;

  bool operator==(const Literal& other) const {
    return type_ == other.type_ && std::memcmp(data(), other.data(), bytes()) == 0;
  }

 private:
  // One spare vector so that block code may read past the end.
  static size_t allocated(const Type* type) { return static_cast<size_t>(type->bytes()) + 64; }

  const Type* type_;
  std::unique_ptr<std::byte[]> bytes_;
};

using LiteralPtr = std::shared_ptr<const Literal>;

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_LITERAL_H_
