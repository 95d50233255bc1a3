// The machine's own processors as a device: memory of the host, a pool of threads, kernels in two tiers.
//
// Contract: made at first use, never destroyed. Work ends before enqueueing it returns. fork() in any thread
// leaves the child a usable client: its memory intact, its workers started anew when first needed.
#ifndef LAMINA_JIT_CPU_CLIENT_H_
#define LAMINA_JIT_CPU_CLIENT_H_

#include <vector>

#include "jit/client/exchange.h"
#include "jit/cpu/kernel_context.h"
#include "jit/cpu/kernel_store.h"
#include "jit/cpu/machine_limits.h"
#include "jit/cpu/thread_pool.h"
#include "jit/program/target.h"

namespace lamina::jit {

class CpuClient final : public Client {
 public:
  static constexpr int kMostDevices = 32;

  static CpuClient& get();

  // As many as LAMINA_CPU_DEVICES says, 1 where it says nothing, each with a memory of its own. Programs of
  // all of them run on the same pool.
  std::span<Device* const> devices() override { return devices_; }
  const std::byte* view(const Buffer& buffer) override {
    return static_cast<const std::byte*>(pointer(buffer.address()));
  }
  BufferRef adopt(void* data, int64_t bytes, std::function<void()> release) override;
  absl::Status read(std::span<const Read> reads, StepWatcher* watcher) override;
  absl::StatusOr<BufferRef> put(Device& device, const void* data, int64_t bytes) override;
  absl::StatusOr<BufferRef> copy_across(Device& to, const BufferRef& from) override;
  const Exchange* exchange() const override { return &exchange_; }
  KernelStats kernel_stats() const override { return kernels_.stats(); }

  ThreadPool& pool() { return pool_; }
  KernelStore& kernels() { return kernels_; }
  // On the threads that this one may use.
  MachineLimits limits() { return limits_.get(pool_.parallel()); }
  // What the routines of a run get.
  KernelContext context(const Frame& frame);

 private:
  class CpuTarget final : public Target {
   public:
    explicit CpuTarget(CpuClient& cpu) : cpu_(cpu) {}
    const cluster::Costs& costs() const override { return costs_; }
    absl::StatusOr<std::unique_ptr<Step>> lower(const cluster::FusionPlan& plan, const cluster::Group& group,
                                                const SlotOf& slot_of) const override;
    std::unique_ptr<const Step> chain(std::span<const Step* const> steps, int64_t rows,
                                      int64_t block) const override;
    Batch batch(std::span<const Step* const> steps) const override;
    absl::StatusOr<std::string> ir(const KernelText& kernel) const override;
    absl::StatusOr<std::string> assembly(const KernelText& kernel) const override;
    absl::StatusOr<std::string> machine() const override;
    absl::Status check_machine(std::string_view machine) const override;
    absl::StatusOr<KernelCode> code(const KernelText& kernel) const override;
    absl::StatusOr<std::shared_ptr<const void>> adopt(const KernelCode& code) const override;

   private:
    CpuClient& cpu_;
    const cluster::Costs costs_{.reads_bytes = true, .counts_from_end = true};
  };

  // Memory of the host is there at once, for everybody.
  class HostExchange final : public Exchange {
   public:
    explicit HostExchange(CpuClient& cpu) : cpu_(cpu) {}
    Name name_of(const Device&) const override { return {kHostKind, 0}; }
    absl::StatusOr<Device*> owner_of(uint64_t) const override { return cpu_.devices_[0]; }
    uint64_t place_of(const Buffer& buffer) const override { return buffer.address().bits(); }
    int64_t alignment(int64_t element_bytes) const override { return element_bytes; }
    absl::Status hand_over(const Buffer& buffer, TheirStream stream) const override;
    void hand_back(BufferRef) const override {}
    absl::StatusOr<TheirStream> stream_with(const Buffer&) const override { return std::nullopt; }
    TheirStream stream_of(const Device&) const override { return std::nullopt; }
    absl::StatusOr<BufferRef> take_over(Device& device, uint64_t at, int64_t bytes, TheirStream stream,
                                        std::function<void()> release) const override;

   private:
    CpuClient& cpu_;
  };

  CpuClient();

  ThreadPool pool_;
  KernelStore kernels_;
  MeasuredLimits limits_;
  CpuTarget target_{*this};
  const HostExchange exchange_{*this};
  std::vector<Device*> devices_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CLIENT_H_
