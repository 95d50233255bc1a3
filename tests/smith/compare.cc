// Comparing ways of running a program, and making programs smaller.
#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "hlo/evaluator.h"
#include "hlo/literal_text.h"
#include "hlo/strings.h"
#include "tests/smith/generator.h"
#include "tests/smith/text_cases.h"

namespace lamina::testing {
namespace {

using namespace hlo;

// `program` with one value for a result.
ComputationPtr with_root(const Computation& program, const Value& root) {
  const auto made = Computation::make(program.parameters(), {{root}});
  return made.ok() ? *made : nullptr;
}

// `program` with a node's results replaced.
ComputationPtr with_cut(const Computation& program, const Node* cut, bool zeros) {
  Builder b;
  std::vector<Value> parameters(program.parameters().begin(), program.parameters().end());
  absl::flat_hash_map<const Node*, Values> made;
  for (const Value& p : parameters) made[p.node()] = {p};
  for (const Node* n : program.nodes()) {
    if (made.contains(n)) continue;
    Values results;
    if (n == cut) {
      for (uint32_t i = 0; i < n->num_results(); ++i) {
        if (!n->result_type(i)->is_array()) return nullptr;
        if (!zeros) parameters.push_back(make_parameter(n->result_type(i)));
        results.push_back(zeros ? b.zeros(n->result_type(i)) : parameters.back());
      }
    } else {
      Values operands;
      for (Operand o : n->operands()) operands.push_back(made.at(o.node())[o.index()]);
      results = b.remake(*n, operands);
    }
    if (!b.ok()) return nullptr;
    made[n] = std::move(results);
  }
  std::vector<Value> roots;
  for (const Value& r : program.roots()) roots.push_back(made.at(r.node())[r.index()]);
  const auto out = Computation::make(parameters, roots);
  return out.ok() ? *out : nullptr;
}

// Without the parameters that nothing uses.
ComputationPtr without_unused(const Computation& program) {
  std::vector<Value> used;
  for (const Value& p : program.parameters())
    if (std::find(program.nodes().begin(), program.nodes().end(), p.node()) != program.nodes().end())
      used.push_back(p);
  const auto made = Computation::make(used, program.roots());
  return made.ok() ? *made : nullptr;
}

}  // namespace

std::string difference(const ComputationPtr& program, const SmithExecutor& executor, uint64_t seed) {
  const std::vector<LiteralPtr> arguments = arguments_for(*program, seed);
  const auto want = evaluate(*program, arguments);
  const auto have = executor.run(program, arguments, seed);
  if (!want.ok() && !have.ok()) return "";
  if (!want.ok()) return str_cat("the evaluator fails alone: ", std::string(want.status().message()));
  if (!have.ok()) return str_cat(executor.name, " fails alone: ", std::string(have.status().message()));
  if (want->size() != have->size())
    return str_cat(executor.name, " gives ", have->size(), " results, not ", want->size());
  for (size_t i = 0; i < want->size(); ++i) {
    if (same_values(*(*want)[i], *(*have)[i])) continue;
    std::string text = str_cat("result ", i, " is ");
    append_literal(&text, *(*have)[i], 64);
    str_append(&text, " by ", executor.name, " and ");
    append_literal(&text, *(*want)[i], 64);
    return text + " by the evaluator";
  }
  return "";
}

ComputationPtr reduce_program(const ComputationPtr& program,
                              const std::function<bool(const ComputationPtr&)>& fails) {
  ComputationPtr best = program;
  auto accept = [&](ComputationPtr candidate) {
    if (!candidate || candidate == best || !fails(candidate)) return false;
    best = std::move(candidate);
    return true;
  };
  for (const Value& root : program->roots())
    if (accept(with_root(*program, root))) break;
  for (bool smaller = true; smaller;) {
    smaller = false;
    // From the inputs on: cutting a node takes all that only it needs.
    const std::vector<Node*> nodes = best->nodes();
    for (size_t i = nodes.size(); i-- > 0 && !smaller;) {
      if (nodes[i]->op() == Op::parameter || nodes[i]->op() == Op::constant) continue;
      smaller = accept(with_cut(*best, nodes[i], false)) || accept(with_cut(*best, nodes[i], true));
    }
    // From the result on: one of the operands of its operation instead of it.
    for (const Value& root : std::vector<Value>(best->roots().begin(), best->roots().end()))
      for (size_t i = 0; i < root.node()->operands().size() && !smaller; ++i)
        smaller = accept(with_root(*best, root.node()->operand_value(i)));
    if (smaller) accept(without_unused(*best));
  }
  accept(without_unused(*best));
  return best;
}

}  // namespace lamina::testing
