// What all owners of NVIDIA's libraries have in common: a library is opened when it is first wanted, and then
// started on each device.
#ifndef LAMINA_JIT_CUDA_LIBRARY_OWNER_H_
#define LAMINA_JIT_CUDA_LIBRARY_OWNER_H_

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"
#include "hlo/strings.h"
#include "jit/cuda/gpu.h"

namespace lamina::jit::cuda {

// Where a library runs: a handle of it, which serves one call at a time. It stays.
template <typename Handle>
struct LibraryDevice {
  Gpu* gpu;
  Handle handle = nullptr;
  hlo::Mutex mutex{hlo::LockRank::kQueues};

  bool serves() const { return handle && !gpu->is_lost(); }
};

// `Row` says which library it is:
//   Library, whose `library` is the path and version_text() the version, and Device, made of a Gpu*;
//   load(driver_version), as load_blas;
//   start(library, device): in words why it does not start there, where the context is current; "" if it
//   does; kOtherwise: who does the work where there is none.
template <typename Row>
class LibraryOwner {
 public:
  using Library = typename Row::Library;
  using Device = typename Row::Device;

  // Of all devices that there are; the driver's version. They stay.
  void serve(std::span<const std::unique_ptr<Gpu>> gpus, int driver_version) {
    std::lock_guard lock(mutex_);
    gpus_ = gpus;
    driver_version_ = driver_version;
    opened_ = nullptr;
  }
  // What does the work, in words.
  std::string library() {
    std::lock_guard lock(mutex_);
    const absl::StatusOr<Opened>& opened = opened_locked();
    return opened.ok() ? str_cat(opened->library.library, ", version ", opened->library.version_text())
                       : str_cat(Row::kOtherwise, ": ", opened.status().message());
  }

 protected:
  struct Opened {
    Library library;
    std::vector<std::unique_ptr<Device>> devices;  // without a handle where one was lost
  };
  ~LibraryOwner() = default;

  const absl::StatusOr<Opened>& opened_locked() {
    if (!opened_) opened_ = new absl::StatusOr<Opened>(open());
    return *opened_;
  }

  hlo::Mutex mutex_{hlo::LockRank::kLibraries};

 private:
  absl::StatusOr<Opened> open() {
    absl::StatusOr<Library> library = Row::load(driver_version_);
    if (!library.ok()) return library.status();
    Opened out{*std::move(library), {}};
    for (const std::unique_ptr<Gpu>& gpu : gpus_) {
      auto device = std::make_unique<Device>(gpu.get());
      std::string why;
      const absl::Status entered = gpu->within([&] {
        why = Row::start(out.library, *device);
        return absl::OkStatus();
      });
      if (entered.ok() && !why.empty())
        return absl::NotFoundError(
            str_cat(out.library.library, " does not start on ", gpu->name(), ": ", why));
      out.devices.push_back(std::move(device));
    }
    return out;
  }

  std::span<const std::unique_ptr<Gpu>> gpus_;
  int driver_version_ = 0;
  // What is planned points into it: it is made anew for tests only, and the old one stays.
  const absl::StatusOr<Opened>* opened_ = nullptr;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_LIBRARY_OWNER_H_
