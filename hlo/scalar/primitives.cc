#include "hlo/scalar/primitives.h"

#include <string_view>

#include "hlo/scalar/tables.h"

namespace lamina::hlo {
namespace {

struct PrimInfo {
  const char* name;
  int arity;
};

constexpr PrimInfo kPrims[] = {
#define PRIM(name, arity, meaning) {#name, arity},
#include "hlo/scalar/primitives.def"
#undef PRIM
};

}  // namespace

int prim_arity(Prim p) { return kPrims[static_cast<int>(p)].arity; }
const char* prim_name(Prim p) { return kPrims[static_cast<int>(p)].name; }

std::string prim_fault(Prim prim, DType r, std::span<const DType> o, uint64_t imm) {
  auto no = [&](std::string_view why) {
    return std::string(prim_name(prim)).append(" of type ").append(info(r).name).append(": ").append(why);
  };
  const int arity = prim_arity(prim);
  if (o.size() != static_cast<size_t>(arity)) return no("another number of operands");
  for (int k = 0; k < arity; ++k)
    if (is_complex(o[k])) return no("an operand is complex");
  if (is_complex(r)) return no("the result is complex");
  auto same = [&](int from) {
    for (int k = from; k < arity; ++k)
      if (o[k] != r) return false;
    return true;
  };
  const bool held = prim == Prim::constant || prim == Prim::bitcast || is_select(prim);
  for (int k = 0; k < arity && !held; ++k)
    if (is_narrow(o[k])) return no("an operand is narrow");
  if (!held && is_narrow(r)) return no("the result is narrow");
  const bool real = is_float(r) && !is_storage_float(r);
  switch (prim) {
    case Prim::constant:
    case Prim::convert:
      return "";
    case Prim::add:
    case Prim::sub:
    case Prim::mul:
    case Prim::div:
    case Prim::neg:
    case Prim::abs:
      return same(0) && (real || is_integer(r)) ? "" : no("operands must be numbers of the result's type");
    case Prim::fma:
    case Prim::scale:
    case Prim::maximum:
    case Prim::minimum:
    case Prim::sqrt:
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round_even:
      return same(0) && real ? "" : no("operands must be f32 or f64 as the result");
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::bit_not:
      return same(0) && (is_integer(r) || is_bool(r)) ? "" : no("operands must be integers or pred");
    case Prim::rem:
    case Prim::shl:
    case Prim::shr_logical:
    case Prim::shr_arithmetic:
    case Prim::popcount:
    case Prim::count_leading_zeros:
      return same(0) && is_integer(r) ? "" : no("operands must be integers of the result's type");
    case Prim::mul_high:
      return same(0) && (r == DType::kU32 || r == DType::kU64) ? "" : no("operands must be u32 or u64");
    case Prim::lookup:
      if (o[0] != (r == DType::kF64 ? DType::kU64 : DType::kU32)) return no("takes u32 for f32, u64 for f64");
      return scalar::table(r, imm) ? "" : no("no such table");
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
      return is_bool(r) && o[0] == o[1] && !is_storage_float(o[0]) ? ""
                                                                   : no("gives pred from two of one type");
    case Prim::select:
    case Prim::select_rare:
      return is_bool(o[0]) && same(1) ? "" : no("takes pred and two of the result's type");
    case Prim::bitcast:
      return !is_bool(r) && !is_bool(o[0]) && byte_size(r) == byte_size(o[0]) ? "" : no("widths differ");
  }
  return "unknown primitive";
}

}  // namespace lamina::hlo
