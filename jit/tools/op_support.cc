#include "jit/tools/op_support.h"

#include "cluster/fuse.h"
#include "hlo/op.h"
#include "hlo/stablehlo/importer.h"
#include "hlo/stablehlo/writer.h"
#include "hlo/strings.h"
#include "hlo/xla_text/attributes_text.h"
#include "hlo/xla_text/reader.h"
#include "hlo/xla_text/writer.h"
#include "jit/cpu/native_op.h"
#include "trace/rules/rules.h"

namespace lamina::jit {
namespace {

using hlo::Op;
using hlo::OpDef;

constexpr std::string_view kHead =
    "# What each op has\n\n"
    "Made by `lamina-opt --ops`; a test compares this file with what the tables say today.\n\n"
    "- **text, verifier**: printed, parsed and checked; every op is, with every attribute "
    "(tests/smith/text_cases.cc).\n"
    "- **evaluator**: `scalar` is one scalar program that every tier runs, `rule` a plain evaluation rule.\n"
    "- **CPU**: `loop` joins fused loop kernels, `routine` has a routine of its own (sometimes only for some "
    "shapes;\n"
    "  else loop or rule), `steps` runs programs inside it (a `while` or "
    "`scan` whose\n"
    "  steps work element by element is one loop kernel), `rule` is the evaluator's rule, `name` only "
    "renames memory.\n"
    "- **jvp, transpose, vmap**: transformation rules. Reverse mode is jvp and transpose; an op has a "
    "transpose if it is\n"
    "  linear in an operand. `zero`: the derivative is zero everywhere.\n"
    "- **StableHLO**, **HLO** (XLA's text): `in` is read, `out` is written, `parts` is written as other "
    "operations.\n- **ONNX** has no reader or writer yet.\n\n"
    "| op | text | verifier | evaluator | CPU | jvp | transpose | vmap | StableHLO | HLO | ONNX | notes |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|\n";

// Why an op lacks what others have.
std::string_view note(Op op) {
  switch (op) {
    case Op::parameter:
      return "an argument of a computation: no operation";
    case Op::leaf:
      return "an array of this process: an argument of what is compiled";
    case Op::identity:
      return "the argument of an open transform; written as its operand";
    case Op::stop_gradient:
      return "written as its operand";
    case Op::constant:
      return "no operand to derive by or to batch";
    case Op::iota:
      return "no operand to derive by or to batch";
    case Op::custom_call:
      return "runs on the host, once per lane under vmap; its derivative comes from custom rules; the matrix "
             "routines of hlo/linalg take batches and have derivatives of their own; written if every "
             "process "
             "knows the target";
    case Op::scan:
      return "StableHLO and XLA have while loops: written as one, and recognized when read";
    case Op::cumsum:
      return "StableHLO and XLA have windows: written as a reduce_window, and recognized when read";
    case Op::call:
      return "a private function; HLO: a computation";
    case Op::all_gather:
    case Op::all_reduce:
    case Op::all_to_all:
    case Op::collective_permute:
    case Op::reduce_scatter:
      return "between the lanes of a named axis: its vmap replaces it, and without one it has no value";
    default:
      return "";
  }
}

std::string_view cpu_form(const OpDef& def) {
  if (has_native_op(def.op)) return "routine";
  switch (def.op) {
    case Op::parameter:
    case Op::leaf:
    case Op::constant:
    case Op::identity:
    case Op::stop_gradient:
    case Op::reshape:
    case Op::optimization_barrier:
      return "name";
    case Op::dot_general:
    case Op::convolution:
      return "routine";
    case Op::while_:
    case Op::case_:
    case Op::scan:
    case Op::call:
      return "steps";
    default:
      return cluster::may_join_loop(def.op) ? "loop" : "rule";
  }
}

std::string_view yes(bool b) { return b ? "yes" : ""; }

// Whether a notation is read into an op and written from it, perhaps as other operations.
std::string_view directions(bool reads, bool writes, bool in_parts) {
  if (reads) return writes ? "in, out" : "in";
  if (!writes) return "";
  return in_parts ? "parts" : "out";
}

}  // namespace

std::string op_support_table() {
  std::string out(kHead);
  for (int i = 0; i < hlo::kNumStaticOps; ++i) {
    const OpDef& def = hlo::op_def(static_cast<Op>(i));
    const trace::OpTransforms& transforms = trace::transforms_of(def.op);
    const bool structure = def.op == Op::parameter || def.op == Op::leaf;
    const std::string dialect_names[] = {str_cat("stablehlo.", def.name), str_cat("chlo.", def.name)};
    bool reads = false;
    for (const std::string& name : dialect_names) reads |= hlo::stablehlo::find_op_row(name) != nullptr;
    const bool writes = hlo::stablehlo::can_write(def.op);
    str_append(
        &out, "| ", def.name, " | yes | yes | ",
        def.scalar ? "scalar"
        : def.eval ? "rule"
                   : "",
        " | ", cpu_form(def), " | ",
        transforms.jvp ? (def.is_elementwise() && !trace::has_derivative(def.op) ? "zero" : "yes") : "",
        " | ", yes(transforms.transpose), " | ", yes(transforms.batch && !structure), " | ",
        directions(reads, writes, false), " | ",
        directions(hlo::xla_text::can_read(def.name), hlo::xla_text::can_write(def.op),
                   (def.is_elementwise() || def.op == Op::scan || def.op == Op::cumsum) &&
                       hlo::xla_text::opcode_of(def.op).empty()),
        " | | ", note(def.op), " |\n");
  }
  return out;
}

}  // namespace lamina::jit
