#include "jit/cuda/target.h"

#include <algorithm>

#include "cluster/repeat.h"
#include "hlo/attributes.h"
#include "hlo/passes/pass.h"
#include "hlo/strings.h"
#include "jit/cuda/chain.h"
#include "jit/cuda/factorization_step.h"
#include "jit/cuda/graph_step.h"
#include "jit/cuda/host_step.h"
#include "jit/cuda/launch.h"
#include "jit/cuda/library_step.h"
#include "jit/cuda/triangle_step.h"

namespace lamina::jit::cuda {
namespace {

absl::Status not_in_files() {
  return absl::UnimplementedError("programs for CUDA devices are not kept in files");
}

// Running sums and the like are made step after step, by a thread for each element of a step. With few of
// those a processor is quicker, copies included.
bool is_long_running_scan(const hlo::Node& loop) {
  constexpr int64_t kFewElements = 16, kManySteps = 16 * 1024;
  if (!cluster::is_running_scan(loop)) return false;
  const hlo::Type& sums = *loop.operand_type(0);
  return sums.num_elements < kFewElements && loop.attrs().integer(hlo::Attr::length) >= kManySteps;
}

}  // namespace

absl::StatusOr<hlo::ComputationPtr> CudaTarget::prepared(const hlo::ComputationPtr& program) const {
  absl::StatusOr<hlo::ComputationPtr> joined = hlo::join_transforms(program);
  if (!joined.ok()) return joined;
  // In this order: only a program with such transforms opens the library.
  if (*joined != program && !fourier_.is_there()) joined = program;
  joined = with_attention_calls(*joined, [&](const AttentionForm& form) {
    const auto plan = attentions_.plan(form);
    return plan.ok() && *plan != nullptr;
  });
  if (!joined.ok()) return joined;
  return with_epilogue_calls(*joined, [&](const ProductEpilogue& found) {
    const auto plan = products_.plan(*found.product, {}, found.epilogue);
    return plan.ok() && *plan != nullptr;
  });
}

absl::StatusOr<std::unique_ptr<Step>> CudaTarget::lower(const cluster::FusionPlan& plan,
                                                        const cluster::Group& group,
                                                        const SlotOf& slot_of) const {
  std::string why = "no form for it on CUDA", beside;
  if (group.kind == cluster::GroupKind::kLibrary || group.kind == cluster::GroupKind::kHost) {
    const char* library = nullptr;
    absl::StatusOr<std::unique_ptr<Step>> call = library_call(group, slot_of, library);
    if (call.ok() && *call) return call;
    // For what was put there for a library, nobody else has a form.
    if (!call.ok() && (attention_form(*group.anchors[0]) || epilogue_of(*group.anchors[0]))) return call;
    if (!call.ok()) beside = str_cat(", without ", library, ": ", call.status().message());
  }
  const bool is_slow = group.repeat && is_long_running_scan(*group.repeat);
  if (is_slow) why = "a thread takes longer for each of so many steps";
  if (!is_slow && (group.kind == cluster::GroupKind::kLoop || group.kind == cluster::GroupKind::kLibrary)) {
    absl::StatusOr<std::unique_ptr<QueueStep>> launch =
        make_launch_step(kernels_, capability_, never_, plan, group, slot_of, beside);
    if (launch.ok()) return launch;
    why = std::string(launch.status().message());
  }
  absl::StatusOr<std::unique_ptr<Step>> step = host_device().target().lower(plan, group, slot_of);
  if (!step.ok() || !*step) return step;
  return make_host_step(*std::move(step), why + beside);
}

absl::StatusOr<std::unique_ptr<Step>> CudaTarget::library_call(const cluster::Group& group,
                                                               const SlotOf& slot_of,
                                                               const char*& library) const {
  const hlo::Node& node = *group.anchors[0];
  const auto made = [&](const hlo::Computation& program) { return kernel(program); };
  switch (node.op()) {
    case hlo::Op::dot_general:
      library = "cublasLt";
      return make_product_step(products_, kernels_, node, group.reads, slot_of, made);
    case hlo::Op::convolution:
      library = "cuDNN";
      return make_convolution_step(convolutions_, kernels_, node, slot_of, made);
    case hlo::Op::custom_call:
      if (const auto epilogue = epilogue_of(node)) {
        library = "cublasLt";
        return make_epilogue_step(products_, kernels_, node, *epilogue, slot_of, made);
      }
      if (const auto form = attention_form(node)) {
        library = "cuDNN";
        return make_attention_step(attentions_, kernels_, node, *form, slot_of, made);
      }
      if (factorization_form(node)) {
        library = "cuSOLVER";
        return make_factorization_step(factorizations_, kernels_, node, group.reads, slot_of, made);
      }
      if (triangle_form(node)) {
        library = "cuBLAS";
        return make_triangle_step(triangles_, kernels_, node, group.reads, slot_of, made);
      }
      library = "cuFFT";
      return make_fourier_step(fourier_, kernels_, node, slot_of, made);
    default:
      return nullptr;
  }
}

absl::StatusOr<std::unique_ptr<QueueStep>> CudaTarget::kernel(const hlo::Computation& program) const {
  const cluster::FusionPlan plan = cluster::make_fusion_plan(program, costs_);
  if (plan.groups.size() != 1 || plan.groups[0].kind == cluster::GroupKind::kAlias)
    return absl::InternalError("a program beside a library is no single kernel");
  bool reads_constant = false;
  const auto slot_of = [&](const hlo::Value& v) {
    const auto of = [&](std::span<const hlo::Value> values) {
      return std::find(values.begin(), values.end(), v) - values.begin();
    };
    const auto parameters = static_cast<std::ptrdiff_t>(program.parameters().size());
    const std::ptrdiff_t parameter = of(program.parameters()), root = of(program.roots());
    if (parameter < parameters) return static_cast<int>(parameter);
    reads_constant |= root == static_cast<std::ptrdiff_t>(program.roots().size());
    return static_cast<int>(parameters + root);
  };
  absl::StatusOr<std::unique_ptr<QueueStep>> step =
      make_launch_step(kernels_, capability_, never_, plan, plan.groups[0], slot_of);
  // As reductions do with what they begin with: only whole programs have memory for constants.
  if (reads_constant)
    return absl::InternalError("a program beside a library reads a constant from memory that it has not");
  return step;
}

std::unique_ptr<const Step> CudaTarget::chain(std::span<const Step* const> steps, int64_t rows,
                                              int64_t block) const {
  return make_chain_step(kernels_, capability_, steps, rows, block);
}

Target::HeldRows CudaTarget::hold_rows(std::span<const Step* const> steps, int64_t rows,
                                       std::span<const int> of_slot, const std::vector<bool>& inner) const {
  return make_held_step(kernels_, capability_, steps, rows, of_slot, inner);
}

Target::Batch CudaTarget::batch(std::span<const Step* const> steps) const { return make_graph_step(steps); }

absl::StatusOr<std::string> CudaTarget::ir(const KernelText&) const {
  return absl::UnimplementedError("of kernels for CUDA the PTX is shown, as assembly");
}
absl::StatusOr<std::string> CudaTarget::assembly(const KernelText& kernel) const {
  return kernels_.ptx(kernel);
}
absl::StatusOr<std::string> CudaTarget::machine() const { return not_in_files(); }
absl::Status CudaTarget::check_machine(std::string_view) const { return not_in_files(); }
absl::StatusOr<KernelCode> CudaTarget::code(const KernelText&) const { return not_in_files(); }
absl::StatusOr<std::shared_ptr<const void>> CudaTarget::adopt(const KernelCode&) const {
  return not_in_files();
}

}  // namespace lamina::jit::cuda
