// Operations of XLA that StableHLO has no counterpart for.
#include "hlo/xla_text/instruction.h"

namespace lamina::hlo::xla_text::op_rows {

using stablehlo::Item;
using stablehlo::OpReader;

void pass_through(OpReader& r) { r.yield_flat(r.ins()); }

void first(OpReader& r) { r.yield_flat(r.ins(0, 1)); }

void get_tuple_element(OpReader& r) {
  const Item* item = r.item(0);
  const int64_t index = r.integer({"index"}, -1);
  if (!item) return;
  if (!item->tuple || index < 0 || index >= static_cast<int64_t>(item->tuple->elements.size()))
    return r.fail(str_cat("the operand is no tuple with an element ", index));
  const size_t begin = item->tuple->begins[index], count = num_leaves(item->tuple->elements[index]);
  if (begin + count > item->flat.size()) return r.fail("the operand has fewer arrays than its type");
  r.yield_flat(std::span<const Value>(item->flat.data() + begin, count));
}

// A computation in place.
void inlined(OpReader& r) {
  const ComputationPtr body = r.function(r.find({"callee"})->text);
  if (!body) return;
  const Values arguments = r.ins();
  std::vector<const Type*> given;
  for (const Value& v : arguments) given.push_back(v.type());
  if (given != body->parameter_types()) return r.fail("its operands and the computation's parameters differ");
  const Values results = inline_computation(r.b, *body, arguments);
  if (r.ok()) r.yield_flat(results);
}

// Every branch has an operand of its own; ours share theirs.
void conditional(OpReader& r) {
  const size_t n = r.tree().regions.size();
  Values all;
  std::vector<const Type*> types;
  std::vector<size_t> begin;
  for (size_t i = 0; i < n; ++i) {
    const Values own = r.ins(i + 1, i + 2);
    begin.push_back(all.size());
    all.insert(all.end(), own.begin(), own.end());
    for (const Value& v : own) types.push_back(v.type());
  }
  begin.push_back(all.size());
  // One operand for all of them is handed over once.
  bool shared = true;
  for (size_t i = 0; i < n; ++i) shared = shared && r.ins(i + 1, i + 2) == r.ins(1, 2);
  if (shared) {
    all = r.ins(1, 2);
    types.resize(all.size());
    std::fill(begin.begin(), begin.end(), 0);
  }
  Value index = r.in(0);
  if (!index) return;
  const bool predicate = index.dtype() == DType::kBool;
  if (predicate && n != 2) return r.fail("a condition chooses between two branches");
  std::vector<ComputationPtr> branches;
  for (size_t i = 0; i < n; ++i) {
    const size_t count = shared ? all.size() : begin[i + 1] - begin[i];
    const ComputationPtr own = r.region(i, std::span(types).subspan(begin[i], count));
    if (!own) return;
    absl::StatusOr<ComputationPtr> branch = record_region(types, [&](Builder& b, std::span<const Value> p) {
      return inline_computation(b, *own, p.subspan(begin[i], count));
    });
    if (!branch.ok()) return r.fail(stablehlo::view(branch.status()));
    branches.push_back(*std::move(branch));
  }
  if (predicate) {
    std::swap(branches[0], branches[1]);  // the first one is taken if the condition holds
    index = r.b.convert(index, DType::kS32);
  }
  if (branches[0]->roots().empty()) return r.yield_flat({});
  r.yield_flat(r.b.conditional(index, branches, all));
}

// Targets that both notations have, and those that XLA's own passes make.
void custom_call(OpReader& r) {
  const std::string target = r.word({"call_target_name"});
  if (const stablehlo::OpRow row = stablehlo::find_custom_call_row(target)) return row(r);
  r.fail(str_cat("the target ", stablehlo::in_quotes(target), " is not known"));
}

}  // namespace lamina::hlo::xla_text::op_rows
