#include "tests/grid/block.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace lamina::grid {
namespace {

// Region k of the device begins at (k + 1) << kRegionBits.
constexpr int kRegionBits = 40;
// Code that is not optimized keeps every value there; what nobody touches takes no memory.
constexpr size_t kStackBytes = size_t{1} << 20;
constexpr char kPattern = static_cast<char>(0xa7);

}  // namespace

Block::Block(Special& special, int64_t shared_bytes)
    : special_(special), shared_(static_cast<size_t>(shared_bytes)), elsewhere_(64) {}

uint64_t Block::address_of(size_t region) const {
  return (static_cast<uint64_t>(region + 1) << kRegionBits) + static_cast<uint64_t>(regions_[region].skew);
}

void Block::set_regions(std::span<const Region> regions) {
  regions_.assign(regions.begin(), regions.end());
  traffic_.assign(regions.size(), {});
}

void Block::set_fault(const std::string& what) {
  if (fault_.empty())
    fault_ = what + ", by thread " + std::to_string(special_.thread) + " of block " +
             std::to_string(special_.block);
}

void* Block::checked(uint64_t address, int64_t bytes, int64_t align, bool writes, bool shared) {
  const auto refuse = [&](const char* what) {
    set_fault(std::string(writes ? "a write" : "a read") + " of " + std::to_string(bytes) + " bytes " + what);
    return elsewhere_.data();
  };
  if (address % static_cast<uint64_t>(align) != 0) return refuse("that is not aligned");
  if (shared) {  // its addresses are offsets
    if (address + static_cast<uint64_t>(bytes) > shared_.size()) return refuse("outside of shared memory");
    return shared_.data() + address;
  }
  const uint64_t region = (address >> kRegionBits) - 1;
  if (region >= regions_.size()) return refuse("outside of the device's memory");
  const Region& r = regions_[region];
  const uint64_t offset = address - address_of(region);
  if (address < address_of(region) || offset + static_cast<uint64_t>(bytes) > static_cast<uint64_t>(r.bytes))
    return refuse(("outside of buffer " + std::to_string(region)).c_str());
  if (writes && !r.writable) return refuse("of a buffer that is only read");
  (writes ? traffic_[region].stored : traffic_[region].loaded) += bytes;
  return r.data + offset;
}

// ---- threads

void Block::run(int32_t number, bool meets, const Entry& entry, std::mt19937_64* random) {
  special_.block = number;
  std::fill(shared_.begin(), shared_.end(), kPattern);
  if (meets) {
    run_waiting(entry, random);
    return;
  }
  std::vector<int32_t> order(jit::kGridThreads);
  std::iota(order.begin(), order.end(), 0);
  if (random) std::shuffle(order.begin(), order.end(), *random);
  for (int32_t thread : order) {
    special_.thread = thread;
    entry();
  }
}

void Block::begin(unsigned high, unsigned low) {
  auto* block = reinterpret_cast<Block*>(static_cast<uintptr_t>(high) << 32 | low);
  (*block->entry_)();
  block->threads_[block->current_].waits = Waits::kEnded;
  _longjmp(block->host_, 1);
}

// Once a thread has begun it is left and entered by jumps: swapcontext asks the system for signal masks.
void Block::enter(Thread& t) {
  if (_setjmp(host_)) return;
  if (std::exchange(t.has_begun, true)) _longjmp(t.left, 1);
  ucontext_t unused;
  swapcontext(&unused, &t.context);
}

void Block::suspend(Waits waits, int32_t site) {
  Thread& t = threads_[current_];
  t.waits = waits;
  t.site = site;
  if (!_setjmp(t.left)) _longjmp(host_, 1);
}

void Block::barrier(int32_t site) { suspend(Waits::kBarrier, site); }

uint32_t Block::shuffle(int32_t site, bool down, uint32_t value, uint32_t operand, uint32_t segments) {
  Thread& t = threads_[current_];
  t.down = down;
  t.value = value;
  t.operand = operand;
  t.segments = segments;
  suspend(Waits::kShuffle, site);
  return threads_[current_].result;
}

void Block::run_waiting(const Entry& entry, std::mt19937_64* random) {
  entry_ = &entry;
  if (threads_.empty()) {
    threads_ = std::vector<Thread>(jit::kGridThreads);
    for (Thread& t : threads_) t.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  }
  const auto self = reinterpret_cast<uintptr_t>(this);
  for (Thread& t : threads_) {
    getcontext(&t.context);
    t.context.uc_stack.ss_sp = t.stack.get();
    t.context.uc_stack.ss_size = kStackBytes;
    t.context.uc_link = nullptr;
    makecontext(&t.context, reinterpret_cast<void (*)()>(&Block::begin), 2, static_cast<unsigned>(self >> 32),
                static_cast<unsigned>(self));
    t.waits = Waits::kNot;
    t.has_begun = false;
  }
  std::vector<size_t> ready;
  for (;;) {
    ready.clear();
    for (size_t i = 0; i < threads_.size(); ++i)
      if (threads_[i].waits == Waits::kNot) ready.push_back(i);
    if (ready.empty()) {
      if (std::all_of(threads_.begin(), threads_.end(),
                      [](const Thread& t) { return t.waits == Waits::kEnded; }))
        return;
      if (!wake()) return;
      continue;
    }
    if (random) std::shuffle(ready.begin(), ready.end(), *random);
    for (size_t i : ready) {
      current_ = i;
      special_.thread = static_cast<int32_t>(i);
      enter(threads_[i]);
    }
  }
}

// Nobody can go on: lets those go who have met. False: there are none.
bool Block::wake() {
  bool any = false;
  for (size_t warp = 0; warp < threads_.size(); warp += jit::kWarp)
    if (threads_[warp].waits == Waits::kShuffle) any |= wake_warp(warp);
  if (any) return true;
  for (const Thread& t : threads_)
    if (t.waits != Waits::kBarrier || t.site != threads_[0].site) {
      set_fault("threads wait at different places, or for one that has ended");
      return false;
    }
  for (Thread& t : threads_) t.waits = Waits::kNot;
  return true;
}

bool Block::wake_warp(size_t first) {
  const std::span<Thread> warp(threads_.data() + first, jit::kWarp);
  for (const Thread& t : warp)
    if (t.waits != Waits::kShuffle || t.site != warp[0].site) {
      set_fault("threads of a warp do not come to one shuffle");
      return false;
    }
  for (size_t i = 0; i < warp.size(); ++i) {
    // As the PTX manual has it: bits 8 to 12 name the segment, the lowest five its last thread.
    Thread& t = warp[i];
    const size_t mask = t.segments >> 8 & 31, last = (i & mask) | (t.segments & 31 & ~mask);
    const size_t from = t.down ? i + t.operand : (i & mask) | (t.operand & ~mask);
    t.result = warp[from <= last ? from : i].value;
  }
  for (Thread& t : warp) t.waits = Waits::kNot;
  return true;
}

}  // namespace lamina::grid
