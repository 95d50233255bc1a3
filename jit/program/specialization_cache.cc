#include "jit/program/specialization_cache.h"

#include <atomic>
#include <chrono>

#ifdef __linux__
#include <malloc.h>
#endif

#include "absl/hash/hash.h"
#include "hlo/graph.h"
#include "hlo/printer.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"

namespace lamina::jit {
namespace {

// Entries of one place, the newest ones, that a miss is compared with.
constexpr size_t kCompared = 64;
// Of brief runs, one in so many is measured.
constexpr int64_t kMeasuredRuns = 64;
constexpr double kBriefMs = 0.05;

// What was recorded where: entries that explain each other's misses.
std::string place_of(const Specialization& entry) {
  return str_cat(entry.info.kind, "\n", entry.info.name, "\n", entry.info.where);
}

// Of a program, its plan, its kernels and what transforms remember of it. Measured of programs with loops,
// branches and their derivatives, whose kernels take most of it.
constexpr int64_t kBytesOfNode = 1280;

// How much is let go of before the allocator is asked to give back what it has free.
constexpr int64_t kTrimmedBytes = int64_t{256} << 20;

int64_t bytes_of(const hlo::Computation& program) {
  size_t nodes = program.nodes().size();
  for (const hlo::Computation* region : hlo::regions_of(program)) nodes += region->nodes().size();
  return static_cast<int64_t>(nodes) * kBytesOfNode;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

class SpecializationCache::Turn {
 public:
  Turn(SpecializationCache& cache, uint64_t hash, std::shared_ptr<Compile> mine)
      : cache_(cache), hash_(hash), mine_(std::move(mine)) {}
  ~Turn() {
    {
      std::lock_guard lock(cache_.mutex_);
      const auto it = cache_.compiles_.find(hash_);
      if (it != cache_.compiles_.end() && it->second == mine_) cache_.compiles_.erase(it);
    }
    mine_->ended.store(1);
    mine_->ended.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  SpecializationCache& cache_;
  const uint64_t hash_;
  const std::shared_ptr<Compile> mine_;
};

absl::StatusOr<SpecializationPtr> SpecializationCache::get(
    Device& device, std::vector<uint64_t> key,
    const std::function<absl::StatusOr<hlo::ComputationPtr>()>& program,
    const std::function<Origin()>& origin, const std::function<void()>& before_wait) {
  key.push_back(device.place());
  const uint64_t hash = absl::HashOf(key);
  for (std::shared_ptr<Compile> mine;;) {
    std::shared_ptr<Compile> other;
    {
      std::lock_guard lock(mutex_);
      if (auto it = by_hash_.find(hash); it != by_hash_.end())
        for (Order::iterator entry : it->second)
          if ((*entry)->key == key) {
            ++stats_.hits;
            order_.splice(order_.begin(), order_, entry);
            return *entry;
          }
      if (const auto it = compiles_.find(hash); it != compiles_.end()) other = it->second;
      if (!other || other->process != getpid()) {
        other = nullptr;
        mine = std::make_shared<Compile>();
        compiles_[hash] = mine;
        ++stats_.misses;
      }
    }
    if (mine) {
      const Turn turn(*this, hash, std::move(mine));
      return compile(device, std::move(key), hash, program, origin);
    }
    if (other->thread != std::this_thread::get_id()) {
      before_wait();
      if (!hlo::GraphLock::is_held()) {
        other->ended.wait(0);
        continue;
      }
    }
    std::unique_lock lock(mutex_);
    ++stats_.misses;
    lock.unlock();
    return compile(device, std::move(key), hash, program, origin);
  }
}

// Outside the lock. Where two threads compile the same program nevertheless, the first to finish is kept.
absl::StatusOr<SpecializationPtr> SpecializationCache::compile(
    Device& device, std::vector<uint64_t> key, uint64_t hash,
    const std::function<absl::StatusOr<hlo::ComputationPtr>()>& program,
    const std::function<Origin()>& origin) {
  const auto start = std::chrono::steady_clock::now();
  const ProfiledSpan span(Doing::kPlan);
  absl::StatusOr<hlo::ComputationPtr> computation = program();
  if (!computation.ok()) return computation.status();
  absl::StatusOr<std::shared_ptr<const Executable>> executable = Executable::compile(device, *computation);
  if (!executable.ok()) return executable.status();
  auto entry = std::make_shared<Specialization>();
  const Origin from = origin();
  entry->info.kind = from.kind;
  entry->info.name = from.name;
  entry->info.where = from.where;
  entry->info.device = device.name();
  entry->info.nodes = static_cast<int64_t>((*computation)->nodes().size());
  entry->info.steps = static_cast<int64_t>((*executable)->steps().size());
  entry->info.bytes = bytes_of(**computation);
  entry->info.peak_bytes = (*executable)->peak_bytes();
  entry->key = std::move(key);
  entry->recorded = *computation;
  entry->argument_types = (*computation)->parameter_types();
  for (const hlo::Type* t : entry->argument_types) entry->info.arguments.push_back(hlo::to_string(*t));
  entry->executable = *std::move(executable);
  entry->info.compile_ms = milliseconds_since(start);

  LetGo evicted(*this);  // after the lock
  std::lock_guard lock(mutex_);
  std::vector<Order::iterator>& bucket = by_hash_[hash];
  for (Order::iterator other : bucket)
    if ((*other)->key == entry->key) return *other;
  entry->info.id = next_id_++;
  entry->info.reason = from.reason.empty() ? explain_miss(*entry, &entry->info.nearest) : from.reason;
  Order made{entry};
  bucket.reserve(bucket.size() + 1);
  by_place_[place_of(*entry)].push_back(entry);  // the last that can fail
  order_.splice(order_.begin(), made);
  bucket.push_back(order_.begin());
  stats_.compile_ms += entry->info.compile_ms;
  stats_.bytes += entry->info.bytes;
  evict(evicted);
  return entry;
}

void trim_heap() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

SpecializationCache::LetGo::~LetGo() {
  programs.clear();
  if (from.untrimmed_.fetch_add(bytes) + bytes < kTrimmedBytes) return;
  from.untrimmed_ = 0;
  trim_heap();
}

void SpecializationCache::evict(LetGo& evicted) {
  while (order_.size() > max_entries_ || (stats_.bytes > max_bytes_ && order_.size() > 1)) {
    const Order::iterator oldest = std::prev(order_.end());
    const uint64_t hash = absl::HashOf((*oldest)->key);
    std::erase(by_hash_[hash], oldest);
    if (by_hash_[hash].empty()) by_hash_.erase(hash);
    const auto place = by_place_.find(place_of(**oldest));
    std::erase(place->second, *oldest);
    if (place->second.empty()) by_place_.erase(place);
    stats_.bytes -= (*oldest)->info.bytes;
    evicted.bytes += (*oldest)->info.bytes;
    evicted.programs.splice(evicted.programs.begin(), order_, oldest);
    ++stats_.evictions;
    generation_.fetch_add(1, std::memory_order_relaxed);
  }
}

void SpecializationCache::set_limits(size_t entries, int64_t bytes) {
  LetGo evicted(*this);
  std::lock_guard lock(mutex_);
  max_entries_ = entries;
  max_bytes_ = bytes;
  evict(evicted);
}

std::string SpecializationCache::explain_miss(const Specialization& entry, int64_t* nearest) const {
  const Specialization* best = nullptr;
  size_t best_same = 0;
  const auto place = by_place_.find(place_of(entry));
  const std::span<const SpecializationPtr> known =
      place == by_place_.end() ? std::span<const SpecializationPtr>() : place->second;
  for (const SpecializationPtr& other : known.last(std::min(known.size(), kCompared))) {
    size_t same = 0;
    for (size_t i = 0; i < std::min(entry.argument_types.size(), other->argument_types.size()); ++i)
      same += entry.argument_types[i] == other->argument_types[i];
    if (!best || same >= best_same) {  // of equals the newest
      best = other.get();
      best_same = same;
    }
  }
  if (!best) return "first call";
  *nearest = best->info.id;
  if (entry.info.device != best->info.device)
    return str_cat("runs on ", entry.info.device, ", entry ", best->info.id, " on ", best->info.device);
  if (entry.argument_types.size() != best->argument_types.size())
    return str_cat("takes ", entry.argument_types.size(), " arrays, entry ", best->info.id, " takes ",
                   best->argument_types.size());
  for (size_t i = 0; i < entry.argument_types.size(); ++i)
    if (entry.argument_types[i] != best->argument_types[i])
      return str_cat("array ", i, ": ", hlo::to_string(*best->argument_types[i]), " -> ",
                     hlo::to_string(*entry.argument_types[i]));
  return str_cat("the recorded operations differ from entry ", best->info.id);
}

absl::Status SpecializationCache::run(const SpecializationPtr& entry, std::span<BufferRef> arguments,
                                      bool giving_up, std::vector<BufferRef>& results,
                                      const CancelFlag* cancel) {
  const Executable& executable = *entry->executable;
  const auto run = [&] {
    return giving_up ? executable.run_giving_up(arguments, results, cancel)
                     : executable.run(arguments, results, cancel);
  };
  const int64_t before = entry->runs.fetch_add(1, std::memory_order_relaxed);
  double ms = entry->last_run_ms.load(std::memory_order_relaxed);
  // Reading the clock costs as much as a step: runs that are known to be brief are taken for the last one.
  if (executable.is_brief() && before % kMeasuredRuns != 0 && ms >= 0 && ms < kBriefMs) {
    entry->run_ms.fetch_add(ms, std::memory_order_relaxed);
    return run();
  }
  const auto start = std::chrono::steady_clock::now();
  absl::Status status = run();
  ms = milliseconds_since(start);
  entry->last_run_ms.store(ms, std::memory_order_relaxed);
  entry->run_ms.fetch_add(ms, std::memory_order_relaxed);
  return status;
}

CacheStats SpecializationCache::stats() const {
  std::lock_guard lock(mutex_);
  CacheStats s = stats_;
  s.hits += other_hits_.load(std::memory_order_relaxed);
  s.entries = static_cast<int64_t>(order_.size());
  return s;
}

std::vector<EntryInfo> SpecializationCache::entries() const {
  std::lock_guard lock(mutex_);
  std::vector<EntryInfo> out;
  for (const SpecializationPtr& e : order_) {
    out.push_back(e->info);
    out.back().runs = e->runs.load(std::memory_order_relaxed);
    out.back().run_ms = e->run_ms.load(std::memory_order_relaxed);
  }
  return out;
}

SpecializationPtr SpecializationCache::find(int64_t id) const {
  std::lock_guard lock(mutex_);
  for (const SpecializationPtr& e : order_)
    if (e->info.id == id) return e;
  return nullptr;
}

void SpecializationCache::clear() {
  LetGo dropped(*this);  // after the lock
  std::lock_guard lock(mutex_);
  by_hash_.clear();
  by_place_.clear();
  order_.swap(dropped.programs);
  stats_ = {};
  other_hits_.store(0, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace lamina::jit
