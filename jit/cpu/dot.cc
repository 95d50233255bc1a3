#include "jit/cpu/dot.h"

#include <complex>
#include <mutex>
#include <optional>

#include "jit/cpu/gemm.h"
#include "jit/cpu/gemm_source.h"
#include "jit/cpu/strided_copy.h"

namespace lamina::jit {
namespace {

using hlo::DotDim;
using hlo::DotGeneralShape;
using hlo::DotShape;
using hlo::DType;

// Where the factors of each product of a batch begin, in elements.
class Batches {
 public:
  // By the strides of `s`, but where there are offsets.
  explicit Batches(const DotShape& s, std::vector<int64_t> lhs = {}, std::vector<int64_t> rhs = {})
      : lhs_stride_(s.lhs_batch),
        rhs_stride_(s.rhs_batch),
        lhs_offsets_(std::move(lhs)),
        rhs_offsets_(std::move(rhs)) {}

  int64_t lhs(int64_t i) const { return lhs_offsets_.empty() ? i * lhs_stride_ : lhs_offsets_[i]; }
  int64_t rhs(int64_t i) const { return rhs_offsets_.empty() ? i * rhs_stride_ : rhs_offsets_[i]; }
  bool have_strides() const { return lhs_offsets_.empty() && rhs_offsets_.empty(); }

 private:
  int64_t lhs_stride_, rhs_stride_;
  std::vector<int64_t> lhs_offsets_, rhs_offsets_;
};

template <typename A, typename B, typename Out>
struct DotProblem {
  A a;
  B b;
  GemmOutput<Out> out;
};

// A vector times a matrix [outer][k], of which one stride is 1, in place: c[j] for j < outer.
template <typename T>
struct VectorMatrix {
  const T* x;  // k at unit stride
  const T* matrix;
  int64_t outer_stride, k_stride;
  T* c;
  bool beyond_cache;  // the matrix
};

constexpr int64_t kVectorChunk = 512;  // outer elements per task
// Pairs of vectors per task, if they are not so long that one keeps the processor busy.
constexpr int64_t kDotsTogether = 64, kLongVector = 8 * hlo::kDotBlock;

// Rows that are read at once, each from its beginning to its end. Of a matrix that no cache holds the
// hardware follows so many by itself.
constexpr int64_t kRowsTogether = 16, kStreams = 8;
constexpr int64_t kBeyondCache = 16 << 20;  // bytes
// Rows that are multiples of this apart lie in the same sets of the first-level cache, which hold fewer than
// kRowsTogether: half as many are read at once, at two places each.
constexpr int64_t kSetBytes = 4 << 10;

template <typename T>
void vector_matrix(const GemmKernels<T>& kernels, const VectorMatrix<T>& p, int64_t begin, int64_t end,
                   int64_t k) {
  const bool by_two = kernels.two_blocks_times && p.k_stride == 1 && !p.beyond_cache &&
                      k >= 2 * hlo::kDotBlock &&
                      p.outer_stride * static_cast<int64_t>(sizeof(T)) % kSetBytes == 0;
  const int64_t together = by_two           ? kernels.two_block_rows
                           : p.beyond_cache ? std::max<int64_t>(kStreams, kernels.lanes)
                                            : kRowsTogether;
  if (p.k_stride == 1 && end - begin > together) {
    for (int64_t i = begin; i < end; i += together)
      vector_matrix(kernels, p, i, std::min(end, i + together), k);
    return;
  }
  for (int64_t k0 = 0; k0 < k; k0 += hlo::kDotBlock) {
    const int64_t kc = std::min(hlo::kDotBlock, k - k0);
    const T* const m = p.matrix + begin * p.outer_stride + k0 * p.k_stride;
    if (by_two && end - begin == together && k - k0 >= 2 * hlo::kDotBlock) {
      kernels.two_blocks_times(hlo::kDotBlock, p.x + k0, m, p.outer_stride, p.c + begin, k0 == 0);
      k0 += hlo::kDotBlock;
      continue;
    }
    if (p.k_stride == 1)
      kernels.rows_times(kc, p.x + k0, m, p.outer_stride, p.c + begin, end - begin, k0 == 0);
    else
      kernels.columns_times(kc, p.x + k0, m, p.k_stride, p.c + begin, end - begin, k0 == 0);
  }
}

// The product of what source(data, outer_stride, k_stride) packs, whose rows have `terms` elements; those of
// the arrays are of `width` bytes.
template <typename T, typename Out, typename Source, typename Store>
absl::Status packed_dot(const DotShape& s, const Batches& batches, int64_t terms, int64_t width,
                        const char* a, const char* b, Out* c, const KernelContext& context, Source source,
                        Store store) {
  // The lanes lie along columns; a narrow result has more of them the other way round, and a product does not
  // care.
  const bool turn = s.n < gemm_kernels<T>(usable_isa(context.isa)).lanes / 2 && s.m > s.n;
  const auto problem = [&](int64_t i) {
    const auto left = source(a + batches.lhs(i) * width, s.lhs_m, s.lhs_k),
               right = source(b + batches.rhs(i) * width, s.rhs_n, s.rhs_k);
    using Problem = DotProblem<decltype(left), decltype(right), Out>;
    Out* const to = c + i * s.m * s.n;
    return turn ? Problem{right, left, {to, 1, s.n}} : Problem{left, right, {to, s.n, 1}};
  };
  const GemmSize size{s.batch, turn ? s.n : s.m, turn ? s.m : s.n, terms, hlo::kDotBlock};
  return gemm<T, Out>(size, context, problem, store);
}

constexpr int64_t kTinyTogether = 4096;  // products per task

// Whether an [outer, k] matrix lies without gaps, in either order.
bool is_dense(int64_t outer, int64_t k, int64_t outer_stride, int64_t k_stride) {
  const bool within = (outer_stride == k || outer == 1) && (k_stride == 1 || k == 1);
  const bool across = (outer_stride == 1 || outer == 1) && (k_stride == outer || k == 1);
  return within || across;
}

// How to make products of which several fit a vector, or one does; none if they do not.
template <typename T>
std::optional<TinyDots<T>> tiny_dots(const DotShape& s) {
  constexpr int64_t kLanes = TinyDots<T>::kLanes;
  if (s.k < 1 || s.k > kMaxTinyTerms || s.m * s.k > kLanes || s.n * s.k > kLanes || s.m * s.n > kLanes)
    return std::nullopt;
  const auto is_in_order = [](int64_t stride, int64_t size) { return stride == size || stride == 0; };
  if (!is_dense(s.m, s.k, s.lhs_m, s.lhs_k) || !is_dense(s.n, s.k, s.rhs_n, s.rhs_k) ||
      !is_in_order(s.lhs_batch, s.m * s.k) || !is_in_order(s.rhs_batch, s.n * s.k))
    return std::nullopt;
  TinyDots<T> out{.terms = s.k,
                  .together = kLanes / std::max({s.m * s.k, s.n * s.k, s.m * s.n}),
                  .a_size = s.m * s.k,
                  .b_size = s.n * s.k,
                  .c_size = s.m * s.n,
                  .a_step = s.lhs_batch,
                  .b_step = s.rhs_batch,
                  .a_lane = {},
                  .b_lane = {}};
  for (int64_t i = 0; i < out.together * out.c_size; ++i) {
    const int64_t product = i / out.c_size, row = i % out.c_size / s.n, column = i % s.n;
    for (int64_t k = 0; k < s.k; ++k) {
      out.a_lane[k][i] = product * s.lhs_batch + (s.m > 1 ? row * s.lhs_m : 0) + (s.k > 1 ? k * s.lhs_k : 0);
      out.b_lane[k][i] =
          product * s.rhs_batch + (s.n > 1 ? column * s.rhs_n : 0) + (s.k > 1 ? k * s.rhs_k : 0);
    }
  }
  return out;
}

absl::Status dot(DType in, DType out, const DotShape& s, const Batches& batches, const void* a, const void* b,
                 void* c, const KernelContext& context);

// Factors of f16 and bf16 of so few elements, and as many of the result, are widened as a whole, for
// products of f32: packing would widen them in pieces, and a product of one tile would have to be packed.
// Several of a batch are widened at once, as many as the first-level cache holds.
constexpr int64_t kWidenedElements = 128 << 10, kWidenedTogether = 4 << 10;

bool is_widened(const DotShape& s, const Batches& batches) {
  return batches.have_strides() && s.k > 0 && s.m * s.k + s.k * s.n <= kWidenedElements &&
         s.m * s.n <= kWidenedElements && is_dense(s.m, s.k, s.lhs_m, s.lhs_k) &&
         is_dense(s.n, s.k, s.rhs_n, s.rhs_k);
}

using Widen = void (*)(float* to, const uint16_t* from, int64_t n);

template <typename Out, typename Store>
absl::Status widened_dot(Widen widen, const DotShape& s, const void* a, const void* b, Out* c,
                         const KernelContext& context, Store store) {
  const int64_t lhs = s.m * s.k, rhs = s.k * s.n, out = s.m * s.n;
  const int64_t together = std::clamp<int64_t>(kWidenedTogether / (lhs + rhs + out), 1, s.batch);
  // `each` factors of `size` elements; the number of elements from one to the next among the widened ones.
  const auto widen_factor = [&](float* to, const void* from, int64_t first, int64_t each, int64_t stride,
                                int64_t size) {
    const uint16_t* const begin = static_cast<const uint16_t*>(from) + first * stride;
    if (stride == 0) each = 1;
    if (stride == size)
      widen(to, begin, each * size);
    else
      for (int64_t i = 0; i < each; ++i) widen(to + i * size, begin + i * stride, size);
    return stride == 0 ? 0 : size;
  };
  const auto some = [&](int64_t first, int64_t each, const KernelContext& inner) -> absl::Status {
    if (inner.cancelled()) return absl::CancelledError("a dot was interrupted");
    absl::StatusOr<BufferRef> buffer =
        inner.scratch->allocate(each * (lhs + rhs + out) * static_cast<int64_t>(sizeof(float)));
    if (!buffer.ok()) return buffer.status();
    float* const left = static_cast<float*>(pointer((*buffer)->address()));
    float* const right = left + each * lhs;
    float* const sums = right + each * rhs;
    DotShape part = s;
    part.batch = each;
    part.lhs_batch = widen_factor(left, a, first, each, s.lhs_batch, lhs);
    part.rhs_batch = widen_factor(right, b, first, each, s.rhs_batch, rhs);
    if constexpr (std::is_same_v<Out, float>) {
      return dot(DType::kF32, DType::kF32, part, Batches(part), left, right, c + first * out, inner);
    } else {
      absl::Status done = dot(DType::kF32, DType::kF32, part, Batches(part), left, right, sums, inner);
      if (done.ok())
        store_row(gemm_kernels<float>(usable_isa(inner.isa)), c + first * out, sums, each * out, store);
      return done;
    }
  };
  const int64_t tasks = ceil_div(s.batch, together);
  if (tasks == 1) return some(0, s.batch, context);
  const bool in_parallel = context.parallel.threads > 1 && s.batch * lhs * s.n >= kWorkPerThread;
  KernelContext alone = context;
  alone.parallel = {};
  std::mutex mutex;
  absl::Status failed;
  const auto task = [&](int64_t t) {
    absl::Status done = some(t * together, std::min(together, s.batch - t * together), alone);
    if (done.ok()) return;
    const std::lock_guard lock(mutex);
    failed.Update(std::move(done));
  };
  if (in_parallel)
    context.parallel(tasks, task);
  else
    for (int64_t t = 0; t < tasks; ++t) task(t);
  return failed;
}

// T accumulates, Out is stored.
template <typename T, typename Out, typename Store>
absl::Status real_dot(DType in, const DotShape& s, const Batches& batches, const void* a, const void* b,
                      Out* c, const KernelContext& context, Store store) {
  const char* const lhs = static_cast<const char*>(a);
  const char* const rhs = static_cast<const char*>(b);
  const int64_t width = hlo::byte_size(in);
  const GemmKernels<T>& kernels = gemm_kernels<T>(usable_isa(context.isa));
  if constexpr (std::is_same_v<T, float>) {
    const Widen widen = in == DType::kF16    ? kernels.widen_f16
                        : in == DType::kBF16 ? kernels.widen_bf16
                                             : nullptr;
    if (widen && is_widened(s, batches)) return widened_dot(widen, s, a, b, c, context, store);
  }
  if (s.m == 1 && s.n == 1 && s.k > 0 && loads_unchanged<T>(in)) {
    const bool in_rows = s.lhs_k == 1 && s.rhs_k == 1;
    const int64_t together = s.k < kLongVector ? kDotsTogether : 1;
    const auto some = [&](int64_t task) {
      if (context.cancelled()) return;
      const int64_t first = task * together, count = std::min(together, s.batch - first);
      const T* const left = reinterpret_cast<const T*>(lhs) + first * s.lhs_batch;
      const T* const right = reinterpret_cast<const T*>(rhs) + first * s.rhs_batch;
      T sums[kDotsTogether];
      if (in_rows)
        kernels.row_dots(s.k, hlo::kDotBlock, left, s.lhs_batch, right, s.rhs_batch, sums, count);
      else
        for (int64_t i = 0; i < count; ++i)
          sums[i] = kernels.vector_dot(s.k, hlo::kDotBlock, left + i * s.lhs_batch, s.lhs_k,
                                       right + i * s.rhs_batch, s.rhs_k);
      for (int64_t i = 0; i < count; ++i) c[first + i] = store(sums[i]);
    };
    const int64_t tasks = ceil_div(s.batch, together);
    if (tasks > 1 && s.batch * s.k >= kWorkPerThread)
      context.parallel(tasks, some);
    else
      for (int64_t t = 0; t < tasks; ++t) some(t);
    return context.cancelled() ? absl::CancelledError("a dot was interrupted") : absl::OkStatus();
  }
  if constexpr (std::is_same_v<T, Out> && std::is_floating_point_v<T>) {
    if (kernels.tiny_dots && s.batch > 1 && loads_unchanged<T>(in) && batches.have_strides()) {
      if (const std::optional<TinyDots<T>> plan = tiny_dots<T>(s)) {
        const auto some = [&](int64_t task) {
          if (context.cancelled()) return;
          const int64_t first = task * kTinyTogether, count = std::min(kTinyTogether, s.batch - first);
          kernels.tiny_dots(*plan, count, reinterpret_cast<const T*>(lhs) + first * s.lhs_batch,
                            reinterpret_cast<const T*>(rhs) + first * s.rhs_batch, c + first * plan->c_size);
        };
        const int64_t tasks = ceil_div(s.batch, kTinyTogether);
        if (tasks > 1 && s.batch * plan->c_size * s.k >= kWorkPerThread)
          context.parallel(tasks, some);
        else
          for (int64_t t = 0; t < tasks; ++t) some(t);
        return context.cancelled() ? absl::CancelledError("a dot was interrupted") : absl::OkStatus();
      }
    }
  }
  if constexpr (std::is_same_v<T, Out>) {
    // A matrix and a vector whose elements lie as the kernels want them.
    const bool by_row = s.n == 1 && s.rhs_k == 1 && (s.lhs_k == 1 || s.lhs_m == 1);
    const bool by_column = s.m == 1 && s.lhs_k == 1 && (s.rhs_k == 1 || s.rhs_n == 1);
    if (loads_unchanged<T>(in) && s.k > 0 && (by_row || by_column)) {
      const int64_t outer = by_row ? s.m : s.n;
      const int64_t chunks = ceil_div(outer, kVectorChunk);
      const bool beyond_cache = outer * s.k > kBeyondCache / static_cast<int64_t>(sizeof(T));
      const auto work = [&](int64_t task) {
        if (context.cancelled()) return;
        const int64_t i = task / chunks, begin = task % chunks * kVectorChunk;
        const T* const left = reinterpret_cast<const T*>(lhs) + batches.lhs(i);
        const T* const right = reinterpret_cast<const T*>(rhs) + batches.rhs(i);
        const VectorMatrix<T> p =
            by_row ? VectorMatrix<T>{right, left, s.lhs_m, s.lhs_k, c + i * outer, beyond_cache}
                   : VectorMatrix<T>{left, right, s.rhs_n, s.rhs_k, c + i * outer, beyond_cache};
        vector_matrix(kernels, p, begin, std::min(outer, begin + kVectorChunk), s.k);
      };
      const int64_t tasks = s.batch * chunks;
      if (tasks > 1 && static_cast<double>(s.batch) * static_cast<double>(outer) * static_cast<double>(s.k) >=
                           kWorkPerThread)
        context.parallel(tasks, work);
      else
        for (int64_t t = 0; t < tasks; ++t) work(t);
      return context.cancelled() ? absl::CancelledError("a dot was interrupted") : absl::OkStatus();
    }
  }
  const auto source = [&](const char* data, int64_t outer_stride, int64_t k_stride) {
    return StridedSource<T>{data, in, outer_stride, k_stride};
  };
  return packed_dot<T>(s, batches, s.k, width, lhs, rhs, c, context, source, store);
}

// Products of bytes, whose 32-bit sums wrap.
template <typename Byte>
absl::Status byte_dot(DType out, const DotShape& s, const Batches& batches, const void* a, const void* b,
                      void* c, const KernelContext& context) {
  const auto source = [&](const char* data, int64_t outer_stride, int64_t k_stride) {
    return PairSource<Byte>{reinterpret_cast<const Byte*>(data), outer_stride, k_stride, s.k};
  };
  const auto stored_as = [&]<typename Out>(Out* to) {
    using Sum = std::conditional_t<std::is_signed_v<Byte>, int32_t, uint32_t>;
    return packed_dot<Int16Pair>(s, batches, ceil_div(s.k, 2), 1, static_cast<const char*>(a),
                                 static_cast<const char*>(b), to, context, source,
                                 [](Int16Pair x) { return static_cast<Out>(static_cast<Sum>(x)); });
  };
  switch (hlo::byte_size(out)) {
    case 1:
      return stored_as(static_cast<uint8_t*>(c));
    case 2:
      return stored_as(static_cast<uint16_t*>(c));
    case 4:
      return stored_as(static_cast<Int16Pair*>(c));
    default:
      return stored_as(static_cast<uint64_t*>(c));
  }
}
// Fewer terms than this have a sum of 32 bits.
constexpr int64_t kNarrowSums = 1 << 16;

template <typename P>
absl::Status complex_dot(DType in, const DotShape& s, const Batches& batches, const void* a, const void* b,
                         void* c, const KernelContext& context) {
  using Element = std::complex<P>;
  using Rows = ComplexRows<P, StridedSource<Element>>;
  using Cols = ComplexCols<P, StridedSource<Element>>;
  const char* const lhs = static_cast<const char*>(a);
  const char* const rhs = static_cast<const char*>(b);
  const int64_t width = sizeof(Element);
  const auto problem = [&](int64_t i) {
    return DotProblem<Rows, Cols, P>{{{lhs + batches.lhs(i) * width, in, s.lhs_m, s.lhs_k}},
                                     {{rhs + batches.rhs(i) * width, in, s.rhs_n, s.rhs_k}},
                                     {static_cast<P*>(c) + i * s.m * s.n * 2, s.n * 2, 1}};
  };
  return gemm<P, P>({s.batch, s.m, 2 * s.n, 2 * s.k, 2 * hlo::kDotBlock}, context, problem,
                    [](P x) { return x; });
}

absl::Status dot(DType in, DType out, const DotShape& s, const Batches& batches, const void* a, const void* b,
                 void* c, const KernelContext& context) {
  if (absl::Status types = hlo::check_dot_types(in, out); !types.ok()) return types;
  // What is below divides by the sizes of results.
  if (s.batch == 0 || s.m == 0 || s.n == 0) return absl::OkStatus();
  if (hlo::byte_size(out) < 8 || s.k < kNarrowSums) {
    if (in == DType::kS8) return byte_dot<int8_t>(out, s, batches, a, b, c, context);
    if (in == DType::kU8) return byte_dot<uint8_t>(out, s, batches, a, b, c, context);
  }
  return with_result_type(
      out,
      [&]<typename T, typename Out>(auto store) {
        return real_dot<T>(in, s, batches, a, b, static_cast<Out*>(c), context, store);
      },
      [&]<typename P>() { return complex_dot<P>(in, s, batches, a, b, c, context); });
}

// Smaller matrices whose batch has no single stride, and vectors that give one number each, are copied to
// where they have one.
constexpr int64_t kLeastInPlace = 64;

// Of each index of the batch, in elements.
std::vector<int64_t> batch_offsets(const std::vector<DotDim>& batch, int64_t DotDim::*stride) {
  std::vector<int64_t> out{0};
  for (const DotDim& d : batch) {
    std::vector<int64_t> next;
    next.reserve(out.size() * static_cast<size_t>(d.extent));
    for (const int64_t offset : out)
      for (int64_t i = 0; i < d.extent; ++i) next.push_back(offset + i * (d.*stride));
    out = std::move(next);
  }
  return out;
}

// The operand's strides over [batch, outer, k], the operand copied into `copy` where its own do not
// collapse.
struct DotOperand {
  const void* data;
  int64_t batch, outer, k;
  std::vector<int64_t> offsets = {};  // in place of the batch's stride
};
absl::StatusOr<DotOperand> operand(const void* data, int64_t width, const DotGeneralShape& s,
                                   const std::vector<DotDim>& outer, int64_t DotDim::*stride, BufferRef& copy,
                                   const KernelContext& context) {
  const auto batch_stride = collapsed(s.batch, stride), outer_stride = collapsed(outer, stride),
             k_stride = collapsed(s.k, stride);
  const int64_t k = total_extent(s.k), rows = total_extent(outer);
  if (outer_stride && k_stride) {
    if (batch_stride) return DotOperand{data, *batch_stride, *outer_stride, *k_stride};
    const bool gives_one = total_extent(s.m) * total_extent(s.n) == 1;
    if (!gives_one && rows * k >= kLeastInPlace)
      return DotOperand{data, 0, *outer_stride, *k_stride, batch_offsets(s.batch, stride)};
  }
  std::vector<DotDim> dims = s.batch;
  dims.insert(dims.end(), outer.begin(), outer.end());
  dims.insert(dims.end(), s.k.begin(), s.k.end());
  std::vector<int64_t> extents, from;
  for (const DotDim& d : dims) {
    extents.push_back(d.extent);
    from.push_back(d.*stride);
  }
  const auto bytes = checked_bytes(extents, width);
  if (!bytes) return absl::InvalidArgumentError("an operand of a dot has more bytes than fit 64 bits");
  absl::StatusOr<BufferRef> buffer = context.scratch->allocate(*bytes);
  if (!buffer.ok()) return buffer.status();
  copy = *std::move(buffer);
  const StridedCopy rows_first(extents, from, width);
  if (absl::Status status = rows_first.run(data, pointer(copy->address()), context); !status.ok())
    return status;
  return DotOperand{pointer(copy->address()), rows * k, k, 1};
}

}  // namespace

absl::Status dot(DType in, DType out, const DotShape& s, const void* a, const void* b, void* c,
                 const KernelContext& context) {
  return dot(in, out, s, Batches(s), a, b, c, context);
}

absl::Status dot_general(DType in, DType out, const DotGeneralShape& s, const void* a, const void* b, void* c,
                         const KernelContext& context) {
  if (absl::Status types = hlo::check_dot_types(in, out); !types.ok()) return types;
  const DotShape extents{total_extent(s.batch), total_extent(s.m), total_extent(s.n), total_extent(s.k)};
  BufferRef lhs_copy, rhs_copy;
  const int64_t width = hlo::byte_size(in);
  absl::StatusOr<DotOperand> lhs = operand(a, width, s, s.m, &DotDim::lhs_stride, lhs_copy, context);
  if (!lhs.ok()) return lhs.status();
  absl::StatusOr<DotOperand> rhs = operand(b, width, s, s.n, &DotDim::rhs_stride, rhs_copy, context);
  if (!rhs.ok()) return rhs.status();
  const DotShape shape{extents.batch, extents.m, extents.n,  extents.k, lhs->batch,
                       lhs->outer,    lhs->k,    rhs->batch, rhs->k,    rhs->outer};
  return dot(in, out, shape, Batches(shape, std::move(lhs->offsets), std::move(rhs->offsets)), lhs->data,
             rhs->data, c, context);
}

}  // namespace lamina::jit
