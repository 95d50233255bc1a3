// Steps that run a loop kernel.
#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/engine.h"
#include "jit/steps.h"

namespace lamina::jit {
namespace {

// Inner ranges are cut at multiples of this, so that tasks start on vector boundaries.
constexpr int64_t kInnerGrain = 1024;

// Strides and offset of an access with their values for one shape, by dimension.
std::vector<int64_t> resolved(const Access& access, const std::vector<int64_t>& args) {
  std::vector<int64_t> out(kMaxLoopRank + 1, 0);
  out[kMaxLoopRank] = access.offset_slot < 0 ? 0 : args[access.offset_slot];
  for (const AccessTerm& t : access.terms) out[t.dim] += t.unit ? t.unit : args[t.stride_slot];
  return out;
}

// Pairs (written buffer, read buffer) of one memory layout where each element is read by the very output
// element that is stored there, so that the result may take the operand's memory.
std::vector<std::pair<size_t, size_t>> overwritable(const LoopKernel& k, const LoweredLoop& loop) {
  std::vector<std::pair<size_t, size_t>> out;
  if (k.has_reduction) return out;
  auto only_access = [&](size_t buffer) -> const Access* {
    const Access* found = nullptr;
    for (const KernelInstr& i : k.body)
      if (i.op == KernelOp::kLoadAt && i.imm == buffer) return nullptr;
    for (const Access& a : k.accesses) {
      if (a.buffer != buffer) continue;
      if (found) return nullptr;
      found = &a;
    }
    return found;
  };
  for (size_t w = 0; w < k.buffers.size(); ++w) {
    const Access* store = k.buffers[w].written ? only_access(w) : nullptr;
    if (!store) continue;
    for (size_t r = 0; r < k.buffers.size(); ++r) {
      const Access* load = k.buffers[r].written ? nullptr : only_access(r);
      if (!load || loop.buffers[r].type()->bytes() != loop.buffers[w].type()->bytes() ||
          hlo::byte_size(k.buffers[r].type) != hlo::byte_size(k.buffers[w].type))
        continue;
      if (resolved(*load, loop.args) == resolved(*store, loop.args)) out.emplace_back(w, r);
    }
  }
  return out;
}

class LoopStep final : public Step {
 public:
  LoopStep(std::shared_ptr<Kernel> kernel, LoweredLoop loop, const SlotOf& slot_of)
      : kernel_(std::move(kernel)),
        overwritable_(overwritable(kernel_->spec(), loop)),
        args_(std::move(loop.args)),
        outer_(loop.outer),
        inner_(loop.inner),
        work_(loop.work) {
    for (const hlo::Value& v : loop.buffers) places_.push_back(slot_of(v));
  }

  absl::Status run(Run& run) const override {
    absl::InlinedVector<void*, 12> buffers;
    for (int p : places_) buffers.push_back(run.memory[p]);
    if (outer_ == 0 || inner_ == 0) return absl::OkStatus();
    const KernelEntry entry = run.engine.kernels().entry_for(*kernel_, work_);
    static constexpr int32_t kNever = 0;
    const int32_t* cancel = run.cancel ? run.cancel->address() : &kNever;
    auto part = [&](int64_t o0, int64_t o1, int64_t i0, int64_t i1) {
      return entry ? entry(buffers.data(), args_.data(), o0, o1, i0, i1, cancel)
                   : kernel_->interpreter().run(buffers.data(), args_.data(), o0, o1, i0, i1, cancel);
    };
    ThreadPool& pool = run.engine.runtime().pool();
    const int64_t threads = pool.threads_for(work_);
    std::atomic<bool> stopped = false;
    if (threads > 1 && outer_ >= 2 * threads) {
      const int64_t tasks = std::min<int64_t>(outer_, threads);
      pool.parallel_for(tasks, [&](int64_t t) {
        if (part(outer_ * t / tasks, outer_ * (t + 1) / tasks, 0, inner_)) stopped = true;
      });
    } else if (threads > 1 && inner_ >= 2 * kInnerGrain) {
      const int64_t grains = (inner_ + kInnerGrain - 1) / kInnerGrain,
                    tasks = std::min<int64_t>(grains, threads);
      pool.parallel_for(tasks, [&](int64_t t) {
        const int64_t from = grains * t / tasks * kInnerGrain;
        if (part(0, outer_, from, std::min(inner_, grains * (t + 1) / tasks * kInnerGrain))) stopped = true;
      });
    } else if (part(0, outer_, 0, inner_)) {
      stopped = true;
    }
    return stopped ? absl::CancelledError("the run was cancelled") : absl::OkStatus();
  }

  int64_t work() const override { return work_; }
  std::string describe() const override {
    const LoopKernel& k = kernel_->spec();
    return str_cat("loop ", outer_, " x ", inner_, k.has_reduction ? " reducing" : "", ", ", k.body.size(),
                   "+", k.epilogue.size(), " instructions, ", k.buffers.size(), " buffers, ",
                   kernel_->is_compiled() ? "compiled" : "interpreted");
  }

  std::vector<MayOverwrite> overwrites() const override {
    std::vector<MayOverwrite> out;
    for (const auto& [w, r] : overwritable_) out.push_back({places_[w], places_[r], false});
    return out;
  }
  void place(std::span<const int> of_slot, std::span<const int>) override {
    for (int& p : places_) p = of_slot[p];
  }

 private:
  std::shared_ptr<Kernel> kernel_;
  std::vector<std::pair<size_t, size_t>> overwritable_;
  std::vector<int64_t> args_;
  int64_t outer_, inner_, work_;
  std::vector<int> places_;  // by buffer of the kernel
};

// A node that is a group of its own, reading values that are stored: what a native op can take over.
bool stands_alone(const cluster::Plan& plan, const cluster::Group& group) {
  if (group.anchors.size() != 1) return false;
  const hlo::Node& n = *group.anchors[0];
  for (const hlo::Operand o : n.operands())
    if (o.node()->op() != hlo::Op::parameter && !plan.group_of.contains(o.node())) return false;
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_loop_step(Engine& engine, const cluster::Plan& plan,
                                                     const cluster::Group& group, const SlotOf& slot_of) {
  if (group.anchors[0]->op() == hlo::Op::transpose && stands_alone(plan, group))
    if (std::unique_ptr<Step> native = make_native_step(*group.anchors[0], slot_of)) return native;
  absl::StatusOr<LoweredLoop> loop = lower_loop(plan, group);
  if (!loop.ok()) return loop.status();
  std::shared_ptr<Kernel> kernel = engine.kernels().get(std::move(loop->kernel));
  return std::make_unique<LoopStep>(std::move(kernel), *std::move(loop), slot_of);
}

}  // namespace lamina::jit
