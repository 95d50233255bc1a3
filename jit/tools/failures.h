// How the command line tools tell what went wrong.
#ifndef LAMINA_JIT_TOOLS_FAILURES_H_
#define LAMINA_JIT_TOOLS_FAILURES_H_

#include <iostream>
#include <string>

#include "absl/status/status.h"

namespace lamina::jit {

// Prints "FILE: message"; the exit status.
inline int fail(const std::string& file, const absl::Status& status) {
  std::cerr << file << ": " << std::string(status.message()) << "\n";
  return 1;
}

// Prints "FILE:line:column: message", of which the message has all but the file.
inline int fail_parse(const std::string& file, const absl::Status& status) {
  std::cerr << file << ":" << std::string(status.message()) << "\n";
  return 1;
}

}  // namespace lamina::jit

#endif  // LAMINA_JIT_TOOLS_FAILURES_H_
