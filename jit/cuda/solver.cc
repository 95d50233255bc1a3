#include "jit/cuda/solver.h"

#include <dlfcn.h>

#include "hlo/strings.h"
#include "jit/cuda/libraries.h"

namespace lamina::jit::cuda {
namespace {

constexpr Library::File kSolverFiles[] = {{"../nvidia/cu13/lib/libcusolver.so.12", "libcusolver.so.12"},
                                          {"../nvidia/cusolver/lib/libcusolver.so.11", "libcusolver.so.11"}};

ToolkitVersion version_of(const Solver& solver) {
  ToolkitVersion version{0};
  solver.version(&version.number);
  return version;
}

}  // namespace

std::string Solver::version_text() const { return version_of(*this).text(); }

std::string words(SolverStatus status) {
  switch (status) {
    case SolverStatus::kSuccess:
      return "CUSOLVER_STATUS_SUCCESS";
    case SolverStatus::kNotInitialized:
      return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case SolverStatus::kAllocFailed:
      return "CUSOLVER_STATUS_ALLOC_FAILED";
    case SolverStatus::kInvalidValue:
      return "CUSOLVER_STATUS_INVALID_VALUE";
    case SolverStatus::kArchMismatch:
      return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case SolverStatus::kExecutionFailed:
      return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case SolverStatus::kInternalError:
      return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case SolverStatus::kNotSupported:
      return "CUSOLVER_STATUS_NOT_SUPPORTED";
    case SolverStatus::kInvalidWorkspace:
      return "CUSOLVER_STATUS_INVALID_WORKSPACE";
  }
  return str_cat("error ", static_cast<int>(status));
}

absl::StatusOr<Solver> load_solver(int driver_version) {
  Solver solver;
  const absl::StatusOr<std::string> opened =
      open_library({"cusolver", "LAMINA_CUSOLVER", kSolverFiles},
                   [&](const std::string& path, void* library) -> absl::Status {
                     const char* missing = nullptr;
#define LAMINA_CUSOLVER_CALL(result, member, symbol, parameters)                      \
  solver.member = reinterpret_cast<decltype(solver.member)>(dlsym(library, #symbol)); \
  if (!solver.member && !missing) missing = #symbol;
#include "jit/cuda/solver.def"
#undef LAMINA_CUSOLVER_CALL
                     if (missing) return absl::NotFoundError(str_cat(path, " has no ", missing));
                     return serves_driver(path, version_of(solver).cuda_major(), driver_version);
                   });
  if (!opened.ok()) return opened.status();
  solver.library = *opened;
  return solver;
}

}  // namespace lamina::jit::cuda
