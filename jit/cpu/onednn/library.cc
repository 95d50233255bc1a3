// liblamina_onednn: the C interface over oneDNN 2 and 3.
#include <dnnl.hpp>
#ifdef LAMINA_HAVE_OPENMP
#include <omp.h>
#endif

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/cpu/onednn_api.h"

using dnnl::memory;

namespace {

const dnnl::engine& cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

constexpr size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

// A primitive, and the copies of operands into the layouts that it asks for.
struct LaminaOnednnRoutine {
  static constexpr int kArguments = 3;
  static constexpr int kNames[kArguments] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};

  dnnl::primitive primitive;
  memory::desc given[kArguments], wanted[kArguments];
  dnnl::reorder reorders[kArguments];  // of operands into, of the result out of the wanted layout
  memory::desc reorder_scratch[kArguments];
  memory::desc scratch;

  bool copies(int i) const { return given[i] != wanted[i]; }

  size_t scratch_bytes() const {
    size_t bytes = aligned(scratch.get_size());
    for (int i = 0; i < kArguments; ++i)
      if (copies(i)) bytes += aligned(wanted[i].get_size()) + aligned(reorder_scratch[i].get_size());
    return bytes;
  }

  void run(const void* a, const void* b, void* c, void* space) const {
    auto take = [at = static_cast<char*>(space)](const memory::desc& d) mutable {
      memory m(d, cpu(), at);
      at += aligned(d.get_size());
      return m;
    };
    dnnl::stream queue(cpu());
    void* const pointers[kArguments] = {const_cast<void*>(a), const_cast<void*>(b), c};
    std::unordered_map<int, memory> arguments;
    memory outside[kArguments], reorder_space[kArguments];
    for (int i = 0; i < kArguments; ++i) {
      outside[i] = memory(given[i], cpu(), pointers[i]);
      arguments[kNames[i]] = copies(i) ? take(wanted[i]) : outside[i];
      if (copies(i)) reorder_space[i] = take(reorder_scratch[i]);
    }
    auto move = [&](int i, const memory& from, const memory& to) {
      reorders[i].execute(
          queue, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, reorder_space[i]}});
    };
    for (int i = 0; i < kArguments - 1; ++i)
      if (copies(i)) move(i, outside[i], arguments[kNames[i]]);
    arguments[DNNL_ARG_SCRATCHPAD] = take(scratch);
    primitive.execute(queue, arguments);
    constexpr int kResult = kArguments - 1;
    if (copies(kResult)) move(kResult, arguments[DNNL_ARG_DST], outside[kResult]);
    queue.wait();
  }
};

namespace {

memory::desc described(const LaminaOnednnArray& x, bool any = false) {
  const memory::dims dims(x.dims, x.dims + x.rank), strides(x.strides, x.strides + x.rank);
  const auto type = x.type == LAMINA_ONEDNN_BF16 ? memory::data_type::bf16 : memory::data_type::f32;
  return any ? memory::desc(dims, type, memory::format_tag::any) : memory::desc(dims, type, strides);
}

dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

// The library's plain loops, which are there to be right and not to be fast.
template <typename Chosen>
bool is_reference(const Chosen& chosen) {
  return std::strncmp(chosen.impl_info_str(), "ref", 3) == 0;
}
// A convolution as a product of patches, which Lamina's own is too.
template <typename Chosen>
bool is_product(const Chosen& chosen) {
  return std::strstr(chosen.impl_info_str(), "gemm:") != nullptr;
}

template <typename Primitive, typename Chosen>
LaminaOnednnRoutine* routine(const Chosen& chosen, const memory::desc (&given)[3]) {
  auto* r = new LaminaOnednnRoutine{Primitive(chosen), {}, {}, {}, {}, chosen.scratchpad_desc()};
  const memory::desc wanted[] = {chosen.src_desc(), chosen.weights_desc(), chosen.dst_desc()};
  for (int i = 0; i < LaminaOnednnRoutine::kArguments; ++i) {
    r->given[i] = given[i];
    r->wanted[i] = wanted[i];
    if (!r->copies(i)) continue;
    const bool is_result = i == LaminaOnednnRoutine::kArguments - 1;
    const dnnl::reorder::primitive_desc copy(cpu(), is_result ? wanted[i] : given[i], cpu(),
                                             is_result ? given[i] : wanted[i], own_scratch());
    r->reorders[i] = dnnl::reorder(copy);
    r->reorder_scratch[i] = copy.scratchpad_desc();
  }
  return r;
}

void say(const char* what, char* error, size_t size) { std::snprintf(error, size, "%s", what); }

template <typename F>
auto guarded(char* error, size_t size, F f) -> decltype(f()) {
  try {
#ifdef LAMINA_HAVE_OPENMP
    omp_set_num_threads(1);  // of this thread: the caller has threads of its own
#endif
    return f();
  } catch (const std::exception& e) {
    say(e.what(), error, size);
    return {};
  }
}

LaminaOnednnRoutine* make_matmul(const LaminaOnednnArray* a, const LaminaOnednnArray* b,
                                 const LaminaOnednnArray* c, char* error, size_t size) {
  return guarded(error, size, [&]() -> LaminaOnednnRoutine* {
    const memory::desc given[] = {described(*a), described(*b), described(*c)};
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::matmul::primitive_desc chosen(cpu(), given[0], given[1], given[2], own_scratch());
#else
    const dnnl::matmul::primitive_desc chosen({given[0], given[1], given[2]}, own_scratch(), cpu());
#endif
    if (!is_reference(chosen)) return routine<dnnl::matmul>(chosen, given);
    say("oneDNN has only its reference code for this product", error, size);
    return nullptr;
  });
}

LaminaOnednnRoutine* make_convolution(const LaminaOnednnConvolution* s, char* error, size_t size) {
  return guarded(error, size, [&]() -> LaminaOnednnRoutine* {
    const uint32_t spatial = s->input.rank - 2;
    const memory::desc given[] = {described(s->input), described(s->filter), described(s->output)};
    const auto list = [&](const int64_t* v) { return memory::dims(v, v + spatial); };
    memory::dims dilation = list(s->dilation);
    for (auto& d : dilation) --d;
    const auto forward = dnnl::prop_kind::forward_inference;
    const auto direct = dnnl::algorithm::convolution_direct;
    // The images as they lie; where that has no fast code, in the library's layout.
    for (const bool any : {false, true}) {
      const memory::desc x = described(s->input, any), w = described(s->filter, true),
                         y = described(s->output, any);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_forward::primitive_desc chosen(cpu(), forward, direct, x, w, y, list(s->stride),
                                                             dilation, list(s->pad_low), list(s->pad_high),
                                                             own_scratch());
#else
      const dnnl::convolution_forward::primitive_desc chosen(
          {forward, direct, x, w, y, list(s->stride), dilation, list(s->pad_low), list(s->pad_high)},
          own_scratch(), cpu());
#endif
      if (!is_reference(chosen) && !is_product(chosen))
        return routine<dnnl::convolution_forward>(chosen, given);
    }
    say("oneDNN has no code of its own kind for this convolution", error, size);
    return nullptr;
  });
}

int run(const LaminaOnednnRoutine* r, const void* a, const void* b, void* c, void* scratch, char* error,
        size_t size) {
  const bool done = guarded(error, size, [&] {
    r->run(a, b, c, scratch);
    return true;
  });
  return done ? 0 : 1;
}

constexpr LaminaOnednnApi kApi = {LAMINA_ONEDNN_API_VERSION,
                                  make_matmul,
                                  make_convolution,
                                  [](const LaminaOnednnRoutine* r) { return r->scratch_bytes(); },
                                  run,
                                  [](LaminaOnednnRoutine* r) { delete r; }};

}  // namespace

extern "C" __attribute__((visibility("default"))) const LaminaOnednnApi* lamina_onednn_get_api(
    uint32_t version) {
  return version == LAMINA_ONEDNN_API_VERSION ? &kApi : nullptr;
}
