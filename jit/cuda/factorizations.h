// Factorizations of matrices by cuSOLVER: which ones it takes, and how.
//
// Contract: in `same` numerics arithmetic is in double precision and rounded once, as hlo/linalg/calls.h has
// it; in `fast` it is in the element type. The bits need not be the CPU's: they depend on the version of the
// library, the kind of device, types and shape. Work space comes with each call. Any thread may call
// anything.
//
// The library takes one matrix after the other, so that batches of many are left to the host. It overwrites
// what it factors, and says in a word of the device whether there was a factor: kernels beside the call see
// to both (jit/cuda/factorization_step.h). What the library does may wait for the device, so that it is in no
// graph.
#ifndef LAMINA_JIT_CUDA_FACTORIZATIONS_H_
#define LAMINA_JIT_CUDA_FACTORIZATIONS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "jit/client/client.h"
#include "jit/cuda/library_owner.h"
#include "jit/cuda/queue.h"
#include "jit/cuda/solver_calls.h"

namespace lamina::jit::cuda {

struct SolverDevice : LibraryDevice<SolverHandle> {
  explicit SolverDevice(Gpu* of) : LibraryDevice{of} {}
  SolverParameters parameters = nullptr;
};

class Factorization {
 public:
  // The matrices and what else the form has of each; whether there was a factor: 0 if so, s32; work space.
  struct Operands {
    Address matrices, values, left, right, infos, workspace;
  };

  const FactorizationForm& form() const { return form_; }
  // Of the work space, which begins at any address.
  int64_t workspace_bytes() const;
  // The queue is a stream. `last`: the second of two calls (FactorizationRow).
  absl::Status enqueue(CudaQueue& queue, const Operands& at, bool last) const;
  // For people: "cholesky by cuSOLVER 12.0.4 in f64, 3 of 200 rows".
  std::string describe() const;

 private:
  friend class Factorizations;
  using Device = SolverDevice;
  struct Choice {
    Device* device;  // stays
    SolverSpaces spaces;
  };
  // Of work space on the host, from one matrix to the next.
  static int64_t host_stride(const Choice& choice);
  SolverStatus call(const Choice& choice, const Operands& at, bool last, void* workspace, std::byte* on_host,
                    StreamHandle stream) const;

  const Solver* solver_ = nullptr;  // stays
  FactorizationForm form_;
  std::vector<Choice> choices_;
};

struct SolverRow {
  using Library = Solver;
  using Device = SolverDevice;
  static absl::StatusOr<Solver> load(int driver_version) { return load_solver(driver_version); }
  static std::string start(const Solver& library, Device& device);
  static constexpr const char* kOtherwise = "on the host";
};

class Factorizations : public LibraryOwner<SolverRow> {
 public:
  // Null where there is nothing to factor, or in words why there is none.
  absl::StatusOr<std::unique_ptr<const Factorization>> plan(const hlo::Node& node);
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_FACTORIZATIONS_H_
