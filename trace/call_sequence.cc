#include "trace/call_sequence.h"

#include <algorithm>
#include <set>

#include "hlo/graph_copy.h"
#include "hlo/op.h"
#include "hlo/printer.h"
#include "trace/rules/scan.h"

namespace lamina::trace {

namespace {

// What follows a branch that holds a call is recorded once for each way out of it, up to so many nodes;
// beyond, the ways out jump to it.
constexpr int64_t kMostRepeated = 24;

bool holds_call(const Node& n) { return anywhere(n, is_recursive_call); }

absl::StatusOr<ComputationPtr> jumping(const ComputationPtr& c);

Values failed(Builder& b, const Node& n, const absl::Status& status) {
  b.fail(status);
  return Values(n.num_results());
}

// A scan as a loop that counts: (step, carries, arrays that are read, arrays that are made).
Values counting_loop(Builder& b, const Node& n, Ops x) {
  const absl::StatusOr<ComputationPtr> body = jumping(n.attrs().computation(Attr::body));
  if (!body.ok()) return failed(b, n, body.status());
  const auto carried = static_cast<size_t>(n.attrs().integer(Attr::num_carry));
  const int64_t length = n.attrs().integer(Attr::length);
  const bool reverse = n.attrs().flag(Attr::reverse);
  const size_t read = x.size();
  Values carries{b.scalar_int(DType::kS64, 0)};
  carries.insert(carries.end(), x.begin(), x.end());
  for (uint32_t i = static_cast<uint32_t>(carried); i < n.num_results(); ++i)
    carries.push_back(b.zeros(n.result_type(i)));
  if (!b.ok()) return Values(n.num_results());
  const std::vector<const Type*> types = types_of(carries);
  const absl::StatusOr<ComputationPtr> cond = record_region(types, [&](Builder& in, Ops p) {
    return Values{in.compare(p[0], in.scalar_int(DType::kS64, length), "LT")};
  });
  const absl::StatusOr<ComputationPtr> step = record_region(types, [&](Builder& in, Ops p) {
    const Value at = reverse ? in.subtract(in.scalar_int(DType::kS64, length - 1), p[0]) : p[0];
    Values arguments(p.begin() + 1, p.begin() + 1 + static_cast<int64_t>(carried));
    for (size_t i = carried; i < read; ++i) arguments.push_back(row_at(in, p[i + 1], at));
    if (!in.ok()) return Values(p.size());
    const Values made = inline_computation(in, **body, arguments);
    if (!in.ok()) return Values(p.size());
    Values next{in.add(p[0], in.scalar_int(DType::kS64, 1))};
    next.insert(next.end(), made.begin(), made.begin() + static_cast<int64_t>(carried));
    next.insert(next.end(), p.begin() + 1 + static_cast<int64_t>(carried),
                p.begin() + 1 + static_cast<int64_t>(read));
    for (size_t i = carried; i < made.size(); ++i) {
      const Value& all = p[1 + read + i - carried];
      next.push_back(put_row(in, all, made[i], at));
    }
    return next;
  });
  if (!get_or_fail(b, cond) || !get_or_fail(b, step)) return Values(n.num_results());
  const Values out = b.while_loop(carries, *cond, *step);
  if (!b.ok()) return Values(n.num_results());
  Values results(out.begin() + 1, out.begin() + 1 + static_cast<int64_t>(carried));
  results.insert(results.end(), out.begin() + 1 + static_cast<int64_t>(read), out.end());
  return results;
}

// A loop whose condition holds no call: where it does, its outcome is one more carry.
Values tested_loop(Builder& b, const Node& n, Ops x) {
  const absl::StatusOr<ComputationPtr> cond = jumping(n.attrs().computation(Attr::cond)),
                                       body = jumping(n.attrs().computation(Attr::body));
  if (!cond.ok()) return failed(b, n, cond.status());
  if (!body.ok()) return failed(b, n, body.status());
  if (!anywhere(**cond, is_recursive_call)) return b.while_loop(x, *cond, *body);
  const Values first = inline_computation(b, **cond, x);
  if (!b.ok()) return Values(n.num_results());
  const Values carries = joined(first, x);
  const std::vector<const Type*> types = types_of(carries);
  const absl::StatusOr<ComputationPtr> known =
      record_region(types, [](Builder&, Ops p) { return Values{p[0]}; });
  const absl::StatusOr<ComputationPtr> step = record_region(types, [&](Builder& in, Ops p) {
    const Values next = inline_computation(in, **body, p.subspan(1));
    if (!in.ok()) return Values(p.size());
    const Values again = inline_computation(in, **cond, next);
    return in.ok() ? joined(again, next) : Values(p.size());
  });
  if (!get_or_fail(b, known) || !get_or_fail(b, step)) return Values(n.num_results());
  Values out = b.while_loop(carries, *known, *step);
  if (!b.ok()) return Values(n.num_results());
  out.erase(out.begin());
  return out;
}

// A node that holds calls, as one that jumps can replace.
Values jumping_node(Builder& b, const Node& n, Ops x) {
  switch (n.op()) {
    case Op::case_: {
      std::vector<ComputationPtr> branches;
      for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
        absl::StatusOr<ComputationPtr> made = jumping(branch);
        if (!made.ok()) return failed(b, n, made.status());
        branches.push_back(*std::move(made));
      }
      return b.conditional(x[0], branches, x.subspan(1));
    }
    case Op::while_:
      return tested_loop(b, n, x);
    case Op::scan:
      return counting_loop(b, n, x);
    case Op::call:
      if (!n.attrs().has(Attr::rule) && !n.attrs().has(Attr::direction)) {
        const absl::StatusOr<ComputationPtr> body = jumping(n.attrs().computation(Attr::body));
        if (!body.ok()) return failed(b, n, body.status());
        return inline_computation(b, **body, x);
      }
      return failed(b, n,
                    absl::UnimplementedError("a recursive call cannot stand in a function with a derivative "
                                             "of its own: give the derivative to the recursive function, or "
                                             "write the recursion as a loop"));
    default:
      return failed(b, n,
                    absl::UnimplementedError(str_cat("a recursive call cannot stand in the body of ",
                                                     n.def().name, ": call it outside of the body")));
  }
}

// The computation with nothing around its calls but branches, and loops whose conditions hold none.
absl::StatusOr<ComputationPtr> jumping(const ComputationPtr& c) {
  if (!anywhere(*c, is_recursive_call)) return c;
  Builder b;
  GraphCopy copy(c->parameters(), c->parameters());
  const bool made = copy.extend(b, c->nodes(), [&](const Node& n, Ops operands) {
    NodeScope scope(n);
    if (is_recursive_call(n) || !holds_call(n)) return results_of(b, n, operands);
    return jumping_node(b, n, operands);
  });
  if (!made) return b.status();
  return Computation::make(c->parameters(), copy(c->roots()));
}

int64_t weight(const Computation& c, size_t first) {
  int64_t out = 0;
  for (size_t i = first; i < c.nodes().size() && out <= kMostRepeated; ++i) {
    ++out;
    for (const ComputationPtr& region : regions_of(*c.nodes()[i])) out += weight(*region, 0);
  }
  return out;
}

constexpr int64_t kUnknown = -1, kChanges = -2;

}  // namespace

bool is_recursive_call(const Node& n) {
  return n.op() == Op::custom_call && n.attrs().string(Attr::call_target_name) == kRecursiveCall;
}

Values recursive_call(Builder& b, int64_t function, Ops operands, std::span<const Type* const> types) {
  std::vector<const Type*> results(types.begin(), types.end());
  results.push_back(scalar_type(DType::kS32));
  return b.make_multi(Op::custom_call, operands,
                      intern_attrs({{Attr::call_target_name, std::string(kRecursiveCall)},
                                    {Attr::index, function},
                                    {Attr::result_types, std::move(results)}}));
}

std::vector<size_t> Slots::of(std::span<const Type* const> types) {
  std::vector<size_t> out;
  std::vector<bool> taken(types_.size(), false);
  for (const Type* t : types) {
    size_t i = 0;
    while (i < types_.size() && (taken[i] || types_[i] != t)) ++i;
    if (i == types_.size()) {
      types_.push_back(t);
      taken.push_back(false);
    }
    taken[i] = true;
    out.push_back(i);
  }
  return out;
}

// --- finding the segments ---

absl::StatusOr<CallSequence> CallSequence::of(std::span<const RecursiveFunction> functions) {
  CallSequence out;
  for (const RecursiveFunction& f : functions) {
    absl::StatusOr<ComputationPtr> body = jumping(f.body);
    if (!body.ok()) return body.status();
    out.functions_.push_back({f.number, *std::move(body), f.arguments});
  }
  for (const RecursiveFunction& f : out.functions_) out.learn(*f.body);
  for (size_t i = 0; i < out.functions_.size(); ++i)
    out.point(Kind::kEntry, i, {{out.functions_[i].body.get(), 0}});
  for (size_t i = 0; i < out.points_.size(); ++i) {
    const Point p = out.points_[i];
    if (p.kind == Kind::kReturned) {
      const Node& call = node_before_of(p.path);
      const size_t callee = out.function_of(call);
      if (callee == out.functions_.size()) return absl::InternalError("a recursive call names no function");
      const RecursiveFunction& f = out.functions_[callee];
      const size_t least = f.arguments + 1, all = f.body->parameters().size() + 1;
      if (call.operands().size() != all && !(call.operands().size() == least && callee == p.function))
        return absl::UnimplementedError(
            "a function inside a recursive one is called by another one inside of it, which does not see "
            "what it "
            "uses from around: pass that as arguments");
      std::vector<const Type*> types = f.body->result_types();
      for (size_t k = 0; k < types.size(); ++k)
        if (types.size() != call.num_results() || call.result_type(static_cast<uint32_t>(k)) != types[k])
          return absl::InternalError("a recursive call gives other types than its function");
    }
    if (p.kind == Kind::kLoop) {
      Path body = p.path;
      body.push_back({node_before_of(p.path).attrs().computation(Attr::body).get(), 0});
      out.explore(p.function, std::move(body));
    }
    out.explore(p.function, p.path);
  }
  out.find_fixed();
  out.place();
  return out;
}

const Node& CallSequence::node_before_of(const Path& path) { return node_before(path.back()); }

void CallSequence::learn(const Computation& c) {
  if (infos_.contains(&c)) return;
  Info& info = infos_[&c];
  for (size_t i = 0; i < c.nodes().size(); ++i) info.position[c.nodes()[i]] = i;
  for (size_t i = 0; i < c.parameters().size(); ++i) info.parameter[c.parameters()[i].node()] = i;
  for (const Node* n : c.nodes())
    if (holds_call(*n))
      for (const ComputationPtr& region : regions_of(*n)) learn(*region);
}

size_t CallSequence::function_of(const Node& call) const {
  size_t i = 0;
  while (i < functions_.size() && functions_[i].number != call.attrs().integer(Attr::index)) ++i;
  return i;
}

size_t CallSequence::point(Kind kind, size_t function, const Path& path) {
  const auto [it, is_new] = numbers_.try_emplace({kind, function, path}, points_.size());
  if (is_new) points_.push_back({kind, function, path, {}, {}, {}, {}});
  return it->second;
}

size_t CallSequence::find_point(Kind kind, size_t function, const Path& path) const {
  return numbers_.find({kind, function, path})->second;
}

// Finds the points that control reaches from here.
void CallSequence::explore(size_t function, Path path) {
  if (!explored_.try_emplace({function, path}, true).second) return;
  while (true) {
    Level& top = path.back();
    if (top.next == top.c->nodes().size()) {
      if (path.size() == 1) return;
      path.pop_back();
      if (node_before_of(path).op() == Op::while_) return;
      if (!joins_by_jump(path)) return explore(function, std::move(path));
      point(Kind::kJoin, function, path);
      return;
    }
    const Node& n = *top.c->nodes()[top.next++];
    if (is_recursive_call(n)) {
      point(Kind::kReturned, function, path);
      return;
    }
    if (!holds_call(n)) continue;
    if (n.op() == Op::while_) {
      point(Kind::kLoop, function, path);
      return;
    }
    for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
      Path inside = path;
      inside.push_back({branch.get(), 0});
      explore(function, std::move(inside));
    }
    return;
  }
}

bool CallSequence::joins_by_jump(const Path& path) {
  int64_t left = 0;
  for (size_t l = path.size(); l-- > 0;) {
    left += weight(*path[l].c, path[l].next);
    if (l > 0 && node_before(path[l - 1]).op() == Op::while_) break;
  }
  return left > kMostRepeated;
}

// --- values ---

CallSequence::Id CallSequence::canonical(const Path& path, Id id) const {
  while (true) {
    const Node* n = id.o.node();
    if (n->op() == Op::parameter && id.level > 0) {
      const size_t k = info(path[id.level].c).parameter.find(n)->second;
      const Node& parent = node_before(path[id.level - 1]);
      if (parent.op() == Op::while_ && !is_invariant(*path[id.level].c, k)) return id;
      id = {id.level - 1, parent.operand(parent.op() == Op::while_ ? k : k + 1)};
    } else if (n->op() == Op::while_ && holds_call(*n) &&
               is_invariant(*n->attrs().computation(Attr::body), id.o.index())) {
      id.o = n->operand(id.o.index());
    } else {
      return id;
    }
  }
}

CallSequence::Id CallSequence::argument(const Path& path, const Node& call, size_t k) const {
  const RecursiveFunction& callee = functions_[function_of(call)];
  const size_t at = k < callee.arguments ? k : k + 1;
  if (at >= call.operands().size()) return {0, callee.body->parameters()[k].operand()};
  return canonical(path, {path.size() - 1, call.operand(at)});
}

bool CallSequence::is_free(size_t function, const Id& id) const {
  const Node& n = *id.o.node();
  if (n.op() != Op::parameter)
    return n.operands().empty() || (is_recursive_call(n) && id.o.index() + 1 == n.num_results());
  return id.level == 0 &&
         always_[function][info(functions_[function].body.get()).parameter.find(&n)->second] >= 0;
}

// What the code from here to the end of the function reads of what is known here, and is not free. Results of
// the node before are among it after a branch.
std::vector<CallSequence::Id> CallSequence::live(size_t function, const Path& path, Kind kind) const {
  std::vector<Id> out;
  std::set<Id> seen;
  const auto add = [&](size_t level, Operand o) {
    const Id id = canonical(path, {level, o});
    if (is_free(function, id)) return;
    const Node* n = id.o.node();
    if (n->op() != Op::parameter) {
      const size_t at = info(path[id.level].c).position.find(n)->second + 1;
      const bool innermost = id.level + 1 == path.size();
      if (at > path[id.level].next || (at == path[id.level].next && !(innermost && kind == Kind::kJoin)))
        return;
    }
    if (seen.insert(id).second) out.push_back(id);
  };
  const auto add_unchanged = [&](size_t level) {
    const Node& loop = node_before(path[level]);
    const Computation& body = *loop.attrs().computation(Attr::body);
    for (size_t i = 0; i < loop.operands().size(); ++i)
      if (is_invariant(body, i)) add(level, loop.operand(i));
  };
  for (size_t l = path.size(); l-- > 0;) {
    const Computation& c = *path[l].c;
    for (size_t i = path[l].next; i < c.nodes().size(); ++i)
      for (Operand o : c.nodes()[i]->operands()) add(l, o);
    for (const Value& root : c.roots()) add(l, root.operand());
    if (l > 0 && node_before(path[l - 1]).op() == Op::while_) add_unchanged(l - 1);
  }
  if (kind == Kind::kLoop) add_unchanged(path.size() - 1);
  const RecursiveFunction& f = functions_[function];
  for (size_t k = f.arguments; k < f.body->parameters().size(); ++k)
    add(0, f.body->parameters()[k].operand());
  return out;
}

std::vector<const Type*> CallSequence::result_types(size_t function) const {
  std::vector<const Type*> out = functions_[function].body->result_types();
  out.pop_back();
  return out;
}

// Parameters that are one parameter of the first function in all calls.
void CallSequence::find_fixed() {
  for (const RecursiveFunction& f : functions_) always_.emplace_back(f.body->parameters().size(), kUnknown);
  for (size_t k = 0; k < always_[0].size(); ++k) always_[0][k] = static_cast<int64_t>(k);
  for (bool changed = true; changed;) {
    changed = false;
    for (const Point& p : points_) {
      if (p.kind != Kind::kReturned) continue;
      const Node& call = node_before_of(p.path);
      const size_t callee = function_of(call);
      const Info& own = info(functions_[p.function].body.get());
      for (size_t k = 0; k < always_[callee].size(); ++k) {
        const Id id = argument(p.path, call, k);
        const bool passed_on = id.level == 0 && id.o.node()->op() == Op::parameter;
        const int64_t given =
            passed_on ? always_[p.function][own.parameter.find(id.o.node())->second] : kChanges;
        int64_t& now = always_[callee][k];
        if (given == kUnknown || now == given || now == kChanges) continue;
        now = now == kUnknown ? given : kChanges;
        changed = true;
      }
    }
  }
  for (size_t k = 0; k < always_[0].size(); ++k)
    if (always_[0][k] >= 0) fixed_.push_back(k);
}

void CallSequence::place() {
  for (size_t i = 0; i < functions_.size(); ++i) function_results_.push_back(registers_.of(result_types(i)));
  const auto types = [&](const std::vector<Id>& ids) {
    std::vector<const Type*> out;
    for (const Id& id : ids) out.push_back(type_of(id));
    return out;
  };
  for (Point& p : points_) {
    const size_t inner = p.path.size() - 1;
    if (p.kind == Kind::kEntry) {
      for (const Value& v : functions_[p.function].body->parameters())
        if (const Id id{0, v.operand()}; !is_free(p.function, id)) p.given.push_back(id);
    } else {
      (p.kind == Kind::kReturned ? p.kept : p.given) = live(p.function, p.path, p.kind);
    }
    Node& n =
        p.kind == Kind::kEntry ? *p.path[0].c->roots()[0].node() : const_cast<Node&>(node_before_of(p.path));
    if (p.kind == Kind::kReturned) {
      for (uint32_t i = 0; i + 1 < n.num_results(); ++i) p.given.push_back({inner, Operand(&n, i)});
      p.in_registers = function_results_[function_of(n)];
    } else {
      if (p.kind == Kind::kLoop)
        for (uint32_t i = 0; i < n.num_results(); ++i)
          if (!is_invariant(*n.attrs().computation(Attr::body), i))
            p.given.push_back({inner, Operand(&n, i)});
      p.in_registers = registers_.of(types(p.given));
    }
    p.in_frame = frame_.of(types(p.kept));
  }
}

// --- recording a segment ---

class CallSequence::Emitter {
 public:
  Emitter(const CallSequence& s, size_t function, Builder& b, Ops fixed)
      : s_(s), function_(function), b_(b), fixed_(fixed) {}

  // From a path to the next call, return or jump.
  Values run(Path path, Known known) {
    while (b_.ok()) {
      Level& top = path.back();
      const size_t inner = path.size() - 1;
      if (top.next == top.c->nodes().size()) {
        const Values results = values(path, known, inner, top.c->roots());
        if (inner == 0) return returned(results);
        path.pop_back();
        Node& parent = const_cast<Node&>(node_before_of(path));
        for (uint32_t i = 0; i < results.size(); ++i) known[{inner - 1, Operand(&parent, i)}] = results[i];
        if (parent.op() == Op::while_) return jump(Kind::kLoop, path, known);
        if (joins_by_jump(path)) return jump(Kind::kJoin, path, known);
        continue;
      }
      Node& n = *top.c->nodes()[top.next++];
      if (n.op() == Op::parameter || n.operands().empty()) continue;
      NodeScope scope(n);
      if (is_recursive_call(n)) return call(path, known, n);
      if (!holds_call(n)) {
        Values operands;
        for (Operand o : n.operands()) operands.push_back(value(path, known, {inner, o}));
        const Values results = results_of(b_, n, operands);
        for (uint32_t i = 0; b_.ok() && i < results.size(); ++i) known[{inner, Operand(&n, i)}] = results[i];
        continue;
      }
      if (n.op() == Op::while_) {
        for (uint32_t i = 0; i < n.num_results(); ++i)
          known[{inner, Operand(&n, i)}] = value(path, known, {inner, n.operand(i)});
        return jump(Kind::kLoop, path, known);
      }
      std::vector<Path> ways;
      for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
        ways.push_back(path);
        ways.back().push_back({branch.get(), 0});
      }
      return choose(value(path, known, {inner, n.operand(0)}), ways, path, known);
    }
    return Values(kRegisters + s_.registers().size() + s_.frame().size());
  }

  // From where a loop asks whether it goes on.
  Values run_loop(const Path& path, const Known& known) {
    const Node& loop = node_before_of(path);
    Values carries;
    for (uint32_t i = 0; i < loop.num_results(); ++i)
      carries.push_back(value(path, known, {path.size() - 1, Operand(const_cast<Node*>(&loop), i)}));
    const Values go = inline_computation(b_, *loop.attrs().computation(Attr::cond), carries);
    if (!b_.ok()) return Values();
    Path body = path;
    body.push_back({loop.attrs().computation(Attr::body).get(), 0});
    return choose(b_.convert(go[0], DType::kS32), {path, body}, path, known);
  }

 private:
  Value value(const Path& path, const Known& known, Id id) const {
    id = s_.canonical(path, id);
    const Node& n = *id.o.node();
    if (const auto it = known.find(id); it != known.end()) return it->second;
    if (n.op() == Op::parameter) {
      const int64_t k = s_.always_[function_][s_.info(path[0].c).parameter.find(&n)->second];
      const auto at = std::find(s_.fixed_.begin(), s_.fixed_.end(), static_cast<size_t>(k));
      return fixed_[static_cast<size_t>(at - s_.fixed_.begin())];
    }
    if (is_recursive_call(n)) return b_.scalar_int(DType::kS32, 0);  // only after it does the caller go on
    return Value(id.o);
  }
  Values values(const Path& path, const Known& known, size_t level, Ops of) const {
    Values out;
    for (const Value& v : of) out.push_back(value(path, known, {level, v.operand()}));
    return out;
  }

  // One of the ways that begin here, which a number chooses.
  Values choose(const Value& index, const std::vector<Path>& ways, const Path& from, const Known& known) {
    std::vector<Id> ids;
    std::set<Id> seen;
    for (const Path& way : ways)
      for (const Id& id : s_.live(function_, way, Kind::kJoin))
        if (known.contains(id) && seen.insert(id).second) ids.push_back(id);
    const Node& here = node_before_of(from);
    for (uint32_t i = 0; here.op() == Op::while_ && i < here.num_results(); ++i)
      if (const Id id{from.size() - 1, Operand(const_cast<Node*>(&here), i)};
          known.contains(id) && seen.insert(id).second)
        ids.push_back(id);
    Values operands;
    for (const Id& id : ids) operands.push_back(known.find(id)->second);
    operands.insert(operands.end(), fixed_.begin(), fixed_.end());
    std::vector<ComputationPtr> branches;
    for (const Path& way : ways) {
      const absl::StatusOr<ComputationPtr> made = record_region(types_of(operands), [&](Builder& in, Ops p) {
        Known inside;
        for (size_t i = 0; i < ids.size(); ++i) inside[ids[i]] = p[i];
        Emitter emitter(s_, function_, in, p.subspan(ids.size()));
        if (way.size() > from.size() && here.op() == Op::while_)
          for (uint32_t i = 0; i < here.num_results(); ++i)
            inside[{from.size(), way.back().c->parameters()[i].operand()}] =
                emitter.value(from, inside, {from.size() - 1, Operand(const_cast<Node*>(&here), i)});
        return emitter.run(way, std::move(inside));
      });
      if (!get_or_fail(b_, made)) return Values();
      branches.push_back(*made);
    }
    return b_.conditional(index, branches, operands);
  }

  // --- how a segment ends ---

  Values ended(int64_t frames, size_t next, size_t after, const Value& error,
               const std::vector<std::pair<size_t, Value>>& registers,
               const std::vector<std::pair<size_t, Value>>& frame) {
    Values out{b_.scalar_int(DType::kS64, frames), b_.scalar_int(DType::kS32, static_cast<int64_t>(next)),
               b_.scalar_int(DType::kS32, static_cast<int64_t>(after)), error};
    const auto append = [&](const std::vector<const Type*>& types,
                            const std::vector<std::pair<size_t, Value>>& given) {
      const size_t first = out.size();
      out.resize(first + types.size());
      for (const auto& [i, v] : given) out[first + i] = v;
      for (size_t i = 0; i < types.size(); ++i)
        if (!out[first + i]) out[first + i] = b_.zeros(types[i]);
    };
    append(s_.registers(), registers);
    append(s_.frame(), frame);
    return out;
  }
  Value no_error() { return b_.scalar_int(DType::kS32, 0); }

  std::vector<std::pair<size_t, Value>> at(const std::vector<size_t>& slots, const std::vector<Id>& ids,
                                           const Path& path, const Known& known) const {
    std::vector<std::pair<size_t, Value>> out;
    for (size_t i = 0; i < ids.size(); ++i) out.emplace_back(slots[i], value(path, known, ids[i]));
    return out;
  }

  Values returned(const Values& results) {
    std::vector<std::pair<size_t, Value>> out;
    const std::vector<size_t>& slots = s_.function_results_[function_];
    for (size_t i = 0; i < slots.size(); ++i) out.emplace_back(slots[i], results[i]);
    return ended(-1, 0, 0, results.back(), out, {});
  }

  Values jump(Kind kind, const Path& path, const Known& known) {
    const size_t number = s_.find_point(kind, function_, path);
    const Point& p = s_.points_[number];
    return ended(0, number, 0, no_error(), at(p.in_registers, p.given, path, known), {});
  }

  Values call(const Path& path, const Known& known, const Node& n) {
    const size_t callee = s_.function_of(n), after = s_.find_point(Kind::kReturned, function_, path);
    const Point &entry = s_.points_[callee], &back = s_.points_[after];
    const RecursiveFunction& f = s_.functions_[callee];
    std::vector<std::pair<size_t, Value>> arguments;
    for (size_t i = 0; i < entry.given.size(); ++i) {
      const size_t k = s_.info(f.body.get()).parameter.find(entry.given[i].o.node())->second;
      arguments.emplace_back(entry.in_registers[i], value(path, known, s_.argument(path, n, k)));
    }
    const Value error = value(path, known, {path.size() - 1, n.operand(f.arguments)});
    return ended(1, callee, after, error, arguments, at(back.in_frame, back.kept, path, known));
  }

  const CallSequence& s_;
  size_t function_;
  Builder& b_;
  Ops fixed_;
};

Values CallSequence::record(Builder& b, size_t segment, Ops registers, Ops frame, Ops fixed) const {
  const Point& p = points_[segment];
  Known known;
  for (size_t i = 0; i < p.given.size(); ++i) known[p.given[i]] = registers[p.in_registers[i]];
  for (size_t i = 0; i < p.kept.size(); ++i) known[p.kept[i]] = frame[p.in_frame[i]];
  Emitter emitter(*this, p.function, b, fixed);
  return p.kind == Kind::kLoop ? emitter.run_loop(p.path, known) : emitter.run(p.path, std::move(known));
}

}  // namespace lamina::trace
