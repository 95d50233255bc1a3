// CUDA devices, "cuda:0" and on: those of the driver that can serve.
//
// Contract: made when a CUDA device is first asked for; without a driver or a device that is an error in
// words, and nothing else changes. Other libraries of the process may use the same devices. A device that
// faults is lost, and the process and other devices go on; to a forked child all devices of its parent are
// lost.
#ifndef LAMINA_JIT_CUDA_CLIENT_H_
#define LAMINA_JIT_CUDA_CLIENT_H_

#include <memory>
#include <string>
#include <vector>

#include "hlo/mutex.h"
#include "jit/client/client.h"
#include "jit/cuda/driver.h"
#include "jit/cuda/exchange.h"
#include "jit/cuda/gpu.h"
#include "jit/cuda/staging.h"
#include "jit/cuda/target.h"

namespace lamina::jit::cuda {

class CudaClient final : public Client, private hlo::ForkGuarded {
 public:
  // NotFound, in one sentence, where there is none.
  static absl::StatusOr<CudaClient*> get();
  // Null where nobody has asked for it, or there is none.
  static CudaClient* opened();

  std::span<Device* const> devices() override { return devices_; }
  const std::byte* view(const Buffer&) override { return nullptr; }
  absl::Status read(std::span<const Read> reads, StepWatcher* watcher) override;
  BufferRef adopt(void* data, int64_t bytes, std::function<void()> release) override {
    return host().adopt(data, bytes, std::move(release));
  }
  absl::StatusOr<BufferRef> put(Device& device, const void* data, int64_t bytes) override;
  absl::StatusOr<BufferRef> copy_across(Device& to, const BufferRef& from) override;
  const Exchange* exchange() const override { return &exchange_; }
  KernelStats kernel_stats() const override;

  CudaTarget& target() { return target_; }
  CudaKernels& kernels() { return target_.kernels(); }
  Products& products() { return target_.products(); }
  DnnLibrary& dnn() { return target_.dnn(); }
  Attentions& attentions() { return target_.attentions(); }
  Convolutions& convolutions() { return target_.convolutions(); }
  Fourier& fourier() { return target_.fourier(); }
  Factorizations& factorizations() { return target_.factorizations(); }
  Triangles& triangles() { return target_.triangles(); }
  const Driver& driver() const { return driver_; }
  const std::vector<std::unique_ptr<Gpu>>& gpus() const { return gpus_; }
  // Why other devices of the driver are none of these.
  const std::vector<std::string>& refused() const { return refused_; }

 private:
  explicit CudaClient(Driver driver) : ForkGuarded(hlo::LockRank::kQueues), driver_(std::move(driver)) {}
  static absl::StatusOr<CudaClient*> make();
  absl::StatusOr<Device*> make_device(Gpu& gpu);
  absl::Status prepare_target();

  void before_fork() override {}
  void after_fork(bool in_child) override;

  const Driver driver_;
  Staging staging_;
  CudaTarget target_;
  CudaExchange exchange_;
  std::vector<std::unique_ptr<Gpu>> gpus_;
  std::vector<Device*> devices_;
  std::vector<std::string> refused_;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_CLIENT_H_
