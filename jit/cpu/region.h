// Regions of scalars (bodies of scatters, windows, sorts) as functions on rows of elements.
//
// Contract: the bits of hlo::RegionRunner. A region is immutable once made and used from any thread; each
// thread brings a scratch of its own.
#ifndef LAMINA_JIT_CPU_REGION_H_
#define LAMINA_JIT_CPU_REGION_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "hlo/computation.h"
#include "hlo/scalar/kernels.h"
#include "hlo/scalar/program.h"

namespace lamina::jit {

// acc[i] = op(acc[i], x[i * step]).
using RowCombine = void (*)(void* acc, const void* x, int64_t step, int64_t n);

// acc[at[i]] = op(acc[at[i]], x[of[i]]) in order; without `of`: x[i].
using IndexedCombine = void (*)(void* acc, const void* x, const int32_t* at, const int32_t* of, int64_t n);

// y[i * step] = acc = op(acc, x[i * step]) for one element acc.
using PrefixCombine = void (*)(void* acc, const void* x, void* y, int64_t step, int64_t n);

// What a region (acc, x) -> acc of one real or complex type does, where it is one of the common ones.
enum class CombineKind : uint8_t { kOther, kKeep, kReplace, kAdd, kMultiply, kMaximum, kMinimum };
CombineKind combine_kind(const hlo::Value& acc, const hlo::Value& x, const hlo::Value& result);
// f.template operator()<kind>() for the kinds that are operations on elements, what its result type makes of
// nothing for others.
template <typename F>
auto with_operation(CombineKind kind, F f) -> decltype(f.template operator()<CombineKind::kAdd>()) {
  switch (kind) {
    case CombineKind::kAdd:
      return f.template operator()<CombineKind::kAdd>();
    case CombineKind::kMultiply:
      return f.template operator()<CombineKind::kMultiply>();
    case CombineKind::kMaximum:
      return f.template operator()<CombineKind::kMaximum>();
    case CombineKind::kMinimum:
      return f.template operator()<CombineKind::kMinimum>();
    default:
      return {};
  }
}
// Null if there is no routine for them.
RowCombine row_combine(CombineKind kind, hlo::DType type);
IndexedCombine indexed_combine(CombineKind kind, hlo::DType type);
PrefixCombine prefix_combine(CombineKind kind, hlo::DType type);

class Region {
 public:
  explicit Region(hlo::ComputationPtr region);
  // With its program given: of one element, where parameters and results are arrays of one shape.
  Region(hlo::ComputationPtr region, std::optional<hlo::ScalarProgram> program);

  // Working memory of one thread.
  class Scratch {
   public:
    explicit Scratch(const Region& region);

   private:
    friend class Region;
    std::vector<uint64_t> memory_;
    std::vector<std::byte*> at_;
  };

  // inputs[i]: n contiguous elements of parameter i (complex interleaved); outputs likewise; an output may be
  // an input's array.
  absl::Status run(Scratch& scratch, std::span<const void* const> inputs, std::span<void* const> outputs,
                   int64_t n) const;

  // The region (acc..., x...) -> acc... as one routine on rows, null where there is none.
  RowCombine combine() const { return combine_; }
  IndexedCombine indexed_combine() const { return indexed_combine_; }
  CombineKind kind() const { return kind_; }

 private:
  struct Call {
    hlo::ScalarKernel kernel;
    uint32_t out, in[3];
    const void* table;  // in place of in[1], of a lookup
  };
  absl::Status run_by_element(std::span<const void* const> inputs, std::span<void* const> outputs,
                              int64_t n) const;

  static constexpr int64_t kRow = 128;  // elements at a time
  hlo::ComputationPtr region_;
  std::optional<hlo::ScalarProgram> program_;
  std::vector<Call> calls_;
  std::vector<hlo::DType> parameters_, results_;
  CombineKind kind_ = CombineKind::kOther;
  RowCombine combine_ = nullptr;
  IndexedCombine indexed_combine_ = nullptr;
};

}  // namespace lamina::jit

#endif  // LAMINA_JIT_CPU_REGION_H_
