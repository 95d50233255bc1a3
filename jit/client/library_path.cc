#include "jit/client/library_path.h"

#include <dlfcn.h>

#include <cstdlib>

namespace lamina::jit {

std::string library_path(const char* variable, const char* file_name) {
  if (const char* path = std::getenv(variable); path && *path) return path;
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&library_path), &info) && info.dli_fname) {
    const std::string self = info.dli_fname;
    const size_t slash = self.rfind('/');
    if (slash != std::string::npos) return self.substr(0, slash + 1) + file_name;
  }
  return file_name;
}

}  // namespace lamina::jit
