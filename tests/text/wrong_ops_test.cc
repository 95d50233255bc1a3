// Every constraint that type inference checks, broken once: what the message says. The constraints are those
// of the StableHLO specification; the text form is ours, whose reader infers types like every other way of
// making operations.
#include <catch2/catch.hpp>

#include "hlo/parser.h"
#include "hlo/strings.h"

namespace lamina::hlo {
namespace {

struct Wrong {
  std::string_view parameters;  // types
  std::string_view op;          // op(p0, p1), attributes
  std::string_view message;     // behind "line:column: op: "
};

constexpr std::string_view kRegions = R"(computation add(p0: f32[], p1: f32[]) -> (f32[]) {
  v0 = f32[] add(p0, p1)
  return (v0)
}
computation add_s32(p0: s32[], p1: s32[]) -> (s32[]) {
  v0 = s32[] add(p0, p1)
  return (v0)
}
computation ge(p0: f32[], p1: f32[]) -> (pred[]) {
  v0 = pred[] compare(p0, p1), direction="GE"
  return (v0)
}
computation one(p0: f32[]) -> (f32[]) {
  v0 = f32[] negate(p0)
  return (v0)
}
computation two(p0: f32[]) -> (f32[], f32[]) {
  v0 = f32[] negate(p0)
  return (v0, p0)
}
computation test(p0: f32[]) -> (pred[]) {
  v0 = f32[] constant(0)
  v1 = pred[] compare(p0, v0), direction="GT"
  return (v1)
}
)";

std::string message_of(const Wrong& w) {
  std::string parameters;
  int n = 0;
  std::string_view rest = w.parameters;
  while (!rest.empty()) {
    const size_t end = rest.find("; ");
    str_append(&parameters, n == 0 ? "" : ", ", "p", n, ": ", rest.substr(0, end));
    ++n;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 2);
  }
  // A result type is needed for the signature alone; inference comes first.
  const std::string text = str_cat(kRegions, "computation main(", parameters, ") -> (f32[]) {\n  v0 = ", w.op,
                                   "\n  return (v0)\n}\n");
  const auto parsed = parse(text);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

constexpr Wrong kElementwise[] = {
    {"f32[2]; f32[3]", "add(p0, p1)", "shapes [2] and [3] differ"},
    {"f32[2]; f64[2]", "add(p0, p1)", "element types f32 and f64 differ"},
    {"f32[2]; f32[2,1]", "multiply(p0, p1)", "shapes [2] and [2,1] differ"},
    {"pred[2]", "negate(p0)", "is defined for"},
    {"s32[2]", "sqrt(p0)", "is defined for"},
    {"c64[2]", "floor(p0)", "is defined for float elements, not c64"},
    {"f32[2]", "not(p0)", "is defined for"},
    {"f32[2]", "popcnt(p0)", "is defined for"},
    {"f32[2]; f32[2]", "shift_left(p0, p1)", "is defined for"},
    {"s32[2]", "is_finite(p0)", "is defined for float elements, not s32"},
    {"s32[2]; s32[2]", "complex(p0, p1)", "is defined for float elements, not s32"},
    {"f16[2]; f16[2]", "complex(p0, p1)", "needs f32 or f64 parts, not f16"},
    {"f32[2]; f64[2]", "complex(p0, p1)", "element types f32 and f64 differ"},
    {"f32[2]; f32[2]", "compare(p0, p1), direction=\"XX\"",
     "direction must be EQ, NE, LT, LE, GT or GE, not 'XX'"},
    {"f32[2]; f32[2]", "compare(p0, p1), direction=\"LT\", compare_type=\"SIGNED\"",
     "compare_type must be absent or TOTALORDER, not 'SIGNED'"},
    {"s32[2]; s32[2]", "compare(p0, p1), direction=\"LT\", compare_type=\"TOTALORDER\"",
     "TOTALORDER is for float elements"},
    {"c64[2]; c64[2]", "compare(p0, p1), direction=\"LT\"", "complex values have no order"},
    {"f32[2]; f32[3]", "compare(p0, p1), direction=\"LT\"", "shapes [2] and [3] differ"},
    {"f32[2]", "bitcast_convert(p0), dtype=s16", "cannot see f32 elements as s16: the widths differ"},
    {"c64[2]", "bitcast_convert(p0), dtype=s64", "is defined for"},
    {"f32[2]", "reduce_precision(p0), exponent_bits=0, mantissa_bits=3", "exponent_bits must lie in 1..11"},
    {"f32[2]", "reduce_precision(p0), exponent_bits=4, mantissa_bits=-1",
     "mantissa_bits in 0..52, not 4 and -1"},
    {"s32[2]", "reduce_precision(p0), exponent_bits=4, mantissa_bits=3", "is defined for float elements"},
    {"f32[2]; f32[2]; f32[2]", "select(p0, p1, p2)", "the condition must be pred, not f32"},
    {"pred[3]; f32[2]; f32[2]", "select(p0, p1, p2)",
     "the condition's shape [3] differs from the values' [2]"},
    {"pred[2]; f32[2]; s32[2]", "select(p0, p1, p2)", "element types f32 and s32 differ"},
    {"f32[2]; f32[3]; f32[2]", "clamp(p0, p1, p2)", "differ"},
};

constexpr Wrong kShape[] = {
    {"f32[2]", "broadcast_in_dim(p0), shape=[2,3], broadcast_dimensions=[1]",
     "dimension 0 of size 2 cannot be spread over size 3 of [2,3]"},
    {"f32[2]", "broadcast_in_dim(p0), shape=[2,3], broadcast_dimensions=[2]", "must lie in 0..1 for rank 2"},
    {"f32[2]", "broadcast_in_dim(p0), shape=[2,3]", "has 0 entries where 1 are needed"},
    {"f32[2,2]", "broadcast_in_dim(p0), shape=[2,2], broadcast_dimensions=[0,0]", "names dimension 0 twice"},
    {"f32[6]", "reshape(p0), shape=[4]", "cannot give 6 elements the shape [4] of 4"},
    {"f32[6]", "reshape(p0), shape=[-6]", "-6"},
    {"f32[2,3]", "transpose(p0), permutation=[0]", "has 1 entries where 2 are needed"},
    {"f32[2,3]", "transpose(p0), permutation=[0,0]", "names dimension 0 twice"},
    {"f32[2,3]", "transpose(p0), permutation=[0,2]", "must lie in 0..1 for rank 2"},
    {"f32[2,3]", "reverse(p0), dimensions=[2]", "must lie in 0..1 for rank 2"},
    {"f32[2,3]", "reverse(p0), dimensions=[1,1]", "names dimension 1 twice"},
    {"f32[4]", "slice(p0), start_indices=[-1], limit_indices=[2], strides=[1]",
     "the range -1:2 of dimension 0 is not within its size 4"},
    {"f32[4]", "slice(p0), start_indices=[3], limit_indices=[2], strides=[1]", "the range 3:2"},
    {"f32[4]", "slice(p0), start_indices=[0], limit_indices=[5], strides=[1]", "is not within its size 4"},
    {"f32[4]", "slice(p0), start_indices=[0], limit_indices=[4], strides=[0]",
     "stride 0 of dimension 0 must be at least 1"},
    {"f32[4]", "slice(p0), start_indices=[0,0], limit_indices=[4], strides=[1]",
     "has 2 entries where 1 are needed"},
    {"f32[4]; s32[]", "pad(p0, p1), edge_padding_low=[0], edge_padding_high=[0], interior_padding=[0]",
     "the padding value must be f32[], not s32[]"},
    {"f32[4]; f32[1]", "pad(p0, p1), edge_padding_low=[0], edge_padding_high=[0], interior_padding=[0]",
     "the padding value must be f32[], not f32[1]"},
    {"f32[4]; f32[]", "pad(p0, p1), edge_padding_low=[0,1], edge_padding_high=[0], interior_padding=[0]",
     "has 2 entries where 1 are needed"},
    {"f32[4]; f32[]", "pad(p0, p1), edge_padding_low=[0], edge_padding_high=[0], interior_padding=[-1]",
     "interior padding -1 of dimension 0 is negative"},
    {"f32[4]; f32[]", "pad(p0, p1), edge_padding_low=[-3], edge_padding_high=[-2], interior_padding=[0]",
     "negative padding -3, -2 of dimension 0 takes more than its size 4"},
    {"f32[4]; f32[]",
     "pad(p0, p1), edge_padding_low=[500000000000000000], edge_padding_high=[0], interior_padding=[0]",
     "padding of dimension 0 is too large"},
    {"", "concatenate(), dimension=0", "needs at least one array"},
    {"f32[2]; f32[2]", "concatenate(p0, p1), dimension=1", "must lie in 0..0 for rank 1"},
    {"f32[2]; s32[2]", "concatenate(p0, p1), dimension=0", "array 1 is s32[2] but the first is f32[2]"},
    {"f32[2,3]; f32[2,4]", "concatenate(p0, p1), dimension=0", "differs from [2,3] in dimension 1"},
    {"", "iota(), shape=[2], dtype=pred", "cannot count in pred"},
    {"", "iota(), shape=[2], dtype=f32, iota_dimension=1", "must lie in 0..0 for rank 1"},
    {"", "iota(), shape=[], dtype=f32", "iota_dimension"},
};

constexpr Wrong kIndexing[] = {
    {"f32[4,5]; s32[]", "dynamic_slice(p0, p1), slice_sizes=[1,1]",
     "needs one start index per dimension: 2, not 1"},
    {"f32[4]; f32[]", "dynamic_slice(p0, p1), slice_sizes=[1]",
     "start indices are integer scalars, not f32[]"},
    {"f32[4]; s32[1]", "dynamic_slice(p0, p1), slice_sizes=[1]",
     "start indices are integer scalars, not s32[1]"},
    {"f32[4]; s32[]", "dynamic_slice(p0, p1), slice_sizes=[5]",
     "slice size 5 of dimension 0 is not within its size 4"},
    {"f32[4]; s32[]", "dynamic_slice(p0, p1), slice_sizes=[-1]", "slice size -1 of dimension 0"},
    {"f32[4]; s32[]", "dynamic_slice(p0, p1), slice_sizes=[1,1]", "has 2 entries where 1 are needed"},
    {"f32[4]; f64[2]; s32[]", "dynamic_update_slice(p0, p1, p2)",
     "must have the element type and rank of f32[4]"},
    {"f32[4]; f32[2,1]; s32[]", "dynamic_update_slice(p0, p1, p2)",
     "must have the element type and rank of f32[4]"},
    {"f32[4]; f32[5]; s32[]", "dynamic_update_slice(p0, p1, p2)", "the update [5] is larger than [4]"},
    {"f32[4]; f32[2]", "dynamic_update_slice(p0, p1)", "needs one start index per dimension: 1, not 0"},
    // gather: p0 f32[5,4], p1 the indices.
    {"f32[5,4]; f32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "indices must be integers, not f32"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=3",
     "index_vector_dim 3 must lie in 0..2"},
    {"f32[5,4]; s32[3,2]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "index vectors have 2 entries but 1 dimensions are indexed"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[2], "
     "index_vector_dim=1",
     "start_index_map [2] must lie in 0..1"},
    {"f32[5,4]; s32[3,2]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0,0], "
     "index_vector_dim=1",
     "names dimension 0 twice"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[2], start_index_map=[0], "
     "index_vector_dim=1",
     "collapsed_slice_dims [2] must lie in 0..1"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[6,4], offset_dims=[1,2], start_index_map=[0], index_vector_dim=1",
     "slice size 6 of dimension 0 is not within its size 5"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[2,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "collapsed or batching dimension 0 must have slice size 1, not 2"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "slice_sizes [1] has 1 entries where 2 are needed"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[0,1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "offset_dims [0,1] has 2 entries where 1 are needed"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[2], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "offset_dims [2] must lie in 0..1"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[2,4], offset_dims=[2,1], start_index_map=[0], index_vector_dim=1",
     "offset_dims [2,1] must be in ascending order"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], collapsed_slice_dims=[0], "
     "operand_batching_dims=[0], "
     "start_indices_batching_dims=[0], start_index_map=[1], index_vector_dim=1",
     "names dimension 0 twice"},
    {"f32[3,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,4], offset_dims=[1], operand_batching_dims=[0], "
     "start_indices_batching_dims=[0], start_index_map=[0], index_vector_dim=1",
     "names dimension 0 twice"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,1], offset_dims=[1], operand_batching_dims=[0], "
     "start_indices_batching_dims=[0], start_index_map=[1], index_vector_dim=1",
     "batching dimensions of sizes 5 and 3 differ"},
    {"f32[1,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,1], offset_dims=[1], operand_batching_dims=[0], "
     "start_indices_batching_dims=[1], start_index_map=[1], index_vector_dim=1",
     "a batching dimension is the index vector dimension"},
    {"f32[5,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[1,1], offset_dims=[1], operand_batching_dims=[0], start_index_map=[1], "
     "index_vector_dim=1",
     "indices batching dims [] has 0 entries where 1 are needed"},
    {"f32[0,4]; s32[3,1]",
     "gather(p0, p1), slice_sizes=[0,4], offset_dims=[1], collapsed_slice_dims=[0], start_index_map=[0], "
     "index_vector_dim=1",
     "dimension 0 is empty: there is nothing to take from it"},
    // scatter: p0 f32[5,4], p1 the indices, p2 the updates.
    {"f32[5,4]; s32[3,1]", "scatter(p0, p1), index_vector_dim=1, body=add",
     "needs arrays, indices and as many updates as arrays"},
    {"f32[5,4]; f32[3,1]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "indices must be integers, not f32"},
    {"f32[5,4]; s32[3,2]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "index vectors have 2 entries but 1 dimensions are indexed"},
    {"f32[5,4]; s32[3,1]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[2], body=add",
     "scatter_dims_to_operand_dims [2] must lie in 0..1"},
    {"f32[5,4]; s32[3,1]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[5], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "inserted_window_dims [5] must lie in 0..1"},
    {"f32[5,4]; s32[3,1]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "update_window_dims [] has 0 entries where 1 are needed"},
    {"f32[5,4]; s32[3,1]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[2], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "update_window_dims [2] must lie in 0..1"},
    {"f32[5,4]; s32[3,1]; f32[3,4,5]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[2,1], scatter_dims_to_operand_dims=[0], "
     "body=add",
     "update_window_dims [2,1] must be in ascending order"},
    {"f32[5,4]; s32[5,1]; f32[5,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "input_batching_dims=[0], scatter_indices_batching_dims=[0], scatter_dims_to_operand_dims=[1], body=add",
     "names dimension 0 twice"},
    {"f32[5,4]; s32[5,1]; f32[5,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], input_batching_dims=[0], "
     "scatter_indices_batching_dims=[0], scatter_dims_to_operand_dims=[0], body=add",
     "names dimension 0 twice"},
    {"f32[5,4]; s32[3,1]; s32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "update 0 is s32[3,4] where rank 2 of f32 is needed"},
    {"f32[5,4]; s32[3,1]; f32[3,5]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "update window dimension 1 of size 5 is larger than 4"},
    {"f32[5,4]; s32[3,1]; f32[2,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "update dimension 0 has size 2 where the indices have 3"},
    {"f32[5,4]; f32[5,3]; s32[3,1]; f32[3,4]; f32[3,4]",
     "scatter(p0, p1, p2, p3, p4), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add",
     "arrays of different shapes cannot be updated together"},
    {"f32[5,4]; s32[3,1]; f32[3,4]",
     "scatter(p0, p1, p2), index_vector_dim=1, update_window_dims=[1], inserted_window_dims=[0], "
     "scatter_dims_to_operand_dims=[0], body=add_s32",
     "is s32[] where f32[] is needed"},
};

constexpr Wrong kReduction[] = {
    {"f32[4]", "reduce(p0), dimensions=[0], body=add", "needs as many initial values as arrays"},
    {"f32[4]; s32[]", "reduce(p0, p1), dimensions=[0], body=add",
     "initial value 0 is s32[] where f32[] is needed"},
    {"f32[4]; f32[1]", "reduce(p0, p1), dimensions=[0], body=add",
     "initial value 0 is f32[1] where f32[] is needed"},
    {"f32[4]; f32[3]; f32[]; f32[]", "reduce(p0, p1, p2, p3), dimensions=[0], body=add",
     "arrays of shapes [4] and [3] cannot be reduced together"},
    {"f32[4]; f32[]", "reduce(p0, p1), dimensions=[1], body=add", "dimensions [1] must lie in 0..0"},
    {"f32[4]; f32[]", "reduce(p0, p1), dimensions=[0,0], body=add", "names dimension 0 twice"},
    {"f32[4]; f32[]", "reduce(p0, p1), dimensions=[0], body=one", "has 1 parameters where 2 are needed"},
    {"f32[4]; f32[]", "reduce(p0, p1), dimensions=[0], body=ge", "is pred[] where f32[] is needed"},
    {"f32[4]; f32[]", "reduce(p0, p1), dimensions=[0], body=add_s32", "is s32[] where f32[] is needed"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2,2], body=add",
     "has 2 entries where 1 are needed"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[0], body=add",
     "window sizes, strides and dilations must be at least 1 (dimension 0 has 0)"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], window_strides=[0], body=add",
     "must be at least 1"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], base_dilations=[-1], body=add",
     "must be at least 1"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], window_dilations=[0], body=add",
     "must be at least 1"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], window_strides=[1,1], body=add",
     "window_strides [1,1] has 2 entries where 1 are needed"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], base_dilations=[1,1], body=add",
     "base_dilations [1,1] has 2 entries where 1 are needed"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], window_dilations=[1,1], body=add",
     "window_dilations [1,1] has 2 entries where 1 are needed"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], padding=[1], body=add",
     "padding [1] has 1 entries where 2 are needed"},
    {"f32[4]; f32[]",
     "reduce_window(p0, p1), window_dimensions=[2], padding=[500000000000000000,0], body=add",
     "padding 500000000000000000 of dimension 0 is too large"},
    {"f32[4]; f32[]", "reduce_window(p0, p1), window_dimensions=[2], body=one",
     "has 1 parameters where 2 are needed"},
    {"f32[4]; f32[2]; s32[]",
     "select_and_scatter(p0, p1, p2), window_dimensions=[2], window_strides=[2], select=ge, scatter=add",
     "source and initial value must have the operand's element type f32"},
    {"f32[4]; s32[2]; f32[]",
     "select_and_scatter(p0, p1, p2), window_dimensions=[2], window_strides=[2], select=ge, scatter=add",
     "source and initial value must have the operand's element type f32"},
    {"f32[4]; f32[3]; f32[]",
     "select_and_scatter(p0, p1, p2), window_dimensions=[2], window_strides=[2], select=ge, scatter=add",
     "the source has shape [3] where the windows give [2]"},
    {"f32[4]; f32[2]; f32[]",
     "select_and_scatter(p0, p1, p2), window_dimensions=[2], window_strides=[2], select=add, scatter=add",
     "select: results 0 is f32[] where pred[] is needed"},
    {"f32[4]; f32[2]; f32[]",
     "select_and_scatter(p0, p1, p2), window_dimensions=[2], window_strides=[2], select=ge, scatter=ge",
     "scatter: results 0 is pred[] where f32[] is needed"},
    {"", "sort(), dimension=0, body=ge", "needs at least one array"},
    {"f32[4]", "sort(p0), dimension=1, body=ge", "must lie in 0..0"},
    {"f32[4]; f32[5]", "sort(p0, p1), dimension=0, body=ge",
     "arrays of shapes [4] and [5] cannot be sorted together"},
    {"f32[4]", "sort(p0), dimension=0, body=add",
     "the comparator: results 0 is f32[] where pred[] is needed"},
    {"s32[4]", "sort(p0), dimension=0, body=ge",
     "the comparator: parameters 0 is f32[] where s32[] is needed"},
    {"f32[4]", "cumsum(p0), dimension=1", "must lie in 0..0"},
    {"f32[]", "cumsum(p0), dimension=0", "must lie in 0..-1 for rank 0"},
    {"pred[4]", "cumsum(p0), dimension=0", "sums numbers, not bool"},
};

constexpr std::string_view kConv =
    "convolution(p0, p1), input_feature_dimension=1, input_spatial_dimensions=[2], "
    "kernel_input_feature_dimension=1, "
    "kernel_spatial_dimensions=[2], output_feature_dimension=1, output_spatial_dimensions=[2]";

constexpr Wrong kLinear[] = {
    {"f32[2,3]; f64[3,2]",
     "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]",
     "element types f32 and f64 differ"},
    {"f32[2,3]; f32[4,2]",
     "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[0]",
     "contracting dimension 1 of the left side has size 3 but dimension 0 of the right side has size 4"},
    {"f32[2,3]; f32[4,3]",
     "dot_general(p0, p1), lhs_batching_dimensions=[0], rhs_batching_dimensions=[0], "
     "lhs_contracting_dimensions=[1], "
     "rhs_contracting_dimensions=[1]",
     "batching dimension 0 of the left side has size 2 but dimension 0 of the right side has size 4"},
    {"f32[2,3]; f32[2,3]",
     "dot_general(p0, p1), lhs_batching_dimensions=[0], lhs_contracting_dimensions=[1], "
     "rhs_contracting_dimensions=[1]",
     "rhs_batching_dimensions [] has 0 entries where 1 are needed"},
    {"f32[2,3]; f32[2,3]",
     "dot_general(p0, p1), lhs_contracting_dimensions=[1], rhs_contracting_dimensions=[]",
     "rhs_contracting_dimensions [] has 0 entries where 1 are needed"},
    {"f32[2,3]; f32[2,3]",
     "dot_general(p0, p1), lhs_batching_dimensions=[1], rhs_batching_dimensions=[1], "
     "lhs_contracting_dimensions=[1], "
     "rhs_contracting_dimensions=[0]",
     "names dimension 1 twice"},
    {"f32[2,3]; f32[2,3]",
     "dot_general(p0, p1), lhs_contracting_dimensions=[2], rhs_contracting_dimensions=[0]",
     "must lie in 0..1"},
};

struct WrongConvolution {
  std::string_view parameters, more, message;
};
constexpr WrongConvolution kConvolution[] = {
    {"f32[1,2,8]; s32[3,2,2]", ", feature_group_count=1, batch_group_count=1",
     "element types f32 and s32 differ"},
    {"f32[8]; f32[2]", ", feature_group_count=1, batch_group_count=1", "one rank of at least 2, not 1 and 1"},
    {"f32[1,2,8]; f32[3,2]", ", feature_group_count=1, batch_group_count=1",
     "one rank of at least 2, not 3 and 2"},
    {"f32[1,2,8,1]; f32[3,2,2,1]", ", feature_group_count=1, batch_group_count=1",
     "has 1 entries where 2 are needed"},
    {"f32[1,2,8]; f32[3,2,2]", ", feature_group_count=0, batch_group_count=1",
     "group counts must be at least 1"},
    {"f32[2,2,8]; f32[2,1,2]", ", feature_group_count=2, batch_group_count=2",
     "not both above 1, not 2 and 2"},
    {"f32[1,3,8]; f32[3,2,2]", ", feature_group_count=1, batch_group_count=1",
     "input features 3 in 1 groups do not fit the kernel's 2 input and 3 output features"},
    {"f32[3,2,8]; f32[4,2,2]", ", feature_group_count=1, batch_group_count=2",
     "batch size 3 and output features 4 do not divide into 2 batch groups"},
    {"f32[1,2,8]; f32[3,2,2]", ", window_strides=[0], feature_group_count=1, batch_group_count=1",
     "strides and dilations must be at least 1"},
    {"f32[1,2,8]; f32[3,2,2]", ", rhs_dilation=[0], feature_group_count=1, batch_group_count=1",
     "strides and dilations must be at least 1"},
    {"f32[1,2,8]; f32[3,2,2]", ", lhs_dilation=[1,1], feature_group_count=1, batch_group_count=1",
     "lhs_dilation [1,1] has 2 entries where 1 are needed"},
    {"f32[1,2,8]; f32[3,2,2]", ", window_strides=[1,1], feature_group_count=1, batch_group_count=1",
     "window_strides [1,1] has 2 entries where 1 are needed"},
    {"f32[1,2,8]; f32[3,2,2]", ", padding=[1], feature_group_count=1, batch_group_count=1",
     "padding [1] has 1 entries where 2 are needed"},
    {"f32[1,2,8]; f32[3,2,2]", ", padding=[99999999999999,0], feature_group_count=1, batch_group_count=1",
     "spatial dimension 0 is too large"},
};

constexpr Wrong kCollective[] = {
    {"f32[2]; f32[]", "all_gather(p0, p1), axis_name=\"i\", axis_size=2",
     "the lane must be s32[], not f32[]"},
    {"f32[2]; s32[]", "all_gather(p0, p1), axis_name=\"\", axis_size=2", "names no axis"},
    {"f32[2]; s32[]", "all_gather(p0, p1), axis_name=\"i\", axis_size=-1", "axis_size -1 is negative"},
    {"f32[2]; s32[]", "all_gather(p0, p1), axis_name=\"i\", axis_size=2, dimension=2",
     "dimension [2] must lie in 0..1 for rank 2"},
    {"f32[2]; s32[]", "all_reduce(p0, p1), axis_name=\"i\", axis_size=2, reduction=\"mean\"",
     "reduction is add, maximum or minimum, not 'mean'"},
    {"f32[2]; s32[]",
     "all_reduce(p0, p1), axis_name=\"i\", axis_size=2, reduction=\"add\", replica_groups=[0,1]",
     "replica_groups and group_size belong together"},
    {"f32[2]; s32[]",
     "all_reduce(p0, p1), axis_name=\"i\", axis_size=2, reduction=\"add\", replica_groups=[0], group_size=1",
     "replica_groups [0] has 1 entries where 2 are needed"},
    {"f32[2]; s32[]",
     "all_reduce(p0, p1), axis_name=\"i\", axis_size=2, reduction=\"add\", replica_groups=[0,0], "
     "group_size=1",
     "names dimension 0 twice"},
    {"f32[2]; s32[]",
     "all_reduce(p0, p1), axis_name=\"i\", axis_size=3, reduction=\"add\", replica_groups=[0,2,1], "
     "group_size=2",
     "groups of 2 lanes do not divide an axis of 3"},
    {"f32[3]; s32[]", "reduce_scatter(p0, p1), axis_name=\"i\", axis_size=2",
     "dimension 0 of size 3 must have one element for each of 2 lanes of axis 'i'"},
    {"f32[3]; s32[]", "all_to_all(p0, p1), axis_name=\"i\", axis_size=2",
     "split_dimension 0 of size 3 must have one element for each of 2 lanes"},
    {"f32[2]; s32[]", "all_to_all(p0, p1), axis_name=\"i\", axis_size=2, concat_dimension=1",
     "concat_dimension [1] must lie in 0..0"},
    {"f32[2]; s32[]", "collective_permute(p0, p1), axis_name=\"i\", axis_size=2, sources=[0]",
     "sources [0] has 1 entries where 2 are needed"},
    {"f32[2]; s32[]", "collective_permute(p0, p1), axis_name=\"i\", axis_size=2, sources=[1,1]",
     "names dimension 1 twice"},
};

constexpr Wrong kControl[] = {
    {"f32[]", "while(p0), cond=one, body=one", "cond: results 0 is f32[] where pred[] is needed"},
    {"f32[]", "while(p0), cond=test, body=test", "body: results 0 is pred[] where f32[] is needed"},
    {"f32[]; f32[]", "while(p0, p1), cond=test, body=one", "cond has 1 parameters where 2 are needed"},
    {"f32[2]", "while(p0), cond=test, body=one", "cond: parameters 0 is f32[] where f32[2] is needed"},
    {"f32[]; f32[]", "case(p0, p1), branches=[one]", "the branch index must be s32[]"},
    {"s32[]; f32[]", "case(p0, p1), branches=[]", "at least one branch"},
    {"s32[]; f32[]", "case(p0, p1), branches=[one, two]", "branch 1 has 2 results where 1 are needed"},
    {"s32[]; f32[2]", "case(p0, p1), branches=[one]",
     "branch 0: parameters 0 is f32[] where f32[2] is needed"},
    {"f32[]; f32[3]", "scan(p0, p1), num_carry=3, length=3, body=add", "num_carry 3 is out of range"},
    {"f32[]; f32[3]", "scan(p0, p1), num_carry=1, length=-1, body=add", "length -1 is negative"},
    {"f32[]; f32[3]", "scan(p0, p1), num_carry=1, length=4, body=add",
     "scans 4 steps over f32[3], whose leading dimension differs"},
    {"f32[]; f32[]", "scan(p0, p1), num_carry=1, length=4, body=add", "whose leading dimension differs"},
    {"f32[]; f32[]; f32[3]", "scan(p0, p1, p2), num_carry=2, length=3, body=add",
     "the body returns 1 values for 2 carries"},
    {"f32[]; s32[3]", "scan(p0, p1), num_carry=1, length=3, body=add",
     "body: parameters 1 is f32[] where s32[]"},
    {"f32[2]", "call(p0), body=one", "body: parameters 0 is f32[] where f32[2] is needed"},
    {"f32[2]", "custom_call(p0), call_target_name=\"\"", "names no target"},
    {"s32[2]", "rng_bit_generator(p0), shape=[2], dtype=u32, rng_algorithm=\"DEFAULT\"",
     "the state must be u64[2] (key, counter), not s32[2]"},
    {"u64[2]", "rng_bit_generator(p0), shape=[2], dtype=u32, rng_algorithm=\"PHILOX\"",
     "rng_algorithm must be THREE_FRY or DEFAULT, not 'PHILOX'"},
    {"u64[2]", "rng_bit_generator(p0), shape=[2], dtype=f32, rng_algorithm=\"DEFAULT\"",
     "makes unsigned integers of 8 bits or more, not f32"},
};

void check_all(std::span<const Wrong> rows) {
  for (const Wrong& w : rows) {
    const std::string message = message_of(w);
    INFO(w.op);
    CHECK_THAT(message, Catch::Matchers::Contains(std::string(w.message)));
    // The place, then the operation.
    const std::string_view op = w.op.substr(0, w.op.find('('));
    CHECK_THAT(message, Catch::Matchers::Contains(str_cat(": ", op, "(")));
  }
}

TEST_CASE("wrong elementwise operations", "[text]") { check_all(kElementwise); }
TEST_CASE("wrong operations on shapes", "[text]") { check_all(kShape); }
TEST_CASE("wrong slices, gathers and scatters", "[text]") { check_all(kIndexing); }
TEST_CASE("wrong reductions, windows and sorts", "[text]") { check_all(kReduction); }
TEST_CASE("wrong dots", "[text]") { check_all(kLinear); }
TEST_CASE("wrong exchanges between lanes", "[text]") { check_all(kCollective); }
TEST_CASE("wrong loops, branches, calls and random bits", "[text]") { check_all(kControl); }
TEST_CASE("wrong convolutions", "[text]") {
  for (const WrongConvolution& w : kConvolution) {
    const std::string op = str_cat(kConv, w.more);
    const Wrong row{w.parameters, op, w.message};
    check_all(std::span(&row, 1));
  }
  // Dimension numbers that name a dimension twice.
  std::string op = str_cat(kConv, ", feature_group_count=1, batch_group_count=1");
  op.replace(op.find("input_feature_dimension=1"), 25, "input_feature_dimension=0");
  const Wrong twice{"f32[1,2,8]; f32[3,2,2]", op,
                    "the input's dimension numbers [0,0,2] names dimension 0 twice"};
  check_all(std::span(&twice, 1));
}

}  // namespace
}  // namespace lamina::hlo
