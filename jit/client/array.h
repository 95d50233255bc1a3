// What a tensor's value is at run time: a buffer and its type, as the graph's nodes hold it.
#ifndef LAMINA_JIT_CLIENT_ARRAY_H_
#define LAMINA_JIT_CLIENT_ARRAY_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "hlo/graph.h"
#include "jit/client/client.h"

namespace lamina::jit {

// One array: row-major, dense, bytes() of its type.
class Array final : public hlo::Data {
 public:
  Array(const hlo::Type* type, BufferRef buffer) : type_(type), buffer_(std::move(buffer)) {}
  const hlo::Type* type() const { return type_; }
  const BufferRef& buffer() const { return buffer_; }
  // The bytes where the host reads them.
  const std::byte* host() const { return buffer_->memory().client().view(*buffer_); }

 private:
  const hlo::Type* type_;
  BufferRef buffer_;
};
using ArrayPtr = hlo::DataPtr<Array>;

// The results of a node with several; those nobody asked for are null.
class ArrayTuple final : public hlo::Data {
 public:
  explicit ArrayTuple(std::vector<ArrayPtr> arrays) : arrays_(std::move(arrays)) {}
  const ArrayPtr& at(uint32_t i) const { return arrays_[i]; }
  void set(uint32_t i, ArrayPtr array) { arrays_[i] = std::move(array); }
  size_t size() const { return arrays_.size(); }

 private:
  std::vector<ArrayPtr> arrays_;
};

// The array that `value` holds, if it has been computed.
ArrayPtr array_of(const hlo::Value& value);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_ARRAY_H_
