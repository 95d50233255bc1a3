#include "kernels.h"

#include "jit/program/engine.h"

namespace lamina::testing {

void set_code_generator(const std::string& library_path) {
  jit::CodeGeneratorOptions options;
  options.library_path = library_path;
  jit::Engine::get().kernels().set_generator_options(options);
}
CompiledAtOnce::CompiledAtOnce() { jit::Engine::get().kernels().set_eager(true); }
CompiledAtOnce::~CompiledAtOnce() { jit::Engine::get().kernels().set_eager(false); }
void drop_kernels() { jit::Engine::get().kernels().clear(); }

}  // namespace lamina::testing
