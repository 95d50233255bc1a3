// Where the libraries are that are loaded at first use.
#ifndef LAMINA_JIT_CLIENT_LIBRARY_PATH_H_
#define LAMINA_JIT_CLIENT_LIBRARY_PATH_H_

#include <string>

namespace lamina::jit {

// The path that `variable` names, else the file beside the library or program that this code is part of.
std::string library_path(const char* variable, const char* file_name);

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CLIENT_LIBRARY_PATH_H_
