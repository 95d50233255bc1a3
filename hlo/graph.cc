#include "hlo/graph.h"

#include <deque>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "hlo/host_lock.h"
#include "hlo/op.h"

namespace lamina::hlo {
namespace {

struct NodeKey {
  Op op;
  uint8_t mode;
  const Type* type;
  const Attrs* attrs;
  std::span<const Operand> operands;
  uint32_t hash;
};

uint32_t hash_key(Op op, uint8_t mode, const Type* type, const Attrs* attrs,
                  std::span<const Operand> operands) {
  uint64_t h = static_cast<uint64_t>(op) * 0x9E3779B97F4A7C15u ^ mode;
  auto mix = [&h](uint64_t v) {
    h ^= v;
    h *= 0xFF51AFD7ED558CCDu;
    h ^= h >> 32;
  };
  mix(reinterpret_cast<uint64_t>(type));
  mix(reinterpret_cast<uint64_t>(attrs));
  for (Operand o : operands) mix(o.bits());
  return static_cast<uint32_t>(h ^ h >> 29);
}

}  // namespace

// The store of all nodes. Slots come from chunks and return to a free list.
class NodeStore {
 public:
  static NodeStore& get() {
    static NodeStore* store = new NodeStore;  // never destroyed: handles may outlive static destruction
    return *store;
  }

  Value find_or_make(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands) {
    const RecordState& state = record_state();
    uint32_t stamp = state.floor;
    for (Operand o : operands) stamp = std::max(stamp, o.node()->stamp_);
    if (op_def(op).flags & kNoDedup) return Value::adopt(allocate(op, type, attrs, operands, stamp, state));
    const NodeKey key{op, state.mode, type, attrs, operands, hash_key(op, state.mode, type, attrs, operands)};
    Node* made = nullptr;
    const auto it = table_.lazy_emplace(key, [&](const auto& emplace) {
      made = allocate(op, type, attrs, operands, stamp, state, key.hash);
      made->flags_ |= kNodeDeduplicated;
      emplace(made);
    });
    if (made) return Value::adopt(made);
    Node* const old = *it;
    if (old->stamp_ >= state.floor && retain_if_alive(old)) return Value::adopt(old);
    // A node below the floor, or one that waits to be freed: the new one takes its place in the table.
    old->flags_ &= ~kNodeDeduplicated;
    table_.erase(it);
    made = allocate(op, type, attrs, operands, stamp, state, key.hash);
    made->flags_ |= kNodeDeduplicated;
    table_.insert(made);
    return Value::adopt(made);
  }

  // A node that the caller owns one count of.
  Node* allocate(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands,
                 uint32_t stamp, const RecordState& state, uint32_t hash = 0) {
    if (free_.empty()) grow();
    Node* n = free_.back();
    free_.pop_back();
    ++live_;
    n->op_ = op;
    n->flags_ = 0;
    n->mode_ = state.mode;
    n->refs_.store(1, std::memory_order_relaxed);
    n->type_ = type;
    n->attrs_ = attrs;
    n->data_ = nullptr;
    n->hash_ = hash;
    n->stamp_ = stamp;
    n->location_ = state.location;
    n->device_ = 0;
    n->num_operands_ = static_cast<uint16_t>(operands.size());
    Operand* slots = n->inline_;
    if (operands.size() > 2) slots = n->heap_ = new Operand[operands.size()];
    for (size_t i = 0; i < operands.size(); ++i) {
      slots[i] = operands[i];
      operands[i].node()->refs_.fetch_add(1, std::memory_order_relaxed);
    }
    return n;
  }

  void set_data(Node* n, Data* data, bool keep_operands) {
    GraphLock lock;
    if (data) data->retain();
    if (n->data_) n->data_->release();
    n->data_ = data;
    if (keep_operands || n->closed()) return;
    forget(n);
    n->op_ = Op::leaf;
    n->attrs_ = no_attrs();
    std::vector<Node*> dead;
    drop_operands(n, dead);
    free_all(dead);
  }

  static void add_flag(Node* n, uint8_t flag) { n->flags_ |= flag; }
  void close(std::span<Node* const> nodes) {
    GraphLock lock;
    for (Node* n : nodes) n->flags_ |= kNodeClosed;
  }

  // Called when the count of `n` reached zero.
  void destroy(Node* n) {
    GraphLock lock;
    std::vector<Node*> dead{n};
    free_all(dead);
  }

  uint32_t next_stamp() {
    GraphLock lock;
    return ++stamp_;
  }
  int64_t live() const { return live_; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(const Node* n) const { return spread(n->hash_); }
    size_t operator()(const NodeKey& k) const { return spread(k.hash); }
    static size_t spread(uint32_t h) { return uint64_t{h} * 0x9E3779B97F4A7C15u; }
  };
  struct Eq {
    using is_transparent = void;
    bool operator()(const Node* a, const Node* b) const { return a == b; }
    bool operator()(const Node* n, const NodeKey& k) const {
      if (n->hash_ != k.hash || n->op_ != k.op || n->mode_ != k.mode || n->type_ != k.type ||
          n->attrs_ != k.attrs)
        return false;
      const std::span<const Operand> o = n->operands();
      if (o.size() != k.operands.size()) return false;
      for (size_t i = 0; i < o.size(); ++i)  // few: a call of memcmp would cost more
        if (o[i] != k.operands[i]) return false;
      return true;
    }
    bool operator()(const NodeKey& k, const Node* n) const { return (*this)(n, k); }
  };

  // False if the count is zero: the node waits for its last owner to free it.
  static bool retain_if_alive(Node* n) {
    uint32_t r = n->refs_.load(std::memory_order_relaxed);
    while (r != 0)
      if (n->refs_.compare_exchange_weak(r, r + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  void forget(Node* n) {
    if (!(n->flags_ & kNodeDeduplicated)) return;
    table_.erase(n);
    n->flags_ &= ~kNodeDeduplicated;
  }

  void drop_operands(Node* n, std::vector<Node*>& dead) {
    for (Operand o : n->operands())
      if (o.node()->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) dead.push_back(o.node());
    if (n->num_operands_ > 2) delete[] n->heap_;
    n->num_operands_ = 0;
  }

  void free_all(std::vector<Node*>& dead) {
    while (!dead.empty()) {
      Node* n = dead.back();
      dead.pop_back();
      forget(n);
      if (n->data_) n->data_->release();
      n->data_ = nullptr;
      drop_operands(n, dead);
      free_.push_back(n);
      --live_;
    }
  }

  void grow() {
    constexpr int kChunk = 1024;
    chunks_.emplace_back(new (std::align_val_t{64}) std::byte[kChunk * sizeof(Node)]);
    Node* nodes = reinterpret_cast<Node*>(chunks_.back());
    for (int i = kChunk; i-- > 0;) free_.push_back(nodes + i);
  }

  std::vector<std::byte*> chunks_;
  std::vector<Node*> free_;
  absl::flat_hash_set<Node*, Hash, Eq> table_;
  int64_t live_ = 0;
  uint32_t stamp_ = 0;
};

namespace {
std::mutex& graph_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
}  // namespace

std::atomic<void*> GraphLock::owner_{nullptr};
int GraphLock::depth_ = 0;

void GraphLock::lock() {
  std::mutex& mutex = graph_mutex();
  if (!mutex.try_lock()) {
    HostLockReleased away;
    mutex.lock();
  }
  owner_.store(self(), std::memory_order_relaxed);
  depth_ = 1;
}

void GraphLock::unlock() {
  owner_.store(nullptr, std::memory_order_relaxed);
  graph_mutex().unlock();
}

RecordState& record_state() {
  thread_local RecordState state;
  return state;
}

void Node::destroy(Node* node) { NodeStore::get().destroy(node); }

const OpDef& Node::def() const { return op_def(op_); }
uint32_t Node::num_results() const {
  return type_->is_tuple() ? static_cast<uint32_t>(type_->elements.size()) : 1;
}

uint32_t fresh_stamp() { return NodeStore::get().next_stamp(); }

Value make_node(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands) {
  return NodeStore::get().find_or_make(op, type, attrs, operands);
}

Value make_fresh_node(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands,
                      uint32_t stamp) {
  GraphLock lock;
  return Value::adopt(NodeStore::get().allocate(op, type, attrs, operands, stamp, record_state()));
}

Value make_leaf(const Type* type, Data* data) {
  Value v = make_fresh_node(Op::leaf, type, no_attrs(), {}, 0);
  NodeStore::get().set_data(v.node(), data, true);
  return v;
}

void hold_back(Node* node) {
  GraphLock lock;
  NodeStore::add_flag(node, kNodeHeldBack);
}

Value make_donated(const Type* type) {
  GraphLock lock;
  Value v = make_fresh_node(Op::parameter, type, no_attrs(), {}, fresh_stamp());
  NodeStore::add_flag(v.node(), kNodeDonated);
  return v;
}
void close_nodes(std::span<Node* const> nodes) { NodeStore::get().close(nodes); }

void set_data(Node* node, Data* data, bool keep_operands) {
  NodeStore::get().set_data(node, data, keep_operands);
}

int64_t live_nodes() {
  GraphLock lock;
  return NodeStore::get().live();
}

std::vector<Node*> postorder(std::span<const Value> roots, bool (*stop)(const Node&, void*), void* context) {
  std::vector<Node*> order;
  absl::flat_hash_set<const Node*> seen;
  struct Frame {
    Node* node;
    uint32_t next;
  };
  std::vector<Frame> stack;
  auto enter = [&](Node* n) {
    if (!seen.insert(n).second) return;
    if (stop && stop(*n, context)) {
      order.push_back(n);
      return;
    }
    stack.push_back({n, 0});
  };
  for (const Value& root : roots) {
    if (!root) continue;
    enter(root.node());
    while (!stack.empty()) {
      Frame& f = stack.back();
      if (f.next < f.node->operands().size()) {
        enter(f.node->operand(f.next++).node());
      } else {
        order.push_back(f.node);
        stack.pop_back();
      }
    }
  }
  return order;
}

}  // namespace lamina::hlo
