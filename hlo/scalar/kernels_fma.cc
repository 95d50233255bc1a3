// The kernels for CPUs with AVX2 and FMA, chosen at run time.
#if defined(__x86_64__)
#define LAMINA_KERNEL_NAMESPACE kernels_fma
#define LAMINA_KERNEL_TARGET __attribute__((target("avx2,fma")))
#include "hlo/scalar/kernels_impl.h"
#endif
