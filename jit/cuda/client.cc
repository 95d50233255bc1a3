#include "jit/cuda/client.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "hlo/once.h"
#include "hlo/strings.h"
#include "jit/client/transfer.h"
#include "jit/cuda/blocks.h"
#include "jit/cuda/stream.h"

namespace lamina::jit::cuda {
namespace {

CudaStream& stream_of(const Device& device, Lane lane) {
  return static_cast<CudaStream&>(device.stream(lane));
}

std::atomic<CudaClient*> opened_client{nullptr};

}  // namespace

absl::StatusOr<CudaClient*> CudaClient::get() {
  static constinit hlo::Once<const absl::StatusOr<CudaClient*>> client;
  return client.get([] {
    auto* const made = new absl::StatusOr<CudaClient*>(make());
    if (made->ok()) opened_client.store(**made, std::memory_order_release);
    return made;
  });
}

CudaClient* CudaClient::opened() { return opened_client.load(std::memory_order_acquire); }

KernelStats CudaClient::kernel_stats() const {
  const CudaKernelStats stats = target_.kernels().stats();
  return {.kernels = stats.kernels,
          .compiles = stats.generated,
          .loads = stats.loaded,
          .compiled_runs = stats.runs,
          .graphs = stats.graphs,
          .graph_runs = stats.graph_runs,
          .graphs_refused = stats.graphs_refused};
}

absl::StatusOr<CudaClient*> CudaClient::make() {
  absl::StatusOr<Driver> driver = load_driver();
  if (!driver.ok()) return driver.status();
  auto* const client = new CudaClient(*std::move(driver));
  int count = 0;
  if (const Result result = client->driver_.device_count(&count); result != Result::kSuccess)
    client->refused_.push_back(str_cat("the devices cannot be counted: ", client->driver_.words(result)));
  for (int i = 0; i < count; ++i) {
    absl::StatusOr<std::unique_ptr<Gpu>> gpu = Gpu::open(client->driver_, i);
    if (gpu.ok())
      client->gpus_.push_back(*std::move(gpu));
    else
      client->refused_.emplace_back(gpu.status().message());
  }
  for (const std::unique_ptr<Gpu>& gpu : client->gpus_) {
    const absl::StatusOr<Device*> device = client->make_device(*gpu);
    if (device.ok())
      client->devices_.push_back(*device);
    else
      client->refused_.emplace_back(device.status().message());
  }
  if (!client->devices_.empty()) {
    if (absl::Status s = client->prepare_target(); !s.ok()) return s;
    return client;
  }
  std::string why;
  for (const std::string& r : client->refused_) str_append(&why, why.empty() ? "" : "; ", r);
  // Where it was made, locks know it, so it stays.
  return absl::NotFoundError(why.empty() ? "the NVIDIA driver sees no device" : why);
}

absl::StatusOr<Device*> CudaClient::make_device(Gpu& gpu) {
  Device::Lanes lanes{};
  for (Stream*& lane : lanes) {
    const absl::StatusOr<CudaStream*> stream = CudaStream::make(gpu, staging_);
    if (!stream.ok()) return stream.status();
    lane = *stream;
  }
  auto& compute = static_cast<CudaStream&>(*lanes[static_cast<size_t>(Lane::kCompute)]);
  const absl::StatusOr<CudaBlocks*> blocks = CudaBlocks::make(compute, gpus_);
  if (!blocks.ok()) return blocks.status();
  auto* const device = new Device(gpu.name(), *this, target_, *new Memory(*this, **blocks, compute), lanes);
  const auto legacy = reinterpret_cast<StreamHandle>(static_cast<uintptr_t>(kLegacyStream));
  exchange_.add(*device, *CudaStream::of_others(gpu, staging_, legacy));
  return device;
}

absl::Status CudaClient::prepare_target() {
  const absl::StatusOr<Staging::Piece> word = staging_.take(*gpus_[0], sizeof(int32_t));
  if (!word.ok()) return word.status();
  std::memset(word->at, 0, sizeof(int32_t));
  int capability = gpus_[0]->facts().capability;
  for (const std::unique_ptr<Gpu>& gpu : gpus_) capability = std::min(capability, gpu->facts().capability);
  target_.serve(capability, Address(reinterpret_cast<uintptr_t>(word->at)), gpus_, driver_.version);
  return absl::OkStatus();
}

void CudaClient::after_fork(bool in_child) {
  if (!in_child) return;
  for (const std::unique_ptr<Gpu>& gpu : gpus_)
    gpu->lose("a process forked, and only the one that had opened the device may use it");
}

absl::StatusOr<BufferRef> CudaClient::put(Device& device, const void* data, int64_t bytes) {
  // Of a lost device no memory is to be had, which is not what went wrong.
  if (absl::Status s = stream_of(device, Lane::kCopyIn).gpu().health(); !s.ok()) return s;
  return made_by_transfer(
      device, bytes, [&](Stream& lane, Address to) { return lane.write(to, data, bytes); }, [](Point) {});
}

absl::StatusOr<BufferRef> CudaClient::copy_across(Device& to, const BufferRef& from) {
  const Gpu& owner = stream_of(from->memory().device(), Lane::kCompute).gpu();
  const Gpu& taker = stream_of(to, Lane::kCopyIn).gpu();
  for (const Gpu* gpu : {&owner, &taker})
    if (absl::Status s = gpu->health(); !s.ok()) return s;
  return made_by_transfer(
      to, from->bytes(),
      [&](Stream& lane, Address at) {
        const absl::Status status = lane.takes(from->written());
        return status.ok()
                   ? static_cast<CudaStream&>(lane).copy_from(owner, from->address(), at, from->bytes())
                   : status;
      },
      [&](Point end) { from->used_until(end); });
}

absl::Status CudaClient::read(std::span<const Read> reads, StepWatcher* watcher) {
  for (Device* device : devices_) {
    CudaStream& lane = stream_of(*device, Lane::kCopyOut);
    std::vector<CudaStream::Part> parts;
    for (const Read& r : reads) {
      if (&r.from->memory() != &device->memory()) continue;
      if (absl::Status s = lane.takes(r.from->written()); !s.ok()) return s;
      parts.push_back({r.from->address() + r.offset, r.bytes, r.to});
    }
    if (parts.empty()) continue;
    const absl::Status status = lane.read_all(parts, watcher);
    // What was not waited for still reads memory that may now be let go of.
    if (absl::IsCancelled(status)) device->stream().after(lane.mark()).IgnoreError();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace lamina::jit::cuda
