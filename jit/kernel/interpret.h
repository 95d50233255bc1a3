// Kernels without machine code: the interpreting tier, which gives the bits that compiled kernels give.
#ifndef LAMINA_JIT_KERNEL_INTERPRET_H_
#define LAMINA_JIT_KERNEL_INTERPRET_H_

#include <atomic>
#include <memory>

#include "jit/kernel/kernel.h"

namespace lamina::jit {

// Where a run looks for machine code that is being made, and how far it came.
struct Handover {
  const std::atomic<KernelEntry>* code;
  int64_t outer = 0, inner = 0;
};
inline constexpr int32_t kCodeIsThere = 2;

// The contract of KernelEntry, in blocks, without a compile. Preparing is cheap (no code is made);
// `run` may be called from several threads at once.
class KernelInterpreter {
 public:
  // `kernel` must be verified.
  explicit KernelInterpreter(const LoopKernel& kernel);
  ~KernelInterpreter();
  KernelInterpreter(KernelInterpreter&&) noexcept;
  KernelInterpreter& operator=(KernelInterpreter&&) noexcept;

  // As KernelEntry. With a handover it looks for code, too, between blocks and in the midst of long ones, and
  // returns kCodeIsThere when there is some: what is left begins with the block at (outer, inner) of the
  // range, of which nothing counts as done.
  int32_t run(void* const* buffers, const int64_t* args, int64_t outer_begin, int64_t outer_end,
              int64_t inner_begin, int64_t inner_end, const int32_t* cancel,
              Handover* handover = nullptr) const;

 private:
  struct Prepared;
  std::unique_ptr<const Prepared> prepared_;
};

// The same for one run.
int32_t interpret_kernel(const LoopKernel& kernel, void* const* buffers, const int64_t* args,
                         int64_t outer_begin, int64_t outer_end, int64_t inner_begin, int64_t inner_end,
                         const int32_t* cancel);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_KERNEL_INTERPRET_H_
