// Triangular solutions by cuBLAS: which ones it takes, and how.
//
// Contract: in `same` numerics arithmetic is in double precision and rounded once, as hlo/linalg/calls.h has
// it; in `fast` it is in the element type. The bits need not be the CPU's: they depend on the version of the
// library, the kind of device, types and shape, and not on other streams, since work space comes with each
// call. Any thread may call anything.
//
// The library writes solutions over what is solved for. Zeros on the diagonal give infinities or NaN.
#ifndef LAMINA_JIT_CUDA_TRIANGLES_H_
#define LAMINA_JIT_CUDA_TRIANGLES_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "jit/client/client.h"
#include "jit/cuda/cublas.h"
#include "jit/cuda/library_owner.h"
#include "jit/cuda/queue.h"

namespace lamina::jit::cuda {

// `count` systems a x = y, or 0 where there is nothing to compute.
struct TriangleForm {
  bool is_lower, has_unit_diagonal;
  BlasTurn turn;             // of what is read, which gives the triangle
  hlo::DType type, compute;  // of elements, and what they are computed in
  int64_t rows, width, count;
  std::vector<int64_t> matrix_of;  // which one each system has
  bool at_once;                    // by one call, which finds the systems' addresses on the device
};
// None for a node that is no such solution. `reads`: what is read in place of its operands, if anything is
// (cluster/read_through.h).
std::optional<TriangleForm> triangle_form(const hlo::Node& node, std::span<const hlo::Value> reads = {});

class TriangularSolution {
 public:
  // Of the type that is computed in: matrices, what is solved for, which becomes the solutions; memory for
  // addresses, and work space.
  struct Operands {
    Address matrices, right, addresses, workspace;
  };

  const TriangleForm& form() const { return form_; }
  // 0 where the systems are not solved at once.
  int64_t addresses_bytes() const;
  // Of the work space, which begins at any address.
  int64_t workspace_bytes() const;
  // Where systems are solved at once the queue is a stream.
  absl::Status enqueue(CudaQueue& queue, const Operands& at) const;
  // For people: "solve_lower by cuBLAS 13.0.2 in f64, 3 of 200 rows and 4 columns, one by one".
  std::string describe() const;

 private:
  friend class Triangles;
  using Device = LibraryDevice<CublasHandle>;
  BlasStatus call(CublasHandle handle, const Operands& at) const;

  const Cublas* cublas_ = nullptr;  // stays
  TriangleForm form_;
  std::vector<Device*> devices_;  // stay
};

struct CublasRow {
  using Library = Cublas;
  using Device = LibraryDevice<CublasHandle>;
  static absl::StatusOr<Cublas> load(int driver_version) { return load_cublas(driver_version); }
  static std::string start(const Cublas& library, Device& device);
  static constexpr const char* kOtherwise = "on the host";
};

class Triangles : public LibraryOwner<CublasRow> {
 public:
  // Null where there is nothing to solve, or in words why there is none.
  absl::StatusOr<std::unique_ptr<const TriangularSolution>> plan(const hlo::Node& node,
                                                                 std::span<const hlo::Value> reads);
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_TRIANGLES_H_
