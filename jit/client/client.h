// Where programs run: clients, their devices, and the streams that work is enqueued on.
//
// Contract: any thread may call anything; clients and devices are never destroyed. A stream runs what is
// enqueued on it in order. The host reads values through their client only.
#ifndef LAMINA_JIT_CLIENT_CLIENT_H_
#define LAMINA_JIT_CLIENT_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "jit/client/memory.h"

namespace lamina::jit {

class Target;

class Stream {
 public:
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Enqueues a copy of bytes that do not overlap.
  virtual absl::Status copy(Address to, Address from, int64_t bytes) = 0;
  // Waits for what was enqueued, then reads.
  virtual absl::Status read(Address from, int64_t bytes, void* to) = 0;

 protected:
  Stream() = default;
  ~Stream() = default;
};

class Device {
 public:
  Device(std::string name, Client& client, const Target& target, Memory& memory, Stream& stream)
      : name_(std::move(name)), client_(client), target_(target), memory_(memory), stream_(stream) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::string& name() const { return name_; }  // "cpu:0"
  Client& client() const { return client_; }
  const Target& target() const { return target_; }
  Memory& memory() const { return memory_; }
  Stream& stream() const { return stream_; }

 private:
  const std::string name_;
  Client& client_;
  const Target& target_;
  Memory& memory_;
  Stream& stream_;
};

class Client {
 public:
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  virtual std::span<Device* const> devices() = 0;
  // Where the host reads the bytes in place, until the buffer ends.
  virtual const std::byte* view(const Buffer& buffer) = 0;
  // A buffer over host memory that somebody else owns, as Memory::adopt.
  virtual BufferRef adopt(void* data, int64_t bytes, std::function<void()> release) = 0;
  // A buffer of the device with a copy of these bytes, which are read before it returns.
  virtual absl::StatusOr<BufferRef> put(Device& device, const void* data, int64_t bytes) = 0;

 protected:
  Client() = default;
  ~Client() = default;
};

// The client of the machine itself, and its first device.
Client& host();
inline Device& host_device() { return *host().devices()[0]; }

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_CLIENT_H_
