// What the fake device is made of: memory of its own, queues whose order is only as strict as was asked for,
// and a record of who touches what.
//
// Contract: nothing that is enqueued runs before somebody waits or asks whether it has run; then the heads of
// queues run in an order drawn from a seed. Each command names the bytes that it touches. Found at once and
// reported as a failure and in `violations`, whatever order came up:
//   - two commands over common bytes, one of them writing, that nothing orders (vector clocks over the queues
//   and
//     the host);
//   - bytes of no block, or of one that was let go of; addresses are never used again;
//   - when a command runs, bytes read that no command has written;
//   - queues that wait for each other.
// Addresses have bit 55 set, which no pointer of a process has, so that the host cannot follow one.
//
// A violation fails the run of its command, and where that is in none, all waits until somebody takes the
// violations. fork() waits for the commands that run, so that a child finds all of them done or still to do.
#ifndef LAMINA_JIT_FAKE_QUEUES_H_
#define LAMINA_JIT_FAKE_QUEUES_H_

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "hlo/mutex.h"
#include "jit/client/client.h"

namespace lamina::jit {

// Since they were last asked for.
struct FakeCounts {
  int64_t launches = 0;   // steps
  int64_t transfers = 0;  // between the host and devices, or two places of them
  int64_t bytes = 0;      // of these
  int64_t host_waits = 0;
  int64_t allocations = 0;
};

// The n-th from now on fails, counted from 0, and of allocations all that follow; negative: none does.
struct FakeFaults {
  int64_t allocation = -1, transfer = -1, launch = -1;
};

// Mistakes of a runtime, for tests that they are found.
enum class FakeMistake : uint8_t {
  kNone,
  kForgetsAfter,    // streams do not wait for others
  kPublishesEarly,  // the end of a run is the point at which it began
  kHidesFailures,   // a step that failed counts as done
  kSkipsSteps,      // every seventh step does nothing
};

class FakeQueues {
 public:
  FakeQueues() = default;
  enum class Access : uint8_t { kRead, kWrite, kScratch };
  struct Touch {
    Address at;
    int64_t bytes;
    Access access;
  };
  enum class Kind : uint8_t { kLaunch, kTransfer, kOrder };
  struct Command {
    Kind kind;
    std::string what;
    std::vector<Touch> touches;
    std::function<absl::Status()> work;
    bool is_awaited = false;  // by the host, once
  };

  static constexpr uint64_t kAddressBit = uint64_t{1} << 55;
  static bool is_ours(Address at) { return (at.bits() & kAddressBit) != 0; }
  // Whether this thread writes down what it was told. No other runtime does, and what is put aside for that
  // is not for allocations that fail for a test: these are let be.
  static bool writes_down() { return writes_down_; }

  int add_queue(std::string name);

  // The value at which it has ended.
  uint64_t enqueue(int queue, Command command);
  void begin_run(int queue);
  uint64_t end_run(int queue);
  uint64_t mark(int queue);
  void after(int queue, int other, uint64_t value);
  absl::Status takes(int queue, int other, uint64_t value);
  bool reached(int queue, uint64_t value);
  absl::Status wait(int queue, uint64_t value, StepWatcher* watcher);
  void keep(int queue, std::shared_ptr<const void> what);

  // In the order of the queue. None where a fault or the machine says so.
  Address allocate(int queue, int64_t bytes);
  void free(int queue, Address block);
  // Where a command that runs finds the bytes.
  std::byte* bytes_at(Address at);

  // The order in which things run from now on.
  void set_seed(uint64_t seed);
  void set_faults(FakeFaults faults);
  void set_mistake(FakeMistake mistake);
  // All that is enqueued on this queue, and from now on, fails.
  void lose(int queue, std::string why);
  FakeCounts take_counts();
  std::vector<std::string> take_violations();
  int64_t live_blocks();
  // Runs everything; then nothing is waiting, and nothing is kept.
  void drain();

 private:
  using Clock = std::vector<uint64_t>;  // by queue: what is known to have ended
  class Lock {
   public:
    explicit Lock(hlo::Mutex& mutex) : mutex_(mutex) { lock(); }
    ~Lock() {
      if (held_) unlock();
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void lock() {
      mutex_.lock();
      held_ = writes_down_ = true;
    }
    void unlock() {
      held_ = writes_down_ = false;
      mutex_.unlock();
    }

   private:
    hlo::Mutex& mutex_;
    bool held_ = false;
  };
  struct Entry {
    Command command;
    uint64_t value, run;
    std::vector<std::pair<int, uint64_t>> waits;
    bool is_violation;
  };
  struct Mark {
    Clock clock;
    uint64_t run;
    bool once = false;  // nobody asks for it after the first wait
  };
  struct Queue {
    std::string name;
    std::deque<Entry> waiting;
    std::vector<std::pair<int, uint64_t>> waits;  // of the next command
    uint64_t enqueued = 0, ended = 0;
    bool busy = false;
    Clock clock;  // of the last command
    std::map<uint64_t, Mark> marks;
    std::deque<std::pair<uint64_t, std::shared_ptr<const void>>> kept;
    absl::Status lost;
  };
  struct Seen {
    int64_t begin, end;
    int queue;
    uint64_t value;
    bool written;
    std::string what;
  };
  // Between commands when the process forks.
  class Forks final : public hlo::ForkGuarded {
   public:
    explicit Forks(FakeQueues& queues) : ForkGuarded(hlo::LockRank::kCommands), queues_(queues) {}
    void before_fork() override;
    void after_fork(bool in_child) override;

   private:
    FakeQueues& queues_;
  };
  struct Unmap {
    void operator()(void* p) const;
  };
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Block {
    int64_t bytes;
    bool let_go = false;
    std::unique_ptr<std::byte, Free> memory;
    std::vector<bool> written;
    std::vector<Seen> seen;
  };
  struct RunState {
    absl::Status failure;
    std::vector<std::pair<int, uint64_t>> needs;
  };

  // What nobody can do without, as the end of a block or a run, also where memory has run out: then there is
  // some that was put aside. `work` may begin twice.
  template <class Work>
  auto certainly(Work work);
  void put_memory_aside();
  uint64_t enqueue_locked(int queue, Command command);
  uint64_t run_here(int queue) const;
  absl::Status outcome_locked(int queue, uint64_t value);
  Block* block_of(Address at, int64_t bytes, int64_t* offset);
  bool check(const Touch& touch, int queue, uint64_t value, const Clock& clock, const std::string& what);
  bool check_contents(const Command& command, const std::string& queue);
  // Runs the head of some queue, with the lock let go; false where none can run.
  bool run_one(Lock& lock);
  bool any_busy() const;
  // Until one ended since `seen`, or a fork did.
  void wait_for_progress(Lock& lock, uint64_t seen);
  void note_progress();
  absl::Status execute(Lock& lock, Queue& queue, Entry& entry);
  // What has ended; whether that was anything.
  bool release_kept(Lock& lock);
  void seen_by_host(int queue, uint64_t value);
  bool strikes(int64_t& fault);
  void join(Clock& clock, const Clock& other);
  void violation(std::string text);

  static thread_local constinit bool writes_down_;

  hlo::Mutex mutex_{hlo::LockRank::kQueues};
  std::deque<Queue> queues_;
  Clock host_;
  std::unique_ptr<void, Unmap> aside_;  // room in the address space
  std::map<uint64_t, Block> blocks_;
  std::map<uint64_t, RunState> runs_;  // that go on, or failed
  uint64_t next_run_ = 1, next_address_ = kAddressBit;
  std::mt19937_64 random_{1};
  FakeFaults faults_;
  FakeMistake mistake_ = FakeMistake::kNone;
  FakeCounts counts_;
  int64_t steps_ = 0;
  std::vector<std::string> violations_;
  absl::Status of_no_run_;  // the first violation by a command that is in no run, for whoever waits next
  bool forking_ = false;    // nothing begins
  std::atomic<uint64_t> progress_{0};
  Forks forks_{*this};
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_FAKE_QUEUES_H_
