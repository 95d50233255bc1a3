// Waiting for a device: without the host lock, and watching for the host's signals.
#ifndef LAMINA_LAZY_WHILE_WAITING_H_
#define LAMINA_LAZY_WHILE_WAITING_H_

#include "hlo/host_lock.h"
#include "jit/client/client.h"
#include "jit/client/profile.h"

namespace lamina::lazy {

// Handles the host's signals while a thread waits for a device.
class SignalPoll final : public jit::StepWatcher {
 public:
  explicit SignalPoll(const hlo::HostLock& host) : host_(host) {}
  bool between_steps() override { return host_.poll(); }

 private:
  const hlo::HostLock& host_;
};

// f(watcher or null).
template <typename F>
auto while_waiting(F f) {
  const jit::ProfiledSpan span(jit::Doing::kWait);
  hlo::HostLockReleased away;
  const hlo::HostLock* const host = hlo::host_lock();
  if (!host || !host->can_poll()) return f(nullptr);
  SignalPoll signals(*host);
  return f(&signals);
}

}  // namespace lamina::lazy

#endif  // LAMINA_LAZY_WHILE_WAITING_H_
