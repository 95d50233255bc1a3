// Products and convolutions by oneDNN, for values recorded in `fast` numerics.
//
// Contract: outside the promise of equal bits across machines; on one machine and for one shape a routine
// gives the same bits in every run. The library is loaded at the first use in the process; without it, for
// element types, layouts and CPUs that it has no code of its own for, and where Lamina's code is as quick,
// making a routine is Unavailable, in words, and the caller's own code serves.
#ifndef LAMINA_JIT_CPU_ONEDNN_CLIENT_H_
#define LAMINA_JIT_CPU_ONEDNN_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/dtype.h"
#include "hlo/reference_conv.h"
#include "hlo/reference_dot.h"
#include "jit/cpu/kernel_context.h"
#include "jit/cpu/onednn_api.h"

namespace lamina::jit {

// Why there is none; empty if the library is there. Loads it.
std::string onednn_missing();

class OnednnRoutine {
 public:
  // `threads`: into how many parts the work is cut at most, one task of the caller's pool each.
  static absl::StatusOr<OnednnRoutine> matmul(hlo::DType in, hlo::DType out, const hlo::DotShape& shape,
                                              int threads);
  static absl::StatusOr<OnednnRoutine> convolution(hlo::DType in, hlo::DType out, const hlo::ConvShape& shape,
                                                   int threads);

  // Cancelled when the context's flag was set, ResourceExhausted when there is no memory for scratch; `c` is
  // then unspecified.
  absl::Status run(const void* a, const void* b, void* c, const KernelContext& context) const;

 private:
  struct Release {
    void operator()(LaminaOnednnRoutine* routine) const;
  };
  struct Part {
    std::shared_ptr<LaminaOnednnRoutine> routine;
    int64_t a, b, c;  // bytes into each array
  };

  absl::Status run_part(const Part& part, const void* a, const void* b, void* c,
                        const KernelContext& context) const;

  std::vector<Part> parts_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_ONEDNN_CLIENT_H_
