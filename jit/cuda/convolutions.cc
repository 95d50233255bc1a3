#include "jit/cuda/convolutions.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "hlo/conv_shape.h"
#include "hlo/strings.h"
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

constexpr int64_t kMostConvolutionWorkspace = 256 << 20;

constexpr DnnHeuristic kHeuristics[] = {DnnHeuristic::kB, DnnHeuristic::kA, DnnHeuristic::kFallback};

// What is not wanted of an engine, and from when on.
enum class Unwanted { kAlways, kInSame, kOfF32InSame };
constexpr std::pair<DnnNumericalNote, Unwanted> kUnwanted[] = {
    {DnnNumericalNote::kNondeterministic, Unwanted::kAlways},
    {DnnNumericalNote::kDownConvertsInputs, Unwanted::kAlways},
    {DnnNumericalNote::kTensorCore, Unwanted::kOfF32InSame},
    {DnnNumericalNote::kReducesInLessPrecision, Unwanted::kInSame},
    {DnnNumericalNote::kFft, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd4, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd6, Unwanted::kInSame},
    {DnnNumericalNote::kWinograd13, Unwanted::kInSame},
};

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

// What stands for a device: a handle, or else what its properties are.
struct PlannedFor {
  DnnHandle handle;
  const DnnObject* properties;
};

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

  // The first plan that serves, of those that the library names.
  absl::StatusOr<std::shared_ptr<const Plan>> choose(const PlannedFor& target) const;

  const Dnn& dnn;
  const ConvolutionOperation& operation;
  const TensorTypes* types = nullptr;
  bool is_fast = false;
  std::vector<DnnObject> tensors;
  DnnObject convolution, operation_object;
};

// What runs on one device, and what it is made of.
struct Convolution::Plan {
  std::shared_ptr<const DnnObject> graph;
  DnnObject config, plan;
  int64_t engine = 0, workspace_bytes = 0;
  bool on_tensor_cores = false;
};

absl::StatusOr<std::shared_ptr<const Convolution::Plan>> Convolution::Descriptions::choose(
    const PlannedFor& target) const {
  using enum DnnAttribute;
  auto graph = std::make_shared<DnnObject>(dnn, DnnKind::kGraph);
  if (target.handle) graph->set(kGraphHandle, target.handle);
  graph->set(kGraphOperations, operation_object).finalize();
  if (!graph->ok())
    return absl::UnimplementedError(str_cat("it refuses the convolution: ", dnn.words(graph->status())));
  std::string why = "it has no engine";
  for (const DnnHeuristic mode : kHeuristics) {
    DnnObject heuristic(dnn, DnnKind::kHeuristic);
    heuristic.set(kHeuristicGraph, *graph).set(kHeuristicMode, mode);
    if (!target.handle) heuristic.set(kHeuristicDevice, *target.properties);
    heuristic.finalize();
    const int64_t most = heuristic.get(kHeuristicResults, std::span<DnnDescriptor>());
    std::vector<DnnObject> configs;
    std::vector<DnnDescriptor> handles;
    for (int64_t i = 0; i < most; ++i) {
      configs.emplace_back(dnn, DnnKind::kEngineConfig);
      handles.push_back(configs.back().handle());
    }
    const int64_t count = most == 0 ? 0 : heuristic.get(kHeuristicResults, std::span<DnnDescriptor>(handles));
    if (!heuristic.ok()) why = str_cat("it has no engine: ", dnn.words(heuristic.status()));
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      DnnObject engine(dnn, DnnKind::kEngine);
      DnnDescriptor handle = engine.handle();
      configs[i].get(kConfigEngine, std::span<DnnDescriptor>(&handle, 1));
      std::array<DnnNumericalNote, kMostNumericalNotes> notes{};
      std::array<DnnBehaviorNote, kMostBehaviorNotes> behavior{};
      const auto num_notes =
          static_cast<size_t>(engine.get(kEngineNumericalNotes, std::span<DnnNumericalNote>(notes)));
      const auto num_behavior =
          static_cast<size_t>(engine.get(kEngineBehaviorNotes, std::span<DnnBehaviorNote>(behavior)));
      const auto has = [&](DnnNumericalNote n) {
        return std::find(notes.begin(), notes.begin() + num_notes, n) != notes.begin() + num_notes;
      };
      const bool is_slow = std::find(behavior.begin(), behavior.begin() + num_behavior,
                                     DnnBehaviorNote::kCompiledAtRunTime) != behavior.begin() + num_behavior;
      const bool is_unwanted = std::any_of(std::begin(kUnwanted), std::end(kUnwanted), [&](const auto& row) {
        return has(row.first) &&
               (row.second == Unwanted::kAlways ||
                (!is_fast && (row.second == Unwanted::kInSame || types->type == DType::kF32)));
      });
      if (!configs[i].ok() || !engine.ok()) continue;
      if (is_slow || is_unwanted) {
        why = "its engines for it are less exact, or in no certain order, or compiled for seconds";
        continue;
      }
      DnnObject plan(dnn, DnnKind::kPlan);
      if (target.handle)
        plan.set(kPlanHandle, target.handle);
      else
        plan.set(kPlanDevice, *target.properties);
      plan.set(kPlanConfig, configs[i]).finalize();
      const auto bytes = plan.get<int64_t>(kPlanWorkspace);
      if (!plan.ok()) {
        why = str_cat("its engines refuse: ", dnn.words(plan.status()));
        continue;
      }
      if (bytes > kMostConvolutionWorkspace) {
        why = str_cat("its engines want ", bytes, " bytes of work space");
        continue;
      }
      return std::make_shared<const Plan>(Plan{std::move(graph), std::move(configs[i]), std::move(plan),
                                               engine.get<int64_t>(kEngineNumber), bytes,
                                               has(DnnNumericalNote::kTensorCore)});
    }
  }
  return absl::UnimplementedError(why);
}

int64_t Convolution::workspace_bytes() const {
  int64_t bytes = 0;
  for (const Choice& c : choices_) bytes = std::max(bytes, c.plan->workspace_bytes);
  return workspace_memory(static_cast<size_t>(bytes), kDnnWorkspaceAlignment);
}

std::string Convolution::describe() const {
  const Descriptions& d = *descriptions_;
  std::string out = str_cat("cuDNN ", dnn_->version_text());
  for (const Choice& c : choices_) {
    const Plan &plan = *c.plan, &first = *choices_[0].plan;
    // Devices of one kind have one choice.
    if (&plan != &first && plan.engine == first.engine && plan.workspace_bytes == first.workspace_bytes)
      continue;
    if (&plan != &first) str_append(&out, "; on ", c.device->gpu->name());
    const bool is_tf32 = d.types->type == DType::kF32 && plan.on_tensor_cores;
    str_append(&out, " in ", is_tf32 ? "tf32" : (d.types->compute == DnnType::kF64 ? "f64" : "f32"), ", ",
               d.operation.name, ", engine ", plan.engine);
    if (plan.workspace_bytes > 0) str_append(&out, ", ", plan.workspace_bytes, " bytes beside");
  }
  return out + cuda::describe(copies_, {"input", "filter", "result"});
}

absl::Status Convolution::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const auto choice = std::find_if(choices_.begin(), choices_.end(),
                                   [&](const Choice& c) { return c.device->gpu == &queue.gpu(); });
  if (choice == choices_.end()) return absl::InternalError("the convolution was planned without this device");
  std::array<void*, 3> arrays{};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const uint64_t begin = std::array{at.input, at.filter, at.result}[i].bits();
    if (begin % static_cast<uint64_t>(alignment_[i]) != 0)
      return absl::InternalError("an array of a convolution lies where none was expected to begin");
    arrays[i] = reinterpret_cast<void*>(begin);
  }
  return queue.call_library([&](StreamHandle stream) -> absl::Status {
    std::lock_guard lock(choice->device->mutex);
    using enum DnnAttribute;
    DnnObject pack(*dnn_, DnnKind::kArrays);
    pack.set(kArraysIds, std::span<const int64_t>(kIds)).set(kArraysPointers, std::span<void* const>(arrays));
    if (choice->plan->workspace_bytes > 0)
      pack.set(kArraysWorkspace, workspace_in(at.workspace, kDnnWorkspaceAlignment));
    DnnStatus status = pack.finalize().status();
    if (status == DnnStatus::kSuccess) status = dnn_->set_stream(choice->device->handle, stream);
    if (status == DnnStatus::kSuccess)
      status = dnn_->execute(choice->device->handle, choice->plan->plan.handle(), pack.handle());
    if (status == DnnStatus::kSuccess) return absl::OkStatus();
    const std::string why = str_cat(queue.gpu().name(), " failed convolving: ", dnn_->words(status));
    return status == DnnStatus::kHostAllocFailed || status == DnnStatus::kDeviceAllocFailed
               ? absl::ResourceExhaustedError(why)
               : absl::InternalError(why);
  });
}

void Convolutions::serve(std::span<const std::unique_ptr<Gpu>> gpus, int driver_version) {
  std::lock_guard lock(mutex_);
  gpus_ = gpus;
  driver_version_ = driver_version;
  opened_ = nullptr;
}

double Convolutions::set_least_work(double least) {
  std::lock_guard lock(mutex_);
  return std::exchange(least_work_, least);
}

const absl::StatusOr<Convolutions::Opened>& Convolutions::opened_locked() {
  if (opened_) return *opened_;
  const auto open = [&]() -> absl::StatusOr<Opened> {
    absl::StatusOr<Dnn> dnn = load_dnn(driver_version_);
    if (!dnn.ok()) return dnn.status();
    Opened out{*std::move(dnn), {}};
    std::vector<DnnHandle> handles;
    for (const std::unique_ptr<Gpu>& gpu : gpus_) {
      DnnHandle handle = nullptr;
      DnnStatus status = DnnStatus::kSuccess;
      const absl::Status entered = gpu->within([&] {
        status = out.dnn.create(&handle);
        return absl::OkStatus();
      });
      if (entered.ok() && status != DnnStatus::kSuccess)
        return absl::NotFoundError(
            str_cat(out.dnn.library, " does not start on ", gpu->name(), ": ", out.dnn.words(status)));
      handles.push_back(handle);
    }
    // Their locks stay.
    for (size_t g = 0; g < handles.size(); ++g)
      out.devices.push_back(std::make_unique<Convolution::Device>(gpus_[g].get(), handles[g]));
    return out;
  };
  opened_ = new absl::StatusOr<Opened>(open());
  return *opened_;
}

std::string Convolutions::library() {
  std::lock_guard lock(mutex_);
  const absl::StatusOr<Opened>& opened = opened_locked();
  return opened.ok() ? str_cat(opened->dnn.library, ", version ", opened->dnn.version_text())
                     : str_cat("our own kernels: ", opened.status().message());
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
    out->copies_[i] = order_of_copy(array, form.tensors[i]);
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
  std::lock_guard lock(mutex_);
  if (multiplications(shape) < std::max(least_work_, 1.0)) return nullptr;
  const absl::StatusOr<std::vector<ConvolutionForm>> forms = convolution_forms(shape);
  if (!forms.ok()) return forms.status();
  const absl::StatusOr<Opened>& opened = opened_locked();
  if (!opened.ok()) return opened.status();
  absl::Status why;
  for (const ConvolutionForm& form : *forms) {
    absl::Status now;
    MadePlan made = described(opened->dnn, node, form);
    if (!made.ok()) now = made.status();
    for (size_t d = 0; d < opened->devices.size() && now.ok(); ++d) {
      Convolution::Device& device = *opened->devices[d];
      if (!device.handle || device.gpu->is_lost()) continue;
      now = device.gpu->within([&] {
        std::lock_guard one_call(device.mutex);
        auto plan = (*made)->descriptions_->choose({device.handle, nullptr});
        if (plan.ok()) (*made)->choices_.push_back({&device, *std::move(plan)});
        return plan.status();
      });
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
    absl::StatusOr<std::shared_ptr<const Convolution::Plan>> plan =
        made.ok() ? (*made)->descriptions_->choose({nullptr, &device}) : made.status();
    if (plan.ok()) {
      (*made)->choices_.push_back({nullptr, *std::move(plan)});
      return (*made)->describe();
    }
    if (why.ok()) why = plan.status();
  }
  return why;
}

}  // namespace lamina::jit::cuda
