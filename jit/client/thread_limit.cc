#include "jit/client/thread_limit.h"

#include <pthread.h>

#include <algorithm>
#include <climits>

namespace lamina::jit {
namespace {

thread_local int thread_limit = INT_MAX;

}  // namespace

ScopedThreadLimit::ScopedThreadLimit(int n) : saved_(thread_limit) {
  thread_limit = std::min(thread_limit, std::max(n, 1));
}
ScopedThreadLimit::~ScopedThreadLimit() { thread_limit = saved_; }

int current_thread_limit() { return thread_limit; }

SignalsBlocked::SignalsBlocked() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &saved_);
}
SignalsBlocked::~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }

}  // namespace lamina::jit
