// What the classes share that convolve without packing patches: the arguments of one call, and where they
// lie.
#ifndef LAMINA_JIT_CPU_CONVOLUTION_CALL_H_
#define LAMINA_JIT_CPU_CONVOLUTION_CALL_H_

#include "absl/status/status.h"
#include "hlo/reference_conv.h"
#include "jit/cpu/gemm.h"
#include "jit/cpu/gemm_source.h"

namespace lamina::jit {

// Sums are of T; `store` makes an element of the output of one.
template <typename T, typename Out, typename Store>
class ConvolutionCall {
 public:
  ConvolutionCall(hlo::DType in, const hlo::ConvShape& shape, const void* input, const void* filter,
                  Out* output, const KernelContext& context, Store store)
      : in_(in),
        shape_(shape),
        input_(static_cast<const char*>(input)),
        filter_(static_cast<const char*>(filter)),
        output_(output),
        context_(context),
        kernels_(gemm_kernels<T>(usable_isa(context.isa))),
        store_(store) {}

 protected:
  // `elements`, and what is left of the last cache line.
  static int64_t aligned(int64_t elements) {
    constexpr int64_t kLine = 64 / sizeof(T);
    return ceil_div(elements, kLine) * kLine;
  }

  // Calls run(scratch) with so many elements of memory that begin at a cache line.
  template <typename Run>
  absl::Status with_scratch(int64_t elements, Run run) const {
    absl::StatusOr<BufferRef> buffer =
        context_.scratch->allocate(elements * static_cast<int64_t>(sizeof(T)) + 64);
    if (!buffer.ok()) return buffer.status();
    run(at_line(static_cast<T*>(pointer((*buffer)->address()))));
    return context_.cancelled() ? absl::CancelledError("a convolution was interrupted") : absl::OkStatus();
  }

  // Elements from the input of one group to that of the next.
  int64_t group_stride() const {
    return shape_.batch_groups > 1 ? shape_.output_batch() * shape_.input_batch_stride
                                   : shape_.filter_input * shape_.input_feature_stride;
  }
  const char* input_of(int64_t group, int64_t image) const {
    return input_ + (group * group_stride() + image * shape_.input_batch_stride) * hlo::byte_size(in_);
  }
  // Elements from the first of a dimension's filter to that at position `w` of the window.
  static int64_t filter_offset(const hlo::ConvDim& d, int64_t w) {
    return (d.reversed ? d.filter - 1 - w : w) * d.filter_stride;
  }

  const hlo::DType in_;
  const hlo::ConvShape& shape_;
  const char* const input_;
  const char* const filter_;
  Out* const output_;
  const KernelContext& context_;
  const GemmKernels<T>& kernels_;
  const Store store_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_CONVOLUTION_CALL_H_
