// Convolutions against oneDNN, one thread each: best of several runs.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "jit/cpu/convolution.h"
#include "tests/bench/one_thread.h"

#ifdef LAMINA_HAVE_DNNL
#include <dnnl.hpp>
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
    const auto t0 = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - t0).count());
  }
  return best;
}

struct Case {
  int64_t batch, image, from, to, filter, pad;
};

#ifdef LAMINA_HAVE_DNNL
// oneDNN in the layouts it likes best, reorders not counted.
double dnnl_seconds(const Case& c) {
  using namespace dnnl;
  const int64_t out = c.image + 2 * c.pad - c.filter + 1;
  engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  const auto any = [](memory::dims d) {
    return memory::desc(d, memory::data_type::f32, memory::format_tag::any);
  };
  convolution_forward::desc desc(prop_kind::forward_inference, algorithm::convolution_direct,
                                 any({c.batch, c.from, c.image, c.image}),
                                 any({c.to, c.from, c.filter, c.filter}), any({c.batch, c.to, out, out}),
                                 {1, 1}, {c.pad, c.pad}, {c.pad, c.pad});
  convolution_forward::primitive_desc chosen(desc, cpu);
  memory x(chosen.src_desc(), cpu), w(chosen.weights_desc(), cpu), y(chosen.dst_desc(), cpu);
  std::fill_n(static_cast<char*>(x.get_data_handle()), chosen.src_desc().get_size(), 0);
  std::fill_n(static_cast<char*>(w.get_data_handle()), chosen.weights_desc().get_size(), 0);
  convolution_forward conv(chosen);
  return best_seconds([&] {
    conv.execute(queue, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});
    queue.wait();
  });
}
#endif

}  // namespace

int main(int, char** argv) {
  testing::run_openmp_on_one_thread(argv);
  jit::KernelContext context;
  context.scratch = &jit::host_device().memory();
  std::printf("%-44s %12s %12s %12s\n", "f32", "NHWC GFLOP/s", "NCHW", "oneDNN");
  for (const Case& c :
       {Case{64, 28, 1, 6, 5, 2}, Case{64, 14, 6, 16, 5, 0}, Case{8, 56, 64, 64, 3, 1},
        Case{8, 28, 128, 128, 3, 1}, Case{8, 14, 256, 256, 3, 1}, Case{8, 28, 256, 64, 1, 0}}) {
    const int64_t out = c.image + 2 * c.pad - c.filter + 1;
    std::vector<float> x(c.batch * c.from * c.image * c.image, 0.5F),
        w(c.to * c.from * c.filter * c.filter, 0.25F), y(c.batch * c.to * out * out);
    const double gflop =
        2e-9 * static_cast<double>(c.batch * out * out * c.to * c.from * c.filter * c.filter);
    double rate[2];
    for (int nchw = 0; nchw < 2; ++nchw) {
      hlo::ConvShape s;
      s.input_batch = c.batch;
      s.input_features = s.filter_input = c.from;
      s.output_features = c.to;
      s.input_batch_stride = c.from * c.image * c.image;
      s.output_batch_stride = c.to * out * out;
      s.input_feature_stride = nchw ? c.image * c.image : 1;
      s.output_feature_stride = nchw ? out * out : 1;
      s.filter_input_stride = nchw ? c.filter * c.filter : c.to;
      s.filter_output_stride = nchw ? c.from * c.filter * c.filter : 1;
      s.spatial.resize(2);
      for (int d = 0; d < 2; ++d) {
        hlo::ConvDim& dim = s.spatial[static_cast<size_t>(d)];
        dim.input = c.image, dim.filter = c.filter, dim.output = out, dim.pad_low = c.pad;
        dim.input_stride = (d ? 1 : c.image) * (nchw ? 1 : c.from);
        dim.output_stride = (d ? 1 : out) * (nchw ? 1 : c.to);
        dim.filter_stride = (d ? 1 : c.filter) * (nchw ? 1 : c.from * c.to);
      }
      rate[nchw] =
          gflop / best_seconds([&] {
            if (!jit::convolution(DType::kF32, DType::kF32, s, x.data(), w.data(), y.data(), context).ok())
              std::abort();
          });
    }
    double theirs = 0;
#ifdef LAMINA_HAVE_DNNL
    theirs = gflop / dnnl_seconds(c);
#endif
    char name[80];
    std::snprintf(name, sizeof(name), "%ld x %ldx%ld, %ld -> %ld, window %ld", c.batch, c.image, c.image,
                  c.from, c.to, c.filter);
    std::printf("%-44s %12.1f %12.1f %12.1f\n", name, rate[0], rate[1], theirs);
  }
}
