// One block of the stand-in's grid: memory, and threads that may wait for each other.
#ifndef LAMINA_TESTS_GRID_BLOCK_H_
#define LAMINA_TESTS_GRID_BLOCK_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/grid/standin.h"

namespace lamina::grid {

// What generated code sees; addresses of these words are in the code.
struct Special {
  int32_t thread = 0;
  int32_t block = 0;
};

class Block {
 public:
  using Entry = std::function<void()>;  // of the thread that `special` says

  Block(Special& special, int64_t shared_bytes);

  // Device addresses.
  uint64_t address_of(size_t region) const;
  void set_regions(std::span<const Region> regions);
  // By region, since these were set.
  const std::vector<Traffic>& traffic() const { return traffic_; }

  // Runs all threads of block `number`.
  void run(int32_t number, bool meets, const Entry& entry, std::mt19937_64* random);
  const std::string& fault() const { return fault_; }
  void clear_fault() { fault_.clear(); }

  // What generated code calls. Where to read or write; what is not allowed is a fault, and goes elsewhere.
  void* checked(uint64_t address, int64_t bytes, int64_t align, bool writes, bool shared);
  void barrier(int32_t site);
  // Of the thread `operand` further on, or of that number in its segment.
  uint32_t shuffle(int32_t site, bool down, uint32_t value, uint32_t operand, uint32_t segments);

 private:
  enum class Waits : uint8_t { kNot, kBarrier, kShuffle, kEnded };
  struct Thread {
    ucontext_t context;  // where it begins
    jmp_buf left;        // where it waits
    bool has_begun = false;
    std::unique_ptr<char[]> stack;
    Waits waits = Waits::kNot;
    int32_t site = 0;
    bool down = false;
    uint32_t value = 0, operand = 0, segments = 0, result = 0;
  };
  void set_fault(const std::string& what);
  void enter(Thread& thread);
  void suspend(Waits waits, int32_t site);
  void run_waiting(const Entry& entry, std::mt19937_64* random);
  bool wake();
  bool wake_warp(size_t first);
  static void begin(unsigned high, unsigned low);

  Special& special_;
  std::vector<Region> regions_;
  std::vector<Traffic> traffic_;
  std::vector<char> shared_, elsewhere_;
  std::vector<Thread> threads_;
  jmp_buf host_;
  const Entry* entry_ = nullptr;
  size_t current_ = 0;
  std::string fault_;
};

}  // namespace lamina::grid

#endif  // LAMINA_TESTS_GRID_BLOCK_H_
