#include "jit/cuda/launch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/cuda/user_line.h"
#include "jit/kernel/grid_chain.h"
#include "jit/kernel/in_place.h"
#include "jit/kernel/lower_call.h"
#include "jit/program/row_access.h"

namespace lamina::jit::cuda {
namespace {

// One kernel for certain arguments.
struct Launched {
  AlignedKernel kernel;
  GridPlan plan;
  std::vector<int64_t> args = {};
  std::vector<uint64_t> fixed = {};  // parameters behind the buffers, the same in each run: `args` first
  std::vector<int> places = {};      // by buffer
  int scratch = -1;                  // of the plan

  const LoopKernel& spec() const { return kernel.kernel->spec(); }
};

// What the buffers of a sequence's parts are: values by their slots, or memory that the parts share.
class Buffers {
 public:
  // What the step's memory becomes when it is placed: slots as they are, shared memory below -1.
  static int shared_place(int number) { return -2 - number; }

  // Asks for the slot of each buffer once: how often a step asks for a value's says how often it is read.
  Buffers(const KernelSequence& sequence, const SlotOf& slot_of) : sequence_(sequence) {
    for (const KernelSequence::Part& part : sequence.parts) {
      std::vector<int>& places = places_.emplace_back();
      for (size_t b = 0; b < part.shared.size(); ++b)
        places.push_back(part.shared[b] < 0 ? slot_of(part.loop.buffers[b]) : shared_place(part.shared[b]));
    }
  }
  const std::vector<int>& of(size_t part) const { return places_[part]; }
  // Results that the last part alone touches may lie over what it reads where that is.
  std::vector<Step::MayOverwrite> overwrites() const {
    const KernelSequence::Part& last = sequence_.parts.back();
    const std::vector<int>& places = places_.back();
    std::vector<Step::MayOverwrite> out;
    for (const auto& [w, r] : overwritable(last.loop.kernel, last.loop))
      if (times_used(places[w]) == 1) out.push_back({places[w], places[r], false});
    return out;
  }

 private:
  int64_t times_used(int place) const {
    int64_t times = 0;
    for (const std::vector<int>& places : places_) times += std::count(places.begin(), places.end(), place);
    return times;
  }

  const KernelSequence& sequence_;
  std::vector<std::vector<int>> places_;  // by part and buffer
};

class LaunchStep final : public QueueStep {
 public:
  LaunchStep(CudaKernels& kernels, const KernelSequence& sequence, std::vector<Launched> launched,
             Address never, const SlotOf& slot_of, std::string what, UserLine line)
      : QueueStep(kernels),
        launched_(std::move(launched)),
        line_(line),
        what_(std::move(what)),
        scratch_(sequence.shared_bytes) {
    const Buffers buffers(sequence, slot_of);
    for (size_t p = 0; p < sequence.parts.size(); ++p) {
      const KernelSequence::Part& part = sequence.parts[p];
      launched_[p].places = buffers.of(p);
      launched_[p].fixed.assign(part.loop.args.begin(), part.loop.args.end());
      if (holds_question(part.loop.kernel)) launched_[p].fixed.push_back(never.bits());
      if (const int64_t bytes = launched_[p].plan.scratch_bytes; bytes > 0) {
        launched_[p].scratch = static_cast<int>(scratch_.size());
        scratch_.push_back(bytes);
      }
      work_ += part.loop.work;
    }
    overwrites_ = buffers.overwrites();
    if (is_chainable(sequence)) {
      row_accesses_ = row_accesses_of(launched_[0].spec(), sequence.parts[0].loop);
      for (RowAccess& a : row_accesses_) a.slot = launched_[0].places[static_cast<size_t>(a.slot)];
    }
  }
  static bool is_chainable(const KernelSequence& sequence) {
    return sequence.parts.size() == 1 &&
           joins_chains(sequence.parts[0].loop.kernel, sequence.parts[0].loop.args);
  }

  absl::Status enqueue_on(CudaQueue& queue, const Frame& frame) const override {
    for (const Launched& l : launched_)
      if (absl::Status s = enqueue_one(l, frame, queue); !s.ok()) return line_.add_to(s);
    return absl::OkStatus();
  }
  std::vector<int> used_places() const override {
    std::vector<int> out;
    for (const Launched& l : launched_) {
      out.insert(out.end(), l.places.begin(), l.places.end());
      if (l.scratch >= 0) out.push_back(l.scratch);
    }
    return out;
  }
  size_t calls() const override {
    size_t count = 0;
    for (const Launched& l : launched_) count += l.plan.launches.size();
    return count;
  }
  int64_t kernel_runs() const override { return static_cast<int64_t>(launched_.size()); }
  int64_t work() const override { return work_; }
  std::vector<const KernelText*> kernels() const override {
    return {&launched_.back().kernel.kernel->text()};
  }
  std::string describe() const override { return what_; }
  std::vector<MayOverwrite> overwrites() const override { return overwrites_; }
  std::vector<int64_t> scratch_bytes() const override { return scratch_; }
  int64_t leading() const override { return row_accesses_.empty() ? 0 : launched_[0].args[0]; }
  std::vector<RowAccess> row_accesses() const override { return row_accesses_; }
  ChainedLaunch chained() const {
    return {&launched_[0].spec(), launched_[0].args, launched_[0].places, line_};
  }
  void place(const Placing& placing) override {
    const auto part = [&](int number) { return placing.plan.scratch[static_cast<size_t>(number)].place; };
    for (Launched& l : launched_) {
      for (int& p : l.places) p = p < 0 ? part(Buffers::shared_place(p)) : placing.of_slot[p];
      if (l.scratch >= 0) l.scratch = part(l.scratch);
    }
  }

 private:
  // As jit/kernel/grid.h says.
  static absl::Status enqueue_one(const Launched& l, const Frame& frame, CudaQueue& queue) {
    constexpr size_t kOfScratch = 3;
    const size_t common = l.places.size() + l.fixed.size(), most = common + kOfScratch;
    absl::InlinedVector<uint64_t, 32> values(most);
    absl::InlinedVector<void*, 32> parameters(most);
    for (size_t i = 0; i < most; ++i) parameters[i] = &values[i];
    uint64_t begins = 0;
    for (size_t i = 0; i < l.places.size(); ++i) begins |= values[i] = frame.at[l.places[i]].bits();
    const CudaKernel& kernel = l.kernel.of(begins);
    std::copy(l.fixed.begin(), l.fixed.end(), values.begin() + static_cast<std::ptrdiff_t>(l.places.size()));
    for (const GridLaunch& launch : l.plan.launches) {
      absl::StatusOr<FunctionHandle> function = kernel.function(queue.gpu(), launch.entry);
      if (!function.ok()) return function.status();
      if (l.scratch >= 0) {
        const Address scratch = frame.at[l.scratch];
        values[common] = (scratch + launch.from).bits();
        values[common + 1] = (scratch + launch.to).bits();
        values[common + 2] = static_cast<uint64_t>(launch.count);
      }
      if (absl::Status s = queue.launch(*function, static_cast<unsigned>(launch.blocks), kGridThreads,
                                        {parameters.data(), l.scratch >= 0 ? most : common});
          !s.ok())
        return s;
    }
    return absl::OkStatus();
  }

  std::vector<Launched> launched_;
  const UserLine line_;
  const std::string what_;
  std::vector<int64_t> scratch_;  // bytes: what the kernels share, then that of their plans
  std::vector<MayOverwrite> overwrites_;
  std::vector<RowAccess> row_accesses_;  // of a step that may be chained
  int64_t work_ = 0;
};

std::string description(const KernelSequence& sequence, const std::vector<Launched>& launched) {
  const LoweredLoop& loop = sequence.parts.back().loop;
  const CudaKernel& kernel = *launched.back().kernel.kernel;
  const LoopKernel& k = kernel.spec();
  std::string schedule = to_string(kernel.schedule());
  schedule.pop_back();
  return str_cat("loop ", loop.outer, " x ", loop.inner, k.has_reduction ? " reducing" : "",
                 k.before ? " sorting" : "", k.repeats.empty() ? "" : " in steps", ", ", k.body.size(), "+",
                 k.epilogue.size(), " instructions, ", k.buffers.size(), " buffers, ", schedule);
}

}  // namespace

ChainedLaunch chained(const Step& launch) { return static_cast<const LaunchStep&>(launch).chained(); }

absl::StatusOr<std::unique_ptr<QueueStep>> make_launch_step(CudaKernels& kernels, int capability,
                                                            Address never, const cluster::FusionPlan& plan,
                                                            const cluster::Group& group,
                                                            const SlotOf& slot_of, std::string_view beside) {
  absl::StatusOr<KernelSequence> sequence = lower_group(plan, group);
  if (!sequence.ok()) return sequence.status();
  std::vector<Launched> launched;
  for (KernelSequence::Part& part : sequence->parts) {
    LoweredLoop& loop = part.loop;
    for (int64_t bytes : loop.own_bytes)
      if (bytes > 0) return absl::UnimplementedError("kernels with memory of their own have no form on CUDA");
    if (absl::Status s = grid_takes(loop.kernel); !s.ok()) return s;
    const GridSchedule schedule = favoured_grid(loop.kernel, loop.args);
    absl::StatusOr<GridPlan> launches = grid_plan(loop.kernel, schedule, loop.args);
    if (!launches.ok()) return launches.status();
    // What becomes part of a chain is never launched by itself.
    const auto code =
        LaunchStep::is_chainable(*sequence) ? CudaKernels::Code::kLater : CudaKernels::Code::kNow;
    absl::StatusOr<AlignedKernel> kernel = kernels.get_aligned({{loop.kernel, schedule}}, capability, code);
    if (!kernel.ok()) return kernel.status();
    launched.push_back({*std::move(kernel), *std::move(launches)});
    launched.back().args = loop.args;
  }
  std::string what = description(*sequence, launched);
  if (group.kind == cluster::GroupKind::kLibrary) {
    what = str_cat(group.anchors[0]->def().name, " as ", what);
    if (launched.size() > 1) str_append(&what, ", the last of ", launched.size(), " kernels");
  }
  str_append(&what, beside);
  return std::make_unique<LaunchStep>(kernels, *sequence, std::move(launched), never, slot_of,
                                      std::move(what), UserLine(*group.anchors[0]));
}

}  // namespace lamina::jit::cuda
