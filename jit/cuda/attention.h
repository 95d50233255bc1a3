// Attention by cuDNN: which subgraphs it takes, and how.
//
// Contract: as of plans (jit/cuda/dnn_library.h). The library keeps scores in f32 and none of them in memory,
// and rounds what it multiplies the values by to their type, before it divides by the sums or behind. Its
// engines are compiled when a plan is made, so that only the first is, whatever its time, and plans are kept:
// those that programs use, and some of late.
#ifndef LAMINA_JIT_CUDA_ATTENTION_H_
#define LAMINA_JIT_CUDA_ATTENTION_H_

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "hlo/mutex.h"
#include "jit/cuda/attention_form.h"
#include "jit/cuda/dnn_library.h"
#include "jit/cuda/queue.h"

namespace lamina::jit::cuda {

// An attention of a certain form, with the engine for each device.
class Attention {
 public:
  struct Operands {
    Address query, key, value, result, bias, scale /* one f32 */, workspace;
  };

  const AttentionForm& form() const { return form_; }
  // Of the work space, which begins at any address.
  int64_t workspace_bytes() const;
  absl::Status enqueue(CudaQueue& queue, const Operands& at) const;
  // For people: "cuDNN 9.19.0, engine 2".
  std::string describe() const;

 private:
  friend class Attentions;
  // What lives as long as the attention.
  struct Descriptions;

  AttentionForm form_;
  const Dnn* dnn_ = nullptr;  // stays
  std::shared_ptr<const Descriptions> descriptions_;
  std::vector<DnnChoice> choices_;
};

class Attentions {
 public:
  explicit Attentions(DnnLibrary& library) : library_(library) {}
  // Null where our own kernels are the better choice, or in words why there is none.
  absl::StatusOr<std::shared_ptr<const Attention>> plan(const AttentionForm& form);
  // Attentions of fewer multiplications are small: to make a plan takes a third of a second. Gives what that
  // was.
  double set_least_work(double least) { return least_work_.exchange(least); }
  static constexpr double kLeastWork = 1 << 24;
  // Plans made so far.
  size_t made() const { return made_; }

  // The engines that could be chosen on a device of these properties, as the library writes them, without
  // one: for tests.
  static absl::StatusOr<std::vector<int64_t>> engines_for(const Dnn& dnn, std::string_view properties,
                                                          const AttentionForm& form);

 private:
  using Made = std::shared_ptr<const Attention>;
  static absl::StatusOr<std::shared_ptr<Attention>> described(const Dnn& dnn, const AttentionForm& form);
  Made known_locked(const Dnn& dnn, const AttentionForm& form);

  DnnLibrary& library_;
  std::atomic<double> least_work_ = kLeastWork;
  std::atomic<size_t> made_ = 0;
  hlo::Mutex mutex_{hlo::LockRank::kLibraries};
  std::vector<std::weak_ptr<const Attention>> plans_;
  std::array<Made, 16> latest_;
  size_t next_ = 0;
};

}  // namespace lamina::jit::cuda

#endif  // LAMINA_JIT_CUDA_ATTENTION_H_
