#include "jit/runtime/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace lamina::jit {
namespace {

// fork() handlers take no argument, so the live runtimes are listed here; made once and never destroyed.
struct ForkList {
  std::mutex mutex;
  std::vector<Runtime*> runtimes;
};

ForkList& fork_list() {
  static ForkList* const list = new ForkList;
  return *list;
}

void before_fork() {
  fork_list().mutex.lock();
  for (Runtime* r : fork_list().runtimes) {
    r->pool().lock_for_fork();
    r->allocator().lock_for_fork();
  }
}

void in_parent() {
  for (Runtime* r : fork_list().runtimes) {
    r->allocator().unlock_after_fork();
    r->pool().unlock_in_parent();
  }
  fork_list().mutex.unlock();
}

void in_child() {
  for (Runtime* r : fork_list().runtimes) {
    r->allocator().unlock_after_fork();
    r->pool().reset_in_child();
  }
  fork_list().mutex.unlock();
}

}  // namespace

Runtime::Runtime(int threads) : pool_(threads) {
  static const int registered = pthread_atfork(before_fork, in_parent, in_child);
  static_cast<void>(registered);
  std::lock_guard lock(fork_list().mutex);
  fork_list().runtimes.push_back(this);
}

Runtime::~Runtime() {
  std::lock_guard lock(fork_list().mutex);
  std::erase(fork_list().runtimes, this);
}

}  // namespace lamina::jit
