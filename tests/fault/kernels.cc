#include "kernels.h"

#include "jit/cpu/client.h"
#include "jit/fake/client.h"

namespace lamina::testing {

void set_code_generator(const std::string& library_path) {
  jit::CodeGeneratorOptions options;
  options.library_path = library_path;
  jit::CpuClient::get().kernels().set_generator_options(options);
}
CompiledAtOnce::CompiledAtOnce() { jit::CpuClient::get().kernels().set_eager(true); }
CompiledAtOnce::~CompiledAtOnce() { jit::CpuClient::get().kernels().set_eager(false); }
void drop_kernels() { jit::CpuClient::get().kernels().clear(); }
bool device_writes_down() { return jit::FakeQueues::writes_down(); }
void drain_devices() {
  if (!jit::only_host()) jit::FakeClient::get().queues().drain();
}

}  // namespace lamina::testing
