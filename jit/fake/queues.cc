#include "jit/fake/queues.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "hlo/strings.h"

namespace lamina::jit {
namespace {

// Between blocks, so that what passes the end of one is in no other.
constexpr uint64_t kGap = 4096;
// NaN in every float type.
constexpr uint16_t kPoison = 0xfff4;
// Commands that may wait on a queue before others run to make room.
constexpr size_t kMostWaiting = 512;
// Enough for the ends of some thousand blocks and runs.
constexpr size_t kAsideBytes = 1 << 20;
// One in so many steps does nothing where the runtime skips steps.
constexpr int64_t kSkippedEvery = 7;

// The runs that this thread is in, by queue, the innermost last.
thread_local std::vector<std::pair<int, uint64_t>> runs_of_thread;

void poison(std::byte* to, int64_t bytes) {
  for (int64_t i = 0; i + 1 < bytes; i += 2) std::memcpy(to + i, &kPoison, sizeof kPoison);
}

// In words, where there is memory for these.
absl::Status no_memory_for(const std::string& what) {
  try {
    return absl::ResourceExhaustedError(str_cat("no memory was left for ", what));
  } catch (const std::bad_alloc&) {
    return absl::Status(absl::StatusCode::kResourceExhausted, "");
  }
}

}  // namespace

thread_local constinit bool FakeQueues::writes_down_ = false;

void FakeQueues::Unmap::operator()(void* p) const { munmap(p, kAsideBytes); }

void FakeQueues::put_memory_aside() {
  if (aside_) return;
  void* const room = mmap(nullptr, kAsideBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) aside_.reset(room);
}

template <class Work>
auto FakeQueues::certainly(Work work) {
  Lock lock(mutex_);
  put_memory_aside();
  try {
    return work();
  } catch (const std::bad_alloc&) {
    aside_.reset();
    return work();
  }
}

int FakeQueues::add_queue(std::string name) {
  Lock lock(mutex_);
  queues_.emplace_back();
  queues_.back().name = std::move(name);
  for (Queue& q : queues_) q.clock.resize(queues_.size(), 0);
  host_.resize(queues_.size(), 0);
  return static_cast<int>(queues_.size()) - 1;
}

void FakeQueues::join(Clock& clock, const Clock& other) {
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

void FakeQueues::violation(std::string text) { violations_.push_back(std::move(text)); }

bool FakeQueues::strikes(int64_t& fault) { return fault >= 0 && fault-- == 0; }

uint64_t FakeQueues::run_here(int queue) const {
  for (auto it = runs_of_thread.rbegin(); it != runs_of_thread.rend(); ++it)
    if (it->first == queue) return it->second;
  return 0;
}

FakeQueues::Block* FakeQueues::block_of(Address at, int64_t bytes, int64_t* offset) {
  auto it = blocks_.upper_bound(at.bits());
  if (it == blocks_.begin()) return nullptr;
  --it;
  *offset = static_cast<int64_t>(at.bits() - it->first);
  return *offset + bytes <= it->second.bytes ? &it->second : nullptr;
}

// Whether it may be enqueued; remembers it.
bool FakeQueues::check(const Touch& touch, int queue, uint64_t value, const Clock& clock,
                       const std::string& what) {
  if (touch.bytes == 0 || !is_ours(touch.at)) return true;
  int64_t begin = 0;
  Block* const block = block_of(touch.at, touch.bytes, &begin);
  if (!block || block->let_go) {
    violation(str_cat(what, " on ", queues_[queue].name, " touches ", touch.bytes, " bytes ",
                      block ? "of a block that was let go of" : "that are in no block"));
    return false;
  }
  const int64_t end = begin + touch.bytes;
  const bool writes = touch.access != Access::kRead;
  bool good = true;
  std::erase_if(block->seen, [&](const Seen& s) {
    if (s.end <= begin || end <= s.begin) return false;
    const bool ordered = s.value <= clock[s.queue];
    if (!ordered && (writes || s.written) && good) {
      violation(str_cat("nothing orders ", what, " on ", queues_[queue].name, " after ", s.what, " on ",
                        queues_[s.queue].name, ", which ", s.written ? "writes" : "reads", " bytes that it ",
                        writes ? "writes" : "reads"));
      good = false;
    }
    // What comes after this write, or this read of the same queue, comes after that too.
    return ordered && begin <= s.begin && s.end <= end && (writes || (!s.written && s.queue == queue));
  });
  block->seen.push_back({begin, end, queue, value, writes, what});
  return good;
}

uint64_t FakeQueues::enqueue_locked(int number, Command command) {
  Queue& queue = queues_[number];
  const uint64_t value = ++queue.enqueued;
  join(queue.clock, host_);
  for (const auto& [other, at] : queue.waits) {
    const auto mark = queues_[other].marks.find(at);
    if (mark != queues_[other].marks.end()) join(queue.clock, mark->second.clock);
    queue.clock[other] = std::max(queue.clock[other], at);
  }
  queue.clock[number] = value;
  bool good = true;
  for (const Touch& t : command.touches) good = check(t, number, value, queue.clock, command.what) && good;
  if (command.kind == Kind::kLaunch) ++counts_.launches;
  if (command.kind == Kind::kTransfer) {
    ++counts_.transfers;
    counts_.bytes += command.touches.empty() ? 0 : command.touches[0].bytes;
  }
  if (command.is_awaited) queue.marks[value] = {queue.clock, run_here(number), true};
  Entry& entry = queue.waiting.emplace_back();  // the last that takes memory
  entry = {std::move(command), value, run_here(number), std::exchange(queue.waits, {}), !good};
  return value;
}

uint64_t FakeQueues::enqueue(int queue, Command command) {
  Lock lock(mutex_);
  while (queues_[queue].waiting.size() >= kMostWaiting && run_one(lock)) {
  }
  return enqueue_locked(queue, std::move(command));
}

void FakeQueues::begin_run(int queue) {
  Lock lock(mutex_);
  put_memory_aside();
  runs_.try_emplace(next_run_);
  runs_of_thread.emplace_back(queue, next_run_++);
  if (mistake_ == FakeMistake::kPublishesEarly)
    queues_[queue].marks[queues_[queue].enqueued] = {queues_[queue].clock, 0};
}

uint64_t FakeQueues::end_run(int queue) {
  return certainly([&] {
    const uint64_t run = run_here(queue);
    uint64_t first = queues_[queue].enqueued;
    for (const Entry& e : queues_[queue].waiting)
      if (e.run == run) first = std::min(first, e.value - 1);
    const uint64_t value = enqueue_locked(queue, {Kind::kOrder, "the end of a run", {}, {}});
    queues_[queue].marks[value] = {queues_[queue].clock, run};
    const auto mine = std::find(runs_of_thread.rbegin(), runs_of_thread.rend(), std::pair(queue, run));
    runs_of_thread.erase(std::next(mine).base());
    return mistake_ == FakeMistake::kPublishesEarly ? first : value;
  });
}

uint64_t FakeQueues::mark(int queue) {
  return certainly([&] {
    Queue& q = queues_[queue];
    q.marks.try_emplace(q.enqueued, Mark{q.clock, 0});
    return q.enqueued;
  });
}

void FakeQueues::after(int queue, int other, uint64_t value) {
  if (queue == other) return;
  certainly([&] {
    if (mistake_ != FakeMistake::kForgetsAfter) queues_[queue].waits.emplace_back(other, value);
  });
}

absl::Status FakeQueues::outcome_locked(int queue, uint64_t value) {
  const auto mark = queues_[queue].marks.find(value);
  if (mark == queues_[queue].marks.end()) return absl::OkStatus();
  const auto it = runs_.find(mark->second.run);
  return it == runs_.end() ? absl::OkStatus() : it->second.failure;
}

absl::Status FakeQueues::takes(int queue, int other, uint64_t value) {
  after(queue, other, value);
  Lock lock(mutex_);
  if (queues_[other].ended >= value) return outcome_locked(other, value);
  if (const auto run = runs_.find(run_here(queue)); run != runs_.end())
    run->second.needs.emplace_back(other, value);
  return absl::OkStatus();
}

void FakeQueues::seen_by_host(int queue, uint64_t value) {
  Queue& q = queues_[queue];
  if (const auto mark = q.marks.find(value); mark != q.marks.end()) join(host_, mark->second.clock);
  host_[queue] = std::max(host_[queue], value);
  // What the host knows to have ended, of any queue, orders nothing any more; failures are kept.
  for (size_t i = 0; i < queues_.size(); ++i)
    std::erase_if(queues_[i].marks, [&](const auto& m) {
      return m.first < host_[i] && (m.second.run == 0 || !runs_.contains(m.second.run));
    });
}

bool FakeQueues::reached(int queue, uint64_t value) {
  Lock lock(mutex_);
  for (uint64_t n = random_() % 3; n > 0; --n) run_one(lock);
  // That it is there may be learned late, but not forgotten.
  if (queues_[queue].ended < value || (host_[queue] < value && random_() % 4 == 0)) return false;
  seen_by_host(queue, value);
  release_kept(lock);
  return true;
}

absl::Status FakeQueues::wait(int queue, uint64_t value, StepWatcher* watcher) {
  Lock lock(mutex_);
  ++counts_.host_waits;
  Queue& q = queues_[queue];
  while (q.ended < value) {
    if (watcher) {
      lock.unlock();
      const bool stop = watcher->between_steps();
      lock.lock();
      if (stop) return absl::CancelledError("the wait was cancelled");
    }
    const uint64_t seen = progress_.load();
    if (q.ended >= value || run_one(lock)) continue;
    if (!any_busy() && !forking_) {
      violation(str_cat("queues wait for each other, ", q.name, " among them"));
      return absl::InternalError(violations_.back());
    }
    wait_for_progress(lock, seen);
  }
  absl::Status status = outcome_locked(queue, value);
  if (status.ok()) status = of_no_run_;
  seen_by_host(queue, value);
  if (const auto mark = q.marks.find(value); mark != q.marks.end() && mark->second.once) q.marks.erase(mark);
  release_kept(lock);
  return status;
}

void FakeQueues::keep(int queue, std::shared_ptr<const void> what) {
  certainly([&] { queues_[queue].kept.emplace_back(queues_[queue].enqueued, what); });
}

bool FakeQueues::release_kept(Lock& lock) {
  std::vector<std::shared_ptr<const void>> free;
  for (Queue& queue : queues_)
    while (!queue.kept.empty() && queue.kept.front().first <= queue.ended) {
      free.push_back(std::move(queue.kept.front().second));
      queue.kept.pop_front();
    }
  const bool any = !free.empty();
  lock.unlock();  // their ends may take any lock
  free.clear();
  lock.lock();
  return any;
}

bool FakeQueues::any_busy() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const Queue& q) { return q.busy; });
}

void FakeQueues::wait_for_progress(Lock& lock, uint64_t seen) {
  lock.unlock();
  progress_.wait(seen);
  lock.lock();
}

void FakeQueues::note_progress() {
  progress_.fetch_add(1);
  progress_.notify_all();
}

void FakeQueues::Forks::before_fork() {
  Lock lock(queues_.mutex_);
  queues_.forking_ = true;
  while (queues_.any_busy()) queues_.wait_for_progress(lock, queues_.progress_.load());
}

void FakeQueues::Forks::after_fork(bool) {
  const Lock lock(queues_.mutex_);
  queues_.forking_ = false;
  queues_.note_progress();
}

bool FakeQueues::run_one(Lock& lock) {
  if (forking_) return false;
  std::vector<Queue*> ready;
  for (Queue& q : queues_)
    if (!q.busy && !q.waiting.empty() &&
        std::all_of(q.waiting.front().waits.begin(), q.waiting.front().waits.end(),
                    [&](const auto& w) { return queues_[w.first].ended >= w.second; }))
      ready.push_back(&q);
  if (ready.empty()) return false;
  Queue& queue = *ready[random_() % ready.size()];
  queue.busy = true;
  Entry entry = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  const absl::Status status = execute(lock, queue, entry);
  if (!status.ok() && mistake_ != FakeMistake::kHidesFailures) {
    const auto run = runs_.find(entry.run);
    absl::Status& failure = run != runs_.end() ? run->second.failure : of_no_run_;
    if (failure.ok() && (run != runs_.end() || entry.is_violation)) failure = status;
  }
  // A run that went well is forgotten.
  if (const auto run = runs_.find(entry.run);
      run != runs_.end() && entry.command.kind == Kind::kOrder && run->second.failure.ok()) {
    const auto mark = queue.marks.find(entry.value);
    if (mark != queue.marks.end() && mark->second.run == entry.run) runs_.erase(run);
  }
  queue.ended = entry.value;
  queue.busy = false;
  note_progress();
  return true;
}

bool FakeQueues::check_contents(const Command& command, const std::string& queue) {
  for (const Touch& t : command.touches) {
    int64_t offset = 0;
    const Block* block = is_ours(t.at) && t.bytes > 0 ? block_of(t.at, t.bytes, &offset) : nullptr;
    if (t.access != Access::kRead || !block) continue;
    for (int64_t i = offset; i < offset + t.bytes; ++i)
      if (!block->written[static_cast<size_t>(i)]) {
        violation(str_cat(command.what, " on ", queue, " reads byte ", i - offset, " of ", t.bytes,
                          ", which nothing has written"));
        return false;
      }
  }
  return true;
}

absl::Status FakeQueues::execute(Lock& lock, Queue& queue, Entry& entry) {
  Command& command = entry.command;
  absl::Status status = queue.lost;
  const auto run = runs_.find(entry.run);
  if (status.ok() && run != runs_.end()) {
    for (const auto& [other, value] : run->second.needs)
      if (absl::Status s = outcome_locked(other, value); status.ok() && !s.ok()) status = s;
    if (status.ok()) status = run->second.failure;
  }
  if (status.ok() && command.kind == Kind::kLaunch && strikes(faults_.launch))
    status = absl::InternalError(str_cat("the device refused: ", command.what));
  if (status.ok() && command.kind == Kind::kTransfer && strikes(faults_.transfer))
    status = absl::InternalError(str_cat("the transfer failed: ", command.what));
  if (status.ok() && (entry.is_violation || !check_contents(command, queue.name)))
    status = absl::InternalError(violations_.empty() ? command.what : violations_.back());
  const bool skipped =
      command.kind == Kind::kLaunch && mistake_ == FakeMistake::kSkipsSteps && ++steps_ % kSkippedEvery == 0;
  // A block that others still use stays, so that they find it.
  const bool does = command.kind == Kind::kOrder ? !entry.is_violation : status.ok() && !skipped;
  if (does && command.work) {
    lock.unlock();
    absl::Status done;
    try {
      done = command.work();
    } catch (const std::bad_alloc&) {
      done = no_memory_for(command.what);
    }
    command.work = nullptr;
    lock.lock();
    if (status.ok()) status = done;
  }
  // Of a run that failed nothing is read, so what it leaves counts as written.
  const bool leaves = (does && status.ok()) || mistake_ != FakeMistake::kHidesFailures;
  for (const Touch& t : command.touches) {
    int64_t offset = 0;
    Block* block = is_ours(t.at) && t.bytes > 0 ? block_of(t.at, t.bytes, &offset) : nullptr;
    if (t.access == Access::kRead || !block || skipped) continue;
    const bool written = t.access == Access::kWrite && leaves;
    std::fill_n(block->written.begin() + offset, t.bytes, written);
    if (t.access == Access::kScratch) poison(block->memory.get() + offset, t.bytes);
  }
  return status;
}

Address FakeQueues::allocate(int queue, int64_t bytes) {
  Lock lock(mutex_);
  put_memory_aside();
  ++counts_.allocations;
  // From then on: who was refused asks again.
  if (faults_.allocation == 0 || strikes(faults_.allocation) || !queues_[queue].lost.ok()) return Address();
  Block block;
  block.bytes = bytes;
  block.memory.reset(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>(bytes))));
  if (!block.memory) return Address();
  block.written.resize(static_cast<size_t>(bytes), false);
  const Address at(next_address_);
  next_address_ += (static_cast<uint64_t>(bytes) + kGap - 1) / kGap * kGap + kGap;
  blocks_.emplace(at.bits(), std::move(block));
  enqueue_locked(queue, {Kind::kOrder, "an allocation", {{at, bytes, Access::kScratch}}, {}});
  return at;
}

void FakeQueues::free(int queue, Address at) {
  const auto gone = [this, at]() -> absl::Status {
    Lock inner(mutex_);
    blocks_.erase(at.bits());
    return absl::OkStatus();
  };
  certainly([&] {
    Block& block = blocks_.at(at.bits());
    enqueue_locked(queue, {Kind::kOrder, "the end of a block", {{at, block.bytes, Access::kScratch}}, gone});
    block.let_go = true;
  });
}

std::byte* FakeQueues::bytes_at(Address at) {
  if (!is_ours(at)) return reinterpret_cast<std::byte*>(at.bits());
  Lock lock(mutex_);
  int64_t offset = 0;
  Block* const block = block_of(at, 0, &offset);
  return block ? block->memory.get() + offset : nullptr;
}

void FakeQueues::set_seed(uint64_t seed) {
  Lock lock(mutex_);
  random_.seed(seed);
}

void FakeQueues::set_faults(FakeFaults faults) {
  Lock lock(mutex_);
  faults_ = faults;
}

void FakeQueues::set_mistake(FakeMistake mistake) {
  Lock lock(mutex_);
  mistake_ = mistake;
}

void FakeQueues::lose(int queue, std::string why) {
  Lock lock(mutex_);
  queues_[queue].lost = absl::UnavailableError(std::move(why));
}

FakeCounts FakeQueues::take_counts() {
  Lock lock(mutex_);
  return std::exchange(counts_, {});
}

std::vector<std::string> FakeQueues::take_violations() {
  Lock lock(mutex_);
  of_no_run_ = absl::OkStatus();
  return std::exchange(violations_, {});
}

int64_t FakeQueues::live_blocks() {
  Lock lock(mutex_);
  return static_cast<int64_t>(blocks_.size());
}

void FakeQueues::drain() {
  Lock lock(mutex_);
  // The end of what is kept may enqueue the ends of blocks.
  for (bool more = true; more;) {
    while (run_one(lock)) {
    }
    more = release_kept(lock);
    for (Queue& q : queues_) more = more || (!q.busy && !q.waiting.empty());
  }
}

}  // namespace lamina::jit
