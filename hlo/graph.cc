#include "hlo/graph.h"

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>

#include "absl/hash/hash.h"
#include "hlo/hash_map.h"
#include "hlo/host_lock.h"
#include "hlo/once.h"
#include "hlo/op.h"

namespace lamina::hlo {
namespace {

struct NodeKey {
  Op op;
  uint8_t mode;
  uint16_t session;
  const Type* type;
  const Attrs* attrs;
  std::span<const Operand> operands;
  uint32_t hash;
};

uint32_t hash_key(Op op, const RecordState& state, const Type* type, const Attrs* attrs,
                  std::span<const Operand> operands) {
  uint64_t h = static_cast<uint64_t>(op) * 0x9E3779B97F4A7C15u ^ state.mode ^ uint64_t { state.session } << 8;
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

namespace {
RecordState& session_state() {
  RecordState& state = record_state();
  if (state.session == 0) [[unlikely]]
    session_number();
  return state;
}
}  // namespace

// The deduplicated nodes, found by what they are. Open addressing with linear probing; only make_room can
// fail.
class NodeTable {
 public:
  Node* find(uint32_t hash, const auto& is_equal) const {
    if (slots_.empty()) return nullptr;
    for (size_t i = home(hash); slots_[i].node; i = next(i))
      if (slots_[i].hash == hash && is_equal(*slots_[i].node)) return slots_[i].node;
    return nullptr;
  }

  // Before an insertion.
  void make_room() {
    if (4 * (count_ + 1) <= 3 * slots_.size()) return;
    std::vector<Slot> old(std::max<size_t>(1024, 2 * slots_.size()));
    slots_.swap(old);
    for (const Slot& s : old)
      if (s.node) place(s);
  }
  void insert(Node* n, uint32_t hash) noexcept {
    place({n, hash});
    ++count_;
  }
  void erase(const Node* n, uint32_t hash) noexcept {
    size_t gap = home(hash);
    while (slots_[gap].node != n) gap = next(gap);
    slots_[gap] = {};
    // Whoever would not be found beyond the gap moves into it.
    const size_t mask = slots_.size() - 1;
    for (size_t i = next(gap); slots_[i].node; i = next(i)) {
      if (((i - home(slots_[i].hash)) & mask) < ((i - gap) & mask)) continue;
      slots_[gap] = std::exchange(slots_[i], {});
      gap = i;
    }
    --count_;
  }

 private:
  struct Slot {
    Node* node = nullptr;
    uint32_t hash = 0;
  };
  size_t home(uint32_t hash) const {
    return (uint64_t{hash} * 0x9E3779B97F4A7C15u >> 24) & (slots_.size() - 1);
  }
  size_t next(size_t i) const { return (i + 1) & (slots_.size() - 1); }
  void place(Slot s) noexcept {
    size_t i = home(s.hash);
    while (slots_[i].node) i = next(i);
    slots_[i] = s;
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

// What a thread keeps of leaves that it let go of, for those that it will make: so the results of programs,
// which come and go by the hundred, take no lock when they go.
struct ThreadSpares {
  static constexpr size_t kMost = 256;

  Node* first = nullptr;            // slots
  std::atomic<int64_t> count{0};    // of them, changed by its thread alone
  std::array<void*, kMost> memory;  // of Data::kSmall bytes each
  size_t memories = 0;
  ThreadSpares *next = nullptr, *previous = nullptr;

  static thread_local constinit ThreadSpares* here;
  static thread_local constinit bool ended;
};
thread_local constinit ThreadSpares* ThreadSpares::here = nullptr;
thread_local constinit bool ThreadSpares::ended = false;

namespace {
void* small_memory(ThreadSpares* spares) {
  return spares && spares->memories > 0 ? spares->memory[--spares->memories] : ::operator new(Data::kSmall);
}
void keep_or_free(void* memory, ThreadSpares* spares) {
  if (spares && spares->memories < spares->memory.size())
    spares->memory[spares->memories++] = memory;
  else
    ::operator delete(memory);
}
}  // namespace

void* Data::operator new(size_t bytes) {
  return bytes <= kSmall ? small_memory(ThreadSpares::here) : ::operator new(bytes);
}
void* Data::operator new(size_t bytes, const LeafMaker& maker) {
  return bytes <= kSmall ? small_memory(maker.spares_) : ::operator new(bytes);
}
void Data::operator delete(void* memory, size_t bytes) {
  keep_or_free(memory, bytes <= kSmall ? ThreadSpares::here : nullptr);
}
void Data::operator delete(void* memory, const LeafMaker&) { ::operator delete(memory); }

// The store of all nodes. Slots come from chunks and return to a free list. Where memory runs out, nothing
// has changed; letting go of nodes needs none.
class NodeStore {
 public:
  static NodeStore& get() {
    static constinit Once<NodeStore> store;  // never destroyed: handles may outlive static destruction
    return store.get();
  }

  Value find_or_make(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands) {
    const RecordState& state = session_state();
    uint32_t stamp = state.floor;
    for (Operand o : operands) stamp = std::max(stamp, o.node()->stamp_);
    if (op_def(op).flags & kNoDedup) return Value::adopt(allocate(op, type, attrs, operands, stamp, state));
    const NodeKey key{
        op, state.mode, state.session, type, attrs, operands, hash_key(op, state, type, attrs, operands)};
    Node* const old = table_.find(key.hash, [&](const Node& n) { return is_equal(n, key); });
    if (old && old->stamp_ >= state.floor && retain_if_alive(old)) return Value::adopt(old);
    table_.make_room();
    Node* const made = allocate(op, type, attrs, operands, stamp, state, key.hash);
    // A node below the floor, or one that waits to be freed: the new one takes its place in the table.
    if (old) forget(old);
    made->flags_ |= kNodeDeduplicated;
    table_.insert(made, key.hash);
    return Value::adopt(made);
  }

  // A node that the caller owns one count of.
  Node* allocate(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands,
                 uint32_t stamp, const RecordState& state, uint32_t hash = 0) {
    std::unique_ptr<Operand[]> heap(operands.size() > 2 ? new Operand[operands.size()] : nullptr);
    Node* n = take_slot(ThreadSpares::here);
    begin(n, op, type, attrs, stamp, state);
    attrs->retain();
    n->hash_ = hash;
    n->num_operands_ = static_cast<uint16_t>(operands.size());
    Operand* slots = heap ? n->heap_ = heap.release() : n->inline_;
    for (size_t i = 0; i < operands.size(); ++i) {
      Node* const o = operands[i].node();
      slots[i] = operands[i];
      if (o->place_ != kAnywhere) n->place_ = o->place_;
      o->refs_.fetch_add(1, std::memory_order_relaxed);
      if (o->stamp_ != 0 && (o->session_ != state.session || o->shared()) && is_open(*o))
        n->flags_ |= kNodeShared;
    }
    return n;
  }

  // A leaf that the caller owns one count of; `data` is new, or held by others. `spares`: of this thread.
  Node* allocate_leaf(const Type* type, Data* data, Place place, const RecordState& state,
                      ThreadSpares* spares) {
    if (data->use_count() == 0)
      data->retain_first();
    else
      data->retain();
    Node* n;
    try {
      n = take_slot(spares);
    } catch (...) {
      data->release();
      throw;
    }
    begin(n, Op::leaf, type, no_attrs(), 0, state);
    n->place_ = place & kMostPlaces;
    n->data_ = data;
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
    const Attrs* const attrs = std::exchange(n->attrs_, no_attrs());
    n->stamp_ = 0;
    n->flags_ &= ~kNodeShared;
    Node* dead = nullptr;
    drop_operands(n, dead);
    free_all(dead);
    attrs->release();
  }

  static void add_flag(Node* n, uint8_t flag) { n->flags_ |= flag; }
  void close(std::span<Node* const> nodes) {
    GraphLock lock;
    for (Node* n : nodes) n->flags_ |= kNodeClosed;
  }

  // Called when the count of `n` reached zero.
  void destroy(Node* n) {
    GraphLock lock;
    Node* dead = nullptr;
    bury(n, dead);
    free_all(dead);
  }

  uint32_t next_stamp() {
    GraphLock lock;
    return ++stamp_;
  }
  int64_t live() const {
    int64_t live = taken_;
    for (const ThreadSpares* s = spares_; s; s = s->next) live -= s->count.load(std::memory_order_relaxed);
    return live;
  }

  // Of a leaf, whose count reached zero: without the lock. False where its thread keeps no more.
  bool keep_here(Node* n) {
    ThreadSpares* spares = ThreadSpares::here;
    if (!spares) spares = make_spares();
    if (!spares) return false;
    const int64_t count = spares->count.load(std::memory_order_relaxed);
    if (count == ThreadSpares::kMost) return false;
    Data* const data = n->data_;
    n->next_ = std::exchange(spares->first, n);
    spares->count.store(count + 1, std::memory_order_relaxed);
    if (data) data->release();  // last, as it may free nodes, or record some
    return true;
  }

  // --- sessions ---

  uint16_t take_session() {
    GraphLock lock;
    uint16_t number = kOverflowSession;
    if (!free_sessions_.empty()) {
      number = free_sessions_.back();
      free_sessions_.pop_back();
    } else if (lowest_open_.size() < kOverflowSession) {
      number = static_cast<uint16_t>(lowest_open_.size());
      free_sessions_.reserve(lowest_open_.size());  // so that giving it back cannot fail
      lowest_open_.push_back(kNoneOpen);
    }
    return number;
  }
  void give_session_back(uint16_t number) {
    GraphLock lock;
    if (number != kOverflowSession) free_sessions_.push_back(number);
  }
  void set_lowest_open(uint16_t session, uint32_t stamp) {
    GraphLock lock;
    if (session != kOverflowSession) lowest_open_[session] = stamp;
  }
  // In the child of a fork, where only the thread that forked goes on.
  void close_other_sessions() {
    for (size_t i = 0; i < lowest_open_.size(); ++i)
      if (i != record_state().session) lowest_open_[i] = kNoneOpen;
  }
  bool is_open(const Node& n) const {
    if (n.session_ == kOverflowSession) return true;
    if (!n.shared()) return n.stamp_ >= lowest_open_[n.session_];
    return std::any_of(lowest_open_.begin(), lowest_open_.end(), [&](uint32_t s) { return n.stamp_ >= s; });
  }

 private:
  static constexpr uint32_t kNoneOpen = ~uint32_t{0};
  // Of all threads beyond the numbers there are: their nodes keep their operands for good.
  static constexpr uint16_t kOverflowSession = 0xFFFF;

  static bool is_equal(const Node& n, const NodeKey& k) {
    if (n.op_ != k.op || n.mode_ != k.mode || n.session_ != k.session || n.type_ != k.type ||
        n.attrs_ != k.attrs)
      return false;
    const std::span<const Operand> o = n.operands();
    if (o.size() != k.operands.size()) return false;
    for (size_t i = 0; i < o.size(); ++i)  // few: a call of memcmp would cost more
      if (o[i] != k.operands[i]) return false;
    return true;
  }

  // False if the count is zero: the node waits for its last owner to free it.
  static bool retain_if_alive(Node* n) {
    uint32_t r = n->refs_.load(std::memory_order_relaxed);
    while (r != 0)
      if (n->refs_.compare_exchange_weak(r, r + 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  void forget(Node* n) {
    if (!(n->flags_ & kNodeDeduplicated)) return;
    table_.erase(n, n->hash_);
    n->flags_ &= ~kNodeDeduplicated;
  }

  // Puts a node whose count is zero before those of the list `dead`.
  void bury(Node* n, Node*& dead) {
    forget(n);
    n->next_ = std::exchange(dead, n);
  }

  void drop_operands(Node* n, Node*& dead) {
    for (Operand o : n->operands())
      if (o.node()->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) bury(o.node(), dead);
    if (n->num_operands_ > 2) delete[] n->heap_;
    n->num_operands_ = 0;
  }

  void free_all(Node* dead) {
    while (dead) {
      Node* const n = std::exchange(dead, dead->next_);
      drop_operands(n, dead);
      Data* const data = std::exchange(n->data_, nullptr);
      const Attrs* const attrs = n->attrs_;
      n->next_ = std::exchange(free_, n);
      --taken_;
      // Last, as either may free nodes, or record some.
      if (data) data->release();
      attrs->release();
    }
  }

  static void begin(Node* n, Op op, const Type* type, const Attrs* attrs, uint32_t stamp,
                    const RecordState& state) {
    n->op_ = op;
    n->flags_ = 0;
    n->mode_ = state.mode & 3;
    n->place_ = kAnywhere;
    n->refs_.store(1, std::memory_order_relaxed);
    n->type_ = type;
    n->attrs_ = attrs;
    n->data_ = nullptr;
    n->hash_ = 0;
    n->stamp_ = stamp;
    n->location_ = state.location;
    n->session_ = state.session;
    n->num_operands_ = 0;
  }

  Node* take_slot(ThreadSpares* spares) {
    if (spares && spares->first) {
      spares->count.store(spares->count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
      return std::exchange(spares->first, spares->first->next_);
    }
    if (!free_) grow();
    ++taken_;
    return std::exchange(free_, free_->next_);
  }

  // Null where its thread ends, or there is no memory.
  ThreadSpares* make_spares() {
    struct End {
      ~End() {
        ThreadSpares::ended = true;
        NodeStore::get().end_spares(std::exchange(ThreadSpares::here, nullptr));
      }
    };
    if (ThreadSpares::ended) return nullptr;
    auto* const made = new (std::nothrow) ThreadSpares;
    if (!made) return nullptr;
    thread_local const End end;
    static_cast<void>(end);
    GraphLock lock;
    made->next = spares_;
    if (spares_) spares_->previous = made;
    spares_ = made;
    return ThreadSpares::here = made;
  }
  void end_spares(ThreadSpares* ending) {
    const std::unique_ptr<ThreadSpares> held(ending);
    while (ending->memories > 0) ::operator delete(ending->memory[--ending->memories]);
    GraphLock lock;
    while (Node* const n = ending->first) {
      ending->first = n->next_;
      n->next_ = std::exchange(free_, n);
      --taken_;
    }
    (ending->previous ? ending->previous->next : spares_) = ending->next;
    if (ending->next) ending->next->previous = ending->previous;
  }

  void grow() {
    constexpr int kChunk = 1024;
    if (chunks_.size() == chunks_.capacity()) chunks_.reserve(2 * chunks_.size() + 8);
    chunks_.push_back(new (std::align_val_t{64}) std::byte[kChunk * sizeof(Node)]);
    Node* nodes = reinterpret_cast<Node*>(chunks_.back());
    for (int i = kChunk; i-- > 0;) nodes[i].next_ = std::exchange(free_, nodes + i);
  }

  class AcrossFork final : public ForkGuarded {
   public:
    AcrossFork() : ForkGuarded(LockRank::kGraph) {}
    void before_fork() override { lock_.emplace(); }
    void after_fork(bool in_child) override {
      if (in_child) NodeStore::get().close_other_sessions();
      lock_.reset();
    }

   private:
    std::optional<GraphLock> lock_;
  };

  AcrossFork across_fork_;
  std::vector<std::byte*> chunks_;
  Node* free_ = nullptr;
  NodeTable table_;
  int64_t taken_ = 0;  // slots that are not free; among them are the spare ones of threads
  ThreadSpares* spares_ = nullptr;
  uint32_t stamp_ = 0;
  std::vector<uint32_t> lowest_open_{kNoneOpen};  // by session; number 0 is nobody's
  std::vector<uint16_t> free_sessions_;
};

constinit std::atomic<uintptr_t> GraphLock::owner_{0};
constinit int GraphLock::depth_ = 0;

// Whoever has waited takes it as one that others wait for, too: that is not known, and costs one vain call.
void GraphLock::wait() {
  HostLockReleased away;
  for (;;) {
    uintptr_t seen = owner_.load(std::memory_order_relaxed);
    if (seen == 0) {
      if (owner_.compare_exchange_weak(seen, self() | kAwaited, std::memory_order_acquire)) return;
    } else if (seen & kAwaited ||
               owner_.compare_exchange_weak(seen, seen | kAwaited, std::memory_order_relaxed)) {
      owner_.wait(seen | kAwaited, std::memory_order_relaxed);
    }
  }
}

thread_local constinit RecordState RecordState::here;

uint16_t session_number() {
  RecordState& state = record_state();
  if (state.session == 0) {
    struct Holder {
      uint16_t number = NodeStore::get().take_session();
      ~Holder() { NodeStore::get().give_session_back(number); }
    };
    thread_local const Holder holder;
    state.session = holder.number;
  }
  return state.session;
}

void set_lowest_open(uint32_t stamp) { NodeStore::get().set_lowest_open(session_number(), stamp); }
bool is_open(const Node& node) { return NodeStore::get().is_open(node); }

void Node::destroy(Node* node) {
  NodeStore& store = NodeStore::get();
  if (node->op_ != Op::leaf || !store.keep_here(node)) store.destroy(node);
}

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
  return Value::adopt(NodeStore::get().allocate(op, type, attrs, operands, stamp, session_state()));
}

LeafMaker::LeafMaker(Place place) : state_(session_state()), spares_(ThreadSpares::here), place_(place) {}

Value LeafMaker::operator()(const Type* type, Data* data) {
  return Value::adopt(NodeStore::get().allocate_leaf(type, data, place_, state_, spares_));
}

Value make_leaf(const Type* type, Data* data, Place place) { return LeafMaker(place)(type, data); }

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
  HashSet<const Node*> seen;
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
