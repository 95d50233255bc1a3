// The bytes of a buffer of the host's memory, for tests to fill and to read.
#ifndef LAMINA_TESTS_JIT_HOST_DATA_H_
#define LAMINA_TESTS_JIT_HOST_DATA_H_

#include "jit/cpu/kernel_context.h"

namespace lamina::testing {

inline void* host_data(const jit::BufferRef& buffer) { return jit::pointer(buffer->address()); }

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_HOST_DATA_H_
