#include "jit/cuda/convolutions.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "hlo/conv_shape.h"
#include "hlo/strings.h"
#include "jit/cuda/tuning.h"
#include "jit/cuda/workspace.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit::cuda {
namespace {

using hlo::ConvShape;
using hlo::DType;
using hlo::Node;

struct TensorTypes {
  DType type;
  DnnType tensor, compute;
};
constexpr TensorTypes kTensorTypes[] = {
    {DType::kF32, DnnType::kF32, DnnType::kF32},
    {DType::kF64, DnnType::kF64, DnnType::kF64},
    {DType::kF16, DnnType::kF16, DnnType::kF32},
    {DType::kBF16, DnnType::kBF16, DnnType::kF32},
};

// How the library names the parts of its operations: the arrays in the order of the node's.
struct ConvolutionOperation {
  ConvolutionKind kind;
  const char* name;
  DnnKind descriptor;
  DnnAttribute alpha, beta, convolution;
  std::array<DnnAttribute, 3> arrays;
};
constexpr ConvolutionOperation kConvolutionOperations[] = {
    {ConvolutionKind::kForward,
     "forward",
     DnnKind::kForward,
     DnnAttribute::kForwardAlpha,
     DnnAttribute::kForwardBeta,
     DnnAttribute::kForwardConvolution,
     {DnnAttribute::kForwardInput, DnnAttribute::kForwardFilter, DnnAttribute::kForwardOutput}},
    {ConvolutionKind::kBackwardData,
     "backward to the input",
     DnnKind::kBackwardData,
     DnnAttribute::kDataAlpha,
     DnnAttribute::kDataBeta,
     DnnAttribute::kDataConvolution,
     {DnnAttribute::kDataOutput, DnnAttribute::kDataFilter, DnnAttribute::kDataInput}},
    {ConvolutionKind::kBackwardFilter,
     "backward to the filter",
     DnnKind::kBackwardFilter,
     DnnAttribute::kFilterAlpha,
     DnnAttribute::kFilterBeta,
     DnnAttribute::kFilterConvolution,
     {DnnAttribute::kFilterInput, DnnAttribute::kFilterOutput, DnnAttribute::kFilterFilter}},
};
const ConvolutionOperation& operation_of(ConvolutionKind kind) {
  return *std::find_if(std::begin(kConvolutionOperations), std::end(kConvolutionOperations),
                       [&](const ConvolutionOperation& o) { return o.kind == kind; });
}

// By which arrays are known to the library.
constexpr std::array<int64_t, 3> kIds{1, 2, 3};

// What an array of so many bytes is aligned to that may follow others in an arena.
int64_t array_alignment(int64_t bytes) { return std::min(kArenaAlignment, bytes & -bytes); }

// The order in which the array's dimensions lie in its copy. They are told by their strides.
std::optional<hlo::Dims> order_of_copy(const hlo::Type& array, const ConvolutionForm::Tensor& copy) {
  if (copy.copied.empty()) return std::nullopt;
  const hlo::Dims strides = hlo::row_major_strides(array.dims);
  hlo::Dims out(strides.size());
  std::iota(out.begin(), out.end(), int64_t{0});
  // How far apart the dimension's elements lie in the copy; of one element it matters nothing.
  const auto stride_in_copy = [&](int64_t dim) {
    const auto d = static_cast<size_t>(dim);
    for (size_t i = 0; i < copy.dims.size(); ++i)
      if (array.dims[d] > 1 && copy.dims[i] == array.dims[d] && copy.copied[i] == strides[d])
        return copy.strides[i];
    return int64_t{0};
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](int64_t a, int64_t b) { return stride_in_copy(a) > stride_in_copy(b); });
  return out;
}

double multiplications(const ConvShape& s) {
  double work = static_cast<double>(s.output_batch()) * static_cast<double>(s.output_features) *
                static_cast<double>(s.filter_input);
  for (const hlo::ConvDim& d : s.spatial)
    work *=
        static_cast<double>(d.output) * static_cast<double>(d.filter) / static_cast<double>(d.input_dilation);
  return work;
}

// For keys, all that enters the library's choice.
std::string to_string(const ConvolutionForm& form) {
  std::string out = str_cat(operation_of(form.kind).name, form.flips ? " flipped" : "");
  for (const ConvolutionForm::Tensor& t : form.tensors)
    str_append(&out, " ", numbers_text(t.dims), " at ", numbers_text(t.strides));
  for (const std::vector<int64_t>* of : {&form.strides, &form.dilations, &form.paddings})
    str_append(&out, " ", numbers_text(*of));
  return out;
}

// In the order of kIds.
std::array<void*, 3> pointers_to(const Convolution::Operands& at) {
  const auto pointer = [](Address a) { return reinterpret_cast<void*>(a.bits()); };
  return {pointer(at.input), pointer(at.filter), pointer(at.result)};
}

}  // namespace

// What the library is told, of any device.
struct Convolution::Descriptions {
  Descriptions(const Dnn& of, const ConvolutionForm& form)
      : dnn(of),
        operation(operation_of(form.kind)),
        convolution(of, DnnKind::kConvolution),
        operation_object(of, operation.descriptor) {}

  DnnStatus make(const TensorTypes& of, const ConvolutionForm& form,
                 const std::array<int64_t, 3>& alignment) {
    using enum DnnAttribute;
    types = &of;
    const auto all = [](const std::vector<int64_t>& values) { return std::span<const int64_t>(values); };
    for (size_t i = 0; i < kIds.size(); ++i) {
      const ConvolutionForm::Tensor& t = form.tensors[i];
      tensors.emplace_back(dnn, DnnKind::kTensor);
      tensors.back()
          .set(kTensorType, of.tensor)
          .set(kTensorDims, all(t.dims))
          .set(kTensorStrides, all(t.strides))
          .set(kTensorId, kIds[i])
          .set(kTensorAlignment, alignment[i])
          .finalize();
      if (!tensors.back().ok()) return tensors.back().status();
    }
    convolution.set(kComputeType, of.compute)
        .set(kConvolutionMode,
             form.flips ? DnnConvolutionMode::kConvolution : DnnConvolutionMode::kCrossCorrelation)
        .set(kSpatialDims, static_cast<int64_t>(form.strides.size()))
        .set(kStrides, all(form.strides))
        .set(kDilations, all(form.dilations))
        .set(kPaddingBefore, all(form.paddings))
        .set(kPaddingAfter, all(form.paddings))
        .finalize();
    if (!convolution.ok()) return convolution.status();
    if (of.compute == DnnType::kF64)
      operation_object.set(operation.alpha, 1.0).set(operation.beta, 0.0);
    else
      operation_object.set(operation.alpha, 1.0F).set(operation.beta, 0.0F);
    operation_object.set(operation.convolution, convolution);
    for (size_t i = 0; i < kIds.size(); ++i) operation_object.set(operation.arrays[i], tensors[i]);
    return operation_object.finalize().status();
  }

  absl::StatusOr<std::vector<std::shared_ptr<const DnnPlan>>> serving(const DnnTarget& target,
                                                                      size_t most) const {
    const DnnDescriptor operation_handle = operation_object.handle();
    return plans_serving(dnn, {&operation_handle, 1}, target, {is_fast, types->type == DType::kF32, false},
                         most);
  }

  const Dnn& dnn;
  const ConvolutionOperation& operation;
  const TensorTypes* types = nullptr;
  bool is_fast = false;
  std::vector<DnnObject> tensors;
  DnnObject convolution, operation_object;
};

int64_t Convolution::workspace_bytes() const { return workspace_for(choices_); }

std::string Convolution::describe() const {
  const Descriptions& d = *descriptions_;
  const auto how = [&](const DnnPlan& plan) {
    const bool is_tf32 = d.types->type == DType::kF32 && plan.engine.on_tensor_cores;
    return str_cat(" in ", is_tf32 ? "tf32" : (d.types->compute == DnnType::kF64 ? "f64" : "f32"), ", ",
                   d.operation.name);
  };
  return describe_choices(*dnn_, choices_, how) + cuda::describe(copies_, {"input", "filter", "result"});
}

absl::Status Convolution::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const DnnChoice* const choice = choice_for(choices_, queue.gpu());
  if (!choice) return absl::InternalError("the convolution was planned without this device");
  const std::array<void*, 3> arrays = pointers_to(at);
  for (size_t i = 0; i < arrays.size(); ++i)
    if (reinterpret_cast<uint64_t>(arrays[i]) % static_cast<uint64_t>(alignment_[i]) != 0)
      return absl::InternalError("an array of a convolution lies where none was expected to begin");
  return enqueue_plan(queue, *dnn_, *choice->device, *choice->plan, kIds, arrays, at.workspace, "convolving");
}

absl::Status Convolution::choose(DnnDevice& device, const Node& node, const ConvolutionForm& form) {
  absl::StatusOr<std::vector<std::shared_ptr<const DnnPlan>>> plans;
  {
    std::lock_guard one_call(device.mutex);
    plans = descriptions_->serving({device.handle, nullptr}, is_tuning() ? kMostTimed : 1);
  }
  if (!plans.ok()) return plans.status();
  std::array<int64_t, 4> bytes{node.operand_type(0)->bytes(), node.operand_type(1)->bytes(),
                               node.type()->bytes()};
  std::vector<TimedAlgorithm> algorithms;
  for (const std::shared_ptr<const DnnPlan>& plan : *plans) {
    bytes[3] = std::max(bytes[3],
                        workspace_memory(static_cast<size_t>(plan->workspace_bytes), kDnnWorkspaceAlignment));
    algorithms.push_back(
        {plan->name, [&](StreamHandle stream, std::span<const Address> at) {
           const DnnStatus status = execute_plan(*dnn_, device, *plan, kIds,
                                                 pointers_to({at[0], at[1], at[2], at[3]}), at[3], stream);
           return status == DnnStatus::kSuccess ? absl::OkStatus() : absl::InternalError(dnn_->words(status));
         }});
  }
  const size_t taken =
      quickest(*device.gpu,
               str_cat("cuDNN ", dnn_->version_text(), descriptions_->is_fast ? " fast " : " ",
                       hlo::info(node.type()->dtype).name, " ", to_string(form), " alignment ",
                       numbers_text(alignment_)),
               bytes, algorithms);
  choices_.push_back({&device, (*plans)[taken], plans->size()});
  return absl::OkStatus();
}

Convolutions::MadePlan Convolutions::described(const Dnn& dnn, const Node& node,
                                               const ConvolutionForm& form) {
  const DType type = node.type()->dtype;
  const auto* const types = std::find_if(std::begin(kTensorTypes), std::end(kTensorTypes),
                                         [&](const TensorTypes& t) { return t.type == type; });
  for (size_t i = 0; i < 2; ++i)
    if (types == std::end(kTensorTypes) || node.operand_type(i)->dtype != type)
      return absl::UnimplementedError(
          str_cat("it has no convolutions of ", hlo::info(node.operand_type(i)->dtype).name));
  auto out = std::make_unique<Convolution>();
  out->dnn_ = &dnn;
  for (size_t i = 0; i < kIds.size(); ++i) {
    const hlo::Type& array = i == 2 ? *node.type() : *node.operand_type(i);
    if (std::optional<hlo::Dims> order = order_of_copy(array, form.tensors[i]))
      out->copies_[i] = ArrayCopy{*std::move(order), array.dtype};
    // Operands may be slices of arrays, one after the other.
    out->alignment_[i] = out->copies_[i] ? kArenaAlignment : array_alignment(array.bytes());
  }
  auto made = std::make_shared<Convolution::Descriptions>(dnn, form);
  made->is_fast = node.numerics() == hlo::Numerics::kFast;
  if (const DnnStatus status = made->make(*types, form, out->alignment_); status != DnnStatus::kSuccess)
    return absl::UnimplementedError(str_cat("it refuses to describe the convolution: ", dnn.words(status)));
  out->descriptions_ = std::move(made);
  return out;
}

absl::StatusOr<std::unique_ptr<const Convolution>> Convolutions::plan(const Node& node) {
  const ConvShape shape = hlo::conv_shape(node);
  if (multiplications(shape) < std::max(least_work_.load(), 1.0)) return nullptr;
  const absl::StatusOr<std::vector<ConvolutionForm>> forms = convolution_forms(shape);
  if (!forms.ok()) return forms.status();
  const absl::StatusOr<DnnLibrary::Opened>& opened = library_.opened();
  if (!opened.ok()) return opened.status();
  std::lock_guard lock(one_plan_);
  absl::Status why;
  for (const ConvolutionForm& form : *forms) {
    absl::Status now;
    MadePlan made = described(opened->library, node, form);
    if (!made.ok()) now = made.status();
    for (size_t d = 0; d < opened->devices.size() && now.ok(); ++d) {
      DnnDevice& device = *opened->devices[d];
      if (!device.serves()) continue;
      now = device.gpu->within([&] { return (*made)->choose(device, node, form); });
      if (device.gpu->is_lost()) now = absl::OkStatus();
    }
    if (now.ok()) return *std::move(made);
    if (why.ok()) why = now;
  }
  return why;
}

absl::StatusOr<std::string> Convolutions::chosen_for(const Dnn& dnn, std::string_view properties,
                                                     const Node& node) {
  DnnObject device(dnn, DnnKind::kDeviceProperties);
  device.set(DnnAttribute::kPropertiesText, std::span<const char>(properties)).finalize();
  if (!device.ok())
    return absl::UnimplementedError(str_cat("it refuses the device: ", dnn.words(device.status())));
  const absl::StatusOr<std::vector<ConvolutionForm>> forms = convolution_forms(hlo::conv_shape(node));
  if (!forms.ok()) return forms.status();
  absl::Status why;
  for (const ConvolutionForm& form : *forms) {
    MadePlan made = described(dnn, node, form);
    const absl::StatusOr<std::vector<std::shared_ptr<const DnnPlan>>> plans =
        made.ok() ? (*made)->descriptions_->serving({nullptr, &device}, 1) : made.status();
    if (plans.ok()) {
      (*made)->choices_.push_back({nullptr, plans->front()});
      return (*made)->describe();
    }
    if (why.ok()) why = plans.status();
  }
  return why;
}

}  // namespace lamina::jit::cuda
