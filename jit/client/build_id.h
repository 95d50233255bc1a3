// The name that the linker gave a library: a hash of its contents, in hexadecimal. Empty where it has none.
#ifndef LAMINA_JIT_CLIENT_BUILD_ID_H_
#define LAMINA_JIT_CLIENT_BUILD_ID_H_

#include <string>

namespace lamina::jit {

// Of a file, which is not loaded. Any file may be asked: what is no library of this machine has none.
std::string build_id_of_file(const std::string& path);
// Of the loaded library that holds `symbol`.
std::string build_id_of_loaded(const void* symbol);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_BUILD_ID_H_
