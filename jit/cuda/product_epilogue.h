// What products end with that cublasLt does along with them, its epilogues, as programs spell it: a bias for
// each column of the result, and relu or gelu.
#ifndef LAMINA_JIT_CUDA_PRODUCT_EPILOGUE_H_
#define LAMINA_JIT_CUDA_PRODUCT_EPILOGUE_H_

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "hlo/computation.h"
#include "hlo/graph.h"
#include "jit/cuda/blas.h"

namespace lamina::jit::cuda {

struct ProductEpilogue {
  const hlo::Node* product;
  Epilogue epilogue;
  hlo::Value result;
  hlo::Values operands;  // of the product, then the bias where there is one
};

// All in a computation that save a pass over the result: whose users are no kernels that the epilogue would
// be part of. In `same` numerics biases of f32, which are added to what the library has added up, without a
// rounding between; relu drops NaN there, and 16-bit products are rounded once, not after each of these.
std::vector<ProductEpilogue> find_epilogues(const hlo::Computation& computation);
// The program where those that are wanted are one node each.
absl::StatusOr<hlo::ComputationPtr> with_epilogue_calls(
    const hlo::ComputationPtr& program, absl::FunctionRef<bool(const ProductEpilogue&)> is_wanted);
// Of such a node, in its body; none of other nodes.
std::optional<ProductEpilogue> epilogue_of(const hlo::Node& node);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_PRODUCT_EPILOGUE_H_
