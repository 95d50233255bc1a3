// The library's locks: their order, and what becomes of them around fork().
//
// Contract: every lock that outlives a call is a `Mutex`, or the graph lock. A thread takes them in the order
// of their ranks, one of a rank at a time; debug builds abort where it does not. What is destroyed under a
// lock must take no lock of lower rank: values (the graph lock) are let go of outside all others.
//
// Before fork() the forking thread waits for all of them, in order, so that what they guard is whole in the
// child, where they are free again; it waits for what is made at first use (hlo/once.h), and for a running
// compile of machine code, too. The holder of the graph lock may wait for the host lock, that of any
// other lock may not; so only who waits for the graph lock lets go of the host lock.
#ifndef LAMINA_HLO_MUTEX_H_
#define LAMINA_HLO_MUTEX_H_

#include <cstdint>
#include <mutex>

namespace lamina::hlo {

enum class LockRank : uint8_t {
  kCommands,  // no lock: work that is waited for before fork() takes any
  kGraph,     // GraphLock: first, as anything may be done under it
  kTraces,
  kPrograms,
  kSpecializations,
  kCompiles,
  kKernels,
  kCompiler,
  kLibraries,
  kRules,
  kComputations,
  kOps,
  kScalarPrograms,
  kAttributes,
  kTypes,
  kLocations,
  kCallbacks,
  kThreads,
  kMemory,
  kQueues,
  kPlaces,
  kProfile,
};

// Something of the process that must be whole when it forks. Made once and never destroyed, unless no other
// thread forks meanwhile.
class ForkGuarded {
 public:
  ForkGuarded(const ForkGuarded&) = delete;
  ForkGuarded& operator=(const ForkGuarded&) = delete;

  LockRank rank() const { return rank_; }
  virtual void before_fork() = 0;
  virtual void after_fork(bool in_child) = 0;

 protected:
  explicit ForkGuarded(LockRank rank);
  virtual ~ForkGuarded();

 private:
  const LockRank rank_;
};

// As std::mutex.
class Mutex final : public ForkGuarded {
 public:
  explicit Mutex(LockRank rank) : ForkGuarded(rank) {}
  void lock();
  void unlock();

  void before_fork() override { mutex_.lock(); }
  void after_fork(bool) override { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Of debug builds: notes that this thread takes or lets go of a lock of the rank, and aborts where it holds
// one of the same or a later rank already.
#ifndef NDEBUG
void note_locked(LockRank rank);
void note_unlocked(LockRank rank);
#else
inline void note_locked(LockRank) {}
inline void note_unlocked(LockRank) {}
#endif

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_MUTEX_H_
