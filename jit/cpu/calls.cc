// Steps that call a library routine.
#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "cluster/read_through.h"
#include "hlo/conv_shape.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/cpu/client.h"
#include "jit/cpu/convolution.h"
#include "jit/cpu/dot.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/onednn_client.h"
#include "jit/cpu/steps.h"
#include "jit/program/node_slots.h"

namespace lamina::jit {
namespace {

using hlo::Node;
using hlo::Op;
using hlo::Value;

// The product, at most what has the watcher asked each time.
int64_t watched_product(std::initializer_list<int64_t> factors) {
  int64_t out = 1;
  for (int64_t f : factors) {
    if (f > RunControl::kWatchedWork / out) return RunControl::kWatchedWork;
    out = std::max<int64_t>(out * f, 1);
  }
  return out;
}

// Of a native op: where each result element takes at most as many operations as there are operand elements.
int64_t native_work(const Node& n) {
  if (n.op() == Op::reduce_window || n.op() == Op::select_and_scatter || n.op() == Op::custom_call)
    return RunControl::kWatchedWork;
  int64_t in = 1, out = 1;
  for (size_t i = 0; i < n.operands().size(); ++i) in += n.operand_type(i)->num_elements;
  for (uint32_t i = 0; i < n.num_results(); ++i) out += n.result_type(i)->num_elements;
  bool applies_region = false;
  for (const auto& [attr, value] : n.attrs().entries()) {
    const auto* body = std::get_if<hlo::ComputationPtr>(&value);
    if (!body || !*body) continue;
    applies_region = true;
    for (const Node* inner : (*body)->nodes())
      for (const auto& [a, v] : inner->attrs().entries())
        if (std::holds_alternative<hlo::ComputationPtr>(v) ||
            std::holds_alternative<std::vector<hlo::ComputationPtr>>(v))
          return RunControl::kWatchedWork;  // it may loop
  }
  return applies_region ? watched_product({in, out}) : watched_product({in + out, 4});
}

// The routine of oneDNN for a node in `fast` numerics; none where Lamina's own serves.
template <typename Make>
std::optional<OnednnRoutine> fast_routine(const Node& n, Make make) {
  if (n.numerics() != hlo::Numerics::kFast) return std::nullopt;
  absl::StatusOr<OnednnRoutine> made = make();
  return made.ok() ? std::optional(*std::move(made)) : std::nullopt;
}

class DotStep final : public Step {
 public:
  DotStep(CpuClient& cpu, const Node& n, const SlotOf& slot_of, std::span<const Value> reads)
      : cpu_(cpu), slots_(n, slot_of, reads), shape_(hlo::dot_shape(n)) {
    plain_ = collapsed(shape_);
    fast_ = fast_routine(n, [&]() -> absl::StatusOr<OnednnRoutine> {
      if (!plain_) return absl::UnavailableError("no single stride");
      return OnednnRoutine::matmul(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, *plain_,
                                   cpu.pool().usable_threads());
    });
    work_ = watched_product({n.result_type(0)->num_elements});
    for (const hlo::DotDim& d : shape_.k) work_ = watched_product({work_, d.extent});
  }

  absl::Status enqueue(Frame& frame) const override {
    const hlo::DType in = slots_.operand_types[0]->dtype, out = slots_.result_types[0]->dtype;
    const void* const a = pointer(frame.at[slots_.operands[0]]);
    const void* const b = pointer(frame.at[slots_.operands[1]]);
    void* const c = pointer(frame.at[slots_.results[0]]);
    const KernelContext context = cpu_.context(frame);
    if (fast_) return fast_->run(a, b, c, context);
    return plain_ ? dot(in, out, *plain_, a, b, c, context) : dot_general(in, out, shape_, a, b, c, context);
  }
  int64_t work() const override { return work_; }
  std::string describe() const override {
    return str_cat("dot ", fast_ ? "by oneDNN " : "", hlo::to_string(*slots_.operand_types[0]), " ",
                   hlo::to_string(*slots_.operand_types[1]));
  }
  void place(const Placing& placing) override { slots_.place(placing.of_slot); }

 private:
  CpuClient& cpu_;
  NodeSlots slots_;
  hlo::DotGeneralShape shape_;
  std::optional<hlo::DotShape> plain_;
  std::optional<OnednnRoutine> fast_;
  int64_t work_;
};

class ConvolutionStep final : public Step {
 public:
  ConvolutionStep(CpuClient& cpu, const Node& n, const SlotOf& slot_of)
      : cpu_(cpu), slots_(n, slot_of), shape_(hlo::conv_shape(n)) {
    fast_ = fast_routine(n, [&] {
      return OnednnRoutine::convolution(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, shape_,
                                        cpu.pool().usable_threads());
    });
  }

  absl::Status enqueue(Frame& frame) const override {
    const void* const a = pointer(frame.at[slots_.operands[0]]);
    const void* const b = pointer(frame.at[slots_.operands[1]]);
    void* const c = pointer(frame.at[slots_.results[0]]);
    const KernelContext context = cpu_.context(frame);
    if (fast_) return fast_->run(a, b, c, context);
    return convolution(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, shape_, a, b, c,
                       context);
  }
  std::string describe() const override {
    return str_cat("convolution ", fast_ ? "by oneDNN " : "", hlo::to_string(*slots_.operand_types[0]), " ",
                   hlo::to_string(*slots_.operand_types[1]));
  }
  void place(const Placing& placing) override { slots_.place(placing.of_slot); }

 private:
  CpuClient& cpu_;
  NodeSlots slots_;
  hlo::ConvShape shape_;
  std::optional<OnednnRoutine> fast_;
};

// A row of the table of native ops.
class NativeStep final : public RowStep {
 public:
  NativeStep(CpuClient& cpu, const Node& n, NativeOp op, const SlotOf& slot_of,
             std::span<const Value> reads = {})
      : cpu_(cpu),
        node_(const_cast<Node*>(&n)),
        op_(std::move(op)),
        slots_(n, slot_of, reads),
        work_(op_.leading > 0 ? op_.work : native_work(n)) {}

  absl::Status enqueue(Frame& frame) const override {
    const auto [in, out] = memory(frame);
    for (int i = 0; i < op_.updated; ++i)
      if (const int64_t bytes = slots_.result_types[i]->bytes(); out[i] != in[i] && bytes > 0)
        std::memcpy(out[i], in[i], static_cast<size_t>(bytes));
    return op_.run(in.data(), out.data(), cpu_.context(frame));
  }
  int64_t leading() const override { return op_.leading; }
  std::vector<RowAccess> row_accesses() const override {
    std::vector<RowAccess> out;
    const auto access = [&](int slot, const hlo::Type& type, bool written) {
      const bool by_rows = !type.dims.empty() && type.dims[0] == op_.leading;
      const int64_t each = by_rows ? type.num_elements / op_.leading : type.num_elements;
      out.push_back({slot, written, by_rows ? each : 0, 0, each, type.num_elements, type.bytes()});
    };
    for (size_t i = 0; i < slots_.operands.size(); ++i)
      access(slots_.operands[i], *slots_.operand_types[i], false);
    for (size_t i = 0; i < slots_.results.size(); ++i)
      access(slots_.results[i], *slots_.result_types[i], true);
    return out;
  }
  Tier row_tier() const override { return {}; }
  absl::Status run_rows(const Frame& frame, const Tier&, int64_t begin, int64_t end) const override {
    const auto [in, out] = memory(frame);
    return op_.run_part(in.data(), out.data(), begin, end, cpu_.context(frame));
  }
  int64_t work() const override { return work_; }
  std::string describe() const override {
    return str_cat("native ", node_.node()->def().name, ", ", op_.what);
  }
  void place(const Placing& placing) override { slots_.place(placing.of_slot); }

  std::vector<MayOverwrite> overwrites() const override {
    std::vector<MayOverwrite> out;
    for (int i = 0; i < op_.updated; ++i) out.push_back({slots_.results[i], slots_.operands[i], true});
    return out;
  }

 private:
  std::pair<absl::InlinedVector<const void*, 8>, absl::InlinedVector<void*, 8>> memory(
      const Frame& frame) const {
    absl::InlinedVector<const void*, 8> in;
    absl::InlinedVector<void*, 8> out;
    for (int p : slots_.operands) in.push_back(pointer(frame.at[p]));
    for (int p : slots_.results) out.push_back(pointer(frame.at[p]));
    return {std::move(in), std::move(out)};
  }

  CpuClient& cpu_;
  Value node_;  // keeps the attributes
  NativeOp op_;
  NodeSlots slots_;
  int64_t work_;
};

}  // namespace

std::unique_ptr<Step> make_native_step(CpuClient& cpu, const Node& node, const SlotOf& slot_of) {
  NativeOp op = native_op(node);
  if (!op.run) return nullptr;
  return std::make_unique<NativeStep>(cpu, node, std::move(op), slot_of);
}

std::unique_ptr<Step> make_library_step(CpuClient& cpu, const cluster::Group& group, const SlotOf& slot_of) {
  const Node& node = *group.anchors[0];
  if (const cluster::Turned turned = cluster::turned(node, group.reads); turned != cluster::Turned::kNo)
    return std::make_unique<NativeStep>(
        cpu, node, make_matrix_routine_of_turned(node, turned == cluster::Turned::kAdjoint), slot_of,
        group.reads);
  if (!group.reads.empty() && node.op() != Op::dot_general)
    return std::make_unique<NativeStep>(cpu, node, make_indexed_from_end(node), slot_of, group.reads);
  if (group.sorted_read >= 0)
    return std::make_unique<NativeStep>(cpu, node, make_sort_of_first(node, group.sorted_read), slot_of);
  if (std::unique_ptr<Step> native = make_native_step(cpu, node, slot_of)) return native;
  switch (node.op()) {
    case Op::dot_general:
      return std::make_unique<DotStep>(cpu, node, slot_of, group.reads);
    case Op::convolution:
      return std::make_unique<ConvolutionStep>(cpu, node, slot_of);
    default:
      return nullptr;
  }
}

}  // namespace lamina::jit
