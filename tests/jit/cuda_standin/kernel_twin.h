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
#include "jit/kernel/grid.h"
#include "jit/kernel/interpret.h"

class KernelTwin {
 public:
  using Touch = lamina::jit::FakeQueues::Touch;

  // Null where no kernel and schedule stand before the code.
  static std::shared_ptr<const KernelTwin> of_image(std::string_view image);

  bool has_entry(std::string_view entry) const;
  // Of 8 bytes each: addresses of buffers first (jit/kernel/grid.h).
  size_t parameters() const;
  size_t buffers() const { return kernel_.buffers.size(); }
  // Why it is no launch that the kernel's plan holds; empty if it is one.
  std::string refusal(std::string_view entry, std::span<const uint64_t> values, unsigned blocks,
                      unsigned threads) const;
  std::vector<Touch> touches(std::string_view entry, std::span<const uint64_t> values) const;
  // With pointers of the host in place of the addresses of buffers. Of several launches the last does all.
  bool does_all(std::string_view entry) const {
    return entry == lamina::jit::kGridEntry || entry == lamina::jit::kGridFinish;
  }
  void run(std::string_view entry, std::span<const uint64_t> values) const;

  const std::string& kernel_text() const { return kernel_text_; }
  const std::string& schedule_text() const { return schedule_text_; }
  std::vector<int64_t> args(std::span<const uint64_t> values) const { return launch_of(values).args; }
  // Bytes from the buffer's address to the end of what is reached; -1 where positions are computed.
  int64_t bytes_of(uint32_t buffer, const std::vector<int64_t>& args) const;

 private:
  struct Launch {
    std::vector<int64_t> args;
    uint64_t from = 0, to = 0;
    int64_t count = 0;
  };

  KernelTwin(lamina::jit::LoopKernel kernel, lamina::jit::GridSchedule schedule)
      : kernel_(std::move(kernel)),
        schedule_(schedule),
        kernel_text_(to_string(kernel_)),
        schedule_text_(to_string(schedule)),
        interpreter_(kernel_) {}
  bool has_chunks() const { return lamina::jit::has_partials(schedule_); }
  Launch launch_of(std::span<const uint64_t> values) const;
  int64_t outputs(const std::vector<int64_t>& args) const;
  // The elements that an access reaches; none where that is not known, or there are none.
  std::optional<std::pair<int64_t, int64_t>> reach(const lamina::jit::Access& access,
                                                   const std::vector<int64_t>& args) const;

  const lamina::jit::LoopKernel kernel_;
  const lamina::jit::GridSchedule schedule_;
  const std::string kernel_text_, schedule_text_;
  const lamina::jit::KernelInterpreter interpreter_;
};

#endif  // LAMINA_TESTS_JIT_CUDA_STANDIN_KERNEL_TWIN_H_
