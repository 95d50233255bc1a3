#include "hlo/xla_text/translate.h"

#include <algorithm>

namespace lamina::hlo::xla_text {

namespace {

void add_ints(OpTree& op, std::string_view name, std::span<const int64_t> values, Place at) {
  op.attrs.push_back({std::string(name), ints_attribute(values, at)});
}

// Lists and integers of an instruction under one name; pairs of their name here and there.
absl::Status group(const Instruction& in, OpTree& op, std::string_view name,
                   std::initializer_list<std::pair<std::string_view, std::string_view>> fields) {
  AttrTree dict;
  dict.kind = AttrTree::Kind::kDict;
  dict.at = in.at;
  for (const auto& [from, to] : fields) {
    const RawAttribute* a = in.find(from);
    if (!a) continue;
    Dims list;
    if (a->value.starts_with('{')) {
      LAMINA_RETURN_IF_ERROR(in.ints(*a, &list));
    } else {
      list.emplace_back();
      LAMINA_RETURN_IF_ERROR(in.integer(*a, &list.back()));
    }
    dict.fields.push_back({std::string(to), ints_attribute(list, a->at)});
  }
  op.attrs.push_back({std::string(name), std::move(dict)});
  return absl::OkStatus();
}

absl::Status read_window(const Instruction& in, Window* out) {
  const RawAttribute* a = in.find("window");
  return a ? in.window(*a, out) : absl::OkStatus();
}

absl::Status no_reversal(const Instruction& in, const Window& w) {
  for (const int64_t r : w.reversal)
    if (r != 0) return in.error("a window turned round is supported by convolution alone");
  return absl::OkStatus();
}

}  // namespace

// slice={[0:4], [1:5:2]}
absl::Status slice(const Instruction& in, Ops* out) {
  const RawAttribute* a = in.find("slice");
  if (!a) return in.error("needs slice={[start:limit:stride], ...}");
  Cursor c(in.text, a->at, a->at + a->value.size());
  Dims start, limit, stride;
  LAMINA_RETURN_IF_ERROR(c.expect('{'));
  if (!c.accept('}')) {
    do {
      start.emplace_back();
      limit.emplace_back();
      stride.push_back(1);
      LAMINA_RETURN_IF_ERROR(c.expect('['));
      LAMINA_RETURN_IF_ERROR(c.integer("a start", &start.back()));
      LAMINA_RETURN_IF_ERROR(c.expect(':'));
      LAMINA_RETURN_IF_ERROR(c.integer("a limit", &limit.back()));
      if (c.accept(':')) LAMINA_RETURN_IF_ERROR(c.integer("a stride", &stride.back()));
      LAMINA_RETURN_IF_ERROR(c.expect(']'));
    } while (c.accept(','));
    LAMINA_RETURN_IF_ERROR(c.expect('}'));
  }
  OpTree& op = out->back();
  add_ints(op, "start_indices", start, a->at);
  add_ints(op, "limit_indices", limit, a->at);
  add_ints(op, "strides", stride, a->at);
  return absl::OkStatus();
}

absl::Status pad(const Instruction& in, Ops* out) {
  Dims all;
  if (const RawAttribute* a = in.find("padding")) LAMINA_RETURN_IF_ERROR(read_padding(in, *a, &all));
  Dims parts[3];
  for (size_t i = 0; i < all.size(); ++i) parts[i % 3].push_back(all[i]);
  const std::string_view names[] = {"edge_padding_low", "edge_padding_high", "interior_padding"};
  for (size_t i = 0; i < 3; ++i) add_ints(out->back(), names[i], parts[i], in.at);
  return absl::OkStatus();
}

absl::Status gather(const Instruction& in, Ops* out) {
  return group(in, out->back(), "dimension_numbers",
               {{"offset_dims", "offset_dims"},
                {"collapsed_slice_dims", "collapsed_slice_dims"},
                {"start_index_map", "start_index_map"},
                {"operand_batching_dims", "operand_batching_dims"},
                {"start_indices_batching_dims", "start_indices_batching_dims"},
                {"index_vector_dim", "index_vector_dim"}});
}

absl::Status scatter(const Instruction& in, Ops* out) {
  return group(in, out->back(), "scatter_dimension_numbers",
               {{"update_window_dims", "update_window_dims"},
                {"inserted_window_dims", "inserted_window_dims"},
                {"scatter_dims_to_operand_dims", "scatter_dims_to_operand_dims"},
                {"input_batching_dims", "input_batching_dims"},
                {"scatter_indices_batching_dims", "scatter_indices_batching_dims"},
                {"index_vector_dim", "index_vector_dim"}});
}

absl::Status dot(const Instruction& in, Ops* out) {
  return group(in, out->back(), "dot_dimension_numbers",
               {{"lhs_batch_dims", "lhs_batching_dimensions"},
                {"rhs_batch_dims", "rhs_batching_dimensions"},
                {"lhs_contracting_dims", "lhs_contracting_dimensions"},
                {"rhs_contracting_dims", "rhs_contracting_dimensions"}});
}

// The same bytes seen as another array: the dimensions are put in the order in which they lie in memory, cut
// anew, and put back in their order.
absl::Status bitcast(const Instruction& in, Ops* out) {
  if (in.operands.size() != 1 || !in.shape.type.is_array() || !in.operand_shapes[0]->type.is_array())
    return in.error("takes one array and gives one");
  const Shape &from = *in.operand_shapes[0], &to = in.shape;
  if (byte_size(from.type.dtype) != byte_size(to.type.dtype))
    return in.error(str_cat("between ", to_string(from.type), " and ", to_string(to.type),
                            " elements change their width"));
  // Dimensions, slowest first.
  const auto major_to_minor = [](const Shape& s) {
    Dims order(s.minor_to_major.rbegin(), s.minor_to_major.rend());
    for (size_t d = order.size(); d < s.type.dims.size(); ++d) order.push_back(static_cast<int64_t>(d));
    return order;
  };
  const auto in_order = [](const TypeTree& t, const Dims& order) {
    TypeTree out = t;
    for (size_t i = 0; i < order.size(); ++i) out.dims[i] = t.dims[order[i]];
    return out;
  };
  OpTree model = std::move(out->back());
  out->pop_back();
  std::string_view last = in.operands[0].name;
  size_t helpers = 0;
  const auto add = [&](std::string_view name, const TypeTree& type) -> OpTree& {
    OpTree op = model;
    op.name = std::string(name);
    op.operands = {{last, 0, in.at}};
    last = in.helper_name(++helpers);
    op.results = {{last, 1, in.at}};
    set_result(type, &op);
    out->push_back(std::move(op));
    return out->back();
  };
  const Dims read = major_to_minor(from), written = major_to_minor(to);
  TypeTree type = from.type;
  if (!std::is_sorted(read.begin(), read.end())) {
    type = in_order(type, read);
    add_ints(add("stablehlo.transpose", type), "permutation", read, in.at);
  }
  if (type.dtype != to.type.dtype) {
    type.dtype = to.type.dtype;
    add("stablehlo.bitcast_convert", type);
  }
  type = in_order(to.type, written);
  add("stablehlo.reshape", type);
  if (!std::is_sorted(written.begin(), written.end())) {
    Dims back(written.size());
    for (size_t i = 0; i < written.size(); ++i) back[written[i]] = static_cast<int64_t>(i);
    add_ints(add("stablehlo.transpose", to.type), "permutation", back, in.at);
  }
  out->back().results = {{in.name, 1, in.at}};
  return absl::OkStatus();
}

absl::Status reduce_window(const Instruction& in, Ops* out) {
  Window w;
  LAMINA_RETURN_IF_ERROR(read_window(in, &w));
  LAMINA_RETURN_IF_ERROR(no_reversal(in, w));
  OpTree& op = out->back();
  add_ints(op, "window_dimensions", w.size, in.at);
  add_ints(op, "window_strides", w.stride, in.at);
  add_ints(op, "base_dilations", w.lhs_dilate, in.at);
  add_ints(op, "window_dilations", w.rhs_dilate, in.at);
  add_ints(op, "padding", w.padding, in.at);
  return absl::OkStatus();
}

absl::Status select_and_scatter(const Instruction& in, Ops* out) {
  Window w;
  LAMINA_RETURN_IF_ERROR(read_window(in, &w));
  LAMINA_RETURN_IF_ERROR(no_reversal(in, w));
  for (const Dims* dilation : {&w.lhs_dilate, &w.rhs_dilate})
    for (const int64_t d : *dilation)
      if (d != 1) return in.error("its window has no dilation");
  OpTree& op = out->back();
  add_ints(op, "window_dimensions", w.size, in.at);
  add_ints(op, "window_strides", w.stride, in.at);
  add_ints(op, "padding", w.padding, in.at);
  return absl::OkStatus();
}

// The order of floats; XLA wrote it as the type of the comparison once, and writes it as order=TOTAL now.
// That of all other elements is total anyway.
absl::Status compare(const Instruction& in, Ops* out) {
  const RawAttribute* order = in.find("order");
  if (!order) return absl::OkStatus();
  std::string_view word;
  LAMINA_RETURN_IF_ERROR(in.word(*order, &word));
  if (word != "TOTAL" && word != "PARTIAL")
    return in.error_at(order->at, str_cat("order is TOTAL or PARTIAL, not ", word));
  if (in.find("type")) return in.error_at(order->at, "order and type say the same: give one of them");
  const Shape* compared = in.operand_shapes.empty() ? nullptr : in.operand_shapes[0];
  if (word == "TOTAL" && compared && is_float(compared->type.dtype))
    out->back().attrs.push_back({"compare_type", word_attribute("TOTALORDER", order->at)});
  return absl::OkStatus();
}

// Of equal elements those that come first are taken, whether is_stable asks for it or not.
absl::Status top_k(const Instruction& in, Ops*) {
  bool largest = true;
  if (const RawAttribute* a = in.find("largest")) LAMINA_RETURN_IF_ERROR(in.flag(*a, &largest));
  return largest ? absl::OkStatus()
                 : in.unsupported("the least elements are not supported; negate before and after");
}

// dim_labels=b01f_01io->b01f and a window.
absl::Status convolution(const Instruction& in, Ops* out) {
  const RawAttribute* labels = in.find("dim_labels");
  if (!labels) return in.error("needs dim_labels such as b01f_01io->b01f");
  const size_t bar = labels->value.find('_'), arrow = labels->value.find("->");
  if (bar == std::string_view::npos || arrow == std::string_view::npos || arrow < bar)
    return in.error_at(labels->at, "dim_labels have the form b01f_01io->b01f");
  const std::string_view parts[] = {labels->value.substr(0, bar),
                                    labels->value.substr(bar + 1, arrow - bar - 1),
                                    labels->value.substr(arrow + 2)};
  AttrTree joined;
  joined.kind = AttrTree::Kind::kJoined;
  joined.at = labels->at;
  for (const std::string_view part : parts) {
    AttrTree list;
    list.kind = AttrTree::Kind::kList;
    list.at = labels->at;
    if (part.size() > 66) return in.error_at(labels->at, "dim_labels name too many dimensions");
    for (const char c : part) {
      AttrTree item = word_attribute(std::string_view(&c, 1), labels->at);
      if (c >= '0' && c <= '9') {
        item.kind = AttrTree::Kind::kInt;
        item.integer = c - '0';
      }
      list.items.push_back(std::move(item));
    }
    for (size_t i = 0; i < part.size(); ++i)
      if (part.find(part[i], i + 1) != std::string_view::npos)
        return in.error_at(labels->at, str_cat("dim_labels name ", part.substr(i, 1), " twice"));
    joined.items.push_back(std::move(list));
  }
  Window w;
  LAMINA_RETURN_IF_ERROR(read_window(in, &w));
  // The window is the kernel's; it is written out twice.
  if (in.operand_shapes.size() == 2 && in.operand_shapes[1]->type.dims.size() == parts[1].size()) {
    for (size_t i = 0; i < parts[1].size(); ++i) {
      const char c = parts[1][i];
      const auto d = static_cast<size_t>(c - '0');
      if (c < '0' || c > '9' || d >= w.size.size()) continue;
      if (w.size[d] != in.operand_shapes[1]->type.dims[i])
        return in.error(str_cat("the window has size ", w.size[d], " in dimension ", d, ", the kernel ",
                                in.operand_shapes[1]->type.dims[i]));
    }
  }
  OpTree& op = out->back();
  op.attrs.push_back({"dim_numbers", std::move(joined)});
  add_ints(op, "window_strides", w.stride, in.at);
  add_ints(op, "padding", w.padding, in.at);
  add_ints(op, "lhs_dilation", w.lhs_dilate, in.at);
  add_ints(op, "rhs_dilation", w.rhs_dilate, in.at);
  add_ints(op, "window_reversal", w.reversal, in.at);
  return absl::OkStatus();
}

// What is left out is false, which is not the other reader's default.
absl::Status triangular_solve(const Instruction& in, Ops* out) {
  for (const std::string_view name : {"left_side", "lower"}) {
    if (in.find(name)) continue;
    AttrTree no;
    no.kind = AttrTree::Kind::kBool;
    out->back().attrs.push_back({std::string(name), std::move(no)});
  }
  return absl::OkStatus();
}

absl::Status rng_bit_generator(const Instruction& in, Ops* out) {
  const RawAttribute* a = in.find("algorithm");
  std::string_view word = "rng_default";
  if (a) LAMINA_RETURN_IF_ERROR(in.word(*a, &word));
  const std::string_view algorithm = word == "rng_default"     ? "DEFAULT"
                                     : word == "rng_three_fry" ? "THREE_FRY"
                                     : word == "rng_philox"    ? "PHILOX"
                                                               : word;
  out->back().attrs.push_back({"rng_algorithm", word_attribute(algorithm, in.at)});
  return absl::OkStatus();
}

// The shape becomes an operand.
absl::Status rng(const Instruction& in, Ops* out) {
  const RawAttribute* a = in.find("distribution");
  std::string_view word;
  if (a) LAMINA_RETURN_IF_ERROR(in.word(*a, &word));
  if (word != "rng_uniform" && word != "rng_normal")
    return in.error("needs distribution=rng_uniform or distribution=rng_normal");
  if (!in.shape.type.is_array()) return in.error("gives an array");
  const Dims& dims = in.shape.type.dims;
  const Type* type = array_type_or_die(DType::kS64, Dims{static_cast<int64_t>(dims.size())});
  OpTree shape;
  shape.name = "stablehlo.constant";
  shape.spelled = in.opcode;
  shape.at = in.at;
  shape.results = {{in.helper_name(1), 1, in.at}};
  TypeTree list;
  list.kind = TypeTree::Kind::kArray;
  list.dtype = DType::kS64;
  list.dims = type->dims;
  set_result(list, &shape);
  AttrTree value;
  value.kind = AttrTree::Kind::kLiteral;
  value.literal = Literal::copy_of(type, dims.data());
  value.at = in.at;
  shape.attrs.push_back({"value", std::move(value)});
  OpTree& op = out->back();
  op.operands.push_back({in.helper_name(1), 0, in.at});
  op.attrs.push_back(
      {"rng_distribution", word_attribute(word == "rng_normal" ? "NORMAL" : "UNIFORM", in.at)});
  out->insert(out->begin(), std::move(shape));
  return absl::OkStatus();
}

// branch_computations={a, b}, or true_computation=a, false_computation=b.
absl::Status conditional(const Instruction& in, Ops* out) {
  std::vector<std::string_view> names;
  Place at = in.at;
  for (const std::string_view key : {"branch_computations", "true_computation", "false_computation"})
    if (const RawAttribute* a = in.find(key)) {
      LAMINA_RETURN_IF_ERROR(in.computations(*a, &names));
      at = a->at;
    }
  for (const std::string_view name : names) {
    stablehlo::RegionTree region;
    region.function = name;
    region.at = at;
    out->back().regions.push_back(std::move(region));
  }
  if (names.empty() || in.operands.size() != names.size() + 1)
    return in.error(str_cat("has ", names.size(), " branches and ", in.operands.size(),
                            " operands; it takes an index and one operand for each branch"));
  return absl::OkStatus();
}

// to_apply=computation or calls=computation; async-start gives the computation's result beside its operands.
absl::Status callee(const Instruction& in, Ops* out) {
  const RawAttribute* a = in.find(in.opcode == "call" ? "to_apply" : "calls");
  std::vector<std::string_view> names;
  if (a) LAMINA_RETURN_IF_ERROR(in.computations(*a, &names));
  if (names.size() != 1)
    return in.error(str_cat("needs ", in.opcode == "call" ? "to_apply" : "calls", "=computation"));
  AttrTree symbol;
  symbol.kind = AttrTree::Kind::kSymbol;
  symbol.text = std::string(names[0]);
  symbol.at = a->at;
  OpTree& op = out->back();
  op.attrs.push_back({"callee", std::move(symbol)});
  return absl::OkStatus();
}

absl::Status custom_call(const Instruction& in, Ops* out) {
  OpTree& op = out->back();
  const RawAttribute* target = in.find("custom_call_target");
  if (!target) return in.error("names no custom_call_target");
  AttrTree name;
  name.kind = AttrTree::Kind::kString;
  name.at = target->at;
  LAMINA_RETURN_IF_ERROR(in.string(*target, &name.text));
  if (name.text == "TopK") {  // what XLA's passes make of topk; the shapes say how many
    const TypeTree& t = in.shape.type;
    if (t.elements.size() != 2 || t.elements[0].dims.empty()) return in.error("TopK gives two arrays");
    op.name = "chlo.top_k";
    op.row = nullptr;
    AttrTree k;
    k.kind = AttrTree::Kind::kInt;
    k.integer = t.elements[0].dims.back();
    op.attrs.push_back({"k", std::move(k)});
    return absl::OkStatus();
  }
  op.attrs.push_back({"call_target_name", std::move(name)});
  // Options of the newer calls are a dictionary; other forms belong to targets that are not known here.
  if (const RawAttribute* config = in.find("backend_config"); config && config->value.starts_with('{')) {
    AttrTree dict;
    if (stablehlo::TextParser(in.text, config->value).attribute(&dict, true).ok() &&
        dict.kind == AttrTree::Kind::kDict)
      op.attrs.push_back({"mhlo.backend_config", std::move(dict)});
  }
  for (const std::string_view key : {"called_computations", "to_apply"}) {
    const RawAttribute* called = in.find(key);
    if (!called) continue;
    std::vector<std::string_view> names;
    LAMINA_RETURN_IF_ERROR(in.computations(*called, &names));
    AttrTree list;
    list.kind = AttrTree::Kind::kList;
    list.at = called->at;
    for (const std::string_view n : names) {
      AttrTree symbol;
      symbol.kind = AttrTree::Kind::kSymbol;
      symbol.text = std::string(n);
      symbol.at = called->at;
      list.items.push_back(std::move(symbol));
    }
    op.attrs.push_back({"called_computations", std::move(list)});
  }
  return absl::OkStatus();
}

// replica_groups={{0}}, {} or [1,1]<=[1]: nobody but this process may be named.
absl::Status alone(const Instruction& in, Ops*) {
  const RawAttribute* a = in.find("replica_groups");
  if (!a) return absl::OkStatus();
  bool several = false;
  if (a->value.starts_with('{')) {
    Dims members;
    LAMINA_RETURN_IF_ERROR(in.ints(*a, &members));
    several = members.size() > 1;
  } else {
    const std::string_view counts = a->value.substr(0, a->value.find(']'));
    for (const char c : counts) several |= c >= '2' && c <= '9';
  }
  return several ? in.error_at(a->at, "more than one process takes part; one process runs this program")
                 : absl::OkStatus();
}

}  // namespace lamina::hlo::xla_text
