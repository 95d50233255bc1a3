// Steps that call a library routine, or the evaluator's rule where an op has no faster form.
#include <algorithm>
#include <cstring>

#include "absl/container/inlined_vector.h"
#include "hlo/conv_shape.h"
#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/cpu/convolution.h"
#include "jit/cpu/dot.h"
#include "jit/cpu/native_op.h"
#include "jit/cpu/onednn_client.h"
#include "jit/engine.h"
#include "jit/steps.h"

namespace lamina::jit {
namespace {

using hlo::Attr;
using hlo::Dims;
using hlo::Node;
using hlo::Op;
using hlo::Value;

struct NodeSlots {
  std::vector<int> operands, results;
  std::vector<const hlo::Type*> operand_types, result_types;

  NodeSlots(const Node& n, const SlotOf& slot_of) {
    for (size_t i = 0; i < n.operands().size(); ++i) {
      operands.push_back(slot_of(n.operand_value(i)));
      operand_types.push_back(n.operand_type(i));
    }
    for (uint32_t i = 0; i < n.num_results(); ++i) {
      results.push_back(slot_of(Value(const_cast<Node*>(&n), i)));
      result_types.push_back(n.result_type(i));
    }
  }

  absl::Status allocate_results(Run& run) const {
    for (size_t i = 0; i < results.size(); ++i) {
      absl::StatusOr<BufferRef> buffer = run.allocate(result_types[i]);
      if (!buffer.ok()) return buffer.status();
      run.slots[results[i]] = *std::move(buffer);
    }
    return absl::OkStatus();
  }
};

KernelContext kernel_context(Run& run) {
  KernelContext context;
  context.scratch = &run.engine.allocator();
  context.parallel = run.engine.runtime().pool().parallel();
  context.cancel = run.cancel ? run.cancel->flag() : nullptr;
  return context;
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
  DotStep(Engine& engine, const Node& n, const SlotOf& slot_of) : slots_(n, slot_of) {
    const hlo::Attrs& a = n.attrs();
    const Dims &lb = a.ints(Attr::lhs_batching_dimensions), &rb = a.ints(Attr::rhs_batching_dimensions),
               &lc = a.ints(Attr::lhs_contracting_dimensions), &rc = a.ints(Attr::rhs_contracting_dimensions);
    const Dims &ld = n.operand_type(0)->dims, &rd = n.operand_type(1)->dims;
    const Dims ls = hlo::row_major_strides(ld), rs = hlo::row_major_strides(rd);
    auto named = [](const Dims& list, int64_t d) {
      return std::find(list.begin(), list.end(), d) != list.end();
    };
    for (size_t i = 0; i < lb.size(); ++i) shape_.batch.push_back({ld[lb[i]], ls[lb[i]], rs[rb[i]]});
    for (size_t i = 0; i < lc.size(); ++i) shape_.k.push_back({ld[lc[i]], ls[lc[i]], rs[rc[i]]});
    for (size_t d = 0; d < ld.size(); ++d)
      if (!named(lb, d) && !named(lc, d)) shape_.m.push_back({ld[d], ls[d], 0});
    for (size_t d = 0; d < rd.size(); ++d)
      if (!named(rb, d) && !named(rc, d)) shape_.n.push_back({rd[d], 0, rs[d]});
    fast_ = fast_routine(n, [&]() -> absl::StatusOr<OnednnRoutine> {
      const std::optional<hlo::DotShape> matrices = collapsed(shape_);
      if (!matrices) return absl::UnavailableError("no single stride");
      return OnednnRoutine::matmul(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, *matrices,
                                   engine.runtime().pool().usable_threads());
    });
  }

  absl::Status run(Run& run) const override {
    if (absl::Status s = slots_.allocate_results(run); !s.ok()) return s;
    const void* const a = run.slots[slots_.operands[0]]->data();
    const void* const b = run.slots[slots_.operands[1]]->data();
    void* const c = run.slots[slots_.results[0]]->data();
    if (fast_) return fast_->run(a, b, c, kernel_context(run));
    return dot_general(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, shape_, a, b, c,
                       kernel_context(run));
  }
  std::string describe() const override {
    return str_cat("dot ", fast_ ? "by oneDNN " : "", hlo::to_string(*slots_.operand_types[0]), " ",
                   hlo::to_string(*slots_.operand_types[1]));
  }

 private:
  NodeSlots slots_;
  DotGeneralShape shape_;
  std::optional<OnednnRoutine> fast_;
};

class ConvolutionStep final : public Step {
 public:
  ConvolutionStep(Engine& engine, const Node& n, const SlotOf& slot_of)
      : slots_(n, slot_of), shape_(hlo::conv_shape(n)) {
    fast_ = fast_routine(n, [&] {
      return OnednnRoutine::convolution(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, shape_,
                                        engine.runtime().pool().usable_threads());
    });
  }

  absl::Status run(Run& run) const override {
    if (absl::Status s = slots_.allocate_results(run); !s.ok()) return s;
    const void* const a = run.slots[slots_.operands[0]]->data();
    const void* const b = run.slots[slots_.operands[1]]->data();
    void* const c = run.slots[slots_.results[0]]->data();
    if (fast_) return fast_->run(a, b, c, kernel_context(run));
    return convolution(slots_.operand_types[0]->dtype, slots_.result_types[0]->dtype, shape_, a, b, c,
                       kernel_context(run));
  }
  std::string describe() const override {
    return str_cat("convolution ", fast_ ? "by oneDNN " : "", hlo::to_string(*slots_.operand_types[0]), " ",
                   hlo::to_string(*slots_.operand_types[1]));
  }

 private:
  NodeSlots slots_;
  hlo::ConvShape shape_;
  std::optional<OnednnRoutine> fast_;
};

// A row of the table of native ops.
class NativeStep final : public Step {
 public:
  NativeStep(const Node& n, NativeOp op, const SlotOf& slot_of)
      : node_(const_cast<Node*>(&n)), op_(std::move(op)), slots_(n, slot_of) {}

  absl::Status run(Run& run) const override {
    absl::InlinedVector<const void*, 8> in;
    absl::InlinedVector<void*, 8> out;
    for (int slot : slots_.operands) in.push_back(run.slots[slot]->data());
    for (size_t i = 0; i < slots_.results.size(); ++i) {
      absl::StatusOr<BufferRef> buffer =
          static_cast<int>(i) < op_.updated ? updated(run, i) : run.allocate(slots_.result_types[i]);
      if (!buffer.ok()) return buffer.status();
      out.push_back((*buffer)->data());
      run.slots[slots_.results[i]] = *std::move(buffer);
    }
    return op_.run(in.data(), out.data(), kernel_context(run));
  }
  std::string describe() const override {
    return str_cat("native ", node_.node()->def().name, ", ", op_.what);
  }

 private:
  // The buffer of operand `i` if this is its last use, else a copy.
  absl::StatusOr<BufferRef> updated(Run& run, size_t i) const {
    const int slot = slots_.operands[i];
    BufferRef& held = run.slots[slot];
    const bool alone = std::count(slots_.operands.begin(), slots_.operands.end(), slot) == 1;
    const bool dies = std::find(run.dying.begin(), run.dying.end(), slot) != run.dying.end();
    if (alone && dies && held->may_reuse()) return held;
    absl::StatusOr<BufferRef> copy = run.allocate(slots_.result_types[i]);
    if (copy.ok() && slots_.result_types[i]->bytes() > 0)
      std::memcpy((*copy)->data(), held->data(), slots_.result_types[i]->bytes());
    return copy;
  }

  Value node_;  // keeps the attributes
  NativeOp op_;
  NodeSlots slots_;
};

// The op's own evaluation rule on copies of the operands.
class EvaluateStep final : public Step {
 public:
  EvaluateStep(const Node& n, const SlotOf& slot_of) : node_(const_cast<Node*>(&n)), slots_(n, slot_of) {}

  absl::Status run(Run& run) const override {
    std::vector<hlo::LiteralPtr> operands;
    for (size_t i = 0; i < slots_.operands.size(); ++i)
      operands.push_back(
          hlo::Literal::copy_of(slots_.operand_types[i], run.slots[slots_.operands[i]]->data()));
    absl::StatusOr<std::vector<hlo::LiteralPtr>> results = hlo::evaluate_node(*node_.node(), operands);
    if (!results.ok()) return results.status();
    if (absl::Status s = slots_.allocate_results(run); !s.ok()) return s;
    for (size_t i = 0; i < results->size(); ++i)
      if ((*results)[i]->bytes() > 0)
        std::memcpy(run.slots[slots_.results[i]]->data(), (*results)[i]->data(), (*results)[i]->bytes());
    return absl::OkStatus();
  }
  std::string describe() const override { return str_cat("evaluate ", node_.node()->def().name); }

 private:
  Value node_;
  NodeSlots slots_;
};

}  // namespace

std::unique_ptr<Step> make_native_step(const Node& node, const SlotOf& slot_of) {
  NativeOp op = native_op(node);
  if (!op.run) return nullptr;
  return std::make_unique<NativeStep>(node, std::move(op), slot_of);
}

absl::StatusOr<std::unique_ptr<Step>> make_library_step(Engine& engine, const Node& node,
                                                        const SlotOf& slot_of) {
  if (std::unique_ptr<Step> native = make_native_step(node, slot_of)) return native;
  switch (node.op()) {
    case Op::dot_general:
      return std::make_unique<DotStep>(engine, node, slot_of);
    case Op::convolution:
      return std::make_unique<ConvolutionStep>(engine, node, slot_of);
    case Op::while_:
    case Op::scan:
    case Op::case_:
      return make_control_step(engine, node, slot_of);
    default:
      return std::make_unique<EvaluateStep>(node, slot_of);
  }
}

}  // namespace lamina::jit
