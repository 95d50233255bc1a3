#include "hlo/nan_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hlo/evaluator.h"
#include "hlo/hash_map.h"
#include "hlo/linalg/calls.h"
#include "hlo/narrow.h"
#include "hlo/nodes.h"
#include "hlo/op.h"

namespace lamina::hlo {
namespace {

using Literals = std::vector<LiteralPtr>;

bool calls_host(const Node& n) {
  return n.op() == Op::custom_call && !linalg::find_routine(n.attrs().string(Attr::call_target_name));
}

class Search {
 public:
  const Node* found() const { return found_; }

  // Results of the computation; nothing once a NaN was found.
  absl::StatusOr<Literals> run(const Computation& c, std::span<const LiteralPtr> arguments) {
    HashMap<const Node*, Literals> values;
    for (size_t i = 0; i < arguments.size(); ++i) values[c.parameters()[i].node()] = {arguments[i]};
    for (const Node* n : c.nodes()) {
      if (values.contains(n)) continue;
      Literals operands;
      for (Operand o : n->operands()) operands.push_back(values.at(o.node())[o.index()]);
      absl::StatusOr<Literals> out = results(*n, operands);
      if (!out.ok() || found_) return out;
      if (!passes_on(*n) &&
          std::any_of(out->begin(), out->end(), [](const LiteralPtr& l) { return has_nan(*l); })) {
        found_ = n;
        return out;
      }
      values[n] = *std::move(out);
    }
    Literals out;
    for (const Value& r : c.roots()) out.push_back(values.at(r.node())[r.index()]);
    return out;
  }

 private:
  absl::StatusOr<Literals> results(const Node& n, const Literals& in) {
    const Attrs& a = n.attrs();
    switch (n.op()) {
      case Op::call:
        return run(*a.computation(Attr::body), in);
      case Op::case_: {
        const auto& branches = a.computations(Attr::branches);
        const int64_t last = static_cast<int64_t>(branches.size()) - 1, i = in[0]->int_at(0);
        return run(*branches[i < 0 || i > last ? last : i], std::span(in).subspan(1));
      }
      case Op::while_:
        return while_loop(n, in);
      case Op::scan:
        return scan(n, in);
      default:
        return evaluate_node(n, in);
    }
  }

  absl::StatusOr<Literals> while_loop(const Node& n, Literals carry) {
    while (true) {
      const absl::StatusOr<Literals> go = run(*n.attrs().computation(Attr::cond), carry);
      if (!go.ok() || found_ || (*go)[0]->int_at(0) == 0) return go.ok() ? carry : go;
      absl::StatusOr<Literals> next = run(*n.attrs().computation(Attr::body), carry);
      if (!next.ok() || found_) return next;
      carry = *std::move(next);
    }
  }

  absl::StatusOr<Literals> scan(const Node& n, const Literals& in) {
    const auto carries = static_cast<ptrdiff_t>(n.attrs().integer(Attr::num_carry));
    const int64_t length = n.attrs().integer(Attr::length);
    Literals state(in.begin(), in.begin() + carries);
    std::vector<std::shared_ptr<Literal>> stacked;
    for (uint32_t i = static_cast<uint32_t>(carries); i < n.num_results(); ++i)
      stacked.push_back(std::make_shared<Literal>(n.result_type(i)));
    for (int64_t step = 0; step < length; ++step) {
      const int64_t at = n.attrs().flag(Attr::reverse) ? length - 1 - step : step;
      Literals arguments = state;
      for (auto x = in.begin() + carries; x != in.end(); ++x) {
        const Type* type = array_type_or_die((*x)->dtype(), std::span((*x)->dims()).subspan(1));
        arguments.push_back(Literal::copy_of(type, (*x)->element(0) + at * type->bytes()));
      }
      absl::StatusOr<Literals> out = run(*n.attrs().computation(Attr::body), arguments);
      if (!out.ok() || found_) return out;
      state.assign(out->begin(), out->begin() + carries);
      for (size_t i = 0; i < stacked.size(); ++i) {
        const Literal& y = *(*out)[static_cast<size_t>(carries) + i];
        if (y.bytes() > 0) std::memcpy(stacked[i]->element(0) + at * y.bytes(), y.data(), y.bytes());
      }
    }
    state.insert(state.end(), stacked.begin(), stacked.end());
    return state;
  }

  const Node* found_ = nullptr;
};

}  // namespace

bool has_nan(const Literal& x) {
  const DType t = x.dtype();
  if (!is_inexact(t)) return false;
  const DType part = part_type(t);
  const int64_t width = byte_size(part), count = x.size() * num_parts(t);
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* p = x.element(0) + i * width;
    double value;
    if (part == DType::kF64)
      std::memcpy(&value, p, sizeof value);
    else
      value = element_to_f32(part, p);
    if (std::isnan(value)) return true;
  }
  return false;
}

absl::StatusOr<const Node*> first_nan(const Computation& program, std::span<const LiteralPtr> arguments) {
  for (const Node* n : program.nodes())
    if (anywhere(*n, calls_host)) return nullptr;
  Search search;
  const absl::StatusOr<Literals> out = search.run(program, arguments);
  if (!out.ok()) return out.status();
  return search.found();
}

}  // namespace lamina::hlo
