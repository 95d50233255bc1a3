#include "jit/client/client.h"

#include <atomic>
#include <utility>
#include <vector>

namespace lamina::jit {
namespace {
std::atomic<int> devices_made{0};
}  // namespace

Device::Device(std::string name, Client& client, const Target& target, Memory& memory, Lanes lanes)
    : name_(std::move(name)),
      place_(hlo::place_of(name_)),
      client_(client),
      target_(target),
      memory_(memory),
      lanes_(lanes) {
  memory_.device_ = this;
  devices_made.fetch_add(1);
}

bool only_host() { return devices_made.load(std::memory_order_relaxed) <= 1; }

absl::StatusOr<BufferRef> bring(Device& device, const BufferRef& from) {
  Client& client = from->memory().client();
  if (&from->memory() == &device.memory()) return from;
  if (&client == &device.client()) return client.copy_across(device, from);
  const int64_t bytes = from->bytes();
  if (const std::byte* in_place = client.view(*from)) return device.client().put(device, in_place, bytes);
  std::vector<std::byte> staging(static_cast<size_t>(bytes));
  const Client::Read all{from.operator->(), 0, bytes, staging.data()};
  if (absl::Status s = client.read({&all, 1}, nullptr); !s.ok()) return s;
  return device.client().put(device, staging.data(), bytes);
}

}  // namespace lamina::jit
