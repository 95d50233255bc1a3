#include "jit/cuda/loop_switch.h"

#include <string>

namespace lamina::jit::cuda {
namespace {

constexpr std::string_view kPtx = R"(.version 7.8
.target sm_75
.address_size 64
.extern .func cudaGraphSetConditional(.param .b64 condition, .param .b32 value);
.visible .entry lamina_goes_on(.param .u64 answer, .param .u64 condition)
.reqntid 1
{
  .reg .pred %goes_on;
  .reg .b32 %byte, %value;
  .reg .b64 %at, %global, %condition;
  ld.param.u64 %at, [answer];
  ld.param.u64 %condition, [condition];
  cvta.to.global.u64 %global, %at;
  ld.global.u8 %byte, [%global];
  setp.ne.u32 %goes_on, %byte, 0;
  selp.u32 %value, 1, 0, %goes_on;
  {
    .param .b64 of;
    .param .b32 to;
    st.param.b64 [of], %condition;
    st.param.b32 [to], %value;
    call.uni cudaGraphSetConditional, (of, to);
  }
  ret;
}
)";

}  // namespace

std::string_view loop_switch_ptx() { return kPtx; }

absl::StatusOr<FunctionHandle> LoopSwitch::function(CudaKernels& kernels, Gpu& gpu) {
  const auto known = [&]() -> FunctionHandle {
    for (const auto& [owner, function] : loaded_)
      if (owner == &gpu) return function;
    return nullptr;
  };
  {
    std::lock_guard lock(mutex_);
    if (const FunctionHandle function = known()) return function;
  }
  const std::string ptx(kPtx);
  const absl::StatusOr<ModuleHandle> module =
      load_code(gpu, kernels.assemble(ptx, gpu.facts().capability), [&] { return ptx; });
  if (!module.ok()) return module.status();
  std::lock_guard lock(mutex_);
  FunctionHandle function = known();
  if (function) {  // another thread was quicker
    gpu.call("unloading code", gpu.driver().unload_module, *module).IgnoreError();
    return function;
  }
  if (absl::Status s =
          gpu.call("looking for a kernel's entry", gpu.driver().function, &function, *module, kLoopSwitch);
      !s.ok())
    return s;
  loaded_.emplace_back(&gpu, function);
  return function;
}

}  // namespace lamina::jit::cuda
