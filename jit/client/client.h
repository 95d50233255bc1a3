// Where programs run: clients, their devices, and the streams that work is enqueued on.
//
// Contract: any thread may call anything; clients and devices are never destroyed. A stream runs what is
// enqueued on it in order. The host reads values through their client only.
#ifndef LAMINA_JIT_CLIENT_CLIENT_H_
#define LAMINA_JIT_CLIENT_CLIENT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "hlo/place.h"
#include "jit/client/cancel.h"
#include "jit/client/kernel_stats.h"
#include "jit/client/memory.h"

namespace lamina::jit {

class Exchange;
class Target;

// A queue of a device: what is enqueued runs in order, and every value handed out is reached, also after a
// failure. Inline streams end work before enqueueing it returns, and all their points are null.
//
// A run is what one thread enqueues between begin_run and end_run; runs of other threads may come between.
// One that fails, or takes what a failed one was to write, fails as a whole, and nobody else does.
class Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  virtual bool is_inline() const { return true; }
  virtual void begin_run() {}
  virtual Point end_run() { return {}; }
  // Of all that has been enqueued so far, by anybody. It has no outcome.
  virtual Point mark() { return {}; }
  // What is enqueued from now on begins after that point; the host waits if it must.
  virtual absl::Status after(Point earlier) = 0;
  // The same for the end of a run whose results the current run takes.
  virtual absl::Status takes(Point written) = 0;
  virtual bool reached(uint64_t) { return true; }
  // Waits until it is reached, then the outcome. The watcher, which may be null, is asked meanwhile: if it
  // stops the wait, that is Cancelled, and the work goes on.
  virtual absl::Status wait(uint64_t, StepWatcher*) { return absl::OkStatus(); }
  // Held until what has been enqueued so far has ended, and somewhat longer.
  virtual void keep(std::shared_ptr<const void>) {}

  // Enqueues a copy of bytes that do not overlap.
  virtual absl::Status copy(Address to, Address from, int64_t bytes) = 0;
  // Waits for what was enqueued, then reads.
  virtual absl::Status read(Address from, int64_t bytes, void* to) = 0;
  // Reads what is to be written before it returns.
  virtual absl::Status write(Address to, const void* from, int64_t bytes) = 0;

 protected:
  Stream() = default;
  ~Stream() = default;
};

// What a stream is for; lanes may be one stream.
enum class Lane : uint8_t { kCompute, kCopyIn, kCopyOut };

class Device {
 public:
  // By lane; the memory's is that of kCompute.
  using Lanes = std::array<Stream*, 3>;
  Device(std::string name, Client& client, const Target& target, Memory& memory, Lanes lanes);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }  // "cpu:0"
  hlo::Place place() const { return place_; }
  Client& client() const { return client_; }
  const Target& target() const { return target_; }
  Memory& memory() const { return memory_; }
  Stream& stream(Lane lane = Lane::kCompute) const { return *lanes_[static_cast<size_t>(lane)]; }

 private:
  const std::string name_;
  const hlo::Place place_;
  Client& client_;
  const Target& target_;
  Memory& memory_;
  const Lanes lanes_;
};

class Client {
 public:
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  virtual std::span<Device* const> devices() = 0;
  // Where the host reads the bytes in place, until the buffer ends, once they are written; null where it
  // cannot.
  virtual const std::byte* view(const Buffer& buffer) = 0;
  // Waits once for all of them, then reads; the first failure of the runs that wrote them.
  struct Read {
    const Buffer* from;
    int64_t offset, bytes;
    void* to;
  };
  virtual absl::Status read(std::span<const Read> reads, StepWatcher* watcher) = 0;
  // A buffer over host memory that somebody else owns, as Memory::adopt.
  virtual BufferRef adopt(void* data, int64_t bytes, std::function<void()> release) = 0;
  // A buffer of the device with a copy of these bytes, which are read before it returns.
  virtual absl::StatusOr<BufferRef> put(Device& device, const void* data, int64_t bytes) = 0;
  // A buffer of `to`, a device of this client, with the bytes of another buffer of its devices.
  virtual absl::StatusOr<BufferRef> copy_across(Device& to, const BufferRef& from) = 0;
  // How arrays of its devices cross to other libraries; null where these do not know them.
  virtual const Exchange* exchange() const { return nullptr; }
  // None where the kernels are another client's.
  virtual KernelStats kernel_stats() const { return {}; }

 protected:
  Client() = default;
  ~Client() = default;
};

// The client of the machine itself, and its first device.
Client& host();
inline Device& host_device() { return *host().devices()[0]; }
// The device of this name, "cpu:0" or, for the first of a client, "cpu"; makes its client at first use.
// InvalidArgument where there is none.
absl::StatusOr<Device*> find_device(std::string_view name);
// Whether host_device() is the only device that was made so far: everything lies there then.
bool only_host();
// A buffer of `device` with the bytes of `from`: itself where it lies there already.
absl::StatusOr<BufferRef> bring(Device& device, const BufferRef& from);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_CLIENT_H_
