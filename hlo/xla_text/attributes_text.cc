#include "hlo/xla_text/attributes_text.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "absl/strings/str_join.h"
#include "hlo/builder.h"
#include "hlo/location.h"
#include "hlo/once.h"
#include "hlo/op.h"
#include "hlo/stablehlo/elements_text.h"
#include "hlo/strings.h"
#include "hlo/xla_text/instruction.h"

namespace lamina::hlo::xla_text {
namespace {

// Ops whose opcode is not their name with dashes.
constexpr std::pair<Op, std::string_view> kOpcodes[] = {{Op::broadcast_in_dim, "broadcast"},
                                                        {Op::case_, "conditional"},
                                                        {Op::custom_call, "custom-call"},
                                                        {Op::dot_general, "dot"},
                                                        {Op::optimization_barrier, "opt-barrier"}};

std::string list_text(std::span<const int64_t> values) {
  return str_cat("{", absl::StrJoin(values, ","), "}");
}

void add_flag(std::string* out, const Attrs& a, Attr key) {
  if (a.flag(key)) str_append(out, ", ", attr_name(key), "=true");
}

// window={size=3x3 stride=2x2 pad=1_1x1_1}; lists that say nothing are left out.
std::string window_text(const WindowDims& w) {
  std::string out = ", window={";
  auto add = [&](std::string_view name, const Dims& list, bool always) {
    const bool says_nothing = std::all_of(list.begin(), list.end(), [](int64_t x) { return x == 1; });
    if (list.empty() || (says_nothing && !always)) return;
    str_append(&out, out.back() == '{' ? "" : " ", name, "=", absl::StrJoin(list, "x"));
  };
  add("size", w.dimensions, true);
  add("stride", w.strides, false);
  if (std::any_of(w.padding.begin(), w.padding.end(), [](int64_t x) { return x != 0; })) {
    out += " pad=";
    for (size_t i = 0; i + 1 < w.padding.size(); i += 2)
      str_append(&out, i == 0 ? "" : "x", w.padding[i], "_", w.padding[i + 1]);
  }
  add("lhs_dilate", w.base_dilations, false);
  add("rhs_dilate", w.window_dilations, false);
  return out + "}";
}

// b01f
std::string labels(int64_t first, int64_t second, std::string_view letters, const Dims& spatial) {
  std::string out(spatial.size() + 2, ' ');
  out[first] = letters[0];
  out[second] = letters[1];
  for (size_t i = 0; i < spatial.size(); ++i) out[spatial[i]] = static_cast<char>('0' + i);
  return out;
}

std::string convolution_text(const Node& n) {
  const ConvDims d = conv_dims(n);
  WindowDims w;
  for (const int64_t s : d.kernel_spatial) w.dimensions.push_back(n.operand_type(1)->dims[s]);
  w.strides = d.window_strides;
  w.padding = d.padding;
  w.base_dilations = d.lhs_dilation;
  w.window_dilations = d.rhs_dilation;
  std::string out = d.kernel_spatial.empty() ? "" : window_text(w);
  str_append(&out, ", dim_labels=", labels(d.input_batch, d.input_feature, "bf", d.input_spatial), "_",
             labels(d.kernel_input_feature, d.kernel_output_feature, "io", d.kernel_spatial), "->",
             labels(d.output_batch, d.output_feature, "bf", d.output_spatial));
  if (d.feature_groups != 1) str_append(&out, ", feature_group_count=", d.feature_groups);
  if (d.batch_groups != 1) str_append(&out, ", batch_group_count=", d.batch_groups);
  return out;
}

std::string slice_text(const Attrs& a) {
  const Dims &start = a.ints(Attr::start_indices), &limit = a.ints(Attr::limit_indices),
             &strides = a.ints(Attr::strides);
  std::string out = ", slice={";
  for (size_t i = 0; i < start.size(); ++i) {
    str_append(&out, i == 0 ? "[" : ", [", start[i], ":", limit[i]);
    if (i < strides.size() && strides[i] != 1) str_append(&out, ":", strides[i]);
    out += "]";
  }
  return out + "}";
}

std::string padding_text(const Node& n) {
  const Attrs& a = n.attrs();
  std::string out = ", padding=";
  for (int64_t d = 0; d < n.type()->rank(); ++d) {
    auto at = [&](Attr key) {
      const Dims& list = a.ints(key);
      return list.empty() ? int64_t{0} : list[d];
    };
    str_append(&out, d == 0 ? "" : "x", at(Attr::edge_padding_low), "_", at(Attr::edge_padding_high));
    if (at(Attr::interior_padding) != 0) str_append(&out, "_", at(Attr::interior_padding));
  }
  return out;
}

// Lists and integers under XLA's names; lists that may be absent are left out when they are empty.
struct Listed {
  Attr attr;
  std::string_view name;
  bool always = true;
};
std::string lists_text(const Attrs& a, std::initializer_list<Listed> rows) {
  std::string out;
  for (const Listed& row : rows) {
    if (attr_kind(row.attr) == AttrKind::kInt) {
      str_append(&out, ", ", row.name, "=", a.integer(row.attr));
    } else if (row.always || !a.ints(row.attr).empty()) {
      out += ints_text(row.name, a.ints(row.attr));
    }
  }
  return out;
}

}  // namespace

std::string_view opcode_of(Op op) {
  for (const auto& [ours, theirs] : kOpcodes)
    if (ours == op) return theirs;
  static constinit Once<const std::vector<std::string>> all;
  const std::vector<std::string>& names = all.get([] {
    auto made = std::make_unique<std::vector<std::string>>();
    for (int i = 0; i < kNumStaticOps; ++i) {
      const OpDef& def = op_def(static_cast<Op>(i));
      std::string name(def.name);
      std::replace(name.begin(), name.end(), '_', '-');
      const Row* row = find_row(name);
      made->push_back(row && row->refused.empty() ? name : "");
    }
    return made.release();
  });
  const auto i = static_cast<size_t>(op);
  return i < names.size() ? names[i] : std::string_view();
}

std::string ints_text(std::string_view name, std::span<const int64_t> values) {
  return str_cat(", ", name, "=", list_text(values));
}

std::string metadata_text(const Node& n) {
  if (n.location() == 0) return "";
  const Location at = location(n.location());
  return str_cat(", metadata={",
                 at.function.empty() ? "" : str_cat("op_name=", stablehlo::string_text(at.function), " "),
                 "source_file=", stablehlo::string_text(at.file), " source_line=", at.line, "}");
}

std::string attributes_text(const Node& n) {
  const Attrs& a = n.attrs();
  std::string out;
  switch (n.op()) {
    case Op::compare:
      out = str_cat(", direction=", a.string(Attr::direction));
      if (const std::string& type = a.string(Attr::compare_type); !type.empty())
        str_append(&out, ", type=", type);
      return out;
    case Op::reduce_precision:
      return str_cat(", exponent_bits=", a.integer(Attr::exponent_bits),
                     ", mantissa_bits=", a.integer(Attr::mantissa_bits));
    case Op::iota:
      return str_cat(", iota_dimension=", a.integer(Attr::iota_dimension));
    case Op::concatenate:
      return ints_text("dimensions", Dims{a.integer(Attr::dimension)});
    case Op::transpose:
      return ints_text("dimensions", a.ints(Attr::permutation));
    case Op::reverse:
    case Op::reduce:
      return ints_text("dimensions", a.ints(Attr::dimensions));
    case Op::slice:
      return slice_text(a);
    case Op::pad:
      return padding_text(n);
    case Op::dynamic_slice:
      return ints_text("dynamic_slice_sizes", a.ints(Attr::slice_sizes));
    case Op::gather:
      out = lists_text(a, {{Attr::offset_dims, "offset_dims"},
                           {Attr::collapsed_slice_dims, "collapsed_slice_dims"},
                           {Attr::start_index_map, "start_index_map"},
                           {Attr::operand_batching_dims, "operand_batching_dims", false},
                           {Attr::start_indices_batching_dims, "start_indices_batching_dims", false},
                           {Attr::index_vector_dim, "index_vector_dim"},
                           {Attr::slice_sizes, "slice_sizes"}});
      add_flag(&out, a, Attr::indices_are_sorted);
      return out;
    case Op::scatter:
      out = lists_text(a, {{Attr::update_window_dims, "update_window_dims"},
                           {Attr::inserted_window_dims, "inserted_window_dims"},
                           {Attr::scatter_dims_to_operand_dims, "scatter_dims_to_operand_dims"},
                           {Attr::input_batching_dims, "input_batching_dims", false},
                           {Attr::scatter_indices_batching_dims, "scatter_indices_batching_dims", false},
                           {Attr::index_vector_dim, "index_vector_dim"}});
      add_flag(&out, a, Attr::indices_are_sorted);
      add_flag(&out, a, Attr::unique_indices);
      return out;
    case Op::dot_general:
      return lists_text(a, {{Attr::lhs_batching_dimensions, "lhs_batch_dims", false},
                            {Attr::lhs_contracting_dimensions, "lhs_contracting_dims"},
                            {Attr::rhs_batching_dimensions, "rhs_batch_dims", false},
                            {Attr::rhs_contracting_dimensions, "rhs_contracting_dims"}});
    case Op::convolution:
      return convolution_text(n);
    case Op::reduce_window:
    case Op::select_and_scatter: {
      WindowDims w;
      w.dimensions = a.ints(Attr::window_dimensions);
      w.strides = a.ints(Attr::window_strides);
      w.padding = a.ints(Attr::padding);
      w.base_dilations = a.ints(Attr::base_dilations);
      w.window_dilations = a.ints(Attr::window_dilations);
      return w.dimensions.empty() ? "" : window_text(w);
    }
    case Op::sort:
      out = ints_text("dimensions", Dims{a.integer(Attr::dimension)});
      add_flag(&out, a, Attr::is_stable);
      return out;
    case Op::rng_bit_generator:
      return str_cat(", algorithm=",
                     a.string(Attr::rng_algorithm) == "THREE_FRY" ? "rng_three_fry" : "rng_default");
    case Op::custom_call:
      return str_cat(", custom_call_target=\"", a.string(Attr::call_target_name), "\"");
    default:
      return "";
  }
}

}  // namespace lamina::hlo::xla_text
