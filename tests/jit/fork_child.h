// What a child of fork() does, checked by its parent.
#ifndef LAMINA_TESTS_JIT_FORK_CHILD_H_
#define LAMINA_TESTS_JIT_FORK_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace lamina::testing {

// `work`, in a child that has 20 seconds for it, gives true.
template <typename Work>
void check_in_child(const Work& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(20);
    _exit(work() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
}

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_FORK_CHILD_H_
