// Steps that the device has no form for: the CPU's, on copies of their values.
#ifndef LAMINA_JIT_CUDA_HOST_STEP_H_
#define LAMINA_JIT_CUDA_HOST_STEP_H_

#include <memory>
#include <string>

#include "jit/program/step.h"

namespace lamina::jit::cuda {

// `step` is one of the host device; `why` it is, for people. Runs on the thread that enqueues, which waits
// for what it reads.
std::unique_ptr<Step> make_host_step(std::unique_ptr<Step> step, std::string why);

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_HOST_STEP_H_
