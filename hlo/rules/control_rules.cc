// Type and evaluation rules of loops, branches, calls and host callbacks.
#include <algorithm>

#include "hlo/custom_call.h"
#include "hlo/evaluator.h"
#include "hlo/linalg/calls.h"
#include "hlo/location.h"
#include "hlo/rules/support.h"
#include "hlo/type_error.h"

namespace lamina::hlo {
namespace {

TypeOr while_type(Types t, const Attrs& a) {
  const Type* predicate = scalar_type(DType::kBool);
  LAMINA_RETURN_IF_ERROR(check_region("cond", a.computation(Attr::cond), t, {{predicate}}));
  LAMINA_RETURN_IF_ERROR(check_region("body", a.computation(Attr::body), t, t));
  return results_type(t);
}

TypeOr case_type(Types t, const Attrs& a) {
  if (t.empty() || t[0] != scalar_type(DType::kS32)) return invalid("the branch index must be s32[]");
  const auto& branches = a.computations(Attr::branches);
  if (branches.empty()) return invalid("needs at least one branch");
  const std::vector<const Type*> results = branches[0]->result_types();
  for (size_t i = 0; i < branches.size(); ++i)
    LAMINA_RETURN_IF_ERROR(check_region(str_cat("branch ", i), branches[i], t.subspan(1), results));
  return results_type(results);
}

const Type* slice_of(const Type* stacked) {
  return array_type_or_die(stacked->dtype, std::span(stacked->dims).subspan(1));
}

TypeOr scan_type(Types t, const Attrs& a) {
  const int64_t carries = a.integer(Attr::num_carry), length = a.integer(Attr::length);
  if (carries < 0 || carries > static_cast<int64_t>(t.size()))
    return invalid("num_carry ", carries, " is out of range");
  if (length < 0) return invalid("length ", length, " is negative");
  std::vector<const Type*> parameters(t.begin(), t.begin() + carries);
  for (const Type* x : t.subspan(carries)) {
    if (!x->is_array() || x->rank() == 0 || x->dims[0] != length)
      return invalid("scans ", length, " steps over ", to_string(*x), ", whose leading dimension differs");
    parameters.push_back(slice_of(x));
  }
  const ComputationPtr& body = a.computation(Attr::body);
  if (!body) return invalid("has no body");
  const std::vector<const Type*> results = body->result_types();
  if (static_cast<int64_t>(results.size()) < carries)
    return invalid("the body returns ", results.size(), " values for ", carries, " carries");
  std::vector<const Type*> want(t.begin(), t.begin() + carries);
  want.insert(want.end(), results.begin() + carries, results.end());
  LAMINA_RETURN_IF_ERROR(check_region("body", body, parameters, want));
  for (size_t i = carries; i < want.size(); ++i) {
    Dims dims{length};
    dims.insert(dims.end(), results[i]->dims.begin(), results[i]->dims.end());
    TypeOr stacked = array_type(results[i]->dtype, dims);
    if (!stacked.ok()) return stacked;
    want[i] = *stacked;
  }
  return results_type(want);
}

TypeOr call_type(Types t, const Attrs& a) {
  const ComputationPtr& body = a.computation(Attr::body);
  if (!body) return invalid("has no body");
  const std::vector<const Type*> results = body->result_types();
  LAMINA_RETURN_IF_ERROR(check_region("body", body, t, results));
  return results_type(results);
}

TypeOr custom_call_type(Types t, const Attrs& a) {
  LAMINA_RETURN_IF_ERROR(check_arrays(t));
  const std::string& target = a.string(Attr::call_target_name);
  if (target.empty()) return invalid("names no target");
  if (const linalg::Routine* routine = linalg::find_routine(target))
    LAMINA_RETURN_IF_ERROR(linalg::check_call(*routine, t, a.types(Attr::result_types)));
  return results_type(a.types(Attr::result_types));
}

// --- evaluation ---

void copy_results(const std::vector<LiteralPtr>& from, EvalOut out) {
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i]->bytes() > 0) std::memcpy(out[i]->data(), from[i]->data(), from[i]->bytes());
}

absl::Status run_into(const Computation& body, EvalIn in, EvalOut out) {
  absl::StatusOr<std::vector<LiteralPtr>> results = evaluate(body, in);
  if (!results.ok()) return results.status();
  copy_results(*results, out);
  return absl::OkStatus();
}

absl::Status eval_while(const Node& n, EvalIn in, EvalOut out) {
  std::vector<LiteralPtr> carry(in.begin(), in.end());
  while (true) {
    absl::StatusOr<std::vector<LiteralPtr>> go = evaluate(*n.attrs().computation(Attr::cond), carry);
    if (!go.ok()) return go.status();
    if ((*go)[0]->int_at(0) == 0) break;
    absl::StatusOr<std::vector<LiteralPtr>> next = evaluate(*n.attrs().computation(Attr::body), carry);
    if (!next.ok()) return next.status();
    carry = *std::move(next);
  }
  copy_results(carry, out);
  return absl::OkStatus();
}

// An index out of range chooses the last branch.
absl::Status eval_case(const Node& n, EvalIn in, EvalOut out) {
  const auto& branches = n.attrs().computations(Attr::branches);
  const int64_t last = static_cast<int64_t>(branches.size()) - 1;
  int64_t i = in[0]->int_at(0);
  if (i < 0 || i > last) i = last;
  return run_into(*branches[i], in.subspan(1), out);
}

absl::Status eval_scan(const Node& n, EvalIn in, EvalOut out) {
  const int64_t carries = n.attrs().integer(Attr::num_carry), length = n.attrs().integer(Attr::length);
  const bool reverse = n.attrs().flag(Attr::reverse);
  std::vector<LiteralPtr> state(in.begin(), in.begin() + carries);
  for (int64_t step = 0; step < length; ++step) {
    const int64_t at = reverse ? length - 1 - step : step;
    std::vector<LiteralPtr> arguments = state;
    for (const LiteralPtr& x : in.subspan(carries)) {
      const Type* type = slice_of(x->type());
      arguments.push_back(Literal::copy_of(type, x->element(0) + at * type->bytes()));
    }
    absl::StatusOr<std::vector<LiteralPtr>> results = evaluate(*n.attrs().computation(Attr::body), arguments);
    if (!results.ok()) return results.status();
    state.assign(results->begin(), results->begin() + carries);
    for (size_t i = carries; i < results->size(); ++i) {
      const Literal& y = *(*results)[i];
      if (y.bytes() > 0) std::memcpy(out[i]->element(0) + at * y.bytes(), y.data(), y.bytes());
    }
  }
  copy_results(state, out);
  return absl::OkStatus();
}

absl::Status eval_call(const Node& n, EvalIn in, EvalOut out) {
  return run_into(*n.attrs().computation(Attr::body), in, out);
}

absl::Status eval_custom_call(const Node& n, EvalIn in, EvalOut out) {
  const std::string& name = n.attrs().string(Attr::call_target_name);
  if (const linalg::Routine* routine = linalg::find_routine(name)) return linalg::run_call(*routine, in, out);
  if (given_name(n)) {
    if (in[0]->bytes() > 0) std::memcpy(out[0]->data(), in[0]->data(), in[0]->bytes());
    return absl::OkStatus();
  }
  if (n.attrs().has(Attr::rule)) {
    const Location at = location(n.location());
    return type_error(
        "a function with a custom vjp has no forward-mode derivative: what linearize gives of it can be "
        "transposed (linear_transpose, vjp, grad), not applied to a tangent; give the function a custom jvp "
        "instead",
        at.file.empty() ? "" : str_cat(" (linearized at ", at.file, ":", at.line, ")"));
  }
  const std::shared_ptr<const HostCallback> target = find_custom_call(name);
  if (!target) return absl::NotFoundError(str_cat("custom_call: no target '", name, "' is registered"));
  return (*target)(in, out);
}

}  // namespace

void add_control_rules(OpTable& table) {
  auto row = [&](Op op, TypeRule type, EvalRule eval) {
    table[op].type = type;
    table[op].eval = eval;
  };
  row(Op::while_, while_type, eval_while);
  row(Op::case_, case_type, eval_case);
  row(Op::scan, scan_type, eval_scan);
  row(Op::call, call_type, eval_call);
  row(Op::custom_call, custom_call_type, eval_custom_call);
}

}  // namespace lamina::hlo
