#include "jit/cuda/attention.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "hlo/strings.h"
#include "jit/program/memory_plan.h"

namespace lamina::jit::cuda {
namespace {

using hlo::DType;
using Array = AttentionForm::Array;

// By which arrays are known to the library; those between its operations follow.
enum Id : int64_t { kQuery = 1, kKey, kValue, kResult, kBias, kScale, kMasked, kFirstBetween };

DnnType dnn_type(DType t) {
  return t == DType::kF16 ? DnnType::kF16 : (t == DType::kBF16 ? DnnType::kBF16 : DnnType::kF32);
}
// What an array of so many bytes is aligned to that may follow others in an arena.
int64_t arena_alignment_of(const Array& a, DType type) {
  int64_t bytes = hlo::byte_size(type);
  for (int64_t d : a.dims) bytes *= d;
  return std::min(kArenaAlignment, bytes & -bytes);
}

Array dense_array(const std::array<int64_t, 4>& d) { return {d, {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}}; }
// As the second operand of a product has it: the last two dimensions change places.
Array turned(Array a) {
  std::swap(a.dims[2], a.dims[3]);
  std::swap(a.strides[2], a.strides[3]);
  return a;
}
constexpr std::array<int64_t, 4> kOne{1, 1, 1, 1};

}  // namespace

// The graph of operations, of any device. The library knows it by its pattern, to which belong the logarithms
// of sums, that nobody reads, and takes scores in f32 and probabilities of the values' type only.
struct Attention::Descriptions {
  Descriptions(const Dnn& of, const AttentionForm& f) : dnn(of), form(f) {}

  DnnStatus make() {
    const std::array<int64_t, 4> all{form.query.dims[0], form.query.dims[1], form.query.dims[2],
                                     form.key.dims[2]};
    const std::array<int64_t, 4> each{all[0], all[1], all[2], 1};
    const auto array = [&](Id id, const Array& a, DType type) {
      return tensor(id, a, dnn_type(type), arena_alignment_of(a, type));
    };
    const auto between = [&](const std::array<int64_t, 4>& dims, DnnType type = DnnType::kF32) {
      return tensor(next_id++, dense_array(dims), type, kArenaAlignment, true);
    };
    const size_t query = array(kQuery, form.query, form.type), key = array(kKey, turned(form.key), form.type),
                 value = array(kValue, form.value, form.type),
                 result = array(kResult, form.result, form.type);
    size_t scores = between(all);
    multiply_matrices(query, key, scores);
    const auto then = [&](DnnPointwise mode, size_t with) {
      const size_t out = between(all);
      pointwise(mode, scores, with, out);
      scores = out;
    };
    if (form.has_scale_operand || form.scale != 1)
      then(DnnPointwise::kMultiply,
           tensor(kScale, dense_array(kOne), DnnType::kF32, sizeof(float), false, !form.has_scale_operand));
    if (form.bias) then(DnnPointwise::kAdd, array(kBias, *form.bias, form.bias_type));
    if (form.causal) {
      const size_t row = between(all, DnnType::kS32), column = between(all, DnnType::kS32),
                   is_past = between(all, DnnType::kPred), masked = between(all),
                   low = tensor(kMasked, dense_array(kOne), DnnType::kF32, sizeof(float), false, true);
      index(scores, row, 2);
      index(scores, column, 3);
      pointwise(DnnPointwise::kGreaterOrEqual, row, column, is_past);
      pointwise(DnnPointwise::kSelect, scores, low, masked, is_past);
      scores = masked;
    }
    const size_t most = between(each), below = between(all), terms = between(all), sums = between(each),
                 logs = between(each), logs_of_all = between(each),
                 probabilities = between(all, dnn_type(form.type));
    reduce(DnnReduction::kMaximum, scores, most);
    pointwise(DnnPointwise::kSubtract, scores, most, below);
    pointwise(DnnPointwise::kExponential, below, kNone, terms);
    reduce(DnnReduction::kAdd, terms, sums);
    pointwise(DnnPointwise::kLogarithm, sums, kNone, logs);
    pointwise(DnnPointwise::kAdd, most, logs, logs_of_all);
    pointwise(DnnPointwise::kDivide, terms, sums, probabilities);
    multiply_matrices(probabilities, value, result);
    return status;
  }
  std::vector<DnnDescriptor> operations() const {
    std::vector<DnnDescriptor> out;
    for (size_t i : operation_places) out.push_back(objects[i].handle());
    return out;
  }
  DnnEngineRules rules() const { return {form.is_fast, false, true}; }

  static constexpr size_t kNone = static_cast<size_t>(-1);

  DnnObject& add(DnnKind kind) {
    objects.emplace_back(dnn, kind);
    return objects.back();
  }
  size_t done() {
    if (status == DnnStatus::kSuccess) status = objects.back().finalize().status();
    return objects.size() - 1;
  }
  size_t tensor(int64_t id, const Array& a, DnnType type, int64_t alignment, bool is_virtual = false,
                bool by_value = false) {
    using enum DnnAttribute;
    add(DnnKind::kTensor)
        .set(kTensorType, type)
        .set(kTensorDims, std::span<const int64_t>(a.dims))
        .set(kTensorStrides, std::span<const int64_t>(a.strides))
        .set(kTensorId, id)
        .set(kTensorAlignment, alignment)
        .set(kTensorIsVirtual, is_virtual)
        .set(kTensorIsByValue, by_value);
    return done();
  }
  void multiply_matrices(size_t a, size_t b, size_t c) {
    using enum DnnAttribute;
    add(DnnKind::kProduct).set(kProductType, DnnType::kF32);
    const size_t how = done();
    add(DnnKind::kProductOperation)
        .set(kProductHow, objects[how])
        .set(kProductA, objects[a])
        .set(kProductB, objects[b])
        .set(kProductC, objects[c]);
    operation_places.push_back(done());
  }
  void pointwise(DnnPointwise mode, size_t x, size_t b, size_t y, size_t choice = kNone) {
    using enum DnnAttribute;
    add(DnnKind::kPointwise).set(DnnAttribute::kPointwiseMode, mode).set(kPointwiseType, DnnType::kF32);
    apply(done(), x, b, y, choice);
  }
  // The place of each element along a dimension.
  void index(size_t x, size_t y, int64_t axis) {
    using enum DnnAttribute;
    add(DnnKind::kPointwise)
        .set(DnnAttribute::kPointwiseMode, DnnPointwise::kIndex)
        .set(kPointwiseType, DnnType::kF32)
        .set(kPointwiseAxis, axis);
    apply(done(), x, kNone, y, kNone);
  }
  void apply(size_t how, size_t x, size_t b, size_t y, size_t choice) {
    using enum DnnAttribute;
    DnnObject& operation = add(DnnKind::kPointwiseOperation);
    operation.set(kPointwiseHow, objects[how]).set(kPointwiseX, objects[x]).set(kPointwiseY, objects[y]);
    if (b != kNone) operation.set(kPointwiseB, objects[b]);
    if (choice != kNone) operation.set(kPointwiseChoice, objects[choice]);
    operation_places.push_back(done());
  }
  void reduce(DnnReduction mode, size_t x, size_t y) {
    using enum DnnAttribute;
    add(DnnKind::kReduction).set(DnnAttribute::kReductionMode, mode).set(kReductionType, DnnType::kF32);
    const size_t how = done();
    add(DnnKind::kReductionOperation)
        .set(kReductionHow, objects[how])
        .set(kReductionX, objects[x])
        .set(kReductionY, objects[y]);
    operation_places.push_back(done());
  }

  const Dnn& dnn;
  const AttentionForm form;
  DnnStatus status = DnnStatus::kSuccess;
  int64_t next_id = kFirstBetween;
  std::vector<DnnObject> objects;
  std::vector<size_t> operation_places;
};

int64_t Attention::workspace_bytes() const { return workspace_for(choices_); }

std::string Attention::describe() const {
  return str_cat(describe_choices(*dnn_, choices_, [](const DnnPlan&) { return ""; }),
                 form_.causal ? ", causal" : "", form_.bias ? ", with a bias" : "");
}

absl::Status Attention::enqueue(CudaQueue& queue, const Operands& at) const {
  if (absl::Status s = queue.gpu().health(); !s.ok()) return s;
  const DnnChoice* const choice = choice_for(choices_, queue.gpu());
  if (!choice) return absl::InternalError("the attention was planned without this device");
  std::vector<int64_t> ids;
  std::vector<void*> arrays;
  const auto add_pointer = [&](Id id, const void* to) {
    ids.push_back(id);
    arrays.push_back(const_cast<void*>(to));
  };
  bool is_aligned = true;
  const auto add = [&](Id id, Address begin, int64_t alignment) {
    is_aligned = is_aligned && begin.bits() % static_cast<uint64_t>(alignment) == 0;
    add_pointer(id, reinterpret_cast<void*>(begin.bits()));
  };
  add(kQuery, at.query, arena_alignment_of(form_.query, form_.type));
  add(kKey, at.key, arena_alignment_of(form_.key, form_.type));
  add(kValue, at.value, arena_alignment_of(form_.value, form_.type));
  add(kResult, at.result, arena_alignment_of(form_.result, form_.type));
  if (form_.bias) add(kBias, at.bias, arena_alignment_of(*form_.bias, form_.bias_type));
  if (form_.has_scale_operand)
    add(kScale, at.scale, sizeof(float));
  else if (form_.scale != 1)
    add_pointer(kScale, &form_.scale);
  if (form_.causal) add_pointer(kMasked, &*form_.causal);
  if (!is_aligned)
    return absl::InternalError("an array of an attention lies where none was expected to begin");
  return enqueue_plan(queue, *dnn_, *choice->device, *choice->plan, ids, arrays, at.workspace, "attending");
}

absl::StatusOr<std::shared_ptr<Attention>> Attentions::described(const Dnn& dnn, const AttentionForm& form) {
  auto out = std::make_shared<Attention>();
  out->form_ = form;
  out->dnn_ = &dnn;
  auto made = std::make_shared<Attention::Descriptions>(dnn, form);
  if (const DnnStatus status = made->make(); status != DnnStatus::kSuccess)
    return absl::UnimplementedError(str_cat("it refuses to describe the attention: ", dnn.words(status)));
  out->descriptions_ = std::move(made);
  return out;
}

Attentions::Made Attentions::known_locked(const Dnn& dnn, const AttentionForm& form) {
  std::erase_if(plans_, [](const auto& known) { return known.expired(); });
  for (const auto& known : plans_)
    if (Made it = known.lock(); it && it->dnn_ == &dnn && it->form_ == form) return it;
  return nullptr;
}

absl::StatusOr<std::shared_ptr<const Attention>> Attentions::plan(const AttentionForm& form) {
  if (form.multiplications() < least_work_.load()) return nullptr;
  const absl::StatusOr<DnnLibrary::Opened>& opened = library_.opened();
  if (!opened.ok()) return opened.status();
  std::lock_guard lock(mutex_);
  if (Made known = known_locked(opened->library, form)) return known;
  absl::StatusOr<std::shared_ptr<Attention>> made = described(opened->library, form);
  if (!made.ok()) return made.status();
  for (const std::unique_ptr<DnnDevice>& device : opened->devices) {
    if (!device->serves()) continue;
    const absl::Status chosen = device->gpu->within([&] {
      std::lock_guard one_call(device->mutex);
      const Attention::Descriptions& d = *(*made)->descriptions_;
      auto plan = choose_plan(opened->library, d.operations(), {device->handle, nullptr}, d.rules());
      if (plan.ok()) (*made)->choices_.push_back({device.get(), *std::move(plan)});
      return plan.status();
    });
    if (!chosen.ok() && !device->gpu->is_lost()) return chosen;
  }
  ++made_;
  plans_.push_back(*made);
  latest_[next_++ % latest_.size()] = *made;
  return Made(*std::move(made));
}

absl::StatusOr<std::vector<int64_t>> Attentions::engines_for(const Dnn& dnn, std::string_view properties,
                                                             const AttentionForm& form) {
  DnnObject device(dnn, DnnKind::kDeviceProperties);
  device.set(DnnAttribute::kPropertiesText, std::span<const char>(properties)).finalize();
  if (!device.ok())
    return absl::UnimplementedError(str_cat("it refuses the device: ", dnn.words(device.status())));
  absl::StatusOr<std::shared_ptr<Attention>> made = described(dnn, form);
  if (!made.ok()) return made.status();
  const Attention::Descriptions& d = *(*made)->descriptions_;
  std::vector<int64_t> out;
  const absl::Status found =
      find_engine(dnn, d.operations(), {nullptr, &device}, d.rules(), [&](DnnEngine engine, std::string&) {
        out.push_back(engine.number);
        return false;
      });
  if (out.empty()) return found;
  return out;
}

}  // namespace lamina::jit::cuda
