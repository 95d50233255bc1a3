#include "tests/build_paths.h"

#include <cstdlib>

namespace lamina {
namespace {

// Tests may be carried to another machine (tests/gpu).
const char* moved(const char* variable, const char* built) {
  const char* const path = std::getenv(variable);
  return path && *path ? path : built;
}

}  // namespace

const char* const kTestsFolder = LAMINA_TESTS_FOLDER;
const char* const kCodeGenerator = moved("LAMINA_TESTS_LLVM", LAMINA_CODE_GENERATOR);
const char* const kBlockingGenerator = LAMINA_BLOCKING_GENERATOR;
const char* const kCudaStandin = LAMINA_CUDA_STANDIN;
const char* const kCudaStub = LAMINA_CUDA_STUB;
const char* const kPtxas = LAMINA_PTXAS;

}  // namespace lamina
