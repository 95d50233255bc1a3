#include "jit/cpu/compile_queue.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "jit/client/threads.h"
#include "jit/cpu/kernel_store.h"

namespace lamina::jit {

CompileQueue::CompileQueue(std::function<void(Kernel&)> serve)
    : ForkGuarded(hlo::LockRank::kCompiles), serve_(std::move(serve)) {}

CompileQueue::~CompileQueue() {
  if (!worker_) return;
  stopping_.store(true);
  worker_->sleep.count_up(changes_);
  worker_->thread.join();
}

bool CompileQueue::add(std::shared_ptr<Kernel> kernel) {
  std::lock_guard lock(mutex_);
  waiting_.reserve(waiting_.size() + 1);
  claimed_.reserve(claimed_.size() + 2);
  if (!start()) return false;
  Kernel::State cold = Kernel::State::kCold;
  if (!kernel->state_.compare_exchange_strong(cold, Kernel::State::kWaits)) return true;
  waiting_.push_back(std::move(kernel));
  pending_.fetch_add(1);
  worker_->sleep.count_up(changes_);
  return true;
}

// With mutex_ held.
bool CompileQueue::start() {
  if (worker_) return true;
  try {
    auto worker = std::make_unique<Worker>();
    worker->thread = start_thread([this, &sleep = worker->sleep] { run(sleep); });
    worker_ = std::move(worker);
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool CompileQueue::claim(Kernel& kernel) {
  for (;;) {
    Kernel::State now = kernel.state_.load(std::memory_order_acquire);
    if (now == Kernel::State::kCompiled || now == Kernel::State::kRefused) return false;
    if (now == Kernel::State::kCompiling) {
      kernel.state_.wait(now, std::memory_order_acquire);
      continue;
    }
    std::lock_guard lock(mutex_);
    claimed_.reserve(claimed_.size() + 1);
    if (!kernel.state_.compare_exchange_strong(now, Kernel::State::kCompiling)) continue;
    claimed_.push_back(&kernel);
    return true;
  }
}

void CompileQueue::settle(Kernel& kernel) {
  {
    std::lock_guard lock(mutex_);
    std::erase(claimed_, &kernel);
    // Whoever compiled it has said so, or it asks anew one day.
    for (Kernel::State open : {Kernel::State::kCompiling, Kernel::State::kWaits})
      kernel.state_.compare_exchange_strong(open, Kernel::State::kCold);
  }
  kernel.state_.notify_all();
}

std::shared_ptr<Kernel> CompileQueue::take() {
  std::vector<std::shared_ptr<Kernel>> dropped;  // let go of after the lock
  std::lock_guard lock(mutex_);
  const auto unwanted = std::partition(waiting_.begin(), waiting_.end(), [](const auto& k) {
    return k.use_count() > 1 && k->state_.load() == Kernel::State::kWaits;
  });
  dropped.assign(std::make_move_iterator(unwanted), std::make_move_iterator(waiting_.end()));
  waiting_.erase(unwanted, waiting_.end());
  pending_.fetch_sub(static_cast<int64_t>(dropped.size()));
  const auto next = std::max_element(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) {
    return a->urgency() < b->urgency();
  });
  if (next == waiting_.end()) return nullptr;
  std::shared_ptr<Kernel> taken = std::move(*next);
  waiting_.erase(next);
  return taken;
}

void CompileQueue::run(Sleep& sleep) {
  for (;;) {
    // In this order: who counts the end itself as something that waits would sleep through it.
    const uint32_t seen = changes_.load();
    if (stopping_.load()) return;
    std::shared_ptr<Kernel> next;
    try {
      next = take();
      if (next && claim(*next)) serve_(*next);
    } catch (const std::bad_alloc&) {
      if (next) settle(*next);
    }
    if (next)
      pending_.fetch_sub(1);
    else
      sleep.until_changed(changes_, seen);
  }
}

void CompileQueue::after_fork(bool in_child) {
  if (!in_child) return;
  // The thread is gone, and its object can be neither joined nor destroyed.
  [[maybe_unused]] const Worker* const gone = worker_.release();
  for (Kernel* k : claimed_)
    k->state_.store(k->is_compiled() ? Kernel::State::kCompiled : Kernel::State::kCold);
  for (const std::shared_ptr<Kernel>& k : waiting_) {
    Kernel::State waits = Kernel::State::kWaits;
    k->state_.compare_exchange_strong(waits, Kernel::State::kCold);
  }
  claimed_.clear();
  waiting_.clear();
  pending_.store(0);
}

}  // namespace lamina::jit
