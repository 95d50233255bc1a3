// Nodes and values: the graph that recording, transforms, clustering and code generation share.
//
// Contract: nodes are reference counted, live in one process-wide store, have stable 64-byte slots, and once
// built only their value slot changes, or `set_data` turns them into leaves. All changes happen under
// `GraphLock`; copies of `Value` handles are safe on any thread. Node addresses carry no order: every walk
// orders by depth-first postorder of operand position (`postorder`). Walks use explicit stacks, so depth is
// limited by memory only.
//
// Threads: each records into a session of its own. Deduplication finds nodes of the recording session only,
// and a node belongs to the open transforms of its session, by its stamp; a value of another session is a
// constant to them. Where it belongs to a transform that is open on its own thread, what is made of it is
// `shared`: it is part of that one too, and derivatives go through it. A node lets go of its operands when
// it gets its value, unless a transform that it belongs to is open (`is_open`).
#ifndef LAMINA_HLO_GRAPH_H_
#define LAMINA_HLO_GRAPH_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "hlo/attributes.h"
#include "hlo/mutex.h"
#include "hlo/place.h"
#include "hlo/type.h"

namespace lamina::hlo {

enum class Op : uint16_t {
#define OP(name, family, arity, flags, attrs) name,
#include "hlo/ops.def"
#undef OP
};
inline constexpr int kNumStaticOps = 0
#define OP(name, family, arity, flags, attrs) +1
#include "hlo/ops.def"
#undef OP
    ;

struct OpDef;
using LocationId = uint32_t;  // 0: unknown; see hlo/location.h

class LeafMaker;

// What a leaf or a materialized node holds: defined by the runtime, counted by its users.
class Data {
 public:
  virtual ~Data() = default;
  // Each thread keeps the memory of some that are gone and no larger than this.
  static constexpr size_t kSmall = 48;
  static void* operator new(size_t bytes);
  static void* operator new(size_t bytes, const LeafMaker& maker);  // the same, at once
  static void operator delete(void* memory, size_t bytes);
  static void operator delete(void* memory, const LeafMaker& maker);
  void retain() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  // As retain, for whoever made it and has shown it to nobody.
  void retain_first() const { refs_.store(1, std::memory_order_relaxed); }
  // Where nobody else has it, nobody can take it meanwhile: that is asked first, as it costs a twentieth.
  void release() const {
    if (refs_.load(std::memory_order_acquire) == 1 || refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete this;
  }
  int use_count() const { return refs_.load(std::memory_order_acquire); }

 private:
  mutable std::atomic<int> refs_{0};
};

// Counted pointer to Data or a class derived from it.
template <typename T>
class DataPtr {
 public:
  DataPtr() = default;
  explicit DataPtr(T* p) : p_(p) {
    if (p_) p_->retain();
  }
  DataPtr(const DataPtr& o) : DataPtr(o.p_) {}
  DataPtr(DataPtr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <typename U>
  DataPtr(const DataPtr<U>& o) : DataPtr(o.get()) {}  // NOLINT: implicit, as of pointers
  ~DataPtr() {
    if (p_) p_->release();
  }
  DataPtr& operator=(DataPtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  T* p_ = nullptr;
};

class Node;
struct ThreadSpares;

// Non-owning (node, result index), 8 bytes.
class Operand {
 public:
  Operand() = default;
  Operand(Node* node, uint32_t index) : bits_(reinterpret_cast<uint64_t>(node) | uint64_t{index} << 48) {}
  Node* node() const { return reinterpret_cast<Node*>(bits_ & ((uint64_t{1} << 48) - 1)); }
  uint32_t index() const { return static_cast<uint32_t>(bits_ >> 48); }
  uint64_t bits() const { return bits_; }
  bool operator==(const Operand&) const = default;

 private:
  uint64_t bits_ = 0;
};

// Owning (node, result index). Null by default; a null value stands for "no tangent" and for a failed build.
class Value {
 public:
  Value() = default;
  explicit Value(Node* node, uint32_t index = 0);
  explicit Value(Operand o) : Value(o.node(), o.index()) {}
  Value(const Value& o) : Value(o.node_, o.index_) {}
  Value(Value&& o) noexcept : node_(std::exchange(o.node_, nullptr)), index_(o.index_) {}
  Value& operator=(Value o) noexcept {
    std::swap(node_, o.node_);
    std::swap(index_, o.index_);
    return *this;
  }
  ~Value();

  // The first result of a node that the caller has counted.
  static Value adopt(Node* node) {
    Value v;
    v.node_ = node;
    return v;
  }

  Node* node() const { return node_; }
  uint32_t index() const { return index_; }
  Operand operand() const { return Operand(node_, index_); }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Value& o) const { return node_ == o.node_ && index_ == o.index_; }

  // Of the result this value names.
  const Type* type() const;
  DType dtype() const { return type()->dtype; }
  const Dims& dims() const { return type()->dims; }
  int64_t rank() const { return type()->rank(); }

 private:
  Node* node_ = nullptr;
  uint32_t index_ = 0;
};

using Values = absl::InlinedVector<Value, 3>;

// What is promised of a value's bits. `same`: they depend on nothing but the program. `fast`: products and
// convolutions may be summed in the order of a library. The numbers are part of texts and keys.
enum class Numerics : uint8_t { kSame = 0, kFast = 1 };

inline constexpr uint8_t kNodeDeduplicated = 1;  // has an entry in the deduplication table
// Belongs to a computation: keeps its op and operands for good. Data that it is given serves the graph that
// it was recorded in; within the computation it counts for nothing.
inline constexpr uint8_t kNodeClosed = 2;
inline constexpr uint8_t kNodeHeldBack = 4;  // its computation failed or was stopped once
inline constexpr uint8_t kNodeDonated = 8;   // stands for a value that was given up
inline constexpr uint8_t kNodeShared = 16;   // part of a transform that is open on another thread

class Node {
 public:
  Op op() const { return op_; }
  const OpDef& def() const;
  const Type* type() const { return type_; }  // a tuple if the op has several results
  const Attrs& attrs() const { return *attrs_; }
  uint32_t num_results() const;
  const Type* result_type(uint32_t i) const;
  std::span<const Operand> operands() const { return {num_operands_ <= 2 ? inline_ : heap_, num_operands_}; }
  Operand operand(size_t i) const { return operands()[i]; }
  Value operand_value(size_t i) const { return Value(operand(i)); }
  const Type* operand_type(size_t i) const { return operand(i).node()->result_type(operand(i).index()); }
  uint32_t stamp() const { return stamp_; }
  uint16_t session() const { return session_; }
  bool shared() const { return flags_ & kNodeShared; }
  LocationId location() const { return location_; }
  uint8_t mode() const { return mode_; }
  Numerics numerics() const { return static_cast<Numerics>(mode_); }
  // Where it is held, or will be made; kAnywhere: wherever it is wanted.
  Place place() const { return place_; }
  // Computed only when asked for by name, no longer along with other pending values.
  bool held_back() const { return flags_ & kNodeHeldBack; }
  bool donated() const { return flags_ & kNodeDonated; }
  Data* data() const { return data_; }
  bool closed() const { return flags_ & kNodeClosed; }
  // Recording the same again gives this node.
  bool deduplicated() const { return flags_ & kNodeDeduplicated; }
  int refs() const { return static_cast<int>(refs_.load(std::memory_order_acquire)); }

 private:
  friend class NodeStore;
  friend class Value;
  static void let_go(Node* node);   // by one of its holders
  static void destroy(Node* node);  // its count reached zero

  Op op_;
  uint8_t flags_;
  uint8_t mode_ : 2;
  Place place_ : 6;  // that of its operands
  std::atomic<uint32_t> refs_;
  union {
    const Type* type_;
    Node* next_;  // of a node that waits to be freed, or to be used again
  };
  const Attrs* attrs_;
  Data* data_;
  uint32_t hash_;
  uint32_t stamp_;
  LocationId location_;
  uint16_t session_;
  uint16_t num_operands_;
  union {
    Operand inline_[2];
    Operand* heap_;
  };
};
static_assert(sizeof(Node) == 64, "a node is one cache line");

inline const Type* Node::result_type(uint32_t i) const {
  return type_->is_tuple() ? type_->elements[i] : type_;
}
inline const Type* Value::type() const { return node_->result_type(index_); }
inline Value::Value(Node* node, uint32_t index) : node_(node), index_(index) {
  if (node_) node_->refs_.fetch_add(1, std::memory_order_relaxed);
}
inline Value::~Value() {
  if (node_) Node::let_go(node_);
}
inline void Node::let_go(Node* node) {
  // A leaf is found by its holders only, as the table of deduplicated nodes has none: see Data::release.
  if ((node->refs_.load(std::memory_order_acquire) == 1 && node->op_ == Op::leaf) ||
      node->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    destroy(node);
}

// Held while the graph changes; re-entrant on one thread, where taking it again costs a comparison.
class GraphLock {
 public:
  GraphLock() {
    if (is_held())
      ++depth_;
    else
      lock();
  }
  ~GraphLock() {
    if (--depth_ == 0) unlock();
  }
  GraphLock(const GraphLock&) = delete;
  GraphLock& operator=(const GraphLock&) = delete;
  // Whether this thread holds it.
  static bool is_held() { return (owner_.load(std::memory_order_relaxed) & ~kAwaited) == self(); }

 private:
  static uintptr_t self() { return reinterpret_cast<uintptr_t>(__builtin_thread_pointer()); }
  static void lock() {
    note_locked(LockRank::kGraph);
    uintptr_t nobody = 0;
    if (!owner_.compare_exchange_strong(nobody, self(), std::memory_order_acquire)) [[unlikely]]
      wait();
    depth_ = 1;
  }
  static void unlock() {
    if (owner_.exchange(0, std::memory_order_release) & kAwaited) [[unlikely]]
      owner_.notify_one();
    note_unlocked(LockRank::kGraph);
  }
  static void wait();

  // Of the owner's address: whether another thread may wait for it. Every operation takes and leaves the lock
  // a few times, so that this word is the lock; a std::mutex beside it made recording a tenth slower.
  static constexpr uintptr_t kAwaited = 1;
  static std::atomic<uintptr_t> owner_;
  static int depth_;  // of the owner
};

// How nodes are recorded on this thread. Scopes nest by saving and restoring.
struct RecordState {
  uint32_t floor = 0;       // least stamp of recorded nodes; deduplication finds only nodes at or above it
  uint8_t mode = 0;         // a Numerics
  uint16_t session = 0;     // this thread's; 0: it has none yet (see session_number)
  LocationId location = 0;  // stamped on recorded nodes

  static thread_local constinit RecordState here;
};
inline RecordState& record_state() { return RecordState::here; }

class LocationScope {
 public:
  explicit LocationScope(LocationId id) : saved_(record_state().location) { record_state().location = id; }
  ~LocationScope() { record_state().location = saved_; }
  LocationScope(const LocationScope&) = delete;
  LocationScope& operator=(const LocationScope&) = delete;

 private:
  LocationId saved_;
};

class NumericsScope {
 public:
  explicit NumericsScope(Numerics numerics) : saved_(record_state().mode) {
    record_state().mode = static_cast<uint8_t>(numerics);
  }
  ~NumericsScope() { record_state().mode = saved_; }
  NumericsScope(const NumericsScope&) = delete;
  NumericsScope& operator=(const NumericsScope&) = delete;

 private:
  uint8_t saved_;
};

// The number of this thread's session: its own until the thread ends, then a later thread's.
uint16_t session_number();

// A stamp greater than every stamp given out before.
uint32_t fresh_stamp();

// Says which transforms are open on this thread: those with at least this stamp; UINT32_MAX: none.
void set_lowest_open(uint32_t stamp);
// Whether a transform that the node belongs to is open, on any thread. The caller holds the graph lock.
bool is_open(const Node& node);

// What is recorded inside has at least the stamp `floor`, and shares no node with what is beneath it.
class FloorScope {
 public:
  explicit FloorScope(uint32_t floor) : saved_(record_state().floor) { record_state().floor = floor; }
  ~FloorScope() { record_state().floor = saved_; }
  FloorScope(const FloorScope&) = delete;
  FloorScope& operator=(const FloorScope&) = delete;

 private:
  uint32_t saved_;
};

// Creates a node, or returns the equal one that exists (hash, then full compare). The caller holds the graph
// lock and has inferred `type`.
Value make_node(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands);
// As make_node, never deduplicated, with its own stamp: parameters and transform identities.
Value make_fresh_node(Op op, const Type* type, const Attrs* attrs, std::span<const Operand> operands,
                      uint32_t stamp);
// A leaf holding data, which stays at a place; `data` is new, or held by others.
Value make_leaf(const Type* type, Data* data, Place place = kAnywhere);
// Makes many, under the graph lock for as long as it lives; `new (maker)` makes what they hold.
class LeafMaker {
 public:
  explicit LeafMaker(Place place);
  Value operator()(const Type* type, Data* data);

 private:
  friend class Data;
  GraphLock lock_;
  const RecordState& state_;
  ThreadSpares* const spares_;
  const Place place_;
};

// Gives a node its value. If `keep_operands` is false the node becomes a leaf, which belongs to no transform,
// and lets go of its operands.
void set_data(Node* node, Data* data, bool keep_operands);
void hold_back(Node* node);
// What a handle names whose value was given up: recorded here, never to be had.
Value make_donated(const Type* type);
// Makes them nodes of a computation (kNodeClosed).
void close_nodes(std::span<Node* const> nodes);

// Nodes alive now; tests bound it.
int64_t live_nodes();

// All nodes below `roots` in depth-first postorder by operand position. A node for which `stop` returns true
// is listed but not entered. `stop` may be null.
std::vector<Node*> postorder(std::span<const Value> roots, bool (*stop)(const Node&, void*) = nullptr,
                             void* context = nullptr);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_GRAPH_H_
