#include "trace/rules/loops.h"

#include <string>
#include <utility>
#include <vector>

#include "hlo/literal.h"

namespace lamina::trace {

namespace {

// A constant scalar integer; absent otherwise.
std::optional<int64_t> constant_integer(Operand o) {
  const Value v(o);
  if (!v || v.node()->op() != Op::constant || !v.type()->is_scalar() || !is_integer(v.dtype()))
    return std::nullopt;
  const int64_t x = v.node()->attrs().literal(Attr::value)->int_at(0);
  if (v.dtype() == DType::kU64 && x < 0) return std::nullopt;
  return x;
}

// A value of a computation or, inside of calls, of the body of the innermost one. Seen through: neither a
// call's result nor what a call was given.
class SeenThrough {
 public:
  explicit SeenThrough(const Value& root) : at_(root.operand()) { see_through(); }
  const Node& node() const { return *at_.node(); }
  Operand value() const { return at_; }
  SeenThrough operand(size_t i) const {
    SeenThrough out(*this);
    out.at_ = node().operand(i);
    out.see_through();
    return out;
  }

 private:
  static const Computation& body(const Node& call) { return *call.attrs().computation(Attr::body); }
  void see_through() {
    while (true) {
      if (is_plain_call(*at_.node())) {
        calls_.push_back(at_.node());
        at_ = body(*at_.node()).roots()[at_.index()].operand();
        continue;
      }
      if (calls_.empty()) return;
      const std::optional<size_t> given = position_of(body(*calls_.back()).parameters(), at_);
      if (!given) return;
      at_ = calls_.back()->operand(*given);
      calls_.pop_back();
    }
  }

  Operand at_;
  std::vector<const Node*> calls_;  // the outermost first
};

}  // namespace

Loop loop_of(const Node& n) {
  return {n.attrs().computation(Attr::cond), n.attrs().computation(Attr::body),
          n.attrs().integer(Attr::length)};
}

Values record_loop(Builder& b, const Loop& loop, Ops carries) {
  if (loop.kept == 0) return b.while_loop(carries, loop.cond, loop.body);
  return b.make_multi(
      Op::while_, carries,
      intern_attrs({{Attr::cond, loop.cond}, {Attr::body, loop.body}, {Attr::length, loop.kept}}));
}

// How often a loop runs whose condition compares a carry that steps by a constant with a constant.
std::optional<int64_t> trip_count(const Node& loop, Ops carries) {
  const Computation &cond = *loop.attrs().computation(Attr::cond),
                    &body = *loop.attrs().computation(Attr::body);
  const SeenThrough test(cond.roots()[0]);
  if (test.node().op() != Op::compare) return std::nullopt;
  std::string direction = test.node().attrs().string(Attr::direction);
  auto bound_of = [&](Operand o) -> std::optional<int64_t> {
    const auto j = position_of(cond.parameters(), o);
    return j && is_invariant(body, *j) ? constant_integer(carries[*j].operand()) : constant_integer(o);
  };
  Operand counter = test.operand(0).value();
  std::optional<int64_t> bound = bound_of(test.operand(1).value());
  if (!bound) {
    bound = bound_of(std::exchange(counter, test.operand(1).value()));
    static constexpr std::pair<std::string_view, std::string_view> kFlipped[] = {
        {"LT", "GT"}, {"LE", "GE"}, {"GT", "LT"}, {"GE", "LE"}, {"NE", "NE"}, {"EQ", "EQ"}};
    for (const auto& [from, to] : kFlipped)
      if (direction == from) {
        direction = to;
        break;
      }
  }
  const std::optional<size_t> i = position_of(cond.parameters(), counter);
  if (!bound || !i) return std::nullopt;
  const std::optional<int64_t> start = constant_integer(carries[*i].operand());
  const SeenThrough step(body.roots()[*i]);
  const Operand self = body.parameters()[*i].operand();
  if (!start || (step.node().op() != Op::add && step.node().op() != Op::subtract)) return std::nullopt;
  const bool adds = step.node().op() == Op::add;
  const Operand first = step.operand(0).value(), second = step.operand(1).value();
  const std::optional<int64_t> size = first == self            ? constant_integer(second)
                                      : adds && second == self ? constant_integer(first)
                                                               : std::nullopt;
  if (!size) return std::nullopt;
  using Wide = __int128;
  const Wide by = adds ? Wide{*size} : -Wide{*size};
  const Wide from = *start, to = *bound;
  Wide count = -1;
  auto ceil_div = [](Wide a, Wide d) { return a <= 0 ? Wide{0} : (a + d - 1) / d; };
  if (direction == "LT" && by > 0) count = ceil_div(to - from, by);
  if (direction == "LE" && by > 0) count = ceil_div(to - from + 1, by);
  if (direction == "GT" && by < 0) count = ceil_div(from - to, -by);
  if (direction == "GE" && by < 0) count = ceil_div(from - to + 1, -by);
  if (direction == "NE" && by != 0 && (to - from) % by == 0) count = (to - from) / by;
  if (count < 0) return std::nullopt;
  // The counter must not wrap on its way.
  const Wide last = from + count * by;
  const DType t = carries[*i].dtype();
  const int bits = bit_width(t);
  const Wide high = (Wide{1} << (is_signed(t) ? bits - 1 : bits)) - 1,
             low = is_signed(t) ? -high - 1 : Wide{0};
  if (last < low || last > high || count > (Wide{1} << 40)) return std::nullopt;
  return static_cast<int64_t>(count);
}

Values loop_over(Builder& b, Ops carries, const std::function<Value(Builder&, Ops)>& go,
                 const std::function<Values(Builder&, Ops)>& step) {
  const std::vector<const Type*> types = types_of(carries);
  absl::StatusOr<ComputationPtr> cond =
      record_region(types, [&](Builder& inner, Ops p) { return Values{go(inner, p)}; });
  absl::StatusOr<ComputationPtr> body =
      record_region(types, [&](Builder& inner, Ops p) { return step(inner, p); });
  if (!get_or_fail(b, cond) || !get_or_fail(b, body)) return Values(carries.size());
  const Values out = b.while_loop(carries, *cond, *body);
  return b.ok() ? out : Values(carries.size());
}

absl::StatusOr<Mask> closed_marks(const Computation& body, Mask marks) {
  while (true) {
    const absl::StatusOr<JvpComputation> derived = jvp_computation(body, marks, marks, JvpMode::kLinearize);
    if (!derived.ok()) return derived.status();
    if (derived->results == marks) return marks;
    marks = derived->results;
  }
}

absl::StatusOr<Loop> differentiated(const Loop& loop, const Mask& marked) {
  const absl::StatusOr<JvpComputation> derived =
      jvp_computation(*loop.body, marked, marked, JvpMode::kLinearize);
  if (!derived.ok()) return derived.status();
  const size_t n = marked.size();
  const Computation& both = *derived->body;
  absl::StatusOr<ComputationPtr> body = Computation::make(both.parameters().first(n), both.roots().first(n));
  if (!body.ok()) return body.status();
  return Loop{loop.cond, *std::move(body), loop.kept, loop.steps};
}

absl::StatusOr<Loop> counted(const Loop& loop) {
  std::vector<const Type*> types = loop.body->parameter_types();
  const size_t n = types.size();
  types.push_back(scalar_type(DType::kS64));
  absl::StatusOr<ComputationPtr> cond = with_parameters(*loop.cond, std::span(types).subspan(n));
  if (!cond.ok()) return cond.status();
  absl::StatusOr<ComputationPtr> body = record_region(types, [&](Builder& b, Ops p) {
    return joined(inline_computation(b, *loop.body, p.first(n)), {{b.add(p[n], number(b, 1))}});
  });
  if (!body.ok()) return body.status();
  return Loop{*std::move(cond), *std::move(body), loop.kept};
}

}  // namespace lamina::trace
