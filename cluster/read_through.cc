#include "cluster/read_through.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "hlo/attributes.h"
#include "hlo/batching.h"
#include "hlo/known_limit.h"
#include "hlo/match.h"

namespace lamina::cluster {
namespace {

using hlo::Attr;
using hlo::Node;
using hlo::Op;
using hlo::Value;
namespace match = hlo::match;

// The bytes that a factor of 32 bits is made of by conversion. Routines multiply them four times as fast.
Value bytes_of(const Value& factor) {
  const Node& n = *factor.node();
  if (n.op() != Op::convert || !hlo::is_integer(factor.dtype()) || hlo::byte_size(factor.dtype()) != 4)
    return {};
  const Value from = n.operand_value(0);
  return from.dtype() == hlo::DType::kS8 || from.dtype() == hlo::DType::kU8 ? from : Value();
}

// Likewise the floats of one byte, all of which a factor of 16 or 32 bits holds.
Value float8_of(const Value& factor) {
  const Node& n = *factor.node();
  if (n.op() != Op::convert || !hlo::is_float(factor.dtype()) || hlo::is_narrow(factor.dtype()) ||
      factor.dtype() == hlo::DType::kF64)
    return {};
  const Value from = n.operand_value(0);
  return from.dtype() == hlo::DType::kF8E4M3FN || from.dtype() == hlo::DType::kF8E5M2 ? from : Value();
}

// The indices that `wrapped` is made of by adding `size` to the negative ones, in the same order in memory.
Value indices_from_end(const Value& wrapped, int64_t size) {
  Value v = wrapped;
  while (v.node()->op() == Op::reshape) v = v.node()->operand_value(0);
  if (v.dtype() != hlo::DType::kS32 && v.dtype() != hlo::DType::kS64) return {};
  if (size >> (hlo::bit_width(v.dtype()) - 1) != 0) return {};  // the sum wraps around
  Value is_negative, from_start, indices, compared;
  const auto from_end = match::op(Op::add, match::any(&indices), match::integer(size));
  if (!match::op(Op::select, match::any(&is_negative), from_end, match::any(&from_start))(v) ||
      !hlo::compares_with_zero(is_negative, "LT", &compared))
    return {};
  return compared == indices && from_start == indices ? indices : Value();
}

// What is transposed in its last two dimensions.
Value transposed_of(const Value& v) {
  const Node& n = *v.node();
  if (n.op() != Op::transpose) return {};
  hlo::Dims order = hlo::all_dims(v.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return n.attrs().ints(Attr::permutation) == order ? n.operand_value(0) : Value();
}
Value conjugate_of(const Value& v) {
  Value re, im;
  if (!match::op(Op::complex, match::op(Op::real, match::any(&re)),
                 match::op(Op::negate, match::op(Op::imag, match::any(&im))))(v))
    return {};
  return re == im ? re : Value();
}
// Of a call that solves: what its matrices are turned from.
Value turned_from(const Node& call) {
  static constexpr std::string_view kSolving[] = {"lamina.solve", "lamina.solve_lower", "lamina.solve_upper",
                                                  "lamina.solve_unit_lower", "lamina.solve_unit_upper"};
  if (std::ranges::find(kSolving, call.attrs().string(Attr::call_target_name)) == std::end(kSolving))
    return {};
  const Value from = transposed_of(call.operand_value(0));
  if (!from) return {};
  const Value inner = conjugate_of(from);
  return inner ? inner : from;
}

bool is_constant(const Value& v) { return v.node()->op() == Op::constant; }

}  // namespace

std::vector<Value> read_through(const Node& node, const Costs& costs) {
  std::vector<Value> out;
  for (size_t i = 0; i < node.operands().size(); ++i) out.push_back(node.operand_value(i));
  if (node.op() == Op::dot_general) {
    const bool is_float = hlo::is_float(node.type()->dtype);
    if (is_float ? !costs.reads_float8 || node.numerics() != hlo::Numerics::kFast : !costs.reads_bytes)
      return {};
    const auto read = is_float ? float8_of : bytes_of;
    const Value left = read(out[0]), right = read(out[1]);
    if (!left || !right || is_constant(left) || is_constant(right)) return {};
    const bool is_same = left.dtype() == right.dtype();
    if (is_float ? is_same && left.dtype() == hlo::DType::kF8E5M2 : !is_same) return {};
    return {left, right};
  }
  if (node.op() == Op::custom_call && costs.reads_turned) {
    const Value from = turned_from(node);
    if (!from || is_constant(from)) return {};
    out[0] = from;
    return out;
  }
  if ((node.op() == Op::gather || node.op() == Op::scatter) && costs.counts_from_end) {
    const hlo::Dims& map = node.attrs().ints(node.op() == Op::gather ? Attr::start_index_map
                                                                     : Attr::scatter_dims_to_operand_dims);
    if (map.size() != 1) return {};
    Value& indices = out[node.op() == Op::gather ? 1 : node.operands().size() / 2];
    const Value read = indices_from_end(indices, node.operand_type(0)->dims[map[0]]);
    if (!read || is_constant(read)) return {};
    indices = read;
    return out;
  }
  return {};
}

Turned turned(const Node& node, std::span<const Value> reads) {
  if (reads.empty() || node.op() != Op::custom_call) return Turned::kNo;
  return transposed_of(node.operand_value(0)) == reads[0] ? Turned::kTransposed : Turned::kAdjoint;
}

}  // namespace lamina::cluster
