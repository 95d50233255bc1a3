// Products of matrices by cublasLt: which ones it takes, and how.
//
// Contract: an algorithm is chosen when a program is compiled, by the library's heuristic and without timing,
// unless that is asked for (jit/cuda/tuning.h): for one version of the library and one kind of device it
// depends on types and shape alone, so the bits of a program do, too. They need not be the CPU's. In `same`
// numerics nothing is rounded before it is multiplied (no TF32), and what is added is of the type that
// products are added in; in `fast` the library may do as it likes. Work space comes with each call. Any
// thread may call anything.
//
// Products of s8 with sums of 32 bits are exact. Those of float8_e4m3fn and float8_e5m2 are added by tensor
// cores, in fewer bits than f32 has, so that the library multiplies them in `fast` only. Both want the summed
// elements of each row and column side by side, in certain multiples.
//
// Small products are left to our own kernels, which start sooner and have the CPU's bits, and so is what the
// library does not take, as other integers. Operands that do not lie as it wants them are copied before.
#ifndef LAMINA_JIT_CUDA_PRODUCTS_H_
#define LAMINA_JIT_CUDA_PRODUCTS_H_

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/graph.h"
#include "jit/client/client.h"
#include "jit/cuda/array_copies.h"
#include "jit/cuda/blas.h"
#include "jit/cuda/library_owner.h"
#include "jit/cuda/queue.h"

namespace lamina::jit::cuda {

// A product of certain types and shape, with the algorithm for each device.
class Product {
 public:
  struct Operands {
    Address left, right, result, workspace, bias;
  };

  // Of operands: dimensions [batch..., rows or columns..., summed...].
  const ArrayCopies& copies() const { return copies_; }
  // Of the work space, which begins at any address.
  int64_t workspace_bytes() const;
  absl::Status enqueue(CudaQueue& queue, const Operands& at) const;
  // For people: "cublasLt 13.0.2 in f32, algorithm 24, tile 18, ...".
  std::string describe() const;

 private:
  friend class Products;
  // What lives as long as the product.
  struct Descriptions;
  struct Choice {
    const Gpu* gpu;
    BlasHandle handle;
    FoundAlgorithm found;
    size_t timed = 1;  // so many
  };
  BlasStatus multiply(const Choice& choice, const Operands& at, StreamHandle stream) const;

  const Blas* blas_ = nullptr;  // stays
  std::shared_ptr<const Descriptions> descriptions_;
  std::vector<Choice> choices_;
  ArrayCopies copies_;
  std::vector<std::array<int64_t, 3>> calls_;  // where each begins: bytes of the operands and the result
  std::array<int64_t, 3> alignment_{};         // of these
  Epilogue epilogue_ = Epilogue::kNone;
  const void* one_ = nullptr;
  std::string words_;  // the type that it is added in, and why not another
};

struct BlasRow {
  using Library = Blas;
  using Device = LibraryDevice<BlasHandle>;
  static absl::StatusOr<Blas> load(int driver_version) { return load_blas(driver_version); }
  static std::string start(const Blas& library, Device& device);
  static constexpr const char* kOtherwise = "our own kernels";
};

class Products : public LibraryOwner<BlasRow> {
 public:
  // Of the node's operands, or what is read in place of them (cluster/read_through.h). Null where our own
  // kernels are the better choice, or in words why there is none.
  absl::StatusOr<std::unique_ptr<const Product>> plan(const hlo::Node& dot,
                                                      std::span<const hlo::Value> reads = {},
                                                      Epilogue epilogue = Epilogue::kNone);
  // Products of fewer multiplications are small. Gives what that was.
  double set_least_work(double least);
  static constexpr double kLeastWork = 1 << 20;

 private:
  using ReadTypes = std::array<hlo::DType, 2>;
  // By factors of this type, of operands that `read` says.
  absl::StatusOr<std::unique_ptr<Product>> plan_locked(const hlo::Node& dot, ReadTypes read,
                                                       ReadTypes factors, Epilogue epilogue);

  double least_work_ = kLeastWork;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_PRODUCTS_H_
