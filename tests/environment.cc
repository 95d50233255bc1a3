// What every test program runs under, set before Catch2's main: tests count compiles, and what an earlier run
// left on disk must not change them. Devices of CUDA are those of the stand-ins for driver, assembler,
// cuBLAS, cublasLt, cuDNN, cuFFT and cuSOLVER, if nothing else is asked for.
#include <cstdlib>

#include "build_paths.h"

namespace {
[[maybe_unused]] const int no_disk_cache = setenv("LAMINA_CACHE_DIR", "", 1);
[[maybe_unused]] const int cuda_standin =
    setenv("LAMINA_CUDA_DRIVER", lamina::kCudaStandin, 0) +
    setenv("LAMINA_NVJITLINK", lamina::kCudaStandin, 0) + setenv("LAMINA_CUBLASLT", lamina::kCudaStandin, 0) +
    setenv("LAMINA_CUDNN", lamina::kCudaStandin, 0) + setenv("LAMINA_CUFFT", lamina::kCudaStandin, 0) +
    setenv("LAMINA_CUSOLVER", lamina::kCudaStandin, 0) + setenv("LAMINA_CUBLAS", lamina::kCudaStandin, 0);
}  // namespace
