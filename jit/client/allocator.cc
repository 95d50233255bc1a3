#include "jit/client/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

namespace lamina::jit {
namespace {

constexpr int64_t kMinBlock = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kLargestBlock = int64_t{1} << 46;  // the address space of a process
// The cache may always keep this much, and beyond it as much as was once live.
constexpr int64_t kCacheFloor = int64_t{256} << 20;

// Class 8 * p + s stands for 64 * 2^p * (1 + s/8) bytes, rounded up to 64; small classes may coincide in
// size, the lowest is then the one used.
int64_t class_bytes(int size_class) {
  const int64_t base = kMinBlock << (size_class / 8);
  const int64_t bytes = base + base / 8 * (size_class % 8);
  return (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
}

int class_of(int64_t bytes) {
  if (bytes <= kMinBlock) return 0;
  const int p = std::bit_width(static_cast<uint64_t>(bytes)) - 1 - 6;
  const int64_t base = kMinBlock << p;
  const int64_t step = base / 8;
  int size_class = 8 * p + static_cast<int>((bytes - base + step - 1) / step);
  while (size_class > 0 && class_bytes(size_class - 1) >= bytes) --size_class;
  return size_class;
}

void* system_allocate(int64_t bytes) {
  if (bytes < kHugePage) return std::aligned_alloc(kMinBlock, static_cast<size_t>(bytes));
  // Over-maps by a huge page and cuts off both ends, so that the block begins on a huge page.
  const size_t size = static_cast<size_t>(bytes);
  const size_t mapped = size + static_cast<size_t>(kHugePage);
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePage - 1) / kHugePage * kHugePage;
  if (aligned > begin) munmap(raw, aligned - begin);
  const uintptr_t tail = begin + mapped - (aligned + size);
  if (tail > 0) munmap(reinterpret_cast<void*>(aligned + size), tail);
  void* block = reinterpret_cast<void*>(aligned);
  madvise(block, size, MADV_HUGEPAGE);  // advice only: without huge pages all works
  return block;
}

void system_free(void* data, int64_t bytes) {
  if (bytes < kHugePage)
    std::free(data);
  else
    munmap(data, static_cast<size_t>(bytes));
}

}  // namespace

void Buffer::destroy() {
  if (allocator_)
    allocator_->give_back(data_, size_class_);
  else if (release_)
    release_();
  delete this;
}

BufferRef foreign_buffer(void* data, int64_t bytes, std::function<void()> release) {
  Buffer* const buffer = new (std::nothrow) Buffer(bytes, nullptr, 0);
  if (!buffer) {
    if (release) release();
    throw std::bad_alloc();
  }
  buffer->data_ = data;
  buffer->release_ = std::move(release);
  return BufferRef(buffer);
}

Allocator::~Allocator() { trim(); }

int64_t Allocator::block_bytes(int64_t bytes) {
  if (bytes < 0 || bytes > kLargestBlock) return -1;
  return class_bytes(class_of(bytes));
}

absl::StatusOr<BufferRef> Allocator::allocate(int64_t bytes) {
  if (bytes < 0)
    return absl::InvalidArgumentError(absl::StrFormat("an array cannot take %d bytes of memory", bytes));
  if (bytes > kLargestBlock)
    return absl::ResourceExhaustedError(
        absl::StrFormat("an array of %d bytes does not fit the address space", bytes));
  const int size_class = class_of(bytes);
  const int64_t block = class_bytes(size_class);
  std::lock_guard lock(mutex_);
  void*& cached = cache_[size_class];
  if (block > limit_ - stats_.live_bytes)
    return absl::ResourceExhaustedError(absl::StrFormat(
        "allocating %d bytes would pass the memory limit of %d bytes: arrays hold %d bytes in %d buffers",
        bytes, limit_, stats_.live_bytes, stats_.live_buffers));
  // Made before anything changes, as memory may run out here.
  const auto destroy = [](Buffer* b) { delete b; };
  std::unique_ptr<Buffer, decltype(destroy)> made(new Buffer(bytes, this, size_class), destroy);
  void* data = cached;
  if (data) {
    std::memcpy(&cached, data, sizeof(cached));
    stats_.cached_bytes -= block;
    ++stats_.cache_hits;
  } else {
    if (block > limit_ - stats_.live_bytes - stats_.cached_bytes) trim_locked();
    data = system_allocate(block);
    if (!data) {
      trim_locked();
      data = system_allocate(block);
    }
    if (!data)
      return absl::ResourceExhaustedError(
          absl::StrFormat("the machine has no memory left for %d bytes: arrays hold %d bytes in %d buffers",
                          bytes, stats_.live_bytes, stats_.live_buffers));
    ++stats_.system_blocks;
  }
  ++stats_.allocations;
  ++stats_.live_buffers;
  stats_.live_bytes += block;
  stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  made->data_ = data;
  return BufferRef(made.release());
}

void Allocator::give_back(void* data, int size_class) {
  const int64_t block = class_bytes(size_class);
  {
    std::lock_guard lock(mutex_);
    --stats_.live_buffers;
    stats_.live_bytes -= block;
    const int64_t after = stats_.cached_bytes + block;
    if (after <= std::max(kCacheFloor, stats_.peak_bytes) && after <= limit_ - stats_.live_bytes) {
      std::memcpy(data, &cache_[size_class], sizeof(void*));
      cache_[size_class] = data;
      stats_.cached_bytes = after;
      return;
    }
  }
  system_free(data, block);
}

void Allocator::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = std::max<int64_t>(bytes, 0);
  if (stats_.live_bytes > limit_ - stats_.cached_bytes) trim_locked();
}

int64_t Allocator::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

AllocatorStats Allocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}

void Allocator::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void Allocator::trim_locked() {
  for (int c = 0; c < kClasses; ++c) {
    while (void* const data = cache_[c]) {
      std::memcpy(&cache_[c], data, sizeof(void*));
      system_free(data, class_bytes(c));
    }
  }
  stats_.cached_bytes = 0;
}

}  // namespace lamina::jit
