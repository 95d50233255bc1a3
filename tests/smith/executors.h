// The ways of running a program that have to agree: text, passes, tiers, lazy recording, cuts, threads, vmap.
#ifndef LAMINA_TESTS_SMITH_EXECUTORS_H_
#define LAMINA_TESTS_SMITH_EXECUTORS_H_

#include <string>
#include <vector>

#include "tests/smith/generator.h"

namespace lamina::testing {

// `llvm_path`: of liblamina_llvm, the code generator.
std::vector<SmithExecutor> smith_executors(const std::string& llvm_path);

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_SMITH_EXECUTORS_H_
