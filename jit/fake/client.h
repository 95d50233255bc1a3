// A device that is not there: the CPU does its work, later, in its own memory, in any order that was not
// forbidden. What a runtime of queues gets wrong is found here (jit/fake/queues.h), without such a device.
//
// Contract: two devices of three queues each, "fake:0" and "fake:1", made when first asked for. Programs give
// the CPU's bits.
#ifndef LAMINA_JIT_FAKE_CLIENT_H_
#define LAMINA_JIT_FAKE_CLIENT_H_

#include <array>
#include <vector>

#include "jit/client/client.h"
#include "jit/fake/queues.h"
#include "jit/program/target.h"

namespace lamina::jit {

class FakeClient final : public Client {
 public:
  static FakeClient& get();

  std::span<Device* const> devices() override { return devices_; }
  const std::byte* view(const Buffer&) override { return nullptr; }
  absl::Status read(std::span<const Read> reads, StepWatcher* watcher) override;
  BufferRef adopt(void* data, int64_t bytes, std::function<void()> release) override {
    return host().adopt(data, bytes, std::move(release));
  }
  absl::StatusOr<BufferRef> put(Device& device, const void* data, int64_t bytes) override;
  absl::StatusOr<BufferRef> copy_across(Device& to, const BufferRef& from) override;

  FakeQueues& queues() { return queues_; }
  // Ops that the devices have no form for: the host does them.
  void refuse(std::vector<hlo::Op> ops) { target_.refused = std::move(ops); }
  // All work of the device fails from now on, and all requests for its memory.
  void lose(Device& device);

 private:
  struct FakeTarget final : Target {
    explicit FakeTarget(FakeClient& of) : client(of) {}
    const cluster::Costs& costs() const override;
    absl::StatusOr<std::unique_ptr<Step>> lower(const cluster::FusionPlan& plan, const cluster::Group& group,
                                                const SlotOf& slot_of) const override;
    std::unique_ptr<const Step> chain(std::span<const Step* const> steps, int64_t rows,
                                      int64_t block) const override;
    absl::StatusOr<std::string> ir(const KernelText& kernel) const override;
    absl::StatusOr<std::string> assembly(const KernelText& kernel) const override;
    absl::StatusOr<std::string> machine() const override;
    absl::Status check_machine(std::string_view machine) const override;
    absl::StatusOr<KernelCode> code(const KernelText& kernel) const override;
    absl::StatusOr<std::shared_ptr<const void>> adopt(const KernelCode& code) const override;

    FakeClient& client;
    std::vector<hlo::Op> refused;
  };

  FakeClient();

  FakeQueues queues_;
  FakeTarget target_{*this};
  std::vector<Device*> devices_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_FAKE_CLIENT_H_
