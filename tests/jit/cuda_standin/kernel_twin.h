// What kernels of ours do when the stand-in launches them: the loop kernel whose text stands before the PTX,
// interpreted. PTX itself is read by nobody here (its own tests are those of jit/codegen).
#ifndef LAMINA_TESTS_JIT_CUDA_STANDIN_KERNEL_TWIN_H_
#define LAMINA_TESTS_JIT_CUDA_STANDIN_KERNEL_TWIN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/fake/queues.h"
#include "jit/kernel/grid_chain.h"
#include "jit/kernel/interpret.h"

class LoopTwin {
 public:
  using Touch = lamina::jit::FakeQueues::Touch;

  explicit LoopTwin(lamina::jit::GridPart part)
      : kernel_(std::move(part.kernel)),
        schedule_(part.schedule),
        held_(std::move(part.held)),
        interpreter_(kernel_) {}
  bool has_entry(std::string_view entry) const;
  // Of 8 bytes each: addresses of buffers first (jit/kernel/grid.h).
  size_t parameters() const;
  size_t buffers() const { return kernel_.buffers.size(); }
  size_t args() const { return kernel_.num_args; }
  // Why it is no launch that the kernel's plan holds; empty if it is one.
  std::string refusal(std::string_view entry, std::span<const uint64_t> values, unsigned blocks) const;
  std::vector<Touch> touches(std::string_view entry, std::span<const uint64_t> values) const;
  // With pointers of the host in place of the addresses of buffers. Of several launches the last does all.
  static bool does_all(std::string_view entry) {
    return entry == lamina::jit::kGridEntry || entry == lamina::jit::kGridFinish;
  }
  void run(std::string_view entry, std::span<const uint64_t> values) const;
  // Bytes from the buffer's address to the end of what is reached; -1 where positions are computed.
  int64_t bytes_of(uint32_t buffer, std::span<const uint64_t> values) const;
  // Whether nothing of the buffer is in memory: threads hold it.
  bool is_held(uint32_t buffer) const;
  bool writes(uint32_t buffer) const;
  // Of one row of a chain.
  int64_t units(std::span<const uint64_t> values, int64_t rows) const;

 private:
  struct Launch {
    std::vector<int64_t> args;
    uint64_t from = 0, to = 0;
    int64_t count = 0;
  };
  bool has_chunks() const { return lamina::jit::has_partials(schedule_); }
  Launch launch_of(std::span<const uint64_t> values) const;
  bool reaches_memory(uint32_t access) const;
  int64_t outputs(const std::vector<int64_t>& args) const;
  // The elements that an access reaches; none where that is not known, or there are none.
  std::optional<std::pair<int64_t, int64_t>> reach(const lamina::jit::Access& access,
                                                   const std::vector<int64_t>& args) const;

  const lamina::jit::LoopKernel kernel_;
  const lamina::jit::GridSchedule schedule_;
  const std::vector<lamina::jit::HeldAccess> held_;
  const lamina::jit::KernelInterpreter interpreter_;
};

// A kernel, or those of a chain (jit/kernel/grid_chain.h).
class KernelTwin {
 public:
  using Touch = LoopTwin::Touch;
  using Values = std::span<const uint64_t>;

  // Null where no kernel and schedule stand before the code.
  static std::shared_ptr<const KernelTwin> of_image(std::string_view image);

  bool has_entry(std::string_view entry) const;
  size_t parameters() const;
  // Which parameters are addresses of buffers, and how many bytes are reached from each (as bytes_of above).
  std::vector<size_t> addresses() const;
  std::vector<int64_t> bytes(Values values) const;
  // Of these: whether the kernel reaches none of it, and whether a kernel of the chain has made it, so that
  // it is nowhere in memory.
  std::vector<bool> are_held() const;
  std::vector<bool> are_made_held(Values values) const;
  std::string refusal(std::string_view entry, Values values, unsigned blocks, unsigned threads) const;
  std::vector<Touch> touches(std::string_view entry, Values values) const;
  bool does_all(std::string_view entry) const { return is_chain() || LoopTwin::does_all(entry); }
  void run(std::string_view entry, Values values) const;

  const std::string& kernel_text() const { return kernel_text_; }
  const std::string& schedule_text() const { return schedule_text_; }
  std::vector<int64_t> args(Values values) const;
  // Of a chain: how many rows there are, and a block makes; zeros else.
  std::pair<int64_t, int64_t> rows(Values values) const;

 private:
  explicit KernelTwin(std::vector<lamina::jit::GridPart> parts);
  bool is_chain() const { return loops_.size() > 1; }
  // Calls f(loop, number of its first parameter).
  template <typename F>
  void each(F f) const;

  const std::string kernel_text_, schedule_text_;
  std::vector<std::unique_ptr<const LoopTwin>> loops_;
};

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_KERNEL_TWIN_H_
