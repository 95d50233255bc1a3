// Steps that run nested programs: while, scan, case.
#include <cstring>

#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/engine.h"
#include "jit/steps.h"

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

std::vector<BufferRef> gather(const Run& run, std::span<const int> slots) {
  std::vector<BufferRef> out;
  for (int s : slots) out.push_back(run.slots[s]);
  return out;
}

// The same, letting go of those whose last use this is.
std::vector<BufferRef> take(Run& run, std::span<const int> slots) {
  std::vector<BufferRef> out = gather(run, slots);
  for (int s : run.dying) run.slots[s].reset();
  return out;
}

class WhileStep final : public Step {
 public:
  WhileStep(Program cond, Program body, std::vector<int> in, std::vector<int> out)
      : cond_(std::move(cond)), body_(std::move(body)), in_(std::move(in)), out_(std::move(out)) {}

  absl::Status run(Run& run) const override {
    std::vector<BufferRef> carry = take(run, in_), asked, next;
    Run cond = cond_->start(run.cancel), body = body_->start(run.cancel);
    while (true) {
      asked = carry;
      if (absl::Status s = cond_->run_in(cond, asked, next); !s.ok()) return s;
      if (*static_cast<const uint8_t*>(next[0]->data()) == 0) break;
      if (absl::Status s = body_->run_in(body, carry, next); !s.ok()) return s;
      carry.swap(next);
    }
    for (size_t i = 0; i < out_.size(); ++i) run.slots[out_[i]] = carry[i];
    return absl::OkStatus();
  }
  std::string describe() const override { return str_cat("while, ", body_->steps().size(), " steps"); }
  int64_t inner_peak_bytes() const override { return std::max(cond_->peak_bytes(), body_->peak_bytes()); }

 private:
  Program cond_, body_;
  std::vector<int> in_, out_;
};

class ScanStep final : public Step {
 public:
  ScanStep(const Node& n, Program body, std::vector<int> in, std::vector<int> out)
      : body_(std::move(body)),
        in_(std::move(in)),
        out_(std::move(out)),
        carries_(n.attrs().integer(Attr::num_carry)),
        length_(n.attrs().integer(Attr::length)),
        reverse_(n.attrs().flag(Attr::reverse)) {
    for (size_t i = carries_; i < in_.size(); ++i) in_types_.push_back(n.operand_type(i));
    for (size_t i = carries_; i < out_.size(); ++i) out_types_.push_back(n.result_type(i));
  }

  absl::Status run(Run& run) const override {
    std::vector<BufferRef> arguments = take(run, in_), results;
    Run body = body_->start(run.cancel);
    const std::vector<BufferRef> scanned(arguments.begin() + carries_, arguments.end());
    std::vector<BufferRef> stacked;
    for (const hlo::Type* t : out_types_) {
      absl::StatusOr<BufferRef> buffer = run.allocate(t);
      if (!buffer.ok()) return buffer.status();
      stacked.push_back(*std::move(buffer));
    }
    for (int64_t step = 0; step < length_; ++step) {
      const int64_t at = reverse_ ? length_ - 1 - step : step;
      for (size_t i = 0; i < scanned.size(); ++i) {
        // A view of one slice; the scanned array outlives it unless a result keeps it, so results are copied
        // below.
        const int64_t bytes = in_types_[i]->bytes() / length_;
        BufferRef keep = scanned[i];
        arguments[carries_ + i] =
            foreign_buffer(static_cast<std::byte*>(keep->data()) + at * bytes, bytes, [keep] {});
      }
      if (absl::Status s = body_->run_in(body, arguments, results); !s.ok()) return s;
      for (int64_t c = 0; c < carries_; ++c) arguments[c] = std::move(results[c]);
      for (size_t i = 0; i < stacked.size(); ++i) {
        const int64_t bytes = out_types_[i]->bytes() / length_;
        if (bytes > 0)
          std::memcpy(static_cast<std::byte*>(stacked[i]->data()) + at * bytes, results[carries_ + i]->data(),
                      bytes);
        results[carries_ + i].reset();  // it may be a carry too, which the next step then has to itself
      }
    }
    for (int64_t c = 0; c < carries_; ++c) run.slots[out_[c]] = arguments[c];
    for (size_t i = 0; i < stacked.size(); ++i) run.slots[out_[carries_ + i]] = stacked[i];
    return absl::OkStatus();
  }
  std::string describe() const override {
    return str_cat("scan of ", length_, ", ", body_->steps().size(), " steps");
  }
  int64_t inner_peak_bytes() const override { return body_->peak_bytes(); }

 private:
  Program body_;
  std::vector<int> in_, out_;
  int64_t carries_, length_;
  bool reverse_;
  std::vector<const hlo::Type*> in_types_, out_types_;
};

class CaseStep final : public Step {
 public:
  CaseStep(std::vector<Program> branches, std::vector<int> in, std::vector<int> out)
      : branches_(std::move(branches)), in_(std::move(in)), out_(std::move(out)) {}

  absl::Status run(Run& run) const override {
    int32_t index = *static_cast<const int32_t*>(run.slots[in_[0]]->data());
    const int32_t last = static_cast<int32_t>(branches_.size()) - 1;
    if (index < 0 || index > last) index = last;
    std::vector<BufferRef> results;
    std::vector<BufferRef> arguments = take(run, std::span(in_).subspan(1));
    Run branch = branches_[index]->start(run.cancel);
    if (absl::Status s = branches_[index]->run_in(branch, arguments, results); !s.ok()) return s;
    for (size_t i = 0; i < out_.size(); ++i) run.slots[out_[i]] = results[i];
    return absl::OkStatus();
  }
  std::string describe() const override { return str_cat("case of ", branches_.size()); }
  int64_t inner_peak_bytes() const override {
    int64_t most = 0;
    for (const Program& branch : branches_) most = std::max(most, branch->peak_bytes());
    return most;
  }

 private:
  std::vector<Program> branches_;
  std::vector<int> in_, out_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> make_control_step(Engine& engine, const Node& n,
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
    absl::StatusOr<Program> program = Executable::compile(engine, region);
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  switch (n.op()) {
    case hlo::Op::while_:
      return std::make_unique<WhileStep>(programs[0], programs[1], std::move(in), std::move(out));
    case hlo::Op::scan:
      return std::make_unique<ScanStep>(n, programs[0], std::move(in), std::move(out));
    default:
      return std::make_unique<CaseStep>(std::move(programs), std::move(in), std::move(out));
  }
}

}  // namespace lamina::jit
