#include "jit/program/control.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/program/carries.h"
#include "jit/program/executable.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Node;
using hlo::Value;
using Program = std::shared_ptr<const Executable>;

std::vector<int> operand_slots(const Node& n, const SlotOf& slot_of) {
  std::vector<int> out;
  for (size_t i = 0; i < n.operands().size(); ++i) out.push_back(slot_of(n.operand_value(i)));
  return out;
}

std::vector<int> result_slots(const Node& n, const SlotOf& slot_of) {
  std::vector<int> out;
  for (uint32_t i = 0; i < n.num_results(); ++i) out.push_back(slot_of(Value(const_cast<Node*>(&n), i)));
  return out;
}

std::vector<int64_t> byte_sizes(const Node& n, size_t results) {
  std::vector<int64_t> out;
  for (uint32_t i = 0; i < results; ++i) out.push_back(n.result_type(i)->bytes());
  return out;
}

using Addresses = absl::InlinedVector<Address, 8>;
using Flags = absl::InlinedVector<bool, 8>;

Addresses addresses(const Frame& frame, std::span<const int> places) {
  Addresses out;
  for (int p : places) out.push_back(frame.at[p]);
  return out;
}

// Slots of operands and results, later their places, and the scratch beside them.
struct ControlMemory {
  std::vector<int> in, out;
  std::vector<int64_t> parts;  // bytes of the scratch parts
  std::vector<int> places;     // and where they are
  int arena = 0;               // the part that the programs inside have as arena
  std::vector<int> spares;     // parts by result; -1: none

  // Returns the part's number.
  int add(int64_t bytes) {
    parts.push_back(bytes);
    return static_cast<int>(parts.size()) - 1;
  }
  Address at(const Frame& frame, int part) const { return frame.at[places[part]]; }
  Addresses spare_addresses(const Frame& frame) const {
    Addresses out;
    for (int s : spares) out.push_back(s < 0 ? Address() : at(frame, s));
    return out;
  }
};

class ControlStep : public Step {
 public:
  void place(const Placing& placing) final {
    for (int& i : memory_.in) i = placing.of_slot[i];
    for (int& o : memory_.out) o = placing.of_slot[o];
    for (const Use& u : placing.plan.scratch) memory_.places.push_back(u.place);
    first_frame_ = placing.first_frame;
  }
  std::vector<int64_t> scratch_bytes() const final { return memory_.parts; }
  std::vector<MayOverwrite> overwrites() const final { return overwrites_; }
  std::vector<std::pair<int, int>> same_memory() const final { return same_memory_; }
  // The programs inside have their own.
  int64_t work() const final { return 0; }
  bool may_take_long() const final { return true; }
  int64_t taken_bytes() const override {
    int64_t most = 0;
    for (const Executable* program : programs()) most = std::max(most, program->taken_bytes());
    return most;
  }

 protected:
  ControlStep(std::vector<int> in, std::vector<int> out) {
    memory_.in = std::move(in);
    memory_.out = std::move(out);
  }
  // Carry i comes in as operand i and leaves as result i, in turns of `body`.
  void add_carries(const Executable& body, std::span<const int64_t> bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const int n = static_cast<int>(i);
      memory_.spares.push_back(body.keeps_in(n, n) ? -1 : memory_.add(bytes[i]));
      if (body.passes_on(n, n))
        same_memory_.emplace_back(memory_.out[i], memory_.in[i]);
      else
        overwrites_.push_back({memory_.out[i], memory_.in[i], true});
    }
  }

  // The frame of program number `which`, for turns of it, with `arena` or what is there for all.
  Frame& started(const Executable& program, int which, Frame& frame) const {
    return started(program, which, frame, memory_.at(frame, memory_.arena));
  }
  Frame& started(const Executable& program, int which, Frame& frame, Address arena) const {
    Frame& inner = *frame.inner[static_cast<size_t>(first_frame_ + which)];
    program.start(inner, frame, arena);
    return inner;
  }

  ControlMemory memory_;
  int first_frame_ = 0;
  std::vector<MayOverwrite> overwrites_;
  std::vector<std::pair<int, int>> same_memory_;
};

class WhileStep final : public ControlStep {
 public:
  WhileStep(const Node& n, Program cond, Program body, std::vector<int> in, std::vector<int> out)
      : ControlStep(std::move(in), std::move(out)), cond_(std::move(cond)), body_(std::move(body)) {
    bytes_ = byte_sizes(n, memory_.out.size());
    memory_.arena = memory_.add(std::max(cond_->arena_bytes(), body_->arena_bytes()));
    answer_ = memory_.add(1);
    add_carries(*body_, bytes_);
  }

  absl::Status enqueue(Frame& frame) const override {
    Frame &cond = started(*cond_, 0, frame), &body = started(*body_, 1, frame);
    Carries carries(frame.device, bytes_, addresses(frame, memory_.in), addresses(frame, memory_.out),
                    memory_.spare_addresses(frame));
    const size_t n = bytes_.size();
    Addresses results(n);
    Flags writable(n);
    const Address answer_at = memory_.at(frame, answer_);
    while (true) {
      Address answer;
      std::fill(writable.begin(), writable.end(), false);
      if (absl::Status s = cond_->run_in(cond, {carries.values(), writable, {&answer_at, 1}, {&answer, 1}});
          !s.ok())
        return s;
      uint8_t goes_on = 0;
      if (absl::Status s = frame.device.stream().read(answer, 1, &goes_on); !s.ok()) return s;
      if (goes_on == 0) break;
      for (size_t i = 0; i < n; ++i) writable[i] = carries.writable(i);
      if (absl::Status s = body_->run_in(body, {carries.values(), writable, carries.destinations(), results});
          !s.ok())
        return s;
      carries.moved(results);
    }
    return carries.bring_home();
  }
  std::string describe() const override { return str_cat("while, ", body_->steps().size(), " steps"); }
  std::vector<const Executable*> programs() const override { return {cond_.get(), body_.get()}; }

 private:
  Program cond_, body_;
  std::vector<int64_t> bytes_;  // by carry
  int answer_;
};

class ScanStep final : public ControlStep {
 public:
  ScanStep(const Node& n, Program body, std::vector<int> in, std::vector<int> out)
      : ControlStep(std::move(in), std::move(out)),
        body_(std::move(body)),
        carries_(n.attrs().integer(Attr::num_carry)),
        length_(n.attrs().integer(Attr::length)),
        reverse_(n.attrs().flag(Attr::reverse)) {
    bytes_ = byte_sizes(n, carries_);
    for (size_t i = carries_; i < memory_.in.size(); ++i)
      slice_in_.push_back(length_ ? n.operand_type(i)->bytes() / length_ : 0);
    for (size_t i = carries_; i < memory_.out.size(); ++i)
      slice_out_.push_back(length_ ? n.result_type(i)->bytes() / length_ : 0);
    memory_.arena = memory_.add(body_->arena_bytes());
    add_carries(*body_, bytes_);
  }

  absl::Status enqueue(Frame& frame) const override {
    Frame& body = started(*body_, 0, frame);
    const std::span<const int> in(memory_.in), out(memory_.out);
    Carries carries(frame.device, bytes_, addresses(frame, in.first(carries_)),
                    addresses(frame, out.first(carries_)), memory_.spare_addresses(frame));
    carries.expect_turns(length_);
    Addresses arguments = addresses(frame, in), destinations = addresses(frame, out), results(out.size());
    Flags writable(in.size(), false);
    // Slices lie wherever the element type allows.
    for (int64_t step = 0; step < length_; ++step) {
      const int64_t at = reverse_ ? length_ - 1 - step : step;
      for (size_t i = 0; i < slice_in_.size(); ++i)
        arguments[carries_ + i] = frame.at[in[carries_ + i]] + at * slice_in_[i];
      for (size_t i = 0; i < slice_out_.size(); ++i)
        destinations[carries_ + i] = frame.at[out[carries_ + i]] + at * slice_out_[i];
      for (size_t c = 0; c < carries_; ++c) {
        arguments[c] = carries.values()[c];
        destinations[c] = carries.destinations()[c];
        writable[c] = carries.writable(c);
      }
      if (absl::Status s = body_->run_in(body, {arguments, writable, destinations, results}); !s.ok())
        return s;
      // A result that has no memory of its own: it is a carry too, or came in.
      for (size_t i = 0; i < slice_out_.size(); ++i)
        if (const Address to = destinations[carries_ + i]; results[carries_ + i] != to)
          if (absl::Status s = frame.device.stream().copy(to, results[carries_ + i], slice_out_[i]); !s.ok())
            return s;
      carries.moved(std::span<const Address>(results).first(carries_));
    }
    return carries.bring_home();
  }
  std::string describe() const override {
    return str_cat("scan of ", length_, ", ", body_->steps().size(), " steps");
  }
  std::vector<const Executable*> programs() const override { return {body_.get()}; }

 private:
  Program body_;
  size_t carries_;
  int64_t length_;
  bool reverse_;
  std::vector<int64_t> bytes_, slice_in_, slice_out_;
};

// Results come home as the carries of a loop of one turn do, each paired with an operand whose memory it may
// get.
class CaseStep final : public ControlStep {
 public:
  CaseStep(const Node& n, std::vector<Program> branches, std::vector<int> in, std::vector<int> out)
      : ControlStep(std::move(in), std::move(out)), branches_(std::move(branches)) {
    bytes_ = byte_sizes(n, memory_.out.size());
    int64_t arena = 0, least = INT64_MAX;
    for (const Program& b : branches_) least = std::min(least, b->arena_bytes());
    for (const Program& b : branches_) {
      takes_own_.push_back(b->arena_bytes() > std::max(kMuch, kMore * least));
      if (!takes_own_.back()) arena = std::max(arena, b->arena_bytes());
    }
    memory_.arena = memory_.add(arena);
    for (size_t r = 0; r < bytes_.size(); ++r) {
      const int result = static_cast<int>(r);
      int partner = -1;
      bool all = true;
      for (const Program& b : branches_)
        for (size_t a = 1; a < memory_.in.size() && partner < 0; ++a)
          if (b->keeps_in(result, static_cast<int>(a) - 1) && n.operand_type(a)->bytes() == bytes_[r])
            partner = static_cast<int>(a);
      bool same = partner >= 0;
      for (const Program& b : branches_) {
        all = all && partner >= 0 && b->keeps_in(result, partner - 1);
        same = same && b->passes_on(result, partner - 1);
      }
      if (same)
        same_memory_.emplace_back(memory_.out[r], memory_.in[partner]);
      else if (partner >= 0)
        overwrites_.push_back({memory_.out[r], memory_.in[partner], true});
      partners_.push_back(partner);
      memory_.spares.push_back(partner < 0 || all ? -1 : memory_.add(bytes_[r]));
    }
  }

  absl::Status enqueue(Frame& frame) const override {
    int32_t index = 0;
    if (absl::Status s = frame.device.stream().read(frame.at[memory_.in[0]], sizeof index, &index); !s.ok())
      return s;
    const int32_t last = static_cast<int32_t>(branches_.size()) - 1;
    if (index < 0 || index > last) index = last;
    const Executable& branch = *branches_[index];
    const Addresses home = addresses(frame, memory_.out),
                    arguments = addresses(frame, std::span(memory_.in).subspan(1));
    Addresses from(home.size()), results(home.size());
    Flags writable(arguments.size(), false);
    for (size_t r = 0; r < home.size(); ++r) {
      if (partners_[r] < 0 || arguments[partners_[r] - 1] != home[r]) continue;
      from[r] = home[r];
      writable[partners_[r] - 1] = true;
    }
    Carries moves(frame.device, bytes_, from, home, memory_.spare_addresses(frame));
    BufferRef own;
    if (takes_own_[index]) {
      absl::StatusOr<BufferRef> block = frame.device.memory().allocate(branch.arena_bytes());
      if (!block.ok()) return block.status();
      own = *std::move(block);
    }
    Frame& state = own ? started(branch, index, frame, own->address()) : started(branch, index, frame);
    if (absl::Status s = branch.run_in(state, {arguments, writable, moves.destinations(), results}); !s.ok())
      return s;
    moves.moved(results);
    return moves.bring_home();
  }
  int64_t taken_bytes() const override {
    int64_t most = 0;
    for (size_t i = 0; i < branches_.size(); ++i)
      most = std::max(most, branches_[i]->taken_bytes() +
                                (takes_own_[i] ? Memory::block_bytes(branches_[i]->arena_bytes()) : 0));
    return most;
  }
  std::string describe() const override { return str_cat("case of ", branches_.size()); }
  std::vector<const Executable*> programs() const override {
    std::vector<const Executable*> all;
    for (const Program& branch : branches_) all.push_back(branch.get());
    return all;
  }

 private:
  // A branch whose arena is so large, and so much larger than the least, takes it when it runs.
  static constexpr int64_t kMuch = 256 * 1024, kMore = 2;

  std::vector<Program> branches_;
  std::vector<bool> takes_own_;  // by branch
  std::vector<int> partners_;    // by result, the operand that it may lie in; -1: none
  std::vector<int64_t> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_control_step(Device& device, const Node& n,
                                                        const SlotOf& slot_of) {
  std::vector<int> in = operand_slots(n, slot_of), out = result_slots(n, slot_of);
  std::vector<hlo::ComputationPtr> regions;
  if (n.op() == hlo::Op::while_)
    regions = {n.attrs().computation(Attr::cond), n.attrs().computation(Attr::body)};
  else if (n.op() == hlo::Op::scan)
    regions = {n.attrs().computation(Attr::body)};
  else
    regions = n.attrs().computations(Attr::branches);
  std::vector<Program> programs;
  for (const hlo::ComputationPtr& region : regions) {
    absl::StatusOr<Program> program = Executable::of_region(device, region);
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  switch (n.op()) {
    case hlo::Op::while_:
      return std::make_unique<WhileStep>(n, programs[0], programs[1], std::move(in), std::move(out));
    case hlo::Op::scan:
      return std::make_unique<ScanStep>(n, programs[0], std::move(in), std::move(out));
    default:
      return std::make_unique<CaseStep>(n, std::move(programs), std::move(in), std::move(out));
  }
}

}  // namespace lamina::jit
