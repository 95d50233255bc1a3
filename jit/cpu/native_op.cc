#include "jit/cpu/native_op.h"

#include "hlo/op.h"

namespace lamina::jit {
namespace {

struct Row {
  hlo::Op op;
  NativeOp (*make)(const hlo::Node&);
};

constexpr Row kRows[] = {
    {hlo::Op::concatenate, make_concatenate},
    {hlo::Op::custom_call, make_matrix_routine},
    {hlo::Op::dynamic_slice, make_dynamic_slice},
    {hlo::Op::dynamic_update_slice, make_dynamic_update_slice},
    {hlo::Op::gather, make_gather},
    {hlo::Op::scatter, make_scatter},
    {hlo::Op::reduce_window, make_reduce_window},
    {hlo::Op::select_and_scatter, make_select_and_scatter},
    {hlo::Op::sort, make_sort},
    {hlo::Op::cumsum, make_cumsum},
    {hlo::Op::pad, make_pad},
    {hlo::Op::rng_bit_generator, make_rng_bit_generator},
    {hlo::Op::scan, make_scan},
    {hlo::Op::transpose, make_transpose},
};

}  // namespace

bool has_native_op(hlo::Op op) {
  for (const Row& row : kRows)
    if (row.op == op) return true;
  return false;
}

NativeOp native_op(const hlo::Node& node) {
  for (const Row& row : kRows)
    if (row.op == node.op()) return row.make(node);
  return {};
}

}  // namespace lamina::jit
