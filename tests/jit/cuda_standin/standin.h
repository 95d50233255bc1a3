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
using lamina::jit::cuda::FunctionHandle;
using lamina::jit::cuda::Result;
using lamina::jit::cuda::StreamHandle;

int setting(const char* variable, int otherwise);
// 10 * major + minor.
int capability();
// Aborts in a forked child.
void check_process();
void violation(std::string text);
void count(int64_t StandinCounts::*what);
bool made(StandinMistake mistake);
// What the next call of this kind is to return; 0: let it succeed.
int failure(StandinCall call);

// The thread's; null for none.
ContextHandle current_context();
ContextHandle context_of(StreamHandle stream);
// Of a call on behalf of a device: its context must be the current one, and a fault stays.
Result enter(ContextHandle context, const char* what);

// Of a stream, or of graphs, which have it run many times.
struct Work {
  FakeQueues::Kind kind;
  std::string what;
  std::vector<FakeQueues::Touch> touches;
  std::function<void()> run;
  FunctionHandle function = nullptr;  // of a kernel of the driver's
};
// Time of the stream's for an algorithm of a library.
void spend(StreamHandle stream, int64_t algorithm);
// Goes to the capture where the stream has one.
void enqueue(StreamHandle stream, Work work);
void run(StreamHandle stream, Work work);
// Of a kernel; the result of a launch that is refused.
Result work_of(FunctionHandle function, const unsigned* grid, const unsigned* block, void** parameters,
               Work* work);
// Whether the module is.
bool is_loaded(FunctionHandle function);
// Of calls that nobody may make while a stream is captured that is not to be disturbed.
Result check_undisturbed(const char* what);
// What does not belong in a graph: fails where the stream has a capture, which is then of no more use.
Result check_uncaptured(StreamHandle stream, const char* what);
int64_t live_graphs();
// While that runs.
std::byte* bytes_at(DevicePointer at);

}  // namespace standins

namespace lamina::jit::cuda {
struct OpaqueStream {
  ContextHandle context;
  int queue;
  struct Capture* capture = nullptr;  // graphs.cc; of the thread that began it
  double milliseconds = 0;            // that algorithms have taken
  bool is_blocking = false;           // waits for the legacy stream, and that for it
};
}  // namespace lamina::jit::cuda

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_STANDIN_H_
