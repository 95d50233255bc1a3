#include "kernels.h"

#include "jit/cpu/client.h"

namespace lamina::testing {

void set_code_generator(const std::string& library_path) {
  jit::CodeGeneratorOptions options;
  options.library_path = library_path;
  jit::CpuClient::get().kernels().set_generator_options(options);
}
CompiledAtOnce::CompiledAtOnce() { jit::CpuClient::get().kernels().set_eager(true); }
CompiledAtOnce::~CompiledAtOnce() { jit::CpuClient::get().kernels().set_eager(false); }
void drop_kernels() { jit::CpuClient::get().kernels().clear(); }

}  // namespace lamina::testing
