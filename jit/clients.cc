// The clients there are.
#include "hlo/strings.h"
#include "jit/cpu/client.h"
#include "jit/fake/client.h"

namespace lamina::jit {

Client& host() { return CpuClient::get(); }

absl::StatusOr<Device*> find_device(std::string_view name) {
  const std::string full = name.find(':') == name.npos ? str_cat(name, ":0") : std::string(name);
  Client& client = name.starts_with("fake") ? static_cast<Client&>(FakeClient::get()) : host();
  std::string all;
  for (Device* device : client.devices()) {
    if (device->name() == full) return device;
    str_append(&all, all.empty() ? "" : ", ", device->name());
  }
  return absl::InvalidArgumentError(str_cat("there is no device '", name, "'; there are ", all));
}

}  // namespace lamina::jit
