#include "jit/cpu/client.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "hlo/once.h"
#include "hlo/strings.h"
#include "jit/client/environment.h"
#include "jit/cpu/cpu_features.h"
#include "jit/cpu/steps.h"

namespace lamina::jit {
namespace {

Address address(const void* p) { return Address(reinterpret_cast<uintptr_t>(p)); }

constexpr int64_t kHugePage = int64_t{2} << 20;

class HostBlocks final : public BlockSource {
 public:
  Address allocate(int64_t bytes) override {
    const size_t size = static_cast<size_t>(bytes);
    if (bytes < kHugePage) return address(std::aligned_alloc(64, size));
    // Over-maps by a huge page and cuts off both ends, so that the block begins on a huge page.
    const size_t mapped = size + static_cast<size_t>(kHugePage);
    void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return Address();
    const uintptr_t begin = reinterpret_cast<uintptr_t>(raw);
    const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
    if (aligned > begin) munmap(raw, aligned - begin);
    const uintptr_t tail = begin + mapped - (aligned + size);
    if (tail > 0) munmap(reinterpret_cast<void*>(aligned + size), tail);
    void* block = reinterpret_cast<void*>(aligned);
    madvise(block, size, MADV_HUGEPAGE);  // advice only: without huge pages all works
    return address(block);
  }
  void free(Address block, int64_t bytes) override {
    if (bytes < kHugePage)
      std::free(pointer(block));
    else
      munmap(pointer(block), static_cast<size_t>(bytes));
  }
};

// Whoever enqueues does the work.
class InlineStream final : public Stream {
 public:
  absl::Status after(Point earlier) override {
    return earlier ? earlier.stream->wait(earlier.value, nullptr) : absl::OkStatus();
  }
  absl::Status takes(Point written) override { return after(written); }
  absl::Status copy(Address to, Address from, int64_t bytes) override {
    return read(from, bytes, pointer(to));
  }
  absl::Status read(Address from, int64_t bytes, void* to) override {
    if (bytes > 0) std::memcpy(to, pointer(from), static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status write(Address to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(pointer(to), from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
};

}  // namespace

CpuClient& CpuClient::get() {
  static constinit hlo::Once<CpuClient> client;
  return client.get([] { return new CpuClient; });
}

CpuClient::CpuClient() {
  const int count = count_in_environment("LAMINA_CPU_DEVICES", kMostDevices).value_or(1);
  for (int i = 0; i < count; ++i) {
    auto* const stream = new InlineStream;
    devices_.push_back(new Device(str_cat("cpu:", i), *this, target_,
                                  *new Memory(*this, *new HostBlocks, *stream), {stream, stream, stream}));
  }
}

BufferRef CpuClient::adopt(void* data, int64_t bytes, std::function<void()> release) {
  return devices_[0]->memory().adopt(address(data), bytes, std::move(release));
}

absl::StatusOr<BufferRef> CpuClient::put(Device& device, const void* data, int64_t bytes) {
  absl::StatusOr<BufferRef> buffer = device.memory().allocate(bytes);
  if (buffer.ok() && bytes > 0) std::memcpy(pointer((*buffer)->address()), data, static_cast<size_t>(bytes));
  return buffer;
}

absl::Status CpuClient::read(std::span<const Read> reads, StepWatcher*) {
  for (const Read& r : reads)
    if (r.bytes > 0) std::memcpy(r.to, view(*r.from) + r.offset, static_cast<size_t>(r.bytes));
  return absl::OkStatus();
}

absl::StatusOr<BufferRef> CpuClient::copy_across(Device& to, const BufferRef& from) {
  return put(to, view(*from), from->bytes());
}

absl::Status CpuClient::HostExchange::hand_over(const Buffer&, TheirStream stream) const {
  return !stream || stream == kNoStream
             ? absl::OkStatus()
             : absl::InvalidArgumentError("an array in memory of the host has no stream");
}

absl::StatusOr<BufferRef> CpuClient::HostExchange::take_over(Device& device, uint64_t at, int64_t bytes,
                                                             TheirStream,
                                                             std::function<void()> release) const {
  return device.memory().adopt(Address(at), bytes, std::move(release));
}

KernelContext CpuClient::context(const Frame& frame) {
  KernelContext context;
  context.scratch = &frame.device.memory();
  context.parallel = pool_.parallel();
  context.cancel = frame.control->cancel ? frame.control->cancel->flag() : nullptr;
  return context;
}

absl::StatusOr<std::unique_ptr<Step>> CpuClient::CpuTarget::lower(const cluster::FusionPlan& plan,
                                                                  const cluster::Group& group,
                                                                  const SlotOf& slot_of) const {
  if (group.kind == cluster::GroupKind::kLoop) return make_loop_step(cpu_, plan, group, slot_of);
  return make_library_step(cpu_, group, slot_of);
}

std::unique_ptr<const Step> CpuClient::CpuTarget::chain(std::span<const Step* const> steps, int64_t rows,
                                                        int64_t block) const {
  return make_chain_step(cpu_, steps, rows, block);
}

Target::Batch CpuClient::CpuTarget::batch(std::span<const Step* const> steps) const {
  return make_batch_step(steps);
}

absl::StatusOr<std::string> CpuClient::CpuTarget::ir(const KernelText& kernel) const {
  return cpu_.kernels().ir(kernel);
}

absl::StatusOr<std::string> CpuClient::CpuTarget::assembly(const KernelText& kernel) const {
  return cpu_.kernels().assembly(kernel);
}

absl::StatusOr<std::string> CpuClient::CpuTarget::machine() const { return cpu_.kernels().machine(); }

absl::Status CpuClient::CpuTarget::check_machine(std::string_view machine) const {
  return check_machine_line(machine);
}

absl::StatusOr<KernelCode> CpuClient::CpuTarget::code(const KernelText& kernel) const {
  return cpu_.kernels().code(kernel);
}

absl::StatusOr<std::shared_ptr<const void>> CpuClient::CpuTarget::adopt(const KernelCode& code) const {
  return cpu_.kernels().adopt(code);
}

}  // namespace lamina::jit
