// Places in memory, and the counted blocks that arrays lie in.
//
// Contract: an address is not a pointer: only the client of its memory makes one of it. A buffer's holders
// share it through BufferRef, from any thread. Its contents may still lie ahead: they are there at the point
// `written`.
#ifndef LAMINA_JIT_CLIENT_BUFFER_H_
#define LAMINA_JIT_CLIENT_BUFFER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace lamina::jit {

class BufferRef;
class Memory;
class Stream;

// A place in some memory; default-made: none.
class Address {
 public:
  Address() = default;
  explicit Address(uint64_t bits) : bits_(bits) {}
  uint64_t bits() const { return bits_; }
  explicit operator bool() const { return bits_ != 0; }
  Address operator+(int64_t bytes) const { return Address(bits_ + static_cast<uint64_t>(bytes)); }
  bool operator==(const Address&) const = default;

 private:
  uint64_t bits_ = 0;
};

// When all that was enqueued on a stream up to `value` has ended. Default-made: it has, in success.
struct Point {
  Stream* stream = nullptr;
  uint64_t value = 0;
  explicit operator bool() const { return stream != nullptr; }
  bool operator==(const Point&) const = default;
};

// A span of bytes with an atomic reference count; held through BufferRef only.
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Address address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  Memory& memory() const { return memory_; }
  // Bytes that somebody else owns: never donated, never written.
  bool is_foreign() const { return size_class_ < 0; }
  int64_t use_count() const { return refs_.load(std::memory_order_acquire); }
  // Whether a sole holder may write results over the contents.
  bool may_reuse() const { return !is_foreign() && use_count() == 1; }

  // When the contents are there.
  Point written() const { return written_; }
  // By whoever fills it, before anybody else sees it.
  void will_be_written(Point when);
  // Something enqueued on a stream other than the memory's own reads or writes it until then: the block waits
  // for that before it is handed out again.
  void used_until(Point when);
  // By the sole holder, before work on the memory's stream writes over it.
  void wait_for_uses();

 private:
  friend class Memory;
  friend class BufferRef;

  static constexpr int16_t kForeign = -1;

  Buffer(Memory& memory, int16_t size_class) : memory_(memory), size_class_(size_class) {}
  ~Buffer() = default;
  void let_go();

  std::atomic<int64_t> refs_{1};
  Address address_;
  int64_t bytes_ = 0;
  Memory& memory_;
  const int16_t size_class_;
  Point written_;
  struct Uses {
    Point last;  // on one stream
    std::unique_ptr<Uses> others = nullptr;
  };
  std::unique_ptr<Uses> uses_;  // on streams other than the memory's; under its mutex
  // Of a free block: how many its list holds, and the rest of it.
  int16_t depth_ = 0;
  Buffer* next_ = nullptr;
  std::function<void()> release_;  // foreign only
};

// A counted reference; empty when default-made or moved from.
class BufferRef {
 public:
  BufferRef() = default;
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
    if (buffer_) buffer_->refs_.fetch_add(1, std::memory_order_relaxed);
  }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() { reset(); }

  void reset() {
    // The only holder is asked for first: see hlo::Data::release.
    Buffer* buffer = std::exchange(buffer_, nullptr);
    if (buffer && (buffer->refs_.load(std::memory_order_acquire) == 1 ||
                   buffer->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1))
      buffer->let_go();
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* operator->() const { return buffer_; }
  Buffer& operator*() const { return *buffer_; }
  bool operator==(const BufferRef& other) const = default;

 private:
  friend class Memory;
  explicit BufferRef(Buffer* buffer) : buffer_(buffer) {}

  Buffer* buffer_ = nullptr;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_BUFFER_H_
