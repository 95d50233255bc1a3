// Steps that run a loop kernel.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "absl/container/inlined_vector.h"
#include "cluster/repeat.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/cpu/client.h"
#include "jit/cpu/perf_symbols.h"
#include "jit/cpu/steps.h"
#include "jit/kernel/in_place.h"
#include "jit/kernel/lower.h"
#include "jit/kernel/split_reduction.h"
#include "jit/program/row_access.h"

namespace lamina::jit {
namespace {

// Inner ranges are cut at multiples of this, so that tasks start on vector boundaries.
constexpr int64_t kInnerGrain = 1024;
// The same where each element makes many steps.
constexpr int64_t kRepeatGrain = 64;
constexpr int64_t kReduceGrain = 64;
// A loop of unknown length that took less the last time gains nothing from threads.
constexpr int64_t kBriefNs = 100'000;

// A loop of less work takes about as long to start as to run, and so many of them are not watched one by one.
constexpr int64_t kSmallWork = 1000;
constexpr int64_t kBatchWork = RunControl::kWatchedWork / 2;

int64_t grain_of(const LoopKernel& k, const std::vector<int64_t>& args) {
  if (!k.repeats.empty()) return kRepeatGrain;
  if (!k.has_reduction) return kInnerGrain;
  // Each element of the inner range is a whole reduction, which vectors run along or across.
  int64_t reduced = 1;
  for (int d = 0; d < k.reduce_rank; ++d) reduced *= std::max<int64_t>(args[k.parallel_rank + d], 1);
  const int64_t together = favoured_form(k, args) == ReduceForm::kAlongReduced ? 1 : kReduceGrain;
  return std::clamp(kInnerGrain / reduced / together * together, together, kInnerGrain);
}

// Tasks that store less than this do not store past the caches.
constexpr int64_t kStreamingTask = int64_t{2} << 20;

int64_t most_tasks(const LoopKernel& k, const std::vector<int64_t>& args, int64_t elements) {
  if (!favoured_schedule(k, args).streams) return INT64_MAX;
  int64_t bytes = INT64_MAX;  // of an element
  for (const Store& s : k.stores)
    bytes = std::min<int64_t>(bytes, hlo::byte_size(k.buffers[k.accesses[s.access].buffer].type));
  return elements * bytes / kStreamingTask;
}

// What the interpreter makes of the work of one run, in element operations that take as long: each row costs
// it something, and each step of a reduction's tree, and each instruction of a loop's steps for each block.
int64_t interpreted_work(const LoopKernel& k, const LoweredLoop& loop) {
  constexpr int64_t kRow = 100, kTree = 3000, kLane = 200, kLanes = 64, kColumns = 256;
  constexpr int64_t kBlock = 256;
  constexpr double kInstruction = 50, kMost = 1e15;
  const int64_t results = loop.outer * loop.inner;
  if (!k.repeats.empty()) {
    const double blocks = static_cast<double>(results / kBlock + 1);
    return loop.work + loop.outer * kRow +
           static_cast<int64_t>(
               std::min(blocks * static_cast<double>(loop.instructions) * kInstruction, kMost));
  }
  if (!k.has_reduction) return loop.work + loop.outer * kRow;
  if (favoured_form(k, loop.args) == ReduceForm::kAlongReduced) return loop.work + results * kTree;
  int64_t reduced = 1;
  for (int d = 0; d < k.reduce_rank; ++d) reduced *= std::max<int64_t>(loop.args[k.parallel_rank + d], 1);
  return loop.work + (results / kColumns + 1) * std::min(reduced, kLanes) * kLane + loop.outer * kRow;
}

// Asks the flag of a run, and whoever watches the run.
struct RunQuestion : CancelQuestion {
  explicit RunQuestion(const CancelFlag* of) : cancel(of) {
    ask = [](CancelQuestion* q) -> int32_t {
      const CancelFlag* flag = static_cast<RunQuestion*>(q)->cancel;
      if (flag && flag->stop_here()) q->flag = 1;
      return q->flag;
    };
  }
  const CancelFlag* cancel;
};

class LoopStep final : public RowStep {
 public:
  LoopStep(CpuClient& cpu, std::shared_ptr<Kernel> kernel, LoweredLoop loop, const SlotOf& slot_of)
      : cpu_(cpu),
        kernel_(std::move(kernel)),
        overwritable_(overwritable(kernel_->spec(), loop)),
        row_accesses_(row_accesses_of(kernel_->spec(), loop)),
        interpreted_work_(interpreted_work(kernel_->spec(), loop)),
        args_(std::move(loop.args)),
        outer_(loop.outer),
        inner_(loop.inner),
        work_(loop.work),
        grain_(grain_of(kernel_->spec(), args_)),
        most_tasks_(most_tasks(kernel_->spec(), args_, outer_ * inner_)),
        asks_(holds_question(kernel_->spec())) {
    for (const hlo::Value& v : loop.buffers) places_.push_back(v ? slot_of(v) : -1);
    for (int64_t bytes : loop.own_bytes)
      if (bytes > 0) own_bytes_.push_back(bytes);
  }

  absl::Status enqueue(Frame& frame) const override {
    if (outer_ == 0 || inner_ == 0) return absl::OkStatus();
    const Buffers buffers = buffers_in(frame);
    const CancelFlag* const cancel = frame.control->cancel;
    const Tier tier = this->tier();
    ThreadPool& pool = cpu_.pool();
    const bool brief = asks_ && last_ns_.load(std::memory_order_relaxed) < kBriefNs;
    const Cut tasks = cut(brief ? 1 : pool.threads_now(work_));
    if (!asks_) return ended(run_tasks(pool, tier, buffers.data(), tasks, cancel));
    const auto started = std::chrono::steady_clock::now();
    bool done = true;
    if (!cancel) {
      done = run_tasks(pool, tier, buffers.data(), tasks, cancel);
    } else if (tasks.count == 1) {
      RunQuestion question(cancel);
      done = run_part(tier, buffers.data(), {0, outer_, 0, inner_}, &question.flag);
    } else {
      // The other threads may be long after this one has done its part: it watches instead.
      CancelFlag stop;
      const absl::Status status = run_interruptible(
          stop, [&] { return cancel->stop_here(); },
          [&] {
            done = run_tasks(pool, tier, buffers.data(), tasks, &stop);
            return absl::OkStatus();
          });
      done = done && status.ok();
    }
    last_ns_.store((std::chrono::steady_clock::now() - started) / std::chrono::nanoseconds(1),
                   std::memory_order_relaxed);
    return ended(done);
  }

  int64_t leading() const override {
    return row_accesses_.empty() || outer_ == 0 || inner_ == 0 ? 0 : args_[0];
  }
  std::vector<RowAccess> row_accesses() const override {
    std::vector<RowAccess> out = row_accesses_;
    for (RowAccess& a : out) a.slot = places_[a.slot];
    return out;
  }
  // Asked once per run, or for several that follow each other.
  Tier tier(int64_t runs = 1) const { return cpu_.kernels().tier_for(*kernel_, interpreted_work_, runs); }
  // Whether one thread runs all of it, at once, and what it costs is known.
  bool is_small() const {
    return !asks_ && outer_ > 0 && inner_ > 0 && work_ < kSmallWork && cpu_.pool().threads_for(work_) <= 1;
  }
  bool is_like(const LoopStep& other) const {
    return kernel_ == other.kernel_ && args_ == other.args_ && outer_ == other.outer_ &&
           inner_ == other.inner_;
  }
  std::span<const int> places() const { return places_; }
  // By buffer of the kernel; -1: memory of its own, which is then given where it is known.
  void set_place(size_t buffer, int place) { places_[buffer] = place; }
  // The outer range or, where that is a single element, the inner one; of it a part, with other arguments:
  // false if stopped.
  int64_t range() const { return outer_ == 1 ? inner_ : outer_; }
  bool run_range(const Frame& frame, const Tier& tier, const std::vector<int64_t>& args, int64_t begin,
                 int64_t end) const {
    const CancelFlag* const cancel = frame.control->cancel;
    const Part part = outer_ == 1 ? Part{0, 1, begin, end} : Part{begin, end, 0, inner_};
    return run_part(tier, buffers_in(frame).data(), args, part, cancel ? cancel->address() : &kNever);
  }
  bool run_whole(const Tier& tier, void* const* buffers, const CancelFlag* cancel) const {
    return run_part(tier, buffers, {0, outer_, 0, inner_}, cancel ? cancel->address() : &kNever);
  }
  Tier row_tier() const override { return tier(); }
  absl::Status run_rows(const Frame& frame, const Tier& tier, int64_t begin, int64_t end) const override {
    const Buffers buffers = buffers_in(frame);
    const CancelFlag* const cancel = frame.control->cancel;
    const bool is_outer = kernel_->spec().parallel_rank > 1;
    const int64_t each = is_outer ? outer_ / args_[0] : 1;
    const Part part = is_outer ? Part{begin * each, end * each, 0, inner_} : Part{0, 1, begin, end};
    return ended(run_part(tier, buffers.data(), part, cancel ? cancel->address() : &kNever));
  }

  int64_t work() const override { return work_; }
  bool may_take_long() const override { return asks_ || Step::may_take_long(); }
  std::vector<const KernelText*> kernels() const override { return {&kernel_->text()}; }
  std::string describe() const override {
    const LoopKernel& k = kernel_->spec();
    size_t size = k.body.size();
    for (const Repeat& r : k.repeats) size += r.cond.size() + r.body.size();
    return str_cat("loop ", outer_, " x ", inner_, k.has_reduction ? " reducing" : "",
                   k.repeats.empty() ? "" : " in steps", ", ", size, "+", k.epilogue.size(),
                   " instructions, ", k.buffers.size(), " buffers, ",
                   kernel_->is_compiled() ? "compiled" : "interpreted");
  }

  std::vector<MayOverwrite> overwrites() const override {
    std::vector<MayOverwrite> out;
    for (const auto& [w, r] : overwritable_) out.push_back({places_[w], places_[r], false});
    return out;
  }
  std::vector<int64_t> scratch_bytes() const override { return own_bytes_; }
  void place(const Placing& placing) override {
    size_t own = 0;
    for (int& p : places_) p = p < 0 ? placing.plan.scratch[own++].place : placing.of_slot[p];
  }
  void place_slots(std::span<const int> of_slot) {
    for (int& p : places_)
      if (p >= 0) p = of_slot[p];
  }

 private:
  struct Part {
    int64_t outer_begin, outer_end, inner_begin, inner_end;
  };

  using Buffers = absl::InlinedVector<void*, 12>;

  static constexpr int32_t kNever = 0;

  static absl::Status ended(bool done) {
    return done ? absl::OkStatus() : absl::CancelledError("the run was cancelled");
  }
  Buffers buffers_in(const Frame& frame) const {
    Buffers out(places_.size());
    for (size_t i = 0; i < places_.size(); ++i) out[i] = pointer(frame.at[places_[i]]);
    return out;
  }

  // False if stopped.
  bool run_part(const Tier& tier, void* const* buffers, const Part& p, const int32_t* cancel) const {
    return run_part(tier, buffers, args_, p, cancel);
  }
  bool run_part(const Tier& tier, void* const* buffers, const std::vector<int64_t>& args, Part p,
                const int32_t* cancel) const {
    const auto run = [&](KernelEntry code, const Part& of) {
      return code(buffers, args.data(), of.outer_begin, of.outer_end, of.inner_begin, of.inner_end, cancel) ==
             0;
    };
    KernelEntry code = tier.code;
    if (!code && tier.coming) code = tier.coming->load(std::memory_order_acquire);
    if (code) return run(code, p);
    Handover handover{tier.coming};
    const int32_t ended =
        kernel_->interpreter().run(buffers, args.data(), p.outer_begin, p.outer_end, p.inner_begin,
                                   p.inner_end, cancel, tier.coming ? &handover : nullptr);
    if (ended != kCodeIsThere) return ended == 0;
    code = tier.coming->load(std::memory_order_acquire);
    cpu_.kernels().note_switch();
    if (!run(code, {handover.outer, handover.outer + 1, handover.inner, p.inner_end})) return false;
    p.outer_begin = handover.outer + 1;
    return run(code, p);
  }

  // Parts of the outer range, or of the inner one, which is cut at multiples of `grain`.
  struct Cut {
    int64_t count;
    bool by_outer;
    int64_t grain;
  };
  Cut cut(int64_t threads) const {
    if (threads <= 1) return {1, false, 1};
    const auto tasks = [&](int64_t parts) {
      return ThreadPool::tasks_for(threads, work_, std::min(parts, std::max(threads, most_tasks_)));
    };
    if (outer_ >= 2 * threads) return {tasks(outer_), true, 1};
    if (inner_ < 2 * grain_) return {1, false, 1};
    // Columns are read in wide blocks, which are cut as seldom as can be, and rows several at a time.
    constexpr int64_t kRows = 16;
    const bool reduces = kernel_->spec().has_reduction;
    const int64_t grains = (inner_ + grain_ - 1) / grain_;
    const int64_t count = tasks(reduces && grain_ % kReduceGrain == 0 ? std::min(grains, threads) : grains);
    return {count, false, reduces && inner_ >= 4 * kRows * count ? std::max(grain_, kRows) : grain_};
  }
  bool run_tasks(ThreadPool& pool, const Tier& tier, void* const* buffers, const Cut& tasks,
                 const CancelFlag* cancel) const {
    const auto run_one = [&](const Part& part) {
      if (!asks_) return run_part(tier, buffers, part, cancel ? cancel->address() : &kNever);
      RunQuestion question(cancel);
      return run_part(tier, buffers, part, &question.flag);
    };
    if (tasks.count == 1) return run_one({0, outer_, 0, inner_});
    const int64_t grains = (inner_ + tasks.grain - 1) / tasks.grain;
    std::atomic<bool> done{true};
    pool.parallel_for(tasks.count, [&](int64_t t) {
      const Part part = tasks.by_outer
                            ? Part{outer_ * t / tasks.count, outer_ * (t + 1) / tasks.count, 0, inner_}
                            : Part{0, outer_, grains * t / tasks.count * tasks.grain,
                                   std::min(inner_, grains * (t + 1) / tasks.count * tasks.grain)};
      if (!run_one(part)) done = false;
    });
    return done;
  }

  CpuClient& cpu_;
  std::shared_ptr<Kernel> kernel_;
  std::vector<std::pair<size_t, size_t>> overwritable_;
  std::vector<RowAccess> row_accesses_;
  int64_t interpreted_work_;
  std::vector<int64_t> args_;
  int64_t outer_, inner_, work_, grain_, most_tasks_;
  bool asks_;                                       // see CancelQuestion
  mutable std::atomic<int64_t> last_ns_{kBriefNs};  // of a loop of unknown length
  std::vector<int> places_;                         // by buffer of the kernel; -1: memory of its own
  std::vector<int64_t> own_bytes_;                  // of that
};

// Small loop steps that are alike and follow each other.
class BatchStep final : public Step {
 public:
  explicit BatchStep(std::span<const Step* const> steps)
      : first_(*static_cast<const LoopStep*>(steps[0])), count_(steps.size()) {
    for (const Step* s : steps) {
      const std::span<const int> places = static_cast<const LoopStep*>(s)->places();
      places_.insert(places_.end(), places.begin(), places.end());
    }
  }

  absl::Status enqueue(Frame& frame) const override {
    const Tier tier = first_.tier(static_cast<int64_t>(count_));
    const size_t buffers = first_.places().size();
    absl::InlinedVector<void*, 12> pointers(buffers);
    const int* place = places_.data();
    for (size_t i = 0; i < count_; ++i) {
      for (size_t b = 0; b < buffers; ++b) pointers[b] = pointer(frame.at[*place++]);
      if (!first_.run_whole(tier, pointers.data(), frame.control->cancel))
        return absl::CancelledError("the run was cancelled");
    }
    return absl::OkStatus();
  }
  int64_t work() const override { return static_cast<int64_t>(count_) * first_.work(); }
  std::string describe() const override {
    return str_cat(count_, " loops that are alike, one after another");
  }
  void place(const Placing&) override {}  // its steps know

 private:
  const LoopStep& first_;
  size_t count_;
  std::vector<int> places_;  // of each step
};

// Steps that follow each other, block of rows by block.
class ChainStep final : public Step {
 public:
  ChainStep(CpuClient& cpu, std::span<const Step* const> steps, int64_t rows, int64_t block)
      : cpu_(cpu), rows_(rows), block_(block) {
    for (const Step* s : steps) {
      steps_.push_back(static_cast<const RowStep*>(s));
      work_ += s->work();
    }
  }

  absl::Status enqueue(Frame& frame) const override {
    absl::InlinedVector<Tier, 8> tiers;
    for (const RowStep* s : steps_) tiers.push_back(s->row_tier());
    ThreadPool& pool = cpu_.pool();
    const int64_t tasks = ThreadPool::tasks_for(pool.threads_now(work_), work_, rows_ / block_);
    std::mutex mutex;
    absl::Status status;
    const auto run_task = [&](int64_t t) {
      const int64_t last = rows_ * (t + 1) / tasks;
      for (int64_t row = rows_ * t / tasks; row < last; row += block_) {
        const int64_t end = std::min(last, row + block_);
        for (size_t i = 0; i < steps_.size(); ++i) {
          const int64_t each = steps_[i]->leading() / rows_;  // of the leading dimension, for one row
          absl::Status ended = steps_[i]->run_rows(frame, tiers[i], row * each, end * each);
          if (ended.ok()) continue;
          const std::lock_guard lock(mutex);
          status.Update(std::move(ended));
          return;
        }
      }
    };
    if (tasks == 1)
      run_task(0);
    else
      pool.parallel_for(tasks, run_task);
    return status;
  }
  int64_t work() const override { return work_; }
  std::string describe() const override {
    return str_cat(steps_.size(), " steps together: ", block_, " of ", rows_, " rows at a time");
  }
  void place(const Placing&) override {}  // its steps know

 private:
  CpuClient& cpu_;
  std::vector<const RowStep*> steps_;
  int64_t rows_, block_, work_ = 0;
};

// A reduction of few results, its chunks shared by the threads.
class SplitStep final : public Step {
 public:
  // Kernels of both parts, which the split has given away.
  SplitStep(CpuClient& cpu, std::shared_ptr<Kernel> chunks, std::shared_ptr<Kernel> rest,
            SplitReduction split, const SlotOf& slot_of)
      : cpu_(cpu),
        count_(split.count),
        first_args_(split.chunks.args),
        last_args_(std::move(split.last_args)),
        bytes_(std::move(split.bytes)),
        chunks_(cpu, std::move(chunks), std::move(split.chunks), slot_of),
        rest_(cpu, std::move(rest), std::move(split.rest), slot_of) {}

  absl::Status enqueue(Frame& frame) const override {
    const Tier tier = chunks_.tier();
    ThreadPool& pool = cpu_.pool();
    const int64_t all = chunks_.range(), each = all / count_;
    std::atomic<bool> done{true};
    const auto run = [&](int64_t begin, int64_t end) {
      const int64_t last = std::max(begin, std::min(end, all - each));
      if (!chunks_.run_range(frame, tier, first_args_, begin, last) ||
          !chunks_.run_range(frame, tier, last_args_, last, end))
        done = false;
    };
    const int64_t tasks = ThreadPool::tasks_for(pool.threads_now(work()), work(), all);
    pool.parallel_for(tasks, [&](int64_t t) { run(all * t / tasks, all * (t + 1) / tasks); });
    return done ? rest_.enqueue(frame) : absl::CancelledError("the run was cancelled");
  }

  int64_t work() const override { return chunks_.work() + rest_.work(); }
  std::vector<const KernelText*> kernels() const override {
    return {chunks_.kernels()[0], rest_.kernels()[0]};
  }
  std::string describe() const override { return str_cat(chunks_.describe(), ", then ", rest_.describe()); }
  std::vector<int64_t> scratch_bytes() const override { return bytes_; }
  void place(const Placing& placing) override {
    chunks_.place_slots(placing.of_slot);
    rest_.place_slots(placing.of_slot);
    const size_t first = chunks_.places().size() - bytes_.size();
    for (size_t i = 0; i < bytes_.size(); ++i) {
      chunks_.set_place(first + i, placing.plan.scratch[i].place);
      rest_.set_place(i, placing.plan.scratch[i].place);
    }
  }

 private:
  CpuClient& cpu_;
  int64_t count_;
  std::vector<int64_t> first_args_, last_args_, bytes_;
  LoopStep chunks_, rest_;
};

// What is stored and has the elements of `v` in the same order.
hlo::Value stored(const cluster::FusionPlan& plan, hlo::Value v) {
  while (v.node()->op() == hlo::Op::reshape && !plan.group_of.contains(v.node()))
    v = v.node()->operand_value(0);
  return v;
}

// A move of elements that is a group of its own, reading values that are stored: what a native op can take
// over.
bool is_lone_move(const cluster::FusionPlan& plan, const cluster::Group& group) {
  if (group.anchors.size() != 1) return false;
  const hlo::Node& n = *group.anchors[0];
  if (n.op() != hlo::Op::transpose && n.op() != hlo::Op::concatenate && n.op() != hlo::Op::gather &&
      n.op() != hlo::Op::pad)
    return false;
  for (size_t i = 0; i < n.operands().size(); ++i) {
    const hlo::Node* const source = stored(plan, n.operand_value(i)).node();
    if (source->op() != hlo::Op::parameter && source->op() != hlo::Op::constant &&
        !plan.group_of.contains(source))
      return false;
  }
  return true;
}

// Where there are too few results for threads to share. Does not ask how many threads there are: programs
// that are saved run elsewhere.
bool is_shared_by_chunks(const LoweredLoop& loop) {
  constexpr int64_t kFewRows = 32, kFewOuter = 8, kFewColumns = 4 * kReduceGrain, kLeastWork = 1'000'000;
  if (!loop.kernel.has_reduction || loop.work < kLeastWork) return false;
  return favoured_form(loop.kernel, loop.args) == ReduceForm::kAlongReduced
             ? loop.outer * loop.inner < kFewRows
             : loop.outer < kFewOuter && loop.inner < kFewColumns;
}

std::shared_ptr<Kernel> take_kernel(CpuClient& cpu, const cluster::Group& group, LoweredLoop& loop) {
  const Schedule schedule = favoured_schedule(loop.kernel, loop.args);
  std::shared_ptr<Kernel> kernel = cpu.kernels().get(std::move(loop.kernel), schedule);
  if (PerfSymbols& symbols = PerfSymbols::get(); symbols.on()) {
    std::vector<hlo::LocationId> lines;
    for (const hlo::Node* n : group.anchors) lines.push_back(n->location());
    symbols.note_lines(kernel->text().text, lines);
  }
  return kernel;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_loop_step(CpuClient& cpu, const cluster::FusionPlan& plan,
                                                     const cluster::Group& group, const SlotOf& slot_of) {
  if (is_lone_move(plan, group)) {
    const SlotOf stored_slot = [&](const hlo::Value& v) { return slot_of(stored(plan, v)); };
    if (std::unique_ptr<Step> native = make_native_step(cpu, *group.anchors[0], stored_slot)) return native;
  }
  if (group.repeat && cluster::is_running_scan(*group.repeat))
    if (std::unique_ptr<Step> native = make_native_step(cpu, *group.repeat, slot_of)) return native;
  absl::StatusOr<LoweredLoop> loop = lower_loop(plan, group);
  if (!loop.ok()) return loop.status();
  if (is_shared_by_chunks(*loop))
    if (std::optional<SplitReduction> split = split_reduction(*loop)) {
      std::shared_ptr<Kernel> chunks = take_kernel(cpu, group, split->chunks),
                              rest = take_kernel(cpu, group, split->rest);
      return std::make_unique<SplitStep>(cpu, std::move(chunks), std::move(rest), *std::move(split), slot_of);
    }
  std::shared_ptr<Kernel> kernel = take_kernel(cpu, group, *loop);
  return std::make_unique<LoopStep>(cpu, std::move(kernel), *std::move(loop), slot_of);
}

std::unique_ptr<const Step> make_chain_step(CpuClient& cpu, std::span<const Step* const> steps, int64_t rows,
                                            int64_t block) {
  return std::make_unique<ChainStep>(cpu, steps, rows, block);
}

Target::Batch make_batch_step(std::span<const Step* const> steps) {
  const auto* const first = dynamic_cast<const LoopStep*>(steps[0]);
  if (!first || !first->is_small()) return {};
  const size_t most =
      std::min(steps.size(), static_cast<size_t>(kBatchWork / std::max<int64_t>(first->work(), 1)));
  size_t count = 1;
  while (count < most) {
    const auto* const next = dynamic_cast<const LoopStep*>(steps[count]);
    if (!next || !next->is_like(*first)) break;
    ++count;
  }
  if (count < 2) return {};
  return {std::make_unique<BatchStep>(steps.first(count)), count};
}

}  // namespace lamina::jit
