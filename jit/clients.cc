// The clients there are.
#include "hlo/strings.h"
#include "jit/client/exchange.h"
#include "jit/cpu/client.h"
#include "jit/cuda/client.h"
#include "jit/fake/client.h"

namespace lamina::jit {

Client& host() { return CpuClient::get(); }

namespace {

// By the first part of the name; the host where no other has it.
absl::StatusOr<Client*> client_of(std::string_view kind) {
  if (kind == "cuda") return cuda::CudaClient::get();
  return kind == "fake" ? static_cast<Client*>(&FakeClient::get()) : &host();
}

}  // namespace

KernelStats kernel_stats() {
  KernelStats sum = host().kernel_stats();
  if (const Client* const cuda = cuda::CudaClient::opened()) sum += cuda->kernel_stats();
  return sum;
}

absl::StatusOr<Device*> find_device(std::string_view name) {
  const std::string_view kind = name.substr(0, name.find(':'));
  const std::string full = kind == name ? str_cat(name, ":0") : std::string(name);
  const absl::StatusOr<Client*> client = client_of(kind);
  if (!client.ok())
    return absl::InvalidArgumentError(
        str_cat("there is no device '", name, "': ", client.status().message()));
  std::string all;
  for (Device* device : (*client)->devices()) {
    if (device->name() == full) return device;
    str_append(&all, all.empty() ? "" : ", ", device->name());
  }
  return absl::InvalidArgumentError(str_cat("there is no device '", name, "'; there are ", all));
}

absl::StatusOr<Device*> find_device(Exchange::Name name) {
  if (name.kind == Exchange::kHostKind) return &host_device();
  if (name.kind == cuda::CudaExchange::kKind) return find_device(str_cat("cuda:", name.number));
  return absl::InvalidArgumentError(str_cat("there is no device here of DLPack's kind ", name.kind, "; ",
                                            Exchange::kHostKind, " is memory of the host, ",
                                            cuda::CudaExchange::kKind, " CUDA"));
}

}  // namespace lamina::jit
