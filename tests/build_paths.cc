#include "tests/build_paths.h"

namespace lamina {

const char* const kTestsFolder = LAMINA_TESTS_FOLDER;
const char* const kCodeGenerator = LAMINA_CODE_GENERATOR;
const char* const kBlockingGenerator = LAMINA_BLOCKING_GENERATOR;
const char* const kCudaStandin = LAMINA_CUDA_STANDIN;
const char* const kCudaStub = LAMINA_CUDA_STUB;
const char* const kPtxas = LAMINA_PTXAS;

}  // namespace lamina
