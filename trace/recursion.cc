#include "trace/recursion.h"

#include <algorithm>

#include "trace/rules/scan.h"

namespace lamina::trace {

namespace {

// Frames that fit this many bytes are there from the start, at least kFirstFrames.
constexpr int64_t kLittle = int64_t{1} << 20, kFirstFrames = 16;

// Carries of the loop: the segment to run, the number of frames, the error, the stack of segments to return
// to; registers, stacks of what frames hold, what no call changes.
class Machine {
 public:
  Machine(const CallSequence& calls, int64_t deepest, int64_t too_deep)
      : calls_(calls),
        registers_(calls.registers().size()),
        frame_(calls.frame().size()),
        too_deep_(too_deep) {
    int64_t bytes = scalar_type(DType::kS32)->bytes();
    for (const Type* t : calls.frame()) bytes += t->bytes();
    most_ = std::clamp<int64_t>(kMostFrameBytes / bytes, 1, std::max<int64_t>(deepest, 1));
    first_ = most_ * bytes <= kLittle ? most_ : std::min(most_, std::max(kLittle / bytes, kFirstFrames));
  }

  Values run(Builder& b, Ops operands) const {
    Values start{b.scalar_int(DType::kS32, 0), number(b, 0), b.scalar_int(DType::kS32, 0)};
    Values registers;
    for (const Type* t : calls_.registers()) registers.push_back(b.zeros(t));
    size_t next = 0;
    const std::vector<size_t> parameters = calls_.parameters();
    Values fixed;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::vector<size_t>& same = calls_.fixed();
      if (std::find(same.begin(), same.end(), i) != same.end())
        fixed.push_back(operands[i]);
      else
        registers[parameters[next++]] = operands[i];
    }
    if (!b.ok()) return {};
    Values at = joined(joined(joined(start, stacks(b, first_)), registers), fixed);
    at = looped(b, at, first_);
    if (first_ < most_) at = continued(b, at);
    return b.ok() ? results(b, at) : Values();
  }

 private:
  static constexpr size_t kSegment = 0, kFrames = 1, kError = 2, kStacks = 3;
  size_t registers_at() const { return kStacks + 1 + frame_; }

  static Value number(Builder& b, int64_t x) { return b.scalar_int(DType::kS64, x); }
  // Those of the segments to return to, and of what frames hold.
  Values stacks(Builder& b, int64_t frames) const {
    std::vector<const Type*> types{scalar_type(DType::kS32)};
    types.insert(types.end(), calls_.frame().begin(), calls_.frame().end());
    Values out;
    for (const Type* t : types) {
      Dims dims{frames};
      dims.insert(dims.end(), t->dims.begin(), t->dims.end());
      const absl::StatusOr<const Type*> stack = array_type(t->dtype, dims);
      out.push_back(get_or_fail(b, stack) ? b.zeros(*stack) : Value());
    }
    return out;
  }

  Values looped(Builder& b, const Values& from, int64_t frames) const {
    const std::vector<const Type*> types = types_of(from);
    const absl::StatusOr<ComputationPtr> cond = record_region(types, [&](Builder& in, Ops p) {
      const Value inside = in.and_(in.compare(p[kFrames], number(in, 0), "GE"),
                                   in.compare(p[kFrames], number(in, frames), "LT"));
      return Values{in.and_(inside, in.compare(p[kError], in.scalar_int(DType::kS32, 0), "EQ"))};
    });
    const absl::StatusOr<ComputationPtr> body =
        record_region(types, [&](Builder& in, Ops p) { return step(in, p); });
    if (!get_or_fail(b, cond) || !get_or_fail(b, body)) return from;
    const Values out = b.while_loop(from, *cond, *body);
    return b.ok() ? out : from;
  }

  // Goes on with room for all frames where the first ones do not do.
  Values continued(Builder& b, const Values& from) const {
    const auto resized = [&](Ops p, const Values& stacks) {
      return joined(joined(p.first(kStacks), stacks), p.subspan(kStacks + 1 + frame_));
    };
    const std::vector<const Type*> types = types_of(from);
    const absl::StatusOr<ComputationPtr> ends =
        record_region(types, [&](Builder&, Ops p) { return resized(p, {}); });
    const absl::StatusOr<ComputationPtr> goes_on = record_region(types, [&](Builder& in, Ops p) {
      Values more = stacks(in, most_);
      for (size_t i = 0; i < more.size() && in.ok(); ++i) {
        const Value& few = p[kStacks + i];
        more[i] = in.dynamic_update_slice(more[i], few, Values(few.rank(), number(in, 0)));
      }
      return in.ok() ? resized(looped(in, resized(p, more), most_), {}) : Values();
    });
    if (!get_or_fail(b, ends) || !get_or_fail(b, goes_on)) return from;
    const Value deeper = b.compare(from[kFrames], number(b, first_), "GE");
    const Values out = b.conditional(b.convert(deeper, DType::kS32), {{*ends, *goes_on}}, from);
    if (!b.ok()) return from;
    return joined(joined(Ops(out).first(kStacks), Values(1 + frame_)), Ops(out).subspan(kStacks));
  }

  Values step(Builder& b, Ops p) const {
    const Value& frames = p[kFrames];
    const Ops registers = p.subspan(registers_at(), registers_),
              fixed = p.subspan(registers_at() + registers_);
    Values rows;
    for (size_t i = 0; i < frame_; ++i) rows.push_back(row_at(b, p[kStacks + 1 + i], frames));
    if (!b.ok()) return Values(p.size());
    const Values operands = joined(joined(registers, rows), fixed);
    std::vector<ComputationPtr> segments;
    for (size_t s = 0; s < calls_.num_segments(); ++s) {
      const absl::StatusOr<ComputationPtr> made = record_region(types_of(operands), [&](Builder& in, Ops q) {
        return calls_.record(in, s, q.first(registers_), q.subspan(registers_, frame_),
                             q.subspan(registers_ + frame_));
      });
      if (!get_or_fail(b, made)) return Values(p.size());
      segments.push_back(*made);
    }
    const Values made = b.conditional(p[kSegment], segments, operands);
    if (!b.ok()) return Values(p.size());
    const Value left = b.add(frames, made[CallSequence::kFrames]);
    const Value back = put_row(b, p[kStacks], made[CallSequence::kReturn], frames);
    const Value returns = b.compare(made[CallSequence::kFrames], number(b, 0), "LT");
    Values next{b.select(returns, row_at(b, back, b.maximum(left, number(b, 0))), made[CallSequence::kNext]),
                left, made[CallSequence::kError], back};
    const Ops made_registers = Ops(made).subspan(CallSequence::kRegisters, registers_);
    for (size_t i = 0; i < frame_; ++i)
      next.push_back(put_row(b, p[kStacks + 1 + i], made[CallSequence::kRegisters + registers_ + i], frames));
    return joined(joined(next, made_registers), fixed);
  }

  Values results(Builder& b, const Values& at) const {
    Values out;
    for (size_t i : calls_.results()) out.push_back(at[registers_at() + i]);
    const Value deep = b.select(b.compare(at[kFrames], number(b, most_), "GE"),
                                b.scalar_int(DType::kS32, too_deep_), b.scalar_int(DType::kS32, 0));
    const Value fine = b.compare(at[kError], b.scalar_int(DType::kS32, 0), "EQ");
    out.push_back(b.select(fine, deep, at[kError]));
    return out;
  }

  const CallSequence& calls_;
  size_t registers_, frame_;
  int64_t too_deep_, most_, first_;
};

}  // namespace

Values record_recursion(Builder& b, std::span<const RecursiveFunction> functions, Ops operands,
                        int64_t deepest, int64_t too_deep) {
  const absl::StatusOr<CallSequence> calls = CallSequence::of(functions);
  if (!get_or_fail(b, calls)) return {};
  return Machine(*calls, deepest, too_deep).run(b, operands);
}

}  // namespace lamina::trace
