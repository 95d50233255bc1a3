#include "trace/rules/support.h"

#include "hlo/literal.h"
#include "hlo/location.h"
#include "hlo/strings.h"
#include "trace/lanes.h"

namespace lamina::trace {

Mask present(Ops values) {
  Mask out;
  for (const Value& v : values) out.push_back(static_cast<bool>(v));
  return out;
}

Values joined(Ops a, Ops b) {
  Values out(a.begin(), a.end());
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Values picked(Ops values, Marks mask, bool want) {
  Values out;
  for (size_t i = 0; i < values.size(); ++i)
    if (mask[i] == want) out.push_back(values[i]);
  return out;
}

bool is_invariant(const Computation& body, size_t i) { return body.roots()[i] == body.parameters()[i]; }

size_t count(Marks marks) { return std::count(marks.begin(), marks.end(), true); }

hlo::LocationId place_of_lanes(std::string_view how) {
  const hlo::Location at = hlo::location(hlo::record_state().location);
  return hlo::intern_location(at.file, at.line, str_cat("lanes ", how));
}

BatchResult batch_by_scan(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool> batched, int64_t size) {
  Values carries, xs;
  std::vector<const Type*> types;
  for (size_t i = 0; i < operands.size(); ++i)
    if (!batched[i]) {
      carries.push_back(operands[i]);
      types.push_back(operands[i].type());
    }
  for (size_t i = 0; i < operands.size(); ++i)
    if (batched[i]) {
      xs.push_back(operands[i]);
      types.push_back(node.operand_type(i));
    }
  absl::StatusOr<ComputationPtr> body =
      record_region(types, [&](Builder& inner, std::span<const Value> parameters) {
        Values arguments(operands.size());
        size_t carry = 0, slice = carries.size();
        for (size_t i = 0; i < operands.size(); ++i)
          arguments[i] = parameters[batched[i] ? slice++ : carry++];
        Values roots(parameters.begin(), parameters.begin() + carries.size());
        for (Value& r : inner.remake(node, arguments)) roots.push_back(std::move(r));
        return roots;
      });
  if (!body.ok()) {
    b.fail(body.status());
    return all_batched(Values(node.num_results()));
  }
  const hlo::LocationScope place(place_of_lanes("one by one"));
  Values out = b.scan(*body, carries, xs, size, false);
  if (!b.ok()) return all_batched(Values(node.num_results()));
  return all_batched(Values(out.begin() + carries.size(), out.end()));
}

Value rows_at(Builder& b, const Value& x, const Value& at, int64_t count) {
  Values starts(x.rank(), b.scalar_int(DType::kS64, 0));
  Dims sizes = x.dims();
  starts[0] = at;
  sizes[0] = count;
  return b.dynamic_slice(x, starts, sizes);
}

Value row_at(Builder& b, const Value& x, const Value& at) {
  return b.reshape(rows_at(b, x, at, 1), std::span(x.dims()).subspan(1));
}

Value put_row(Builder& b, const Value& rows, const Value& x, const Value& at) {
  Values starts(rows.rank(), b.scalar_int(DType::kS64, 0));
  starts[0] = at;
  return b.dynamic_update_slice(rows, b.reshape(x, prepend(1, x.dims())), starts);
}

namespace {

bool is_zeros(const Value& v) {
  const Node* n = v.node();
  if (n->op() == Op::broadcast_in_dim) n = n->operand(0).node();
  return n->op() == Op::constant && n->type()->is_scalar() && is_inexact(n->type()->dtype) &&
         n->attrs().literal(Attr::value)->double_at(0) == 0;
}

// The row of a window that is added to `all`, if the update is such a sum.
Value added_row(const Node& window) {
  const Node& sum = *window.operand(1).node();
  if (sum.op() != Op::add) return {};
  for (size_t i : {0, 1}) {
    const Node& read = *sum.operand(i).node();
    if (read.op() != Op::dynamic_slice || read.operands().size() + 1 != window.operands().size()) continue;
    bool same = read.operand(0) == window.operand(0);
    for (size_t k = 1; same && k < read.operands().size(); ++k)
      same = read.operand(k) == window.operand(k + 1);
    if (same) return sum.operand_value(1 - i);
  }
  return {};
}

}  // namespace

std::optional<std::vector<Window>> windows_of(const Value& v) {
  std::vector<Window> out;
  Value rest = v;
  while (rest.rank() > 0 && !is_zeros(rest)) {
    const Node& n = *rest.node();
    if (n.op() != Op::dynamic_update_slice || out.size() == kMostWindows) return std::nullopt;
    const bool first = is_zeros(n.operand_value(0));
    Window w{first ? n.operand_value(1) : added_row(n), {}};
    if (!w.row) return std::nullopt;
    for (size_t i = 2; i < n.operands().size(); ++i) w.starts.push_back(n.operand_value(i));
    out.push_back(std::move(w));
    rest = n.operand_value(0);
  }
  if (rest.rank() == 0) return std::nullopt;
  return out;
}

Value add_window(Builder& b, const Value& all, const Window& w) {
  if (all && is_zeros(all)) return b.dynamic_update_slice(all, w.row, w.starts);
  return b.dynamic_update_slice(all, b.add(b.dynamic_slice(all, w.starts, w.row.dims()), w.row), w.starts);
}

Value add_cotangents(Builder& b, const Value& x, const Value& y) {
  if (!x || !y || x.rank() == 0) return b.add_any(x, y);
  for (const auto& [all, part] : {std::pair(x, y), std::pair(y, x)})
    if (const std::optional<std::vector<Window>> windows = windows_of(part)) {
      Value sum = all;
      for (size_t i = windows->size(); i-- > 0;) sum = add_window(b, sum, (*windows)[i]);
      return sum;
    }
  return b.add(x, y);
}

bool exchanges(const Node& node) {
  return anywhere(node, [](const Node& n) { return n.def().family == OpFamily::kCollective; });
}

bool goes_lane_by_lane(const Node& node) { return anywhere(node, is_effect) && !exchanges(node); }

bool lanes_apart(const Node& node) { return lane_strategy() == LaneStrategy::kLoop && !exchanges(node); }

JvpResult no_tangent(Builder&, const Node& node, std::span<const Value>, std::span<const Value>) {
  return {Values(node.num_results()), {}};
}

BatchResult never_batched(Builder& b, const Node& node, std::span<const Value> operands,
                          std::span<const bool>, int64_t) {
  BatchResult out;
  out.results = results_of(b, node, operands);
  out.batched.assign(out.results.size(), false);
  return out;
}

JvpResult linear_jvp(Builder& b, const Node& node, Ops x, Ops t) {
  Values operands(x.begin(), x.end());
  operands[0] = t[0];
  return {{t[0] ? b.remake(node, operands)[0] : Value()}, {}};
}

}  // namespace lamina::trace
