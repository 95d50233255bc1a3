#include "jit/fake/client.h"

#include <algorithm>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "hlo/once.h"
#include "hlo/strings.h"
#include "jit/client/profile.h"
#include "jit/client/transfer.h"

namespace lamina::jit {
namespace {

constexpr int kDevices = 2;

using Access = FakeQueues::Access;
using Touch = FakeQueues::Touch;

// The CPU, whose steps do the work.
const Target& cpu() { return host_device().target(); }

class FakeStream final : public Stream {
 public:
  FakeStream(FakeQueues& queues, std::string name)
      : queues_(queues), number_(queues.add_queue(std::move(name))) {}

  int number() const { return number_; }
  bool is_inline() const override { return false; }
  void begin_run() override { queues_.begin_run(number_); }
  Point end_run() override { return {this, queues_.end_run(number_)}; }
  Point mark() override { return {this, queues_.mark(number_)}; }
  absl::Status after(Point earlier) override {
    if (earlier) queues_.after(number_, number_of(earlier), earlier.value);
    return absl::OkStatus();
  }
  absl::Status takes(Point written) override {
    return written ? queues_.takes(number_, number_of(written), written.value) : absl::OkStatus();
  }
  bool reached(uint64_t value) override { return queues_.reached(number_, value); }
  absl::Status wait(uint64_t value, StepWatcher* watcher) override {
    return queues_.wait(number_, value, watcher);
  }
  void keep(std::shared_ptr<const void> what) override { queues_.keep(number_, std::move(what)); }

  absl::Status copy(Address to, Address from, int64_t bytes) override {
    enqueue("a copy", {{to, bytes, Access::kWrite}, {from, bytes, Access::kRead}}, [this, to, from, bytes] {
      std::memcpy(queues_.bytes_at(to), queues_.bytes_at(from), static_cast<size_t>(bytes));
      return absl::OkStatus();
    });
    return absl::OkStatus();
  }
  absl::Status read(Address from, int64_t bytes, void* to) override {
    const auto staging = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    absl::Status status = wait(enqueue_read(from, bytes, staging, true), nullptr);
    if (status.ok() && bytes > 0) std::memcpy(to, staging->data(), staging->size());
    return status;
  }
  uint64_t enqueue_read(Address from, int64_t bytes, std::shared_ptr<std::vector<std::byte>> to,
                        bool is_awaited) {
    const auto work = [this, from, to = std::move(to)] {
      if (!to->empty()) std::memcpy(to->data(), queues_.bytes_at(from), to->size());
      return absl::OkStatus();
    };
    return enqueue("a read", {{from, bytes, Access::kRead}}, work, is_awaited);
  }
  absl::Status write(Address to, const void* from, int64_t bytes) override {
    const auto* const begin = static_cast<const std::byte*>(from);
    enqueue("a write", {{to, bytes, Access::kWrite}},
            [this, to, staging = std::vector<std::byte>(begin, begin + bytes)] {
              if (!staging.empty()) std::memcpy(queues_.bytes_at(to), staging.data(), staging.size());
              return absl::OkStatus();
            });
    return absl::OkStatus();
  }

 private:
  static int number_of(Point p) { return static_cast<const FakeStream*>(p.stream)->number_; }
  uint64_t enqueue(std::string what, std::vector<Touch> touches, std::function<absl::Status()> work,
                   bool is_awaited = false) {
    return queues_.enqueue(number_, {FakeQueues::Kind::kTransfer, std::move(what), std::move(touches),
                                     std::move(work), is_awaited});
  }

  FakeQueues& queues_;
  const int number_;
};

const FakeStream& fake_stream(const Frame& frame) {
  return static_cast<const FakeStream&>(frame.device.stream());
}

class FakeBlocks final : public BlockSource {
 public:
  FakeBlocks(FakeQueues& queues, int queue) : queues_(queues), queue_(queue) {}
  Address allocate(int64_t bytes) override { return queues_.allocate(queue_, bytes); }
  void free(Address block, int64_t) override { queues_.free(queue_, block); }

 private:
  FakeQueues& queues_;
  const int queue_;
};

// A step of the CPU, run from a queue. What its plan says is all that it finds.
class FakeStep : public Step {
 public:
  FakeStep(FakeQueues& queues, std::unique_ptr<Step> step) : queues_(queues), step_(std::move(step)) {}

  absl::Status enqueue(Frame& frame) const override {
    enqueue_with(*step_, uses_of(*plan_), frame, queues_);
    return absl::OkStatus();
  }
  const Step& on_cpu() const { return *step_; }
  const StepPlan& plan() const { return *plan_; }

  int64_t work() const override { return step_->work(); }
  bool may_take_long() const override { return step_->may_take_long(); }
  std::string describe() const override { return step_->describe(); }
  std::vector<const KernelText*> kernels() const override { return step_->kernels(); }
  int64_t leading() const override { return step_->leading(); }
  std::vector<RowAccess> row_accesses() const override { return step_->row_accesses(); }
  std::vector<MayOverwrite> overwrites() const override { return step_->overwrites(); }
  std::vector<std::pair<int, int>> same_memory() const override { return step_->same_memory(); }
  std::vector<int64_t> scratch_bytes() const override { return step_->scratch_bytes(); }
  void place(const Placing& placing) override {
    plan_ = &placing.plan;
    step_->place(placing);
  }

  struct PlaceUse {
    Use use;
    Access access;
  };
  static std::vector<PlaceUse> uses_of(const StepPlan& plan) {
    std::vector<PlaceUse> out;
    for (const Use& u : plan.out) out.push_back({u, Access::kWrite});
    for (const Use& u : plan.in) out.push_back({u, Access::kRead});
    for (const Use& u : plan.scratch) out.push_back({u, Access::kScratch});
    return out;
  }
  static void enqueue_with(const Step& step, const std::vector<PlaceUse>& uses, Frame& frame,
                           FakeQueues& queues) {
    auto later = std::make_shared<Frame>(frame, host_device());
    std::vector<std::pair<int, Address>> at;
    std::vector<Touch> touches;
    for (const auto& [use, access] : uses) {
      at.emplace_back(use.place, frame.at[use.place]);
      touches.push_back({frame.at[use.place], use.bytes, access});
    }
    Activity told = Profiler::on() ? Profiler::get().launched() : Activity{};
    const bool is_told = told.doing == Doing::kLaunch;
    told.doing = Doing::kDeviceStep;
    auto work = [&step, &queues, later, told, is_told, at = std::move(at)] {
      const ProfiledSpan span(is_told && Profiler::on(), told);
      for (const auto& [place, address] : at)
        later->at[place] = Address(reinterpret_cast<uintptr_t>(queues.bytes_at(address)));
      RunControl control{nullptr};
      later->control = &control;
      return step.enqueue(*later);
    };
    queues.enqueue(fake_stream(frame).number(),
                   {FakeQueues::Kind::kLaunch, str_cat("step ", frame.step, ", ", step.describe()),
                    std::move(touches), std::move(work)});
  }

 private:
  FakeQueues& queues_;
  const std::unique_ptr<Step> step_;
  const StepPlan* plan_ = nullptr;
};

// Steps that the CPU runs together. What one leaves for the next is not read from before.
class FakeChain final : public Step {
 public:
  FakeChain(FakeQueues& queues, std::span<const Step* const> steps, int64_t rows, int64_t block)
      : queues_(queues) {
    std::vector<const Step*> on_cpu;
    for (const Step* s : steps) {
      members_.push_back(static_cast<const FakeStep*>(s));
      on_cpu.push_back(&members_.back()->on_cpu());
    }
    chain_ = cpu().chain(on_cpu, rows, block);
    for (const FakeStep* s : members_)
      for (const FakeStep::PlaceUse& u : FakeStep::uses_of(s->plan())) {
        const bool is_written = std::any_of(uses_.begin(), uses_.end(), [&](const FakeStep::PlaceUse& known) {
          return known.use.place == u.use.place && known.access == Access::kWrite;
        });
        if (u.access != Access::kRead || !is_written) uses_.push_back(u);
      }
  }
  absl::Status enqueue(Frame& frame) const override {
    FakeStep::enqueue_with(*chain_, uses_, frame, queues_);
    return absl::OkStatus();
  }
  int64_t work() const override { return chain_->work(); }
  bool may_take_long() const override { return chain_->may_take_long(); }
  std::string describe() const override { return chain_->describe(); }
  void place(const Placing&) override {}  // its steps know

 private:
  FakeQueues& queues_;
  std::vector<const FakeStep*> members_;
  std::unique_ptr<const Step> chain_;
  std::vector<FakeStep::PlaceUse> uses_;
};

}  // namespace

FakeClient& FakeClient::get() {
  static constinit hlo::Once<FakeClient> client;
  return client.get([] { return new FakeClient; });
}

FakeClient::FakeClient() {
  for (int i = 0; i < kDevices; ++i) {
    const std::string name = str_cat("fake:", i);
    Device::Lanes lanes{};
    for (const auto& [lane, what] :
         {std::pair(Lane::kCompute, "compute"), std::pair(Lane::kCopyIn, "copy in"),
          std::pair(Lane::kCopyOut, "copy out")})
      lanes[static_cast<size_t>(lane)] = new FakeStream(queues_, str_cat(name, " ", what));
    auto& compute = static_cast<FakeStream&>(*lanes[0]);
    auto& blocks = *new FakeBlocks(queues_, compute.number());
    auto& memory = *new Memory(*this, blocks, compute, Memory::Keeping::kNone);
    devices_.push_back(new Device(name, *this, target_, memory, lanes));
  }
}

absl::StatusOr<BufferRef> FakeClient::put(Device& device, const void* data, int64_t bytes) {
  return made_by_transfer(
      device, bytes, [&](Stream& lane, Address to) { return lane.write(to, data, bytes); }, [](Point) {});
}

absl::StatusOr<BufferRef> FakeClient::copy_across(Device& to, const BufferRef& from) {
  return made_by_transfer(
      to, from->bytes(),
      [&](Stream& lane, Address at) {
        const absl::Status status = lane.takes(from->written());
        return status.ok() ? lane.copy(at, from->address(), from->bytes()) : status;
      },
      [&](Point end) { from->used_until(end); });
}

absl::Status FakeClient::read(std::span<const Read> reads, StepWatcher* watcher) {
  if (reads.empty()) return absl::OkStatus();
  auto& lane = static_cast<FakeStream&>(reads[0].from->memory().device().stream(Lane::kCopyOut));
  // Where the wait is cancelled the reads still come.
  std::vector<std::shared_ptr<std::vector<std::byte>>> staging;
  for (const Read& r : reads)
    staging.push_back(std::make_shared<std::vector<std::byte>>(static_cast<size_t>(r.bytes)));
  absl::Status status;
  Point end;
  lane.begin_run();
  {
    const absl::Cleanup ends = [&] { end = lane.end_run(); };
    for (size_t i = 0; i < reads.size() && status.ok(); ++i) {
      status = lane.takes(reads[i].from->written());
      if (status.ok())
        lane.enqueue_read(reads[i].from->address() + reads[i].offset, reads[i].bytes, staging[i], false);
    }
  }
  if (const absl::Status waited = lane.wait(end.value, watcher); status.ok()) status = waited;
  for (size_t i = 0; i < reads.size() && status.ok(); ++i)
    if (reads[i].bytes > 0) std::memcpy(reads[i].to, staging[i]->data(), staging[i]->size());
  return status;
}

void FakeClient::lose(Device& device) {
  for (Lane lane : {Lane::kCompute, Lane::kCopyIn, Lane::kCopyOut})
    queues_.lose(static_cast<FakeStream&>(device.stream(lane)).number(), str_cat(device.name(), " was lost"));
}

const cluster::Costs& FakeClient::FakeTarget::costs() const { return cpu().costs(); }

absl::StatusOr<std::unique_ptr<Step>> FakeClient::FakeTarget::lower(const cluster::FusionPlan& plan,
                                                                    const cluster::Group& group,
                                                                    const SlotOf& slot_of) const {
  if (std::find(refused.begin(), refused.end(), group.anchors[0]->op()) != refused.end() &&
      group.kind == cluster::GroupKind::kLibrary)
    return nullptr;
  absl::StatusOr<std::unique_ptr<Step>> made = cpu().lower(plan, group, slot_of);
  if (!made.ok() || !*made) return made;
  return std::make_unique<FakeStep>(client.queues_, *std::move(made));
}

std::unique_ptr<const Step> FakeClient::FakeTarget::chain(std::span<const Step* const> steps, int64_t rows,
                                                          int64_t block) const {
  return std::make_unique<FakeChain>(client.queues_, steps, rows, block);
}

absl::StatusOr<std::string> FakeClient::FakeTarget::ir(const KernelText& kernel) const {
  return cpu().ir(kernel);
}

absl::StatusOr<std::string> FakeClient::FakeTarget::assembly(const KernelText& kernel) const {
  return cpu().assembly(kernel);
}

absl::StatusOr<std::string> FakeClient::FakeTarget::machine() const { return cpu().machine(); }

absl::Status FakeClient::FakeTarget::check_machine(std::string_view machine) const {
  return cpu().check_machine(machine);
}

absl::StatusOr<KernelCode> FakeClient::FakeTarget::code(const KernelText& kernel) const {
  return cpu().code(kernel);
}

absl::StatusOr<std::shared_ptr<const void>> FakeClient::FakeTarget::adopt(const KernelCode& code) const {
  return cpu().adopt(code);
}

}  // namespace lamina::jit
