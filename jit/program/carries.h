// Values that a loop passes from one turn to the next, each in one of two pieces of memory.
//
// Contract: the program of a turn reads the values where they are, writes new ones elsewhere or, where it
// may, over them; nothing is copied while turns exchange values (a, b -> b, a + b). At the end each value is
// brought home.
#ifndef LAMINA_JIT_PROGRAM_CARRIES_H_
#define LAMINA_JIT_PROGRAM_CARRIES_H_

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "jit/client/client.h"

namespace lamina::jit {

class Carries {
 public:
  // Value i of bytes[i] lies at `from[i]`; its home is at `home[i]`, possibly the same memory and then the
  // loop's to write over. spare[i] is more memory for it; none if the program of a turn keeps the value in
  // place where it may.
  Carries(Device& device, std::span<const int64_t> bytes, std::span<const Address> from,
          std::span<const Address> home, std::span<const Address> spare);

  std::span<const Address> values() const { return at_; }
  std::span<const Address> destinations() const { return next_; }
  // Whether turns may write over value i.
  bool writable(size_t i) const { return writable_[i]; }
  // Prefers destinations such that after `turns` turns that write to them the values are at home.
  void expect_turns(int64_t turns);
  // After a turn: where the values are now.
  void moved(std::span<const Address> to);
  absl::Status bring_home();

 private:
  void find_destinations();
  // Pieces are numbered: the homes, then the spares.
  Address piece(size_t k) const { return k < at_.size() ? home_[k] : spare_[k - at_.size()]; }
  // A piece that fits value i and is not in `used`; spares that are not there, and homes beside them, are for
  // nobody else. -1: none.
  int free_piece(size_t i, std::span<const bool> used) const;
  absl::InlinedVector<bool, 16> used_pieces() const;

  Device& device_;
  std::span<const int64_t> bytes_;
  bool each_in_its_own_ = true;  // or in the memory that it came in
  absl::InlinedVector<Address, 8> at_, home_, spare_, next_;
  absl::InlinedVector<bool, 8> writable_;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_PROGRAM_CARRIES_H_
