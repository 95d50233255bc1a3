#include "hlo/xla_text/writer.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "hlo/builder.h"
#include "hlo/cumsum_window.h"
#include "hlo/hash_map.h"
#include "hlo/linalg/linalg.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/rules/support.h"
#include "hlo/xla_text/attributes_text.h"
#include "hlo/xla_text/constant_text.h"
#include "hlo/xla_text/lower.h"
#include "hlo/xla_text/reader.h"

namespace lamina::hlo::xla_text {
namespace {

constexpr int kMaxLevels = 128;
constexpr int64_t kLongConstant = 64;  // elements

using Texts = std::vector<std::string>;

std::string joined(const Texts& texts) { return absl::StrJoin(texts, ", "); }

// How a computation takes its arguments and gives its results.
enum class Form : uint8_t {
  kFlat,   // parameters; one result, or a tuple of several
  kTuple,  // one tuple; a tuple
  kTest,   // one tuple; one result
};

class Writer {
 public:
  explicit Writer(const WriteOptions& options) : options_(options), entry_(identifier(options.module)) {}

  absl::StatusOr<std::string> module(const Computation& computation) {
    LAMINA_RETURN_IF_ERROR(function(computation, Form::kFlat, "ENTRY " + entry_));
    return str_cat("HloModule ", entry_, "\n", out_);
  }

 private:
  using Names = HashMap<const Node*, Texts>;  // of the results of each node

  // A computation while it is written: its lines wait, since those it calls stand in front of it.
  struct Body {
    struct Line {
      std::string name, text;
    };
    std::vector<Line> lines;
    Names names;
  };

  static std::string identifier(std::string_view text) {
    std::string out;
    for (const char c : text)
      out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ? c : '_';
    return out.empty() || !(std::isalpha(static_cast<unsigned char>(out[0])) || out[0] == '_') ? "_" + out
                                                                                               : out;
  }

  static std::string tuple_text(std::span<const Type* const> types) {
    Texts out;
    for (const Type* t : types) out.push_back(type_text(*t));
    return str_cat("(", joined(out), ")");
  }

  // One instruction; its name.
  std::string emit(Body& body, std::string_view type, std::string_view opcode, const Texts& operands,
                   std::string_view attributes = {}) {
    std::string name = str_cat("v", next_++);
    body.lines.push_back(
        {name, str_cat(type, " ", opcode, "(", joined(operands), ")", attributes, metadata_)});
    return name;
  }
  Texts elements(Body& body, const std::string& tuple, std::span<const Type* const> types) {
    Texts out;
    for (size_t i = 0; i < types.size(); ++i)
      out.push_back(emit(body, type_text(*types[i]), "get-tuple-element", {tuple}, str_cat(", index=", i)));
    return out;
  }
  std::string constant(Body& body, const Literal& l) {
    const std::string type = type_text(*l.type());
    if (needs_parts(l)) {
      const DType part = part_type(l.dtype());
      const Type* real = array_type_or_die(part, l.dims());
      Texts parts;
      for (int64_t k = 0; k < 2; ++k) {
        Literal half(real);
        for (int64_t i = 0; i < l.size(); ++i)
          std::memcpy(half.element(i), l.element(i) + k * byte_size(part), byte_size(part));
        parts.push_back(constant(body, half));
      }
      return emit(body, type, "complex", parts);
    }
    if (l.size() == 0 || (l.size() > kLongConstant && l.is_splat())) {
      Literal one(scalar_type(l.dtype()));
      if (l.size() > 0) std::memcpy(one.data(), l.data(), byte_size(l.dtype()));
      return emit(body, type, "broadcast", {constant(body, one)}, ", dimensions={}");
    }
    return emit(body, type, "constant", {constant_text(l)});
  }

  // Writes a computation, and before it those it calls.
  absl::Status function(const Computation& c, Form form, std::string_view header) {
    if (++level_ > kMaxLevels) return absl::ResourceExhaustedError("regions nest too deep to be written");
    Body body;
    const std::vector<const Type*> parameters = c.parameter_types(), results = c.result_types();
    if (form == Form::kFlat) {
      for (size_t i = 0; i < parameters.size(); ++i)
        body.names[c.parameters()[i].node()] = {
            emit(body, type_text(*parameters[i]), "parameter", {str_cat(i)})};
    } else {
      const std::string tuple = emit(body, tuple_text(parameters), "parameter", {"0"});
      const Texts names = elements(body, tuple, parameters);
      for (size_t i = 0; i < parameters.size(); ++i) body.names[c.parameters()[i].node()] = {names[i]};
    }
    Texts roots;
    LAMINA_RETURN_IF_ERROR(nodes(c, body, &roots));
    std::string root;
    if (form == Form::kTuple || roots.size() != 1) {
      root = emit(body, tuple_text(results), "tuple", roots);
    } else {
      root = roots[0];
    }
    str_append(&out_, "\n", header, " {\n");
    for (const Body::Line& line : body.lines)
      str_append(&out_, "  ", line.name == root ? "ROOT " : "", line.name, " = ", line.text, "\n");
    out_ += "}\n";
    --level_;
    return absl::OkStatus();
  }

  // The name of a computation that is called, written once for each form.
  absl::StatusOr<std::string> called(const ComputationPtr& c, Form form) {
    const auto key = std::make_pair(c.get(), form);
    if (const auto it = called_.find(key); it != called_.end()) return it->second;
    const std::string name = str_cat(entry_.starts_with("called_") ? "inner_" : "called_", called_.size());
    called_.emplace(key, name);
    kept_.push_back(c);
    const std::string metadata = std::exchange(metadata_, "");
    LAMINA_RETURN_IF_ERROR(function(*c, form, name));
    metadata_ = metadata;
    return name;
  }

  // The nodes of `c`, whose parameters have names; the names of its roots.
  absl::Status nodes(const Computation& c, Body& body, Texts* roots) {
    for (const Node* n : c.nodes()) {
      if (body.names.contains(n)) continue;
      metadata_ = options_.locations ? metadata_text(*n) : "";
      absl::StatusOr<Texts> made = node(*n, body);
      if (!made.ok()) return made.status();
      body.names[n] = *std::move(made);
    }
    metadata_.clear();
    for (const Value& r : c.roots()) roots->push_back(body.names.at(r.node())[r.index()]);
    return absl::OkStatus();
  }

  // Another computation in the place of a node.
  absl::StatusOr<Texts> in_place(const absl::StatusOr<ComputationPtr>& c, const Texts& operands, Body& body) {
    if (!c.ok()) return c.status();
    if (++level_ > kMaxLevels) return absl::ResourceExhaustedError("regions nest too deep to be written");
    kept_.push_back(*c);
    Names outer = std::exchange(body.names, Names());
    for (size_t i = 0; i < operands.size(); ++i) body.names[(*c)->parameters()[i].node()] = {operands[i]};
    Texts roots;
    LAMINA_RETURN_IF_ERROR(nodes(**c, body, &roots));
    body.names = std::move(outer);
    --level_;
    return roots;
  }

  absl::StatusOr<Texts> node(const Node& n, Body& body) {
    const OpDef& def = n.def();
    Texts operands;
    for (size_t i = 0; i < n.operands().size(); ++i) {
      const Value v = n.operand_value(i);
      operands.push_back(body.names.at(v.node())[v.index()]);
    }
    switch (n.op()) {
      case Op::identity:
      case Op::stop_gradient:
        return operands;
      case Op::constant:
        return Texts{constant(body, *n.attrs().literal(Attr::value))};
      case Op::while_:
        return while_loop(n, operands, body);
      case Op::case_:
        return branches(n, operands, body);
      case Op::scan:
        return in_place(lower_scan(n), operands, body);
      case Op::cumsum:
        return in_place(window_of_cumsum(n), operands, body);
      case Op::optimization_barrier:
        return barrier(n, operands, body);
      case Op::broadcast_in_dim:
        return Texts{broadcast(n, operands[0], body)};
      case Op::pad:
        if (n.type()->rank() == 0) return Texts{operands[0]};
        break;
      case Op::convert:
        // XLA converts no complex numbers to real ones.
        if (const Type* from = n.operand_type(0); is_complex(from->dtype) && !is_complex(n.type()->dtype)) {
          const DType part = part_type(from->dtype);
          operands[0] = emit(body, type_text(*array_type_or_die(part, from->dims)), "real", {operands[0]});
          if (part == n.type()->dtype) return operands;
        }
        break;
      case Op::dynamic_slice:
        same_indices(n, 1, operands, body);
        break;
      case Op::dynamic_update_slice:
        same_indices(n, 2, operands, body);
        break;
      case Op::custom_call:
        if (linalg::is_fourier_of_columns(n)) return in_place(linalg::fourier_by_lines(n), operands, body);
        if (const auto fft = linalg::fourier_call(n))
          return results(n, "fft", operands,
                         str_cat(", fft_type=", fft->kind, ", fft_length={", fft->length, "}"), body);
        break;
      default:
        break;
    }
    if (!can_write(n.op()) ||
        (n.op() == Op::custom_call && !n.attrs().string(Attr::call_target_name).starts_with("lamina.")))
      return absl::UnimplementedError(str_cat("a ", def.name, " (", to_string(*n.type()),
                                              ") belongs to this process and cannot be written"));
    const std::string_view opcode = opcode_of(n.op());
    if (opcode.empty()) return in_place(lower_elementwise(n), operands, body);
    std::string attributes = attributes_text(n);
    for (const AttrSpec& spec : def.attrs) {
      if (attr_kind(spec.attr) != AttrKind::kComputation || !n.attrs().computation(spec.attr)) continue;
      absl::StatusOr<std::string> name = called(n.attrs().computation(spec.attr), Form::kFlat);
      if (!name.ok()) return name.status();
      str_append(&attributes, ", ", spec.attr == Attr::body ? "to_apply" : attr_name(spec.attr), "=", *name);
    }
    return results(n, opcode, operands, attributes, body);
  }

  // One instruction with all results of a node.
  absl::StatusOr<Texts> results(const Node& n, std::string_view opcode, const Texts& operands,
                                std::string_view attributes, Body& body) {
    std::vector<const Type*> types;
    for (uint32_t i = 0; i < n.num_results(); ++i) types.push_back(n.result_type(i));
    if (types.size() == 1) return Texts{emit(body, type_text(*types[0]), opcode, operands, attributes)};
    return elements(body, emit(body, tuple_text(types), opcode, operands, attributes), types);
  }

  absl::StatusOr<Texts> while_loop(const Node& n, const Texts& operands, Body& body) {
    const absl::StatusOr<std::string> cond = called(n.attrs().computation(Attr::cond), Form::kTest);
    if (!cond.ok()) return cond.status();
    const absl::StatusOr<std::string> step = called(n.attrs().computation(Attr::body), Form::kTuple);
    if (!step.ok()) return step.status();
    std::vector<const Type*> types;
    for (uint32_t i = 0; i < n.num_results(); ++i) types.push_back(n.result_type(i));
    const std::string type = tuple_text(types);
    const std::string init = emit(body, type, "tuple", operands);
    return elements(body, emit(body, type, "while", {init}, str_cat(", condition=", *cond, ", body=", *step)),
                    types);
  }

  // All branches get the same tuple.
  absl::StatusOr<Texts> branches(const Node& n, const Texts& operands, Body& body) {
    Texts names;
    for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
      absl::StatusOr<std::string> name = called(branch, Form::kTuple);
      if (!name.ok()) return name.status();
      names.push_back(*std::move(name));
    }
    std::vector<const Type*> given, types;
    for (size_t i = 1; i < operands.size(); ++i) given.push_back(n.operand_type(i));
    for (uint32_t i = 0; i < n.num_results(); ++i) types.push_back(n.result_type(i));
    std::string index = operands[0];
    if (n.operand_type(0)->dtype != DType::kS32) index = emit(body, "s32[]", "convert", {index});
    const std::string shared =
        emit(body, tuple_text(given), "tuple", Texts(operands.begin() + 1, operands.end()));
    Texts all(names.size() + 1, shared);
    all[0] = index;
    return elements(body,
                    emit(body, tuple_text(types), "conditional", all,
                         str_cat(", branch_computations={", joined(names), "}")),
                    types);
  }

  absl::StatusOr<Texts> barrier(const Node& n, const Texts& operands, Body& body) {
    std::vector<const Type*> types;
    for (uint32_t i = 0; i < n.num_results(); ++i) types.push_back(n.result_type(i));
    if (types.size() == 1) return Texts{emit(body, type_text(*types[0]), "opt-barrier", operands)};
    const std::string type = tuple_text(types);
    return elements(body, emit(body, type, "opt-barrier", {emit(body, type, "tuple", operands)}), types);
  }

  // XLA's broadcast does not stretch dimensions of size 1: they are dropped first.
  std::string broadcast(const Node& n, std::string operand, Body& body) {
    const Type *from = n.operand_type(0), *to = n.type();
    const Dims& dims = n.attrs().ints(Attr::broadcast_dimensions);
    Dims kept, places;
    for (size_t i = 0; i < dims.size(); ++i) {
      if (from->dims[i] != to->dims[dims[i]]) continue;
      kept.push_back(from->dims[i]);
      places.push_back(dims[i]);
    }
    if (kept.size() < from->dims.size())
      operand = emit(body, type_text(*array_type_or_die(from->dtype, kept)), "reshape", {operand});
    return emit(body, type_text(*to), "broadcast", {operand}, ints_text("dimensions", places));
  }

  // Start indices must be of one type.
  void same_indices(const Node& n, size_t first, Texts& operands, Body& body) {
    bool same = true;
    for (size_t i = first; i < operands.size(); ++i) same &= n.operand_type(i) == n.operand_type(first);
    for (size_t i = first; !same && i < operands.size(); ++i)
      operands[i] = emit(body, "s64[]", "convert", {operands[i]});
  }

  const WriteOptions& options_;
  const std::string entry_;
  std::string out_;
  std::string metadata_;  // of the node that is written
  HashMap<std::pair<const Computation*, Form>, std::string> called_;
  std::vector<ComputationPtr> kept_;
  int64_t next_ = 0;
  int level_ = 0;
};

}  // namespace

bool can_write(Op op) {
  return op != Op::leaf && op != Op::parameter && op_def(op).family != OpFamily::kCollective;
}

absl::StatusOr<std::string> write(const Computation& computation, const WriteOptions& options) {
  const GraphLock lock;
  const FloorScope floor(fresh_stamp());
  return Writer(options).module(computation);
}

}  // namespace lamina::hlo::xla_text
