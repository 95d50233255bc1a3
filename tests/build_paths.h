// Where the files of this build lie that tests read or open. build_paths.cc alone is compiled with paths:
// every other unit is the same in all folders, so that a compiler cache finds it.
#ifndef LAMINA_TESTS_BUILD_PATHS_H_
#define LAMINA_TESTS_BUILD_PATHS_H_

namespace lamina {

extern const char* const kTestsFolder;
// liblamina_llvm, and a library in its place whose compiles wait until a test lets them go. Empty without
// LLVM.
extern const char* const kCodeGenerator;
extern const char* const kBlockingGenerator;
// The stand-in for the CUDA driver; what the toolkit has in its place, empty where there is no toolkit.
extern const char* const kCudaStandin;
extern const char* const kCudaStub;
// NVIDIA's assembler; empty where it is not installed.
extern const char* const kPtxas;

}  // namespace lamina

#endif  // LAMINA_TESTS_BUILD_PATHS_H_
