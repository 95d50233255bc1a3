#include "jit/client/cancel.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "jit/client/profile.h"
#include "jit/client/threads.h"

namespace lamina::jit {

absl::Status run_interruptible(CancelFlag& cancel, const std::function<bool()>& poll,
                               const std::function<absl::Status()>& work) {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  absl::Status status;
  std::exception_ptr failure;
  const int limit = current_thread_limit();
  const ProfiledThread profiled;
  const auto body = [&] {
    ScopedThreadLimit scope(limit);
    absl::Status result;
    try {
      const ProfiledThread::Worker told(profiled);
      result = work();
    } catch (...) {
      failure = std::current_exception();
    }
    // Notified under the lock: the waiter may leave, and the condition variable die, only after it is
    // released.
    std::lock_guard lock(mutex);
    status = std::move(result);
    done = true;
    ended.notify_one();
  };
  std::thread thread;
  try {
    thread = start_thread(body);
  } catch (const std::system_error&) {
    body();  // no thread to be had: the work still gets done, only not interrupted
  }
  if (thread.joinable()) {
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, std::chrono::milliseconds(20), [&] { return done; })) {
      lock.unlock();
      if (!cancel.requested() && poll()) cancel.request();
      lock.lock();
    }
    lock.unlock();
    thread.join();
  }
  if (failure) std::rethrow_exception(failure);
  if (cancel.requested()) return absl::CancelledError("the run was interrupted");
  return status;
}

}  // namespace lamina::jit
