// The table of opcodes, and how an instruction becomes operations by its row.
#include <algorithm>
#include <deque>

#include "hlo/once.h"
#include "hlo/xla_text/instruction.h"
#include "hlo/xla_text/reader.h"
#include "hlo/xla_text/translate.h"

namespace lamina::hlo::xla_text {

using stablehlo::in_quotes;

namespace {

using Kind = Row::Kind;

// Attributes of any instruction that say nothing about what it computes here.
constexpr std::string_view kIgnored[] = {
    "metadata",  // read by the parser
    // Where and when: one process runs everything, in the order of the data.
    "sharding", "control-predecessors", "channel_id", "use_global_device_ids", "constrain_layout",
    "async_execution_thread", "is_host_transfer", "origin", "cross_program_prefetch_index", "schedule",
    "split_dimension", "parameter_replication",
    // How: products are taken at the precision of the operands or better.
    "operand_precision", "algorithm", "result_accuracy", "backend_config", "frontend_attributes", "kind",
    "outer_dimension_partitions", "statistics", "is_composite",
    // Memory: arrays are values.
    "operand_layout_constraints", "output_to_operand_aliasing"};

// Elementwise opcodes without attributes, named as the operation with the dashes replaced.
// clang-format off
constexpr std::string_view kPlain[] = {
    "abs", "add", "and", "atan2", "bitcast-convert", "cbrt", "ceil", "clamp", "complex", "convert", "cosine",
    "count-leading-zeros", "divide", "exponential", "exponential-minus-one", "floor", "imag", "is-finite", "log",
    "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "not", "or", "popcnt", "power", "real",
    "remainder", "reshape", "round-nearest-afz", "round-nearest-even", "rsqrt", "select", "shift-left",
    "shift-right-arithmetic", "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor"};
// clang-format on
constexpr std::string_view kPlainChlo[] = {"acos", "acosh", "asin", "asinh", "atanh",
                                           "cosh", "erf",   "sinh", "mulhi"};

constexpr std::string_view kOneProcess =
    "one process runs this program: nobody is there to exchange data with";
constexpr std::string_view kDynamic = "sizes that are known only while the program runs are not supported";
constexpr std::string_view kState =
    "numbers that change from run to run have no place in a pure program; give the "
    "state as an argument of rng-bit-generator";

std::vector<Row> make_rows() {
  std::vector<Row> rows = {
      // Moving elements.
      {"broadcast", "stablehlo.broadcast_in_dim", {{"dimensions", "broadcast_dimensions", Kind::kInts}}},
      {"transpose", "stablehlo.transpose", {{"dimensions", "permutation", Kind::kInts}}},
      {"reverse", "stablehlo.reverse", {{"dimensions", "dimensions", Kind::kInts}}},
      {"concatenate", "stablehlo.concatenate", {{"dimensions", "dimension", Kind::kInts}}},
      {"iota", "stablehlo.iota", {{"iota_dimension", "iota_dimension", Kind::kInt}}},
      {"slice", "stablehlo.slice", {}, slice, {"slice"}},
      {"pad", "stablehlo.pad", {}, pad, {"padding"}},
      {"dynamic-slice", "stablehlo.dynamic_slice", {{"dynamic_slice_sizes", "slice_sizes", Kind::kInts}}},
      {"dynamic-update-slice", "stablehlo.dynamic_update_slice", {}},
      {"gather",
       "stablehlo.gather",
       {{"slice_sizes", "slice_sizes", Kind::kInts},
        {"indices_are_sorted", "indices_are_sorted", Kind::kFlag}},
       gather,
       {"offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
        "start_indices_batching_dims", "index_vector_dim"}},
      {"scatter",
       "stablehlo.scatter",
       {{"to_apply", "", Kind::kRegion},
        {"indices_are_sorted", "indices_are_sorted", Kind::kFlag},
        {"unique_indices", "unique_indices", Kind::kFlag}},
       scatter,
       {"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "input_batching_dims",
        "scatter_indices_batching_dims", "index_vector_dim"}},
      {"copy", "", {}, nullptr, {}, op_rows::pass_through},
      {"bitcast", "", {}, bitcast},
      {"get-dimension-size", "stablehlo.get_dimension_size", {{"dimensions", "dimension", Kind::kInts}}},

      // Elementwise with attributes.
      {"compare",
       "stablehlo.compare",
       {{"direction", "comparison_direction", Kind::kWord}, {"type", "compare_type", Kind::kWord}},
       compare,
       {"order"}},
      {"reduce-precision",
       "stablehlo.reduce_precision",
       {{"exponent_bits", "exponent_bits", Kind::kInt}, {"mantissa_bits", "mantissa_bits", Kind::kInt}}},

      // Reductions.
      {"reduce",
       "stablehlo.reduce",
       {{"to_apply", "", Kind::kRegion}, {"dimensions", "dimensions", Kind::kInts}}},
      {"reduce-window",
       "stablehlo.reduce_window",
       {{"to_apply", "", Kind::kRegion}},
       reduce_window,
       {"window"}},
      {"select-and-scatter",
       "stablehlo.select_and_scatter",
       {{"select", "", Kind::kRegion}, {"scatter", "", Kind::kRegion}},
       select_and_scatter,
       {"window"}},
      {"sort",
       "stablehlo.sort",
       {{"to_apply", "", Kind::kRegion},
        {"dimensions", "dimension", Kind::kInts},
        {"is_stable", "is_stable", Kind::kFlag}}},
      {"map", "stablehlo.map", {{"to_apply", "", Kind::kRegion}, {"dimensions", "dimensions", Kind::kInts}}},
      {"topk", "chlo.top_k", {{"k", "k", Kind::kInt}}, top_k, {"largest", "is_stable"}},

      // Linear algebra.
      {"dot",
       "stablehlo.dot_general",
       {},
       dot,
       {"lhs_batch_dims", "rhs_batch_dims", "lhs_contracting_dims", "rhs_contracting_dims"}},
      {"convolution",
       "stablehlo.convolution",
       {{"feature_group_count", "feature_group_count", Kind::kInt},
        {"batch_group_count", "batch_group_count", Kind::kInt}},
       convolution,
       {"window", "dim_labels"}},
      {"cholesky", "stablehlo.cholesky", {{"lower", "lower", Kind::kFlag}}},
      {"triangular-solve",
       "stablehlo.triangular_solve",
       {{"left_side", "left_side", Kind::kFlag},
        {"lower", "lower", Kind::kFlag},
        {"unit_diagonal", "unit_diagonal", Kind::kFlag},
        {"transpose_a", "transpose_a", Kind::kWord}},
       triangular_solve},
      {"fft",
       "stablehlo.fft",
       {{"fft_type", "fft_type", Kind::kWord}, {"fft_length", "fft_length", Kind::kInts}}},
      {"batch-norm-training",
       "stablehlo.batch_norm_training",
       {{"epsilon", "epsilon", Kind::kReal}, {"feature_index", "feature_index", Kind::kInt}}},
      {"batch-norm-inference",
       "stablehlo.batch_norm_inference",
       {{"epsilon", "epsilon", Kind::kReal}, {"feature_index", "feature_index", Kind::kInt}}},
      {"batch-norm-grad",
       "stablehlo.batch_norm_grad",
       {{"epsilon", "epsilon", Kind::kReal}, {"feature_index", "feature_index", Kind::kInt}}},

      // Random bits.
      {"rng-bit-generator", "stablehlo.rng_bit_generator", {}, rng_bit_generator, {"algorithm"}},
      {"rng", "stablehlo.rng", {}, rng, {"distribution"}},
      {.opcode = "rng-get-and-update-state", .refused = kState},

      // Control flow and tuples.
      {"while", "stablehlo.while", {{"condition", "", Kind::kRegion}, {"body", "", Kind::kRegion}}},
      {"conditional",
       "",
       {},
       conditional,
       {"branch_computations", "true_computation", "false_computation"},
       op_rows::conditional},
      {"call", "call", {}, callee, {"to_apply"}},
      {"fusion", "", {}, callee, {"calls"}, op_rows::inlined},
      {.opcode = "async-start",
       .translate = callee,
       .others = {"calls"},
       .row = op_rows::inlined,
       .element = 1},
      {.opcode = "async-update", .others = {"calls"}, .row = op_rows::pass_through, .element = 1},
      {"async-done", "", {}, nullptr, {"calls"}, op_rows::pass_through},
      {"custom-call",
       "",
       {},
       custom_call,
       {"custom_call_target", "api_version", "called_computations", "custom_call_has_side_effect", "to_apply",
        "window", "dim_labels", "feature_group_count", "batch_group_count", "opaque"},
       op_rows::custom_call},
      {"tuple", "", {}, nullptr, {}, op_rows::pass_through},
      {"get-tuple-element", "", {{"index", "index", Kind::kInt}}, nullptr, {}, op_rows::get_tuple_element},
      {"opt-barrier", "stablehlo.optimization_barrier", {}},
      {"after-all", "stablehlo.after_all", {}},
      {"add-dependency", "", {}, nullptr, {}, op_rows::first},
      {"domain", "", {}, nullptr, {"domain"}, op_rows::pass_through},
      {.opcode = "copy-start", .row = op_rows::pass_through, .element = 0},
      {"copy-done", "", {}, nullptr, {}, op_rows::pass_through},

      // Among processes, of which there is one.
      {"partition-id", "stablehlo.partition_id", {}},
      {"replica-id", "stablehlo.replica_id", {}},
      {.opcode = "all-reduce",
       .op = "stablehlo.all_reduce",
       .translate = alone,
       .others = {"replica_groups", "to_apply"}},
      {.opcode = "all-reduce-start",
       .op = "stablehlo.all_reduce",
       .translate = alone,
       .others = {"replica_groups", "to_apply"}},
      {.opcode = "all-gather",
       .op = "stablehlo.all_gather",
       .translate = alone,
       .others = {"replica_groups", "dimensions"}},
      {.opcode = "all-gather-start",
       .op = "stablehlo.all_gather",
       .translate = alone,
       .others = {"replica_groups", "dimensions"},
       .element = 1},
      {.opcode = "all-to-all",
       .op = "stablehlo.all_to_all",
       .translate = alone,
       .others = {"replica_groups", "dimensions"}},
      {.opcode = "reduce-scatter",
       .op = "stablehlo.reduce_scatter",
       .translate = alone,
       .others = {"replica_groups", "dimensions", "to_apply"}},
      {.opcode = "collective-broadcast",
       .op = "stablehlo.collective_broadcast",
       .translate = alone,
       .others = {"replica_groups"}},
      {"collective-permute",
       "stablehlo.collective_permute",
       {{"source_target_pairs", "source_target_pairs", Kind::kInts}}},
      {.opcode = "collective-permute-start",
       .op = "stablehlo.collective_permute",
       .attributes = {{"source_target_pairs", "source_target_pairs", Kind::kInts}},
       .element = 1},
      {"all-reduce-done", "", {}, nullptr, {}, op_rows::pass_through},
      {"all-gather-done", "", {}, nullptr, {}, op_rows::pass_through},
      {"collective-permute-done", "", {}, nullptr, {}, op_rows::pass_through},

      // What no program here can have.
      {.opcode = "send", .refused = kOneProcess},
      {.opcode = "send-done", .refused = kOneProcess},
      {.opcode = "recv", .refused = kOneProcess},
      {.opcode = "recv-done", .refused = kOneProcess},
      {.opcode = "infeed", .refused = kOneProcess},
      {.opcode = "outfeed", .refused = kOneProcess},
      {.opcode = "ragged-all-to-all", .refused = kOneProcess},
      {.opcode = "set-dimension-size", .refused = kDynamic},
      {.opcode = "dynamic-reshape", .refused = kDynamic},
      {.opcode = "ragged-dot", .refused = "dots over groups of rows are not supported"},
      {.opcode = "scaled-dot", .refused = "dots with scales beside the operands are not supported"},
      {.opcode = "scan", .refused = "XLA's scan is not supported; write it as a while loop"},
      {.opcode = "stochastic-convert",
       .refused = "rounding by random bits is not supported; convert rounds to the nearest"},
  };
  for (const std::string_view opcode : kPlain) rows.push_back({.opcode = opcode});
  for (const std::string_view opcode : kPlainChlo) rows.push_back({.opcode = opcode});
  return rows;
}

// Rows by opcode; the names of plain operations are made of their opcodes and kept here.
struct Table {
  std::deque<std::string> names;
  std::vector<Row> rows = make_rows();
  HashMap<std::string_view, const Row*> by_opcode;

  Table() {
    for (Row& row : rows) {
      const bool chlo =
          std::find(std::begin(kPlainChlo), std::end(kPlainChlo), row.opcode) != std::end(kPlainChlo);
      if (chlo || std::find(std::begin(kPlain), std::end(kPlain), row.opcode) != std::end(kPlain)) {
        std::string name(row.opcode);
        std::replace(name.begin(), name.end(), '-', '_');
        names.push_back(str_cat(chlo ? "chlo." : "stablehlo.", name));
        row.op = names.back();
      }
      by_opcode.emplace(row.opcode, &row);
    }
  }
};

const Table& table() {
  static constinit Once<const Table> t;
  return t.get();
}

absl::Status read_attribute(const Instruction& in, const Row::Attribute& spec, const RawAttribute& a,
                            OpTree* out) {
  AttrTree value;
  value.at = a.at;
  switch (spec.kind) {
    case Kind::kInts: {
      Dims list;
      LAMINA_RETURN_IF_ERROR(in.ints(a, &list));
      value = ints_attribute(list, a.at);
      break;
    }
    case Kind::kInt:
      value.kind = AttrTree::Kind::kInt;
      LAMINA_RETURN_IF_ERROR(in.integer(a, &value.integer));
      break;
    case Kind::kFlag:
      value.kind = AttrTree::Kind::kBool;
      LAMINA_RETURN_IF_ERROR(in.flag(a, &value.flag));
      break;
    case Kind::kWord: {
      std::string_view word;
      LAMINA_RETURN_IF_ERROR(in.word(a, &word));
      value = word_attribute(word, a.at);
      break;
    }
    case Kind::kReal:
      value.kind = AttrTree::Kind::kFloat;
      value.text = std::string(a.value);
      break;
    case Kind::kRegion: {
      std::vector<std::string_view> names;
      LAMINA_RETURN_IF_ERROR(in.computations(a, &names));
      if (names.size() != 1) return in.error_at(a.at, str_cat(a.key, " names one computation"));
      stablehlo::RegionTree region;
      region.function = names[0];
      region.at = a.at;
      out->regions.push_back(std::move(region));
      return absl::OkStatus();
    }
  }
  out->attrs.push_back({std::string(spec.to), std::move(value)});
  return absl::OkStatus();
}

bool is_ignored(std::string_view key) {
  return std::find(std::begin(kIgnored), std::end(kIgnored), key) != std::end(kIgnored);
}

}  // namespace

const Row* find_row(std::string_view opcode) {
  const auto it = table().by_opcode.find(opcode);
  return it == table().by_opcode.end() ? nullptr : it->second;
}

void set_result(const TypeTree& type, OpTree* op) {
  op->functional = true;
  op->tupled = type.kind == TypeTree::Kind::kTuple;
  op->types.clear();
  op->result_types.clear();
  if (op->tupled) {
    op->types.push_back(type);
    op->result_types = type.elements;
  } else {
    op->result_types.push_back(type);
  }
}

absl::Status translate(const Instruction& in, Ops* out) {
  const Row* row = find_row(in.opcode);
  // slice-start, slice-update and slice-done: async-start and the others of a computation that is one slice.
  int element = row ? row->element : 1;
  bool passes = false;
  for (const std::string_view part : {"-start", "-update", "-done"}) {
    if (row || !in.opcode.ends_with(part)) continue;
    row = find_row(in.opcode.substr(0, in.opcode.size() - part.size()));
    passes = part != "-start";
    break;
  }
  if (!row)
    return stablehlo::error_at(in.text, in.opcode_at,
                               str_cat("the opcode ", in_quotes(in.opcode), " is not known"),
                               absl::StatusCode::kUnimplemented);
  if (!row->refused.empty()) return in.unsupported(row->refused);
  OpTree op;
  op.name = std::string(row->op);
  op.row = passes ? op_rows::pass_through : row->row;
  op.spelled = in.opcode;
  op.at = in.at;
  op.operands = in.operands;
  op.results.push_back({in.name, 1, in.at});
  TypeTree type = in.shape.type;
  if (passes) element = in.opcode.ends_with("-update") ? 1 : -1;
  if (element >= 0) {
    if (type.kind != TypeTree::Kind::kTuple || type.elements.size() <= static_cast<size_t>(element))
      return in.error(str_cat("gives a tuple with an element ", element, ", not ", to_string(type)));
    type = TypeTree(type.elements[element]);
  }
  set_result(type, &op);
  for (const RawAttribute& a : in.attributes) {
    const auto known = [&](const Row::Attribute& spec) { return spec.from == a.key; };
    const bool listed = std::any_of(row->attributes.begin(), row->attributes.end(), known) ||
                        std::find(row->others.begin(), row->others.end(), a.key) != row->others.end();
    if (!listed && !is_ignored(a.key))
      return in.error_at(a.at, str_cat(in.opcode, " has no attribute ", in_quotes(a.key)));
  }
  if (passes) {
    out->push_back(std::move(op));
    return absl::OkStatus();
  }
  // In the order of the row, which is that of regions.
  for (const Row::Attribute& spec : row->attributes) {
    const RawAttribute* a = in.find(spec.from);
    if (a) LAMINA_RETURN_IF_ERROR(read_attribute(in, spec, *a, &op));
    if (!a && spec.kind == Kind::kRegion) return in.error(str_cat("needs ", spec.from, "=computation"));
  }
  out->push_back(std::move(op));
  return row->translate ? row->translate(in, out) : absl::OkStatus();
}

bool can_read(std::string_view op) {
  static constexpr std::pair<std::string_view, std::string_view> kOurs[] = {
      {"case", "conditional"},
      {"custom_call", "custom-call"},
      {"dot_general", "dot"},
      {"optimization_barrier", "opt-barrier"},
      {"broadcast_in_dim", "broadcast"},
      {"constant", "constant"},
      {"parameter", "parameter"}};
  std::string opcode(op);
  std::replace(opcode.begin(), opcode.end(), '_', '-');
  if (op == "constant" || op == "parameter") return true;
  for (const auto& [ours, theirs] : kOurs)
    if (ours == op) opcode = theirs;
  const Row* row = find_row(opcode);
  return row && row->refused.empty();
}

}  // namespace lamina::hlo::xla_text
