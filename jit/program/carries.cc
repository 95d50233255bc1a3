#include "jit/program/carries.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace lamina::jit {

Carries::Carries(Device& device, std::span<const int64_t> bytes, std::span<const Address> from,
                 std::span<const Address> home, std::span<const Address> spare)
    : device_(device),
      bytes_(bytes),
      at_(from.begin(), from.end()),
      home_(home.begin(), home.end()),
      spare_(spare.begin(), spare.end()),
      next_(from.size()),
      writable_(from.size()) {
  for (size_t i = 0; i < at_.size(); ++i) {
    writable_[i] = at_[i] == home_[i];
    next_[i] = writable_[i] ? spare_[i] : home_[i];
  }
}

void Carries::expect_turns(int64_t turns) {
  if (turns % 2 != 0) return;
  for (size_t i = 0; i < at_.size(); ++i)
    if (!writable_[i] && spare_[i]) next_[i] = spare_[i];
}

void Carries::moved(std::span<const Address> to) {
  for (size_t i = 0; i < at_.size(); ++i)
    each_in_its_own_ = each_in_its_own_ && (to[i] == at_[i] || to[i] == next_[i]);
  if (!each_in_its_own_) {
    std::copy(to.begin(), to.end(), at_.begin());
    find_destinations();
    return;
  }
  for (size_t i = 0; i < at_.size(); ++i) {
    if (to[i] == at_[i]) continue;
    at_[i] = to[i];
    writable_[i] = true;
    next_[i] = to[i] == home_[i] ? spare_[i] : home_[i];
  }
}

absl::InlinedVector<bool, 16> Carries::used_pieces() const {
  absl::InlinedVector<bool, 16> used(2 * at_.size(), false);
  for (size_t k = 0; k < used.size(); ++k) used[k] = std::find(at_.begin(), at_.end(), piece(k)) != at_.end();
  return used;
}

int Carries::free_piece(size_t i, std::span<const bool> used) const {
  const size_t n = at_.size();
  for (const size_t k : {i, i + n})
    if (piece(k) && !used[k]) return static_cast<int>(k);
  for (size_t k = 0; k < 2 * n; ++k)
    if (spare_[i] && spare_[k % n] && !used[k] && bytes_[k % n] == bytes_[i]) return static_cast<int>(k);
  return -1;
}

// Values may lie in each other's memory. Of the two pieces per value of one size at least half are free.
void Carries::find_destinations() {
  const size_t n = at_.size();
  absl::InlinedVector<bool, 16> used = used_pieces();
  each_in_its_own_ = true;
  for (size_t i = 0; i < n; ++i) {
    bool ours = false;
    for (size_t k = 0; k < 2 * n; ++k) ours = ours || piece(k) == at_[i];
    writable_[i] = ours && std::count(at_.begin(), at_.end(), at_[i]) == 1;
    each_in_its_own_ =
        each_in_its_own_ && (!ours || (writable_[i] && (at_[i] == home_[i] || at_[i] == spare_[i])));
  }
  for (size_t i = 0; i < n; ++i) {
    const int k = free_piece(i, used);
    next_[i] = k < 0 ? Address() : piece(k);
    if (k >= 0) used[k] = true;
  }
}

absl::Status Carries::bring_home() {
  auto copy = [&](size_t i, Address to) -> absl::Status {
    if (absl::Status s = device_.stream().copy(to, at_[i], bytes_[i]); !s.ok()) return s;
    at_[i] = to;
    return absl::OkStatus();
  };
  const auto holds = [](const auto& places, Address p) {
    return std::find(places.begin(), places.end(), p) != places.end();
  };
  std::vector<BufferRef> aside;
  while (true) {
    bool moved = false, all_home = true;
    size_t in_the_way = at_.size();
    for (size_t i = 0; i < at_.size(); ++i) {
      if (at_[i] == home_[i]) continue;
      if (bytes_[i] == 0 || !holds(at_, home_[i])) {
        if (absl::Status s = copy(i, home_[i]); !s.ok()) return s;
        moved = true;
        continue;
      }
      all_home = false;
      if (holds(home_, at_[i])) in_the_way = i;
    }
    if (all_home) return absl::OkStatus();
    if (moved) continue;
    // Rings of values in each other's homes: one in a home that is not its own steps aside, each at most
    // once, for then no home is free. Several may share that home, so one step may not open the ring.
    const int k = free_piece(in_the_way, used_pieces());
    if (k < 0) {
      absl::StatusOr<BufferRef> block = device_.memory().allocate(bytes_[in_the_way]);
      if (!block.ok()) return block.status();
      aside.push_back(*std::move(block));
    }
    if (absl::Status s = copy(in_the_way, k < 0 ? aside.back()->address() : piece(k)); !s.ok()) return s;
  }
}

}  // namespace lamina::jit
