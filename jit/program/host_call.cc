#include "jit/program/host_call.h"

#include "hlo/evaluator.h"
#include "hlo/op.h"
#include "hlo/strings.h"

namespace lamina::jit {
namespace {

class HostCall final : public Step {
 public:
  HostCall(const hlo::Node& n, const SlotOf& slot_of) : node_(const_cast<hlo::Node*>(&n)) {
    for (size_t i = 0; i < n.operands().size(); ++i) in_.push_back(slot_of(n.operand_value(i)));
    for (uint32_t i = 0; i < n.num_results(); ++i) out_.push_back(slot_of(hlo::Value(node_.node(), i)));
  }

  absl::Status enqueue(Frame& frame) const override {
    Stream& stream = frame.device.stream();
    std::vector<hlo::LiteralPtr> operands;
    for (size_t i = 0; i < in_.size(); ++i) {
      auto operand = std::make_shared<hlo::Literal>(node_.node()->operand_type(i));
      if (absl::Status s = stream.read(frame.at[in_[i]], operand->bytes(), operand->data()); !s.ok())
        return s;
      operands.push_back(std::move(operand));
    }
    absl::StatusOr<std::vector<hlo::LiteralPtr>> results = hlo::evaluate_node(*node_.node(), operands);
    if (!results.ok()) return results.status();
    for (size_t i = 0; i < results->size(); ++i) {
      const hlo::Literal& result = *(*results)[i];
      if (absl::Status s = stream.write(frame.at[out_[i]], result.data(), result.bytes()); !s.ok()) return s;
    }
    return absl::OkStatus();
  }
  std::string describe() const override { return str_cat("evaluate ", node_.node()->def().name); }
  void place(const Placing& placing) override {
    for (int& i : in_) i = placing.of_slot[i];
    for (int& o : out_) o = placing.of_slot[o];
  }

 private:
  hlo::Value node_;
  std::vector<int> in_, out_;  // slots, then places
};

}  // namespace

std::unique_ptr<Step> make_host_call(const hlo::Node& node, const SlotOf& slot_of) {
  return std::make_unique<HostCall>(node, slot_of);
}

}  // namespace lamina::jit
