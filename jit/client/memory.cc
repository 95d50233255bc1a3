#include "jit/client/memory.h"

#include <bit>
#include <cstdlib>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "jit/client/client.h"

namespace lamina::jit {
namespace {

constexpr int64_t kMinBlock = 64;
constexpr int64_t kLargestBlock = int64_t{1} << 46;  // the address space of a process
// The cache may always keep this much, and beyond it as much as was once live.
constexpr int64_t kCacheFloor = int64_t{256} << 20;

// Class 8 * p + s stands for 64 * 2^p * (1 + s/8) bytes, rounded up to 64; small classes may coincide in
// size, the lowest is then the one used.
constexpr int64_t class_bytes(int size_class) {
  const int64_t base = kMinBlock << (size_class / 8);
  const int64_t bytes = base + base / 8 * (size_class % 8);
  return (bytes + kMinBlock - 1) / kMinBlock * kMinBlock;
}

constexpr int find_class(int64_t bytes) {
  if (bytes <= kMinBlock) return 0;
  const int p = std::bit_width(static_cast<uint64_t>(bytes)) - 1 - 6;
  const int64_t base = kMinBlock << p;
  const int64_t step = base / 8;
  int size_class = 8 * p + static_cast<int>((bytes - base + step - 1) / step);
  while (size_class > 0 && class_bytes(size_class - 1) >= bytes) --size_class;
  return size_class;
}

constexpr int kThreadClasses = find_class(Memory::kThreadBytes) + 1;

// Of the sizes that threads keep, by multiples of 64 bytes.
constexpr auto kSmallClass = [] {
  std::array<uint8_t, Memory::kThreadBytes / kMinBlock + 1> out{};
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<uint8_t>(find_class(static_cast<int64_t>(i) * kMinBlock));
  return out;
}();

// What threads keep of these classes.
struct Kept {
  int64_t bytes;
  int16_t blocks;  // how many of them
};
constexpr auto kKept = [] {
  std::array<Kept, kThreadClasses> out{};
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t bytes = class_bytes(static_cast<int>(i));
    out[i] = {bytes, static_cast<int16_t>(Memory::thread_blocks(bytes))};
  }
  return out;
}();

int class_of(int64_t bytes) {
  return bytes <= Memory::kThreadBytes ? kSmallClass[static_cast<size_t>((bytes + kMinBlock - 1) / kMinBlock)]
                                       : find_class(bytes);
}

void count(std::atomic<int64_t>& mine, int64_t n = 1) {
  mine.store(mine.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

}  // namespace

// The blocks one thread keeps of one memory. A list has two users, its thread and whoever trims, and is taken
// as a whole by either: what the other then finds is an empty one.
struct Memory::ThreadCache {
  explicit ThreadCache(Memory& of) : memory(of) {}

  Memory& memory;
  // Of the thread alone, without the lock: bytes went out (negative: came back).
  void note(int64_t bytes) {
    const int64_t now = untold.load(std::memory_order_relaxed) + bytes;
    untold.store(now, std::memory_order_relaxed);
    if (now > most_untold.load(std::memory_order_relaxed)) most_untold.store(now, std::memory_order_relaxed);
    if (std::abs(now) > kUntoldBytes) memory.tell(*this);
  }

  std::array<std::atomic<Buffer*>, kThreadClasses> lists{};
  // Written by the thread alone.
  std::atomic<int64_t> taken{0}, returned{0};
  // Live bytes that the thread added since it last told, and the most that these were meanwhile.
  std::atomic<int64_t> untold{0}, most_untold{0};
  int64_t told_at = 0;  // Memory::changes_ then; under its lock
  ThreadCache *next = nullptr, *previous = nullptr;
};

// Ends with its thread. Buffers may be let go of later: then the thread keeps nothing any more.
struct Memory::ThreadCaches {
  ~ThreadCaches() {
    for (ThreadCache*& cache : here)
      if (ThreadCache* mine = std::exchange(cache, nullptr)) mine->memory.take_back(mine);
    ended = true;
  }

  // The last, of all further memories, stays null.
  using All = std::array<ThreadCache*, kThreadMemories + 1>;
  static thread_local constinit All here;
  static thread_local constinit bool ended;
};
thread_local constinit Memory::ThreadCaches::All Memory::ThreadCaches::here{};
thread_local constinit bool Memory::ThreadCaches::ended = false;

namespace {
constinit std::atomic<int> memories{0};
}  // namespace

Memory::Memory(Client& client, BlockSource& source, Stream& stream, Keeping keeping)
    : client_(client),
      source_(source),
      stream_(stream),
      keeping_(keeping),
      lowest_first_(!stream.is_inline()),
      number_(keeping == Keeping::kCached ? std::min(memories.fetch_add(1), kThreadMemories)
                                          : kThreadMemories) {}

int64_t Memory::block_bytes(int64_t bytes) {
  if (bytes < 0 || bytes > kLargestBlock) return -1;
  return class_bytes(class_of(bytes));
}

Memory::ThreadCache* Memory::cache_here() const { return ThreadCaches::here[static_cast<size_t>(number_)]; }

Memory::ThreadCache* Memory::make_cache_here() {
  if (number_ == kThreadMemories || ThreadCaches::ended) return nullptr;
  thread_local const ThreadCaches ends_with_the_thread;
  static_cast<void>(ends_with_the_thread);
  ThreadCache* const made = new (std::nothrow) ThreadCache(*this);
  if (!made) return nullptr;
  std::lock_guard lock(mutex_);
  made->next = threads_;
  if (threads_) threads_->previous = made;
  threads_ = made;
  return ThreadCaches::here[static_cast<size_t>(number_)] = made;
}

size_t Memory::take_here(int size_class, std::span<const int64_t> bytes, std::span<BufferRef> out) {
  ThreadCache* const mine = cache_here();
  if (!mine) return 0;
  std::atomic<Buffer*>& list = mine->lists[static_cast<size_t>(size_class)];
  if (!list.load(std::memory_order_relaxed)) return 0;
  Buffer* block = list.exchange(nullptr, std::memory_order_acquire);
  const int depth = block ? block->depth_ : 0;
  size_t n = 0;
  for (; block && n < out.size(); ++n) {
    Buffer* const rest = block->next_;
    block->bytes_ = bytes[n];
    block->written_ = {};
    block->refs_.store(1, std::memory_order_relaxed);
    out[n] = BufferRef(block);
    block = rest;
  }
  // Newest first it is right already.
  if (lowest_first_ && block) block->depth_ = static_cast<int16_t>(depth - static_cast<int>(n));
  list.store(block, std::memory_order_release);
  const auto taken = static_cast<int64_t>(n);
  count(mine->taken, taken);
  mine->note(taken * kKept[static_cast<size_t>(size_class)].bytes);
  return n;
}

bool Memory::keep_here(Buffer* block) {
  ThreadCache* mine = cache_here();
  if (!mine) mine = make_cache_here();
  if (!mine) return false;
  const auto size_class = static_cast<size_t>(block->size_class_);
  std::atomic<Buffer*>& list = mine->lists[size_class];
  Buffer* const rest = list.exchange(nullptr, std::memory_order_acquire);
  const int depth = rest ? rest->depth_ : 0;
  if (depth >=
      (lowest_first_ ? std::max(kKept[size_class].blocks, kLaterBlocks) : kKept[size_class].blocks)) {
    list.store(rest, std::memory_order_release);
    return false;
  }
  Buffer* const all = with(rest, block);
  all->depth_ = static_cast<int16_t>(depth + 1);
  list.store(all, std::memory_order_release);
  count(mine->returned);
  mine->note(-kKept[size_class].bytes);
  return true;
}

void Memory::tell(ThreadCache& mine) {
  std::lock_guard lock(mutex_);
  tell_locked(mine);
}

void Memory::tell_locked(ThreadCache& mine) {
  peak_ = peak_locked();
  live_ += mine.untold.load(std::memory_order_relaxed);
  mine.untold.store(0, std::memory_order_relaxed);
  mine.most_untold.store(0, std::memory_order_relaxed);
  mine.told_at = changes_;
}

int64_t Memory::live_locked() const {
  int64_t live = live_;
  for (const ThreadCache* t = threads_; t; t = t->next) live += t->untold.load(std::memory_order_relaxed);
  return live;
}

int64_t Memory::peak_locked() {
  const int64_t live = live_locked();
  const ThreadCache* const mine = cache_here();
  // What was live with the most that this thread held is known if no other changed it since.
  if (!mine || mine->told_at != changes_) return std::max(peak_, live);
  return std::max(peak_, live - mine->untold.load(std::memory_order_relaxed) +
                             mine->most_untold.load(std::memory_order_relaxed));
}

void Memory::now_live(int64_t bytes) {
  ThreadCache* const mine = cache_here();
  if (mine) tell_locked(*mine);
  live_ += bytes;
  ++changes_;
  if (mine) mine->told_at = changes_;
  peak_ = std::max(peak_, live_locked());
}

bool Memory::may_be_here(int64_t bytes) const {
  return bytes >= 0 && bytes <= kThreadBytes && !over_limit_.load(std::memory_order_relaxed);
}

absl::StatusOr<BufferRef> Memory::allocate(int64_t bytes) {
  BufferRef out;
  if (may_be_here(bytes) && take_here(class_of(bytes), {&bytes, 1}, {&out, 1}) == 1) return out;
  return allocate_shared(bytes);
}

absl::Status Memory::allocate(std::span<const int64_t> bytes, std::span<BufferRef> out) {
  for (size_t i = 0; i < bytes.size();) {
    size_t end = i + 1;
    if (may_be_here(bytes[i])) {
      const int size_class = class_of(bytes[i]);
      while (end < bytes.size() && may_be_here(bytes[end]) && class_of(bytes[end]) == size_class) ++end;
      i += take_here(size_class, bytes.subspan(i, end - i), out.subspan(i, end - i));
    }
    for (; i < end; ++i) {
      absl::StatusOr<BufferRef> block = allocate_shared(bytes[i]);
      if (!block.ok()) return block.status();
      out[i] = *std::move(block);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<BufferRef> Memory::allocate_shared(int64_t bytes) {
  if (bytes < 0)
    return absl::InvalidArgumentError(absl::StrFormat("an array cannot take %d bytes of memory", bytes));
  if (bytes > kLargestBlock)
    return absl::ResourceExhaustedError(
        absl::StrFormat("an array of %d bytes does not fit the address space", bytes));
  const int size_class = class_of(bytes);
  const int64_t size = class_bytes(size_class);
  std::lock_guard lock(mutex_);
  const auto buffers = [&] { return stats_locked().live_buffers; };
  if (const int64_t live = live_locked(); size > limit_ - live)
    return absl::ResourceExhaustedError(absl::StrFormat(
        "allocating %d bytes would pass the memory limit of %d bytes: arrays hold %d bytes in %d buffers",
        bytes, limit_, live, buffers()));
  Buffer* block = free_[static_cast<size_t>(size_class)];
  if (block) {
    free_[static_cast<size_t>(size_class)] = block->next_;
    used_[static_cast<size_t>(size_class)] = ++uses_;
    ++counts_.cache_hits;
    order_after_uses(*block);
  } else {
    // Made before anything changes, as memory may run out here.
    const auto destroy = [](Buffer* b) { delete b; };
    std::unique_ptr<Buffer, decltype(destroy)> made(new Buffer(*this, static_cast<int16_t>(size_class)),
                                                    destroy);
    if (size > limit_ - held_) trim_locked();
    made->address_ = source_.allocate(size);
    if (!made->address_) {
      trim_locked();
      made->address_ = source_.allocate(size);
    }
    if (!made->address_)
      return absl::ResourceExhaustedError(
          absl::StrFormat("the machine has no memory left for %d bytes: arrays hold %d bytes in %d buffers",
                          bytes, live_locked(), buffers()));
    held_ += size;
    ++counts_.system_blocks;
    block = made.release();
  }
  ++counts_.allocations;
  now_live(size);
  block->bytes_ = bytes;
  block->written_ = {};
  block->refs_.store(1, std::memory_order_relaxed);
  return BufferRef(block);
}

BufferRef Memory::adopt(Address at, int64_t bytes, std::function<void()> release) {
  Buffer* const buffer = new (std::nothrow) Buffer(*this, Buffer::kForeign);
  if (!buffer) {
    if (release) release();
    throw std::bad_alloc();
  }
  buffer->address_ = at;
  buffer->bytes_ = bytes;
  buffer->release_ = std::move(release);
  return BufferRef(buffer);
}

void Buffer::will_be_written(Point when) {
  written_ = when;
  used_until(when);
}

void Buffer::used_until(Point when) {
  if (!when || when.stream == &memory_.stream()) return;
  std::lock_guard lock(memory_.mutex_);
  std::unique_ptr<Uses>* known = &uses_;
  while (*known && (*known)->last.stream != when.stream) known = &(*known)->others;
  if (*known) {
    (*known)->last.value = std::max((*known)->last.value, when.value);
    return;
  }
  known->reset(new (std::nothrow) Uses{when});
  // What cannot be remembered is waited for at once: it goes on already, and its end must not be lost.
  if (!*known) memory_.stream_.after(when).IgnoreError();
}

void Buffer::wait_for_uses() {
  std::lock_guard lock(memory_.mutex_);
  memory_.order_after_uses(*this);
}

void Memory::order_after_uses(Buffer& block) {
  if (!block.uses_) return;
  // A stream that cannot wait is lost, and nothing more will run on it.
  for (const Buffer::Uses* u = block.uses_.get(); u; u = u->others.get())
    stream_.after(u->last).IgnoreError();
  block.uses_.reset();
}

void Memory::give_back(Buffer* block) {
  if (block->size_class_ < kThreadClasses && !over_limit_.load(std::memory_order_relaxed) && !block->uses_ &&
      keep_here(block))
    return;
  std::lock_guard lock(mutex_);
  now_live(-class_bytes(block->size_class_));
  --counts_.live_buffers;
  if (!push_shared(block)) free_block(block);
  over_limit_.store(live_locked() > limit_, std::memory_order_relaxed);
}

void Buffer::let_go() {
  if (!is_foreign()) {
    memory_.give_back(this);
    return;
  }
  if (release_ && memory_.stream().is_inline()) {
    release_();
  } else if (release_) {
    wait_for_uses();
    const auto end = [release = std::move(release_)](const void*) { release(); };
    memory_.stream().keep(std::shared_ptr<const void>(nullptr, end));
  }
  delete this;
}

Buffer* Memory::with(Buffer* list, Buffer* block) const {
  constexpr int kMostSteps = 2 * kLaterBlocks;
  const auto is_behind = [&](const Buffer* other) {
    return lowest_first_ && other && other->address_.bits() < block->address_.bits();
  };
  if (!is_behind(list)) {
    block->next_ = list;
    return block;
  }
  Buffer* before = list;
  for (int i = 0; i < kMostSteps && is_behind(before->next_); ++i) before = before->next_;
  block->next_ = before->next_;
  before->next_ = block;
  return list;
}

bool Memory::push_shared(Buffer* block) {
  if (keeping_ == Keeping::kNone || held_ > limit_) return false;
  // Blocks that nothing asks for any more would otherwise keep those out that every run takes and gives back.
  const int64_t live = live_locked(), most = std::max(kCacheFloor, peak_locked());
  while (held_ - live > most)
    if (!free_oldest(block->size_class_)) return false;
  const auto size_class = static_cast<size_t>(block->size_class_);
  free_[size_class] = with(free_[size_class], block);
  used_[size_class] = ++uses_;
  return true;
}

bool Memory::free_oldest(int but_of_class) {
  int oldest = -1;
  for (int c = 0; c < kClasses; ++c)
    if (c != but_of_class && free_[static_cast<size_t>(c)] &&
        (oldest < 0 || used_[static_cast<size_t>(c)] < used_[static_cast<size_t>(oldest)]))
      oldest = c;
  if (oldest < 0) return false;
  Buffer*& list = free_[static_cast<size_t>(oldest)];
  free_block(std::exchange(list, list->next_));
  return true;
}

void Memory::free_block(Buffer* block) {
  const int64_t size = class_bytes(block->size_class_);
  order_after_uses(*block);
  source_.free(block->address_, size);
  held_ -= size;
  delete block;
}

void Memory::take_back(ThreadCache* of_a_thread) {
  const std::unique_ptr<ThreadCache> ending(of_a_thread);
  std::lock_guard lock(mutex_);
  live_ += ending->untold.exchange(0, std::memory_order_relaxed);
  for (std::atomic<Buffer*>& list : ending->lists)
    for (Buffer* block = list.exchange(nullptr, std::memory_order_acquire); block;) {
      Buffer* const rest = block->next_;
      if (!push_shared(block)) free_block(block);
      block = rest;
    }
  const int64_t taken = ending->taken.load(), returned = ending->returned.load();
  counts_.allocations += taken;
  counts_.cache_hits += taken;
  counts_.thread_hits += taken;
  counts_.live_buffers -= returned;
  (ending->previous ? ending->previous->next : threads_) = ending->next;
  if (ending->next) ending->next->previous = ending->previous;
}

void Memory::set_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = std::max<int64_t>(bytes, 0);
  over_limit_.store(live_locked() > limit_, std::memory_order_relaxed);
  if (held_ > limit_) trim_locked();
}

int64_t Memory::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

MemoryStats Memory::stats_locked() {
  MemoryStats s = counts_;
  for (const ThreadCache* t = threads_; t; t = t->next) {
    const int64_t taken = t->taken.load(std::memory_order_relaxed);
    s.allocations += taken;
    s.cache_hits += taken;
    s.thread_hits += taken;
    s.live_buffers -= t->returned.load(std::memory_order_relaxed);
  }
  s.live_buffers += s.allocations;
  s.live_bytes = live_locked();
  s.peak_bytes = peak_locked();
  s.cached_bytes = held_ - s.live_bytes;
  return s;
}

MemoryStats Memory::stats() {
  std::lock_guard lock(mutex_);
  return stats_locked();
}

void Memory::reset_peak() {
  std::lock_guard lock(mutex_);
  if (ThreadCache* const mine = cache_here()) tell_locked(*mine);
  peak_ = live_locked();
}

void Memory::trim() {
  std::lock_guard lock(mutex_);
  trim_locked();
}

void Memory::trim_locked() {
  const auto free_all = [this](Buffer* block) {
    while (block) {
      Buffer* const rest = block->next_;
      free_block(block);
      block = rest;
    }
  };
  for (Buffer*& list : free_) free_all(std::exchange(list, nullptr));
  for (ThreadCache* t = threads_; t; t = t->next)
    for (std::atomic<Buffer*>& list : t->lists) free_all(list.exchange(nullptr, std::memory_order_acquire));
}

}  // namespace lamina::jit
