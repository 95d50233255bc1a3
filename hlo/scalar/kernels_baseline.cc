// The kernels for any CPU of the architecture.
#define LAMINA_KERNEL_NAMESPACE kernels_baseline
#define LAMINA_KERNEL_TARGET
#include "hlo/scalar/kernels_impl.h"
