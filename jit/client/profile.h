// Where time goes: what each thread does, told by those who do it.
//
// Contract: off until the first `start`, on until as many `finish`es; while off, telling costs the load of a
// flag. A thread does one thing at a time, the innermost of those that it began and has not ended, and so
// each nanosecond of it belongs to one activity: the sums of a thread are the time that passed, whatever was
// cut short by an exception. Sums count everything; of single spans the first kMaxSpans are kept. Safe from
// any thread, and after a fork in the child, whose profiles go on by themselves.
#ifndef LAMINA_JIT_CLIENT_PROFILE_H_
#define LAMINA_JIT_CLIENT_PROFILE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "hlo/graph.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"

namespace lamina::jit {

enum class Doing : uint8_t {
  kOutside,     // what is not the library's
  kCall,        // a call of the library, but for what follows
  kFree,        // an array is let go of
  kTrace,       // a function is recorded
  kPlan,        // passes, fusion, memory
  kCompile,     // machine code is made or loaded
  kRun,         // of a program, around its steps
  kStep,        // of a program, done before it returns
  kLaunch,      // of a program for a device that does it later
  kDeviceStep,  // the same step, done: by a thread in the place of the device
  kWait,        // for a device
};
inline constexpr int kNumDoings = static_cast<int>(Doing::kWait) + 1;
inline constexpr bool is_step(Doing d) {
  return d == Doing::kStep || d == Doing::kLaunch || d == Doing::kDeviceStep;
}

struct Activity {
  Doing doing = Doing::kOutside;
  // Of a step: a number from `add_lines`, or 0. Else the line of the call that it is a part of; 0: not known.
  uint32_t line = 0;
  uint64_t subject = 0;  // of a step: which one, see step_subject
  bool operator==(const Activity&) const = default;

  template <typename H>
  friend H AbslHashValue(H h, const Activity& a) {
    return H::combine(std::move(h), a.doing, a.line, a.subject);
  }
};

// Turn `turn` (jit/program/step_costs.h) of program number `program`.
inline uint64_t step_subject(uint32_t program, uint32_t turn) { return uint64_t{program} << 32 | turn; }
inline uint32_t program_of(uint64_t subject) { return static_cast<uint32_t>(subject >> 32); }
inline uint32_t turn_of(uint64_t subject) { return static_cast<uint32_t>(subject); }

struct Tally {
  int64_t ns = 0;     // without what was done inside
  int64_t times = 0;  // begun
};

// A program made for one recording may serve another, whose lines are others: for lines of the first, sorted,
// those of the second.
using LineMap = std::vector<std::pair<hlo::LocationId, std::vector<hlo::LocationId>>>;

class Profiler {
 public:
  static constexpr size_t kMaxSpans = 400'000;

  static bool on() { return on_.load(std::memory_order_relaxed); }
  static Profiler& get();

  struct Span {
    Activity activity;
    int64_t begin, end;  // nanoseconds of the steady clock
    uint32_t thread;
  };
  // What has been told so far; the difference of two is what came between.
  struct Snapshot {
    int64_t at = 0;
    uint32_t thread = 0;                                      // that took it
    std::vector<std::pair<Activity, Tally>> here, elsewhere;  // by that thread, by all others
    size_t spans = 0;
    int64_t dropped = 0;  // spans beyond kMaxSpans
  };
  // `locate` gives the user's line where a thread waits, say, in no call; null: nobody knows.
  using Locate = hlo::LocationId (*)();
  Snapshot start(Locate locate);
  Snapshot snapshot();
  // The last one forgets everything that was told.
  void finish();

  std::vector<Span> spans(size_t begin, size_t end) const;
  // Programs by number, from 1, and maps, from 1; kept until the last `finish`. Null, and empty, for others.
  uint32_t number_of(const std::shared_ptr<const void>& program);
  std::shared_ptr<const void> program(uint32_t number) const;
  uint32_t add_lines(LineMap map);
  LineMap lines(uint32_t number) const;

  // The step that this thread launches, for the device that is to do it later; doing kOutside if there is
  // none.
  Activity launched();
  // Whether this thread is in a call of the library.
  bool inside();

  // For frames of an interpreter, which end by themselves: begins an activity under a tag, and ends it with
  // all that was begun inside it; what was begun under none is left.
  void begin_tagged(Activity activity, const void* tag);
  void end_tagged(const void* tag);

 private:
  friend class ProfiledSpan;
  friend class ProfiledLines;
  friend class ProfiledThread;

  struct Open {
    Activity activity;
    size_t tally;  // of the track
    int64_t begin;
    hlo::LocationId caller;
    const void* tag;
  };
  struct Track {
    uint32_t thread;
    uint64_t generation;
    int64_t since;           // when `open.back()` became the innermost
    uint32_t lines = 0;      // of the program that runs
    std::vector<Open> open;  // never empty
    HashMap<Activity, size_t> place;
    std::vector<std::pair<Activity, Tally>> tallies;
  };

  Profiler() = default;
  Track* here();  // mutex_ held
  size_t tally_of(Track& track, const Activity& activity);
  void settle(Track& track, int64_t now);  // mutex_ held
  Snapshot snapshot_locked(Track& mine);
  struct Begun {
    Track* track = nullptr;  // null: nothing was, and nothing follows
    uint64_t generation;
    size_t open;  // of the track, with what was begun
  };
  Begun begin(Activity activity, hlo::LocationId caller, const void* tag);
  void end(const Begun& begun);

  static inline constinit std::atomic<bool> on_{false};
  static thread_local constinit Track* track_;
  static thread_local constinit uint64_t track_generation_;

  std::atomic<Locate> locate_{nullptr};
  mutable hlo::Mutex mutex_{hlo::LockRank::kProfile};  // guards what follows
  int users_ = 0;
  uint64_t generation_ = 1;
  std::deque<Track> tracks_;
  std::vector<Span> spans_;
  int64_t dropped_ = 0;
  HashMap<const void*, uint32_t> program_numbers_;
  std::vector<std::shared_ptr<const void>> programs_;
  HashMap<LineMap, uint32_t> lines_;
};

// An activity of this thread, from here to the end of its scope, if profiling is on.
class ProfiledSpan {
 public:
  // A part of the call that is under way.
  explicit ProfiledSpan(Doing doing) {
    if (Profiler::on()) [[unlikely]]
      begin({doing, 0, 0}, 0);
  }
  // Only where `wanted`.
  ProfiledSpan(bool wanted, const Activity& activity) {
    if (wanted) begin(activity, 0);
  }
  ~ProfiledSpan() {
    if (begun_.track) [[unlikely]]
      end();
  }
  ProfiledSpan(const ProfiledSpan&) = delete;
  ProfiledSpan& operator=(const ProfiledSpan&) = delete;

 protected:
  ProfiledSpan() = default;
  void begin(Activity activity, hlo::LocationId caller);

 private:
  void end();
  Profiler::Begun begun_;
};

// A call of the library from a line, unless this thread is in one already.
class ProfiledCall : public ProfiledSpan {
 public:
  // `locate()` gives the line.
  template <typename F>
  explicit ProfiledCall(F&& locate, Doing doing = Doing::kCall) {
    if (Profiler::on()) [[unlikely]]
      begin_call(std::forward<F>(locate), doing);
  }

 private:
  template <typename F>
  [[gnu::noinline, gnu::cold]] void begin_call(F&& locate, Doing doing) {
    if (Profiler::get().inside()) return;
    const hlo::LocationId line = locate();
    begin({doing, line, 0}, line);
  }
};

// Steps that this thread runs meanwhile have the lines of that map.
class ProfiledLines {
 public:
  explicit ProfiledLines(uint32_t map) {
    if (Profiler::on()) [[unlikely]]
      begin(map);
  }
  ~ProfiledLines() {
    if (track_) [[unlikely]]
      end();
  }
  ProfiledLines(const ProfiledLines&) = delete;
  ProfiledLines& operator=(const ProfiledLines&) = delete;

 private:
  void begin(uint32_t map);
  void end();
  Profiler::Track* track_ = nullptr;
  uint64_t generation_;
  uint32_t before_;
};

// Another thread does this one's work while this one waits: what it does counts as done by this one.
class ProfiledThread {
 public:
  // By the thread that waits, until its end.
  ProfiledThread();
  ~ProfiledThread();
  ProfiledThread(const ProfiledThread&) = delete;
  ProfiledThread& operator=(const ProfiledThread&) = delete;
  // By the other one.
  class Worker {
   public:
    explicit Worker(const ProfiledThread& from);
    ~Worker();
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

   private:
    Profiler::Track* before_;
    uint64_t generation_;
  };

 private:
  Profiler::Track* lent_ = nullptr;
  uint64_t generation_ = 0;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_PROFILE_H_
