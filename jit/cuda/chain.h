// Steps over the same rows as one launch (jit/kernel/grid_chain.h).
#ifndef LAMINA_JIT_CUDA_CHAIN_H_
#define LAMINA_JIT_CUDA_CHAIN_H_

#include <memory>
#include <span>
#include <vector>

#include "jit/cuda/kernels.h"
#include "jit/program/step.h"
#include "jit/program/target.h"

namespace lamina::jit::cuda {

// As Target::chain. Steps with more parameters or code than one kernel should have, and those of which no
// code can be made, run one after the other.
std::unique_ptr<const Step> make_chain_step(CudaKernels& kernels, int capability,
                                            std::span<const Step* const> steps, int64_t rows, int64_t block);
// As Target::hold_rows (jit/kernel/grid_held.h).
Target::HeldRows make_held_step(CudaKernels& kernels, int capability, std::span<const Step* const> steps,
                                int64_t rows, std::span<const int> of_slot, const std::vector<bool>& inner);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CHAIN_H_
