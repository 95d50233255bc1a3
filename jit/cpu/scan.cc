// Running sums and the like: scans whose carry and output are the same combination of carry and element.
// Every element runs its own recurrence, so the steps of a block of elements follow each other without
// leaving the caches. No code is made for them.
#include <algorithm>
#include <cstring>

#include "cluster/repeat.h"
#include "hlo/attributes.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/cpu/box_copy.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/region.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Computation;
using hlo::DType;
using hlo::Node;

// Elements whose steps follow each other.
constexpr int64_t kScanBlock = 512;
// Element steps between two looks at the cancel flag.
constexpr int64_t kScanPoll = 16 * 1024;

struct RunningScan {
  PrefixCombine prefix;  // body: (c, x) -> (f(c, x), f(c, x))
  RowCombine combine;    // that f on rows
  int64_t width, length, elements;
  bool reverse;

  absl::Status run(const void* const* in, void* const* out, const KernelContext& context) const {
    const int64_t tasks = (elements + kScanBlock - 1) / kScanBlock;
    std::vector<absl::Status> statuses(tasks);
    context.parallel(tasks, [&](int64_t t) {
      const int64_t begin = t * kScanBlock, n = std::min(kScanBlock, elements - begin);
      statuses[t] = run_block(in, out, begin, n, context);
    });
    for (const absl::Status& s : statuses)
      if (!s.ok()) return s;
    return absl::OkStatus();
  }

  static absl::Status cancelled() { return absl::CancelledError("the run was cancelled"); }

  absl::Status run_block(const void* const* in, void* const* out, int64_t begin, int64_t n,
                         const KernelContext& context) const {
    const int64_t row = elements * width;
    const std::byte* const x = static_cast<const std::byte*>(in[1]) + begin * width;
    std::byte* const y = static_cast<std::byte*>(out[1]) + begin * width;
    std::byte* const carry = static_cast<std::byte*>(out[0]) + begin * width;
    std::memcpy(carry, static_cast<const std::byte*>(in[0]) + begin * width, n * width);
    if (elements == 1) {
      for (int64_t done = 0; done < length; done += kScanPoll) {
        if (context.cancelled()) return cancelled();
        const int64_t count = std::min(kScanPoll, length - done);
        const int64_t at = (reverse ? length - 1 - done : done) * width;
        prefix(carry, x + at, y + at, reverse ? -1 : 1, count);
      }
      return absl::OkStatus();
    }
    const std::byte* last = carry;
    for (int64_t step = 0; step < length; ++step) {
      if (step % (kScanPoll / kScanBlock) == 0 && context.cancelled()) return cancelled();
      const int64_t at = (reverse ? length - 1 - step : step) * row;
      copy_contiguous(last, y + at, n * width);
      combine(y + at, x + at, 1, n);
      last = y + at;
    }
    if (last != carry) std::memcpy(carry, last, n * width);
    return absl::OkStatus();
  }
};

}  // namespace

NativeOp make_scan(const Node& n) {
  const Computation& body = *n.attrs().computation(Attr::body);
  const std::span<const hlo::Value> parameters = body.parameters(), roots = body.roots();
  if (!cluster::is_running_scan(n)) return {};
  const DType type = parameters[0].dtype();
  const CombineKind kind = combine_kind(parameters[0], parameters[1], roots[0]);
  const RunningScan s{.prefix = prefix_combine(kind, type),
                      .combine = row_combine(kind, type),
                      .width = hlo::byte_size(type),
                      .length = n.attrs().integer(Attr::length),
                      .elements = parameters[0].type()->num_elements,
                      .reverse = n.attrs().flag(Attr::reverse)};
  if (!s.combine || !s.prefix) return {};
  NativeOp op;
  op.what = str_cat(s.length, " steps of ", s.elements, " elements");
  op.run = [s](const void* const* in, void* const* out, const KernelContext& context) {
    return s.run(in, out, context);
  };
  return op;
}

}  // namespace lamina::jit
