// The only way to create nodes: infers the type, checks, folds where bits are preserved, deduplicates.
//
// Contract: methods return the new value. The first error sticks: later calls on null operands return null,
// and `status()` tells what went wrong, in words, with op, shapes and element types. Rules and passes build
// long expressions and check once. Operands must have matching types; broadcasting and promotion are the
// caller's.
#ifndef LAMINA_HLO_BUILDER_H_
#define LAMINA_HLO_BUILDER_H_

#include <functional>
#include <initializer_list>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "hlo/computation.h"
#include "hlo/graph.h"
#include "hlo/op.h"

namespace lamina::hlo {

struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
  std::string precision = {};
};

// Attributes of a convolution in StableHLO's terms; absent lists mean 1 (strides, dilations) or 0 (padding).
struct ConvDims {
  Dims window_strides, padding /* low, high per spatial dim */, lhs_dilation, rhs_dilation;
  int64_t input_batch = 0, input_feature = 1;
  Dims input_spatial;
  int64_t kernel_input_feature = 1, kernel_output_feature = 0;
  Dims kernel_spatial;
  int64_t output_batch = 0, output_feature = 1;
  Dims output_spatial;
  int64_t feature_groups = 1, batch_groups = 1;
  std::string precision;
};
ConvDims conv_dims(const Node& convolution);

struct WindowDims {
  Dims dimensions, strides, base_dilations, window_dilations, padding;
};

class Builder {
 public:
  absl::Status status() const { return status_; }
  bool ok() const { return status_.ok(); }
  // Records `status` if it is the first error; returns a null value.
  Value fail(absl::Status status);

  // Any op on nodes that somebody keeps alive; of several results the first.
  Value record(Op op, std::span<const Operand> operands, const Attrs* attrs = no_attrs());
  // The same on values, null ones included.
  Value make(Op op, std::span<const Value> operands, const Attrs* attrs = no_attrs());
  Values make_multi(Op op, std::span<const Value> operands, const Attrs* attrs);
  // The same op and attributes on other operands.
  Values remake(const Node& node, std::span<const Value> operands);

  Value constant(LiteralPtr literal);
  // A scalar constant of `dtype`.
  Value scalar(DType dtype, double value);
  Value scalar_int(DType dtype, int64_t value);
  // `value` in every element of `type`.
  Value full(const Type* type, double value);
  Value full_like(const Value& like, double value) { return like ? full(like.type(), value) : Value(); }
  Value zeros_like(const Value& like) { return full_like(like, 0); }
  Value zeros(const Type* type) { return full(type, 0); }

#define LAMINA_UNARY(name) \
  Value name(const Value& x) { return make(Op::name, {{x}}); }
#define LAMINA_BINARY(name) \
  Value name(const Value& x, const Value& y) { return make(Op::name, {{x, y}}); }
  LAMINA_UNARY(abs);
  LAMINA_UNARY(cosh);
  LAMINA_UNARY(cosine);
  LAMINA_UNARY(digamma);
  LAMINA_UNARY(exponential);
  LAMINA_UNARY(imag);
  LAMINA_UNARY(is_finite);
  LAMINA_UNARY(log);
  LAMINA_UNARY(log_plus_one);
  LAMINA_UNARY(logistic);
  LAMINA_UNARY(negate);
  LAMINA_UNARY(not_);
  LAMINA_UNARY(real);
  LAMINA_UNARY(rsqrt);
  LAMINA_UNARY(sign);
  LAMINA_UNARY(sine);
  LAMINA_UNARY(sinh);
  LAMINA_UNARY(sqrt);
  LAMINA_UNARY(tan);
  LAMINA_UNARY(tanh);
  LAMINA_UNARY(floor);
  LAMINA_UNARY(stop_gradient);
  LAMINA_BINARY(add);
  LAMINA_BINARY(and_);
  LAMINA_BINARY(atan2);
  LAMINA_BINARY(complex);
  LAMINA_BINARY(divide);
  LAMINA_BINARY(maximum);
  LAMINA_BINARY(minimum);
  LAMINA_BINARY(multiply);
  LAMINA_BINARY(or_);
  LAMINA_BINARY(power);
  LAMINA_BINARY(remainder);
  LAMINA_BINARY(subtract);
  LAMINA_BINARY(xor_);
  LAMINA_BINARY(shift_left);
  LAMINA_BINARY(shift_right_logical);
#undef LAMINA_UNARY
#undef LAMINA_BINARY
  // direction: EQ NE LT LE GT GE.
  Value compare(const Value& x, const Value& y, std::string_view direction);
  Value select(const Value& pred, const Value& on_true, const Value& on_false) {
    return make(Op::select, {{pred, on_true, on_false}});
  }
  Value convert(const Value& x, DType dtype);
  Value bitcast_convert(const Value& x, DType dtype);

  Value broadcast_in_dim(const Value& x, std::span<const int64_t> shape, std::span<const int64_t> dims);
  // A scalar spread over `shape`.
  Value broadcast_scalar(const Value& x, std::span<const int64_t> shape) {
    return broadcast_in_dim(x, shape, {});
  }
  Value reshape(const Value& x, std::span<const int64_t> shape);
  Value transpose(const Value& x, std::span<const int64_t> permutation);
  // Moves dimension `from` to position `to`.
  Value move_dim(const Value& x, int64_t from, int64_t to);
  Value reverse(const Value& x, std::span<const int64_t> dims);
  Value slice(const Value& x, std::span<const int64_t> start, std::span<const int64_t> limit,
              std::span<const int64_t> strides = {});
  Value pad(const Value& x, const Value& padding_value, std::span<const int64_t> low,
            std::span<const int64_t> high, std::span<const int64_t> interior = {});
  Value concatenate(std::span<const Value> xs, int64_t dimension);
  Value iota(DType dtype, std::span<const int64_t> shape, int64_t dimension);
  Value dynamic_slice(const Value& x, std::span<const Value> starts, std::span<const int64_t> sizes);
  Value dynamic_update_slice(const Value& x, const Value& update, std::span<const Value> starts);

  // Reduces dims with `body` (2m scalar parameters -> m results), m operands and m initial scalars.
  Values reduce(std::span<const Value> operands, std::span<const Value> inits, ComputationPtr body,
                std::span<const int64_t> dims);
  // With a binary elementwise op and the init given; e.g. (Op::add, 0).
  Value reduce(const Value& x, Op op, const Value& init, std::span<const int64_t> dims);
  Value reduce_sum(const Value& x, std::span<const int64_t> dims);
  Value cumsum(const Value& x, int64_t dimension, bool reverse = false);
  Value dot_general(const Value& lhs, const Value& rhs, const DotDims& dims);
  Value convolution(const Value& lhs, const Value& rhs, const ConvDims& dims);
  Values reduce_window(std::span<const Value> operands, std::span<const Value> inits, ComputationPtr body,
                       const WindowDims& window);

  Values while_loop(std::span<const Value> carries, ComputationPtr cond, ComputationPtr body);
  Values conditional(const Value& index, std::span<const ComputationPtr> branches,
                     std::span<const Value> operands);
  Values scan(ComputationPtr body, std::span<const Value> carries, std::span<const Value> xs, int64_t length,
              bool reverse);
  // A result that the body gives back as it got it is the operand, so that transforms see that it is.
  Values call(ComputationPtr body, std::span<const Value> operands);

  // The sum of two tangents or cotangents, either of which may be absent.
  Value add_any(const Value& x, const Value& y);

 private:
  // The constant that an op on constants amounts to; null if an operand is none.
  Value fold(const OpDef& def, const Type* type, std::span<const Type* const> types,
             std::span<const Operand> operands, const Attrs* attrs);

  absl::Status status_;
};

// Records a region with fresh parameters of `types`; `record` returns its results. Fails with the builder's
// error.
absl::StatusOr<ComputationPtr> record_region(
    std::span<const Type* const> types,
    const std::function<Values(Builder& b, std::span<const Value> parameters)>& record);
// (dtype[], dtype[]) -> op of both, as reductions use it.
ComputationPtr binary_region(Op op, DType dtype);

}  // namespace lamina::hlo

#endif  // LAMINA_HLO_BUILDER_H_
