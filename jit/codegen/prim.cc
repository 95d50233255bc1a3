#include "jit/codegen/prim.h"

#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/GlobalVariable.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/IntrinsicsX86.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "hlo/scalar/tables.h"

namespace lamina::jit::codegen {

using hlo::byte_size;
using hlo::is_bool;
using hlo::is_float;
using hlo::is_signed;
using hlo::is_storage_float;
using llvm::Constant;
using llvm::Type;
using llvm::Value;
using llvm::PatternMatch::m_APInt;
using llvm::PatternMatch::m_BitCast;
using llvm::PatternMatch::m_c_And;
using llvm::PatternMatch::m_c_Or;
using llvm::PatternMatch::m_Deferred;
using llvm::PatternMatch::m_LShr;
using llvm::PatternMatch::m_SpecificInt;
using llvm::PatternMatch::m_Sub;
using llvm::PatternMatch::m_Trunc;
using llvm::PatternMatch::m_Value;
using llvm::PatternMatch::m_Zero;

namespace {

// Bits of an integer that holds a value of type `t`.
unsigned register_width(DType t) { return is_bool(t) ? 1 : static_cast<unsigned>(byte_size(t)) * 8; }

bool is_same_in_all_lanes(Value* v) {
  return llvm::isa<Constant>(v) ? !v->getType()->isVectorTy() || llvm::cast<Constant>(v)->getSplatValue()
                                : llvm::getSplatValue(v) != nullptr;
}

// What AVX-512 has under one name for vectors of 128, 256 and 512 bits, of f32 and of f64.
struct Avx512 {
  llvm::Intrinsic::ID single[3], wide[3];
  llvm::Intrinsic::ID of(DType t, unsigned lanes) const {
    return (t == DType::kF32 ? single : wide)[lanes * byte_size(t) / 32];
  }
};
constexpr Avx512 kRange = {
    {llvm::Intrinsic::x86_avx512_mask_range_ps_128, llvm::Intrinsic::x86_avx512_mask_range_ps_256,
     llvm::Intrinsic::x86_avx512_mask_range_ps_512},
    {llvm::Intrinsic::x86_avx512_mask_range_pd_128, llvm::Intrinsic::x86_avx512_mask_range_pd_256,
     llvm::Intrinsic::x86_avx512_mask_range_pd_512}};
constexpr Avx512 kScale = {
    {llvm::Intrinsic::x86_avx512_mask_scalef_ps_128, llvm::Intrinsic::x86_avx512_mask_scalef_ps_256,
     llvm::Intrinsic::x86_avx512_mask_scalef_ps_512},
    {llvm::Intrinsic::x86_avx512_mask_scalef_pd_128, llvm::Intrinsic::x86_avx512_mask_scalef_pd_256,
     llvm::Intrinsic::x86_avx512_mask_scalef_pd_512}};
constexpr Avx512 kIsOfKind = {
    {llvm::Intrinsic::x86_avx512_fpclass_ps_128, llvm::Intrinsic::x86_avx512_fpclass_ps_256,
     llvm::Intrinsic::x86_avx512_fpclass_ps_512},
    {llvm::Intrinsic::x86_avx512_fpclass_pd_128, llvm::Intrinsic::x86_avx512_fpclass_pd_256,
     llvm::Intrinsic::x86_avx512_fpclass_pd_512}};

// The most of so many lanes that one vector of it has.
unsigned avx512_lanes(DType t, unsigned lanes) {
  return std::min(lanes, static_cast<unsigned>(64 / byte_size(t)));
}

// With all lanes on, in the rounding mode of the moment.
Value* emit_unmasked(llvm::IRBuilderBase& b, const Avx512& masked, DType t, llvm::ArrayRef<Value*> operands) {
  constexpr int kCurrentRounding = 4;
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(operands[0]->getType())->getNumElements();
  llvm::SmallVector<Value*, 6> all(operands);
  all.append({operands[0], Constant::getAllOnesValue(b.getIntNTy(std::max(lanes, 8U)))});
  if (lanes * byte_size(t) == 64) all.push_back(b.getInt32(kCurrentRounding));
  return b.CreateIntrinsic(masked.of(t, lanes), {}, all);
}

}  // namespace

Type* PrimEmitter::int_type(unsigned width, unsigned lanes) const {
  Type* t = llvm::IntegerType::get(b_.getContext(), width);
  return lanes == 1 ? t : llvm::FixedVectorType::get(t, lanes);
}

Type* PrimEmitter::type(DType t, unsigned lanes) const {
  Type* scalar = t == DType::kF32   ? b_.getFloatTy()
                 : t == DType::kF64 ? b_.getDoubleTy()
                                    : static_cast<Type*>(b_.getIntNTy(register_width(t)));
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

Type* PrimEmitter::memory_type(DType t, unsigned lanes) const {
  return is_bool(t) ? int_type(8, lanes) : type(t, lanes);
}

Value* PrimEmitter::to_memory(Value* value, DType t, unsigned lanes) {
  return is_bool(t) ? b_.CreateZExt(value, int_type(8, lanes)) : value;
}

Value* PrimEmitter::from_memory(Value* value, DType t, unsigned lanes) {
  return is_bool(t) ? b_.CreateTrunc(value, int_type(1, lanes)) : value;
}

Constant* PrimEmitter::int_constant(unsigned width, uint64_t value, unsigned lanes) const {
  if (width < 64) value &= (uint64_t{1} << width) - 1;
  return llvm::ConstantInt::get(int_type(width, lanes), value);
}

Constant* PrimEmitter::nan(DType t, unsigned lanes) const {
  return constant(t, t == DType::kF32 ? 0x7fc00000 : 0x7ff8000000000000, lanes);
}

Constant* PrimEmitter::constant(DType t, uint64_t bits, unsigned lanes) const {
  if (t == DType::kF32)
    return llvm::ConstantFP::get(
        type(t, lanes), llvm::APFloat(llvm::APFloat::IEEEsingle(), llvm::APInt(32, bits & 0xffffffffu)));
  if (t == DType::kF64)
    return llvm::ConstantFP::get(type(t, lanes),
                                 llvm::APFloat(llvm::APFloat::IEEEdouble(), llvm::APInt(64, bits)));
  return int_constant(register_width(t), bits, lanes);
}

Value* PrimEmitter::emit(Prim prim, DType result, const TypedValue* o, uint64_t imm, unsigned lanes) {
  switch (prim) {
    case Prim::constant:
      return constant(result, imm, lanes);
    case Prim::add:
    case Prim::sub:
    case Prim::mul:
    case Prim::div:
    case Prim::rem:
      return emit_arithmetic(prim, result, o[0].value, o[1].value, lanes);
    case Prim::fma:
      return b_.CreateIntrinsic(llvm::Intrinsic::fma, {type(result, lanes)},
                                {o[0].value, o[1].value, o[2].value});
    case Prim::scale:
      return emit_scale(result, o[0].value, o[1].value, lanes);
    case Prim::maximum:
    case Prim::minimum:
      return emit_extreme(prim == Prim::maximum, result, o[0].value, o[1].value, lanes);
    case Prim::neg:
      return is_float(result) ? b_.CreateFNeg(o[0].value) : b_.CreateNeg(o[0].value);
    case Prim::abs:
      if (is_float(result)) return b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, o[0].value);
      if (!is_signed(result)) return o[0].value;
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, o[0].value, b_.getFalse());
    case Prim::sqrt:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, o[0].value);
    case Prim::floor:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::floor, o[0].value);
    case Prim::ceil:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, o[0].value);
    case Prim::trunc:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, o[0].value);
    case Prim::round_even:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, o[0].value);
    case Prim::bit_and:
      return b_.CreateAnd(o[0].value, o[1].value);
    case Prim::bit_or:
      if (Value* either = emit_either_nan(o[0].value, o[1].value)) return either;
      return b_.CreateOr(o[0].value, o[1].value);
    case Prim::bit_xor:
      return b_.CreateXor(o[0].value, o[1].value);
    case Prim::bit_not:
      return b_.CreateNot(o[0].value);
    case Prim::shl:
    case Prim::shr_logical:
    case Prim::shr_arithmetic:
      return emit_shift(prim, result, o[0].value, o[1].value, lanes);
    case Prim::popcount:
      return b_.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, o[0].value);
    case Prim::count_leading_zeros:
      return b_.CreateBinaryIntrinsic(llvm::Intrinsic::ctlz, o[0].value, b_.getFalse());
    case Prim::mul_high:
      return emit_mul_high(result, o[0].value, o[1].value, lanes);
    case Prim::lookup:
      return emit_lookup(result, o[0].value, imm, lanes);
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
      if (Value* unusual = emit_unusual(prim, o[0].value, o[1].value, lanes)) return unusual;
      return emit_compare(prim, o[0].type, o[0].value, o[1].value);
    case Prim::select:
    case Prim::select_rare:
      if (Value* limited = emit_limit(o[0].value, o[1].value, o[2].value)) return limited;
      return b_.CreateSelect(o[0].value, o[1].value, o[2].value);
    case Prim::bitcast:
      return b_.CreateBitCast(o[0].value, type(result, lanes));
    case Prim::convert:
      return emit_convert(o[0].value, o[0].type, result, lanes);
  }
  return constant(result, 0, lanes);
}

Value* PrimEmitter::by_parts(llvm::ArrayRef<Value*> operands, unsigned at_once, const OfPart& f) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(operands[0]->getType())->getNumElements();
  if (lanes == at_once) return f(operands);
  llvm::SmallVector<Value*, 8> made;
  for (unsigned from = 0; from < lanes; from += at_once) {
    llvm::SmallVector<Value*, 2> parts;
    for (Value* o : operands)
      parts.push_back(b_.CreateExtractVector(
          llvm::FixedVectorType::get(o->getType()->getScalarType(), at_once), o, b_.getInt64(from)));
    made.push_back(f(parts));
  }
  return llvm::concatenateVectors(b_, made);
}

bool PrimEmitter::has_avx512(DType t, unsigned lanes) const {
  const auto bits = static_cast<unsigned>(lanes * byte_size(t) * 8);
  return native_.x86_bits == 512 && bits >= 128 && (bits & (bits - 1)) == 0;
}

// The greater or the smaller of two numbers, where -0 is below +0; of a NaN and a number the number
// (AVX512-DQ's VRANGE, whose immediate is the operation and where the sign comes from).
Value* PrimEmitter::emit_range(bool largest, DType t, Value* a, Value* b, unsigned lanes) {
  constexpr int kCompared = 1 << 2;
  return by_parts({a, b}, avx512_lanes(t, lanes), [&](llvm::ArrayRef<Value*> parts) {
    return emit_unmasked(b_, kRange, t, {parts[0], parts[1], b_.getInt32(kCompared | (largest ? 1 : 0))});
  });
}

// AVX-512's VSCALEF multiplies by 2^floor; elsewhere the bits of `counted` hold the sum of two biased
// exponents, above those of quarters in f32, whose powers are the factors: where the result is subnormal,
// only the second product rounds.
Value* PrimEmitter::emit_scale(DType t, Value* size, Value* counted, unsigned lanes) {
  const bool single = t == DType::kF32;
  Type* const real = type(t, lanes);
  if (has_avx512(t, lanes)) {
    const auto number = [&](double value) { return llvm::ConstantFP::get(real, value); };
    const double part = single ? 0.25 : 0.125, bias = single ? 0x1.8p23 + 4 * 254 : 0x1.8p52 + 8 * 2046;
    Value* power =
        b_.CreateIntrinsic(llvm::Intrinsic::fma, {real}, {counted, number(part), number(-bias * part)});
    return by_parts({size, power}, avx512_lanes(t, lanes),
                    [&](llvm::ArrayRef<Value*> parts) { return emit_unmasked(b_, kScale, t, parts); });
  }
  const unsigned width = register_width(t);
  Type* const bits = int_type(width, lanes);
  const auto power = [&](Value* twice) {
    Value* const exponent = b_.CreateLShr(twice, int_constant(width, 1, lanes));
    return b_.CreateBitCast(b_.CreateShl(exponent, int_constant(width, single ? 23 : 52, lanes)), real);
  };
  Value* both = b_.CreateLShr(b_.CreateBitCast(counted, bits), int_constant(width, single ? 2 : 3, lanes));
  Value* const scaled = b_.CreateFMul(power(both), size);
  return b_.CreateFMul(power(b_.CreateAdd(both, int_constant(width, 1, lanes))), scaled);
}

// The greater or the smaller of any number and one that is the same in all lanes. The comparison takes x
// where it is NaN, and of two zeros x, too: that is wrong only beside +0 of the greater (-0 of the smaller),
// and where `same` is NaN itself. What mends this is a function of `same` alone, which leaves other results
// as they are: it is computed before the loop, or known to do nothing.
Value* PrimEmitter::emit_bounded(bool largest, DType t, Value* x, Value* same, unsigned lanes) {
  Value* const inside = largest ? b_.CreateFCmpOGT(same, x) : b_.CreateFCmpOLT(same, x);
  Value* const bounded = b_.CreateSelect(inside, same, x);
  const unsigned width = register_width(t);
  Constant* const sign = int_constant(width, uint64_t{1} << (width - 1), lanes);
  Constant* const zero = int_constant(width, 0, lanes);
  Type* const bits = sign->getType();
  const auto where_nan = [&](Value* else_value) {
    return b_.CreateSelect(b_.CreateFCmpUNO(same, same), nan(t, lanes), else_value);
  };
  Value* const is_zero = b_.CreateICmpEQ(b_.CreateBitCast(same, bits), largest ? zero : sign);
  if (largest) {  // x + -0 is x, and -0 + +0 is +0
    Type* const real = type(t, lanes);
    Value* const added =
        b_.CreateSelect(is_zero, llvm::ConstantFP::get(real, 0.0), llvm::ConstantFP::get(real, -0.0));
    return b_.CreateFAdd(bounded, where_nan(added));
  }
  Value* const set = b_.CreateBitCast(b_.CreateSelect(is_zero, sign, zero), type(t, lanes));
  return b_.CreateBitCast(
      b_.CreateOr(b_.CreateBitCast(bounded, bits), b_.CreateBitCast(where_nan(set), bits)), type(t, lanes));
}

// Of equal operands, which differ at most in the sign of zero, the bits of both decide.
Value* PrimEmitter::emit_extreme(bool largest, DType t, Value* a, Value* b, unsigned lanes) {
  if (native_.nan_limits && t == DType::kF32)
    return b_.CreateBinaryIntrinsic(largest ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  if (is_same_in_all_lanes(b)) return emit_bounded(largest, t, a, b, lanes);
  if (is_same_in_all_lanes(a)) return emit_bounded(largest, t, b, a, lanes);
  Constant* nan = this->nan(t, lanes);
  if (has_avx512(t, lanes))
    return b_.CreateSelect(b_.CreateFCmpUNO(a, b), nan, emit_range(largest, t, a, b, lanes));
  Type* bits = int_type(register_width(t), lanes);
  Value *below = largest ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOLT(b, a),
        *above = largest ? b_.CreateFCmpOLT(b, a) : b_.CreateFCmpOLT(a, b);
  Value* first = b_.CreateBitCast(b_.CreateSelect(below, b, a), bits);
  Value* second = b_.CreateBitCast(b_.CreateSelect(above, a, b), bits);
  Value* both =
      b_.CreateBitCast(largest ? b_.CreateAnd(first, second) : b_.CreateOr(first, second), type(t, lanes));
  return b_.CreateSelect(b_.CreateFCmpUNO(a, b), nan, both);
}

// NaN is asked for two at a time, and passed over by the comparisons. These keep the first of equal zeros:
// the greatest is -0 where all values have its sign, the smallest where one has.
Value* PrimEmitter::emit_extremes(Prim prim, DType t, llvm::ArrayRef<Value*> values, unsigned lanes) {
  const bool largest = prim == Prim::maximum;
  Value* found = values[0];
  if (!is_float(t) || values.size() == 2 || native_.nan_limits) {
    for (Value* v : values.drop_front()) {
      const TypedValue two[] = {{found, t}, {v, t}};
      found = emit(prim, t, two, 0, lanes);
    }
    return found;
  }
  Value* has_nan = nullptr;
  for (size_t i = 0; i < values.size(); i += 2) {
    Value* one = b_.CreateFCmpUNO(values[i], values[std::min(i + 1, values.size() - 1)]);
    has_nan = has_nan ? b_.CreateOr(has_nan, one) : one;
  }
  if (has_avx512(t, lanes)) {
    for (Value* v : values.drop_front()) found = emit_range(largest, t, found, v, lanes);
  } else {
    Type* const bits = int_type(register_width(t), lanes);
    Value* signs = b_.CreateBitCast(found, bits);
    for (Value* v : values.drop_front()) {
      found = b_.CreateSelect(largest ? b_.CreateFCmpOGT(v, found) : b_.CreateFCmpOLT(v, found), v, found);
      Value* own = b_.CreateBitCast(v, bits);
      signs = largest ? b_.CreateAnd(signs, own) : b_.CreateOr(signs, own);
    }
    Constant* sign = int_constant(register_width(t), uint64_t{1} << (register_width(t) - 1), lanes);
    found = b_.CreateBitCast(found, bits);
    found = largest ? b_.CreateAnd(found, b_.CreateOr(signs, b_.CreateNot(sign)))
                    : b_.CreateOr(found, b_.CreateAnd(signs, sign));
    found = b_.CreateBitCast(found, type(t, lanes));
  }
  return b_.CreateSelect(has_nan, nan(t, lanes), found);
}

// x limited by a constant, x > c ? c : x or x < c ? c : x; null for anything else. Of zeros the sign would
// count, and of NaN the operand.
Value* PrimEmitter::emit_limit(Value* p, Value* a, Value* b) {
  auto* compare = llvm::dyn_cast<llvm::FCmpInst>(p);
  if (!native_.nan_limits || !compare || compare->getPredicate() != llvm::CmpInst::FCMP_OLT) return nullptr;
  if (!b->getType()->getScalarType()->isFloatTy()) return nullptr;
  auto* c = llvm::dyn_cast<Constant>(a);
  if (!c) return nullptr;
  if (c->getType()->isVectorTy()) c = c->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(c);
  if (!number || number->isZero() || number->isNaN()) return nullptr;
  Value *low = compare->getOperand(0), *high = compare->getOperand(1);
  if (low == a && high == b) return b_.CreateBinaryIntrinsic(llvm::Intrinsic::minimum, a, b);
  if (low == b && high == a) return b_.CreateBinaryIntrinsic(llvm::Intrinsic::maximum, a, b);
  return nullptr;
}

// One comparison for two questions whether a value is NaN; null for anything else.
Value* PrimEmitter::emit_either_nan(Value* a, Value* b) {
  const auto asked = [](Value* v) -> Value* {
    auto* compare = llvm::dyn_cast<llvm::FCmpInst>(v);
    if (!compare || compare->getPredicate() != llvm::CmpInst::FCMP_UNE) return nullptr;
    return compare->getOperand(0) == compare->getOperand(1) ? compare->getOperand(0) : nullptr;
  };
  Value *x = asked(a), *y = asked(b);
  return x && y && x->getType() == y->getType() ? b_.CreateFCmpUNO(x, y) : nullptr;
}

// Whether a float is no positive normal number, as the sign of (bits - least) | (greatest - bits) tells;
// null for anything else. AVX-512 has one instruction that asks for kinds of floats.
Value* PrimEmitter::emit_unusual(Prim prim, Value* masked, Value* zero, unsigned lanes) {
  if (native_.x86_bits != 512 || prim != Prim::ne || !match(zero, m_Zero())) return nullptr;
  Value* bits;
  const llvm::APInt *least, *greatest, *sign;
  if (!match(masked,
             m_c_And(m_c_Or(m_Sub(m_Value(bits), m_APInt(least)), m_Sub(m_APInt(greatest), m_Deferred(bits))),
                     m_APInt(sign))))
    return nullptr;
  Value* number;
  if (!match(bits, m_BitCast(m_Value(number)))) return nullptr;
  Type* const real = number->getType()->getScalarType();
  const bool single = real->isFloatTy();
  const DType t = single ? DType::kF32 : DType::kF64;
  if (!(single || real->isDoubleTy()) || !has_avx512(t, lanes)) return nullptr;
  const llvm::fltSemantics& form = real->getFltSemantics();
  if (!sign->isSignMask() || *least != llvm::APFloat::getSmallestNormalized(form).bitcastToAPInt() ||
      *greatest != llvm::APFloat::getLargest(form).bitcastToAPInt())
    return nullptr;
  constexpr int kEveryKind = 0xff;  // of which positive normal numbers are none
  return by_parts(number, avx512_lanes(t, lanes), [&](llvm::ArrayRef<Value*> parts) {
    return b_.CreateIntrinsic(kIsOfKind.of(t, avx512_lanes(t, lanes)), {},
                              {parts[0], b_.getInt32(kEveryKind)});
  });
}

Value* PrimEmitter::emit_arithmetic(Prim prim, DType t, Value* a, Value* b, unsigned lanes) {
  const bool f = is_float(t);
  switch (prim) {
    case Prim::add:
      return f ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case Prim::sub:
      return f ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case Prim::mul:
      return f ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case Prim::div:
      return f ? b_.CreateFDiv(a, b) : emit_divide(false, t, a, b, lanes);
    default:
      return emit_divide(true, t, a, b, lanes);
  }
}

namespace {

// The smallest number of the type that is no smaller in magnitude than one over a divisor that is known and
// the same in all lanes; null if it is not. Products with it are no smaller than the quotients, so that those
// that are integers do not fall below them, and at most two roundings larger.
Constant* inverse_of(Value* divisor, bool is_signed, Type* real) {
  auto* known = llvm::dyn_cast<Constant>(divisor);
  auto* same = known ? llvm::dyn_cast_or_null<llvm::ConstantInt>(known->getSplatValue()) : nullptr;
  if (!same || same->isZero() || same->isMinusOne()) return nullptr;  // that divides by something else
  const double d =
      is_signed ? static_cast<double>(same->getSExtValue()) : static_cast<double>(same->getZExtValue());
  const auto rounded_up = [&]<typename T>(T) {
    const T magnitude = static_cast<T>(std::abs(d));
    T inverse = T{1} / magnitude;
    if (std::fma(inverse, magnitude, T{-1}) < 0) inverse = std::nextafter(inverse, T{1});
    return static_cast<double>(std::copysign(inverse, static_cast<T>(d)));
  };
  return llvm::ConstantFP::get(real,
                               real->getScalarType()->isDoubleTy() ? rounded_up(0.0) : rounded_up(0.0F));
}

}  // namespace

// There is no vector integer division in hardware. Up to 32 bits the float quotient, truncated, is exact:
// with n-bit integers it differs from an integer by at least 1/b unless it is one, and its rounding error is
// below 2^n / b * 2^-p, where p > n. So is the product with the divisor's inverse (p > n + 1).
Value* PrimEmitter::emit_divide(bool remainder, DType t, Value* a, Value* b, unsigned lanes) {
  const unsigned width = register_width(t);
  Constant* one = int_constant(width, 1, lanes);
  Value* zero_divisor = b_.CreateICmpEQ(b, int_constant(width, 0, lanes));
  Value* replace = zero_divisor;
  if (is_signed(t)) {
    Value* overflows =
        b_.CreateAnd(b_.CreateICmpEQ(b, int_constant(width, ~uint64_t{0}, lanes)),
                     b_.CreateICmpEQ(a, int_constant(width, uint64_t{1} << (width - 1), lanes)));
    replace = b_.CreateOr(replace, overflows);
  }
  Value* divisor = b_.CreateSelect(replace, one, b);
  Value* quotient;
  if (width == 64 || lanes == 1) {
    quotient = is_signed(t) ? b_.CreateSDiv(a, divisor) : b_.CreateUDiv(a, divisor);
  } else {
    Type* real = width == 32 ? type(DType::kF64, lanes) : type(DType::kF32, lanes);
    const auto as_real = [&](Value* x) {
      return is_signed(t) ? b_.CreateSIToFP(x, real) : b_.CreateUIToFP(x, real);
    };
    Constant* inverse = inverse_of(b, is_signed(t), real);
    Value* q = inverse ? b_.CreateFMul(as_real(a), inverse) : b_.CreateFDiv(as_real(a), as_real(divisor));
    if (is_signed(t)) {
      quotient = b_.CreateTrunc(b_.CreateFPToSI(q, int_type(32, lanes)), int_type(width, lanes));
    } else {
      quotient = width == 32
                     ? b_.CreateFPToUI(q, int_type(32, lanes))
                     : b_.CreateTrunc(b_.CreateFPToSI(q, int_type(32, lanes)), int_type(width, lanes));
    }
  }
  if (!remainder) return b_.CreateSelect(zero_divisor, int_constant(width, ~uint64_t{0}, lanes), quotient);
  Value* rest = b_.CreateSub(a, b_.CreateMul(quotient, divisor));
  return b_.CreateSelect(zero_divisor, a, rest);
}

Value* PrimEmitter::emit_shift(Prim prim, DType t, Value* a, Value* b, unsigned lanes) {
  const unsigned width = register_width(t);
  Value* in_range = b_.CreateICmpULT(b, int_constant(width, width, lanes));
  Constant* most = int_constant(width, width - 1, lanes);
  if (prim == Prim::shr_arithmetic) return b_.CreateAShr(a, b_.CreateSelect(in_range, b, most));
  Value* amount = b_.CreateAnd(b, most);
  Value* shifted = prim == Prim::shl ? b_.CreateShl(a, amount) : b_.CreateLShr(a, amount);
  return b_.CreateSelect(in_range, shifted, int_constant(width, 0, lanes));
}

Value* PrimEmitter::emit_mul_high(DType t, Value* a, Value* b, unsigned lanes) {
  if (register_width(t) == 32) {
    Type* wide = int_type(64, lanes);
    Value* product = b_.CreateMul(b_.CreateZExt(a, wide), b_.CreateZExt(b, wide));
    return b_.CreateTrunc(b_.CreateLShr(product, int_constant(64, 32, lanes)), int_type(32, lanes));
  }
  Constant* low = int_constant(64, 0xffffffffu, lanes);
  Constant* half = int_constant(64, 32, lanes);
  Value* a0 = b_.CreateAnd(a, low);
  Value* a1 = b_.CreateLShr(a, half);
  Value* b0 = b_.CreateAnd(b, low);
  Value* b1 = b_.CreateLShr(b, half);
  Value* mid = b_.CreateAdd(b_.CreateMul(a1, b0), b_.CreateLShr(b_.CreateMul(a0, b0), half));
  Value* mid2 = b_.CreateAdd(b_.CreateMul(a0, b1), b_.CreateAnd(mid, low));
  return b_.CreateAdd(b_.CreateAdd(b_.CreateMul(a1, b1), b_.CreateLShr(mid, half)),
                      b_.CreateLShr(mid2, half));
}

namespace {

// After how many numbers a table begins anew, if no fewer than four.
template <typename T>
unsigned period_of(const T* numbers) {
  unsigned period = 4;
  while (!std::equal(numbers + period, numbers + hlo::scalar::kTableSize, numbers)) period *= 2;
  return period;
}

}  // namespace

// Of up to 16 lanes of a vector; `lanes` is 8 or 16. On AVX2 choosing from four numbers, which stays within
// 16 bytes, takes less than half the time of choosing from eight, and that less than half of choosing
// from 16.
Value* PrimEmitter::permute(const float* numbers, Value* place, unsigned lanes) {
  const unsigned period = period_of(numbers);
  const auto half = [&](int from) {
    return llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef(numbers + from, 8));
  };
  if (period == 4)
    return b_.CreateIntrinsic(
        lanes == 16 ? llvm::Intrinsic::x86_avx512_vpermilvar_ps_512
                    : llvm::Intrinsic::x86_avx_vpermilvar_ps_256,
        {}, {llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef(numbers, lanes)), place});
  if (lanes == 16)
    return b_.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_permvar_sf_512, {},
        {llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef(numbers, 16)), place});
  const auto picked = [&](int from) {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx2_permps, {}, {half(from), place});
  };
  if (period == 8) return picked(0);
  if (native_.x86_bits == 512)
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512_vpermi2var_ps_256, {}, {half(0), place, half(8)});
  Value* second = b_.CreateICmpSLT(b_.CreateShl(place, int_constant(32, 28, 8)), int_constant(32, 0, 8));
  return b_.CreateSelect(second, picked(8), picked(0));
}

// Of up to 8 lanes, from a table that begins anew after eight numbers; `lanes` is 4 or 8. AVX2 has it for
// 32 bits only, of which eight fit a vector: the halves of the numbers are two tables.
Value* PrimEmitter::permute(const double* numbers, Value* place, unsigned lanes) {
  if (lanes == 8)
    return b_.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_permvar_df_512, {},
        {llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef(numbers, lanes)), place});
  Value* places = b_.CreateShuffleVector(b_.CreateBitCast(place, int_type(32, 8)),
                                         llvm::ArrayRef<int>{0, 0, 2, 2, 4, 4, 6, 6});
  const auto half = [&](int shift) -> Value* {
    uint32_t words[8];
    for (int i = 0; i < 8; ++i)
      words[i] = static_cast<uint32_t>(std::bit_cast<uint64_t>(numbers[i]) >> shift);
    Constant* table = llvm::ConstantDataVector::get(b_.getContext(), llvm::ArrayRef(words));
    Type* floats = llvm::FixedVectorType::get(b_.getFloatTy(), 8);
    Value* of_floats = b_.CreateBitCast(table, floats);
    if (table->isNullValue()) return of_floats;
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx2_permps, {}, {of_floats, places});
  };
  Value* both = b_.CreateShuffleVector(half(0), half(32), llvm::ArrayRef<int>{0, 9, 2, 11, 4, 13, 6, 15});
  return b_.CreateBitCast(both, type(DType::kF64, 4));
}

Value* PrimEmitter::emit_lookup(DType t, Value* place, uint64_t number, unsigned lanes) {
  const void* const numbers = hlo::scalar::table(t, number);
  const auto permuted = [&](const auto* of_type, unsigned least) {
    const unsigned at_once = native_.x86_bits == 512 && lanes % (2 * least) == 0 ? 2 * least : least;
    return by_parts(place, at_once,
                    [&](llvm::ArrayRef<Value*> parts) { return permute(of_type, parts[0], at_once); });
  };
  const auto* doubles = t == DType::kF64 ? static_cast<const double*>(numbers) : nullptr;
  if (native_.x86_bits > 0 && !doubles && lanes % 8 == 0)
    return permuted(static_cast<const float*>(numbers), 8);
  if (native_.x86_bits > 0 && doubles && lanes % 4 == 0 && period_of(doubles) <= 8)
    return permuted(doubles, 4);
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  const std::string name = (doubles ? "table.f64." : "table.f32.") + std::to_string(number);
  llvm::GlobalVariable* table = module.getNamedGlobal(name);
  if (!table) {
    const llvm::StringRef bytes(static_cast<const char*>(numbers),
                                hlo::scalar::kTableSize * hlo::byte_size(t));
    Constant* values = llvm::ConstantDataArray::getRaw(bytes, hlo::scalar::kTableSize, type(t, 1));
    table =
        new llvm::GlobalVariable(module, values->getType(), true, llvm::GlobalValue::InternalLinkage, values,
                                 name, nullptr, llvm::GlobalValue::NotThreadLocal, native_.table_space);
    table->setAlignment(llvm::Align(64));
    table->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  }
  const auto at = [&](Value* one) {
    Value* low = b_.CreateZExt(b_.CreateAnd(one, hlo::scalar::kTableSize - 1), b_.getInt64Ty());
    llvm::LoadInst* load = b_.CreateLoad(type(t, 1), b_.CreateInBoundsGEP(type(t, 1), table, low));
    load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(b_.getContext(), {}));
    return load;
  };
  if (lanes == 1) return at(place);
  Value* all = llvm::PoisonValue::get(type(t, lanes));
  for (unsigned i = 0; i < lanes; ++i)
    all = b_.CreateInsertElement(all, at(b_.CreateExtractElement(place, i)), i);
  return all;
}

Value* PrimEmitter::emit_compare(Prim prim, DType t, Value* a, Value* b) {
  if (is_float(t)) {
    switch (prim) {
      case Prim::eq:
        return b_.CreateFCmpOEQ(a, b);
      case Prim::ne:
        return b_.CreateFCmpUNE(a, b);
      case Prim::lt:
        return b_.CreateFCmpOLT(a, b);
      default:
        return b_.CreateFCmpOLE(a, b);
    }
  }
  switch (prim) {
    case Prim::eq:
      return b_.CreateICmpEQ(a, b);
    case Prim::ne:
      return b_.CreateICmpNE(a, b);
    case Prim::lt:
      return is_signed(t) ? b_.CreateICmpSLT(a, b) : b_.CreateICmpULT(a, b);
    default:
      return is_signed(t) ? b_.CreateICmpSLE(a, b) : b_.CreateICmpULE(a, b);
  }
}

Value* PrimEmitter::emit_convert(Value* a, DType from, DType to, unsigned lanes) {
  if (from == to) return a;
  if (is_storage_float(from)) return emit_convert(half_to_f32(a, from, lanes), DType::kF32, to, lanes);
  if (is_bool(to)) {
    Constant* zero = constant(from, 0, lanes);
    return is_float(from) ? b_.CreateFCmpUNE(a, zero) : b_.CreateICmpNE(a, zero);
  }
  if (is_float(from) && is_float(to)) {
    if (to == DType::kF64) return b_.CreateFPExt(a, type(to, lanes));
    if (to == DType::kF32) return b_.CreateFPTrunc(a, type(to, lanes));
    return f32_to_half(from == DType::kF64 ? f64_to_f32_odd(a, lanes) : a, to, lanes);
  }
  if (is_float(from)) return float_to_int(a, from, to, lanes);
  if (is_float(to)) return int_to_float(a, from, to, lanes);
  // bool counts as an unsigned integer of one bit.
  return is_signed(from) ? b_.CreateSExtOrTrunc(a, type(to, lanes))
                         : b_.CreateZExtOrTrunc(a, type(to, lanes));
}

// Out-of-range conversions are poison in LLVM, so only values known to fit reach the instruction.
Value* PrimEmitter::float_to_int(Value* a, DType from, DType to, unsigned lanes) {
  const unsigned width = register_width(to);
  const bool sign = is_signed(to);
  Type* real = type(from, lanes);
  const double high = __builtin_ldexp(1.0, sign ? width - 1 : width);
  Constant* hi = llvm::ConstantFP::get(real, high);
  Constant* lo = llvm::ConstantFP::get(real, sign ? -high : 0.0);
  Value* above = b_.CreateFCmpOGE(a, hi);
  Value* fits = b_.CreateAnd(b_.CreateFCmpOGE(a, lo), b_.CreateFCmpOLT(a, hi));
  Value* safe = b_.CreateSelect(fits, a, constant(from, 0, lanes));
  Value* i;
  if (width < 32) {
    i = b_.CreateTrunc(b_.CreateFPToSI(safe, int_type(32, lanes)), int_type(width, lanes));
  } else {
    i = sign ? b_.CreateFPToSI(safe, int_type(width, lanes)) : b_.CreateFPToUI(safe, int_type(width, lanes));
  }
  const uint64_t largest = sign ? (uint64_t{1} << (width - 1)) - 1 : ~uint64_t{0};
  i = b_.CreateSelect(above, int_constant(width, largest, lanes), i);
  if (!sign) return i;
  return b_.CreateSelect(b_.CreateFCmpOLT(a, lo), int_constant(width, uint64_t{1} << (width - 1), lanes), i);
}

Value* PrimEmitter::int_to_float(Value* a, DType from, DType to, unsigned lanes) {
  const bool sign = is_signed(from);
  auto direct = [&](Value* v, DType t) {
    return sign ? b_.CreateSIToFP(v, type(t, lanes)) : b_.CreateUIToFP(v, type(t, lanes));
  };
  const unsigned width = register_width(from);
  if (to == DType::kF64 || to == DType::kF32) {
    if (width >= 32) return direct(a, to);
    // Narrow integers go through 32 bits, which every target converts.
    a = sign ? b_.CreateSExt(a, int_type(32, lanes)) : b_.CreateZExt(a, int_type(32, lanes));
    return b_.CreateSIToFP(a, type(to, lanes));
  }
  if (width < 32) return f32_to_half(int_to_float(a, from, DType::kF32, lanes), to, lanes);
  if (width == 64) {
    // Rounds to odd at 53 bits (bit 11 becomes sticky), so that the final rounding is the only one that
    // counts.
    Constant* low = int_constant(64, 0x7ff, lanes);
    Value* sticky = b_.CreateSelect(b_.CreateICmpNE(b_.CreateAnd(a, low), int_constant(64, 0, lanes)),
                                    int_constant(64, 0x800, lanes), int_constant(64, 0, lanes));
    Value* folded = b_.CreateOr(b_.CreateAnd(a, b_.CreateNot(low)), sticky);
    Constant* bound = int_constant(64, uint64_t{1} << 52, lanes);
    Value* exact = sign ? b_.CreateICmpULT(b_.CreateAdd(a, bound), int_constant(64, uint64_t{1} << 53, lanes))
                        : b_.CreateICmpULT(a, bound);
    a = b_.CreateSelect(exact, a, folded);
  }
  return f32_to_half(f64_to_f32_odd(direct(a, DType::kF64), lanes), to, lanes);
}

Value* PrimEmitter::half_to_f32(Value* a, DType from, unsigned lanes) {
  if (from == DType::kF16) {
    Type* half = lanes == 1 ? b_.getHalfTy() : llvm::FixedVectorType::get(b_.getHalfTy(), lanes);
    return b_.CreateFPExt(b_.CreateBitCast(a, half), type(DType::kF32, lanes));
  }
  // What was just rounded need not be packed and unpacked.
  Value *wide, *rounded;
  if (match(a, m_Trunc(m_LShr(m_Value(rounded), m_SpecificInt(16)))))
    wide = b_.CreateAnd(rounded, int_constant(32, 0xffff0000u, lanes));
  else
    wide = b_.CreateShl(b_.CreateZExt(a, int_type(32, lanes)), int_constant(32, 16, lanes));
  return b_.CreateBitCast(wide, type(DType::kF32, lanes));
}

Value* PrimEmitter::f32_to_half(Value* a, DType to, unsigned lanes) {
  if (native_.rounds_pairs && lanes == 1) {
    const llvm::Intrinsic::ID rounded =
        to == DType::kF16 ? llvm::Intrinsic::nvvm_ff2f16x2_rn : llvm::Intrinsic::nvvm_ff2bf16x2_rn;
    Value* pair = b_.CreateIntrinsic(rounded, {}, {llvm::ConstantFP::get(a->getType(), 0.0), a});
    return b_.CreateTrunc(b_.CreateBitCast(pair, b_.getInt32Ty()), b_.getInt16Ty());
  }
  if (to == DType::kF16) {
    Type* half = lanes == 1 ? b_.getHalfTy() : llvm::FixedVectorType::get(b_.getHalfTy(), lanes);
    return b_.CreateBitCast(b_.CreateFPTrunc(a, half), int_type(16, lanes));
  }
  Value* bits = b_.CreateBitCast(a, int_type(32, lanes));
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, int_constant(32, 16, lanes)), int_constant(32, 1, lanes));
  Value* rounded = b_.CreateAdd(bits, b_.CreateAdd(odd, int_constant(32, 0x7fff, lanes)));
  Value* kept = b_.CreateSelect(b_.CreateFCmpUNO(a, a), int_constant(32, 0x7fc00000u, lanes), rounded);
  return b_.CreateTrunc(b_.CreateLShr(kept, int_constant(32, 16, lanes)), int_type(16, lanes));
}

// Rounds to odd: an inexact result gets an odd last bit, so a following rounding to fewer bits is the only
// one.
Value* PrimEmitter::f64_to_f32_odd(Value* a, unsigned lanes) {
  Value* nearest = b_.CreateFPTrunc(a, type(DType::kF32, lanes));
  Value* back = b_.CreateFPExt(nearest, type(DType::kF64, lanes));
  Value* inexact = b_.CreateFCmpONE(back, a);
  Value* away = b_.CreateFCmpOGT(b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                 b_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a));
  Value* bits = b_.CreateBitCast(nearest, int_type(32, lanes));
  Constant* one = int_constant(32, 1, lanes);
  Value* toward_zero = b_.CreateSelect(away, b_.CreateSub(bits, one), bits);
  Value* result = b_.CreateSelect(inexact, b_.CreateOr(toward_zero, one), bits);
  return b_.CreateBitCast(result, type(DType::kF32, lanes));
}

}  // namespace lamina::jit::codegen
