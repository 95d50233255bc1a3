#include "hlo/evaluator.h"

#include "hlo/hash_map.h"
#include "hlo/op.h"
#include "hlo/scalar/program.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

// Splits an array into its parts: the array itself, or the real and imaginary halves copied out.
struct Parts {
  std::vector<std::unique_ptr<std::byte[]>> owned;
  std::vector<const void*> pointers;

  void add(const Literal& lit) {
    if (!is_complex(lit.dtype())) {
      pointers.push_back(lit.data());
      return;
    }
    const int64_t width = byte_size(part_type(lit.dtype()));
    for (int p = 0; p < 2; ++p) {
      owned.emplace_back(new std::byte[lit.size() * width + 64]);
      for (int64_t i = 0; i < lit.size(); ++i)
        std::memcpy(owned.back().get() + i * width, lit.element(i) + p * width, width);
      pointers.push_back(owned.back().get());
    }
  }
};

void run_elementwise(const Node& node, std::span<const LiteralPtr> operands, Literal& out) {
  Parts in;
  for (const LiteralPtr& l : operands) in.add(*l);
  const ScalarProgram& program = scalar_program(node);
  if (!is_complex(out.dtype())) {
    void* pointers[] = {out.data()};
    interpret(program, in.pointers, pointers, out.size());
    return;
  }
  const int64_t width = byte_size(part_type(out.dtype()));
  std::vector<std::byte> re(out.size() * width + 64), im(out.size() * width + 64);
  void* pointers[] = {re.data(), im.data()};
  interpret(program, in.pointers, pointers, out.size());
  for (int64_t i = 0; i < out.size(); ++i) {
    std::memcpy(out.element(i), re.data() + i * width, width);
    std::memcpy(out.element(i) + width, im.data() + i * width, width);
  }
}

}  // namespace

absl::StatusOr<std::vector<LiteralPtr>> evaluate_node(const Node& node,
                                                      std::span<const LiteralPtr> operands) {
  const OpDef& def = node.def();
  if (def.op == Op::constant) return std::vector<LiteralPtr>{node.attrs().literal(Attr::value)};
  if (def.op == Op::identity || def.op == Op::stop_gradient || def.op == Op::optimization_barrier)
    return std::vector<LiteralPtr>(operands.begin(), operands.end());
  std::vector<std::shared_ptr<Literal>> results;
  for (uint32_t i = 0; i < node.num_results(); ++i)
    results.push_back(std::make_shared<Literal>(node.result_type(i)));
  if (def.is_elementwise()) {
    run_elementwise(node, operands, *results[0]);
  } else if (def.eval) {
    if (absl::Status s = def.eval(node, operands, results); !s.ok()) return s;
  } else {
    return absl::FailedPreconditionError(str_cat(def.name, " has no value of its own to evaluate"));
  }
  return std::vector<LiteralPtr>(results.begin(), results.end());
}

absl::StatusOr<std::vector<LiteralPtr>> evaluate(const Computation& computation,
                                                 std::span<const LiteralPtr> arguments) {
  if (arguments.size() != computation.parameters().size())
    return absl::InvalidArgumentError(str_cat("the computation takes ", computation.parameters().size(),
                                              " arguments, not ", arguments.size()));
  HashMap<const Node*, std::vector<LiteralPtr>> values;
  // Values are dropped after their last use, so memory follows what is live.
  HashMap<const Node*, int> uses;
  for (const Node* n : computation.nodes())
    for (Operand o : n->operands()) ++uses[o.node()];
  for (const Value& r : computation.roots()) ++uses[r.node()];
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value& p = computation.parameters()[i];
    if (arguments[i]->type() != p.type())
      return absl::InvalidArgumentError(
          str_cat("argument ", i, " is ", to_string(*arguments[i]->type()), ", not ", to_string(*p.type())));
    values[p.node()] = {arguments[i]};
  }
  std::vector<LiteralPtr> operands;
  for (const Node* n : computation.nodes()) {
    if (values.contains(n)) continue;
    operands.clear();
    for (Operand o : n->operands()) operands.push_back(values.at(o.node())[o.index()]);
    absl::StatusOr<std::vector<LiteralPtr>> results = evaluate_node(*n, operands);
    if (!results.ok()) return results.status();
    values[n] = *std::move(results);
    for (Operand o : n->operands())
      if (--uses[o.node()] == 0) values[o.node()].clear();
  }
  std::vector<LiteralPtr> out;
  for (const Value& r : computation.roots()) out.push_back(values.at(r.node())[r.index()]);
  return out;
}

}  // namespace lamina::hlo
