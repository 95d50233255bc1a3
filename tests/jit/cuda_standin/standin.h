// What the stand-in for the driver (driver.cc) has for those of libraries that work on its devices.
#ifndef LAMINA_TESTS_JIT_CUDA_STANDIN_STANDIN_H_
#define LAMINA_TESTS_JIT_CUDA_STANDIN_STANDIN_H_

#include <functional>
#include <string>
#include <vector>

#include "jit/cuda/driver.h"
#include "jit/fake/queues.h"
#include "tests/jit/cuda_standin/control.h"

namespace standins {

using lamina::jit::FakeQueues;
using lamina::jit::cuda::ContextHandle;
using lamina::jit::cuda::DevicePointer;
using lamina::jit::cuda::Result;
using lamina::jit::cuda::StreamHandle;

int setting(const char* variable, int otherwise);
void violation(std::string text);
// What the next call of this kind is to return; 0: let it succeed.
int failure(StandinCall call);

// The thread's; null for none.
ContextHandle current_context();
ContextHandle context_of(StreamHandle stream);
// Of a call on behalf of a device: its context must be the current one, and a fault stays.
Result enter(ContextHandle context, const char* what);

void launch(StreamHandle stream, std::string what, std::vector<FakeQueues::Touch> touches,
            std::function<void()> work);
// While that runs.
std::byte* bytes_at(DevicePointer at);

}  // namespace standins

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_STANDIN_H_
