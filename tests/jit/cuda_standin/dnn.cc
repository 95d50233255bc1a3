// The stand-in for cuDNN, on the memory and streams of that for the driver. It refuses what the library's
// documentation says is refused, of what is used here: attributes of another kind of descriptor or of another
// type, attributes of finalized descriptors and use of others, padding below 0, extents that do not follow
// from each other, plans of another device, addresses and work space that are not as was said. What the
// library was seen to compute wrongly, without a word, is a violation: arrays that are not dense with their
// features before the spatial dimensions or last, groups, paddings that differ.
//
// Its heuristics name engines for every reason to pass one over, before the one that computes as
// hlo/reference_conv.h says, so that what is multiplied with what shows in every bit; the one on tensor cores
// rounds f32 to TF32. Work space is poisoned.
//
// Environment: LAMINA_STANDIN_CUDNN, its version (10000 * major + 100 * minor + patch).
#include "jit/cuda/dnn.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "hlo/reference_conv.h"
#include "hlo/strings.h"
#include "tests/jit/cuda_standin/dnn_descriptor.h"
#include "tests/jit/cuda_standin/standin.h"

namespace lamina::jit::cuda {
struct OpaqueDnn {
  ContextHandle context;
  StreamHandle stream = nullptr;
};
}  // namespace lamina::jit::cuda

namespace {

using namespace lamina;
using namespace lamina::jit::cuda;
using hlo::DType;
using Touch = standins::FakeQueues::Touch;
using Access = standins::FakeQueues::Access;
using enum DnnAttribute;
using Type = DnnAttributeType;

using Engine = standins::DnnEngine;
using Problem = standins::DnnConvolution;
using standins::refused;
using standins::tensor_of;
using Tensor = standins::DnnTensor;

thread_local std::string last_refusal;

// What may be set of each kind of descriptor, and what must be.
struct Rule {
  DnnKind kind;
  DnnAttribute attribute;
  Type type;
  bool is_one, is_needed;
};
constexpr Rule kRules[] = {
    {DnnKind::kTensor, kTensorAlignment, Type::kInt64, true, true},
    {DnnKind::kTensor, kTensorType, Type::kDataType, true, true},
    {DnnKind::kTensor, kTensorDims, Type::kInt64, false, true},
    {DnnKind::kTensor, kTensorStrides, Type::kInt64, false, true},
    {DnnKind::kTensor, kTensorId, Type::kInt64, true, true},
    {DnnKind::kTensor, kTensorIsVirtual, Type::kBoolean, true, false},
    {DnnKind::kTensor, kTensorIsByValue, Type::kBoolean, true, false},
    {DnnKind::kPointwise, DnnAttribute::kPointwiseMode, Type::kPointwiseMode, true, true},
    {DnnKind::kPointwise, kPointwiseType, Type::kDataType, true, true},
    {DnnKind::kPointwise, kPointwiseAxis, Type::kInt64, true, false},
    {DnnKind::kPointwiseOperation, kPointwiseHow, Type::kDescriptor, true, true},
    {DnnKind::kPointwiseOperation, kPointwiseX, Type::kDescriptor, true, true},
    {DnnKind::kPointwiseOperation, kPointwiseB, Type::kDescriptor, true, false},
    {DnnKind::kPointwiseOperation, kPointwiseY, Type::kDescriptor, true, true},
    {DnnKind::kPointwiseOperation, kPointwiseChoice, Type::kDescriptor, true, false},
    {DnnKind::kProduct, kProductType, Type::kDataType, true, true},
    {DnnKind::kProductOperation, kProductHow, Type::kDescriptor, true, true},
    {DnnKind::kProductOperation, kProductA, Type::kDescriptor, true, true},
    {DnnKind::kProductOperation, kProductB, Type::kDescriptor, true, true},
    {DnnKind::kProductOperation, kProductC, Type::kDescriptor, true, true},
    {DnnKind::kReduction, DnnAttribute::kReductionMode, Type::kReductionMode, true, true},
    {DnnKind::kReduction, kReductionType, Type::kDataType, true, true},
    {DnnKind::kReductionOperation, kReductionHow, Type::kDescriptor, true, true},
    {DnnKind::kReductionOperation, kReductionX, Type::kDescriptor, true, true},
    {DnnKind::kReductionOperation, kReductionY, Type::kDescriptor, true, true},
    {DnnKind::kConvolution, kComputeType, Type::kDataType, true, true},
    {DnnKind::kConvolution, kConvolutionMode, Type::kConvolutionMode, true, true},
    {DnnKind::kConvolution, kSpatialDims, Type::kInt64, true, true},
    {DnnKind::kConvolution, kDilations, Type::kInt64, false, true},
    {DnnKind::kConvolution, kStrides, Type::kInt64, false, true},
    {DnnKind::kConvolution, kPaddingAfter, Type::kInt64, false, true},
    {DnnKind::kConvolution, kPaddingBefore, Type::kInt64, false, true},
    {DnnKind::kForward, kForwardConvolution, Type::kDescriptor, true, true},
    {DnnKind::kForward, kForwardFilter, Type::kDescriptor, true, true},
    {DnnKind::kForward, kForwardInput, Type::kDescriptor, true, true},
    {DnnKind::kForward, kForwardOutput, Type::kDescriptor, true, true},
    {DnnKind::kForward, kForwardAlpha, Type::kFloat, true, true},
    {DnnKind::kForward, kForwardBeta, Type::kFloat, true, true},
    {DnnKind::kBackwardData, kDataConvolution, Type::kDescriptor, true, true},
    {DnnKind::kBackwardData, kDataFilter, Type::kDescriptor, true, true},
    {DnnKind::kBackwardData, kDataInput, Type::kDescriptor, true, true},
    {DnnKind::kBackwardData, kDataOutput, Type::kDescriptor, true, true},
    {DnnKind::kBackwardData, kDataAlpha, Type::kFloat, true, true},
    {DnnKind::kBackwardData, kDataBeta, Type::kFloat, true, true},
    {DnnKind::kBackwardFilter, kFilterConvolution, Type::kDescriptor, true, true},
    {DnnKind::kBackwardFilter, kFilterFilter, Type::kDescriptor, true, true},
    {DnnKind::kBackwardFilter, kFilterInput, Type::kDescriptor, true, true},
    {DnnKind::kBackwardFilter, kFilterOutput, Type::kDescriptor, true, true},
    {DnnKind::kBackwardFilter, kFilterAlpha, Type::kFloat, true, true},
    {DnnKind::kBackwardFilter, kFilterBeta, Type::kFloat, true, true},
    {DnnKind::kGraph, kGraphOperations, Type::kDescriptor, false, true},
    {DnnKind::kGraph, kGraphHandle, Type::kHandle, true, false},
    {DnnKind::kHeuristic, kHeuristicGraph, Type::kDescriptor, true, true},
    {DnnKind::kHeuristic, kHeuristicMode, Type::kHeuristicMode, true, true},
    {DnnKind::kHeuristic, kHeuristicDevice, Type::kDescriptor, true, false},
    {DnnKind::kPlan, kPlanConfig, Type::kDescriptor, true, true},
    {DnnKind::kPlan, kPlanHandle, Type::kHandle, true, false},
    {DnnKind::kPlan, kPlanDevice, Type::kDescriptor, true, false},
    {DnnKind::kArrays, kArraysIds, Type::kInt64, false, true},
    {DnnKind::kArrays, kArraysPointers, Type::kPointer, false, true},
    {DnnKind::kArrays, kArraysWorkspace, Type::kPointer, true, false},
    {DnnKind::kDeviceProperties, kPropertiesText, Type::kChar, false, true},
};
// What multiplies sums and results may be either.
bool is_type(const Rule& rule, Type type) {
  return rule.type == type || (rule.type == Type::kFloat && type == Type::kDouble);
}

size_t bytes_of(Type type) {
  switch (type) {
    case Type::kHandle:
    case Type::kInt64:
    case Type::kDouble:
    case Type::kPointer:
    case Type::kDescriptor:
      return 8;
    case Type::kChar:
    case Type::kBoolean:
      return 1;
    default:
      return 4;
  }
}

// In the order of the dimensions, or with the second one last.
bool is_dense(const Tensor& t) {
  std::vector<size_t> order(t.dims.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto lies_in_order = [&] {
    int64_t step = 1;
    return std::all_of(order.rbegin(), order.rend(), [&](size_t d) {
      const bool lies = t.dims[d] == 1 || t.strides[d] == step;
      step *= t.dims[d];
      return lies;
    });
  };
  if (lies_in_order()) return true;
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return lies_in_order();
}

}  // namespace

// A convolution of any kind: what is computed is the output, the input or the filter.
struct standins::DnnConvolution {
  DnnKind kind;
  DType type;
  Tensor input, filter, output;
  std::vector<int64_t> strides, dilations, before, after;
  bool flips;

  int64_t width() const { return hlo::byte_size(type); }
  const Tensor& result() const {
    return kind == DnnKind::kForward ? output : (kind == DnnKind::kBackwardData ? input : filter);
  }
};

namespace {

struct EngineRow {
  Engine engine;
  int64_t number;
  std::vector<DnnNumericalNote> notes;
  std::vector<DnnBehaviorNote> behavior;
};
const EngineRow& row_of(Engine engine) {
  static const std::array<EngineRow, 8> kRows{{
      {Engine::kOnTensorCores, 38, {DnnNumericalNote::kTensorCore}, {}},
      {Engine::kNondeterministic, 20, {DnnNumericalNote::kNondeterministic}, {}},
      {Engine::kCompiled, 16, {}, {DnnBehaviorNote::kCompiledAtRunTime}},
      {Engine::kWinograd, 6, {DnnNumericalNote::kWinograd}, {}},
      {Engine::kRefuses, 2, {}, {}},
      {Engine::kGreedy, 4, {}, {}},
      {Engine::kGood, 70, {}, {}},
      {Engine::kFused, 1, {DnnNumericalNote::kTensorCore}, {DnnBehaviorNote::kCompiledAtRunTime}},
  }};
  return kRows[static_cast<size_t>(engine)];
}

}  // namespace

namespace standins {
DnnStatus refused(DnnStatus status, std::string why) {
  last_refusal = std::move(why);
  return status;
}
DnnTensor tensor_of(DnnDescriptor d) {
  return {d->all<int64_t>(kTensorDims),      d->all<int64_t>(kTensorStrides), d->one<int64_t>(kTensorId),
          d->one<int64_t>(kTensorAlignment), d->one<DnnType>(kTensorType),    d->one<bool>(kTensorIsVirtual),
          d->one<bool>(kTensorIsByValue)};
}
}  // namespace standins

namespace {

std::optional<DType> type_of(DnnType type) {
  switch (type) {
    case DnnType::kF32:
      return DType::kF32;
    case DnnType::kF64:
      return DType::kF64;
    case DnnType::kF16:
      return DType::kF16;
    case DnnType::kBF16:
      return DType::kBF16;
    case DnnType::kS32:
      return DType::kS32;
    case DnnType::kPred:
      return DType::kBool;
  }
  return std::nullopt;
}

DnnStatus finalize_tensor(DnnDescriptor d) {
  const Tensor t = tensor_of(d);
  if (t.dims.size() < 3 || t.dims.size() != t.strides.size())
    return refused(DnnStatus::kBadParam, "extents without strides");
  for (size_t i = 0; i < t.dims.size(); ++i)
    if (t.dims[i] < 1 || t.strides[i] < 1)
      return refused(DnnStatus::kBadParam, "an extent or stride below 1");
  if (t.alignment < 1 || !type_of(d->one<DnnType>(kTensorType)))
    return refused(DnnStatus::kBadParam, "an alignment or type that there is none of");
  return DnnStatus::kSuccess;
}

DnnStatus finalize_convolution(DnnDescriptor d) {
  const auto rank = static_cast<size_t>(d->one<int64_t>(kSpatialDims));
  for (const auto& [attribute, least] : {std::pair(kStrides, 1), std::pair(kDilations, 1),
                                         std::pair(kPaddingBefore, 0), std::pair(kPaddingAfter, 0)}) {
    const std::vector<int64_t> values = d->all<int64_t>(attribute);
    if (values.size() != rank) return refused(DnnStatus::kBadParam, "not as many as spatial dimensions");
    for (int64_t v : values)
      if (v < least) return refused(DnnStatus::kBadParam, "a padding, stride or dilation that is too low");
  }
  return DnnStatus::kSuccess;
}

struct Arrays {
  DnnKind kind;
  DnnAttribute alpha, beta, convolution, input, filter, output;
};
constexpr Arrays kArrays[] = {
    {DnnKind::kForward, kForwardAlpha, kForwardBeta, kForwardConvolution, kForwardInput, kForwardFilter,
     kForwardOutput},
    {DnnKind::kBackwardData, kDataAlpha, kDataBeta, kDataConvolution, kDataInput, kDataFilter, kDataOutput},
    {DnnKind::kBackwardFilter, kFilterAlpha, kFilterBeta, kFilterConvolution, kFilterInput, kFilterFilter,
     kFilterOutput},
};

DnnStatus finalize_operation(DnnDescriptor d, const Arrays& names) {
  const auto* const convolution = d->one<DnnDescriptor>(names.convolution);
  std::array<Tensor, 3> arrays;
  std::array<DnnType, 3> types{};
  for (size_t i = 0; i < arrays.size(); ++i) {
    const DnnDescriptor array = d->one<DnnDescriptor>(std::array{names.input, names.filter, names.output}[i]);
    arrays[i] = tensor_of(array);
    types[i] = array->one<DnnType>(kTensorType);
  }
  Problem p{d->kind,
            *type_of(types[0]),
            arrays[0],
            arrays[1],
            arrays[2],
            convolution->all<int64_t>(kStrides),
            convolution->all<int64_t>(kDilations),
            convolution->all<int64_t>(kPaddingBefore),
            convolution->all<int64_t>(kPaddingAfter),
            convolution->one<DnnConvolutionMode>(kConvolutionMode) == DnnConvolutionMode::kConvolution};
  const bool is_double = p.type == DType::kF64;
  if (types[1] != types[0] || types[2] != types[0] ||
      convolution->one<DnnType>(kComputeType) != (is_double ? DnnType::kF64 : DnnType::kF32))
    return refused(DnnStatus::kNotSupported, "types that do not go together");
  const auto scale = [&](DnnAttribute a) { return is_double ? d->one<double>(a) : d->one<float>(a); };
  if (d->attributes[names.alpha].type != (is_double ? Type::kDouble : Type::kFloat) ||
      scale(names.alpha) != 1 || scale(names.beta) != 0)
    standins::violation("a convolution that is scaled or added to something");
  const size_t rank = p.strides.size();
  for (const Tensor& t : arrays)
    if (t.dims.size() != rank + 2) return refused(DnnStatus::kShapeMismatch, "arrays of another rank");
  bool fits = p.input.dims[0] == p.output.dims[0] && p.output.dims[1] == p.filter.dims[0] &&
              p.input.dims[1] % p.filter.dims[1] == 0;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t room =
        p.input.dims[2 + i] + p.before[i] + p.after[i] - (p.filter.dims[2 + i] - 1) * p.dilations[i] - 1;
    fits = fits && room >= 0 && p.output.dims[2 + i] == room / p.strides[i] + 1;
  }
  if (!fits) return refused(DnnStatus::kShapeMismatch, "extents that do not follow from each other");
  if (p.input.dims[1] != p.filter.dims[1]) standins::violation("a convolution in groups");
  if (p.before != p.after) standins::violation("a convolution with paddings that differ");
  if (!std::all_of(arrays.begin(), arrays.end(), is_dense))
    standins::violation("a convolution of arrays that are not dense");
  if (p.flips && d->kind == DnnKind::kBackwardFilter)
    return refused(DnnStatus::kNotSupported, "gradients of filters that are read backwards");
  d->problem = std::make_shared<const Problem>(std::move(p));
  return DnnStatus::kSuccess;
}

DnnStatus check_handle(DnnHandle handle) {
  if (standins::enter(handle->context, "planning") != Result::kSuccess)
    return refused(DnnStatus::kExecutionFailed, "the device is lost");
  return DnnStatus::kSuccess;
}

DnnStatus finalize_graph(DnnDescriptor d) {
  const std::vector<DnnDescriptor> operations = d->all<DnnDescriptor>(kGraphOperations);
  if (operations.size() == 1) d->problem = operations[0]->problem;
  if (!d->problem) d->attention = standins::DnnAttention::of(operations);
  if (!d->problem && !d->attention) return DnnStatus::kBadParam;
  return d->handle ? check_handle(d->handle) : DnnStatus::kSuccess;
}

DnnStatus finalize_heuristic(DnnDescriptor d) {
  const auto* const graph = d->one<DnnDescriptor>(kHeuristicGraph);
  if (!graph->handle && !d->one<DnnDescriptor>(kHeuristicDevice))
    return refused(DnnStatus::kNotInitialized, "there is no device");
  d->problem = graph->problem;
  d->attention = graph->attention;
  if (d->attention) {
    if (d->attention->is_taken())
      d->engines = {Engine::kNondeterministic, Engine::kRefuses, Engine::kGreedy, Engine::kFused};
    return DnnStatus::kSuccess;
  }
  const auto mode = d->one<DnnHeuristic>(kHeuristicMode);
  if (mode != DnnHeuristic::kFallback) {
    d->engines = {Engine::kNondeterministic, Engine::kCompiled};
    if (d->problem->type == DType::kF32) d->engines.push_back(Engine::kOnTensorCores);
    d->engines.insert(d->engines.end(), {Engine::kWinograd, Engine::kRefuses, Engine::kGreedy});
  }
  d->engines.push_back(Engine::kGood);
  return DnnStatus::kSuccess;
}

// What filters are added in.
int64_t workspace_of(const OpaqueDnnDescriptor& plan) {
  if (plan.engines[0] == Engine::kGreedy) return int64_t{1} << 30;
  if (plan.attention) return plan.attention->workspace_bytes();
  const Problem& p = *plan.problem;
  return p.kind == DnnKind::kBackwardFilter ? p.filter.elements() * p.width() + 3 : 0;
}

DnnStatus finalize_plan(DnnDescriptor d) {
  const auto* const config = d->one<DnnDescriptor>(kPlanConfig);
  if (d->handle != config->handle || (!d->handle && !d->one<DnnDescriptor>(kPlanDevice)))
    return refused(DnnStatus::kBadParam, "a plan for another device than the engine's");
  d->problem = config->problem;
  d->attention = config->attention;
  d->engines = config->engines;
  if (d->engines[0] == Engine::kRefuses)
    return refused(DnnStatus::kNotSupported, "an engine that does not serve");
  if (d->handle) return check_handle(d->handle);
  return DnnStatus::kSuccess;
}

// The operands as TF32 has them: ten bits behind the point, ties away from zero.
std::vector<std::byte> in_tf32(const std::byte* at, int64_t bytes) {
  std::vector<std::byte> out(at, at + bytes);
  for (size_t i = 0; i + sizeof(uint32_t) <= out.size(); i += sizeof(uint32_t)) {
    uint32_t bits;
    std::memcpy(&bits, &out[i], sizeof bits);
    if ((bits & 0x7f800000U) != 0x7f800000U) bits = (bits + 0x1000U) & ~0x1fffU;
    std::memcpy(&out[i], &bits, sizeof bits);
  }
  return out;
}

// As the convolution whose operands and result these are.
hlo::ConvShape shape_of(const Problem& p) {
  const int64_t channels = p.filter.dims[1], filters = p.filter.dims[0], batch = p.input.dims[0];
  const Tensor &x = p.input, &w = p.filter, &y = p.output;
  hlo::ConvShape s;
  switch (p.kind) {
    case DnnKind::kForward:
      s = {.spatial = {},
           .input_batch = batch,
           .input_features = channels,
           .filter_input = channels,
           .output_features = filters,
           .input_batch_stride = x.strides[0],
           .input_feature_stride = x.strides[1],
           .filter_input_stride = w.strides[1],
           .filter_output_stride = w.strides[0],
           .output_batch_stride = y.strides[0],
           .output_feature_stride = y.strides[1]};
      break;
    case DnnKind::kBackwardData:
      s = {.spatial = {},
           .input_batch = batch,
           .input_features = filters,
           .filter_input = filters,
           .output_features = channels,
           .input_batch_stride = y.strides[0],
           .input_feature_stride = y.strides[1],
           .filter_input_stride = w.strides[0],
           .filter_output_stride = w.strides[1],
           .output_batch_stride = x.strides[0],
           .output_feature_stride = x.strides[1]};
      break;
    default:
      s = {.spatial = {},
           .input_batch = channels,
           .input_features = batch,
           .filter_input = batch,
           .output_features = filters,
           .input_batch_stride = x.strides[1],
           .input_feature_stride = x.strides[0],
           .filter_input_stride = y.strides[0],
           .filter_output_stride = y.strides[1],
           .output_batch_stride = w.strides[1],
           .output_feature_stride = w.strides[0]};
      break;
  }
  for (size_t i = 0; i < p.strides.size(); ++i) {
    const size_t d = 2 + i;
    hlo::ConvDim dim;
    const auto set = [&](const Tensor& in, const Tensor& filter, const Tensor& out) {
      dim = {.input = in.dims[d],
             .filter = filter.dims[d],
             .output = out.dims[d],
             .input_stride = in.strides[d],
             .filter_stride = filter.strides[d],
             .output_stride = out.strides[d]};
    };
    if (p.kind == DnnKind::kForward) {
      set(x, w, y);
      dim.stride = p.strides[i];
      dim.filter_dilation = p.dilations[i];
      dim.pad_low = p.before[i];
      dim.reversed = p.flips;
    } else if (p.kind == DnnKind::kBackwardData) {
      set(y, w, x);
      dim.input_dilation = p.strides[i];
      dim.filter_dilation = p.dilations[i];
      dim.pad_low = (w.dims[d] - 1) * p.dilations[i] - p.before[i];
      dim.reversed = !p.flips;
    } else {
      set(x, y, w);
      dim.stride = p.dilations[i];
      dim.filter_dilation = p.strides[i];
      dim.pad_low = p.before[i];
    }
    s.spatial.push_back(dim);
  }
  return s;
}

void convolve(const Problem& p, Engine engine, const std::byte* input, const std::byte* filter,
              const std::byte* output, std::byte* result) {
  std::vector<std::byte> rounded[3];
  if (engine == Engine::kOnTensorCores)
    for (const auto& [at, tensor, kept] :
         {std::tuple(&input, &p.input, &rounded[0]), std::tuple(&filter, &p.filter, &rounded[1]),
          std::tuple(&output, &p.output, &rounded[2])}) {
      if (*at == result) continue;
      *kept = in_tf32(*at, tensor->elements() * p.width());
      *at = kept->data();
    }
  const auto [left, right] = p.kind == DnnKind::kForward        ? std::pair(input, filter)
                             : p.kind == DnnKind::kBackwardData ? std::pair(output, filter)
                                                                : std::pair(input, output);
  if (!hlo::reference_conv(p.type, p.type, shape_of(p), left, right, result).ok())
    standins::violation("a convolution has no meaning");
}

template <typename T>
DnnStatus give(const std::vector<T>& from, Type wanted, Type type, int64_t most, int64_t* count,
               void* values) {
  if (type != wanted) return refused(DnnStatus::kAttributeType, "an attribute of another type");
  *count = static_cast<int64_t>(from.size());
  const auto given = static_cast<size_t>(std::min(most, *count));
  if (given > 0) std::memcpy(values, from.data(), given * sizeof(T));
  return DnnStatus::kSuccess;
}

// Makes the descriptors that the caller has made those of engines; of one the engine itself, and the one knob
// that is set of it.
DnnStatus give_engines(DnnDescriptor from, DnnKind kind, Type type, int64_t most, int64_t* count,
                       void* values) {
  if (type != Type::kDescriptor) return refused(DnnStatus::kAttributeType, "an attribute of another type");
  *count = static_cast<int64_t>(from->engines.size());
  auto* const to = static_cast<DnnDescriptor*>(values);
  for (int64_t i = 0; i < std::min(most, *count); ++i) {
    if (to[i]->kind != kind) return refused(DnnStatus::kBadParam, "a descriptor of another kind");
    to[i]->problem = from->problem;
    to[i]->attention = from->attention;
    to[i]->handle = from->handle;
    to[i]->engines = {from->engines[static_cast<size_t>(i)]};
    to[i]->is_finalized = true;
  }
  *count = std::min(most == 0 ? *count : most, *count);
  return DnnStatus::kSuccess;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

size_t cudnnGetVersion() { return static_cast<size_t>(standins::setting("LAMINA_STANDIN_CUDNN", 91900)); }
size_t cudnnGetCudartVersion() { return 12040; }

const char* cudnnGetErrorString(DnnStatus status) {
  switch (status) {
    case DnnStatus::kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case DnnStatus::kBadParam:
      return "CUDNN_STATUS_BAD_PARAM";
    case DnnStatus::kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case DnnStatus::kExecutionFailed:
      return "CUDNN_STATUS_EXECUTION_FAILED";
    default:
      return "CUDNN_STATUS_OF_ANOTHER_KIND";
  }
}
void cudnnGetLastErrorString(char* message, size_t most) {
  const size_t length = last_refusal.copy(message, most - 1);
  message[length] = '\0';
}

DnnStatus cudnnCreate(DnnHandle* handle) {
  const ContextHandle context = standins::current_context();
  if (!context || standins::enter(context, "a handle of cuDNN") != Result::kSuccess)
    return refused(DnnStatus::kNotInitialized, "no context");
  *handle = new OpaqueDnn{context};
  return DnnStatus::kSuccess;
}
DnnStatus cudnnSetStream(DnnHandle handle, StreamHandle stream) {
  if (standins::context_of(stream) != handle->context) {
    standins::violation("a convolution on the stream of another device than its handle's");
    return refused(DnnStatus::kBadParam, "a stream of another device");
  }
  handle->stream = stream;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendCreateDescriptor(DnnKind kind, DnnDescriptor* descriptor) {
  *descriptor = new OpaqueDnnDescriptor(kind);
  return DnnStatus::kSuccess;
}
DnnStatus cudnnBackendDestroyDescriptor(DnnDescriptor descriptor) {
  delete descriptor;
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendSetAttribute(DnnDescriptor d, DnnAttribute attribute, Type type, int64_t count,
                                   const void* values) {
  const auto* const rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& r) {
    return r.kind == d->kind && r.attribute == attribute;
  });
  if (rule == std::end(kRules) || d->is_finalized)
    return refused(DnnStatus::kBadParam, "an attribute that cannot be set");
  if (!is_type(*rule, type)) return refused(DnnStatus::kAttributeType, "an attribute of another type");
  if (!values || count < 1 || (rule->is_one && count != 1))
    return refused(DnnStatus::kBadParam, "another number of values");
  const auto* const begin = static_cast<const std::byte*>(values);
  d->attributes[attribute] = {type, count, {begin, begin + static_cast<size_t>(count) * bytes_of(type)}};
  return DnnStatus::kSuccess;
}

DnnStatus cudnnBackendFinalize(DnnDescriptor d) {
  if (d->is_finalized) return refused(DnnStatus::kBadParam, "finalized twice");
  for (const Rule& rule : kRules) {
    if (rule.kind != d->kind) continue;
    if (rule.is_needed && !d->attributes.contains(rule.attribute))
      return refused(DnnStatus::kBadParam, "an attribute is missing");
    if (rule.type == Type::kDescriptor)
      for (const DnnDescriptor other : d->all<DnnDescriptor>(rule.attribute))
        if (!other->is_finalized) return refused(DnnStatus::kNotFinalized, "a descriptor is not finalized");
  }
  DnnStatus status = DnnStatus::kSuccess;
  switch (d->kind) {
    case DnnKind::kTensor:
      status = finalize_tensor(d);
      break;
    case DnnKind::kConvolution:
      status = finalize_convolution(d);
      break;
    case DnnKind::kForward:
    case DnnKind::kBackwardData:
    case DnnKind::kBackwardFilter:
      for (const Arrays& names : kArrays)
        if (names.kind == d->kind) status = finalize_operation(d, names);
      break;
    case DnnKind::kGraph:
      d->handle = d->one<DnnHandle>(kGraphHandle);
      status = finalize_graph(d);
      break;
    case DnnKind::kHeuristic:
      d->handle = d->one<DnnDescriptor>(kHeuristicGraph)->handle;
      status = finalize_heuristic(d);
      break;
    case DnnKind::kPlan:
      d->handle = d->one<DnnHandle>(kPlanHandle);
      status = finalize_plan(d);
      break;
    case DnnKind::kArrays:
      if (d->all<int64_t>(kArraysIds).size() != d->all<void*>(kArraysPointers).size())
        status = refused(DnnStatus::kBadParam, "not as many pointers as arrays");
      break;
    default:
      break;
  }
  d->is_finalized = status == DnnStatus::kSuccess;
  return status;
}

DnnStatus cudnnBackendGetAttribute(DnnDescriptor d, DnnAttribute attribute, Type type, int64_t most,
                                   int64_t* count, void* values) {
  if (!d->is_finalized) return refused(DnnStatus::kNotFinalized, "a descriptor is not finalized");
  const auto is = [&](DnnKind kind, DnnAttribute wanted) { return d->kind == kind && attribute == wanted; };
  if (is(DnnKind::kHeuristic, kHeuristicResults))
    return give_engines(d, DnnKind::kEngineConfig, type, most, count, values);
  if (is(DnnKind::kEngineConfig, kConfigEngine))
    return give_engines(d, DnnKind::kEngine, type, most, count, values);
  if (is(DnnKind::kEngineConfig, kConfigKnobs))
    return give_engines(d, DnnKind::kKnobChoice, type, most, count, values);
  if (is(DnnKind::kKnobChoice, kKnobType))
    return give(std::vector<DnnKnob>{DnnKnob{2}}, Type::kKnobType, type, most, count, values);
  if (is(DnnKind::kKnobChoice, kKnobValue))
    return give(std::vector<int64_t>{row_of(d->engines[0]).number % 8}, Type::kInt64, type, most, count,
                values);
  if (is(DnnKind::kEngine, kEngineNumber))
    return give(std::vector<int64_t>{row_of(d->engines[0]).number}, Type::kInt64, type, most, count, values);
  if (is(DnnKind::kEngine, kEngineNumericalNotes))
    return give(row_of(d->engines[0]).notes, Type::kNumericalNote, type, most, count, values);
  if (is(DnnKind::kEngine, kEngineBehaviorNotes))
    return give(row_of(d->engines[0]).behavior, Type::kBehaviorNote, type, most, count, values);
  if (is(DnnKind::kPlan, kPlanWorkspace))
    return give(std::vector<int64_t>{workspace_of(*d)}, Type::kInt64, type, most, count, values);
  return refused(DnnStatus::kBadParam, "an attribute that there is none of");
}

DnnStatus cudnnBackendExecute(DnnHandle handle, DnnDescriptor plan, DnnDescriptor pack) {
  if (!handle) return refused(DnnStatus::kNotInitialized, "no handle");
  if (standins::enter(handle->context, "a call of cuDNN") != Result::kSuccess)
    return refused(DnnStatus::kExecutionFailed, "the device is lost");
  if (const int failure = standins::failure(kStandinConvolve); failure != 0)
    return refused(static_cast<DnnStatus>(failure), "");
  if (plan->kind != DnnKind::kPlan || pack->kind != DnnKind::kArrays || !plan->is_finalized ||
      !pack->is_finalized)
    return refused(DnnStatus::kNotFinalized, "a descriptor is not finalized");
  if (plan->handle != handle || !handle->stream)
    return refused(DnnStatus::kBadParam, "a plan of another device, or no stream");
  const Engine engine = plan->engines[0];
  const std::vector<int64_t> ids = pack->all<int64_t>(kArraysIds);
  const std::vector<void*> pointers = pack->all<void*>(kArraysPointers);
  const auto address = [](const void* at) { return reinterpret_cast<uintptr_t>(at); };
  std::vector<Touch> touches;
  std::map<int64_t, uintptr_t> begins;
  DnnStatus status = DnnStatus::kSuccess;
  const auto find = [&](const Tensor& tensor) -> const void* {
    const auto found = std::find(ids.begin(), ids.end(), tensor.id);
    if (found == ids.end()) status = refused(DnnStatus::kBadParam, "an array without a pointer");
    return found == ids.end() ? nullptr : pointers[static_cast<size_t>(found - ids.begin())];
  };
  const auto touch = [&](const Tensor& tensor, bool is_written) {
    const uintptr_t begin = begins[tensor.id] = address(find(tensor));
    if (status == DnnStatus::kSuccess &&
        (begin == 0 || begin % static_cast<uintptr_t>(tensor.alignment) != 0))
      status = refused(DnnStatus::kMisalignedPointer, "an array that is not aligned as was said");
    touches.push_back({jit::Address(begin), tensor.elements() * hlo::byte_size(*type_of(tensor.type)),
                       is_written ? Access::kWrite : Access::kRead});
  };
  const std::shared_ptr<const Problem> p = plan->problem;
  const std::shared_ptr<const standins::DnnAttention> attention = plan->attention;
  std::map<int64_t, float> numbers;
  if (attention) {
    for (const auto& [tensor, is_written] : attention->arrays()) touch(*tensor, is_written);
    // They are read at once.
    for (const Tensor* tensor : attention->numbers())
      if (const void* number = find(*tensor)) std::memcpy(&numbers[tensor->id], number, sizeof(float));
  } else {
    for (const Tensor* tensor : {&p->input, &p->filter, &p->output}) touch(*tensor, tensor == &p->result());
  }
  if (status != DnnStatus::kSuccess) return status;
  if (const int64_t bytes = workspace_of(*plan); bytes > 0) {
    const uintptr_t space = address(pack->one<void*>(kArraysWorkspace));
    if (space == 0 || space % 16 != 0) return refused(DnnStatus::kBadParam, "no work space");
    touches.push_back({jit::Address(space), bytes, Access::kScratch});
  }
  const auto run = [=] {
    const auto at = [&](int64_t id) {
      const auto number = numbers.find(id);
      return number != numbers.end() ? reinterpret_cast<std::byte*>(const_cast<float*>(&number->second))
                                     : standins::bytes_at(begins.at(id));
    };
    if (attention)
      attention->run(at);
    else
      convolve(*p, engine, at(p->input.id), at(p->filter.id), at(p->output.id), at(p->result().id));
  };
  standins::spend(handle->stream, row_of(engine).number);
  standins::enqueue(handle->stream,
                    {standins::FakeQueues::Kind::kLaunch,
                     attention ? "an attention" : str_cat("a convolution of ", p->input.dims[1], " features"),
                     std::move(touches), run});
  return DnnStatus::kSuccess;
}
}
#pragma GCC visibility pop

#define LAMINA_CUDNN_CALL(result, member, symbol, parameters) \
  static_assert(std::is_same_v<decltype(&symbol), decltype(Dnn::member)>);
#include "jit/cuda/dnn.def"
#undef LAMINA_CUDNN_CALL
