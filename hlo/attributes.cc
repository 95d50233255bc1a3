#include "hlo/attributes.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>

#include "absl/hash/hash.h"
#include "hlo/computation.h"
#include "hlo/custom_rule.h"
#include "hlo/hash_map.h"
#include "hlo/mutex.h"
#include "hlo/once.h"

namespace lamina::hlo {
namespace {

struct AttrInfo {
  std::string_view name;
  AttrKind kind;
};
constexpr AttrInfo kInfo[] = {
#define ATTR(name, kind) {#name, AttrKind::kind},
#include "hlo/attributes.def"
#undef ATTR
};

bool is_empty(const AttrValue& v) {
  return std::visit(
      [](const auto& x) {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, int64_t>)
          return x == 0;
        else if constexpr (std::is_same_v<T, bool>)
          return !x;
        else if constexpr (std::is_same_v<T, DType>)
          return false;
        else if constexpr (std::is_same_v<T, LiteralPtr> || std::is_same_v<T, ComputationPtr>)
          return x == nullptr;
        else
          return x.empty();
      },
      v);
}

uint64_t hash_literal(const Literal& lit) {
  return absl::HashOf(lit.type(), std::string_view(static_cast<const char*>(lit.data()), lit.bytes()));
}

uint64_t hash_value(const AttrValue& v) {
  return std::visit(
      [](const auto& x) -> uint64_t {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, LiteralPtr>)
          return hash_literal(*x);
        else
          return absl::HashOf(x);
      },
      v);
}

bool equal_value(const AttrValue& a, const AttrValue& b) {
  if (a.index() != b.index()) return false;
  if (const auto* la = std::get_if<LiteralPtr>(&a)) {
    const auto& lb = std::get<LiteralPtr>(b);
    return *la == lb || **la == *lb;
  }
  // Computations are interned: pointer equality is structural equality.
  return a == b;
}

struct SetHash {
  size_t operator()(const Attrs* a) const { return a->hash(); }
};
struct SetEq {
  bool operator()(const Attrs* a, const Attrs* b) const {
    return a->hash() == b->hash() &&
           std::equal(a->entries().begin(), a->entries().end(), b->entries().begin(), b->entries().end(),
                      [](const auto& x, const auto& y) {
                        return x.first == y.first && equal_value(x.second, y.second);
                      });
  }
};

bool is_counted(const std::vector<Attrs::Entry>& entries) {
  return std::any_of(entries.begin(), entries.end(), [](const Attrs::Entry& e) {
    const AttrKind kind = attr_kind(e.first);
    return kind == AttrKind::kLiteral || kind == AttrKind::kComputation || kind == AttrKind::kComputations ||
           e.first == Attr::rule;
  });
}

// The counted sets that this thread interned last.
class Pins {
 public:
  // What letting go may throw, for want of memory, ends the process.
  // NOLINTNEXTLINE(bugprone-exception-escape)
  ~Pins() {
    for (const Attrs* a : ring_)
      if (a) a->release();
  }
  // Takes over a count of `a`.
  void adopt(const Attrs* a) {
    std::swap(a, ring_[next_++ % kPinnedAttrs]);
    if (a) a->release();
  }

 private:
  std::array<const Attrs*, kPinnedAttrs> ring_{};
  unsigned next_ = 0;
};

}  // namespace

struct AttrTable {
  Mutex mutex{LockRank::kAttributes};
  HashSet<const Attrs*, SetHash, SetEq> set;
  uint64_t last_id = 0;
  int64_t counted = 0;

  static AttrTable& get() {
    static constinit Once<AttrTable> t;
    return t.get();
  }

  const Attrs* intern(std::vector<Attrs::Entry> entries) {
    Attrs probe;
    for (const auto& [key, value] : entries) probe.hash_ = absl::HashOf(probe.hash_, key, hash_value(value));
    probe.entries_ = std::move(entries);
    const Attrs* found;
    bool is_new = false;
    {
      std::lock_guard lock(mutex);
      const auto it = set.find(&probe);
      is_new = it == set.end();
      if (is_new) {
        auto made = std::make_unique<Attrs>();
        made->hash_ = probe.hash_;
        made->counted_ = is_counted(probe.entries_);
        made->id_ = last_id + 1;
        set.insert(made.get());
        made->entries_ = std::move(probe.entries_);
        ++last_id;
        counted += made->counted_;
        found = made.release();
      } else {
        found = *it;
      }
      found->retain();
    }
    if (const int64_t rule = is_new ? found->integer(Attr::rule) : 0) retain_custom_rule(rule);
    if (found->counted_) {
      thread_local Pins pins;
      pins.adopt(found);
    }
    return found;
  }

  // The last owner of `a` may be letting go of it.
  void release(const Attrs* a) {
    {
      std::lock_guard lock(mutex);
      if (a->refs_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
      set.erase(a);
      --counted;
    }
    if (const int64_t rule = a->integer(Attr::rule)) release_custom_rule(rule);
    delete a;
  }
};

namespace {

template <typename T>
const T& get_or_empty(const AttrValue* v) {
  static constinit Once<const T> empty;
  return v ? std::get<T>(*v) : empty.get([] { return new T(); });
}

}  // namespace

std::string_view attr_name(Attr a) { return kInfo[static_cast<int>(a)].name; }
AttrKind attr_kind(Attr a) { return kInfo[static_cast<int>(a)].kind; }
int num_attrs() { return std::size(kInfo); }

std::optional<Attr> parse_attr(std::string_view name) {
  for (int i = 0; i < num_attrs(); ++i)
    if (kInfo[i].name == name) return static_cast<Attr>(i);
  return std::nullopt;
}

const AttrValue* Attrs::find(Attr a) const {
  for (const Entry& e : entries_)
    if (e.first == a) return &e.second;
  return nullptr;
}

int64_t Attrs::integer(Attr a) const { return get_or_empty<int64_t>(find(a)); }
bool Attrs::flag(Attr a) const { return get_or_empty<bool>(find(a)); }
const Dims& Attrs::ints(Attr a) const { return get_or_empty<Dims>(find(a)); }
const std::string& Attrs::string(Attr a) const { return get_or_empty<std::string>(find(a)); }
DType Attrs::dtype(Attr a) const { return get_or_empty<DType>(find(a)); }
const LiteralPtr& Attrs::literal(Attr a) const { return get_or_empty<LiteralPtr>(find(a)); }
const ComputationPtr& Attrs::computation(Attr a) const { return get_or_empty<ComputationPtr>(find(a)); }
const std::vector<ComputationPtr>& Attrs::computations(Attr a) const {
  return get_or_empty<std::vector<ComputationPtr>>(find(a));
}
const std::vector<const Type*>& Attrs::types(Attr a) const {
  return get_or_empty<std::vector<const Type*>>(find(a));
}

const Attrs* intern_attrs(std::vector<Attrs::Entry> entries) {
  std::erase_if(entries, [](const Attrs::Entry& e) { return is_empty(e.second); });
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return AttrTable::get().intern(std::move(entries));
}

void Attrs::release_counted() const {
  int64_t refs = refs_.load(std::memory_order_relaxed);
  while (refs > 1)
    if (refs_.compare_exchange_weak(refs, refs - 1, std::memory_order_acq_rel)) return;
  AttrTable::get().release(this);
}

int64_t live_counted_attrs() {
  AttrTable& t = AttrTable::get();
  std::lock_guard lock(t.mutex);
  return t.counted;
}

const Attrs* no_attrs() {
  static constinit Once<const Attrs> empty;
  return &empty.get([] { return intern_attrs({}); });
}

const Attrs* with_attr(const Attrs& attrs, Attr key, AttrValue value) {
  std::vector<Attrs::Entry> entries = attrs.entries();
  std::erase_if(entries, [&](const Attrs::Entry& e) { return e.first == key; });
  entries.emplace_back(key, std::move(value));
  return intern_attrs(std::move(entries));
}

}  // namespace lamina::hlo
