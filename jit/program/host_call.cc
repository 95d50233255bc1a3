#include "jit/program/host_call.h"

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/strings.h"
#include "jit/program/node_slots.h"

namespace lamina::jit {
namespace {

class HostCall final : public Step {
 public:
  HostCall(const hlo::Node& n, const SlotOf& slot_of)
      : node_(const_cast<hlo::Node*>(&n)), slots_(n, slot_of) {}

  absl::Status enqueue(Frame& frame) const override {
    Stream& stream = frame.device.stream();
    std::vector<hlo::LiteralPtr> operands;
    for (size_t i = 0; i < slots_.operands.size(); ++i) {
      auto operand = std::make_shared<hlo::Literal>(slots_.operand_types[i]);
      if (absl::Status s = stream.read(frame.at[slots_.operands[i]], operand->bytes(), operand->data());
          !s.ok())
        return s;
      operands.push_back(std::move(operand));
    }
    absl::StatusOr<std::vector<hlo::LiteralPtr>> results = hlo::evaluate_node(*node_.node(), operands);
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < results->size(); ++i) {
      const hlo::Literal& result = *(*results)[i];
      if (absl::Status s = stream.write(frame.at[slots_.results[i]], result.data(), result.bytes()); !s.ok())
        return s;
    }
    return absl::OkStatus();
  }
  std::string describe() const override { return str_cat("evaluate ", node_.node()->def().name); }
  void place(const Placing& placing) override { slots_.place(placing.of_slot); }

 private:
  hlo::Value node_;
  NodeSlots slots_;
};

}  // namespace

std::unique_ptr<Step> make_host_call(const hlo::Node& node, const SlotOf& slot_of) {
  return std::make_unique<HostCall>(node, slot_of);
}

}  // namespace lamina::jit
