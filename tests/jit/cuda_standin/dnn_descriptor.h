// Descriptors of the stand-in for cuDNN, and what it knows of tensors; for its parts.
#ifndef LAMINA_TESTS_JIT_CUDA_STANDIN_DNN_DESCRIPTOR_H_
#define LAMINA_TESTS_JIT_CUDA_STANDIN_DNN_DESCRIPTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "jit/cuda/dnn.h"
#include "tests/jit/cuda_standin/standin.h"

namespace standins {

enum class DnnEngine {
  kOnTensorCores,
  kNondeterministic,
  kCompiled,
  kWinograd,
  kRefuses,
  kGreedy,
  kGood,
  kFused
};
struct DnnConvolution;  // dnn.cc
class DnnAttention;     // dnn_attention.cc

// Sets what the library says of its last error.
lamina::jit::cuda::DnnStatus refused(lamina::jit::cuda::DnnStatus status, std::string why);

}  // namespace standins

namespace lamina::jit::cuda {
struct OpaqueDnnDescriptor {
  struct Values {
    DnnAttributeType type;
    int64_t count;
    std::vector<std::byte> bytes;
  };
  explicit OpaqueDnnDescriptor(DnnKind of) : kind(of) {}

  bool has(DnnAttribute attribute) const { return attributes.contains(attribute); }
  template <typename T>
  std::vector<T> all(DnnAttribute attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end()) return {};
    std::vector<T> out(static_cast<size_t>(found->second.count));
    std::memcpy(out.data(), found->second.bytes.data(), found->second.bytes.size());
    return out;
  }
  template <typename T>
  T one(DnnAttribute attribute) const {
    T out{};
    const auto found = attributes.find(attribute);
    if (found != attributes.end()) std::memcpy(&out, found->second.bytes.data(), sizeof out);
    return out;
  }

  const DnnKind kind;
  bool is_finalized = false;
  std::map<DnnAttribute, Values> attributes;
  // What later ones have of earlier ones, which may be gone: one of these.
  std::shared_ptr<const standins::DnnConvolution> problem;
  std::shared_ptr<const standins::DnnAttention> attention;
  DnnHandle handle = nullptr;
  std::vector<standins::DnnEngine> engines;
};
}  // namespace lamina::jit::cuda

namespace standins {

// An array as [batch, features, spatial...], a filter as [output features, input features, spatial...]; of
// attention as [batch, heads, rows, columns].
struct DnnTensor {
  std::vector<int64_t> dims, strides;
  int64_t id = 0, alignment = 1;
  lamina::jit::cuda::DnnType type = lamina::jit::cuda::DnnType::kF32;
  bool is_virtual = false, by_value = false;

  int64_t elements() const {
    int64_t last = 0;
    for (size_t d = 0; d < dims.size(); ++d) last += (dims[d] - 1) * strides[d];
    return last + 1;
  }
};
DnnTensor tensor_of(lamina::jit::cuda::DnnDescriptor d);

// What operations compute together, the one pattern that the library knows: scores of queries and keys, what
// is made of them, softmax, and the product with the values.
class DnnAttention {
 public:
  // Null, with the reason told, where it refuses the graph.
  static std::shared_ptr<const DnnAttention> of(std::span<const lamina::jit::cuda::DnnDescriptor> operations);

  // Whether an engine takes it.
  bool is_taken() const;
  int64_t workspace_bytes() const;
  // Those in memory of the device, and whether they are written.
  struct Array {
    const DnnTensor* tensor;
    bool is_written;
  };
  std::vector<Array> arrays() const;
  std::vector<const DnnTensor*> numbers() const;  // that the host has
  // `at` finds the bytes of an array or number.
  template <typename At>
  void run(At at) const {
    const auto begin = [&](const DnnTensor& t) { return t.id == 0 ? nullptr : at(t.id); };
    compute({begin(query_), begin(key_), begin(value_), begin(result_), begin(bias_), begin(scale_),
             begin(masked_)});
  }

 private:
  struct Memory {
    const std::byte *query, *key, *value;
    const std::byte* result;  // written
    const std::byte *bias, *scale, *masked;
  };
  void compute(const Memory& memory) const;

  DnnTensor query_, key_, value_, result_;
  DnnTensor bias_, scale_, masked_;  // id 0: there is none
};

}  // namespace standins

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_DNN_DESCRIPTOR_H_
