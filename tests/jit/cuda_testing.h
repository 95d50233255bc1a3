// CUDA devices in tests: those of the stand-in for the driver, and what it is told.
#ifndef LAMINA_TESTS_JIT_CUDA_TESTING_H_
#define LAMINA_TESTS_JIT_CUDA_TESTING_H_

#include <dlfcn.h>

#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "jit/cuda/client.h"
#include "jit/cuda/graph_step.h"
#include "tests/build_paths.h"
#include "tests/jit/cuda_standin/control.h"

namespace lamina::testing {

inline jit::cuda::CudaClient& cuda_client() { return **jit::cuda::CudaClient::get(); }
inline jit::Device& cuda_device(size_t i = 0) { return *cuda_client().devices()[i]; }

// Null where the tests run on another driver.
inline const StandinControl* standin() {
  static const StandinControl* const control = [] {
    void* const library = dlopen(cuda_client().driver().library.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto* const get = reinterpret_cast<decltype(&lamina_cuda_standin)>(dlsym(library, "lamina_cuda_standin"));
    return get ? get() : nullptr;
  }();
  return control;
}

// Products, convolutions and attentions of so much work and more are the libraries'.
class ScopedLeastWork {
 public:
  explicit ScopedLeastWork(double least)
      : products_(cuda_client().products().set_least_work(least)),
        convolutions_(cuda_client().convolutions().set_least_work(least)),
        attentions_(cuda_client().attentions().set_least_work(least)) {}
  ~ScopedLeastWork() {
    cuda_client().products().set_least_work(products_);
    cuda_client().convolutions().set_least_work(convolutions_);
    cuda_client().attentions().set_least_work(attentions_);
  }
  ScopedLeastWork(const ScopedLeastWork&) = delete;
  ScopedLeastWork& operator=(const ScopedLeastWork&) = delete;

 private:
  const double products_, convolutions_, attentions_;
};
// The library of this name of the environment ("CUFFT") for as long as it lives; null: what the machine has.
// `serve` begins with it anew, for a driver of some version.
class ScopedLibrary {
 public:
  using Serve = void (*)(int driver_version);
  ScopedLibrary(const std::string& name, Serve serve, const char* named, int driver_version)
      : name_(name), serve_(serve) {
    named ? setenv(variable().c_str(), named, 1) : unsetenv(variable().c_str());
    serve_(driver_version);
  }
  ~ScopedLibrary() {
    setenv(variable().c_str(), kCudaStandin, 1);
    unsetenv(("LAMINA_STANDIN_" + name_).c_str());
    serve_(kDriver);
  }
  ScopedLibrary(const ScopedLibrary&) = delete;
  ScopedLibrary& operator=(const ScopedLibrary&) = delete;

  static constexpr int kDriver = 12040;

 private:
  std::string variable() const { return "LAMINA_" + name_; }

  const std::string name_;
  const Serve serve_;
};
// Programs are graphs from this run of a frame on.
class ScopedPlainRuns {
 public:
  explicit ScopedPlainRuns(int64_t runs) : before_(jit::cuda::set_plain_runs(runs)) {}
  ~ScopedPlainRuns() { jit::cuda::set_plain_runs(before_); }
  ScopedPlainRuns(const ScopedPlainRuns&) = delete;
  ScopedPlainRuns& operator=(const ScopedPlainRuns&) = delete;

 private:
  const int64_t before_;
};
// What a test may ask for that compares bits: on the stand-in, which adds in the CPU's order.
inline double least_work_with_bits(double least) {
  return standin() ? least : std::numeric_limits<double>::infinity();
}

inline std::vector<std::string> standin_violations() {
  std::vector<std::string> out;
  standin()->drain();
  standin()->take_violations(&out, [](void* to, const char* text) {
    static_cast<std::vector<std::string>*>(to)->emplace_back(text);
  });
  return out;
}

inline bool standin_found(std::string_view what) {
  for (const std::string& v : standin_violations())
    if (v.find(what) != v.npos) return true;
  return false;
}

// Whether that is found when `run` runs, in one order of the streams or another: some are right by chance.
template <typename Run>
bool standin_finds(std::string_view what, Run run) {
  for (int order = 0; order < 20; ++order) {
    run();
    if (standin_found(what)) return true;
  }
  return false;
}

// Everything as it was, whatever a test did.
struct CleanStandin {
  CleanStandin() { reset(); }
  ~CleanStandin() { reset(); }
  static void reset() {
    standin()->set_mistake(kStandinNone);
    for (int call = 0; call < kStandinCalls; ++call) standin()->fail(static_cast<StandinCall>(call), -1, 0);
    standin()->fault(-1, 0);
    standin()->set_time(-1, 0);
    standin()->drain();
    // What planted mistakes left behind is not to be found in blocks that serve again.
    for (jit::Device* device : cuda_client().devices()) device->memory().trim();
    standin_violations();
    standin()->take_counts();
  }
};

}  // namespace lamina::testing

#endif  // LAMINA_TESTS_JIT_CUDA_TESTING_H_
