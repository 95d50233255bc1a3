#include "hlo/computation.h"

#include "absl/hash/hash.h"
#include "hlo/builder.h"
#include "hlo/graph_copy.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/nodes.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::hlo {

// Structurally equal computations are found here; entries vanish with their last user.
struct ComputationTable {
  Mutex mutex{LockRank::kComputations};
  HashMap<uint64_t, std::vector<std::pair<const Computation*, std::weak_ptr<const Computation>>>> map;

  static ComputationTable& get() {
    static constinit Once<ComputationTable> t;
    return t.get();
  }

  ComputationPtr intern(std::shared_ptr<Computation> c) {
    std::vector<ComputationPtr> others;  // let go of outside the lock
    std::lock_guard lock(mutex);
    auto& bucket = map[c->hash_];
    for (const auto& [entry, weak] : bucket) {
      ComputationPtr found = weak.lock();
      if (found && found->code_ == c->code_) return found;
      others.push_back(std::move(found));
    }
    bucket.emplace_back(c.get(), c);
    return c;
  }

  void forget(const Computation* c) {
    std::lock_guard lock(mutex);
    const auto it = map.find(c->hash_);
    if (it == map.end()) return;
    std::erase_if(it->second, [&](const auto& entry) { return entry.first == c; });
    if (it->second.empty()) map.erase(it);
  }

  static absl::StatusOr<ComputationPtr> make(std::span<const Value> parameters,
                                             std::span<const Value> roots) {
    auto c = std::make_shared<Computation>();
    c->parameters_.assign(parameters.begin(), parameters.end());
    c->roots_.assign(roots.begin(), roots.end());
    absl::StatusOr<std::vector<uint64_t>> code = encode_graph(parameters, roots, nullptr, &c->nodes_);
    if (!code.ok()) return code.status();
    c->code_ = *std::move(code);
    c->hash_ = absl::HashOf(c->code_);
    ComputationPtr interned = get().intern(c);
    if (interned == c) close_nodes(c->nodes_);
    return interned;
  }
};

Computation::~Computation() { ComputationTable::get().forget(this); }

absl::StatusOr<ComputationPtr> Computation::make(std::span<const Value> parameters,
                                                 std::span<const Value> roots) {
  GraphLock lock;
  return ComputationTable::make(parameters, roots);
}

std::vector<const Type*> Computation::parameter_types() const {
  std::vector<const Type*> types;
  for (const Value& p : parameters_) types.push_back(p.type());
  return types;
}

std::vector<const Type*> Computation::result_types() const {
  std::vector<const Type*> types;
  for (const Value& r : roots_) types.push_back(r.type());
  return types;
}

Value make_parameter(const Type* type) {
  return make_fresh_node(Op::parameter, type, no_attrs(), {}, fresh_stamp());
}

absl::StatusOr<std::vector<uint64_t>> encode_graph(std::span<const Value> parameters,
                                                   std::span<const Value> roots, std::vector<Value>* leaves,
                                                   std::vector<Node*>* nodes, EncodedFor use) {
  HashMap<const Node*, uint64_t> number;
  std::vector<uint64_t> code;
  code.push_back(parameters.size());
  for (const Value& p : parameters) {
    number.emplace(p.node(), number.size());
    code.push_back(reinterpret_cast<uint64_t>(p.type()));
  }
  struct Context {
    const HashMap<const Node*, uint64_t>& number;
    bool open;  // values that are known end the walk
  } context{number, leaves != nullptr};
  auto is_bound = [](const Node& n, void* c) {
    const auto* ctx = static_cast<const Context*>(c);
    return ctx->number.contains(&n) || (ctx->open && n.data() != nullptr);
  };
  std::vector<Node*> order = postorder(roots, is_bound, &context);
  for (Node* n : order) {
    if (number.contains(n)) continue;
    const bool leaf =
        n->op() == Op::leaf || n->op() == Op::parameter || (context.open && n->data() != nullptr);
    if (leaf) {
      if (!leaves)
        return absl::InternalError(str_cat("a computation uses the ", n->def().name, " ",
                                           to_string(*n->type()), ", which is not among its parameters"));
      leaves->push_back(Value(n));
      number.emplace(n, number.size());
      code.push_back(uint64_t{1} << 63);
      code.push_back(reinterpret_cast<uint64_t>(n->type()));
      continue;
    }
    number.emplace(n, number.size());
    code.push_back(static_cast<uint64_t>(n->op()) | uint64_t{n->mode()} << 16 |
                   uint64_t{n->operands().size()} << 32);
    code.push_back(reinterpret_cast<uint64_t>(n->type()));
    const Attrs& attrs = n->attrs();
    const bool only_names_rule = use == EncodedFor::kRun && n->op() == Op::call && attrs.has(Attr::rule) &&
                                 attrs.entries().size() == 2;  // and has a body
    code.push_back(only_names_rule ? reinterpret_cast<uint64_t>(attrs.computation(Attr::body).get())
                                   : attrs.id());
    for (Operand o : n->operands()) code.push_back(number.at(o.node()) << 16 | o.index());
  }
  code.push_back(roots.size());
  for (const Value& r : roots) code.push_back(number.at(r.node()) << 16 | r.index());
  if (nodes) *nodes = std::move(order);
  return code;
}

Values inline_computation(Builder& builder, const Computation& computation,
                          std::span<const Value> arguments) {
  GraphCopy copy(computation.parameters().first(arguments.size()), arguments);
  const bool made =
      copy.extend(builder, computation.nodes(), [&](const Node& n, std::span<const Value> operands) {
        const NodeScope as(n);
        return builder.remake(n, operands);
      });
  return made ? copy(computation.roots()) : Values(computation.roots().size());
}

}  // namespace lamina::hlo
