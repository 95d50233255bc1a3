// What a thread says about the threads that work for it.
#ifndef LAMINA_JIT_CLIENT_THREAD_LIMIT_H_
#define LAMINA_JIT_CLIENT_THREAD_LIMIT_H_

#include <signal.h>

namespace lamina::jit {

// Limits the threads (caller included) that jobs started by this thread may use, read when a job starts;
// scopes nest, the smallest wins. n < 1 counts as 1.
class ScopedThreadLimit {
 public:
  explicit ScopedThreadLimit(int n);
  ~ScopedThreadLimit();
  ScopedThreadLimit(const ScopedThreadLimit&) = delete;
  ScopedThreadLimit& operator=(const ScopedThreadLimit&) = delete;

 private:
  int saved_;
};
// INT_MAX when no scope is open.
int current_thread_limit();

// Blocks every signal for the calling thread, and so for threads it starts, while it lives.
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t saved_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_THREAD_LIMIT_H_
