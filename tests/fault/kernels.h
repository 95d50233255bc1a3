// The kernels of the engine, for tests through the C++ API: its function `jit` has the name of their
// namespace.
#ifndef LAMINA_TESTS_FAULT_KERNELS_H_
#define LAMINA_TESTS_FAULT_KERNELS_H_

#include <string>

namespace lamina::testing {

void set_code_generator(const std::string& library_path);
// While it lives, kernels are compiled before their first run.
struct CompiledAtOnce {
  CompiledAtOnce();
  ~CompiledAtOnce();
};
void drop_kernels();
// jit::FakeQueues::writes_down
bool device_writes_down();
// Has the fake device do what it was told, so that what is left is what the program left.
void drain_devices();

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_FAULT_KERNELS_H_
