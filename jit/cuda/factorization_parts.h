// The parts of a step that factors matrices: the call of cuSOLVER, and kernels of ours before and behind it.
#ifndef LAMINA_JIT_CUDA_FACTORIZATION_PARTS_H_
#define LAMINA_JIT_CUDA_FACTORIZATION_PARTS_H_

#include <functional>
#include <initializer_list>
#include <memory>

#include "cluster/read_through.h"
#include "jit/cuda/factorizations.h"
#include "jit/cuda/parts_step.h"

namespace lamina::jit::cuda {

class FactorizationParts {
 public:
  // Of the step; its one leading dimension is that of the matrices.
  struct Array {
    int number = -1;
    const hlo::Type* type = nullptr;
  };

  // `reads`: what is read in place of the operands, if anything is (cluster/read_through.h). `make_kernel`
  // outlives it.
  FactorizationParts(std::unique_ptr<const Factorization> factorization, CudaKernels& kernels,
                     const hlo::Node& node, std::span<const hlo::Value> reads, const SlotOf& slot_of,
                     MakeKernel make_kernel);

  // How the matrices are made of the first operand.
  cluster::Turned turned() const { return turned_; }
  const FactorizationForm& form() const { return form_; }
  // As many as there are matrices: one that several share is copied.
  Array operand(size_t i);
  Array result(size_t i);
  // Memory for [count, dims...].
  Array memory(hlo::DType type, std::initializer_list<int64_t> dims);
  // A number that reductions begin with.
  Array number(hlo::DType type, int64_t value);
  // What the library works on (FactorizationForm), in dimensions of the caller's.
  void set_matrices(Array a) { matrices_ = a; }
  void set_values(Array a) { values_ = a; }
  void set_left(Array a) { left_ = a; }
  void set_right(Array a) { right_ = a; }
  Array matrices() const { return matrices_; }
  Array infos() const { return infos_; }

  using Record = std::function<hlo::Value(hlo::Builder&, std::span<const hlo::Value>)>;
  // A kernel that makes `to` of the others.
  void add(std::initializer_list<Array> from, const Record& record, Array to);
  void add_call(bool last = false);
  absl::StatusOr<std::unique_ptr<Step>> finish() &&;

 private:
  std::shared_ptr<const Factorization> factorization_;
  const FactorizationForm form_;
  const hlo::Node& node_;
  const cluster::Turned turned_;
  const MakeKernel make_kernel_;
  std::unique_ptr<PartsStep> step_;
  Array matrices_, values_, left_, right_, infos_, workspace_;
  absl::Status status_;
};

// --- what kernels are recorded of; x is [count, m, n] ---

// One value for each matrix, spread over those.
hlo::Value of_each(hlo::Builder& b, const hlo::Value& v, const hlo::Value& like);
// 0, or NaN where a matrix, or its lower triangle, has a number that is not finite.
hlo::Value finite_flags(hlo::Builder& b, const hlo::Value& x, const hlo::Value& zero, bool only_lower);
hlo::Value is_flagged_finite(hlo::Builder& b, const hlo::Value& flags);
// Whether there was a factor of matrices that are finite.
hlo::Value has_factor(hlo::Builder& b, const hlo::Value& infos, const hlo::Value& flags);
// NaN for those matrices, or vectors, that are not good.
hlo::Value nan_unless(hlo::Builder& b, const hlo::Value& is_good, const hlo::Value& x);
// 0 in place of matrices that are flagged, in the type that is computed in.
hlo::Value computed(hlo::Builder& b, const hlo::Value& x, const hlo::Value& flags,
                    const FactorizationForm& form);

// Flags, which it returns, and the matrices as the library takes them, transposed if they are to be.
FactorizationParts::Array add_general_operand(FactorizationParts& p, bool transposed);

// --- the parts, by family ---

void add_hermitian_parts(FactorizationParts& p);    // Cholesky factors, eigenvalues
void add_elimination_parts(FactorizationParts& p);  // LU factors, and what is made of them
void add_orthogonal_parts(FactorizationParts& p);   // QR factors, singular values

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_FACTORIZATION_PARTS_H_
