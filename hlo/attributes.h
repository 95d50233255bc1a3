// Interned attribute sets of nodes.
//
// Contract: equal sets are the same object (compare by pointer). A set that holds a computation, a literal or
// a custom rule is counted: it lives while a node has it, and for a while after it was interned (until its
// thread has interned kPinnedAttrs others), so that a node can be made. The others live for ever. Ids are
// never used again. Which attributes an op takes stands in its row of ops.def; printer, parser, hash and
// equality follow from the kinds here.
#ifndef LAMINA_HLO_ATTRIBUTES_H_
#define LAMINA_HLO_ATTRIBUTES_H_

#include <atomic>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "hlo/literal.h"
#include "hlo/type.h"

namespace lamina::hlo {

class Computation;
using ComputationPtr = std::shared_ptr<const Computation>;

enum class AttrKind : uint8_t {
  kInt,
  kBool,
  kInts,
  kString,
  kDType,
  kLiteral,
  kComputation,
  kComputations,
  kTypes
};

enum class Attr : uint8_t {
#define ATTR(name, kind) name,
#include "hlo/attributes.def"
#undef ATTR
};

std::string_view attr_name(Attr a);
AttrKind attr_kind(Attr a);
std::optional<Attr> parse_attr(std::string_view name);
int num_attrs();

// The alternatives stand in the order of AttrKind.
class AttrValue : public std::variant<int64_t, bool, Dims, std::string, DType, LiteralPtr, ComputationPtr,
                                      std::vector<ComputationPtr>, std::vector<const Type*>> {
 public:
  using variant::variant;
  // libstdc++ takes it that a variant of such types always has a value: where memory runs out in its own copy
  // constructor, it destroys one that was never made.
  // NOLINTNEXTLINE(bugprone-copy-constructor-init)
  AttrValue(const AttrValue& other) : variant() {
    std::visit([this](auto copy) { variant::operator=(std::move(copy)); }, other);
  }
  AttrValue(AttrValue&&) noexcept = default;
  AttrValue& operator=(const AttrValue&) = default;
  AttrValue& operator=(AttrValue&&) noexcept = default;
};

class Attrs {
 public:
  using Entry = std::pair<Attr, AttrValue>;

  // Absent attributes read as their kind's empty value: 0, false, {}, "", null.
  int64_t integer(Attr a) const;
  bool flag(Attr a) const;
  const Dims& ints(Attr a) const;
  const std::string& string(Attr a) const;
  DType dtype(Attr a) const;
  const LiteralPtr& literal(Attr a) const;
  const ComputationPtr& computation(Attr a) const;
  const std::vector<ComputationPtr>& computations(Attr a) const;
  const std::vector<const Type*>& types(Attr a) const;

  bool has(Attr a) const { return find(a) != nullptr; }
  const std::vector<Entry>& entries() const { return entries_; }
  uint64_t hash() const { return hash_; }
  uint64_t id() const { return id_; }

  // For owners of a set.
  void retain() const {
    if (counted_) refs_.fetch_add(1, std::memory_order_relaxed);
  }
  void release() const {
    if (counted_) release_counted();
  }

 private:
  friend struct AttrTable;
  const AttrValue* find(Attr a) const;
  void release_counted() const;
  std::vector<Entry> entries_;  // sorted by key; values equal to the kind's empty value are left out
  uint64_t hash_ = 0;
  uint64_t id_ = 0;
  bool counted_ = false;
  mutable std::atomic<int64_t> refs_{0};
};

#ifdef NDEBUG
inline constexpr int kPinnedAttrs = 16;
#else
inline constexpr int kPinnedAttrs = 1;  // whoever holds a set without a count is found sooner
#endif

const Attrs* intern_attrs(std::vector<Attrs::Entry> entries);
const Attrs* no_attrs();
// Sets alive now that are counted; tests bound it.
int64_t live_counted_attrs();
// The same set with one value replaced.
const Attrs* with_attr(const Attrs& attrs, Attr key, AttrValue value);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_ATTRIBUTES_H_
