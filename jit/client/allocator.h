// Memory for arrays: a caching allocator and reference-counted buffers.
//
// Contract: blocks are 64-byte aligned and hold at least the bytes asked for; a request of 0 bytes gets a
// block too. Freed blocks are kept by size class (eight classes per power of two, so at most 1/8 is wasted)
// and handed out again newest first; blocks of 2 MiB and more are aligned to huge pages. Contents are
// unspecified. An allocator outlives the buffers it made. All functions may be called from any thread.
#ifndef LAMINA_JIT_CLIENT_ALLOCATOR_H_
#define LAMINA_JIT_CLIENT_ALLOCATOR_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"

namespace lamina::jit {

class Allocator;
class BufferRef;

// A span of bytes with an atomic reference count; held through BufferRef only.
class Buffer {
 public:
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Memory that somebody else owns: never donated, never written.
  bool is_foreign() const { return allocator_ == nullptr; }
  int64_t use_count() const { return refs_.load(std::memory_order_acquire); }
  // Whether a sole holder may write results over the contents.
  bool may_reuse() const { return !is_foreign() && use_count() == 1; }

 private:
  friend class Allocator;
  friend class BufferRef;
  friend BufferRef foreign_buffer(void* data, int64_t bytes, std::function<void()> release);

  Buffer(int64_t bytes, Allocator* allocator, int size_class)
      : bytes_(bytes), allocator_(allocator), size_class_(size_class) {}
  ~Buffer() = default;
  void destroy();

  std::atomic<int64_t> refs_{1};
  void* data_ = nullptr;
  const int64_t bytes_;
  Allocator* const allocator_;  // null: foreign
  const int size_class_;
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
    Buffer* buffer = std::exchange(buffer_, nullptr);
    if (buffer && buffer->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) buffer->destroy();
  }
  explicit operator bool() const { return buffer_ != nullptr; }
  Buffer* operator->() const { return buffer_; }
  Buffer& operator*() const { return *buffer_; }
  bool operator==(const BufferRef& other) const = default;

 private:
  friend class Allocator;
  friend BufferRef foreign_buffer(void* data, int64_t bytes, std::function<void()> release);
  explicit BufferRef(Buffer* buffer) : buffer_(buffer) {}

  Buffer* buffer_ = nullptr;
};

// A buffer over memory that somebody else owns; `release` (may be empty) runs when the last reference goes,
// on the thread that dropped it, and at once where there is no memory for the buffer (std::bad_alloc).
BufferRef foreign_buffer(void* data, int64_t bytes, std::function<void()> release);

// Byte counts are of whole blocks (the size classes).
struct AllocatorStats {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;  // the most that was ever live
  int64_t cached_bytes = 0;
  int64_t live_buffers = 0;
  int64_t allocations = 0;    // requests served
  int64_t cache_hits = 0;     // of them from the cache
  int64_t system_blocks = 0;  // of them from the system
};

class Allocator {
 public:
  Allocator() = default;
  // All buffers must be gone.
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // ResourceExhausted, in words, when the limit or the machine's memory does not allow it; nothing changes
  // then but that the cache may have been given back. InvalidArgument for a negative size.
  absl::StatusOr<BufferRef> allocate(int64_t bytes);

  // The most bytes that live and cached blocks together may take.
  void set_limit(int64_t bytes);
  int64_t limit() const;

  AllocatorStats stats() const;
  void reset_peak();
  // Gives every cached block back to the system.
  void trim();

  // The bytes a block for this request takes; -1 if none can be so large.
  static int64_t block_bytes(int64_t bytes);

 private:
  friend class Buffer;
  static constexpr int kClasses = 8 * 41;

  void give_back(void* data, int size_class);
  void trim_locked();

  mutable hlo::Mutex mutex_{hlo::LockRank::kMemory};
  int64_t limit_ = std::numeric_limits<int64_t>::max();
  AllocatorStats stats_;
  std::array<void*, kClasses> cache_{};  // lists of free blocks: each begins with the address of the next
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_ALLOCATOR_H_
