#include "hlo/stablehlo/writer.h"

#include <algorithm>

#include "absl/strings/str_join.h"
#include "hlo/builder.h"
#include "hlo/cumsum_window.h"
#include "hlo/hash_map.h"
#include "hlo/linalg/linalg.h"
#include "hlo/location.h"
#include "hlo/op.h"
#include "hlo/regions.h"
#include "hlo/rules/support.h"
#include "hlo/stablehlo/elements_text.h"
#include "hlo/stablehlo/plain_op.h"
#include "hlo/stablehlo/tree.h"

namespace lamina::hlo::stablehlo {
namespace {

using Texts = std::vector<std::string>;

std::string list_text(std::span<const int64_t> values) {
  return str_cat("[", absl::StrJoin(values, ", "), "]");
}

std::string joined(const Texts& texts) { return absl::StrJoin(texts, ", "); }

bool is_chlo(std::string_view name) {
  static constexpr std::string_view kNames[] = {"acos",  "acosh",  "asin",       "asinh", "atan",
                                                "atanh", "cosh",   "digamma",    "erf",   "erf_inv",
                                                "erfc",  "lgamma", "next_after", "sinh"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// Attributes that are left out where they say nothing.
bool is_optional(Attr a) {
  switch (a) {
    case Attr::window_strides:
    case Attr::base_dilations:
    case Attr::window_dilations:
    case Attr::padding:
    case Attr::lhs_dilation:
    case Attr::rhs_dilation:
      return true;
    default:
      return false;
  }
}

// #stablehlo.NAME<key = value, ...> of some attributes of a node.
std::string numbers_text(std::string_view name, const Attrs& attrs, std::initializer_list<Attr> keys) {
  Texts fields;
  for (const Attr a : keys) {
    if (attr_kind(a) == AttrKind::kInt) {
      fields.push_back(str_cat(attr_name(a), " = ", attrs.integer(a)));
    } else if (!attrs.ints(a).empty()) {
      fields.push_back(str_cat(attr_name(a), " = ", list_text(attrs.ints(a))));
    }
  }
  return str_cat("#stablehlo.", name, "<", joined(fields), ">");
}

class Writer {
 public:
  explicit Writer(const WriteOptions& options) : options_(options) {}

  absl::StatusOr<std::string> module(const Computation& computation) {
    str_append(&out_, "module @", name_text(options_.module), " {\n");
    LAMINA_RETURN_IF_ERROR(function("main", true, computation));
    // Bodies of calls, which may call others in turn.
    for (size_t i = 0; i < callees_.size(); ++i) {
      const ComputationPtr callee = callees_[i].body;
      LAMINA_RETURN_IF_ERROR(function(callee_name(i), false, *callee));
    }
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  // A function that is called, and the name it has there: that of a composite, or none.
  struct Callee {
    ComputationPtr body;
    std::string name;
    bool operator==(const Callee&) const = default;
  };

  // Names of the results of each node of one computation.
  using Names = HashMap<const Node*, Texts>;

  static std::string name_text(std::string_view name) {
    std::string out;
    for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
    return out.empty() || (out[0] >= '0' && out[0] <= '9') ? "_" + out : out;
  }
  // Composites are called as they are named, and numbered where bodies share a name.
  std::string callee_name(size_t i) const {
    const std::string& name = callees_[i].name;
    if (name.empty()) return str_cat("callee_", i);
    const auto same = [&](const Callee& c) { return c.name == name; };
    const bool first = std::none_of(callees_.begin(), callees_.begin() + static_cast<ptrdiff_t>(i), same);
    return first ? name : str_cat(name, "_", i);
  }

  std::string fresh() { return str_cat("%", next_++); }
  static const std::string& name_of(const Names& names, const Value& v) {
    return names.at(v.node())[v.index()];
  }
  static Texts operand_names(const Names& names, const Node& n) {
    Texts out;
    for (size_t i = 0; i < n.operands().size(); ++i) out.push_back(name_of(names, n.operand_value(i)));
    return out;
  }
  static Texts operand_types(const Node& n) {
    Texts out;
    for (size_t i = 0; i < n.operands().size(); ++i) out.push_back(type_text(*n.operand_type(i)));
    return out;
  }
  static Texts result_types(const Node& n) {
    Texts out;
    for (uint32_t i = 0; i < n.num_results(); ++i) out.push_back(type_text(*n.result_type(i)));
    return out;
  }
  static Texts types_of(std::span<const Value> values) {
    Texts out;
    for (const Value& v : values) out.push_back(type_text(*v.type()));
    return out;
  }
  static std::string results_text(const Texts& types) {
    return types.size() == 1 ? types[0] : str_cat("(", joined(types), ")");
  }

  absl::Status function(std::string_view name, bool is_public, const Computation& c) {
    next_ = 0;
    Names names;
    Texts arguments;
    for (size_t i = 0; i < c.parameters().size(); ++i) {
      const Value& p = c.parameters()[i];
      names[p.node()] = {str_cat("%arg", i)};
      arguments.push_back(str_cat("%arg", i, ": ", type_text(*p.type())));
    }
    Texts types = types_of(c.roots());
    str_append(&out_, "  func.func ", is_public ? "public" : "private", " @", name, "(", joined(arguments),
               ")");
    if (!types.empty())
      str_append(&out_, " -> ", types.size() == 1 ? types[0] : str_cat("(", joined(types), ")"));
    out_ += " {\n";
    indent_ = 4;
    Texts roots;
    LAMINA_RETURN_IF_ERROR(body(c, std::move(names), &roots));
    str_append(&out_, "    return", roots.empty() ? "" : str_cat(" ", joined(roots), " : ", joined(types)),
               "\n  }\n");
    return absl::OkStatus();
  }

  // The nodes of `c`, whose parameters have names; the names of its roots.
  absl::Status body(const Computation& c, Names names, Texts* roots) {
    if (++level_ > kMaxLevels) return absl::ResourceExhaustedError("regions nest too deep to be written");
    for (const Node* n : c.nodes())
      if (!names.contains(n)) LAMINA_RETURN_IF_ERROR(node(*n, names));
    for (const Value& r : c.roots()) roots->push_back(name_of(names, r));
    --level_;
    return absl::OkStatus();
  }

  // ({ ^bb0(arguments): nodes; return }) without the round brackets.
  absl::StatusOr<std::string> region(const Computation& c) {
    Names names;
    Texts arguments;
    for (const Value& p : c.parameters()) {
      names[p.node()] = {fresh()};
      arguments.push_back(str_cat(names[p.node()][0], ": ", type_text(*p.type())));
    }
    return region(c, std::move(names), arguments);
  }
  absl::StatusOr<std::string> region(const Computation& c, Names names, const Texts& arguments) {
    std::string saved = std::exchange(out_, "{\n");
    const int indent = indent_;
    if (!arguments.empty()) str_append(&out_, std::string(indent, ' '), "^bb0(", joined(arguments), "):\n");
    indent_ += 2;
    Texts roots;
    LAMINA_RETURN_IF_ERROR(body(c, std::move(names), &roots));
    end_region(roots, types_of(c.roots()));
    indent_ = indent;
    return std::exchange(out_, std::move(saved));
  }
  // The return and the closing bracket of a region, whose operations are indented.
  void end_region(const Texts& roots, const Texts& types) {
    line(str_cat("stablehlo.return", roots.empty() ? "" : str_cat(" ", joined(roots), " : ", joined(types))));
    str_append(&out_, std::string(indent_ - 2, ' '), "}");
  }

  void line(std::string_view text) { str_append(&out_, std::string(indent_, ' '), text, "\n"); }

  std::string location_text(const Node& n) const {
    if (!options_.locations || n.location() == 0) return "";
    const Location at = location(n.location());
    const std::string file = str_cat(string_text(at.file), ":", at.line, ":0");
    return at.function.empty() ? str_cat(" loc(", file, ")")
                               : str_cat(" loc(", string_text(at.function), "(", file, "))");
  }

  // %results = "name"(operands) <{attrs}> (regions) : (types) -> types; the names of the results.
  Texts generic(const Node& n, std::string_view name, const Texts& operands, const Texts& types,
                const Texts& attrs, const Texts& regions, const Texts& results) {
    const std::string id = fresh();
    Texts names;
    if (results.size() == 1) {
      names = {id};
    } else {
      for (size_t i = 0; i < results.size(); ++i) names.push_back(str_cat(id, "#", i));
    }
    line(str_cat(
        results.empty() ? "" : str_cat(id, results.size() > 1 ? str_cat(":", results.size()) : "", " = "),
        "\"", name, "\"(", joined(operands), ")", attrs.empty() ? "" : str_cat(" <{", joined(attrs), "}>"),
        regions.empty() ? "" : str_cat(" (", joined(regions), ")"), " : (", joined(types), ") -> ",
        results_text(results), location_text(n)));
    return names;
  }
  // One helper operation with one result.
  std::string emit(const Node& n, std::string_view name, const Texts& operands, const Texts& types,
                   const std::string& result, const Texts& attrs = {}) {
    return generic(n, name, operands, types, attrs, {}, {result})[0];
  }
  std::string s32(const Node& n, int64_t value) {
    const std::string id = fresh();
    line(str_cat(id, " = stablehlo.constant dense<", value, "> : tensor<i32>", location_text(n)));
    return id;
  }

  absl::Status node(const Node& n, Names& names) {
    const OpDef& def = n.def();
    switch (n.op()) {
      case Op::identity:
      case Op::stop_gradient:
        names[&n] = operand_names(names, n);
        return absl::OkStatus();
      case Op::constant: {
        const std::string id = fresh();
        line(str_cat(id, " = stablehlo.constant ", dense_text(*n.attrs().literal(Attr::value)), " : ",
                     type_text(*n.type()), location_text(n)));
        names[&n] = {id};
        return absl::OkStatus();
      }
      case Op::while_:
        return while_loop(n, names);
      case Op::case_:
        return branches(n, names);
      case Op::scan:
        return scan(n, names);
      case Op::cumsum:
        return in_place(window_of_cumsum(n), n, names);
      case Op::call:
        return call(n, names);
      case Op::custom_call:
        if (const std::string& target = n.attrs().string(Attr::call_target_name);
            target.starts_with("lamina.")) {
          if (linalg::is_fourier_of_columns(n)) return in_place(linalg::fourier_by_lines(n), n, names);
          if (const auto fft = linalg::fourier_call(n)) {
            names[&n] = generic(n, "stablehlo.fft", operand_names(names, n), operand_types(n),
                                {str_cat("fft_type = #stablehlo<fft_type ", fft->kind, ">"),
                                 str_cat("fft_length = array<i64: ", fft->length, ">")},
                                {}, result_types(n));
            return absl::OkStatus();
          }
          names[&n] = generic(n, "stablehlo.custom_call", operand_names(names, n), operand_types(n),
                              {str_cat("call_target_name = \"", target, "\"")}, {}, result_types(n));
          return absl::OkStatus();
        }
        break;
      default:
        break;
    }
    if (!can_write(n.op()) || n.op() == Op::custom_call)
      return absl::UnimplementedError(str_cat("a ", def.name, " (", to_string(*n.type()),
                                              ") belongs to this process and cannot be written"));
    Texts attrs, regions;
    LAMINA_RETURN_IF_ERROR(attributes(n, &attrs, &regions));
    Texts operands = operand_names(names, n), types = operand_types(n);
    if (n.op() == Op::dynamic_slice) same_indices(n, 1, &operands, &types);
    if (n.op() == Op::dynamic_update_slice) same_indices(n, 2, &operands, &types);
    const std::string type = n.num_results() == 1 ? type_text(*n.type()) : "";
    const bool uniform =
        std::all_of(types.begin(), types.end(), [&](const std::string& t) { return t == type; });
    if (is_plain(def) && uniform && def.arity < 3 && !is_chlo(def.name)) {
      pretty(n, names, operands);
      return absl::OkStatus();
    }
    if (n.op() == Op::dot_general) {
      dot(n, names, operands, types);
      return absl::OkStatus();
    }
    if (n.op() == Op::optimization_barrier && !operands.empty()) {
      barrier(n, names, operands, types);
      return absl::OkStatus();
    }
    names[&n] = generic(n, str_cat(is_chlo(def.name) ? "chlo." : "stablehlo.", def.name), operands, types,
                        attrs, regions, result_types(n));
    return absl::OkStatus();
  }

  // Another computation in the place of a node.
  absl::Status in_place(const absl::StatusOr<ComputationPtr>& c, const Node& n, Names& names) {
    if (!c.ok()) return c.status();
    const Texts operands = operand_names(names, n);
    Names inner;
    for (size_t i = 0; i < operands.size(); ++i) inner[(*c)->parameters()[i].node()] = {operands[i]};
    for (const Node* part : (*c)->nodes())
      if (part->op() != Op::parameter) LAMINA_RETURN_IF_ERROR(node(*part, inner));
    Texts& out = names[&n];
    for (const Value& root : (*c)->roots()) out.push_back(inner.at(root.node())[root.index()]);
    return absl::OkStatus();
  }

  // Start indices must be of one type.
  void same_indices(const Node& n, size_t first, Texts* operands, Texts* types) {
    for (size_t i = first + 1; i < types->size(); ++i) {
      if ((*types)[i] == (*types)[first]) continue;
      for (size_t k = first; k < types->size(); ++k) {
        (*operands)[k] = emit(n, "stablehlo.convert", {(*operands)[k]}, {(*types)[k]}, "tensor<i64>");
        (*types)[k] = "tensor<i64>";
      }
      return;
    }
  }

  // Attributes as their kinds say; the exceptions are those that StableHLO groups.
  absl::Status attributes(const Node& n, Texts* out, Texts* regions) {
    const Attrs& a = n.attrs();
    for (const AttrSpec& spec : n.def().attrs)
      if (attr_kind(spec.attr) == AttrKind::kComputation) {
        absl::StatusOr<std::string> text = region(*a.computation(spec.attr));
        if (!text.ok()) return text.status();
        regions->push_back(*std::move(text));
      }
    switch (n.op()) {
      case Op::compare:
        out->push_back(str_cat("comparison_direction = #stablehlo<comparison_direction ",
                               a.string(Attr::direction), ">"));
        if (const std::string& type = a.string(Attr::compare_type); !type.empty())
          out->push_back(str_cat("compare_type = #stablehlo<comparison_type ", type, ">"));
        return absl::OkStatus();
      case Op::reduce_precision:
        for (const Attr key : {Attr::exponent_bits, Attr::mantissa_bits})
          out->push_back(str_cat(attr_name(key), " = ", a.integer(key), " : i32"));
        return absl::OkStatus();
      case Op::gather:
        out->push_back(str_cat("dimension_numbers = ",
                               numbers_text("gather", a,
                                            {Attr::offset_dims, Attr::collapsed_slice_dims,
                                             Attr::operand_batching_dims, Attr::start_indices_batching_dims,
                                             Attr::start_index_map, Attr::index_vector_dim})));
        ints(a, Attr::slice_sizes, out);
        flag(a, Attr::indices_are_sorted, out);
        return absl::OkStatus();
      case Op::scatter:
        out->push_back(str_cat("scatter_dimension_numbers = ",
                               numbers_text("scatter", a,
                                            {Attr::update_window_dims, Attr::inserted_window_dims,
                                             Attr::input_batching_dims, Attr::scatter_indices_batching_dims,
                                             Attr::scatter_dims_to_operand_dims, Attr::index_vector_dim})));
        flag(a, Attr::indices_are_sorted, out);
        flag(a, Attr::unique_indices, out);
        return absl::OkStatus();
      case Op::dot_general:  // written in its pretty form
        return absl::OkStatus();
      case Op::convolution:
        convolution(n, out);
        return absl::OkStatus();
      case Op::rng_bit_generator:
        out->push_back(
            str_cat("rng_algorithm = #stablehlo<rng_algorithm ", a.string(Attr::rng_algorithm), ">"));
        return absl::OkStatus();
      case Op::optimization_barrier:
        return absl::OkStatus();
      default:
        break;
    }
    for (const AttrSpec& spec : n.def().attrs) {
      const Attr key = spec.attr;
      if (key == Attr::mantissa_bits) continue;  // of a step in f64: StableHLO has no word for it
      if (key == Attr::shape || key == Attr::dtype) continue;
      if (key == Attr::padding) {
        padding(a, out);
        continue;
      }
      switch (attr_kind(key)) {
        case AttrKind::kInt:
          out->push_back(str_cat(attr_name(key), " = ", a.integer(key), " : i64"));
          break;
        case AttrKind::kBool:
          flag(a, key, out);
          break;
        case AttrKind::kInts:
          ints(a, key, out);
          break;
        default:
          break;
      }
    }
    return absl::OkStatus();
  }

  static void ints(const Attrs& a, Attr key, Texts* out) {
    if (!a.ints(key).empty() || !is_optional(key))
      out->push_back(str_cat(attr_name(key), " = ", ints_text(a.ints(key))));
  }
  static void flag(const Attrs& a, Attr key, Texts* out) {
    out->push_back(str_cat(attr_name(key), " = ", a.flag(key) ? "true" : "false"));
  }
  static void padding(const Attrs& a, Texts* out) {
    const Dims& p = a.ints(Attr::padding);
    if (p.empty()) return;
    Texts pairs;
    for (size_t i = 0; i + 1 < p.size(); i += 2) pairs.push_back(str_cat("[", p[i], ", ", p[i + 1], "]"));
    out->push_back(str_cat("padding = dense<[", joined(pairs), "]> : tensor<", p.size() / 2, "x2xi64>"));
  }

  // "HIGH, HIGHEST", or the fields of an algorithm.
  static void precision(const Attrs& a, Texts* out) {
    const std::string& text = a.string(Attr::precision);
    if (text.empty()) return;
    if (text.find('=') != std::string::npos)
      return out->push_back(str_cat("algorithm = #stablehlo.dot_algorithm<", text, ">"));
    const size_t comma = text.find(", ");
    out->push_back(str_cat("precision_config = [#stablehlo<precision ", text.substr(0, comma),
                           ">, #stablehlo<precision ", text.substr(comma + 2), ">]"));
  }

  // [b, 0, 1, f]
  static std::string layout(int64_t first, int64_t second, std::string_view letters, const Dims& spatial) {
    Texts out(spatial.size() + 2);
    out[first] = letters.substr(0, 1);
    out[second] = letters.substr(1, 1);
    for (size_t i = 0; i < spatial.size(); ++i) out[spatial[i]] = str_cat(i);
    return str_cat("[", joined(out), "]");
  }
  static void convolution(const Node& n, Texts* out) {
    const ConvDims d = conv_dims(n);
    const Attrs& a = n.attrs();
    for (const Attr key : {Attr::window_strides, Attr::lhs_dilation, Attr::rhs_dilation}) ints(a, key, out);
    padding(a, out);
    out->push_back(str_cat("dimension_numbers = #stablehlo.conv<",
                           layout(d.input_batch, d.input_feature, "bf", d.input_spatial), "x",
                           layout(d.kernel_input_feature, d.kernel_output_feature, "io", d.kernel_spatial),
                           "->", layout(d.output_batch, d.output_feature, "bf", d.output_spatial), ">"));
    out->push_back(str_cat("feature_group_count = ", d.feature_groups, " : i64"));
    out->push_back(str_cat("batch_group_count = ", d.batch_groups, " : i64"));
    precision(a, out);
  }

  void pretty(const Node& n, Names& names, const Texts& operands) {
    const std::string id = fresh();
    line(str_cat(id, " = stablehlo.", n.def().name, " ", joined(operands), " : ", type_text(*n.type()),
                 location_text(n)));
    names[&n] = {id};
  }

  void dot(const Node& n, Names& names, const Texts& operands, const Texts& types) {
    const Attrs& a = n.attrs();
    const std::string& told = a.string(Attr::precision);
    const bool algorithm = told.find('=') != std::string::npos;
    std::string text = str_cat("stablehlo.dot_general ", joined(operands));
    const auto dims = [&](std::string_view name, Attr lhs, Attr rhs) {
      str_append(&text, ", ", name, " = ", list_text(a.ints(lhs)), " x ", list_text(a.ints(rhs)));
    };
    if (!a.ints(Attr::lhs_batching_dimensions).empty())
      dims("batching_dims", Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions);
    dims("contracting_dims", Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions);
    if (!told.empty())
      str_append(&text,
                 algorithm ? str_cat(", algorithm = <", told, ">") : str_cat(", precision = [", told, "]"));
    out_line(n, names, str_cat(text, " : (", joined(types), ") -> ", type_text(*n.type())));
  }

  void barrier(const Node& n, Names& names, const Texts& operands, const Texts& types) {
    out_line(n, names, str_cat("stablehlo.optimization_barrier ", joined(operands), " : ", joined(types)));
  }

  // An operation in its pretty form, with the names of its results.
  void out_line(const Node& n, Names& names, std::string_view operation) {
    const size_t count = n.num_results();
    std::string id;
    Texts results;
    if (count > 0) results = {id = fresh()};
    if (count > 1) {
      results.clear();
      for (size_t i = 0; i < count; ++i) results.push_back(str_cat(id, "#", i));
    }
    line(str_cat(id, count > 1 ? str_cat(":", count) : "", count > 0 ? " = " : "", operation,
                 location_text(n)));
    names[&n] = results;
  }

  absl::Status while_loop(const Node& n, Names& names) {
    Texts regions;
    for (const Attr key : {Attr::cond, Attr::body}) {
      absl::StatusOr<std::string> text = region(*n.attrs().computation(key));
      if (!text.ok()) return text.status();
      regions.push_back(*std::move(text));
    }
    names[&n] = generic(n, "stablehlo.while", operand_names(names, n), operand_types(n), {}, regions,
                        result_types(n));
    return absl::OkStatus();
  }

  // The branches read their operands from outside.
  absl::Status branches(const Node& n, Names& names) {
    Texts regions;
    for (const ComputationPtr& branch : n.attrs().computations(Attr::branches)) {
      Names inner;
      for (size_t i = 0; i < branch->parameters().size(); ++i)
        inner[branch->parameters()[i].node()] = {name_of(names, n.operand_value(i + 1))};
      absl::StatusOr<std::string> text = region(*branch, std::move(inner), {});
      if (!text.ok()) return text.status();
      regions.push_back(*std::move(text));
    }
    names[&n] = generic(n, "stablehlo.case", {name_of(names, n.operand_value(0))},
                        {type_text(*n.operand_type(0))}, {}, regions, result_types(n));
    return absl::OkStatus();
  }

  absl::Status call(const Node& n, Names& names) {
    const Callee callee{n.attrs().computation(Attr::body), n.attrs().string(Attr::call_target_name)};
    size_t at = std::find(callees_.begin(), callees_.end(), callee) - callees_.begin();
    if (at == callees_.size()) callees_.push_back(callee);
    if (is_composite(n)) {
      composite(n, names, callee_name(at));
      return absl::OkStatus();
    }
    names[&n] = generic(n, "func.call", operand_names(names, n), operand_types(n),
                        {str_cat("callee = @", callee_name(at))}, {}, result_types(n));
    return absl::OkStatus();
  }

  void composite(const Node& n, Names& names, std::string_view decomposition) {
    const Attrs& a = n.attrs();
    Texts fields;
    if (const std::string& given = a.string(Attr::composite_attributes); !given.empty())
      fields.push_back(str_cat("composite_attributes = ", given));
    fields.push_back(str_cat("decomposition = @", decomposition));
    if (const int64_t version = a.integer(Attr::index); version != 0)
      fields.push_back(str_cat("version = ", version, " : i32"));
    const std::string operands = joined(operand_names(names, n));
    out_line(n, names,
             str_cat("stablehlo.composite ", string_text(a.string(Attr::call_target_name)),
                     operands.empty() ? "" : " ", operands, " {", joined(fields), "} : (",
                     joined(operand_types(n)), ") -> ", results_text(result_types(n))));
  }

  // A loop over a counter, the carries and the stacked results; scanned arrays are read from outside.
  absl::Status scan(const Node& n, Names& names) {
    const Attrs& a = n.attrs();
    const auto carries = static_cast<size_t>(a.integer(Attr::num_carry));
    const int64_t length = a.integer(Attr::length);
    const Computation& step = *a.computation(Attr::body);
    const Texts operands = operand_names(names, n);
    Texts init{s32(n, 0)}, types{"tensor<i32>"};
    for (size_t i = 0; i < n.num_results(); ++i) {
      const Type* t = n.result_type(i);
      types.push_back(type_text(*t));
      if (i < carries) {
        init.push_back(operands[i]);
        continue;
      }
      const std::string zero = fresh();
      const Literal scalar(scalar_type(t->dtype));
      line(str_cat(zero, " = stablehlo.constant ", dense_text(scalar), " : ", type_text(*t),
                   location_text(n)));
      init.push_back(zero);
    }
    if (length == 0) {
      names[&n] = Texts(init.begin() + 1, init.end());
      return absl::OkStatus();
    }
    const std::string one = s32(n, 1), end = s32(n, length), last = s32(n, length - 1), zero = s32(n, 0);
    auto arguments = [&](Texts* ids) {
      Texts out;
      for (const std::string& t : types) {
        ids->push_back(fresh());
        out.push_back(str_cat(ids->back(), ": ", t));
      }
      return out;
    };
    std::string saved = std::exchange(out_, "{\n");
    Texts ids;
    Texts declared = arguments(&ids);
    str_append(&out_, std::string(indent_, ' '), "^bb0(", joined(declared), "):\n");
    indent_ += 2;
    const std::string go = emit(n, "stablehlo.compare", {ids[0], end}, {types[0], types[0]}, "tensor<i1>",
                                {"comparison_direction = #stablehlo<comparison_direction LT>"});
    end_region({go}, {"tensor<i1>"});
    Texts regions{std::exchange(out_, "{\n")};
    ids.clear();
    declared = arguments(&ids);
    str_append(&out_, std::string(indent_ - 2, ' '), "^bb0(", joined(declared), "):\n");
    const std::string at = a.flag(Attr::reverse)
                               ? emit(n, "stablehlo.subtract", {last, ids[0]}, {types[0], types[0]}, types[0])
                               : ids[0];
    Names inner;
    for (size_t i = 0; i < step.parameters().size(); ++i) {
      const Value& p = step.parameters()[i];
      if (i < carries) {
        inner[p.node()] = {ids[1 + i]};
        continue;
      }
      const Type* stacked = n.operand_type(i);
      Dims sizes = stacked->dims;
      sizes[0] = 1;
      Texts from{operands[i], at}, from_types{type_text(*stacked), types[0]};
      for (int64_t d = 1; d < stacked->rank(); ++d) {
        from.push_back(zero);
        from_types.push_back(types[0]);
      }
      const std::string cut = type_text(*array_type_or_die(stacked->dtype, sizes));
      const std::string piece = emit(n, "stablehlo.dynamic_slice", from, from_types, cut,
                                     {str_cat("slice_sizes = ", ints_text(sizes))});
      inner[p.node()] = {emit(n, "stablehlo.reshape", {piece}, {cut}, type_text(*p.type()))};
    }
    Texts roots, next{emit(n, "stablehlo.add", {ids[0], one}, {types[0], types[0]}, types[0])};
    LAMINA_RETURN_IF_ERROR(body(step, std::move(inner), &roots));
    for (size_t i = 0; i < roots.size(); ++i) {
      if (i < carries) {
        next.push_back(roots[i]);
        continue;
      }
      const Type *stacked = n.result_type(i), *y = step.roots()[i].type();
      Dims sizes = stacked->dims;
      sizes[0] = 1;
      const std::string row_type = type_text(*array_type_or_die(stacked->dtype, sizes));
      const std::string row = emit(n, "stablehlo.reshape", {roots[i]}, {type_text(*y)}, row_type);
      Texts to{ids[1 + i], row, at}, to_types{types[1 + i], row_type, types[0]};
      for (int64_t d = 1; d < stacked->rank(); ++d) {
        to.push_back(zero);
        to_types.push_back(types[0]);
      }
      next.push_back(emit(n, "stablehlo.dynamic_update_slice", to, to_types, types[1 + i]));
    }
    end_region(next, types);
    indent_ -= 2;
    regions.push_back(std::exchange(out_, std::move(saved)));
    Texts results = generic(n, "stablehlo.while", init, types, {}, regions, types);
    results.erase(results.begin());
    names[&n] = std::move(results);
    return absl::OkStatus();
  }

  const WriteOptions& options_;
  std::string out_;
  std::vector<Callee> callees_;
  int64_t next_ = 0;
  int indent_ = 4;
  int level_ = 0;
};

}  // namespace

bool can_write(Op op) {
  return static_cast<int>(op) < kNumStaticOps && op != Op::leaf && op != Op::parameter &&
         op_def(op).family != OpFamily::kCollective;
}

absl::StatusOr<std::string> write(const Computation& computation, const WriteOptions& options) {
  return Writer(options).module(computation);
}

}  // namespace lamina::hlo::stablehlo
