#include "jit/cuda/assembler.h"

#include <dlfcn.h>

#include <cstdint>
#include <memory>

#include "hlo/strings.h"
#include "jit/cuda/libraries.h"

namespace lamina::jit::cuda {

// As in the toolkit's header.
struct Assembler::Calls {
  using Handle = struct OpaqueLink*;
  int (*version)(unsigned* major, unsigned* minor);
  int (*create)(Handle* link, uint32_t num_options, const char** options);
  int (*destroy)(Handle* link);
  int (*add)(Handle link, int kind, const void* data, size_t bytes, const char* name);
  int (*complete)(Handle link);
  int (*code_size)(Handle link, size_t* bytes);
  int (*code)(Handle link, void* to);
  int (*errors_size)(Handle link, size_t* bytes);
  int (*errors)(Handle link, char* to);
};

namespace {

constexpr int kPtx = 2;
constexpr Library::File kAssemblerFiles[] = {
    {"../nvidia/cu13/lib/libnvJitLink.so.13", "libnvJitLink.so.13"},
    {"../nvidia/nvjitlink/lib/libnvJitLink.so.12", "libnvJitLink.so.12"}};

template <typename F>
bool find(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, str_cat("nvJitLink", name).c_str()));
  return *function != nullptr;
}

template <typename Calls>
bool find_all(void* library, Calls& c) {
  return find(library, "Version", &c.version) && find(library, "Create", &c.create) &&
         find(library, "Destroy", &c.destroy) && find(library, "AddData", &c.add) &&
         find(library, "Complete", &c.complete) && find(library, "GetLinkedCubinSize", &c.code_size) &&
         find(library, "GetLinkedCubin", &c.code) && find(library, "GetErrorLogSize", &c.errors_size) &&
         find(library, "GetErrorLog", &c.errors);
}

}  // namespace

absl::StatusOr<Assembler> Assembler::open(int driver_version) {
  auto calls = std::make_unique<Calls>();
  unsigned major = 0, minor = 0;
  const absl::StatusOr<std::string> opened =
      open_library({"nvJitLink", "LAMINA_NVJITLINK", kAssemblerFiles},
                   [&](const std::string& path, void* library) -> absl::Status {
                     if (!find_all(library, *calls) || calls->version(&major, &minor) != 0)
                       return absl::NotFoundError(str_cat(path, " is no nvJitLink"));
                     return serves_driver(path, static_cast<int>(major), driver_version);
                   });
  if (!opened.ok()) return opened.status();
  return Assembler(*opened, str_cat(major, ".", minor), calls.release());
}

absl::StatusOr<std::string> Assembler::assemble(const std::string& ptx, int capability) const {
  const std::string chip = str_cat("-arch=sm_", capability);
  const char* options[] = {chip.c_str()};
  Calls::Handle link = nullptr;
  int result = calls_->create(&link, 1, options);
  if (result != 0)
    return absl::InternalError(str_cat("the assembler knows no sm_", capability, " (error ", result, ")"));
  std::string code;
  size_t bytes = 0;
  result = calls_->add(link, kPtx, ptx.c_str(), ptx.size() + 1, "lamina");
  if (result == 0) result = calls_->complete(link);
  if (result == 0) result = calls_->code_size(link, &bytes);
  if (result == 0) {
    code.resize(bytes);
    result = calls_->code(link, code.data());
  }
  std::string why;
  if (result != 0 && calls_->errors_size(link, &bytes) == 0 && bytes > 1) {
    why.resize(bytes);
    if (calls_->errors(link, why.data()) != 0) why.clear();
    while (!why.empty() && (why.back() == '\0' || why.back() == '\n')) why.pop_back();
  }
  calls_->destroy(&link);
  if (result != 0)
    return absl::InternalError(str_cat("the assembler failed for sm_", capability, " (error ", result, ")",
                                       why.empty() ? "" : ": ", why));
  return code;
}

}  // namespace lamina::jit::cuda
