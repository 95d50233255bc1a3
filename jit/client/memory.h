// The memory of a device: counted buffers over a cache of free blocks.
//
// Contract: blocks hold at least the bytes asked for; a request of 0 bytes gets a block too. Free blocks are
// kept by size class (eight classes per power of two, so at most 1/8 is wasted) and handed out again newest
// first: each thread keeps up to thread_blocks() of every class up to kThreadBytes, which it takes and gives
// back without a lock; the rest is shared. As much is kept as was once live; beyond that the sizes that were
// asked for longest ago make room for what comes back. Contents are unspecified. A memory is never destroyed.
// All functions may be called from any thread; what a thread keeps goes back when it ends.
//
// Where work is enqueued to run later, the block of the lowest address comes first instead (but for long
// lists, about), and threads keep kLaterBlocks at least: a loop whose results are its next arguments then has
// them in the same two sets of places by turns, whatever the order in which it lets go of them, and what was
// prepared for places (jit/cuda/graph_step.h) serves again.
//
// Memory is ordered by its stream: what is handed out may be used by work enqueued there from now on, and
// what was let go of may be handed out again for such work at once, whatever is still to run.
#ifndef LAMINA_JIT_CLIENT_MEMORY_H_
#define LAMINA_JIT_CLIENT_MEMORY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"
#include "jit/client/buffer.h"

namespace lamina::jit {

class Client;
class Device;

// Where the blocks of a memory come from, in the order of the memory's stream. Called by one thread at a
// time.
class BlockSource {
 public:
  // Of 64 bytes or a multiple, aligned to 64 at least; none where no memory is left.
  virtual Address allocate(int64_t bytes) = 0;
  virtual void free(Address block, int64_t bytes) = 0;

 protected:
  ~BlockSource() = default;
};

// Byte counts are of whole blocks (the size classes).
struct MemoryStats {
  int64_t live_bytes = 0;
  // The most that was ever live; of what other threads take and give back meanwhile, up to
  // Memory::kUntoldBytes each may be missing.
  int64_t peak_bytes = 0;
  int64_t cached_bytes = 0;
  int64_t live_buffers = 0;
  int64_t allocations = 0;    // requests served
  int64_t cache_hits = 0;     // of them from the cache
  int64_t thread_hits = 0;    // of these from the blocks of the thread
  int64_t system_blocks = 0;  // requests served by the source
};

class Memory {
 public:
  static constexpr int64_t kThreadBytes = 64 * 1024;
  static constexpr int16_t kLaterBlocks = 64;
  // What a thread may have taken or given back before it tells the others.
  static constexpr int64_t kUntoldBytes = 64 * 1024;

  // How many free blocks of so many bytes a thread keeps: eight, of small ones as many as a program has
  // results.
  static constexpr int thread_blocks(int64_t bytes) {
    return static_cast<int>(std::clamp<int64_t>(16 * 1024 / bytes, 8, 256));
  }

  // Whether free blocks are kept, or go back to the source at once.
  enum class Keeping : uint8_t { kCached, kNone };

  // `source` and `stream` stay.
  Memory(Client& client, BlockSource& source, Stream& stream, Keeping keeping = Keeping::kCached);
  ~Memory() = delete;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  Client& client() const { return client_; }
  Stream& stream() const { return stream_; }
  Device& device() const { return *device_; }

  // ResourceExhausted, in words, when the limit or the machine's memory does not allow it; nothing changes
  // then but that the cache may have been given back. InvalidArgument for a negative size.
  absl::StatusOr<BufferRef> allocate(int64_t bytes);
  // The same for each of these; `out` has as many empty ones.
  absl::Status allocate(std::span<const int64_t> bytes, std::span<BufferRef> out);
  // A buffer over memory that somebody else owns; `release` (may be empty) runs when the last reference goes,
  // on the thread that dropped it, and at once where there is no memory for the buffer (std::bad_alloc). Of
  // memory whose work runs later, what has been enqueued has ended then.
  BufferRef adopt(Address at, int64_t bytes, std::function<void()> release);

  // The most bytes that live and cached blocks together may take.
  void set_limit(int64_t bytes);
  int64_t limit() const;

  MemoryStats stats();
  void reset_peak();
  // Gives every cached block back to the source, those of all threads too.
  void trim();

  // The bytes a block for this request takes; -1 if none can be so large.
  static int64_t block_bytes(int64_t bytes);

 private:
  friend class Buffer;
  friend class Device;
  struct ThreadCache;
  struct ThreadCaches;
  static constexpr int kClasses = 8 * 41;
  // Threads keep blocks of the first so many memories of a process.
  static constexpr int kThreadMemories = 16;

  // Of this thread; null where it has none.
  inline ThreadCache* cache_here() const;
  ThreadCache* make_cache_here();  // null where it ends, or there is no memory for one
  // Whether the thread may have a block for so many bytes.
  inline bool may_be_here(int64_t bytes) const;
  // Puts up to out.size() blocks of the thread's there; how many.
  size_t take_here(int size_class, std::span<const int64_t> bytes, std::span<BufferRef> out);
  inline bool keep_here(Buffer* block);
  absl::StatusOr<BufferRef> allocate_shared(int64_t bytes);
  inline void give_back(Buffer* block);
  // Has the stream wait for what other streams still do with a free block.
  void order_after_uses(Buffer& block);
  void take_back(ThreadCache* of_a_thread);  // which ends
  void tell(ThreadCache& mine);
  // With mutex_ held.
  void tell_locked(ThreadCache& mine);
  void now_live(int64_t bytes);
  int64_t live_locked() const;
  int64_t peak_locked();
  MemoryStats stats_locked();
  // The list with the block in its place.
  Buffer* with(Buffer* list, Buffer* block) const;
  bool push_shared(Buffer* block);     // false: the cache is full
  bool free_oldest(int but_of_class);  // a free block of the class used longest ago; false: there is none
  void free_block(Buffer* block);
  void trim_locked();

  Client& client_;
  BlockSource& source_;
  Stream& stream_;
  const Keeping keeping_;
  const bool lowest_first_;
  Device* device_ = nullptr;  // set by the device
  const int number_;          // among the memories of the process
  // More is live than the limit allows: threads keep nothing.
  std::atomic<bool> over_limit_{false};

  mutable hlo::Mutex mutex_{hlo::LockRank::kMemory};
  int64_t limit_ = std::numeric_limits<int64_t>::max();
  int64_t held_ = 0;             // bytes of all blocks of the source
  int64_t live_ = 0, peak_ = 0;  // without what threads have not told
  int64_t changes_ = 0;          // of live_ by what threads do not keep
  MemoryStats counts_;           // without what threads count
  std::array<Buffer*, kClasses> free_{};
  // When a free block of the class was last taken from there or put there, by a count of those events.
  std::array<int64_t, kClasses> used_{};
  int64_t uses_ = 0;
  ThreadCache* threads_ = nullptr;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_MEMORY_H_
