#include "jit/cuda/library_step.h"

#include <algorithm>
#include <array>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "hlo/strings.h"

namespace lamina::jit::cuda {
namespace {

using hlo::Builder;
using hlo::Value;

absl::StatusOr<const hlo::Type*> in_order(const hlo::Type& type, const hlo::Dims& order) {
  hlo::Dims dims;
  for (int64_t d : order) dims.push_back(type.dims[static_cast<size_t>(d)]);
  return hlo::array_type(type.dtype, dims);
}

hlo::Dims inverse(const hlo::Dims& order) {
  hlo::Dims out(order.size());
  for (size_t i = 0; i < order.size(); ++i) out[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return out;
}

// The copy that a call reads, of an array of this type, whose number becomes that of the copy.
absl::Status add_copy(PartsStep& step, MakeKernel make_kernel, const hlo::Type& type, const ArrayCopy& copy,
                      int& array) {
  const auto add = [&](const hlo::Type* from, int64_t bytes, const auto& record) -> absl::Status {
    absl::StatusOr<std::unique_ptr<QueueStep>> kernel = make_recorded(
        make_kernel, std::array{from}, [&](Builder& b, std::span<const Value> x) { return record(b, x[0]); });
    if (!kernel.ok()) return kernel.status();
    const int whole = std::exchange(array, step.add_memory(bytes));
    step.add(*std::move(kernel), {whole, array});
    return absl::OkStatus();
  };
  const bool pads = !copy.padded.empty();
  if (!pads || copy.type != type.dtype || !std::is_sorted(copy.order.begin(), copy.order.end())) {
    const absl::Status turned =
        add(&type, type.num_elements * hlo::byte_size(copy.type), [&](Builder& b, const Value& x) {
          return b.transpose(copy.type == type.dtype ? x : b.convert(x, copy.type), copy.order);
        });
    if (!turned.ok() || !pads) return turned;
  }
  // One more: a transpose of many elements is a kernel by itself.
  return add(hlo::array_type_or_die(copy.type, copy.merged), copy.bytes(type),
             [&](Builder& b, const Value& x) {
               hlo::Dims more = copy.padded;
               for (size_t d = 0; d < more.size(); ++d) more[d] -= copy.merged[d];
               return b.pad(x, b.scalar(copy.type, 0), hlo::Dims(more.size(), 0), more);
             });
}
// From what a call has written to the result, of this type.
absl::StatusOr<std::unique_ptr<QueueStep>> make_copy_back(MakeKernel make_kernel, const hlo::Type& type,
                                                          const ArrayCopy& copy) {
  if (!copy.padded.empty())
    return make_recorded(make_kernel, std::array{hlo::array_type_or_die(type.dtype, copy.padded)},
                         [&](Builder& b, std::span<const Value> x) {
                           return b.slice(x[0], hlo::Dims(copy.merged.size(), 0), copy.merged);
                         });
  const absl::StatusOr<const hlo::Type*> written = in_order(type, copy.order);
  if (!written.ok()) return written.status();
  return make_recorded(make_kernel, std::array{*written}, [&](Builder& b, std::span<const Value> x) {
    return b.transpose(x[0], inverse(copy.order));
  });
}

// Of a `Product` or `Convolution`: operands, result, work space; of a product a bias.
template <typename Call>
class PlannedCall final : public LibraryCall {
 public:
  explicit PlannedCall(std::unique_ptr<const Call> call) : call_(std::move(call)) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    if constexpr (std::is_same_v<Call, Product>)
      return call_->enqueue(queue, {at[0], at[1], at[2], at[3], at[4]});
    else
      return call_->enqueue(queue, {at[0], at[1], at[2], at[3]});
  }

 private:
  const std::unique_ptr<const Call> call_;
};

template <typename Call>
absl::StatusOr<std::unique_ptr<Step>> make_step(const char* name,
                                                absl::StatusOr<std::unique_ptr<const Call>> call,
                                                CudaKernels& kernels, const hlo::Node& node,
                                                std::span<const Value> reads, const SlotOf& slot_of,
                                                MakeKernel make_kernel) {
  if (!call.ok()) return call.status();
  if (!*call) return nullptr;
  auto step = std::make_unique<PartsStep>(kernels, node, slot_of, reads);
  std::vector<int> arrays{step->operand(0), step->operand(1), step->result(0),
                          step->add_memory((*call)->workspace_bytes())};
  if (node.operands().size() > 2) arrays.push_back(step->operand(2));
  const ArrayCopies& copies = (*call)->copies();
  for (size_t i = 0; i < 2; ++i) {
    if (!copies[i]) continue;
    const absl::Status copied = add_copy(*step, make_kernel, *step->operand_type(i), *copies[i], arrays[i]);
    if (!copied.ok()) return copied;
  }
  const int result = arrays[2];
  std::unique_ptr<QueueStep> last;
  if (copies[2]) {
    absl::StatusOr<std::unique_ptr<QueueStep>> copy = make_copy_back(make_kernel, *node.type(), *copies[2]);
    if (!copy.ok()) return copy.status();
    last = *std::move(copy);
    arrays[2] = step->add_memory(copies[2]->bytes(*node.type()));
  }
  step->set_description(str_cat(name, " by ", (*call)->describe(), ", ",
                                hlo::to_string(*step->operand_type(0)), " ",
                                hlo::to_string(*step->operand_type(1))));
  step->add(std::make_unique<PlannedCall<Call>>(*std::move(call)), arrays);
  if (last) step->add(std::move(last), {arrays[2], result});
  return step;
}

class AttentionCall final : public LibraryCall {
 public:
  explicit AttentionCall(std::shared_ptr<const Attention> attention) : attention_(std::move(attention)) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    return attention_->enqueue(queue, {at[0], at[1], at[2], at[3], at[4], at[5], at[6]});
  }

 private:
  const std::shared_ptr<const Attention> attention_;
};

class TransformCall final : public LibraryCall {
 public:
  explicit TransformCall(std::unique_ptr<const Transform> transform) : transform_(std::move(transform)) {}
  absl::Status enqueue(CudaQueue& queue, std::span<const Address> at) const override {
    return transform_->enqueue(queue, {at[0], at[1], at[2]});
  }

 private:
  const std::unique_ptr<const Transform> transform_;
};

Value times(Builder& b, const Value& x, double factor) {
  if (!hlo::is_complex(x.dtype())) return b.multiply(x, b.full_like(x, factor));
  const Value re = b.real(x), scale = b.full_like(re, factor);
  return b.complex(b.multiply(re, scale), b.multiply(b.imag(x), scale));
}

// The half of a spectrum as the library wants it, where the numbers that are their own partners are real: it
// reads what else stands there in one algorithm or another.
Value half_spectrum(Builder& b, const Value& x, double factor) {
  const int64_t last = x.rank() - 1;
  const Value k = b.iota(hlo::DType::kS32, x.dims(), last);
  const Value is_real = b.or_(b.compare(k, b.full_like(k, 0), "EQ"),
                              b.compare(k, b.full_like(k, static_cast<double>(x.dims()[last] - 1)), "EQ"));
  const Value re = b.real(x), im = b.imag(x), scale = b.full_like(re, factor);
  return b.complex(b.multiply(re, scale), b.multiply(b.select(is_real, b.full_like(im, 0), im), scale));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_product_step(Products& products, CudaKernels& kernels,
                                                        const hlo::Node& dot, std::span<const Value> reads,
                                                        const SlotOf& slot_of, MakeKernel make_kernel) {
  return make_step("dot", products.plan(dot, reads), kernels, dot, reads, slot_of, make_kernel);
}

absl::StatusOr<std::unique_ptr<Step>> make_epilogue_step(Products& products, CudaKernels& kernels,
                                                         const hlo::Node& call,
                                                         const ProductEpilogue& epilogue,
                                                         const SlotOf& slot_of, MakeKernel make_kernel) {
  return make_step("dot", products.plan(*epilogue.product, {}, epilogue.epilogue), kernels, call, {}, slot_of,
                   make_kernel);
}

absl::StatusOr<std::unique_ptr<Step>> make_convolution_step(Convolutions& convolutions, CudaKernels& kernels,
                                                            const hlo::Node& convolution,
                                                            const SlotOf& slot_of, MakeKernel make_kernel) {
  return make_step("convolution", convolutions.plan(convolution), kernels, convolution, {}, slot_of,
                   make_kernel);
}

absl::StatusOr<std::unique_ptr<Step>> make_attention_step(Attentions& attentions, CudaKernels& kernels,
                                                          const hlo::Node& call, const AttentionForm& form,
                                                          const SlotOf& slot_of, MakeKernel make_kernel) {
  absl::StatusOr<std::shared_ptr<const Attention>> attention = attentions.plan(form);
  if (!attention.ok()) return attention.status();
  if (!*attention) return nullptr;
  auto step = std::make_unique<PartsStep>(kernels, call, slot_of);
  size_t next = 3;
  const int bias = form.bias ? step->operand(next++) : -1;
  int scale = form.has_scale_operand ? step->operand(next) : -1;
  if (form.has_scale_operand && (form.divides || call.operand_type(next)->dtype != hlo::DType::kF32)) {
    absl::StatusOr<std::unique_ptr<QueueStep>> kernel = make_recorded(
        make_kernel, std::array{call.operand_type(next)}, [&](Builder& b, std::span<const Value> x) {
          const Value factor = b.convert(x[0], hlo::DType::kF32);
          return form.divides ? b.divide(b.full_like(factor, 1), factor) : factor;
        });
    if (!kernel.ok()) return kernel.status();
    const int given = std::exchange(scale, step->add_memory(sizeof(float)));
    step->add(*std::move(kernel), {given, scale});
  }
  step->set_description(str_cat("attention by ", (*attention)->describe(), ", ",
                                hlo::to_string(*call.operand_type(0)), " ",
                                hlo::to_string(*call.operand_type(1))));
  std::vector<int> arrays{step->operand(0),
                          step->operand(1),
                          step->operand(2),
                          step->result(0),
                          bias,
                          scale,
                          step->add_memory((*attention)->workspace_bytes())};
  step->add(std::make_unique<AttentionCall>(*std::move(attention)), std::move(arrays));
  return step;
}

absl::StatusOr<std::unique_ptr<Step>> make_fourier_step(Fourier& fourier, CudaKernels& kernels,
                                                        const hlo::Node& node, const SlotOf& slot_of,
                                                        MakeKernel make_kernel) {
  absl::StatusOr<std::unique_ptr<const Transform>> transform = fourier.plan(node);
  if (!transform.ok()) return transform.status();
  if (!*transform) return nullptr;
  auto step = std::make_unique<PartsStep>(kernels, node, slot_of);
  const TransformForm form = (*transform)->form();
  const hlo::Type *from = node.operand_type(0), *to = node.type();
  absl::Status status;
  const auto add = [&](const hlo::Type* of, const std::function<Value(Builder&, const Value&)>& record,
                       std::vector<int> arrays) {
    absl::StatusOr<std::unique_ptr<QueueStep>> kernel = make_recorded(
        make_kernel, std::array{of}, [&](Builder& b, std::span<const Value> x) { return record(b, x[0]); });
    if (!kernel.ok())
      status = kernel.status();
    else if (arrays[0] == arrays[1] && (*kernel)->overwrites().empty())
      status = absl::InternalError("a kernel that does not bear to write over what it reads");
    else
      step->add(*std::move(kernel), std::move(arrays));
  };
  const double factor = form.is_inverse ? 1 / static_cast<double>(form.numbers()) : 1;
  const int space = step->add_memory((*transform)->workspace_bytes());
  step->set_description(str_cat((*transform)->describe(), ", ", hlo::to_string(*from)));
  int in = step->operand(0), out = step->result(0);
  if (form.kind == TransformKind::kToReal) {
    // It is written over.
    in = step->add_memory(from->bytes());
    add(from, [&](Builder& b, const Value& x) { return half_spectrum(b, x, factor); },
        {step->operand(0), in});
    step->add(std::make_unique<TransformCall>(*std::move(transform)), {in, out, space});
  } else if (form.turned) {
    const absl::StatusOr<const hlo::Type*> lines = in_order(*from, *form.turned);
    if (!lines.ok()) return lines.status();
    in = step->add_memory(from->bytes());
    add(from, [&](Builder& b, const Value& x) { return b.transpose(x, *form.turned); },
        {step->operand(0), in});
    step->add(std::make_unique<TransformCall>(*std::move(transform)), {in, in, space});
    add(*lines,
        [&](Builder& b, const Value& x) {
          return b.transpose(form.is_inverse ? times(b, x, factor) : x, inverse(*form.turned));
        },
        {in, out});
  } else {
    step->add(std::make_unique<TransformCall>(*std::move(transform)), {in, out, space});
    if (form.is_inverse) add(to, [&](Builder& b, const Value& y) { return times(b, y, factor); }, {out, out});
  }
  if (form.kind == TransformKind::kComplex) step->may_overwrite(0, 0);
  if (!status.ok()) return status;
  return step;
}

}  // namespace lamina::jit::cuda
