// The specialization cache: recorded programs and their executables.
//
// Contract: the key is the canonical encoding of the recorded graph (structure, types, attributes, modes;
// never addresses of values) and the device, found by hash and compared in full. Each entry keeps what
// `lamina cache` shows: where it was recorded, argument types, why it was compiled, what it cost and how
// often it ran. Bounded in number and in memory; the least recently used entries go first. Threads that ask
// for the same program at the same time compile it once: the others wait, unless they hold the graph lock,
// which the compile may need.
#ifndef LAMINA_JIT_PROGRAM_SPECIALIZATION_CACHE_H_
#define LAMINA_JIT_PROGRAM_SPECIALIZATION_CACHE_H_

#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "jit/program/executable.h"

namespace lamina::jit {

// Numbers of one entry; a copy, for the tools.
struct EntryInfo {
  int64_t id = 0;
  std::string kind;                    // "lazy" or "jit"
  std::string name;                    // of the function, for jit
  std::string where;                   // file:line of the first recording
  std::string device;                  // that it runs on
  std::vector<std::string> arguments;  // types, in order
  std::string reason;                  // why it was compiled
  int64_t nearest = -1;                // the entry it was compared with for the reason
  int64_t nodes = 0;
  int64_t steps = 0;
  int64_t bytes = 0;       // of memory that it takes with its kernels, about
  int64_t peak_bytes = 0;  // Executable::peak_bytes
  int64_t runs = 0;
  double compile_ms = 0;
  double run_ms = 0;
};

struct CacheStats {
  int64_t entries = 0, hits = 0, misses = 0, evictions = 0;
  int64_t bytes = 0;  // EntryInfo::bytes of those that are there
  double compile_ms = 0;
};

struct Specialization {
  EntryInfo info;  // under the cache's mutex; without what follows of runs
  std::vector<uint64_t> key;
  hlo::ComputationPtr recorded;  // before any pass: keeps the attributes whose ids are in the key
  std::vector<const hlo::Type*> argument_types;
  std::shared_ptr<const Executable> executable;
  Device& device() const { return executable->device(); }
  std::atomic<double> last_run_ms{-1};  // negative: not run yet
  std::atomic<int64_t> runs{0};
  std::atomic<double> run_ms{0};
};
using SpecializationPtr = std::shared_ptr<Specialization>;

// Has the allocator give memory back to the system. Of programs that are let go of it keeps most otherwise:
// many small pieces between others that stay.
void trim_heap();

class SpecializationCache {
 public:
  static constexpr size_t kMaxEntries = 4096;
  static constexpr int64_t kMaxBytes = int64_t{2} << 30;  // of EntryInfo::bytes; the newest entry is kept

  // The origin of a recording, for the reader of the cache.
  struct Origin {
    std::string kind, name, where;
    std::string reason = "";  // why it was recorded; empty: to be found by comparing entries
  };

  // Finds the entry of `key` on `device`, or compiles `program()` for it. `before_wait` lets go of what
  // others need while this thread waits for their compile; `program` may still be called after it.
  absl::StatusOr<SpecializationPtr> get(
      Device& device, std::vector<uint64_t> key,
      const std::function<absl::StatusOr<hlo::ComputationPtr>()>& program,
      const std::function<Origin()>& origin, const std::function<void()>& before_wait = [] {});
  // Runs an entry, counts it and measures its time, of brief runs now and then. With `giving_up`, as
  // Executable::run_giving_up.
  absl::Status run(const SpecializationPtr& entry, std::span<BufferRef> arguments, bool giving_up,
                   std::vector<BufferRef>& results, const CancelFlag* cancel);

  // For who keeps entries at hand: another number once any has been taken out, and a hit elsewhere.
  int64_t generation() const { return generation_.load(std::memory_order_relaxed); }
  void count_hit() { other_hits_.fetch_add(1, std::memory_order_relaxed); }

  CacheStats stats() const;
  std::vector<EntryInfo> entries() const;
  // Null if there is no such entry (any more).
  SpecializationPtr find(int64_t id) const;
  void clear();
  // For tests, in place of kMaxEntries and kMaxBytes.
  void set_limits(size_t entries, int64_t bytes);

 private:
  using Order = std::list<SpecializationPtr>;  // most recently used first

  // A compile under way. Those of the parent's other threads never end in a forked child.
  struct Compile {
    const std::thread::id thread = std::this_thread::get_id();
    const pid_t process = getpid();
    std::atomic<int> ended{0};
  };
  class Turn;  // holds the place in compiles_

  absl::StatusOr<SpecializationPtr> compile(
      Device& device, std::vector<uint64_t> key, uint64_t hash,
      const std::function<absl::StatusOr<hlo::ComputationPtr>()>& program,
      const std::function<Origin()>& origin);

  std::string explain_miss(const Specialization& entry, int64_t* nearest) const;  // mutex_ held
  // Programs that nobody finds any more. They end without mutex_: they hold values, whose end takes the graph
  // lock, under which others ask this cache. Much memory goes back to the system.
  struct LetGo {
    explicit LetGo(SpecializationCache& cache) : from(cache) {}
    ~LetGo();
    LetGo(const LetGo&) = delete;
    LetGo& operator=(const LetGo&) = delete;
    SpecializationCache& from;
    Order programs;
    int64_t bytes = 0;
  };
  // Takes out what is too much, least recently used first.
  void evict(LetGo& evicted);  // mutex_ held

  mutable hlo::Mutex mutex_{hlo::LockRank::kSpecializations};
  size_t max_entries_ = kMaxEntries;
  int64_t max_bytes_ = kMaxBytes;
  Order order_;
  HashMap<uint64_t, std::vector<Order::iterator>> by_hash_;
  HashMap<std::string, std::vector<SpecializationPtr>> by_place_;  // oldest first
  HashMap<uint64_t, std::shared_ptr<Compile>> compiles_;           // by hash
  CacheStats stats_;
  int64_t next_id_ = 1;
  std::atomic<int64_t> generation_{0}, other_hits_{0};
  std::atomic<int64_t> untrimmed_{0};  // bytes let go of since the system got some back
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_SPECIALIZATION_CACHE_H_
