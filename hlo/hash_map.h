// Hash tables that a failed allocation leaves as they were.
//
// Contract: as absl::flat_hash_map and flat_hash_set, of which they have the members used here, and with the
// strong guarantee: where memory runs out, std::bad_alloc is thrown and nothing has changed. (absl's tables
// note their new capacity before they have it, and are broken afterwards; a program may run out of memory at
// any insertion.) Entries lie side by side in order of insertion, until one is erased: the last one takes its
// place. References and iterators hold until the next insertion or erasure.
#ifndef LAMINA_HLO_HASH_MAP_H_
#define LAMINA_HLO_HASH_MAP_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"

namespace lamina {

namespace internal {

// Strings are found by views of them.
template <typename K>
using HashQuery = std::conditional_t<std::is_same_v<K, std::string>, std::string_view, const K&>;

template <typename K>
struct DefaultHash {
  size_t operator()(HashQuery<K> key) const { return absl::HashOf(key); }
};

// `KeyOf` is a function from an entry to its key.
template <typename Entry, typename K, typename KeyOf, typename Hash, typename Eq>
class HashTable {
 public:
  using Query = HashQuery<K>;
  using value_type = Entry;
  using iterator = typename std::vector<Entry>::iterator;
  using const_iterator = typename std::vector<Entry>::const_iterator;

  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  iterator find(Query key) { return begin() + static_cast<ptrdiff_t>(place_of(key, hash_of(key))); }
  const_iterator find(Query key) const {
    return begin() + static_cast<ptrdiff_t>(place_of(key, hash_of(key)));
  }
  bool contains(Query key) const { return place_of(key, hash_of(key)) != size(); }
  size_t count(Query key) const { return contains(key); }

  void clear() {
    entries_.clear();
    slots_.clear();
  }
  void reserve(size_t n) {
    entries_.reserve(n);
    if (needed_slots(n) > slots_.size()) index(needed_slots(n));
  }
  size_t erase(Query key) {
    const size_t at = place_of(key, hash_of(key));
    if (at == size()) return 0;
    erase_at(at);
    return 1;
  }
  void erase(iterator it) { erase_at(static_cast<size_t>(it - begin())); }

  template <typename F>
  friend void erase_if(HashTable& table, F&& unwanted) {
    for (size_t i = table.size(); i-- > 0;)
      if (unwanted(table.entries_[i])) table.erase_at(i);
  }

 protected:
  // The entry of `key`, and whether it is new: then made by make(vector), which adds it at the end.
  template <typename F>
  std::pair<iterator, bool> add(Query key, F&& make) {
    const uint32_t hash = hash_of(key);
    const size_t at = place_of(key, hash);
    if (at != size()) return {begin() + static_cast<ptrdiff_t>(at), false};
    if (const size_t slots = needed_slots(size() + 1); slots > slots_.size()) index(slots);
    make(entries_);
    if (!slots_.empty()) slots_[hole(hash)] = {hash, static_cast<uint32_t>(at + 1)};
    return {end() - 1, true};
  }

 private:
  // So few entries are compared one by one.
  static constexpr size_t kFew = 8;

  struct Slot {
    uint32_t hash = 0;
    uint32_t place = 0;  // of the entry, from 1; 0: free
  };

  static uint32_t hash_of(Query key) {
    return static_cast<uint32_t>(static_cast<uint64_t>(Hash()(key)) * 0x9E3779B97F4A7C15u >> 32);
  }

  // Slots for n entries: a power of two, at most 3/4 full.
  static size_t needed_slots(size_t n) {
    if (n <= kFew) return 0;
    size_t slots = 4 * kFew;
    while (3 * slots < 4 * n) slots *= 2;
    return slots;
  }

  size_t place_of(Query key, uint32_t hash) const {
    if (slots_.empty()) {
      size_t at = 0;
      while (at < size() && !Eq()(KeyOf()(entries_[at]), key)) ++at;
      return at;
    }
    const size_t mask = slots_.size() - 1;
    for (size_t i = hash & mask; slots_[i].place != 0; i = (i + 1) & mask)
      if (slots_[i].hash == hash && Eq()(KeyOf()(entries_[slots_[i].place - 1]), key))
        return slots_[i].place - 1;
    return size();
  }

  size_t hole(uint32_t hash) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash & mask;
    while (slots_[i].place != 0) i = (i + 1) & mask;
    return i;
  }

  void index(size_t count) {
    std::vector<Slot> old(count);
    slots_.swap(old);
    if (old.empty()) {
      for (size_t at = 0; at < size(); ++at) {
        const uint32_t hash = hash_of(KeyOf()(entries_[at]));
        slots_[hole(hash)] = {hash, static_cast<uint32_t>(at + 1)};
      }
    }
    for (const Slot& s : old)
      if (s.place != 0) slots_[hole(s.hash)] = s;
  }

  size_t slot_of(size_t at) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash_of(KeyOf()(entries_[at])) & mask;
    while (slots_[i].place != at + 1) i = (i + 1) & mask;
    return i;
  }

  void erase_at(size_t at) {
    const size_t last = size() - 1;
    if (!slots_.empty()) {
      const size_t mask = slots_.size() - 1;
      size_t gap = slot_of(at);
      const size_t moved = slot_of(last);
      slots_[moved].place = static_cast<uint32_t>(at + 1);
      // Whoever would not be found beyond the gap moves into it.
      slots_[gap] = {};
      for (size_t i = (gap + 1) & mask; slots_[i].place != 0; i = (i + 1) & mask) {
        if (((i - slots_[i].hash) & mask) < ((i - gap) & mask)) continue;
        slots_[gap] = slots_[i];
        slots_[i] = {};
        gap = i;
      }
    }
    [[maybe_unused]] const Entry dropped = std::move(entries_[at]);  // destroyed when the table is whole
    if (at != last) entries_[at] = std::move(entries_[last]);
    entries_.pop_back();
  }

  std::vector<Entry> entries_;
  std::vector<Slot> slots_;  // none while there are few entries
};

struct FirstOf {
  const auto& operator()(const auto& entry) const { return entry.first; }
};

}  // namespace internal

template <typename K, typename V, typename Hash = internal::DefaultHash<K>, typename Eq = std::equal_to<>>
class HashMap : public internal::HashTable<std::pair<K, V>, K, internal::FirstOf, Hash, Eq> {
  using Base = internal::HashTable<std::pair<K, V>, K, internal::FirstOf, Hash, Eq>;

 public:
  using typename Base::iterator;
  using typename Base::Query;
  HashMap() = default;
  HashMap(std::initializer_list<std::pair<K, V>> entries) {
    for (const auto& e : entries) insert(e);
  }

  template <typename Key = K, typename... A>
  std::pair<iterator, bool> try_emplace(Key&& key, A&&... value) {
    return this->add(key, [&](auto& entries) {
      entries.emplace_back(std::piecewise_construct, std::forward_as_tuple(std::forward<Key>(key)),
                           std::forward_as_tuple(std::forward<A>(value)...));
    });
  }
  template <typename Key = K, typename A>
  std::pair<iterator, bool> emplace(Key&& key, A&& value) {
    return try_emplace(std::forward<Key>(key), std::forward<A>(value));
  }
  std::pair<iterator, bool> insert(std::pair<K, V> entry) {
    return try_emplace(std::move(entry.first), std::move(entry.second));
  }
  V& operator[](const K& key) { return try_emplace(key).first->second; }
  V& operator[](K&& key) { return try_emplace(std::move(key)).first->second; }
  V& at(Query key) { return const_cast<V&>(std::as_const(*this).at(key)); }
  const V& at(Query key) const {
    const auto it = this->find(key);
    if (it == this->end()) throw std::out_of_range("no such key in a hash map");
    return it->second;
  }
};

template <typename K, typename Hash = internal::DefaultHash<K>, typename Eq = std::equal_to<>>
class HashSet : public internal::HashTable<K, K, std::identity, Hash, Eq> {
  using Base = internal::HashTable<K, K, std::identity, Hash, Eq>;

 public:
  using typename Base::iterator;
  HashSet() = default;
  HashSet(std::initializer_list<K> keys) {
    for (const K& key : keys) insert(key);
  }
  template <typename It>
  HashSet(It first, It last) {
    for (; first != last; ++first) insert(*first);
  }

  std::pair<iterator, bool> insert(K key) {
    return this->add(key, [&](auto& entries) { entries.push_back(std::move(key)); });
  }
};

}  // namespace lamina

#endif  // LAMINA_HLO_HASH_MAP_H_
