#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "hlo/isa.h"
#include "hlo/scalar/check.h"
#include "hlo/scalar/kernels.h"
#include "hlo/scalar/program.h"
#include "hlo/scalar/schedule.h"
#include "hlo/scalar/tables.h"

namespace lamina::hlo {
namespace {

constexpr int64_t kBlock = 256;

// One instruction ready to run on slots; without a kernel, a guard: where in[0] holds nowhere, `guarded`
// steps are left out.
struct SlotInstr {
  ScalarKernel kernel = nullptr;
  uint32_t out = 0;
  uint32_t in[3] = {0, 0, 0};
  uint32_t guarded = 0;
  const void* table = nullptr;  // in place of in[1]
};

std::vector<Scheduled> schedule_of(const ScalarProgram& program) {
  const size_t num_inputs = program.inputs.size();
  std::vector<ScheduleInput> code(program.code.size());
  std::vector<bool> wanted(program.code.size(), false);
  for (size_t i = 0; i < program.code.size(); ++i) {
    const ScalarInstr& instr = program.code[i];
    for (int k = 0; k < prim_arity(instr.prim); ++k)
      if (instr.operands[k] >= num_inputs)
        code[i].operands.push_back(static_cast<uint32_t>(instr.operands[k] - num_inputs));
    if (instr.prim == Prim::select_rare && instr.operands[1] >= num_inputs)
      code[i].rare_operand = static_cast<int32_t>(instr.operands[1] - num_inputs);
  }
  for (uint32_t o : program.outputs)
    if (o >= num_inputs) wanted[o - num_inputs] = true;
  return schedule(code, wanted);
}

}  // namespace

// Where every value lives during a block. Slots are recycled after a value's last use, so that the scratch
// area of a long program stays in the first-level cache; constants keep theirs and are filled once.
class PreparedProgram::Layout {
 public:
  explicit Layout(ScalarProgram owned) : program_(std::move(owned)) {
    const ScalarProgram& program = program_;
    const size_t num_inputs = program.inputs.size();
    const size_t num_values = num_inputs + program.code.size();
    constexpr size_t kForever = SIZE_MAX;
    const std::vector<Scheduled> order = schedule_of(program);
    std::vector<size_t> last_use(num_values, 0);  // positions in `order`
    for (size_t at = 0; at < order.size(); ++at) {
      if (order[at].guarded) continue;
      const ScalarInstr& instr = program.code[order[at].instr];
      for (int k = 0; k < prim_arity(instr.prim); ++k) last_use[instr.operands[k]] = at;
    }
    for (size_t i = 0; i < program.code.size(); ++i)
      if (program.code[i].prim == Prim::constant) last_use[num_inputs + i] = kForever;
    for (uint32_t o : program.outputs) last_use[o] = kForever;

    slot_.assign(num_values, 0);
    std::vector<uint32_t> unused;
    auto take = [&] {
      if (unused.empty()) return num_slots_++;
      const uint32_t slot = unused.back();
      unused.pop_back();
      return slot;
    };
    // Inputs are copied in: an output array may be an input's array.
    for (size_t v = 0; v < num_inputs; ++v) slot_[v] = take();
    // Constants before anything else: they are filled once, so no other value may pass through their slots.
    for (size_t i = 0; i < program.code.size(); ++i)
      if (program.code[i].prim == Prim::constant) slot_[num_inputs + i] = take();
    for (size_t i = 0; i < order.size(); ++i) {
      const ScalarInstr& instr = program.code[order[i].instr];
      const uint32_t value = static_cast<uint32_t>(num_inputs + order[i].instr);
      if (instr.prim == Prim::constant) continue;
      if (order[i].guarded) {
        // Constants take no step, so the length is counted in steps.
        uint32_t steps = 0;
        for (size_t k = i + 1; k <= i + order[i].guarded; ++k)
          steps += program.code[order[k].instr].prim != Prim::constant;
        if (steps > 0) steps_.push_back({.in = {slot_[instr.operands[0]], 0, 0}, .guarded = steps});
        continue;
      }
      slot_[value] = take();
      const DType operand = program.type_of(instr.operands[is_select(instr.prim) ? 1 : 0]);
      SlotInstr step{.kernel = find_kernel(instr.prim, instr.type, operand), .out = slot_[value]};
      LAMINA_SCALAR_CHECK(step.kernel != nullptr,
                          std::string(prim_name(instr.prim)) + " does not exist for these types");
      const int arity = prim_arity(instr.prim);
      for (int k = 0; k < arity; ++k) step.in[k] = slot_[instr.operands[k]];
      if (instr.prim == Prim::lookup) step.table = scalar::table(instr.type, instr.imm);
      steps_.push_back(step);
      for (int k = 0; k < arity; ++k) {
        const uint32_t v = instr.operands[k];
        const bool repeated = (k > 0 && instr.operands[0] == v) || (k > 1 && instr.operands[1] == v);
        if (v >= num_inputs && last_use[v] == i && !repeated) unused.push_back(slot_[v]);
      }
    }
  }

  // `self` is this layout, for the scratch to hold.
  void run(const std::shared_ptr<const Layout>& self, std::span<const void* const> inputs,
           std::span<void* const> outputs, int64_t count, Scratch& scratch) const {
    if (scratch.ready_for_ != self || scratch.elements_ < std::min(count, kBlock)) {
      // Whole blocks from the second size on.
      scratch.elements_ = scratch.ready_for_ == self || count >= kBlock ? kBlock : (count + 7) / 8 * 8;
      const size_t slot_bytes = static_cast<size_t>(scratch.elements_) * 8;
      scratch.bytes_.reset(new (std::align_val_t{64}) std::byte[(num_slots_ + 1) * slot_bytes]);
      scratch.slots_.resize(num_slots_ + 1);
      for (size_t s = 0; s <= num_slots_; ++s) scratch.slots_[s] = scratch.bytes_.get() + s * slot_bytes;
      fill_constants(scratch.slots_, scratch.elements_);
      scratch.ready_for_ = self;
    }
    const std::vector<std::byte*>& at = scratch.slots_;

    for (int64_t start = 0; start < count; start += kBlock) {
      const int64_t n = count - start < kBlock ? count - start : kBlock;
      for (size_t i = 0; i < inputs.size(); ++i) {
        const size_t width = static_cast<size_t>(byte_size(program_.inputs[i]));
        std::memcpy(at[slot_[i]], static_cast<const std::byte*>(inputs[i]) + start * width, n * width);
      }
      for (size_t i = 0; i < steps_.size(); ++i) {
        const SlotInstr& s = steps_[i];
        if (s.kernel)
          s.kernel(at[s.out], at[s.in[0]], s.table ? s.table : at[s.in[1]], at[s.in[2]], n);
        else if (!std::memchr(at[s.in[0]], 1, static_cast<size_t>(n)))
          i += s.guarded;
      }
      for (size_t i = 0; i < outputs.size(); ++i) {
        const uint32_t value = program_.outputs[i];
        const size_t width = static_cast<size_t>(byte_size(program_.type_of(value)));
        std::memcpy(static_cast<std::byte*>(outputs[i]) + start * width, at[slot_[value]], n * width);
      }
    }
  }

  const ScalarProgram& program() const { return program_; }

 private:
  void fill_constants(const std::vector<std::byte*>& at, int64_t elements) const {
    const size_t num_inputs = program_.inputs.size();
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const ScalarInstr& instr = program_.code[i];
      if (instr.prim != Prim::constant) continue;
      std::byte* to = at[slot_[num_inputs + i]];
      const size_t width = static_cast<size_t>(byte_size(instr.type));
      for (int64_t k = 0; k < elements; ++k) std::memcpy(to + k * width, &instr.imm, width);
    }
  }

  const ScalarProgram program_;
  std::vector<uint32_t> slot_;
  std::vector<SlotInstr> steps_;
  uint32_t num_slots_ = 0;
};

ScalarKernel find_kernel(Prim prim, DType result, DType operand) {
#if defined(__x86_64__)
  if (best_isa() >= Isa::kAvx2) return kernels_fma::find_kernel(prim, result, operand);
#endif
  return kernels_baseline::find_kernel(prim, result, operand);
}

PreparedProgram::PreparedProgram(ScalarProgram program)
    : layout_(std::make_shared<Layout>(std::move(program))) {}

const ScalarProgram& PreparedProgram::program() const { return layout_->program(); }

void PreparedProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs, int64_t count,
                          Scratch& scratch) const {
  LAMINA_SCALAR_CHECK(inputs.size() == program().inputs.size(), "wrong number of inputs");
  LAMINA_SCALAR_CHECK(outputs.size() == program().outputs.size(), "wrong number of outputs");
  if (count > 0) layout_->run(layout_, inputs, outputs, count, scratch);
}

void PreparedProgram::run(std::span<const void* const> inputs, std::span<void* const> outputs,
                          int64_t count) const {
  Scratch scratch;
  run(inputs, outputs, count, scratch);
}

PreparedProgram::Scratch::Scratch() = default;
PreparedProgram::Scratch::~Scratch() = default;
PreparedProgram::Scratch::Scratch(Scratch&&) noexcept = default;
PreparedProgram::Scratch& PreparedProgram::Scratch::operator=(Scratch&&) noexcept = default;

void interpret(const ScalarProgram& program, std::span<const void* const> inputs,
               std::span<void* const> outputs, int64_t count) {
  PreparedProgram(program).run(inputs, outputs, count);
}

}  // namespace lamina::hlo
