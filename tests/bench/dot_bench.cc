// Matrix products against oneDNN's sgemm, one thread each: best of several runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "hlo/half.h"
#include "jit/cpu/dot.h"
#include "tests/bench/one_thread.h"

#ifdef LAMINA_HAVE_DNNL
#include <dnnl.h>
#endif

using namespace lamina;
using hlo::DType;

namespace {

template <typename F>
double best_seconds(F f) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  const auto begin = Clock::now();
  for (int i = 0; i < 5 || (Clock::now() - begin < std::chrono::milliseconds(300)); ++i) {
    int repeats = 0;
    const auto t0 = Clock::now();
    double seconds = 0;
    do {
      f();
      ++repeats;
      seconds = std::chrono::duration<double>(Clock::now() - t0).count();
    } while (seconds < 2e-5);
    best = std::min(best, seconds / repeats);
  }
  return best;
}

struct Case {
  int64_t m, n, k;
};

}  // namespace

int main(int, char** argv) {
  testing::run_openmp_on_one_thread(argv);
  jit::KernelContext context;
  context.scratch = &jit::host_device().memory();
  std::printf("%-24s %10s %8s %8s %7s %8s %8s\n", "f32 m x n x k", "us", "GFLOP/s", "oneDNN", "ratio", "avx2",
              "f64 us");
  for (const Case& c :
       {Case{8, 8, 8}, Case{16, 16, 16}, Case{32, 32, 32}, Case{64, 64, 64}, Case{128, 128, 128},
        Case{256, 256, 256}, Case{512, 512, 512}, Case{1024, 1024, 1024}, Case{1000, 1000, 1000},
        Case{2048, 2048, 2048}, Case{1, 1024, 1024}, Case{1024, 1, 1024}, Case{1024, 1, 1040},
        Case{1, 1, 1000000}, Case{64, 10, 784}, Case{128, 784, 10}, Case{4, 4096, 4096}}) {
    std::vector<float> a(c.m * c.k, 0.5F), b(c.k * c.n, 0.25F), out(c.m * c.n), theirs(c.m * c.n);
    const hlo::DotShape s{1, c.m, c.n, c.k, 0, c.k, 1, 0, c.n, 1};
    const auto ours = [&](const jit::KernelContext& with) {
      if (!jit::dot(DType::kF32, DType::kF32, s, a.data(), b.data(), out.data(), with).ok()) std::abort();
    };
    const double seconds = best_seconds([&] { ours(context); });
    jit::KernelContext avx2 = context;
    avx2.isa = jit::Isa::kAvx2;
    const double avx2_seconds = best_seconds([&] { ours(avx2); });
    std::vector<double> da(a.begin(), a.end()), db(b.begin(), b.end()), dout(c.m * c.n);
    const double f64_seconds = best_seconds([&] {
      if (!jit::dot(DType::kF64, DType::kF64, s, da.data(), db.data(), dout.data(), context).ok())
        std::abort();
    });
    double dnnl_seconds = 0;
#ifdef LAMINA_HAVE_DNNL
    dnnl_seconds = best_seconds([&] {
      dnnl_sgemm('N', 'N', c.m, c.n, c.k, 1.0F, a.data(), c.k, b.data(), c.n, 0.0F, theirs.data(), c.n);
    });
#endif
    const double gflop = 2e-9 * static_cast<double>(c.m * c.n * c.k);
    char name[64];
    std::snprintf(name, sizeof(name), "%ld x %ld x %ld", c.m, c.n, c.k);
    std::printf("%-24s %10.2f %8.1f %8.1f %7.2f %8.1f %8.2f\n", name, seconds * 1e6, gflop / seconds,
                dnnl_seconds > 0 ? gflop / dnnl_seconds : 0.0, dnnl_seconds / seconds, gflop / avx2_seconds,
                f64_seconds * 1e6);
  }
}
