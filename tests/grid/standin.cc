#include "tests/grid/standin.h"

#include <llvm/ExecutionEngine/Orc/LLJIT.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/TargetSelect.h>

#include <map>
#include <utility>

#include "hlo/half.h"
#include "jit/codegen/grid_lanes.h"
#include "jit/codegen/nvptx.h"
#include "tests/grid/block.h"

namespace lamina::grid {
namespace {

using llvm::Value;

// ---- what generated code calls

void* checked(Block* block, uint64_t address, int64_t bytes, int64_t align, int32_t writes, int32_t shared) {
  return block->checked(address, bytes, align, writes != 0, shared != 0);
}
void barrier(Block* block, int32_t site) { block->barrier(site); }
uint32_t rounded_pair(float upper, float lower, int32_t brain) {
  const auto half = [&](float x) { return brain ? hlo::to_bf16(x).bits : hlo::to_f16(x).bits; };
  return static_cast<uint32_t>(half(upper)) << 16 | half(lower);
}
uint32_t shuffle(Block* block, int32_t site, int32_t down, uint32_t value, uint32_t operand,
                 uint32_t segments) {
  return block->shuffle(site, down != 0, value, operand, segments);
}

// ---- the same module for this machine

class Retarget {
 public:
  Retarget(llvm::Module& module, Block* block, Special* special)
      : module_(module), b_(module.getContext()), block_(block), special_(special) {}

  bool meets() const { return sites_ > 0; }

  void run() {
    if (llvm::NamedMDNode* notes = module_.getNamedMetadata("nvvm.annotations")) notes->eraseFromParent();
    std::vector<llvm::Function*> functions;
    for (llvm::Function& f : module_)
      if (!f.isDeclaration()) functions.push_back(&f);
    for (llvm::Function* f : functions) {
      f->removeFnAttr("target-cpu");
      f->removeFnAttr("target-features");
      std::vector<llvm::Instruction*> code;
      for (llvm::BasicBlock& block : *f)
        for (llvm::Instruction& i : block) code.push_back(&i);
      for (llvm::Instruction* i : code) change(*i);
    }
    for (llvm::GlobalVariable& global : llvm::make_early_inc_range(module_.globals()))
      if (!global.isConstant()) share(global);
    for (llvm::Function* f : functions)
      if (f->getCallingConv() == llvm::CallingConv::PTX_Kernel) {
        f->setCallingConv(llvm::CallingConv::C);
        make_call(*f);
      }
  }

  int64_t shared_bytes() const { return shared_bytes_; }

 private:
  Value* host(const void* pointer) {
    return b_.CreateIntToPtr(b_.getInt64(reinterpret_cast<uintptr_t>(pointer)), b_.getPtrTy());
  }
  Value* call(const void* function, llvm::Type* result, const std::vector<Value*>& arguments) {
    std::vector<llvm::Type*> types;
    for (Value* v : arguments) types.push_back(v->getType());
    return b_.CreateCall(llvm::FunctionType::get(result, types, false), host(function), arguments);
  }

  void change(llvm::Instruction& i) {
    b_.SetInsertPoint(&i);
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i)) {
      check(i, load->getPointerOperandIndex(), load->getType(), load->getAlign(), false);
    } else if (auto* store = llvm::dyn_cast<llvm::StoreInst>(&i)) {
      check(i, store->getPointerOperandIndex(), store->getValueOperand()->getType(), store->getAlign(), true);
    } else if (auto* known = llvm::dyn_cast<llvm::IntrinsicInst>(&i)) {
      Value* value = nullptr;
      switch (known->getIntrinsicID()) {
        case llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x:
          value = b_.CreateLoad(b_.getInt32Ty(), host(&special_->thread));
          break;
        case llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x:
          value = b_.CreateLoad(b_.getInt32Ty(), host(&special_->block));
          break;
        case llvm::Intrinsic::nvvm_barrier0:
          value =
              call(reinterpret_cast<void*>(&barrier), b_.getVoidTy(), {host(block_), b_.getInt32(++sites_)});
          break;
        case llvm::Intrinsic::nvvm_shfl_sync_down_i32:
        case llvm::Intrinsic::nvvm_shfl_sync_idx_i32:
          value = call(reinterpret_cast<void*>(&shuffle), b_.getInt32Ty(),
                       {host(block_), b_.getInt32(++sites_),
                        b_.getInt32(known->getIntrinsicID() == llvm::Intrinsic::nvvm_shfl_sync_down_i32),
                        known->getArgOperand(1), known->getArgOperand(2), known->getArgOperand(3)});
          break;
        case llvm::Intrinsic::nvvm_ff2f16x2_rn:
        case llvm::Intrinsic::nvvm_ff2bf16x2_rn: {
          const bool brain = known->getIntrinsicID() == llvm::Intrinsic::nvvm_ff2bf16x2_rn;
          value =
              b_.CreateBitCast(call(reinterpret_cast<void*>(&rounded_pair), b_.getInt32Ty(),
                                    {known->getArgOperand(0), known->getArgOperand(1), b_.getInt32(brain)}),
                               known->getType());
          break;
        }
        default:
          return;
      }
      if (!known->getType()->isVoidTy()) known->replaceAllUsesWith(value);
      known->eraseFromParent();
    }
  }

  void check(llvm::Instruction& i, unsigned operand, llvm::Type* moved, llvm::Align align, bool writes) {
    Value* pointer = i.getOperand(operand);
    const unsigned space = pointer->getType()->getPointerAddressSpace();
    if (space == 0) return;  // a thread's own
    if (const auto* table = llvm::dyn_cast<llvm::GlobalVariable>(pointer->stripInBoundsOffsets()))
      if (table->isConstant()) return;
    const auto bytes = static_cast<int64_t>(moved->getPrimitiveSizeInBits() / 8);
    Value* place = call(
        reinterpret_cast<void*>(&checked), b_.getPtrTy(),
        {host(block_), b_.CreatePtrToInt(pointer, b_.getInt64Ty()), b_.getInt64(static_cast<uint64_t>(bytes)),
         b_.getInt64(align.value()), b_.getInt32(writes), b_.getInt32(space == jit::codegen::kSharedSpace)});
    i.setOperand(operand, place);
    i.setMetadata(llvm::LLVMContext::MD_invariant_load, nullptr);
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(&i))
      load->setAlignment(llvm::Align(1));  // regions need not begin where the device's do
    else
      llvm::cast<llvm::StoreInst>(i).setAlignment(llvm::Align(1));
  }

  // Shared memory is addressed by offsets.
  void share(llvm::GlobalVariable& global) {
    const auto bytes = static_cast<int64_t>(module_.getDataLayout().getTypeAllocSize(global.getValueType()));
    global.replaceAllUsesWith(
        llvm::ConstantExpr::getIntToPtr(b_.getInt64(static_cast<uint64_t>(shared_bytes_)), global.getType()));
    global.eraseFromParent();
    shared_bytes_ += (bytes + 15) / 16 * 16;
  }

  // void call_ENTRY(const int64_t* parameters)
  void make_call(llvm::Function& entry) {
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy()}, false);
    auto* made = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage,
                                        "call_" + entry.getName().str(), module_);
    b_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", made));
    std::vector<Value*> parameters;
    for (llvm::Argument& a : entry.args()) {
      Value* at = b_.CreateConstGEP1_64(b_.getInt64Ty(), made->getArg(0), a.getArgNo());
      Value* word = b_.CreateLoad(b_.getInt64Ty(), at);
      parameters.push_back(a.getType()->isPointerTy() ? b_.CreateIntToPtr(word, a.getType()) : word);
    }
    b_.CreateCall(&entry, parameters);
    b_.CreateRetVoid();
  }

  llvm::Module& module_;
  llvm::IRBuilder<> b_;
  Block* block_;
  Special* special_;
  int32_t sites_ = 0;
  int64_t shared_bytes_ = 0;
};

absl::Status failed(llvm::Error error) { return absl::InternalError(llvm::toString(std::move(error))); }

// One for the test program, made when it is asked for.
llvm::Expected<llvm::orc::LLJIT*> linker() {
  static llvm::orc::LLJIT* made = nullptr;
  if (made) return made;
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  auto machine = llvm::orc::JITTargetMachineBuilder::detectHost();
  if (!machine) return machine.takeError();
  machine->getOptions().AllowFPOpFusion = llvm::FPOpFusion::Strict;
  machine->setCodeGenOptLevel(llvm::CodeGenOptLevel::None);
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(*machine)).create();
  if (!jit) return jit.takeError();
  return made = jit->release();
}

}  // namespace

struct StandIn::State {
  std::vector<jit::GridPart> parts;
  Special special;
  std::unique_ptr<Block> block;
  bool meets = false;
  std::vector<size_t> region_of;  // by buffer of the last run
  llvm::orc::LLJIT* jit = nullptr;
  llvm::orc::JITDylib* library = nullptr;

  // Addresses of the buffers; one memory has one.
  std::vector<int64_t> place(std::span<const Region> buffers, std::vector<Region> more);
  std::string launch(std::string_view entry, int64_t blocks, const std::vector<int64_t>& parameters,
                     std::mt19937_64* random);

  ~State() {
    if (library) llvm::consumeError(jit->getExecutionSession().removeJITDylib(*library));
  }
};

StandIn::StandIn(std::unique_ptr<State> state) : state_(std::move(state)) {}
StandIn::~StandIn() = default;
bool StandIn::meets() const { return state_->meets; }

std::vector<Traffic> StandIn::traffic() const {
  std::vector<Traffic> out;
  std::vector<Traffic> left = state_->block->traffic();
  for (size_t r : state_->region_of) out.push_back(std::exchange(left[r], {}));
  return out;
}

absl::StatusOr<std::unique_ptr<StandIn>> StandIn::make(const jit::LoopKernel& kernel,
                                                       const jit::GridSchedule& schedule,
                                                       void (*change)(llvm::Module&), const char* chip) {
  return make({{kernel, schedule}}, change, chip);
}

absl::StatusOr<std::unique_ptr<StandIn>> StandIn::make(std::vector<jit::GridPart> parts,
                                                       void (*change)(llvm::Module&), const char* chip) {
  auto state = std::make_unique<State>();
  state->parts = std::move(parts);
  auto jit = linker();
  if (!jit) return failed(jit.takeError());
  state->jit = *jit;
  auto context = std::make_unique<llvm::LLVMContext>();
  for (jit::GridPart& p : state->parts) drop_unused(p.kernel);
  auto machine = jit::codegen::grid_machine(chip);
  if (!machine) return absl::InternalError("no target machine for a grid");
  auto module = jit::codegen::emit_grid_module(state->parts, **machine, *context);
  if (!module) return failed(module.takeError());
  if (change) change(**module);
  (*module)->setTargetTriple(state->jit->getTargetTriple().str());
  (*module)->setDataLayout(state->jit->getDataLayout());
  // The block's address stands in the code, its memory is known after.
  constexpr int64_t kSharedBytes = 48 << 10;
  state->block = std::make_unique<Block>(state->special, kSharedBytes);
  Retarget retarget(**module, state->block.get(), &state->special);
  retarget.run();
  state->meets = retarget.meets();
  static int number = 0;
  auto library = state->jit->createJITDylib("grid" + std::to_string(number++));
  if (!library) return failed(library.takeError());
  state->library = &*library;
  llvm::orc::ThreadSafeModule given(std::move(*module), std::move(context));
  if (llvm::Error error = state->jit->addIRModule(*state->library, std::move(given)))
    return failed(std::move(error));
  return std::unique_ptr<StandIn>(new StandIn(std::move(state)));
}

std::vector<int64_t> StandIn::State::place(std::span<const Region> buffers, std::vector<Region> more) {
  std::vector<Region> regions;
  region_of.clear();
  for (const Region& b : buffers) {
    size_t r = 0;
    while (r < regions.size() && (regions[r].data != b.data || b.bytes == 0)) ++r;
    if (r == regions.size()) regions.push_back(b);
    regions[r].writable |= b.writable;
    regions[r].bytes = std::max(regions[r].bytes, b.bytes);
    region_of.push_back(r);
  }
  for (const Region& m : more) {
    region_of.push_back(regions.size());
    regions.push_back(m);
  }
  block->set_regions(regions);
  block->clear_fault();
  std::vector<int64_t> addresses;
  for (size_t r : region_of) addresses.push_back(static_cast<int64_t>(block->address_of(r)));
  return addresses;
}

std::string StandIn::State::launch(std::string_view entry, int64_t blocks,
                                   const std::vector<int64_t>& parameters, std::mt19937_64* random) {
  auto symbol = jit->lookup(*library, "call_" + std::string(entry));
  if (!symbol) return llvm::toString(symbol.takeError());
  auto* call = symbol->toPtr<void (*)(const int64_t*)>();
  std::vector<int32_t> order(static_cast<size_t>(blocks));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  if (random) std::shuffle(order.begin(), order.end(), *random);
  for (int32_t number : order) {
    block->run(
        number, meets, [&] { call(parameters.data()); }, random);
    if (!block->fault().empty()) return block->fault();
  }
  return "";
}

std::string StandIn::run(std::span<const Region> buffers, std::span<const int64_t> args, Seed seed) {
  State& s = *state_;
  const jit::LoopKernel& kernel = s.parts[0].kernel;
  const jit::GridSchedule& schedule = s.parts[0].schedule;
  const auto plan = jit::grid_plan(kernel, schedule, args);
  if (!plan.ok()) return std::string(plan.status().message());
  std::vector<char> scratch(static_cast<size_t>(plan->scratch_bytes), static_cast<char>(0xa7));
  int32_t stop = 0;
  const std::vector<int64_t> at = s.place(buffers, {{reinterpret_cast<char*>(&stop), sizeof(stop), false},
                                                    {scratch.data(), plan->scratch_bytes, true}});
  std::mt19937_64 random(seed);
  for (const jit::GridLaunch& launch : plan->launches) {
    std::vector<int64_t> parameters(at.begin(), at.begin() + static_cast<int64_t>(buffers.size()));
    parameters.insert(parameters.end(), args.begin(), args.end());
    if (holds_question(kernel)) parameters.push_back(at[buffers.size()]);
    if (has_partials(schedule))
      parameters.insert(parameters.end(), {at.back() + launch.from, at.back() + launch.to, launch.count});
    std::string fault = s.launch(launch.entry, launch.blocks, parameters, seed ? &random : nullptr);
    if (!fault.empty()) return fault;
  }
  return "";
}

std::string StandIn::run_chain(std::span<const Region> buffers, std::span<const int64_t> args, Rows rows,
                               Seed seed) {
  State& s = *state_;
  const std::vector<int64_t> at = s.place(buffers, {});
  std::vector<int64_t> parameters;
  size_t buffer = 0;
  for (const jit::GridPart& p : s.parts) {
    for (size_t i = 0; i < p.kernel.buffers.size(); ++i) parameters.push_back(at[buffer++]);
    const std::span<const int64_t> own = args.first(p.kernel.num_args);
    args = args.subspan(p.kernel.num_args);
    parameters.insert(parameters.end(), own.begin(), own.end());
    parameters.push_back(jit::chain_units(p.kernel, own, rows.rows));
  }
  parameters.insert(parameters.end(), {rows.rows, rows.block_rows});
  std::mt19937_64 random(seed);
  return s.launch(jit::kGridChain, (rows.rows + rows.block_rows - 1) / rows.block_rows, parameters,
                  seed ? &random : nullptr);
}

}  // namespace lamina::grid
