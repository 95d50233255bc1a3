#include "hlo/mutex.h"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "hlo/once.h"

namespace lamina::hlo {
namespace {

thread_local int being_made_here = 0;

struct LockRegistry {
  std::mutex mutex;  // taken last of all locks, and held by nobody who waits for another
  std::vector<ForkGuarded*> all;
  std::vector<ForkGuarded*> held;  // by the thread that forks, in order

  int being_made = 0;  // objects of Once

  static LockRegistry& get();

  void before_fork() {
    for (;;) {
      mutex.lock();
      std::vector<ForkGuarded*> wanted = all;
      mutex.unlock();
      std::stable_sort(wanted.begin(), wanted.end(),
                       [](const auto* a, const auto* b) { return a->rank() < b->rank(); });
      for (ForkGuarded* g : wanted) g->before_fork();
      mutex.lock();
      held = std::move(wanted);
      const int others = being_made - being_made_here;
      if (held.size() == all.size() && others == 0) return;
      after_fork(false);
      // Another lock was made meanwhile, or something is being made, which may need what was held here.
      if (others > 0) std::this_thread::yield();
    }
  }
  void after_fork(bool in_child) {
    const std::vector<ForkGuarded*> done = std::exchange(held, {});
    mutex.unlock();
    std::for_each(done.rbegin(), done.rend(), [&](ForkGuarded* g) { g->after_fork(in_child); });
  }
};

// Made before any thread and never destroyed.
union Immortal {
  LockRegistry registry;
  constexpr Immortal() : registry() {}
  ~Immortal() {}
};
constinit Immortal immortal;

LockRegistry& LockRegistry::get() { return immortal.registry; }

const int registered =
    pthread_atfork([] { LockRegistry::get().before_fork(); }, [] { LockRegistry::get().after_fork(false); },
                   [] { LockRegistry::get().after_fork(true); });

}  // namespace

namespace internal {

bool begin_making(std::atomic<int>& state) {
  LockRegistry& r = LockRegistry::get();
  for (;;) {
    {
      const std::lock_guard lock(r.mutex);
      const int now = state.load(std::memory_order_relaxed);
      if (now == kMade) return false;
      if (now == kUnmade) {
        state.store(kBeingMade, std::memory_order_relaxed);
        ++r.being_made;
        ++being_made_here;
        return true;
      }
    }
    state.wait(kBeingMade);
  }
}

void end_making(std::atomic<int>& state, bool made) {
  LockRegistry& r = LockRegistry::get();
  {
    const std::lock_guard lock(r.mutex);
    state.store(made ? kMade : kUnmade, std::memory_order_release);
    --r.being_made;
    --being_made_here;
  }
  state.notify_all();
}

}  // namespace internal

ForkGuarded::ForkGuarded(LockRank rank) : rank_(rank) {
  LockRegistry& r = LockRegistry::get();
  const std::lock_guard lock(r.mutex);
  static_cast<void>(registered);
  r.all.push_back(this);
}

ForkGuarded::~ForkGuarded() {
  LockRegistry& r = LockRegistry::get();
  const std::lock_guard lock(r.mutex);
  std::erase(r.all, this);
}

void Mutex::lock() {
  note_locked(rank());
  mutex_.lock();
}
void Mutex::unlock() {
  mutex_.unlock();
  note_unlocked(rank());
}

#ifndef NDEBUG
namespace {
thread_local uint32_t held_ranks = 0;
}  // namespace

void note_locked(LockRank rank) {
  const uint32_t bit = uint32_t{1} << static_cast<int>(rank);
  if (held_ranks >= bit) {
    std::fprintf(stderr, "lamina: a lock of rank %d is taken under locks of the ranks %#x\n",
                 static_cast<int>(rank), held_ranks);
    std::abort();
  }
  held_ranks |= bit;
}
void note_unlocked(LockRank rank) { held_ranks &= ~(uint32_t{1} << static_cast<int>(rank)); }
#endif

}  // namespace lamina::hlo
