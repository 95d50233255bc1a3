#include "jit/program/memory_plan.h"

#include <algorithm>
#include <climits>
#include <map>
#include <numeric>
#include <set>

#include "jit/client/memory.h"

namespace lamina::jit {
namespace {

// Beyond so many parts only the layout of near linear cost is made.
constexpr size_t kQuadraticParts = 2048;
// Beyond so many pairs of a part and a result, parts are not tried in the memory of results.
constexpr size_t kMostLodgings = 1 << 20;
// Parts up to this size may go to a space of their own.
constexpr int64_t kSmallPart = 4096;
// Arguments considered for a result that no step can write over one.
constexpr size_t kMostAfter = 8;

int64_t rounded(int64_t bytes) {
  return std::max(kArenaAlignment, (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment);
}

// What has been placed in one stretch of memory.
class Shelf {
 public:
  // The tightest gap between those held at the same time, else behind them.
  int64_t find(const Lifetime& part) const {
    const int64_t bytes = rounded(part.bytes);
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (const auto& [at, other] : placed_) {
      if (other.last < part.first || part.last < other.first) continue;
      const int64_t gap = at - end;
      if (gap >= bytes && gap < best_gap) {
        best = end;
        best_gap = gap;
      }
      end = std::max(end, at + rounded(other.bytes));
    }
    return best >= 0 ? best : end;
  }
  void put(int64_t at, const Lifetime& part) {
    const auto before = std::upper_bound(placed_.begin(), placed_.end(), at,
                                         [](int64_t offset, const auto& p) { return offset < p.first; });
    placed_.insert(before, {at, part});
  }

 private:
  std::vector<std::pair<int64_t, Lifetime>> placed_;  // by offset
};

std::vector<size_t> largest_first(std::span<const Lifetime> parts) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return parts[a].bytes > parts[b].bytes; });
  return order;
}

// Largest first, each into the tightest gap between those placed that are held at the same time ("greedy by
// size": Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020).
ArenaLayout by_size(std::span<const Lifetime> parts) {
  ArenaLayout out;
  out.offsets.resize(parts.size());
  Shelf shelf;
  for (size_t p : largest_first(parts)) {
    out.offsets[p] = shelf.find(parts[p]);
    out.bytes = std::max(out.bytes, out.offsets[p] + rounded(parts[p].bytes));
    shelf.put(out.offsets[p], parts[p]);
  }
  return out;
}

// Free stretches of an arena that grows at its end.
class FreeList {
 public:
  // In the tightest stretch that fits, else at the end.
  int64_t take(int64_t bytes) {
    if (const auto fit = by_size_.lower_bound({bytes, -1}); fit != by_size_.end()) {
      const auto [size, at] = *fit;
      remove(at, size);
      if (size > bytes) insert(at + bytes, size - bytes);
      return at;
    }
    int64_t at = end_;
    if (!by_offset_.empty()) {
      const auto [offset, size] = *by_offset_.rbegin();
      if (offset + size == end_) {
        at = offset;
        remove(offset, size);
      }
    }
    end_ = at + bytes;
    return at;
  }
  void give_back(int64_t at, int64_t bytes) {
    auto next = by_offset_.lower_bound(at);
    if (next != by_offset_.end() && next->first == at + bytes) {
      const int64_t size = next->second;
      remove(at + bytes, size);
      bytes += size;
    }
    next = by_offset_.lower_bound(at);
    if (next != by_offset_.begin()) {
      const auto [offset, size] = *std::prev(next);
      if (offset + size == at) {
        remove(offset, size);
        at = offset;
        bytes += size;
      }
    }
    insert(at, bytes);
  }
  int64_t end() const { return end_; }

 private:
  void insert(int64_t at, int64_t size) {
    by_offset_[at] = size;
    by_size_.emplace(size, at);
  }
  void remove(int64_t at, int64_t size) {
    by_offset_.erase(at);
    by_size_.erase({size, at});
  }

  std::map<int64_t, int64_t> by_offset_;
  std::set<std::pair<int64_t, int64_t>> by_size_;
  int64_t end_ = 0;
};

// In order of time, as an allocator with tightest fit would place them.
ArenaLayout by_time(std::span<const Lifetime> parts) {
  ArenaLayout out;
  out.offsets.resize(parts.size());
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return parts[a].first != parts[b].first ? parts[a].first < parts[b].first
                                            : parts[a].bytes > parts[b].bytes;
  });
  FreeList free;
  std::set<std::pair<int, size_t>> held;  // by last step
  for (size_t p : order) {
    while (!held.empty() && held.begin()->first < parts[p].first) {
      const size_t q = held.begin()->second;
      free.give_back(out.offsets[q], rounded(parts[q].bytes));
      held.erase(held.begin());
    }
    out.offsets[p] = free.take(rounded(parts[p].bytes));
    held.emplace(parts[p].last, p);
  }
  out.bytes = free.end();
  return out;
}

int64_t blocks(int64_t bytes) { return bytes > 0 ? std::max<int64_t>(Memory::block_bytes(bytes), 0) : 0; }

// Finds the representative of a set, halving paths.
int find(std::vector<int>& parent, int i) {
  while (parent[i] != i) i = parent[i] = parent[parent[i]];
  return i;
}

int64_t most_held(std::span<const Lifetime> parts, size_t steps) {
  std::vector<int64_t> change(steps + 2, 0);
  for (const Lifetime& p : parts) {
    change[p.first] += rounded(p.bytes);
    change[p.last + 1] -= rounded(p.bytes);
  }
  int64_t held = 0, most = 0;
  for (int64_t c : change) most = std::max(most, held += c);
  return most;
}

}  // namespace

ArenaLayout lay_out(std::span<const Lifetime> parts) {
  ArenaLayout out = by_time(parts);
  if (parts.size() > kQuadraticParts) return out;
  ArenaLayout other = by_size(parts);
  return other.bytes < out.bytes ? other : out;
}

Places::Places(const MemoryRequest& request) : of_slot(request.slot_bytes.size(), -1) {
  std::vector<int> parent(of_slot.size());
  std::iota(parent.begin(), parent.end(), 0);
  for (const auto& [slot, of] : request.same_memory) parent[find(parent, slot)] = find(parent, of);
  for (size_t slot = 0; slot < of_slot.size(); ++slot) {
    int& at = of_slot[find(parent, static_cast<int>(slot))];
    if (at < 0) at = count++;
    of_slot[slot] = at;
  }
  for (const std::vector<int64_t>& parts : request.scratch_bytes) {
    scratch.emplace_back(parts.size());
    for (int& p : scratch.back()) p = count++;
  }
}

MemoryPlan::MemoryPlan(const MemoryRequest& request, const Places& at, bool giving_up) {
  constexpr int kNone = -1;
  const int steps = static_cast<int>(request.step_slots.size());
  // By place, then, as memory is shared, by the representative of the places that share it.
  std::vector<int> parent(at.count), first(at.count, INT_MAX), last(at.count, -1);
  std::iota(parent.begin(), parent.end(), 0);
  std::vector<int64_t> bytes(at.count, 0);
  for (size_t slot = 0; slot < at.of_slot.size(); ++slot)
    bytes[at.of_slot[slot]] = std::max(bytes[at.of_slot[slot]], request.slot_bytes[slot]);
  for (int s = 0; s < steps; ++s) {
    for (int slot : request.step_slots[s]) {
      first[at.of_slot[slot]] = std::min(first[at.of_slot[slot]], s);
      last[at.of_slot[slot]] = s;
    }
    for (size_t i = 0; i < at.scratch[s].size(); ++i) {
      const int p = at.scratch[s][i];
      first[p] = last[p] = s;
      bytes[p] = request.scratch_bytes[s][i];
    }
  }
  for (int slot : request.results) last[at.of_slot[slot]] = steps;
  std::vector<int> argument(at.count, kNone), constant(at.count, kNone), over(at.count, kNone);
  for (int p = 0; p < request.parameters; ++p) argument[at.of_slot[p]] = p;
  for (size_t c = 0; c < request.constants.size(); ++c)
    constant[at.of_slot[request.constants[c]]] = static_cast<int>(c);
  std::vector<bool> is_result(at.count, false);
  for (int slot : request.results) is_result[at.of_slot[slot]] = true;

  // Sharing, step by step: an operand that dies goes to at most one result.
  std::vector<bool> taken(request.parameters, false), keeps_over(at.count, false);
  for (size_t i = 0; i < request.overwrites.size();) {
    const int step = request.overwrites[i].step;
    size_t end = i;
    while (end < request.overwrites.size() && request.overwrites[end].step == step) ++end;
    auto try_pairs = [&](bool arguments) {
      for (size_t k = i; k < end; ++k) {
        const Overwrite& pair = request.overwrites[k];
        const int w = at.of_slot[pair.result], r = at.of_slot[pair.operand];
        const int memory = find(parent, r);
        // `w` must be new here, and the memory be that of this operand only: not of another one, nor of a
        // result that nothing reads and that was put there just now.
        if (first[w] != step || find(parent, w) != w || over[w] != kNone || constant[r] != kNone ||
            argument[w] != kNone || last[memory] != step || memory == w)
          continue;
        int64_t uses = 0;
        for (int slot : request.step_slots[step]) uses += find(parent, at.of_slot[slot]) == memory;
        if (uses != 1 || request.slot_bytes[pair.result] != request.slot_bytes[pair.operand]) continue;
        if (argument[r] != kNone) {
          if (!arguments || taken[argument[r]]) continue;
          over[w] = argument[r];
          taken[argument[r]] = true;
          keeps_over[w] = pair.saves_copy;
        } else if (!arguments) {
          parent[w] = memory;
          last[memory] = last[w];
          is_result[memory] = is_result[memory] || is_result[w];
        }
      }
    };
    if (giving_up) try_pairs(true);
    try_pairs(false);
    i = end;
  }

  for (const auto& [begin, end] : request.together)
    for (int p = 0; p < at.count; ++p) {
      if (first[p] > begin && first[p] <= end) first[p] = begin;
      if (last[p] >= begin && last[p] < end) last[p] = end;
    }

  // What is left gets memory.
  places.resize(at.count);
  std::vector<int> number(at.count, kNone);
  std::vector<Lifetime> lives;
  for (int p = 0; p < at.count; ++p) {
    if (argument[p] != kNone) {
      places[p] = {Storage::kArgument, argument[p]};
    } else if (constant[p] != kNone) {
      places[p] = {Storage::kConstant, constant[p]};
    } else {
      const int memory = find(parent, p);
      const bool arena = !is_result[memory];
      if (number[memory] == kNone) {
        number[memory] = static_cast<int>(arena ? parts.size() : results.size());
        if (arena) {
          // Arguments are for results, but where a copy is saved.
          if (over[memory] != kNone && !keeps_over[memory]) {
            taken[over[memory]] = false;
            over[memory] = kNone;
          }
          parts.push_back({0, 0, bytes[memory], first[memory], over[memory]});
          lives.push_back({bytes[memory], std::min(first[memory], steps), std::max(last[memory], 0)});
        } else {
          results.push_back({bytes[memory], kNone, true, first[memory], over[memory], {}});
          result_bytes.push_back(bytes[memory]);
        }
      }
      places[p] = {arena ? Storage::kArena : Storage::kResult, number[memory]};
    }
  }
  for (size_t r = 0; r < request.results.size(); ++r) {
    const int p = at.of_slot[request.results[r]];
    result_places.push_back(p);
    if (places[p].storage != Storage::kResult) continue;
    Result& memory = results[places[p].number];
    if (memory.number == kNone)
      memory.number = static_cast<int>(r);
    else
      memory.alone = false;
  }
  if (giving_up) {
    for (size_t m = 0; m < results.size(); ++m) {
      if (results[m].over != kNone) continue;
      for (int p = 0; p < request.parameters && results[m].after.size() < kMostAfter; ++p)
        if (!taken[p] && request.slot_bytes[p] == results[m].bytes && last[at.of_slot[p]] < results[m].first)
          results[m].after.push_back(p);
    }
  }

  const std::vector<bool> lodged = giving_up ? std::vector<bool>(parts.size(), false) : lodge(lives);
  std::vector<int> as_lent(parts.size(), kNone);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].over == kNone) continue;
    as_lent[i] = static_cast<int>(results.size() + lent.size());
    lent.push_back(static_cast<int>(i));
  }
  for (int p = 0; p < at.count; ++p) {
    Place& place = places[p];
    if (place.storage == Storage::kArena && lodged[place.number]) {
      const Part& part = parts[place.number];
      place = {Storage::kResult, part.space, part.offset};
    }
    if (place.storage == Storage::kResult) moving.emplace_back(p, place.number);
    if (place.storage == Storage::kArena && as_lent[place.number] != kNone)
      moving.emplace_back(p, as_lent[place.number]);
  }

  // The others go to the arena.
  std::vector<size_t> which;
  std::vector<Lifetime> in_arena;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (lodged[i]) continue;
    which.push_back(i);
    in_arena.push_back(lives[i]);
  }
  least_arena_bytes = most_held(in_arena, steps);
  const ArenaLayout whole = lay_out(in_arena);
  std::array<std::vector<Lifetime>, 2> split;
  for (const Lifetime& l : in_arena) split[l.bytes <= kSmallPart].push_back(l);
  const std::array<ArenaLayout, 2> halves{lay_out(split[0]), lay_out(split[1])};
  const bool in_one = blocks(whole.bytes) <= blocks(halves[0].bytes) + blocks(halves[1].bytes);
  std::array<size_t, 2> next{};
  for (size_t k = 0; k < which.size(); ++k) {
    Part& part = parts[which[k]];
    part.space = !in_one && part.bytes <= kSmallPart;
    part.offset = in_one ? whole.offsets[k] : halves[part.space].offsets[next[part.space]++];
  }
  if (in_one)
    arena_bytes[0] = whole.bytes;
  else
    arena_bytes = {halves[0].bytes, halves[1].bytes};
}

std::vector<bool> MemoryPlan::lodge(std::span<const Lifetime> lives) {
  std::vector<bool> out(parts.size(), false);
  if (parts.size() * results.size() > kMostLodgings) return out;
  std::vector<size_t> smallest(results.size());
  std::iota(smallest.begin(), smallest.end(), size_t{0});
  std::stable_sort(smallest.begin(), smallest.end(),
                   [&](size_t a, size_t b) { return results[a].bytes < results[b].bytes; });
  std::vector<Shelf> shelves(results.size());
  for (size_t i : largest_first(lives)) {
    for (size_t r : smallest) {
      if (results[r].bytes < lives[i].bytes || results[r].first <= lives[i].last) continue;
      const int64_t offset = shelves[r].find(lives[i]);
      if (offset + lives[i].bytes > results[r].bytes) continue;
      shelves[r].put(offset, lives[i]);
      parts[i].space = static_cast<int>(r);
      parts[i].offset = offset;
      out[i] = true;
      break;
    }
  }
  return out;
}

int64_t MemoryPlan::block_bytes() const {
  int64_t sum = blocks(arena_bytes[0]) + blocks(arena_bytes[1]);
  for (const Result& r : results) sum += std::max<int64_t>(Memory::block_bytes(r.bytes), 0);
  return sum;
}

}  // namespace lamina::jit
