// The host language's own lock (Python's interpreter lock): let go while a thread waits or runs long work.
//
// Contract: set once, by the binding; without one nothing happens. No thread waits for the graph lock while
// it holds the host lock, so that a holder of the graph lock may take the host lock.
#ifndef LAMINA_HLO_HOST_LOCK_H_
#define LAMINA_HLO_HOST_LOCK_H_

namespace lamina::hlo {

struct HostLock {
  // Lets go of the lock if this thread holds it; what `enter` needs to take it back, or null.
  void* (*leave)();
  void (*enter)(void* state);
  // Whether signals can be handled on this thread, and handling them: true if the work should stop. `poll`
  // takes the lock itself.
  bool (*can_poll)();
  bool (*poll)();
};

// `lock` must live for ever.
void set_host_lock(const HostLock* lock);
// Null if there is none.
const HostLock* host_lock();

// Without the host lock from construction, or the first call of `leave`, to destruction.
class HostLockReleased {
 public:
  enum Start { kNow, kLater };
  explicit HostLockReleased(Start start = kNow) : lock_(host_lock()) {
    if (start == kNow) leave();
  }
  ~HostLockReleased() {
    if (state_) lock_->enter(state_);
  }
  HostLockReleased(const HostLockReleased&) = delete;
  HostLockReleased& operator=(const HostLockReleased&) = delete;
  void leave() {
    if (lock_ && !state_) state_ = lock_->leave();
  }

 private:
  const HostLock* lock_;
  void* state_ = nullptr;
};

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_HOST_LOCK_H_
