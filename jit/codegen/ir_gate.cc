#include "jit/codegen/ir_gate.h"

#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <string>

#include "jit/codegen/grid_lanes.h"

namespace lamina::jit::codegen {
namespace {

using llvm::Instruction;
using llvm::Type;

constexpr unsigned kOpcodes[] = {
    Instruction::Ret,
    Instruction::Br,
    Instruction::PHI,
    Instruction::Select,
    Instruction::ICmp,
    Instruction::FCmp,
    Instruction::Call,
    Instruction::FNeg,
    Instruction::Add,
    Instruction::Sub,
    Instruction::Mul,
    Instruction::UDiv,
    Instruction::SDiv,
    Instruction::Shl,
    Instruction::LShr,
    Instruction::AShr,
    Instruction::And,
    Instruction::Or,
    Instruction::Xor,
    Instruction::FAdd,
    Instruction::FSub,
    Instruction::FMul,
    Instruction::FDiv,
    Instruction::Trunc,
    Instruction::ZExt,
    Instruction::SExt,
    Instruction::FPTrunc,
    Instruction::FPExt,
    Instruction::FPToSI,
    Instruction::FPToUI,
    Instruction::SIToFP,
    Instruction::UIToFP,
    Instruction::BitCast,
    Instruction::PtrToInt,
    Instruction::Load,
    Instruction::Store,
    Instruction::Alloca,
    Instruction::GetElementPtr,
    Instruction::ExtractElement,
    Instruction::InsertElement,
};

constexpr llvm::Intrinsic::ID kIntrinsics[] = {
    llvm::Intrinsic::fma,
    llvm::Intrinsic::fabs,
    llvm::Intrinsic::sqrt,
    llvm::Intrinsic::floor,
    llvm::Intrinsic::ceil,
    llvm::Intrinsic::trunc,
    llvm::Intrinsic::roundeven,
    llvm::Intrinsic::minimum,
    llvm::Intrinsic::maximum,
    llvm::Intrinsic::abs,
    llvm::Intrinsic::ctpop,
    llvm::Intrinsic::ctlz,
    llvm::Intrinsic::smin,
    llvm::Intrinsic::smax,
    llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x,
    llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x,
    llvm::Intrinsic::nvvm_barrier0,
    llvm::Intrinsic::nvvm_shfl_sync_down_i32,
    llvm::Intrinsic::nvvm_shfl_sync_idx_i32,
    llvm::Intrinsic::nvvm_ff2f16x2_rn,
    llvm::Intrinsic::nvvm_ff2bf16x2_rn,
};

template <class List, class T>
bool has(const List& list, const T& value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

bool is_scalar(const Type* t) {
  if (t->isFloatTy() || t->isDoubleTy() || t->isHalfTy() || t->isBFloatTy() || t->isPointerTy()) return true;
  if (!t->isIntegerTy()) return false;
  const unsigned bits = t->getIntegerBitWidth();
  return bits == 1 || (bits >= 8 && bits <= 64 && (bits & (bits - 1)) == 0);
}

// Vectors are moved as they are, and taken apart at once.
bool is_moved_vector(const Type* t) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t);
  if (!vector || vector->getElementType()->isPointerTy() || !is_scalar(vector->getElementType()))
    return false;
  const uint64_t element = vector->getElementType()->getPrimitiveSizeInBits(),
                 all = element * vector->getNumElements();
  return element >= 32 && (all == 64 || all == 128);
}

// Two numbers of 16 bits in a register are made at once, and read as its bits.
bool is_pair(const Type* t) {
  const auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(t);
  return vector && vector->getNumElements() == 2 && vector->getScalarSizeInBits() == 16 &&
         vector->isFPOrFPVectorTy();
}

bool moves_vectors(unsigned opcode) {
  return opcode == Instruction::Load || opcode == Instruction::Store ||
         opcode == Instruction::ExtractElement || opcode == Instruction::InsertElement;
}

bool in_known_space(const Type* pointer, bool own_memory) {
  const unsigned space = pointer->getPointerAddressSpace();
  return space == kGlobalSpace || space == kSharedSpace || own_memory;
}

// What is wrong with it; null: nothing.
const char* access_fault(const llvm::Value* pointer, const Type* moved, llvm::Align align, bool simple) {
  if (!simple) return "an atomic access";
  const uint64_t bits = moved->getPrimitiveSizeInBits();
  if (bits < 8) return "an access of less than a byte";
  if (align.value() * 8 < bits) return "an access that is not aligned to its size";
  const bool own = llvm::isa<llvm::AllocaInst>(pointer->stripInBoundsOffsets());
  return in_known_space(pointer->getType(), own) ? nullptr : "memory of an unknown kind";
}

const char* call_fault(const llvm::CallInst& call) {
  const llvm::Function* callee = call.getCalledFunction();
  if (!callee) return call.isInlineAsm() ? "inline assembly" : "a call of a value";
  if (!callee->isIntrinsic())
    return callee->isDeclaration() ? "a call of a function that is not here" : nullptr;
  return has(kIntrinsics, callee->getIntrinsicID()) ? nullptr : "an intrinsic that is not on the list";
}

const char* fault(const Instruction& i) {
  const unsigned opcode = i.getOpcode();
  if (!has(kOpcodes, opcode)) return "an instruction that is not on the list";
  const auto known = [&](const Type* t) {
    return t->isVoidTy() || t->isLabelTy() || is_scalar(t) || (moves_vectors(opcode) && is_moved_vector(t)) ||
           ((opcode == Instruction::Call || opcode == Instruction::BitCast) && is_pair(t));
  };
  if (!known(i.getType())) return "a type that is not on the list";
  for (const llvm::Value* operand : i.operands())
    if (!llvm::isa<llvm::Function>(operand) && !operand->getType()->isMetadataTy() &&
        !known(operand->getType()))
      return "an operand of a type that is not on the list";
  if (const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i))
    return access_fault(load->getPointerOperand(), load->getType(), load->getAlign(),
                        load->getOrdering() == llvm::AtomicOrdering::NotAtomic);
  if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i))
    return access_fault(store->getPointerOperand(), store->getValueOperand()->getType(), store->getAlign(),
                        store->isSimple());
  if (const auto* call = llvm::dyn_cast<llvm::CallInst>(&i)) return call_fault(*call);
  // Halves are converted from and to f32, and nothing else.
  const bool half =
      i.getType()->isHalfTy() || (i.getNumOperands() > 0 && i.getOperand(0)->getType()->isHalfTy());
  if (!half) return nullptr;
  if (opcode == Instruction::BitCast) return nullptr;
  if (opcode == Instruction::FPExt) return i.getType()->isFloatTy() ? nullptr : "a conversion of f16";
  if (opcode == Instruction::FPTrunc)
    return i.getOperand(0)->getType()->isFloatTy() ? nullptr : "a conversion to f16";
  return "arithmetic of f16";
}

llvm::Error refuse(const llvm::Twine& what, const llvm::Twine& where) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                 "the code generator of the grid does not take " + what + ": " + where);
}

}  // namespace

llvm::Error pass_gate(const llvm::Module& module) {
  std::string words;
  llvm::raw_string_ostream stream(words);
  if (llvm::verifyModule(module, &stream)) return refuse("malformed IR", stream.str());
  if (!module.getModuleInlineAsm().empty()) return refuse("inline assembly", "of the module");
  for (const llvm::GlobalVariable& global : module.globals()) {
    const bool table = global.isConstant() && global.getAddressSpace() == kGlobalSpace;
    if ((!table && global.getAddressSpace() != kSharedSpace) || !global.hasInternalLinkage())
      return refuse("a global variable", global.getName());
  }
  for (const llvm::Function& function : module)
    for (const llvm::BasicBlock& block : function)
      for (const Instruction& i : block)
        if (const char* what = fault(i)) {
          i.print(stream);
          return refuse(what, stream.str());
        }
  return llvm::Error::success();
}

}  // namespace lamina::jit::codegen
