#include "jit/cpu/onednn_client.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "hlo/mutex.h"
#include "hlo/once.h"
#include "hlo/strings.h"
#include "jit/client/library_path.h"
#include "jit/cpu/gemm.h"

namespace lamina::jit {
namespace {

using hlo::ConvDim;
using hlo::ConvShape;
using hlo::DotShape;
using hlo::DType;

absl::StatusOr<const LaminaOnednnApi*> open_api() {
  const std::string path = library_path("LAMINA_ONEDNN_PATH", "liblamina_onednn.so");
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return absl::UnavailableError(str_cat("no oneDNN: ", dlerror()));
  const auto get = reinterpret_cast<LaminaOnednnGetApi>(dlsym(handle, "lamina_onednn_get_api"));
  const LaminaOnednnApi* api = get ? get(LAMINA_ONEDNN_API_VERSION) : nullptr;
  if (api) return api;
  return absl::UnavailableError(
      str_cat("no oneDNN: ", path, " is not liblamina_onednn of version ", LAMINA_ONEDNN_API_VERSION));
}

// Held while the library is loaded, and makes or drops a routine.
hlo::Mutex& library_mutex() {
  static constinit hlo::Once<hlo::Mutex> mutex;
  return mutex.get([] { return new hlo::Mutex(hlo::LockRank::kLibraries); });
}

// The library stays loaded: its code may be on some thread's stack.
const absl::StatusOr<const LaminaOnednnApi*>& api() {
  const std::lock_guard lock(library_mutex());
  static const absl::StatusOr<const LaminaOnednnApi*> opened = open_api();
  return opened;
}

std::optional<uint32_t> type_code(DType t) {
  if (t == DType::kF32) return LAMINA_ONEDNN_F32;
  if (t == DType::kBF16) return LAMINA_ONEDNN_BF16;
  return std::nullopt;
}

struct Axis {
  int64_t extent, stride;
};

void append(LaminaOnednnArray& x, Axis axis) {
  x.dims[x.rank] = axis.extent;
  // oneDNN takes no stride below 1, and never looks at that of a single element.
  x.strides[x.rank++] = axis.extent == 1 ? std::max<int64_t>(axis.stride, 1) : axis.stride;
}

LaminaOnednnArray array(uint32_t type, std::initializer_list<Axis> axes) {
  LaminaOnednnArray x{type, 0, {}, {}};
  for (const Axis& axis : axes) append(x, axis);
  return x;
}

// Multiply-adds below which handing a product over costs more than it saves.
constexpr double kLeastDotWork = 1 << 18;

// Where Lamina's own code is at least as quick, as measured (docs/performance.md): for f32 everywhere but for
// what follows. Of bf16 the library's products have instructions that round otherwise, and take half the
// time.
bool own_is_quicker(DType in, double work) {
  return in == DType::kF32 && (best_isa() != Isa::kAvx512 || work < 1 << 20);
}
// The library's tiles are as wide as four vectors.
bool own_is_quicker(DType in, const DotShape& s, double work) {
  return own_is_quicker(in, work) || (in == DType::kF32 && (s.m < 2 || s.n < 32));
}
// Images with features side by side are what the library's code reads, other ones it copies. Filters it
// copies for every run, which many positions have to pay for; windows of one position are products.
bool own_is_quicker(DType in, const ConvShape& s, double work) {
  return own_is_quicker(in, work) ||
         (in == DType::kF32 &&
          (s.input_feature_stride != 1 || s.output_feature_stride != 1 || s.output_features < 8 ||
           s.window() == 1 || s.input_batch * s.positions() < 1024));
}
constexpr const char* kOwnIsQuicker = "Lamina's own code is quicker";
constexpr size_t kMessage = 256;

int part_count(double work, int64_t extent, int threads) {
  return static_cast<int>(std::clamp<double>(work / static_cast<double>(kWorkPerThread), 1,
                                             static_cast<double>(std::min<int64_t>(extent, threads))));
}

absl::Status refused(const char* why) { return absl::UnavailableError(why); }

// Positions of padding behind the input, such that the window fits `output` times; nothing if it does not.
std::optional<int64_t> pad_high(const ConvDim& d) {
  const int64_t window = (d.filter - 1) * d.filter_dilation + 1;
  const int64_t needed = (d.output - 1) * d.stride + window - d.input - d.pad_low;
  if (needed >= 0) return needed;
  return -needed < d.stride ? std::optional<int64_t>(0) : std::nullopt;
}

}  // namespace

void OnednnRoutine::Release::operator()(LaminaOnednnRoutine* routine) const {
  const LaminaOnednnApi* dnn = *api();
  const std::lock_guard lock(library_mutex());
  dnn->release(routine);
}

std::string onednn_missing() { return std::string(api().status().message()); }

absl::StatusOr<OnednnRoutine> OnednnRoutine::matmul(DType in, DType out, const DotShape& s, int threads) {
  const auto in_type = type_code(in), out_type = type_code(out);
  if (!in_type || !out_type)
    return absl::UnavailableError(
        str_cat("oneDNN is not asked for products of ", hlo::info(in).name, " into ", hlo::info(out).name));
  const double work = static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
                      static_cast<double>(s.k);
  if (work < kLeastDotWork) return refused("the product is too small to hand over");
  if (own_is_quicker(in, s, work)) return refused(kOwnIsQuicker);
  if (!api().ok()) return api().status();
  const auto make = [&](int64_t batch, int64_t m, int64_t n) -> std::shared_ptr<LaminaOnednnRoutine> {
    const LaminaOnednnArray a = array(*in_type, {{batch, s.lhs_batch}, {m, s.lhs_m}, {s.k, s.lhs_k}}),
                            b = array(*in_type, {{batch, s.rhs_batch}, {s.k, s.rhs_k}, {n, s.rhs_n}}),
                            c = array(*out_type, {{batch, s.m * s.n}, {m, s.n}, {n, 1}});
    char why[kMessage] = "";
    const LaminaOnednnApi* dnn = *api();
    const std::lock_guard lock(library_mutex());
    return {dnn->matmul(&a, &b, &c, why, sizeof why), Release()};
  };
  const int64_t in_bytes = hlo::byte_size(in), out_bytes = hlo::byte_size(out);
  // Cut where there is most to cut.
  const bool by_batch = s.batch >= threads, by_rows = !by_batch && s.m >= s.n;
  const int64_t extent = by_batch ? s.batch : by_rows ? s.m : s.n;
  const int parts = part_count(work, extent, threads);
  OnednnRoutine made;
  std::shared_ptr<LaminaOnednnRoutine> last;
  int64_t last_size = -1;
  for (int p = 0; p < parts; ++p) {
    const int64_t from = extent * p / parts, size = extent * (p + 1) / parts - from;
    if (size != last_size)
      last = by_batch ? make(size, s.m, s.n) : by_rows ? make(s.batch, size, s.n) : make(s.batch, s.m, size);
    if (!last) return refused("oneDNN has no fast code for this product");
    last_size = size;
    made.parts_.push_back({last,
                           from *
                               (by_batch  ? s.lhs_batch
                                : by_rows ? s.lhs_m
                                          : 0) *
                               in_bytes,
                           from *
                               (by_batch  ? s.rhs_batch
                                : by_rows ? 0
                                          : s.rhs_n) *
                               in_bytes,
                           from *
                               (by_batch  ? s.m * s.n
                                : by_rows ? s.n
                                          : 1) *
                               out_bytes});
  }
  return made;
}

absl::StatusOr<OnednnRoutine> OnednnRoutine::convolution(DType in, DType out, const ConvShape& s,
                                                         int threads) {
  const auto in_type = type_code(in), out_type = type_code(out);
  if (!in_type || !out_type)
    return absl::UnavailableError(str_cat("oneDNN is not asked for convolutions of ", hlo::info(in).name,
                                          " into ", hlo::info(out).name));
  if (s.batch_groups != 1) return refused("oneDNN has no groups of the batch");
  if (s.spatial.empty() || s.spatial.size() > LAMINA_ONEDNN_MAX_SPATIAL)
    return refused("oneDNN has one to three spatial dimensions");
  const double work = static_cast<double>(s.input_batch) * static_cast<double>(s.positions()) *
                      static_cast<double>(s.output_features) * static_cast<double>(s.window()) *
                      static_cast<double>(s.filter_input);
  if (work < kLeastDotWork) return refused("the convolution is too small to hand over");
  if (own_is_quicker(in, s, work)) return refused(kOwnIsQuicker);
  if (!api().ok()) return api().status();
  const int64_t per_group = s.output_features / s.feature_groups;
  const int parts = part_count(work, s.input_batch, threads);
  LaminaOnednnConvolution shape{};
  shape.filter = array(*in_type, {{s.feature_groups, per_group * s.filter_output_stride},
                                  {per_group, s.filter_output_stride},
                                  {s.filter_input, s.filter_input_stride}});
  shape.input = array(*in_type, {{1, s.input_batch_stride}, {s.input_features, s.input_feature_stride}});
  shape.output = array(*out_type, {{1, s.output_batch_stride}, {s.output_features, s.output_feature_stride}});
  for (size_t d = 0; d < s.spatial.size(); ++d) {
    const ConvDim& x = s.spatial[d];
    const std::optional<int64_t> high = pad_high(x);
    if (x.input_dilation != 1 || x.reversed || x.input == 0 || x.pad_low < 0 || !high)
      return refused("oneDNN has no input dilation, reversed windows or cut-off edges");
    append(shape.input, {x.input, x.input_stride});
    append(shape.filter, {x.filter, x.filter_stride});
    append(shape.output, {x.output, x.output_stride});
    shape.stride[d] = x.stride;
    shape.dilation[d] = x.filter_dilation;
    shape.pad_low[d] = x.pad_low;
    shape.pad_high[d] = *high;
  }
  OnednnRoutine made;
  for (int p = 0; p < parts; ++p) {
    const int64_t from = s.input_batch * p / parts, size = s.input_batch * (p + 1) / parts - from;
    std::shared_ptr<LaminaOnednnRoutine> routine;
    if (!made.parts_.empty() && shape.input.dims[0] == size) {
      routine = made.parts_.back().routine;
    } else {
      shape.input.dims[0] = shape.output.dims[0] = size;
      char why[kMessage] = "";
      const LaminaOnednnApi* dnn = *api();
      const std::lock_guard lock(library_mutex());
      routine.reset(dnn->convolution(&shape, why, sizeof why), Release());
    }
    if (!routine) return refused("oneDNN has no fast code for this convolution");
    made.parts_.push_back({routine, from * s.input_batch_stride * hlo::byte_size(in), 0,
                           from * s.output_batch_stride * hlo::byte_size(out)});
  }
  return made;
}

absl::Status OnednnRoutine::run_part(const Part& part, const void* a, const void* b, void* c,
                                     const KernelContext& context) const {
  const LaminaOnednnApi& dnn = **api();
  BufferRef scratch;
  if (const size_t bytes = dnn.scratch_bytes(part.routine.get()); bytes > 0) {
    absl::StatusOr<BufferRef> made = context.scratch->allocate(static_cast<int64_t>(bytes));
    if (!made.ok()) return made.status();
    scratch = *std::move(made);
  }
  char why[kMessage] = "";
  if (dnn.run(part.routine.get(), static_cast<const char*>(a) + part.a, static_cast<const char*>(b) + part.b,
              static_cast<char*>(c) + part.c, scratch ? pointer(scratch->address()) : nullptr, why,
              sizeof why) != 0)
    return absl::InternalError(str_cat("oneDNN failed: ", why));
  return absl::OkStatus();
}

absl::Status OnednnRoutine::run(const void* a, const void* b, void* c, const KernelContext& context) const {
  std::mutex mutex;
  absl::Status failed;
  const auto one = [&](int64_t p) {
    if (context.cancelled()) return;
    absl::Status s = run_part(parts_[p], a, b, c, context);
    if (s.ok()) return;
    const std::lock_guard lock(mutex);
    failed.Update(std::move(s));
  };
  if (parts_.size() > 1)
    context.parallel(static_cast<int64_t>(parts_.size()), one);
  else
    one(0);
  if (!failed.ok()) return failed;
  return context.cancelled() ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
}

}  // namespace lamina::jit
