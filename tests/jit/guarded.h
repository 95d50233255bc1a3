// Running kernels on memory beside which there is none: what reaches outside of a buffer faults.
#ifndef LAMINA_TESTS_JIT_GUARDED_H_
#define LAMINA_TESTS_JIT_GUARDED_H_

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <deque>

#include "tests/jit/random_kernel.h"

namespace lamina::jit {

// Where bytes lie beside a page without access.
enum class Guard { kBegin, kEnd };

class Guarded {
 public:
  Guarded(const std::vector<char>& bytes, Guard guard) : size_(bytes.size()) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_ = (size_ + page - 1) / page * page + page;
    base_ = static_cast<char*>(
        mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(base_ != MAP_FAILED);
    const bool begin = guard == Guard::kBegin;
    REQUIRE(mprotect(begin ? base_ : base_ + mapped_ - page, page, PROT_NONE) == 0);
    data_ = begin ? base_ + page : base_ + mapped_ - page - size_;
    std::memcpy(data_, bytes.data(), size_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, mapped_); }
  char* data() { return data_; }
  std::vector<char> bytes() const { return {data_, data_ + size_}; }

 private:
  size_t size_, mapped_;
  char* base_;
  char* data_;
};

template <class F>
Memory run_case(const Case& c, Guard guard, const F& entry) {
  std::deque<Guarded> guarded;
  std::vector<void*> buffers;
  for (const auto& m : c.memory) buffers.push_back(guarded.emplace_back(m, guard).data());
  const int32_t cancel = 0;
  // In three parts, as threads would.
  const int64_t outer = c.outer(), inner = c.inner(), cut = outer / 3, side = inner / 2;
  REQUIRE(entry(buffers.data(), c.args.data(), 0, cut, 0, inner, &cancel) == 0);
  REQUIRE(entry(buffers.data(), c.args.data(), cut, outer, 0, side, &cancel) == 0);
  REQUIRE(entry(buffers.data(), c.args.data(), cut, outer, side, inner, &cancel) == 0);
  Memory memory;
  for (const Guarded& g : guarded) memory.push_back(g.bytes());
  return memory;
}

}  // namespace lamina::jit

#endif  // LAMINA_TESTS_JIT_GUARDED_H_
